/** The faults of a blob store. */
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { What } from "./Fault.ts"
import type { Strikes } from "./Strikes.ts"

type Operation = BlobStore.BlobError["operation"]
type Call<A> = Effect.Effect<A, BlobStore.BlobError>

const noSpace = (operation: Operation): BlobStore.BlobError =>
  new BlobStore.BlobError({ operation, problem: "NoSpace", retryable: false })

export const make = (store: BlobStore.BlobStore, strikes: Strikes): BlobStore.BlobStore => {
  const through = <A>(
    call: string,
    operation: Operation,
    make: Call<A>,
    own?: (what: What) => Call<A> | undefined
  ): Call<A> =>
    strikes.through<A, BlobStore.BlobError>({
      port: "blobs",
      call,
      make,
      failure: ({ problem = "NoSpace", retryable }) =>
        new BlobStore.BlobError({
          operation,
          problem: problem as BlobStore.BlobError["problem"],
          retryable: retryable ?? true
        }),
      ...(own === undefined ? {} : { own })
    })

  const scoped = <A>(call: string, make: Effect.Effect<A, BlobStore.BlobError, Scope.Scope>) =>
    Effect.flatMap(Effect.scope, (scope) => through(call, "open", Scope.provide(make, scope)))

  const writerOf = (writer: BlobStore.BlobWriter): BlobStore.BlobWriter => {
    let torn = false
    const whole = <A>(operation: Operation, make: Call<A>): Call<A> =>
      Effect.suspend(() => torn ? Effect.fail(noSpace(operation)) : make)
    return {
      append: (bytes) =>
        through("append", "append", whole("append", writer.append(bytes)), (what) => {
          if (what._tag !== "Tear") return undefined
          torn = true
          const half = writer.append(bytes.subarray(0, bytes.length >> 1))
          return Effect.andThen(half, Effect.suspend(() => Effect.fail(noSpace("append"))))
        }),
      seal: (label) => through("seal", "seal", whole("seal", writer.seal(label)))
    }
  }

  return {
    write: (name) => Effect.map(scoped("write", store.write(name)), writerOf),
    lease: (ref) => scoped("lease", store.lease(ref)),
    read: (ref, options) =>
      Stream.unwrap(through<Stream.Stream<Uint8Array, BlobStore.BlobError>>(
        "read",
        "read",
        Effect.sync(() => store.read(ref, options)),
        (what) => what._tag === "Tear" ? Effect.succeed(halfOf(store.read(ref, options))) : undefined
      )),
    remove: (name) => through("remove", "remove", store.remove(name))
  }
}

/** The first half of the first part, and then an error. */
const halfOf = (
  bytes: Stream.Stream<Uint8Array, BlobStore.BlobError>
): Stream.Stream<Uint8Array, BlobStore.BlobError> =>
  bytes.pipe(
    Stream.take(1),
    Stream.map((part) => part.subarray(0, part.length >> 1)),
    Stream.concat(Stream.fail(new BlobStore.BlobError({ operation: "read", problem: "Other", retryable: true })))
  )
