/**
 * Ready-made scripts, by what a test means with them. Each is an ordinary script, to be built on with its members.
 */
import type * as Duration from "effect/Duration"
import { child, type Script } from "./Script.ts"

/** `after`: how long it runs; at once when absent. `prints`: what it says at its beginning. */
export interface Ending {
  readonly after?: Duration.Input | undefined
  readonly prints?: string | undefined
}

/** Runs until it is ended, and ends at SIGTERM. */
export const idle: Script = child

/** Says `text` (default `listening`) and serves on; at SIGTERM it ends in order, with code 0. */
export const server = (text = "listening\n"): Script => child.prints(text).onSignal("SIGTERM", child.exits(0))

/** Ends with 0 by itself. */
export const succeeding = (options: Ending = {}): Script => ending(0, options)

/** Ends with this code by itself. What it prints goes to stderr, unless the code is 0. */
export const failing = (
  code: number,
  options: Ending = {}
): Script => ending(code, options)

const ending = (
  code: number,
  { after, prints }: Ending
): Script => {
  const script = prints === undefined ? child : child.prints(prints, { stream: code === 0 ? "stdout" : "stderr" })
  return script.exits(code, { after })
}

/** Takes its time to end at SIGTERM. */
export const slowToEnd = (after: Duration.Input): Script => child.onSignal("SIGTERM", child.exits(0, { after }))

/** Only SIGKILL ends it. */
export const ignoringTerm: Script = child.ignores("SIGTERM")

/** Ignores SIGTERM, and refuses SIGKILL with EPERM so many times (default: always), as another user's process does. */
export const refusingKill = (times?: number): Script => ignoringTerm.refuses("SIGKILL", times)

/** Ignores SIGTERM, and stays at SIGKILL so many times (default: always), as one in the middle of its disk's I/O does. */
export const survivingKill = (times?: number): Script => ignoringTerm.survives("SIGKILL", times)

/** Ends with 0 at once, and leaves a daemon of this name that only its inherited marker tells of. */
export const leavingDaemon = (name = "daemon"): Script => child.forks(name, child, { escapes: "daemon" }).exits(0)

/** Prints this so many times, once in such an interval, and runs on. */
export const talking = (text: string, options: { readonly every: Duration.Input; readonly times: number }): Script => {
  let script = child
  for (let time = 0; time < options.times; time++) script = script.prints(text, { after: options.every })
  return script
}

/** The driver never answers its start. */
export const neverStarting: Script = child.neverAnswers()

/** It cannot be started: there is no such command. */
export const missing: Script = child.failsToStart("CommandNotFound", "ENOENT")
