import { describe, it } from "@effect/vitest"
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import { BlobStoreLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { assertAllRefuted, refuted } from "./refuted.ts"

type Store = BlobStore.BlobStore
type Writer = BlobStore.BlobWriter

const broken = (operation: BlobStore.BlobError["operation"]) =>
  new BlobStore.BlobError({ operation, problem: "Other", retryable: true })

const faulty = (change: (store: Store) => Partial<Store>): Layer.Layer<BlobStore.Service> =>
  Layer.effect(
    BlobStore.Service,
    Effect.map(BlobStoreMemory.make, (store) => ({
      write: (name) => store.write(name),
      read: (ref, options) => store.read(ref, options),
      lease: (ref) => store.lease(ref),
      remove: (name) => store.remove(name),
      ...change(store)
    }))
  )

const withWriter = (change: (writer: Writer, store: Store, name: string) => Partial<Writer>) =>
  faulty((store) => ({
    write: (name) =>
      Effect.map(store.write(name), (writer) => ({
        append: (bytes) => writer.append(bytes),
        seal: (label) => writer.seal(label),
        ...change(writer, store, name)
      }))
  }))

/** A writer that keeps what it is given and writes it when it is sealed. */
const collecting = (
  seal: (store: Store, name: string, label: string, parts: ReadonlyArray<Uint8Array>) => ReturnType<Writer["seal"]>
) =>
  withWriter((_, store, name) => {
    const parts: Array<Uint8Array> = []
    return {
      append: (bytes) => Effect.sync(() => void parts.push(bytes.slice())),
      seal: (label) => seal(store, name, label, parts)
    }
  })

const written = (store: Store, name: string, label: string, parts: ReadonlyArray<Uint8Array>) =>
  Effect.scoped(Effect.gen(function*() {
    const writer = yield* store.write(name)
    for (const part of parts) yield* writer.append(part)
    return yield* writer.seal(label)
  }))

const inHalves = () =>
  withWriter((writer) => ({
    append: (bytes) => {
      const middle = Math.floor(bytes.length / 2)
      return Effect.andThen(
        Effect.tap(writer.append(bytes.subarray(0, middle)), Effect.yieldNow),
        writer.append(bytes.subarray(middle))
      )
    }
  }))

const oneWriterAName = () =>
  faulty((store) => {
    const writers = new Map<string, Writer>()
    return {
      write: (name) =>
        Effect.suspend(() => {
          const known = writers.get(name)
          if (known !== undefined) return Effect.succeed(known)
          return Effect.map(store.write(name), (writer) => {
            writers.set(name, writer)
            return writer
          })
        })
    }
  })

const partBytes = 65_536
const parts = Array.from({ length: 20 }, (_, index) => index * partBytes)

/** Stores with one fault each, and the law that has to catch it. */
const faults: ReadonlyArray<readonly [fault: string, law: string, store: () => Layer.Layer<BlobStore.Service>]> = [
  [
    "reads from the beginning only",
    "gives back what was appended, from any offset and as much as asked for",
    () => faulty((store) => ({ read: (ref, options) => store.read(ref, { ...options, offset: 0 }) }))
  ],
  [
    "keeps what it was lent",
    "borrows the bytes of an append: what becomes of them afterwards changes nothing",
    () =>
      withWriter((writer) => {
        const lent: Array<Uint8Array> = []
        return {
          append: (bytes) => Effect.sync(() => void lent.push(bytes)),
          seal: (label) => Effect.andThen(Effect.forEach(lent, (bytes) => writer.append(bytes)), writer.seal(label))
        }
      })
  ],
  [
    "hands out its own bytes",
    "gives each reader bytes of its own: what it does to them changes nothing",
    () =>
      faulty((store) => {
        const kept = new Map<string, ReadonlyArray<Uint8Array>>()
        return {
          read: (ref) =>
            Stream.unwrap(Effect.map(
              Effect.suspend(() => {
                const known = kept.get(ref)
                return known === undefined ? Stream.runCollect(store.read(ref)) : Effect.succeed(known)
              }),
              (parts) => {
                kept.set(ref, parts)
                return Stream.fromIterable(parts)
              }
            ))
        }
      })
  ],
  [
    "takes as much of an append as a pipe holds",
    "takes appends of every size, of nothing too, in their order",
    () => withWriter((writer) => ({ append: (bytes) => writer.append(bytes.subarray(0, partBytes)) }))
  ],
  [
    "has room for so many appends",
    "takes a thousand small appends",
    () =>
      withWriter((writer) => {
        let left = 500
        return { append: (bytes) => left-- > 0 ? writer.append(bytes) : Effect.void }
      })
  ],
  [
    "reads one part only",
    "gives any part of a large blob, and the parts in a row are the whole",
    () =>
      faulty((store) => ({
        read: (ref, options) =>
          store.read(ref, { ...options, limit: Math.min(options?.limit ?? Infinity, 2 * partBytes) })
      }))
  ],
  [
    "makes something of every bound",
    "refuses to read from an offset or up to a limit that is negative or no whole number",
    () =>
      faulty((store) => ({
        read: (ref, options) => {
          const whole = (value = 0) => Math.max(0, Number.isFinite(value) ? Math.floor(value) : 0)
          return store.read(ref, { offset: whole(options?.offset) })
        }
      }))
  ],
  [
    "does not tell large letters from small ones",
    "keeps apart names and labels that differ in any character",
    () => faulty((store) => ({ write: (name) => store.write(name.toLowerCase()) }))
  ],
  [
    "makes a name of nothing",
    "refuses a name and a label that are empty or endless, and answers no text that is no reference",
    () => faulty((store) => ({ write: (name) => store.write(name === "" ? "unnamed" : name) }))
  ],
  [
    "leaves a writer open when its scope is closed",
    "shows nothing of a blob before it is sealed, and drops an unsealed one with its scope",
    () =>
      faulty((store) => ({
        write: (name) => Effect.flatMap(Scope.make(), (scope) => Scope.provide(store.write(name), scope))
      }))
  ],
  [
    "drops without a word what comes after the seal",
    "keeps a sealed blob when the writer's scope is closed, and takes no more",
    () => withWriter((writer) => ({ append: (bytes) => Effect.ignore(writer.append(bytes)) }))
  ],
  [
    "makes a blob of every seal",
    "has one blob of what is sealed twice",
    () => {
      let seals = 0
      return withWriter((writer) => ({ seal: (label) => writer.seal(`${label}-${seals++}`) }))
    }
  ],
  [
    "removes equal contents together",
    "removes all of one name and nothing of another, also of the same content",
    () =>
      faulty((store) => ({
        remove: (name) => Effect.tap(store.remove(name), () => store.remove("other"))
      }))
  ],
  [
    "seals what was removed",
    "drops what a removed name has in the making: nobody can seal it",
    () => collecting(written)
  ],
  [
    "has one remover at a time",
    "of many who remove one name at once, each is answered, and it is gone",
    () =>
      faulty((store) => {
        let busy = false
        return {
          remove: (name) =>
            Effect.suspend(() => {
              if (busy) return Effect.fail(broken("remove"))
              busy = true
              return Effect.andThen(Effect.yieldNow, store.remove(name)).pipe(
                Effect.ensuring(Effect.sync(() => {
                  busy = false
                }))
              )
            })
        }
      })
  ],
  [
    "lends nothing",
    "keeps the bytes while anybody holds a lease",
    () => faulty((store) => ({ lease: (ref) => Effect.scoped(store.lease(ref)) }))
  ],
  [
    "opens a blob anew for each part of it",
    "lets a reader finish what is removed under it",
    () =>
      faulty((store) => ({
        read: (ref) =>
          Stream.flatMap(Stream.fromIterable(parts), (offset) => store.read(ref, { offset, limit: partBytes }))
      }))
  ],
  [
    "never lets go of what was read",
    "lets go of what a reader left half way or was interrupted in",
    () =>
      faulty((store) => ({
        read: (ref, options) =>
          Stream.unwrap(
            Effect.flatMap(
              Scope.make(),
              (scope) => Effect.as(Scope.provide(store.lease(ref), scope), store.read(ref, options))
            )
          )
      }))
  ],
  [
    "has one writer a name",
    "writers of one name disturb each other in nothing, nor when one of them is dropped",
    oneWriterAName
  ],
  [
    "has one writer a name",
    "two writers of one name that seal the same at once leave one whole blob",
    oneWriterAName
  ],
  ["writes in halves", "appends of one writer at once are each whole", inHalves],
  [
    "knows names by their beginning",
    "keeps apart what fifty write and others read",
    () => faulty((store) => ({ write: (name) => store.write(name.slice(0, "job-1".length)) }))
  ],
  [
    "has one reader at a time",
    "many read one blob at once, each all of it",
    () =>
      faulty((store) => {
        let busy = false
        return {
          read: (ref, options) =>
            Stream.unwrap(Effect.suspend(() => {
              if (busy) return Effect.fail(broken("read"))
              busy = true
              return Effect.as(
                Effect.yieldNow,
                Stream.ensuring(
                  store.read(ref, options),
                  Effect.sync(() => {
                    busy = false
                  })
                )
              )
            }))
        }
      })
  ],
  ["writes in halves", "an append that was interrupted is in the blob wholly or not at all", inHalves],
  [
    "shows a blob before it is whole",
    "a seal that was interrupted has made the whole blob or none, and what was not sealed is dropped",
    () =>
      collecting((store, name, label, parts) =>
        Effect.andThen(
          Effect.tap(written(store, name, label, [new Uint8Array(1)]), Effect.yieldNow),
          written(store, name, label, parts)
        )
      )
  ]
]

describe("the laws notice a blob store that", () => {
  it.live.each(faults)("%s (%s)", ([, name, store]) => refuted(BlobStoreLaws.laws, name, store()))

  it("breaks any of them", () => assertAllRefuted(BlobStoreLaws.laws, faults.map(([, name]) => name)))
})
