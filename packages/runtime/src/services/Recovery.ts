/**
 * What becomes of the jobs of earlier lives: found again by their rows, adopted, ended, told of, or honestly called lost.
 *
 * A runtime that starts goes through the rows of its ledger. Those that a living runtime holds are left alone. The others
 * it takes over, one by one, so that of several runtimes only one has each: detached jobs that live go on as its own; of
 * all other jobs whatever still lives is ended, since nobody is left who owns it; one that ended while nobody was there
 * has its recorded exit, or none, and is `error` then, never a success. What cannot be ended, or cannot be told, is
 * `kill_failed`, for review. Only what a row names is looked at, signalled or removed.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Printable from "../domain/Printable.ts"
import { WorkspaceRow } from "../domain/ShutdownPlan.ts"
import * as Status from "../domain/Status.ts"
import type { Info } from "./BackgroundProcess.ts"
import type { ProcessNotFound } from "./jobs/JobErrors.ts"

/**
 * What became of one row.
 *
 * - `adopted`: it lives, outlives its runtimes, and is this one's now.
 * - `ended`: somebody of it still lived, and was ended; nobody is left.
 * - `completed`: it ended while nobody was there, and its exit was found.
 * - `lost`: nobody of it lives, and how it ended, or whether it ever began, is not known.
 * - `review`: it may live, and could not be ended or not be looked at.
 * - `elsewhere`: another runtime holds it, or was faster; or, as `detail` says then, it could not be claimed, which is tried
 *   again.
 */
export const Outcome = Schema.Literals(["adopted", "ended", "completed", "lost", "review", "elsewhere"])
export type Outcome = typeof Outcome.Type

/** One row, as it is after the pass. `title` is its caller's own; `detail` is for people, and bounded. */
export const Entry = Schema.Struct({
  id: Schema.String,
  owner: Schema.String,
  title: Schema.NullOr(Schema.String),
  outcome: Outcome,
  status: Status.Status,
  detail: Schema.NullOr(Schema.String)
})
export interface Entry extends Schema.Schema.Type<typeof Entry> {}

/**
 * What one pass found. `entries`: every row that was not settled when it began and was not this runtime's own. `known`:
 * rows of jobs that had settled before, whose records and notices were read. `workspaces`: those that runtimes which are
 * gone have left, removed, kept or failed. `unreadable`: a row could not be read, and
 * stays as it is. `failed`: the ledger could not be asked, or the runtime is closing, so that
 * nothing is known. While there is something to be tried again, or to be watched, the next pass comes by itself.
 */
export const Report = Schema.Struct({
  entries: Schema.Array(Entry),
  known: Schema.Natural,
  workspaces: Schema.Array(WorkspaceRow),
  unreadable: Schema.Boolean,
  failed: Schema.Boolean,
  durationMillis: Schema.Finite
})
export interface Report extends Schema.Schema.Type<typeof Report> {}

/** For applications and operators: it may name jobs of any owner. */
export interface Recovery {
  /**
   * Goes through the rows once more, or joins the pass that runs, and answers when everybody who had to end has ended or
   * could not. Never fails: what a ledger did not tell is said in the report. Interrupting the caller ends only its wait.
   */
  readonly reconcile: Effect.Effect<Report>
  /** The report of the pass that building the layer began; waits for it. */
  readonly started: Effect.Effect<Report>
  /** Jobs that could not be ended, of this life and earlier ones, in creation order. */
  readonly review: Effect.Effect<ReadonlyArray<Info>>
  /** Runs the protocol again on one of them, and answers with what became of it. */
  readonly retry: (id: string) => Effect.Effect<Info, ProcessNotFound>
  /**
   * Forgets one of them: its row goes, it is not looked at or signalled any more, and whoever lives of it lives on. The
   * caller answers for it. `false`: its row could not be removed, and it stays.
   */
  readonly forget: (id: string) => Effect.Effect<boolean, ProcessNotFound>
}

/** The recovery of the runtime. `ProcessRuntime.layer` gives it. */
class RecoveryService extends Context.Service<RecoveryService, Recovery>()("@procyon/runtime/Recovery") {}
export { RecoveryService as Service }

/** Entries that a summary shows; the others are counted. */
export const maxSummaryEntries = 20

/** A small table for people: how many came to what, and the entries, those for review first. */
export const summarize = (self: Report): string => [headline(self), ...entryLines(self.entries)].join("\n")

const headline = ({ durationMillis, entries, failed, known, unreadable, workspaces }: Report): string => {
  if (failed) return "recovery: the ledger could not be read"
  const counts = Outcome.literals.flatMap((outcome) => {
    const count = entries.filter((entry) => entry.outcome === outcome).length
    return count === 0 ? [] : [`${count} ${outcome}`]
  })
  const told = [
    counts.length === 0 ? "nothing to do" : counts.join(", "),
    ...(known === 0 ? [] : [`${known} had ended before`]),
    ...workspaceCounts(workspaces),
    ...(unreadable ? ["some rows could not be read"] : [])
  ]
  return `recovery: ${told.join("; ")} (${Math.round(durationMillis)} ms)`
}

const workspaceCounts = (workspaces: ReadonlyArray<WorkspaceRow>): ReadonlyArray<string> =>
  WorkspaceRow.fields.outcome.literals.flatMap((outcome) => {
    const count = workspaces.filter((workspace) => workspace.outcome === outcome).length
    return count === 0 ? [] : [`${count} workspace${count === 1 ? "" : "s"} ${outcome}`]
  })

const entryLines = (entries: ReadonlyArray<Entry>): ReadonlyArray<string> => {
  if (entries.length === 0) return []
  const reviewFirst = entries.toSorted((a, b) => Number(b.outcome === "review") - Number(a.outcome === "review"))
  const rows = reviewFirst.slice(0, maxSummaryEntries).map(cells)
  const more = entries.length - maxSummaryEntries
  return [
    ...Printable.table([["id", "owner", "title", "outcome", "status", "detail"], ...rows]),
    ...(more > 0 ? [`  … and ${more} more`] : [])
  ]
}

const cells = ({ detail, id, outcome, owner, status, title }: Entry): ReadonlyArray<string> => [
  Printable.line(id, 32),
  Printable.line(owner, 24),
  Printable.line(title ?? "-", 32),
  outcome,
  status,
  Printable.line(detail ?? "-", 64)
]
