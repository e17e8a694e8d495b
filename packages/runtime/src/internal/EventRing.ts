/**
 * What one subscriber has not read yet: a bounded ring that a publisher fills synchronously and never waits for.
 *
 * A subscriber that falls behind loses the oldest items and is told how many. A hub shared by all would let a busy
 * publisher push out what another one said.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

export class EventRing<A> {
  readonly #capacity: number
  readonly #missed: (count: number) => A
  #items: Array<A> = []
  #dropped = 0
  #closed = false
  #waiting: Deferred.Deferred<void> | undefined

  constructor(capacity: number, missed: (count: number) => A) {
    this.#capacity = Math.max(1, capacity)
    this.#missed = missed
  }

  publish(item: A): void {
    if (this.#closed) return
    this.#items.push(item)
    // Dropping half at once keeps a publisher from shifting the whole array for every item.
    if (this.#items.length > this.#capacity) {
      const excess = this.#items.length - Math.ceil(this.#capacity / 2)
      this.#items.splice(0, excess)
      this.#dropped += excess
    }
    this.#wake()
  }

  /** Ends the stream once what is here has been read. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  /** Everything that has come since the last pull, preceded by what was missed. Waits while there is nothing. */
  readonly take: Effect.Effect<ReadonlyArray<A> | null> = Effect.suspend(() => {
    if (this.#items.length > 0) {
      const items = this.#items
      this.#items = []
      const dropped = this.#dropped
      this.#dropped = 0
      return Effect.succeed(dropped === 0 ? items : [this.#missed(dropped), ...items])
    }
    if (this.#closed) return Effect.succeed(null)
    this.#waiting ??= Deferred.makeUnsafe<void>()
    return Effect.flatMap(Deferred.await(this.#waiting), () => this.take)
  })

  #wake(): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    this.#waiting = undefined
    Deferred.doneUnsafe(waiting, Effect.void)
  }
}

/**
 * A stream over a ring of its own. `attach` makes a publisher know the ring, and answers with what undoes that; it is
 * attached while it is read.
 */
export const stream = <A>(
  attach: (ring: EventRing<A>) => () => void,
  capacity: number,
  missed: (count: number) => A
): Stream.Stream<A> =>
  Stream.unwrap(Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const ring = new EventRing<A>(capacity, missed)
        return { ring, detach: attach(ring) }
      }),
      ({ detach }) => Effect.sync(detach)
    ),
    ({ ring }) =>
      Stream.fromEffectRepeat(ring.take).pipe(
        Stream.takeWhile((items): items is ReadonlyArray<A> => items !== null),
        Stream.flattenIterable
      )
  ))
