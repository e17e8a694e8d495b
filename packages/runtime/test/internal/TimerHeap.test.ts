import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as TimerHeap from "../../src/internal/TimerHeap.ts"

/** Counts the sleeps that are armed, and how many there ever were. */
const counting = (clock: Clock.Clock) => {
  const sleeps = { armed: 0, total: 0, most: 0 }
  const counted: Clock.Clock = {
    currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
    currentTimeMillis: clock.currentTimeMillis,
    currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
    currentTimeNanos: clock.currentTimeNanos,
    monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: clock.monotonicTimeNanos,
    sleep: (duration) =>
      Effect.suspend(() => {
        sleeps.armed++
        sleeps.total++
        sleeps.most = Math.max(sleeps.most, sleeps.armed)
        return Effect.ensuring(
          clock.sleep(duration),
          Effect.sync(() => {
            sleeps.armed--
          })
        )
      })
  }
  return { clock: counted, sleeps }
}

const setUp = Effect.gen(function*() {
  const { clock, sleeps } = counting(yield* Clock.Clock)
  const heap = TimerHeap.make(clock, yield* FiberSet.makeRuntime<never, void, never>())
  const fired: Array<string> = []
  const set = (millis: number, name = `${millis}`) => heap.after(millis, () => fired.push(`${name} at ${heap.now()}`))
  return { heap, fired, set, sleeps }
})

const days = (count: number) => count * 24 * 60 * 60 * 1000

describe("TimerHeap", () => {
  it.effect("fires each timer at its time and not before, in the order of the times", () =>
    Effect.gen(function*() {
      const { fired, set } = yield* setUp
      for (const millis of [300, 100, 200]) set(millis)
      yield* TestClock.adjust(99)
      assert.deepStrictEqual(fired, [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(fired, ["100 at 100"])
      yield* TestClock.adjust(1000)
      assert.deepStrictEqual(fired, ["100 at 100", "200 at 200", "300 at 300"])
    }))

  it.effect("fires timers of one time in the order in which they were set", () =>
    Effect.gen(function*() {
      const { fired, set } = yield* setUp
      const names = Array.from({ length: 50 }, (_, index) => `timer ${index}`)
      for (const name of names) set(10, name)
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(fired, names.map((name) => `${name} at 10`))
    }))

  it.effect("does not fire a cancelled timer, and cancels twice as once", () =>
    Effect.gen(function*() {
      const { fired, set } = yield* setUp
      const first = set(10)
      set(20)
      first.cancel()
      first.cancel()
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(fired, ["20 at 20"])
      first.cancel()
    }))

  it.effect("wakes earlier for an earlier timer that is set later", () =>
    Effect.gen(function*() {
      const { fired, set, sleeps } = yield* setUp
      set(1000)
      yield* TestClock.adjust(1)
      set(10)
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(fired, ["10 at 11"])
      assert.strictEqual(sleeps.armed, 1)
      yield* TestClock.adjust(989)
      assert.deepStrictEqual(fired, ["10 at 11", "1000 at 1000"])
    }))

  it.effect("keeps one sleep armed for 10,000 timers, and none for no timer", () =>
    Effect.gen(function*() {
      const { fired, heap, set, sleeps } = yield* setUp
      // Falling times: each one is earlier than all before.
      const timers = Array.from({ length: 10_000 }, (_, index) => set(20_000 - index))
      yield* Effect.yieldNow
      assert.strictEqual(sleeps.armed, 1)
      yield* TestClock.adjust(20_000)
      assert.lengthOf(fired, 10_000)
      assert.strictEqual(sleeps.armed, 0)
      for (const timer of timers) timer.cancel()
      const last = heap.after(5, () => {})
      yield* Effect.yieldNow
      assert.strictEqual(sleeps.armed, 1)
      last.cancel()
      yield* Effect.yieldNow
      assert.strictEqual(sleeps.armed, 0)
    }))

  it.effect("wakes once for many timers of one time", () =>
    Effect.gen(function*() {
      const { fired, set, sleeps } = yield* setUp
      for (let count = 0; count < 1000; count++) set(50)
      yield* TestClock.adjust(50)
      assert.lengthOf(fired, 1000)
      assert.strictEqual(sleeps.total, 1)
    }))

  it.effect("fires after more than 2^31 milliseconds, and after 400 days", () =>
    Effect.gen(function*() {
      const { fired, set } = yield* setUp
      set(2 ** 31 + 7)
      set(days(400))
      yield* TestClock.adjust(2 ** 31 + 6)
      assert.deepStrictEqual(fired, [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(fired, [`2147483655 at ${2 ** 31 + 7}`])
      yield* TestClock.adjust(days(400) - 2 ** 31 - 8)
      assert.lengthOf(fired, 1)
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(fired[1], `${days(400)} at ${days(400)}`)
    }))

  it.live("does not take a time of the platform's own limit for now", () =>
    Effect.gen(function*() {
      const { fired, set, sleeps } = yield* setUp
      const timers = [2 ** 31, days(400), Infinity].map((millis) => set(millis))
      const fires = yield* Deferred.make<void>()
      const { heap } = yield* setUp
      heap.after(20, () => Deferred.doneUnsafe(fires, Effect.void))
      yield* Deferred.await(fires)
      assert.deepStrictEqual(fired, [])
      assert.strictEqual(sleeps.total, 1)
      for (const timer of timers) timer.cancel()
    }))

  it.live("never fires before its time, however a platform rounds", () =>
    Effect.gen(function*() {
      const { heap } = yield* setUp
      for (const millis of [0.2, 1.3, 2.9, 3.6]) {
        const from = heap.now()
        const at = yield* Effect.callback<number>((resume) => {
          heap.after(millis, () => resume(Effect.succeed(heap.now())))
        })
        assert.isAtLeast(at - from, millis)
      }
    }))

  it.effect("fires a timer of no time soon, and never while it is being set", () =>
    Effect.gen(function*() {
      const { fired, heap, set } = yield* setUp
      set(0)
      set(-5)
      assert.deepStrictEqual(fired, [])
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(fired, ["-5 at 0", "0 at 0"])
      set(10)
      heap.after(10, () => set(0, "from within"))
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(fired.slice(2), ["10 at 10", "from within at 10"])
    }))

  it.effect("takes timers from a firing one, and fires all that are due before what those set", () =>
    Effect.gen(function*() {
      const { fired, heap, set } = yield* setUp
      heap.after(10, () => {
        fired.push("first")
        set(0, "set for now")
        set(5, "set for later")
      })
      set(10, "second")
      yield* TestClock.adjust(15)
      assert.deepStrictEqual(fired, ["first", "second at 10", "set for now at 10", "set for later at 15"])
    }))

  it.effect("lets others have their turn when a timer sets itself anew for now", () =>
    Effect.gen(function*() {
      const { heap } = yield* setUp
      let turns = 0
      let others = 0
      const again = () => {
        turns++
        if (others === 0) heap.after(0, again)
      }
      heap.after(0, again)
      heap.after(1, () => others++)
      while (others === 0) yield* TestClock.adjust(1)
      assert.isAbove(turns, 0)
    }))

  it.effect("lets a firing timer cancel one that is due with it", () =>
    Effect.gen(function*() {
      const { fired, heap, set } = yield* setUp
      heap.after(10, () => second.cancel())
      const second = set(10, "second")
      set(10, "third")
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(fired, ["third at 10"])
    }))

  it.effect("lets go of cancelled timers long before their time", () =>
    Effect.gen(function*() {
      const { heap, set } = yield* setUp
      set(1)
      const held: Array<WeakRef<() => void>> = []
      for (let count = 0; count < 10_000; count++) {
        const fire = () => assert.fail(`timer ${count} was cancelled`)
        held.push(new WeakRef(fire))
        heap.after(days(1), fire).cancel()
      }
      // A turn of the event loop ends the job that keeps every target of a new WeakRef.
      yield* TestClock.withLive(Effect.sleep(1))
      collectGarbage()
      assert.isBelow(held.filter((one) => one.deref() !== undefined).length, 200)
    }))

  it.effect("counts on the monotonic clock: a wall clock set back holds nothing up", () =>
    Effect.gen(function*() {
      const clock = yield* Clock.Clock
      const wall = { setBack: 0 }
      const adjusted: Clock.Clock = {
        ...counting(clock).clock,
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - wall.setBack,
        currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe() - BigInt(wall.setBack) * 1_000_000n
      }
      const heap = TimerHeap.make(adjusted, yield* FiberSet.makeRuntime<never, void, never>())
      const fired: Array<number> = []
      yield* TestClock.adjust(days(1))
      heap.after(100, () => fired.push(heap.now()))
      wall.setBack = 3_600_000
      heap.after(200, () => fired.push(heap.now()))
      yield* TestClock.adjust(200)
      assert.deepStrictEqual(fired, [days(1) + 100, days(1) + 200])
    }))

  it.effect.prop(
    "agrees with a sorted list, whatever is set and cancelled",
    {
      steps: Schema.Array(Schema.Struct({
        after: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 200 })),
        cancel: Schema.Boolean,
        wait: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 }))
      })).check(Schema.isMaxLength(40))
    },
    ({ steps }) =>
      Effect.gen(function*() {
        const { heap } = yield* setUp
        const fired: Array<number> = []
        const kept: Array<{ readonly at: number; readonly index: number }> = []
        for (const [index, { after, cancel, wait }] of steps.entries()) {
          const timer = heap.after(after, () => fired.push(index))
          if (cancel) timer.cancel()
          else kept.push({ at: heap.now() + after, index })
          yield* TestClock.adjust(wait)
        }
        yield* TestClock.adjust(200)
        const expected = kept.toSorted((a, b) => a.at - b.at || a.index - b.index).map(({ index }) => index)
        assert.deepStrictEqual(fired, expected)
      }).pipe(Effect.scoped, Effect.provide(TestClock.layer(), { local: true })),
    { arbitrary: { runs: 200 } }
  )
})

/** Only what can be collected is forgotten. */
const collectGarbage = (): void => {
  setFlagsFromString("--expose-gc")
  runInNewContext("gc")()
}
