/**
 * One process a runtime owns, as data: where it is in its life, what holds its output, and what its receipt will say.
 *
 * It moves only through `ProcessHost`. What others see of it are the views at the end of this file.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Semaphore from "effect/Semaphore"
import type { CommandSpec } from "../../domain/CommandSpec.ts"
import type * as CommandSpecs from "../../domain/CommandSpec.ts"
import { isUnborn } from "../../domain/Identity.ts"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import type { Cause, Exit, Survivor, TerminationResult, TimelineEntry, WholeTree } from "../../domain/Status.ts"
import { Nudge } from "../../internal/Nudge.ts"
import type { Timer } from "../../internal/TimerHeap.ts"
import type { Child, SpawnFailed, TreeLook } from "../../ports/ProcessDriver.ts"
import type { OutputRetention } from "../OutputRetention.ts"
import type { Policy } from "../ProcessOptions.ts"
import type { Subject } from "../Termination.ts"
import type { OwnedWorkspace } from "../workspaces/OwnedWorkspace.ts"

/** An action that waits for its turn: all but the prompt one. */
export type Todo = Exclude<Lifecycle.Action, "Hurry">

/**
 * What the service that owns a process does at each turn of its life. None of them may fail; each is bounded and
 * isolated by the host, so that a store that hangs or an observer that throws costs this process a wait, and no other
 * anything.
 */
export interface Hooks {
  /** Before the driver is asked. `false`: it must not be started. */
  readonly beforeSpawn?: Effect.Effect<boolean> | undefined
  /** The driver has answered with a process; nobody has been told yet. */
  readonly onStarted?: Effect.Effect<void> | undefined
  /**
   * Asked before anything is done to it: whether it is still this runtime's. Where another one has taken it over, nothing
   * is sent to it any more.
   */
  readonly mayAct?: Effect.Effect<boolean> | undefined
  /** Called synchronously at every event, before what follows from it. */
  readonly onTransition?: ((from: Lifecycle.State, event: Lifecycle.Event) => void) | undefined
  /** Called synchronously every heartbeat until it is settled. */
  readonly onBeat?: (() => void) | undefined
  /** It could not be shown to be gone: row, then notice and events. */
  readonly onUnresolved?: Effect.Effect<void> | undefined
  /** It is settled, and its output is sealed: row, then notice and events. */
  readonly onSettled?: Effect.Effect<void> | undefined
}

export class OwnedProcess {
  readonly id: string
  /**
   * `null` once it is settled, since a record of it keeps neither its arguments nor its input, and for one that an earlier
   * life has started.
   */
  command: CommandSpec | null
  readonly summary: CommandSpecs.Summary
  readonly display: string
  /** The same for equal commands of one runtime, and of no use outside it: see `CommandSpec.fingerprint`. */
  readonly digest: string
  readonly policy: Policy
  readonly marker: string
  /** What its driver can see of a tree. */
  readonly wholeTree: WholeTree
  readonly stdout: OutputRetention
  /** `null`: merged into `stdout`. */
  readonly stderr: OutputRetention | null
  hooks: Hooks = {}
  /** Whose job it is; `null` for a process of an application's own scope. */
  owner: string | null = null
  /** It outlives the runtime: closing that lets go of it. */
  readonly detached: boolean
  /** An earlier life has started it, and its exit was that one's to collect. */
  readonly adopted: boolean
  /** What it works in: told by `leave` when it is settled, and its row says so. */
  workspace: OwnedWorkspace | null = null

  state: Lifecycle.State
  child: Child | null = null
  spawnFailed: SpawnFailed | null = null
  startFiber: Fiber.Fiber<void> | null = null
  /** The row is written, and the driver has the request. */
  handedOver = false

  /** Wall clock, epoch milliseconds: for people and records only. */
  startedAt: number
  endedAt: number | null = null
  deadlineAt: number | null = null
  deadlineAskedMillis: number | null
  deadlineMillis: number | null
  /** Monotonic milliseconds. */
  startedMono: number
  endingMono: number | null = null

  stdinAccepted = 0
  stdinClosed: boolean
  writing: Semaphore.Semaphore | null = null

  readonly nudge: Nudge = new Nudge()
  readonly todo: Array<Todo> = []
  working = false
  timers: Array<Timer> = []
  beat: Timer | null = null

  readonly timeline: Array<TimelineEntry> = []
  timelineDropped = 0
  /** What became of signals, by member; made when the first goes out. */
  signals: Pick<Subject, "asked" | "refused"> | null = null
  lastLook: TreeLook | null = null
  leftovers: ReadonlyArray<Survivor> = []
  keptLeftovers = false
  survivors: ReadonlyArray<Survivor> = []
  survivorCount = 0
  forced = false
  receipt: TerminationResult | null = null

  /** The driver's answer: `true` started, `false` withdrawn, or why it failed. */
  readonly started: Deferred.Deferred<boolean, SpawnFailed> = Deferred.makeUnsafe()
  /** The leader's exit, when it has been seen. */
  readonly exited: Deferred.Deferred<Exit | null> = Deferred.makeUnsafe()
  /** It is settled, or reported as `kill_failed`, and everybody who had to be told has been. */
  readonly ended: Deferred.Deferred<void> = Deferred.makeUnsafe()
  retry: Deferred.Deferred<void> | null = null
  /** Ends when what an earlier life has left of its output, and no row tells of, is removed. Bounded. */
  cleaned: Effect.Effect<void> = Effect.void

  constructor(options: {
    readonly id: string
    readonly command: CommandSpec | null
    readonly summary: CommandSpecs.Summary
    readonly display: string
    readonly detached: boolean
    readonly state: Lifecycle.State
    readonly policy: Policy
    readonly digest: string
    readonly marker: string
    readonly wholeTree: WholeTree
    readonly stdout: OutputRetention
    readonly stderr: OutputRetention | null
    readonly startedAt: number
    readonly startedMono: number
  }) {
    this.id = options.id
    this.command = options.command
    this.summary = options.summary
    this.display = options.display
    this.detached = options.detached
    this.adopted = options.command === null
    this.state = options.state
    this.policy = options.policy
    this.digest = options.digest
    this.marker = options.marker
    this.wholeTree = options.wholeTree
    this.stdout = options.stdout
    this.stderr = options.stderr
    this.startedAt = options.startedAt
    this.startedMono = options.startedMono
    this.deadlineAskedMillis = options.policy.deadlineAskedMillis
    this.deadlineMillis = options.policy.deadlineMillis
    this.stdinClosed = (options.command?.options.stdin ?? "none") === "none"
  }

  get bytesSeen(): number {
    return this.stdout.bytesSeen + (this.stderr?.bytesSeen ?? 0)
  }

  /** Monotonic milliseconds of the last byte of output, or of the start. */
  get lastOutputMono(): number {
    return Math.max(this.startedMono, this.stdout.lastOutputAt, this.stderr?.lastOutputAt ?? 0)
  }
}

/**
 * Lines a timeline keeps of its beginning and of its end; retries of an unkillable process would otherwise grow it for
 * ever.
 */
const timelineHead = 32
const timelineTail = 31

const noteIn = (process: OwnedProcess, line: TimelineEntry): void => {
  const { timeline } = process
  timeline.push(line)
  if (timeline.length <= timelineHead + timelineTail) return
  timeline.splice(timelineHead, 1)
  process.timelineDropped++
}

const timelineOf = ({ timeline, timelineDropped }: OwnedProcess): ReadonlyArray<TimelineEntry> => {
  const next = timeline[timelineHead]
  if (timelineDropped === 0 || next === undefined) return [...timeline]
  const dropped = { atMillis: next.atMillis, what: `... ${timelineDropped} more lines` }
  return [...timeline.slice(0, timelineHead), dropped, ...timeline.slice(timelineHead)]
}

/** The tree of a started process, for `Termination`. */
export const subjectOf = (process: OwnedProcess, child: Child, now: () => number): Subject => {
  const { asked, refused } = process.signals ??= { asked: new Map(), refused: new Map() }
  return {
    root: child.identity,
    nudge: process.nudge,
    asked,
    refused,
    mayAct: Effect.suspend(() =>
      process.state._tag === "Settled" ? Effect.succeed(false) : process.hooks.mayAct ?? Effect.succeed(true)
    ),
    note: (what) => {
      const since = process.endingMono ?? now()
      noteIn(process, { atMillis: Math.round(now() - since), what })
    }
  }
}

/** A detail for people: bounded, with nothing of the command in it. */
const errorOf = (process: OwnedProcess): string | null => {
  if (process.spawnFailed !== null) return process.spawnFailed.message
  const { state } = process
  if (state._tag === "Settled" && state.cause._tag === "StartFailed") return "it could not be recorded"
  if (state._tag === "Settled" && state.cause._tag === "Disowned") return "another runtime has taken it over"
  if (state._tag === "Unresolved") {
    if (process.child === null) {
      return process.adopted
        ? "this platform cannot tell whether it lives"
        : "the driver did not answer the start, nor its withdrawal"
    }
    return process.survivorCount === 0
      ? "the process table could not be read, so nothing is known of survivors"
      : `${process.survivorCount} of its tree could not be ended`
  }
  if (state._tag === "Settled" && state.cause._tag === "SelfExit") {
    const { exit } = state
    if (exit === null || (exit.code === null && exit.signal === null)) {
      return process.child !== null && isUnborn(process.child.identity)
        ? "it is not known whether it was started"
        : "its exit was not seen"
    }
    if (exit.signal !== null) return `ended by ${exit.signal}, which was not sent by this runtime`
    return exit.code === 0 ? null : `exit code ${exit.code}`
  }
  return null
}

const causeOf = (state: Lifecycle.State): Cause => {
  if ("cause" in state) return state.cause
  return "request" in state && state.request !== null ? state.request.cause : { _tag: "SelfExit" }
}

/** The receipt as of now. */
export const receiptOf = (process: OwnedProcess, now: number): TerminationResult => {
  const { state } = process
  return {
    status: Lifecycle.statusOf(state),
    cause: causeOf(state),
    exit: Lifecycle.exitOf(state),
    forced: process.forced,
    durationMillis: Math.max(0, Math.round(now - (process.endingMono ?? now))),
    timeline: timelineOf(process),
    leftovers: process.leftovers,
    keptLeftovers: process.keptLeftovers,
    survivors: process.survivors,
    survivorCount: process.survivorCount,
    wholeTree: process.wholeTree,
    error: errorOf(process)
  }
}
