/**
 * Bounds what the outputs of finished processes hold in memory together: past the bound the oldest shrink to what their
 * preview shows.
 *
 * It keeps none of them alive. A command's result that nobody holds any more goes with its output, and its share of the
 * bound with it; records that an owner still lists, and handles and views that somebody still holds, are bounded here.
 */
import type { OutputRetention } from "../OutputRetention.ts"

export interface FinishedOutput {
  /** Takes in an output that is sealed, as the youngest. */
  readonly add: (retention: OutputRetention) => void
  /** Its record is forgotten. */
  readonly remove: (retention: OutputRetention) => void
}

interface Entry {
  readonly retention: WeakRef<OutputRetention>
  readonly bytes: number
}

/** `limit`: bytes in all. */
export const make = (limit: number): FinishedOutput => {
  /** Oldest first. */
  const entries = new Set<Entry>()
  const known = new WeakMap<OutputRetention, Entry>()
  let total = 0
  const drop = (entry: Entry | undefined): void => {
    if (entry !== undefined && entries.delete(entry)) total -= entry.bytes
  }
  const collected = new FinalizationRegistry<Entry>(drop)
  return {
    add: (retention) => {
      const bytes = retention.metadata().bytesRetained
      // What holds nothing has nothing to give back.
      if (bytes === 0) return
      const entry: Entry = { retention: new WeakRef(retention), bytes }
      entries.add(entry)
      known.set(retention, entry)
      collected.register(retention, entry)
      total += bytes
      for (const oldest of entries) {
        if (total <= limit) return
        drop(oldest)
        oldest.retention.deref()?.shrink()
      }
    },
    remove: (retention) => drop(known.get(retention))
  }
}
