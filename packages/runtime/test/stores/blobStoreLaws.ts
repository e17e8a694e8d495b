import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as BlobStore from "../../src/ports/BlobStore.ts"

export const bytesOf = (text: string) => new TextEncoder().encode(text)

/** Writes and seals. */
export const put = (ref: string, text: string) =>
  Effect.scoped(Effect.gen(function*() {
    const writer = yield* (yield* BlobStore.Service).write("job")
    yield* writer.append(bytesOf(text))
    yield* writer.seal(ref)
  }))

export const get = (ref: string, options?: { readonly offset?: number; readonly limit?: number }) =>
  Effect.gen(function*() {
    const chunks = yield* Stream.runCollect((yield* BlobStore.Service).read(ref, options))
    return Buffer.concat(chunks).toString()
  })

export const remove = (ref: string) => BlobStore.Service.use((store) => store.remove(ref))

const notFound = (effect: Effect.Effect<unknown, BlobStore.BlobError, BlobStore.Service>) =>
  Effect.map(Effect.flip(effect), (error) => assert.strictEqual(error.problem, "NotFound"))

/** What every store owes its callers. `run` gives each law a fresh store. */
export const blobStoreLaws = (
  run: <E>(law: Effect.Effect<void, E, BlobStore.Service | Scope.Scope>) => Effect.Effect<void, E | BlobStore.BlobError>
) => {
  const law = <E>(name: string, body: () => Effect.Effect<void, E, BlobStore.Service | Scope.Scope>) =>
    it.live(name, () => run(Effect.suspend(body)))

  law("gives back what was appended, from any offset and as much as asked for", () =>
    Effect.gen(function*() {
      const writer = yield* (yield* BlobStore.Service).write("job")
      const borrowed = bytesOf("hello ")
      yield* writer.append(borrowed)
      borrowed.fill(0)
      yield* writer.append(bytesOf("world"))
      yield* writer.seal("sha256-a")
      assert.strictEqual(yield* get("sha256-a"), "hello world")
      assert.strictEqual(yield* get("sha256-a", { offset: 4, limit: 4 }), "o wo")
      assert.strictEqual(yield* get("sha256-a", { offset: 8, limit: 100 }), "rld")
      assert.strictEqual(yield* get("sha256-a", { offset: 11 }), "")
      assert.strictEqual(yield* get("sha256-a", { offset: 1000 }), "")
      assert.strictEqual(yield* get("sha256-a", { limit: 0 }), "")
    }))

  law("keeps apart references that differ in any character", () =>
    Effect.gen(function*() {
      const refs = ["partial-a/b", "partial-a=2f=b", "partial-a.b", "partial-A.b", "partial-../x", "partial-ä"]
      for (const ref of refs) yield* put(ref, ref)
      for (const ref of refs) assert.strictEqual(yield* get(ref), ref)
    }))

  law(
    "shows nothing of a blob before it is sealed, and drops an unsealed one with its scope",
    () =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const writer = yield* Scope.provide((yield* BlobStore.Service).write("sha256-a"), scope)
        yield* writer.append(bytesOf("x"))
        yield* notFound(get("sha256-a"))
        yield* Scope.close(scope, Exit.void)
        yield* notFound(get("sha256-a"))
        assert.strictEqual((yield* Effect.flip(writer.append(bytesOf("x")))).operation, "append")
        assert.strictEqual((yield* Effect.flip(writer.seal("sha256-a"))).operation, "seal")
      })
  )

  law("keeps a sealed blob when the writer's scope is closed, and takes no more", () =>
    Effect.gen(function*() {
      const writer = yield* Effect.scoped(Effect.gen(function*() {
        const writer = yield* (yield* BlobStore.Service).write("job")
        yield* writer.seal("sha256-empty")
        yield* Effect.flip(writer.append(bytesOf("x")))
        return writer
      }))
      yield* Effect.flip(writer.seal("sha256-other"))
      assert.strictEqual(yield* get("sha256-empty"), "")
    }))

  law("counts references: the bytes go with the last one", () =>
    Effect.gen(function*() {
      yield* put("sha256-a", "same")
      yield* put("sha256-a", "same")
      assert.isTrue(yield* remove("sha256-a"))
      assert.strictEqual(yield* get("sha256-a"), "same")
      assert.isTrue(yield* remove("sha256-a"))
      yield* notFound(get("sha256-a"))
      assert.isFalse(yield* remove("sha256-a"))
      assert.isFalse(yield* remove("sha256-b"))
    }))

  law("keeps the bytes while anybody holds a lease", () =>
    Effect.gen(function*() {
      const store = yield* BlobStore.Service
      yield* notFound(Effect.scoped(store.lease("sha256-a")))
      yield* put("sha256-a", "leased")
      const [first, second] = [yield* Scope.make(), yield* Scope.make()]
      yield* Scope.provide(store.lease("sha256-a"), first)
      yield* Scope.provide(store.lease("sha256-a"), second)
      assert.isTrue(yield* remove("sha256-a"))
      assert.isFalse(yield* remove("sha256-a"))
      yield* Scope.close(first, Exit.void)
      assert.strictEqual(yield* get("sha256-a"), "leased")
      yield* Scope.close(second, Exit.void)
      yield* notFound(get("sha256-a"))
    }))

  law("lets a reader finish what is removed under it", () =>
    Effect.gen(function*() {
      const store = yield* BlobStore.Service
      const text = "0123456789".repeat(30_000)
      yield* put("sha256-a", text)
      const parts: Array<Uint8Array> = []
      yield* Stream.runForEach(store.read("sha256-a"), (part) => {
        parts.push(part)
        return store.remove("sha256-a")
      })
      assert.strictEqual(Buffer.concat(parts).toString(), text)
      yield* notFound(get("sha256-a"))
    }))
}
