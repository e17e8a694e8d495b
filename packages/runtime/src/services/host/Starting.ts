/**
 * Starting a process: the driver is asked from a fiber of the runtime, so that an interrupted starter cannot fall between
 * a process that exists and the record of it. What comes of it is told by `process.started`.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { CommandSpec } from "../../domain/CommandSpec.ts"
import type * as Lifecycle from "../../domain/Lifecycle.ts"
import * as ProcessDriver from "../../ports/ProcessDriver.ts"
import { type Core, exited, hookMillis, isolated } from "./Core.ts"
import type { OwnedProcess } from "./OwnedProcess.ts"

export interface Starting {
  readonly start: (process: OwnedProcess) => void
  /** Performs `WithdrawStart`: interrupts the start, which answers for itself if it can in time. */
  readonly withdraw: (process: OwnedProcess) => Effect.Effect<Lifecycle.Event | null>
}

/** The start window closed before the driver answered. */
const isOverdue = (process: OwnedProcess): boolean =>
  process.state._tag === "Starting" && process.state.request?.cause._tag === "StartFailed"

const isWithdrawn = (process: OwnedProcess): boolean =>
  process.state._tag !== "Starting" || process.state.request !== null

const outcomeUnknown = () => new ProcessDriver.SpawnFailed({ problem: "OutcomeUnknown", code: null })

/** `onStarted` is called once there is a process to watch over. */
export const make = (core: Core, onStarted: (process: OwnedProcess) => void): Starting => {
  const { dispatch, driver, settings, timers } = core

  const requestOf = (process: OwnedProcess, command: CommandSpec): ProcessDriver.SpawnRequest => ({
    command,
    marker: process.marker,
    stdout: process.stdout.sink,
    stderr: process.stderr === null ? "merged" : process.stderr.sink,
    onExit: (exit, by) => dispatch(process, exited(exit, by)),
    detached: process.detached ? detachedOf(process) : undefined
  })

  const detachedOf = ({ deadlineMillis, id, policy }: OwnedProcess): ProcessDriver.Detached => ({
    name: id,
    deadlineAt: deadlineMillis === null ? null : core.clock.currentTimeMillisUnsafe() + deadlineMillis,
    capBytes: policy.capBytes,
    graceMillis: policy.graceMillis
  })

  const answerStarted = (process: OwnedProcess, child: ProcessDriver.Child): Effect.Effect<void> =>
    Effect.gen(function*() {
      process.child = child
      process.startedAt = core.clock.currentTimeMillisUnsafe()
      process.startedMono = timers.now()
      process.stdout.onResume(() => child.resume("stdout"))
      process.stderr?.onResume(() => child.resume("stderr"))
      dispatch(process, { _tag: "Started" })
      onStarted(process)
      if (process.hooks.onStarted !== undefined) {
        yield* isolated(process.hooks.onStarted, hookMillis(settings), "recording a start")
      }
      Deferred.doneUnsafe(process.started, Effect.succeed(true))
    })

  const answerFailed = (process: OwnedProcess, cause: Cause.Cause<ProcessDriver.SpawnFailed>): void => {
    const failure = cause.reasons.find((reason) => reason._tag === "Fail")
    if (failure?._tag === "Fail") {
      process.spawnFailed = failure.error
      return dispatch(process, { _tag: "StartFailed" })
    }
    if (isOverdue(process)) process.spawnFailed = outcomeUnknown()
    if (isWithdrawn(process)) return dispatch(process, { _tag: "StartWithdrawn" })
    process.spawnFailed = new ProcessDriver.SpawnFailed({ problem: "Other", code: null })
    dispatch(process, { _tag: "StartFailed" })
  }

  const recordFirst = (process: OwnedProcess): Effect.Effect<boolean> =>
    Effect.catchCause(process.hooks.beforeSpawn ?? Effect.succeed(true), () => Effect.succeed(false))

  const startNow = (process: OwnedProcess): Effect.Effect<void> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const { command } = process
        if (command === null || process.state._tag !== "Starting") return
        dispatch(process, { _tag: "Asked" })
        const recorded = yield* recordFirst(process)
        if (!recorded) return dispatch(process, { _tag: "StartFailed" })
        if (isWithdrawn(process)) return dispatch(process, { _tag: "StartWithdrawn" })
        const overdue = timers.after(settings.startWindowMillis, () =>
          dispatch(process, { _tag: "EndRequested", request: { cause: { _tag: "StartFailed" }, now: false } }))
        process.handedOver = true
        const exit = yield* Effect.exit(restore(Effect.suspend(() =>
          driver.spawn(requestOf(process, command))
        )))
        overdue.cancel()
        if (exit._tag === "Success") {
          yield* answerStarted(process, exit.value)
        } else answerFailed(process, exit.cause)
      })
    )

  return {
    start: (process) => {
      process.startFiber = core.fork(startNow(process))
    },
    withdraw: (process) => {
      const { startFiber } = process
      if (startFiber === null) return Effect.succeed(null)
      // A row that is still being written is bounded by itself, and no process is lost behind it.
      const recording = process.handedOver ? 0 : settings.portWindowMillis
      // The interruption is not to end with this wait, so it runs beside it.
      return Fiber.await(core.fork(Fiber.interrupt(startFiber))).pipe(
        Effect.timeoutOption(recording + process.policy.forceWindowMillis),
        Effect.map((done): Lifecycle.Event | null => {
          if (Option.isSome(done) && process.state._tag !== "Starting") return null
          if (isOverdue(process)) process.spawnFailed = outcomeUnknown()
          return { _tag: "StartLost" }
        })
      )
    }
  }
}
