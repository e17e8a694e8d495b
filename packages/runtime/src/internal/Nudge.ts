/**
 * Something to wait on beside time: an exit was told, a grace is to be cut short.
 *
 * A nudge wakes whoever waits now; it is not kept for whoever waits later, so waiters check what they wait for first.
 */
import type * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

export class Nudge {
  #waiters: Deferred.Deferred<void> | undefined

  /** Wakes all who wait. */
  notify(): void {
    const waiters = this.#waiters
    if (waiters === undefined) return
    this.#waiters = undefined
    Deferred.doneUnsafe(waiters, Effect.void)
  }

  /** Until the next nudge, or for `millis`. */
  wait(clock: Clock.Clock, millis: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#waiters ??= Deferred.makeUnsafe<void>()
      return Effect.raceFirst(clock.sleep(Duration.millis(millis)), Deferred.await(this.#waiters))
    })
  }
}
