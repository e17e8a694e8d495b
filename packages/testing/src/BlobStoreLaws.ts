/**
 * What every blob store owes the runtime, as tests that any store can run.
 *
 * A law is a sentence and a program that asserts it on a fresh and empty store: the layer is built for each, and has to
 * give one. Nothing in them depends on time.
 */
import { assert } from "@effect/vitest"
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Suite from "./internal/Suite.ts"
import type { Law as AnyLaw, StoreOptions } from "./Law.ts"

/** One law. */
export type Law = AnyLaw<BlobStore.BlobError, BlobStore.Service>

/** Where the laws are tried. */
export type Options = StoreOptions

const law = (
  about: string,
  name: string,
  check: (store: BlobStore.BlobStore) => Effect.Effect<void, BlobStore.BlobError, Scope.Scope>
): Law => ({ about, name, skipped: null, run: Effect.scoped(BlobStore.Service.use(check)) })

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

const concat = (parts: Iterable<Uint8Array>): Uint8Array => {
  const all = [...parts]
  const whole = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of all) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** Bytes that tell their place, so that none can be taken for another: the period is prime. */
const patterned = (length: number, from = 0): Uint8Array =>
  new Uint8Array(length).map((_, index) => (from + index) % 251)

/** Lists of a million numbers make failures unreadable. */
const assertBytes = (seen: Uint8Array, expected: Uint8Array, message: string): void => {
  assert.strictEqual(seen.length, expected.length, message)
  const at = seen.findIndex((byte, index) => byte !== expected[index])
  assert.strictEqual(at, -1, `${message}: other bytes from ${at} on`)
}

/** Writes and seals. Answers with the reference. */
const put = (
  store: BlobStore.BlobStore,
  name: string,
  content: string | Uint8Array,
  label = "sha256-a"
): Effect.Effect<string, BlobStore.BlobError> =>
  Effect.scoped(Effect.gen(function*() {
    const writer = yield* store.write(name)
    yield* writer.append(typeof content === "string" ? bytesOf(content) : content)
    return yield* writer.seal(label)
  }))

interface Range {
  readonly offset?: number
  readonly limit?: number
}

const bytesAt = (
  store: BlobStore.BlobStore,
  ref: string,
  range?: Range
): Effect.Effect<Uint8Array, BlobStore.BlobError> => Effect.map(Stream.runCollect(store.read(ref, range)), concat)

const textAt = (
  store: BlobStore.BlobStore,
  ref: string,
  range?: Range
): Effect.Effect<string, BlobStore.BlobError> =>
  Effect.map(bytesAt(store, ref, range), (bytes) => new TextDecoder().decode(bytes))

const isThere = (store: BlobStore.BlobStore, ref: string): Effect.Effect<boolean> =>
  Effect.match(Stream.runDrain(store.read(ref)), { onFailure: () => false, onSuccess: () => true })

/** What went wrong, and whether to try again: all that a caller can act on. `null`: nothing. */
const failureOf = <A>(effect: Effect.Effect<A, BlobStore.BlobError>) =>
  Effect.match(effect, {
    onFailure: ({ operation, problem, retryable }) => ({ operation, problem, retryable }),
    onSuccess: () => null
  })

const notFound = (operation: BlobStore.BlobError["operation"]) => ({
  operation,
  problem: "NotFound" as const,
  retryable: false
})

/** Interrupts it after so many turns. */
const interruptedAfter = (turns: number, effect: Effect.Effect<unknown, BlobStore.BlobError>): Effect.Effect<void> =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
    yield* Fiber.interrupt(fiber)
  })

/** More than the turns any of the calls takes. */
const mostTurns = 12

const large = patterned(1_000_003)

/** The laws as data, to be run one by one: each needs an empty store of its own. */
export const laws: ReadonlyArray<Law> = [
  law(
    "content",
    "gives back what was appended, from any offset and as much as asked for",
    Effect.fnUntraced(function*(store) {
      const writer = yield* store.write("job")
      yield* writer.append(bytesOf("hello "))
      yield* writer.append(bytesOf("world"))
      const ref = yield* writer.seal("sha256-a")
      assert.strictEqual(yield* textAt(store, ref), "hello world")
      assert.strictEqual(yield* textAt(store, ref, { offset: 4, limit: 4 }), "o wo")
      assert.strictEqual(yield* textAt(store, ref, { offset: 8, limit: 100 }), "rld")
      assert.strictEqual(yield* textAt(store, ref, { offset: 6, limit: Infinity }), "world")
      assert.strictEqual(yield* textAt(store, ref, { offset: 11 }), "")
      assert.strictEqual(yield* textAt(store, ref, { offset: 1000 }), "")
      assert.strictEqual(yield* textAt(store, ref, { offset: 2 ** 50, limit: 1 }), "")
      assert.strictEqual(yield* textAt(store, ref, { limit: 0 }), "")
    })
  ),
  law(
    "content",
    "borrows the bytes of an append: what becomes of them afterwards changes nothing",
    Effect.fnUntraced(function*(store) {
      const writer = yield* store.write("job")
      const borrowed = bytesOf("one ")
      yield* writer.append(borrowed)
      borrowed.set(bytesOf("two "))
      yield* writer.append(borrowed)
      borrowed.fill(0)
      assert.strictEqual(yield* textAt(store, yield* writer.seal("sha256-a")), "one two ")
    })
  ),
  law(
    "content",
    "gives each reader bytes of its own: what it does to them changes nothing",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", "hello world")
      yield* Stream.runForEach(store.read(ref), (part) => Effect.sync(() => part.fill(0)))
      assert.strictEqual(yield* textAt(store, ref), "hello world")
    })
  ),
  law(
    "content",
    "takes appends of every size, of nothing too, in their order",
    Effect.fnUntraced(function*(store) {
      const writer = yield* store.write("job")
      const parts: Array<Uint8Array> = []
      let at = 0
      for (const size of [0, 1, 7, 4_096, 65_535, 65_536, 0, 65_537, 300_000]) {
        const part = patterned(size, at)
        at += size
        parts.push(part)
        yield* writer.append(part)
      }
      assertBytes(yield* bytesAt(store, yield* writer.seal("sha256-a")), concat(parts), "all of it")
    })
  ),
  law(
    "content",
    "takes a thousand small appends",
    Effect.fnUntraced(function*(store) {
      const writer = yield* store.write("job")
      for (let index = 0; index < 1_000; index++) yield* writer.append(patterned(3, 3 * index))
      assertBytes(yield* bytesAt(store, yield* writer.seal("sha256-a")), patterned(3_000), "all of it")
    })
  ),
  law(
    "content",
    "gives any part of a large blob, and the parts in a row are the whole",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", large)
      const edges = [0, 1, 65_535, 65_536, 65_537, 131_072, large.length - 1, large.length]
      for (const offset of edges) {
        for (const limit of [0, 1, 65_536, 65_537, large.length]) {
          assertBytes(
            yield* bytesAt(store, ref, { offset, limit }),
            large.subarray(offset, offset + limit),
            `${limit} bytes from ${offset} on`
          )
        }
      }
      for (const limit of [99_991, 400_000]) {
        const parts: Array<Uint8Array> = []
        for (let offset = 0; offset < large.length; offset += limit) {
          parts.push(yield* bytesAt(store, ref, { offset, limit }))
        }
        assertBytes(concat(parts), large, `in parts of ${limit}`)
      }
    })
  ),
  law(
    "content",
    "refuses to read from an offset or up to a limit that is negative or no whole number",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", "hello")
      const ranges = [-1, 0.5, NaN, -Infinity].flatMap((bad) => [{ offset: bad }, { limit: bad }])
      for (const range of [...ranges, { offset: Infinity }]) {
        assert.deepStrictEqual(
          yield* failureOf(Stream.runDrain(store.read(ref, range))),
          { operation: "read", problem: "Other", retryable: false },
          JSON.stringify(Object.entries(range).map(([name, value]) => `${name} ${value}`))
        )
      }
      assert.strictEqual(yield* textAt(store, ref), "hello")
    })
  ),
  law(
    "names",
    "keeps apart names and labels that differ in any character",
    Effect.fnUntraced(function*(store) {
      const names = ["a/b", "a=2f=b", "a.b", "A.b", "../x", "ä", "a", "a-stderr"]
      const refs = new Map<string, string>()
      for (const name of names) {
        for (const label of names) {
          refs.set(yield* put(store, name, `${label} of ${name}`, label), `${label} of ${name}`)
        }
      }
      assert.strictEqual(refs.size, names.length ** 2)
      for (const [ref, text] of refs) assert.strictEqual(yield* textAt(store, ref), text)
      assert.isTrue(yield* store.remove("a"))
      const left: Array<string> = []
      for (const [ref, text] of refs) if (yield* isThere(store, ref)) left.push(text)
      assert.deepStrictEqual(left, [...refs.values()].filter((text) => !text.endsWith(" of a")))
    })
  ),
  law(
    "names",
    "refuses a name and a label that are empty or endless, and answers no text that is no reference",
    Effect.fnUntraced(function*(store) {
      for (const name of ["", "x".repeat(300)]) {
        assert.deepStrictEqual(yield* failureOf(Effect.scoped(store.write(name))), {
          operation: "open",
          problem: "Other",
          retryable: false
        })
        const sealing = Effect.scoped(Effect.flatMap(store.write("job"), (writer) => writer.seal(name)))
        assert.strictEqual((yield* failureOf(sealing))?.problem, "Other")
        assert.isFalse(yield* store.remove(name))
      }
      for (const ref of ["", "..", "../x.y", "sha256-a", "none.job"]) {
        assert.deepStrictEqual(yield* failureOf(textAt(store, ref)), notFound("read"))
      }
    })
  ),
  law(
    "sealing",
    "shows nothing of a blob before it is sealed, and drops an unsealed one with its scope",
    Effect.fnUntraced(function*(store) {
      const scope = yield* Scope.make()
      const ref = yield* put(store, "job", "x")
      yield* store.remove("job")
      const writer = yield* Scope.provide(store.write("job"), scope)
      yield* writer.append(bytesOf("x"))
      assert.isFalse(yield* isThere(store, ref))
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(yield* isThere(store, ref))
      assert.deepStrictEqual(yield* failureOf(writer.append(bytesOf("x"))), notFound("append"))
      assert.deepStrictEqual(yield* failureOf(writer.seal("sha256-a")), notFound("seal"))
      assert.isFalse(yield* store.remove("job"))
    })
  ),
  law(
    "sealing",
    "keeps a sealed blob when the writer's scope is closed, and takes no more",
    Effect.fnUntraced(function*(store) {
      const [writer, ref] = yield* Effect.scoped(Effect.gen(function*() {
        const writer = yield* store.write("job")
        const ref = yield* writer.seal("sha256-empty")
        assert.deepStrictEqual(yield* failureOf(writer.append(bytesOf("x"))), notFound("append"))
        return [writer, ref] as const
      }))
      assert.deepStrictEqual(yield* failureOf(writer.seal("sha256-other")), notFound("seal"))
      assert.strictEqual(yield* textAt(store, ref), "")
    })
  ),
  law(
    "sealing",
    "has one blob of what is sealed twice",
    Effect.fnUntraced(function*(store) {
      const first = yield* put(store, "job", "same")
      const second = yield* put(store, "job", "same")
      assert.strictEqual(first, second)
      assert.strictEqual(yield* textAt(store, second), "same")
      assert.isTrue(yield* store.remove("job"))
      assert.isFalse(yield* isThere(store, second))
    })
  ),
  law(
    "removing",
    "removes all of one name and nothing of another, also of the same content",
    Effect.fnUntraced(function*(store) {
      const one = yield* put(store, "one", "same")
      const other = yield* put(store, "other", "same")
      const partial = yield* put(store, "one", "sa", "partial-2-4")
      assert.isTrue(yield* store.remove("one"))
      assert.deepStrictEqual(yield* failureOf(textAt(store, one)), notFound("read"))
      assert.deepStrictEqual(yield* failureOf(textAt(store, partial)), notFound("read"))
      assert.strictEqual(yield* textAt(store, other), "same")
      assert.isFalse(yield* store.remove("one"))
      assert.isTrue(yield* store.remove("other"))
      assert.isFalse(yield* isThere(store, other))
    })
  ),
  law(
    "removing",
    "drops what a removed name has in the making: nobody can seal it",
    Effect.fnUntraced(function*(store) {
      const writer = yield* store.write("job")
      yield* writer.append(bytesOf("x"))
      assert.isTrue(yield* store.remove("job"))
      assert.deepStrictEqual(yield* failureOf(writer.seal("sha256-a")), notFound("seal"))
      assert.strictEqual(yield* textAt(store, yield* put(store, "job", "again")), "again")
    })
  ),
  law(
    "removing",
    "of many who remove one name at once, each is answered, and it is gone",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", "x")
      const answers = yield* Effect.all(Array.from({ length: 20 }, () => store.remove("job")), {
        concurrency: "unbounded"
      })
      assert.isTrue(answers.includes(true))
      assert.isFalse(yield* isThere(store, ref))
      assert.isFalse(yield* store.remove("job"))
    })
  ),
  law(
    "leases",
    "keeps the bytes while anybody holds a lease",
    Effect.fnUntraced(function*(store) {
      assert.deepStrictEqual(yield* failureOf(Effect.scoped(store.lease("sha256-a.job"))), notFound("open"))
      const ref = yield* put(store, "job", "leased")
      const [first, second] = [yield* Scope.make(), yield* Scope.make()]
      yield* Scope.provide(store.lease(ref), first)
      yield* Scope.provide(store.lease(ref), second)
      assert.isTrue(yield* store.remove("job"))
      assert.isFalse(yield* store.remove("job"))
      yield* Scope.close(first, Exit.void)
      assert.strictEqual(yield* textAt(store, ref), "leased")
      yield* Scope.close(second, Exit.void)
      assert.deepStrictEqual(yield* failureOf(textAt(store, ref)), notFound("read"))
    })
  ),
  law(
    "leases",
    "lets a reader finish what is removed under it",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", large)
      const parts: Array<Uint8Array> = []
      yield* Stream.runForEach(store.read(ref), (part) => {
        parts.push(part)
        return store.remove("job")
      })
      assertBytes(concat(parts), large, "all of it")
      assert.isFalse(yield* isThere(store, ref))
    })
  ),
  law(
    "leases",
    "lets go of what a reader left half way or was interrupted in",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", large)
      yield* Stream.runDrain(Stream.take(store.read(ref), 1))
      for (let turns = 0; turns < mostTurns; turns++) yield* interruptedAfter(turns, Stream.runDrain(store.read(ref)))
      assert.isTrue(yield* store.remove("job"))
      assert.isFalse(yield* isThere(store, ref))
    })
  ),
  law(
    "many at once",
    "writers of one name disturb each other in nothing, nor when one of them is dropped",
    Effect.fnUntraced(function*(store) {
      const [first, second] = [yield* store.write("job"), yield* store.write("job")]
      const third = yield* Effect.scoped(store.write("job"))
      for (const text of ["a", "b", "c"]) {
        yield* Effect.all([first.append(bytesOf(text)), second.append(bytesOf(text.toUpperCase()))], {
          concurrency: "unbounded"
        })
      }
      assert.deepStrictEqual(yield* failureOf(third.append(bytesOf("x"))), notFound("append"))
      const refs = yield* Effect.all([first.seal("small"), second.seal("large")], { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* Effect.forEach(refs, (ref) => textAt(store, ref)), ["abc", "ABC"])
      assert.isTrue(yield* store.remove("job"))
      for (const ref of refs) assert.isFalse(yield* isThere(store, ref))
    })
  ),
  law(
    "many at once",
    "two writers of one name that seal the same at once leave one whole blob",
    Effect.fnUntraced(function*(store) {
      const refs = yield* Effect.all(Array.from({ length: 8 }, () => put(store, "job", large)), {
        concurrency: "unbounded"
      })
      assert.strictEqual(new Set(refs).size, 1)
      assertBytes(yield* bytesAt(store, refs[0] ?? ""), large, "all of it")
    })
  ),
  law(
    "many at once",
    "appends of one writer at once are each whole",
    Effect.fnUntraced(function*(store) {
      const writer = yield* store.write("job")
      const letters = Array.from("abcdefgh")
      yield* Effect.all(letters.map((letter) => writer.append(bytesOf(letter.repeat(10_000)))), {
        concurrency: "unbounded"
      })
      const text = yield* textAt(store, yield* writer.seal("sha256-a"))
      assert.sameMembers(text.match(/(.)\1*/g) ?? [], letters.map((letter) => letter.repeat(10_000)))
    })
  ),
  law(
    "many at once",
    "keeps apart what fifty write and others read",
    Effect.fnUntraced(function*(store) {
      const writes = Array.from(
        { length: 50 },
        (_, index) =>
          Effect.flatMap(
            put(store, `job-${index}`, patterned(20_000, index)),
            (ref) => Effect.map(bytesAt(store, ref), (bytes) => [ref, bytes, index] as const)
          )
      )
      const written = yield* Effect.all(writes, { concurrency: "unbounded" })
      assert.strictEqual(new Set(written.map(([ref]) => ref)).size, 50)
      for (const [, bytes, index] of written) assertBytes(bytes, patterned(20_000, index), `blob ${index}`)
    })
  ),
  law(
    "many at once",
    "many read one blob at once, each all of it",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", large)
      const reads = yield* Effect.all(Array.from({ length: 10 }, () => bytesAt(store, ref)), {
        concurrency: "unbounded"
      })
      for (const bytes of reads) assertBytes(bytes, large, "all of it")
    })
  ),
  law(
    "interruption",
    "an append that was interrupted is in the blob wholly or not at all",
    Effect.fnUntraced(function*(store) {
      for (let turns = 0; turns < mostTurns; turns++) {
        const name = `job-${turns}`
        const writer = yield* store.write(name)
        yield* writer.append(bytesOf("<"))
        yield* interruptedAfter(turns, writer.append(large))
        yield* writer.append(bytesOf(">"))
        const bytes = yield* bytesAt(store, yield* writer.seal("sha256-a"))
        assertBytes(bytes, concat([bytesOf("<"), ...(bytes.length > 2 ? [large] : []), bytesOf(">")]), name)
      }
    })
  ),
  law(
    "interruption",
    "a seal that was interrupted has made the whole blob or none, and what was not sealed is dropped",
    Effect.fnUntraced(function*(store) {
      const ref = yield* put(store, "job", large)
      yield* store.remove("job")
      for (let turns = 0; turns < mostTurns; turns++) {
        yield* interruptedAfter(turns, put(store, "job", large))
        const isSealed = yield* isThere(store, ref)
        if (isSealed) assertBytes(yield* bytesAt(store, ref), large, `after ${turns} turns`)
        assert.strictEqual(yield* store.remove("job"), isSealed)
      }
    })
  )
]

/** Defines one test a law. `layer` is built for each, and has to give an empty store. */
export const blobStoreLaws = <E>(
  name: string,
  layer: Layer.Layer<BlobStore.Service, E>,
  options: Options = {}
): void => Suite.define(name, "a blob store", Suite.skipping(laws, options.skipped), layer, "live")
