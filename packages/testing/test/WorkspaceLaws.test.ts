import { describe, it } from "@effect/vitest"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import { Files, type FilesService, WorkspaceLaws, WorkspaceStoreMemory } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { assertAllRefuted, refuted } from "./refuted.ts"

type Store = WorkspaceStore.WorkspaceStore

const faulty = (
  change: (store: Store, files: FilesService) => Partial<Store>
): Layer.Layer<WorkspaceStore.Service | Files> =>
  Layer.effect(
    WorkspaceStore.Service,
    Effect.gen(function*() {
      const store = yield* WorkspaceStore.Service
      return { ...store, ...change(store, yield* Files) }
    })
  ).pipe(Layer.provideMerge(Layer.fresh(WorkspaceStoreMemory.layer)))

/** Takes away what it was to leave alone for this reason. */
const careless = (refusal: WorkspaceStore.Refusal) => () =>
  faulty((store, files) => ({
    remove: (place) =>
      store.remove(place).pipe(Effect.catch((error) =>
        error.refusal === refusal
          ? Effect.as(files.rename(place.path, `${files.home}/taken-away`), "Removed" as const)
          : Effect.fail(error)
      ))
  }))

/** Finds nothing to do where it was to say that something is wrong. */
const quiet = (refusal: WorkspaceStore.Refusal) => () =>
  faulty((store) => ({
    remove: (place) =>
      store.remove(place).pipe(
        Effect.catch((error) => error.refusal === refusal ? Effect.succeed("Absent" as const) : Effect.fail(error))
      )
  }))

const someDirectory: WorkspaceStore.DirectoryIdentity = { device: "1", inode: "1" }

/** Stores with one fault each, and the law that has to catch it. */
const faults: ReadonlyArray<
  readonly [fault: string, law: string, store: () => Layer.Layer<WorkspaceStore.Service | Files>]
> = [
  [
    "makes a directory wherever it is asked for a place",
    "makes nothing when it is asked where, and the directory at that place when it is asked to",
    () => faulty((store) => ({ locate: (root, name) => Effect.tap(store.locate(root, name), store.create) }))
  ],
  [
    "makes a name of every text",
    "refuses names that could lead elsewhere",
    () => faulty((store) => ({ locate: (root, name) => store.locate(root, `w${name.replaceAll(/\W/g, "")}`) }))
  ],
  [
    "takes another root for one that is not there",
    "refuses a root that is not there, or is no directory",
    () =>
      faulty((store, { home }) => ({
        locate: (root, name) => store.locate(root, name).pipe(Effect.catch(() => store.locate(home, name)))
      }))
  ],
  [
    "keeps the root as it was told",
    "resolves a root that is a link once: what the link names later changes nothing",
    () =>
      faulty((store) => ({
        locate: (root, name) =>
          Effect.map(store.locate(root, name), (place) => ({ ...place, root, path: `${root}/${name}` }))
      }))
  ],
  [
    "takes what is there for what it made",
    "makes nothing where something is, whatever it is, and leaves that",
    () =>
      faulty((store) => ({
        create: (place) => store.create(place).pipe(Effect.catch(() => Effect.succeed(someDirectory)))
      }))
  ],
  [
    "looks first and makes then",
    "of many who make one place at once, one does it, and of many who remove it, all are answered",
    () =>
      faulty((store, files) => ({
        create: (place) =>
          Effect.flatMap(files.has(place.path), (isThere) =>
            isThere
              ? store.create(place)
              : Effect.andThen(
                Effect.yieldNow,
                store.create(place).pipe(Effect.catch(() => Effect.succeed(someDirectory)))
              ))
      }))
  ],
  [
    "removes what is not there",
    "removes a directory with everything in it, and finds it absent the second time",
    () => faulty((store) => ({ remove: (place) => Effect.as(store.remove(place), "Removed") }))
  ],
  [
    "follows links",
    "removes a link in it and nothing behind the link",
    () =>
      faulty((store, files) => ({
        remove: (place) =>
          Effect.andThen(
            Effect.flatMap(
              files.has(`${files.home}/outside/kept`),
              (isThere) =>
                isThere ? files.rename(`${files.home}/outside/kept`, `${files.home}/taken-away`) : Effect.void
            ),
            store.remove(place)
          )
      }))
  ],
  ["knows directories by their names", "leaves another directory that is at its place", careless("Replaced")],
  ["takes a file for a directory", "leaves a file that is at its place", careless("Replaced")],
  [
    "removes links",
    "leaves a link that is at its place and what the link names, be it the very directory",
    careless("Link")
  ],
  ["says nothing of places outside", "removes nothing that is not one name below the root", quiet("OutsideRoot")],
  [
    "says nothing of a root that has moved",
    "does nothing in a root that is elsewhere, or is another directory, or a link",
    quiet("Moved")
  ],
  [
    "removes what it never made",
    "of a place where nothing is known to have been made, removes an empty directory and nothing else",
    careless("NotEmpty")
  ]
]

describe("the laws notice a workspace store that", () => {
  it.live.each(faults)("%s (%s)", ([, name, store]) => refuted(WorkspaceLaws.laws, name, store()))

  it("breaks any of them", () => assertAllRefuted(WorkspaceLaws.laws, faults.map(([, name]) => name)))
})
