/**
 * Ending a tree: performs the actions of `Lifecycle` that look at it and signal it, and writes the receipt on the way.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Lifecycle from "../../domain/Lifecycle.ts"
import type { TreeLook } from "../../ports/ProcessDriver.ts"
import * as Termination from "../Termination.ts"
import type { Core } from "./Core.ts"
import { type OwnedProcess, receiptOf, subjectOf } from "./OwnedProcess.ts"

type Event = Lifecycle.Event

/** The actions performed here. */
export type Action = Extract<
  Lifecycle.Action,
  "RecordTree" | "AwaitExit" | "Linger" | "SignalTree" | "AwaitGrace" | "ForceTree" | "Recheck" | "RetryTree"
>

export interface Ending {
  readonly perform: (process: OwnedProcess, action: Action) => Effect.Effect<Event | null>
  /** Looks at a process that runs: a driver tells by it of a leader whose exit nobody collects. */
  readonly look: (process: OwnedProcess) => Effect.Effect<void>
  /** Runs the protocol once more on a process that could not be ended, or joins the run that is under way. */
  readonly retry: (process: OwnedProcess) => Effect.Effect<void>
  /** Wakes who waits for a retry. */
  readonly finishRetry: (process: OwnedProcess) => void
}

/** Somebody asked to skip what is left of the grace, or it is not ours to end any more. */
const isHurried = (process: OwnedProcess): boolean => {
  const { state } = process
  if (state._tag === "Settled") return true
  return (state._tag === "Draining" && state.request?.now === true) || (state._tag === "Terminating" && state.now)
}

export const make = (core: Core, termination: Termination.Termination): Ending => {
  const record = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> =>
    Effect.map(termination.look(subject), (seen) => {
      process.lastLook = seen
      return { _tag: "TreeRecorded", leaderAlive: !seen.complete || seen.leader === "alive" }
    })

  /** An exit that was another life's to collect is not told, unless it is in a file. */
  const awaitExit = (process: OwnedProcess): Effect.Effect<Event> =>
    Deferred.await(process.exited).pipe(
      Effect.timeoutOption(process.adopted && !process.detached ? 0 : core.settings.portWindowMillis),
      Effect.as<Event>({ _tag: "ExitAwaited" })
    )

  /** Most leaders leave nobody behind, which the first look shows. */
  const linger = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> => {
    const keep = process.policy.leftovers === "keep"
    const millis = keep ? 0 : core.settings.lingerMillis
    return Effect.map(termination.awaitGone(subject, millis, () => isHurried(process)), (seen) => {
      process.lastLook = seen
      if (Termination.isGone(seen)) return { _tag: "LingerEnded", end: false }
      process.leftovers = Termination.listed(seen.members, subject.refused)
      process.keptLeftovers = keep
      return { _tag: "LingerEnded", end: !keep }
    })
  }

  const signal = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> =>
    Effect.suspend(() => {
      // Decided and done in one step: an exit that this very signal causes is told after it.
      core.dispatch(process, { _tag: "Signalling" })
      const { lastLook } = process
      if (lastLook === null) return Effect.succeed({ _tag: "Signalled", delivered: false })
      return Effect.map(
        termination.request(subject, lastLook, process.policy.stopSignal),
        (delivered) => ({ _tag: "Signalled", delivered })
      )
    })

  const proven = (process: OwnedProcess, subject: Termination.Subject): Event => {
    process.survivors = []
    process.survivorCount = 0
    subject.note("verified gone")
    return { _tag: "TreeGone" }
  }

  const awaitGrace = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> =>
    Effect.map(
      termination.awaitGone(
        subject,
        isHurried(process) ? 0 : process.policy.graceMillis,
        () => isHurried(process)
      ),
      (seen) => {
        if (Termination.isGone(seen)) return proven(process, subject)
        // Nobody has ignored what there was no time to follow.
        if (isHurried(process) || process.policy.graceMillis === 0) subject.asked.clear()
        return { _tag: "GraceElapsed" }
      }
    )

  const survived = (process: OwnedProcess, subject: Termination.Subject, seen: TreeLook): Event => {
    process.survivors = Termination.listed(seen.members, subject.refused)
    process.survivorCount = seen.members.length
    subject.note(seen.complete ? `${seen.members.length} still there` : "the process table could not be read")
    return { _tag: "ForceElapsed" }
  }

  const force = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> =>
    Effect.suspend(() => {
      process.forced = true
      return Effect.map(termination.force(subject, process.policy.forceWindowMillis), (seen) => {
        process.lastLook = seen
        return Termination.isGone(seen) ? proven(process, subject) : survived(process, subject, seen)
      })
    })

  const recheck = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event | null> =>
    Effect.map(
      termination.look(subject),
      (seen) => Termination.isGone(seen) ? proven(process, subject) : null
    )

  /** Whether there is still something to find out about a process that could not be ended. */
  const isOpen = ({ state }: OwnedProcess): boolean => state._tag === "Unresolved" && !state.proven

  const runAgain = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> =>
    Effect.gen(function*() {
      subject.note("tried again")
      const seen = yield* termination.look(subject)
      if (Termination.isGone(seen)) return proven(process, subject)
      yield* termination.request(subject, seen, process.policy.stopSignal)
      const left = yield* termination.awaitGone(subject, process.policy.graceMillis, core.draining)
      return Termination.isGone(left) ? proven(process, subject) : yield* force(process, subject)
    })

  const finishRetry = (process: OwnedProcess): void => {
    const { retry } = process
    process.retry = null
    if (retry !== null) Deferred.doneUnsafe(retry, Effect.void)
  }

  /** Proof is told once the process is settled; of a retry that failed, the receipt tells at once. */
  const retryTree = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Event> =>
    Effect.map(runAgain(process, subject), (event) => {
      if (event._tag !== "TreeGone") process.receipt = receiptOf(process, core.timers.now())
      return event
    })

  const performers: {
    readonly [A in Action]: (process: OwnedProcess, subject: Termination.Subject) => Effect.Effect<Event | null>
  } = {
    RecordTree: record,
    AwaitExit: awaitExit,
    Linger: linger,
    SignalTree: signal,
    AwaitGrace: awaitGrace,
    ForceTree: force,
    Recheck: recheck,
    RetryTree: retryTree
  }

  return {
    perform: (process, action) =>
      Effect.suspend(() => {
        const again = action === "Recheck" || action === "RetryTree"
        // What was proven while this waited needs no second look: its child may be let go of already.
        if (again && !isOpen(process)) return Effect.succeed(null)
        // Only a start that was lost has no child: there is nobody to look at, and nothing to claim.
        if (process.child === null) return Effect.succeed(action === "RetryTree" ? { _tag: "ForceElapsed" } : null)
        return performers[action](process, subjectOf(process, process.child, core.timers.now))
      }),
    look: (process) =>
      Effect.suspend(() =>
        process.child === null
          ? Effect.void
          : Effect.asVoid(termination.look(subjectOf(process, process.child, core.timers.now)))
      ),
    retry: (process) =>
      Effect.suspend(() => {
        if (core.closed() || process.state._tag !== "Unresolved") return Effect.void
        const waiting = process.retry ??= Deferred.makeUnsafe<void>()
        core.dispatch(process, { _tag: "RetryRequested" })
        return Deferred.await(waiting)
      }),
    finishRetry
  }
}
