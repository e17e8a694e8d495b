/**
 * Knowing when nothing is left to do that needs no time: a scheduler that counts what is scheduled and not yet begun.
 *
 * It wraps the scheduler it is given (under a test that is the test clock's, which goes on tracking what a wake causes)
 * and changes nothing in it. A fiber that waits for the clock, for another fiber or for the outside has nothing
 * scheduled, so it does not count.
 */
import * as Effect from "effect/Effect"
import type * as Scheduler from "effect/Scheduler"

export interface Quiescence {
  readonly scheduler: Scheduler.Scheduler
  /** Returns when several turns in a row found nothing scheduled. Work outside Effect (real I/O) is not seen. */
  readonly drain: Effect.Effect<void>
}

/** Chains of promises hop over microtasks between two scheduled tasks; a turn of the scheduler runs all of them. */
const quietTurns = 4

export const make = (parent: Scheduler.Scheduler): Quiescence => {
  let scheduled = 0
  let begun = 0
  const scheduler: Scheduler.Scheduler = {
    executionMode: parent.executionMode,
    shouldYield: (fiber) => parent.shouldYield(fiber),
    makeDispatcher: () => {
      const dispatcher = parent.makeDispatcher()
      return {
        scheduleTask: (task, priority) => {
          scheduled++
          dispatcher.scheduleTask(() => {
            scheduled--
            begun++
            task()
          }, priority)
        },
        flush: () => dispatcher.flush()
      }
    }
  }
  const drain = Effect.gen(function*() {
    let quiet = 0
    while (quiet < quietTurns) {
      const before = begun
      yield* Effect.yieldNow
      // One task at most is this fiber's own turn.
      quiet = scheduled === 0 && begun - before <= 1 ? quiet + 1 : 0
    }
  })
  return { scheduler, drain }
}
