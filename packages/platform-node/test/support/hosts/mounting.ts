/**
 * A host in a mount namespace of its own: mounts something in a workspace, removes that, and says what the answer was,
 * whether what is mounted is as before, and what the answer is once it is not mounted any more.
 */
import { NodeWorkspaceStore } from "@procyon/platform-node"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import { join } from "node:path"

const [kind = "bind"] = process.argv.slice(2)
const root = fs.realpathSync(fs.mkdtempSync(join(os.tmpdir(), "procyon-mounting-")))
const outside = join(root, "outside")

const run = (program: string, ...args: ReadonlyArray<string>): void => {
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(stderr)
}

/** Mounts it at `point`; answers with a file that only a removal which goes through the mount could remove. */
const mount = (point: string): string => {
  if (kind === "file") {
    fs.writeFileSync(outside, "")
    fs.writeFileSync(point, "")
    run("mount", "--bind", outside, point)
    return outside
  }
  fs.mkdirSync(point)
  if (kind === "tmpfs") {
    run("mount", "-t", "tmpfs", "tmpfs", point)
    fs.writeFileSync(join(point, "kept"), "")
    // Where it is seen from, whatever becomes of the workspace.
    fs.mkdirSync(outside)
    run("mount", "--bind", point, outside)
    return join(outside, "kept")
  }
  fs.mkdirSync(outside)
  fs.writeFileSync(join(outside, "kept"), "")
  run("mount", "--bind", outside, point)
  return join(outside, "kept")
}

const application = Effect.gen(function*() {
  const store = yield* NodeWorkspaceStore.make
  const located = yield* store.locate(root, "ws")
  const place = { ...located, identity: yield* store.create(located) }
  fs.mkdirSync(join(place.path, "a"))
  const kept = mount(join(place.path, "a", "point"))
  const refused = yield* Effect.flip(store.remove(place))
  const isKept = fs.existsSync(kept)
  // It was moved with the workspace, and perhaps up in it.
  const points = fs.readFileSync("/proc/self/mountinfo", "utf8").split("\n").map((line) => line.split(" ")[4] ?? "")
  for (const point of points) if (point.startsWith(join(root, ".removing-"))) run("umount", point)
  process.stdout.write(`${JSON.stringify([refused.message, isKept, yield* store.remove(place)])}\n`)
})

await Effect.runPromise(application)
