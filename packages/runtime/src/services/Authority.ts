/**
 * A revocable right to change something: what is committed under it takes effect only while it stands.
 *
 * Work that goes on for long may find, when it is done, that what it worked for is gone: its application was replaced, its
 * session closed. It commits its result through the authority it was given, and then a late result is discarded, counted,
 * and told as a value. Not a lock: commits of one authority run side by side, and order among them is the caller's matter.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import {
  Activity,
  CurrentActivity,
  make as makeRight,
  type Revocation,
  type Right,
  Running
} from "../internal/Right.ts"
import * as Settings from "./Settings.ts"

export type { Revocation } from "../internal/Right.ts"

/**
 * What came of a commit.
 *
 * - `Committed`: it ran to its end.
 * - `Discarded`: the right was gone before it began, and nothing of it ran.
 * - `Interrupted`: it ran when the right was revoked, did not end within the window, and was interrupted. What it had done
 *   by then is done, unless it undoes it itself.
 */
export type Commit<A> =
  | { readonly _tag: "Committed"; readonly value: A }
  | { readonly _tag: "Discarded" }
  | { readonly _tag: "Interrupted" }

const TypeId = "~@procyon/runtime/Authority"

/** The right, as it is handed out. Made by this module only. */
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

const discarded: Commit<never> = { _tag: "Discarded" }
const interrupted: Commit<never> = { _tag: "Interrupted" }

class RightAuthority implements Revocable {
  readonly [TypeId]: Right

  constructor(right: Right) {
    this[TypeId] = right
  }

  commit<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Commit<A>, E, R> {
    const right = this[TypeId]
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(CurrentActivity, (outer): Effect.Effect<Commit<A>, E, R> => {
        if (!right.stands) {
          right.discard()
          return Effect.succeed(discarded)
        }
        const running = new Running()
        right.enter(running)
        const begun = beginning(right, running, new Activity("Commit", right, outer), effect)
        return Effect.flatMap(begun, (fiber) =>
          restore(Fiber.await(fiber)).pipe(
            Effect.onInterrupt(() => Fiber.interrupt(fiber)),
            Effect.flatMap((exit) => outcome(exit, running))
          ))
      })
    )
  }

  get stands(): Effect.Effect<boolean> {
    return Effect.sync(() => this[TypeId].stands)
  }

  get discarded(): Effect.Effect<number> {
    return Effect.sync(() => this[TypeId].discarded)
  }

  get derive(): Effect.Effect<Revocable, never, Scope.Scope> {
    return revocable(Effect.sync(() => this[TypeId].derive()))
  }

  get revoke(): Effect.Effect<Revocation> {
    return Effect.suspend(() => this[TypeId].revoke())
  }
}

const beginning = <A, E, R>(
  right: Right,
  running: Running,
  activity: Activity,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<Fiber.Fiber<A, E>, never, R> =>
  Effect.provideService(effect, CurrentActivity, activity).pipe(
    Effect.forkDetach({ startImmediately: true }),
    Effect.tap((fiber) =>
      Effect.sync(() => {
        running.fiber = fiber
        fiber.addObserver(() => {
          activity.over = true
          right.leave(running)
        })
        // A scheduler may let others in between these steps, and a window pass meanwhile.
        if (running.cut) fiber.interruptUnsafe()
      })
    )
  )

const outcome = <A, E>(exit: Exit.Exit<A, E>, running: Running): Effect.Effect<Commit<A>, E> => {
  if (Exit.isSuccess(exit)) return Effect.succeed({ _tag: "Committed", value: exit.value })
  return running.cut && Cause.hasInterruptsOnly(exit.cause) ? Effect.succeed(interrupted) : Effect.failCause(exit.cause)
}

const revocable = (right: Effect.Effect<Right>): Effect.Effect<Revocable, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.map(right, ofRight), (authority) => authority.revoke)

/** For the services that own a right themselves. */
export const ofRight = (right: Right): Revocable => new RightAuthority(right)

/** For the services that derive from what they are given. */
export const rightOf = (authority: Authority): Right => authority[TypeId]

/** An authority derived from none; the end of the scope revokes it. Reads `Settings` once. */
export const make: Effect.Effect<Revocable, never, Scope.Scope> = revocable(
  Effect.flatMap(Settings.Current, (settings) => makeRight(settings.commitWindowMillis))
)

/** Gives what is around work an authority of its own. Inside a generation there is one already. */
export const layer: Layer.Layer<CurrentAuthority> = Layer.effect(CurrentAuthority, make)
