/**
 * Commits under a right: what an `Authority` is made of, for the services that own a right themselves, or derive from the
 * one they are given.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { Activity, CurrentActivity, type Revocation, type Right, Running } from "./Right.ts"

/** Where an authority keeps its right. */
export const TypeId = "~@procyon/runtime/Authority"

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

const discarded: Commit<never> = { _tag: "Discarded" }
const interrupted: Commit<never> = { _tag: "Interrupted" }

export class RightAuthority {
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

  get derive(): Effect.Effect<RightAuthority, never, Scope.Scope> {
    return scoped(Effect.sync(() => this[TypeId].derive()))
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

/** The authority of a right that the end of the scope revokes. */
export const scoped = (right: Effect.Effect<Right>): Effect.Effect<RightAuthority, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.map(right, (it) => new RightAuthority(it)), (authority) => authority.revoke)
