import { assert, describe, it } from "@effect/vitest"
import { AppProcess, BackgroundProcess, CommandSpec } from "@procyon/runtime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { directory, isAlive, runtime, untilSaid, warnings } from "../support/output.ts"

type Attempt = Effect.Effect<unknown, AppProcess.SpawnError | BackgroundProcess.StartError>

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

describe("a deadline that passes after the leader has ended", () => {
  it.live("K26 changes nothing of a command that had finished", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("finished")
      const began = performance.now()
      const started = yield* jobs.start(CommandSpec.shell("sleep 3 & echo done; exit 0"), { deadline: "300 millis" })
      const job = yield* jobs.wait(started.id)
      assert.deepStrictEqual([job.status, job.exit, job.receipt?.cause], [
        "completed",
        { code: 0, signal: null },
        { _tag: "SelfExit" }
      ])
      assert.strictEqual((yield* (yield* jobs.output(job.id)).read()).data, "done\n")
      assert.isBelow(performance.now() - began, 2_900)
    }).pipe(Effect.provide(runtime())))

  it.live("K26 changes nothing while what the leader left behind is still being ended", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("leftover")
      const command = CommandSpec.shell("(trap '' TERM; exec sleep 30) & echo $!; exit 0")
      // The leftover ignores TERM, so the deadline passes within its grace.
      const started = yield* jobs.start(command, { deadline: "500 millis", grace: "700 millis" })
      const job = yield* jobs.wait(started.id)
      assert.deepStrictEqual([job.status, job.exit, job.receipt?.cause, job.receipt?.forced], [
        "completed",
        { code: 0, signal: null },
        { _tag: "SelfExit" },
        true
      ])
      assert.isAbove(job.receipt?.durationMillis ?? 0, 500)
      const pid = Number((yield* (yield* jobs.output(job.id)).read()).data)
      assert.isFalse(isAlive(pid))
    }).pipe(Effect.provide(runtime())))
})

describe("a child that answers TERM with exit 0", () => {
  // A shell tells of a `sleep` that the same signal ended, which is no part of this.
  const polite = CommandSpec.shell(
    "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
  )

  it.live("K27 has timed out when a deadline sent it, and its exit is kept as a fact", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("polite")
      const started = yield* jobs.start(polite, { deadline: "1 hour", grace: "10 seconds" })
      const view = yield* jobs.output(started.id)
      // The deadline counts from here, so that it never comes before the trap is there.
      yield* untilSaid(view, "ready\n")
      yield* jobs.extend(started.id, "200 millis")
      const job = yield* jobs.wait(started.id)
      assert.deepStrictEqual([job.status, job.exit, job.receipt?.cause, job.receipt?.forced], [
        "timed_out",
        { code: 0, signal: null },
        { _tag: "Deadline", kind: "total" },
        false
      ])
      assert.strictEqual((yield* view.read()).data, "ready\nbye\n")
    }).pipe(Effect.provide(runtime())))

  it.live("K27 has timed out when an idle deadline sent it", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("idle")
      const job = yield* jobs.start(polite, { idleDeadline: "1 second", grace: "10 seconds" })
      const { exit, receipt, status } = yield* jobs.wait(job.id)
      assert.deepStrictEqual([status, exit, receipt?.cause], [
        "timed_out",
        { code: 0, signal: null },
        { _tag: "Deadline", kind: "idle" }
      ])
    }).pipe(Effect.provide(runtime())))

  it.live("K27 was cancelled when its owner stopped it", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("stopped")
      const started = yield* jobs.start(polite, { grace: "10 seconds" })
      const view = yield* jobs.output(started.id)
      yield* untilSaid(view, "ready\n")
      const job = yield* jobs.stop(started.id)
      assert.deepStrictEqual([job.status, job.exit, job.receipt?.cause], [
        "cancelled",
        { code: 0, signal: null },
        { _tag: "Stop", by: "owner" }
      ])
      assert.strictEqual((yield* view.read()).data, "ready\nbye\n")
    }).pipe(Effect.provide(runtime())))
})

describe("deadlines of every size", () => {
  const day = 86_400_000
  const long: ReadonlyArray<readonly [Duration.Input, number]> = [
    [2 ** 31, 2 ** 31],
    ["30 days", 30 * day],
    [2 ** 53, 2 ** 53]
  ]
  const never: ReadonlyArray<Duration.Input> = [Infinity, 0, "0 millis"]
  const refused: ReadonlyArray<Duration.Input> = [NaN, -1, "-1 seconds", -Infinity]
  const briefly = CommandSpec.make("sleep", ["0.5"])

  it.live("K28 that are long do not fire, are told as asked, and raise no warning", () =>
    Effect.gen(function*() {
      const seen = yield* warnings
      const jobs = yield* jobsOf("long")
      yield* Effect.forEach(long, ([deadline, millis]) =>
        Effect.gen(function*() {
          const { id } = yield* jobs.start(briefly, { deadline, idleDeadline: deadline })
          const job = yield* jobs.wait(id)
          assert.deepStrictEqual(
            [job.status, job.deadlineAskedMillis, job.deadlineMillis, job.deadlineAt],
            ["completed", millis, millis, job.startedAt + millis]
          )
          const { info } = yield* AppProcess.run(briefly, { deadline })
          assert.deepStrictEqual([info.status, info.deadlineAt], ["completed", info.startedAt + millis])
        }), { concurrency: "unbounded" })
      assert.deepStrictEqual(seen, [])
    }).pipe(Effect.scoped, Effect.provide(runtime())))

  it.live("K28 of zero and infinity are none, at every entry point", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("never")
      yield* Effect.forEach(never, (deadline) =>
        Effect.gen(function*() {
          const { id } = yield* jobs.start(briefly, { deadline, idleDeadline: deadline })
          const job = yield* jobs.wait(id)
          assert.deepStrictEqual(
            [job.status, job.deadlineAskedMillis, job.deadlineMillis, job.deadlineAt],
            ["completed", null, null, null]
          )
          const { info } = yield* AppProcess.run(briefly, { deadline, idleDeadline: deadline })
          assert.deepStrictEqual([info.status, info.deadlineAt], ["completed", null])
        }), { concurrency: "unbounded" })
      const { id } = yield* jobs.start(CommandSpec.make("sleep", ["60"]), { deadline: "1 hour" })
      for (const deadline of never) assert.isNull((yield* jobs.extend(id, deadline)).deadlineAt)
    }).pipe(Effect.provide(runtime({ maxRunningPerOwner: 0 }))))

  it.live("K28 that make no sense are refused before anything is started, at every entry point", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const trace = CommandSpec.shell(`echo started >> "$TRACE"`, { env: { TRACE: `${path}/trace` } })
      yield* Effect.gen(function*() {
        const jobs = yield* jobsOf("refused")
        const app = yield* AppProcess.Service
        const running = yield* jobs.start(CommandSpec.make("sleep", ["60"]))
        for (const deadline of refused) {
          const attempts: ReadonlyArray<readonly [string, Attempt]> = [
            ["deadline", app.run(trace, { deadline })],
            ["deadline", Effect.scoped(app.spawn(trace, { deadline }))],
            ["idleDeadline", app.run(trace, { idleDeadline: deadline })],
            ["deadline", jobs.start(trace, { deadline })],
            ["idleDeadline", jobs.start(trace, { idleDeadline: deadline })]
          ]
          for (const [where, attempt] of attempts) {
            const { reason } = yield* Effect.flip(attempt)
            assert.deepStrictEqual(
              reason._tag === "InvalidCommand" ? [reason.where, reason.problem] : reason,
              [where, "BadDuration"]
            )
          }
          const error = yield* Effect.flip(jobs.extend(running.id, deadline))
          assert.strictEqual(error._tag, "InvalidCommand")
        }
        assert.deepStrictEqual((yield* jobs.list).map((job) => [job.id, job.status]), [[running.id, "running"]])
        assert.deepStrictEqual(yield* app.list, [])
      }).pipe(Effect.provide(runtime()))
      assert.isFalse(fs.existsSync(`${path}/trace`))
    }))

  it.live("K28 of half a millisecond fire at once", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("short")
      const { id } = yield* jobs.start(CommandSpec.make("sleep", ["60"]), { deadline: 0.5 })
      const job = yield* jobs.wait(id)
      assert.deepStrictEqual([job.status, job.deadlineMillis, job.receipt?.cause], [
        "timed_out",
        0.5,
        { _tag: "Deadline", kind: "total" }
      ])
      const { info } = yield* AppProcess.run(CommandSpec.make("sleep", ["60"]), { deadline: 0.5 })
      assert.strictEqual(info.status, "timed_out")
    }).pipe(Effect.provide(runtime())))
})
