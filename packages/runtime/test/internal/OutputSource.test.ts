import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as OutputSource from "../../src/internal/OutputSource.ts"

const bytes = Uint8Array.from({ length: 10 }, (_, index) => index)

describe("locate", () => {
  it("finds a byte, or the first one after it that is there", () => {
    const whole = { gap: null, length: 10 }
    const holed = { gap: { from: 4, to: 6 }, length: 8 }
    const cut = { gap: { from: 4, to: 10 }, length: 4 }
    for (
      const [extent, since, expected] of [
        [whole, 3, { start: 3, offset: 3, length: 7 }],
        [whole, 10, null],
        [holed, 3, { start: 3, offset: 3, length: 1 }],
        [holed, 4, { start: 6, offset: 4, length: 4 }],
        [holed, 7, { start: 7, offset: 5, length: 3 }],
        [holed, 11, null],
        [cut, 3, { start: 3, offset: 3, length: 1 }],
        [cut, 4, null]
      ] as const
    ) {
      assert.deepStrictEqual(OutputSource.locate(extent, since, 10), expected)
    }
  })
})

describe("a blob", () => {
  const read = (stream: Stream.Stream<Uint8Array>) =>
    OutputSource.readBlob({ read: () => stream }, "ref", { offset: 0, length: 10 }, 1000)

  it.effect("is read in whatever pieces it comes, and no further than was asked for", () =>
    Effect.gen(function*() {
      const pieces = Stream.make(
        bytes.subarray(0, 3),
        bytes.subarray(3, 9),
        Uint8Array.of(9, 10, 11),
        Uint8Array.of(12)
      )
      assert.deepStrictEqual(yield* read(pieces), bytes)
    }))

  it.effect("that ends too soon, breaks or does not answer in time is none", () =>
    Effect.gen(function*() {
      assert.isNull(yield* read(Stream.make(bytes.subarray(0, 9))))
      assert.isNull(yield* read(Stream.die("a secret")))
      const reading = yield* Effect.forkChild(read(Stream.never))
      yield* TestClock.adjust(1000)
      assert.isNull(yield* Fiber.join(reading))
    }))
})

describe("a file", () => {
  it.effect("is read as far as it was written, holds for ever, and what it has not is none", () =>
    Effect.gen(function*() {
      const source = OutputSource.ofFile((offset, length) => Effect.succeed(bytes.slice(offset, offset + length)), 1000)
      assert.strictEqual(yield* Effect.scoped(source.hold), source)
      assert.deepStrictEqual(source.locate(3, 10), { start: 3, offset: 3, length: 7 })
      assert.deepStrictEqual(yield* source.read(3, 7), bytes.subarray(3))
      assert.isNull(yield* source.read(3, 8))
    }))

  it.effect("that is not there, cannot be read or does not answer in time is none", () =>
    Effect.gen(function*() {
      assert.isNull(yield* OutputSource.ofFile(() => Effect.succeed(null), 1000).read(0, 1))
      assert.isNull(yield* OutputSource.ofFile(() => Effect.die("a secret"), 1000).read(0, 1))
      const reading = yield* Effect.forkChild(OutputSource.ofFile(() => Effect.never, 1000).read(0, 1))
      yield* TestClock.adjust(1000)
      assert.isNull(yield* Fiber.join(reading))
    }))
})
