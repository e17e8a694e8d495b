import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import type { Identity } from "../../src/domain/Identity.ts"
import * as SharedLook from "../../src/internal/SharedLook.ts"
import type { ProcessDriver, TreeLook } from "../../src/ports/ProcessDriver.ts"

const root = (pid: number): Identity => ({ pid, startedAt: pid, bootId: "boot", marker: `PROCYON_MARK_${pid}` })

/** A driver that can only look, and each look is answered by `answer`; the look's number is found in `occupied`. */
const setUp = (answer: (look: number) => Effect.Effect<void>, windowMillis = 1000) =>
  Effect.gen(function*() {
    const asked: Array<ReadonlyArray<number>> = []
    const driver: Pick<ProcessDriver, "look"> = {
      look: (roots) => {
        const number = asked.push(roots.map(({ pid }) => pid))
        return Effect.as(
          answer(number),
          roots.map((root): TreeLook => ({ root, leader: "gone", members: [], occupied: [number], complete: true }))
        )
      }
    }
    const scope = yield* Scope.make()
    const fork = yield* FiberSet.makeRuntime<never, unknown, never>().pipe(Scope.provide(scope))
    const look = SharedLook.make(driver, { windowMillis, fork })
    const ask = (pid: number) => Effect.forkChild(look(root(pid)), { startImmediately: true })
    return { asked, ask, close: Scope.close(scope, Exit.void) }
  })

describe("SharedLook", () => {
  it.effect("asks the driver once for all who ask in the meantime, and gives each their own answer", () =>
    Effect.gen(function*() {
      const { asked, ask } = yield* setUp(() => Effect.void)
      const pids = Array.from({ length: 100 }, (_, index) => index + 1)
      const looks = yield* Effect.forEach(yield* Effect.forEach(pids, ask), Fiber.join)
      assert.deepStrictEqual(looks.map((look) => look.root.pid), pids)
      assert.deepStrictEqual(asked, [pids])
    }))

  it.effect("answers with a look that began after it was asked for, one for all who came during the last", () =>
    Effect.gen(function*() {
      const slow = yield* Deferred.make<void>()
      const { asked, ask } = yield* setUp((number) => number === 1 ? Deferred.await(slow) : Effect.void)
      const first = yield* ask(1)
      yield* TestClock.adjust(1)
      assert.lengthOf(asked, 1)
      const during = yield* Effect.forEach([2, 3, 1], ask)
      yield* Deferred.succeed(slow, undefined)
      assert.deepStrictEqual((yield* Fiber.join(first)).occupied, [1])
      assert.deepStrictEqual((yield* Effect.forEach(during, Fiber.join)).map((look) => look.occupied), [[2], [2], [2]])
      assert.deepStrictEqual(asked, [[1], [2, 3, 1]])
      assert.deepStrictEqual((yield* Fiber.join(yield* ask(4))).occupied, [3])
    }))

  it.effect("answers a look that dies with one that is not complete, and looks again for the next", () =>
    Effect.gen(function*() {
      const { ask } = yield* setUp((number) => number === 1 ? Effect.die("broken") : Effect.void)
      assert.isFalse((yield* Fiber.join(yield* ask(1))).complete)
      assert.isTrue((yield* Fiber.join(yield* ask(1))).complete)
    }))

  it.effect("answers a driver that throws in the same way", () =>
    Effect.gen(function*() {
      const { ask } = yield* setUp((number) => {
        if (number === 1) throw new Error("broken")
        return Effect.void
      })
      assert.isFalse((yield* Fiber.join(yield* ask(1))).complete)
      assert.isTrue((yield* Fiber.join(yield* ask(1))).complete)
    }))

  it.effect("answers a look that hangs at the end of its window, and looks for those who came meanwhile", () =>
    Effect.gen(function*() {
      const { ask } = yield* setUp((number) => number === 1 ? Effect.never : Effect.void)
      const first = yield* ask(1)
      yield* TestClock.adjust(999)
      const second = yield* ask(2)
      assert.isUndefined(first.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.isFalse((yield* Fiber.join(first)).complete)
      assert.isTrue((yield* Fiber.join(second)).complete)
    }))

  it.effect("says of an answer that is missing that it is not complete", () =>
    Effect.gen(function*() {
      const fork = yield* FiberSet.makeRuntime<never, unknown, never>()
      const driver: Pick<ProcessDriver, "look"> = { look: () => Effect.succeed([]) }
      const look = SharedLook.make(driver, { windowMillis: 10, fork })
      assert.deepStrictEqual(yield* look(root(1)), {
        root: root(1),
        leader: "alive",
        members: [],
        occupied: [],
        complete: false
      })
    }))

  it.effect("harms nobody when one who asked is interrupted", () =>
    Effect.gen(function*() {
      const slow = yield* Deferred.make<void>()
      const { asked, ask } = yield* setUp(() => Deferred.await(slow))
      const [gone, stays] = [yield* ask(1), yield* ask(2)]
      yield* TestClock.adjust(1)
      const later = yield* ask(3)
      yield* Fiber.interrupt(gone)
      yield* Deferred.succeed(slow, undefined)
      assert.isTrue((yield* Fiber.join(stays)).complete)
      assert.isTrue((yield* Fiber.join(later)).complete)
      assert.lengthOf(asked, 2)
    }))

  it.effect("lets nobody wait for a look that will not come when the runtime closes", () =>
    Effect.gen(function*() {
      const { ask, close } = yield* setUp(() => Effect.never)
      const looking = yield* ask(1)
      yield* TestClock.adjust(1)
      const waiting = yield* ask(2)
      yield* close
      assert.isFalse((yield* Fiber.join(looking)).complete)
      assert.isFalse((yield* Fiber.join(waiting)).complete)
    }))
})
