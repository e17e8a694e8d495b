/**
 * What is kept of one output stream of one process, who may read it, and where the rest goes.
 *
 * One instance holds a bounded window in memory (`OutputWindow`), the hash of everything seen, and, when output is lost
 * from memory and a blob store is given, the spill of the complete output. It owns no process, decides nothing about one
 * and holds no fiber while nothing is spilled: bytes come in by plain calls (`sink`), never through an Effect.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { BadCursor, type Gap, type Page, type ReadOptions } from "../domain/OutputWindow.ts"
import * as OutputWindow from "../domain/OutputWindow.ts"
import * as Utf8 from "../domain/Utf8.ts"
import type * as OutputSource from "../internal/OutputSource.ts"
import * as OutputSpill from "../internal/OutputSpill.ts"
import type { OutputSink, Sha256 } from "../ports/ProcessDriver.ts"

export { BadCursor, type Gap, type Page, type ReadOptions }

/**
 * Where the spill is.
 *
 * - `none`: nothing had to be spilled, or nothing may be.
 * - `writing`: on its way into a blob.
 * - `complete`: the blob holds every byte seen.
 * - `partial`: the blob lacks the bytes of `gap`; also while it still grows, once bytes are known to be missing.
 * - `failed`: the store refused or hung. The process flows on; `retrySpill` may go on from here.
 */
export const SpillState = Schema.Literals(["none", "writing", "complete", "partial", "failed"])
export type SpillState = typeof SpillState.Type

/**
 * What is known of one stream. All sizes are bytes.
 *
 * - `bytesRetained`: in memory now. `truncated`: fewer than `bytesSeen`.
 * - `sealed`: nothing is added any more. `drained`: the stream was read to its end before that; `false` while unsealed.
 * - `sha256`: of everything seen, lower-case hex; `null` before the seal.
 * - `blob`: the reference under which the store holds the output; `null` when there is none (yet).
 * - `spilledBytes`: bytes the store has taken. `capped`: the spill ended at its own cap.
 * - `gap`: from the first byte the spill is known to lack to the end of the last such run. A blob with a gap holds
 *   `[0, gap.from)` at its beginning and `[gap.to, bytesSeen)` at its end.
 */
export const Metadata = Schema.Struct({
  bytesSeen: Schema.Natural,
  bytesRetained: Schema.Natural,
  truncated: Schema.Boolean,
  sealed: Schema.Boolean,
  drained: Schema.Boolean,
  sha256: Schema.NullOr(Schema.String),
  blob: Schema.NullOr(Schema.String),
  spill: SpillState,
  spilledBytes: Schema.Natural,
  capped: Schema.Boolean,
  gap: Schema.NullOr(Schema.Struct({ from: Schema.Natural, to: Schema.Natural }))
})
export interface Metadata extends Schema.Schema.Type<typeof Metadata> {}

/**
 * Read-only access to one stream. Needs no service and stays usable when the process and its runtime are gone.
 *
 * Reads fail only for a cursor or limit that is negative or no whole number; what cannot be read any more is told as a
 * gap. Pages are copies. What memory has lost is read from the sealed blob, at most 1 MiB a page. `follow`: history from `since`, then live, ending at the seal; `limit` is the page size
 * (default 64 KiB). A follower that does not pull costs nothing and holds nobody up; it is told what it missed.
 */
export interface View {
  readonly metadata: Effect.Effect<Metadata>
  /** Beginning and end as text, within the preview size (default 4 KiB), a marker line for what lies between. */
  readonly preview: Effect.Effect<string>
  readonly read: (options?: ReadOptions) => Effect.Effect<Page<string>, BadCursor>
  readonly readBytes: (options?: ReadOptions) => Effect.Effect<Page<Uint8Array>, BadCursor>
  readonly follow: (options?: ReadOptions) => Stream.Stream<Page<string>, BadCursor>
  readonly followBytes: (options?: ReadOptions) => Stream.Stream<Page<Uint8Array>, BadCursor>
}

/** Where, and up to how many bytes, a stream spills; and how long it waits for the store. */
export type SpillOptions = OutputSpill.Options

/** What one stream is kept by. Sizes are bytes; not validated here, since `ProcessOptions` has done it. */
export interface Options {
  /** Whose output it is, such as the process id and the stream. Names its blobs. */
  readonly name: string
  /** Bytes of the beginning kept in memory for ever; at most `limit`. */
  readonly head: number
  /** Bytes kept in memory in all. */
  readonly limit: number
  /** Bytes after which `onCap` is called, once; 0 for none. Output goes on being counted and kept. */
  readonly cap: number
  readonly onCap: () => void
  readonly spill: SpillOptions | null
  /** Where memory's losses are read from, when somebody else keeps all of it. Not together with a spill. */
  readonly source?: OutputSource.OutputSource | null | undefined
  readonly sha256: Sha256
  /** Monotonic milliseconds; called once a commit. */
  readonly now: () => number
  /** Bytes of `View.preview` and of what `shrink` keeps. Default 4 KiB. */
  readonly preview?: number | undefined
}

/** One stream of a process, from its first byte to its last reader. A store that fails shows in `Metadata` only. */
export interface OutputRetention {
  /** Whose output it is: what its blobs are removed by. */
  readonly name: string
  /** For the driver. Calls that come after the seal are taken and dropped. */
  readonly sink: OutputSink
  /** Monotonic milliseconds of the last commit; of `make` before the first. */
  readonly lastOutputAt: number
  readonly bytesSeen: number
  /** Sets what is called when a stream that a commit has paused may flow again. Replaces the one before. */
  readonly onResume: (resume: () => void) => void
  /**
   * Ends the stream: what comes later is dropped; a spill is finished, the hash fixed and followers end. Interrupted, it
   * seals all the same and counts an unfinished spill as failed. A second call waits for the first.
   */
  readonly seal: (options: { readonly drained: boolean }) => Effect.Effect<void>
  /** Sets what is called when the sink is told of the stream's end, be it sealed by then or not; at once if it was. */
  readonly onEnd: (end: () => void) => void
  /** Completes when the sink has been told of the stream's end, or at the seal. */
  readonly ended: Effect.Effect<void>
  readonly view: View
  /** Whether what was seen can be read: from memory, or from where else it was kept. */
  readonly isReadable: boolean
  readonly metadata: () => Metadata
  /** The last `bytes` bytes as text, beginning at a character border. */
  readonly tail: (bytes: number) => string
  /** The same, read again from where the output was kept when memory holds none of it; empty when it was kept nowhere. */
  readonly readTail: (bytes: number) => Effect.Effect<string>
  /** After the seal: keeps only as much in memory as the preview shows. Nothing happens before. */
  readonly shrink: () => void
  /** Goes on with a failed spill, waiting for it. `false`: nothing to retry, or failed again. */
  readonly retrySpill: Effect.Effect<boolean>
  /**
   * Removes the blob, or what there is of it. Memory stays readable, and a read or follow that has begun keeps the blob to
   * its end. Idempotent, never fails.
   */
  readonly dispose: Effect.Effect<void>
}

const defaultPreview = 4096
const followPage = 64 * 1024
const blobPage = 1024 * 1024

/** What is known of a stream of which nothing is in memory: one of a process that ended, or began, in an earlier life. */
export interface Recorded {
  readonly name: string
  readonly bytesSeen: number
  readonly drained: boolean
  readonly sha256: string | null
  readonly blob: string | null
  readonly spilledBytes: number
  readonly gap: Gap | null
  /** Where it can be read; `null`: nowhere any more. */
  readonly source: OutputSource.OutputSource | null
  /** Gives back what holds it. */
  readonly dispose: Effect.Effect<void>
}

/** Where bytes go that nobody wants any more. Never read. */
const scrap = new Uint8Array(4096)

/** An empty stream. It allocates with what comes, and starts nothing before there is something to spill. */
export const make = (options: Options): OutputRetention => new Retention(options)

/**
 * A sealed stream of an earlier life. Its bytes are read from where they were kept; those that were kept nowhere are a
 * gap.
 */
export const recorded = (stream: Recorded): OutputRetention => {
  const retention = new Retention({
    name: stream.name,
    head: 0,
    limit: 0,
    seen: stream.bytesSeen,
    cap: 0,
    onCap: () => {},
    spill: null,
    source: stream.source,
    sha256: { update: () => {}, digest: () => "" },
    now: () => 0
  })
  retention.sealAs(stream)
  return retention
}

class Retention implements OutputRetention, OutputSink {
  readonly name: string
  readonly #window: OutputWindow.OutputWindow
  readonly #spill: OutputSpill.OutputSpill | null
  readonly #source: OutputSource.OutputSource | null
  readonly #sha256: Sha256
  readonly #now: () => number
  readonly #cap: number
  readonly #onCap: () => void
  readonly #preview: number
  #resume: (() => void) | null = null
  #end: (() => void) | null = null
  #endTold = false
  #view: View | null = null
  #capPassed = false
  #ended = false
  /** From the beginning of the seal on nothing is taken any more. */
  #closed = false
  #drained = false
  #digest: string | null = null
  #recorded: Recorded | null = null
  readonly #readers = new Set<Reader>()
  /** One-shot callbacks of whoever waits for a change right now. */
  #waiting: Set<() => void> | null = null
  lastOutputAt: number

  constructor(options: Options & { readonly seen?: number }) {
    this.name = options.name
    this.#window = OutputWindow.make({
      head: options.head,
      limit: options.limit,
      protects: options.spill !== null,
      seen: options.seen
    })
    this.#source = options.source ?? null
    this.#spill = options.spill === null
      ? null
      : OutputSpill.make(options.name, this.#window, options.spill, () => this.#resume?.())
    this.#sha256 = options.sha256
    this.#now = options.now
    this.#cap = options.cap
    this.#onCap = options.onCap
    this.#preview = options.preview ?? defaultPreview
    this.lastOutputAt = options.now()
  }

  get sink(): OutputSink {
    return this
  }

  get bytesSeen(): number {
    return this.#window.seen
  }

  reserve(): Uint8Array {
    if (this.#closed) return scrap
    this.#spill?.beforeReserve()
    return this.#window.reserve()
  }

  commit(count: number): boolean {
    if (this.#closed) return true
    const bytes = this.#window.commit(count)
    if (bytes.length === 0) return true
    this.#sha256.update(bytes)
    this.lastOutputAt = this.#now()
    const flows = this.#spill === null || this.#spill.afterCommit()
    this.#wake()
    if (this.#cap > 0 && !this.#capPassed && this.#window.seen > this.#cap) {
      this.#capPassed = true
      this.#onCap()
    }
    return flows
  }

  end(): void {
    this.#ended = true
    this.#endTold = true
    this.#wake()
    this.#end?.()
  }

  onEnd(end: () => void): void {
    if (this.#endTold) end()
    else this.#end = end
  }

  onResume(resume: () => void): void {
    this.#resume = resume
  }

  seal(options: { readonly drained: boolean }): Effect.Effect<void> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => {
        if (this.#closed) return restore(this.#until(() => this.#window.sealed))
        this.#close(options.drained)
        const spill = this.#spill
        if (spill === null || !spill.begun) return Effect.sync(() => this.#sealWindow())
        return Effect.ensuring(restore(spill.finish(this.#digest ?? "")), Effect.sync(() => this.#sealWindow()))
      })
    )
  }

  get ended(): Effect.Effect<void> {
    return this.#until(() => this.#ended)
  }

  get isReadable(): boolean {
    if (this.#recorded === null || this.#source !== null) return true
    // Without a hash nobody saw the end of it, and the count is a lower bound.
    return this.#window.seen === 0 && this.#digest !== null
  }

  get view(): View {
    this.#view ??= this.#makeView()
    return this.#view
  }

  /** Nothing comes, and nothing was here. */
  sealAs(stream: Recorded): void {
    this.#close(stream.drained)
    this.#recorded = stream
    this.#digest = stream.sha256
    this.#endTold = true
    this.#sealWindow()
  }

  metadata(): Metadata {
    const window = this.#window
    const spill = this.#spill ?? storedSpill(this.#recorded)
    return {
      bytesSeen: window.seen,
      bytesRetained: window.retained,
      truncated: window.truncated,
      sealed: window.sealed,
      drained: window.sealed && this.#drained,
      sha256: window.sealed ? this.#digest : null,
      blob: spill.blob,
      spill: spill.state,
      spilledBytes: spill.spilledBytes,
      capped: spill.capped,
      gap: spill.gap
    }
  }

  tail(bytes: number): string {
    return this.#window.tail(bytes)
  }

  readTail(bytes: number): Effect.Effect<string> {
    return this.#recorded === null
      ? Effect.sync(() => this.tail(bytes))
      : Effect.map(this.#readEnd(bytes), (end) => Utf8.decode(end))
  }

  shrink(): void {
    this.#window.shrink(Math.floor(this.#preview / 2), Math.ceil(this.#preview / 2))
  }

  get retrySpill(): Effect.Effect<boolean> {
    return this.#spill === null ? Effect.succeed(false) : this.#spill.retry
  }

  get dispose(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const kept = this.#spill ?? this.#recorded
      if (kept === null) return Effect.void
      const holds = Effect.forEach(this.#readers, (reader) => this.#hold(reader), {
        concurrency: "unbounded",
        discard: true
      })
      return Effect.andThen(holds, kept.dispose)
    })
  }

  /** Keeps for a reader what it may still come to read. */
  #hold(reader: Reader): Effect.Effect<void> {
    const source = this.#source ?? this.#spill
    if (source === null || reader.held !== null) return Effect.void
    return Effect.map(Scope.provide(source.hold, reader.scope), (held) => {
      reader.held = held
    })
  }

  /** Somebody who reads what memory may not hold, as long as the scope is open. */
  get #reader(): Effect.Effect<Reader, never, Scope.Scope> {
    return Effect.flatMap(Effect.scope, (scope) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          const reader: Reader = { scope, held: null }
          this.#readers.add(reader)
          return reader
        }),
        (reader) => Effect.sync(() => this.#readers.delete(reader))
      ))
  }

  #readPreview(): Effect.Effect<string> {
    return Effect.suspend(() => {
      const seen = this.#window.seen
      const head = Math.floor(this.#preview / 2)
      if (seen <= this.#preview) return this.readTail(seen)
      return Effect.zipWith(
        this.#bytesAt(0, head),
        this.#readEnd(this.#preview - head),
        (bytes, tail) => {
          const end = bytes === null ? 0 : Utf8.borderBefore(bytes, 0, bytes.length)
          const text = bytes === null ? "" : Utf8.decode(bytes.subarray(0, end))
          const line = text === "" || text.endsWith("\n") ? "" : "\n"
          return text + line + OutputWindow.marker(seen - end - tail.length) + Utf8.decode(tail)
        }
      )
    })
  }

  /** From a character border on. */
  #readEnd(bytes: number): Effect.Effect<Uint8Array> {
    const from = Math.max(0, this.#window.seen - bytes)
    return Effect.map(this.#bytesAt(from, this.#window.seen - from), (found) => {
      if (found === null) return new Uint8Array(0)
      return found.subarray(from === 0 ? 0 : Utf8.borderAfter(found, 0, found.length))
    })
  }

  #bytesAt(from: number, length: number): Effect.Effect<Uint8Array | null> {
    const place = this.#source?.locate(from, this.#window.seen) ?? null
    if (this.#source === null || place === null || length === 0) return Effect.succeed(null)
    return this.#source.read(place.offset, Math.min(place.length, length))
  }

  #close(drained: boolean): void {
    this.#closed = true
    this.#ended = true
    this.#drained = drained
    this.#digest = this.#sha256.digest()
    this.#wake()
  }

  #sealWindow(): void {
    this.#window.seal()
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    if (waiting === null) return
    this.#waiting = null
    for (const wake of waiting) wake()
  }

  /**
   * Waits until `condition` holds, looking again after every change. Whoever waits goes on in a turn of its own, so that
   * its work is never done inside a commit; changes until then count as one.
   */
  #until(condition: () => boolean): Effect.Effect<void> {
    return Effect.suspend(() =>
      condition() ? Effect.void : Effect.flatMap(
        Effect.andThen(this.#change(condition), Effect.yieldNow),
        () => this.#until(condition)
      )
    )
  }

  #change(condition: () => boolean): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      if (condition()) {
        resume(Effect.void)
        return undefined
      }
      const wake = () => resume(Effect.void)
      this.#waiting ??= new Set()
      this.#waiting.add(wake)
      return Effect.sync(() => {
        this.#waiting?.delete(wake)
        if (this.#waiting?.size === 0) this.#waiting = null
      })
    })
  }

  #makeView(): View {
    const text: Form<string> = {
      fromMemory: (since, limit) => this.#window.readText(since, limit),
      fromBlob: (source, since, limit, lost) => this.#textFromBlob(source, since, limit, lost)
    }
    const bytes: Form<Uint8Array> = {
      fromMemory: (since, limit) => this.#window.readBytes(since, limit),
      fromBlob: (source, since, limit, lost) => this.#bytesFromBlob(source, since, limit, lost)
    }
    return {
      metadata: Effect.sync(() => this.metadata()),
      preview: Effect.suspend(() =>
        this.#recorded === null ? Effect.sync(() => this.#window.preview(this.#preview)) : this.#readPreview()
      ),
      read: (options) => this.#read(text, options),
      readBytes: (options) => this.#read(bytes, options),
      follow: (options) => this.#follow(text, options),
      followBytes: (options) => this.#follow(bytes, options)
    }
  }

  #read<Data>(form: Form<Data>, options: ReadOptions | undefined): Effect.Effect<Page<Data>, BadCursor> {
    return Effect.suspend(() => {
      const bad = OutputWindow.checkRead(options)
      if (bad !== null) return Effect.fail(bad)
      const { limit, since } = OutputWindow.normalRead(options)
      return this.#page(form, since, limit)
    })
  }

  /** From memory; where memory has a gap, from the blob as far as that has more. */
  #page<Data>(form: Form<Data>, since: number, limit: number, reader?: Reader): Effect.Effect<Page<Data>> {
    const page = form.fromMemory(since, limit)
    const { gap } = page
    if (gap === null || !this.#isElsewhere(reader)) return Effect.succeed(page)
    const read = (reader: Reader) => {
      const source = reader.held ?? this.#source ?? this.#spill
      return source === null ? Effect.succeed(null) : form.fromBlob(source, since, Math.min(limit, blobPage), gap)
    }
    const found = reader === undefined ? Effect.scoped(Effect.flatMap(this.#reader, read)) : read(reader)
    return Effect.map(found, (fromBlob) => fromBlob ?? page)
  }

  #isElsewhere(reader: Reader | undefined): boolean {
    return reader?.held != null || this.#source !== null || (this.#spill !== null && this.#spill.blob !== null)
  }

  #bytesFromBlob(source: Source, since: number, limit: number, lost: Gap): Effect.Effect<Page<Uint8Array> | null> {
    return this.#blobBytes(source, since, limit, lost, (bytes, place) => ({
      data: bytes,
      since,
      next: place.start + bytes.length,
      gap: gapBefore(since, place.start),
      sealed: this.#window.sealed
    }))
  }

  #textFromBlob(source: Source, since: number, limit: number, lost: Gap): Effect.Effect<Page<string> | null> {
    return this.#blobBytes(source, since, limit + 4, lost, (bytes, place) => {
      const skipped = place.start > since ? Utf8.borderAfter(bytes, 0, bytes.length) : 0
      const kept = bytes.subarray(skipped)
      const length = Utf8.textLength(kept, limit, bytes.length === place.length)
      const gap = gapBefore(since, place.start + skipped)
      const text = Utf8.decode(kept.subarray(0, length))
      return {
        data: gap === null ? text : OutputWindow.marker(gap.to - gap.from) + text,
        since,
        next: place.start + skipped + length,
        gap,
        sealed: this.#window.sealed
      }
    })
  }

  /** `null` when the blob has nothing before the end of what memory has lost, or cannot be read. */
  #blobBytes<A>(
    source: Source,
    since: number,
    limit: number,
    lost: Gap,
    use: (bytes: Uint8Array, place: OutputSource.Place) => A
  ): Effect.Effect<A | null> {
    const place = source.locate(since, this.#window.seen)
    if (place === null || place.start >= lost.to) return Effect.succeed(null)
    const bytes = source.read(place.offset, Math.min(place.length, limit))
    return Effect.map(bytes, (bytes) => bytes === null ? null : use(bytes, place))
  }

  #follow<Data>(form: Form<Data>, options: ReadOptions | undefined): Stream.Stream<Page<Data>, BadCursor> {
    return Stream.suspend(() => {
      const bad = OutputWindow.checkRead(options)
      if (bad !== null) return Stream.fail(bad)
      const { limit, since } = OutputWindow.normalRead(options)
      const pageLimit = limit === Infinity ? followPage : limit
      return Stream.unwrap(
        Effect.map(
          this.#reader,
          (reader) => Stream.unfold(since, (cursor) => this.#following(form, cursor, pageLimit, reader))
        )
      )
    })
  }

  /** The next page that moves the cursor, however long that takes; `undefined` at the end. */
  #following<Data>(
    form: Form<Data>,
    cursor: number,
    limit: number,
    reader: Reader
  ): Effect.Effect<readonly [Page<Data>, number] | undefined> {
    return Effect.suspend(() => {
      const seen = this.#window.seen
      const changed = () => this.#window.seen !== seen || this.#window.sealed
      return Effect.flatMap(this.#page(form, cursor, limit, reader), (page) => {
        if (page.next > cursor) return Effect.succeed([page, page.next] as const)
        if (page.sealed) return Effect.succeed(undefined)
        return Effect.flatMap(this.#until(changed), () => this.#following(form, cursor, limit, reader))
      })
    })
  }
}

/** What a blob of an earlier life says of itself. */
const storedSpill = (
  stream: Recorded | null
): Pick<OutputSpill.OutputSpill, "blob" | "state" | "spilledBytes" | "capped" | "gap"> => ({
  blob: stream?.blob ?? null,
  state: stream === null || stream.blob === null ? "none" : stream.gap === null ? "complete" : "partial",
  spilledBytes: stream?.spilledBytes ?? 0,
  capped: false,
  gap: stream?.gap ?? null
})

/** The two forms of a page: text and bytes. */
interface Form<Data> {
  readonly fromMemory: (since: number, limit: number) => Page<Data>
  readonly fromBlob: (source: Source, since: number, limit: number, lost: Gap) => Effect.Effect<Page<Data> | null>
}

type Source = Pick<OutputSource.OutputSource, "locate" | "read">

/** `held`: what was kept for it when the blob was removed. */
interface Reader {
  readonly scope: Scope.Scope
  held: Source | null
}

const gapBefore = (since: number, start: number): Gap | null => start > since ? { from: since, to: start } : null
