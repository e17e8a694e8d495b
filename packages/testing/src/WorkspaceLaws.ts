/**
 * What every workspace store owes the runtime, as tests that any store can run.
 *
 * A law is a sentence and a program that asserts it on a store and on what is around it: the laws put links, files and
 * other directories where a workspace is, with `Files`, and look at what is left.
 */
import { assert } from "@effect/vitest"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { Files, type FilesService } from "./Files.ts"
import * as Suite from "./internal/Suite.ts"
import type { Law as AnyLaw, StoreOptions } from "./Law.ts"

/** One law. */
export type Law = AnyLaw<WorkspaceStore.WorkspaceError, WorkspaceStore.Service | Files>

/** Where the laws are tried. */
export type Options = StoreOptions

const law = (
  about: string,
  name: string,
  check: (
    store: WorkspaceStore.WorkspaceStore,
    files: FilesService
  ) => Effect.Effect<void, WorkspaceStore.WorkspaceError>
): Law => ({
  about,
  name,
  skipped: null,
  run: Effect.gen(function*() {
    yield* check(yield* WorkspaceStore.Service, yield* Files)
  })
})

const create = Effect.fnUntraced(function*(store: WorkspaceStore.WorkspaceStore, root: string, name: string) {
  const place = yield* store.locate(root, name)
  return { ...place, identity: yield* store.create(place) }
})

const messageOf = <A>(effect: Effect.Effect<A, WorkspaceStore.WorkspaceError>) =>
  Effect.match(effect, { onFailure: ({ message }) => message, onSuccess: () => "no failure" })

/** The laws as data, to be run one by one: each needs a store of its own. */
export const laws: ReadonlyArray<Law> = [
  law(
    "places",
    "makes nothing when it is asked where, and the directory at that place when it is asked to",
    Effect.fnUntraced(function*(store, { has, home }) {
      const place = yield* store.locate(home, "ws")
      assert.deepStrictEqual([place.root, place.path, place.identity], [home, `${home}/ws`, null])
      assert.isFalse(yield* has(place.path))
      const identity = yield* store.create(place)
      assert.isTrue(yield* has(place.path))
      assert.isFalse(WorkspaceStore.sameDirectory(identity, place.rootIdentity))
    })
  ),
  law(
    "places",
    "refuses names that could lead elsewhere",
    Effect.fnUntraced(function*(store, { home }) {
      for (const name of ["", ".", "..", "a/b", "/a", "../a", ".hidden", "a\0b", "a\n", "x".repeat(65)]) {
        assert.strictEqual(yield* messageOf(store.locate(home, name)), "locate: BadName", JSON.stringify(name))
      }
    })
  ),
  law(
    "places",
    "refuses a root that is not there, or is no directory",
    Effect.fnUntraced(function*(store, { home, write }) {
      yield* write(`${home}/file`)
      for (const root of [`${home}/none`, `${home}/file`]) {
        assert.strictEqual(yield* messageOf(store.locate(root, "ws")), "locate: NoRoot")
      }
    })
  ),
  law(
    "places",
    "resolves a root that is a link once: what the link names later changes nothing",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, rename }) {
      yield* makeDirectory(`${home}/real`)
      yield* makeDirectory(`${home}/other`)
      yield* link(`${home}/real`, `${home}/link`)
      const place = yield* create(store, `${home}/link`, "ws")
      assert.deepStrictEqual([place.root, place.path], [`${home}/real`, `${home}/real/ws`])
      yield* makeDirectory(`${home}/other/ws`)
      yield* rename(`${home}/link`, `${home}/old`)
      yield* link(`${home}/other`, `${home}/link`)
      assert.strictEqual(yield* store.remove(place), "Removed")
      assert.deepStrictEqual([yield* has(`${home}/real/ws`), yield* has(`${home}/other/ws`)], [false, true])
    })
  ),
  law(
    "making",
    "makes nothing where something is, whatever it is, and leaves that",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, write }) {
      const free = yield* Effect.forEach(["directory", "file", "dangling"], (name) => store.locate(home, name))
      yield* makeDirectory(`${home}/directory`)
      yield* write(`${home}/file`)
      yield* link(`${home}/none`, `${home}/dangling`)
      for (const place of free) {
        assert.strictEqual(yield* messageOf(store.create(place)), "create: Exists")
        assert.isTrue(yield* has(place.path))
      }
      assert.strictEqual(yield* messageOf(store.locate(home, "directory")), "locate: Exists")
      assert.strictEqual(yield* messageOf(store.locate(home, "dangling")), "locate: Exists")
      assert.isFalse(yield* has(`${home}/none`))
    })
  ),
  law(
    "making",
    "of many who make one place at once, one does it, and of many who remove it, all are answered",
    Effect.fnUntraced(function*(store, { has, home, write }) {
      const place = yield* store.locate(home, "ws")
      const made = yield* Effect.all(Array.from({ length: 10 }, () => Effect.result(store.create(place))), {
        concurrency: "unbounded"
      })
      const identities = made.flatMap((result) => Result.isSuccess(result) ? [result.success] : [])
      const problems = made.flatMap((result) => Result.isFailure(result) ? [result.failure.message] : [])
      assert.deepStrictEqual(problems, Array.from({ length: 9 }, () => "create: Exists"))
      yield* write(`${place.path}/file`)
      const removal = store.remove({ ...place, identity: identities[0] ?? assert.fail("nobody has made it") })
      const removed = yield* Effect.all(Array.from({ length: 10 }, () => removal), { concurrency: "unbounded" })
      assert.isTrue(removed.includes("Removed"))
      assert.isFalse(yield* has(place.path))
    })
  ),
  law(
    "removing",
    "removes a directory with everything in it, and finds it absent the second time",
    Effect.fnUntraced(function*(store, { has, home, makeDirectory, write }) {
      const place = yield* create(store, home, "ws")
      yield* makeDirectory(`${place.path}/a`)
      yield* makeDirectory(`${place.path}/a/b`)
      yield* write(`${place.path}/a/b/c`)
      yield* write(`${home}/beside`)
      assert.strictEqual(yield* store.remove(place), "Removed")
      assert.deepStrictEqual([yield* has(place.path), yield* has(`${home}/beside`)], [false, true])
      assert.strictEqual(yield* store.remove(place), "Absent")
    })
  ),
  law(
    "removing",
    "removes a link in it and nothing behind the link",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, write }) {
      yield* makeDirectory(`${home}/outside`)
      yield* write(`${home}/outside/kept`)
      const place = yield* create(store, home, "ws")
      yield* link(`${home}/outside`, `${place.path}/link`)
      assert.strictEqual(yield* store.remove(place), "Removed")
      assert.deepStrictEqual([yield* has(place.path), yield* has(`${home}/outside/kept`)], [false, true])
    })
  ),
  law(
    "removing",
    "leaves another directory that is at its place",
    Effect.fnUntraced(function*(store, { has, home, makeDirectory, rename, write }) {
      const place = yield* create(store, home, "ws")
      yield* rename(place.path, `${home}/moved`)
      yield* makeDirectory(place.path)
      yield* write(`${place.path}/kept`)
      assert.strictEqual(yield* messageOf(store.remove(place)), "remove: Refused (Replaced)")
      assert.deepStrictEqual([yield* has(`${place.path}/kept`), yield* has(`${home}/moved`)], [true, true])
    })
  ),
  law(
    "removing",
    "leaves a file that is at its place",
    Effect.fnUntraced(function*(store, { has, home, rename, write }) {
      const place = yield* create(store, home, "ws")
      yield* rename(place.path, `${home}/moved`)
      yield* write(place.path)
      assert.strictEqual(yield* messageOf(store.remove(place)), "remove: Refused (Replaced)")
      assert.isTrue(yield* has(place.path))
    })
  ),
  law(
    "removing",
    "leaves a link that is at its place and what the link names, be it the very directory",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, rename, write }) {
      yield* makeDirectory(`${home}/outside`)
      yield* write(`${home}/outside/kept`)
      const [first, second] = [yield* create(store, home, "ws"), yield* create(store, home, "ws2")]
      yield* write(`${second.path}/kept`)
      for (const { path } of [first, second]) yield* rename(path, `${path}-moved`)
      yield* link(`${home}/outside`, first.path)
      yield* link(`${second.path}-moved`, second.path)
      for (const place of [first, second]) {
        assert.strictEqual(yield* messageOf(store.remove(place)), "remove: Refused (Link)")
        assert.isTrue(yield* has(place.path))
      }
      assert.deepStrictEqual(
        [yield* has(`${home}/outside/kept`), yield* has(`${second.path}-moved/kept`)],
        [true, true]
      )
    })
  ),
  law(
    "removing",
    "removes nothing that is not one name below the root",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, write }) {
      for (const path of ["r", "r/ws", "r-evil", "outside", "outside/ws"]) yield* makeDirectory(`${home}/${path}`)
      yield* write(`${home}/outside/ws/kept`)
      yield* link("../outside", `${home}/r/link`)
      const inside = yield* create(store, `${home}/r`, "own")
      const evil = yield* create(store, home, "r-evil2")
      const paths = ["/r/link/ws", "/r/../outside/ws", "/r/ws/../../outside/ws", "/r-evil", "/r", "/r/", "/outside/ws"]
      const places = [
        { ...evil, root: inside.root, rootIdentity: inside.rootIdentity },
        ...Array.from(paths, (path) => ({ ...inside, path: `${home}${path}` }))
      ]
      for (const place of places) {
        assert.strictEqual(yield* messageOf(store.remove(place)), "remove: Refused (OutsideRoot)", place.path)
        assert.strictEqual(yield* messageOf(store.create(place)), "create: Refused (OutsideRoot)", place.path)
      }
      for (const path of ["r/ws", "r/own", "r/link", "r-evil", "r-evil2", "outside/ws/kept"]) {
        assert.isTrue(yield* has(`${home}/${path}`), path)
      }
    })
  ),
  law(
    "removing",
    "does nothing in a root that is elsewhere, or is another directory, or a link",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, rename }) {
      yield* makeDirectory(`${home}/root`)
      const place = yield* create(store, `${home}/root`, "ws")
      const refuses = Effect.gen(function*() {
        assert.strictEqual(yield* messageOf(store.remove(place)), "remove: Refused (Moved)")
        assert.strictEqual(yield* messageOf(store.create(place)), "create: Refused (Moved)")
      })
      yield* rename(`${home}/root`, `${home}/moved`)
      yield* refuses
      yield* makeDirectory(`${home}/root`)
      yield* makeDirectory(`${home}/root/ws`)
      yield* refuses
      yield* rename(`${home}/root`, `${home}/another`)
      yield* link(`${home}/moved`, `${home}/root`)
      yield* refuses
      assert.deepStrictEqual([yield* has(`${home}/moved/ws`), yield* has(`${home}/another/ws`)], [true, true])
    })
  ),
  law(
    "removing",
    "of a place where nothing is known to have been made, removes an empty directory and nothing else",
    Effect.fnUntraced(function*(store, { has, home, link, makeDirectory, write }) {
      const at = (name: string) => Effect.map(store.locate(home, name), (place) => ({ ...place, identity: null }))
      const places = yield* Effect.all([at("empty"), at("full"), at("file"), at("link"), at("nothing")])
      const [empty, full, file, linked, nothing] = places
      yield* makeDirectory(empty.path)
      yield* makeDirectory(full.path)
      yield* write(`${full.path}/kept`)
      yield* write(file.path)
      yield* makeDirectory(`${home}/target`)
      yield* link(`${home}/target`, linked.path)
      assert.strictEqual(yield* store.remove(empty), "Removed")
      assert.strictEqual(yield* messageOf(store.remove(full)), "remove: Refused (NotEmpty)")
      assert.strictEqual(yield* messageOf(store.remove(file)), "remove: Refused (Replaced)")
      assert.strictEqual(yield* messageOf(store.remove(linked)), "remove: Refused (Link)")
      assert.strictEqual(yield* store.remove(nothing), "Absent")
      const left = yield* Effect.forEach(
        [empty.path, `${full.path}/kept`, file.path, linked.path, `${home}/target`],
        (path) => has(path)
      )
      assert.deepStrictEqual(left, [false, true, true, true, true])
    })
  )
]

/**
 * Defines one test a law. `layer` is built for each, and has to give a store, and a home without anything in it that
 * `Files` sees as the store does.
 */
export const workspaceLaws = <E>(
  name: string,
  layer: Layer.Layer<WorkspaceStore.Service | Files, E>,
  options: Options = {}
): void => Suite.define(name, "a workspace store", Suite.skipping(laws, options.skipped), layer, "live")
