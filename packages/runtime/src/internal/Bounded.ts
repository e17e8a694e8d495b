/**
 * Work of somebody else that is given a time, and not more: it runs in a fiber of its own, so that also what cannot be
 * interrupted holds up nobody.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/**
 * How `effect` ended, or nothing when it had not after `millis`: then it is interrupted, and not waited for. It begins at
 * once, and what ends without waiting costs no timer. Never fails. Interrupting the caller leaves the work alone.
 */
export const bounded = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  millis: number
): Effect.Effect<Option.Option<Exit.Exit<A, E>>, never, R> =>
  Effect.flatMap(
    Effect.forkDetach(effect, { startImmediately: true }),
    (fiber) =>
      Effect.tap(endWithin(fiber, millis), (ended) =>
        Effect.sync(() => {
          if (Option.isNone(ended)) fiber.interruptUnsafe()
        }))
  )

/** How the fiber ended, or nothing when it had not after `millis`. Leaves it alone. */
export const endWithin = <A, E>(
  fiber: Fiber.Fiber<A, E>,
  millis: number
): Effect.Effect<Option.Option<Exit.Exit<A, E>>> =>
  Effect.suspend(() => {
    const exit = fiber.pollUnsafe()
    return exit === undefined ? Effect.timeoutOption(Fiber.await(fiber), millis) : Effect.succeedSome(exit)
  })

/** Waits until all of them have ended, or `millis` have passed, at the cost of one timer. Leaves them alone. */
export const allEndWithin = (
  fibers: ReadonlyArray<Fiber.Fiber<unknown, unknown>>,
  millis: number
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const left = fibers.filter((fiber) => fiber.pollUnsafe() === undefined)
    return left.length === 0 ? Effect.void : Effect.asVoid(Effect.timeoutOption(Fiber.awaitAll(left), millis))
  })
