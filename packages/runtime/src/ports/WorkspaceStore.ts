/**
 * The port for directories that jobs work in: each is made alone, and only the one that was made is ever removed.
 *
 * What a directory is, is decided by what the file system says of it (device and inode), never by its path alone: a path
 * can be moved, replaced, or lead through a link to somewhere else. A store decides nothing about when to remove.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * Which directory is meant, as decimal numbers. A file system may give both of a removed directory to a later one, and
 * some give a device another number after a restart: then nothing is removed.
 */
export const DirectoryIdentity = Schema.Struct({ device: Schema.String, inode: Schema.String })
export interface DirectoryIdentity extends Schema.Schema.Type<typeof DirectoryIdentity> {}

/** Whether both name the same directory. */
export const sameDirectory = (self: DirectoryIdentity, that: DirectoryIdentity): boolean =>
  self.device === that.device && self.inode === that.inode

/**
 * Where a directory is, exactly: everything needed to remove it and nothing else.
 *
 * - `root`, `rootIdentity`: the real path of what it was made in, and which directory that was.
 * - `path`: the real path, one name below `root`.
 * - `identity`: `null` before it is known to be made. Then nothing but an empty directory is ever removed there.
 */
export const Place = Schema.Struct({
  root: Schema.String,
  rootIdentity: DirectoryIdentity,
  path: Schema.String,
  identity: Schema.NullOr(DirectoryIdentity)
})
export interface Place extends Schema.Schema.Type<typeof Place> {}

/** Why a directory was left alone, though something is at its place. */
export const Refusal = Schema.Literals(["Moved", "Link", "Replaced", "OutsideRoot", "NotEmpty"])
export type Refusal = typeof Refusal.Type

/**
 * Carries no path and no message of the system's.
 *
 * - `BadName`: no name that a workspace can have. `NoRoot`: the root is not there, or is no directory.
 * - `Exists`: something is at that place already. `Denied`: no right to. `Full`: no space, or a quota.
 * - `Busy`: something is mounted in it, or goes on writing to it. It is removed as far as that goes.
 * - `Refused`: what is there is not what was made; `refusal` says how. Nothing was changed.
 *   `Moved`: the root is elsewhere, or another directory. `Link`, `Replaced`: at the place is a link, or something else.
 *   `OutsideRoot`: the place is not one name below the root. `NotEmpty`: it was never known to be made, and holds something.
 * - `Unsupported`: there is no store, or not on this platform. `NotRecorded`: it could not be recorded, so it was not made.
 * - `Lost`: another runtime has taken the record over. `TimedOut`: no answer in time; what came of it is not known.
 */
export class WorkspaceError extends Schema.TaggedError<WorkspaceError>()("WorkspaceError", {
  operation: Schema.Literals(["locate", "create", "record", "remove"]),
  problem: Schema.Literals([
    "BadName",
    "NoRoot",
    "Exists",
    "Denied",
    "Full",
    "Busy",
    "Refused",
    "Unsupported",
    "NotRecorded",
    "Lost",
    "TimedOut",
    "Other"
  ]),
  refusal: Schema.NullOr(Refusal)
}) {
  override get message(): string {
    return `${this.operation}: ${this.problem}${this.refusal === null ? "" : ` (${this.refusal})`}`
  }
}

/** The names a workspace's directory may have: those of `ProcessId`, so neither `..` nor one with a separator. */
export const isName = (name: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)

/**
 * Directories. An interrupted call may have done what it was asked for, or a part; asking again finishes it.
 */
export interface WorkspaceStore {
  /**
   * Where a directory of this name in `root` will be. Makes nothing. A `root` that is a link is resolved once, here: what
   * is answered is its real path. Fails with `BadName`, `NoRoot`, `Exists`, `Denied`.
   */
  readonly locate: (root: string, name: string) => Effect.Effect<Place, WorkspaceError>
  /**
   * Makes the directory, mode 0700, and answers with which one it is. Fails with `Exists` when anything is there; that is
   * left as it is.
   */
  readonly create: (place: Place) => Effect.Effect<DirectoryIdentity, WorkspaceError>
  /**
   * Removes the directory that was made there and everything in it, following no link and leaving no file system. What is
   * not that directory is left alone: `Refused`. `Absent`: there is nothing at that place.
   */
  readonly remove: (place: Place) => Effect.Effect<"Removed" | "Absent", WorkspaceError>
}

/** Where workspaces are made. Optional: without one none can be had. */
class WorkspaceStoreService
  extends Context.Service<WorkspaceStoreService, WorkspaceStore>()("@procyon/runtime/WorkspaceStore")
{}
export { WorkspaceStoreService as Service }
