import { assert, describe } from "@effect/vitest"
import { ProcessDriver, ProcessLedger, Recovery, type Settings, ShutdownBarrier } from "@procyon/runtime"
import { child, Lives, World } from "@procyon/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
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

describe("a row that a ledger has written without an answer", () => {
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
