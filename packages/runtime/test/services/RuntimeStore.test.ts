import { assert, describe, it } from "@effect/vitest"
import { RuntimeStore } from "@procyon/runtime"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"

interface Thing {
  readonly name: string
}
const key = (name: string) => RuntimeStore.key<Thing>(`test/${name}`)

/** Says what was made and closed, in order. */
const recorder = () => {
  const log: Array<string> = []
  const say = (text: string) => Effect.sync(() => void log.push(text))
  const make = (name: string, before: Effect.Effect<unknown> = Effect.void) =>
    Effect.acquireRelease(
      Effect.andThen(
        before,
        Effect.sync((): Thing => {
          log.push(`made ${name}`)
          return { name }
        })
      ),
      () => say(`closed ${name}`),
      { interruptible: true }
    )
  return { log, make, say }
}

describe("getOrCreate", () => {
  it.effect("makes one instance a key, and gives it to all", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const first = yield* store.getOrCreate(key("a"), make("a"))
      assert.strictEqual(yield* store.getOrCreate(RuntimeStore.key<Thing>("test/a"), make("other")), first)
      assert.notStrictEqual(yield* store.getOrCreate(key("b"), make("b")), first)
      assert.deepStrictEqual(log, ["made a", "made b"])
    }))

  it.effect("makes one also when many ask at once", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const asking = yield* Effect.forkChild(Effect.all(
        Array.from({ length: 20 }, (_, n) => store.getOrCreate(key("a"), make(`a${n}`, Effect.sleep("1 second")))),
        { concurrency: "unbounded" }
      ))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(new Set(yield* Fiber.join(asking)).size, 1)
      assert.deepStrictEqual(log, ["made a0"])
    }))

  it.effect("releases what a failed creation had acquired, fails with its error, and can be retried", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const failing = Effect.andThen(make("part"), Effect.fail("broken" as const))
      assert.strictEqual(yield* Effect.flip(store.getOrCreate(key("a"), failing)), "broken")
      assert.deepStrictEqual(log, ["made part", "closed part"])
      assert.strictEqual((yield* store.getOrCreate(key("a"), make("a"))).name, "a")
    }))

  it.effect("raises the error of a failed creation also where its release fails", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const failing = Effect.andThen(Effect.addFinalizer(() => Effect.die("a secret")), Effect.fail("no"))
      assert.strictEqual(yield* Effect.flip(store.getOrCreate(key("a"), failing)), "no")
      const { make } = recorder()
      assert.deepStrictEqual(yield* store.getOrCreate(key("a"), make("a")), { name: "a" })
    }))

  it.effect("lets who waits for a creation that fails try its own, so everybody's error is their own", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { make } = recorder()
      const failing = <E>(error: E) => Effect.andThen(Effect.sleep("1 second"), Effect.fail(error))
      const askers = yield* Effect.forkChild(Effect.all([
        Effect.exit(store.getOrCreate(key("a"), failing("first"))),
        Effect.exit(store.getOrCreate(key("a"), failing("second"))),
        Effect.exit(store.getOrCreate(key("a"), make("third")))
      ], { concurrency: "unbounded" }))
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* Fiber.join(askers), [
        Exit.fail("first"),
        Exit.fail("second"),
        Exit.succeed({ name: "third" })
      ])
    }))

  it.effect("does not break for the others when the asker who makes it is interrupted", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const slow = make("first", Effect.sleep("1 second"))
      const first = yield* Effect.forkChild(store.getOrCreate(key("a"), slow), { startImmediately: true })
      const second = yield* Effect.forkChild(store.getOrCreate(key("a"), make("second")), { startImmediately: true })
      const third = yield* Effect.forkChild(store.getOrCreate(key("a"), make("third")), { startImmediately: true })
      yield* Fiber.interrupt(first)
      assert.strictEqual((yield* Fiber.join(second)).name, "second")
      assert.strictEqual(yield* Fiber.join(third), yield* Fiber.join(second))
      assert.deepStrictEqual(log, ["made second"])
    }))

  it.effect("a creation may ask for another key, and asking for itself is a defect, not a standstill", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { make } = recorder()
      const b = store.getOrCreate(key("b"), Effect.flatMap(store.getOrCreate(key("a"), make("a")), () => make("b")))
      assert.strictEqual((yield* b).name, "b")
      const ring: Effect.Effect<Thing, RuntimeStore.StoreClosed> = store.getOrCreate(
        key("c"),
        store.getOrCreate(key("d"), Effect.suspend(() => ring))
      )
      const exit = yield* Effect.exit(ring)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
    }))

  it.effect("two creations that wait for each other are a defect of the one that closes the ring, not a standstill", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { make } = recorder()
      const ask = (name: string, other: string) =>
        store.getOrCreate(
          key(name),
          Effect.andThen(Effect.sleep("1 second"), store.getOrCreate(key(other), make(`${other} for ${name}`)))
        )
      const asking = yield* Effect.forkChild(
        Effect.all([Effect.exit(ask("a", "b")), Effect.exit(ask("b", "a"))], { concurrency: "unbounded" })
      )
      yield* TestClock.adjust("1 second")
      const [first, second] = yield* Fiber.join(asking)
      assert.deepStrictEqual(first, Exit.succeed({ name: "b for a" }))
      assert.isTrue(Exit.hasDies(second))
    }))

  it.effect("two creations may wait for the same third one", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const third = Effect.suspend(() => store.getOrCreate(key("c"), make("c", Effect.sleep("1 second"))))
      const asking = yield* Effect.forkChild(Effect.all([
        store.getOrCreate(
          key("a"),
          Effect.all([third, third], { concurrency: "unbounded" }).pipe(Effect.map(([c]) => c))
        ),
        store.getOrCreate(key("b"), third)
      ], { concurrency: "unbounded" }))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(new Set(yield* Fiber.join(asking)).size, 1)
      assert.deepStrictEqual(log, ["made c"])
    }))
})

describe("close", () => {
  it.effect("closes the youngest first, so what was made from another is closed before it", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      yield* store.getOrCreate(key("b"), Effect.andThen(store.getOrCreate(key("a"), make("a")), make("b")))
      yield* store.getOrCreate(key("c"), make("c"))
      assert.deepStrictEqual(yield* store.close, { closed: 3, failed: [], pending: 0 })
      assert.deepStrictEqual(log, ["made a", "made b", "made c", "closed c", "closed b", "closed a"])
    }))

  it.effect("names what fails or overruns its window, and closes the rest", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const ending = (end: Effect.Effect<unknown>) => Effect.acquireRelease(Effect.succeed({ name: "x" }), () => end)
      yield* store.getOrCreate(key("a"), make("a"))
      yield* store.getOrCreate(key("dies"), ending(Effect.die("secret")))
      yield* store.getOrCreate(key("hangs"), ending(Effect.never))
      yield* store.getOrCreate(key("stuck"), ending(Effect.uninterruptible(Effect.never)), { closeWindowMillis: 1000 })
      const closing = yield* Effect.forkChild(store.close)
      yield* TestClock.adjust("5999 millis")
      assert.deepStrictEqual(log, ["made a"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(closing), {
        closed: 1,
        failed: [
          { id: "test/stuck", reason: "overran" },
          { id: "test/hangs", reason: "overran" },
          { id: "test/dies", reason: "failed" }
        ],
        pending: 0
      })
      assert.deepStrictEqual(log, ["made a", "closed a"])
    }))

  it.effect("refuses what is asked afterwards, and makes nothing", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      yield* store.close
      const error = yield* Effect.flip(store.getOrCreate(key("a"), make("a")))
      assert.deepStrictEqual([error._tag, error.key], ["StoreClosed", "test/a"])
      assert.strictEqual(error.message, "the store is closed: no test/a")
      assert.deepStrictEqual(log, [])
    }))

  it.effect("interrupts a creation, releases what it had acquired, and tells all who wait", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const ask = Effect.flip(store.getOrCreate(key("a"), Effect.andThen(make("part"), Effect.never)))
      const askers = yield* Effect.forkChild(Effect.all([ask, ask], { concurrency: "unbounded" }), {
        startImmediately: true
      })
      yield* store.close
      assert.deepStrictEqual((yield* Fiber.join(askers)).map(({ _tag }) => _tag), ["StoreClosed", "StoreClosed"])
      assert.deepStrictEqual(log, ["made part", "closed part"])
    }))

  it.effect("is one closing for all who ask, and does not wait for itself when an instance asks", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const reports: Array<RuntimeStore.CloseReport> = []
      yield* store.getOrCreate(
        key("a"),
        Effect.acquireRelease(
          Effect.succeed({ name: "a" }),
          () => Effect.map(store.close, (report) => reports.push(report))
        )
      )
      const [first, second] = yield* Effect.all([store.close, store.close], { concurrency: "unbounded" })
      assert.strictEqual(first, second)
      assert.deepStrictEqual(first, { closed: 1, failed: [], pending: 0 })
      assert.deepStrictEqual(reports, [{ closed: 0, failed: [], pending: 1 }])
    }))

  it.effect("asked for by a creation, also one that cannot be interrupted, does not wait for that", () =>
    Effect.gen(function*() {
      const store = yield* RuntimeStore.make
      const { log, make } = recorder()
      const reports: Array<RuntimeStore.CloseReport> = []
      const closes = Effect.map(store.close, (report) => reports.push(report))
      const creation = Effect.uninterruptible(Effect.andThen(closes, make("a")))
      assert.strictEqual((yield* Effect.flip(store.getOrCreate(key("a"), creation)))._tag, "StoreClosed")
      assert.deepStrictEqual(reports, [{ closed: 0, failed: [], pending: 1 }])
      assert.deepStrictEqual(yield* store.close, { closed: 0, failed: [], pending: 0 })
      assert.deepStrictEqual(log, ["made a", "closed a"])
    }))
})

describe("current", () => {
  it.effect("is the store around the action, and NoApplication where there is none", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* Effect.flip(RuntimeStore.current))._tag, "NoApplication")
      const store = yield* Effect.provide(RuntimeStore.current, RuntimeStore.layer)
      assert.strictEqual(store.generation, 1)
      assert.isFalse(yield* store.authority.stands)
    }))
})
