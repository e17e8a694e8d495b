/** What came of one run of a history. */

/**
 * The promises that every step is held against:
 *
 * - `owned`: whoever lives belongs to a process that is not settled, or is recorded, or is nobody's business.
 * - `proof`: nobody lives of a process that is said to be settled.
 * - `forward`: a status is never taken back, a fence never goes down, and no row of what is not settled disappears.
 * - `notice`: each end is told of exactly once; what is told again says so.
 * - `output`: counts, hashes and cursors agree with what was read of the child.
 * - `workspace`: no directory is removed while somebody lives who works in it, and none is left at the end.
 * - `commit`: nothing is committed by an application that was replaced.
 * - `answer`: every caller gets an answer, and no caller a defect.
 * - `left`: at the end nothing is alive, open, leased, armed or running.
 */
export type Rule = "owned" | "proof" | "forward" | "notice" | "output" | "workspace" | "commit" | "answer" | "left"

/** A promise that did not hold. `step`: the index of the step after which it was seen; `null` at the end. */
export interface Violation {
  readonly rule: Rule
  readonly step: number | null
  readonly detail: string
}

/** `trace`: what happened, a line each, with virtual times; the same for every run of the same history. */
export interface Outcome {
  readonly violations: ReadonlyArray<Violation>
  readonly trace: ReadonlyArray<string>
}
