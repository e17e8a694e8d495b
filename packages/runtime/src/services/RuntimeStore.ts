/**
 * What the plugins of one running application share: one instance a key, made when it is first asked for, and closed with
 * the application, the youngest first.
 *
 * A store belongs to one generation, and nothing in it outlives that: the next generation has a store of its own, and it is
 * empty. Not a cache: nothing is evicted, and what should be forgotten earlier does not belong here.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type CloseReport, InstanceStore, type Key, type Options, type StoreClosed } from "../internal/InstanceStore.ts"
import { TypeId } from "../internal/RightAuthority.ts"
import * as Authority from "./Authority.ts"
import * as Settings from "./Settings.ts"

export { type CloseReport, type Key, type Options, StoreClosed } from "../internal/InstanceStore.ts"

/** There is no running application: not yet, not any more, or the action was not run inside one. */
export class NoApplication extends Schema.TaggedError<NoApplication>()("NoApplication", {}) {
  override get message(): string {
    return "no application is running"
  }
}

/** A key, such as `RuntimeStore.key<Index>("@acme/search/Index")`. */
export const key = <A>(name: string): Key<A> => ({ name })

/** The instances of one application. */
export interface RuntimeStore {
  /** The number of the generation it belongs to, from 1. */
  readonly generation: number
  /** The authority of the generation: revoked before anything in the store is closed. */
  readonly authority: Authority.Authority
  /**
   * The instance of the key. The first who asks makes it, with a scope that is closed with the store; whoever asks
   * meanwhile waits and gets the same. When that fails, or its asker is interrupted, the next one in line tries with a
   * `make` of its own, so every error is one's own, and a failed creation can be tried again at any time. What was acquired
   * by then is released first. Closing the store interrupts a creation.
   *
   * A `make` may ask for other keys. Where that would make it wait for itself, also by way of others that are made at the
   * same time, it is a defect.
   */
  readonly getOrCreate: <A, E, R>(
    key: Key<A>,
    make: Effect.Effect<A, E, R>,
    options?: Options
  ) => Effect.Effect<A, E | StoreClosed, Exclude<R, Scope.Scope>>
  /**
   * Closes the instances one after the other, the youngest first, so that each finds those it was made from. One that
   * fails or overruns its window is named, and holds up no other. Once for all who ask; interrupting one ends only its wait.
   */
  readonly close: Effect.Effect<CloseReport>
}

/** The store around this code. `Generation` gives each of its applications one; `current` asks for it safely. */
class RuntimeStoreService extends Context.Service<RuntimeStoreService, RuntimeStore>()(
  "@procyon/runtime/RuntimeStore"
) {}
export { RuntimeStoreService as Service }

/** The store around this effect; `NoApplication` where there is none. For actions that may be called from anywhere. */
export const current: Effect.Effect<RuntimeStore, NoApplication> = Effect.flatMap(
  Effect.serviceOption(RuntimeStoreService),
  (store) => Option.isSome(store) ? Effect.succeed(store.value) : Effect.fail(new NoApplication())
)

/** A store outside of a generation, closed with its scope after its authority was revoked. Reads `Settings` once. */
export const make: Effect.Effect<RuntimeStore, never, Scope.Scope> = Effect.gen(function*() {
  const settings = yield* Settings.Current
  const authority = yield* Authority.make
  const store = new InstanceStore(1, authority[TypeId], settings.managedCloseWindowMillis)
  yield* Effect.addFinalizer(() => Effect.andThen(authority.revoke, store.close))
  return store
})

/** For tests, and for applications that are never replaced. `Generation` gives each of its applications one. */
export const layer: Layer.Layer<RuntimeStoreService> = Layer.effect(RuntimeStoreService, make)
