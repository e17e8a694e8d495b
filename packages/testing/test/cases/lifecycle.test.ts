import { assert, describe, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import { child, RuntimeTest, World } from "@procyon/testing"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

const server = CommandSpec.make("server")
const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** Collects an owner's events from now on. */
const eventsOf = Effect.fnUntraced(function*(jobs: BackgroundProcess.Jobs) {
  const seen: Array<BackgroundProcess.Event> = []
  yield* Effect.forkScoped(
    Stream.runForEach(jobs.events, (event) => Effect.sync(() => seen.push(event))),
    { startImmediately: true }
  )
  return seen
})

const tagsOf = (events: ReadonlyArray<BackgroundProcess.Event>) =>
  events.map((event) => event._tag).filter((tag) => tag !== "Heartbeat" && tag !== "Progress")

const statusesOf = (notices: ReadonlyArray<BackgroundProcess.Notice>) =>
  notices.map((notice) => notice._tag === "Job" ? notice.status : notice)

describe("stops", () => {
  it.effect("K30 of a finished job signal nobody, also when its pid is a stranger's by now", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const events = yield* eventsOf(jobs)
      const { id } = yield* jobs.start(server)
      yield* world.advance("10 seconds")
      const before = yield* jobs.wait(id)
      yield* world.reusePid("server", { name: "stranger", script: child })
      const answers = yield* Effect.forEach([1, 2, 3], () => jobs.stop(id, { now: true }), { concurrency: "unbounded" })
      for (const answer of answers) assert.deepStrictEqual(answer, before)
      yield* world.advance("10 seconds")
      assert.deepStrictEqual([before.status, yield* world.signals, yield* world.alive], [
        "completed",
        [],
        ["stranger"]
      ])
      assert.deepStrictEqual(tagsOf(events), ["Started", "Exited", "Draining", "Ended"])
      assert.deepStrictEqual(statusesOf(yield* jobs.notices), ["completed"])
    }).pipe(Effect.scoped, Effect.provide(RuntimeTest.layer({ children: { server: child.exits(0, { after: 5 }) } }))))

  it.effect("K30 from five fibers at five times are one termination, one event, one notice and the same answer", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const events = yield* eventsOf(jobs)
      const { id } = yield* jobs.start(server)
      const stops = yield* Effect.forEach(
        [0, 0, 100, 1_000, 5_500],
        (millis) => Effect.forkChild(Effect.andThen(Effect.sleep(millis), jobs.stop(id)))
      )
      yield* world.advance("20 seconds")
      const answers = yield* Effect.forEach(stops, Fiber.join)
      for (const answer of answers) assert.deepStrictEqual(answer, answers[0])
      assert.strictEqual(answers[0]?.status, "cancelled")
      assert.deepStrictEqual(
        (yield* world.signals).filter((line) => line.includes("SIGTERM")),
        ["0 SIGTERM server"]
      )
      assert.strictEqual((yield* world.signals).filter((line) => line.includes("SIGKILL server")).length, 1)
      assert.deepStrictEqual(tagsOf(events), ["Started", "Draining", "Terminating", "Exited", "Ended"])
      assert.deepStrictEqual(statusesOf(yield* jobs.notices), ["cancelled"])
    }).pipe(Effect.scoped, Effect.provide(RuntimeTest.layer({ children: { server: child.ignores("SIGTERM") } }))))
})

describe("owners", () => {
  it.effect("K33 end their own jobs only, and a foreign id is answered like one of nobody, in no time", () =>
    Effect.gen(function*() {
      const world = yield* World
      const [a, b] = [yield* jobsOf("A"), yield* jobsOf("B")]
      const own = yield* a.start(CommandSpec.make("a"))
      const foreign = yield* b.start(CommandSpec.make("b"))
      const stopping = yield* Effect.forkChild(a.stopAll)
      yield* world.advance("1 second")
      assert.deepStrictEqual((yield* Fiber.join(stopping)).map((job) => [job.id, job.status]), [[own.id, "cancelled"]])
      assert.deepStrictEqual([yield* world.alive, (yield* b.get(foreign.id)).status], [["b"], "running"])
      assert.deepStrictEqual((yield* world.signals).filter((line) => line.includes(" b")), [])

      const questions: ReadonlyArray<(id: string) => Effect.Effect<unknown, unknown>> = [
        b.get,
        b.output,
        b.wait,
        b.termination,
        b.stop,
        b.retryTermination,
        b.closeStdin,
        b.forget,
        (id) => b.write(id, "x"),
        (id) => b.extend(id, "1 second")
      ]
      const calls = yield* world.calls
      const before = yield* Clock.currentTimeMillis
      for (const ask of questions) {
        const errors = [yield* Effect.flip(ask(own.id)), yield* Effect.flip(ask("nobody"))]
        const told = errors.map((error) => error instanceof BackgroundProcess.ProcessNotFound ? error.id : error)
        assert.deepStrictEqual(told, [own.id, "nobody"])
      }
      assert.deepStrictEqual([yield* world.calls, yield* Clock.currentTimeMillis], [calls, before])
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { a: child, b: child } }))))
})

describe("notices", () => {
  it.effect("K34 tell once of a job that ends in the millisecond of its stop, whichever is seen first", () =>
    Effect.forEach([99, 100, 101], (at) =>
      Effect.gen(function*() {
        const world = yield* World
        const jobs = yield* jobsOf("s1")
        const told: Array<BackgroundProcess.Notice> = []
        const drain = Effect.map(jobs.notices, (notices) => told.push(...notices))
        yield* Effect.forkScoped(Effect.forever(Effect.andThen(drain, Effect.sleep(1))))
        const { id } = yield* jobs.start(server)
        const stopping = yield* Effect.forkChild(Effect.andThen(Effect.sleep(at), jobs.stop(id)))
        yield* world.advance("1 second")
        const job = yield* Fiber.join(stopping)
        yield* drain
        assert.deepStrictEqual(statusesOf(told), [job.status])
        assert.strictEqual(job.status, at === 99 ? "cancelled" : at === 101 ? "completed" : job.status)
      }).pipe(
        Effect.scoped,
        Effect.provide(RuntimeTest.layer({
          children: { server: child.onSignal("SIGTERM", child.exits(0)).exits(0, { after: 100 }) }
        }))
      ), { discard: true }))

  it.effect("K34 tell of a job that could not be ended, and once more when it is shown to be gone", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const events = yield* eventsOf(jobs)
      const { id } = yield* jobs.start(server)
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("10 seconds")
      assert.strictEqual((yield* Fiber.join(stopping)).status, "kill_failed")
      const first = yield* jobs.notices
      assert.deepStrictEqual([statusesOf(first), yield* jobs.notices], [["kill_failed"], []])
      const retries = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(jobs.retryTermination(id)))
      yield* world.advance("20 seconds")
      for (const retry of retries) assert.strictEqual((yield* Fiber.join(retry)).status, "cancelled")
      const second = yield* jobs.notices
      assert.deepStrictEqual([statusesOf(second), yield* jobs.notices], [["cancelled"], []])
      const ids = [...first, ...second].map((notice) => notice._tag === "Job" ? notice.noticeId : "")
      assert.strictEqual(new Set(ids).size, 2)
      assert.deepStrictEqual(tagsOf(events).slice(-3), ["KillFailed", "Exited", "Resolved"])
    }).pipe(
      Effect.scoped,
      Effect.provide(RuntimeTest.layer({ children: { server: child.ignores("SIGTERM").refuses("SIGKILL", 1) } }))
    ))

  it.effect("K34 are taken by one of two who wait for them", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const told: Array<BackgroundProcess.Notice> = []
      const taking = Effect.map(jobs.awaitNotices, (notices) => told.push(...notices))
      const takers = yield* Effect.forEach([1, 2], () => Effect.forkChild(taking))
      const interrupted = yield* Effect.forkChild(jobs.awaitNotices)
      yield* world.drain
      yield* Fiber.interrupt(interrupted)
      yield* jobs.start(server)
      yield* world.advance("1 second")
      assert.deepStrictEqual(statusesOf(told), ["completed"])
      yield* Effect.forEach(takers, (taker) => Fiber.interrupt(taker))
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child.exits(0) } }))))
})

describe("interrupting who waits", () => {
  it.effect("K40 for a foreground command is complete only once its tree is gone", () =>
    Effect.gen(function*() {
      const world = yield* World
      const running = yield* Effect.forkChild(AppProcess.run(server))
      yield* world.advance("1 second")
      const interruption = yield* Effect.forkChild(Fiber.interrupt(running))
      yield* world.advance("4 seconds")
      assert.deepStrictEqual([interruption.pollUnsafe(), yield* world.alive], [undefined, ["server", "worker"]])
      // The grace ends at 6,000 ms.
      yield* world.advance("2 seconds")
      assert.deepStrictEqual(interruption.pollUnsafe(), Exit.void)
      assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.ignores("SIGTERM").forks("worker", child.ignores("SIGTERM")) }
    }))))

  it.effect("K40 for a job changes nothing for the job, nor for who else waits", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server)
      const other = yield* Effect.forkChild(jobs.wait(id))
      for (const wait of [jobs.wait(id), jobs.termination(id)]) {
        const waiting = yield* Effect.forkChild(wait)
        yield* world.advance("1 second")
        yield* Fiber.interrupt(waiting)
      }
      yield* world.advance("1 hour")
      assert.deepStrictEqual([(yield* jobs.get(id)).status, other.pollUnsafe(), yield* world.signals], [
        "running",
        undefined,
        []
      ])
      yield* world.kill("server", 0)
      yield* world.advance("1 second")
      assert.strictEqual((yield* Fiber.join(other)).status, "completed")
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child }, settings: { heartbeatMillis: 60_000 } }))))

  it.effect("K40 for a stop ends only the wait: the termination goes on", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server)
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("1 second")
      yield* Fiber.interrupt(stopping)
      assert.strictEqual((yield* jobs.get(id)).phase, "terminating")
      yield* world.advance("5 seconds")
      assert.deepStrictEqual([(yield* jobs.get(id)).status, yield* world.alive], ["cancelled", []])
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child.ignores("SIGTERM") } }))))

  it.effect("K40 and forgetting the id leaves the job listed, and it ends with its session", () =>
    Effect.gen(function*() {
      const world = yield* World
      const service = yield* BackgroundProcess.Service
      const session = yield* Scope.make()
      const jobs = yield* Scope.provide(service.scoped("s1"), session)
      yield* Fiber.join(yield* Effect.forkChild(Effect.asVoid(jobs.start(server))))
      yield* world.advance("1 minute")
      assert.deepStrictEqual((yield* service.of("s1").list).map((job) => job.status), ["running"])
      const closing = yield* Effect.forkChild(Scope.close(session, Exit.void))
      yield* world.advance("1 second")
      yield* Fiber.join(closing)
      assert.deepStrictEqual([(yield* jobs.list).map((job) => job.status), yield* world.alive], [["cancelled"], []])
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child } }))))
})
