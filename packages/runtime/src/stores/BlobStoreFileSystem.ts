/**
 * Blobs as files in one directory, over Effect's own `FileSystem`.
 *
 * A blob is written to a temporary file and gets its name, which is its reference, by a rename after the bytes were
 * synced: a crash leaves either the whole blob or a temporary file. Temporary files that a crash left behind are removed
 * when the layer is built, told by the exact form of their names; no other file is ever touched. The directory therefore
 * belongs to one runtime at a time.
 *
 * References and leases are counted in memory only. A blob that is there when the layer is built has one reference, so a
 * content that several had shared goes with the first of them that gives it back after a restart.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as BlobReferences from "../internal/BlobReferences.ts"
import * as BlobStore from "../ports/BlobStore.ts"

/** Where the files are, and how much they may take. */
export interface Options {
  /** Made with mode 0700 when it is missing, and set to it when it is there. */
  readonly directory: string
  /** Most bytes of all blobs together, those in the making included; 0 or absent for no quota. Past it appends fail. */
  readonly quotaBytes?: number | undefined
}

/** Fails with `open` when the directory cannot be made, protected, or read. */
export const make = (
  options: Options
): Effect.Effect<BlobStore.BlobStore, BlobStore.BlobError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const place: Place = {
      fs,
      directory: options.directory,
      at: (name) => path.join(options.directory, name)
    }
    yield* fs.makeDirectory(options.directory, { recursive: true, mode: 0o700 })
    yield* fs.chmod(options.directory, 0o700)
    const store = new FileStore(place, options.quotaBytes || Infinity)
    for (const name of yield* fs.readDirectory(options.directory)) {
      if (!temporary.test(name) && !sealed.test(name)) continue
      const info = yield* fs.lstat(place.at(name))
      if (info.type !== "File") continue
      if (temporary.test(name)) yield* fs.remove(place.at(name), { force: true })
      else store.found(name, Number(info.size))
    }
    return store
  }).pipe(Effect.mapError(blobError("open")))

/** The store of `make`. A directory is for one store only: a second drops the unfinished blobs of the first. */
export const layer = (
  options: Options
): Layer.Layer<BlobStore.Service, BlobStore.BlobError, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(BlobStore.Service, make(options))

/** Where a store keeps its files. */
interface Place {
  readonly fs: FileSystem.FileSystem
  readonly directory: string
  readonly at: (name: string) => string
}

const temporary = /^tmp-[\w=-]{0,48}-[0-9a-f]{16}\.part$/
const sealed = /^[\w=-]{1,200}\.blob$/
const chunkBytes = 64 * 1024

class FileStore implements BlobStore.BlobStore {
  readonly #place: Place
  readonly #quota: Quota
  readonly #references = BlobReferences.make()
  /** Sizes of the sealed files, by file name. */
  readonly #sizes = new Map<string, number>()
  /** Naming and removing a file and counting it belong together. */
  readonly #lock = Semaphore.makeUnsafe(1)

  constructor(place: Place, quotaBytes: number) {
    this.#place = place
    this.#quota = { most: quotaBytes, used: 0 }
  }

  found(name: string, size: number): void {
    this.#count(name, size)
  }

  write(name: string): Effect.Effect<BlobStore.BlobWriter, BlobStore.BlobError, Scope.Scope> {
    const writer = Effect.gen({ self: this }, function*() {
      const temporaryName = yield* newTemporaryName(name)
      const at = this.#place.at(temporaryName)
      // Released last: the file's own close comes before.
      yield* Effect.addFinalizer(() => Effect.ignore(this.#place.fs.remove(at, { force: true })))
      const file = yield* this.#place.fs.open(at, { flag: "wx+", mode: 0o600 })
      return new FileWriter(file, this.#quota, (ref, size) => this.#publish(at, ref, size))
    }).pipe(Effect.mapError(blobError("open")))
    // Before the file is closed, what is still being written has to end: its number may be another file's next.
    return Effect.acquireRelease(writer, (writer) => writer.close)
  }

  read(
    ref: string,
    options?: { readonly offset?: number | undefined; readonly limit?: number | undefined }
  ): Stream.Stream<Uint8Array, BlobStore.BlobError> {
    const opened = Effect.gen({ self: this }, function*() {
      yield* this.#leased(ref, "read")
      const file = yield* this.#place.fs.open(this.#place.at(fileName(ref)), { flag: "r" })
      return chunks(file, options?.offset ?? 0, options?.limit ?? Infinity)
    })
    return Stream.unwrap(opened).pipe(Stream.mapError(blobError("read")))
  }

  lease(ref: string): Effect.Effect<void, BlobStore.BlobError, Scope.Scope> {
    return this.#leased(ref, "open")
  }

  remove(ref: string): Effect.Effect<boolean, BlobStore.BlobError> {
    const name = fileName(ref)
    return this.#exclusive(Effect.suspend(() => {
      const left = this.#references.remove(name)
      if (left !== "last") return Effect.succeed(left === "kept")
      // A file that could not be removed keeps its reference, so that it can be tried again.
      const restore = Effect.sync(() => this.#references.add(name))
      return Effect.as(Effect.tapError(this.#delete(name), () => restore), true)
    }))
  }

  #exclusive<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.uninterruptible(this.#lock.withPermits(1)(effect))
  }

  #leased(ref: string, operation: "open" | "read"): Effect.Effect<void, BlobStore.BlobError, Scope.Scope> {
    const name = fileName(ref)
    const lease = Effect.suspend(() => {
      if (!this.#references.has(name)) {
        return Effect.fail(new BlobStore.BlobError({ operation, problem: "NotFound", retryable: false }))
      }
      return Effect.sync(() => this.#references.lease(name))
    })
    // A file that cannot be removed now is found again when the layer is built next.
    const release = this.#exclusive(
      Effect.suspend(() => this.#references.release(name) ? Effect.ignore(this.#delete(name)) : Effect.void)
    )
    return Effect.acquireRelease(lease, () => release)
  }

  #publish(from: string, ref: string, size: number): Effect.Effect<void, BlobStore.BlobError> {
    const name = fileName(ref)
    if (!sealed.test(name)) {
      return Effect.fail(new BlobStore.BlobError({ operation: "seal", problem: "Other", retryable: false }))
    }
    const renamed = this.#place.fs.rename(from, this.#place.at(name)).pipe(Effect.mapError(blobError("seal")))
    return this.#exclusive(Effect.andThen(
      renamed,
      Effect.suspend(() => {
        this.#quota.used -= size
        this.#count(name, size)
        // Some file systems cannot sync a directory. The blob is there by then: only a power loss could still undo its name.
        return Effect.ignore(this.#syncDirectory())
      })
    ))
  }

  #count(name: string, size: number): void {
    this.#quota.used += size - (this.#sizes.get(name) ?? 0)
    this.#sizes.set(name, size)
    this.#references.add(name)
  }

  #syncDirectory(): Effect.Effect<void, PlatformError> {
    return Effect.scoped(
      Effect.flatMap(this.#place.fs.open(this.#place.directory, { flag: "r" }), (directory) => directory.sync)
    )
  }

  #delete(name: string): Effect.Effect<void, BlobStore.BlobError> {
    const removed = Effect.map(this.#place.fs.remove(this.#place.at(name), { force: true }), () => {
      this.#quota.used -= this.#sizes.get(name) ?? 0
      this.#sizes.delete(name)
    })
    return Effect.mapError(removed, blobError("remove"))
  }
}

/** Bytes used of the most that may be. */
interface Quota {
  readonly most: number
  used: number
}

class FileWriter implements BlobStore.BlobWriter {
  readonly #file: FileSystem.File
  readonly #quota: Quota
  readonly #publish: (ref: string, size: number) => Effect.Effect<void, BlobStore.BlobError>
  readonly #lock = Semaphore.makeUnsafe(1)
  #size = 0
  /** Whether bytes of a failed append may follow those that count. */
  #torn = false
  #open = true

  constructor(
    file: FileSystem.File,
    quota: Quota,
    publish: (ref: string, size: number) => Effect.Effect<void, BlobStore.BlobError>
  ) {
    this.#file = file
    this.#quota = quota
    this.#publish = publish
  }

  append(bytes: Uint8Array): Effect.Effect<void, BlobStore.BlobError> {
    return this.#exclusive(
      "append",
      Effect.suspend(() => {
        if (this.#quota.used + bytes.length > this.#quota.most) {
          return Effect.fail(
            new BlobStore.BlobError({ operation: "append", problem: "QuotaExceeded", retryable: true })
          )
        }
        this.#quota.used += bytes.length
        return Effect.andThen(this.#mend(), this.#file.writeAll(bytes)).pipe(
          Effect.map(() => {
            this.#size += bytes.length
          }),
          Effect.tapError(() =>
            Effect.sync(() => {
              this.#quota.used -= bytes.length
              this.#torn = true
            })
          ),
          Effect.mapError(blobError("append"))
        )
      })
    )
  }

  seal(ref: string): Effect.Effect<void, BlobStore.BlobError> {
    const synced = Effect.suspend(() => Effect.andThen(this.#mend(), this.#file.sync))
    return this.#exclusive(
      "seal",
      Effect.mapError(synced, blobError("seal")).pipe(
        Effect.andThen(Effect.suspend(() => this.#publish(ref, this.#size))),
        Effect.map(() => {
          this.#open = false
        })
      )
    )
  }

  /** Waits for what is being written. What was written and never sealed no longer counts. */
  get close(): Effect.Effect<void> {
    return this.#lock.withPermits(1)(Effect.sync(() => {
      if (this.#open) this.#quota.used -= this.#size
      this.#open = false
    }))
  }

  /** Takes back what a failed append has left in the file. */
  #mend(): Effect.Effect<void, PlatformError> {
    if (!this.#torn) return Effect.void
    return Effect.map(
      Effect.andThen(this.#file.truncate(this.#size), this.#file.seek(BigInt(this.#size), "start")),
      () => {
        this.#torn = false
      }
    )
  }

  /** One call at a time, and none left half way: the system may still write what an interrupted one has begun. */
  #exclusive(
    operation: "append" | "seal",
    effect: Effect.Effect<void, BlobStore.BlobError>
  ): Effect.Effect<void, BlobStore.BlobError> {
    const closed = new BlobStore.BlobError({ operation, problem: "NotFound", retryable: false })
    return Effect.uninterruptible(
      this.#lock.withPermits(1)(Effect.suspend(() => this.#open ? effect : Effect.fail(closed)))
    )
  }
}

/** The bytes `[offset, offset + limit)` of a file, in chunks of their own memory. */
const chunks = (file: FileSystem.File, offset: number, limit: number): Stream.Stream<Uint8Array, PlatformError> =>
  Stream.unfold(offset, (at) => {
    const length = Math.min(chunkBytes, offset + limit - at)
    if (length <= 0) return Effect.succeed(undefined)
    return Effect.map(
      file.readAlloc(length, { position: BigInt(at) }),
      (bytes) => Option.isSome(bytes) ? [bytes.value, at + bytes.value.length] as const : undefined
    )
  })

const newTemporaryName = (name: string): Effect.Effect<string> =>
  Effect.map(
    Effect.all([Random.nextIntBetween(0, 0xffff_ffff), Random.nextIntBetween(0, 0xffff_ffff)]),
    (numbers) => `tmp-${encode(name).slice(0, 48)}-${numbers.map((n) => n.toString(16).padStart(8, "0")).join("")}.part`
  )

const fileName = (ref: string): string => `${encode(ref)}.blob`

/** One file name for one text, and no way out of the directory: other characters become their code, as in `=2f`. */
const encode = (text: string): string =>
  text.replaceAll(/[^A-Za-z0-9_-]/gu, (character) => `=${(character.codePointAt(0) ?? 0).toString(16)}=`)

/** Drops every path; keeps what a caller can act on. */
const blobError = (operation: BlobStore.BlobError["operation"]) => (error: PlatformError | BlobStore.BlobError) =>
  error._tag === "BlobError" ? error : new BlobStore.BlobError({ operation, ...problemOf(error) })

const problemOf = (error: PlatformError): Pick<BlobStore.BlobError, "problem" | "retryable"> => {
  switch (error.reason._tag) {
    case "NotFound":
      return { problem: "NotFound", retryable: false }
    case "PermissionDenied":
      return { problem: "Denied", retryable: false }
    case "BadArgument":
      return { problem: "Other", retryable: false }
    default:
      // Effect has no tag of its own for a full disk; the system's error is the cause.
      return { problem: isFull(error.reason.cause) ? "NoSpace" : "Other", retryable: true }
  }
}

const isFull = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "code" in cause && (cause.code === "ENOSPC" || cause.code === "EDQUOT")
