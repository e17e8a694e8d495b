// A thousand histories, each from a seed: several fibers start, fork, remove, look up, interrupt, close and replace at
// random, on processes that start and close in every way there is, and the promises are checked as they go.
import { assert, it } from "@effect/vitest"
import { Authority, Generation, ManagedProcess, RuntimeStore, Settings } from "@procyon/runtime"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as TestClock from "effect/testing/TestClock"

const seeds = 1000
const windowMillis = 5
const ids = ["a", "b", "c"] as const

/** Numbers from 0 up to and without 1, the same for the same seed (mulberry32). */
const chanceOf = (seed: number): () => number => {
  let state = seed * 0x9e3779b9
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

class StartFailed {
  readonly _tag = "StartFailed"
}

/** What a generation is to a history: its registry, and what has been promised about it. */
class Era {
  readonly number: number
  readonly authority: Authority.Authority
  readonly processes: Array<Work> = []
  /** Its registry's close has answered, so nothing of it runs, nor commits as a forked process. */
  over = false
  /** It was replaced or closed, so nothing commits by its authority. */
  revoked = false

  constructor(store: RuntimeStore.RuntimeStore) {
    this.number = store.generation
    this.authority = store.authority
  }
}

/** A process, or an effect that was forked, as the history sees it. */
class Work {
  readonly era: Era
  readonly id: string
  begun = false
  running = false
  done = false
  closed = false
  constructor(era: Era, id: string) {
    this.era = era
    this.id = id
    era.processes.push(this)
  }

  get alive(): boolean {
    return this.begun && !this.done && !this.closed
  }
}

class EraOf extends Context.Service<EraOf, Era>()("test/EraOf") {}

class History {
  readonly chance: () => number
  readonly broken: Array<string> = []
  readonly eras: Array<Era> = []
  readonly count: Record<string, number> = {}

  constructor(seed: number) {
    this.chance = chanceOf(seed)
  }

  promise(holds: boolean, text: string): void {
    if (!holds) this.broken.push(text)
  }

  did(what: string): void {
    this.count[what] = (this.count[what] ?? 0) + 1
  }

  below(limit: number): number {
    return Math.floor(this.chance() * limit)
  }

  pick<A>(from: ReadonlyArray<A>): A {
    return from[this.below(from.length)] as A
  }

  get pause(): Effect.Effect<void> {
    return Effect.suspend(() => this.chance() < 0.3 ? Effect.yieldNow : Effect.sleep(this.below(8)))
  }

  begin(work: Work): void {
    this.promise(!work.era.over, `${work.id} was started after its registry had closed`)
    const others = work.era.processes.filter((other) => other !== work && other.id === work.id && other.alive)
    this.promise(others.length === 0, `two processes of the id ${work.id}`)
    this.promise(!work.begun, `${work.id} was started twice`)
    work.begun = true
  }

  /** Nothing of it runs, from here to the end of the history. */
  end(era: Era): void {
    era.over = true
    for (const work of era.processes) this.promise(!work.running, `${work.id} ran after the close`)
  }

  replaced(era: Era): void {
    era.revoked = true
    this.end(era)
  }

  /** Something that takes its time to commit, and should find its right gone when `isOver`. */
  commit(authority: Authority.Authority, isOver: () => boolean): Effect.Effect<void> {
    const check = Effect.sync(() => this.promise(!isOver(), "a commit took effect after the revocation"))
    return authority.commit(Effect.andThen(check, Effect.andThen(this.pause, check))).pipe(
      Effect.map(({ _tag }) => this.did(_tag))
    )
  }
}

/** Of a process: how it goes about its start, or its close. */
const manners = (history: History): Effect.Effect<void, StartFailed> => {
  const soon = Effect.sleep(history.below(4))
  return history.pick<Effect.Effect<void, StartFailed>>([
    Effect.void,
    Effect.void,
    Effect.yieldNow,
    soon,
    soon,
    Effect.uninterruptible(Effect.sleep(history.below(10))),
    Effect.sleep(history.below(20)),
    Effect.interruptible(Effect.never),
    Effect.andThen(soon, Effect.fail(new StartFailed())),
    Effect.die("a bug")
  ])
}

class Racer extends Work implements ManagedProcess.ManagedProcess<StartFailed> {
  readonly history: History
  readonly registry: ManagedProcess.ManagedProcessRegistry
  readonly lasts: number
  launched = false

  constructor(history: History, era: Era, registry: ManagedProcess.ManagedProcessRegistry, id: string) {
    super(era, id)
    this.history = history
    this.registry = registry
    // Some would go on for ever if nobody closed them.
    this.lasts = history.chance() < 0.3 ? 1_000_000 : history.below(12)
  }

  start(): Effect.Effect<void, StartFailed> {
    return Effect.suspend(() => {
      this.history.begin(this)
      const worker = Effect.forkDetach(this.work(), { startImmediately: true })
      const launch = this.history.chance() < 0.5 ? Effect.andThen(worker, manners(this.history)) : Effect.andThen(
        manners(this.history),
        worker
      )
      const launched = Effect.map(launch, () => {
        this.launched = true
      })
      return this.history.chance() < 0.2 ? Effect.uninterruptible(launched) : launched
    })
  }

  /** Comes with its result after some time, also when it was closed meanwhile. */
  work(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.running = true
      return Effect.andThen(
        Effect.sleep(this.lasts),
        Effect.suspend(() => {
          if (this.closed) return this.history.commit(this.era.authority, () => this.era.revoked)
          this.running = false
          this.done = true
          return Effect.asVoid(this.registry.remove(this.id, this))
        })
      )
    })
  }

  close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.running = false
      this.closed = true
      const within = this.history.chance() < 0.1 ? Effect.asVoid(this.registry.close) : Effect.void
      return Effect.andThen(within, Effect.orDie(manners(this.history)))
    })
  }
}

const start = (history: History, era: Era, registry: ManagedProcess.ManagedProcessRegistry) =>
  Effect.gen(function*() {
    const racer = new Racer(history, era, registry, history.pick(ids))
    const exit = yield* Effect.exit(registry.start(racer.id, racer))
    if (Exit.isSuccess(exit)) return history.did("started")
    const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    history.did(error === undefined ? "start broken" : error._tag)
    const refused = error?._tag === "ManagedProcessAlreadyExists" || error?._tag === "RegistryClosed"
    history.promise(refused ? !racer.begun : racer.closed, `${racer.id}: ${error?._tag} and close do not go together`)
    const found = yield* registry.get(racer.id)
    history.promise(Option.getOrUndefined(found) !== racer, `${racer.id} kept its id although its start failed`)
  })

const startInterrupted = (history: History, era: Era, registry: ManagedProcess.ManagedProcessRegistry) =>
  Effect.gen(function*() {
    const racer = new Racer(history, era, registry, history.pick(ids))
    const starting = yield* Effect.forkChild(registry.start(racer.id, racer), {
      startImmediately: history.chance() < 0.5
    })
    yield* history.pause
    yield* Fiber.interrupt(starting)
    const ended = starting.pollUnsafe()
    history.did(ended !== undefined && Exit.hasInterrupts(ended) ? "interrupted" : "interrupted too late")
    if (!racer.begun) return
    const found = Option.getOrUndefined(yield* registry.get(racer.id))
    history.promise(
      found === racer ? racer.launched : racer.closed || racer.done,
      `${racer.id} was interrupted, and is neither there nor gone`
    )
  })

const fork = (history: History, era: Era, registry: ManagedProcess.ManagedProcessRegistry) =>
  Effect.gen(function*() {
    const work = new Work(era, history.pick(ids))
    const commit = Authority.Current.use((authority) => history.commit(authority, () => era.over))
    const late = Effect.forkDetach(Effect.delay(commit, history.below(20)))
    const effect = Effect.suspend(() => {
      history.begin(work)
      work.running = true
      return Effect.andThen(history.chance() < 0.5 ? late : history.pause, commit)
    })
    const over = Effect.sync(() => {
      work.running = false
      work.done = true
    })
    const exit = yield* Effect.exit(registry.fork(work.id, Effect.ensuring(effect, over)))
    history.did(Exit.isSuccess(exit) ? "forked" : "fork refused")
    history.promise(Exit.isSuccess(exit) === work.begun, `${work.id}: forked, and not run`)
  })

const removeStale = (history: History, era: Era, registry: ManagedProcess.ManagedProcessRegistry) =>
  Effect.gen(function*() {
    const gone = era.processes.filter((work) => work.done)
    if (gone.length === 0) return
    const stale = history.pick(gone)
    const before: unknown = Option.getOrUndefined(yield* registry.get(stale.id))
    const removed = yield* registry.remove(stale.id, stale)
    history.did(removed ? "removed" : "stale removal")
    history.promise(!removed || before === stale, `a stale ${stale.id} removed its successor`)
  })

const close = (history: History, era: Era, registry: ManagedProcess.ManagedProcessRegistry) =>
  Effect.gen(function*() {
    const [first, second] = yield* Effect.all([registry.close, registry.close], { concurrency: "unbounded" })
    history.end(era)
    history.did("closed")
    history.promise(first === second, "two answers of one close")
    history.promise((yield* registry.close) === first, "another answer of the same close")
  })

type Services = Context.Service.Identifier<typeof ManagedProcess.Registry> | EraOf

/** An actor of a history: some steps in the generation that runs then. */
const actor = (history: History, generation: Generation.Generation<Services, unknown>) =>
  Effect.gen(function*() {
    for (let step = 0; step < 5; step++) {
      yield* history.pause
      if (history.chance() < 0.08) {
        yield* replace(history, generation)
        continue
      }
      const inside = Effect.gen(function*() {
        const act = history.chance()
        const registry = yield* ManagedProcess.Registry
        const era = yield* EraOf
        yield* history.pause
        if (act < 0.35) yield* start(history, era, registry)
        else if (act < 0.6) yield* startInterrupted(history, era, registry)
        else if (act < 0.85) yield* fork(history, era, registry)
        else if (act < 0.97) yield* removeStale(history, era, registry)
        else yield* close(history, era, registry)
      })
      yield* Effect.ignore(generation.use(inside))
    }
  })

const replace = (history: History, generation: Generation.Generation<unknown, unknown>) =>
  Effect.gen(function*() {
    const replacing = yield* Effect.forkChild(generation.replace)
    if (history.chance() < 0.2) {
      yield* history.pause
      yield* Fiber.interrupt(replacing)
      return history.did("replacement interrupted")
    }
    const exit = yield* Fiber.await(replacing)
    if (Exit.isFailure(exit)) return history.did("replacement failed")
    history.did("replaced")
    for (const era of history.eras) if (era.number < exit.value) history.replaced(era)
  })

/** When everything that was begun is over, an id is taken by what runs, and by nothing else. */
const whenQuiet = (history: History, generation: Generation.Generation<Services, unknown>) =>
  Effect.gen(function*() {
    yield* TestClock.adjust(200)
    const check = Effect.gen(function*() {
      const registry = yield* ManagedProcess.Registry
      const era = yield* EraOf
      for (const id of ids) {
        const taken = Option.isSome(yield* registry.get(id))
        const alive = era.processes.filter((work) => work.id === id && work.alive)
        history.promise(taken === (alive.length === 1), `${id}: taken ${taken}, and ${alive.length} alive`)
      }
    })
    yield* Effect.orDie(generation.use(check))
  })

const run = (seed: number) =>
  Effect.gen(function*() {
    const history = new History(seed)
    const application = Layer.merge(
      ManagedProcess.layerShared,
      Layer.effect(
        EraOf,
        Effect.gen(function*() {
          if (history.eras.length > 0 && history.chance() < 0.3) return yield* Effect.fail(new StartFailed())
          yield* history.eras.length > 0 ? history.pause : Effect.void
          const era = new Era(yield* RuntimeStore.Service)
          history.eras.push(era)
          return era
        })
      )
    )
    const generation = yield* Generation.make(application)
    const actors = yield* Effect.forEach(Array.from({ length: 6 }), () => Effect.forkChild(actor(history, generation)))
    const end = history.below(60)
    for (let millis = 0; millis < end; millis++) yield* TestClock.adjust(1)
    if (history.chance() < 0.5) yield* whenQuiet(history, generation)
    const closing = yield* Effect.forkChild(generation.close)
    while (closing.pollUnsafe() === undefined) yield* TestClock.adjust(1)
    for (const era of history.eras) history.replaced(era)
    while (actors.some((fiber) => fiber.pollUnsafe() === undefined)) yield* TestClock.adjust(1)
    // What goes on without anybody's leave would show by now.
    yield* TestClock.adjust(50)
    for (const era of history.eras) history.end(era)
    return history
  }).pipe(
    Effect.scoped,
    // In every other history the scheduler lets others in between any few steps, so that interruptions come anywhere.
    seed % 2 === 0 ? Effect.provideService(References.MaxOpsBeforeYield, 3 + (seed % 16)) : (calm) => calm,
    Effect.provide(Layer.merge(
      Settings.layer({
        managedStartWindowMillis: windowMillis,
        managedCloseWindowMillis: windowMillis,
        commitWindowMillis: windowMillis
      }),
      Logger.layer([])
    ))
  )

it.effect(
  "one admitted process an id, none running after close, no commit after revocation, in 1,000 histories",
  () =>
    Effect.gen(function*() {
      const count: Record<string, number> = {}
      for (let seed = 1; seed <= seeds; seed++) {
        const history = yield* run(seed)
        assert.deepStrictEqual(history.broken, [], `seed ${seed}`)
        for (const [what, times] of Object.entries(history.count)) count[what] = (count[what] ?? 0) + times
      }
      // A history that never gets anywhere proves nothing.
      for (
        const what of [
          "started",
          "StartFailed",
          "StartOverran",
          "start broken",
          "ManagedProcessAlreadyExists",
          "RegistryClosed",
          "interrupted",
          "forked",
          "fork refused",
          "Committed",
          "Discarded",
          "stale removal",
          "closed",
          "replaced",
          "replacement failed",
          "replacement interrupted"
        ]
      ) assert.isAbove(count[what] ?? 0, 20, `too few: ${what}`)
    }),
  60_000
)
