/**
 * Blobs in memory: for tests, and for programs whose output may touch no disk. Gone with the process.
 *
 * Every append is copied, so a blob costs its size; nothing but the writers' own caps bounds that.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as BlobReferences from "../internal/BlobReferences.ts"
import * as BlobStore from "../ports/BlobStore.ts"

/** A store of its own, empty. */
export const make: Effect.Effect<BlobStore.BlobStore> = Effect.sync(() => new MemoryStore())

/** The store of `make`. */
export const layer: Layer.Layer<BlobStore.Service> = Layer.effect(BlobStore.Service, make)

class MemoryStore implements BlobStore.BlobStore {
  readonly #references = BlobReferences.make()
  readonly #blobs = new Map<string, ReadonlyArray<Uint8Array>>()

  write(_name: string): Effect.Effect<BlobStore.BlobWriter, BlobStore.BlobError, Scope.Scope> {
    const writer = Effect.sync(() =>
      new MemoryWriter((ref, parts) => {
        this.#blobs.set(ref, parts)
        this.#references.add(ref)
      })
    )
    return Effect.acquireRelease(writer, (writer) => Effect.sync(() => writer.close()))
  }

  read(
    ref: string,
    options?: { readonly offset?: number | undefined; readonly limit?: number | undefined }
  ): Stream.Stream<Uint8Array, BlobStore.BlobError> {
    const parts = Effect.map(
      this.#leased(ref, "read"),
      () => Stream.fromIterable(slice(this.#blobs.get(ref) ?? [], options?.offset ?? 0, options?.limit ?? Infinity))
    )
    return Stream.unwrap(parts)
  }

  lease(ref: string): Effect.Effect<void, BlobStore.BlobError, Scope.Scope> {
    return this.#leased(ref, "open")
  }

  remove(ref: string): Effect.Effect<boolean, BlobStore.BlobError> {
    return Effect.sync(() => {
      const left = this.#references.remove(ref)
      if (left === "last") this.#blobs.delete(ref)
      return left !== "gone"
    })
  }

  #leased(ref: string, operation: "open" | "read"): Effect.Effect<void, BlobStore.BlobError, Scope.Scope> {
    const lease = Effect.suspend(() => {
      if (!this.#references.has(ref)) return Effect.fail(notFound(operation))
      return Effect.sync(() => this.#references.lease(ref))
    })
    return Effect.acquireRelease(lease, () =>
      Effect.sync(() => {
        if (this.#references.release(ref)) this.#blobs.delete(ref)
      }))
  }
}

class MemoryWriter implements BlobStore.BlobWriter {
  readonly #publish: (ref: string, parts: ReadonlyArray<Uint8Array>) => void
  #parts: Array<Uint8Array> | null = []

  constructor(publish: (ref: string, parts: ReadonlyArray<Uint8Array>) => void) {
    this.#publish = publish
  }

  append(bytes: Uint8Array): Effect.Effect<void, BlobStore.BlobError> {
    return Effect.suspend(() => {
      if (this.#parts === null) return Effect.fail(notFound("append"))
      this.#parts.push(bytes.slice())
      return Effect.void
    })
  }

  seal(ref: string): Effect.Effect<void, BlobStore.BlobError> {
    return Effect.suspend(() => {
      if (this.#parts === null) return Effect.fail(notFound("seal"))
      this.#publish(ref, this.#parts)
      this.close()
      return Effect.void
    })
  }

  close(): void {
    this.#parts = null
  }
}

const notFound = (operation: BlobStore.BlobError["operation"]): BlobStore.BlobError =>
  new BlobStore.BlobError({ operation, problem: "NotFound", retryable: false })

/** Copies of the bytes `[offset, offset + limit)`, part by part. */
function* slice(parts: ReadonlyArray<Uint8Array>, offset: number, limit: number): Generator<Uint8Array> {
  let at = 0
  const end = offset + limit
  for (const part of parts) {
    const from = Math.max(offset - at, 0)
    const to = Math.min(end - at, part.length)
    if (from < to) yield part.slice(from, to)
    at += part.length
  }
}
