/**
 * The waiting of laws: for evidence, in tries that fit the clock, and never for longer than all of them.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import type { Clock } from "./Suite.ts"

/** One try of a wait for evidence, and how many there are: 10 s in all. */
const tryMillis = 5
const tries = 2000

export class Evidence {
  readonly #pause: Effect.Effect<void>

  constructor(clock: Clock) {
    this.#pause = clock === "live" ? Effect.sleep(tryMillis) : TestClock.adjust(tryMillis)
  }

  /** Waits for evidence, and fails when it does not come. */
  until<A, E>(what: string, check: Effect.Effect<A, E>, holds: (a: A) => boolean): Effect.Effect<A, E> {
    return Effect.gen({ self: this }, function*() {
      for (let left = tries; left > 0; left--) {
        const seen = yield* check
        if (holds(seen)) return seen
        yield* this.#pause
      }
      return assert.fail(`no evidence within ${tries * tryMillis} ms: ${what}`)
    })
  }

  /** Lets time pass until an effect has answered, and fails when it does not. */
  done<A, E, R>(what: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.gen({ self: this }, function*() {
      const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
      yield* this.until(what, Effect.sync(() => fiber.pollUnsafe()), (exit) => exit !== undefined)
      return yield* Fiber.join(fiber)
    })
  }

  /** Lets some turns go by in which something that must not happen could. Proves nothing by itself. */
  get aWhile(): Effect.Effect<void> {
    return Effect.repeat(this.#pause, { times: 9 })
  }
}
