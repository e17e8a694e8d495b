import { assert, it } from "@effect/vitest"
import { BackgroundProcess, CommandSpec, ProcessLedger, ShutdownBarrier } from "@procyon/runtime"
import { child, RuntimeTest, World } from "@procyon/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { law } from "./law.ts"

const run = CommandSpec.make

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

const reasonOf = <A>(start: Effect.Effect<A, BackgroundProcess.StartError>) =>
  Effect.map(Effect.flip(start), (error) => error.reason._tag)

/** Collects events while the rest of a law goes on. */
const collect = (jobs: BackgroundProcess.Jobs) =>
  Effect.gen(function*() {
    const seen: Array<BackgroundProcess.Event> = []
    yield* Effect.forkScoped(
      Stream.runForEach(jobs.events, (event) => Effect.sync(() => seen.push(event))),
      { startImmediately: true }
    )
    return seen
  })

law(
  "a 24-hour deadline, a grace, a refused KILL, kill_failed, and a retry that is obeyed",
  { server: child.prints("hi\n").ignores("SIGTERM").refuses("SIGKILL", 1) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"), { deadline: "24 hours" })
    yield* TestClock.adjust(24 * 3_600_000 - 1)
    assert.deepStrictEqual(yield* world.signals, [])
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual(yield* world.signals, ["86400000 SIGTERM server"])
    assert.strictEqual((yield* jobs.get(job.id)).phase, "terminating")
    yield* TestClock.adjust("8 seconds") // grace 5 s, force window 3 s
    const failed = yield* jobs.get(job.id)
    assert.strictEqual(failed.status, "kill_failed")
    assert.strictEqual(failed.phase, "unresolved")
    assert.deepStrictEqual(failed.receipt?.survivors.map(({ name, refused }) => [name, refused]), [["server", "EPERM"]])
    const retry = yield* Effect.forkChild(jobs.retryTermination(job.id))
    yield* world.advance("5 seconds")
    const receipt = yield* Fiber.join(retry)
    assert.strictEqual(receipt.status, "timed_out")
    assert.deepStrictEqual(receipt.survivors, [])
    assert.deepStrictEqual((yield* jobs.notices).map((notice) => notice._tag === "Job" && notice.status), [
      "kill_failed",
      "timed_out"
    ])
    assert.deepStrictEqual(yield* world.alive, [])
  })
)

for (const [name, millis] of [["2^31 ms", 2 ** 31], ["400 days", 400 * 86_400_000]] as const) {
  law(
    `a deadline of ${name} ends the job then, and not before`,
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const job = yield* jobs.start(run("server"), { deadline: millis })
      assert.strictEqual(job.deadlineAt, millis)
      yield* TestClock.adjust(millis - 1)
      assert.strictEqual((yield* jobs.get(job.id)).status, "running")
      yield* world.advance("1 millis")
      assert.strictEqual((yield* jobs.wait(job.id)).status, "timed_out")
    }),
    { heartbeatMillis: 365 * 86_400_000, leaseMillis: 3 * 365 * 86_400_000 }
  )
}

law(
  "a job beats once an interval while it runs, and not after",
  { server: child.prints("x", { after: "7 seconds" }).exits(0, { after: "10 seconds" }) },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const seen = yield* collect(jobs)
    const job = yield* jobs.start(run("server"))
    yield* TestClock.adjust("1 minute")
    const beats = seen.filter((event) => event._tag === "Heartbeat")
    assert.deepStrictEqual(beats.map((beat) => [beat.elapsedMillis, beat.idleMillis, beat.bytesSeen]), [
      [5000, 5000, 0],
      [10_000, 3000, 1],
      [15_000, 8000, 1]
    ])
    assert.deepStrictEqual(seen.map((event) => event._tag), [
      "Started",
      "Heartbeat",
      "Progress",
      "Heartbeat",
      "Heartbeat",
      "Exited",
      "Draining",
      "Ended"
    ])
    assert.strictEqual((yield* jobs.get(job.id)).status, "completed")
  }).pipe(Effect.scoped)
)

law(
  "an exit that is told late is an event before the end, and nothing comes after that",
  { server: child.exitSeenAfter("100 millis") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const seen = yield* collect(jobs)
    const { id } = yield* jobs.start(run("server"))
    const stop = yield* Effect.forkChild(jobs.stop(id))
    yield* world.advance("1 second")
    assert.strictEqual((yield* Fiber.join(stop)).status, "cancelled")
    assert.deepStrictEqual(seen.map((event) => event._tag), ["Started", "Draining", "Terminating", "Exited", "Ended"])
  }).pipe(Effect.scoped)
)

law(
  "an idle deadline counts from the last output",
  { server: child.prints("a", { after: "3 seconds" }).prints("b", { after: "3 seconds" }) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"), { idleDeadline: "4 seconds" })
    yield* TestClock.adjust("10 seconds")
    assert.deepStrictEqual(yield* world.signals, ["10000 SIGTERM server"])
    const ended = yield* jobs.wait(job.id)
    assert.strictEqual(ended.status, "timed_out")
    assert.deepStrictEqual(ended.receipt?.cause, { _tag: "Deadline", kind: "idle" })
  })
)

law(
  "extend counts from now, and zero takes the deadline away",
  { server: child },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"), { deadline: "10 seconds" })
    yield* TestClock.adjust("9 seconds")
    assert.strictEqual((yield* jobs.extend(job.id, "10 seconds")).deadlineAt, 19_000)
    yield* TestClock.adjust("9 seconds")
    assert.strictEqual((yield* jobs.get(job.id)).phase, "running")
    assert.strictEqual((yield* jobs.extend(job.id, 0)).deadlineAt, null)
    yield* TestClock.adjust("1 hour")
    assert.strictEqual((yield* jobs.get(job.id)).phase, "running")
    assert.strictEqual((yield* Effect.flip(jobs.extend(job.id, -1)))._tag, "InvalidCommand")
  })
)

law(
  "a deadline cap clamps what is asked for, shows both, and adds no deadline to a job that asked for none",
  { server: child },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const clamped = yield* jobs.start(run("server"), { deadline: "1 day" })
    assert.deepStrictEqual(
      [clamped.deadlineAskedMillis, clamped.deadlineMillis, clamped.deadlineAt],
      [86_400_000, 60_000, 60_000]
    )
    const free = yield* jobs.start(run("server"))
    assert.strictEqual(free.deadlineAt, null)
  }),
  { deadlineCapMillis: 60_000 }
)

law(
  "the cap on running jobs counts those that could not be ended, and a failed start takes no place",
  { stuck: child.survives("SIGTERM").survives("SIGKILL"), server: child, broken: child.failsToStart("NotExecutable") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const stuck = yield* jobs.start(run("stuck"))
    const stop = yield* Effect.forkChild(jobs.stop(stuck.id))
    yield* world.advance("8 seconds")
    assert.strictEqual((yield* Fiber.join(stop)).status, "kill_failed")
    assert.strictEqual(yield* reasonOf(jobs.start(run("broken"))), "SpawnFailed")
    assert.strictEqual(yield* reasonOf(jobs.start(run("missing"))), "SpawnFailed")
    yield* jobs.start(run("server"))
    const refused = yield* Effect.flip(jobs.start(run("server")))
    assert.deepStrictEqual(refused.reason, new BackgroundProcess.TooManyJobs({ limit: 2 }))
    assert.deepStrictEqual((yield* jobs.list).map((info) => info.command), ["stuck", "server"])
    yield* (yield* jobsOf("s2")).start(run("server")) // the cap is an owner's own
  }),
  { maxRunningPerOwner: 2 }
)

law(
  "a failed start is a typed error: not listed, no notice, and its row says error",
  { broken: child.failsToStart("CwdMissing", "ENOENT") },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const error = yield* Effect.flip(jobs.start(run("broken")))
    assert.strictEqual(error.reason._tag === "SpawnFailed" && error.reason.problem, "CwdMissing")
    assert.deepStrictEqual(yield* jobs.list, [])
    assert.deepStrictEqual(yield* jobs.notices, [])
    const rows = yield* ProcessLedger.Service.use((ledger) => ledger.rows())
    assert.deepStrictEqual(rows.map((row) => row.status), ["error"])
  })
)

law(
  "a name is an owner's own, taken while its job is not settled, and joined only where that was asked for",
  { build: child.exits(0, { after: "5 seconds" }) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const first = yield* jobs.start(run("build"), { name: "build" })
    const taken = yield* Effect.flip(jobs.start(run("build"), { name: "build" }))
    assert.deepStrictEqual(taken.reason, new BackgroundProcess.ProcessAlreadyExists({ id: first.id }))
    assert.strictEqual(yield* world.spawned, 1)
    const joined = yield* jobs.start(run("build"), { name: "build", onExisting: "join" })
    assert.strictEqual(joined.id, first.id)
    yield* (yield* jobsOf("s2")).start(run("build"), { name: "build" })
    yield* TestClock.adjust("5 seconds")
    const second = yield* jobs.start(run("build"), { name: "build" })
    assert.notStrictEqual(second.id, first.id)
    assert.isTrue(second.id > first.id)
  })
)

law(
  "start answers after a second with a job in phase starting, and the late failure is told by a notice",
  { slow: child.startsAfter("3 seconds").exits(0), late: child.failsToStart("Other").startsAfter("3 seconds") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const slow = yield* Effect.forkChild(jobs.start(run("slow")))
    const late = yield* Effect.forkChild(jobs.start(run("late")))
    yield* world.advance("1 second")
    const info = yield* Fiber.join(slow)
    assert.deepStrictEqual([info.phase, info.status], ["starting", "running"])
    const failing = yield* Fiber.join(late)
    yield* world.advance("3 seconds")
    assert.strictEqual((yield* jobs.get(info.id)).status, "completed")
    assert.strictEqual((yield* jobs.get(failing.id)).status, "error")
    assert.deepStrictEqual(
      (yield* jobs.notices).flatMap((notice) => notice._tag === "Job" ? [[notice.id, notice.status]] : []),
      [[info.id, "completed"], [failing.id, "error"]]
    )
  })
)

law(
  "a driver that never answers costs the start window, and the outcome is called unknown",
  { mute: child.neverAnswers() },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const start = yield* Effect.forkChild(jobs.start(run("mute")))
    yield* world.advance("1 second")
    const { id } = yield* Fiber.join(start)
    yield* world.advance("9 seconds")
    yield* world.advance("3 seconds")
    const info = yield* jobs.get(id)
    assert.strictEqual(info.status, "error")
    assert.include(info.error ?? "", "OutcomeUnknown")
    assert.deepStrictEqual(yield* world.alive, [])
  })
)

law(
  "five stops are one termination with five equal answers, one end and one notice",
  { server: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const seen = yield* collect(jobs)
    const { id } = yield* jobs.start(run("server"))
    const stops = yield* Effect.forkChild(
      Effect.all(Array.from({ length: 5 }, () => jobs.stop(id)), { concurrency: "unbounded" })
    )
    yield* world.advance("5 seconds")
    const answers = yield* Fiber.join(stops)
    assert.strictEqual(answers.length, 5)
    for (const answer of answers) assert.deepStrictEqual(answer, answers[0])
    assert.strictEqual(answers[0]?.status, "cancelled")
    assert.deepStrictEqual(
      (yield* world.signals).filter((line) => !line.includes("SIGSTOP")),
      ["0 SIGTERM server", "5000 SIGKILL server"]
    )
    assert.strictEqual(seen.filter((event) => event._tag === "Ended").length, 1)
    assert.strictEqual((yield* jobs.notices).length, 1)
    const again = yield* jobs.stop(id)
    assert.deepStrictEqual(again, answers[0])
    assert.deepStrictEqual(yield* jobs.notices, [])
  }).pipe(Effect.scoped)
)

law(
  "stopAll costs one grace for all of an owner's jobs and touches nobody else's",
  { server: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const mine = yield* jobsOf("s1")
    const theirs = yield* jobsOf("s2")
    for (let n = 0; n < 6; n++) yield* mine.start(run("server"))
    const other = yield* theirs.start(run("server"))
    const stop = yield* Effect.forkChild(mine.stopAll)
    yield* world.advance("5 seconds")
    assert.deepStrictEqual((yield* Fiber.join(stop)).map((info) => info.status), Array(6).fill("cancelled"))
    assert.strictEqual((yield* theirs.get(other.id)).phase, "running")
    assert.deepStrictEqual(yield* mine.stopAll, [])
  })
)

law(
  "a thousand jobs of an owner that ignore their stop cost one grace",
  { server: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    yield* Effect.forEach(Array.from({ length: 1000 }), () => jobs.start(run("server")), { discard: true })
    assert.strictEqual((yield* world.alive).length, 1000)
    const stop = yield* Effect.forkChild(jobs.stopAll, { startImmediately: true })
    yield* world.advance("5 seconds")
    const ended = yield* Fiber.join(stop)
    assert.strictEqual(ended.length, 1000)
    assert.isTrue(ended.every((info) => info.status === "cancelled" && info.receipt?.durationMillis === 5000))
    assert.deepStrictEqual(yield* world.alive, [])
  }),
  // The clock of a test wakes them one by one, so that they share no look: seldom is enough.
  { maxRunningPerOwner: 0, pollMillis: 2500, pollMaxMillis: 2500 }
)

law(
  "a choice that is none is refused by place, and starts nothing",
  { server: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    // Without types anything may be given.
    const choices = { lifetime: "forever", onExisting: "replace" } as const
    for (const where of ["lifetime", "onExisting"] as const) {
      const start = jobs.start(run("server"), { [where]: choices[where] })
      const { reason } = yield* Effect.flip(start)
      assert.deepStrictEqual(reason, new CommandSpec.InvalidCommand({ where, problem: "Unsupported" }))
    }
    assert.strictEqual(yield* world.spawned, 0)
    assert.deepStrictEqual(yield* jobs.list, [])
  })
)

law(
  "a scoped owner ends its session's jobs with its scope, refuses later starts, and leaves application jobs alone",
  { server: child },
  Effect.gen(function*() {
    const service = yield* BackgroundProcess.Service
    const jobs = yield* Effect.scoped(Effect.gen(function*() {
      const owned = yield* service.scoped("s1")
      yield* owned.start(run("server"))
      yield* owned.start(run("server"), { lifetime: "application" })
      return owned
    }))
    assert.deepStrictEqual((yield* jobs.list).map((info) => [info.status, info.phase]), [
      ["cancelled", "settled"],
      ["running", "running"]
    ])
    assert.strictEqual(yield* reasonOf(jobs.start(run("server"))), "OwnerRetired")
  })
)

law(
  "a detached job is refused by name, and starts nothing",
  { server: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    assert.strictEqual(yield* reasonOf(jobs.start(run("server"), { lifetime: "detached" })), "DetachedUnsupported")
    assert.strictEqual(yield* world.spawned, 0)
  })
)

law(
  "a foreign id and an unknown one are answered alike by everything that takes an id",
  { server: child },
  Effect.gen(function*() {
    const mine = yield* jobsOf("s1")
    const theirs = yield* jobsOf("s2")
    const { id } = yield* mine.start(run("server"))
    const everything = (jobs: BackgroundProcess.Jobs, at: string) => [
      jobs.get(at),
      jobs.output(at),
      jobs.errorOutput(at),
      jobs.retrySpill(at),
      jobs.write(at, "x"),
      jobs.closeStdin(at),
      jobs.wait(at),
      jobs.termination(at),
      jobs.stop(at),
      jobs.retryTermination(at),
      jobs.extend(at, "1 second"),
      jobs.forget(at)
    ]
    for (const at of [id, "never"]) {
      for (const call of everything(theirs, at)) {
        const error = yield* Effect.flip<unknown, unknown, never>(call)
        assert.deepStrictEqual(error, new BackgroundProcess.ProcessNotFound({ id: at }))
      }
    }
    assert.strictEqual((yield* mine.get(id)).phase, "running")
  })
)

law(
  "interrupting a waiter does nothing to the job, and other waiters get its end",
  { server: child.exits(3, { after: "10 seconds" }) },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server"))
    const gone = yield* Effect.forkChild(jobs.wait(id), { startImmediately: true })
    const stays = yield* Effect.forkChild(jobs.wait(id), { startImmediately: true })
    yield* Fiber.interrupt(gone)
    assert.strictEqual((yield* jobs.get(id)).phase, "running")
    yield* TestClock.adjust("10 seconds")
    const ended = yield* Fiber.join(stays)
    assert.deepStrictEqual([ended.status, ended.exit?.code, ended.error], ["error", 3, "exit code 3"])
  })
)

law(
  "interrupting a starter leaves a listed job or nothing, and never a process without a record",
  { server: child, slow: child.startsAfter("500 millis") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const before = yield* Effect.forkChild(jobs.start(run("server")))
    before.interruptUnsafe() // before its first step
    yield* world.drain
    assert.deepStrictEqual([yield* world.alive, yield* jobs.list], [[], []])
    const during = yield* Effect.forkChild(jobs.start(run("slow")), { startImmediately: true })
    yield* world.drain
    yield* Fiber.interrupt(during)
    yield* world.advance("1 minute")
    assert.deepStrictEqual([yield* world.alive, yield* jobs.list, yield* jobs.notices], [[], [], []])
  })
)

law(
  "an observer that throws, one that hangs and one that is slow change nothing, and miss events knowingly",
  { server: child.exits(0, { after: "1 second" }) },
  Effect.gen(function*() {
    const service = yield* BackgroundProcess.Service
    const world = yield* World
    const seen: Array<BackgroundProcess.Event> = []
    yield* service.observe(() => Effect.die(new Error("observer")))
    yield* service.observe(() => Effect.never)
    const gate = yield* Deferred.make<void>()
    yield* service.observe((event) => Effect.andThen(Deferred.await(gate), Effect.sync(() => seen.push(event))))
    const jobs = service.of("s1")
    for (let n = 0; n < 8; n++) yield* jobs.start(run("server"))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual((yield* jobs.list).map((info) => info.status), Array(8).fill("completed"))
    yield* Deferred.succeed(gate, undefined)
    yield* world.drain
    const missed = seen.flatMap((event) => event._tag === "Missed" ? [event.count] : [])
    assert.isAbove(missed.length, 0)
    assert.strictEqual(missed.reduce((a, b) => a + b, 0) + seen.length - missed.length, 8 * 4)
    assert.strictEqual(seen.at(-1)?._tag, "Ended")
  }).pipe(Effect.scoped),
  { eventBuffer: 4 }
)

law(
  "an observer may call the service from within an event",
  { server: child.exits(0, { after: "1 second" }) },
  Effect.gen(function*() {
    const service = yield* BackgroundProcess.Service
    const jobs = service.of("s1")
    const found: Array<string> = []
    yield* service.observe((event) =>
      event._tag === "Ended"
        ? Effect.orDie(Effect.map(jobs.get(event.id), (info) => found.push(info.status)))
        : Effect.void
    )
    yield* jobs.start(run("server"))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(found, ["completed"])
  }).pipe(Effect.scoped)
)

law(
  "notices are drained once, in order, with a tail that begins at a character border",
  {
    server: child.prints("€".repeat(400)).exits(0, { after: "1 second" }),
    bad: child.exits(2, { after: "2 seconds" })
  },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const waiting = yield* Effect.forkChild(jobs.awaitNotices, { startImmediately: true })
    yield* jobs.start(run("server"), { title: "first" })
    yield* jobs.start(run("bad"))
    yield* TestClock.adjust("1 second")
    const [first] = yield* Fiber.join(waiting)
    assert.isTrue(first?._tag === "Job")
    if (first?._tag !== "Job") return
    assert.deepStrictEqual([first.title, first.status, first.exitCode, first.bytesSeen, first.durationMillis], [
      "first",
      "completed",
      0,
      1200,
      1000
    ])
    assert.strictEqual(first.tail, "€".repeat(166))
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual((yield* jobs.notices).map((notice) => notice._tag === "Job" && notice.exitCode), [2])
    assert.deepStrictEqual(yield* jobs.notices, [])
  })
)

law(
  "past the cap the oldest notices become one counted summary, and records go only once they were told of",
  { server: child.exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    for (let n = 0; n < 10; n++) {
      yield* jobs.start(run("server"))
      yield* world.advance("1 millis")
    }
    assert.strictEqual((yield* jobs.list).length, 10)
    const notices = yield* jobs.notices
    assert.deepStrictEqual(notices.map((notice) => notice._tag), ["Summary", "Job", "Job", "Job", "Job"])
    assert.deepStrictEqual(notices[0], { _tag: "Summary", dropped: 6 })
    yield* world.drain
    assert.strictEqual((yield* jobs.list).length, 3)
    assert.strictEqual((yield* ProcessLedger.Service.use((ledger) => ledger.rows())).length, 3)
  }),
  { maxNoticesPerOwner: 4, maxFinishedPerOwner: 3 }
)

law(
  "of owners that have retired only the last are kept, and of what could not be ended nothing is dropped",
  { server: child.exits(0), stuck: child.refuses("SIGTERM").refuses("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const service = yield* BackgroundProcess.Service
    const ledger = yield* ProcessLedger.Service
    const retire = (owner: string) =>
      Effect.gen(function*() {
        const retiring = yield* Effect.forkChild((yield* jobsOf(owner)).retire)
        yield* world.advance("8 seconds")
        yield* Fiber.join(retiring)
      })
    yield* (yield* jobsOf("stuck")).start(run("stuck"))
    yield* retire("stuck")
    for (const owner of ["s1", "s2", "s3"]) {
      yield* (yield* jobsOf(owner)).start(run("server"))
      yield* retire(owner)
    }
    assert.deepStrictEqual(yield* service.owners, ["stuck", "s2", "s3"])
    assert.deepStrictEqual((yield* ledger.rows()).map((row) => row.owner), ["stuck", "s2", "s3"])
    assert.strictEqual(yield* reasonOf((yield* jobsOf("s1")).start(run("server"))), "OwnerRetired")
    yield* world.kill("stuck")
  }),
  { maxRetiredOwners: 3 }
)

law(
  "an owner that retires without ever having had a job takes its turn among those that have retired",
  {},
  Effect.gen(function*() {
    for (const owner of ["s1", "s2", "s3"]) yield* (yield* jobsOf(owner)).retire
    const service = yield* BackgroundProcess.Service
    assert.deepStrictEqual(yield* service.owners, [])
    assert.strictEqual(yield* reasonOf((yield* jobsOf("s1")).start(run("server"))), "OwnerRetired")
  }),
  { maxRetiredOwners: 1 }
)

law(
  "all owners that have retired, and all starts that failed, are kept where neither is bounded",
  { server: child.exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const service = yield* BackgroundProcess.Service
    for (const owner of ["s1", "s2", "s3"]) {
      const jobs = yield* jobsOf(owner)
      yield* jobs.start(run("server"))
      yield* Effect.flip(jobs.start(run("missing")))
      yield* world.drain
      yield* jobs.retire
    }
    assert.deepStrictEqual(yield* service.owners, ["s1", "s2", "s3"])
    assert.strictEqual((yield* ProcessLedger.Service.use((ledger) => ledger.rows())).length, 6)
  }),
  { maxRetiredOwners: 0, maxFailedStartRows: 0 }
)

law(
  "an owner is there as long as a job or a notice of its is, and not after",
  { server: child.exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const service = yield* BackgroundProcess.Service
    const jobs = yield* jobsOf("s1")
    const ids = [(yield* jobs.start(run("server"))).id, (yield* jobs.start(run("server"))).id]
    yield* world.drain
    for (const id of ids) assert.isTrue(yield* jobs.forget(id))
    assert.deepStrictEqual([yield* jobs.list, yield* service.owners], [[], ["s1"]])
    assert.deepStrictEqual((yield* jobs.notices).map(({ _tag }) => _tag), ["Summary", "Job"])
    assert.deepStrictEqual(yield* service.owners, [])
  }),
  { maxNoticesPerOwner: 1 }
)

law(
  "both streams of a job are read where they are apart, and stderr is empty where it is merged",
  { server: child.prints("out").prints("err", { stream: "stderr" }) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const apart = yield* jobs.start(run("server"), { streams: "separate" })
    const merged = yield* jobs.start(run("server"))
    yield* world.drain
    const read = (view: Effect.Effect<BackgroundProcess.View, unknown>) =>
      Effect.flatMap(view, (view) => Effect.map(view.read(), ({ data }) => data))
    const texts = yield* Effect.all(
      [apart, merged].flatMap(({ id }) => [read(jobs.output(id)), read(jobs.errorOutput(id))])
    )
    assert.deepStrictEqual(texts, ["out", "err", "outerr", ""])
  })
)

law(
  "of starts that failed only the last rows are kept",
  {},
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    for (let n = 0; n < 5; n++) yield* Effect.flip(jobs.start(run("missing")))
    yield* world.drain
    const rows = yield* ProcessLedger.Service.use((ledger) => ledger.rows())
    assert.deepStrictEqual(rows.map((row) => row.status), ["error", "error"])
  }),
  { maxFailedStartRows: 2 }
)

law(
  "forget drops a settled job and no other, and its output stays readable where it was held",
  { server: child.prints("hello").exits(0, { after: "1 second" }) },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server"))
    assert.isFalse(yield* jobs.forget(id))
    const output = yield* jobs.output(id)
    yield* TestClock.adjust("1 second")
    assert.isTrue(yield* jobs.forget(id))
    assert.deepStrictEqual(yield* Effect.flip(jobs.get(id)), new BackgroundProcess.ProcessNotFound({ id }))
    assert.strictEqual((yield* output.read()).data, "hello")
  })
)

law(
  "the row is written before the start, moved before anybody is told, and never says more than a summary",
  { server: child.exits(0, { after: "1 second" }) },
  Effect.gen(function*() {
    const service = yield* BackgroundProcess.Service
    const ledger = yield* ProcessLedger.Service
    const told: Array<string | undefined> = []
    yield* service.observe((event) =>
      event._tag === "Ended"
        ? Effect.orDie(Effect.map(ledger.get(event.id), (row) => told.push(row?.status)))
        : Effect.void
    )
    const jobs = service.of("s1")
    const { id } = yield* jobs.start(run("server", ["--token=canary"]), { deadline: "1 hour" })
    const row = yield* ledger.get(id)
    assert.strictEqual(row?.status, "running")
    assert.isNotNull(row?.identity ?? null)
    assert.strictEqual(row?.deadlineAt, 3_600_000)
    assert.notInclude(JSON.stringify(row), "canary")
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(told, ["completed"])
    const ended = yield* ledger.get(id)
    assert.strictEqual(ended?.termination?.status, "completed")
    assert.strictEqual((yield* jobs.get(id)).recorded, true)
  }).pipe(Effect.scoped)
)

law(
  "equal commands share a digest in their rows, also when only a secret differs, and another runtime has another",
  { server: child },
  Effect.gen(function*() {
    const digestOf = (args: ReadonlyArray<CommandSpec.Word>) =>
      Effect.gen(function*() {
        const { id } = yield* (yield* jobsOf("s1")).start(run("server", args))
        const row = yield* ProcessLedger.Service.use((ledger) => ledger.get(id))
        return row?.command.digest
      })
    const one = yield* digestOf(["a", Redacted.make("x")])
    assert.match(one ?? "", /^[0-9a-f]{16}$/)
    assert.strictEqual(yield* digestOf(["a", Redacted.make("y")]), one)
    assert.notStrictEqual(yield* digestOf(["b", Redacted.make("x")]), one)
    const elsewhere = yield* Effect.provide(
      digestOf(["a", Redacted.make("x")]),
      RuntimeTest.layer({ children: { server: child } }),
      { local: true }
    )
    assert.notStrictEqual(elsewhere, one)
  })
)

law(
  "stdin is written in order, counted, and refused once it is closed or the job drains",
  { cat: child.readsStdin({ echo: true }).exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("cat", [], { stdin: "open" }))
    yield* jobs.write(id, "one ")
    yield* jobs.write(id, new TextEncoder().encode("two"))
    yield* jobs.closeStdin(id)
    assert.deepStrictEqual((yield* Effect.flip(jobs.write(id, "three")))._tag, "StdinClosed")
    yield* world.drain
    const ended = yield* jobs.wait(id)
    assert.deepStrictEqual([ended.status, ended.stdinAccepted], ["completed", 7])
    assert.strictEqual((yield* (yield* jobs.output(id)).read()).data, "one two")
  })
)

law(
  "the leftovers of a leader that ended by itself are ended before the job settles, and kept only where that was asked for",
  { leader: child.forks("rest", child, { escapes: "session" }).exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const ended = yield* jobs.start(run("leader"))
    yield* world.advance("1 second")
    const info = yield* jobs.get(ended.id)
    assert.deepStrictEqual([info.status, info.receipt?.leftovers.map(({ name }) => name)], ["completed", ["rest"]])
    assert.deepStrictEqual(yield* world.alive, [])
    const kept = yield* jobs.start(run("leader"), { leftovers: "keep" })
    yield* world.advance("1 second")
    const keeping = yield* jobs.get(kept.id)
    assert.deepStrictEqual([keeping.status, keeping.receipt?.keptLeftovers], ["completed", true])
    assert.deepStrictEqual(yield* world.alive, ["rest"])
    yield* world.kill("rest")
  })
)

law(
  "a signal from outside is an error of the job, and its detail says that it was not sent by this runtime",
  { server: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server"))
    yield* world.kill("server", "SIGTERM")
    yield* world.drain
    const { error, status } = yield* jobs.wait(id)
    assert.deepStrictEqual([status, error], ["error", "ended by SIGTERM, which was not sent by this runtime"])
  })
)

law(
  "of what could not be ended stop is the retry, and what has ended is neither stopped, retried nor extended any more",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL", 1), polite: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const stuck = yield* jobs.start(run("stuck"))
    const polite = yield* jobs.start(run("polite"))
    const stopping = yield* Effect.forkChild(Effect.all([jobs.stop(stuck.id), jobs.stop(stuck.id)]))
    yield* world.advance("20 seconds")
    assert.deepStrictEqual((yield* Fiber.join(stopping)).map(({ status }) => status), ["kill_failed", "cancelled"])
    const again = yield* jobs.start(run("stuck"))
    yield* Effect.forkChild(jobs.stop(again.id))
    yield* world.advance("10 seconds")
    const all = yield* Effect.forkChild(jobs.stopAll)
    yield* world.advance("10 seconds")
    assert.deepStrictEqual((yield* Fiber.join(all)).map(({ id, status }) => [id, status]), [
      [polite.id, "cancelled"],
      [again.id, "cancelled"]
    ])
    const ended = yield* jobs.get(polite.id)
    assert.deepStrictEqual(yield* jobs.stop(polite.id), ended)
    assert.deepStrictEqual(yield* jobs.retryTermination(polite.id), ended.receipt)
    assert.deepStrictEqual(yield* jobs.extend(polite.id, "1 hour"), ended)
    assert.deepStrictEqual(yield* world.alive, [])
  })
)

law(
  "records of jobs that have ended are kept without a bound where none is set, and writes wait for a start",
  { server: child.exits(0), cat: child.startsAfter("2 seconds").readsStdin({ echo: true }).exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    for (let n = 0; n < 5; n++) yield* jobs.start(run("server"))
    yield* world.drain
    yield* jobs.notices
    yield* world.drain
    assert.strictEqual((yield* jobs.list).length, 5)
    const starting = yield* Effect.forkChild(jobs.start(run("cat", [], { stdin: "open" })))
    yield* world.advance("1 second")
    const { id, phase } = yield* Fiber.join(starting)
    const writing = yield* Effect.forkChild(Effect.andThen(jobs.write(id, "hello"), jobs.closeStdin(id)))
    yield* world.advance("3 seconds")
    yield* Fiber.join(writing)
    assert.deepStrictEqual([phase, (yield* jobs.get(id)).stdinAccepted], ["starting", 5])
    assert.strictEqual((yield* (yield* jobs.output(id)).read()).data, "hello")
  }),
  { maxFinishedPerOwner: 0 }
)

law(
  "an output cap ends the job as cancelled, and what came is kept and counted",
  { noisy: child.prints("x".repeat(5000)).prints("y", { after: "1 hour" }) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("noisy"), { output: { cap: 1000 } })
    yield* world.advance("1 second")
    const ended = yield* jobs.get(id)
    assert.deepStrictEqual([ended.status, ended.receipt?.cause._tag, ended.output.bytesSeen], [
      "cancelled",
      "OutputCap",
      5000
    ])
  })
)

it.effect("a plugin that asks for the current owner gets its jobs, and closing its layer retires the owner", () =>
  Effect.gen(function*() {
    const plugin = Effect.gen(function*() {
      const jobs = yield* BackgroundProcess.CurrentOwner
      yield* jobs.start(run("server"))
      return jobs
    })
    const jobs = yield* Effect.provide(plugin, BackgroundProcess.layerOwner("plugin-7"))
    assert.strictEqual(jobs.owner, "plugin-7")
    assert.deepStrictEqual((yield* jobs.list).map((info) => info.status), ["cancelled"])
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child } }))))

it.effect("a ledger that fails in the middle of a run harms no job, and is caught up with once it works again", () =>
  Effect.gen(function*() {
    let broken = false
    const flaky = Layer.effect(
      ProcessLedger.Service,
      Effect.map(ProcessLedger.Service, (ledger) =>
        ProcessLedger.Service.of({
          ...ledger,
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              broken
                ? Effect.fail(new ProcessLedger.LedgerError({ operation: "transition", problem: "Full" }))
                : ledger.transition(id, expected, changes)
            )
        }))
    )
    yield* Effect.gen(function*() {
      const jobs = yield* jobsOf("s1")
      const ledger = yield* ProcessLedger.Service
      const { id } = yield* jobs.start(run("server"))
      broken = true
      yield* TestClock.adjust("1 second")
      const ended = yield* jobs.wait(id)
      assert.deepStrictEqual([ended.status, ended.recorded], ["completed", false])
      assert.strictEqual((yield* jobs.notices).length, 1)
      assert.strictEqual((yield* ledger.get(id))?.status, "running")
      broken = false
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* ledger.get(id))?.status, "completed")
      assert.isTrue((yield* jobs.get(id)).recorded)
    }).pipe(
      Effect.provide(RuntimeTest.layer({ children: { server: child.exits(0, { after: "1 second" }) }, ledger: flaky }))
    )
  }))

law(
  "after the shutdown a start fails typed, and what ended stays readable",
  { server: child.prints("x") },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server"))
    yield* (yield* ShutdownBarrier.Service).shutdown()
    assert.strictEqual(yield* reasonOf(jobs.start(run("server"))), "RuntimeClosed")
    assert.strictEqual((yield* jobs.get(id)).status, "cancelled")
    assert.strictEqual((yield* (yield* jobs.output(id)).read()).data, "x")
  })
)

law(
  "a receipt says of nobody that it ignored a signal it had no time to follow",
  { stubborn: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const lines = (options: { readonly now: boolean }) =>
      Effect.gen(function*() {
        const job = yield* jobs.start(run("stubborn"))
        const stop = yield* Effect.forkChild(jobs.stop(job.id, options))
        yield* world.advance("10 seconds")
        return (yield* Fiber.join(stop)).receipt?.timeline.map(({ what }) => what.replace(/\d+ /, "")).join("; ")
      })
    assert.include(yield* lines({ now: true }), `SIGKILL -> left: `)
    assert.notInclude(yield* lines({ now: true }), "ignored")
    assert.include(yield* lines({ now: false }), `"stubborn" (ignored SIGTERM)`)
  })
)

law(
  "a receipt is bounded, and keeps its beginning and its end, however often a kill is tried again",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("stuck"))
    yield* Effect.forkChild(jobs.stop(job.id))
    yield* world.advance("10 seconds")
    for (let retry = 0; retry < 30; retry++) {
      yield* Effect.forkChild(jobs.retryTermination(job.id))
      yield* world.advance("10 seconds")
    }
    yield* world.kill("stuck")
    yield* world.advance("10 seconds")
    const { timeline } = yield* jobs.termination(job.id)
    const whats = timeline.map(({ what }) => what)
    assert.isAtMost(whats.length, 64)
    assert.match(whats[0] ?? "", /^SIGTERM -> group/)
    assert.strictEqual(whats.at(-1), "verified gone")
    assert.strictEqual(whats.filter((what) => /^\.\.\. \d+ more lines$/.test(what)).length, 1)
    assert.deepStrictEqual(
      timeline.map(({ atMillis }) => atMillis),
      timeline.map(({ atMillis }) => atMillis).toSorted((a, b) => a - b)
    )
  })
)

law(
  "an end is told in one order: exit, notice, events, and only then those who wait for it",
  { server: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"))
    const order: Array<string> = []
    const add = (what: string) => Effect.sync(() => order.push(what))
    yield* Effect.forkScoped(Effect.andThen(jobs.wait(job.id), add("waiter")), { startImmediately: true })
    yield* Effect.forkScoped(Stream.runForEach(jobs.events, ({ _tag }) => add(_tag)), { startImmediately: true })
    yield* Effect.forkScoped(Effect.andThen(jobs.awaitNotices, add("notice")), { startImmediately: true })
    yield* world.drain
    yield* world.kill("server", 0)
    yield* world.advance("1 second")
    assert.deepStrictEqual(order, ["Exited", "Draining", "notice", "Ended", "waiter"])
  }).pipe(Effect.scoped)
)

law(
  "an observer that stops the job from within any event of it harms nobody",
  { server: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const service = yield* BackgroundProcess.Service
    const jobs = service.of("s1")
    yield* service.observe((event) =>
      event._tag === "Missed" ? Effect.void : Effect.ignore(jobs.stop(event.id, { now: true }))
    )
    const starting = yield* Effect.forkChild(jobs.start(run("server")))
    yield* world.advance("1 second")
    assert.strictEqual((yield* jobs.get((yield* Fiber.join(starting)).id)).status, "cancelled")
  }).pipe(Effect.scoped)
)

law(
  "an extension past the cap is clamped, and the row and the job say what was asked and what is kept",
  { server: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"), { deadline: "10 seconds" })
    yield* world.advance("2 seconds")
    const extended = yield* jobs.extend(job.id, "1 hour")
    assert.deepStrictEqual(
      [extended.deadlineAskedMillis, extended.deadlineMillis, extended.deadlineAt],
      [3_602_000, 60_000, 60_000]
    )
    yield* world.advance("59 seconds")
    assert.strictEqual((yield* jobs.get(job.id)).status, "timed_out")
  }),
  { deadlineCapMillis: 60_000 }
)
