/**
 * A ledger in memory: the same laws as a durable one, and gone with the process. It makes no detached job possible.
 *
 * Every operation is one synchronous step, which is what makes it atomic: no fiber runs in the middle of it.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as WorkspaceLedgerMemory from "../internal/WorkspaceLedgerMemory.ts"
import * as ProcessLedger from "../ports/ProcessLedger.ts"

/** An empty ledger. Never fails. */
export const make: Effect.Effect<ProcessLedger.ProcessLedger> = Effect.sync(() => {
  const rows = new Map<string, ProcessLedger.LedgerRow>()

  /** Replaces the row by what `change` makes of it; `false` when there is none, or `change` refuses. */
  const update = (
    id: string,
    change: (row: ProcessLedger.LedgerRow) => ProcessLedger.LedgerRow | null
  ): boolean => {
    const row = rows.get(id)
    const changed = row === undefined ? null : change(row)
    if (changed !== null) rows.set(id, changed)
    return changed !== null
  }

  return {
    durable: false,
    insert: (row) =>
      Effect.sync(() => {
        if (rows.has(row.id)) return false
        rows.set(row.id, { ...row })
        return true
      }),
    transition: (id, expected, changes) =>
      Effect.sync(() => update(id, (row) => ProcessLedger.advance(row, expected, changes))),
    renew: (renewals) =>
      Effect.sync(() =>
        renewals
          .filter((renewal) => !update(renewal.id, (row) => ProcessLedger.renewed(row, renewal)))
          .map(({ id }) => id)
      ),
    get: (id) => Effect.sync(() => rows.get(id) ?? null),
    rows: (filter = {}) =>
      Effect.sync(() =>
        Array.from(rows.values()).filter((row) => ProcessLedger.matches(row, filter)).toSorted(ProcessLedger.byCreation)
      ),
    remove: (id, fence) =>
      Effect.sync(() => {
        const row = rows.get(id)
        if (row === undefined || row.fence !== fence || row.status === "running") return false
        return rows.delete(id)
      }),
    workspaces: WorkspaceLedgerMemory.make()
  }
})

/** A fresh ledger for each layer that is built. */
export const layer: Layer.Layer<ProcessLedger.Service> = Layer.effect(ProcessLedger.Service, make)
