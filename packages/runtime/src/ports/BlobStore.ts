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
   * Makes it durable, in one step that a crash cannot split, and answers with its reference. `label` tells what is in it,
   * such as its digest: of one writer's name, equal labels mean equal bytes, and the later blob takes the earlier one's
   * place.
   */
  readonly seal: (label: string) => Effect.Effect<string, BlobError>
}

/**
 * Content under references, each of which belongs to the name that its writer gave: no two names share one, so whoever is
 * responsible for a name may remove what it has left, and takes nothing from anybody else. Many stores may stand on one
 * place. A store never removes on its own what is sealed, nor what somebody else is writing: what nobody removes stays.
 *
 * Every error is a `BlobError`; interruption leaves no half of a blob that could be read.
 */
export interface BlobStore {
  /**
   * Opens a writer. `name` tells whose the blob is: a process id, or another text that nobody else uses. One that is
   * longer than the place can hold is refused as `Other`.
   */
  readonly write: (name: string) => Effect.Effect<BlobWriter, BlobError, Scope.Scope>
  /**
   * From `offset` (default 0), at most `limit` bytes (default and `Infinity`: to the end). One that is negative or no whole
   * number is refused as `Other`; past the end there is nothing. Holds a lease while it is read. Parts are the reader's own.
   */
  readonly read: (
    ref: string,
    options?: { readonly offset?: number | undefined; readonly limit?: number | undefined }
  ) => Stream.Stream<Uint8Array, BlobError>
  /**
   * While the scope is open, this store can read the blob, also when it is removed: for readers and repair. Fails with
   * `NotFound` when there is none.
   */
  readonly lease: (ref: string) => Effect.Effect<void, BlobError, Scope.Scope>
  /**
   * Removes what was written under a name, sealed or not, and whoever wrote it: a writer that is still there cannot seal
   * it any more. To be called once its owner is over, or its writer is gone for certain. Leased bytes go with the last
   * lease, or with the process that holds it. `false`: there was nothing.
   */
  readonly remove: (name: string) => Effect.Effect<boolean, BlobError>
}

/** Where output goes that memory would lose. Optional: without one nothing is spilled. */
class BlobStoreService extends Context.Service<BlobStoreService, BlobStore>()("@procyon/runtime/BlobStore") {}
export { BlobStoreService as Service }
