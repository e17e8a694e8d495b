/**
 * Making FIFOs, which Node has no call for.
 */
import { spawn } from "node:child_process"
import { errnoOf } from "./processTable.ts"

/**
 * Makes FIFOs of these names, for this user only, and calls back once: whether all of them are there, and the errno name
 * of what was in the way, if it is known. May throw.
 */
export type MakeFifos = (names: ReadonlyArray<string>, done: (made: boolean, code: string | null) => void) => void

/** How long it may take, in milliseconds, before it is killed: the disk may be one that does not answer. */
const mostMillis = 5_000

/** Makes them by a program that takes what `mkfifo` takes. */
export const mkfifo = (program = "mkfifo", timeout = mostMillis): MakeFifos => (names, done) => {
  // In a session of its own: Ctrl-C means the application, which may go on.
  const child = spawn(program, ["-m", "600", ...names], {
    stdio: "ignore",
    detached: true,
    timeout,
    killSignal: "SIGKILL"
  })
  let settled = false
  const once = (made: boolean, code: string | null): void => {
    if (settled) return
    settled = true
    done(made, code)
  }
  child.once("error", (error) => once(false, errnoOf(error)))
  child.once("exit", (code) => once(code === 0, null))
}
