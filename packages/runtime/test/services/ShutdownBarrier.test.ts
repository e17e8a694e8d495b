import { assert, it } from "@effect/vitest"
import { AppProcess, BackgroundProcess, CommandSpec, ShutdownBarrier } from "@procyon/runtime"
import { child, RuntimeTest, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { law } from "./law.ts"

const run = CommandSpec.make

const start = (owner: string, command: string, options?: BackgroundProcess.StartOptions) =>
  BackgroundProcess.Service.use((service) => service.of(owner).start(run(command), options))

law(
  "all children cost one grace, one failure holds up nobody, and the report names each",
  { stubborn: child.ignores("SIGTERM"), polite: child, stuck: child.ignores("SIGTERM").refuses("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    for (const command of ["stubborn", "polite", "stuck", "stubborn"]) yield* start("s1", command, { title: command })
    yield* Effect.scoped(Effect.gen(function*() {
      yield* AppProcess.spawn(run("polite"))
      const closing = yield* Effect.forkChild(barrier.shutdown())
      yield* world.advance("8 seconds")
      const report = yield* Fiber.join(closing)
      assert.deepStrictEqual(report.rows.map((row) => [row.owner, row.title, row.status]), [
        ["s1", "stubborn", "cancelled"],
        ["s1", "polite", "cancelled"],
        ["s1", "stuck", "kill_failed"],
        ["s1", "stubborn", "cancelled"],
        [null, null, "cancelled"]
      ])
      assert.deepStrictEqual(
        [report.mode, report.clean, report.budgetExceeded, report.durationMillis],
        ["graceful", false, false, 8000]
      )
      assert.deepStrictEqual(report.phases.map(({ phase }) => phase), [
        "stopping",
        "draining",
        "terminating",
        "flushing",
        "settling",
        "workspaces",
        "closed"
      ])
      assert.deepStrictEqual(yield* world.alive, ["stuck"])
    }))
    yield* world.kill("stuck")
  })
)

law(
  "its phases are told as they are entered, to whoever asks before, between and after",
  { stubborn: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    yield* start("s1", "stubborn")
    const seen: Array<string> = []
    const watch = (who: string) =>
      Stream.runForEach(barrier.phases, ({ phase }) => Effect.sync(() => seen.push(`${who} ${phase}`)))
    const before = yield* Effect.forkChild(watch("before"), { startImmediately: true })
    yield* Effect.forkChild(barrier.shutdown())
    yield* world.drain
    assert.deepStrictEqual(seen, ["before stopping", "before draining", "before terminating"])
    const between = yield* Effect.forkChild(watch("between"), { startImmediately: true })
    yield* world.advance("1 minute")
    yield* Fiber.join(before)
    yield* Fiber.join(between)
    const all = ["stopping", "draining", "terminating", "flushing", "settling", "workspaces", "closed"]
    for (const who of ["before", "between"]) {
      assert.deepStrictEqual(seen.filter((line) => line.startsWith(`${who} `)), all.map((phase) => `${who} ${phase}`))
    }
    assert.strictEqual((yield* Stream.runCollect(barrier.phases)).length, all.length)
  })
)

law(
  "a second request joins, and a now request cuts the grace that somebody else began",
  { stubborn: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    yield* start("s1", "stubborn")
    const first = yield* Effect.forkChild(barrier.shutdown())
    const second = yield* Effect.forkChild(barrier.shutdown())
    yield* world.advance("2 seconds")
    assert.strictEqual(yield* barrier.phase, "terminating")
    const now = yield* barrier.shutdown("now")
    assert.deepStrictEqual([now.mode, now.clean, now.durationMillis], ["now", true, 2000])
    assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], [now, now])
    assert.deepStrictEqual([yield* barrier.shutdown(), yield* barrier.phase], [now, "closed"])
  })
)

law(
  "interrupting whoever asked ends only the wait",
  { stubborn: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    yield* start("s1", "stubborn")
    const asked = yield* Effect.forkChild(barrier.shutdown(), { startImmediately: true })
    yield* world.advance("1 second")
    yield* Fiber.interrupt(asked)
    yield* world.advance("4 seconds")
    assert.isTrue((yield* barrier.report).clean)
  })
)

law(
  "the budget bounds everything: a longer grace is cut in time for what must still be forced",
  { stubborn: child.ignores("SIGTERM"), stuck: child.ignores("SIGTERM").survives("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    yield* start("s1", "stubborn", { grace: "1 hour" })
    yield* start("s1", "stuck", { grace: "1 hour", forceWindow: "1 hour" })
    const closing = yield* Effect.forkChild(barrier.shutdown())
    yield* world.advance("30 seconds")
    const report = yield* Fiber.join(closing)
    assert.deepStrictEqual(report.rows.map((row) => row.status), ["cancelled", "running"])
    assert.deepStrictEqual([report.budgetExceeded, report.clean, report.durationMillis], [true, false, 30_000])
    yield* world.kill("stuck")
    yield* world.drain
  })
)

law(
  "what could not be ended before is tried once more, and the report says what came of that",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL", 1) },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    const { id } = yield* start("s1", "stuck")
    const stopping = yield* Effect.forkChild(
      BackgroundProcess.Service.use((service) => service.of("s1").stop(id))
    )
    yield* world.advance("10 seconds")
    assert.strictEqual((yield* Fiber.join(stopping)).status, "kill_failed")
    const closing = yield* Effect.forkChild(barrier.shutdown())
    yield* world.advance("15 seconds")
    const report = yield* Fiber.join(closing)
    assert.deepStrictEqual([report.clean, report.rows.map((row) => row.status)], [true, ["cancelled"]])
    assert.deepStrictEqual(yield* world.alive, [])
  })
)

law(
  "a start that is on its way is ended or refused, and leaves nothing",
  { slow: child.startsAfter("500 millis"), answering: child.answersAfter("500 millis") },
  Effect.gen(function*() {
    const world = yield* World
    const barrier = yield* ShutdownBarrier.Service
    const starts = yield* Effect.forEach(
      ["slow", "answering"],
      (command) => Effect.forkChild(Effect.exit(start("s1", command)), { startImmediately: true })
    )
    yield* world.drain
    const report = yield* barrier.shutdown()
    assert.isTrue(report.clean)
    yield* world.advance("1 minute")
    assert.deepStrictEqual(yield* world.alive, [])
    for (const fiber of starts) assert.isTrue(Exit.isFailure(yield* Fiber.join(fiber)))
  })
)

it.effect("closing the layer runs the barrier, and the report is told to whoever asked for it", () =>
  Effect.gen(function*() {
    const told: Array<ShutdownBarrier.ShutdownReport> = []
    const layer = RuntimeTest.layer({ children: { stubborn: child.ignores("SIGTERM") } }).pipe(
      Layer.provide(ShutdownBarrier.onReport((report) => Effect.sync(() => told.push(report))))
    )
    yield* Effect.provide(start("s1", "stubborn"), layer)
    assert.deepStrictEqual(told.map((report) => [report.clean, report.rows.length]), [[true, 1]])
  }))

it.effect("withReport answers with the application's exit and the report", () =>
  Effect.gen(function*() {
    const [exit, report] = yield* ShutdownBarrier.withReport(
      Effect.andThen(start("s1", "polite"), Effect.fail("application")),
      RuntimeTest.layer({ children: { polite: child } })
    )
    assert.deepStrictEqual(exit, Exit.fail("application"))
    assert.deepStrictEqual(report.rows.map((row) => row.status), ["cancelled"])
  }))

it.effect("a finalizer that runs after the barrier finds the stored result, and does not wait", () =>
  Effect.gen(function*() {
    const foreign = yield* Scope.make()
    const handle = yield* Effect.provide(
      Scope.provide(AppProcess.spawn(run("server")), foreign),
      RuntimeTest.layer({ children: { server: child } })
    )
    assert.strictEqual((yield* handle.info).status, "cancelled")
    yield* Scope.close(foreign, Exit.void)
    assert.strictEqual((yield* handle.termination).cause._tag, "Shutdown")
  }))
