/**
 * The records of workspaces, a group of the process ledger's operations: which directories were made, for whom, and which
 * runtime will remove them. Written before a directory is made, and removed when it is gone.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Identity } from "../domain/Identity.ts"
import type { LedgerError } from "./ProcessLedger.ts"
import { Place } from "./WorkspaceStore.ts"

/**
 * One workspace. All times are epoch milliseconds of the wall clock.
 *
 * - `guests`: processes that work in it and have no row of their own, by their markers: the only way to find them once
 *   the runtime that started them is gone.
 * - `holder`, `fence`, `leaseUntil`: as those of a process's row.
 */
export const WorkspaceRecord = Schema.Struct({
  id: Schema.String,
  owner: Schema.NullOr(Schema.String),
  ...Place.fields,
  guests: Schema.Array(Identity),
  createdAt: Schema.Finite,
  holder: Schema.NullOr(Identity),
  fence: Schema.Int,
  leaseUntil: Schema.Finite
})
export interface WorkspaceRecord extends Schema.Schema.Type<typeof WorkspaceRecord> {}

/** What may change of a record; what is left out stays. */
export interface WorkspaceChanges
  extends Partial<Pick<WorkspaceRecord, "identity" | "guests" | "holder" | "fence" | "leaseUntil">>
{}

/** Each call is one atomic step, as those on rows are. */
export interface WorkspaceLedger {
  /** `false`: the id or the path is taken, and nothing was written: no two records ever name one place. */
  readonly insert: (record: WorkspaceRecord) => Effect.Effect<boolean, LedgerError>
  /** `false`: there is no such record with this fence, or the new fence is lower; then nothing was written. */
  readonly update: (id: string, fence: number, changes: WorkspaceChanges) => Effect.Effect<boolean, LedgerError>
  /** Forgets a record for good. `false`: there is none with this fence. */
  readonly remove: (id: string, fence: number) => Effect.Effect<boolean, LedgerError>
  /** All of them, in creation order. One that cannot be read fails the call, unless it is to be skipped. */
  readonly list: (
    options?: { readonly unreadable?: "fail" | "skip" | undefined }
  ) => Effect.Effect<ReadonlyArray<WorkspaceRecord>, LedgerError>
}

/** The record after an update, or `null` when it does not apply: the one rule for every ledger. */
export const updated = (
  record: WorkspaceRecord,
  fence: number,
  changes: WorkspaceChanges
): WorkspaceRecord | null => record.fence === fence && isAllowed(fence, changes) ? { ...record, ...changes } : null

/** Whether a record with this fence may be changed so. */
export const isAllowed = (fence: number, changes: WorkspaceChanges): boolean => (changes.fence ?? fence) >= fence

/** Creation order. */
export const byCreation = (self: WorkspaceRecord, that: WorkspaceRecord): number => {
  if (self.createdAt !== that.createdAt) return self.createdAt - that.createdAt
  if (self.id === that.id) return 0
  return self.id < that.id ? -1 : 1
}
