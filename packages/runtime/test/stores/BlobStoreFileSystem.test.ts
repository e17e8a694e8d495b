import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { BlobStoreLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as PlatformError from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as BlobStore from "../../src/ports/BlobStore.ts"
import * as BlobStoreFileSystem from "../../src/stores/BlobStoreFileSystem.ts"
import { bytesOf, get, put, remove } from "./blobs.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "blobs-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const open = (path: string, quotaBytes?: number) =>
  Layer.provide(BlobStoreFileSystem.layer({ directory: path, quotaBytes }), NodeServices.layer)

/** Node's file system with some of its members replaced. */
const withFileSystem = (path: string, change: (fs: FileSystem.FileSystem) => Partial<FileSystem.FileSystem>) =>
  BlobStoreFileSystem.layer({ directory: path }).pipe(
    Layer.provide(Layer.effect(
      FileSystem.FileSystem,
      Effect.map(FileSystem.FileSystem, (fs) => ({ ...fs, ...change(fs) }))
    )),
    Layer.provide(NodeServices.layer)
  )

const failure = (code: string) =>
  PlatformError.systemError({
    _tag: "Unknown",
    module: "FileSystem",
    method: "write",
    pathOrDescriptor: "/secret/path",
    cause: Object.assign(new Error("/secret/path"), { code })
  })

BlobStoreLaws.blobStoreLaws(
  "a blob store in files",
  Layer.unwrap(Effect.map(directory, (path) => open(join(path, "new", "blobs"))))
)

describe("BlobStoreFileSystem", () => {
  it.live("lets nobody else into its directory, nor read its files", () =>
    Effect.gen(function*() {
      const path = join(yield* directory, "blobs")
      yield* Effect.provide(put("job", "x"), open(path))
      assert.strictEqual(statSync(path).mode & 0o777, 0o700)
      assert.deepStrictEqual(readdirSync(path), ["sha256-a.job.blob"])
      assert.strictEqual(statSync(join(path, "sha256-a.job.blob")).mode & 0o777, 0o600)
    }))

  it.live("finds its blobs again, removes nothing when it is built, and touches no other file when it removes", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const ref = yield* Effect.provide(put("job", "kept"), open(path))
      const others = [
        "job",
        "job.blob",
        "tmp.job.part",
        "job.0123456789ABCDEF.part",
        "job-2.0123456789abcdef.part",
        "x.job.blob.part",
        "x.y.job.blob",
        "notes.txt"
      ]
      const left = [...others, "job.0123456789abcdef.part"]
      for (const name of left) writeFileSync(join(path, name), "x")
      yield* Effect.provide(BlobStore.Service.use(() => Effect.void), open(path))
      assert.deepStrictEqual(readdirSync(path).toSorted(), [...left, `${ref}.blob`].toSorted())
      const found = yield* Effect.provide(
        Effect.gen(function*() {
          const text = yield* get(ref)
          assert.isTrue(yield* remove("job"))
          assert.isFalse(yield* remove("job"))
          return text
        }),
        open(path)
      )
      assert.strictEqual(found, "kept")
      assert.deepStrictEqual(readdirSync(path).toSorted(), others.toSorted())
    }))

  it.live("gives a blob its name after its bytes were synced, and answers after the name was", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const calls: Array<string> = []
      const traced = withFileSystem(path, (fs) => ({
        open: (file, options) =>
          Effect.map(fs.open(file, options), (opened) =>
            Object.defineProperty(opened, "sync", {
              value: Effect.andThen(
                opened.sync,
                Effect.sync(() => calls.push(file.endsWith(".part") ? "synced bytes" : "synced directory"))
              )
            })),
        rename: (from, to) => Effect.andThen(fs.rename(from, to), Effect.sync(() => calls.push("named")))
      }))
      yield* Effect.provide(Effect.andThen(put("job", "x"), Effect.sync(() => calls.push("answered"))), traced)
      assert.deepStrictEqual(calls, ["synced bytes", "named", "synced directory", "answered"])
    }))

  describe("two stores on one directory", () => {
    const two = (path: string) =>
      Effect.all([
        Effect.provide(BlobStore.Service, Layer.fresh(open(path))),
        Effect.provide(BlobStore.Service, Layer.fresh(open(path)))
      ])
    const on = (store: BlobStore.BlobStore) => Effect.provideService(BlobStore.Service, store)

    it.live("leave each other what they have, sealed or not, also of the same content", () =>
      Effect.gen(function*() {
        const path = yield* directory
        const scope = yield* Scope.make()
        const first = yield* Effect.provide(BlobStore.Service, Layer.fresh(open(path)))
        const writer = yield* Scope.provide(first.write("one"), scope)
        yield* writer.append(bytesOf("begun before the second was built"))
        const ref = yield* on(first)(put("shared-1", "same"))
        const second = yield* Effect.provide(BlobStore.Service, Layer.fresh(open(path)))
        const other = yield* on(second)(put("shared-2", "same"))
        assert.isTrue(yield* first.remove("shared-1"))
        assert.strictEqual((yield* Effect.flip(on(second)(get(ref)))).problem, "NotFound")
        assert.strictEqual(yield* on(second)(get(other)), "same")
        assert.strictEqual(yield* on(first)(get(other)), "same")
        assert.strictEqual(
          yield* on(second)(get(yield* writer.seal("sha256-b"))),
          "begun before the second was built"
        )
        yield* Scope.close(scope, Exit.void)
      }))

    it.live("let the other's reader and lease holder finish what one removes", () =>
      Effect.gen(function*() {
        const [first, second] = yield* two(yield* directory)
        const text = "0123456789".repeat(30_000)
        const ref = yield* on(first)(put("job", text))
        const parts: Array<Uint8Array> = []
        yield* Effect.scoped(Effect.gen(function*() {
          yield* second.lease(ref)
          yield* Stream.runForEach(second.read(ref), (part) => {
            parts.push(part)
            return first.remove("job")
          })
          assert.strictEqual(Buffer.concat(parts).toString(), text)
          assert.strictEqual((yield* Effect.flip(on(first)(get(ref)))).problem, "NotFound")
          assert.strictEqual(yield* on(second)(get(ref, { offset: 299_995 })), "56789")
        }))
        assert.strictEqual((yield* Effect.flip(on(second)(get(ref)))).problem, "NotFound")
      }))

    it.live("take the unfinished blob of a writer that is to write no more, which then cannot seal it", () =>
      Effect.gen(function*() {
        const path = yield* directory
        const [first, second] = yield* two(path)
        yield* Effect.scoped(Effect.gen(function*() {
          const writer = yield* first.write("job")
          yield* writer.append(bytesOf("x"))
          assert.isTrue(yield* second.remove("job"))
          yield* writer.append(bytesOf("y"))
          assert.strictEqual((yield* Effect.flip(writer.seal("sha256-a"))).problem, "NotFound")
        }))
        assert.deepStrictEqual(readdirSync(path), [])
      }))
  })

  it.live("refuses appends past the quota, counts what was given up, and takes more once there is room", () =>
    Effect.gen(function*() {
      const path = yield* directory
      yield* Effect.provide(put("old", "12345"), open(path))
      const law = Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const writer = yield* (yield* BlobStore.Service).write("job")
          yield* writer.append(bytesOf("12345"))
          const error = yield* Effect.flip(writer.append(bytesOf("6")))
          assert.deepStrictEqual([error.problem, error.retryable], ["QuotaExceeded", true])
        }))
        yield* put("new", "abcde")
        assert.strictEqual((yield* Effect.flip(put("more", "x"))).problem, "QuotaExceeded")
        // The same blob takes no room of its own once it is sealed.
        assert.isTrue(yield* remove("old"))
        yield* put("new", "abcde")
        yield* put("other", "fghij")
        assert.strictEqual((yield* Effect.flip(put("more", "x"))).problem, "QuotaExceeded")
      })
      yield* Effect.provide(law, open(path, 10))
    }))

  it.live("goes on after a full disk without the bytes that were half written", () =>
    Effect.gen(function*() {
      const path = yield* directory
      let full = false
      const layer = withFileSystem(path, (fs) => ({
        open: (name, options) =>
          Effect.map(fs.open(name, options), (file) =>
            new Proxy(file, {
              get: (target, key) => {
                if (key === "writeAll" && full) {
                  return (bytes: Uint8Array) =>
                    Effect.andThen(target.writeAll(bytes.subarray(0, 2)), Effect.fail(failure("ENOSPC")))
                }
                const value: unknown = Reflect.get(target, key, target)
                return typeof value === "function" ? value.bind(target) : value
              }
            }))
      }))
      const law = Effect.scoped(Effect.gen(function*() {
        const writer = yield* (yield* BlobStore.Service).write("job")
        yield* writer.append(bytesOf("one "))
        full = true
        const error = yield* Effect.flip(writer.append(bytesOf("two two two ")))
        assert.deepStrictEqual([error.problem, error.retryable], ["NoSpace", true])
        assert.notInclude(JSON.stringify(error), "secret")
        full = false
        yield* writer.append(bytesOf("3"))
        full = true
        yield* Effect.flip(writer.append(bytesOf("four")))
        assert.strictEqual(yield* get(yield* writer.seal("sha256-a")), "one 3")
      }))
      yield* Effect.provide(law, layer)
    }))

  it.live("keeps a blob whose file could not be removed, so that it can be tried again", () =>
    Effect.gen(function*() {
      const path = yield* directory
      let refuses = true
      const layer = withFileSystem(path, (fs) => ({
        remove: (name, options) =>
          refuses && name.endsWith(".blob") ? Effect.fail(failure("EIO")) : fs.remove(name, options)
      }))
      const law = Effect.gen(function*() {
        yield* put("job", "x")
        assert.strictEqual((yield* Effect.flip(remove("job"))).problem, "Other")
        refuses = false
        assert.isTrue(yield* remove("job"))
        assert.deepStrictEqual(readdirSync(path), [])
      })
      yield* Effect.provide(law, layer)
    }))

  it.live("tells a blob that was deleted behind its back as not found", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const law = Effect.gen(function*() {
        const ref = yield* put("job", "x")
        rmSync(join(path, `${ref}.blob`))
        const error = yield* Effect.flip(Stream.runDrain((yield* BlobStore.Service).read(ref)))
        assert.deepStrictEqual([error.operation, error.problem], ["read", "NotFound"])
      })
      yield* Effect.provide(law, open(path))
    }))

  it.live("counts its sealed blobs against the quota, and nothing else that is in its directory", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const put10 = put("job", "0123456789")
      yield* Effect.provide(put10, open(path, 25))
      writeFileSync(join(path, "notes.txt"), "x".repeat(100))
      writeFileSync(join(path, "job.0123456789abcdef.part"), "x".repeat(100))
      mkdirSync(join(path, "sha256-b.job.blob"))
      yield* Effect.provide(put("other", "0123456789"), open(path, 25))
      const error = yield* Effect.flip(Effect.provide(put("third", "0123456789"), open(path, 25)))
      assert.strictEqual(error.problem, "QuotaExceeded")
    }))

  for (
    const [tag, problem, retryable] of [
      ["PermissionDenied", "Denied", false],
      ["NotFound", "NotFound", false],
      ["Busy", "Other", true]
    ] as const
  ) {
    it.live(`is told ${problem} by a file system that says ${tag}, and may be asked again: ${retryable}`, () =>
      Effect.gen(function*() {
        const refused = PlatformError.systemError({
          _tag: tag,
          module: "FileSystem",
          method: "open",
          pathOrDescriptor: "/secret/path"
        })
        const error = yield* Effect.flip(Effect.provide(
          put("job", "x"),
          withFileSystem(yield* directory, () => ({ open: () => Effect.fail(refused) }))
        ))
        assert.deepStrictEqual(JSON.parse(JSON.stringify(error)), {
          _tag: "BlobError",
          operation: "open",
          problem,
          retryable
        })
      }))
  }

  it.live("is not asked again for what a file system refuses to be asked", () =>
    Effect.gen(function*() {
      const refused = PlatformError.badArgument({ module: "FileSystem", method: "open" })
      const error = yield* Effect.flip(Effect.provide(
        put("job", "x"),
        withFileSystem(yield* directory, () => ({ open: () => Effect.fail(refused) }))
      ))
      assert.deepStrictEqual([error.problem, error.retryable], ["Other", false])
    }))

  it.live("fails to open where it cannot make its directory, without telling the path", () =>
    Effect.gen(function*() {
      const path = yield* directory
      writeFileSync(join(path, "file"), "")
      const error = yield* Effect.flip(Effect.provide(Effect.void, Layer.fresh(open(join(path, "file", "blobs")))))
      assert.strictEqual(error.operation, "open")
      assert.notInclude(JSON.stringify(error) + String(error), path)
    }))
})
