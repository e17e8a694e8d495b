/**
 * A revocable right to change something: what is committed under it takes effect only while it stands.
 *
 * Work that goes on for long may find, when it is done, that what it worked for is gone: its application was replaced, its
 * session closed. It commits its result through the authority it was given, and then a late result is discarded, counted,
 * and told as a value. Not a lock: commits of one authority run side by side, and order among them is the caller's matter.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { make as makeRight, type Revocation, type Right } from "../internal/Right.ts"
import { type Commit, scoped, type TypeId } from "../internal/RightAuthority.ts"
import * as Settings from "./Settings.ts"

export type { Revocation } from "../internal/Right.ts"
export type { Commit } from "../internal/RightAuthority.ts"

/** The right, as it is handed out. Made by this library only. */
export interface Authority {
  readonly [TypeId]: Right
  /**
   * Runs the effect if the right stands. The look at it and the beginning are one step, and a revocation waits for what
   * has begun, so nothing takes effect after a revocation has answered without naming it `unfinished`. The effect runs in
   * a fiber of its own with the caller's context; its failures are the caller's, and interrupting the caller interrupts
   * it.
   */
  readonly commit: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<Commit<A>, E, R>
  /** Whether it stands now. A look only: by the time of the next step it may be gone, so changes go through `commit`. */
  readonly stands: Effect.Effect<boolean>
  /** How many commits were discarded, those of derived authorities included. */
  readonly discarded: Effect.Effect<number>
  /** A narrower right, gone with this one. Revoking it, or closing its scope, which does that, leaves this one alone. */
  readonly derive: Effect.Effect<Revocable, never, Scope.Scope>
}

/** The right together with the means to end it: kept by its owner, and handed out as `Authority`. */
export interface Revocable extends Authority {
  /**
   * Ends the right, and those derived from it, at once. Then it waits for the commits that run: for `commitWindowMillis`,
   * after which they are interrupted, and as long again for what cannot be. Asked again, it waits for the same and gives the
   * same answer. Interrupting the caller ends only its wait. Asked from within one of those commits, it waits for none.
   */
  readonly revoke: Effect.Effect<Revocation>
}

/** The authority of the work that runs: of the generation, or of the process it was forked in. */
class CurrentAuthority extends Context.Service<CurrentAuthority, Authority>()("@procyon/runtime/Authority") {}
export { CurrentAuthority as Current }

/** An authority derived from none; the end of the scope revokes it. Reads `Settings` once. */
export const make: Effect.Effect<Revocable, never, Scope.Scope> = scoped(
  Effect.flatMap(Settings.Current, (settings) => makeRight(settings.commitWindowMillis))
)

/** Gives what is around work an authority of its own. Inside a generation there is one already. */
export const layer: Layer.Layer<CurrentAuthority> = Layer.effect(CurrentAuthority, make)
