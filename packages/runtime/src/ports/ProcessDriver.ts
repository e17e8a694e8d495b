/**
 * The port a platform implements: spawn, signal, look, and hand over bytes.
 *
 * A driver tells facts and offers primitives. It never waits for time to pass, never decides, and holds no timer: a
 * refused signal is an answer, an empty look is an answer, and what to do about either is the runtime's business. What a
 * driver cannot see, it says in `capabilities` and never claims.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CommandSpec } from "../domain/CommandSpec.ts"
import type { Identity } from "../domain/Identity.ts"
import type { Exit, WholeTree } from "../domain/Status.ts"

/**
 * Why nothing was started. `OutcomeUnknown`: the driver, or what it starts processes with, was lost in between, so that it
 * cannot be told whether the command ran; whoever was there of it has been ended.
 */
export const SpawnProblem = Schema.Literals([
  "CommandNotFound",
  "NotExecutable",
  "InterpreterMissing",
  "CwdMissing",
  "CwdNotADirectory",
  "TooLarge",
  "TooManyFiles",
  "TooManyProcesses",
  "OutcomeUnknown",
  "Other"
])
export type SpawnProblem = typeof SpawnProblem.Type

/** Nothing was started. `code` is an errno name, never a path or an argument. */
export class SpawnFailed extends Schema.TaggedError<SpawnFailed>()("SpawnFailed", {
  problem: SpawnProblem,
  code: Schema.NullOr(Schema.String)
}) {
  override get message(): string {
    return this.code === null ? this.problem : `${this.problem} (${this.code})`
  }
}

/**
 * What this platform can verify.
 *
 * - `processTable`: it can read who is alive, with parents and start times.
 * - `sessions`, `marker`: it finds members that left the group by their session, by the inherited marker.
 * - `wholeTree`: how far a look reaches.
 * - `detached`: it can start processes that outlive this application, and find their output and exit again.
 */
export interface Capabilities {
  readonly platform: string
  readonly processTable: boolean
  readonly sessions: boolean
  readonly marker: boolean
  readonly wholeTree: WholeTree
  readonly pty: boolean
  readonly detached: boolean
}

/**
 * How a process is started that is to outlive this application: its output goes to files, and its exit into another one,
 * all named by `name`, so that a later runtime finds them. Its stdin is empty.
 *
 * Deadline and cap are the driver's to keep, application or not, for as long as the leader runs; nobody moves them later,
 * and nobody keeps them for what the leader leaves behind. A runtime that keeps them too does no harm.
 */
export interface Detached {
  /** A `ProcessId`, and nobody else's. */
  readonly name: string
  /** When its tree is ended, in epoch milliseconds; `null`: never. */
  readonly deadlineAt: number | null
  /** After how many bytes of one stream its tree is ended, looked at now and then; 0: never. */
  readonly capBytes: number
  /** From SIGTERM to SIGKILL then. */
  readonly graceMillis: number
}

/** Why a driver ended a detached tree by itself: the deadline that was asked for, or the byte cap. */
export type EndedBy = "deadline" | "cap"

/**
 * Where a stream's bytes go. The driver reads straight into memory that the runtime lends it, so no byte is copied on
 * the way. All members are called synchronously, on the driver's own turn; they never throw and never wait.
 */
export interface OutputSink {
  /** The region for the next bytes: at least one byte long, and lent until the next `commit`. */
  readonly reserve: () => Uint8Array
  /** The first `count` bytes of the lent region are output now. `false`: read no more of this stream until `resume`. */
  readonly commit: (count: number) => boolean
  /** The stream has ended. Called once. Says nothing about the process. */
  readonly end: () => void
}

/** What to start. `stderr: "merged"` gives both streams one sink, in true arrival order. */
export interface SpawnRequest {
  readonly command: CommandSpec
  readonly marker: string
  readonly stdout: OutputSink
  readonly stderr: OutputSink | "merged"
  /**
   * The leader's exit. Called once, possibly before `spawn` answers, and never before all that the leader wrote has been
   * committed (unless a sink had paused its stream). `by`: what the driver ended a detached process for, if it did.
   */
  readonly onExit: (exit: Exit, by?: EndedBy) => void
  /** Left out: it ends at the latest with this application's driver, as far as a driver can see to that. */
  readonly detached?: Detached | undefined
}

/**
 * A leader that another runtime has started, found again by its identity. `identity.pid` is 0 for a start that nobody
 * has answered (see `Identity.unborn`): then its tree is whoever carries the marker.
 */
export interface AttachRequest {
  readonly identity: Identity
  /** The name of its files, if it was started as detached. */
  readonly detached: string | null
  /** Output from its first byte on; ends at once where there are no files. */
  readonly stdout: OutputSink
  readonly stderr: OutputSink | "merged"
  /**
   * Called once, when a look or a file first tells that the leader is gone: with its recorded exit, or with the unknown
   * one. Never before what it wrote to its files has been committed (unless a sink had paused its stream). Of a detached
   * start that nobody answered only a file can tell, or a look that finds nobody of its tree. `by`: as in `SpawnRequest`.
   */
  readonly onExit: (exit: Exit, by?: EndedBy) => void
}

/** Which of a child's output streams. */
export type StreamName = "stdout" | "stderr"

/** A started leader. */
export interface Child {
  readonly identity: Identity
  /**
   * Writes to stdin. Answers, when the pipe has taken them, how many of the bytes it took: fewer than given means the
   * child has gone or has closed its stdin. Never fails. Interruption stops the wait only.
   */
  readonly write: (bytes: Uint8Array) => Effect.Effect<number>
  /** Ends stdin once what was written has been taken. `now` drops what has not been. */
  readonly closeStdin: (options?: { readonly now?: boolean | undefined }) => Effect.Effect<void>
  /** Reads a paused stream again. Idempotent; nothing happens on a stream that is not paused. */
  readonly resume: (stream: StreamName) => void
  /**
   * Reads synchronously what is there now: until the pipe is empty, ended, one pipe capacity was read, or the sink
   * paused it.
   */
  readonly drain: (stream: StreamName) => "empty" | "ended" | "bound" | "paused"
  /**
   * Nobody of the tree is left to write: a stream that is read from a file ends now, after what is in it. Does nothing
   * where the end of a pipe tells the same.
   */
  readonly finish: Effect.Effect<void>
  /** Lets go of pipes, listeners and what was recorded of the tree. Touches no process and no file. Idempotent. */
  readonly release: Effect.Effect<void>
}

/** The files of detached processes, by name: also of those that have long ended. */
export interface DetachedFiles {
  /** Bytes from `offset` on, at most `limit`; empty past the end, `null` when there is no such file or it cannot be read. */
  readonly read: (
    name: string,
    stream: StreamName,
    offset: number,
    limit: number
  ) => Effect.Effect<Uint8Array | null>
  /** Removes them for good. Nothing else is touched; a name without files is no error. `false`: some are still there. */
  readonly remove: (name: string) => Effect.Effect<boolean>
}

/**
 * Whether one process lives. `gone`: no such pid on this boot, another start time, or a zombie. `unknown`: the identity is
 * of another boot, machine or container, or the table could not be read.
 */
export type Vitality = "alive" | "gone" | "unknown"

/** A living member of a tree. Zombies are dead, and never listed. */
export interface Member {
  readonly pid: number
  readonly startedAt: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** The platform's state letter: `R`, `S`, `D`, `T`, `t`. */
  readonly state: string
  /** The kernel's short name of the program, not its arguments. */
  readonly name: string
}

/** What one look found of one tree. */
export interface TreeLook {
  readonly root: Identity
  /** `unreaped`: ended, its exit not yet collected by its parent. `gone`: no such pid, or another process has it now. */
  readonly leader: "alive" | "unreaped" | "gone"
  readonly members: ReadonlyArray<Member>
  /**
   * Groups known to be the tree's that a probe found populated while the look saw no member in them, living or zombie:
   * somebody forks faster than a look.
   */
  readonly occupied: ReadonlyArray<number>
  /** `false`: the table could not be read to the end. Nothing may then be concluded from an empty list. */
  readonly complete: boolean
}

/**
 * What became of one signal.
 *
 * - `sent`: the system took it. Says nothing about its effect.
 * - `gone`: nobody to send it to.
 * - `not-same`: the pid or group belongs to somebody else now, so nothing was sent.
 * - `refused`: the system refused, with this errno `code`.
 */
export interface SignalOutcome {
  readonly pid: number
  readonly startedAt: number
  readonly name: string
  readonly outcome: "sent" | "gone" | "not-same" | "refused"
  readonly code: string | null
}

/** An incremental SHA-256. `digest` is lower-case hex, and ends it. */
export interface Sha256 {
  readonly update: (bytes: Uint8Array) => void
  readonly digest: () => string
}

/** What a platform implements. Only `spawn` can fail; everything else answers with what it found. */
export interface ProcessDriver {
  readonly capabilities: Capabilities
  /** This application's own process, with an empty marker: who holds a row. `null` where the platform cannot tell. */
  readonly self: Identity | null
  /**
   * Starts a leader in a session of its own, with `marker` set in its environment under every environment policy. When
   * interrupted, either nothing was started, or the driver has ended what was: an interrupted start leaves no process.
   */
  readonly spawn: (request: SpawnRequest) => Effect.Effect<Child, SpawnFailed>
  /**
   * Takes a leader in that another runtime has started: it is looked at and signalled as one of our own. Starts nothing
   * and never fails: one that is gone is told by `onExit`.
   */
  readonly attach: (request: AttachRequest) => Effect.Effect<Child>
  /** Reads one process, and none of its tree; the marker is not asked for. */
  readonly probe: (identity: Identity) => Effect.Effect<Vitality>
  /** `null`: detached processes cannot be started, which `capabilities` says too. */
  readonly detachedFiles: DetachedFiles | null
  /**
   * One fresh look at the process table, begun after it was asked for, answering for every root in order. Records whom
   * it found, so that members are still known when their parents are gone. A root the driver has not seen before is
   * recorded from its identity. Callers pass all trees at once: the cost is one look.
   */
  readonly look: (roots: ReadonlyArray<Identity>) => Effect.Effect<ReadonlyArray<TreeLook>>
  /** Whether any group known to be the tree's is populated, zombies included. Cheap enough to poll (microseconds). */
  readonly occupied: (root: Identity) => boolean
  /**
   * Signals members of a tree, each only after its identity was read again: an unreaped leader through its parent, a
   * group in one pass after one of its members was proven, all others one by one. `groups`: occupied groups of the last
   * look that are to be signalled as a whole. `signal` is a name such as `SIGTERM`. One outcome a member or group.
   */
  readonly signal: (
    root: Identity,
    targets: { readonly members: ReadonlyArray<Member>; readonly groups?: ReadonlyArray<number> | undefined },
    signal: string
  ) => Effect.Effect<ReadonlyArray<SignalOutcome>>
  /** A fresh hash, for one stream. */
  readonly sha256: () => Sha256
}

/** The driver of this platform. */
class ProcessDriverService extends Context.Service<ProcessDriverService, ProcessDriver>()(
  "@procyon/runtime/ProcessDriver"
) {}
export { ProcessDriverService as Service }
