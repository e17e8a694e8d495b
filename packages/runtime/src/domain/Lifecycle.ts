/**
 * How a process moves: one pure function from state and event to state and actions.
 *
 * Every service moves a process only through `step`, performs the actions it returns, and feeds what came of them back
 * as events, one action at a time, in the order they were asked for. Each state asks for the next one only when the last
 * has answered. Only an unresolved process may be asked for a recheck, a retry and a flush while another of them waits;
 * an answer that comes too late changes nothing there. Nothing here reads a clock, a process table or a random number.
 *
 * The deciding rule lives here: what the runtime had decided *and done* before it saw the leader's exit. An exit seen
 * before the first signal went out decides, whatever had been asked for; after it, the cause decides, whatever code the
 * leader then ends with.
 */
import type { Cause, Exit, Phase, Status } from "./Status.ts"
import { statusOf as statusOfCause, unknownExit } from "./Status.ts"

/** A wish to end the process. The first cause wins; `now` (skip the grace) is kept from any of them. */
export interface EndRequest {
  readonly cause: Cause
  readonly now: boolean
}

/** Where a process is, with what later decisions need to know of how it got there. Only `step` makes the next one. */
export type State =
  /**
   * The driver has not answered. `asked`: it may have begun, so that a process may exist. `exit`: the leader's exit was
   * told before the start was.
   */
  | {
    readonly _tag: "Starting"
    readonly asked: boolean
    readonly request: EndRequest | null
    readonly exit: Exit | null
  }
  | { readonly _tag: "Running" }
  /** It is to end, or its leader has ended: no new stdin, no new followers. Nothing has been signalled yet. */
  | { readonly _tag: "Draining"; readonly request: EndRequest | null; readonly exit: Exit | null }
  /**
   * Signals go out. `delivered`: the system took at least one. `forced`: SIGKILL was decided on. `gone`: the tree is shown
   * to be gone, and only the leader's exit is waited for.
   */
  | {
    readonly _tag: "Terminating"
    readonly cause: Cause
    readonly exit: Exit | null
    readonly delivered: boolean
    readonly forced: boolean
    readonly gone: boolean
    readonly now: boolean
  }
  /** The tree is gone, or what is left of it was left on purpose; output is being read to its end. */
  | { readonly _tag: "Flushing"; readonly cause: Cause; readonly exit: Exit | null }
  /**
   * It was to end and is not shown to be gone. `retrying`: the protocol runs once more. `proven`: it is shown to be gone
   * since, and its output is being read to its end.
   */
  | {
    readonly _tag: "Unresolved"
    readonly cause: Cause
    readonly exit: Exit | null
    readonly retrying: boolean
    readonly proven: boolean
  }
  | { readonly _tag: "Settled"; readonly cause: Cause; readonly exit: Exit | null }

/** What happened: said by the driver, by a timer, by whoever owns the process, or as the answer to an action. */
export type Event =
  /** The driver is being asked to start it: from here on a process may exist. */
  | { readonly _tag: "Asked" }
  | { readonly _tag: "Started" }
  | { readonly _tag: "StartFailed" }
  /** The start was withdrawn, and nothing was started or nothing is left of it. */
  | { readonly _tag: "StartWithdrawn" }
  /** The driver neither answered nor let go of the start. */
  | { readonly _tag: "StartLost" }
  /** `by`: who ended a process that outlives its runtimes, in the runtime's place, before the exit was told. */
  | { readonly _tag: "Exited"; readonly exit: Exit; readonly by?: Cause | undefined }
  | { readonly _tag: "EndRequested"; readonly request: EndRequest }
  /** The look before the first signal. `leaderAlive` is false for a leader that is dead and not yet told of. */
  | { readonly _tag: "TreeRecorded"; readonly leaderAlive: boolean }
  /** The exit that was waited for has been told, or is given up on. */
  | { readonly _tag: "ExitAwaited" }
  /** The time a tree gets to finish after its leader is over. `end`: there is something left, and it is to be ended. */
  | { readonly _tag: "LingerEnded"; readonly end: boolean }
  /** The first signal goes out in this very step. */
  | { readonly _tag: "Signalling" }
  | { readonly _tag: "Signalled"; readonly delivered: boolean }
  | { readonly _tag: "GraceElapsed" }
  /** A look found the whole tree gone, and every known group empty. */
  | { readonly _tag: "TreeGone" }
  | { readonly _tag: "ForceElapsed" }
  /** The protocol is to run once more on a process that could not be ended. */
  | { readonly _tag: "RetryRequested" }
  | { readonly _tag: "Flushed" }
  /** It was found in the row of an earlier life, and this platform, or its driver, does not tell whether it lives. */
  | { readonly _tag: "Untraceable" }
  /** Another runtime holds it now: from here on it is not signalled, and nothing is told or recorded of it here. */
  | { readonly _tag: "Disowned" }

/**
 * What to do next. `Hurry` is prompt (what is waiting now is to look again); all others are long, answered by an event:
 *
 * - `WithdrawStart`: `StartWithdrawn`, `StartLost`, or the start's own answer if that came first.
 * - `RecordTree`: `TreeRecorded`. `AwaitExit`: `ExitAwaited`. `Linger`: `LingerEnded`.
 * - `SignalTree`: `Signalling`, then `Signalled`. `AwaitGrace`: `TreeGone` or `GraceElapsed`.
 * - `ForceTree`, `RetryTree`: `TreeGone` or `ForceElapsed`. `Recheck`: `TreeGone`, or nothing. While the start has not
 *   answered there is no tree to prove anything of, so that neither says `TreeGone`.
 * - `Flush`: `Flushed`. `Settle` and `ReportUnresolved` are answered by nothing.
 */
export type Action =
  | "Hurry"
  | "WithdrawStart"
  | "RecordTree"
  | "AwaitExit"
  | "Linger"
  | "SignalTree"
  | "AwaitGrace"
  | "ForceTree"
  | "Recheck"
  | "RetryTree"
  | "Flush"
  | "Settle"
  | "ReportUnresolved"

/** The next state, and what is to be done now. */
export type Step = readonly [State, ReadonlyArray<Action>]

/** Admitted; the driver has not been asked. */
export const initial: State = { _tag: "Starting", asked: false, request: null, exit: null }

const selfExit: Cause = { _tag: "SelfExit" }
const startFailed: Cause = { _tag: "StartFailed" }
const none: ReadonlyArray<Action> = []
const stay = (state: State): Step => [state, none]

const joined = (first: EndRequest | null, second: EndRequest): EndRequest =>
  first === null ? second : first.now || !second.now ? first : { cause: first.cause, now: true }

type In<Tag extends State["_tag"]> = Extract<State, { readonly _tag: Tag }>

const whileStarting = (state: In<"Starting">, event: Event): Step => {
  switch (event._tag) {
    case "Asked":
      return stay({ ...state, asked: true })
    case "Started":
      if (state.exit !== null) {
        return [{ _tag: "Draining", request: state.request, exit: state.exit }, ["Linger"]]
      }
      return state.request === null
        ? stay({ _tag: "Running" })
        : [{ _tag: "Draining", request: state.request, exit: null }, ["RecordTree"]]
    case "StartFailed":
      return [{ _tag: "Settled", cause: startFailed, exit: null }, ["Settle"]]
    case "StartWithdrawn":
      return [{ _tag: "Settled", cause: state.request?.cause ?? startFailed, exit: state.exit }, ["Settle"]]
    case "StartLost":
      return [
        {
          _tag: "Unresolved",
          cause: state.request?.cause ?? startFailed,
          exit: state.exit,
          retrying: false,
          proven: false
        },
        ["ReportUnresolved"]
      ]
    case "Exited":
      return stay({ ...state, exit: event.exit })
    case "EndRequested": {
      if (!state.asked) return [{ _tag: "Settled", cause: event.request.cause, exit: null }, ["Settle"]]
      const request = joined(state.request, event.request)
      return [{ ...state, request }, state.request === null ? ["WithdrawStart"] : none]
    }
    default:
      return stay(state)
  }
}

/** Somebody else has sent the signals; whether the tree is gone is still to be shown. */
const endedBy = (cause: Cause, exit: Exit): State => ({
  _tag: "Terminating",
  cause,
  exit,
  delivered: true,
  forced: false,
  gone: false,
  now: false
})

/** It may live, and nothing can be shown of it. */
const untraceable = (cause: Cause, exit: Exit | null): Step => [
  { _tag: "Unresolved", cause, exit, retrying: false, proven: false },
  ["ReportUnresolved"]
]

const whileRunning = (state: In<"Running">, event: Event): Step => {
  switch (event._tag) {
    case "Exited":
      return event.by === undefined
        ? [{ _tag: "Draining", request: null, exit: event.exit }, ["Linger"]]
        : [endedBy(event.by, event.exit), ["AwaitGrace"]]
    case "EndRequested":
      return [{ _tag: "Draining", request: event.request, exit: null }, ["RecordTree"]]
    case "Untraceable":
      return untraceable({ _tag: "OwnerLost" }, null)
    default:
      return stay(state)
  }
}

const whileDraining = (state: In<"Draining">, event: Event): Step => {
  switch (event._tag) {
    case "Exited":
      return stay({ ...state, exit: state.exit ?? event.exit })
    case "EndRequested":
      return [{ ...state, request: joined(state.request, event.request) }, event.request.now ? ["Hurry"] : none]
    case "TreeRecorded":
      if (state.exit !== null) return [state, ["Linger"]]
      return [state, [event.leaderAlive ? "SignalTree" : "AwaitExit"]]
    case "ExitAwaited":
      return [{ ...state, exit: state.exit ?? unknownExit }, ["Linger"]]
    case "LingerEnded":
      return event.end
        ? [state, ["SignalTree"]]
        : [{ _tag: "Flushing", cause: selfExit, exit: state.exit ?? unknownExit }, ["Flush"]]
    case "Signalling":
      return stay({
        _tag: "Terminating",
        cause: state.exit === null ? state.request?.cause ?? selfExit : selfExit,
        exit: state.exit,
        delivered: false,
        forced: false,
        gone: false,
        now: state.request?.now ?? false
      })
    case "Untraceable":
      return untraceable(state.exit === null ? state.request?.cause ?? selfExit : selfExit, state.exit)
    default:
      return stay(state)
  }
}

const whileTerminating = (state: In<"Terminating">, event: Event): Step => {
  switch (event._tag) {
    case "Exited":
      return stay({ ...state, exit: state.exit ?? event.exit })
    case "EndRequested":
      return event.request.now && !state.now ? [{ ...state, now: true }, ["Hurry"]] : stay(state)
    case "Signalled":
      return [{ ...state, delivered: state.delivered || event.delivered }, ["AwaitGrace"]]
    case "GraceElapsed":
      return [{ ...state, forced: true }, ["ForceTree"]]
    case "TreeGone":
      return state.exit === null ? [{ ...state, gone: true }, ["AwaitExit"]] : flush(state)
    case "ExitAwaited":
      return state.gone ? flush({ ...state, exit: state.exit ?? unknownExit }) : stay(state)
    case "ForceElapsed":
    case "Untraceable":
      return untraceable(state.cause, state.exit)
    default:
      return stay(state)
  }
}

/** A leader that no signal of ours ever reached ended by itself, whatever had been asked for. */
const flush = (state: In<"Terminating">): Step => [
  { _tag: "Flushing", cause: state.delivered || state.forced ? state.cause : selfExit, exit: state.exit },
  ["Flush"]
]

const whileUnresolved = (state: In<"Unresolved">, event: Event): Step => {
  switch (event._tag) {
    case "Exited":
      return [{ ...state, exit: state.exit ?? event.exit }, state.proven ? none : ["Recheck"]]
    case "Started":
    case "RetryRequested":
      return state.proven || state.retrying ? stay(state) : [{ ...state, retrying: true }, ["RetryTree"]]
    case "ForceElapsed":
      return stay({ ...state, retrying: false })
    case "EndRequested":
      return event.request.now ? [state, ["Hurry"]] : stay(state)
    case "TreeGone":
    case "StartFailed":
    case "StartWithdrawn":
      return state.proven ? stay(state) : [{ ...state, proven: true }, ["Flush"]]
    case "Flushed":
      return state.proven ? [{ _tag: "Settled", cause: state.cause, exit: state.exit }, ["Settle"]] : stay(state)
    default:
      return stay(state)
  }
}

/**
 * Let go of wherever it is. What was to be done is not done any more; but a start on its way is taken back, since what it
 * is yet to start nobody else would find.
 */
const disowned = (state: Exclude<State, { readonly _tag: "Settled" }>): Step => [
  { _tag: "Settled", cause: { _tag: "Disowned" }, exit: exitOf(state) },
  state._tag === "Starting" && state.asked ? ["Hurry", "WithdrawStart", "Settle"] : ["Hurry", "Settle"]
]

/** Where a process of an earlier life is when its row is read again. */
export const resumed = (row: {
  readonly status: Status
  readonly cause: Cause | null
  readonly exit: Exit | null
}): State => {
  switch (row.status) {
    case "running":
      return { _tag: "Running" }
    case "kill_failed":
      return {
        _tag: "Unresolved",
        cause: row.cause ?? { _tag: "OwnerLost" },
        exit: row.exit,
        retrying: false,
        proven: false
      }
    default:
      return { _tag: "Settled", cause: row.cause ?? startFailed, exit: row.exit }
  }
}

/** Moves a process. An event that means nothing in a state changes nothing. */
export const step = (state: State, event: Event): Step => {
  if (event._tag === "Disowned" && state._tag !== "Settled") return disowned(state)
  switch (state._tag) {
    case "Starting":
      return whileStarting(state, event)
    case "Running":
      return whileRunning(state, event)
    case "Draining":
      return whileDraining(state, event)
    case "Terminating":
      return whileTerminating(state, event)
    case "Flushing":
      return event._tag === "Flushed"
        ? [{ _tag: "Settled", cause: state.cause, exit: state.exit }, ["Settle"]]
        : stay(state)
    case "Unresolved":
      return whileUnresolved(state, event)
    case "Settled":
      return stay(state)
  }
}

const phases: { readonly [Tag in State["_tag"]]: Phase } = {
  Starting: "starting",
  Running: "running",
  Draining: "draining",
  Terminating: "terminating",
  Flushing: "flushing",
  Unresolved: "unresolved",
  Settled: "settled"
}

/** The phase a process is shown in. */
export const phaseOf = (state: State): Phase => phases[state._tag]

/** The durable status is a view of the state, written in this one place. */
export const statusOf = (state: State): Status => {
  switch (state._tag) {
    case "Unresolved":
      return "kill_failed"
    case "Settled":
      return statusOfCause(state.cause, state.exit)
    default:
      return "running"
  }
}

/** The leader's exit, once it has been seen. */
export const exitOf = (state: State): Exit | null => state._tag === "Running" ? null : state.exit
