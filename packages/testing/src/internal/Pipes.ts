/**
 * The two kinds of pipe between a driver and a scripted child, with the capacity and the ends of the real ones.
 *
 * Both are plain synchronous state: who has to wait gets called back.
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

/** A child's output. It is read into the sink at once, unless the sink has paused it. */
export class OutputPipe {
  readonly #sink: OutputSink
  readonly #held = new Fifo()
  /** Who holds the writing end. The output ends when the last one lets go. */
  readonly writers = new Set<object>()
  /** Called when there is room again, or the reading end was closed. */
  readonly roomWaiters: Array<() => void> = []
  #paused = false
  #ended = false
  #closed = false

  constructor(sink: OutputSink) {
    this.#sink = sink
  }

  /** The reader let go: a write would end the writer with SIGPIPE. */
  get closed(): boolean {
    return this.#closed
  }

  /** How many of the bytes the pipe took. */
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

  /** Reads what is there and tells the end, unless paused. */
  pump(): void {
    this.#read(Infinity)
  }

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
