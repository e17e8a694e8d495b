/** What a ledger, an observer, a driver or a caller does badly costs itself, and no job its end or its notice. */
import { assert, it } from "@effect/vitest"
import {
  AppProcess,
  BackgroundProcess,
  BlobStore,
  BlobStoreMemory,
  CommandSpec,
  ProcessLedger,
  type Settings,
  ShutdownBarrier
} from "@procyon/runtime"
import { child, RuntimeTest, type Script, ScriptedDriver, World } from "@procyon/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as ProcessDriver from "../../src/ports/ProcessDriver.ts"
import * as ProcessRuntime from "../../src/ProcessRuntime.ts"
import * as SettingsModule from "../../src/services/Settings.ts"
import * as ProcessLedgerMemory from "../../src/stores/ProcessLedgerMemory.ts"

const run = CommandSpec.make

type Ledger = ProcessLedger.ProcessLedger

/** The ledger in memory, changed by `change`. */
const ledger = (change: (ledger: Ledger) => Partial<Ledger>) =>
  Layer.effect(
    ProcessLedger.Service,
    ProcessLedger.Service.use((memory) => Effect.succeed({ ...memory, ...change(memory) }))
  )

const onLedger = (
  children: Record<string, Script>,
  change: (ledger: Ledger) => Partial<Ledger>,
  settings?: Partial<Settings.Settings>
) => RuntimeTest.layer({ children, settings, ledger: ledger(change) })

type Driver = ProcessDriver.ProcessDriver

const onDriver = (
  children: Record<string, Script>,
  change: (driver: Driver) => Partial<Driver>,
  settings: Partial<Settings.Settings> = {}
) => {
  const changed = Layer.effect(
    ProcessDriver.Service,
    ProcessDriver.Service.use((driver) => Effect.succeed({ ...driver, ...change(driver) }))
  )
  return Layer.fresh(
    ProcessRuntime.layer.pipe(
      Layer.provide(SettingsModule.layer(settings)),
      Layer.provide(ProcessLedgerMemory.layer),
      Layer.provide(changed),
      Layer.provideMerge(ScriptedDriver.layer({ children }))
    )
  )
}

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

const reasonOf = <A>(start: Effect.Effect<A, BackgroundProcess.StartError>) =>
  Effect.map(Effect.flip(start), (error) => error.reason._tag)

const statuses = (notices: ReadonlyArray<BackgroundProcess.Notice>) =>
  notices.map((notice) => notice._tag === "Job" ? notice.status : notice._tag)

const never = { interruptible: Effect.never, uninterruptible: Effect.uninterruptible(Effect.never) }

for (const kind of ["interruptible", "uninterruptible"] as const) {
  it.effect(`a ledger whose transitions hang (${kind}) costs a job its row, and not its end nor its notice`, () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const started = yield* Effect.forkChild(jobs.start(run("server")))
      yield* world.advance("1 second")
      const job = yield* Fiber.join(started)
      yield* world.kill("server", 0)
      const waiting = yield* Effect.forkChild(jobs.wait(job.id))
      yield* world.advance("30 seconds")
      assert.isDefined(waiting.pollUnsafe())
      const info = yield* Fiber.join(waiting)
      assert.deepStrictEqual([info.status, info.recorded], ["completed", false])
      // Whether another runtime tells of it by now is asked first, for a bounded time.
      const taking = yield* Effect.forkChild(jobs.notices)
      yield* world.advance("10 seconds")
      assert.deepStrictEqual(statuses(yield* Fiber.join(taking)), ["completed"])
    }).pipe(Effect.provide(onLedger({ server: child }, () => ({ transition: () => never[kind] })))))
}

it.effect("a ledger that throws costs a job its row, and not its end nor its notice", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"))
    yield* world.kill("server", 0)
    yield* world.advance("1 second")
    assert.strictEqual((yield* jobs.wait(job.id)).recorded, false)
    assert.deepStrictEqual(statuses(yield* jobs.notices), ["completed"])
  }).pipe(Effect.provide(onLedger({ server: child }, () => ({
    transition: () => {
      throw new Error("a secret")
    },
    renew: () => {
      throw new Error("a secret")
    }
  })))))

it.effect("a ledger that throws at the first row refuses the start, and leaves nothing", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const error = yield* Effect.flip(jobs.start(run("server")))
    assert.strictEqual(error.reason._tag, "NotRecorded")
    assert.deepStrictEqual([yield* jobs.list, yield* world.spawned], [[], 0])
    assert.strictEqual(
      (yield* Effect.andThen(ShutdownBarrier.Service.use((barrier) => barrier.shutdown()), (r) => Effect.succeed(r)))
        .rows.length,
      0
    )
  }).pipe(Effect.provide(onLedger({ server: child }, () => ({
    insert: () => {
      throw new Error("a secret")
    }
  })))))

it.effect("a start is told as one although the job ends before its row could say so", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(jobs.start(run("quick")))
    yield* world.advance("2 seconds")
    assert.strictEqual((yield* Fiber.join(starting)).command, "quick")
    yield* world.advance("1 minute")
    assert.deepStrictEqual((yield* jobs.list).map((job) => [job.status, job.recorded]), [["completed", true]])
    const rows = yield* ProcessLedger.Service.use((rows) => rows.rows())
    assert.deepStrictEqual(rows.map((row) => [row.status, row.identity === null]), [["completed", false]])
  }).pipe(Effect.provide(onLedger({ quick: child.exits(0) }, (memory) => {
    let calls = 0
    return {
      transition: (id, expected, changes) => calls++ === 0 ? Effect.never : memory.transition(id, expected, changes)
    }
  }))))

it.effect("a row is moved in the order of the job's life, however slow the ledger is", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(jobs.start(run("server")))
    yield* world.advance("2 seconds")
    const job = yield* Fiber.join(starting)
    yield* Effect.forkChild(jobs.extend(job.id, "1 hour"))
    yield* world.advance("100 millis")
    yield* world.kill("server", 0)
    yield* world.advance("1 minute")
    assert.deepStrictEqual((yield* jobs.list).map((job) => [job.status, job.recorded]), [["completed", true]])
    const rows = yield* ProcessLedger.Service.use((rows) => rows.rows())
    assert.deepStrictEqual(rows.map((row) => [row.status, row.endedAt !== null]), [["completed", true]])
  }).pipe(Effect.provide(onLedger({ server: child }, (memory) => {
    // Each call is slower than the one after it, and applied when it answers.
    const delays = [1500, 1000, 10]
    return {
      transition: (id, expected, changes) => Effect.delay(memory.transition(id, expected, changes), delays.shift() ?? 0)
    }
  }))))

it.effect("a notice that is taken while its row is being written is recorded as taken", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(jobs.start(run("server")))
    yield* world.advance("1 second")
    yield* Fiber.join(starting)
    yield* world.kill("server", 0)
    yield* world.advance("1 second")
    // Gives the row up, which is out when the notice is taken.
    const closing = yield* Effect.forkChild(ShutdownBarrier.Service.use((barrier) => barrier.shutdown()))
    yield* world.advance("50 millis")
    const taking = yield* Effect.forkChild(jobs.notices)
    yield* world.advance("1 second")
    yield* Fiber.join(closing)
    assert.deepStrictEqual(statuses(yield* Fiber.join(taking)), ["completed"])
    const rows = yield* ProcessLedger.Service.use((rows) => rows.rows())
    assert.deepStrictEqual(rows.map((row) => [row.told, row.holder]), [["completed", null]])
  }).pipe(Effect.provide(onLedger({ server: child }, (memory) => ({
    transition: (...args) => Effect.delay(memory.transition(...args), "100 millis")
  })))))

it.effect("a start that waits for its row is withdrawn as one that never was, and not as a kill that failed", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(Effect.flip(jobs.start(run("server"))))
    yield* world.advance("500 millis")
    yield* Effect.forkChild(jobs.stopAll)
    yield* world.advance("20 seconds")
    assert.strictEqual((yield* Fiber.join(starting)).reason._tag, "StartWithdrawn")
    assert.deepStrictEqual(yield* jobs.notices, [])
    assert.deepStrictEqual(yield* jobs.list, [])
  }).pipe(Effect.provide(onLedger(
    { server: child },
    (memory) => ({ insert: (row) => Effect.delay(memory.insert(row), 4500) }),
    { startAnswerMillis: 60_000 }
  ))))

it.effect("two who try again at once join one retry, and both are answered", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("stuck"))
    yield* Effect.forkChild(jobs.stop(job.id))
    yield* world.advance("10 seconds")
    const before = (yield* world.signals).length
    const retries = [
      yield* Effect.forkChild(jobs.retryTermination(job.id)),
      yield* Effect.forkChild(jobs.retryTermination(job.id))
    ]
    yield* world.advance("10 seconds")
    for (const retry of retries) {
      assert.isDefined(retry.pollUnsafe())
      assert.strictEqual((yield* Fiber.join(retry)).status, "kill_failed")
    }
    const asked = (yield* world.signals).slice(before).filter((line) => line.includes("SIGTERM"))
    assert.strictEqual(asked.length, 1)
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { stuck: child.ignores("SIGTERM").refuses("SIGKILL") } }))))

it.effect("nothing is started before its row is written, however slow the ledger is", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(jobs.start(run("server")))
    yield* world.advance(1999)
    assert.strictEqual(yield* world.spawned, 0)
    yield* world.advance(1)
    assert.strictEqual(yield* world.spawned, 1)
    assert.strictEqual((yield* Fiber.join(starting)).status, "running")
  }).pipe(Effect.provide(onLedger(
    { server: child },
    (memory) => ({ insert: (row) => Effect.delay(memory.insert(row), "2 seconds") }),
    { startAnswerMillis: 60_000 }
  ))))

it.effect("every retry of a process that stays is answered", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("stuck"))
    const stop = yield* Effect.forkChild(jobs.stop(job.id))
    yield* world.advance("10 seconds")
    assert.strictEqual((yield* Fiber.join(stop)).status, "kill_failed")
    const retries = yield* Effect.forkChild(
      Effect.andThen(jobs.retryTermination(job.id), jobs.retryTermination(job.id))
    )
    yield* world.advance("30 seconds")
    assert.isDefined(retries.pollUnsafe())
    yield* world.kill("stuck")
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { stuck: child.ignores("SIGTERM").refuses("SIGKILL") } }))))

it.effect("a report's receiver that throws keeps nobody waiting", () =>
  Effect.gen(function*() {
    const barrier = yield* ShutdownBarrier.Service
    const closing = yield* Effect.forkChild(barrier.shutdown())
    yield* TestClock.adjust("1 minute")
    assert.isDefined(closing.pollUnsafe())
  }).pipe(Effect.provide(
    onDriver({}, () => ({})).pipe(Layer.provide(ShutdownBarrier.onReport(() => {
      throw new Error("a secret")
    })))
  )), { timeout: 5000 })

for (const kind of ["interruptible", "uninterruptible"] as const) {
  it.effect(`work of a phase that hangs (${kind}) does not keep the children alive`, () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const barrier = yield* ShutdownBarrier.Service
      yield* jobs.start(run("server"))
      barrier.on("draining", never[kind])
      const closing = yield* Effect.forkChild(barrier.shutdown())
      yield* world.advance("1 minute")
      assert.deepStrictEqual(yield* world.alive, [])
      const report = yield* Fiber.join(closing)
      assert.deepStrictEqual([report.clean, report.rows.map((row) => row.status)], [true, ["cancelled"]])
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child.ignores("SIGTERM") } }))))
}

it.effect("work of a phase that fails ends no other, and no child is left for it", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const barrier = yield* ShutdownBarrier.Service
    yield* jobs.start(run("server"))
    let isDone = false
    barrier.on("draining", Effect.die("a secret"))
    barrier.on(
      "draining",
      Effect.delay(
        Effect.sync(() => {
          isDone = true
        }),
        "1 second"
      )
    )
    const closing = yield* Effect.forkChild(barrier.shutdown())
    yield* world.advance("1 minute")
    assert.deepStrictEqual([(yield* Fiber.join(closing)).clean, isDone, yield* world.alive], [true, true, []])
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child } }))))

it.effect("a driver that throws at a start is a failed start", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(Effect.flip(jobs.start(run("server"))))
    yield* world.advance("1 minute")
    assert.strictEqual((yield* Fiber.join(starting)).reason._tag, "SpawnFailed")
  }).pipe(Effect.provide(onDriver({ server: child }, () => ({
    spawn: () => {
      throw new Error("a secret")
    }
  })))))

/** The child a driver answers with, changed from the moment on that `change` is called. */
const onChild = (
  children: Record<string, Script>,
  change: (child: ProcessDriver.Child) => Partial<ProcessDriver.Child>
) =>
  onDriver(children, (driver) => ({
    spawn: (request) =>
      Effect.map(driver.spawn(request), (child) =>
        // Not spread: a getter of the change is to be called when it is read.
        Object.create(child, Object.getOwnPropertyDescriptors(change(child))) as ProcessDriver.Child)
  }))

/** Runs a law on a runtime, and closes that within a minute: whatever a driver keeps hold of, its layer does not. */
const closing = <A, E>(
  layer: Layer.Layer<ProcessRuntime.ProcessRuntime | World>,
  body: Effect.Effect<A, E, ProcessRuntime.ProcessRuntime | World>
) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(layer, scope)
    yield* Effect.provideContext(body, context)
    const closed = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    yield* TestClock.adjust("1 minute")
    assert.isDefined(closed.pollUnsafe())
  })

it.effect("a start that a driver neither answers nor lets go of is told as one that may live, and holds up no layer", () =>
  closing(
    onDriver({}, () => ({ spawn: () => never.uninterruptible })),
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const starting = yield* Effect.forkChild(jobs.start(run("server")))
      yield* world.advance("1 second")
      const { id } = yield* Fiber.join(starting)
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      const other = yield* Effect.forkChild(jobs.start(run("server")))
      // The force window of the one; the start window of the other, and its force window.
      yield* world.advance("14 seconds")
      const stopped = yield* Fiber.join(stopping)
      const unanswered = yield* jobs.wait((yield* Fiber.join(other)).id)
      assert.deepStrictEqual(
        [stopped, unanswered].map(({ error, receipt, status }) => [status, receipt?.cause._tag, error]),
        [
          ["kill_failed", "Stop", "the driver did not answer the start, nor its withdrawal"],
          ["kill_failed", "StartFailed", "OutcomeUnknown"]
        ]
      )
      const retrying = yield* Effect.forkChild(jobs.retryTermination(id))
      yield* world.advance("1 second")
      assert.strictEqual((yield* Fiber.join(retrying)).status, "kill_failed")
    })
  ))

it.effect("a source of stdin that cannot be interrupted holds up no layer, and neither does the end of its process", () =>
  closing(
    onDriver({ server: child }, () => ({})),
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const source = Stream.fromEffect(Effect.as(never.uninterruptible, new Uint8Array(1)))
      const { id } = yield* jobs.start(run("server", [], { stdin: source }))
      yield* world.drain
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("1 second")
      assert.strictEqual((yield* Fiber.join(stopping)).status, "cancelled")
    })
  ))

it.effect("leftovers that were kept, and that a driver does not let go of, hold up no layer", () =>
  closing(
    onChild(
      { leader: child.forks("daemon", child, { escapes: "daemon", holdsOutput: true }).exits(0) },
      () => ({ release: never.uninterruptible })
    ),
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      yield* jobs.start(run("leader"), { leftovers: "keep" })
      yield* world.advance("10 seconds")
      assert.deepStrictEqual((yield* jobs.list).map(({ status }) => status), ["completed"])
    })
  ))

it.effect("a child that breaks wherever it is asked for is never told as gone, and costs no other its end", () => {
  let broken = false
  return Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server"))
    broken = true
    const stopping = yield* Effect.forkChild(jobs.stop(id))
    yield* world.advance("10 seconds")
    const { phase, status } = yield* Fiber.join(stopping)
    assert.deepStrictEqual([status, phase, yield* world.signals], ["kill_failed", "unresolved", []])
    broken = false
    const retrying = yield* Effect.forkChild(jobs.retryTermination(id))
    yield* world.advance("10 seconds")
    assert.strictEqual((yield* Fiber.join(retrying)).status, "cancelled")
    assert.deepStrictEqual(yield* world.alive, [])
  }).pipe(Effect.provide(onChild({ server: child }, ({ identity }) => ({
    get identity() {
      if (broken) throw new Error("a secret")
      return identity
    }
  }))))
})

it.effect("a first look that breaks costs the signal before the grace, and not the end", () => {
  let breaks = 0
  return Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server"))
    breaks = 1
    const stopping = yield* Effect.forkChild(jobs.stop(id))
    yield* world.advance("6 seconds")
    const { receipt } = yield* Fiber.join(stopping)
    assert.deepStrictEqual([receipt?.status, receipt?.forced, yield* world.alive], ["cancelled", true, []])
    assert.notInclude((yield* world.signals).join(), "SIGTERM")
  }).pipe(Effect.provide(onChild({ server: child }, ({ identity }) => ({
    get identity() {
      if (breaks-- > 0) throw new Error("a secret")
      return identity
    }
  }))))
})

it.effect("a start that was lost settles when its driver answers after all that nothing was started", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(jobs.start(run("server")))
    yield* world.advance("15 seconds")
    const { id } = yield* Fiber.join(starting)
    assert.strictEqual((yield* jobs.get(id)).status, "kill_failed")
    yield* world.advance("15 seconds")
    assert.deepStrictEqual(yield* Effect.map(jobs.get(id), ({ error, status }) => [status, error]), [
      "error",
      "TooManyProcesses (EAGAIN)"
    ])
    assert.deepStrictEqual(statuses(yield* jobs.notices), ["kill_failed", "error"])
  }).pipe(Effect.provide(onDriver({}, () => ({
    spawn: () =>
      Effect.uninterruptible(Effect.delay(
        Effect.fail(new ProcessDriver.SpawnFailed({ problem: "TooManyProcesses", code: "EAGAIN" })),
        "20 seconds"
      ))
  })))))

it.effect("a child that never finishes its output, and cannot be let go of, settles after the windows", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("quick"))
    yield* world.advance("4 seconds")
    assert.strictEqual((yield* jobs.get(id)).phase, "flushing")
    yield* world.advance("1 second")
    assert.deepStrictEqual(yield* Effect.map(jobs.get(id), ({ output, status }) => [status, output.drained]), [
      "completed",
      true
    ])
  }).pipe(Effect.provide(onChild({ quick: child.exits(0) }, () => ({
    finish: Effect.never,
    release: Effect.die("a secret")
  })))))

it.effect("a stdin that breaks takes nothing, and one that hangs holds up who closes it for two windows only", () => {
  const closed: Array<boolean> = []
  return Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const { id } = yield* jobs.start(run("server", [], { stdin: "open" }))
    assert.strictEqual((yield* Effect.flip(jobs.write(id, "x")))._tag, "StdinClosed")
    const closing = yield* Effect.forkChild(jobs.closeStdin(id))
    yield* world.advance("5 seconds")
    assert.deepStrictEqual(closed, [false, true])
    yield* world.advance("5 seconds")
    yield* Fiber.join(closing)
    // Nothing to be taken, and it is still told that it is closed.
    assert.strictEqual((yield* Effect.flip(jobs.write(id, "")))._tag, "StdinClosed")
  }).pipe(Effect.provide(onChild({ server: child }, () => ({
    write: () => Effect.die("a secret"),
    closeStdin: ({ now = false } = {}) =>
      Effect.suspend(() => {
        closed.push(now)
        return Effect.never
      })
  }))))
})

it.effect(
  "a driver whose looks hang, and cannot be interrupted, holds up no end past its bounds",
  () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const job = yield* jobs.start(run("server"))
      const stopping = yield* Effect.forkChild(jobs.stop(job.id))
      yield* world.advance("2 minutes")
      assert.isDefined(stopping.pollUnsafe())
      assert.strictEqual((yield* jobs.get(job.id)).status, "kill_failed")
      const closing = yield* Effect.forkChild(ShutdownBarrier.Service.use((barrier) => barrier.shutdown()))
      yield* world.advance("2 minutes")
      assert.isDefined(closing.pollUnsafe())
    }).pipe(Effect.provide(onDriver({ server: child }, () => ({
      look: () => never.uninterruptible,
      signal: () => never.uninterruptible
    })))),
  { timeout: 5000 }
)

it.effect("closing the stdin of a process that still starts is remembered", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starting = yield* Effect.forkChild(jobs.start(run("cat", [], { stdin: "open" })))
    yield* world.advance("1 second")
    const job = yield* Fiber.join(starting)
    assert.strictEqual(job.phase, "starting")
    yield* Effect.forkChild(jobs.closeStdin(job.id))
    yield* world.advance("10 seconds")
    assert.strictEqual((yield* jobs.get(job.id)).status, "completed")
  }).pipe(
    Effect.provide(RuntimeTest.layer({ children: { cat: child.startsAfter("2 seconds").readsStdin().exits(0) } }))
  ))

it.effect("a source of stdin that never ends is let go of with its process", () =>
  Effect.gen(function*() {
    const world = yield* World
    let open = false
    const source = Stream.never.pipe(
      Stream.onStart(Effect.sync(() => {
        open = true
      })),
      Stream.ensuring(Effect.sync(() => {
        open = false
      }))
    )
    const running = yield* Effect.forkChild(AppProcess.run(run("server", [], { stdin: source })))
    yield* world.drain
    assert.isTrue(open)
    yield* world.kill("server", 0)
    yield* world.advance("1 second")
    yield* Fiber.join(running)
    assert.isFalse(open)
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child } }))))

it.effect("whoever waits for a process that the shutdown had no time for is answered when the runtime closes", () =>
  Effect.gen(function*() {
    const outer = yield* Scope.make()
    const inner = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      onDriver({ stuck: child.ignores("SIGTERM").refuses("SIGKILL") }, () => ({}), { shutdownBudgetMillis: 1000 }),
      inner
    )
    const jobs = Context.get(context, BackgroundProcess.Service).of("s1")
    const handle = yield* Scope.provide(Context.get(context, AppProcess.Service).spawn(run("stuck")), outer)
    const job = yield* jobs.start(run("stuck"))
    const events = yield* Effect.forkChild(Effect.all(
      [Stream.runDrain(jobs.events), Stream.runDrain(Context.get(context, BackgroundProcess.Service).events)],
      { concurrency: "unbounded" }
    ))
    const waiters = [
      yield* Effect.forkChild(handle.termination),
      yield* Effect.forkChild(jobs.wait(job.id)),
      yield* Effect.forkChild(Effect.andThen(jobs.awaitNotices, jobs.awaitNotices)),
      events
    ]
    const closing = yield* Effect.forkChild(Scope.close(inner, Exit.void))
    yield* TestClock.adjust("1 minute")
    yield* Fiber.join(closing)
    assert.deepStrictEqual(waiters.filter((fiber) => fiber.pollUnsafe() === undefined), [])
    const late = yield* Effect.forkChild(
      Effect.all([
        Scope.close(outer, Exit.void),
        handle.terminate(),
        jobs.stop(job.id),
        jobs.retire,
        jobs.closeStdin(job.id)
      ])
    )
    yield* TestClock.adjust("1 minute")
    assert.isDefined(late.pollUnsafe())
    assert.deepStrictEqual((yield* handle.termination).cause, { _tag: "Shutdown" })
    assert.strictEqual((yield* jobs.get(job.id)).status, "running")
    const lateEvents = yield* Effect.forkChild(Stream.runCollect(jobs.events))
    yield* TestClock.adjust(0)
    assert.deepStrictEqual(yield* Fiber.join(lateEvents), [])
    const other = Context.get(context, BackgroundProcess.Service).of("s2")
    assert.strictEqual(yield* reasonOf(other.start(run("stuck"))), "RuntimeClosed")
  }))

it.effect("a job that somebody joined stays when its starter is interrupted", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const starter = yield* Effect.forkChild(jobs.start(run("late"), { name: "x" }), { startImmediately: true })
    const joined = yield* jobs.start(run("late"), { name: "x", onExisting: "join" })
    yield* Fiber.interrupt(starter)
    yield* world.advance("1 second")
    assert.strictEqual((yield* jobs.get(joined.id)).phase, "running")
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { late: child.startsAfter("500 millis") } }))))

it.effect("a job is not forgotten between its end and the news of it", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const job = yield* jobs.start(run("server"))
    yield* world.kill("server", 0)
    yield* world.advance("500 millis")
    assert.deepStrictEqual(yield* jobs.get(job.id).pipe(Effect.map(({ recorded, status }) => [status, recorded])), [
      "completed",
      false
    ])
    assert.deepStrictEqual([yield* jobs.notices, yield* jobs.forget(job.id)], [[], false])
    yield* world.advance("2 seconds")
    assert.deepStrictEqual([statuses(yield* jobs.notices), yield* jobs.forget(job.id)], [["completed"], true])
    assert.deepStrictEqual(yield* ProcessLedger.Service.use((rows) => rows.rows()), [])
  }).pipe(Effect.provide(onLedger({ server: child }, (memory) => ({
    transition: (id, expected, changes) =>
      Effect.delay(memory.transition(id, expected, changes), changes.termination === undefined ? 0 : 2000)
  })))))

it.effect("an exit that comes after the end is news to nobody", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const seen: Array<string> = []
    yield* Effect.forkScoped(
      Stream.runForEach(jobs.events, (event) => Effect.sync(() => seen.push(event._tag))),
      { startImmediately: true }
    )
    const job = yield* jobs.start(run("server"))
    yield* Effect.forkChild(jobs.stop(job.id))
    yield* world.advance("1 minute")
    assert.strictEqual(seen.at(-1), "Ended")
    assert.strictEqual((yield* jobs.get(job.id)).status, "cancelled")
  }).pipe(
    Effect.scoped,
    Effect.provide(onDriver({ server: child }, (driver) => ({
      // Told a day later, also to a child that was let go of.
      spawn: (request) => {
        const { onExit } = request
        return driver.spawn({ ...request, onExit: () => undefined }).pipe(
          Effect.tap(() =>
            Effect.forkDetach(Effect.delay(
              Effect.sync(() => onExit({ code: 0, signal: null })),
              "20 seconds"
            ))
          )
        )
      }
    })))
  ))

it.effect("a finished job keeps nothing of what it was given: neither its stdin nor its command", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    setFlagsFromString("--expose-gc")
    const gc: () => void = runInNewContext("gc")
    const given = yield* Effect.suspend(() => {
      const stdin = new Uint8Array(1000)
      return Effect.as(jobs.start(run("server", [], { stdin })), new WeakRef(stdin))
    })
    yield* world.kill("server", 0)
    yield* world.advance("1 second")
    assert.deepStrictEqual((yield* jobs.list).map((job) => job.status), ["completed"])
    // A WeakRef holds its target to the end of the turn it was made or asked in.
    for (let round = 0; round < 20 && given.deref() !== undefined; round++) {
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      gc()
    }
    assert.isUndefined(given.deref())
  }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child } }))))

it.effect("a process writes no faster than a slow store takes what memory loses, and all of it is there", () =>
  Effect.gen(function*() {
    const world = yield* World
    const text = "0123456789".repeat(20_000)
    const running = yield* Effect.forkChild(AppProcess.run(run("loud")))
    yield* world.advance("500 millis")
    assert.isUndefined(running.pollUnsafe(), "it waits for the store")
    yield* world.advance("1 minute")
    const { errorOutput, info, output } = yield* Fiber.join(running)
    assert.deepStrictEqual([info.status, info.output.spill, info.output.bytesSeen], ["completed", "complete", 200_000])
    for (const view of [output, errorOutput]) {
      let read = ""
      for (let since = 0; since < 200_000;) {
        const page = yield* view.read({ since })
        read += page.data
        since = page.next
      }
      assert.isTrue(read === text)
    }
  }).pipe(Effect.provide(
    Layer.fresh(
      ProcessRuntime.layer.pipe(
        Layer.provide(SettingsModule.layer({ outputBytes: 8192, outputHeadBytes: 1024 })),
        Layer.provide(ProcessLedgerMemory.layer),
        Layer.provide(Layer.effect(
          BlobStore.Service,
          Effect.map(BlobStoreMemory.make, (store): BlobStore.BlobStore => ({
            read: (ref, options) => store.read(ref, options),
            lease: (ref) => store.lease(ref),
            remove: (name) => store.remove(name),
            write: (name) =>
              Effect.map(store.write(name), (writer): BlobStore.BlobWriter => ({
                append: (bytes) => Effect.delay(writer.append(bytes), "100 millis"),
                seal: (label) => writer.seal(label)
              }))
          }))
        )),
        Layer.provideMerge(ScriptedDriver.layer({
          children: {
            loud: child.prints("0123456789".repeat(20_000))
              .prints("0123456789".repeat(20_000), { stream: "stderr" })
              .exits(0)
          }
        }))
      )
    )
  )))

it.effect("leftovers that were kept are let go of when their output ends", () =>
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    yield* jobs.start(run("leader"), { leftovers: "keep", streams: "separate" })
    yield* world.advance("5 seconds")
    assert.deepStrictEqual((yield* jobs.list).map((job) => job.status), ["completed"])
    assert.deepStrictEqual([yield* world.alive, yield* world.open], [["daemon"], ["leader"]])
    yield* world.advance("10 seconds")
    assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
  }).pipe(Effect.provide(RuntimeTest.layer({
    children: {
      leader: child.forks("daemon", child.exits(0, { after: "10 seconds" }), { escapes: "daemon", holdsOutput: true })
        .exits(0, { after: "1 second" })
    }
  }))))
