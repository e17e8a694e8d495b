/**
 * Where output can be read again that memory does not hold: a sealed blob, or the file of a detached process.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Gap } from "../domain/OutputWindow.ts"
import type { BlobStore } from "../ports/BlobStore.ts"
import { within } from "./Within.ts"

/** A run of bytes in the source: stream offset `start` is the source's byte `offset`, and `length` bytes follow. */
export interface Place {
  readonly start: number
  readonly offset: number
  readonly length: number
}

export interface OutputSource {
  /** Where it has the byte at `since`, or the first one after it that it has, of `seen` bytes in all. `null`: none. */
  readonly locate: (since: number, seen: number) => Place | null
  /** Bytes of the source, `null` when not all of them could be read. */
  readonly read: (offset: number, length: number) => Effect.Effect<Uint8Array | null>
  /** The same for a reader of many pages: as long as the scope is open, its bytes stay, where that can be had. */
  readonly hold: Effect.Effect<OutputSource | null, never, Scope.Scope>
}

/** What a blob lacks: nothing, or one run in the middle. `length`: bytes that it holds. */
export interface Extent {
  readonly gap: Gap | null
  readonly length: number
}

/** Where a blob of this extent has the byte at `since`, or the first one after it. */
export const locate = ({ gap, length }: Extent, since: number, seen: number): Place | null => {
  if (since >= seen) return null
  if (gap === null) return { start: since, offset: since, length: seen - since }
  if (since < gap.from) return { start: since, offset: since, length: gap.from - since }
  const start = Math.max(since, gap.to)
  return start >= seen ? null : { start, offset: length - (seen - start), length: seen - start }
}

/** Bytes of a blob, `null` when not all of them could be read within `millis`. */
export const readBlob = (
  store: Pick<BlobStore, "read">,
  blob: string,
  place: { readonly offset: number; readonly length: number },
  millis: number
): Effect.Effect<Uint8Array | null> => {
  const { length, offset } = place
  const bytes = () =>
    Stream.runFold(
      store.read(blob, { offset, limit: length }),
      () => ({ into: new Uint8Array(length), at: 0 }),
      (read, chunk) => {
        read.into.set(chunk.subarray(0, length - read.at), read.at)
        return { into: read.into, at: Math.min(length, read.at + chunk.length) }
      }
    )
  return within(bytes, millis).pipe(
    Effect.map((read) => Option.isSome(read) && read.value.at === length ? read.value.into : null),
    // Whatever is wrong with the store, the bytes are a gap for who reads, and its text is nobody's here.
    Effect.catchCause(() => Effect.succeed(null))
  )
}

/** A sealed blob of this extent. Every call is bounded by `millis`. */
export const ofBlob = (
  store: Pick<BlobStore, "read" | "lease">,
  blob: string,
  extent: Extent,
  millis: number
): OutputSource => {
  const source: OutputSource = {
    locate: (since, seen) => locate(extent, since, seen),
    read: (offset, length) => readBlob(store, blob, { offset, length }, millis),
    hold: Effect.suspend(() => Effect.as(leased(store, blob, millis), source))
  }
  return source
}

/** A lease that cannot be had is none: what it was for is a gap then, where the bytes are gone. */
const leased = (
  store: Pick<BlobStore, "lease">,
  blob: string,
  millis: number
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(
    Effect.scope,
    (scope) => Effect.ignoreCause(within(() => Scope.provide(store.lease(blob), scope), millis))
  )

/** A file that holds all of the output, as far as it was written. `read` is bounded by `millis`. */
export const ofFile = (
  read: (offset: number, length: number) => Effect.Effect<Uint8Array | null>,
  millis: number
): OutputSource => {
  const source: OutputSource = {
    locate: (since, seen) => locate({ gap: null, length: seen }, since, seen),
    read: (offset, length) =>
      within(() => read(offset, length), millis).pipe(
        Effect.map((bytes) => Option.isSome(bytes) && bytes.value?.length === length ? bytes.value : null),
        Effect.catchCause(() => Effect.succeed(null))
      ),
    hold: Effect.sync(() => source)
  }
  return source
}
