import { assert, describe, it } from "@effect/vitest"
import type { WorkspaceStore } from "@procyon/runtime"
import { WorkspaceLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { NodeWorkspaceStore } from "../src/index.ts"
import { temporaryDirectory } from "./support/directory.ts"
import * as files from "./support/files.ts"
import { openDescriptors } from "./support/output.ts"
import { host, live, until } from "./support/processes.ts"

WorkspaceLaws.workspaceLaws(
  "a store of this machine's directories",
  Layer.merge(NodeWorkspaceStore.layer, files.layer)
)

const mountingHost = new URL("support/hosts/mounting.ts", import.meta.url)
const removingHost = new URL("support/hosts/removing.ts", import.meta.url)

const made = Effect.gen(function*() {
  const root = fs.realpathSync(yield* temporaryDirectory)
  const store = yield* NodeWorkspaceStore.make
  const place = yield* store.locate(root, "ws")
  return { root, store, place: { ...place, identity: yield* store.create(place) } }
})

const doomedName = ({ identity }: WorkspaceStore.Place) => `.removing-ws-${identity?.inode ?? ""}`

describe("a directory of this machine", () => {
  it.live("is its owner's alone, whatever the creation mask", () =>
    Effect.gen(function*() {
      const { place } = yield* made
      assert.strictEqual(fs.statSync(place.path).mode & 0o777, 0o700)
    }).pipe(Effect.scoped))

  it.live("is removed however deep it is, and leaves no descriptor open", () =>
    Effect.gen(function*() {
      const { place, root, store } = yield* made
      const depth = 3_000
      // Deeper than a path can be long, so it is made from its bottom up.
      const [inner, outer] = [join(place.path, "inner"), join(place.path, "outer")]
      fs.mkdirSync(inner)
      fs.writeFileSync(join(inner, "file"), "")
      for (let level = 0; level < depth; level++) {
        fs.mkdirSync(outer)
        fs.renameSync(inner, join(outer, "d"))
        fs.renameSync(outer, inner)
      }
      const before = openDescriptors()
      assert.strictEqual(yield* store.remove(place), "Removed")
      assert.deepStrictEqual(fs.readdirSync(root), [])
      assert.strictEqual(openDescriptors(), before)
    }).pipe(Effect.scoped))

  it.live("is removed with all kinds of files, and names that are no text", () =>
    Effect.gen(function*() {
      const { place, root, store } = yield* made
      const bytes = (name: string) => Buffer.concat([Buffer.from(`${place.path}/`), Buffer.from(name, "latin1")])
      fs.writeFileSync(bytes("\u00ff\u00fe"), "")
      fs.mkdirSync(bytes("\u00e9"))
      fs.writeFileSync(Buffer.concat([bytes("\u00e9"), Buffer.from("/file")]), "", { mode: 0 })
      fs.mkdirSync(join(place.path, "...\n"))
      assert.strictEqual(spawnSync("mkfifo", [join(place.path, "fifo")]).status, 0)
      fs.symlinkSync("/nowhere", join(place.path, "dangling"))
      fs.symlinkSync(".", join(place.path, "loop"))
      fs.linkSync(join(place.path, "loop"), join(place.path, "hard"))
      assert.strictEqual(yield* store.remove(place), "Removed")
      assert.deepStrictEqual(fs.readdirSync(root), [])
    }).pipe(Effect.scoped))

  it.live("whose removal was cut short by a crash is finished by the next, and who has its name now is left", () =>
    Effect.gen(function*() {
      const { place, root, store } = yield* made
      fs.mkdirSync(join(place.path, "a"))
      fs.renameSync(place.path, join(root, doomedName(place)))
      fs.mkdirSync(place.path)
      fs.writeFileSync(join(place.path, "kept"), "")
      assert.strictEqual(yield* store.remove(place), "Removed")
      assert.deepStrictEqual([fs.readdirSync(root), fs.readdirSync(place.path)], [["ws"], ["kept"]])
      assert.strictEqual((yield* Effect.flip(store.remove(place))).refusal, "Replaced")
    }).pipe(Effect.scoped))

  it.live("is not taken for one that somebody put at its private name", () =>
    Effect.gen(function*() {
      const { place, root, store } = yield* made
      const stranger = join(root, doomedName(place))
      fs.mkdirSync(stranger)
      fs.writeFileSync(join(stranger, "kept"), "")
      assert.strictEqual((yield* Effect.flip(store.remove(place))).refusal, "Replaced")
      fs.renameSync(stranger, join(root, "moved"))
      fs.symlinkSync(join(root, "moved"), stranger)
      assert.strictEqual((yield* Effect.flip(store.remove(place))).refusal, "Link")
      assert.isTrue(fs.existsSync(join(root, "moved", "kept")))
      assert.isTrue(fs.existsSync(place.path))
    }).pipe(Effect.scoped))

  it.live("whose removal is interrupted is finished by the next, and nothing is open afterwards", () =>
    Effect.gen(function*() {
      const { place, root, store } = yield* made
      for (let directory = 0; directory < 20; directory++) {
        const path = join(place.path, `d${directory}`)
        fs.mkdirSync(path)
        for (let file = 0; file < 100; file++) fs.writeFileSync(join(path, `${file}`), "")
      }
      const before = openDescriptors()
      const doomed = join(root, doomedName(place))
      const removal = yield* Effect.forkChild(store.remove(place), { startImmediately: true })
      yield* until("it has begun", () => fs.existsSync(doomed))
      yield* Fiber.interrupt(removal)
      yield* until("it has stopped", () => openDescriptors() === before)
      const left = fs.existsSync(doomed)
      assert.strictEqual(yield* store.remove(place), left ? "Removed" : "Absent")
      assert.deepStrictEqual(fs.readdirSync(root), [])
    }).pipe(Effect.scoped))

  it.live("is removed without holding up the event loop", () =>
    Effect.gen(function*() {
      const { place, store } = yield* made
      for (let file = 0; file < 2_000; file++) fs.writeFileSync(join(place.path, `${file}`), "")
      let turns = 0
      const removal = yield* Effect.forkChild(store.remove(place))
      while (removal.pollUnsafe() === undefined) {
        turns++
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      }
      // At least one for each few files.
      assert.isAbove(turns, 100)
    }).pipe(Effect.scoped))

  live(
    "is removed by its owner whatever the modes in it, and reported where something is another's",
    ["root"],
    () =>
      Effect.gen(function*() {
        const removing = yield* host<ReadonlyArray<string>>(removingHost, [])
        assert.deepStrictEqual(yield* removing.line, ["Removed", "create: Denied", "remove: Denied"])
        assert.deepStrictEqual(yield* removing.end, { code: 0, stderr: "" })
      })
  )

  for (const kind of ["bind", "tmpfs", "file"] as const) {
    live(
      `is left with what is mounted in it, which is not touched (${kind})`,
      ["root", "unshare"],
      () =>
        Effect.gen(function*() {
          const mounting = yield* host<ReadonlyArray<unknown>>(mountingHost, [kind], ["unshare", "--mount"])
          assert.deepStrictEqual(yield* mounting.line, ["remove: Busy", true, "Removed"])
          assert.deepStrictEqual(yield* mounting.end, { code: 0, stderr: "" })
        })
    )
  }
})
