/**
 * How a process is to be kept: the policy a caller may set a process, read once and validated before anything starts.
 */
import type * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Bounds from "../domain/Bounds.ts"
import type { CommandSpec } from "../domain/CommandSpec.ts"
import { InvalidCommand } from "../domain/InvalidCommand.ts"
import { cut } from "../domain/Printable.ts"
import type { StoredPolicy } from "../ports/ProcessLedger.ts"
import type { Settings } from "./Settings.ts"
import type { Workspace } from "./workspaces/OwnedWorkspace.ts"

/** What is kept of a process's output. Sizes are bytes; negative, fractional and NaN are refused. */
export interface OutputOptions {
  /** Bytes of the beginning that are always kept, a stream. By default at most half of `limit`: the end is kept too. */
  readonly head?: number | undefined
  /** Bytes kept in memory in all, a stream; 0 for the default. */
  readonly limit?: number | undefined
  /** Bytes of one stream after which the process is ended as `cancelled`; none by default, and for 0. */
  readonly cap?: number | undefined
  /**
   * `on-truncation`, the default where a blob store is given: once memory would lose bytes, the complete output goes into
   * a blob. `never`: no byte of output touches a disk.
   */
  readonly spill?: "never" | "on-truncation" | undefined
}

/**
 * All durations count on the monotonic clock. A deadline of zero, left out or infinite means none; negative and NaN are
 * refused.
 */
export interface Options {
  /** A name for people; shown wherever the process is. Not a secret. */
  readonly title?: string | undefined
  /** From the start. Past it the tree is ended as `timed_out`. Clamped where the runtime has a cap. */
  readonly deadline?: Duration.Input | undefined
  /** Since the last byte of output. */
  readonly idleDeadline?: Duration.Input | undefined
  /** From the first signal to SIGKILL; zero is zero. */
  readonly grace?: Duration.Input | undefined
  /** From SIGKILL to `kill_failed`. */
  readonly forceWindow?: Duration.Input | undefined
  /** What happens to what a leader that ends by itself leaves behind: `end` (default), or `keep`, said in the receipt. */
  readonly leftovers?: "end" | "keep" | undefined
  /** Whether stdout and stderr are kept as one stream in arrival order, or apart. */
  readonly streams?: "merged" | "separate" | undefined
  readonly output?: OutputOptions | undefined
  /**
   * What it works in: its working directory, where the command names none. It stays there until the process is settled.
   * One of this runtime that is not released, and not together with `leftovers: "keep"`.
   */
  readonly workspace?: Workspace | undefined
}

/** The same, resolved: milliseconds and bytes, every default filled in. */
export interface Policy {
  readonly title: string | null
  readonly deadlineAskedMillis: number | null
  readonly deadlineMillis: number | null
  readonly idleDeadlineMillis: number | null
  readonly graceMillis: number
  readonly forceWindowMillis: number
  readonly leftovers: "end" | "keep"
  readonly streams: "merged" | "separate"
  readonly headBytes: number
  readonly limitBytes: number
  readonly capBytes: number
  readonly spill: "never" | "on-truncation"
  readonly stopSignal: string
}

/** The longest title that is kept, in UTF-16 units; the rest is cut off, and the cut marked. */
const maxTitle = 200

const clamp = (asked: number | null, cap: number | null): number | null =>
  asked === null || cap === null ? asked : Math.min(asked, cap)

/** A choice, or its default. Without types anything may be given: what cannot be honoured is refused, never ignored. */
export const oneOf = <A extends string>(
  where: string,
  value: A | undefined,
  allowed: ReadonlyArray<A>,
  otherwise: A
): Result.Result<A, InvalidCommand> => {
  if (value === undefined) return Result.succeed(otherwise)
  return allowed.includes(value)
    ? Result.succeed(value)
    : Result.fail(new InvalidCommand({ where, problem: "Unsupported" }))
}

/** The policy, or the first thing wrong with it. `streams` is what the calling service does by default. */
export const resolve = (
  command: CommandSpec,
  options: Options,
  settings: Settings,
  streams: "merged" | "separate"
): Result.Result<Policy, InvalidCommand> =>
  Result.gen(function*() {
    const output = options.output ?? {}
    const deadlineAskedMillis = yield* Bounds.deadline("deadline", options.deadline)
    const limitBytes = yield* Bounds.bytes("output.limit", output.limit, settings.outputBytes)
    const headDefault = Math.min(settings.outputHeadBytes, Math.floor(limitBytes / 2))
    const headBytes = yield* Bounds.bytes("output.head", output.head, headDefault)
    const capBytes = yield* Bounds.cap("output.cap", output.cap, Infinity)
    return {
      title: typeof options.title === "string" ? cut(options.title, maxTitle) : null,
      deadlineAskedMillis,
      deadlineMillis: clamp(deadlineAskedMillis, settings.deadlineCapMillis),
      idleDeadlineMillis: yield* Bounds.deadline("idleDeadline", options.idleDeadline),
      graceMillis: yield* Bounds.wait("grace", options.grace, command.graceMillis ?? settings.graceMillis),
      forceWindowMillis: yield* Bounds.wait("forceWindow", options.forceWindow, settings.forceWindowMillis),
      leftovers: yield* oneOf("leftovers", options.leftovers, ["end", "keep"], "end"),
      streams: yield* oneOf("streams", options.streams, ["merged", "separate"], streams),
      headBytes: Math.min(headBytes, limitBytes),
      limitBytes,
      capBytes: capBytes === Infinity ? 0 : capBytes,
      spill: yield* oneOf("output.spill", output.spill, ["never", "on-truncation"], "on-truncation"),
      stopSignal: command.options.stopSignal ?? "SIGTERM"
    }
  })

/** What a row keeps of a policy, for whoever ends the process in a later life. */
export const stored = (policy: Policy): StoredPolicy => ({
  stopSignal: policy.stopSignal,
  graceMillis: policy.graceMillis,
  forceWindowMillis: policy.forceWindowMillis,
  idleDeadlineMillis: policy.idleDeadlineMillis,
  capBytes: policy.capBytes,
  leftovers: policy.leftovers
})

/** The policy of a row, with the defaults of this life for what it does not say. */
export const restored = (
  row: {
    readonly title: string | null
    readonly policy: StoredPolicy | null
    readonly deadlineMillis: number | null
    readonly streams: "merged" | "separate"
  },
  settings: Settings
): Policy => ({
  title: row.title,
  deadlineAskedMillis: row.deadlineMillis,
  deadlineMillis: row.deadlineMillis,
  idleDeadlineMillis: row.policy?.idleDeadlineMillis ?? null,
  graceMillis: row.policy?.graceMillis ?? settings.graceMillis,
  forceWindowMillis: row.policy?.forceWindowMillis ?? settings.forceWindowMillis,
  leftovers: row.policy?.leftovers ?? "end",
  streams: row.streams,
  headBytes: settings.outputHeadBytes,
  limitBytes: settings.outputBytes,
  capBytes: row.policy?.capBytes ?? 0,
  spill: "never",
  stopSignal: row.policy?.stopSignal ?? "SIGTERM"
})
