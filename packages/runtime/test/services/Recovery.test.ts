import { assert, describe, it } from "@effect/vitest"
import {
  BackgroundProcess,
  CommandSpec,
  ProcessDriver,
  ProcessLedger,
  ProcessLedgerMemory,
  ProcessRuntime,
  Recovery
} from "@procyon/runtime"
import { child, LedgerLaws, Lives, ScriptedDriver, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { jobsOf, law, moving, reconciled, start } from "./lives.ts"

const run = CommandSpec.make

const notices = Effect.flatMap(jobsOf("s1"), (jobs) => jobs.notices)
const noticeIds = Effect.map(notices, (all) => all.map((notice) => notice._tag === "Job" ? notice.noticeId : "summary"))
const list = Effect.flatMap(jobsOf("s1"), (jobs) => jobs.list)
const rows = ProcessLedger.Service.use((ledger) => ledger.rows())
const statuses = Effect.map(rows, (all) => all.map((row) => row.status))

/** What a row says of a stream that nobody has seen anything of. */
const none: ProcessLedger.StoredStream = {
  bytesSeen: 0,
  truncated: false,
  drained: true,
  sha256: null,
  blob: null,
  spilledBytes: 0,
  gap: null
}

const outcomes = (report: Recovery.Report) => report.entries.map(({ outcome, status }) => `${outcome} ${status}`)

describe("a job whose runtime was killed", () => {
  law(
    "K11 is ended by the next life, and never called completed",
    { server: child.forks("escapee", child, { escapes: "daemon" }).ignores("SIGTERM") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const job = yield* first.run(start("server", { title: "dev" }))
      yield* world.drain
      yield* first.kill
      assert.deepStrictEqual(yield* world.alive, ["server", "escapee"])
      const second = yield* Lives.begin()
      const report = yield* reconciled(second)
      assert.deepStrictEqual(outcomes(report), ["ended cancelled"])
      assert.deepStrictEqual(yield* world.alive, [])
      assert.deepStrictEqual(yield* second.run(noticeIds), [`${job.id}:cancelled`])
      assert.deepStrictEqual(
        (yield* rows).map(({ fence, status, termination }) => [fence, status, termination?.cause._tag]),
        [
          [2, "cancelled", "OwnerLost"]
        ]
      )
      assert.include(Recovery.summarize(report), "1 ended")
    })
  )

  law(
    "is lost when nobody of it lives and nobody saw it end",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const job = yield* first.run(start("server"))
      yield* first.kill
      yield* world.kill("server", 0)
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["lost error"])
      assert.deepStrictEqual(yield* world.signals, [])
      const found = yield* second.run(Effect.flatMap(jobsOf("s1"), (jobs) => jobs.get(job.id)))
      assert.deepStrictEqual([found.status, found.error], ["error", "its exit was not seen"])
      assert.deepStrictEqual(yield* second.run(noticeIds), [`${job.id}:error`])
    })
  )

  law(
    "K12 is lost when its pid is a stranger's, who is not signalled",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      yield* world.kill("server")
      yield* TestClock.adjust("1 second")
      yield* world.reusePid("server")
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["lost error"])
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [[], ["stranger"]])
    })
  )

  law(
    "K12 is lost after another boot, without a look at anybody",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server"))
      yield* first.kill
      const ledger = yield* ProcessLedger.Service
      const row = yield* ledger.get(id)
      const before = (identity: ProcessLedger.LedgerRow["identity"]) =>
        identity === null ? null : { ...identity, bootId: "the boot before" }
      yield* ledger.transition(id, { fence: 1, status: "running" }, {
        status: "running",
        identity: before(row?.identity ?? null),
        holder: before(row?.holder ?? null),
        leaseUntil: 0
      })
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["lost error"])
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [[], ["server"]])
    })
  )

  law(
    "is found by its marker when the driver's answer was never recorded",
    { server: child.answersAfter("5 seconds") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* Effect.forkDetach(first.run(start("server")))
      yield* world.advance("500 millis")
      yield* first.kill
      assert.deepStrictEqual(yield* world.alive, ["server"])
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["ended error"])
      assert.deepStrictEqual(yield* world.alive, [])
    })
  )

  law(
    "that was never started is lost, and said to be",
    { server: child.startsAfter("5 seconds") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* Effect.forkDetach(first.run(start("server")))
      yield* world.advance("500 millis")
      yield* first.kill
      const second = yield* Lives.begin()
      const report = yield* reconciled(second)
      assert.deepStrictEqual(report.entries.map(({ detail }) => detail), ["it is not known whether it was started"])
    })
  )

  law(
    "is timed_out when its deadline passed meanwhile",
    { server: child },
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      yield* first.run(start("server", { deadline: "1 minute" }))
      yield* first.kill
      yield* TestClock.adjust("2 minutes")
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["ended timed_out"])
    })
  )

  law(
    "is for review when it cannot be ended, and settles once with its own notice when it is gone",
    { server: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server"))
      yield* first.kill
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["review kill_failed"])
      const review = yield* second.run(Recovery.Service.use((recovery) => recovery.review))
      assert.deepStrictEqual(review.map((info) => info.id), [id])
      yield* second.kill
      // A third life finds it as it was left.
      const third = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(third)), ["review kill_failed"])
      assert.deepStrictEqual(yield* third.run(noticeIds), [`${id}:kill_failed`])
      yield* world.kill("server")
      yield* world.advance("1 minute")
      assert.deepStrictEqual(yield* third.run(noticeIds), [`${id}:cancelled`])
      assert.deepStrictEqual(yield* statuses, ["cancelled"])
    })
  )

  law(
    "and others like it are reviewed in the order of their starts, and one that is tried again is none any more",
    { stuck: child.ignores("SIGTERM").refuses("SIGKILL", 1) },
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      const ids: Array<string> = []
      for (const owner of ["s2", "s1", "s2"]) {
        const jobs = yield* first.run(jobsOf(owner))
        ids.push((yield* jobs.start(run("stuck"), { streams: "separate" })).id)
      }
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      const recovery = yield* second.run(Recovery.Service)
      assert.deepStrictEqual((yield* recovery.review).map(({ id, owner }) => [id, owner]), [
        [ids[0], "s2"],
        [ids[1], "s1"],
        [ids[2], "s2"]
      ])
      assert.strictEqual((yield* moving(recovery.retry(ids[1] ?? ""))).status, "cancelled")
      assert.deepStrictEqual((yield* recovery.review).map(({ id }) => id), [ids[0], ids[2]])
    })
  )

  law(
    "that is for review can be forgotten, and is left alone then",
    { server: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server"))
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      const recovery = yield* second.run(Recovery.Service)
      assert.isTrue(yield* recovery.forget(id))
      assert.deepStrictEqual([yield* recovery.review, yield* rows, yield* second.run(list)], [[], [], []])
      const signals = yield* world.signals
      yield* world.advance("5 minutes")
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [signals, ["server"]])
      assert.strictEqual((yield* Effect.flip(recovery.retry(id)))._tag, "ProcessNotFound")
    })
  )
})

describe("notices", () => {
  law(
    "K34 that nobody has taken come in the next life, once",
    { quick: child.prints("bye\n").exits(3, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("quick"))
      yield* world.advance("2 seconds")
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      const told = yield* second.run(notices)
      assert.deepStrictEqual(
        told.map((notice) => notice._tag === "Job" && [notice.noticeId, notice.exitCode, notice.repeated]),
        [
          [`${id}:error`, 3, false]
        ]
      )
      yield* second.kill
      const third = yield* Lives.begin()
      yield* reconciled(third)
      assert.deepStrictEqual(yield* third.run(notices), [])
      assert.deepStrictEqual((yield* third.run(list)).map((info) => [info.id, info.status]), [[id, "error"]])
    })
  )

  law(
    "K34 that were handed out and not seen come again, and say so",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("quick"))
      yield* world.advance("2 seconds")
      const consumer = yield* Effect.forkChild(
        first.run(Effect.flatMap(jobsOf("s1"), (jobs) => jobs.consumeNotices(() => Effect.never)))
      )
      yield* world.drain
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      const seen = yield* second.run(
        Effect.flatMap(jobsOf("s1"), (jobs) => jobs.consumeNotices((all) => Effect.succeed(all)))
      )
      assert.deepStrictEqual(seen.map((notice) => notice._tag === "Job" && [notice.noticeId, notice.repeated]), [
        [`${id}:completed`, true]
      ])
      assert.deepStrictEqual(yield* second.run(notices), [])
      yield* Fiber.interrupt(consumer)
    })
  )

  law(
    "whose consumer fails or is interrupted come again in the same life",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin()
      const { id } = yield* life.run(start("quick"))
      yield* world.advance("2 seconds")
      const jobs = yield* life.run(jobsOf("s1"))
      const failed = yield* Effect.exit(jobs.consumeNotices(() => Effect.fail("no")))
      assert.strictEqual(failed._tag, "Failure")
      const consumer = yield* Effect.forkChild(jobs.consumeNotices(() => Effect.never))
      yield* world.drain
      assert.deepStrictEqual(yield* jobs.notices, [])
      yield* Fiber.interrupt(consumer)
      assert.deepStrictEqual((yield* jobs.notices).map((notice) => notice._tag === "Job" && notice.noticeId), [
        `${id}:completed`
      ])
      assert.deepStrictEqual(yield* jobs.notices, [])
    })
  )

  law(
    "of a start that failed are for nobody, in no life",
    {},
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      yield* Effect.flip(first.run(start("nothing")))
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      assert.deepStrictEqual([yield* second.run(notices), yield* second.run(list)], [[], []])
      assert.deepStrictEqual(yield* statuses, ["error"])
    })
  )
})

describe("of two runtimes on one ledger", () => {
  law(
    "the second leaves the jobs of a living first alone",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["elsewhere running"])
      yield* world.advance("10 minutes")
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [[], ["server"]])
      yield* first.kill
      // It goes on looking by itself while others hold rows.
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
    })
  )

  law(
    "K36 one that was stopped past its lease and goes on neither signals, writes nor tells",
    { server: child, quick: child.exits(0, { after: "2 minutes" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const seen: Array<string> = []
      yield* Effect.forkChild(
        first.run(
          BackgroundProcess.Service.use((service) =>
            Stream.runForEach(service.events, (event) => Effect.sync(() => seen.push(event._tag)))
          )
        )
      )
      yield* first.run(start("server", { deadline: "90 seconds" }))
      yield* first.run(start("quick"))
      yield* world.drain
      yield* first.stop
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["elsewhere running", "elsewhere running"])
      yield* world.advance("75 seconds")
      assert.deepStrictEqual(yield* world.alive, [])
      const told = yield* second.run(noticeIds)
      assert.strictEqual(told.length, 2)
      const signals = yield* world.signals
      const before = yield* rows
      seen.length = 0
      yield* first.continue
      yield* world.advance("5 minutes")
      assert.deepStrictEqual(yield* world.signals, signals)
      assert.deepStrictEqual(yield* rows, before)
      assert.deepStrictEqual(yield* first.run(notices), [])
      assert.deepStrictEqual(yield* first.run(list), [])
      assert.notInclude(seen, "Ended")
      assert.deepStrictEqual(seen.filter((tag) => tag === "Disowned").length, 2)
    })
  )

  law(
    "K36 one that missed a beat keeps what it has",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      const second = yield* Lives.begin()
      yield* reconciled(second)
      yield* first.stop
      yield* world.advance("15 seconds")
      yield* first.continue
      yield* world.advance("5 minutes")
      assert.deepStrictEqual([yield* world.alive, (yield* rows).map(({ fence }) => fence)], [["server"], [1]])
    })
  )

  law(
    "of a job that could not be ended the one that was stopped tells nothing, once the other has it",
    { stuck: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("stuck"))
      yield* Effect.forkChild(first.run(Effect.flatMap(jobsOf("s1"), (jobs) => jobs.stop(id))))
      yield* world.advance("10 seconds")
      assert.deepStrictEqual(yield* statuses, ["kill_failed"])
      yield* first.stop
      const second = yield* Lives.begin()
      yield* world.advance("75 seconds")
      assert.deepStrictEqual(yield* second.run(noticeIds), [`${id}:kill_failed`])
      // Before anything else has told it that it was taken over from.
      yield* first.continue
      assert.deepStrictEqual(yield* first.run(noticeIds), [])
    })
  )

  law(
    "ids go on after those of earlier lives, also when the wall clock went back an hour",
    { server: child },
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      yield* first.setWallClock(3_600_000)
      const before = yield* first.run(start("server"))
      yield* first.close
      const second = yield* Lives.begin()
      yield* reconciled(second)
      const after = yield* second.run(start("server"))
      assert.isTrue(before.id < after.id, `${before.id} ${after.id}`)
    })
  )

  law(
    "a wall clock that goes back an hour lets neither take the other's",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      yield* TestClock.setTime(10_000_000)
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      const ledger = yield* ProcessLedger.Service
      // As another machine's clock would have written it.
      const [row] = yield* rows
      yield* ledger.renew([{ id: row?.id ?? "", fence: 1, leaseUntil: 10_000_000 - 3_600_000, bytesSeen: 0 }])
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["elsewhere running"])
      yield* world.advance("5 minutes")
      assert.deepStrictEqual([yield* world.alive, (yield* rows).map(({ fence }) => fence)], [["server"], [1]])
    })
  )
})

describe("a detached job", () => {
  law(
    "lives on when its runtime closes, and is the next one's as it was the first one's",
    { server: child.prints("one\n").prints("two\n", { after: "1 minute" }).exits(4, { after: "2 minutes" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached", name: "dev" }))
      yield* world.advance("1 second")
      yield* first.close
      assert.deepStrictEqual([yield* world.alive, yield* world.signals, yield* statuses], [["server"], [], ["running"]])
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["adopted running"])
      const jobs = yield* second.run(jobsOf("s1"))
      const taken = yield* Effect.flip(jobs.start(run("server"), { name: "dev" }))
      assert.strictEqual(taken.reason._tag, "ProcessAlreadyExists")
      const read = Effect.flatMap(jobs.output(id), (output) => Effect.map(output.read(), ({ data }) => data))
      assert.strictEqual(yield* read, "one\n")
      yield* world.advance("1 minute")
      assert.strictEqual(yield* read, "one\ntwo\n")
      yield* world.advance("2 minutes")
      const ended = yield* jobs.wait(id)
      assert.deepStrictEqual([ended.status, ended.exit?.code, ended.output.bytesSeen], ["error", 4, 8])
      assert.deepStrictEqual(yield* second.run(noticeIds), [`${id}:error`])
    })
  )

  law(
    "that ended while nobody was there has its recorded exit, and its output",
    { server: child.prints("bye\n").exits(0, { after: "1 minute" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached" }))
      yield* first.kill
      yield* world.advance("2 minutes")
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["completed completed"])
      const told = yield* second.run(notices)
      assert.deepStrictEqual(told.map((notice) => notice._tag === "Job" && [notice.noticeId, notice.tail]), [
        [`${id}:completed`, "bye\n"]
      ])
      yield* second.kill
      const third = yield* Lives.begin()
      yield* reconciled(third)
      const output = yield* third.run(Effect.flatMap(jobsOf("s1"), (jobs) => jobs.output(id)))
      assert.deepStrictEqual([(yield* output.read()).data, yield* output.preview], ["bye\n", "bye\n"])
    })
  )

  law(
    "whose exit was not recorded is lost",
    { server: child.exits(0, { after: "1 minute" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server", { lifetime: "detached" }))
      yield* first.kill
      yield* world.loseExit("server")
      yield* world.advance("2 minutes")
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["lost error"])
    })
  )

  law(
    "that met its deadline while nobody was there is timed_out",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server", { lifetime: "detached", deadline: "1 minute" }))
      const jobs = yield* first.run(jobsOf("s1"))
      const refused = yield* Effect.flatMap(jobs.list, ([job]) => Effect.flip(jobs.extend(job?.id ?? "", "1 hour")))
      assert.strictEqual(refused._tag, "InvalidCommand")
      yield* first.kill
      yield* world.endDetached("server", "deadline")
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["ended timed_out"])
    })
  )

  law(
    "keeps its deadline over the lives of its runtimes",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server", { lifetime: "detached", deadline: "10 minutes" }))
      yield* world.advance("4 minutes")
      yield* first.close
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["adopted running"])
      const began = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      yield* TestClock.adjust(600_000 - began - 1)
      assert.deepStrictEqual(yield* world.signals, [])
      yield* world.advance("1 second")
      assert.deepStrictEqual(yield* statuses, ["timed_out"])
    })
  )

  law(
    "has its streams apart, its cap and its idle deadline in any life",
    { server: child.prints("out").prints("err", { stream: "stderr" }), silent: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const loud = yield* first.run(start("server", { lifetime: "detached", streams: "separate", output: { cap: 10 } }))
      const silent = yield* first.run(start("silent", { lifetime: "detached", idleDeadline: "1 minute" }))
      yield* world.drain
      yield* first.kill
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["adopted running", "adopted running"])
      const jobs = yield* second.run(jobsOf("s1"))
      yield* world.drain
      const [output, errorOutput] = [yield* jobs.output(loud.id), yield* jobs.errorOutput(loud.id)]
      assert.deepStrictEqual([(yield* output.read()).data, (yield* errorOutput.read()).data], ["out", "err"])
      assert.strictEqual((yield* (yield* jobs.errorOutput(silent.id)).read()).data, "")
      yield* world.print("server", "0123456789")
      yield* world.advance("2 minutes")
      assert.deepStrictEqual((yield* jobs.list).map(({ receipt, status }) => [status, receipt?.cause]), [
        ["cancelled", { _tag: "OutputCap" }],
        ["timed_out", { _tag: "Deadline", kind: "idle" }]
      ])
      yield* second.kill
      const third = yield* Lives.begin()
      yield* reconciled(third)
      const again = yield* third.run(jobsOf("s1"))
      assert.strictEqual((yield* (yield* again.errorOutput(loud.id)).read()).data, "err")
      assert.isTrue(yield* again.forget(loud.id))
      yield* third.kill
      const driver = yield* ProcessDriver.Service
      assert.isNull(yield* driver.detachedFiles?.read(loud.id, "stdout", 0, 10) ?? Effect.succeed(null))
    })
  )

  law(
    "is told of and forgotten by a runtime whose driver keeps no files",
    { server: child.prints("x").exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached" }))
      yield* world.advance("2 seconds")
      yield* first.kill
      const driver = yield* ProcessDriver.Service
      const second = yield* Lives.begin().pipe(
        Effect.provideService(ProcessDriver.Service, { ...driver, detachedFiles: null })
      )
      yield* reconciled(second)
      const jobs = yield* second.run(jobsOf("s1"))
      assert.strictEqual((yield* Effect.flip(jobs.output(id)))._tag, "OutputUnavailable")
      assert.deepStrictEqual([(yield* second.run(noticeIds)).length, yield* jobs.forget(id), yield* rows], [
        1,
        true,
        []
      ])
    })
  )

  law(
    "is given no more time by a wall clock that went back an hour",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.setWallClock(3_600_000)
      yield* first.run(start("server", { lifetime: "detached", deadline: "10 minutes" }))
      yield* world.advance("4 minutes")
      yield* first.close
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["adopted running"])
      yield* world.advance("10 minutes")
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["timed_out"], []])
    })
  )

  law(
    "whose exit nobody is told of is found over by a beat, and is no success",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server", { lifetime: "detached" }))
      yield* first.close
      const second = yield* Lives.begin()
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["adopted running"])
      yield* world.loseExit("server")
      yield* world.kill("server", 0)
      yield* world.advance("1 minute")
      assert.deepStrictEqual(yield* statuses, ["error"])
    })
  )

  law(
    "is stopped by its owner in any life",
    { server: child.ignores("SIGTERM") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached", grace: "1 second" }))
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      const jobs = yield* second.run(jobsOf("s1"))
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("10 seconds")
      assert.strictEqual((yield* Fiber.join(stopping)).status, "cancelled")
      assert.deepStrictEqual((yield* world.signals).map((line) => line.split(" ").slice(1).join(" ")), [
        "SIGTERM server",
        "SIGSTOP server",
        "SIGKILL server"
      ])
    })
  )

  law(
    "takes no input, which is said before anything starts",
    { server: child },
    Effect.gen(function*() {
      const life = yield* Lives.begin()
      const jobs = yield* life.run(jobsOf("s1"))
      const error = yield* Effect.flip(jobs.start(run("server", [], { stdin: "open" }), { lifetime: "detached" }))
      assert.deepStrictEqual([error.reason._tag, yield* rows], ["InvalidCommand", []])
    })
  )
})

describe("a row", () => {
  law(
    "that says no more than it has to is taken in with the defaults of this life, and with nothing that it does not say",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const ledger = yield* ProcessLedger.Service
      const bare = (id: string, change: Partial<ProcessLedger.LedgerRow>) =>
        ledger.insert(LedgerLaws.row(id, {
          owner: "s1",
          title: null,
          name: null,
          command: { name: "server", args: 0, digest: null },
          startedAt: 0,
          deadlineAt: null,
          policy: null,
          identity: null,
          holder: null,
          leaseUntil: 0,
          workspace: null,
          ...change
        }))
      yield* bare("running", {})
      yield* bare("ended", { status: "error", endedAt: 5 })
      yield* bare("detached", {
        lifetime: "detached",
        status: "error",
        endedAt: 6,
        output: { stdout: none, stderr: none }
      })
      yield* bare("quiet", {
        status: "error",
        endedAt: 7,
        output: { stdout: { ...none, sha256: "e3b0" }, stderr: null }
      })
      const life = yield* Lives.begin()
      const report = yield* reconciled(life)
      assert.deepStrictEqual(report.entries.map(({ detail, outcome }) => [outcome, detail]), [
        ["review", "this platform cannot tell whether it lives"]
      ])
      const jobs = yield* life.run(jobsOf("s1"))
      assert.deepStrictEqual(
        (yield* jobs.list).map(({ exit, id, output, status }) => [id, status, exit, output.bytesSeen]),
        [
          ["detached", "error", null, 0],
          ["ended", "error", null, 0],
          ["quiet", "error", null, 0],
          ["running", "kill_failed", null, 0]
        ]
      )
      assert.strictEqual((yield* Effect.flip(jobs.output("ended")))._tag, "OutputUnavailable")
      assert.strictEqual((yield* (yield* jobs.output("quiet")).read()).data, "")
      assert.deepStrictEqual([yield* world.signals, yield* world.looks], [[], 0])
    })
  )

  it.effect("is taken in by a runtime without a blob store, and forgotten with what it has", () =>
    Effect.gen(function*() {
      const ledger = yield* ProcessLedgerMemory.make
      const before = { pid: 7, startedAt: 1, bootId: "the boot before", marker: "m" }
      yield* ledger.insert(
        LedgerLaws.row("left", { owner: "s1", identity: before, holder: null, leaseUntil: 0, deadlineAt: null })
      )
      yield* Effect.gen(function*() {
        yield* moving(Recovery.Service.use((recovery) => recovery.started))
        const jobs = yield* jobsOf("s1")
        assert.deepStrictEqual((yield* jobs.list).map((job) => job.status), ["error"])
        assert.isTrue(yield* jobs.forget("left"))
        assert.deepStrictEqual(yield* ledger.rows(), [])
      }).pipe(Effect.provide(Layer.fresh(ProcessRuntime.layer.pipe(
        Layer.provide(Layer.succeed(ProcessLedger.Service, ledger)),
        Layer.provideMerge(ScriptedDriver.layer({ children: {} }))
      ))))
    }))
})

describe("on a platform that cannot tell processes apart", () => {
  law(
    "jobs run as anywhere else, and what is left of them is for review",
    { server: child, quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const blind = (driver: ProcessDriver.ProcessDriver): ProcessDriver.ProcessDriver => ({ ...driver, self: null })
      const [driver, ledger] = [yield* ProcessDriver.Service, yield* ProcessLedger.Service]
      const layer = Layer.fresh(ProcessRuntime.layer.pipe(
        Layer.provide(Layer.succeed(ProcessLedger.Service, ledger)),
        Layer.provide(Layer.succeed(ProcessDriver.Service, blind(driver)))
      ))
      yield* Effect.gen(function*() {
        yield* start("quick")
        yield* start("server")
        yield* world.advance("2 seconds")
        assert.deepStrictEqual((yield* rows).map(({ holder, status }) => [status, holder]), [
          ["completed", null],
          ["running", null]
        ])
      }).pipe(Effect.provide(layer))
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["completed", "cancelled"], []])
      yield* ledger.insert(
        LedgerLaws.row("left", { owner: "s1", startedAt: 0, leaseUntil: 0, deadlineAt: null, workspace: null })
      )
      yield* Effect.gen(function*() {
        const report = yield* moving(Recovery.Service.use((recovery) => recovery.started))
        assert.deepStrictEqual(outcomes(report), ["review kill_failed"])
      }).pipe(Effect.provide(layer))
    })
  )

  law(
    "a job whose row the ledger does not answer for is not started, and its row is not taken for one",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const [driver, ledger] = [yield* ProcessDriver.Service, yield* ProcessLedger.Service]
      yield* Effect.gen(function*() {
        const starting = yield* Effect.forkChild(Effect.flip(start("server")))
        yield* world.advance("1 minute")
        // The start was answered for before, and its end is told by its notice.
        assert.isDefined(starting.pollUnsafe())
        assert.deepStrictEqual([yield* world.spawned, (yield* list).map(({ recorded }) => recorded)], [0, [false]])
      }).pipe(Effect.provide(Layer.fresh(ProcessRuntime.layer.pipe(
        Layer.provide(Layer.succeed(ProcessLedger.Service, { ...ledger, insert: () => Effect.never })),
        Layer.provide(Layer.succeed(ProcessDriver.Service, { ...driver, self: null }))
      ))))
    })
  )
})

describe("a job that had ended before", () => {
  law(
    "is listed, and its output is read from its blob, or said to be unavailable",
    {
      loud: child.prints("0123456789".repeat(3000)).exits(0, { after: "1 second" }),
      quiet: child.prints("hi").exits(0, { after: "1 second" }),
      mute: child.exits(0, { after: "1 second" })
    },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin({ outputBytes: 8192 })
      const ids = yield* first.run(
        Effect.forEach(["loud", "quiet", "mute"], (name) => Effect.map(start(name), ({ id }) => id))
      )
      yield* world.advance("5 seconds")
      yield* first.run(notices)
      yield* first.kill
      const second = yield* Lives.begin()
      const report = yield* reconciled(second)
      assert.deepStrictEqual([report.known, report.entries], [3, []])
      const jobs = yield* second.run(jobsOf("s1"))
      assert.deepStrictEqual((yield* jobs.list).map(({ id }) => id), ids)
      const [loud = "", quiet = "", mute = ""] = ids
      const output = yield* jobs.output(loud)
      assert.deepStrictEqual((yield* output.read({ since: 10_000, limit: 10 })).data, "0123456789")
      assert.strictEqual((yield* output.metadata).bytesSeen, 30_000)
      assert.strictEqual((yield* Effect.flip(jobs.output(quiet)))._tag, "OutputUnavailable")
      assert.strictEqual((yield* (yield* jobs.output(mute)).read()).data, "")
      const next = yield* jobs.start(run("mute"))
      assert.isTrue(ids.every((id) => id < next.id))
      assert.isTrue(yield* jobs.forget(loud))
      assert.deepStrictEqual((yield* rows).length, 3)
    })
  )
})

describe("summarize", () => {
  const entry = (id: string, change: Partial<Recovery.Entry> = {}): Recovery.Entry => ({
    id,
    owner: "s1",
    title: null,
    outcome: "ended",
    status: "cancelled",
    detail: null,
    ...change
  })
  const report = (change: Partial<Recovery.Report> = {}): Recovery.Report => ({
    entries: [],
    known: 0,
    workspaces: [],
    unreadable: false,
    failed: false,
    durationMillis: 12.4,
    ...change
  })
  const workspace = (outcome: Recovery.Report["workspaces"][number]["outcome"]) => ({
    id: "w-1",
    owner: null,
    outcome,
    problem: null,
    by: null
  })

  it("tells in one line when there was nothing to do, and when nothing could be done", () => {
    assert.strictEqual(Recovery.summarize(report()), "recovery: nothing to do (12 ms)")
    assert.strictEqual(Recovery.summarize(report({ failed: true })), "recovery: the ledger could not be read")
  })

  it("counts what came to what, and shows the entries, those for review first", () => {
    const text = Recovery.summarize(report({
      entries: [
        entry("a", { title: "dev" }),
        entry("b", { outcome: "review", status: "kill_failed", detail: "1 left" })
      ],
      known: 3,
      workspaces: [workspace("removed"), workspace("kept"), workspace("kept")],
      unreadable: true
    }))
    assert.deepStrictEqual(text.split("\n"), [
      "recovery: 1 ended, 1 review; 3 had ended before; 1 workspace removed; 2 workspaces kept; some rows could not be read (12 ms)",
      "  id  owner  title  outcome  status       detail",
      "  b   s1     -      review   kill_failed  1 left",
      "  a   s1     dev    ended    cancelled    -"
    ])
  })

  it("shows a bounded number of them, and counts the others", () => {
    const entries = Array.from({ length: Recovery.maxSummaryEntries + 3 }, (_, n) => entry(`e${n}`))
    const lines = Recovery.summarize(report({ entries })).split("\n")
    assert.deepStrictEqual([lines.length, lines.at(-1)], [1 + 1 + Recovery.maxSummaryEntries + 1, "  … and 3 more"])
  })
})
