import { assert, describe, it } from "@effect/vitest"
import { Authority, BackgroundProcess, CommandSpec, Generation, ManagedProcess, RuntimeStore } from "@procyon/runtime"
import { child, RuntimeTest, World } from "@procyon/testing"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

class App extends Context.Service<App, { readonly number: number }>()("test/App") {}

const immediately = { startImmediately: true }

/** An application that says when it comes and goes, and of which a test can make the next build do something else. */
const scripted = () => {
  const log: Array<string> = []
  const script: { build: Effect.Effect<unknown, string, Generation.Provided> } = { build: Effect.void }
  const layer = Layer.effect(
    App,
    Effect.gen(function*() {
      const store = yield* RuntimeStore.Service
      yield* script.build
      log.push(`built ${store.generation}`)
      yield* Effect.addFinalizer(() => Effect.sync(() => void log.push(`closed ${store.generation}`)))
      return { number: store.generation }
    })
  )
  return { log, script, layer: Layer.merge(layer, ManagedProcess.layerShared) }
}

describe("use", () => {
  it.effect("runs an effect in the running application, with its services, its store and its authority", () =>
    Effect.gen(function*() {
      const generation = yield* Generation.make(scripted().layer)
      const seen = yield* generation.use(Effect.gen(function*() {
        const [store, authority] = [yield* RuntimeStore.Service, yield* Authority.Current]
        assert.strictEqual((yield* authority.commit(Effect.void))._tag, "Committed")
        return [(yield* App).number, store.generation] as const
      }))
      assert.deepStrictEqual(seen, [1, 1])
      assert.strictEqual(yield* generation.current, yield* generation.use(RuntimeStore.current))
    }))

  it.effect("that began stays in its generation, and what it commits later is discarded", () =>
    Effect.gen(function*() {
      const generation = yield* Generation.make(scripted().layer)
      const go = yield* Deferred.make<void>()
      const using = yield* Effect.forkChild(
        generation.use(Effect.gen(function*() {
          yield* Deferred.await(go)
          const authority = yield* Authority.Current
          return [(yield* App).number, (yield* authority.commit(Effect.void))._tag] as const
        })),
        immediately
      )
      const old = yield* generation.current
      assert.strictEqual(yield* generation.replace, 2)
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(yield* Fiber.join(using), [1, "Discarded"])
      assert.strictEqual(yield* old.authority.discarded, 1)
      assert.strictEqual(yield* generation.use(App.useSync(({ number }) => number)), 2)
    }))
})

describe("replace", () => {
  it.effect("builds the fresh one first, makes it current as it revokes, and then closes store and layer of the old", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const old = yield* generation.current
      yield* old.getOrCreate(
        RuntimeStore.key<string>("test/thing"),
        Effect.acquireRelease(Effect.succeed("thing"), () =>
          Effect.gen(function*() {
            const now = yield* generation.use(App.useSync(({ number }) => number))
            const late = yield* old.authority.commit(Effect.void)
            log.push(`store closed while ${now} runs, ${late._tag}`)
          }).pipe(Effect.orDie))
      )
      assert.strictEqual(yield* generation.replace, 2)
      assert.deepStrictEqual(log, ["built 1", "built 2", "store closed while 2 runs, Discarded", "closed 1"])
    }))

  it.effect("revokes in the step that makes the fresh one current: nobody sees both, or neither", () =>
    Effect.gen(function*() {
      const generation = yield* Generation.make(scripted().layer)
      const old = yield* generation.current
      yield* old.getOrCreate(
        RuntimeStore.key<string>("test/slow"),
        Effect.acquireRelease(Effect.succeed(""), () => Effect.sleep("2 seconds"))
      )
      const replacing = yield* Effect.forkChild(generation.replace)
      for (let turn = 0; turn < 50; turn++) {
        const isOld = (yield* generation.current) === old
        assert.strictEqual(yield* old.authority.stands, isOld)
        yield* Effect.yieldNow
      }
      assert.notStrictEqual(yield* generation.current, old)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(replacing), 2)
    }))

  it.effect("waits for a commit of the old one before it closes the old one's store", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      yield* Effect.forkChild(
        generation.use(Authority.Current.use((authority) =>
          authority.commit(Effect.andThen(Effect.sleep("2 seconds"), Effect.sync(() => log.push("committed"))))
        )),
        immediately
      )
      const replacing = yield* Effect.forkChild(generation.replace)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(replacing), 2)
      assert.deepStrictEqual(log, ["built 1", "built 2", "committed", "closed 1"])
    }))

  it.effect("carries nothing over: stores and registries start empty, and instances are fresh", () =>
    Effect.gen(function*() {
      const generation = yield* Generation.make(scripted().layer)
      const thing = RuntimeStore.key<object>("test/thing")
      const ask = generation.use(Effect.gen(function*() {
        const registry = yield* ManagedProcess.Registry
        const store = yield* RuntimeStore.Service
        const found = yield* registry.get("work")
        if (Option.isNone(found)) yield* registry.fork("work", Effect.never)
        return {
          found: Option.isSome(found),
          registry,
          thing: yield* store.getOrCreate(thing, Effect.sync(() => ({})))
        }
      }))
      const [first, again] = [yield* ask, yield* ask]
      yield* generation.replace
      const fresh = yield* ask
      assert.deepStrictEqual([first.found, again.found, fresh.found], [false, true, false])
      assert.strictEqual(first.thing, again.thing)
      assert.notStrictEqual(first.thing, fresh.thing)
      assert.notStrictEqual(first.registry, fresh.registry)
      assert.deepStrictEqual(yield* first.registry.get("work"), Option.none())
    }))

  it.effect("plugins of one generation share one registry", () =>
    Effect.gen(function*() {
      class First extends Context.Service<First, ManagedProcess.ManagedProcessRegistry>()("test/First") {}
      class Second extends Context.Service<Second, ManagedProcess.ManagedProcessRegistry>()("test/Second") {}
      const application = Layer.mergeAll(
        Layer.effect(First, ManagedProcess.Registry).pipe(Layer.provide(Layer.fresh(ManagedProcess.layerShared))),
        Layer.effect(Second, ManagedProcess.shared)
      )
      const generation = yield* Generation.make(application)
      const [first, second] = yield* generation.use(Effect.all([First, Second]))
      assert.strictEqual(first, second)
    }))

  it.effect("gives every application the same of what its layer leaves open", () =>
    Effect.gen(function*() {
      class Outside extends Context.Service<Outside, object>()("test/Outside") {}
      class Inside extends Context.Service<Inside, object>()("test/Inside") {}
      const outside = {}
      const application = Layer.effect(Inside, Outside)
      const generation = yield* Effect.provideService(Generation.make(application), Outside, outside)
      const first = yield* generation.use(Inside)
      yield* generation.replace
      assert.strictEqual(first, outside)
      assert.strictEqual(yield* generation.use(Inside), outside)
    }))

  it.effect("that fails to build leaves the old one running, and can be tried again", () =>
    Effect.gen(function*() {
      const { layer, log, script } = scripted()
      const generation = yield* Generation.make(layer)
      script.build = Effect.fail("no licence")
      assert.strictEqual(yield* Effect.flip(generation.replace), "no licence")
      assert.strictEqual(yield* generation.use(App.useSync(({ number }) => number)), 1)
      assert.isTrue(yield* generation.use(Effect.flatMap(Authority.Current, (authority) => authority.stands)))
      script.build = Effect.void
      assert.strictEqual(yield* generation.replace, 2)
      assert.deepStrictEqual(log, ["built 1", "built 2", "closed 1"])
    }))

  it.effect("that fails to build releases what the build had acquired, before it answers", () =>
    Effect.gen(function*() {
      const { layer, log, script } = scripted()
      const generation = yield* Generation.make(layer)
      script.build = Effect.flatMap(RuntimeStore.Service, (store) =>
        Effect.andThen(
          store.getOrCreate(
            RuntimeStore.key("test/acquired"),
            Effect.acquireRelease(Effect.void, () => Effect.sync(() => void log.push("released")))
          ),
          Effect.fail("no licence")
        )).pipe(Effect.catchTag("StoreClosed", Effect.die))
      yield* Effect.flip(generation.replace)
      assert.deepStrictEqual(log, ["built 1", "released"])
    }))

  it.effect("interrupted while it builds leaves the old one running", () =>
    Effect.gen(function*() {
      const { layer, log, script } = scripted()
      const generation = yield* Generation.make(layer)
      script.build = Effect.onInterrupt(Effect.never, () => Effect.sync(() => void log.push("build interrupted")))
      const replacing = yield* Effect.forkChild(generation.replace, immediately)
      yield* Fiber.interrupt(replacing)
      script.build = Effect.void
      assert.strictEqual(yield* generation.replace, 2)
      assert.deepStrictEqual(log, ["built 1", "build interrupted", "built 2", "closed 1"])
    }))

  it.effect("interrupted afterwards ends the old one all the same", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const old = yield* generation.current
      yield* old.getOrCreate(
        RuntimeStore.key<string>("test/slow"),
        Effect.acquireRelease(Effect.succeed(""), () => Effect.sleep("2 seconds"))
      )
      const replacing = yield* Effect.forkChild(generation.replace)
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(replacing)
      assert.deepStrictEqual(log, ["built 1", "built 2"])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(log, ["built 1", "built 2", "closed 1"])
    }))

  it.effect("asked for several times at once, goes one after the other", () =>
    Effect.gen(function*() {
      const { layer, log, script } = scripted()
      script.build = Effect.sleep("1 second")
      const making = yield* Effect.forkChild(Effect.scoped(Effect.gen(function*() {
        const generation = yield* Generation.make(layer)
        const { replace } = generation
        return yield* Effect.all([replace, replace, replace], { concurrency: "unbounded" })
      })))
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(yield* Fiber.join(making), [2, 3, 4])
      assert.deepStrictEqual(
        log,
        ["built 1", "built 2", "closed 1", "built 3", "closed 2", "built 4", "closed 3", "closed 4"]
      )
    }))

  it.effect("asked for from within the old one's own work does not wait for its end", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const replaced = yield* generation.use(Effect.flatMap(Authority.Current, (authority) =>
        authority.commit(Effect.tap(generation.replace, (number) =>
          Effect.sync(() =>
            log.push(`commit goes on, ${number} runs`)
          )))))
      assert.deepStrictEqual(replaced, { _tag: "Committed", value: 2 })
      yield* generation.use(ManagedProcess.Registry.use((registry) =>
        registry.start("starter", {
          start: () =>
            Effect.asVoid(generation.replace),
          close: () => Effect.void
        })
      ))
      yield* generation.use(ManagedProcess.Registry.use((registry) =>
        registry.fork("reload", Effect.uninterruptible(generation.replace))
      ))
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* generation.current).generation, 4)
      assert.deepStrictEqual(log, [
        "built 1",
        "built 2",
        "commit goes on, 2 runs",
        "closed 1",
        "built 3",
        "closed 2",
        "built 4",
        "closed 3"
      ])
    }))

  it.effect("asked for by two commits of the same application, waits for neither", () =>
    Effect.gen(function*() {
      const generation = yield* Generation.make(scripted().layer)
      const reload = generation.use(
        Authority.Current.use((authority) => authority.commit(Effect.andThen(Effect.yieldNow, generation.replace)))
      )
      assert.deepStrictEqual(yield* Effect.all([reload, reload], { concurrency: "unbounded" }), [
        { _tag: "Committed", value: 2 },
        { _tag: "Committed", value: 3 }
      ])
    }))

  it.effect("asked for by what the old one closes does not wait for itself", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const again = Effect.acquireRelease(Effect.succeed(""), () => Effect.orDie(generation.replace))
      yield* Effect.flatMap(
        generation.current,
        (store) => store.getOrCreate(RuntimeStore.key<string>("test/again"), again)
      )
      assert.strictEqual(yield* generation.replace, 2)
      assert.strictEqual((yield* generation.current).generation, 3)
      assert.deepStrictEqual(log, ["built 1", "built 2", "built 3", "closed 2", "closed 1"])
    }))

  it.effect("asked for by what a failed build clears away is a defect, not a standstill", () =>
    Effect.gen(function*() {
      const exits: Array<Exit.Exit<number, unknown>> = []
      const asks = Effect.suspend(() => Effect.map(Effect.exit(generation.replace), (exit) => exits.push(exit)))
      const failing = Effect.andThen(Effect.addFinalizer(() => asks), Effect.fail("no licence"))
      let build: Effect.Effect<void, string, Scope.Scope> = Effect.void
      const generation = yield* Generation.make(Layer.effectDiscard(Effect.suspend(() => build)))
      build = failing
      assert.strictEqual(yield* Effect.flip(generation.replace), "no licence")
      assert.deepStrictEqual(exits.map((exit) => Exit.hasDies(exit)), [true])
    }))

  it.effect("interrupted at any step leaves the turn to the next one", () =>
    Effect.gen(function*() {
      const turns = (count: number) => Effect.forEach(Array.from({ length: count }), () => Effect.yieldNow)
      const generation = yield* Generation.make(Layer.effectDiscard(turns(10)))
      // So that a scheduler that gives others their turn does so between any two steps.
      const jumpy = Effect.provideService(generation.replace, References.MaxOpsBeforeYield, 3)
      for (let step = 0; step < 120; step++) {
        const first = yield* Effect.forkChild(generation.replace, immediately)
        const second = yield* Effect.forkChild(jumpy)
        yield* turns(step)
        yield* Fiber.interrupt(second)
        yield* Fiber.join(first)
        const third = yield* Effect.forkChild(generation.replace, immediately)
        yield* turns(100)
        if (third.pollUnsafe() === undefined) return assert.fail(`nobody has the turn after step ${step}`)
      }
    }))

  it.effect("asked for from within a build is a defect, not a standstill", () =>
    Effect.gen(function*() {
      const { layer, script } = scripted()
      const generation = yield* Generation.make(layer)
      script.build = Effect.uninterruptible(Effect.orDie(generation.replace))
      assert.isTrue(Exit.hasDies(yield* Effect.exit(generation.replace)))
      assert.strictEqual((yield* generation.current).generation, 1)
      script.build = Effect.uninterruptible(generation.close)
      assert.deepStrictEqual(yield* Effect.flip(generation.replace), new Generation.NoApplication())
    }))

  it.effect("one instance whose close hangs is given up, and the layer is closed after it", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const hangs = Effect.acquireRelease(Effect.succeed(""), () => Effect.never)
      yield* Effect.flatMap(
        generation.current,
        (store) => store.getOrCreate(RuntimeStore.key<string>("test/hangs"), hangs)
      )
      const replacing = yield* Effect.forkChild(generation.replace)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(replacing), 2)
      assert.deepStrictEqual(log, ["built 1", "built 2", "closed 1"])
    }))
})

describe("close", () => {
  it.effect("ends the running application for good: what is asked afterwards fails with NoApplication", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const ended = yield* generation.close
      assert.deepStrictEqual(
        ended,
        Option.some({
          generation: 1,
          revocation: { ended: 0, interrupted: 0, unfinished: 0 },
          store: { closed: 1, failed: [], pending: 0 },
          scope: "closed" as const
        })
      )
      assert.strictEqual((yield* Effect.flip(generation.current))._tag, "NoApplication")
      assert.strictEqual((yield* Effect.flip(generation.use(App)))._tag, "NoApplication")
      assert.deepStrictEqual(yield* Effect.flip(generation.replace), new Generation.NoApplication())
      assert.deepStrictEqual(yield* generation.close, ended)
      assert.deepStrictEqual(log, ["built 1", "closed 1"])
    }))

  it.effect("names an application whose own finalizers fail, or hang past the shutdown budget", () =>
    Effect.gen(function*() {
      const endsWith = (end: Effect.Effect<void>) =>
        Generation.make(Layer.effectDiscard(Effect.addFinalizer(() => end)))
      const dying = yield* endsWith(Effect.die("a bug"))
      assert.strictEqual(Option.getOrThrow(yield* dying.close).scope, "failed")
      const hanging = yield* endsWith(Effect.never)
      const closing = yield* Effect.forkChild(hanging.close)
      yield* TestClock.adjust("29999 millis")
      assert.isUndefined(closing.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(Option.getOrThrow(yield* Fiber.join(closing)).scope, "overran")
    }))

  it.effect("interrupts a build, whose asker is told that there is no application", () =>
    Effect.gen(function*() {
      const { layer, log, script } = scripted()
      const generation = yield* Generation.make(layer)
      script.build = Effect.never
      const replacing = yield* Effect.forkChild(Effect.flip(generation.replace), immediately)
      const waiting = yield* Effect.forkChild(Effect.flip(generation.replace), immediately)
      yield* generation.close
      for (const fiber of [replacing, waiting]) {
        assert.deepStrictEqual(yield* Fiber.join(fiber), new Generation.NoApplication())
      }
      assert.deepStrictEqual(log, ["built 1", "closed 1"])
    }))

  it.effect("is held up by a build that cannot be interrupted for the shutdown budget only", () =>
    Effect.gen(function*() {
      const { layer, script } = scripted()
      const generation = yield* Generation.make(layer)
      script.build = Effect.uninterruptible(Effect.sleep("1 hour"))
      const replacing = yield* Effect.forkChild(Effect.flip(generation.replace), immediately)
      const closing = yield* Effect.forkChild(generation.close)
      yield* TestClock.adjust("30 seconds")
      assert.isTrue(Option.isSome(yield* Fiber.join(closing)))
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* Fiber.join(replacing), new Generation.NoApplication())
    }))

  it.effect("a build that cannot be interrupted commits nothing once it is for nothing", () =>
    Effect.gen(function*() {
      const { layer, script } = scripted()
      const generation = yield* Generation.make(layer)
      const commits: Array<string> = []
      const slow = Effect.gen(function*() {
        yield* Effect.sleep("1 hour")
        const authority = yield* Authority.Current
        commits.push((yield* authority.commit(Effect.void))._tag)
      })
      script.build = Effect.uninterruptible(slow)
      const interrupted = yield* Effect.forkChild(generation.replace, immediately)
      yield* Effect.forkChild(Fiber.interrupt(interrupted), immediately)
      yield* TestClock.adjust("1 hour")
      yield* Effect.forkChild(generation.replace, immediately)
      const closing = yield* Effect.forkChild(generation.close, immediately)
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(closing)
      assert.deepStrictEqual(commits, ["Discarded", "Discarded"])
    }))

  it.effect("waits for the end of one that was replaced, and not when asked from within that one", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const go = yield* Deferred.make<void>()
      const asking = yield* Effect.forkChild(
        generation.use(
          Authority.Current.use((authority) => authority.commit(Effect.andThen(Deferred.await(go), generation.close)))
        ),
        immediately
      )
      yield* Effect.forkChild(generation.replace, immediately)
      assert.strictEqual((yield* generation.current).generation, 2)
      const closing = yield* Effect.forkChild(generation.close, immediately)
      yield* TestClock.adjust("1 second")
      assert.isUndefined(closing.pollUnsafe())
      yield* Deferred.succeed(go, undefined)
      assert.deepStrictEqual(yield* Fiber.join(asking), { _tag: "Committed", value: Option.none() })
      assert.strictEqual(Option.getOrThrow(yield* Fiber.join(closing)).generation, 2)
      assert.deepStrictEqual(log, ["built 1", "built 2", "closed 2", "closed 1"])
    }))

  it.effect("asked for from within does not wait for itself", () =>
    Effect.gen(function*() {
      const { layer, log } = scripted()
      const generation = yield* Generation.make(layer)
      const inside = yield* generation.use(Effect.flatMap(Authority.Current, (authority) =>
        authority.commit(Effect.all([generation.close, generation.close]))))
      assert.deepStrictEqual(inside, { _tag: "Committed", value: [Option.none(), Option.none()] })
      assert.isTrue(Option.isSome(yield* generation.close))
      assert.deepStrictEqual(log, ["built 1", "closed 1"])
    }))

  it.effect("asked for by a finalizer of the layer, or of an instance that a build made, does not wait for itself", () =>
    Effect.gen(function*() {
      const answers: Array<unknown> = []
      const closes: Effect.Effect<void, never, Scope.Scope> = Effect.addFinalizer(() =>
        Effect.suspend(() => Effect.map(generation.close, (ended) => answers.push(ended)))
      )
      const instance = RuntimeStore.key<void>("test/instance")
      const application = Layer.effectDiscard(Effect.gen(function*() {
        yield* closes
        const store = yield* RuntimeStore.Service
        yield* store.getOrCreate(instance, closes)
      }))
      const generation = yield* Generation.make(application)
      const ended = Option.getOrThrow(yield* generation.close)
      assert.deepStrictEqual([ended.store.failed, ended.scope], [[], "closed"])
      assert.deepStrictEqual(answers, [Option.none(), Option.none()])
    }))

  it.effect("comes with the end of the scope, also when the first build failed", () =>
    Effect.gen(function*() {
      const { layer, log, script } = scripted()
      const scope = yield* Scope.make()
      const generation = yield* Scope.provide(Generation.make(layer), scope)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Effect.flip(generation.current))._tag, "NoApplication")
      script.build = Effect.fail("no licence")
      assert.strictEqual(yield* Effect.flip(Effect.scoped(Generation.make(layer))), "no licence")
      assert.deepStrictEqual(log, ["built 1", "closed 1"])
    }))
})

/** A facade around a job: the registry knows nothing of it, and the process runtime nothing of generations. */
class DevServer implements ManagedProcess.ManagedProcess<BackgroundProcess.StartError> {
  id = ""
  readonly jobs: BackgroundProcess.Jobs

  constructor(jobs: BackgroundProcess.Jobs) {
    this.jobs = jobs
  }

  start(): Effect.Effect<void, BackgroundProcess.StartError> {
    return Effect.map(this.jobs.start(CommandSpec.make("vite"), { lifetime: "application" }), ({ id }) => {
      this.id = id
    })
  }

  close(): Effect.Effect<void> {
    return Effect.ignore(this.jobs.stop(this.id))
  }

  tail(): Effect.Effect<string, BackgroundProcess.ProcessNotFound | BackgroundProcess.OutputUnavailable> {
    return Effect.flatMap(this.jobs.output(this.id), (output) => output.preview)
  }
}

describe("a facade around a job", () => {
  const runtime = RuntimeTest.layer({
    children: { vite: child.prints("ready\n").ignores("SIGTERM") },
    settings: { graceMillis: 1_000 }
  })

  it.effect("closes with its generation, and its job is gone and settled", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      const generation = yield* Generation.make(ManagedProcess.layerShared)
      const server = new DevServer(jobs)
      yield* generation.use(ManagedProcess.Registry.use((registry) => registry.start("dev-server", server)))
      const found = yield* generation.use(
        ManagedProcess.Registry.use((registry) => registry.get("dev-server", DevServer))
      )
      assert(Option.isSome(found))
      assert.strictEqual(found.value, server)
      yield* world.drain
      assert.strictEqual(yield* found.value.tail(), "ready\n")
      const replacing = yield* Effect.forkChild(generation.replace)
      yield* world.advance("1 second")
      assert.strictEqual(yield* Fiber.join(replacing), 2)
      assert.deepStrictEqual(yield* world.alive, [])
      const { phase, status } = yield* jobs.get(server.id)
      assert.deepStrictEqual([phase, status], ["settled", "cancelled"])
      const gone = yield* generation.use(ManagedProcess.Registry.use((registry) => registry.get("dev-server")))
      assert.deepStrictEqual(gone, Option.none())
    }).pipe(Effect.provide(runtime)))

  it.effect("raises the job's own error when the job cannot be started", () =>
    Effect.gen(function*() {
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      yield* jobs.retire
      const registry = yield* ManagedProcess.make
      const error = yield* Effect.flip(registry.start("dev-server", new DevServer(jobs)))
      assert(error._tag === "StartError")
      assert.strictEqual(error.reason._tag, "OwnerRetired")
    }).pipe(Effect.provide(runtime)))
})
