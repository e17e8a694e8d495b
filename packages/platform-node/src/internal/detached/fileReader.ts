/**
 * Reading an output file into the memory that a sink lends, from its first byte on, as it grows.
 *
 * A file does not tell when it has grown, and never that nobody is left to write: whoever watches it says both. Reads are
 * synchronous, in stretches with turns of the event loop between them.
 */
import type { OutputSink } from "@procyon/runtime/ports/ProcessDriver"
import * as fs from "node:fs"
import type { OutputReader } from "../outputReader.ts"

/** The longest stretch, in milliseconds. */
const stretchMillis = 3
/** The most a drain reads, in bytes. What was written before it can be more: of a file there is no bound. */
const drainBound = 1024 * 1024

export interface FileReader extends OutputReader {
  /** The file may have grown. */
  readonly poke: () => void
  /** Nobody is left to write: the stream ends after what is in the file now. */
  readonly finish: () => void
}

/** The reader of a file that is not there: `sink` is told of its end at once. */
export const nothing = (sink: OutputSink): FileReader => {
  sink.end()
  return { poke() {}, resume() {}, drain: () => "ended", settle: (done) => done(), finish() {}, close() {} }
}

/** Reads `fd`, which is the reader's from here on. Nothing is read before the first `poke` or `drain`. */
export const make = (fd: number, sink: OutputSink): FileReader => {
  let region: Uint8Array | null = null
  let offset = 0
  let paused = false
  let ended = false
  // Where the stream ends, once that is known.
  let end = Infinity
  let next: NodeJS.Immediate | null = null
  let waiting: Array<{ readonly upTo: number; readonly done: () => void }> = []

  /** How many bytes it read. An error of reading is an end: nothing more will be read of this stream. */
  const read = (): number => {
    const into = region ??= sink.reserve()
    let count = 0
    try {
      count = fs.readSync(fd, into, 0, Math.min(into.length, end - offset), offset)
    } catch {
      end = offset
    }
    if (count === 0) return 0
    offset += count
    region = null
    if (!sink.commit(count)) paused = true
    return count
  }
  const tellWaiting = (): void => {
    const told = waiting.filter(({ upTo }) => paused || ended || offset >= upTo)
    if (told.length === 0) return
    waiting = waiting.filter((one) => !told.includes(one))
    for (const { done } of told) done()
  }
  const stop = (): void => {
    ended = true
    if (next !== null) clearImmediate(next)
    next = null
    fs.closeSync(fd)
  }
  const endIfDone = (): void => {
    if (ended || paused || offset < end) return
    stop()
    sink.end()
  }
  const stretch = (): void => {
    const until = performance.now() + stretchMillis
    let caughtUp = false
    while (!paused && !ended && !caughtUp && performance.now() < until) caughtUp = offset >= end || read() === 0
    // A file that was cut short holds less than it was to be read to.
    if (caughtUp) {
      end = end === Infinity ? end : Math.min(end, offset)
      waiting = waiting.map(({ done }) => ({ upTo: offset, done }))
    }
    endIfDone()
    tellWaiting()
    if (!paused && !ended && !caughtUp) next ??= setImmediate(resumeStretch)
  }
  const resumeStretch = (): void => {
    next = null
    stretch()
  }
  const poke = (): void => {
    if (!ended && !paused) next ??= setImmediate(resumeStretch)
  }
  const sizeNow = (): number => {
    try {
      return fs.fstatSync(fd).size
    } catch {
      return offset
    }
  }

  return {
    poke,
    resume() {
      if (!paused || ended) return
      paused = false
      poke()
    },
    drain() {
      let bytes = 0
      while (!paused && !ended && offset < end && bytes < drainBound) {
        const count = read()
        bytes += count
        if (count === 0) break
      }
      endIfDone()
      tellWaiting()
      return ended ? "ended" : paused ? "paused" : bytes >= drainBound ? "bound" : "empty"
    },
    settle(done) {
      if (ended) return done()
      waiting.push({ upTo: sizeNow(), done })
      stretch()
    },
    finish() {
      if (ended || end !== Infinity) return
      end = sizeNow()
      stretch()
    },
    close() {
      if (ended) return
      waiting = []
      stop()
    }
  }
}
