import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { PassThrough } from "node:stream"
import * as OutputReader from "../../src/internal/outputReader.ts"
import { Arena, openDescriptors, sha256, until } from "./bench.ts"

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

/** A FIFO that this process writes to itself, so that a test decides what is in it when. */
const openFifo = (): { readonly readEnd: number; readonly writeEnd: number } => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-test-"))
  const name = path.join(directory, "fifo")
  execFileSync("mkfifo", [name])
  const readEnd = fs.openSync(name, O_RDONLY | O_NONBLOCK)
  const writeEnd = fs.openSync(name, O_WRONLY | O_NONBLOCK)
  fs.rmSync(directory, { recursive: true })
  return { readEnd, writeEnd }
}

const turn = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** Numbers that are the same in every run. */
const numbersFrom = (seed: number): () => number => {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return state / 2 ** 32
  }
}

const text = (length: number, from: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => 33 + ((from + index) * 31 + ((from + index) >> 8)) % 90)

describe("outputReader", () => {
  it.live("keeps every byte in place when drains and reads of the event loop take turns", () =>
    Effect.gen(function*() {
      for (let seed = 1; seed <= 40; seed++) {
        const next = numbersFrom(seed)
        const { readEnd, writeEnd } = openFifo()
        const arena = new Arena({ regionBytes: 1 + Math.floor(next() * 5000) })
        const reader = OutputReader.fromFifo(readEnd, arena)
        const written: Array<Uint8Array> = []
        let total = 0
        for (let step = 0; step < 60; step++) {
          const choice = next()
          if (choice < 0.4) {
            const bytes = text(1 + Math.floor(next() * 3000), total)
            assert.strictEqual(fs.writeSync(writeEnd, bytes), bytes.length)
            written.push(bytes)
            total += bytes.length
          } else if (choice < 0.6) reader.drain()
          else if (choice < 0.7) arena.pauseAt = arena.bytes + 1
          else if (choice < 0.8) {
            arena.pauseAt = Infinity
            reader.resume()
          } else yield* turn
          if (total - arena.bytes > 40_000) {
            arena.pauseAt = Infinity
            reader.resume()
            reader.drain()
          }
        }
        arena.pauseAt = Infinity
        reader.resume()
        fs.closeSync(writeEnd)
        yield* until("the stream ends", () => arena.ends > 0)
        assert.strictEqual(arena.bytes, total, `seed ${seed}`)
        assert.strictEqual(arena.sha256, sha256(Buffer.concat(written)), `seed ${seed}`)
        assert.strictEqual(arena.ends, 1)
      }
    }))

  it.live("learns of the end after a drain that found the pipe empty", () =>
    Effect.gen(function*() {
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena()
      const reader = OutputReader.fromFifo(readEnd, arena)
      fs.writeSync(writeEnd, "one")
      assert.strictEqual(reader.drain(), "empty")
      fs.closeSync(writeEnd)
      yield* until("the stream ends", () => arena.ends > 0)
      assert.strictEqual(arena.text, "one")
      assert.strictEqual(reader.drain(), "ended")
    }))

  it.live("answers a drain with ended, and tells the end once, when all writers are gone", () =>
    Effect.gen(function*() {
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena()
      const reader = OutputReader.fromFifo(readEnd, arena)
      fs.writeSync(writeEnd, "last")
      fs.closeSync(writeEnd)
      assert.strictEqual(reader.drain(), "ended")
      assert.strictEqual(arena.text, "last")
      yield* turn
      yield* turn
      assert.strictEqual(arena.ends, 1)
    }))

  it.live("reads nothing while it is paused, and all of it after a resume", () =>
    Effect.gen(function*() {
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena()
      arena.pauseAt = 1
      const reader = OutputReader.fromFifo(readEnd, arena)
      fs.writeSync(writeEnd, "ab")
      yield* until("the first bytes came", () => arena.bytes === 2)
      fs.writeSync(writeEnd, "cd")
      assert.strictEqual(reader.drain(), "paused")
      yield* turn
      yield* turn
      assert.strictEqual(arena.text, "ab")
      arena.pauseAt = Infinity
      reader.resume()
      reader.resume()
      fs.closeSync(writeEnd)
      yield* until("the stream ends", () => arena.ends > 0)
      assert.strictEqual(arena.text, "abcd")
    }))

  it.live("pauses in a drain when the sink says so", () =>
    Effect.gen(function*() {
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena({ regionBytes: 2 })
      arena.pauseAt = 4
      const reader = OutputReader.fromFifo(readEnd, arena)
      fs.writeSync(writeEnd, "abcdefgh")
      assert.strictEqual(reader.drain(), "paused")
      assert.strictEqual(arena.text, "abcd")
      yield* turn
      assert.strictEqual(arena.text, "abcd")
      arena.pauseAt = Infinity
      reader.resume()
      fs.closeSync(writeEnd)
      yield* until("the stream ends", () => arena.ends > 0)
      assert.strictEqual(arena.text, "abcdefgh")
    }))

  it.live("learns of the end after a drain that paused when all writers were gone", () =>
    Effect.gen(function*() {
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena({ regionBytes: 2 })
      arena.pauseAt = 4
      const reader = OutputReader.fromFifo(readEnd, arena)
      fs.writeSync(writeEnd, "abcdefgh")
      fs.closeSync(writeEnd)
      assert.strictEqual(reader.drain(), "paused")
      arena.pauseAt = Infinity
      reader.resume()
      yield* until("the stream ends", () => arena.ends > 0)
      assert.strictEqual(arena.text, "abcdefgh")
    }))

  it.live("gives a firehose up after a bounded drain", () =>
    Effect.gen(function*() {
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena({ capacity: 4 * 1024 * 1024 })
      const chunk = new Uint8Array(32 * 1024)
      const refill = {
        reserve: arena.reserve,
        end: arena.end,
        commit: (count: number) => {
          fs.writeSync(writeEnd, chunk)
          return arena.commit(count)
        }
      }
      const reader = OutputReader.fromFifo(readEnd, refill)
      fs.writeSync(writeEnd, chunk)
      assert.strictEqual(reader.drain(), "bound")
      assert.isAtMost(arena.bytes, 1024 * 1024 + 64 * 1024)
      reader.close()
      fs.closeSync(writeEnd)
      yield* turn
      assert.strictEqual(arena.ends, 0)
    }))

  it.live("closes its descriptor and tells nothing more once it is closed", () =>
    Effect.gen(function*() {
      const before = openDescriptors()
      const { readEnd, writeEnd } = openFifo()
      const arena = new Arena()
      const reader = OutputReader.fromFifo(readEnd, arena)
      fs.writeSync(writeEnd, "x")
      assert.strictEqual(reader.drain(), "empty")
      reader.close()
      fs.closeSync(writeEnd)
      yield* until("the descriptors are closed", () => openDescriptors() === before)
      assert.strictEqual(arena.ends, 0)
      assert.strictEqual(arena.text, "x")
    }))

  it.live("copies pipes into the sink, split where a region ends and held where it says stop", () =>
    Effect.gen(function*() {
      const first = new PassThrough()
      const second = new PassThrough()
      const arena = new Arena({ regionBytes: 3 })
      arena.pauseAt = 4
      const reader = OutputReader.fromPipes([first, second], arena)
      first.end("abcdefgh")
      yield* until("the sink says stop", () => arena.bytes === 6)
      second.end("ij")
      yield* turn
      assert.strictEqual(arena.text, "abcdef")
      arena.pauseAt = Infinity
      reader.resume()
      yield* until("the streams end", () => arena.ends > 0)
      assert.strictEqual(arena.text, "abcdefghij")
      assert.strictEqual(arena.ends, 1)
    }))
})
