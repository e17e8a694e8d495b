/** Starts that are taken back at every moment of theirs, and ends that overtake them. */
import { assert, describe, it } from "@effect/vitest"
import { AppProcess, BackgroundProcess, CommandSpec, ProcessLedger, ShutdownBarrier, Status } from "@procyon/runtime"
import { child, RuntimeTest, type Script, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"

const server = CommandSpec.make("server")
const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))
const rowsOf = (owner: string) => Effect.flatMap(ProcessLedger.Service, (ledger) => ledger.rows({ owner }))

const scripted = (script: Script) => Effect.provide(RuntimeTest.layer({ children: { server: script } }))

/** Starts that differ in when there is a process, and when that is told. */
const starts: ReadonlyArray<readonly [what: string, script: Script]> = [
  ["at once", child],
  ["slowly", child.startsAfter("3 millis")],
  ["and tells it late", child.answersAfter("3 millis")],
  ["slowly, and tells it late", child.startsAfter("2 millis").answersAfter("2 millis")],
  ["and never tells it", child.neverAnswers()],
  ["never", child.startsAfter(Infinity)],
  ["at once, and forks", child.forks("member", child).forks("escapee", child, { escapes: "daemon" })]
]

const moments = [0, 1, 2, 3, 4, 5]

describe("a start that is interrupted", () => {
  for (const [what, script] of starts) {
    for (const moment of moments) {
      it.effect(`K13 leaves nothing when the interruption is over: it starts ${what}, for ${moment} ms`, () =>
        Effect.gen(function*() {
          const world = yield* World
          const service = yield* AppProcess.Service
          const starting = yield* Effect.forkChild(Effect.scoped(Effect.andThen(service.spawn(server), Effect.never)), {
            startImmediately: true
          })
          yield* world.advance(moment)
          // Seen in the very step in which the interruption is over.
          const left = Effect.all([world.alive, world.open, service.list])
          const interrupted = yield* Effect.forkChild(Effect.andThen(Fiber.interrupt(starting), left))
          yield* world.advance("1 second")
          assert.deepStrictEqual(yield* Fiber.join(interrupted), [[], [], []])
        }).pipe(scripted(script)))

      it.effect(`K13 leaves a listed job or nothing: it starts ${what}, for ${moment} ms`, () =>
        Effect.gen(function*() {
          const world = yield* World
          const jobs = yield* jobsOf("a")
          const starting = yield* Effect.forkChild(jobs.start(server), { startImmediately: true })
          yield* world.advance(moment)
          const answered = starting.pollUnsafe() !== undefined
          const left = Effect.all([world.alive, jobs.list, rowsOf("a")])
          const interrupted = yield* Effect.forkChild(Effect.andThen(Fiber.interrupt(starting), left))
          yield* world.advance("1 second")
          const [alive, list, rows] = yield* Fiber.join(interrupted)
          const running = list.filter(({ status }) => !Status.isSettled(status)).map(({ id }) => id)
          assert.strictEqual(running.length, answered ? 1 : 0)
          assert.strictEqual(alive.length > 0, answered)
          assert.deepStrictEqual(rows.filter(({ status }) => status === "running").map(({ id }) => id), running)
        }).pipe(scripted(script)))
    }
  }

  it.effect("K13 is never asked of the driver in a closed scope", () =>
    Effect.gen(function*() {
      const world = yield* World
      const scope = yield* Scope.make()
      yield* Scope.close(scope, Exit.void)
      const error = yield* Effect.flip(Scope.provide(AppProcess.spawn(server), scope))
      assert.strictEqual(error.reason._tag, "StartWithdrawn")
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* world.calls, yield* world.spawned], [[], 0])
    }).pipe(scripted(child)))
})

describe("two jobs of one name", () => {
  it.effect("K16 are not started while the first one's end is not proven, and its late end settles only itself", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("a")
      const first = yield* jobs.start(server, { name: "build" })
      const stop = yield* Effect.forkChild(jobs.stop(first.id))
      yield* world.advance("8 seconds")
      assert.strictEqual((yield* Fiber.join(stop)).status, "kill_failed")
      const taken = yield* Effect.flip(jobs.start(server, { name: "build" }))
      assert.deepStrictEqual([taken.reason._tag, yield* world.spawned], ["ProcessAlreadyExists", 1])

      yield* world.kill("server", 0)
      yield* world.drain
      const second = yield* jobs.start(server, { name: "build" })
      yield* world.advance("1 minute")
      const [one, two] = yield* jobs.list
      assert.deepStrictEqual([one?.id, one?.status, one?.exit], [first.id, "cancelled", { code: 0, signal: null }])
      assert.deepStrictEqual([two?.id, two?.status, two?.exit], [second.id, "running", null])
      const told = (yield* jobs.notices).map((notice) => notice._tag === "Job" && [notice.id, notice.status])
      assert.deepStrictEqual(told, [[first.id, "kill_failed"], [first.id, "cancelled"]])
    }).pipe(scripted(child.refuses("SIGTERM").refuses("SIGKILL"))))
})

describe("an end that is asked for while a start is on its way", () => {
  const stubborn = starts.map(([what, script]) => [`${what}, and ignores SIGTERM`, script.ignores("SIGTERM")] as const)

  for (const [what, script] of [...starts, ...stubborn]) {
    for (const moment of moments) {
      it.effect(`K17 is one end, cancelled: it starts ${what}, and is stopped after ${moment} ms`, () =>
        Effect.gen(function*() {
          const world = yield* World
          const service = yield* BackgroundProcess.Service
          const statuses: Array<string> = []
          yield* service.observe((event) =>
            Effect.sync(() => {
              if (event._tag === "Ended" || event._tag === "KillFailed" || event._tag === "Resolved") {
                statuses.push(event._tag)
              }
            })
          )
          const jobs = service.of("a")
          const starting = yield* Effect.forkChild(Effect.exit(jobs.start(server)), { startImmediately: true })
          yield* world.advance(moment)
          const [job = assert.fail("a start that was not refused is listed")] = yield* jobs.list
          const stop = yield* Effect.forkChild(jobs.stop(job.id))
          yield* world.advance("10 seconds")
          const stopped = yield* Fiber.join(stop)
          assert.deepStrictEqual([stopped.status, stopped.phase], ["cancelled", "settled"])
          assert.isDefined(starting.pollUnsafe())
          assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
          assert.deepStrictEqual((yield* rowsOf("a")).map(({ status }) => status), ["cancelled"])
          assert.isAtMost(statuses.length, 1)
          assert.isAtMost((yield* jobs.notices).length, 1)
          for (const { status } of yield* jobs.list) assert.strictEqual(status, "cancelled")
        }).pipe(scripted(script)))

      it.effect(`K17 by a shutdown leaves nothing: it starts ${what}, for ${moment} ms`, () =>
        Effect.gen(function*() {
          const world = yield* World
          const jobs = yield* jobsOf("a")
          const starting = yield* Effect.forkChild(Effect.exit(jobs.start(server)), { startImmediately: true })
          yield* world.advance(moment)
          const shutdown = yield* Effect.forkChild((yield* ShutdownBarrier.Service).shutdown())
          yield* world.advance("10 seconds")
          const report = yield* Fiber.join(shutdown)
          assert.deepStrictEqual([report.clean, report.rows.map(({ status }) => status)], [true, ["cancelled"]])
          assert.isDefined(starting.pollUnsafe())
          assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
          assert.deepStrictEqual((yield* rowsOf("a")).map(({ status }) => status), ["cancelled"])
          assert.deepStrictEqual(yield* (yield* AppProcess.Service).list, [])
          assert.strictEqual((yield* Effect.flip(jobs.start(server))).reason._tag, "RuntimeClosed")
        }).pipe(scripted(script)))
    }
  }
})
