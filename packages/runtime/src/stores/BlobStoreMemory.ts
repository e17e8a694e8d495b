/**
 * Blobs in memory: for tests, and for programs whose output may touch no disk. Gone with the process.
 *
 * Every append is copied, so a blob costs its size; nothing but the writers' own caps bounds that.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as BlobNames from "../internal/BlobNames.ts"
import * as BlobRange from "../internal/BlobRange.ts"
import * as Leases from "../internal/Leases.ts"
import * as BlobStore from "../ports/BlobStore.ts"

/** A store of its own, empty. */
export const make: Effect.Effect<BlobStore.BlobStore> = Effect.sync(() => new MemoryStore())

/** The store of `make`. */
export const layer: Layer.Layer<BlobStore.Service> = Layer.effect(BlobStore.Service, make)

class MemoryStore implements BlobStore.BlobStore {
  readonly #blobs = new Map<string, Parts>()
  readonly #writers = new Map<string, Set<MemoryWriter>>()
  readonly #leases = Leases.make((ref) =>
    Effect.suspend(() => {
      const parts = this.#blobs.get(ref)
      return parts === undefined ? Effect.fail(notFound("open")) : Effect.succeed(parts)
    })
  )

  write(name: string): Effect.Effect<BlobStore.BlobWriter, BlobStore.BlobError, Scope.Scope> {
    const writer = Effect.suspend(() => {
      if (!BlobNames.isName(name)) return Effect.fail(unusable("open"))
      const writer = new MemoryWriter(name, (ref, parts) => this.#blobs.set(ref, parts))
      const writers = this.#writers.get(name) ?? new Set()
      this.#writers.set(name, writers.add(writer))
      return Effect.succeed(writer)
    })
    return Effect.acquireRelease(writer, (writer) =>
      Effect.sync(() => {
        writer.close()
        const writers = this.#writers.get(name)
        if (writers?.delete(writer) === true && writers.size === 0) this.#writers.delete(name)
      }))
  }

  read(
    ref: string,
    options?: { readonly offset?: number | undefined; readonly limit?: number | undefined }
  ): Stream.Stream<Uint8Array, BlobStore.BlobError> {
    const range = BlobRange.of(options)
    if (range === null) return Stream.fail(BlobRange.refused())
    const parts = Effect.map(
      this.#leases.hold(ref),
      (parts) => Stream.fromIterable(slice(parts, range.offset, range.limit))
    )
    return Stream.unwrap(Effect.mapError(parts, () => notFound("read")))
  }

  lease(ref: string): Effect.Effect<void, BlobStore.BlobError, Scope.Scope> {
    return Effect.asVoid(this.#leases.hold(ref))
  }

  remove(name: string): Effect.Effect<boolean, BlobStore.BlobError> {
    return Effect.sync(() => {
      const writers = [...this.#writers.get(name) ?? []].filter((writer) => writer.close())
      const refs = [...this.#blobs.keys()].filter((ref) => BlobNames.isOf(ref, name))
      for (const ref of refs) this.#blobs.delete(ref)
      return refs.length + writers.length > 0
    })
  }
}

type Parts = ReadonlyArray<Uint8Array>

class MemoryWriter implements BlobStore.BlobWriter {
  readonly #name: string
  readonly #publish: (ref: string, parts: Parts) => void
  #parts: Array<Uint8Array> | null = []

  constructor(name: string, publish: (ref: string, parts: Parts) => void) {
    this.#name = name
    this.#publish = publish
  }

  append(bytes: Uint8Array): Effect.Effect<void, BlobStore.BlobError> {
    return Effect.suspend(() => {
      if (this.#parts === null) return Effect.fail(notFound("append"))
      this.#parts.push(bytes.slice())
      return Effect.void
    })
  }

  seal(label: string): Effect.Effect<string, BlobStore.BlobError> {
    return Effect.suspend(() => {
      const ref = BlobNames.ref(label, this.#name)
      if (this.#parts === null) return Effect.fail(notFound("seal"))
      if (ref === null) return Effect.fail(unusable("seal"))
      this.#publish(ref, this.#parts)
      this.close()
      return Effect.succeed(ref)
    })
  }

  /** `false`: it was closed. */
  close(): boolean {
    const wasOpen = this.#parts !== null
    this.#parts = null
    return wasOpen
  }
}

const unusable = (operation: BlobStore.BlobError["operation"]): BlobStore.BlobError =>
  new BlobStore.BlobError({ operation, problem: "Other", retryable: false })

const notFound = (operation: BlobStore.BlobError["operation"]): BlobStore.BlobError =>
  new BlobStore.BlobError({ operation, problem: "NotFound", retryable: false })

/** Copies of the bytes `[offset, offset + limit)`, part by part. */
function* slice(parts: Parts, offset: number, limit: number): Generator<Uint8Array> {
  let at = 0
  const end = offset + limit
  for (const part of parts) {
    const from = Math.max(offset - at, 0)
    const to = Math.min(end - at, part.length)
    if (from < to) yield part.slice(from, to)
    at += part.length
  }
}
