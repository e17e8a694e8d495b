/**
 * The end of a process's record: output is read to its end and sealed, then the owner's hooks write the row and tell of
 * it, then waiters wake. And what finished processes may still hold in memory.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import type { Child } from "../../ports/ProcessDriver.ts"
import type { OutputRetention } from "../OutputRetention.ts"
import { type Core, hookMillis, isolated, retentionsOf } from "./Core.ts"
import * as FinishedOutput from "./FinishedOutput.ts"
import { type OwnedProcess, receiptOf } from "./OwnedProcess.ts"

export interface Settling {
  /** Performs `Flush`. */
  readonly flush: (process: OwnedProcess) => Effect.Effect<Lifecycle.Event>
  /** Performs `Settle`, and calls `onSettled` before waiters wake. */
  readonly settle: (process: OwnedProcess, onSettled: () => void) => Effect.Effect<null>
  /** Performs `ReportUnresolved`. */
  readonly reportUnresolved: (process: OwnedProcess) => Effect.Effect<null>
  /** Answers everybody who waits for a process that the end of the runtime leaves as it is. */
  readonly abandon: (process: OwnedProcess) => void
  /** Ends what can be read of a process that is not this runtime's to end any more, and lets go of its child. */
  readonly abandonOutput: (process: OwnedProcess) => Effect.Effect<void>
  /** Gives back what a settled process holds: its memory and its blobs. */
  readonly forget: (process: OwnedProcess) => Effect.Effect<void>
  /** Lets go of the children whose leftovers were kept on purpose. */
  readonly releaseKept: Effect.Effect<void>
}

const answerStart = (process: OwnedProcess): void => {
  Deferred.doneUnsafe(
    process.started,
    // Also a process that ended before its start was recorded was started.
    process.spawnFailed === null ? Effect.succeed(process.child !== null) : Effect.fail(process.spawnFailed)
  )
}

const isDisowned = ({ state }: OwnedProcess): boolean => state._tag === "Settled" && state.cause._tag === "Disowned"

export const make = (core: Core): Settling => {
  const { settings } = core
  const finished = FinishedOutput.make(settings.finishedOutputBytes)
  /** Closing their pipes would end what was to be kept, so their output is read, and dropped, until it ends. */
  const kept = new Set<Child>()

  const awaitEnd = (retention: OutputRetention, millis: number): Effect.Effect<boolean> =>
    Effect.map(Effect.timeoutOption(retention.ended, millis), Option.isSome)

  const sealAll = (process: OwnedProcess, drained: ReadonlyArray<boolean>): Effect.Effect<void> =>
    Effect.forEach(
      retentionsOf(process),
      (retention, index) =>
        isolated(retention.seal({ drained: drained[index] ?? false }), settings.spillWindowMillis, "sealing an output"),
      { concurrency: "unbounded", discard: true }
    )

  const release = (child: Child): Effect.Effect<void> =>
    isolated(Effect.suspend(() => child.release), settings.portWindowMillis, "letting go of a child")

  const letGo = (process: OwnedProcess, drained: ReadonlyArray<boolean>): Effect.Effect<void> => {
    const { child } = process
    if (child === null) return Effect.void
    if (!process.keptLeftovers || !drained.includes(false)) {
      return release(child)
    }
    keep(process, child, drained)
    return Effect.void
  }

  const keep = (process: OwnedProcess, child: Child, drained: ReadonlyArray<boolean>): void => {
    kept.add(child)
    const open = new Set(retentionsOf(process).filter((_, index) => drained[index] === false))
    for (const retention of open) {
      retention.onEnd(() => {
        open.delete(retention)
        if (open.size === 0 && kept.delete(child)) {
          core.fork(release(child))
        }
      })
    }
  }

  /** What is read from here on is another runtime's to tell of. */
  const abandonOutput = (process: OwnedProcess): Effect.Effect<void> =>
    Effect.andThen(
      sealAll(process, [false, false]),
      process.child === null
        ? Effect.void
        : release(process.child)
    )

  return {
    abandonOutput,
    flush: (process) =>
      Effect.gen(function*() {
        const millis = process.keptLeftovers ? 0 : settings.flushWindowMillis
        if (process.child !== null && !process.keptLeftovers) {
          yield* isolated(process.child.finish, settings.portWindowMillis, "reading an output to its end")
        }
        const drained = yield* Effect.forEach(retentionsOf(process), (retention) => awaitEnd(retention, millis), {
          concurrency: "unbounded"
        })
        yield* sealAll(process, drained)
        yield* letGo(process, drained)
        return { _tag: "Flushed" }
      }),
    settle: (process, onSettled) =>
      Effect.gen(function*() {
        // Of a row that is settled, nobody would ever remove it.
        yield* process.cleaned
        if (process.child === null) yield* sealAll(process, [true, true])
        if (isDisowned(process)) yield* abandonOutput(process)
        process.stdinClosed = true
        process.command = null
        process.startFiber = null
        process.lastLook = null
        process.endedAt = core.clock.currentTimeMillisUnsafe()
        process.receipt = receiptOf(process, core.timers.now())
        if (process.hooks.onSettled !== undefined) {
          yield* isolated(process.hooks.onSettled, hookMillis(settings), "settling a process")
        }
        onSettled()
        for (const retention of retentionsOf(process)) finished.add(retention)
        Deferred.doneUnsafe(process.exited, Effect.succeed(Lifecycle.exitOf(process.state)))
        answerStart(process)
        Deferred.doneUnsafe(process.ended, Effect.void)
        return null
      }),
    reportUnresolved: (process) =>
      Effect.gen(function*() {
        process.receipt = receiptOf(process, core.timers.now())
        if (process.hooks.onUnresolved !== undefined) {
          yield* isolated(process.hooks.onUnresolved, hookMillis(settings), "reporting a process")
        }
        if (process.child === null) answerStart(process)
        Deferred.doneUnsafe(process.ended, Effect.void)
        return null
      }),
    abandon: (process) => {
      process.stdinClosed = true
      process.receipt ??= receiptOf(process, core.timers.now())
      Deferred.doneUnsafe(process.exited, Effect.succeed(Lifecycle.exitOf(process.state)))
      answerStart(process)
      Deferred.doneUnsafe(process.ended, Effect.void)
    },
    forget: (process) =>
      Effect.suspend(() => {
        for (const retention of retentionsOf(process)) finished.remove(retention)
        const files = process.detached ? core.driver.detachedFiles : null
        return Effect.andThen(
          Effect.forEach(retentionsOf(process), (retention) => retention.dispose, { discard: true }),
          files === null
            ? Effect.void
            : isolated(Effect.asVoid(files.remove(process.id)), settings.portWindowMillis, "removing an output")
        )
      }),
    releaseKept: Effect.suspend(() => Effect.forEach(kept, release, { discard: true, concurrency: "unbounded" }))
  }
}
