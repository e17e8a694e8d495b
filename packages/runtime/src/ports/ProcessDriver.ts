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

/** Why nothing was started. `OutcomeUnknown`: the driver was lost in between, so that it cannot be told. */
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
 */
export interface Capabilities {
  readonly platform: string
  readonly processTable: boolean
  readonly sessions: boolean
  readonly marker: boolean
  readonly wholeTree: WholeTree
  readonly pty: boolean
}

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
   * committed (unless a sink had paused its stream).
   */
  readonly onExit: (exit: Exit) => void
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
  /** Lets go of pipes, listeners and what was recorded of the tree. Touches no process. Idempotent. */
  readonly release: Effect.Effect<void>
}

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
  /**
   * Starts a leader in a session of its own, with `marker` set in its environment under every environment policy. When
   * interrupted, either nothing was started, or the driver has ended what was: an interrupted start leaves no process.
   */
  readonly spawn: (request: SpawnRequest) => Effect.Effect<Child, SpawnFailed>
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
