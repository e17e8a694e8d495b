import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { createHash } from "node:crypto"
import * as OutputSource from "../../src/internal/OutputSource.ts"
import * as BlobStore from "../../src/ports/BlobStore.ts"
import type { OutputSink, Sha256 } from "../../src/ports/ProcessDriver.ts"
import * as OutputRetention from "../../src/services/OutputRetention.ts"
import * as BlobStoreMemory from "../../src/stores/BlobStoreMemory.ts"

const utf8 = new TextEncoder()
const sha256Of = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
const sha256 = (): Sha256 => {
  const hash = createHash("sha256")
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest("hex") }
}

/** A slice of the small windows used here, and the bytes after which their spill must pause. */
const slice = 4096
const room = 8 * slice

const noise = (size: number, seed = 1) =>
  Uint8Array.from({ length: size }, (_, i) => ((i + seed) * 2_654_435_761) / 8192)
const joined = (parts: ReadonlyArray<Uint8Array>) => new Uint8Array(Buffer.concat(parts))

/** Writes like a driver: as long as the sink lets it. How many bytes it took. */
const push = (sink: OutputSink, input: Uint8Array | string): number => {
  const bytes = typeof input === "string" ? utf8.encode(input) : input
  let at = 0
  while (at < bytes.length) {
    const lent = sink.reserve()
    const count = Math.min(lent.length, bytes.length - at)
    lent.set(bytes.subarray(at, at + count))
    at += count
    if (!sink.commit(count)) break
  }
  return at
}

const make = (options?: Partial<OutputRetention.Options>) =>
  OutputRetention.make({
    name: "job",
    head: 100,
    limit: 1000,
    cap: 0,
    onCap: () => {},
    spill: null,
    sha256: sha256(),
    now: () => 0,
    ...options
  })

/** A retention that spills into `store`. */
const spilling = (store: BlobStore.BlobStore, options?: Partial<OutputRetention.SpillOptions>) =>
  Effect.map(Effect.context<never>(), (context) => {
    const fork = Effect.runForkWith(context)
    return make({ spill: { store, cap: 0, fork: (effect) => void fork(effect), ...options } })
  })

/** A store whose appends first go through `before`. */
const gated = (
  store: BlobStore.BlobStore,
  before: () => Effect.Effect<void, BlobStore.BlobError>
): BlobStore.BlobStore => ({
  write: (name) =>
    Effect.map(store.write(name), (writer): BlobStore.BlobWriter => ({
      append: (bytes) => Effect.andThen(Effect.suspend(before), Effect.suspend(() => writer.append(bytes))),
      seal: (label) => writer.seal(label)
    })),
  read: (ref, options) => store.read(ref, options),
  lease: (ref) => store.lease(ref),
  remove: (name) => store.remove(name)
})

/** What happens to a stream and its store in turn. */
const Step = Schema.Struct({
  size: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60_000 })),
  broken: Schema.Boolean,
  retries: Schema.Boolean
})

const full = new BlobStore.BlobError({ operation: "append", problem: "NoSpace", retryable: true })
const denied = new BlobStore.BlobError({ operation: "append", problem: "Denied", retryable: false })

const readBlob = (store: BlobStore.BlobStore, ref: string | null) =>
  Effect.map(Stream.runCollect(store.read(ref ?? "")), joined)

const readAllBytes = (view: OutputRetention.View, limit = 300) =>
  Effect.gen(function*() {
    const parts: Array<Uint8Array> = []
    const gaps: Array<OutputRetention.Gap> = []
    for (let cursor = 0;;) {
      const page = yield* view.readBytes({ since: cursor, limit })
      if (page.next === cursor) return { bytes: joined(parts), gaps }
      parts.push(page.data)
      if (page.gap !== null) gaps.push(page.gap)
      cursor = page.next
    }
  })

const textOf = (pages: ReadonlyArray<OutputRetention.Page<string>>) => pages.map((page) => page.data).join("")

describe("OutputRetention", () => {
  it.effect("counts, hashes and keeps what is committed", () =>
    Effect.gen(function*() {
      let now = 5
      const retention = make({ now: () => now })
      assert.strictEqual(retention.lastOutputAt, 5)
      const bytes = noise(5000)
      now = 9
      push(retention.sink, bytes)
      assert.strictEqual(retention.lastOutputAt, 9)
      assert.isNull(retention.metadata().sha256)
      yield* retention.seal({ drained: true })
      assert.deepStrictEqual(yield* retention.view.metadata, {
        bytesSeen: 5000,
        bytesRetained: 1000,
        truncated: true,
        sealed: true,
        drained: true,
        sha256: sha256Of(bytes),
        blob: null,
        spill: "none",
        spilledBytes: 0,
        capped: false,
        gap: null
      })
    }))

  it.effect("takes and drops what comes after the seal", () =>
    Effect.gen(function*() {
      const retention = make()
      push(retention.sink, "kept")
      yield* retention.seal({ drained: false })
      push(retention.sink, "late")
      retention.sink.end()
      yield* retention.seal({ drained: true })
      const { bytesSeen, drained, sha256 } = retention.metadata()
      assert.deepStrictEqual([bytesSeen, drained, sha256], [4, false, sha256Of(utf8.encode("kept"))])
      assert.strictEqual((yield* retention.view.read()).data, "kept")
    }))

  it.effect("takes an empty commit for nothing, has no spill to go on with or to remove, and tells its end also late", () =>
    Effect.gen(function*() {
      let now = 5
      const retention = make({ now: () => now })
      now = 9
      retention.sink.reserve()
      assert.isTrue(retention.sink.commit(0))
      assert.strictEqual(retention.lastOutputAt, 5)
      push(retention.sink, "hello")
      assert.strictEqual(yield* retention.readTail(3), "llo")
      assert.isFalse(yield* retention.retrySpill)
      yield* retention.dispose
      retention.sink.end()
      let ends = 0
      retention.onEnd(() => ends++)
      assert.strictEqual(ends, 1)
    }))

  it.effect("refuses a cursor that is no offset, in every kind of read", () =>
    Effect.gen(function*() {
      const { view } = make()
      for (const since of [-1, NaN, 1.5]) {
        assert.strictEqual((yield* Effect.flip(view.read({ since }))).field, "since")
        assert.strictEqual((yield* Effect.flip(view.readBytes({ since })))._tag, "BadCursor")
        assert.strictEqual((yield* Effect.flip(Stream.runDrain(view.follow({ since }))))._tag, "BadCursor")
      }
      assert.strictEqual((yield* view.read({ since: 2 ** 53 })).next, 0)
    }))

  it("calls onCap once, when the cap is passed and not when it is reached, and goes on counting", () => {
    let calls = 0
    const retention = make({ cap: 10, onCap: () => calls++ })
    push(retention.sink, "0123456789")
    assert.strictEqual(calls, 0)
    push(retention.sink, "x")
    push(retention.sink, "y".repeat(5000))
    assert.strictEqual(calls, 1)
    assert.strictEqual(retention.bytesSeen, 5011)
  })

  it.effect("completes `ended` at the stream's end, or at the seal", () =>
    Effect.gen(function*() {
      const ending = make()
      const waiting = yield* Effect.forkChild(ending.ended, { startImmediately: true })
      push(ending.sink, "x")
      yield* TestClock.adjust(0)
      assert.isUndefined(waiting.pollUnsafe())
      ending.sink.end()
      yield* Fiber.join(waiting)
      const sealed = make()
      yield* sealed.seal({ drained: false })
      yield* sealed.ended
    }))

  describe("spill", () => {
    it.effect.prop(
      "reads are true and complete but for the gaps they tell, however the store fails and is retried",
      {
        steps: Schema.Array(Step).check(Schema.isMaxLength(12)),
        cap: Schema.Literals([0, 0, 0, 30_000]),
        since: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 }))
      },
      ({ cap, since, steps }) =>
        Effect.gen(function*() {
          let broken = false
          const store = gated(yield* BlobStoreMemory.make, () =>
            Effect.andThen(Effect.yieldNow, Effect.suspend(() => broken ? Effect.fail(full) : Effect.void)))
          const retention = yield* spilling(store, { cap })
          const all: Array<Uint8Array> = []
          for (const step of steps) {
            broken = step.broken
            if (step.retries) {
              yield* retention.retrySpill
            }
            const bytes = noise(step.size, all.length)
            all.push(bytes)
            for (let at = 0; at < bytes.length;) {
              at += push(retention.sink, bytes.subarray(at))
              yield* TestClock.adjust(0)
            }
          }
          yield* retention.seal({ drained: true })
          const oracle = joined(all)
          const { bytesSeen, gap, sha256, spill, truncated } = retention.metadata()
          assert.deepStrictEqual([bytesSeen, sha256], [oracle.length, sha256Of(oracle)])
          if (spill === "none") {
            assert.isFalse(truncated)
          }
          for (let cursor = Math.min(since, oracle.length);;) {
            const page = yield* retention.view.readBytes({ since: cursor, limit: 20_000 })
            if (page.next === cursor) {
              break
            }
            assert.deepStrictEqual(page.data, oracle.subarray(page.gap?.to ?? cursor, page.next))
            if (spill === "complete" || spill === "none") {
              assert.isNull(page.gap)
            }
            if (spill === "partial" && page.gap !== null) {
              assert.isTrue(gap !== null && page.gap.from >= gap.from && page.gap.to <= gap.to)
            }
            cursor = page.next
          }
        }),
      { arbitrary: { runs: 150 } }
    )

    it.effect("writes nothing when nothing is lost", () =>
      Effect.gen(function*() {
        const store = gated(yield* BlobStoreMemory.make, () => Effect.die("must not be called"))
        const retention = yield* spilling(store)
        push(retention.sink, noise(1000))
        yield* retention.seal({ drained: true })
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().blob], ["none", null])
      }))

    it.effect("puts the complete output into the blob as soon as one byte would be lost", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(store)
        const bytes = noise(1001)
        push(retention.sink, bytes)
        assert.strictEqual(retention.metadata().spill, "writing")
        yield* retention.seal({ drained: true })
        const { blob, spill, spilledBytes } = retention.metadata()
        assert.deepStrictEqual([blob, spill, spilledBytes], [`sha256-${sha256Of(bytes)}.job`, "complete", 1001])
        assert.deepStrictEqual(yield* readBlob(store, blob), bytes)
      }))

    it.effect("reads from the blob what memory has lost, as if nothing were lost, also when shrunk", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(yield* BlobStoreMemory.make)
        const text = "aé€😀\n".repeat(4000)
        const bytes = utf8.encode(text)
        assert.strictEqual(push(retention.sink, bytes), bytes.length)
        const before = yield* retention.view.readBytes({ since: 200 })
        assert.deepStrictEqual(before.gap, { from: 200, to: bytes.length - 900 })
        yield* retention.seal({ drained: true })
        retention.shrink()
        const all = yield* readAllBytes(retention.view)
        assert.deepStrictEqual(all, { bytes, gaps: [] })
        const pages = yield* Stream.runCollect(retention.view.follow({ limit: 333 }))
        assert.strictEqual(textOf(pages), text)
      }))

    it.effect("pauses the stream while unwritten bytes are near, resumes it after the append, and loses nothing", () =>
      Effect.gen(function*() {
        const gate = yield* Deferred.make<void>()
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(gated(store, () => Deferred.await(gate)))
        let resumed = 0
        retention.onResume(() => resumed++)
        const bytes = noise(300_000)
        let at = push(retention.sink, bytes)
        assert.isBelow(at, room + 2000)
        // A driver may ask for a region while it is paused, and fill it once resumed.
        assert.isAtLeast(retention.sink.reserve().length, 1)
        assert.strictEqual(resumed, 0)
        yield* Deferred.succeed(gate, undefined)
        yield* TestClock.adjust(0)
        assert.strictEqual(resumed, 1)
        while (at < bytes.length) {
          at += push(retention.sink, bytes.subarray(at))
          yield* TestClock.adjust(0)
        }
        yield* retention.seal({ drained: true })
        assert.strictEqual(retention.metadata().spill, "complete")
        assert.deepStrictEqual(yield* readBlob(store, retention.metadata().blob), bytes)
      }))

    it.effect("keeps the stream flowing when an append fails, and retries from what is still in memory", () =>
      Effect.gen(function*() {
        let broken = true
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(gated(store, () => broken ? Effect.fail(full) : Effect.void))
        const first = noise(9500)
        assert.strictEqual(push(retention.sink, first), 9500)
        yield* TestClock.adjust(0)
        assert.strictEqual(retention.metadata().spill, "failed")
        assert.isFalse(yield* retention.retrySpill)
        broken = false
        assert.isTrue(yield* retention.retrySpill)
        const rest = noise(2000, 7)
        push(retention.sink, rest)
        yield* retention.seal({ drained: true })
        const { blob, bytesSeen, gap, spill } = retention.metadata()
        assert.deepStrictEqual([spill, gap, bytesSeen], ["complete", null, 11_500])
        assert.deepStrictEqual(yield* readBlob(store, blob), joined([first, rest]))
      }))

    it.effect("says which bytes a partial blob lacks, when a retry comes too late for some", () =>
      Effect.gen(function*() {
        let broken = false
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(gated(store, () => broken ? Effect.fail(full) : Effect.void))
        const bytes = noise(500_000)
        assert.strictEqual(push(retention.sink, bytes.subarray(0, 20_000)), 20_000)
        yield* TestClock.adjust(0)
        const written = retention.metadata().spilledBytes
        assert.isAbove(written, 0)
        broken = true
        for (let at = 20_000; at < 400_000;) {
          at += push(retention.sink, bytes.subarray(at, 400_000))
          yield* TestClock.adjust(0)
        }
        assert.strictEqual(retention.metadata().spill, "failed")
        broken = false
        assert.isTrue(yield* retention.retrySpill)
        assert.strictEqual(retention.metadata().spill, "partial")
        for (let at = 400_000; at < 500_000;) {
          at += push(retention.sink, bytes.subarray(at))
          yield* TestClock.adjust(0)
        }
        yield* retention.seal({ drained: true })
        const { blob, gap, sha256, spill, spilledBytes } = retention.metadata()
        const { from, to } = gap ?? { from: 0, to: 0 }
        assert.deepStrictEqual([spill, blob, sha256], ["partial", `partial-${from}-${to}.job`, sha256Of(bytes)])
        assert.strictEqual(from, written)
        assert.isAtLeast(to, 400_000 - room - 1000)
        assert.strictEqual(spilledBytes + to - from, 500_000)
        const all = yield* readAllBytes(retention.view, 10_000)
        assert.deepStrictEqual(all.gaps, [{ from, to }])
        assert.deepStrictEqual(all.bytes, joined([bytes.subarray(0, from), bytes.subarray(to)]))
      }))

    it.effect("counts what it gave up as failed at the seal, keeps memory and hash, and can be retried after it", () =>
      Effect.gen(function*() {
        let broken = true
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(gated(store, () => broken ? Effect.fail(full) : Effect.void))
        const bytes = noise(50_000)
        for (let at = 0; at < bytes.length;) {
          at += push(retention.sink, bytes.subarray(at))
          yield* TestClock.adjust(0)
        }
        yield* retention.seal({ drained: true })
        const { blob, sha256, spill } = retention.metadata()
        assert.deepStrictEqual([spill, blob, sha256], ["failed", null, sha256Of(bytes)])
        const page = yield* retention.view.readBytes({ since: 100 })
        assert.deepStrictEqual(page.gap, { from: 100, to: 49_100 })
        broken = false
        assert.isTrue(yield* retention.retrySpill)
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().blob], [
          "partial",
          "partial-100-49100.job"
        ])
        assert.deepStrictEqual(retention.metadata().gap, { from: 100, to: 49_100 })
        assert.isFalse(yield* retention.retrySpill)
      }))

    it.effect("does not retry what cannot succeed", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(gated(yield* BlobStoreMemory.make, () => Effect.fail(denied)))
        push(retention.sink, noise(20_000))
        yield* TestClock.adjust(0)
        assert.strictEqual(retention.metadata().spill, "failed")
        assert.isFalse(yield* retention.retrySpill)
        yield* retention.seal({ drained: true })
        assert.strictEqual(retention.metadata().spill, "failed")
      }))

    it.effect("survives a store that throws", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(gated(yield* BlobStoreMemory.make, () => Effect.die(new Error("bug"))))
        assert.strictEqual(push(retention.sink, noise(20_000)), 20_000)
        yield* TestClock.adjust(0)
        assert.strictEqual(retention.metadata().spill, "failed")
      }))

    for (const call of ["write", "append", "seal", "read", "remove"] as const) {
      it.effect(`survives a store whose ${call} throws where it is called`, () =>
        Effect.gen(function*() {
          const thrown = () => {
            throw new Error("a secret")
          }
          const memory = yield* BlobStoreMemory.make
          const store: BlobStore.BlobStore = {
            read: (ref, options) => memory.read(ref, options),
            lease: (ref) => memory.lease(ref),
            remove: (name) => memory.remove(name),
            write: (name) =>
              Effect.map(memory.write(name), (writer) => ({
                append: (bytes) => writer.append(bytes),
                seal: (label) => writer.seal(label),
                ...(call === "append" || call === "seal" ? { [call]: thrown } : {})
              })),
            ...(call === "append" || call === "seal" ? {} : { [call]: thrown })
          }
          const retention = yield* spilling(store)
          const input = noise(room * 3)
          let taken = 0
          retention.onResume(() => {
            taken += push(retention.sink, input.subarray(taken))
          })
          taken += push(retention.sink, input)
          yield* TestClock.adjust(0)
          assert.strictEqual(taken, input.length)
          yield* retention.seal({ drained: true })
          const isKept = call === "read" || call === "remove"
          assert.strictEqual(retention.metadata().spill, isKept ? "complete" : "failed")
          assert.strictEqual(
            (yield* retention.view.readBytes({ since: 200, limit: 10 })).gap === null,
            call === "remove"
          )
          yield* retention.dispose
        }))
    }

    it.effect("stops waiting for a store that hangs, lets the stream flow, and can begin again", () =>
      Effect.gen(function*() {
        let hangs = true
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(
          gated(store, () => hangs ? Effect.uninterruptible(Effect.never) : Effect.void),
          { stallMillis: 1000 }
        )
        let resumed = 0
        retention.onResume(() => resumed++)
        const bytes = noise(200_000)
        const taken = push(retention.sink, bytes)
        assert.isBelow(taken, 200_000)
        yield* TestClock.adjust(999)
        assert.deepStrictEqual([resumed, retention.metadata().spill], [0, "writing"])
        yield* TestClock.adjust(1)
        assert.deepStrictEqual([resumed, retention.metadata().spill], [1, "failed"])
        assert.strictEqual(push(retention.sink, bytes.subarray(taken)), 200_000 - taken)
        hangs = false
        assert.isTrue(yield* retention.retrySpill)
        yield* retention.seal({ drained: true })
        const { gap, spill } = retention.metadata()
        assert.strictEqual(spill, "partial")
        assert.strictEqual(gap?.from, 100)
      }))

    it.effect("has nothing in its blob twice when an append that hung wakes up after a retry", () =>
      Effect.gen(function*() {
        const gate = yield* Deferred.make<void>()
        let appends = 0
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling({
          ...gated(store, () => Effect.void),
          write: (name) =>
            Effect.map(store.write(name), (writer) => ({
              append: (bytes) => {
                const append = writer.append(bytes.slice())
                return appends++ === 0 ? Effect.uninterruptible(Effect.andThen(Deferred.await(gate), append)) : append
              },
              seal: (label) => writer.seal(label)
            }))
        }, { stallMillis: 1000 })
        const bytes = noise(20_000)
        assert.strictEqual(push(retention.sink, bytes), 20_000)
        yield* TestClock.adjust(1000)
        assert.strictEqual(retention.metadata().spill, "failed")
        assert.isTrue(yield* retention.retrySpill)
        yield* Deferred.succeed(gate, undefined)
        yield* TestClock.adjust(0)
        yield* retention.seal({ drained: true })
        const { blob, sha256, spill } = retention.metadata()
        assert.strictEqual(spill, "complete")
        assert.strictEqual(sha256Of(yield* readBlob(store, blob)), sha256)
      }))

    it.effect("seals all the same when the seal is interrupted, and no reader waits for the store", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(gated(yield* BlobStoreMemory.make, () => Effect.never))
        push(retention.sink, noise(2000))
        const follower = yield* Effect.forkChild(Stream.runDrain(retention.view.follow()), { startImmediately: true })
        const sealing = yield* Effect.forkChild(retention.seal({ drained: true }), { startImmediately: true })
        const second = yield* Effect.forkChild(retention.seal({ drained: true }), { startImmediately: true })
        yield* TestClock.adjust(0)
        assert.isFalse(retention.metadata().sealed)
        yield* Fiber.interrupt(sealing)
        assert.deepStrictEqual([retention.metadata().sealed, retention.metadata().spill], [true, "failed"])
        yield* Fiber.join(second)
        yield* Fiber.join(follower)
      }))

    it.effect("ends the spill at its cap without disturbing the stream, and says so", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(store, { cap: 10_000 })
        const bytes = noise(100_000)
        for (let at = 0; at < bytes.length;) {
          at += push(retention.sink, bytes.subarray(at))
          yield* TestClock.adjust(0)
        }
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().capped], ["partial", true])
        yield* retention.seal({ drained: true })
        const { blob, capped, gap, spill, spilledBytes } = retention.metadata()
        assert.deepStrictEqual([blob, capped, spill, spilledBytes], [
          "partial-10000-100000.job",
          true,
          "partial",
          10_000
        ])
        assert.deepStrictEqual(gap, { from: 10_000, to: 100_000 })
        assert.deepStrictEqual(yield* readBlob(store, blob), bytes.subarray(0, 10_000))
        const all = yield* readAllBytes(retention.view, 4000)
        assert.deepStrictEqual(all.gaps, [{ from: 10_000, to: 99_100 }])
        assert.strictEqual(all.bytes.length, 10_900)
      }))

    it.effect("says that it is capped when more comes after a retry has written just the cap", () =>
      Effect.gen(function*() {
        let broken = true
        const store = yield* BlobStoreMemory.make
        const cap = slice * 4
        const retention = yield* spilling(gated(store, () => broken ? Effect.fail(full) : Effect.void), { cap })
        const bytes = noise(slice * 8)
        push(retention.sink, bytes.subarray(0, cap))
        yield* TestClock.adjust(0)
        broken = false
        assert.isTrue(yield* retention.retrySpill)
        assert.deepStrictEqual([retention.metadata().spilledBytes, retention.metadata().capped], [cap, false])
        push(retention.sink, bytes.subarray(cap))
        yield* TestClock.adjust(0)
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().capped], ["partial", true])
        yield* retention.seal({ drained: true })
        assert.deepStrictEqual(yield* readBlob(store, retention.metadata().blob), bytes.subarray(0, cap))
      }))

    it.effect("goes on without a writer that comes after it was given up, and never writes with that one", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        let late = true
        const slow: BlobStore.BlobStore = {
          ...gated(store, () => Effect.void),
          write: (name) =>
            late
              ? Effect.map(Effect.uninterruptible(Effect.sleep(3000)), (): BlobStore.BlobWriter => ({
                append: () => Effect.die("it was given up"),
                seal: () => Effect.die("it was given up")
              }))
              : store.write(name)
        }
        const retention = yield* spilling(slow, { stallMillis: 1000 })
        const bytes = noise(slice * 4)
        push(retention.sink, bytes)
        yield* TestClock.adjust(1000)
        assert.strictEqual(retention.metadata().spill, "failed")
        late = false
        assert.isTrue(yield* retention.retrySpill)
        yield* TestClock.adjust(5000)
        yield* retention.seal({ drained: true })
        assert.strictEqual(retention.metadata().spill, "complete")
        assert.deepStrictEqual(yield* readBlob(store, retention.metadata().blob), bytes)
      }))

    it.effect("keeps a blob that was sealed when the seal is interrupted while its writer is let go of", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const hanging: BlobStore.BlobStore = {
          ...gated(store, () => Effect.void),
          write: (name) => Effect.tap(store.write(name), () => Effect.addFinalizer(() => Effect.never))
        }
        const retention = yield* spilling(hanging)
        const bytes = noise(5000)
        push(retention.sink, bytes)
        const sealing = yield* Effect.forkChild(retention.seal({ drained: true }), { startImmediately: true })
        yield* TestClock.adjust(0)
        assert.strictEqual(retention.metadata().spill, "complete")
        yield* Fiber.interrupt(sealing)
        assert.strictEqual(retention.metadata().spill, "complete")
        assert.deepStrictEqual(yield* readBlob(store, retention.metadata().blob), bytes)
      }))

    it.effect("is disposed of before anything is sealed, and a follower has what memory holds", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(yield* BlobStoreMemory.make)
        const bytes = noise(5000)
        push(retention.sink, bytes)
        const gaps: Array<OutputRetention.Gap | null> = []
        const following = yield* Effect.forkChild(
          Stream.runForEach(retention.view.followBytes(), ({ gap }) => Effect.sync(() => gaps.push(gap))),
          { startImmediately: true }
        )
        yield* TestClock.adjust(0)
        yield* retention.dispose
        yield* retention.seal({ drained: true })
        yield* Fiber.join(following)
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().blob], ["none", null])
        assert.isNotEmpty(gaps)
      }))

    it.effect("is partial to later lives where it had a gap, and text that begins in that says how much is missing", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const text = "0123456789".repeat(100)
        const blob = yield* Effect.scoped(Effect.gen(function*() {
          const writer = yield* store.write("job")
          yield* writer.append(utf8.encode(text.slice(0, 300) + text.slice(500)))
          return yield* writer.seal("partial-300-500")
        }))
        const gap = { from: 300, to: 500 }
        const of = (preview: number) =>
          OutputRetention.recorded({
            name: "job",
            bytesSeen: 1000,
            drained: true,
            sha256: "9f2c",
            blob,
            spilledBytes: 800,
            gap,
            source: OutputSource.ofBlob(store, blob, { gap, length: preview }, 1000),
            dispose: Effect.ignore(store.remove("job"))
          })
        const retention = of(800)
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().gap], ["partial", gap])
        const page = yield* retention.view.read({ since: 400, limit: 5 })
        assert.deepStrictEqual([page.gap, page.next], [{ from: 400, to: 500 }, 505])
        assert.strictEqual(page.data, "... [100 earlier output bytes truncated]\n01234")
        const before = yield* retention.view.read({ since: 290 })
        assert.deepStrictEqual([before.data, before.gap, before.next], ["0123456789", null, 300])
        assert.deepStrictEqual((yield* retention.view.read({ since: 1000 })).data, "")
        yield* retention.dispose
        assert.strictEqual((yield* retention.view.read({ since: 290 })).gap?.from, 290)
      }))

    it.effect("of an earlier life is previewed by its beginning and its end, from what the store has", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        for (const end of ["€", "\n"]) {
          const text = "é".repeat(1023) + "x" + end + "0123456789".repeat(1000)
          const bytes = utf8.encode(text)
          const blob = yield* Effect.scoped(Effect.flatMap(
            store.write("job"),
            (writer) => Effect.andThen(writer.append(bytes), writer.seal("sha256-9f2c"))
          ))
          const retention = OutputRetention.recorded({
            name: "job",
            bytesSeen: bytes.length,
            drained: true,
            sha256: "9f2c",
            blob,
            spilledBytes: bytes.length,
            gap: null,
            source: OutputSource.ofBlob(store, blob, { gap: null, length: bytes.length }, 1000),
            dispose: Effect.void
          })
          const head = "é".repeat(1023) + (end === "\n" ? "x\n" : "x\n")
          const shown = end === "\n" ? 2048 : 2047
          assert.strictEqual(
            yield* retention.view.preview,
            `${head}... [${bytes.length - shown - 2048} earlier output bytes truncated]\n${text.slice(-2048)}`
          )
        }
      }))

    it.effect("of an earlier life is previewed also where the store has lost it", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const retention = OutputRetention.recorded({
          name: "job",
          bytesSeen: 10_000,
          drained: true,
          sha256: "9f2c",
          blob: "sha256-9f2c.job",
          spilledBytes: 10_000,
          gap: null,
          source: OutputSource.ofBlob(store, "sha256-9f2c.job", { gap: null, length: 10_000 }, 1000),
          dispose: Effect.void
        })
        assert.strictEqual(yield* retention.view.preview, "... [10000 earlier output bytes truncated]\n")
        assert.strictEqual(yield* retention.readTail(100), "")
      }))

    it.effect("reports an output of just the cap as complete", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(yield* BlobStoreMemory.make, { cap: 10_000 })
        push(retention.sink, noise(10_000))
        yield* retention.seal({ drained: true })
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().capped], ["complete", false])
      }))

    it.effect("gives the reference back once, and then tells the lost bytes as a gap", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(store)
        push(retention.sink, noise(5000))
        yield* retention.seal({ drained: true })
        const ref = retention.metadata().blob
        yield* retention.dispose
        yield* retention.dispose
        assert.strictEqual((yield* Effect.flip(readBlob(store, ref))).problem, "NotFound")
        const page = yield* retention.view.readBytes({ since: 100 })
        assert.deepStrictEqual(page.gap, { from: 100, to: 4100 })
      }))

    it.effect("tells bytes of a blob that somebody took away as a gap, and does not fail", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(store)
        push(retention.sink, noise(5000))
        yield* retention.seal({ drained: true })
        yield* store.remove("job")
        assert.deepStrictEqual((yield* retention.view.read({ since: 100 })).gap?.from, 100)
      }))

    it.effect("lets whoever follows finish when the blob is removed, also who began before there was one", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(store)
        const bytes = noise(5000)
        push(retention.sink, bytes)
        const turn = yield* Semaphore.make(0)
        const parts: Array<Uint8Array> = []
        const gaps: Array<OutputRetention.Gap | null> = []
        const follower = yield* Effect.forkChild(
          Stream.runForEach(retention.view.followBytes({ limit: 500 }), ({ data, gap }) => {
            parts.push(data)
            gaps.push(gap)
            return turn.take(1)
          }),
          { startImmediately: true }
        )
        yield* TestClock.adjust(0)
        assert.strictEqual(parts.length, 1)
        yield* retention.seal({ drained: true })
        const ref = retention.metadata().blob ?? ""
        yield* retention.dispose
        assert.strictEqual((yield* retention.view.readBytes({ since: 100, limit: 10 })).gap?.from, 100)
        yield* turn.release(1000)
        yield* Fiber.join(follower)
        assert.deepStrictEqual(joined(parts), bytes)
        assert.isTrue(gaps.every((gap) => gap === null))
        assert.strictEqual((yield* Effect.flip(readBlob(store, ref))).problem, "NotFound")
      }))

    it.effect("lets a follower of a stream of an earlier life finish when its blob is removed", () =>
      Effect.gen(function*() {
        const store = yield* BlobStoreMemory.make
        const before = yield* spilling(store)
        const bytes = noise(5000)
        push(before.sink, bytes)
        yield* before.seal({ drained: true })
        const { blob, bytesSeen, drained, gap, sha256, spilledBytes } = before.metadata()
        const retention = OutputRetention.recorded({
          name: "job",
          bytesSeen,
          drained,
          sha256,
          blob,
          spilledBytes,
          gap,
          source: OutputSource.ofBlob(store, blob ?? "", { gap, length: spilledBytes }, 1000),
          dispose: Effect.ignore(store.remove("job"))
        })
        const parts: Array<Uint8Array> = []
        yield* Stream.runForEach(retention.view.followBytes({ limit: 700 }), ({ data }) => {
          parts.push(data)
          return retention.dispose
        })
        assert.deepStrictEqual(joined(parts), bytes)
        assert.strictEqual((yield* Effect.flip(readBlob(store, blob))).problem, "NotFound")
        assert.deepStrictEqual((yield* retention.view.readBytes()).gap, { from: 0, to: 5000 })
      }))

    it.effect("waits for a retry before it removes what that has written", () =>
      Effect.gen(function*() {
        let broken = true
        const gate = Latch.makeUnsafe(false)
        const store = yield* BlobStoreMemory.make
        const retention = yield* spilling(gated(store, () => broken ? Effect.fail(full) : gate.await))
        push(retention.sink, noise(9500))
        yield* retention.seal({ drained: true })
        assert.strictEqual(retention.metadata().spill, "failed")
        broken = false
        const retrying = yield* Effect.forkChild(retention.retrySpill, { startImmediately: true })
        const disposing = yield* Effect.forkChild(retention.dispose, { startImmediately: true })
        yield* TestClock.adjust(0)
        assert.isUndefined(disposing.pollUnsafe())
        yield* gate.open
        assert.isTrue(yield* Fiber.join(retrying))
        yield* Fiber.join(disposing)
        assert.deepStrictEqual([retention.metadata().blob, yield* store.remove("job")], [null, false])
      }))

    it.effect("removes also what a seal that was given up has sealed since", () =>
      Effect.gen(function*() {
        const gate = Latch.makeUnsafe(false)
        const store = yield* BlobStoreMemory.make
        const slow: BlobStore.BlobStore = {
          read: (ref, options) => store.read(ref, options),
          lease: (ref) => store.lease(ref),
          remove: (name) => store.remove(name),
          write: (name) =>
            Effect.map(Effect.provideService(store.write(name), Scope.Scope, Scope.makeUnsafe()), (writer) => ({
              append: (bytes) => writer.append(bytes),
              seal: (label) => Effect.uninterruptible(Effect.andThen(gate.await, writer.seal(label)))
            }))
        }
        const retention = yield* spilling(slow, { stallMillis: 1000 })
        const bytes = noise(5000)
        push(retention.sink, bytes)
        const sealing = yield* Effect.forkChild(retention.seal({ drained: true }), { startImmediately: true })
        yield* TestClock.adjust(1000)
        yield* Fiber.join(sealing)
        assert.deepStrictEqual([retention.metadata().spill, retention.metadata().blob], ["failed", null])
        yield* gate.open
        yield* TestClock.adjust(0)
        assert.deepStrictEqual(yield* readBlob(store, `sha256-${sha256Of(bytes)}.job`), bytes)
        yield* retention.dispose
        assert.isFalse(yield* store.remove("job"))
      }))

    it.effect("is not corrupted by a driver that reads on while paused: the spill fails, nothing else does", () =>
      Effect.gen(function*() {
        const retention = yield* spilling(gated(yield* BlobStoreMemory.make, () => Effect.never))
        const bytes = noise(200_000)
        for (let at = 0; at < bytes.length;) at += push(retention.sink, bytes.subarray(at))
        assert.strictEqual(retention.metadata().spill, "failed")
        const sealing = yield* Effect.forkChild(retention.seal({ drained: true }), { startImmediately: true })
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(sealing)
        assert.strictEqual(retention.metadata().sha256, sha256Of(bytes))
        assert.deepStrictEqual((yield* retention.view.readBytes({ since: 199_100 })).data, bytes.subarray(199_100))
      }))
  })

  describe("follow", () => {
    it.effect("gives history, then what comes, and ends at the seal", () =>
      Effect.gen(function*() {
        const retention = make()
        push(retention.sink, "one ")
        const reading = yield* Effect.forkChild(Stream.runCollect(retention.view.follow()), { startImmediately: true })
        yield* TestClock.adjust(0)
        push(retention.sink, "two ")
        yield* TestClock.adjust(0)
        push(retention.sink, "three")
        yield* retention.seal({ drained: true })
        const pages = yield* Fiber.join(reading)
        assert.deepStrictEqual(pages.map((page) => page.data), ["one ", "two ", "three"])
        assert.deepStrictEqual(pages.map((page) => page.since), [0, 4, 8])
      }))

    it.effect("tells a slow follower what it missed, while a quick one misses nothing", () =>
      Effect.gen(function*() {
        const retention = make()
        const gate = yield* Deferred.make<void>()
        const quick: Array<Uint8Array> = []
        const slow: Array<OutputRetention.Page<Uint8Array>> = []
        const quickly = yield* Effect.forkChild(
          Stream.runForEach(retention.view.followBytes(), (page) => Effect.sync(() => quick.push(page.data))),
          { startImmediately: true }
        )
        const slowly = yield* Effect.forkChild(
          Stream.runForEach(retention.view.followBytes(), (page) => {
            slow.push(page)
            return Deferred.await(gate)
          }),
          { startImmediately: true }
        )
        const bytes = noise(20_000)
        for (let at = 0; at < 20_000; at += 500) {
          push(retention.sink, bytes.subarray(at, at + 500))
          yield* TestClock.adjust(0)
        }
        assert.deepStrictEqual(joined(quick), bytes)
        assert.strictEqual(slow.length, 1)
        yield* Deferred.succeed(gate, undefined)
        yield* retention.seal({ drained: true })
        yield* Fiber.join(quickly)
        yield* Fiber.join(slowly)
        assert.deepStrictEqual(slow.map((page) => page.gap), [null, { from: 500, to: 19_100 }])
        assert.deepStrictEqual(slow[1]?.data, bytes.subarray(19_100))
      }))

    it.effect("waits ahead of the end without going back", () =>
      Effect.gen(function*() {
        const retention = make()
        push(retention.sink, "0123")
        const reading = yield* Effect.forkChild(Stream.runCollect(retention.view.follow({ since: 6 })), {
          startImmediately: true
        })
        yield* TestClock.adjust(0)
        push(retention.sink, "45")
        yield* TestClock.adjust(0)
        push(retention.sink, "67")
        yield* retention.seal({ drained: true })
        const pages = yield* Fiber.join(reading)
        assert.deepStrictEqual(pages.map((page) => [page.since, page.data]), [[6, "67"]])
      }))

    it.effect("never does a follower's work inside a commit", () =>
      Effect.gen(function*() {
        const retention = make()
        let inside = false
        let wasInside = false
        const reading = yield* Effect.forkChild(
          Stream.runForEach(retention.view.follow(), () => Effect.sync(() => (wasInside ||= inside))),
          { startImmediately: true }
        )
        yield* TestClock.adjust(0)
        inside = true
        push(retention.sink, "text")
        inside = false
        yield* retention.seal({ drained: true })
        yield* Fiber.join(reading)
        assert.isFalse(wasInside)
      }))

    it.effect("leaves nothing behind when it is interrupted, and others go on", () =>
      Effect.gen(function*() {
        const retention = make()
        const leaving = yield* Effect.forkChild(Stream.runDrain(retention.view.follow()), { startImmediately: true })
        const staying = yield* Effect.forkChild(Stream.runCollect(retention.view.follow()), { startImmediately: true })
        yield* Fiber.interrupt(leaving)
        push(retention.sink, "text")
        yield* retention.seal({ drained: true })
        assert.strictEqual(textOf(yield* Fiber.join(staying)), "text")
      }))
  })
})
