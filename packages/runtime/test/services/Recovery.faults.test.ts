import { assert, describe } from "@effect/vitest"
import { ProcessDriver, ProcessLedger, Recovery, type Settings, ShutdownBarrier } from "@procyon/runtime"
import { child, LedgerLaws, Lives, World } from "@procyon/testing"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { jobsOf, law, moving, reconciled, start } from "./lives.ts"

const list = Effect.flatMap(jobsOf("s1"), (jobs) => jobs.list)
const notices = Effect.flatMap(jobsOf("s1"), (jobs) => jobs.notices)
const noticeIds = Effect.map(notices, (all) => all.map((notice) => notice._tag === "Job" ? notice.noticeId : "summary"))
const rows = ProcessLedger.Service.use((ledger) => ledger.rows())
const statuses = Effect.map(rows, (all) => all.map((row) => row.status))
const reconcile = Recovery.Service.use((recovery) => recovery.reconcile)

const outcomes = (report: Recovery.Report) => report.entries.map(({ outcome, status }) => `${outcome} ${status}`)

/** A life whose ledger or driver is another one. */
const beginWith = (
  change: {
    readonly ledger?: (ledger: ProcessLedger.ProcessLedger) => Partial<ProcessLedger.ProcessLedger>
    readonly driver?: (driver: ProcessDriver.ProcessDriver) => Partial<ProcessDriver.ProcessDriver>
  },
  settings: Partial<Settings.Settings> = {}
) =>
  Effect.gen(function*() {
    const ledger = yield* ProcessLedger.Service
    const driver = yield* ProcessDriver.Service
    return yield* Lives.begin(settings).pipe(
      Effect.provideService(ProcessLedger.Service, { ...ledger, ...change.ledger?.(ledger) }),
      Effect.provideService(ProcessDriver.Service, { ...driver, ...change.driver?.(driver) })
    )
  })

const unavailable = (operation: ProcessLedger.LedgerError["operation"]) =>
  Effect.fail(new ProcessLedger.LedgerError({ operation, problem: "Unavailable" }))

/** As another runtime does it, whose lease does not run out. */
const takeOver = (id: string, fence: number, status: "running" | "kill_failed" = "running") =>
  ProcessLedger.Service.use((ledger) =>
    ledger.transition(id, { fence, status }, { status, fence: fence + 1, holder: null, leaseUntil: 1e15 })
  )

/** What is done, and not answered. */
const unanswered = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => Effect.andThen(effect, Effect.never)

describe("a ledger that fails while a runtime starts", () => {
  law(
    "is asked again, and the job is ended then",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      let broken = true
      const second = yield* beginWith({
        ledger: (ledger) => ({
          rows: (filter) => Effect.suspend(() => broken ? unavailable("rows") : ledger.rows(filter))
        })
      })
      assert.isTrue((yield* reconciled(second)).failed)
      broken = false
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
    })
  )

  law(
    "and refuses a claim is asked again, and the job is ended then",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      let broken = true
      const second = yield* beginWith({
        ledger: (ledger) => ({
          transition: (...args) => Effect.suspend(() => broken ? unavailable("transition") : ledger.transition(...args))
        })
      })
      yield* reconciled(second)
      broken = false
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
    })
  )

  law(
    "and makes a claim without an answer loses neither a job that runs nor a notice",
    { server: child, quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      const { id } = yield* first.run(start("quick"))
      yield* world.advance("2 seconds")
      yield* first.kill
      let broken = true
      const second = yield* moving(beginWith({
        ledger: (ledger) => ({
          transition: (...args) =>
            Effect.suspend(() => broken ? unanswered(ledger.transition(...args)) : ledger.transition(...args))
        })
      }))
      yield* reconciled(second)
      broken = false
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled", "completed"], []])
      assert.include(yield* second.run(noticeIds), `${id}:completed`)
    })
  )
})

describe("rows that cannot all be read", () => {
  law(
    "cost the others nothing, and are told of",
    { server: child },
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      const second = yield* beginWith({
        ledger: (ledger) => ({
          rows: (filter) =>
            filter?.unreadable === "skip"
              ? ledger.rows(filter)
              : Effect.fail(new ProcessLedger.LedgerError({ operation: "rows", problem: "Corrupt" }))
        })
      })
      const report = yield* reconciled(second)
      assert.deepStrictEqual([report.failed, report.unreadable, outcomes(report)], [false, true, ["ended cancelled"]])
      assert.include(Recovery.summarize(report), "some rows could not be read")
    })
  )

  law(
    "since the ledger does not answer are asked for again",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      let answers = false
      const second = yield* moving(beginWith({
        ledger: (ledger) => ({
          rows: (filter) =>
            Effect.suspend(() =>
              answers ? ledger.rows(filter) : filter?.unreadable === "skip" ? unavailable("rows") : Effect.never
            )
        })
      }))
      assert.isTrue((yield* reconciled(second)).failed)
      answers = true
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
    })
  )

  law(
    "leave the workspaces alone until the ledger tells who works in them",
    {},
    Effect.gen(function*() {
      const { workspaces } = yield* ProcessLedger.Service
      yield* workspaces.insert(LedgerLaws.workspace("w-1", { guests: [] }))
      for (const broken of ["rows", "list"] as const) {
        const life = yield* beginWith({
          ledger: (ledger) => ({
            rows: (filter) => broken === "rows" && filter?.settled === false ? Effect.never : ledger.rows(filter),
            workspaces: broken === "list" ? { ...ledger.workspaces, list: () => Effect.never } : ledger.workspaces
          })
        })
        const report = yield* reconciled(life)
        assert.deepStrictEqual([report.failed, report.workspaces], [false, []], broken)
        yield* life.kill
      }
      assert.deepStrictEqual((yield* workspaces.list()).map(({ fence }) => fence), [1])
    })
  )
})

describe("a claim", () => {
  law(
    "that another runtime was faster with leaves the job to it",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server"))
      yield* first.kill
      const second = yield* beginWith({
        ledger: (ledger) => ({
          transition: (...args) =>
            Effect.andThen(takeOver(id, 1), ledger.transition(...args)).pipe(
              Effect.provideService(ProcessLedger.Service, ledger)
            )
        })
      })
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["elsewhere running"])
      assert.deepStrictEqual([yield* second.run(list), yield* world.signals], [[], []])
    })
  )

  law(
    "without an answer is no doubt any more once the row is gone, or another's",
    { server: child, other: child },
    Effect.gen(function*() {
      const world = yield* World
      const ledger = yield* ProcessLedger.Service
      const first = yield* Lives.begin()
      const gone = yield* first.run(start("server"))
      const taken = yield* first.run(start("other"))
      yield* first.kill
      const second = yield* moving(beginWith({ ledger: () => ({ transition: () => Effect.never }) }))
      const report = yield* reconciled(second)
      assert.deepStrictEqual(report.entries.map(({ detail }) => detail), [
        "the ledger did not answer the claim",
        "the ledger did not answer the claim"
      ])
      yield* ledger.transition(gone.id, { fence: 1, status: "running" }, { status: "cancelled" })
      yield* ledger.remove(gone.id, 1)
      yield* takeOver(taken.id, 1)
      yield* world.advance("20 seconds")
      assert.deepStrictEqual([yield* second.run(list), yield* world.signals], [[], []])
    })
  )

  law(
    "that an earlier one of the same runtime was faster with is made again, and the job is its own",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      let calls = 0
      let late: Effect.Effect<unknown> = Effect.void
      const second = yield* moving(beginWith({
        ledger: (ledger) => ({
          transition: (...args) =>
            Effect.suspend(() => {
              calls++
              if (calls > 2) return ledger.transition(...args)
              // The first is done just before the second, and not answered.
              if (calls === 2) return Effect.andThen(late, ledger.transition(...args))
              late = Effect.ignore(ledger.transition(...args))
              return Effect.never
            })
        })
      }))
      yield* reconciled(second)
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
      assert.strictEqual((yield* second.run(noticeIds)).length, 1)
    })
  )

  law(
    "goes on with ids after all that there are, in whatever order a ledger tells them",
    { server: child },
    Effect.gen(function*() {
      yield* TestClock.setTime(10_000_000)
      const first = yield* Lives.begin()
      const ids = [(yield* first.run(start("server"))).id, (yield* first.run(start("server"))).id]
      yield* first.kill
      yield* TestClock.setTime(0)
      const second = yield* beginWith({
        ledger: (ledger) => ({ rows: (filter) => Effect.map(ledger.rows(filter), (all) => all.toReversed()) })
      })
      const { id } = yield* moving(second.run(start("server")))
      assert.deepStrictEqual([...ids, id].toSorted(), [...ids, id])
    })
  )

  law(
    "is not made by a runtime that begins to close",
    { server: child },
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      const gate = Deferred.makeUnsafe<void>()
      let isGated = false
      const second = yield* beginWith({
        ledger: (ledger) => ({
          rows: (filter) =>
            Effect.suspend(() =>
              isGated ? Effect.andThen(Deferred.await(gate), ledger.rows(filter)) : ledger.rows(filter)
            )
        })
      })
      yield* reconciled(second)
      yield* first.kill
      isGated = true
      const pass = yield* Effect.forkChild(second.run(reconcile))
      const joined = yield* Effect.forkChild(second.run(reconcile))
      yield* (yield* World).drain
      const barrier = yield* second.run(ShutdownBarrier.Service)
      const closing = yield* Effect.forkChild(barrier.shutdown(), { startImmediately: true })
      yield* Deferred.succeed(gate, undefined)
      yield* moving(Fiber.join(closing))
      const report = yield* moving(Fiber.join(pass))
      assert.deepStrictEqual(report.entries.map(({ detail, outcome }) => [outcome, detail]), [
        ["elsewhere", "the runtime is closing"]
      ])
      assert.strictEqual(yield* moving(Fiber.join(joined)), report)
      assert.deepStrictEqual((yield* rows).map(({ fence, status }) => [fence, status]), [[1, "running"]])
    })
  )

  law(
    "of a row whose process cannot be taken in is tried again, and costs no other its end",
    { server: child, other: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server", { lifetime: "detached" }))
      yield* first.run(start("other"))
      yield* first.kill
      let broken = true
      const second = yield* beginWith({
        driver: (driver) => ({
          // Asked for where a file is to be read.
          sha256: () => {
            if (broken) throw new Error("a secret")
            return driver.sha256()
          }
        })
      })
      const report = yield* reconciled(second)
      assert.deepStrictEqual(report.entries.map(({ detail, outcome }) => [outcome, detail]), [
        ["elsewhere", "it could not be taken in"],
        ["ended", null]
      ])
      broken = false
      yield* world.advance("20 seconds")
      assert.deepStrictEqual((yield* second.run(list)).map(({ status }) => status), ["running", "cancelled"])
    })
  )

  for (const [how, probe] of [["hangs", Effect.never], ["throws", Effect.die("a secret")]] as const) {
    law(
      `waits for the lease to run out where asking for its holder ${how}`,
      { server: child },
      Effect.gen(function*() {
        const world = yield* World
        const ledger = yield* ProcessLedger.Service
        const first = yield* Lives.begin()
        const { id } = yield* first.run(start("server"))
        yield* first.kill
        const holder = { pid: 77, startedAt: 1, bootId: "scripted", marker: "" }
        yield* ledger.transition(id, { fence: 1, status: "running" }, { status: "running", holder })
        const second = yield* moving(beginWith({ driver: () => ({ probe: () => probe }) }))
        assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["elsewhere running"])
        yield* world.advance("1 minute")
        assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
      })
    )
  }
})

describe("a job whose row another runtime takes over", () => {
  law(
    "is not signalled by a runtime whose lease may have run out",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin()
      const { id } = yield* life.run(start("server"))
      yield* takeOver(id, 1)
      yield* life.setWallClock(3_600_000)
      const jobs = yield* life.run(jobsOf("s1"))
      yield* moving(jobs.stop(id))
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [[], ["server"]])
      assert.deepStrictEqual([yield* jobs.list, yield* jobs.notices], [[], []])
    })
  )

  law(
    "within its grace is not killed by the runtime that has lost it",
    { server: child.ignores("SIGTERM") },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin()
      const { id } = yield* life.run(start("server", { grace: "20 seconds" }))
      const jobs = yield* life.run(jobsOf("s1"))
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("1 second")
      yield* takeOver(id, 1)
      // Its next renewal tells.
      yield* world.advance("10 seconds")
      assert.isDefined(stopping.pollUnsafe())
      yield* world.advance("1 minute")
      assert.deepStrictEqual(yield* world.signals, ["0 SIGTERM server"])
      assert.deepStrictEqual([yield* jobs.list, yield* jobs.notices, yield* world.alive], [[], [], ["server"]])
    })
  )

  law(
    "is not told as one that could not be ended",
    { server: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin()
      const { id } = yield* life.run(start("server"))
      const jobs = yield* life.run(jobsOf("s1"))
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("7 seconds")
      yield* takeOver(id, 1)
      yield* world.advance("2 seconds")
      assert.isDefined(stopping.pollUnsafe())
      assert.deepStrictEqual([yield* jobs.list, yield* jobs.notices], [[], []])
      assert.deepStrictEqual((yield* rows).map(({ fence, status }) => [fence, status]), [[2, "running"]])
    })
  )

  law(
    "while it starts has its start taken back",
    { server: child.startsAfter("20 seconds") },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin({ startWindowMillis: 60_000 })
      const starting = yield* Effect.forkChild(life.run(start("server")))
      yield* world.advance("1 second")
      const { id } = yield* Fiber.join(starting)
      yield* takeOver(id, 1)
      yield* world.advance("1 minute")
      assert.deepStrictEqual([yield* life.run(list), yield* life.run(notices), yield* world.spawned], [[], [], 0])
    })
  )

  law(
    "after it has ended, and before its row could say so, is told of by the other one only",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const life = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              broken && changes.status === "completed"
                ? unavailable("transition")
                : ledger.transition(id, expected, changes)
            )
        })
      })
      const jobs = yield* life.run(jobsOf("s1"))
      const seen: Array<string> = []
      yield* Effect.forkChild(Stream.runForEach(jobs.events, (event) => Effect.sync(() => seen.push(event._tag))))
      const { id } = yield* life.run(start("quick"))
      yield* world.advance("2 seconds")
      assert.deepStrictEqual((yield* jobs.list).map(({ recorded, status }) => [status, recorded]), [[
        "completed",
        false
      ]])
      yield* takeOver(id, 1)
      broken = false
      yield* world.advance("10 seconds")
      assert.deepStrictEqual([yield* jobs.list, yield* jobs.notices, seen.at(-1)], [[], [], "Disowned"])
    })
  )

  law(
    "is let go of once, however many find it out at the same time",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* beginWith({ ledger: (ledger) => ({ get: (id) => Effect.delay(ledger.get(id), "1 second") }) })
      const jobs = yield* life.run(jobsOf("s1"))
      const seen: Array<string> = []
      yield* Effect.forkChild(Stream.runForEach(jobs.events, (event) => Effect.sync(() => seen.push(event._tag))))
      const { id } = yield* life.run(start("server"))
      yield* takeOver(id, 1)
      // The renewal asks at 10 s, the stop half a second later.
      yield* world.advance("10500 millis")
      yield* life.setWallClock(3_600_000)
      yield* moving(jobs.stop(id))
      yield* world.advance("1 minute")
      assert.deepStrictEqual([seen.filter((tag) => tag === "Disowned").length, yield* world.signals], [1, []])
    })
  )

  law(
    "while changes of its row are waiting has none of them written, also where the ledger never answers",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      for (const answers of [true, false]) {
        const life = yield* beginWith({
          ledger: (ledger) => ({
            transition: (id, expected, changes) =>
              changes.deadlineAt === undefined || changes.identity !== undefined
                ? ledger.transition(id, expected, changes)
                : answers
                ? Effect.delay(ledger.transition(id, expected, changes), "1 second")
                : Effect.never
          })
        })
        const { id } = yield* life.run(start("server"))
        const jobs = yield* life.run(jobsOf("s1"))
        yield* world.advance("1 second")
        const extensions = yield* Effect.forEach(
          ["1 hour", "2 hours", "3 hours"] as const,
          (time) => Effect.forkChild(Effect.exit(jobs.extend(id, time)))
        )
        yield* world.drain
        yield* takeOver(id, 1)
        yield* world.advance("20 seconds")
        assert.isTrue(extensions.every((fiber) => fiber.pollUnsafe() !== undefined))
        assert.deepStrictEqual(yield* jobs.list, [])
        const row = yield* ProcessLedger.Service.use((ledger) => ledger.get(id))
        assert.deepStrictEqual([row?.fence, row?.deadlineAt], [2, null])
      }
    })
  )

  law(
    "after its start failed has its row left alone by the bound on such rows",
    {},
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const life = yield* beginWith({
        ledger: (ledger) => ({
          transition: (...args) => Effect.suspend(() => broken ? unavailable("transition") : ledger.transition(...args))
        })
      }, { maxFailedStartRows: 1 })
      yield* Effect.flip(life.run(start("missing")))
      const [row] = yield* rows
      yield* takeOver(row?.id ?? "", 1)
      broken = false
      yield* world.advance("20 seconds")
      yield* Effect.flip(life.run(start("missing")))
      yield* Effect.flip(life.run(start("missing")))
      yield* world.drain
      assert.deepStrictEqual((yield* rows).map(({ fence, status }) => [fence, status]), [[2, "running"], [1, "error"]])
    })
  )

  law(
    "while it could not be ended cannot be forgotten by the one that has lost it",
    { server: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const life = yield* Lives.begin()
      const { id } = yield* life.run(start("server"))
      const jobs = yield* life.run(jobsOf("s1"))
      yield* moving(jobs.stop(id))
      yield* takeOver(id, 1, "kill_failed")
      const recovery = yield* life.run(Recovery.Service)
      assert.isFalse(yield* recovery.forget(id))
      assert.deepStrictEqual((yield* rows).map(({ fence, status }) => [fence, status]), [[2, "kill_failed"]])
    })
  )

  law(
    "from a pass that is ending it is reported as being elsewhere",
    { server: child.ignores("SIGTERM") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { grace: "20 seconds" }))
      yield* first.kill
      const second = yield* Lives.begin()
      yield* world.advance("1 second")
      yield* takeOver(id, 2)
      assert.deepStrictEqual(outcomes(yield* reconciled(second)), ["elsewhere error"])
      assert.deepStrictEqual(yield* world.alive, ["server"])
    })
  )

  law(
    "when it was given up is not signalled any more, and one that nobody has taken is",
    { server: child, other: child },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin()
      const taken = yield* life.run(start("server", { lifetime: "detached" }))
      const free = yield* life.run(start("other", { lifetime: "detached" }))
      const jobs = yield* life.run(jobsOf("s1"))
      const barrier = yield* life.run(ShutdownBarrier.Service)
      const ledger = yield* ProcessLedger.Service
      // After the phase in which rows are given up.
      barrier.on(
        "workspaces",
        Effect.andThen(
          Effect.provideService(takeOver(taken.id, 1), ProcessLedger.Service, ledger),
          Effect.all([jobs.stop(taken.id), jobs.stop(free.id)], { concurrency: "unbounded" })
        ).pipe(Effect.orDie)
      )
      yield* life.close
      assert.deepStrictEqual([yield* world.signals, yield* world.alive], [["0 SIGTERM other"], ["server"]])
    })
  )
})

describe("a driver that takes its time to attach", () => {
  law(
    "keeps nobody from stopping the job meanwhile",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached" }))
      const gate = Deferred.makeUnsafe<void>()
      const life = yield* beginWith({
        driver: (driver) => ({ attach: (request) => Effect.andThen(Deferred.await(gate), driver.attach(request)) })
      })
      yield* reconciled(life)
      yield* first.kill
      const pass = yield* Effect.forkChild(life.run(reconcile))
      yield* world.drain
      const jobs = yield* life.run(jobsOf("s1"))
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.drain
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual((yield* moving(Fiber.join(stopping))).status, "cancelled")
      assert.deepStrictEqual(outcomes(yield* moving(Fiber.join(pass))), ["ended cancelled"])
    })
  )

  law(
    "and never does answers who asked for its end meanwhile",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached" }))
      const life = yield* beginWith({ driver: () => ({ attach: () => Effect.never }) })
      yield* reconciled(life)
      yield* first.kill
      const pass = yield* Effect.forkChild(life.run(reconcile))
      yield* world.drain
      const jobs = yield* life.run(jobsOf("s1"))
      const ended = yield* moving(jobs.stop(id))
      assert.deepStrictEqual([ended.status, ended.receipt?.cause], ["kill_failed", { _tag: "Stop", by: "owner" }])
      assert.deepStrictEqual(outcomes(yield* moving(Fiber.join(pass))), ["review kill_failed"])
    })
  )

  law(
    "and breaks makes it one for review",
    { server: child },
    Effect.gen(function*() {
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      const life = yield* beginWith({ driver: () => ({ attach: () => Effect.die("a secret") }) })
      assert.deepStrictEqual(outcomes(yield* reconciled(life)), ["review kill_failed"])
    })
  )

  law(
    "and never tells an exit keeps nobody waiting for that of a job whose tree is gone",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      const began = yield* Clock.currentTimeMillis
      const life = yield* beginWith({
        driver: (driver) => ({ attach: (request) => driver.attach({ ...request, onExit: () => undefined }) })
      })
      const report = yield* reconciled(life)
      assert.deepStrictEqual([outcomes(report), yield* world.alive], [["ended cancelled"], []])
      assert.isAtMost((yield* Clock.currentTimeMillis) - began, 1000)
    })
  )

  law(
    "and never does makes it one for review",
    { server: child, other: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.run(start("other"))
      yield* first.kill
      let calls = 0
      const second = yield* Effect.forkChild(beginWith({
        driver: (driver) => ({
          attach: (request) => Effect.suspend(() => calls++ === 0 ? Effect.never : driver.attach(request))
        })
      }))
      yield* world.advance("11 seconds")
      const life = yield* Fiber.join(second)
      assert.deepStrictEqual(outcomes(yield* reconciled(life)), ["review kill_failed", "ended cancelled"])
    })
  )
})

describe("a shutdown in the middle of a pass", () => {
  law(
    "takes no job that nobody would end, and gives it back",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      yield* first.kill
      const gate = Deferred.makeUnsafe<void>()
      let claims = 0
      const second = yield* moving(beginWith({
        ledger: (ledger) => ({
          transition: (...args) =>
            Effect.suspend(() => {
              claims++
              if (claims === 1) return unavailable("transition")
              return claims === 2
                ? Effect.andThen(Deferred.await(gate), ledger.transition(...args))
                : ledger.transition(...args)
            })
        })
      }))
      yield* reconciled(second)
      yield* Effect.forkChild(second.run(reconcile))
      yield* world.drain
      assert.strictEqual(claims, 2)
      const barrier = yield* second.run(ShutdownBarrier.Service)
      const closing = yield* Effect.forkChild(barrier.shutdown(), { startImmediately: true })
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual((yield* moving(Fiber.join(closing))).rows, [])
      assert.deepStrictEqual((yield* rows).map(({ fence, holder, status }) => [fence, holder, status]), [
        [2, null, "running"]
      ])
      assert.deepStrictEqual(yield* world.signals, [])
    })
  )

  law(
    "answers who asks for another, also when it is over",
    {},
    Effect.gen(function*() {
      const life = yield* Lives.begin()
      yield* reconciled(life)
      const recovery = yield* life.run(Recovery.Service)
      yield* life.close
      assert.isTrue((yield* moving(recovery.reconcile)).failed)
    })
  )
})

describe("a row that a ledger has moved without an answer", () => {
  law(
    "also says later that its notice was taken",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let lost = 0
      const first = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              changes.status === "completed" && lost++ === 0
                ? unanswered(ledger.transition(id, expected, changes))
                : ledger.transition(id, expected, changes)
            )
        })
      })
      yield* first.run(start("quick"))
      yield* world.advance("8 seconds")
      assert.deepStrictEqual(yield* statuses, ["completed"])
      assert.strictEqual((yield* first.run(notices)).length, 1)
      yield* world.advance("1 minute")
      assert.deepStrictEqual((yield* rows).map(({ status, told }) => [status, told]), [["completed", "completed"]])
    })
  )

  law(
    "or could not move at all is tried once more by the shutdown",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const first = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              broken && changes.status === "completed"
                ? unavailable("transition")
                : ledger.transition(id, expected, changes)
            )
        })
      })
      yield* first.run(start("quick"))
      yield* world.advance("2 seconds")
      assert.deepStrictEqual(yield* statuses, ["running"])
      broken = false
      yield* first.close
      assert.deepStrictEqual(yield* statuses, ["completed"])
    })
  )

  law(
    "keeps its lease until it says that the job has ended",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const first = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              broken && changes.status === "completed"
                ? unavailable("transition")
                : ledger.transition(id, expected, changes)
            )
        })
      })
      yield* first.run(start("quick"))
      const second = yield* Lives.begin()
      yield* reconciled(second)
      yield* world.advance("5 minutes")
      broken = false
      yield* world.advance("1 minute")
      assert.deepStrictEqual((yield* rows).map(({ fence, status }) => [fence, status]), [[1, "completed"]])
      assert.deepStrictEqual([(yield* first.run(notices)).length, (yield* second.run(notices)).length], [1, 0])
    })
  )
})

describe("a ledger that does not do what it is asked", () => {
  for (const [how, renew] of [["hangs", Effect.never], ["fails", unavailable("renew")]] as const) {
    law(
      `and ${how} when leases are renewed takes no job away, and the job is ended as its owner asks`,
      { server: child },
      Effect.gen(function*() {
        const world = yield* World
        const life = yield* beginWith({ ledger: () => ({ renew: () => renew }) })
        const { id } = yield* life.run(start("server"))
        yield* world.advance("5 minutes")
        const jobs = yield* life.run(jobsOf("s1"))
        assert.strictEqual((yield* moving(jobs.stop(id))).status, "cancelled")
        assert.deepStrictEqual([yield* statuses, yield* world.alive], [["cancelled"], []])
      })
    )
  }

  law(
    "keeps no record of a job that is forgotten, and loses the row once it can be written or removed",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const life = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              broken && changes.status === "completed"
                ? unavailable("transition")
                : ledger.transition(id, expected, changes)
            ),
          remove: (id, fence) => Effect.suspend(() => broken ? Effect.never : ledger.remove(id, fence))
        })
      })
      const jobs = yield* life.run(jobsOf("s1"))
      const behind = yield* life.run(start("quick"))
      yield* world.advance("2 seconds")
      assert.isTrue(yield* moving(jobs.forget(behind.id)))
      assert.deepStrictEqual([yield* jobs.list, yield* statuses], [[], ["running"]])
      broken = false
      yield* world.advance("20 seconds")
      assert.deepStrictEqual(yield* rows, [])
      const written = yield* life.run(start("quick"))
      yield* world.advance("2 seconds")
      broken = true
      assert.isTrue(yield* moving(jobs.forget(written.id)))
      // It tells of a job that is over: it costs room, and no truth.
      assert.deepStrictEqual([yield* jobs.list, yield* statuses], [[], ["completed"]])
    })
  )

  law(
    "and has no row of a job that ended while it was away forgets that one as any other",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* beginWith({ ledger: () => ({ insert: () => Effect.never, get: () => Effect.succeed(null) }) })
      const starting = yield* Effect.forkChild(life.run(start("server")))
      yield* world.advance("30 seconds")
      const { id } = yield* Fiber.join(starting)
      const jobs = yield* life.run(jobsOf("s1"))
      assert.deepStrictEqual((yield* jobs.list).map(({ recorded, status }) => [status, recorded]), [["error", false]])
      assert.isTrue(yield* jobs.forget(id))
      assert.deepStrictEqual([yield* jobs.list, yield* rows], [[], []])
    })
  )

  law(
    "and does not answer for longer than a job waits for it costs that job its row, until it does",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      let answers = false
      const life = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() =>
              answers || changes.identity !== undefined ? ledger.transition(id, expected, changes) : Effect.never
            )
        })
      })
      const { id } = yield* life.run(start("server"))
      const jobs = yield* life.run(jobsOf("s1"))
      // The third has two before it, and is given up on before its turn has come.
      const extensions = yield* Effect.forEach(
        ["1 hour", "2 hours", "3 hours"] as const,
        (time) => Effect.forkChild(jobs.extend(id, time))
      )
      yield* world.advance("11 seconds")
      assert.isTrue(extensions.every((fiber) => fiber.pollUnsafe() !== undefined))
      assert.isFalse((yield* jobs.get(id)).recorded)
      answers = true
      yield* world.advance("20 seconds")
      const { deadlineAt, recorded } = yield* jobs.get(id)
      assert.deepStrictEqual([recorded, (yield* rows).map((row) => row.deadlineAt)], [true, [deadlineAt]])
    })
  )
})

describe("a row that a ledger refuses to move", () => {
  law(
    "since an operator has deleted it is not asked for any more, and its job is told of",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const calls: Array<string> = []
      const life = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            Effect.suspend(() => {
              calls.push(changes.status)
              return ledger.transition(id, expected, changes)
            }),
          get: (id) => Effect.map(ledger.get(id), (row) => row?.status === "running" ? row : null)
        })
      })
      yield* life.run(start("quick"))
      const ledger = yield* ProcessLedger.Service
      const [row] = yield* rows
      yield* ledger.transition(row?.id ?? "", { fence: 1, status: "running" }, { status: "cancelled" })
      yield* ledger.remove(row?.id ?? "", 1)
      yield* world.advance("2 seconds")
      assert.deepStrictEqual((yield* life.run(noticeIds)).length, 1)
      const asked = calls.length
      yield* world.advance("5 minutes")
      assert.strictEqual(calls.length, asked)
    })
  )

  law(
    "although nothing stands against it is not asked for ever",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let calls = 0
      const life = yield* beginWith({
        ledger: () => ({
          transition: () =>
            Effect.sync(() => {
              calls++
              return false
            })
        })
      })
      yield* life.run(start("quick"))
      yield* world.advance("2 seconds")
      assert.deepStrictEqual((yield* life.run(noticeIds)).length, 1)
      const asked = calls
      yield* world.advance("5 minutes")
      assert.isAtMost(calls, asked + 1)
    })
  )

  law(
    "and will not say who has it is tried until it does",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const life = yield* beginWith({
        ledger: (ledger) => ({
          transition: (...args) => Effect.suspend(() => broken ? Effect.succeed(false) : ledger.transition(...args)),
          get: (id) => Effect.suspend(() => broken ? unavailable("get") : ledger.get(id))
        })
      })
      yield* life.run(start("quick"))
      yield* world.advance("20 seconds")
      assert.deepStrictEqual([yield* statuses, (yield* life.run(noticeIds)).length], [["running"], 1])
      broken = false
      yield* world.advance("20 seconds")
      assert.deepStrictEqual(yield* statuses, ["completed"])
    })
  )
})

describe("a row that a ledger has written without an answer", () => {
  law(
    "is in doubt for as long as the ledger does not tell, and says then what became of its job",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const life = yield* beginWith({
        ledger: (ledger) => ({
          insert: (row) => unanswered(ledger.insert(row)),
          get: (id) => Effect.suspend(() => broken ? unavailable("get") : ledger.get(id))
        })
      })
      const starting = yield* Effect.forkChild(life.run(start("server")))
      yield* world.advance("30 seconds")
      yield* Fiber.join(starting)
      assert.deepStrictEqual([yield* statuses, yield* world.spawned], [["running"], 0])
      broken = false
      yield* world.advance("20 seconds")
      assert.deepStrictEqual(yield* statuses, ["error"])
    })
  )

  law(
    "says of its job that it was not started, and is told to nobody",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      let broken = true
      const first = yield* beginWith({
        ledger: (ledger) => ({
          insert: (row) => Effect.suspend(() => broken ? unanswered(ledger.insert(row)) : ledger.insert(row))
        })
      })
      const starting = yield* Effect.forkChild(Effect.exit(first.run(start("server"))))
      yield* world.advance("500 millis")
      yield* moving(Fiber.interrupt(starting))
      broken = false
      yield* world.advance("30 seconds")
      assert.deepStrictEqual([yield* statuses, yield* world.alive], [["error"], []])
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      assert.deepStrictEqual([yield* second.run(notices), yield* second.run(list)], [[], []])
    })
  )

  law(
    "is not another's that has its id",
    { server: child },
    Effect.gen(function*() {
      const world = yield* World
      const other = yield* Lives.begin()
      yield* other.run(start("server"))
      const first = yield* beginWith({
        ledger: (ledger) => ({
          insert: () => Effect.never,
          get: () => Effect.map(ledger.rows(), ([row]) => row ?? null)
        })
      })
      const starting = yield* Effect.forkChild(first.run(start("server")))
      yield* world.advance("30 seconds")
      yield* Fiber.join(starting)
      assert.deepStrictEqual((yield* rows).map(({ fence, status }) => [fence, status]), [[1, "running"]])
      assert.deepStrictEqual((yield* first.run(list)).map((job) => job.status), ["error"])
    })
  )
})

describe("a job that settles while its kill_failed notice is being read", () => {
  law(
    "has its second notice told of, also in the next life",
    { server: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server"))
      const jobs = yield* first.run(jobsOf("s1"))
      yield* moving(jobs.stop(id))
      const gate = Deferred.makeUnsafe<void>()
      const consumer = yield* Effect.forkChild(jobs.consumeNotices(() => Deferred.await(gate)))
      yield* world.drain
      yield* world.kill("server")
      yield* world.advance("30 seconds")
      assert.deepStrictEqual(yield* statuses, ["cancelled"])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(consumer)
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      assert.deepStrictEqual(yield* second.run(noticeIds), [`${id}:cancelled`])
    })
  )

  law(
    "or taken together with another's has each told of once, over two lives",
    { server: child.ignores("SIGTERM").refuses("SIGKILL"), quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const gate = Deferred.makeUnsafe<void>()
      const first = yield* beginWith({
        ledger: (ledger) => ({
          transition: (id, expected, changes) =>
            changes.told === "completed"
              ? Effect.andThen(Deferred.await(gate), ledger.transition(id, expected, changes))
              : ledger.transition(id, expected, changes)
        })
      })
      const { id } = yield* first.run(start("server"))
      const jobs = yield* first.run(jobsOf("s1"))
      yield* moving(jobs.stop(id))
      const quick = yield* first.run(start("quick"))
      yield* world.advance("2 seconds")
      const taking = yield* Effect.forkChild(first.run(noticeIds))
      yield* world.drain
      yield* world.kill("server")
      yield* world.advance("4 seconds")
      assert.deepStrictEqual(yield* statuses, ["cancelled", "completed"])
      yield* Deferred.succeed(gate, undefined)
      const told = [...(yield* Fiber.join(taking))]
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      told.push(...(yield* second.run(noticeIds)))
      assert.deepStrictEqual(told, [`${id}:kill_failed`, `${quick.id}:completed`, `${id}:cancelled`])
    })
  )
})

describe("notices that are read at the same time", () => {
  law(
    "by one of the end, and by one of what came before it, are told of once, whoever is through first",
    { server: child.ignores("SIGTERM").refuses("SIGKILL") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server"))
      const jobs = yield* first.run(jobsOf("s1"))
      yield* moving(jobs.stop(id))
      const gate = Deferred.makeUnsafe<void>()
      const early = yield* Effect.forkChild(jobs.consumeNotices(() => Deferred.await(gate)))
      yield* world.drain
      yield* world.kill("server")
      yield* world.advance("30 seconds")
      assert.deepStrictEqual(yield* first.run(noticeIds), [`${id}:cancelled`])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(early)
      assert.deepStrictEqual((yield* rows).map(({ told }) => told), ["cancelled"])
      yield* first.kill
      const second = yield* Lives.begin()
      yield* reconciled(second)
      assert.deepStrictEqual(yield* second.run(noticeIds), [])
    })
  )

  law(
    "by two who wait are one's, and the other waits for the next, to the end of the runtime",
    { quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      // Whose rows take their time, so that both are at it at once.
      const life = yield* beginWith({
        ledger: (ledger) => ({ transition: (...args) => Effect.delay(ledger.transition(...args), "100 millis") })
      })
      const jobs = yield* life.run(jobsOf("s1"))
      const waiters = [
        yield* Effect.forkChild(jobs.awaitNotices),
        yield* Effect.forkChild(jobs.awaitNotices),
        yield* Effect.forkChild(jobs.consumeNotices((all) => Effect.succeed(all))),
        yield* Effect.forkChild(jobs.consumeNotices((all) => Effect.succeed(all)))
      ]
      const answered = () => waiters.filter((waiter) => waiter.pollUnsafe() !== undefined).length
      yield* world.drain
      for (const count of [1, 2]) {
        yield* moving(life.run(start("quick")))
        yield* world.advance("3 seconds")
        assert.strictEqual(answered(), count)
      }
      yield* life.close
      const told = yield* Effect.forEach(waiters, (waiter) => Fiber.join(waiter))
      assert.deepStrictEqual(told.map((all) => all.length).toSorted((one, other) => one - other), [0, 0, 1, 1])
      assert.strictEqual(yield* jobs.consumeNotices((all) => Effect.succeed(all.length)), 0)
    })
  )
})

describe("jobs that ended before", () => {
  law(
    "are told of in the order they ended in, and forgotten in the order they began in, however slow their rows",
    {
      late: child.exits(0, { after: "3 seconds" }),
      early: child.exits(0, { after: "1 second" }),
      last: child.exits(0, { after: "5 seconds" })
    },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const late = (yield* first.run(start("late"))).id
      const early = (yield* first.run(start("early"))).id
      const last = (yield* first.run(start("last"))).id
      yield* world.advance("10 seconds")
      yield* first.kill
      const second = yield* moving(beginWith(
        {
          ledger: (ledger) => ({
            transition: (id, expected, changes) =>
              id === late
                ? Effect.delay(ledger.transition(id, expected, changes), "1 second")
                : ledger.transition(id, expected, changes)
          })
        },
        { maxFinishedPerOwner: 2 }
      ))
      yield* reconciled(second)
      assert.deepStrictEqual(yield* moving(second.run(noticeIds)), [early, late, last].map((id) => `${id}:completed`))
      yield* world.advance("5 seconds")
      assert.deepStrictEqual((yield* second.run(list)).map(({ id }) => id), [early, last])
    })
  )
})

describe("while another runtime holds rows", () => {
  law(
    "one who asks for passes gets no more of them than that, and settled rows are not read for ever",
    { server: child, quick: child.exits(0, { after: "1 second" }) },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      yield* first.run(start("server"))
      const { id } = yield* first.run(start("quick"))
      yield* world.advance("2 seconds")
      const reads = { all: 0, open: 0 }
      const second = yield* beginWith({
        ledger: (ledger) => ({
          rows: (filter) =>
            Effect.suspend(() => {
              reads[filter?.settled === undefined ? "all" : "open"]++
              return ledger.rows(filter)
            })
        })
      })
      yield* reconciled(second)
      for (let n = 0; n < 10; n++) {
        yield* second.run(reconcile)
        yield* world.advance("1 second")
      }
      assert.strictEqual(reads.all, 11)
      reads.open = 0
      yield* world.advance("100 seconds")
      assert.strictEqual(reads.all, 11)
      // Once for the rows of processes, and once for those of workspaces.
      assert.isAtMost(reads.open, 22)
      yield* first.kill
      yield* world.advance("1 minute")
      assert.include(yield* second.run(noticeIds), `${id}:completed`)
    })
  )
})

describe("a detached job at the end of its runtime", () => {
  law(
    "is waited for while it starts, so that the next one has its identity",
    { server: child.answersAfter("3 seconds") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const starting = yield* Effect.forkChild(first.run(start("server", { lifetime: "detached" })))
      yield* world.advance("500 millis")
      yield* first.close
      yield* Fiber.join(starting)
      assert.deepStrictEqual((yield* rows).map(({ identity, status }) => [status, (identity?.pid ?? 0) > 0]), [
        ["running", true]
      ])
      assert.deepStrictEqual(outcomes(yield* reconciled(yield* Lives.begin())), ["adopted running"])
    })
  )

  law(
    "that its driver does not let go of does not keep it from closing",
    { server: child },
    Effect.gen(function*() {
      const first = yield* beginWith({
        driver: (driver) => ({
          spawn: (request) =>
            Effect.map(driver.spawn(request), (child): ProcessDriver.Child => ({
              ...child,
              release: Effect.uninterruptible(Effect.never)
            }))
        })
      })
      yield* first.run(start("server", { lifetime: "detached" }))
      yield* first.close
      assert.deepStrictEqual(outcomes(yield* reconciled(yield* Lives.begin())), ["adopted running"])
    })
  )
})

describe("a detached job that is being stopped", () => {
  law(
    "is waited for by a shutdown, and not given up half way",
    { server: child.ignores("SIGTERM") },
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin()
      const { id } = yield* first.run(start("server", { lifetime: "detached" }))
      const jobs = yield* first.run(jobsOf("s1"))
      yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("1 second")
      const barrier = yield* first.run(ShutdownBarrier.Service)
      yield* first.close
      assert.deepStrictEqual([yield* world.alive, yield* statuses], [[], ["cancelled"]])
      const report = yield* barrier.report
      assert.deepStrictEqual([report.clean, report.rows.map(({ status }) => status)], [true, ["cancelled"]])
      assert.isTrue((yield* list.pipe(first.run)).every((job) => job.status === "cancelled"))
    })
  )
})
