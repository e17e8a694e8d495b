/**
 * A host without rights: removes workspaces in which the modes of directories, or their owners, are in the way.
 */
import { NodeWorkspaceStore } from "@procyon/platform-node"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as os from "node:os"
import { join } from "node:path"

const root = fs.realpathSync(fs.mkdtempSync(join(os.tmpdir(), "procyon-removing-")))
fs.chmodSync(root, 0o777)
/** Another user's, with something in it. */
const theirs = join(root, "theirs")
fs.mkdirSync(theirs, { mode: 0o755 })
fs.writeFileSync(join(theirs, "file"), "")

const nobody = 65534
process.setgroups?.([])
process.setgid?.(nobody)
process.setuid?.(nobody)

const create = Effect.fnUntraced(function*(name: string) {
  const store = yield* NodeWorkspaceStore.make
  const place = yield* store.locate(root, name)
  return { ...place, identity: yield* store.create(place) }
})

const answer = (effect: Effect.Effect<unknown, { readonly message: string }>) =>
  Effect.match(effect, { onFailure: ({ message }) => message, onSuccess: String })

const application = Effect.gen(function*() {
  const store = yield* NodeWorkspaceStore.make
  const closed = yield* create("closed")
  for (const [path, mode] of [["a/b", 0o500], ["a/c", 0o000], ["d/e/f", 0o300]] as const) {
    fs.mkdirSync(join(closed.path, path), { recursive: true })
    fs.writeFileSync(join(closed.path, path, "file"), "")
    fs.chmodSync(join(closed.path, path), mode)
  }
  for (const path of ["a", "d/e", "d", "."]) fs.chmodSync(join(closed.path, path), 0o500)
  const removed = yield* answer(store.remove(closed))
  const { dev, ino } = fs.statSync(theirs, { bigint: true })
  const identity = { device: `${dev}`, inode: `${ino}` }
  const notMade = yield* answer(
    store.create({ root: theirs, rootIdentity: identity, path: join(theirs, "ws"), identity: null })
  )
  const notRemoved = yield* answer(store.remove({ ...closed, path: theirs, identity }))
  process.stdout.write(`${JSON.stringify([removed, notMade, notRemoved])}\n`)
})

await Effect.runPromise(application)
