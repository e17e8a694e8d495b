/**
 * A span around a verb that keeps what the verb answers out of it.
 *
 * A span ends with the exit of what it surrounds, and tracers may write that down. An answer holds a command's display
 * form, and a result its output; errors hold neither.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Tracer from "effect/Tracer"

export const spanned = <A, E, R>(
  name: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
  Effect.suspend(() => {
    const answer = Deferred.makeUnsafe<A>()
    return effect.pipe(
      Effect.map((value) => {
        Deferred.doneUnsafe(answer, Effect.succeed(value))
      }),
      Effect.withSpan(name),
      Effect.andThen(Deferred.await(answer))
    )
  })
