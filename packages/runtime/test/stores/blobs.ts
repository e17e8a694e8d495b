/** Blobs of texts, for the tests of one store: what every store owes is in `BlobStoreLaws` of `@procyon/testing`. */
import * as Effect from "effect/Effect"
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
