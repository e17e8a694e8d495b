import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { within } from "../../src/internal/Within.ts"

it.effect("answers with what the call answers, or fails as it does", () =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* within(() => Effect.succeed(1), 10), Option.some(1))
    assert.strictEqual(yield* Effect.flip(within(() => Effect.fail("no"), 10)), "no")
    const late = yield* Effect.forkChild(within(() => Effect.delay(Effect.succeed(2), 9), 10))
    yield* TestClock.adjust(9)
    assert.deepStrictEqual(yield* Fiber.join(late), Option.some(2))
  }))

it.effect("takes a call that throws for a defect of its effect", () =>
  Effect.gen(function*() {
    const exit = yield* Effect.exit(within((): Effect.Effect<void> => {
      throw new Error("bug")
    }, 10))
    assert.isTrue(Exit.hasDies(exit))
  }))

for (const [kind, hanging] of [["can", Effect.never], ["cannot", Effect.uninterruptible(Effect.never)]] as const) {
  it.effect(`waits exactly so long for a call that ${kind} be interrupted`, () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(within(() => hanging, 10))
      yield* TestClock.adjust(9)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* Fiber.join(fiber), Option.none())
    }))

  it.effect(`is interrupted at once although its call ${kind} be`, () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(within(() => hanging, 10), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    }))
}

it.effect("tells a call it has given up on to stop", () =>
  Effect.gen(function*() {
    let stopped = false
    const call = Effect.onInterrupt(Effect.never, () =>
      Effect.sync(() => {
        stopped = true
      }))
    const fiber = yield* Effect.forkChild(within(() => call, 10))
    yield* TestClock.adjust(10)
    yield* Fiber.join(fiber)
    assert.isTrue(stopped)
  }))
