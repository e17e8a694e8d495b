/**
 * What time does to a running process: deadlines, idle deadlines and heartbeats, all on the runtime's one timer heap.
 */
import * as Lifecycle from "../../domain/Lifecycle.ts"
import type { Cause } from "../../domain/Status.ts"
import { type Core, observed } from "./Core.ts"
import type { OwnedProcess } from "./OwnedProcess.ts"

export interface Watchdog {
  /** Arms what the process's policy asks for; does nothing for one that no longer runs. */
  readonly arm: (process: OwnedProcess) => void
  /** Ends deadlines. Heartbeats go on until the process is settled. */
  readonly stopDeadlines: (process: OwnedProcess) => void
  /** Ends everything. */
  readonly stop: (process: OwnedProcess) => void
  /** Sets the deadline anew, `millis` from now; `null` for none. The runtime's cap holds. */
  readonly extend: (process: OwnedProcess, millis: number | null) => void
}

/**
 * `recheck` is called at the beats of a process that could not be ended, and of one whose exit nobody collects: nobody
 * else would look again.
 */
export const make = (core: Core, recheck: (process: OwnedProcess) => void): Watchdog => {
  const { settings, timers } = core

  const end = (process: OwnedProcess, cause: Cause): void =>
    core.dispatch(process, { _tag: "EndRequested", request: { cause, now: false } })

  const armDeadline = (process: OwnedProcess): void => {
    const { deadlineMillis } = process
    process.deadlineAt = deadlineMillis === null ? null : process.startedAt + deadlineMillis
    if (deadlineMillis === null) return
    const left = Math.max(0, process.startedMono + deadlineMillis - timers.now())
    process.timers.push(timers.after(left, () => end(process, { _tag: "Deadline", kind: "total" })))
  }

  /** Output does not touch the timer: when it fires, it looks how long the silence has really been. */
  const armIdle = (process: OwnedProcess, idle: number, millis: number): void => {
    process.timers.push(timers.after(millis, () => {
      const left = process.lastOutputMono + idle - timers.now()
      if (left <= 0) end(process, { _tag: "Deadline", kind: "idle" })
      else armIdle(process, idle, left)
    }))
  }

  const armBeat = (process: OwnedProcess): void => {
    process.beat = timers.after(settings.heartbeatMillis, () => {
      if (Lifecycle.phaseOf(process.state) === "settled") return
      armBeat(process)
      observed(core, process.hooks.onBeat)
      if (process.state._tag === "Unresolved" || process.adopted) recheck(process)
    })
  }

  const stopDeadlines = (process: OwnedProcess): void => {
    for (const timer of process.timers) timer.cancel()
    process.timers = []
  }

  const armDeadlines = (process: OwnedProcess): void => {
    armDeadline(process)
    const idle = process.policy.idleDeadlineMillis
    if (idle !== null) armIdle(process, idle, Math.max(0, process.lastOutputMono + idle - timers.now()))
  }

  return {
    arm: (process) => {
      armBeat(process)
      if (process.state._tag === "Running") armDeadlines(process)
    },
    stopDeadlines,
    stop: (process) => {
      stopDeadlines(process)
      process.beat?.cancel()
    },
    extend: (process, millis) => {
      if (process.state._tag !== "Running") return
      const asked = millis === null ? null : timers.now() - process.startedMono + millis
      process.deadlineAskedMillis = asked
      const cap = settings.deadlineCapMillis
      process.deadlineMillis = asked === null || cap === null ? asked : Math.min(asked, cap)
      stopDeadlines(process)
      armDeadlines(process)
    }
  }
}
