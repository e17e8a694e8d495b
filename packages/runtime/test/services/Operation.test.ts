import { assert, describe, it } from "@effect/vitest"
import { Operation } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

const law = <E>(name: string, body: (operations: Operation.Operations) => Effect.Effect<void, E, Scope.Scope>) =>
  it.effect(name, () => Effect.provide(Effect.flatMap(Operation.Service, body), Operation.layer))

describe("admit", () => {
  law("gives an operation an identity, which is found while its scope lasts", (operations) =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 minute")
      const seen = yield* Effect.scoped(Effect.gen(function*() {
        const operation = yield* operations.admit("s1", "compact")
        assert.deepStrictEqual(
          [operation.owner, operation.kind, operation.startedAt],
          ["s1", "compact", 60_000]
        )
        assert.deepStrictEqual(yield* operations.active("s1"), [operation])
        return operation
      }))
      assert.deepStrictEqual(yield* operations.active("s1"), [])
      const next = yield* operations.admit("s1", "compact")
      assert.notStrictEqual(next.id, seen.id)
    }))

  law("refuses a second of a kind, and says which one stands in the way", (operations) =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 second")
      const first = yield* operations.admit("s1", "compact")
      yield* TestClock.adjust("1 second")
      const error = yield* Effect.flip(operations.admit("s1", "compact"))
      assert.deepStrictEqual(
        error,
        new Operation.OperationActive({ id: first.id, kind: "compact", startedAt: 1000, limit: 1 })
      )
      assert.strictEqual(error.message, `compact is going on: ${first.id}`)
    }))

  law("other kinds and other owners do not stand in the way", (operations) =>
    Effect.gen(function*() {
      yield* operations.admit("s1", "compact")
      yield* operations.admit("s1", "export")
      yield* operations.admit("s2", "compact")
      assert.deepStrictEqual((yield* operations.active("s1")).map(({ kind }) => kind), ["compact", "export"])
      assert.deepStrictEqual((yield* operations.active("s1", "export")).map(({ kind }) => kind), ["export"])
      assert.deepStrictEqual(yield* operations.active("s3"), [])
    }))

  law("admits as many as the limit says, and names the oldest to the next", (operations) =>
    Effect.gen(function*() {
      const admit = operations.admit("s1", "compact", { limit: 2 })
      const scope = yield* Scope.make()
      const [first, second] = [yield* Scope.provide(admit, scope), yield* admit]
      assert.strictEqual((yield* Effect.flip(admit)).id, first.id)
      yield* Scope.close(scope, Exit.void)
      yield* admit
      assert.strictEqual((yield* Effect.flip(admit)).id, second.id)
    }))

  law("takes zero and infinity as no limit, and what is no count as a defect", (operations) =>
    Effect.gen(function*() {
      for (const limit of [0, Infinity, 0]) yield* operations.admit("s1", "compact", { limit })
      assert.strictEqual((yield* operations.active("s1")).length, 3)
      for (const limit of [-1, NaN, 1.5]) {
        assert.isTrue(Exit.hasDies(yield* Effect.exit(operations.admit("s1", "compact", { limit }))))
      }
    }))

  law(
    "exactly one of many that ask at once is admitted, and its interruption lets the next one in",
    (operations) =>
      Effect.gen(function*() {
        const work = Effect.scoped(Effect.andThen(operations.admit("s1", "compact"), Effect.never))
        const fibers = yield* Effect.forEach(
          Array.from({ length: 20 }),
          () => Effect.forkChild(work, { startImmediately: true })
        )
        const waiting = fibers.filter((fiber) => fiber.pollUnsafe() === undefined)
        assert.strictEqual(waiting.length, 1)
        yield* Effect.forEach(waiting, (fiber) => Fiber.interrupt(fiber))
        yield* operations.admit("s1", "compact")
      })
  )
})
