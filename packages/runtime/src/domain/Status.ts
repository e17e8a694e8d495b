/**
 * What is said about a process: its status, its phase, how it ended and how it was ended.
 *
 * All of it is data. Nothing here decides anything: `Lifecycle` does.
 */
import * as Schema from "effect/Schema"

/**
 * The durable statuses.
 *
 * - `running`: also while it is draining or being ended; the phase tells those apart.
 * - `completed`: its leader ended by itself with code 0, and nothing of its tree is left.
 * - `error`: another code, a signal from outside, a failed start, or an outcome nobody saw.
 * - `cancelled`, `timed_out`: it was ended, and a look found the whole tree gone.
 * - `kill_failed`: it was to be ended and could not be shown to be gone. Addressable, retryable, never converted
 *   silently.
 */
export const Status = Schema.Literals(["running", "completed", "error", "cancelled", "timed_out", "kill_failed"])
export type Status = typeof Status.Type

/** Whether a status is final. `kill_failed` is not: proof that the survivors are gone moves it once more. */
export const isSettled = (status: Status): boolean => status !== "running" && status !== "kill_failed"

/** Where a process is on its way, in memory. `settled` is absorbing; `unresolved` is left only to `settled`, by proof. */
export const Phase = Schema.Literals([
  "starting",
  "running",
  "draining",
  "terminating",
  "flushing",
  "settled",
  "unresolved"
])
export type Phase = typeof Phase.Type

/**
 * How the leader ended, as the operating system gave it. Both `null`: it ended and nobody saw how (its parent was lost).
 */
export const Exit = Schema.Struct({ code: Schema.NullOr(Schema.Int), signal: Schema.NullOr(Schema.String) })
export interface Exit extends Schema.Schema.Type<typeof Exit> {}

/** The exit nobody saw. */
export const unknownExit: Exit = { code: null, signal: null }

/** The exit code; -1 for an end by a signal, and for an exit nobody saw. */
export const exitCode = (exit: Exit): number => exit.code ?? -1

const signalNumbers: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15
}

/** The code as a shell tells it: 128 + n for signal n (numbers of Linux), -1 for a signal it has no number for. */
export const shellExitCode = (exit: Exit): number => {
  if (exit.code !== null) return exit.code
  const number = exit.signal === null ? undefined : signalNumbers[exit.signal]
  return number === undefined ? -1 : 128 + number
}

/** Why a process was ended, or that it ended by itself. The first cause wins. */
export const Cause = Schema.TaggedUnion({
  /** The leader ended by itself; leftovers of its tree were ended after it. */
  SelfExit: {},
  /** The driver could not start it. */
  StartFailed: {},
  /** Somebody who may asked for it: its owner, or the runtime on an owner's behalf. */
  Stop: { by: Schema.Literals(["owner", "runtime"]) },
  /** `total` counts from the start, `idle` from the last output. */
  Deadline: { kind: Schema.Literals(["total", "idle"]) },
  /** It passed the byte cap its caller had set. */
  OutputCap: {},
  /** The scope that owned it was closed, or its starter was interrupted. */
  Scope: {},
  /** The runtime was shut down. */
  Shutdown: {},
  /** The runtime that had started it was gone, and a later one ended it. */
  OwnerLost: {},
  /** Another runtime has taken it over: it was let go of, and what becomes of it is told there. */
  Disowned: {}
})
export type Cause = typeof Cause.Type

/** The status a cause names once the whole tree is shown to be gone. */
export const statusOf = (cause: Cause, exit: Exit | null): Status => {
  switch (cause._tag) {
    case "StartFailed":
    case "Disowned":
      return "error"
    case "SelfExit":
      return exit !== null && exit.code === 0 ? "completed" : "error"
    case "Deadline":
      return "timed_out"
    default:
      return "cancelled"
  }
}

/** A process of the tree that was still there. `refused`: the errno name a signal to it was answered with, if any. */
export const Survivor = Schema.Struct({
  pid: Schema.Int,
  startedAt: Schema.Finite,
  name: Schema.String,
  refused: Schema.NullOr(Schema.String)
})
export interface Survivor extends Schema.Schema.Type<typeof Survivor> {}

/**
 * How much of a tree a platform can see: `verified` all of it, within the limits its driver documents; `group-only` the
 * process group; `none` nothing but the leader's exit.
 */
export const WholeTree = Schema.Literals(["verified", "group-only", "none"])
export type WholeTree = typeof WholeTree.Type

/** At most this many survivors or leftovers are listed; the counts beside the lists are exact. */
export const maxListed = 16

/** One line of a receipt: what happened, this long after the end was asked for (or the leader ended). */
export const TimelineEntry = Schema.Struct({ atMillis: Schema.Finite, what: Schema.String })
export interface TimelineEntry extends Schema.Schema.Type<typeof TimelineEntry> {}

/**
 * The receipt: how a process ended, and what was done to end it.
 *
 * `leftovers` are the members that a leader which ended by itself left behind; `survivors` those that could not be
 * ended. `keptLeftovers`: the caller chose to leave them alone. `forced`: SIGKILL was needed. `wholeTree`: how far a
 * look of this platform reaches, and so what "gone" means here. `error` is a bounded detail for people, without any path,
 * argument or environment value.
 */
export const TerminationResult = Schema.Struct({
  status: Status,
  cause: Cause,
  exit: Schema.NullOr(Exit),
  forced: Schema.Boolean,
  durationMillis: Schema.Finite,
  timeline: Schema.Array(TimelineEntry),
  leftovers: Schema.Array(Survivor),
  keptLeftovers: Schema.Boolean,
  survivors: Schema.Array(Survivor),
  survivorCount: Schema.Int,
  wholeTree: WholeTree,
  error: Schema.NullOr(Schema.String)
})
export interface TerminationResult extends Schema.Schema.Type<typeof TerminationResult> {}
