/**
 * Workspaces as directories of this machine, on Linux. Elsewhere every call answers `Unsupported`: what removal relies on
 * is there only.
 *
 * A directory is renamed to a private name in the same root before anything in it is removed, and only what then has that
 * name and the recorded identity is emptied. The private name follows from the record, so a removal that was cut short, by
 * a crash too, is finished by the next.
 */
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs/promises"
import { type Anchor, anchored, codeOf, isAbsent } from "./internal/anchor.ts"
import { empty, Mounted, StillWritten } from "./internal/emptying.ts"

type Operation = WorkspaceStore.WorkspaceError["operation"]
type Problem = WorkspaceStore.WorkspaceError["problem"]
type Place = WorkspaceStore.Place
type DirectoryIdentity = WorkspaceStore.DirectoryIdentity

const failed = (operation: Operation, problem: Problem): WorkspaceStore.WorkspaceError =>
  new WorkspaceStore.WorkspaceError({ operation, problem, refusal: null })

const refused = (operation: Operation, refusal: WorkspaceStore.Refusal): WorkspaceStore.WorkspaceError =>
  new WorkspaceStore.WorkspaceError({ operation, problem: "Refused", refusal })

/** errno(3). */
const problems: Readonly<Record<string, Problem>> = {
  EEXIST: "Exists",
  EACCES: "Denied",
  EPERM: "Denied",
  EROFS: "Denied",
  ENOSPC: "Full",
  EDQUOT: "Full",
  EBUSY: "Busy",
  EXDEV: "Busy",
  ENOTEMPTY: "Busy"
}

const problemOf = (error: unknown): Problem =>
  error instanceof Mounted || error instanceof StillWritten ? "Busy" : problems[codeOf(error)] ?? "Other"

const attempt = <A>(
  operation: Operation,
  call: (signal: AbortSignal) => Promise<A>
): Effect.Effect<A, WorkspaceStore.WorkspaceError> =>
  process.platform !== "linux" ? Effect.fail(failed(operation, "Unsupported")) : Effect.tryPromise({
    try: call,
    catch: (error) => error instanceof WorkspaceStore.WorkspaceError ? error : failed(operation, problemOf(error))
  })

/** Holds the recorded root, when it is still where and what it was. */
const inRoot = async <A>(operation: Operation, place: Place, use: (root: Anchor) => Promise<A>): Promise<A> => {
  let reached = false
  try {
    return await anchored(place.root, async (root) => {
      const isThere = root.is(place.rootIdentity) && await root.place === place.root
      if (!isThere) throw refused(operation, "Moved")
      reached = true
      return use(root)
    })
  } catch (error) {
    const isElsewhere = !reached && (isAbsent(error) || codeOf(error) === "ENOTDIR")
    throw isElsewhere ? refused(operation, "Moved") : error
  }
}

/** The one name that leads from the root to the place; a path that only begins like the root is outside. */
const nameIn = (operation: Operation, { path, root }: Place): string => {
  const prefix = root.endsWith("/") ? root : `${root}/`
  const name = path.slice(prefix.length)
  if (!path.startsWith(prefix) || !WorkspaceStore.isName(name)) throw refused(operation, "OutsideRoot")
  return name
}

const locate = async (root: string, name: string): Promise<Place> => {
  if (!WorkspaceStore.isName(name)) throw failed("locate", "BadName")
  const isNoRoot = (error: unknown) => isAbsent(error) || codeOf(error) === "ENOTDIR" || codeOf(error) === "ELOOP"
  try {
    const real = await fs.realpath(root)
    return await anchored(real, async (anchor) => {
      // Where it cannot be read there is no /proc, and nothing below would work.
      const at = await anchor.place.catch(() => null)
      if (at === null) throw failed("locate", "Unsupported")
      if (at !== real) throw failed("locate", "NoRoot")
      if (await isAnything(anchor, name)) throw failed("locate", "Exists")
      return {
        root: real,
        rootIdentity: anchor.identity,
        path: real.endsWith("/") ? `${real}${name}` : `${real}/${name}`,
        identity: null
      }
    })
  } catch (error) {
    throw isNoRoot(error) ? failed("locate", "NoRoot") : error
  }
}

const isAnything = async (root: Anchor, name: string): Promise<boolean> => {
  try {
    await fs.lstat(root.at(name))
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    throw error
  }
}

const create = (place: Place): Promise<DirectoryIdentity> =>
  inRoot("create", place, async (root) => {
    const name = nameIn("create", place)
    await fs.mkdir(root.at(name), 0o700)
    return anchored(root.at(name), async (made) => {
      // A creation mask may have taken rights away.
      await made.claim()
      return made.identity
    })
  })

/** Whether the recorded directory has this name; what else has it is refused. */
const isRecorded = async (root: Anchor, name: string, identity: DirectoryIdentity): Promise<boolean> => {
  try {
    const stat = await fs.lstat(root.at(name), { bigint: true })
    if (stat.isSymbolicLink()) throw refused("remove", "Link")
    const found = { device: `${stat.dev}`, inode: `${stat.ino}` }
    if (!stat.isDirectory() || !WorkspaceStore.sameDirectory(found, identity)) throw refused("remove", "Replaced")
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    throw error
  }
}

/** No workspace can have it, since the names of those begin with a letter or a digit. */
const privateName = (name: string, identity: DirectoryIdentity): string => `.removing-${name}-${identity.inode}`

const remove = (place: Place, signal: AbortSignal): Promise<"Removed" | "Absent"> =>
  inRoot("remove", place, async (root) => {
    const name = nameIn("remove", place)
    const { identity } = place
    const removed = identity === null ? await removeEmpty(root, name) : await removeTree(root, name, identity, signal)
    if (!removed) return "Absent"
    await root.sync()
    return "Removed"
  })

/** It may be somebody else's: only a directory that holds nothing is removed. */
const removeEmpty = async (root: Anchor, name: string): Promise<boolean> => {
  try {
    await fs.rmdir(root.at(name))
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") throw refused("remove", "NotEmpty")
    if (codeOf(error) !== "ENOTDIR") throw error
    throw refused("remove", (await fs.lstat(root.at(name))).isSymbolicLink() ? "Link" : "Replaced")
  }
}

/** How often a directory may turn out to be gone half way. Each time somebody else has got on with it. */
const patience = 10

/** Another removal may be at it too, such as one that was told to stop and is not through with its last call. */
const removeTree = async (
  root: Anchor,
  name: string,
  identity: DirectoryIdentity,
  signal: AbortSignal
): Promise<boolean> => {
  for (let tries = patience;; tries--) {
    try {
      return await removeOnce(root, name, identity, signal)
    } catch (error) {
      if (!isAbsent(error) || tries === 0) throw error
    }
  }
}

const removeOnce = async (
  root: Anchor,
  name: string,
  identity: DirectoryIdentity,
  signal: AbortSignal
): Promise<boolean> => {
  const doomed = privateName(name, identity)
  // First of all what an earlier removal has left: its old name may be another directory's by now.
  if (!await isRecorded(root, doomed, identity)) {
    if (!await isRecorded(root, name, identity)) return false
    await fs.rename(root.at(name), root.at(doomed))
  }
  await holdDoomed(root, name, doomed, identity, (directory) => empty(directory, signal))
  await fs.rmdir(root.at(doomed))
  return true
}

/** What was renamed may have been put there between the look and the rename: then it goes back. */
const holdDoomed = async (
  root: Anchor,
  name: string,
  doomed: string,
  identity: DirectoryIdentity,
  use: (directory: Anchor) => Promise<void>
): Promise<void> => {
  let isDoomed = false
  try {
    await anchored(root.at(doomed), async (directory) => {
      isDoomed = directory.is(identity)
      if (isDoomed) await use(directory)
    })
  } catch (error) {
    // A link or a file cannot even be held.
    if (isDoomed || codeOf(error) !== "ENOTDIR") throw error
  }
  if (isDoomed) return
  if (!await isAnything(root, name)) await fs.rename(root.at(doomed), root.at(name))
  throw refused("remove", "Replaced")
}

/** The directories of this machine. Makes nothing by itself. */
export const make: Effect.Effect<WorkspaceStore.WorkspaceStore> = Effect.succeed({
  locate: (root, name) => attempt("locate", () => locate(root, name)),
  create: (place) => attempt("create", () => create(place)),
  remove: (place) => attempt("remove", (signal) => remove(place, signal))
})

/** The store of `make`. */
export const layer: Layer.Layer<WorkspaceStore.Service> = Layer.effect(WorkspaceStore.Service, make)
