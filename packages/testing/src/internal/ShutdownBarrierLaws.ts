/**
 * What `ShutdownBarrier` owes the application that closes its runtime.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { brief, law, patient, type Statements } from "./RuntimeBench.ts"

const phases = ["stopping", "draining", "terminating", "flushing", "settling", "workspaces", "closed"]

export const closing: Statements = (programs) => [
  law(
    "all are ended, of every owner and lifetime, and each is reported",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const [handle] = yield* bench.spawn(command, { title: "handle" })
        yield* bench.background.of("one").start(command, { title: "session" })
        yield* bench.background.of("other").start(command, { title: "application", lifetime: "application" })
        const report = yield* bench.shutdown()
        yield* bench.nobodyLives
        assert.sameDeepMembers(
          report.rows.map(({ owner, status, survivorCount, title }) => [title, owner, status, survivorCount]),
          [["handle", null, "cancelled", 0], ["session", "one", "cancelled", 0], [
            "application",
            "other",
            "cancelled",
            0
          ]]
        )
        assert.deepStrictEqual([report.clean, report.budgetExceeded, report.mode], [true, false, "graceful"])
        const receipt = yield* handle.termination
        assert.deepStrictEqual([receipt.status, receipt.cause], ["cancelled", { _tag: "Shutdown" }])
        bench.assertProven(receipt)
      })
  ),

  law(
    "nothing is started any more, and whoever tries is told",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        yield* bench.shutdown()
        const refused = <A>(start: Effect.Effect<A, { readonly reason: { readonly _tag: string } }>) =>
          Effect.match(bench.done("the start is answered", start), {
            onFailure: ({ reason }) => reason._tag,
            onSuccess: () => "started"
          })
        assert.strictEqual(yield* refused(bench.app.run(command)), "RuntimeClosed")
        assert.strictEqual(yield* refused(Effect.scoped(bench.app.spawn(command))), "RuntimeClosed")
        assert.strictEqual(yield* refused(bench.background.of("one").start(command)), "RuntimeClosed")
        yield* bench.nobodyLives
      })
  ),

  law(
    "all who ask share one barrier and its report, also afterwards",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        yield* bench.background.of("one").start(command)
        const seen = yield* Effect.forkChild(Stream.runCollect(bench.barrier.phases), { startImmediately: true })
        const [first, second] = yield* bench.done(
          "both are answered",
          Effect.all([bench.barrier.shutdown(), bench.barrier.shutdown()], { concurrency: "unbounded" })
        )
        assert.deepStrictEqual(second, first)
        assert.deepStrictEqual(yield* bench.shutdown(), first)
        assert.deepStrictEqual(yield* bench.barrier.report, first)
        assert.deepStrictEqual(first.phases.map(({ phase }) => phase), phases)
        assert.deepStrictEqual(yield* Fiber.join(seen), first.phases)
        assert.strictEqual(yield* bench.barrier.phase, "closed")
      })
  ),

  law("waiting for the report begins nothing", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const { id } = yield* bench.background.of("one").start(command)
      const report = yield* Effect.forkChild(bench.barrier.report, { startImmediately: true })
      yield* bench.aWhile
      assert.strictEqual(yield* bench.barrier.phase, "open")
      assert.strictEqual((yield* bench.background.of("one").get(id)).status, "running")
      const told = yield* bench.shutdown()
      assert.deepStrictEqual(yield* Fiber.join(report), told)
    })),

  law("interrupting who asked ends only the wait", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const { id } = yield* bench.background.of("one").start(command)
      const asked = yield* Effect.forkChild(bench.barrier.shutdown(), { startImmediately: true })
      yield* bench.interrupted(asked)
      const report = yield* bench.done("the barrier is through", bench.barrier.report)
      assert.deepStrictEqual(report.rows.map((row) => [row.id, row.status]), [[id, "cancelled"]])
      yield* bench.nobodyLives
    })),

  law(
    "one that ignores the stop signal is forced when its grace is over",
    [programs.ignoresTerm],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, brief)
        yield* bench.untilText(yield* jobs.output(id), "ready")
        const report = yield* bench.shutdown()
        yield* bench.nobodyLives
        assert.isTrue(report.clean)
        const receipt = yield* jobs.termination(id)
        assert.deepStrictEqual([receipt.status, receipt.forced], ["cancelled", true])
      })
  ),

  law(
    "to be closed now overtakes whoever waits for a grace",
    [programs.ignoresTerm],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, patient)
        yield* bench.untilText(yield* jobs.output(id), "ready")
        const first = yield* Effect.forkChild(bench.barrier.shutdown(), { startImmediately: true })
        yield* bench.aWhile
        assert.strictEqual((yield* jobs.get(id)).status, "running")
        const report = yield* bench.shutdown("now")
        yield* bench.nobodyLives
        assert.deepStrictEqual([report.mode, report.clean], ["now", true])
        assert.deepStrictEqual(yield* Fiber.join(first), report)
      })
  ),

  law("who has left the tree for good is ended too", [programs.daemonizes], (bench, command) =>
    Effect.gen(function*() {
      // Its leader is over soon: at whatever point of that the barrier comes, nobody is left.
      yield* bench.background.of("one").start(command, brief)
      assert.isTrue((yield* bench.shutdown()).clean)
      yield* bench.nobodyLives
    }), ["processTable", "marker"]),

  law(
    "what was said and how all ended can be read afterwards",
    [programs.speaksTwice, programs.waits],
    (bench, speaks, waits) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const finished = yield* bench.finished(jobs, speaks)
        const ended = yield* jobs.start(waits)
        const view = yield* jobs.output(finished.id)
        yield* bench.shutdown()
        assert.match(yield* view.preview, /^out\s*err\s*$/)
        assert.deepStrictEqual((yield* jobs.list).map(({ id, status }) => [id, status]), [
          [finished.id, "completed"],
          [ended.id, "cancelled"]
        ])
        assert.deepStrictEqual((yield* jobs.termination(ended.id)).cause, { _tag: "Shutdown" })
      })
  )
]
