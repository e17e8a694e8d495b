/**
 * Blobs as files in one directory, over Effect's own `FileSystem`.
 *
 * A blob is written to a temporary file and gets its name, which is its reference, by a rename after the bytes were
 * synced: a crash leaves either the whole blob or a temporary file. Every file is named after what is in it and after
 * whose it is, so no two rows share one. Sharing equal contents would need a count of references that survives crashes
 * and that all runtimes on the directory agree on; equal outputs larger than memory's share are too rare for that.
 *
 * Several runtimes may use one directory. Building a store removes nothing, and what is removed is told by the exact form
 * of its name, for a caller who answers for its owner. What nobody removes stays, and costs its disk space: such as the
 * output of commands without a row, whose application was killed.
 *
 * A lease is an open file: the system keeps the bytes of a removed file until it is closed, also for another runtime's
 * readers, and frees them when their process dies.
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
import * as BlobNames from "../internal/BlobNames.ts"
import * as BlobRange from "../internal/BlobRange.ts"
import * as Leases from "../internal/Leases.ts"
import * as BlobStore from "../ports/BlobStore.ts"

/** Where the files are, and how much they may take. */
export interface Options {
  /** Made with mode 0700 when it is missing, and set to it when it is there. */
  readonly directory: string
  /**
   * Most bytes of all blobs together, those in the making included; 0 or absent for no quota. Past it appends fail. Counts
   * what is there when the store is built and what it writes itself, not what others write meanwhile.
   */
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
    if (store.isLimited) yield* store.countFiles
    return store
  }).pipe(Effect.mapError(blobError("open")))

/** The store of `make`. */
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

/** Of a blob in the making: whose it is, and a number. */
const temporary = /^([\w=-]{1,100})\.[0-9a-f]{16}\.part$/
const sealedSuffix = ".blob"
const chunkBytes = 64 * 1024

class FileStore implements BlobStore.BlobStore {
  readonly #place: Place
  readonly #quota: Quota
  readonly #leases: Leases.Leases<FileSystem.File, PlatformError | BlobStore.BlobError>
  /** Sizes of the sealed files that count, by file name. */
  readonly #sizes = new Map<string, number>()
  /** Naming and removing a file and counting it belong together. */
  readonly #lock = Semaphore.makeUnsafe(1)

  constructor(place: Place, quotaBytes: number) {
    this.#place = place
    this.#quota = { most: quotaBytes, used: 0 }
    this.#leases = Leases.make((
      ref
    ): Effect.Effect<FileSystem.File, PlatformError | BlobStore.BlobError, Scope.Scope> =>
      BlobNames.isRef(ref)
        ? place.fs.open(place.at(ref + sealedSuffix), { flag: "r" })
        : Effect.fail(new BlobStore.BlobError({ operation: "open", problem: "NotFound", retryable: false }))
    )
  }

  get isLimited(): boolean {
    return this.#quota.most < Infinity
  }

  /** What is there already takes its part of the quota. */
  get countFiles(): Effect.Effect<void, PlatformError> {
    return Effect.gen({ self: this }, function*() {
      const { at, directory, fs } = this.#place
      for (const name of yield* fs.readDirectory(directory)) {
        if (!isSealed(name)) continue
        const info = yield* Effect.option(fs.lstat(at(name)))
        // Another runtime may just have removed it.
        if (Option.isSome(info) && info.value.type === "File") this.#count(name, Number(info.value.size))
      }
    })
  }

  write(name: string): Effect.Effect<BlobStore.BlobWriter, BlobStore.BlobError, Scope.Scope> {
    const writer = Effect.gen({ self: this }, function*() {
      if (!BlobNames.isName(name)) {
        return yield* new BlobStore.BlobError({ operation: "open", problem: "Other", retryable: false })
      }
      const at = this.#place.at(yield* newTemporaryName(name))
      // Released last: the file's own close comes before.
      yield* Effect.addFinalizer(() => Effect.ignore(this.#place.fs.remove(at, { force: true })))
      const file = yield* this.#place.fs.open(at, { flag: "wx+", mode: 0o600 })
      return new FileWriter(file, this.#quota, (label, size) => this.#publish(at, BlobNames.ref(label, name), size))
    }).pipe(Effect.mapError(blobError("open")))
    // Before the file is closed, what is still being written has to end: its number may be another file's next.
    return Effect.acquireRelease(writer, (writer) => writer.close)
  }

  read(
    ref: string,
    options?: { readonly offset?: number | undefined; readonly limit?: number | undefined }
  ): Stream.Stream<Uint8Array, BlobStore.BlobError> {
    const range = BlobRange.of(options)
    if (range === null) return Stream.fail(BlobRange.refused())
    const opened = Effect.map(this.#leases.hold(ref), (file) => chunks(file, range.offset, range.limit))
    return Stream.unwrap(Effect.mapError(opened, blobError("read"))).pipe(Stream.mapError(blobError("read")))
  }

  lease(ref: string): Effect.Effect<void, BlobStore.BlobError, Scope.Scope> {
    return Effect.mapError(Effect.asVoid(this.#leases.hold(ref)), blobError("open"))
  }

  remove(name: string): Effect.Effect<boolean, BlobStore.BlobError> {
    return this.#exclusive(
      Effect.gen({ self: this }, function*() {
        const { directory, fs } = this.#place
        const files = (yield* fs.readDirectory(directory)).filter((file) => isOf(file, name))
        yield* Effect.forEach(files, (file) => this.#delete(file), { discard: true })
        return files.length > 0
      }).pipe(Effect.mapError(blobError("remove")))
    )
  }

  #exclusive<A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.uninterruptible(this.#lock.withPermits(1)(effect))
  }

  #publish(from: string, ref: string | null, size: number): Effect.Effect<string, BlobStore.BlobError> {
    if (ref === null) {
      return Effect.fail(new BlobStore.BlobError({ operation: "seal", problem: "Other", retryable: false }))
    }
    const name = ref + sealedSuffix
    const renamed = this.#place.fs.rename(from, this.#place.at(name)).pipe(Effect.mapError(blobError("seal")))
    return this.#exclusive(Effect.andThen(
      renamed,
      Effect.suspend(() => {
        this.#quota.used -= size
        this.#count(name, size)
        // Some file systems cannot sync a directory. The blob is there by then: only a power loss could still undo its name.
        return Effect.as(Effect.ignore(this.#syncDirectory()), ref)
      })
    ))
  }

  #count(name: string, size: number): void {
    this.#quota.used += size - (this.#sizes.get(name) ?? 0)
    this.#sizes.set(name, size)
  }

  #syncDirectory(): Effect.Effect<void, PlatformError> {
    return Effect.scoped(
      Effect.flatMap(this.#place.fs.open(this.#place.directory, { flag: "r" }), (directory) => directory.sync)
    )
  }

  #delete(name: string): Effect.Effect<void, PlatformError> {
    return Effect.map(this.#place.fs.remove(this.#place.at(name), { force: true }), () => {
      this.#quota.used -= this.#sizes.get(name) ?? 0
      this.#sizes.delete(name)
    })
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
  readonly #publish: (label: string, size: number) => Effect.Effect<string, BlobStore.BlobError>
  readonly #lock = Semaphore.makeUnsafe(1)
  #size = 0
  /** Whether bytes of a failed append may follow those that count. */
  #torn = false
  #open = true

  constructor(
    file: FileSystem.File,
    quota: Quota,
    publish: (label: string, size: number) => Effect.Effect<string, BlobStore.BlobError>
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

  seal(label: string): Effect.Effect<string, BlobStore.BlobError> {
    const synced = Effect.suspend(() => Effect.andThen(this.#mend(), this.#file.sync))
    return this.#exclusive(
      "seal",
      Effect.mapError(synced, blobError("seal")).pipe(
        Effect.andThen(Effect.suspend(() => this.#publish(label, this.#size))),
        Effect.map((ref) => {
          this.#open = false
          return ref
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
  #exclusive<A>(
    operation: "append" | "seal",
    effect: Effect.Effect<A, BlobStore.BlobError>
  ): Effect.Effect<A, BlobStore.BlobError> {
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
    (numbers) => `${BlobNames.encode(name)}.${numbers.map((n) => n.toString(16).padStart(8, "0")).join("")}.part`
  )

const isSealed = (file: string): boolean =>
  file.endsWith(sealedSuffix) && BlobNames.isRef(file.slice(0, -sealedSuffix.length))

/** Whether a file is a blob of this name, sealed or in the making. */
const isOf = (file: string, name: string): boolean =>
  isSealed(file)
    ? BlobNames.isOf(file.slice(0, -sealedSuffix.length), name)
    : temporary.exec(file)?.[1] === BlobNames.encode(name)

/** Drops every path; keeps what a caller can act on. */
const blobError = (operation: BlobStore.BlobError["operation"]) => (error: PlatformError | BlobStore.BlobError) =>
  new BlobStore.BlobError({ operation, ...(error._tag === "BlobError" ? problemIn(error) : problemOf(error)) })

const problemIn = ({ problem, retryable }: BlobStore.BlobError) => ({ problem, retryable })

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
