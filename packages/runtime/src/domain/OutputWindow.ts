/**
 * A bounded window over one output stream: its first bytes, its last bytes, and exact offsets of what lies between.
 *
 * Offsets count from the stream's first byte and never change. Bytes are written in place: `reserve` lends the region
 * where the next ones belong, `commit` says how many came. The first bytes are kept apart for ever (the head); the last
 * ones in a ring (the tail), which grows with what it holds. The ring is larger than the tail by some slack, so that
 * what is lent never overlaps what is kept. Nothing is allocated per chunk but the views that are handed out.
 *
 * No clock, no service: a mutable value for one owner, all of whose members are synchronous.
 */
import * as Schema from "effect/Schema"
import * as Utf8 from "./Utf8.ts"

/** Bytes that are not there: from offset `from` up to, not including, `to`. */
export interface Gap {
  readonly from: number
  readonly to: number
}

/** A cursor or a limit that is negative, not a whole number, or not a number. */
export class BadCursor extends Schema.TaggedError<BadCursor>()("BadCursor", {
  field: Schema.Literals(["since", "limit"]),
  value: Schema.Number
}) {
  override get message(): string {
    return `${this.field} must be a whole number of bytes, not ${this.value}`
  }
}

/**
 * One read. `data` covers the bytes from `gap.to` (`since` when there is no gap) up to `next`, which is the cursor for
 * the next read. `gap`: bytes at the read's beginning that can no longer be had. `sealed`: nothing comes after what is
 * there now. A text page that starts in a gap begins with a marker line, whose own bytes are not counted.
 */
export interface Page<out Data> {
  readonly data: Data
  readonly since: number
  readonly next: number
  readonly gap: Gap | null
  readonly sealed: boolean
}

/**
 * `since`: absolute byte offset, default 0. `limit`: most bytes of one page, 0, infinite or absent for no limit. A text
 * page is longer only when its first character is.
 */
export interface ReadOptions {
  readonly since?: number | undefined
  readonly limit?: number | undefined
}

/**
 * `head`: bytes of the beginning kept for ever, at most `limit`; `limit`: bytes kept in all. `protects`: start with
 * everything protected and with more slack, for an owner that moves the bytes elsewhere before they are overwritten.
 * `seen`: bytes that were there before, and of which none is kept; only with a limit of 0.
 */
export interface Options {
  readonly head: number
  readonly limit: number
  readonly protects: boolean
  readonly seen?: number | undefined
}

/**
 * The beginning and the end of a stream, in memory that the writer fills directly. Offsets are absolute and in bytes.
 * All of it is synchronous.
 */
export interface OutputWindow {
  /** Bytes committed so far: the offset of the next one. */
  readonly seen: number
  /** Bytes kept, at most the limit. What slack and protection hold beyond that is not counted. */
  readonly retained: number
  readonly truncated: boolean
  readonly sealed: boolean
  /** Most bytes lent at once. */
  readonly slice: number
  /** Bytes that can still be lent before a protected one would be overwritten. */
  readonly room: number
  /** The region for the next bytes, lent until `commit`: the same one again when asked twice. Not to be used sealed. */
  readonly reserve: () => Uint8Array
  /** Takes the first `count` bytes of the lent region (at most all of it) and gives them back as a view. */
  readonly commit: (count: number) => Uint8Array
  /**
   * Bytes from here on are not overwritten as long as `room` lasts; `null` protects nothing. `yielding`: when there is no
   * room for what comes, the oldest of them give way. Otherwise the caller has to stop writing in time; when it does not,
   * they give way all the same.
   */
  readonly protect: (from: number | null, yielding?: boolean) => void
  /** The lowest offset from `from` on that is still in memory, counting what is only protected or not yet overwritten. */
  readonly heldFrom: (from: number) => number
  /** A view of bytes in memory from `from` on: at most `limit`, fewer where the memory ends, none when they are gone. */
  readonly piece: (from: number, limit: number) => Uint8Array
  /** Throws nothing for a cursor past the end: the page is empty then, and `next` is the end. The data are a copy. */
  readonly readBytes: (since: number, limit: number) => Page<Uint8Array>
  /**
   * Like `readBytes`, cut at character borders. The rests of characters at both ends of a gap belong to the gap. An
   * incomplete character at the end of an unsealed stream is held back.
   */
  readonly readText: (since: number, limit: number) => Page<string>
  /** Beginning and end, `limit` bytes in all, with a marker line for what lies between. */
  readonly preview: (limit: number) => string
  /** The last `limit` bytes as text, from a character border on. */
  readonly tail: (limit: number) => string
  /** Nothing comes any more: gives the slack back. Idempotent. */
  readonly seal: () => void
  /** Keeps at most this much of the beginning and of the end. Only when sealed; nothing happens before. */
  readonly shrink: (head: number, tail: number) => void
}

/** What text shows in place of bytes that are gone. */
export const marker = (bytes: number): string => `... [${bytes} earlier output bytes truncated]\n`

/** The first thing wrong with a read's numbers, or `null`. Past the end is right, however far. */
export const checkRead = (options: ReadOptions | undefined): BadCursor | null => {
  const since = options?.since ?? 0
  const limit = options?.limit ?? 0
  if (!(Number.isInteger(since) && since >= 0)) return new BadCursor({ field: "since", value: since })
  if (!((Number.isInteger(limit) || limit === Infinity) && limit >= 0)) {
    return new BadCursor({ field: "limit", value: limit })
  }
  return null
}

/** The options with their defaults: no limit is `Infinity`. */
export const normalRead = (options: ReadOptions | undefined): { readonly since: number; readonly limit: number } => ({
  since: options?.since ?? 0,
  limit: options?.limit || Infinity
})

const firstAllocation = 4096
const smallSlice = 64 * 1024
const bigSlice = 256 * 1024
/** From this tail size on the bigger slice is worth its slack: a socket pair hands over that much at once. */
const bigTail = 512 * 1024
/** Slices of slack for an owner that writes elsewhere: some on their way, some filling, one lent. */
const protectedSlices = 8

const empty = new Uint8Array(0)

/** An empty window. Memory grows with what is written, up to the limit and its slack. */
export const make = (options: Options): OutputWindow => new Window(options)

class Window implements OutputWindow {
  readonly slice: number
  readonly #maxRing: number
  #headLimit: number
  #tailLimit: number
  #head: Uint8Array = empty
  #ring: Uint8Array = empty
  /** The offset at position 0 of the ring (and at every multiple of its length from there). */
  #origin: number
  /** Below this the ring's bytes are overwritten, or may be at any moment. */
  #ringFrom: number
  #protected: number | null
  #yielding = false
  #lent: Uint8Array | null = null
  seen: number
  sealed = false

  constructor(options: Options) {
    this.#headLimit = Math.min(options.head, options.limit)
    this.#tailLimit = options.limit - this.#headLimit
    this.slice = this.#tailLimit >= bigTail
      ? bigSlice
      : Math.min(smallSlice, Math.max(firstAllocation, this.#tailLimit))
    this.#maxRing = this.#tailLimit + this.slice * (options.protects ? protectedSlices : 1)
    this.#origin = this.#headLimit
    this.#ringFrom = this.#headLimit
    this.#protected = options.protects ? 0 : null
    this.seen = options.limit === 0 ? options.seen ?? 0 : 0
  }

  get retained(): number {
    return this.#headEnd + this.seen - this.#tailStart
  }

  get truncated(): boolean {
    return this.#tailStart > this.#headEnd
  }

  get room(): number {
    return this.#maxRing - (this.seen - this.#needed)
  }

  reserve(): Uint8Array {
    if (this.#lent === null) this.#lent = this.seen < this.#headLimit ? this.#lendHead() : this.#lendRing()
    return this.#lent
  }

  commit(count: number): Uint8Array {
    const lent = this.#lent
    if (lent === null) return empty
    this.#lent = null
    const taken = count >= lent.length ? lent : lent.subarray(0, Math.max(0, count))
    this.seen += taken.length
    return taken
  }

  protect(from: number | null, yielding = false): void {
    this.#protected = from
    this.#yielding = yielding
  }

  heldFrom(from: number): number {
    return from < this.#headEnd ? from : Math.min(this.seen, Math.max(from, this.#ringFrom))
  }

  piece(from: number, limit: number): Uint8Array {
    if (from < this.#headEnd) return this.#head.subarray(from, Math.min(this.#headEnd, from + limit))
    if (from < this.#ringFrom || from >= this.seen) return empty
    const at = this.#position(from)
    return this.#ring.subarray(at, at + Math.min(limit, this.seen - from, this.#ring.length - at))
  }

  readBytes(since: number, limit: number): Page<Uint8Array> {
    if (since >= this.seen) return this.#page(empty, this.seen, null, this.seen)
    const gap = this.#gapAt(since, this.#headEnd, this.#tailStart)
    const start = gap === null ? since : gap.to
    const end = Math.min(start + limit, this.#regionEnd(start, this.#headEnd))
    return this.#page(this.#copy(start, end), since, gap, end)
  }

  readText(since: number, limit: number): Page<string> {
    if (since >= this.seen) return this.#page("", this.seen, null, this.seen)
    const headEnd = this.#headBorder(this.#headEnd)
    const gap = this.#gapAt(since, headEnd, this.#tailBorder(this.#tailStart))
    const start = gap === null ? since : gap.to
    const region = this.#regionEnd(start, headEnd)
    const bytes = this.#copy(start, Math.min(start + limit + 4, region))
    const length = Utf8.textLength(bytes, limit, region < this.seen || this.sealed)
    const text = Utf8.decode(bytes.subarray(0, length))
    return this.#page(gap === null ? text : marker(gap.to - gap.from) + text, since, gap, start + length)
  }

  preview(limit: number): string {
    if (!this.truncated && this.seen <= limit) return this.#text(0, this.seen)
    const headEnd = this.#headBorder(Math.min(this.#headEnd, Math.floor(limit / 2)))
    const tailStart = this.#tailBorder(Math.max(this.#tailStart, this.seen - Math.ceil(limit / 2)))
    const head = this.#text(0, headEnd)
    const line = head === "" || head.endsWith("\n") ? "" : "\n"
    return head + line + marker(tailStart - headEnd) + this.#text(tailStart, this.seen)
  }

  tail(limit: number): string {
    const start = this.truncated ? this.#tailStart : 0
    return this.#text(this.#tailBorder(Math.max(start, this.seen - limit)), this.seen)
  }

  seal(): void {
    if (this.sealed) return
    this.sealed = true
    this.#lent = null
    this.#protected = null
    this.#compact(this.#headLimit, this.#tailLimit)
  }

  shrink(head: number, tail: number): void {
    if (this.sealed) this.#compact(Math.min(head, this.#headLimit), Math.min(tail, this.#tailLimit))
  }

  get #headEnd(): number {
    return Math.min(this.seen, this.#headLimit)
  }

  get #tailStart(): number {
    return Math.max(this.#headEnd, this.seen - this.#tailLimit)
  }

  /** The lowest offset in the ring that must not be overwritten. */
  get #needed(): number {
    const tailStart = this.#tailStart
    return this.#protected === null ? tailStart : Math.max(this.#ringFrom, Math.min(tailStart, this.#protected))
  }

  #position(offset: number): number {
    return (offset - this.#origin) % this.#ring.length
  }

  #lendHead(): Uint8Array {
    const size = this.#head.length
    if (size < this.#headLimit && size - this.seen <= size / 4) {
      const larger = new Uint8Array(Math.min(this.#headLimit, Math.max(firstAllocation, size * 2)))
      larger.set(this.#head)
      this.#head = larger
    }
    return this.#head.subarray(this.seen, Math.min(this.#head.length, this.seen + this.slice))
  }

  #lendRing(): Uint8Array {
    if (this.room < (this.#yielding ? this.slice : 1)) this.protect(this.seen + this.slice - this.#maxRing, true)
    this.#growRing()
    const size = this.#ring.length
    const at = this.#position(this.seen)
    const room = size - (this.seen - this.#needed)
    const length = Math.min(this.slice, room, size - at)
    this.#ringFrom = Math.max(this.#ringFrom, this.seen + length - size)
    return this.#ring.subarray(at, at + length)
  }

  /** Leaves at least a quarter of the ring free, so that what is lent does not get small, until the ring is at its most. */
  #growRing(): void {
    const from = this.#needed
    const used = this.seen - from
    let size = Math.max(this.#ring.length, Math.min(firstAllocation, this.#maxRing))
    while (size < this.#maxRing && size - used < size / 4) size = Math.min(this.#maxRing, size * 2)
    if (size === this.#ring.length) return
    const larger = new Uint8Array(size)
    this.#copyTo(larger, from, this.seen)
    this.#ring = larger
    this.#origin = from
    this.#ringFrom = from
  }

  #compact(headLimit: number, tailLimit: number): void {
    const headEnd = Math.min(this.#headEnd, headLimit)
    const tailStart = Math.max(headEnd, this.seen - tailLimit)
    const head = this.#copy(0, headEnd)
    const ring = this.#copy(tailStart, this.seen)
    this.#headLimit = headLimit
    this.#tailLimit = tailLimit
    this.#head = head
    this.#ring = ring
    this.#origin = tailStart
    this.#ringFrom = tailStart
  }

  #copy(from: number, to: number): Uint8Array {
    if (to <= from) return empty
    const bytes = new Uint8Array(to - from)
    this.#copyTo(bytes, from, to)
    return bytes
  }

  /** All of it is in memory. */
  #copyTo(target: Uint8Array, from: number, to: number): void {
    for (let offset = from; offset < to;) {
      const piece = this.piece(offset, to - offset)
      target.set(piece, offset - from)
      offset += piece.length
    }
  }

  #gapAt(since: number, headEnd: number, tailStart: number): Gap | null {
    return this.truncated && since >= headEnd && since < tailStart ? { from: since, to: tailStart } : null
  }

  #regionEnd(start: number, headEnd: number): number {
    return this.truncated && start < headEnd ? headEnd : this.seen
  }

  /** A cut of the head at `end`, moved back to a border. Where nothing is cut off it stays. */
  #headBorder(end: number): number {
    return end === this.seen ? end : Utf8.borderBefore(this.#head, 0, end)
  }

  /** A cut of the tail at `start`, moved on to a border. */
  #tailBorder(start: number): number {
    if (start === 0) return 0
    const bytes = this.#copy(start, Math.min(this.seen, start + 4))
    return start + Utf8.borderAfter(bytes, 0, bytes.length)
  }

  #text(from: number, to: number): string {
    const bytes = this.#copy(from, to)
    return Utf8.decode(bytes.subarray(0, Utf8.textLength(bytes, Infinity, to < this.seen || this.sealed)))
  }

  #page<Data>(data: Data, since: number, gap: Gap | null, next: number): Page<Data> {
    return { data, since, next, gap, sealed: this.sealed }
  }
}
