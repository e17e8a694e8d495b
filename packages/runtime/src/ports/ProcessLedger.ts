/**
 * The port for rows that outlive this process: what was started, for whom, who holds it now, and how it ended.
 *
 * A row is written before its process is started, moved only by compare-and-set, and read again after a restart. It
 * never holds a prompt, an argument, a script, an environment value or output. A ledger keeps rows and decides nothing:
 * whether a lease is void, and what is to become of a row, is the runtime's business.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Identity } from "../domain/Identity.ts"
import { isSettled, Status, TerminationResult } from "../domain/Status.ts"
import type { WorkspaceLedger } from "./WorkspaceLedger.ts"

/**
 * Carries no statement, no path and no message of the store's own.
 *
 * - `Unavailable`: it could not be reached, or was locked; trying again may help.
 * - `Full`: no space, or a quota. `Denied`: no right to. `Corrupt`: a row there cannot be read as one.
 * - `Newer`: on `open`, a newer program has changed the form of its rows. Nothing was read or written.
 */
export class LedgerError extends Schema.TaggedError<LedgerError>()("LedgerError", {
  operation: Schema.Literals(["open", "insert", "transition", "renew", "get", "rows", "remove"]),
  problem: Schema.Literals(["Unavailable", "Full", "Denied", "Corrupt", "Newer", "Other"])
}) {
  override get message(): string {
    return `${this.operation}: ${this.problem}`
  }
}

/** `session` ends with its owner, `application` with the runtime's layer, `detached` with neither. */
export const Lifetime = Schema.Literals(["session", "application", "detached"])
export type Lifetime = typeof Lifetime.Type

/**
 * What a row says of a command: its executable's base name, how many arguments, and a digest that equal commands of one
 * runtime share. The digest is keyed, so that no secret can be guessed from it; two runtimes give different ones.
 */
export const CommandSummary = Schema.Struct({
  name: Schema.String,
  args: Schema.Int,
  digest: Schema.NullOr(Schema.String)
})
export interface CommandSummary extends Schema.Schema.Type<typeof CommandSummary> {}

/**
 * What is known of one stream of output, as far as it outlives the process: counts, the hash of everything seen once it
 * was sealed, and the reference of the blob that holds it. `gap`: what a partial blob lacks.
 */
export const StoredStream = Schema.Struct({
  bytesSeen: Schema.Natural,
  truncated: Schema.Boolean,
  drained: Schema.Boolean,
  sha256: Schema.NullOr(Schema.String),
  blob: Schema.NullOr(Schema.String),
  spilledBytes: Schema.Natural,
  gap: Schema.NullOr(Schema.Struct({ from: Schema.Natural, to: Schema.Natural }))
})
export interface StoredStream extends Schema.Schema.Type<typeof StoredStream> {}

/** Both streams. `stderr: null`: merged into `stdout`. */
export const StoredOutput = Schema.Struct({ stdout: StoredStream, stderr: Schema.NullOr(StoredStream) })
export interface StoredOutput extends Schema.Schema.Type<typeof StoredOutput> {}

/** What another runtime has to know to end a process as its starter would have. Milliseconds and bytes. */
export const StoredPolicy = Schema.Struct({
  stopSignal: Schema.String,
  graceMillis: Schema.Finite,
  forceWindowMillis: Schema.Finite,
  idleDeadlineMillis: Schema.NullOr(Schema.Finite),
  capBytes: Schema.Natural,
  leftovers: Schema.Literals(["end", "keep"])
})
export interface StoredPolicy extends Schema.Schema.Type<typeof StoredPolicy> {}

/**
 * One process. All times are epoch milliseconds of the wall clock.
 *
 * - `title`: its caller's own words for it. `name`: its caller's handle for it.
 * - `identity`: without a pid until the driver has answered (`Identity.unborn`): a row that is left so may or may not have
 *   a process. `null` where not even the boot is known.
 * - `deadlineAt`: when it is to be ended, `null` for never. Rechecked after a restart.
 * - `holder`, `fence`, `leaseUntil`: the runtime that acts for it, until when, and the number that grows each time
 *   another one takes over. Writes with an older number change nothing. `holder` is `null` where the runtime's own
 *   identity is not known; its lease then ends by expiry only.
 * - `counters`: as of the last renewal, so a lower bound.
 * - `output`: its streams, as of the settlement; before it, whether they are merged. `workspace`: the id of the workspace
 *   it works in. `policy`: `null` for defaults.
 * - `termination`: its receipt.
 * - `offered`, `told`: the last status whose notice was handed to its owner, and the last that the owner has taken. A
 *   notice that was offered and not taken may or may not have been seen.
 */
export const LedgerRow = Schema.Struct({
  id: Schema.String,
  owner: Schema.String,
  lifetime: Lifetime,
  status: Status,
  command: CommandSummary,
  title: Schema.NullOr(Schema.String),
  name: Schema.NullOr(Schema.String),
  policy: Schema.NullOr(StoredPolicy),
  identity: Schema.NullOr(Identity),
  startedAt: Schema.Finite,
  endedAt: Schema.NullOr(Schema.Finite),
  deadlineAt: Schema.NullOr(Schema.Finite),
  holder: Schema.NullOr(Identity),
  fence: Schema.Int,
  leaseUntil: Schema.Finite,
  counters: Schema.Struct({ bytesSeen: Schema.Natural }),
  output: Schema.NullOr(StoredOutput),
  workspace: Schema.NullOr(Schema.String),
  termination: Schema.NullOr(TerminationResult),
  offered: Schema.NullOr(Status),
  told: Schema.NullOr(Status)
})
export interface LedgerRow extends Schema.Schema.Type<typeof LedgerRow> {}

/** What a row has to be for a transition to apply. */
export interface Expected {
  readonly fence: number
  readonly status: Status
}

/** What a transition changes; what is left out stays. Who a row is, whose, and when it began never change. */
export interface Changes extends Partial<Omit<LedgerRow, "id" | "owner" | "startedAt" | "status">> {
  readonly status: Status
}

/** One row's heartbeat: `leaseUntil` is set, counters only grow. */
export interface Renewal {
  readonly id: string
  readonly fence: number
  readonly leaseUntil: number
  readonly bytesSeen: number
}

/**
 * Which rows: those that fit everything asked for. `settled: false` are the ones that are `running` or `kill_failed`.
 *
 * One row among them that cannot be read fails the call, so that it is never taken for none. `unreadable: "skip"` gives
 * the others.
 */
export interface Filter {
  readonly owner?: string | undefined
  readonly settled?: boolean | undefined
  readonly unreadable?: "fail" | "skip" | undefined
}

/** Each call is one atomic step: all of it or nothing, and two callers see each other's before or after. */
export interface ProcessLedger {
  /** Whether rows outlive this application: detached processes need that. */
  readonly durable: boolean
  /** `false`: the id is taken, and nothing was written. */
  readonly insert: (row: LedgerRow) => Effect.Effect<boolean, LedgerError>
  /**
   * `false`: there is no such row, somebody moved it first, or the change is not one a row may make (see `advance`); then
   * nothing was written.
   */
  readonly transition: (id: string, expected: Expected, changes: Changes) => Effect.Effect<boolean, LedgerError>
  /**
   * Renews many leases at once. Answers with the ids that were not: the row is gone, settled, or has another fence, so
   * that whoever asked no longer holds it.
   */
  readonly renew: (renewals: ReadonlyArray<Renewal>) => Effect.Effect<ReadonlyArray<string>, LedgerError>
  /** One row, `null` when there is none. */
  readonly get: (id: string) => Effect.Effect<LedgerRow | null, LedgerError>
  /** In creation order: by `startedAt`, then by id. */
  readonly rows: (filter?: Filter) => Effect.Effect<ReadonlyArray<LedgerRow>, LedgerError>
  /**
   * Forgets a row for good. `false`: there is none, its fence is another, or it is `running`: a row that may have a
   * living process is never forgotten. That of a `kill_failed` one is; the caller answers for it.
   */
  readonly remove: (id: string, fence: number) => Effect.Effect<boolean, LedgerError>
  /** The records of the directories that these processes work in. */
  readonly workspaces: WorkspaceLedger
}

/** Where the rows of jobs are. */
class ProcessLedgerService extends Context.Service<ProcessLedgerService, ProcessLedger>()(
  "@procyon/runtime/ProcessLedger"
) {}
export { ProcessLedgerService as Service }

/**
 * The row after a transition, or `null` when it does not apply: the one rule for every ledger. The row must be as
 * expected; its fence never goes down; a settled status is final (other fields may still change, as when a blob is
 * removed); `kill_failed` never becomes `running` again.
 */
export const advance = (row: LedgerRow, expected: Expected, changes: Changes): LedgerRow | null => {
  if (row.fence !== expected.fence || row.status !== expected.status || !isAllowed(expected, changes)) return null
  return { ...row, ...changes, id: row.id, owner: row.owner, startedAt: row.startedAt }
}

/** Whether a row that is as expected may be changed so: what a store asks that compares and sets in one statement. */
export const isAllowed = (expected: Expected, changes: Changes): boolean =>
  mayBecome(expected.status, changes.status) && (changes.fence ?? expected.fence) >= expected.fence

/** Whether a row's status may become this one. */
export const mayBecome = (from: Status, to: Status): boolean => {
  if (from === to || from === "running") return true
  return from === "kill_failed" && isSettled(to)
}

/** The row after its heartbeat, or `null` when it is not the sender's to renew. */
export const renewed = (row: LedgerRow, { bytesSeen, fence, leaseUntil }: Renewal): LedgerRow | null =>
  row.fence === fence && !isSettled(row.status)
    ? { ...row, leaseUntil, counters: { bytesSeen: Math.max(row.counters.bytesSeen, bytesSeen) } }
    : null

/** Whether a row fits a filter. */
export const matches = (row: LedgerRow, filter: Filter): boolean =>
  (filter.owner === undefined || row.owner === filter.owner) &&
  (filter.settled === undefined || isSettled(row.status) === filter.settled)

/** Creation order. */
export const byCreation = (self: LedgerRow, that: LedgerRow): number => {
  if (self.startedAt !== that.startedAt) return self.startedAt - that.startedAt
  if (self.id === that.id) return 0
  return self.id < that.id ? -1 : 1
}
