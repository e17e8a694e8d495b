/**
 * What somebody still reads: one resource a key, got by the first who asks, shared with those who come while it is held,
 * and given back by the last. Whoever holds one has it, whatever happened to what it was got from.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"

export interface Leases<A, E> {
  readonly hold: (key: string) => Effect.Effect<A, E, Scope.Scope>
}

interface Held<A> {
  readonly resource: A
  readonly scope: Scope.Closeable
  holders: number
}

/** `get` gets the resource of a key that nobody holds. */
export const make = <A, E>(get: (key: string) => Effect.Effect<A, E, Scope.Scope>): Leases<A, E> => {
  const all = new Map<string, Held<A>>()

  const acquire = (key: string): Effect.Effect<Held<A>, E> =>
    Effect.suspend(() => {
      const known = all.get(key)
      return known === undefined ? acquireNew(key) : Effect.sync(() => shared(known))
    })

  const acquireNew = (key: string): Effect.Effect<Held<A>, E> => {
    const scope = Scope.makeUnsafe()
    return Scope.provide(get(key), scope).pipe(
      Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))),
      Effect.flatMap((resource) => {
        // Nobody waits for anybody else's way to it, so another may have been faster.
        const known = all.get(key)
        if (known !== undefined) return Effect.as(Scope.close(scope, Exit.void), shared(known))
        const made = { resource, scope, holders: 1 }
        all.set(key, made)
        return Effect.succeed(made)
      })
    )
  }

  const release = (key: string, held: Held<A>): Effect.Effect<void> =>
    Effect.suspend(() => {
      held.holders--
      if (held.holders > 0) return Effect.void
      all.delete(key)
      return Scope.close(held.scope, Exit.void)
    })

  return {
    hold: (key) =>
      Effect.map(Effect.acquireRelease(acquire(key), (held) => release(key, held)), ({ resource }) => resource)
  }
}

const shared = <A>(held: Held<A>): Held<A> => {
  held.holders++
  return held
}
