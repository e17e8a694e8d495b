/**
 * One workspace a runtime holds, as data: its record, who works in it, and what became of it.
 */
import type * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import type { WorkspaceRow } from "../../domain/ShutdownPlan.ts"
import type { WorkspaceRecord } from "../../ports/WorkspaceLedger.ts"
import type { WorkspaceError } from "../../ports/WorkspaceStore.ts"

/** A directory that processes work in: their options take it. It is there until it is released and nobody uses it. */
export interface Workspace {
  /** Its name in this library. */
  readonly id: string
  /** Its real path. */
  readonly path: string
  /** Whose it is, as its acquirer said. */
  readonly owner: string | null
}

/** The workspace is released or gone: nothing starts in it any more. */
export class WorkspaceReleased
  extends Schema.TaggedError<WorkspaceReleased>()("WorkspaceReleased", { id: Schema.String })
{
  override get message(): string {
    return `workspace ${this.id} was released`
  }
}

/** A process that works in it, as far as this is concerned. */
export interface User {
  readonly id: string
  readonly marker: string
  /** Who has no owner has no row. */
  readonly owner: string | null
}

/** What the service does for a workspace at the turns of its users' lives. */
export interface Keeper {
  /** Nobody uses it any more, and it is released. */
  readonly onIdle: (workspace: OwnedWorkspace) => void
  /** Records the users that have no row. `false`: it could not. */
  readonly recordGuests: (workspace: OwnedWorkspace) => Effect.Effect<boolean>
}

export class OwnedWorkspace implements Workspace {
  /** What the ledger says, or is to say next. */
  record: WorkspaceRecord
  /** Processes that are not settled, or whose rows do not say so yet. */
  readonly users = new Set<User>()
  /** One call of store and ledger after the other. */
  readonly lock = Semaphore.makeUnsafe(1)
  released = false
  removed = false
  /** Why it could not be removed when that was last tried. */
  problem: WorkspaceError["problem"] | null = null
  removal: Fiber.Fiber<void> | null = null
  readonly #keeper: Keeper

  constructor(record: WorkspaceRecord, keeper: Keeper) {
    this.record = record
    this.#keeper = keeper
  }
  get id(): string {
    return this.record.id
  }
  get path(): string {
    return this.record.path
  }
  get owner(): string | null {
    return this.record.owner
  }

  /** A process that has no row works in it: recorded before it is started. */
  get recordGuests(): Effect.Effect<boolean> {
    return this.#keeper.recordGuests(this)
  }

  /** The user is settled with proof, and recorded as such where it has a row. Once is enough. */
  leave(user: User): void {
    if (this.users.delete(user) && this.released && this.users.size === 0) this.#keeper.onIdle(this)
  }
}

/** What a workspace looks like in a report, after its removal was tried or was left. */
export const rowOf = ({ id, owner, problem, removed, users }: OwnedWorkspace): WorkspaceRow => {
  const [user] = users
  if (removed) return { id, owner, outcome: "removed", problem: null, by: null }
  if (user !== undefined) return { id, owner, outcome: "kept", problem: null, by: user.id }
  return { id, owner, outcome: "failed", problem: problem ?? "TimedOut", by: null }
}
