/**
 * Which sleeps on a clock have not ended: what a test has to move its clock for, and what a runtime left behind.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

export class CountedTimers {
  /** The clock, with its sleeps counted. */
  readonly clock: Clock.Clock
  readonly #due = new Set<{ readonly at: number }>()

  constructor(clock: Clock.Clock) {
    const sleep = (duration: Duration.Duration): Effect.Effect<void> =>
      Effect.suspend(() => {
        const timer = { at: monotonicMillis(clock) + Duration.toMillis(duration) }
        this.#due.add(timer)
        return Effect.ensuring(
          clock.sleep(duration),
          Effect.sync(() => {
            this.#due.delete(timer)
          })
        )
      })
    // A clock may be an instance of a class, whose members a copy would lose.
    this.clock = Object.assign(Object.create(clock) as Clock.Clock, { sleep })
  }

  /** In how many milliseconds each of them is due, the next one first; negative for one that is held back. */
  get armed(): ReadonlyArray<number> {
    const now = monotonicMillis(this.clock)
    return [...this.#due].map(({ at }) => at - now).toSorted((self, that) => self - that)
  }
}

const monotonicMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
