/**
 * The records of workspaces in memory, for the ledger there. Every operation is one synchronous step.
 */
import * as Effect from "effect/Effect"
import * as WorkspaceLedger from "../ports/WorkspaceLedger.ts"

/** No records yet. Never fails. */
export const make = (): WorkspaceLedger.WorkspaceLedger => {
  const records = new Map<string, WorkspaceLedger.WorkspaceRecord>()

  const isTaken = ({ id, path }: WorkspaceLedger.WorkspaceRecord): boolean =>
    records.has(id) || [...records.values()].some((record) => record.path === path)

  return {
    insert: (record) =>
      Effect.sync(() => {
        if (isTaken(record)) return false
        records.set(record.id, { ...record })
        return true
      }),
    update: (id, fence, changes) =>
      Effect.sync(() => {
        const record = records.get(id)
        const changed = record === undefined ? null : WorkspaceLedger.updated(record, fence, changes)
        if (changed !== null) records.set(id, changed)
        return changed !== null
      }),
    remove: (id, fence) => Effect.sync(() => records.get(id)?.fence === fence && records.delete(id)),
    list: () => Effect.sync(() => [...records.values()].toSorted(WorkspaceLedger.byCreation))
  }
}
