/**
 * In-memory work that goes on after the action that began it has returned: who has it, who finds it, who ends it.
 *
 * A plugin makes a process, an object with `start` and `close` beside methods of its own, and starts it under an id. A
 * later action looks the same object up and talks to it; when its work is over, it removes itself; what is left is closed
 * with the application. That is all: no cancelling, no notifications and no order among a process's own methods, which are
 * the process's matter, and nothing about processes of the operating system, which `BackgroundProcess` owns. A process may
 * be a facade around such jobs.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { allEndWithin, bounded, endWithin } from "../internal/Bounded.ts"
import { Activity, CurrentActivity, during, isWithin, make as makeRight, type Right } from "../internal/Right.ts"
import { RightAuthority, TypeId } from "../internal/RightAuthority.ts"
import { warn } from "../internal/Warning.ts"
import * as Authority from "./Authority.ts"
import * as RuntimeStore from "./RuntimeStore.ts"
import * as Settings from "./Settings.ts"

export type { CloseReport } from "./RuntimeStore.ts"

/** The id is taken by a process that is registered or starting. The second one was not started. */
export class ManagedProcessAlreadyExists
  extends Schema.TaggedError<ManagedProcessAlreadyExists>()("ManagedProcessAlreadyExists", { id: Schema.String })
{
  override get message(): string {
    return `a managed process ${this.id} exists`
  }
}

/** The registry is closed, or closing. The process was not started. */
export class RegistryClosed extends Schema.TaggedError<RegistryClosed>()("RegistryClosed", { id: Schema.String }) {
  override get message(): string {
    return `the registry is closed: ${this.id} was not started`
  }
}

/** `start` did not return within its window. It was interrupted, `close` was tried, and the id is free. */
export class StartOverran extends Schema.TaggedError<StartOverran>()("StartOverran", {
  id: Schema.String,
  windowMillis: Schema.Finite
}) {
  override get message(): string {
    return `${this.id} did not start within ${this.windowMillis} ms`
  }
}

/** Why the registry itself has not started a process. */
export type Refusal = ManagedProcessAlreadyExists | RegistryClosed | StartOverran

/**
 * What the registry needs to know of a process. Concrete processes have methods of their own, and those must be safe from
 * the moment the object is constructed, since it can be looked up while it starts.
 */
export interface ManagedProcess<out E = unknown, out R = unknown> {
  /**
   * Launches the work, and returns promptly: it does not do it. Called once. Past `managedStartWindowMillis` it is
   * interrupted, and has failed.
   */
  readonly start: () => Effect.Effect<void, E, R>
  /**
   * Signals the end, makes late results void, and returns promptly. Called when the registry closes; and after a start
   * that failed, that overran or whose starter was interrupted, so it may meet a process that has never begun; and once
   * more, when a start that could not be interrupted is over after all. Past `managedCloseWindowMillis` it is given up.
   */
  readonly close: () => Effect.Effect<void>
}

/** A class, or a refinement. */
export type Guard<P> = (abstract new(...args: never) => P) | ((process: unknown) => process is P)

/** The processes of one application, by id. */
export interface ManagedProcessRegistry {
  /**
   * Reserves the id, starts the process, and keeps it. Fails with what its `start` fails with, after the reservation was
   * held until `close` had been tried. Interrupted, there is a registered process (its start was over by then) or nothing;
   * that takes no longer than the windows of start and close.
   */
  readonly start: <E, R>(id: string, process: ManagedProcess<E, R>) => Effect.Effect<void, E | Refusal, R>
  /**
   * Runs an effect as a process, in a fiber of the registry and in the caller's context, with the registry's authority as
   * `Authority.Current`. It begins before this returns; in a long chain of processes that fork their successors as they
   * begin, soon after. Over, it removes itself; when the registry closes, it is interrupted. A failure ends nothing else, and is told by a debug log with the id and the error's tag only: an effect
   * whose failures matter handles them.
   */
  readonly fork: <A, E, R>(
    id: string,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<
    void,
    ManagedProcessAlreadyExists | RegistryClosed,
    Exclude<R, CurrentAuthority>
  >
  /**
   * The very object that was started, also while it starts. With a guard, nothing where the object is of another kind.
   */
  readonly get: {
    (id: string): Effect.Effect<Option.Option<ManagedProcess>>
    <P>(id: string, is: Guard<P>): Effect.Effect<Option.Option<P>>
  }
  /**
   * Forgets the process when the id is still its own, and never calls `close`: who removes itself is through with its
   * work. While `start` has not returned, that is done once it has. `false`: the id is somebody else's, or nobody's.
   */
  readonly remove: (id: string, self: object) => Effect.Effect<boolean>
  /**
   * Refuses new starts and revokes the registry's authority; waits for starts in progress; closes all that are left, at
   * once. One that fails or overruns is named, and holds up no other. Once for all who ask, who get the same report;
   * interrupting one ends only its wait. Asked from within a `start`, a `close`, a forked process (or a fiber that one left
   * behind) or a commit of this registry, it does not wait, and the report says how many are `pending`.
   */
  readonly close: Effect.Effect<RuntimeStore.CloseReport>
}

/** The registry around this code. `layerShared` gives all plugins of a generation the same one. */
class ManagedProcessRegistryService extends Context.Service<ManagedProcessRegistryService, ManagedProcessRegistry>()(
  "@procyon/runtime/ManagedProcess/Registry"
) {}
export { ManagedProcessRegistryService as Registry }

type CurrentAuthority = Context.Service.Identifier<typeof Authority.Current>

/** A process that has an id. Small, since there may be many: nothing is made before it is needed. */
class Entry {
  readonly process: ManagedProcess
  phase: "starting" | "started" | "failed" = "starting"
  /** It asked to be removed before its start had returned. */
  removed = false
  /** Its start, and its close. */
  activity: Activity | undefined

  constructor(process: ManagedProcess) {
    this.process = process
  }
}

/** What `fork` registers. */
class Forked implements ManagedProcess<never, never> {
  fiber: Fiber.Fiber<unknown, unknown> | undefined

  start(): Effect.Effect<void> {
    return Effect.void
  }

  close(): Effect.Effect<void> {
    return this.fiber === undefined ? Effect.void : Fiber.interrupt(this.fiber)
  }
}

/** How many forked processes begin one within the other. Some thousands would exceed the stack. */
const maxBeginning = 16

class Registry implements ManagedProcessRegistry {
  readonly #right: Right
  readonly #authority: Authority.Authority
  readonly #startWindowMillis: number
  readonly #closeWindowMillis: number
  readonly #entries = new Map<string, Entry>()
  /** What forked processes run in, by the context of their starter: they are many, and contexts are large. */
  readonly #contexts = new WeakMap<Context.Context<never>, Context.Context<never>>()
  readonly #activity: Activity
  #starting = 0
  /** Forked processes that begin now, one within the other, on one stack. */
  #beginning = 0
  #settled: Deferred.Deferred<void> | undefined
  #closing: Deferred.Deferred<RuntimeStore.CloseReport> | undefined

  constructor(right: Right, settings: Settings.Settings) {
    this.#right = right
    this.#authority = new RightAuthority(right)
    this.#activity = new Activity("Upkeep", right)
    this.#startWindowMillis = settings.managedStartWindowMillis
    this.#closeWindowMillis = settings.managedCloseWindowMillis
  }

  start<E, R>(id: string, process: ManagedProcess<E, R>): Effect.Effect<void, E | Refusal, R> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.suspend((): Effect.Effect<void, E | Refusal, R> => {
        const entry = this.#reserve(id, process)
        if (!(entry instanceof Entry)) return Effect.fail(entry)
        const starting = Effect.forkDetach(
          this.#upkeep(entry, Effect.suspend(() => process.start())),
          { startImmediately: true }
        )
        return Effect.flatMap(starting, (fiber) => this.#await(id, entry, fiber, restore))
      })
    )
  }

  #reserve(id: string, process: ManagedProcess): Entry | ManagedProcessAlreadyExists | RegistryClosed {
    if (this.#closing !== undefined) return new RegistryClosed({ id })
    if (this.#entries.has(id)) return new ManagedProcessAlreadyExists({ id })
    const entry = new Entry(process)
    this.#entries.set(id, entry)
    this.#starting++
    return entry
  }

  #await<E>(
    id: string,
    entry: Entry,
    fiber: Fiber.Fiber<void, E>,
    restore: <A, E1>(effect: Effect.Effect<A, E1>) => Effect.Effect<A, E1>
  ): Effect.Effect<void, E | StartOverran> {
    return Effect.gen({ self: this }, function*() {
      const clock = yield* Clock.Clock
      const began = clock.monotonicTimeNanosUnsafe()
      const waited = yield* Effect.exit(restore(endWithin(fiber, this.#startWindowMillis)))
      if (Exit.isFailure(waited)) {
        fiber.interruptUnsafe()
        const passedMillis = Math.floor(Number(clock.monotonicTimeNanosUnsafe() - began) / 1e6)
        const ended = yield* endWithin(fiber, Math.max(0, this.#startWindowMillis - passedMillis))
        if (Option.isSome(ended) && Exit.isSuccess(ended.value)) this.#keep(id, entry)
        else yield* this.#drop(id, entry, fiber)
        return yield* Effect.failCause(waited.cause)
      }
      if (Option.isSome(waited.value) && Exit.isSuccess(waited.value.value)) return this.#keep(id, entry)
      if (Option.isNone(waited.value)) fiber.interruptUnsafe()
      yield* this.#drop(id, entry, fiber)
      return yield* Option.isSome(waited.value)
        ? waited.value.value
        : Effect.fail(new StartOverran({ id, windowMillis: this.#startWindowMillis }))
    })
  }

  #keep(id: string, entry: Entry): void {
    entry.phase = "started"
    if (entry.removed) this.#entries.delete(id)
    this.#settle()
  }

  /** The id stays reserved meanwhile, so that no two processes of one id are about. */
  #drop(id: string, entry: Entry, fiber: Fiber.Fiber<void, unknown>): Effect.Effect<void> {
    return Effect.suspend(() => {
      entry.phase = "failed"
      if (fiber.pollUnsafe() === undefined) this.#closeOnceOver(id, entry, fiber)
      return Effect.map(this.#tryClose(id, entry), () => {
        this.#entries.delete(id)
        this.#settle()
      })
    })
  }

  /** A start that cannot be interrupted goes on after the close, and may begin then what that should have ended. */
  #closeOnceOver(id: string, entry: Entry, fiber: Fiber.Fiber<void, unknown>): void {
    fiber.addObserver(() => this.#right.fork(this.#tryClose(id, entry)))
  }

  #tryClose(id: string, entry: Entry): Effect.Effect<void> {
    return bounded(this.#closeOf(entry), this.#closeWindowMillis).pipe(
      Effect.flatMap((ended) => Option.isSome(ended) && Exit.isSuccess(ended.value) ? Effect.void : logUnclosed(id))
    )
  }

  #settle(): void {
    this.#starting--
    if (this.#starting === 0 && this.#settled !== undefined) Deferred.doneUnsafe(this.#settled, Effect.void)
  }

  fork<A, E, R>(
    id: string,
    effect: Effect.Effect<A, E, R>
  ): Effect.Effect<void, ManagedProcessAlreadyExists | RegistryClosed, Exclude<R, CurrentAuthority>> {
    return Effect.contextWith((context: Context.Context<Exclude<R, CurrentAuthority>>) =>
      Effect.suspend(() => {
        const forked = new Forked()
        const entry = this.#reserve(id, forked)
        if (!(entry instanceof Entry)) return Effect.fail(entry)
        // `Exclude` does not tell the compiler that adding the authority back gives all of R.
        const within = this.#contextOf(context) as Context.Context<R>
        const begun = this.#beginning < maxBeginning ? effect : Effect.andThen(Effect.yieldNow, effect)
        this.#beginning++
        forked.fiber = Effect.runForkWith(within)(begun)
        this.#beginning--
        forked.fiber.addObserver((exit) => {
          if (this.#entries.get(id) === entry) this.#entries.delete(id)
          if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) this.#right.fork(logFailed(id, exit.cause))
        })
        entry.phase = "started"
        this.#settle()
        return Effect.void
      })
    )
  }

  #contextOf(starter: Context.Context<never>): Context.Context<never> {
    const known = this.#contexts.get(starter)
    if (known !== undefined) return known
    const context = Context.add(
      Context.add(starter, Authority.Current, this.#authority),
      CurrentActivity,
      this.#activity
    )
    this.#contexts.set(starter, context)
    return context
  }

  get(id: string): Effect.Effect<Option.Option<ManagedProcess>>
  get<P>(id: string, is: Guard<P>): Effect.Effect<Option.Option<P>>
  get<P>(id: string, is?: Guard<P>): Effect.Effect<Option.Option<ManagedProcess | P>> {
    return Effect.sync(() => {
      const entry = this.#entries.get(id)
      if (entry === undefined || entry.phase === "failed") return Option.none()
      return is === undefined || passes(entry.process, is) ? Option.some(entry.process) : Option.none()
    })
  }

  remove(id: string, self: object): Effect.Effect<boolean> {
    return Effect.sync(() => {
      const entry = this.#entries.get(id)
      if (entry === undefined || entry.process !== self || entry.removed || entry.phase === "failed") return false
      if (entry.phase === "starting") entry.removed = true
      else this.#entries.delete(id)
      return true
    })
  }

  get close(): Effect.Effect<RuntimeStore.CloseReport> {
    return Effect.suspend(() => {
      const closing = this.#closing ??= this.#begin()
      return Effect.flatMap(isWithin(this.#right), (inside) =>
        inside
          ? Effect.succeed({ closed: 0, failed: [], pending: this.#entries.size })
          : Deferred.await(closing))
    })
  }

  #begin(): Deferred.Deferred<RuntimeStore.CloseReport> {
    const done = this.#closing = Deferred.makeUnsafe<RuntimeStore.CloseReport>()
    this.#right.fork(Effect.flatMap(this.#closeAll(), (report) => Deferred.succeed(done, report)))
    return done
  }

  #closeAll(): Effect.Effect<RuntimeStore.CloseReport> {
    return Effect.gen({ self: this }, function*() {
      // The right goes first, so that nothing which is about to be closed commits any more.
      yield* Effect.all([this.#right.revoke(), this.#startsSettled()], { concurrency: "unbounded", discard: true })
      const entries = [...this.#entries]
      const closings = entries.map(([, entry]) => this.#right.fork(this.#closeOf(entry)))
      yield* allEndWithin(closings, this.#closeWindowMillis)
      const failed = closings.flatMap((fiber, index) => {
        const exit = fiber.pollUnsafe()
        if (exit === undefined) fiber.interruptUnsafe()
        else if (Exit.isSuccess(exit)) return []
        return [{ id: entries[index]?.[0] ?? "", reason: exit === undefined ? "overran" as const : "failed" as const }]
      })
      for (const { id } of failed) yield* logUnclosed(id)
      this.#entries.clear()
      return { closed: entries.length - failed.length, failed, pending: 0 }
    })
  }

  #startsSettled(): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#starting === 0) return Effect.void
      this.#settled ??= Deferred.makeUnsafe<void>()
      return Deferred.await(this.#settled)
    })
  }

  #closeOf(entry: Entry): Effect.Effect<void> {
    return this.#upkeep(entry, Effect.suspend(() => entry.process.close()))
  }

  #upkeep<A, E, R>(entry: Entry, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.flatMap(
      CurrentActivity,
      (outer) => during(entry.activity ??= new Activity("Upkeep", this.#right, outer), effect)
    )
  }
}

/** A class does not let its prototype be replaced, which tells it from a function. */
const isClass = <P>(guard: Guard<P>): guard is abstract new(...args: never) => P =>
  Object.getOwnPropertyDescriptor(guard, "prototype")?.writable === false

const passes = <P>(process: unknown, guard: Guard<P>): process is P =>
  isClass(guard) ? process instanceof guard : guard(process)

// What a process threw may hold anything, so its text is not told.
const logUnclosed = (id: string): Effect.Effect<void> => warn(`closing the managed process ${id} failed`)

const logFailed = (id: string, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.logDebug(`the managed process ${id} failed: ${tagOf(cause)}`)

const tagOf = (cause: Cause.Cause<unknown>): string => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (!Cause.hasFails(cause)) return "a defect"
  return typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : "an error"
}

/**
 * A registry whose scope's end closes it. Its authority is derived from the one around it, or is one of its own. Reads
 * `Settings` once.
 */
export const make: Effect.Effect<ManagedProcessRegistry, never, Scope.Scope> = Effect.gen(function*() {
  const settings = yield* Settings.Current
  const around = yield* Effect.serviceOption(Authority.Current)
  const right = Option.isSome(around)
    ? around.value[TypeId].derive()
    : yield* makeRight(settings.commitWindowMillis)
  const registry = new Registry(right, settings)
  yield* Effect.addFinalizer(() => registry.close)
  return registry
})

/** A registry of its own for each layer that is built. In an application that is replaced, use `layerShared`. */
export const layer: Layer.Layer<ManagedProcessRegistryService> = Layer.effect(ManagedProcessRegistryService, make)

const sharedKey = RuntimeStore.key<ManagedProcessRegistry>("@procyon/runtime/ManagedProcess/Registry")

/** The one registry of the store, however often it is asked for: the plugins of one generation share it. */
export const shared: Effect.Effect<ManagedProcessRegistry, RuntimeStore.StoreClosed, RuntimeStoreService> = Effect.gen(
  function*() {
    const store = yield* RuntimeStore.Service
    const settings = yield* Settings.Current
    // All that closing it may wait for, one after the other: starts or commits, and then the closes.
    const { commitWindowMillis, managedCloseWindowMillis, managedStartWindowMillis } = settings
    const closeWindowMillis = Math.max(
      managedStartWindowMillis + managedCloseWindowMillis,
      2 * commitWindowMillis
    ) + managedCloseWindowMillis
    const made = Effect.provideService(make, Authority.Current, store.authority)
    return yield* store.getOrCreate(sharedKey, made, { closeWindowMillis })
  }
)

type RuntimeStoreService = Context.Service.Identifier<typeof RuntimeStore.Service>

/** `shared` as a service: for the application layer of a `Generation`. */
export const layerShared: Layer.Layer<ManagedProcessRegistryService, RuntimeStore.StoreClosed, RuntimeStoreService> =
  Layer.effect(ManagedProcessRegistryService, shared)
