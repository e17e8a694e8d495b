/** What the process table shows, read without the driver that is tested. */
import * as fs from "node:fs"

/** A line of the process table. `startedAt`: clock ticks since boot. */
export interface Seen {
  readonly pid: number
  readonly startedAt: number
  readonly state: string
  readonly group: number
  readonly session: number
  readonly name: string
}

/** The process as the kernel shows it now; `null` when there is none of this number. */
export const seenAt = (pid: number): Seen | null => {
  try {
    const line = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
    const close = line.lastIndexOf(")")
    const fields = line.slice(close + 2).split(" ")
    return {
      pid,
      startedAt: Number(fields[19]),
      state: fields[0] ?? "X",
      group: Number(fields[2]),
      session: Number(fields[3]),
      name: line.slice(line.indexOf("(") + 1, close)
    }
  } catch {
    return null
  }
}

const isDead = (state: string): boolean => state === "Z" || state === "X" || state === "x"

/** Whether this very process is there and no zombie. */
export const isLiving = (process: { readonly pid: number; readonly startedAt: number }): boolean => {
  const now = seenAt(process.pid)
  return now !== null && now.startedAt === process.startedAt && !isDead(now.state)
}

const commandLineOf = (pid: number): string => {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")
  } catch {
    return ""
  }
}

/**
 * The living processes with this in their command line, oldest number first. One in the middle of an `exec` has its new
 * name and no command line yet, so the name is read first: who is told has finished with it.
 */
export const living = (tag: string): ReadonlyArray<Seen> =>
  fs.readdirSync("/proc").map(Number).filter((pid) => pid > 0).flatMap((pid) => {
    const seen = seenAt(pid)
    return seen === null || isDead(seen.state) || !commandLineOf(pid).includes(tag) ? [] : [seen]
  })
