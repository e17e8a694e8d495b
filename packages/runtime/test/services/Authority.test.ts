import { assert, describe, it } from "@effect/vitest"
import { Authority, Settings } from "@procyon/runtime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"

const clean = { ended: 0, interrupted: 0, unfinished: 0 }

describe("commit", () => {
  it.effect("runs while the right stands, and answers with the value", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      assert.deepStrictEqual(yield* authority.commit(Effect.succeed(1)), { _tag: "Committed", value: 1 })
      assert.isTrue(yield* authority.stands)
      assert.strictEqual(yield* authority.discarded, 0)
    }))

  it.effect("that comes after the revocation is discarded as a value, is counted, and nothing of it runs", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      let ran = 0
      const late = authority.commit(Effect.sync(() => ran++))
      assert.deepStrictEqual(yield* authority.revoke, clean)
      assert.deepStrictEqual(yield* late, { _tag: "Discarded" })
      assert.deepStrictEqual(yield* late, { _tag: "Discarded" })
      assert.strictEqual(ran, 0)
      assert.strictEqual(yield* authority.discarded, 2)
      assert.isFalse(yield* authority.stands)
    }))

  it.effect("fails with what its effect fails with", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      assert.strictEqual(yield* Effect.flip(authority.commit(Effect.fail("no"))), "no")
      assert.deepStrictEqual(yield* authority.revoke, clean)
    }))

  it.effect("is interrupted with its caller, who waits for its finalizers", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      let undone = false
      const caller = yield* Effect.forkChild(
        authority.commit(Effect.onInterrupt(Effect.never, () => Effect.sync(() => undone = true))),
        { startImmediately: true }
      )
      yield* Fiber.interrupt(caller)
      assert.isTrue(undone)
      assert.deepStrictEqual(yield* authority.revoke, clean)
    }))
})

describe("revoke", () => {
  it.effect("waits for a commit that runs, which then counts", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const commit = yield* Effect.forkChild(authority.commit(Effect.sleep("3 seconds")), { startImmediately: true })
      const revoking = yield* Effect.forkChild(authority.revoke)
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(revoking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(revoking), { ended: 1, interrupted: 0, unfinished: 0 })
      assert.strictEqual((yield* Fiber.join(commit))._tag, "Committed")
    }))

  it.effect("discards what begins while it waits", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      yield* Effect.forkChild(authority.commit(Effect.sleep("3 seconds")), { startImmediately: true })
      yield* Effect.forkChild(authority.revoke, { startImmediately: true })
      assert.deepStrictEqual(yield* authority.commit(Effect.void), { _tag: "Discarded" })
      yield* TestClock.adjust("3 seconds")
    }))

  it.effect("interrupts a commit that outlives the window, and says so to both", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const commit = yield* Effect.forkChild(authority.commit(Effect.never), { startImmediately: true })
      const revoking = yield* Effect.forkChild(authority.revoke)
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(commit.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(commit), { _tag: "Interrupted" })
      assert.deepStrictEqual(yield* Fiber.join(revoking), { ended: 0, interrupted: 1, unfinished: 0 })
      assert.strictEqual(yield* authority.discarded, 0)
    }))

  it.effect("gives up on a commit that cannot be interrupted after a second window, and names it", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const commit = yield* Effect.forkChild(authority.commit(Effect.uninterruptible(Effect.sleep("1 hour"))), {
        startImmediately: true
      })
      const revoking = yield* Effect.forkChild(authority.revoke)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* Fiber.join(revoking), { ended: 0, interrupted: 0, unfinished: 1 })
      yield* TestClock.adjust("1 hour")
      // It was interrupted as soon as it let itself be.
      assert.deepStrictEqual(yield* Fiber.join(commit), { _tag: "Interrupted" })
    }))

  it.effect("waits for no commit whose caller was interrupted, at any step", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const jumpy = Effect.provideService(authority.commit(Effect.never), References.MaxOpsBeforeYield, 3)
      for (let step = 0; step < 40; step++) {
        const commit = yield* Effect.forkChild(jumpy)
        for (let turn = 0; turn < step; turn++) yield* Effect.yieldNow
        yield* Fiber.interrupt(commit)
      }
      assert.deepStrictEqual(yield* authority.revoke, clean)
    }))

  it.effect("coming at any step of a commit ends it, without a window too", () =>
    Effect.gen(function*() {
      const turns = (count: number) => Effect.forEach(Array.from({ length: count }), () => Effect.yieldNow)
      const windowless = Settings.layer({ commitWindowMillis: 0 })
      for (let step = 0; step < 40; step++) {
        const authority = yield* Effect.provide(Authority.make, windowless)
        // So that a scheduler that gives others their turn does so between any few steps.
        const jumpy = Effect.provideService(authority.commit(Effect.never), References.MaxOpsBeforeYield, 3)
        const commit = yield* Effect.forkChild(jumpy)
        yield* turns(step)
        const revoking = yield* Effect.forkChild(authority.revoke, { startImmediately: true })
        yield* TestClock.adjust("1 second")
        yield* turns(100)
        assert.isDefined(revoking.pollUnsafe(), `step ${step}`)
        assert.isDefined(commit.pollUnsafe(), `step ${step}`)
      }
    }))

  it.effect("is joined by whoever asks again, with the same answer, also when the first asker is interrupted", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      yield* Effect.forkChild(authority.commit(Effect.sleep("1 second")), { startImmediately: true })
      const first = yield* Effect.forkChild(authority.revoke, { startImmediately: true })
      const second = yield* Effect.forkChild(authority.revoke, { startImmediately: true })
      yield* Fiber.interrupt(first)
      assert.isUndefined(second.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const answer = { ended: 1, interrupted: 0, unfinished: 0 }
      assert.deepStrictEqual(yield* Fiber.join(second), answer)
      assert.deepStrictEqual(yield* authority.revoke, answer)
    }))

  it.effect("asked from within a commit does not wait for it, and others still do", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const seen = yield* Deferred.make<Authority.Revocation>()
      const commit = yield* Effect.forkChild(
        authority.commit(
          Effect.andThen(Effect.flatMap(authority.revoke, (it) => Deferred.succeed(seen, it)), Effect.sleep("1 second"))
        ),
        { startImmediately: true }
      )
      assert.deepStrictEqual(yield* Deferred.await(seen), { ended: 0, interrupted: 0, unfinished: 1 })
      const outside = yield* Effect.forkChild(authority.revoke, { startImmediately: true })
      assert.isUndefined(outside.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(commit))._tag, "Committed")
      assert.deepStrictEqual(yield* Fiber.join(outside), { ended: 1, interrupted: 0, unfinished: 0 })
    }))

  it.effect("waits again for a fiber that a commit left behind", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const go = yield* Deferred.make<void>()
      const worker = yield* authority.commit(
        Effect.forkDetach(Effect.andThen(Deferred.await(go), authority.revoke), { startImmediately: true })
      )
      yield* Effect.forkChild(authority.commit(Effect.sleep("1 second")), { startImmediately: true })
      yield* Deferred.succeed(go, undefined)
      assert(worker._tag === "Committed")
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(worker.value), { ended: 1, interrupted: 0, unfinished: 0 })
    }))
})

describe("derive", () => {
  it.effect("gives a right that goes with the one it came from, and whose late commits are counted there too", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const child = yield* authority.derive
      const grandchild = yield* child.derive
      yield* authority.revoke
      assert.deepStrictEqual(yield* grandchild.commit(Effect.void), { _tag: "Discarded" })
      assert.deepStrictEqual(yield* child.commit(Effect.void), { _tag: "Discarded" })
      assert.deepStrictEqual(
        yield* Effect.all([authority.discarded, child.discarded, grandchild.discarded]),
        [2, 2, 1]
      )
      assert.isFalse(yield* Effect.flatMap(authority.derive, (late) => late.stands))
    }))

  it.effect("leaves the outer right alone when the derived one is revoked, or its scope closed", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const scope = yield* Scope.make()
      const child = yield* Scope.provide(authority.derive, scope)
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(yield* child.stands)
      yield* Effect.flatMap(authority.derive, (other) => other.revoke)
      assert.strictEqual((yield* authority.commit(Effect.void))._tag, "Committed")
    }))

  it.effect("makes the outer revocation wait for commits of the derived right, also of one revoked before", () =>
    Effect.gen(function*() {
      const authority = yield* Authority.make
      const child = yield* authority.derive
      yield* Effect.forkChild(child.commit(Effect.sleep("2 seconds")), { startImmediately: true })
      yield* Effect.forkChild(child.revoke, { startImmediately: true })
      const revoking = yield* Effect.forkChild(authority.revoke)
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(revoking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(revoking), { ended: 1, interrupted: 0, unfinished: 0 })
    }))
})

it.effect("the layer gives an authority that is revoked with it", () =>
  Effect.gen(function*() {
    const authority = yield* Effect.provide(Authority.Current, Authority.layer)
    assert.isFalse(yield* authority.stands)
  }))
