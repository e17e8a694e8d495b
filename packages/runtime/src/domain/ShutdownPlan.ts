/**
 * The parent barrier: its phases, the one order between them, and the report of what it did.
 *
 * Pure: it says what comes next and what was done. Doing it, and bounding it in time, is the barrier's own business.
 */
import * as Schema from "effect/Schema"
import * as Printable from "./Printable.ts"
import * as Status from "./Status.ts"

/**
 * In this order, and none is skipped:
 *
 * - `open`: work is accepted.
 * - `stopping`: no new work.
 * - `draining`: every owner is told; no new stdin, no new followers.
 * - `terminating`: all trees are ended, in parallel.
 * - `flushing`: output is read to its end and sealed.
 * - `settling`: durable rows get their status; notices and events go out.
 * - `workspaces`: those of children that settled with proof are removed.
 * - `closed`: absorbing.
 */
export const Phase = Schema.Literals([
  "open",
  "stopping",
  "draining",
  "terminating",
  "flushing",
  "settling",
  "workspaces",
  "closed"
])
export type Phase = typeof Phase.Type

/** The phase after this one; `null` after `closed`. */
export const next = (phase: Phase): Phase | null => Phase.literals[Phase.literals.indexOf(phase) + 1] ?? null

/** Whether `phase` is `other` or comes after it. */
export const hasReached = (phase: Phase, other: Phase): boolean =>
  Phase.literals.indexOf(phase) >= Phase.literals.indexOf(other)

/** When a phase was entered, in milliseconds since the shutdown was asked for. */
export const PhaseTime = Schema.Struct({ phase: Phase, atMillis: Schema.Finite })
export interface PhaseTime extends Schema.Schema.Type<typeof PhaseTime> {}

/** The phase that these times have led to. */
export const current = (times: ReadonlyArray<PhaseTime>): Phase => times.at(-1)?.phase ?? "open"

/** The times with one more phase entered; `null` when it is not the next one, so that no phase can be skipped or repeated. */
export const enter = (
  times: ReadonlyArray<PhaseTime>,
  phase: Phase,
  atMillis: number
): ReadonlyArray<PhaseTime> | null => next(current(times)) === phase ? [...times, { phase, atMillis }] : null

/** `graceful` waits the grace of each tree out; `now` skips what is left of it. */
export const Mode = Schema.Literals(["graceful", "now"])
export type Mode = typeof Mode.Type

/**
 * What became of one process. `title` is its caller's own. `survivors` lists at most `Status.maxListed` of them, and
 * `survivorCount` counts all. `detached`: it outlives the runtime, and was let go of.
 */
export const ReportRow = Schema.Struct({
  id: Schema.String,
  owner: Schema.NullOr(Schema.String),
  title: Schema.NullOr(Schema.String),
  status: Status.Status,
  survivors: Schema.Array(Status.Survivor),
  survivorCount: Schema.Int,
  detached: Schema.Boolean
})
export interface ReportRow extends Schema.Schema.Type<typeof ReportRow> {}

/**
 * What became of one workspace. `kept`: a process that uses it is not settled, or not recorded as such; `by` is the id of
 * one of them, where it has one. `failed`: it is there, or still recorded,
 * because of `problem`. No path is told.
 */
export const WorkspaceRow = Schema.Struct({
  id: Schema.String,
  owner: Schema.NullOr(Schema.String),
  outcome: Schema.Literals(["removed", "kept", "failed"]),
  problem: Schema.NullOr(Schema.String),
  by: Schema.NullOr(Schema.String)
})
export interface WorkspaceRow extends Schema.Schema.Type<typeof WorkspaceRow> {}

/**
 * What the barrier did. `clean`: every process settled, every workspace was removed, but for the processes that were to
 * live on and the workspaces they work in, and the budget sufficed. `budgetExceeded`: it ran out before all phases were
 * done; the rest was cut short. Rows hold no argument, script, environment or output. `workspaces`: those that were not
 * removed yet when it began.
 */
export const ShutdownReport = Schema.Struct({
  mode: Mode,
  clean: Schema.Boolean,
  budgetExceeded: Schema.Boolean,
  durationMillis: Schema.Finite,
  phases: Schema.Array(PhaseTime),
  rows: Schema.Array(ReportRow),
  workspaces: Schema.Array(WorkspaceRow)
})
export interface ShutdownReport extends Schema.Schema.Type<typeof ShutdownReport> {}

/** It is settled, or was not to be ended. */
const isOver = ({ detached, status }: ReportRow): boolean =>
  Status.isSettled(status) || (detached && status === "running")

/** The report of these facts: `clean` follows from them. */
export const report = (facts: Omit<ShutdownReport, "clean">): ShutdownReport => ({
  ...facts,
  clean: !facts.budgetExceeded && facts.rows.every(isOver) && facts.workspaces.every(isRemovedOr(facts.rows))
})

/** It was removed, or whoever works in it was to live on. */
const isRemovedOr = (rows: ReadonlyArray<ReportRow>) => (workspace: WorkspaceRow): boolean =>
  isRemoved(workspace) || rows.some((row) => row.id === workspace.by && row.detached && isOver(row))

const isRemoved = ({ outcome }: WorkspaceRow): boolean => outcome === "removed"

/** Rows that a summary shows; the others are counted. So for workspaces. */
export const maxSummaryRows = 20

/**
 * A small table for people: how it went, when each phase began, the rows, those that are not settled first, and the
 * workspaces that were not removed.
 */
export const summarize = (self: ShutdownReport): string =>
  [headline(self), ...phaseLines(self.phases), ...rowLines(self.rows), ...workspaceLines(self.workspaces)].join("\n")

const headline = (self: ShutdownReport): string => {
  const open = self.rows.filter((row) => !isOver(row)).length
  const left = self.workspaces.filter((row) => !isRemoved(row)).length
  const outcome = self.clean ? "clean" : [
    ...(open > 0 ? [`${open} not settled`] : []),
    ...(left > 0 ? [left === 1 ? "1 workspace left" : `${left} workspaces left`] : []),
    ...(self.budgetExceeded ? ["budget exceeded"] : [])
  ].join(", ")
  const count = self.rows.length === 1 ? "1 process" : `${self.rows.length} processes`
  return `shutdown (${self.mode}): ${outcome || "not clean"}; ${count}, ${duration(self.durationMillis)}`
}

const phaseLines = (phases: ReadonlyArray<PhaseTime>): ReadonlyArray<string> =>
  Printable.table(phases.map(({ atMillis, phase }) => [phase, `+${duration(atMillis)}`]))

const rowLines = (rows: ReadonlyArray<ReportRow>): ReadonlyArray<string> => {
  if (rows.length === 0) return []
  const settledLast = rows.toSorted((a, b) => Number(Status.isSettled(a.status)) - Number(Status.isSettled(b.status)))
  const more = rows.length - maxSummaryRows
  return [
    ...Printable.table([
      ["id", "owner", "title", "status", "survivors"],
      ...settledLast.slice(0, maxSummaryRows).map(cells)
    ]),
    ...(more > 0 ? [`  … and ${more} more`] : [])
  ]
}

const workspaceLines = (rows: ReadonlyArray<WorkspaceRow>): ReadonlyArray<string> => {
  const left = rows.filter((row) => !isRemoved(row))
  if (left.length === 0) return []
  const more = left.length - maxSummaryRows
  return [
    ...Printable.table([
      ["workspace", "owner", "outcome", "because of"],
      ...left.slice(0, maxSummaryRows).map(workspaceCells)
    ]),
    ...(more > 0 ? [`  … and ${more} more`] : [])
  ]
}

const workspaceCells = (row: WorkspaceRow): ReadonlyArray<string> => [
  Printable.line(row.id, 32),
  Printable.line(row.owner ?? "-", 24),
  row.outcome,
  Printable.line(row.by ?? row.problem ?? "-", 32)
]

const cells = (row: ReportRow): ReadonlyArray<string> => [
  Printable.line(row.id, 32),
  Printable.line(row.owner ?? "-", 24),
  Printable.line(row.title ?? "-", 32),
  row.status,
  row.survivorCount === 0 ? "-" : `${row.survivorCount}: ${survivorNames(row)}`
]

const survivorNames = (row: ReportRow): string => {
  const names = row.survivors.slice(0, 3).map(({ name, pid, refused }) =>
    `${pid} ${Printable.line(name, 20)}${refused === null ? "" : ` (${Printable.line(refused, 12)})`}`
  )
  return names.length < row.survivorCount ? [...names, "…"].join(", ") : names.join(", ")
}

const duration = (millis: number): string =>
  millis < 1000 ? `${Math.round(millis)} ms` : `${(millis / 1000).toFixed(2)} s`
