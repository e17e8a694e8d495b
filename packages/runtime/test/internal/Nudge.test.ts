import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { Nudge } from "../../src/internal/Nudge.ts"

const waiting = (nudge: Nudge, millis: number) =>
  Effect.flatMap(Clock.Clock, (clock) =>
    Effect.forkChild(
      Effect.andThen(nudge.wait(clock, millis), Clock.currentTimeMillis),
      { startImmediately: true }
    ))

describe("Nudge", () => {
  it.effect("waits for the time, and not for less", () =>
    Effect.gen(function*() {
      const fiber = yield* waiting(new Nudge(), 100)
      yield* TestClock.adjust(99)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* Fiber.join(fiber), 100)
    }))

  it.effect("wakes all who wait, and only those", () =>
    Effect.gen(function*() {
      const nudge = new Nudge()
      const early = yield* Effect.forEach([100, 200], (millis) => waiting(nudge, millis))
      yield* TestClock.adjust(10)
      nudge.notify()
      const late = yield* waiting(nudge, 100)
      assert.deepStrictEqual(yield* Effect.forEach(early, Fiber.join), [10, 10])
      yield* TestClock.adjust(99)
      assert.isUndefined(late.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* Fiber.join(late), 110)
    }))

  it.effect("keeps no nudge for whoever waits later", () =>
    Effect.gen(function*() {
      const nudge = new Nudge()
      nudge.notify()
      nudge.notify()
      const fiber = yield* waiting(nudge, 5)
      yield* TestClock.adjust(4)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* Fiber.join(fiber), 5)
    }))

  it.effect("wakes the others when one was interrupted", () =>
    Effect.gen(function*() {
      const nudge = new Nudge()
      const [gone, stays] = [yield* waiting(nudge, 100), yield* waiting(nudge, 100)]
      yield* Fiber.interrupt(gone)
      nudge.notify()
      assert.strictEqual(yield* Fiber.join(stays), 0)
    }))
})
