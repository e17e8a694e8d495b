import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as EventRing from "../../src/internal/EventRing.ts"

const missed = (count: number) => -count
const ring = (capacity: number) => new EventRing.EventRing<number>(capacity, missed)
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

describe("EventRing", () => {
  it.effect("gives what was published, in order", () =>
    Effect.gen(function*() {
      const subject = ring(10)
      for (const item of upTo(10)) subject.publish(item)
      assert.deepStrictEqual(yield* subject.take, upTo(10))
    }))

  it.effect("waits while there is nothing", () =>
    Effect.gen(function*() {
      const subject = ring(10)
      const fiber = yield* Effect.forkChild(subject.take, { startImmediately: true })
      yield* TestClock.adjust(1000)
      assert.isUndefined(fiber.pollUnsafe())
      subject.publish(7)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [7])
    }))

  it.effect("loses the oldest past its capacity, and says how many before the rest", () =>
    Effect.gen(function*() {
      const subject = ring(4)
      for (const item of upTo(5)) subject.publish(item)
      assert.deepStrictEqual(yield* subject.take, [missed(3), 4, 5])
      subject.publish(6)
      assert.deepStrictEqual(yield* subject.take, [6])
    }))

  it.effect.prop(
    "is bounded, and accounts for every item",
    {
      capacity: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 })),
      bursts: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 }))).check(Schema.isMaxLength(8))
    },
    ({ bursts, capacity }) =>
      Effect.gen(function*() {
        const subject = ring(capacity)
        let published = 0
        for (const burst of bursts) {
          const first = published + 1
          for (let count = 0; count < burst; count++) subject.publish(++published)
          const items = yield* subject.take
          assert.isNotNull(items)
          const lost = items[0] !== undefined && items[0] < 0 ? -items[0] : 0
          const rest = lost > 0 ? items.slice(1) : items
          assert.isAtMost(rest.length, Math.max(1, capacity))
          assert.strictEqual(lost + rest.length, burst)
          assert.deepStrictEqual(rest, upTo(published).slice(first - 1 + lost))
        }
      })
  )

  it.effect("ends once what was published before the close has been read, and takes nothing after", () =>
    Effect.gen(function*() {
      const subject = ring(4)
      subject.publish(1)
      subject.close()
      subject.publish(2)
      assert.deepStrictEqual(yield* subject.take, [1])
      assert.isNull(yield* subject.take)
      assert.isNull(yield* subject.take)
    }))

  it.effect("wakes who waits when it is closed", () =>
    Effect.gen(function*() {
      const subject = ring(4)
      const fiber = yield* Effect.forkChild(subject.take, { startImmediately: true })
      subject.close()
      assert.isNull(yield* Fiber.join(fiber))
    }))
})

const into = (subscribers: Set<EventRing.EventRing<number>>) => (ring: EventRing.EventRing<number>) => {
  subscribers.add(ring)
  return () => subscribers.delete(ring)
}

const reading = Effect.gen(function*() {
  const subscribers = new Set<EventRing.EventRing<number>>()
  const read: Array<number> = []
  const fiber = yield* EventRing.stream(into(subscribers), 4, missed).pipe(
    Stream.runForEach((item) => Effect.sync(() => read.push(item))),
    Effect.forkChild({ startImmediately: true })
  )
  // Whoever reads has subscribed by now.
  yield* TestClock.adjust(0)
  const publish = (item: number) => {
    for (const subscriber of subscribers) subscriber.publish(item)
  }
  return { subscribers, read, fiber, publish }
})

describe("stream", () => {
  it.effect("subscribes while it is read, and not before", () =>
    Effect.gen(function*() {
      const subscribers = new Set<EventRing.EventRing<number>>()
      const events = EventRing.stream(into(subscribers), 4, missed)
      assert.strictEqual(subscribers.size, 0)
      const fiber = yield* Effect.forkChild(Stream.runDrain(events), { startImmediately: true })
      yield* TestClock.adjust(0)
      assert.strictEqual(subscribers.size, 1)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("gives every reader everything, in order", () =>
    Effect.gen(function*() {
      const { fiber, publish, read, subscribers } = yield* reading
      for (const item of upTo(3)) publish(item)
      yield* TestClock.adjust(0)
      for (const item of [4, 5]) publish(item)
      for (const subscriber of subscribers) subscriber.close()
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(read, upTo(5))
      assert.strictEqual(subscribers.size, 0)
    }))

  it.effect("leaves no subscriber behind when its reader is interrupted", () =>
    Effect.gen(function*() {
      const { fiber, publish, subscribers } = yield* reading
      publish(1)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(subscribers.size, 0)
    }))

  it.effect("leaves no subscriber behind when its reader has enough", () =>
    Effect.gen(function*() {
      const subscribers = new Set<EventRing.EventRing<number>>()
      const fiber = yield* EventRing.stream(into(subscribers), 4, missed).pipe(
        Stream.take(1),
        Stream.runCollect,
        Effect.forkChild({ startImmediately: true })
      )
      yield* TestClock.adjust(0)
      for (const subscriber of subscribers) subscriber.publish(1)
      assert.deepStrictEqual(yield* Fiber.join(fiber), [1])
      assert.strictEqual(subscribers.size, 0)
    }))
})
