/** Trees that do not die, to the millisecond: what is sent when, and what is claimed at each moment. */
import { assert, describe, it } from "@effect/vitest"
import { AppProcess, BackgroundProcess, CommandSpec, ShutdownBarrier, type Status } from "@procyon/runtime"
import { child, RuntimeTest, type Script, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

const server = CommandSpec.make("server")
const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** A job of the owner `a` that runs the script `server`, and the world around it. */
const started = (options?: BackgroundProcess.StartOptions) =>
  Effect.gen(function*() {
    const jobs = yield* jobsOf("a")
    const { id } = yield* jobs.start(server, options)
    return { id, jobs, world: yield* World, job: jobs.get(id) }
  })

const scripted = (script: Script, options: Omit<RuntimeTest.Options, "children"> = {}) =>
  Effect.provide(RuntimeTest.layer({ ...options, children: { server: script, quick: child.exits(0) } }))

const killedBy = (signal: string): Status.Exit => ({ code: null, signal })
const exited = (code: number): Status.Exit => ({ code, signal: null })

const told = (notices: ReadonlyArray<BackgroundProcess.Notice>) =>
  notices.map((notice) => notice._tag === "Job" ? notice.status : notice._tag)

/** The tags of all events from here on, but of beats. */
const collected = Effect.gen(function*() {
  const tags: Array<string> = []
  yield* (yield* BackgroundProcess.Service).observe((event) =>
    Effect.sync(() => {
      if (event._tag !== "Heartbeat" && event._tag !== "Progress") tags.push(event._tag)
    })
  )
  return tags
})

const isDone = <A, E>(fiber: Fiber.Fiber<A, E>): boolean => fiber.pollUnsafe() !== undefined

const holder = child.prints("hi\n").forks("holder", child, { holdsOutput: true }).exits(0)

describe("a background child that holds the output", () => {
  it.effect("K01 gets the linger, is ended, and the command is completed with its output read to the end", () =>
    Effect.gen(function*() {
      const { id, job, jobs, world } = yield* started()
      yield* world.advance("99 millis")
      assert.deepStrictEqual([yield* world.signals, (yield* job).status], [[], "running"])
      yield* world.advance("1 millis")
      assert.deepStrictEqual(yield* world.signals, ["100 SIGTERM holder"])
      yield* world.advance("1 second")
      const { exit, output, receipt, status } = yield* jobs.wait(id)
      assert.deepStrictEqual([status, exit, receipt?.cause], ["completed", exited(0), { _tag: "SelfExit" }])
      assert.deepStrictEqual([output.bytesSeen, output.drained, output.sealed], [3, true, true])
      assert.deepStrictEqual(receipt?.leftovers.map(({ name }) => name), ["holder"])
      assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
    }).pipe(scripted(holder)))

  it.effect("K01 is said to hold it where it is kept, and adds nothing to what was sealed", () =>
    Effect.gen(function*() {
      const { id, jobs, world } = yield* started({ leftovers: "keep" })
      yield* world.drain
      const ended = yield* jobs.wait(id)
      assert.deepStrictEqual([ended.status, ended.receipt?.keptLeftovers], ["completed", true])
      assert.deepStrictEqual([ended.output.bytesSeen, ended.output.drained, ended.output.sealed], [3, false, true])
      yield* world.print("holder", "late\n")
      yield* world.advance("1 minute")
      assert.deepStrictEqual((yield* jobs.get(id)).output, ended.output)
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [[], ["holder"]])
    }).pipe(scripted(holder)))
})

describe("a descendant that has left the tree", () => {
  for (const escapes of ["group", "session", "daemon"] as const) {
    it.effect(`K02 as a ${escapes} is ended with it`, () =>
      Effect.gen(function*() {
        const { id, jobs, world } = yield* started()
        yield* world.drain
        assert.deepStrictEqual(yield* world.alive, ["server", "escapee"])
        const stop = yield* Effect.forkChild(jobs.stop(id))
        yield* world.advance("1 second")
        assert.strictEqual((yield* Fiber.join(stop)).status, "cancelled")
        assert.deepStrictEqual(yield* world.alive, [])
      }).pipe(scripted(child.forks("escapee", child, { escapes }))))

    it.effect(`K02 as a ${escapes} that cannot be ended is named, and nothing is claimed`, () =>
      Effect.gen(function*() {
        const { id, jobs, world } = yield* started()
        yield* world.drain
        const stop = yield* Effect.forkChild(jobs.stop(id))
        yield* world.advance("8 seconds")
        const { exit, receipt, status } = yield* Fiber.join(stop)
        assert.deepStrictEqual([status, exit], ["kill_failed", killedBy("SIGTERM")])
        assert.deepStrictEqual(
          [receipt?.survivorCount, receipt?.survivors.map(({ name, refused }) => [name, refused])],
          [1, [["escapee", "EPERM"]]]
        )
        assert.deepStrictEqual(yield* world.alive, ["escapee"])
      }).pipe(scripted(child.forks("escapee", child.refuses("SIGTERM").refuses("SIGKILL"), { escapes }))))
  }
})

describe("a member that ignores the signal its leader obeys", () => {
  it.effect("K04 has the grace of the whole tree, and is killed when that is over, not before", () =>
    Effect.gen(function*() {
      const { id, job, jobs, world } = yield* started({ grace: "300 millis" })
      yield* world.drain
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("299 millis")
      assert.deepStrictEqual(yield* world.signals, ["0 SIGTERM server", "0 SIGTERM stubborn"])
      const waiting = yield* job
      assert.deepStrictEqual([waiting.status, waiting.phase, waiting.exit], [
        "running",
        "terminating",
        killedBy("SIGTERM")
      ])
      assert.isFalse(isDone(stop))
      yield* world.advance("1 millis")
      assert.include(yield* world.signals, "300 SIGKILL stubborn")
      const { exit, receipt, status } = yield* Fiber.join(stop)
      assert.deepStrictEqual([status, exit, receipt?.forced], ["cancelled", killedBy("SIGTERM"), true])
      assert.deepStrictEqual([receipt?.survivors, yield* world.alive], [[], []])
      assert.notInclude((yield* world.signals).join("\n"), "SIGKILL server")
    }).pipe(scripted(child.forks("stubborn", child.ignores("SIGTERM")))))
})

describe("a silent child that a successful leader leaves behind", () => {
  it.effect("K05 holds its scope until it is ended, and the success stays", () =>
    Effect.gen(function*() {
      const world = yield* World
      const scope = yield* Scope.make()
      const handle = yield* Scope.provide(AppProcess.spawn(server), scope)
      yield* world.drain
      assert.deepStrictEqual(yield* handle.exit, exited(0))
      const close = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* world.advance("5099 millis")
      assert.deepStrictEqual([isDone(close), yield* world.alive], [false, ["left"]])
      yield* world.advance("1 millis")
      assert.isTrue(isDone(close))
      const { cause, exit, forced, leftovers, status } = yield* handle.termination
      assert.deepStrictEqual([status, exit, cause, forced], ["completed", exited(0), { _tag: "SelfExit" }, true])
      assert.deepStrictEqual([leftovers.map(({ name }) => name), yield* world.alive], [["left"], []])
    }).pipe(scripted(child.forks("left", child.ignores("SIGTERM")).exits(0))))

  it.effect("K05 that cannot be ended makes it kill_failed, the exit code kept, until it ends by itself", () =>
    Effect.gen(function*() {
      const { id, jobs, world } = yield* started()
      yield* world.advance("8100 millis")
      const failed = yield* jobs.wait(id)
      assert.deepStrictEqual([failed.status, failed.exit, failed.phase], ["kill_failed", exited(0), "unresolved"])
      yield* world.kill("left")
      // Nobody is told of the end of a grandchild, so the next beat finds it.
      yield* world.advance("5 seconds")
      const settled = yield* jobs.get(id)
      assert.deepStrictEqual([settled.status, settled.exit, settled.phase], ["completed", exited(0), "settled"])
      assert.deepStrictEqual(told(yield* jobs.notices), ["kill_failed", "completed"])
    }).pipe(scripted(child.forks("left", child.refuses("SIGTERM").refuses("SIGKILL")).exits(0))))
})

describe("a program that ignores the polite signal", () => {
  const stubborn = child.ignores("SIGTERM")

  it.effect("K06 runs on, and is said to, until SIGKILL has ended it", () =>
    Effect.gen(function*() {
      const { id, job, jobs, world } = yield* started()
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("4999 millis")
      const { exit, receipt, status } = yield* job
      assert.deepStrictEqual([status, exit, receipt], ["running", null, null])
      assert.deepStrictEqual([yield* world.signals, isDone(stop)], [["0 SIGTERM server"], false])
      yield* world.advance("1 millis")
      const stopped = yield* Fiber.join(stop)
      assert.deepStrictEqual([stopped.status, stopped.exit], ["cancelled", killedBy("SIGKILL")])
      assert.deepStrictEqual([stopped.receipt?.forced, stopped.receipt?.durationMillis], [true, 5_000])
      assert.deepStrictEqual(yield* world.alive, [])
    }).pipe(scripted(stubborn)))

  it.effect("K06 ends with its scope, though nobody has set a grace", () =>
    Effect.gen(function*() {
      const world = yield* World
      const scope = yield* Scope.make()
      const handle = yield* Scope.provide(AppProcess.spawn(server), scope)
      const close = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* world.advance("4999 millis")
      assert.isFalse(isDone(close))
      yield* world.advance("1 millis")
      assert.isTrue(isDone(close))
      assert.strictEqual((yield* handle.termination).status, "cancelled")
    }).pipe(scripted(stubborn)))
})

const openingEvents = ["Started", "Draining", "Terminating"]

describe("a process that refuses every signal", () => {
  it.effect("K07 is kill_failed with the errno, holds its place, and settles when it has ended by itself", () =>
    Effect.gen(function*() {
      const events = yield* collected
      const { id, job, jobs, world } = yield* started()
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("8 seconds")
      const { endedAt, exit, phase, receipt, status } = yield* Fiber.join(stop)
      assert.deepStrictEqual([status, phase, exit, endedAt], ["kill_failed", "unresolved", null, null])
      const survivor = receipt?.survivors[0]
      assert.deepStrictEqual([survivor?.name, survivor?.refused, receipt?.survivorCount], ["server", "EPERM", 1])
      assert.isAbove(survivor?.pid ?? 0, 0)
      const { reason } = yield* Effect.flip(jobs.start(CommandSpec.make("quick")))
      assert.strictEqual(reason._tag, "TooManyJobs")

      yield* world.kill("server", 0)
      yield* world.drain
      const settled = yield* job
      assert.deepStrictEqual([settled.status, settled.phase, settled.exit], ["cancelled", "settled", exited(0)])
      assert.deepStrictEqual(told(yield* jobs.notices), ["kill_failed", "cancelled"])
      assert.deepStrictEqual(events, [...openingEvents, "KillFailed", "Exited", "Resolved"])
      yield* jobs.start(CommandSpec.make("quick"))
    }).pipe(scripted(child.refuses("SIGTERM").refuses("SIGKILL"), { settings: { maxRunningPerOwner: 1 } })))
})

describe("a process that takes SIGKILL and stays", () => {
  const held = child.ignores("SIGTERM").survives("SIGKILL")

  it.effect("K08 is waited for as long as grace and force window, and settles once when it is let go", () =>
    Effect.gen(function*() {
      const events = yield* collected
      const { id, job, jobs, world } = yield* started()
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("7999 millis")
      assert.deepStrictEqual([isDone(stop), (yield* job).status], [false, "running"])
      yield* world.advance("1 millis")
      assert.strictEqual((yield* Fiber.join(stop)).status, "kill_failed")
      // A retry is bounded the same, and proves nothing either.
      const retry = yield* Effect.forkChild(jobs.retryTermination(id))
      yield* world.advance("7999 millis")
      assert.isFalse(isDone(retry))
      yield* world.advance("1 millis")
      assert.strictEqual((yield* Fiber.join(retry)).status, "kill_failed")

      yield* world.kill("server")
      yield* world.drain
      const settled = yield* job
      assert.deepStrictEqual([settled.status, settled.exit], ["cancelled", killedBy("SIGKILL")])
      yield* world.advance("1 minute")
      assert.deepStrictEqual(yield* job, settled)
      assert.deepStrictEqual(told(yield* jobs.notices), ["kill_failed", "cancelled"])
      assert.deepStrictEqual(events, [...openingEvents, "KillFailed", "Exited", "Resolved"])
    }).pipe(scripted(held)))

  it.effect("K08 holds its scope no longer than that", () =>
    Effect.gen(function*() {
      const world = yield* World
      const scope = yield* Scope.make()
      const handle = yield* Scope.provide(AppProcess.spawn(server), scope)
      const close = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* world.advance("7999 millis")
      assert.isFalse(isDone(close))
      yield* world.advance("1 millis")
      assert.isTrue(isDone(close))
      assert.strictEqual((yield* handle.termination).status, "kill_failed")
      yield* world.kill("server")
      yield* world.drain
      assert.strictEqual((yield* handle.termination).status, "cancelled")
    }).pipe(scripted(held)))

  it.effect("K08 holds a shutdown no longer than that, however many there are", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("a")
      const barrier = yield* ShutdownBarrier.Service
      for (let index = 0; index < 5; index++) yield* jobs.start(server)
      const shutdown = yield* Effect.forkChild(barrier.shutdown())
      yield* world.advance("7999 millis")
      assert.isFalse(isDone(shutdown))
      yield* world.advance("1 millis")
      const report = yield* Fiber.join(shutdown)
      assert.deepStrictEqual([report.clean, report.budgetExceeded, report.durationMillis], [false, false, 8_000])
      assert.deepStrictEqual(report.rows.map(({ status }) => status), Array.from({ length: 5 }, () => "kill_failed"))
      assert.deepStrictEqual(report.rows.map(({ survivors }) => survivors.map(({ name }) => name)), [
        ["server"],
        ["server"],
        ["server"],
        ["server"],
        ["server"]
      ])
    }).pipe(scripted(held)))
})

describe("a pid that somebody else has now", () => {
  it.effect("K10 gets none of the signals that were meant for the one before, and no timer waits to send one", () =>
    Effect.gen(function*() {
      const { id, jobs, world } = yield* started({ grace: "1 second", deadline: "10 seconds" })
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("50 millis")
      assert.strictEqual((yield* Fiber.join(stop)).status, "cancelled")
      yield* world.reusePid("server")
      const looks = yield* world.looks
      yield* world.advance("1 hour")
      yield* jobs.stop(id, { now: true })
      yield* jobs.retryTermination(id)
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [["0 SIGTERM server"], ["stranger"]])
      assert.strictEqual(yield* world.looks, looks)
    }).pipe(scripted(child)))

  it.effect("K10 is spared by the force that ends the rest of its predecessor's tree", () =>
    Effect.gen(function*() {
      const { id, jobs, world } = yield* started({ grace: "1 second" })
      yield* world.drain
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("500 millis")
      assert.deepStrictEqual(yield* world.alive, ["escapee"])
      yield* world.reusePid("server")
      yield* world.advance("1 second")
      const { receipt, status } = yield* Fiber.join(stop)
      assert.deepStrictEqual([status, receipt?.forced], ["cancelled", true])
      assert.deepStrictEqual(yield* world.alive, ["stranger"])
      assert.notInclude((yield* world.calls).join("\n"), "stranger")
    }).pipe(scripted(child.forks("escapee", child.ignores("SIGTERM"), { escapes: "session" }))))
})

describe("a dead process that nobody has collected", () => {
  it.effect("K09 is neither waited for nor listed", () =>
    Effect.gen(function*() {
      const { id, jobs, world } = yield* started()
      yield* TestClock.adjust("1 second")
      const stop = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("100 millis")
      const { receipt, status } = yield* Fiber.join(stop)
      assert.deepStrictEqual([status, receipt?.forced, receipt?.survivors], ["cancelled", false, []])
      assert.deepStrictEqual(yield* world.signals, ["1000 SIGTERM server"])
    }).pipe(scripted(child.neverReaps().forks("zombie", child.exits(0)))))
})
