/**
 * What lies between a driver and a scripted child: the two kinds of pipe, with the capacity and the ends of the real
 * ones, and the file that a detached child writes to.
 *
 * All are plain synchronous state: who has to wait gets called back.
 */
import type { OutputSink } from "@procyon/runtime/ports/ProcessDriver"

/** What a Linux pipe holds by default (`pipe(7)`). */
const pipeCapacity = 64 * 1024

const callAll = (waiters: Array<() => void>): void => {
  for (const waiter of waiters.splice(0)) waiter()
}

/** Bytes on their way, in order. */
class Fifo {
  #chunks: Array<Uint8Array> = []
  size = 0

  push(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.#chunks.push(bytes.slice())
    this.size += bytes.length
  }

  /** At most `limit` bytes off the front; all of them come from one push. */
  shift(limit: number): Uint8Array {
    const first = this.#chunks[0]
    if (first === undefined || limit <= 0) return new Uint8Array(0)
    const taken = first.subarray(0, limit)
    if (taken.length === first.length) this.#chunks.shift()
    else this.#chunks[0] = first.subarray(taken.length)
    this.size -= taken.length
    return taken
  }

  clear(): void {
    this.#chunks = []
    this.size = 0
  }
}

/** What a child writes its output to. */
export interface Output {
  /** Who holds the writing end. */
  readonly writers: Set<object>
  /** Called when there is room again, or the reading end was closed. */
  readonly roomWaiters: Array<() => void>
  /** The reader let go: a write would end the writer with SIGPIPE. */
  readonly closed: boolean
  /** How many of the bytes it took. */
  readonly write: (bytes: Uint8Array) => number
  readonly letGo: (writer: object) => void
  /** Hands over what is there and the end, unless paused. */
  readonly pump: () => void
}

/** What one reader of an output does. */
export interface Reader {
  readonly pump: () => void
  readonly resume: () => void
  readonly drain: () => "empty" | "ended" | "bound" | "paused"
  /** Nobody is left to write. */
  readonly finish: () => void
  readonly close: () => void
}

/** The reader of an output that is not there: it has ended at once. */
export const nothing: Reader = { pump() {}, resume() {}, drain: () => "ended", finish() {}, close() {} }

/** A child's output. It is read into the sink at once, unless the sink has paused it. */
export class OutputPipe implements Output, Reader {
  readonly #sink: OutputSink
  readonly #held = new Fifo()
  /** The output ends when the last one lets go. */
  readonly writers = new Set<object>()
  readonly roomWaiters: Array<() => void> = []
  #paused = false
  #ended = false
  #closed = false

  constructor(sink: OutputSink) {
    this.#sink = sink
  }

  get closed(): boolean {
    return this.#closed
  }

  write(bytes: Uint8Array): number {
    let taken = 0
    while (taken < bytes.length) {
      const room = pipeCapacity - this.#held.size
      if (room === 0) break
      const piece = bytes.subarray(taken, taken + room)
      this.#held.push(piece)
      taken += piece.length
      this.pump()
    }
    return taken
  }

  letGo(writer: object): void {
    this.writers.delete(writer)
  }

  pump(): void {
    this.#read(Infinity)
  }

  /** The end of a pipe is told by its writers. */
  finish(): void {}

  resume(): void {
    this.#paused = false
  }

  drain(): "empty" | "ended" | "bound" | "paused" {
    const read = this.#read(pipeCapacity)
    if (this.#ended || this.#closed) return "ended"
    if (this.#paused) return "paused"
    return read >= pipeCapacity ? "bound" : "empty"
  }

  close(): void {
    this.#closed = true
    this.#held.clear()
    callAll(this.roomWaiters)
  }

  #read(limit: number): number {
    let read = 0
    while (!this.#paused && !this.#closed && this.#held.size > 0 && read < limit) {
      const region = this.#sink.reserve()
      const bytes = this.#held.shift(Math.min(region.length, limit - read))
      region.set(bytes)
      read += bytes.length
      // Set before anybody is called: a sink that asks for the rest from within `commit` finds a consistent pipe.
      if (!this.#sink.commit(bytes.length)) this.#paused = true
    }
    if (read > 0) callAll(this.roomWaiters)
    if (!this.#paused && !this.#closed && !this.#ended && this.#held.size === 0 && this.writers.size === 0) {
      this.#ended = true
      this.#sink.end()
    }
    return read
  }
}

/** A detached child's output: kept from the first byte on, with any number of readers, or none. */
export class OutputFile implements Output {
  readonly writers = new Set<object>()
  readonly roomWaiters: Array<() => void> = []
  /** A file never ends its writer. */
  readonly closed = false
  readonly #readers = new Set<FileReader>()
  #bytes = new Uint8Array(0)
  #size = 0

  get size(): number {
    return this.#size
  }

  write(bytes: Uint8Array): number {
    const size = this.#size + bytes.length
    if (size > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(size, 2 * this.#bytes.length))
      larger.set(this.#bytes.subarray(0, this.#size))
      this.#bytes = larger
    }
    this.#bytes.set(bytes, this.#size)
    this.#size = size
    this.pump()
    return bytes.length
  }

  letGo(writer: object): void {
    this.writers.delete(writer)
  }

  pump(): void {
    for (const reader of this.#readers) reader.pump()
  }

  /** A copy of at most `limit` bytes from `offset` on. */
  read(offset: number, limit: number): Uint8Array {
    return this.#bytes.slice(Math.min(offset, this.#size), Math.min(offset + limit, this.#size))
  }

  /** Follows it from its first byte on. Nothing is read before the next write or `pump`. */
  follow(sink: OutputSink): Reader {
    const reader = new FileReader(this, sink, () => this.#readers.delete(reader))
    this.#readers.add(reader)
    return reader
  }
}

/** One reader of a file. A file does not tell when nobody is left to write: its stream ends when it is told to. */
class FileReader implements Reader {
  readonly #file: OutputFile
  readonly #sink: OutputSink
  readonly #forget: () => void
  #offset = 0
  #paused = false
  #finished = false
  #ended = false

  constructor(file: OutputFile, sink: OutputSink, forget: () => void) {
    this.#file = file
    this.#sink = sink
    this.#forget = forget
  }

  pump(): void {
    this.#read(Infinity)
  }

  resume(): void {
    this.#paused = false
  }

  drain(): "empty" | "ended" | "bound" | "paused" {
    const read = this.#read(pipeCapacity)
    if (this.#ended) return "ended"
    if (this.#paused) return "paused"
    return read >= pipeCapacity ? "bound" : "empty"
  }

  finish(): void {
    this.#finished = true
    this.pump()
  }

  close(): void {
    this.#ended = true
    this.#forget()
  }

  #read(limit: number): number {
    let read = 0
    while (!this.#paused && !this.#ended && this.#offset < this.#file.size && read < limit) {
      const region = this.#sink.reserve()
      const bytes = this.#file.read(this.#offset, Math.min(region.length, limit - read))
      region.set(bytes)
      read += bytes.length
      this.#offset += bytes.length
      // Set before anybody is called: a sink that asks for the rest from within `commit` finds a consistent reader.
      if (!this.#sink.commit(bytes.length)) this.#paused = true
    }
    if (this.#finished && !this.#paused && !this.#ended && this.#offset === this.#file.size) {
      this.close()
      this.#sink.end()
    }
    return read
  }
}

interface PendingWrite {
  readonly bytes: Uint8Array
  taken: number
  readonly done: (taken: number) => void
}

/** A child's stdin. */
export class InputPipe {
  readonly #held = new Fifo()
  readonly #pending: Array<PendingWrite> = []
  readonly #closeWaiters: Array<() => void> = []
  /** Called when there is something to read, or the end. */
  readonly readWaiters: Array<() => void> = []
  #readable = true
  #endAsked = false

  /** Whether the writer has ended it, and all was read. */
  get ended(): boolean {
    return this.#endAsked && this.#pending.length === 0 && this.#held.size === 0
  }

  get available(): number {
    return this.#held.size
  }

  write(bytes: Uint8Array, done: (taken: number) => void): void {
    if (this.#endAsked || bytes.length === 0) return done(0)
    this.#pending.push({ bytes: bytes.slice(), taken: 0, done })
    this.#settle()
  }

  read(limit: number): Uint8Array {
    const bytes = this.#held.shift(limit).slice()
    this.#settle()
    return bytes
  }

  /** Ends it once all that was written has been taken. */
  end(done: () => void): void {
    this.#endAsked = true
    this.#closeWaiters.push(done)
    this.#settle()
  }

  /** Drops what has not been taken: those who wrote it learn how much was. */
  drop(): void {
    this.#endAsked = true
    this.#abandon()
    this.#settle()
  }

  /** The child let go of it, or has gone. */
  closeReader(): void {
    this.#readable = false
    this.#held.clear()
    this.#abandon()
    this.#settle()
  }

  #abandon(): void {
    for (const write of this.#pending.splice(0)) write.done(write.taken)
  }

  #settle(): void {
    if (!this.#readable) this.#abandon()
    let write = this.#pending[0]
    while (write !== undefined) {
      const piece = write.bytes.subarray(write.taken, write.taken + pipeCapacity - this.#held.size)
      this.#held.push(piece)
      write.taken += piece.length
      if (write.taken < write.bytes.length) break
      this.#pending.shift()
      write.done(write.taken)
      write = this.#pending[0]
    }
    if (this.#endAsked && this.#pending.length === 0) callAll(this.#closeWaiters)
    if (this.#held.size > 0 || this.ended) callAll(this.readWaiters)
  }
}
