/**
 * A workspace store on files that are only imagined: for tests of what is above it. It keeps the same laws as a real one.
 *
 * Every call is one synchronous step. There are directories, empty files and links; a link is followed only where a root
 * is located.
 */
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Files, type FilesService } from "./Files.ts"

interface Node {
  readonly kind: "directory" | "file" | "link"
  readonly inode: number
  readonly target: string
}

const home = "/work"

class Tree {
  readonly #nodes = new Map<string, Node>()
  #inodes = 0

  constructor() {
    this.put(home, "directory")
  }

  get(path: string): Node | undefined {
    return this.#nodes.get(path)
  }

  put(path: string, kind: Node["kind"], target = ""): Node {
    const node = { kind, inode: ++this.#inodes, target }
    this.#nodes.set(path, node)
    return node
  }

  /** It and all below it. */
  below(path: string): ReadonlyArray<string> {
    return [...this.#nodes.keys()].filter((at) => at === path || at.startsWith(`${path}/`))
  }

  rename(from: string, to: string): void {
    for (const path of this.below(from)) {
      const node = this.#nodes.get(path)
      this.#nodes.delete(path)
      if (node !== undefined) this.#nodes.set(`${to}${path.slice(from.length)}`, node)
    }
  }

  remove(path: string): void {
    for (const each of this.below(path)) this.#nodes.delete(each)
  }
}

const filesOf = (tree: Tree): FilesService => ({
  home,
  makeDirectory: (path) => Effect.sync(() => tree.put(path, "directory")),
  write: (path) => Effect.sync(() => tree.put(path, "file")),
  link: (target, path) => Effect.sync(() => tree.put(path, "link", target)),
  rename: (from, to) => Effect.sync(() => tree.rename(from, to)),
  has: (path) => Effect.sync(() => tree.get(path) !== undefined)
})

const identityOf = ({ inode }: Node): WorkspaceStore.DirectoryIdentity => ({ device: "1", inode: `${inode}` })

const is = (node: Node | undefined, identity: WorkspaceStore.DirectoryIdentity): boolean =>
  node?.kind === "directory" && WorkspaceStore.sameDirectory(identityOf(node), identity)

const storeOf = (tree: Tree): WorkspaceStore.WorkspaceStore => {
  type Error = WorkspaceStore.WorkspaceError
  const fail = (
    operation: Error["operation"],
    problem: Error["problem"],
    refusal: Error["refusal"] = null
  ): Effect.Effect<never, Error> => Effect.fail(new WorkspaceStore.WorkspaceError({ operation, problem, refusal }))

  /** `null`: the place is where it was, below the root that was recorded. */
  const misplaced = ({ path, root, rootIdentity }: WorkspaceStore.Place): WorkspaceStore.Refusal | null => {
    if (!is(tree.get(root), rootIdentity)) return "Moved"
    const isBelow = path.startsWith(`${root}/`) && WorkspaceStore.isName(path.slice(root.length + 1))
    return isBelow ? null : "OutsideRoot"
  }

  const refusalOf = ({ identity, path }: WorkspaceStore.Place, node: Node): WorkspaceStore.Refusal | null => {
    if (node.kind === "link") return "Link"
    if (node.kind === "file") return "Replaced"
    if (identity === null) return tree.below(path).length > 1 ? "NotEmpty" : null
    return is(node, identity) ? null : "Replaced"
  }

  return {
    locate: (root, name) =>
      Effect.suspend(() => {
        if (!WorkspaceStore.isName(name)) return fail("locate", "BadName")
        const given = tree.get(root)
        const real = given?.kind === "link" ? given.target : root
        const node = tree.get(real)
        if (node?.kind !== "directory") return fail("locate", "NoRoot")
        const path = `${real}/${name}`
        if (tree.get(path) !== undefined) return fail("locate", "Exists")
        return Effect.succeed({ root: real, rootIdentity: identityOf(node), path, identity: null })
      }),
    create: (place) =>
      Effect.suspend(() => {
        const refusal = misplaced(place)
        if (refusal !== null) return fail("create", "Refused", refusal)
        if (tree.get(place.path) !== undefined) return fail("create", "Exists")
        return Effect.succeed(identityOf(tree.put(place.path, "directory")))
      }),
    remove: (place) =>
      Effect.suspend(() => {
        const node = tree.get(place.path)
        const refusal = misplaced(place) ?? (node === undefined ? null : refusalOf(place, node))
        if (refusal !== null) return fail("remove", "Refused", refusal)
        if (node === undefined) return Effect.succeed("Absent" as const)
        tree.remove(place.path)
        return Effect.succeed("Removed" as const)
      })
  }
}

/** A store, and the files it works on: `home` is there, a directory, and nothing else. */
export const layer: Layer.Layer<WorkspaceStore.Service | Files> = Layer.effectContext(
  Effect.sync(() => {
    const tree = new Tree()
    return Context.make(WorkspaceStore.Service, storeOf(tree)).pipe(Context.add(Files, filesOf(tree)))
  })
)
