/**
 * The running application, which can be replaced: one after the other, each with a store, an authority and instances of its
 * own, and nothing carried over from one to the next.
 *
 * What is in the application's layer is built anew for each generation. What all of them share, such as the process
 * runtime, is left open in that layer and comes from outside. A generation that was replaced may still have work running
 * that cannot be stopped at once; it has no right to change anything any more, which is what its authority is for.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { bounded } from "../internal/Bounded.ts"
import { InstanceStore } from "../internal/InstanceStore.ts"
import {
  Activity,
  CurrentActivity,
  during,
  type Fork,
  isWithin,
  makeFork,
  type Revocation,
  Right
} from "../internal/Right.ts"
import { RightAuthority } from "../internal/RightAuthority.ts"
import { warn } from "../internal/Warning.ts"
import * as Authority from "./Authority.ts"
import * as RuntimeStore from "./RuntimeStore.ts"
import * as Settings from "./Settings.ts"

export { NoApplication } from "./RuntimeStore.ts"

type StoreService = Context.Service.Identifier<typeof RuntimeStore.Service>
type CurrentAuthority = Context.Service.Identifier<typeof Authority.Current>

/** What every application and everything run in it has beside its own services. */
export type Provided = StoreService | CurrentAuthority

/** How a generation ended. `scope`: whether the application's own finalizers ended well, and within the shutdown budget. */
export interface Ended {
  readonly generation: number
  readonly revocation: Revocation
  readonly store: RuntimeStore.CloseReport
  readonly scope: "closed" | "failed" | "overran"
}

/** The running application, for whoever acts in it or replaces it. `S`: its services. `E`: why a build fails. */
export interface Generation<out S, out E> {
  /**
   * The store of the running application, which says its number too. `NoApplication` once this is closed.
   */
  readonly current: Effect.Effect<RuntimeStore.RuntimeStore, RuntimeStore.NoApplication>
  /**
   * Runs an effect in the running application. It stays in that one to its end, also when it is replaced meanwhile: then
   * what it commits is discarded. A replacement does not wait for it.
   */
  readonly use: <A, E2, R>(
    effect: Effect.Effect<A, E2, R>
  ) => Effect.Effect<A, E2 | RuntimeStore.NoApplication, Exclude<R, S | Provided>>
  /**
   * Builds a fresh application; makes it the current one in the step that revokes all authorities of the old one; then waits
   * for the old one's commits, closes its store, and then its layer. Answers with the number of the fresh one, once all
   * older ones have ended.
   *
   * When the build fails, or the caller is interrupted before it is done, the old one goes on. From then on interrupting
   * the caller ends only its wait. Builds run one after the other; the end of an old one may go on beside the next build.
   * Asked from within an old one's own work (a commit, a start or a close, a forked process), it does not wait for their
   * ends. Asked from within a build, or the clearing away of one that failed, it is a defect.
   */
  readonly replace: Effect.Effect<number, E | RuntimeStore.NoApplication>
  /**
   * Ends the running application, for good, interrupts a build, and waits for the ends of those that were replaced, for the
   * shutdown budget. Once for all who ask; interrupting one ends only its wait. `None` when there was no application, and
   * when asked from within one, or its build, which cannot wait for its own end.
   */
  readonly close: Effect.Effect<Option.Option<Ended>>
}

/** One application that runs. */
interface Running<S> {
  readonly number: number
  readonly right: Right
  /** Its build, and the end of its scope. */
  readonly activity: Activity
  readonly store: RuntimeStore.RuntimeStore
  readonly scope: Scope.Closeable
  readonly context: Context.Context<S | Provided>
}

interface Succession {
  readonly number: number
  /** Of those that had not ended by then: the one that was replaced, and older ones. */
  readonly endings: ReadonlyMap<Right, Fiber.Fiber<void>>
}

interface Closing {
  /** The right of the application that ran last. */
  readonly last: Right | undefined
  readonly done: Deferred.Deferred<Option.Option<Ended>>
}

type Restore = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

const noApplication: Effect.Effect<never, RuntimeStore.NoApplication> = Effect.suspend(() =>
  Effect.fail(new RuntimeStore.NoApplication())
)

class Generations<S, E, R> implements Generation<S, E> {
  readonly #application: Layer.Layer<S, E, R | Provided>
  /** Applications are built in the context this was made in, whoever asks for a replacement. */
  readonly #context: Context.Context<R>
  readonly #settings: Settings.Settings
  readonly #fork: Fork
  readonly #turn = Semaphore.makeUnsafe(1)
  #number = 0
  #current: Running<S> | undefined
  /** The right of an application that is built, and the means to interrupt that. */
  #building: { readonly right: Right; interrupt: () => void } | undefined
  /** The ends of those that were replaced, as long as they take. */
  readonly #endings = new Map<Right, Fiber.Fiber<void>>()
  #closing: Closing | undefined

  constructor(
    application: Layer.Layer<S, E, R | Provided>,
    context: Context.Context<R>,
    settings: Settings.Settings,
    fork: Fork
  ) {
    this.#application = application
    this.#context = Context.add(context, CurrentActivity, undefined)
    this.#settings = settings
    this.#fork = fork
  }

  get current(): Effect.Effect<RuntimeStore.RuntimeStore, RuntimeStore.NoApplication> {
    return Effect.suspend(() => this.#current === undefined ? noApplication : Effect.succeed(this.#current.store))
  }

  use<A, E2, R2>(
    effect: Effect.Effect<A, E2, R2>
  ): Effect.Effect<A, E2 | RuntimeStore.NoApplication, Exclude<R2, S | Provided>> {
    return Effect.suspend((): Effect.Effect<A, E2 | RuntimeStore.NoApplication, Exclude<R2, S | Provided>> =>
      this.#current === undefined ? noApplication : Effect.provideContext(effect, this.#current.context)
    )
  }

  get replace(): Effect.Effect<number, E | RuntimeStore.NoApplication> {
    return Effect.flatMap(
      this.#inTurn(Effect.uninterruptibleMask((restore) => this.#succeed(restore))),
      ({ endings, number }) =>
        Effect.flatMap(
          isWithinAny(endings.keys()),
          (inside) => Effect.as(inside ? Effect.void : Fiber.awaitAll(endings.values()), number)
        )
    )
  }

  #inTurn<A, E2>(effect: Effect.Effect<A, E2>): Effect.Effect<A, E2 | RuntimeStore.NoApplication> {
    return Effect.suspend((): Effect.Effect<A, E2 | RuntimeStore.NoApplication> => {
      if (this.#closing !== undefined) return noApplication
      const turn = this.#turn.withPermits(1)(effect)
      if (this.#building === undefined) return turn
      return Effect.flatMap(
        isWithin(this.#building.right),
        (inside) => inside ? Effect.die(new Error("the build of an application asks for its replacement")) : turn
      )
    })
  }

  /** Builds an application and puts it in the place of the current one, whose end begins. With the turn in hand. */
  #succeed(restore: Restore): Effect.Effect<Succession, E | RuntimeStore.NoApplication> {
    return Effect.suspend((): Effect.Effect<Succession, E | RuntimeStore.NoApplication> => {
      if (this.#closing !== undefined) return noApplication
      const fresh = this.#prepare()
      // The build begins before there is a fiber to interrupt, and may ask for what needs to know of it.
      this.#building = { right: fresh.right, interrupt: () => {} }
      const building = Effect.runForkWith(this.#context)(during(fresh.activity, fresh.build))
      this.#building.interrupt = () => building.interruptUnsafe()
      if (this.#closing) building.interruptUnsafe()
      const asker = restore(Fiber.await(building)).pipe(
        Effect.onInterrupt(() =>
          Effect.suspend(() => {
            // What cannot be interrupted goes on, and is for nothing.
            fresh.right.withdraw()
            return Fiber.interrupt(building)
          })
        ),
        Effect.exit
      )
      return Effect.flatMap(
        asker,
        (waited) => Effect.flatMap(Fiber.await(building), (exit) => this.#install(fresh, exit, waited))
      )
    })
  }

  /** `exit` is how the build ended, and `waited` how its asker has waited for it. */
  #install(
    fresh: Omit<Running<S>, "context">,
    exit: Exit.Exit<Context.Context<S | Provided>, E>,
    waited: Exit.Exit<unknown>
  ): Effect.Effect<Succession, E | RuntimeStore.NoApplication> {
    return Effect.suspend((): Effect.Effect<Succession, E | RuntimeStore.NoApplication> => {
      if (Exit.isSuccess(exit) && Exit.isSuccess(waited) && this.#closing === undefined) {
        const old = this.#current
        this.#building = undefined
        this.#current = { ...fresh, context: exit.value }
        this.#number = fresh.number
        old?.right.withdraw()
        if (old !== undefined) this.#beginEnd(old)
        return Effect.succeed({ number: fresh.number, endings: new Map(this.#endings) })
      }
      const closed = this.#closing !== undefined
      return Effect.flatMap(this.#end(fresh), (): Effect.Effect<never, E | RuntimeStore.NoApplication> => {
        this.#building = undefined
        if (Exit.isFailure(waited)) return Effect.failCause(waited.cause)
        return closed || Exit.isSuccess(exit) ? noApplication : Effect.failCause(exit.cause)
      })
    })
  }

  /** Nobody has to wait for it, least of all the next replacement, which may be asked for by what is ended here. */
  #beginEnd(old: Running<S>): void {
    const ending = this.#fork(Effect.flatMap(this.#end(old), logUnclean))
    this.#endings.set(old.right, ending)
    ending.addObserver(() => this.#endings.delete(old.right))
  }

  #prepare() {
    const number = this.#number + 1
    const right = new Right(this.#fork, this.#settings.commitWindowMillis)
    const store = new InstanceStore(number, right, this.#settings.managedCloseWindowMillis)
    const scope = Scope.makeUnsafe()
    const provided = Context.make(RuntimeStore.Service, store).pipe(
      Context.add(Authority.Current, new RightAuthority(right))
    )
    // A memo map of its own: not even a layer that is built outside too is carried over.
    const build = Layer.buildWithMemoMap(this.#application, Layer.makeMemoMapUnsafe(), scope).pipe(
      Effect.provideContext(provided),
      Effect.map((services) => Context.merge(services, provided))
    )
    return { number, right, activity: new Activity("Upkeep", right), store, scope, build }
  }

  #end({ activity, number, right, scope, store }: Omit<Running<S>, "context">): Effect.Effect<Ended> {
    return Effect.gen({ self: this }, function*() {
      const revocation = yield* right.revoke()
      const closed = yield* store.close
      const ended = yield* bounded(
        during(activity, Scope.close(scope, Exit.void)),
        this.#settings.shutdownBudgetMillis
      )
      return {
        generation: number,
        revocation,
        store: closed,
        scope: Option.isNone(ended) ? "overran" : Exit.isSuccess(ended.value) ? "closed" : "failed"
      }
    })
  }

  get close(): Effect.Effect<Option.Option<Ended>> {
    return Effect.suspend(() => {
      const closing = this.#closing ??= this.#begin()
      const ending = [closing.last, this.#building?.right, ...this.#endings.keys()].filter((right) =>
        right !== undefined
      )
      return Effect.flatMap(
        isWithinAny(ending),
        (inside) => inside ? Effect.succeedNone : Deferred.await(closing.done)
      )
    })
  }

  #begin(): Closing {
    const last = this.#current
    const closing = this.#closing = { last: last?.right, done: Deferred.makeUnsafe<Option.Option<Ended>>() }
    this.#current = undefined
    last?.right.withdraw()
    this.#building?.right.withdraw()
    this.#building?.interrupt()
    this.#fork(Effect.gen({ self: this }, function*() {
      const ended = last === undefined ? Option.none() : Option.some(yield* this.#end(last))
      if (Option.isSome(ended)) yield* logUnclean(ended.value)
      // A replacement that is under way ends what it has built. Those in line find this closed.
      const others = Effect.andThen(
        this.#turn.withPermits(1)(Effect.void),
        Effect.suspend(() => Fiber.awaitAll(this.#endings.values()))
      )
      yield* Effect.timeoutOption(others, this.#settings.shutdownBudgetMillis)
      yield* Deferred.succeed(closing.done, ended)
    }))
    return closing
  }
}

const isWithinAny = (rights: Iterable<Right>): Effect.Effect<boolean> =>
  Effect.map(Effect.forEach(rights, (right) => isWithin(right)), (inside) => inside.includes(true))

const logUnclean = (ended: Ended): Effect.Effect<void> =>
  ended.store.failed.length === 0 && ended.scope === "closed"
    ? Effect.void
    : warn(
      `generation ${ended.generation} did not close cleanly: ${ended.store.failed.length} of its store, scope ${ended.scope}`
    )

/**
 * Builds the first application, and closes the one that runs with its scope. The layer gets `RuntimeStore.Service` and
 * `Authority.Current` of its generation; all else that it needs comes from here, for every generation. Reads `Settings` once.
 */
export const make = <S, E, R>(
  application: Layer.Layer<S, E, R>
): Effect.Effect<Generation<S, E>, E, Exclude<R, Provided> | Scope.Scope> =>
  Effect.gen(function*() {
    const context = yield* Effect.context<Exclude<R, Provided>>()
    const generations = new Generations<S, E, Exclude<R, Provided>>(
      // What `Exclude` took out of R is what every application is given.
      application as Layer.Layer<S, E, Exclude<R, Provided> | Provided>,
      context,
      yield* Settings.Current,
      yield* makeFork
    )
    yield* Effect.addFinalizer(() => generations.close)
    // Nobody can have closed it yet, so there is no such failure to tell.
    yield* Effect.catchTag(generations.replace, "NoApplication", Effect.die)
    return generations
  })
