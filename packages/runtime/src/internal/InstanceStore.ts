/**
 * Instances by key, each made once and closed with the store: what a `RuntimeStore` is, for the services that own its right.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { bounded } from "./Bounded.ts"
import { Activity, CurrentActivity, during, isWithin, type Right } from "./Right.ts"
import { RightAuthority } from "./RightAuthority.ts"
import { warn } from "./Warning.ts"

/** The store, and with it the generation it belongs to, is closed or about to be. Nothing was made. */
export class StoreClosed extends Schema.TaggedError<StoreClosed>()("StoreClosed", { key: Schema.String }) {
  override get message(): string {
    return `the store is closed: no ${this.key}`
  }
}

/** Names an instance, and its type. Two keys of one name are the same key, so the name carries the package's. */
export interface Key<in out A> {
  readonly name: string
  /** Carries the type only. */
  readonly _A?: (a: A) => A
}

/**
 * What came of closing things that are independent of each other. `closed` of them ended well; those in `failed` did
 * not, or not within their window, and were then given up. `pending` is 0, unless it was asked from within something that
 * was to be closed: then so many were not waited for.
 */
export interface CloseReport {
  readonly closed: number
  readonly failed: ReadonlyArray<{ readonly id: string; readonly reason: "failed" | "overran" }>
  readonly pending: number
}

export interface Options {
  /** How long closing the instance may take, in milliseconds; `managedCloseWindowMillis` by default. */
  readonly closeWindowMillis?: number | undefined
}

class Instance {
  readonly key: string
  readonly closeWindowMillis: number
  /** Its creation, and its end. */
  readonly activity: Activity
  readonly scope = Scope.makeUnsafe()
  /** Done when the creation is over, whichever way. */
  readonly settled = Deferred.makeUnsafe<void>()
  creation: Fiber.Fiber<unknown, unknown> | undefined
  value: Option.Option<unknown> = Option.none()
  /** What its creation waits for now; one more than once when several of its fibers do. */
  readonly #awaited: Array<Instance> = []

  constructor(key: string, closeWindowMillis: number, activity: Activity) {
    this.key = key
    this.closeWindowMillis = closeWindowMillis
    this.activity = activity
  }

  /** Whether its creation cannot end before that of `other` has. */
  waitsFor(other: Instance): boolean {
    return this === other || this.#awaited.some((instance) => instance.waitsFor(other))
  }

  waiting<A, E, R>(instance: Instance, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      this.#awaited.push(instance)
      return Effect.ensuring(
        effect,
        Effect.sync(() => {
          this.#awaited.splice(this.#awaited.indexOf(instance), 1)
        })
      )
    })
  }
}

/** The creation that this fiber is in the middle of. */
const Creating = Context.Reference<Instance | undefined>("@procyon/runtime/RuntimeStore/Creating", {
  defaultValue: () => undefined
})

const waiting = <A, E, R>(
  creator: Instance | undefined,
  instance: Instance,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => creator === undefined ? effect : creator.waiting(instance, effect)

/** A `RuntimeStore` that belongs to a right, which its owner withdraws before it closes this. */
export class InstanceStore {
  readonly generation: number
  readonly authority: RightAuthority
  readonly #right: Right
  readonly #closeWindowMillis: number
  readonly #instances = new Map<string, Instance>()
  /** Those that were made, in the order in which that was done. */
  readonly #made: Array<Instance> = []
  #closing: Deferred.Deferred<CloseReport> | undefined

  constructor(generation: number, right: Right, closeWindowMillis: number) {
    this.generation = generation
    this.authority = new RightAuthority(right)
    this.#right = right
    this.#closeWindowMillis = closeWindowMillis
  }

  getOrCreate<A, E, R>(
    key: Key<A>,
    make: Effect.Effect<A, E, R>,
    options?: Options
  ): Effect.Effect<A, E | StoreClosed, Exclude<R, Scope.Scope>> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.all([Creating, CurrentActivity]), ([creator, outer]) => {
        const attempt: Effect.Effect<A, E | StoreClosed, Exclude<R, Scope.Scope>> = Effect.suspend(() => {
          if (this.#closing !== undefined) return Effect.fail(new StoreClosed({ key: key.name }))
          const known = this.#instances.get(key.name)
          if (known === undefined) {
            const instance = new Instance(
              key.name,
              options?.closeWindowMillis ?? this.#closeWindowMillis,
              new Activity("Upkeep", this.#right, outer)
            )
            this.#instances.set(key.name, instance)
            return waiting(creator, instance, this.#create(instance, make, restore))
          }
          // The key says what type its instance has.
          if (Option.isSome(known.value)) return Effect.succeed(known.value.value as A)
          if (creator !== undefined && known.waitsFor(creator)) {
            return Effect.die(new Error(`the creation of ${creator.key} waits for itself`))
          }
          return Effect.flatMap(waiting(creator, known, restore(Deferred.await(known.settled))), () => attempt)
        })
        return attempt
      })
    )
  }

  #create<A, E, R>(
    instance: Instance,
    make: Effect.Effect<A, E, R>,
    restore: <B, E1, R1>(effect: Effect.Effect<B, E1, R1>) => Effect.Effect<B, E1, R1>
  ): Effect.Effect<A, E | StoreClosed, Exclude<R, Scope.Scope>> {
    const creation = during(instance.activity, Scope.provide(make, instance.scope)).pipe(
      Effect.provideService(Creating, instance),
      Effect.forkDetach({ startImmediately: true })
    )
    return Effect.flatMap(creation, (fiber) => {
      instance.creation = fiber
      if (this.#closing !== undefined) fiber.interruptUnsafe()
      const asker = restore(Fiber.await(fiber)).pipe(Effect.onInterrupt(() => Fiber.interrupt(fiber)), Effect.exit)
      return Effect.flatMap(
        asker,
        (waited) =>
          Effect.flatMap(
            Fiber.await(fiber),
            (exit) => this.#settle(instance, exit, Exit.isFailure(waited) ? waited.cause : undefined)
          )
      )
    })
  }

  /** `exit` is how the creation ended. `interruption`: that of its asker. */
  #settle<A, E>(
    instance: Instance,
    exit: Exit.Exit<A, E>,
    interruption: Cause.Cause<never> | undefined
  ): Effect.Effect<A, E | StoreClosed> {
    return Effect.suspend(() => {
      if (Exit.isSuccess(exit) && this.#closing === undefined) {
        instance.value = Option.some(exit.value)
        this.#made.push(instance)
        this.#release(instance)
        // Made, and kept, although whoever asked for it was interrupted in the meantime.
        return interruption === undefined ? exit : Effect.failCause(interruption)
      }
      return bounded(during(instance.activity, Scope.close(instance.scope, exit)), instance.closeWindowMillis).pipe(
        Effect.flatMap((ended) => isClean(ended) ? Effect.void : logUnclean(instance.key)),
        Effect.andThen(Effect.suspend((): Effect.Effect<never, E | StoreClosed> => {
          this.#instances.delete(instance.key)
          this.#release(instance)
          if (interruption !== undefined) return Effect.failCause(interruption)
          const cut = this.#closing !== undefined && (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause))
          return cut || Exit.isSuccess(exit)
            ? Effect.fail(new StoreClosed({ key: instance.key }))
            : Effect.failCause(exit.cause)
        }))
      )
    })
  }

  #release(instance: Instance): void {
    instance.creation = undefined
    Deferred.doneUnsafe(instance.settled, Effect.void)
  }

  get close(): Effect.Effect<CloseReport> {
    return Effect.suspend(() => {
      const closing = this.#closing ??= this.#begin()
      return Effect.flatMap(isWithin(this.#right), (inside) =>
        inside
          ? Effect.succeed({ closed: 0, failed: [], pending: this.#instances.size })
          : Deferred.await(closing))
    })
  }

  #begin(): Deferred.Deferred<CloseReport> {
    const done = Deferred.makeUnsafe<CloseReport>()
    this.#closing = done
    this.#right.fork(Effect.flatMap(this.#closeAll(), (report) => Deferred.succeed(done, report)))
    return done
  }

  #closeAll(): Effect.Effect<CloseReport> {
    return Effect.gen({ self: this }, function*() {
      yield* this.#endCreations()
      const failed: Array<CloseReport["failed"][number]> = []
      for (const instance of this.#made.toReversed()) {
        const ended = yield* bounded(
          during(instance.activity, Scope.close(instance.scope, Exit.void)),
          instance.closeWindowMillis
        )
        if (isClean(ended)) continue
        failed.push({ id: instance.key, reason: Option.isNone(ended) ? "overran" : "failed" })
        yield* logUnclean(instance.key)
      }
      const closed = this.#made.length - failed.length
      this.#instances.clear()
      this.#made.length = 0
      return { closed, failed, pending: 0 }
    })
  }

  /** Nobody may use what they would make. Their askers answer for them, and release what was acquired. */
  #endCreations(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const creations = [...this.#instances.values()].filter((instance) => Option.isNone(instance.value))
      for (const instance of creations) instance.creation?.interruptUnsafe()
      return Effect.forEach(
        creations,
        (instance) => Effect.timeoutOption(Deferred.await(instance.settled), 2 * instance.closeWindowMillis),
        { concurrency: "unbounded", discard: true }
      )
    })
  }
}

const isClean = (ended: Option.Option<Exit.Exit<unknown, unknown>>): boolean =>
  Option.isSome(ended) && Exit.isSuccess(ended.value)

// What a finalizer threw may hold anything, so its text is not told.
const logUnclean = (key: string): Effect.Effect<void> => warn(`closing ${key} failed`)
