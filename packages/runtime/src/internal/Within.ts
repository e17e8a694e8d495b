/**
 * A bound on what others do: a store, a ledger, a driver, a caller's callback.
 *
 * `Effect.timeout` waits for what it has interrupted, so one that cannot be interrupted would hold its caller for ever.
 * This one tells it to stop and goes on.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/**
 * The result of `call`, or `None` past `millis`. A call that throws is a defect of its effect. Interrupted, it tells the
 * call to stop and does not wait for that either.
 */
export const within = <A, E, R>(
  call: () => Effect.Effect<A, E, R>,
  millis: number
): Effect.Effect<Option.Option<A>, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      Effect.forkDetach(Effect.interruptible(Effect.suspend(call)), { startImmediately: true }),
      (fiber) => {
        const done = fiber.pollUnsafe()
        if (done !== undefined) return Effect.asSome(done)
        return restore(Effect.timeoutOption(Fiber.await(fiber), millis)).pipe(
          Effect.onInterrupt(() => Effect.sync(() => fiber.interruptUnsafe())),
          Effect.flatMap((exit) => {
            if (Option.isSome(exit)) return Effect.asSome(exit.value)
            fiber.interruptUnsafe()
            return Effect.succeed(Option.none<A>())
          })
        )
      }
    )
  )
