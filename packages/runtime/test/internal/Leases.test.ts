import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Leases from "../../src/internal/Leases.ts"

/** Numbered resources: which are open, and how many there were. */
const setUp = (before: (key: string) => Effect.Effect<void, string> = () => Effect.void) => {
  const open: Array<string> = []
  let count = 0
  const leases = Leases.make((key) =>
    Effect.acquireRelease(
      Effect.map(Effect.suspend(() => before(key)), () => {
        const resource = `${key}${++count}`
        open.push(resource)
        return resource
      }),
      (resource) => Effect.sync(() => void open.splice(open.indexOf(resource), 1))
    )
  )
  return { leases, open }
}

it.effect("gets a resource once for all who hold it, and gives it back after the last", () =>
  Effect.gen(function*() {
    const { leases, open } = setUp()
    const [first, second] = [yield* Scope.make(), yield* Scope.make()]
    assert.strictEqual(yield* Scope.provide(leases.hold("a"), first), "a1")
    assert.strictEqual(yield* Scope.provide(leases.hold("a"), second), "a1")
    assert.strictEqual(yield* Scope.provide(leases.hold("b"), second), "b2")
    yield* Scope.close(first, Exit.void)
    assert.deepStrictEqual(open, ["a1", "b2"])
    yield* Scope.close(second, Exit.void)
    assert.deepStrictEqual(open, [])
    assert.strictEqual(yield* Effect.scoped(leases.hold("a")), "a3")
    assert.deepStrictEqual(open, [])
  }))

it.effect("keeps one of two that were got at once", () =>
  Effect.gen(function*() {
    const gate = yield* Deferred.make<void>()
    const { leases, open } = setUp(() => Deferred.await(gate))
    const scope = yield* Scope.make()
    const both = yield* Effect.forkChild(
      Effect.all([leases.hold("a"), leases.hold("a")], { concurrency: 2 }).pipe(Scope.provide(scope)),
      { startImmediately: true }
    )
    yield* Deferred.succeed(gate, undefined)
    const [one, two] = yield* Fiber.join(both)
    assert.strictEqual(one, two)
    assert.deepStrictEqual(open, [one])
    yield* Scope.close(scope, Exit.void)
    assert.deepStrictEqual(open, [])
  }))

it.effect("holds nothing of what could not be got, and gets it when it can be", () =>
  Effect.gen(function*() {
    let broken = true
    const { leases, open } = setUp(() => broken ? Effect.fail("broken") : Effect.void)
    assert.strictEqual(yield* Effect.flip(Effect.scoped(leases.hold("a"))), "broken")
    broken = false
    assert.strictEqual(yield* Effect.scoped(leases.hold("a")), "a1")
    assert.deepStrictEqual(open, [])
  }))
