import { assert, describe, it } from "@effect/vitest"
import { Authority, Generation, ManagedProcess, RuntimeStore, Settings } from "@procyon/runtime"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

/** Counts what is asked of it, and does then what a test gives it to do. */
class Probe<E = never, R = never> implements ManagedProcess.ManagedProcess<E, R> {
  started = 0
  closed = 0
  readonly onStart: Effect.Effect<unknown, E, R>
  readonly onClose: Effect.Effect<unknown>

  constructor(onStart: Effect.Effect<unknown, E, R>, onClose: Effect.Effect<unknown> = Effect.void) {
    this.onStart = onStart
    this.onClose = onClose
  }

  start(): Effect.Effect<void, E, R> {
    return Effect.suspend(() => {
      this.started++
      return Effect.asVoid(this.onStart)
    })
  }

  close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.closed++
      return Effect.asVoid(this.onClose)
    })
  }

  get calls(): readonly [started: number, closed: number] {
    return [this.started, this.closed]
  }
}

const probe = (onClose?: Effect.Effect<unknown>) => new Probe(Effect.void, onClose)
const immediately = { startImmediately: true }

describe("the types", () => {
  /** Each of them fits the other, and they are not `any`, which fits everything. */
  type Equals<A, B> = [A] extends [B] ? [B] extends [A] ? 0 extends 1 & A ? false : true : false : false

  it("the error of start is the process's own error type, beside the registry's refusals", () => {
    class Config extends Context.Service<Config, string>()("test/Config") {}
    const start = (registry: ManagedProcess.ManagedProcessRegistry, process: Probe<Refused, Config>) =>
      registry.start("a", process)
    type Started = ReturnType<typeof start>
    const errors: Equals<Effect.Error<Started>, Refused | ManagedProcess.Refusal> = true
    const services: Equals<Effect.Services<Started>, Config> = true
    assert.isTrue(errors && services)
  })

  it("a process that cannot fail leaves the refusals alone, and those that fork can meet are two", () => {
    const start = (registry: ManagedProcess.ManagedProcessRegistry) => registry.start("a", probe())
    const fork = (registry: ManagedProcess.ManagedProcessRegistry) =>
      registry.fork("a", Effect.flatMap(Authority.Current, (authority) => authority.commit(Effect.fail("no"))))
    type Forked = ReturnType<typeof fork>
    const started: Equals<Effect.Error<ReturnType<typeof start>>, ManagedProcess.Refusal> = true
    const forked: Equals<
      Effect.Error<Forked>,
      ManagedProcess.ManagedProcessAlreadyExists | ManagedProcess.RegistryClosed
    > = true
    const services: Equals<Effect.Services<Forked>, never> = true
    assert.isTrue(started && forked && services)
  })

  it("a lookup with a guard is typed by it", () => {
    const get = (registry: ManagedProcess.ManagedProcessRegistry) => registry.get("a", Probe<Refused>)
    const found: Equals<Effect.Success<ReturnType<typeof get>>, Option.Option<Probe<Refused>>> = true
    assert.isTrue(found)
  })
})

describe("start", () => {
  it.effect("returns when the process has started, and the process goes on", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = probe()
      yield* registry.start("a", process)
      assert.deepStrictEqual(process.calls, [1, 0])
      assert.deepStrictEqual(yield* registry.get("a"), Option.some(process))
    }))

  it.effect("a duplicate start fails and never starts the second, while the first starts and while it runs", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const first = new Probe(Effect.sleep("1 second"))
      const second = probe()
      const starting = yield* Effect.forkChild(registry.start("a", first), immediately)
      const error = yield* Effect.flip(registry.start("a", second))
      assert.deepStrictEqual([error._tag, error.id], ["ManagedProcessAlreadyExists", "a"])
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(starting)
      assert.strictEqual((yield* Effect.flip(registry.start("a", second)))._tag, "ManagedProcessAlreadyExists")
      assert.deepStrictEqual(second.calls, [0, 0])
      assert.deepStrictEqual(yield* registry.get("a"), Option.some(first))
    }))

  it.effect("exactly one of many concurrent starts of an id is admitted", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const processes = Array.from({ length: 50 }, () => new Probe(Effect.sleep("1 second")))
      const starting = yield* Effect.forkChild(
        Effect.forEach(processes, (process) => Effect.exit(registry.start("a", process)), { concurrency: "unbounded" })
      )
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(starting)).filter(Exit.isSuccess).length, 1)
      assert.strictEqual(processes.reduce((sum, { started }) => sum + started, 0), 1)
    }))

  it.effect("a failed start frees the id after close was tried, and raises the original error", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const error = new Refused({ why: "quota" })
      const process = new Probe(Effect.fail(error))
      const raised = yield* Effect.flip(registry.start("a", process))
      assert.strictEqual(raised, error)
      assert.deepStrictEqual(process.calls, [1, 1])
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      yield* registry.start("a", probe())
    }))

  it.effect("a failed start whose close fails, or hangs, still raises the original error", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      for (const onClose of [Effect.die("worse"), Effect.uninterruptible(Effect.never)]) {
        const starting = yield* Effect.forkChild(
          Effect.flip(registry.start("a", new Probe(Effect.fail("original"), onClose)))
        )
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual(yield* Fiber.join(starting), "original")
      }
      yield* registry.start("a", probe())
    }))

  it.effect("the id stays reserved, and its process hidden, while a failed start is cleaned up", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.fail("no"), Effect.sleep("1 second"))
      yield* Effect.forkChild(registry.start("a", process), immediately)
      assert.strictEqual((yield* Effect.flip(registry.start("a", probe())))._tag, "ManagedProcessAlreadyExists")
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      assert.isFalse(yield* registry.remove("a", process))
      yield* TestClock.adjust("1 second")
      yield* registry.start("a", probe())
    }))

  it.effect("a defect in a start, thrown or raised, and an interruption of its own come through as they are", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const bug = new Error("bug")
      const raises = new Probe(Effect.die(bug))
      const thrown = { start: (): Effect.Effect<void> => Effect.void, close: () => Effect.void }
      thrown.start = () => {
        throw bug
      }
      const stops = new Probe(Effect.interrupt)
      assert.deepStrictEqual(yield* Effect.exit(registry.start("a", raises)), Exit.die(bug))
      assert.deepStrictEqual(yield* Effect.exit(registry.start("a", thrown)), Exit.die(bug))
      const exit = yield* Effect.exit(registry.start("a", stops))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      assert.deepStrictEqual([raises.closed, stops.closed], [1, 1])
      yield* registry.start("a", probe())
    }))

  it.effect("a start that overruns its window fails by name, is interrupted and closed, and frees the id", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      let interrupted = false
      const process = new Probe(Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted = true)))
      const starting = yield* Effect.forkChild(Effect.flip(registry.start("a", process)))
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(starting.pollUnsafe())
      assert.isFalse(interrupted)
      yield* TestClock.adjust("1 millis")
      const error = yield* Fiber.join(starting)
      assert.deepStrictEqual(error, new ManagedProcess.StartOverran({ id: "a", windowMillis: 5000 }))
      assert.isTrue(interrupted)
      assert.deepStrictEqual(process.calls, [1, 1])
      yield* registry.start("a", probe())
    }))

  it.effect("a start that cannot be interrupted, and is over after its window, is closed once more", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.uninterruptible(Effect.sleep("1 minute")))
      const starting = yield* Effect.forkChild(Effect.flip(registry.start("a", process)))
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(starting))._tag, "StartOverran")
      assert.strictEqual(process.closed, 1)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(process.closed, 2)
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
    }))

  it.effect("a start window of the settings holds", () =>
    Effect.gen(function*() {
      const registry = yield* Effect.provide(ManagedProcess.make, Settings.layer({ managedStartWindowMillis: 10 }))
      const starting = yield* Effect.forkChild(Effect.flip(registry.start("a", new Probe(Effect.never))))
      yield* TestClock.adjust("10 millis")
      assert.strictEqual((yield* Fiber.join(starting))._tag, "StartOverran")
    }))

  it.effect("interrupting the starter leaves nothing, and close was tried", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.never)
      const starting = yield* Effect.forkChild(registry.start("a", process), immediately)
      yield* Fiber.interrupt(starting)
      assert.deepStrictEqual(process.calls, [1, 1])
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      yield* registry.start("a", probe())
    }))

  it.effect("interrupting the starter when the start is over leaves a registered process", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.sync(() => starting?.interruptUnsafe()))
      let starting: Fiber.Fiber<unknown, unknown> | undefined
      starting = yield* Effect.forkChild(Effect.andThen(Effect.yieldNow, registry.start("a", process)), immediately)
      const exit = yield* Fiber.await(starting)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      assert.deepStrictEqual(process.calls, [1, 0])
      assert.deepStrictEqual(yield* registry.get("a"), Option.some(process))
    }))

  it.effect("interrupting the starter waits for a start that cannot be interrupted, and then closes it", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.uninterruptible(Effect.sleep("2 seconds")))
      const starting = yield* Effect.forkChild(registry.start("a", process), immediately)
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(starting), immediately)
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(interrupting.pollUnsafe())
      assert.deepStrictEqual(process.calls, [1, 0])
      yield* TestClock.adjust("1 millis")
      assert.isDefined(interrupting.pollUnsafe())
      assert.deepStrictEqual(process.calls, [1, 1])
      yield* registry.start("a", probe())
    }))

  it.effect("interrupting the starter takes no longer than the windows, whatever start and close do", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const stuck = Effect.uninterruptible(Effect.never)
      const starting = yield* Effect.forkChild(registry.start("a", new Probe(stuck, stuck)), immediately)
      yield* TestClock.adjust("2 seconds")
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(starting), immediately)
      yield* TestClock.adjust("7999 millis")
      assert.isUndefined(interrupting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.isDefined(interrupting.pollUnsafe())
      yield* registry.start("a", probe())
    }))

  it.effect("interrupting the starter at any step leaves a registered process, or nothing and close tried", () =>
    Effect.gen(function*() {
      const turns = (count: number) => Effect.forEach(Array.from({ length: count }), () => Effect.yieldNow)
      const outcomes = new Set<string>()
      for (let step = 0; step < 24; step++) {
        const registry = yield* ManagedProcess.make
        const process = new Probe(turns(8), turns(4))
        const starting = yield* Effect.forkChild(registry.start("a", process))
        yield* turns(step)
        yield* Fiber.interrupt(starting)
        const registered = Option.isSome(yield* registry.get("a"))
        const outcome = JSON.stringify([...process.calls, registered])
        assert.include(["[0,0,false]", "[1,0,true]", "[1,1,false]"], outcome, `step ${step}`)
        outcomes.add(outcome)
        if (!registered) yield* registry.start("a", probe())
      }
      assert.strictEqual(outcomes.size, 3)
    }))

  it.effect("interrupting the starter before it was let in leaves nothing", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = probe()
      const starting = yield* Effect.forkChild(registry.start("a", process))
      yield* Fiber.interrupt(starting)
      assert.deepStrictEqual(process.calls, [0, 0])
      yield* registry.start("a", probe())
    }))
})

describe("get", () => {
  it.effect("gives the very same object while the process starts, and while it runs", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.sleep("1 second"))
      yield* Effect.forkChild(registry.start("a", process), immediately)
      assert.strictEqual(Option.getOrUndefined(yield* registry.get("a")), process)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(Option.getOrUndefined(yield* registry.get("a")), process)
    }))

  it.effect("with a class or a refinement gives only what passes it", () =>
    Effect.gen(function*() {
      class Other extends Probe {}
      const registry = yield* ManagedProcess.make
      const process = probe()
      yield* registry.start("a", process)
      const busy = (self: unknown): self is Probe => self instanceof Probe && self.started > 0
      function never(self: unknown): self is Other {
        return self instanceof Other
      }
      assert.deepStrictEqual(yield* registry.get("a", Probe), Option.some(process))
      assert.deepStrictEqual(yield* registry.get("a", busy), Option.some(process))
      assert.deepStrictEqual(yield* registry.get("a", Other), Option.none())
      assert.deepStrictEqual(yield* registry.get("a", never), Option.none())
      assert.deepStrictEqual(yield* registry.get("b", Probe), Option.none())
    }))
})

describe("remove", () => {
  it.effect("forgets a process by its identity, and does not call close", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = probe()
      yield* registry.start("a", process)
      assert.isTrue(yield* registry.remove("a", process))
      assert.isFalse(yield* registry.remove("a", process))
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      assert.deepStrictEqual(yield* registry.close, { closed: 0, failed: [], pending: 0 })
      assert.strictEqual(process.closed, 0)
    }))

  it.effect("a stale identity does not remove the process that uses the id now", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const [old, fresh] = [probe(), probe()]
      yield* registry.start("a", old)
      yield* registry.remove("a", old)
      yield* registry.start("a", fresh)
      assert.isFalse(yield* registry.remove("a", old))
      assert.strictEqual(Option.getOrUndefined(yield* registry.get("a")), fresh)
    }))

  it.effect("completion during startup is recorded, and done when start has returned", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const removals: Array<boolean> = []
      const process: Probe = new Probe(Effect.andThen(
        Effect.suspend(() => Effect.map(registry.remove("a", process), (removed) => removals.push(removed))),
        Effect.sleep("1 second")
      ))
      const starting = yield* Effect.forkChild(registry.start("a", process), immediately)
      assert.strictEqual(Option.getOrUndefined(yield* registry.get("a")), process)
      assert.strictEqual((yield* Effect.flip(registry.start("a", probe())))._tag, "ManagedProcessAlreadyExists")
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(starting)
      assert.deepStrictEqual(removals, [true])
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      assert.deepStrictEqual(process.calls, [1, 0])
      yield* registry.start("a", probe())
    }))
})

describe("close", () => {
  it.effect("closes all that are left, at once", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const processes = ["a", "b", "c"].map((id) => [id, probe(Effect.sleep("3 seconds"))] as const)
      for (const [id, process] of processes) yield* registry.start(id, process)
      const closing = yield* Effect.forkChild(registry.close)
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(yield* Fiber.join(closing), { closed: 3, failed: [], pending: 0 })
      assert.deepStrictEqual(processes.map(([, { closed }]) => closed), [1, 1, 1])
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
    }))

  it.effect("one close that fails or hangs stops no other, and is named", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const good = probe()
      yield* registry.start("dies", probe(Effect.die("secret")))
      yield* registry.start("hangs", probe(Effect.never))
      yield* registry.start("stuck", probe(Effect.uninterruptible(Effect.never)))
      yield* registry.start("good", good)
      const closing = yield* Effect.forkChild(registry.close)
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(closing.pollUnsafe())
      assert.strictEqual(good.closed, 1)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(closing), {
        closed: 1,
        failed: [
          { id: "dies", reason: "failed" },
          { id: "hangs", reason: "overran" },
          { id: "stuck", reason: "overran" }
        ],
        pending: 0
      })
    }))

  it.effect("a logger that throws keeps nobody waiting: neither here, nor in a store, an authority or a generation", () =>
    Effect.gen(function*() {
      const throwing = Logger.layer([Logger.make(() => {
        throw new Error("the disk is full")
      })])
      const dies = Effect.acquireRelease(Effect.succeed(""), () => Effect.die("a bug"))
      const [authority, registry, store, generation] = yield* Effect.provide(
        Effect.all([
          Authority.make,
          ManagedProcess.make,
          RuntimeStore.make,
          Generation.make(Layer.effectDiscard(dies))
        ]),
        throwing
      )
      yield* Effect.forkChild(authority.commit(Effect.never), immediately)
      yield* registry.start("a", probe(Effect.die("a bug")))
      yield* store.getOrCreate(RuntimeStore.key<string>("test/a"), dies)
      const ends: ReadonlyArray<Effect.Effect<unknown>> = [
        authority.revoke,
        registry.close,
        store.close,
        generation.close
      ]
      const ending = yield* Effect.forEach(ends, (end) => Effect.forkDetach(Effect.asVoid(end)))
      yield* TestClock.adjust("1 minute")
      for (const fiber of ending) assert.deepStrictEqual(fiber.pollUnsafe(), Exit.void)
    }))

  it.effect("rejects starts from its first step on", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      yield* registry.start("slow", probe(Effect.sleep("1 second")))
      const closing = yield* Effect.forkChild(registry.close, immediately)
      const late = probe()
      const error = yield* Effect.flip(registry.start("a", late))
      assert.deepStrictEqual([error._tag, error.id], ["RegistryClosed", "a"])
      assert.strictEqual((yield* Effect.flip(registry.fork("b", Effect.void)))._tag, "RegistryClosed")
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
      assert.strictEqual((yield* Effect.flip(registry.start("a", late)))._tag, "RegistryClosed")
      assert.deepStrictEqual(late.calls, [0, 0])
    }))

  it.effect("close during startup waits for the start, and then closes its process", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = new Probe(Effect.sleep("2 seconds"))
      const starting = yield* Effect.forkChild(registry.start("a", process), immediately)
      const closing = yield* Effect.forkChild(registry.close, immediately)
      yield* TestClock.adjust("1999 millis")
      assert.deepStrictEqual(process.calls, [1, 0])
      assert.isUndefined(closing.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      yield* Fiber.join(starting)
      assert.deepStrictEqual(yield* Fiber.join(closing), { closed: 1, failed: [], pending: 0 })
      assert.deepStrictEqual(process.calls, [1, 1])
    }))

  it.effect("close during a startup that overruns is held up by its window only", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const stuck = new Probe(Effect.uninterruptible(Effect.never))
      const starting = yield* Effect.forkChild(Effect.flip(registry.start("a", stuck)), immediately)
      const closing = yield* Effect.forkChild(registry.close, immediately)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(starting))._tag, "StartOverran")
      assert.deepStrictEqual(yield* Fiber.join(closing), { closed: 0, failed: [], pending: 0 })
      assert.strictEqual(stuck.closed, 1)
    }))

  it.effect("is one closing for all who ask, at any time, and goes on when one of them is interrupted", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const process = probe(Effect.sleep("1 second"))
      yield* registry.start("a", process)
      const first = yield* Effect.forkChild(registry.close, immediately)
      const second = yield* Effect.forkChild(registry.close, immediately)
      yield* Fiber.interrupt(first)
      assert.isUndefined(second.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const report = yield* Fiber.join(second)
      assert.strictEqual(yield* registry.close, report)
      assert.strictEqual(process.closed, 1)
    }))

  it.effect("does not wait for itself when a process asks for it in its own close, or in its start", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const reports: Array<ManagedProcess.CloseReport> = []
      const close = Effect.map(registry.close, (report) => reports.push(report))
      const closers = [probe(close), probe(close)]
      for (const [at, closer] of closers.entries()) yield* registry.start(`closer ${at}`, closer)
      const starter = new Probe(close)
      yield* registry.start("starter", starter)
      assert.deepStrictEqual(yield* registry.close, { closed: 3, failed: [], pending: 0 })
      assert.deepStrictEqual(reports, Array.from({ length: 3 }, () => ({ closed: 0, failed: [], pending: 3 })))
      assert.deepStrictEqual([...closers, starter].map(({ closed }) => closed), [1, 1, 1])
    }))

  it.effect("does not wait for itself when a finalizer asks, of a scope that a process opens and closes", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const reports: Array<ManagedProcess.CloseReport> = []
      const scope = yield* Scope.make()
      const close = Effect.map(registry.close, (report) => reports.push(report))
      yield* registry.start(
        "a",
        new Probe(
          Scope.provide(Effect.addFinalizer(() => close), scope),
          Scope.close(scope, Exit.void)
        )
      )
      assert.deepStrictEqual(yield* registry.close, { closed: 1, failed: [], pending: 0 })
      assert.deepStrictEqual(reports, [{ closed: 0, failed: [], pending: 1 }])
    }))

  it.effect("a worker that a start left behind waits for it like anybody else", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const go = yield* Deferred.make<void>()
      const worker = yield* Deferred.make<Fiber.Fiber<ManagedProcess.CloseReport>>()
      yield* registry.start(
        "a",
        new Probe(
          Effect.andThen(Deferred.await(go), registry.close).pipe(
            Effect.forkDetach(immediately),
            Effect.flatMap((fiber) => Deferred.succeed(worker, fiber))
          )
        )
      )
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(yield* Fiber.join(yield* Deferred.await(worker)), { closed: 1, failed: [], pending: 0 })
    }))

  it.effect("the layer's end closes the registry", () =>
    Effect.gen(function*() {
      const process = probe()
      yield* Effect.provide(
        ManagedProcess.Registry.use((registry) => registry.start("a", process)),
        ManagedProcess.layer
      )
      assert.deepStrictEqual(process.calls, [1, 1])
    }))

  it.effect("runtime-store close closes the one registry that all of its plugins share", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const plugin = Layer.fresh(ManagedProcess.layerShared).pipe(
        Layer.provide(Layer.succeed(RuntimeStore.Service, store))
      )
      const process = probe()
      const first = yield* Effect.provide(ManagedProcess.Registry, plugin)
      const second = yield* Effect.provide(ManagedProcess.Registry, plugin)
      assert.strictEqual(first, second)
      yield* first.start("a", process)
      assert.deepStrictEqual(yield* store.close, { closed: 1, failed: [], pending: 0 })
      assert.deepStrictEqual(process.calls, [1, 1])
      assert.strictEqual((yield* Effect.flip(second.start("b", probe())))._tag, "RegistryClosed")
      assert.strictEqual((yield* Effect.flip(Effect.provide(ManagedProcess.Registry, plugin)))._tag, "StoreClosed")
    }))
})

describe("fork", () => {
  it.effect("returns while the effect runs, and removes it when it is over", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      let done = false
      yield* registry.fork("a", Effect.andThen(Effect.sleep("1 hour"), Effect.sync(() => done = true)))
      assert.isTrue(Option.isSome(yield* registry.get("a")))
      const refusals = [registry.fork("a", Effect.void), registry.start("a", probe())]
      for (const refused of refusals) {
        assert.strictEqual((yield* Effect.flip(refused)).message, "a managed process a exists")
      }
      yield* TestClock.adjust("1 hour")
      assert.isTrue(done)
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      yield* registry.fork("a", Effect.void)
      yield* registry.fork("a", Effect.void)
    }))

  it.effect("what was removed while its effect runs takes nothing from its successor when it is over", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      yield* registry.fork("a", Effect.sleep("1 second"))
      const first = Option.getOrThrow(yield* registry.get("a"))
      // It has begun with the fork, so this changes nothing.
      yield* first.start() as Effect.Effect<void>
      assert.isTrue(yield* registry.remove("a", first))
      yield* registry.fork("a", Effect.sleep("1 hour"))
      const second = Option.getOrThrow(yield* registry.get("a"))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(Option.getOrUndefined(yield* registry.get("a")), second)
      yield* registry.close
      const refused = yield* Effect.flip(registry.fork("b", Effect.void))
      assert.strictEqual(refused.message, "the registry is closed: b was not started")
    }))

  it.effect("gives the caller's services to the effect, and an authority that the close revokes before it interrupts", () =>
    Effect.gen(function*() {
      class Config extends Context.Service<Config, string>()("test/Config") {}
      const registry = yield* ManagedProcess.make
      const seen: Array<unknown> = []
      const work = Effect.gen(function*() {
        seen.push(yield* Config)
        const authority = yield* Authority.Current
        seen.push((yield* authority.commit(Effect.void))._tag)
        return yield* Effect.onInterrupt(
          Effect.never,
          () => Effect.map(authority.commit(Effect.void), (late) => seen.push(late._tag))
        )
      })
      yield* Effect.provideService(registry.fork("a", work), Config, "config")
      assert.deepStrictEqual(yield* registry.close, { closed: 1, failed: [], pending: 0 })
      assert.deepStrictEqual(seen, ["config", "Committed", "Discarded"])
    }))

  it.effect("a commit that runs when the registry closes is let finish within its window", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      let saved = false
      yield* registry.fork(
        "a",
        Effect.flatMap(
          Authority.Current,
          (authority) => authority.commit(Effect.andThen(Effect.sleep("3 seconds"), Effect.sync(() => saved = true)))
        )
      )
      const closing = yield* Effect.forkChild(registry.close)
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(closing.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual((yield* Fiber.join(closing)).failed, [])
      assert.isTrue(saved)
    }))

  it.effect("closing waits for the finalizers of the effect, and not beyond the window", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      yield* registry.fork("a", Effect.ensuring(Effect.never, Effect.sleep("3 seconds")))
      yield* registry.fork("b", Effect.ensuring(Effect.never, Effect.sleep("3 days")))
      const closing = yield* Effect.forkChild(registry.close)
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* Fiber.join(closing), {
        closed: 1,
        failed: [{ id: "b", reason: "overran" }],
        pending: 0
      })
    }))

  it.effect("a failure ends nothing else, and is told by id and tag only", () =>
    Effect.gen(function*() {
      const said: Array<unknown> = []
      const loud = Layer.merge(
        Logger.layer([Logger.make(({ message }) => void said.push(message))]),
        Layer.succeed(References.MinimumLogLevel, "Debug")
      )
      const registry = yield* Effect.provide(ManagedProcess.make, loud)
      yield* registry.fork("a", Effect.fail(new Refused({ why: "canary" })))
      yield* registry.fork("b", Effect.die(new Error("canary")))
      yield* registry.fork("c", Effect.fail("canary"))
      yield* registry.fork("d", Effect.interrupt)
      yield* registry.fork("e", Effect.sleep("1 second"))
      assert.deepStrictEqual(yield* registry.get("a"), Option.none())
      assert.isTrue(Option.isSome(yield* registry.get("e")))
      const text = JSON.stringify(said)
      for (const told of ["a failed: Refused", "b failed: a defect", "c failed: an error"]) assert.include(text, told)
      assert.notInclude(text, "canary")
      assert.strictEqual(said.length, 3)
    }))

  it.effect("a forked process that closes its own registry is interrupted, not a standstill", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const reports: Array<ManagedProcess.CloseReport> = []
      const close = Effect.map(registry.close, (report) => reports.push(report))
      yield* registry.start("slow", probe(Effect.sleep("1 second")))
      yield* registry.fork("a", Effect.ensuring(Effect.never, close))
      yield* registry.fork("b", Effect.uninterruptible(close))
      const closing = yield* Effect.forkChild(registry.close)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual((yield* Fiber.join(closing)).failed, [])
      assert.strictEqual(reports.length, 2)
      for (const report of reports) assert.isAbove(report.pending, 0)
    }))

  it.effect("a chain of processes that fork their successors at once may be of any length", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      let length = 0
      const link = (): Effect.Effect<void, unknown> =>
        Effect.suspend(() => length++ < 20_000 ? registry.fork(`link ${length}`, link()) : Effect.void)
      yield* link()
      while (Option.isSome(yield* registry.get("link 20000")) || length < 20_000) yield* Effect.yieldNow
      assert.deepStrictEqual(yield* registry.close, { closed: 0, failed: [], pending: 0 })
    }))

  it.effect("the interruption of whoever forked it does not reach it", () =>
    Effect.gen(function*() {
      const registry = yield* ManagedProcess.make
      const caller = yield* Effect.forkChild(
        Effect.andThen(registry.fork("a", Effect.sleep("1 hour")), Effect.never),
        immediately
      )
      yield* Fiber.interrupt(caller)
      assert.isTrue(Option.isSome(yield* registry.get("a")))
    }))
})
