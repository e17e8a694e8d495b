import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Changes from "../../src/internal/detached/changes.ts"
import * as FileReader from "../../src/internal/detached/fileReader.ts"
import { temporaryDirectory } from "../support/directory.ts"
import { Arena, until } from "./bench.ts"

/** A file, its reader, and where it reads to. */
const reading = (content: string | Uint8Array, arena = new Arena()) =>
  Effect.gen(function*() {
    const file = join(yield* temporaryDirectory, "out")
    fs.writeFileSync(file, content)
    const reader = FileReader.make(fs.openSync(file, "r"), arena)
    yield* Effect.addFinalizer(() => Effect.sync(reader.close))
    return { file, reader, arena }
  })

const numbers = Uint8Array.from({ length: 5_000_000 }, (_, index) => index % 251)

describe("a reader of a file", () => {
  it.live("reads what is there and what comes, and ends when it is told to", () =>
    Effect.gen(function*() {
      const { arena, file, reader } = yield* reading("one ")
      reader.poke()
      yield* until("the beginning", () => arena.text === "one ")
      fs.appendFileSync(file, "two")
      reader.poke()
      yield* until("the rest", () => arena.text === "one two")
      assert.strictEqual(reader.drain(), "empty")
      reader.finish()
      reader.finish()
      assert.deepStrictEqual([arena.ends, reader.drain()], [1, "ended"])
    }).pipe(Effect.scoped))

  it.live("ends after what is in the file when it is told to, though somebody goes on writing", () =>
    Effect.gen(function*() {
      const { arena, file, reader } = yield* reading("one", new Arena({ regionBytes: 1 }))
      arena.pauseAt = 1
      reader.drain()
      reader.finish()
      assert.strictEqual(arena.ends, 0)
      fs.appendFileSync(file, "two")
      arena.pauseAt = Infinity
      reader.resume()
      yield* until("the end", () => arena.ends > 0)
      assert.strictEqual(arena.text, "one")
    }).pipe(Effect.scoped))

  it.live("settles when all that was written before is read, or the stream is paused", () =>
    Effect.gen(function*() {
      const { arena, reader } = yield* reading(numbers, new Arena({ capacity: 8_000_000 }))
      let settled = -1
      reader.settle(() => {
        settled = arena.bytes
      })
      yield* until("it has settled", () => settled >= 0)
      assert.deepStrictEqual([settled, Buffer.compare(arena.content, numbers)], [numbers.length, 0])
      reader.settle(() => {
        settled = 0
      })
      assert.strictEqual(settled, 0)

      const paused = yield* reading("one")
      paused.arena.pauseAt = 1
      paused.reader.drain()
      let told = 0
      paused.reader.settle(() => told++)
      assert.strictEqual(told, 1)
    }).pipe(Effect.scoped))

  it.live("gives the event loop turns between its stretches", () =>
    Effect.gen(function*() {
      const { arena, reader } = yield* reading(numbers, new Arena({ capacity: 8_000_000, regionBytes: 64 }))
      let turns = 0
      const count = (): void => {
        turns++
        if (arena.bytes < numbers.length) setImmediate(count)
      }
      setImmediate(count)
      reader.poke()
      yield* until("all is read", () => arena.bytes === numbers.length)
      assert.isAbove(turns, 3)
    }).pipe(Effect.scoped))

  it.live("drains at most a bound", () =>
    Effect.gen(function*() {
      const { arena, reader } = yield* reading(numbers, new Arena({ capacity: 8_000_000 }))
      assert.strictEqual(reader.drain(), "bound")
      assert.isBelow(arena.bytes, numbers.length)
    }).pipe(Effect.scoped))

  it.live("of a file that was cut short settles and ends", () =>
    Effect.gen(function*() {
      const { arena, file, reader } = yield* reading("one two")
      let told = 0
      arena.pauseAt = 1
      reader.drain()
      arena.pauseAt = Infinity
      reader.finish()
      fs.truncateSync(file, 2)
      reader.resume()
      reader.settle(() => told++)
      yield* until("the end", () => arena.ends > 0)
      assert.strictEqual(told, 1)
    }).pipe(Effect.scoped))

  it.live("that is closed reads no more, and closes its descriptor once", () =>
    Effect.gen(function*() {
      const { arena, file, reader } = yield* reading("one")
      reader.poke()
      reader.close()
      reader.close()
      const other = fs.openSync(file, "r")
      reader.finish()
      reader.resume()
      reader.close()
      assert.strictEqual(fs.readSync(other, Buffer.alloc(3)), 3)
      fs.closeSync(other)
      assert.deepStrictEqual([arena.bytes, arena.ends, reader.drain()], [0, 0, "ended"])
    }).pipe(Effect.scoped))
})

describe("changes of a directory", () => {
  it.live("are told by name, until nobody wants to know", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const seen: Array<string | null> = []
      const stop = Changes.watch(directory, (name) => seen.push(name))
      fs.writeFileSync(join(directory, "one"), "")
      yield* until("the change", () => seen.includes("one"))
      stop()
      stop()
    }).pipe(Effect.scoped))

  it.live("are asked for again and again where nothing can be watched", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const seen: Array<string | null> = []
      const stop = Changes.watch(join(directory, "nothing"), (name) => seen.push(name))
      yield* until("two times", () => seen.length >= 2)
      stop()
      assert.deepStrictEqual([...new Set(seen)], [null])
    }).pipe(Effect.scoped))
})
