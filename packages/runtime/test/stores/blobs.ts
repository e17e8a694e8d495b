import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as BlobStore from "../../src/ports/BlobStore.ts"

export const bytesOf = (text: string) => new TextEncoder().encode(text)

/** Writes and seals. Answers with the reference. */
export const put = (name: string, text: string, label = "sha256-a") =>
  Effect.scoped(Effect.gen(function*() {
    const writer = yield* (yield* BlobStore.Service).write(name)
    yield* writer.append(bytesOf(text))
    return yield* writer.seal(label)
  }))

export const get = (ref: string, options?: { readonly offset?: number; readonly limit?: number }) =>
  Effect.gen(function*() {
    const chunks = yield* Stream.runCollect((yield* BlobStore.Service).read(ref, options))
    return Buffer.concat(chunks).toString()
  })

export const remove = (name: string) => BlobStore.Service.use((store) => store.remove(name))

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
      const ref = yield* writer.seal("sha256-a")
      assert.strictEqual(yield* get(ref), "hello world")
      assert.strictEqual(yield* get(ref, { offset: 4, limit: 4 }), "o wo")
      assert.strictEqual(yield* get(ref, { offset: 8, limit: 100 }), "rld")
      assert.strictEqual(yield* get(ref, { offset: 11 }), "")
      assert.strictEqual(yield* get(ref, { offset: 1000 }), "")
      assert.strictEqual(yield* get(ref, { limit: 0 }), "")
    }))

  law("keeps apart names and labels that differ in any character", () =>
    Effect.gen(function*() {
      const names = ["a/b", "a=2f=b", "a.b", "A.b", "../x", "ä", "a", "a-stderr"]
      const refs = new Map<string, string>()
      for (const name of names) {
        for (const label of names) refs.set(yield* put(name, `${label} of ${name}`, label), `${label} of ${name}`)
      }
      assert.strictEqual(refs.size, names.length ** 2)
      for (const [ref, text] of refs) assert.strictEqual(yield* get(ref), text)
      assert.isTrue(yield* remove("a"))
      const left: Array<string> = []
      for (const [ref, text] of refs) if ((yield* Effect.exit(get(ref)))._tag === "Success") left.push(text)
      assert.deepStrictEqual(left, [...refs.values()].filter((text) => !text.endsWith(" of a")))
    }))

  law(
    "refuses a name and a label that are empty or endless, and answers no text that is no reference",
    () =>
      Effect.gen(function*() {
        const store = yield* BlobStore.Service
        for (const name of ["", "x".repeat(300)]) {
          assert.strictEqual((yield* Effect.flip(Effect.scoped(store.write(name)))).problem, "Other")
          const sealing = Effect.scoped(Effect.flatMap(store.write("job"), (writer) => writer.seal(name)))
          assert.strictEqual((yield* Effect.flip(sealing)).problem, "Other")
          assert.isFalse(yield* remove(name))
        }
        for (const ref of ["", "..", "../x.y", "sha256-a", "none.job"]) yield* notFound(get(ref))
      })
  )

  law(
    "shows nothing of a blob before it is sealed, and drops an unsealed one with its scope",
    () =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const ref = yield* put("job", "x")
        yield* remove("job")
        const writer = yield* Scope.provide((yield* BlobStore.Service).write("job"), scope)
        yield* writer.append(bytesOf("x"))
        yield* notFound(get(ref))
        yield* Scope.close(scope, Exit.void)
        yield* notFound(get(ref))
        assert.strictEqual((yield* Effect.flip(writer.append(bytesOf("x")))).operation, "append")
        assert.strictEqual((yield* Effect.flip(writer.seal("sha256-a"))).operation, "seal")
        assert.isFalse(yield* remove("job"))
      })
  )

  law("keeps a sealed blob when the writer's scope is closed, and takes no more", () =>
    Effect.gen(function*() {
      const [writer, ref] = yield* Effect.scoped(Effect.gen(function*() {
        const writer = yield* (yield* BlobStore.Service).write("job")
        const ref = yield* writer.seal("sha256-empty")
        yield* Effect.flip(writer.append(bytesOf("x")))
        return [writer, ref] as const
      }))
      yield* Effect.flip(writer.seal("sha256-other"))
      assert.strictEqual(yield* get(ref), "")
    }))

  law("removes all of one name and nothing of another, also of the same content", () =>
    Effect.gen(function*() {
      const [one, other] = [yield* put("one", "same"), yield* put("other", "same")]
      const partial = yield* put("one", "sa", "partial-2-4")
      assert.isTrue(yield* remove("one"))
      yield* notFound(get(one))
      yield* notFound(get(partial))
      assert.strictEqual(yield* get(other), "same")
      assert.isFalse(yield* remove("one"))
      assert.isTrue(yield* remove("other"))
      yield* notFound(get(other))
    }))

  law("has one blob of what is sealed twice", () =>
    Effect.gen(function*() {
      const refs = [yield* put("job", "same"), yield* put("job", "same")]
      assert.strictEqual(refs[0], refs[1])
      assert.strictEqual(yield* get(refs[1] ?? ""), "same")
      assert.isTrue(yield* remove("job"))
      yield* notFound(get(refs[1] ?? ""))
    }))

  law("drops what a removed name has in the making: nobody can seal it", () =>
    Effect.gen(function*() {
      const writer = yield* (yield* BlobStore.Service).write("job")
      yield* writer.append(bytesOf("x"))
      assert.isTrue(yield* remove("job"))
      const error = yield* Effect.flip(writer.seal("sha256-a"))
      assert.deepStrictEqual([error.operation, error.problem, error.retryable], ["seal", "NotFound", false])
      const ref = yield* put("job", "again")
      assert.strictEqual(yield* get(ref), "again")
    }))

  law("keeps the bytes while anybody holds a lease", () =>
    Effect.gen(function*() {
      const store = yield* BlobStore.Service
      yield* notFound(Effect.scoped(store.lease("sha256-a.job")))
      const ref = yield* put("job", "leased")
      const [first, second] = [yield* Scope.make(), yield* Scope.make()]
      yield* Scope.provide(store.lease(ref), first)
      yield* Scope.provide(store.lease(ref), second)
      assert.isTrue(yield* remove("job"))
      assert.isFalse(yield* remove("job"))
      yield* Scope.close(first, Exit.void)
      assert.strictEqual(yield* get(ref), "leased")
      yield* Scope.close(second, Exit.void)
      yield* notFound(get(ref))
    }))

  law("lets a reader finish what is removed under it", () =>
    Effect.gen(function*() {
      const store = yield* BlobStore.Service
      const text = "0123456789".repeat(30_000)
      const ref = yield* put("job", text)
      const parts: Array<Uint8Array> = []
      yield* Stream.runForEach(store.read(ref), (part) => {
        parts.push(part)
        return store.remove("job")
      })
      assert.strictEqual(Buffer.concat(parts).toString(), text)
      yield* notFound(get(ref))
    }))
}
