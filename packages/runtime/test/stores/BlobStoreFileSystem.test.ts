import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as PlatformError from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as BlobStore from "../../src/ports/BlobStore.ts"
import * as BlobStoreFileSystem from "../../src/stores/BlobStoreFileSystem.ts"
import { blobStoreLaws, bytesOf, get, put, remove } from "./blobStoreLaws.ts"

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

describe("BlobStoreFileSystem", () => {
  blobStoreLaws((law) =>
    Effect.scoped(Effect.flatMap(directory, (path) => Effect.provide(law, open(join(path, "new", "blobs")))))
  )

  it.live("lets nobody else into its directory, nor read its files", () =>
    Effect.gen(function*() {
      const path = join(yield* directory, "blobs")
      yield* Effect.provide(put("sha256-a", "x"), open(path))
      assert.strictEqual(statSync(path).mode & 0o777, 0o700)
      assert.deepStrictEqual(readdirSync(path), ["sha256-a.blob"])
      assert.strictEqual(statSync(join(path, "sha256-a.blob")).mode & 0o777, 0o600)
    }))

  it.live("finds its blobs again, removes what a crash left, and touches no other file", () =>
    Effect.gen(function*() {
      const path = yield* directory
      yield* Effect.provide(put("sha256-a", "kept"), open(path))
      const others = ["tmp-notes.part", "tmp-job-00ff.part", "notes.txt", "tmp-job-0123456789ABCDEF.part"]
      for (const name of [...others, "tmp-job-0123456789abcdef.part"]) writeFileSync(join(path, name), "x")
      const found = yield* Effect.provide(
        Effect.gen(function*() {
          const text = yield* get("sha256-a")
          assert.isTrue(yield* remove("sha256-a"))
          return text
        }),
        open(path)
      )
      assert.strictEqual(found, "kept")
      assert.deepStrictEqual(readdirSync(path).toSorted(), others.toSorted())
    }))

  it.live("names its own temporary file so that the next start knows it, whatever the job is called", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const scope = yield* Scope.make()
      const writer = yield* BlobStore.Service.use((store) => store.write("../jöb/" + "x".repeat(300))).pipe(
        Scope.provide(scope),
        Effect.provide(open(path))
      )
      yield* writer.append(bytesOf("lost"))
      assert.strictEqual(readdirSync(path).length, 1)
      yield* Effect.provide(BlobStore.Service.use(() => Effect.void), open(path))
      assert.deepStrictEqual(readdirSync(path), [])
      assert.strictEqual((yield* Effect.flip(writer.seal("sha256-a"))).problem, "NotFound")
      yield* Scope.close(scope, Exit.void)
    }))

  it.live("refuses appends past the quota, counts what was given up, and takes more once there is room", () =>
    Effect.gen(function*() {
      const path = yield* directory
      yield* Effect.provide(put("sha256-old", "12345"), open(path))
      const law = Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const writer = yield* (yield* BlobStore.Service).write("job")
          yield* writer.append(bytesOf("12345"))
          const error = yield* Effect.flip(writer.append(bytesOf("6")))
          assert.deepStrictEqual([error.problem, error.retryable], ["QuotaExceeded", true])
        }))
        yield* put("sha256-new", "abcde")
        assert.strictEqual((yield* Effect.flip(put("sha256-more", "x"))).problem, "QuotaExceeded")
        // The same content takes no room of its own once it is sealed.
        assert.isTrue(yield* remove("sha256-old"))
        yield* put("sha256-new", "abcde")
        yield* put("sha256-other", "fghij")
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
        yield* writer.seal("sha256-a")
        assert.strictEqual(yield* get("sha256-a"), "one 3")
      }))
      yield* Effect.provide(law, layer)
    }))

  it.live("keeps the reference of a blob whose file could not be removed, so that it can be tried again", () =>
    Effect.gen(function*() {
      const path = yield* directory
      let refuses = true
      const layer = withFileSystem(path, (fs) => ({
        remove: (name, options) =>
          refuses && name.endsWith(".blob") ? Effect.fail(failure("EIO")) : fs.remove(name, options)
      }))
      const law = Effect.gen(function*() {
        yield* put("sha256-a", "x")
        assert.strictEqual((yield* Effect.flip(remove("sha256-a"))).problem, "Other")
        refuses = false
        assert.isTrue(yield* remove("sha256-a"))
        assert.deepStrictEqual(readdirSync(path), [])
      })
      yield* Effect.provide(law, layer)
    }))

  it.live("tells a blob that was deleted behind its back as not found", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const law = Effect.gen(function*() {
        yield* put("sha256-a", "x")
        rmSync(join(path, "sha256-a.blob"))
        const error = yield* Effect.flip(Stream.runDrain((yield* BlobStore.Service).read("sha256-a")))
        assert.deepStrictEqual([error.operation, error.problem], ["read", "NotFound"])
      })
      yield* Effect.provide(law, open(path))
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
