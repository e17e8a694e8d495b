/**
 * The port for bytes that do not fit in memory: written once, sealed, read by offset, removed when nobody needs them.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"

/** Carries no path and no message of the store's own. `code`: an errno-like name where there is one. */
export class BlobError extends Schema.TaggedError<BlobError>()("BlobError", {
  operation: Schema.Literals(["open", "append", "seal", "read", "remove"]),
  problem: Schema.Literals(["NotFound", "NoSpace", "QuotaExceeded", "Denied", "Other"]),
  retryable: Schema.Boolean
}) {
  override get message(): string {
    return `${this.operation}: ${this.problem}`
  }
}

/** A blob in the making. What it holds is not readable before `seal`; unsealed, it is dropped with its scope. */
export interface BlobWriter {
  /** All of the bytes or an error; after an error nothing of this call is part of the blob. `bytes` is borrowed. */
  readonly append: (bytes: Uint8Array) => Effect.Effect<void, BlobError>
  /**
   * Makes it durable under `ref`, in one step that a crash cannot split. The same content may be sealed twice under the
   * same `ref`: references are counted, each to be removed on its own.
   */
  readonly seal: (ref: string) => Effect.Effect<void, BlobError>
}

/** Content under references. Every error is a `BlobError`; interruption leaves no half of a blob that could be read. */
export interface BlobStore {
  /** Opens a writer. `name` tells who writes (a process id): it names the temporary file, and only that. */
  readonly write: (name: string) => Effect.Effect<BlobWriter, BlobError, Scope.Scope>
  /** From `offset` (default 0), at most `limit` bytes (default: to the end). Holds a lease while it is read. */
  readonly read: (
    ref: string,
    options?: { readonly offset?: number | undefined; readonly limit?: number | undefined }
  ) => Stream.Stream<Uint8Array, BlobError>
  /** While the scope is open the blob is not removed: for readers and repair. Fails with `NotFound` when there is none. */
  readonly lease: (ref: string) => Effect.Effect<void, BlobError, Scope.Scope>
  /**
   * Gives one reference back. The bytes go when it was the last one and no lease is held, else when the last lease ends.
   * `false`: there was none.
   */
  readonly remove: (ref: string) => Effect.Effect<boolean, BlobError>
}

/** Where output goes that memory would lose. Optional: without one nothing is spilled. */
class BlobStoreService extends Context.Service<BlobStoreService, BlobStore>()("@procyon/runtime/BlobStore") {}
export { BlobStoreService as Service }
