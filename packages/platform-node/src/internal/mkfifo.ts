/**
 * Making FIFOs, which Node has no call for.
 */
import { spawn } from "node:child_process"

/** Makes FIFOs of these names, for this user only, and calls back once: whether all of them are there. May throw. */
export type MakeFifos = (names: ReadonlyArray<string>, done: (made: boolean) => void) => void

/** Makes them by a program that takes what `mkfifo` takes. */
export const mkfifo = (program = "mkfifo"): MakeFifos => (names, done) => {
  const child = spawn(program, ["-m", "600", ...names], { stdio: "ignore" })
  let settled = false
  const once = (made: boolean): void => {
    if (settled) return
    settled = true
    done(made)
  }
  child.once("error", () => once(false))
  child.once("exit", (code) => once(code === 0))
}
