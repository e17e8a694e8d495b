/**
 * What is kept of one output stream of one process, who may read it, and where the rest goes.
 *
 * One instance holds a bounded window in memory (`OutputWindow`), the hash of everything seen, and, when output is lost
 * from memory and a blob store is given, the spill of the complete output. It owns no process, decides nothing about one
 * and holds no fiber while nothing is spilled: bytes come in by plain calls (`sink`), never through an Effect.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { BadCursor, type Gap } from "../domain/OutputWindow.ts"
import type { BlobStore } from "../ports/BlobStore.ts"
import type { OutputSink, Sha256 } from "../ports/ProcessDriver.ts"

export { BadCursor, type Gap }

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
 * `since`: absolute byte offset, default 0. `limit`: most bytes of one page, 0 or absent for no limit. A text page is
 * longer only when its first character is. A page that comes from a blob holds at most 1 MiB, whatever the limit.
 */
export interface ReadOptions {
  readonly since?: number | undefined
  readonly limit?: number | undefined
}

/**
 * Read-only access to one stream. Needs no service and stays usable when the process and its runtime are gone.
 *
 * Reads fail only for a cursor or limit that is negative or no whole number; what cannot be read any more is told as a
 * gap. Pages are copies. `follow`: history from `since`, then live, ending at the seal; `limit` is the page size
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

/** How output that memory loses goes into a blob store. */
export interface SpillOptions {
  readonly store: BlobStore
  /** Most bytes of one blob; 0 for no cap. Past it the blob is partial, and the process is not disturbed. */
  readonly cap: number
  /** Runs an effect in a fiber of the runtime; what it returns and how it ends is of no interest. */
  readonly fork: (effect: Effect.Effect<void>) => void
  /** How long one call of the store may take before the spill counts as failed. Default 10,000. */
  readonly stallMillis?: number | undefined
}

export interface Options {
  /** Who writes, such as the process id. Names the temporary file and a partial blob. */
  readonly name: string
  /** Bytes of the beginning kept in memory for ever; at most `limit`. */
  readonly head: number
  /** Bytes kept in memory in all. */
  readonly limit: number
  /** Bytes after which `onCap` is called, once; 0 for none. Output goes on being counted and kept. */
  readonly cap: number
  readonly onCap: () => void
  readonly spill: SpillOptions | null
  readonly sha256: Sha256
  /** Monotonic milliseconds; called once a commit. */
  readonly now: () => number
  /** Bytes of `View.preview` and of what `shrink` keeps. Default 4 KiB. */
  readonly preview?: number | undefined
}

export interface OutputRetention {
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
  /** Completes when the sink has been told of the stream's end, or at the seal. */
  readonly ended: Effect.Effect<void>
  readonly view: View
  readonly metadata: () => Metadata
  /** The last `bytes` bytes as text, beginning at a character border. */
  readonly tail: (bytes: number) => string
  /** After the seal: keeps only as much in memory as the preview shows. Nothing happens before. */
  readonly shrink: () => void
  /** Goes on with a failed spill, waiting for it. `false`: nothing to retry, or failed again. */
  readonly retrySpill: Effect.Effect<boolean>
  /** Gives the blob's reference back and drops an unfinished one. Memory stays readable. Idempotent, never fails. */
  readonly dispose: Effect.Effect<void>
}

export declare const make: (options: Options) => OutputRetention
