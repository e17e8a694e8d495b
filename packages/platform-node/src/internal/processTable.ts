/**
 * Reading Linux's process table: who is alive, who their parents are, and what an environment says.
 *
 * Facts only; whom a process belongs to is `forest.ts`. All reads are synchronous: `/proc` never touches a disk, and
 * going through the thread pool costs five times as much.
 */
import * as fs from "node:fs"
import { inSlices } from "./slices.ts"

/** One line of the table. `group` and `session` are 0 where the kernel shows none. */
export interface ProcessStat {
  readonly pid: number
  /** `R`, `S`, `D`, `T`, `t`, `I`; `Z` and `X` are dead. */
  readonly state: string
  readonly parent: number
  readonly group: number
  readonly session: number
  /** Clock ticks since boot: field 22 of `/proc/PID/stat`. */
  readonly startedAt: number
  readonly name: string
}

export const isDead = (stat: ProcessStat): boolean => stat.state === "Z" || stat.state === "X"

// Enough for `/proc/PID/stat`: 52 numbers of at most 20 digits and a name of at most 64 bytes.
const statBytes = Buffer.allocUnsafeSlow(2048)
const environBytes = Buffer.allocUnsafeSlow(64 * 1024)

/** The errno name of a system error. */
export const errnoOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "UNKNOWN"

// A process that ends between the listing and the reading answers with the first two. The others are for those of other
// users, listed and unreadable, where `/proc` is mounted with `hidepid=1`: as good as not listed, which `hidepid=2` makes
// them.
const isUnseen = (error: unknown): boolean => ["ENOENT", "ESRCH", "EACCES", "EPERM"].includes(errnoOf(error))

/**
 * A process whose first thread has ended while others run is shown as `Z`, and lives. A real zombie has one thread.
 */
const liveState = (state: string, threads: number): string => state === "Z" && threads > 1 ? "S" : state

const parse = (pid: number, line: string): ProcessStat | null => {
  // The name may hold spaces and parentheses; everything after the last one is numbers.
  const open = line.indexOf("(")
  const close = line.lastIndexOf(")")
  const fields = line.slice(close + 2).split(" ", 20)
  const state = fields[0]
  if (open < 0 || close < open || state === undefined || fields.length < 20) return null
  return {
    pid,
    state: liveState(state, Number(fields[17])),
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    startedAt: Number(fields[19]),
    name: line.slice(open + 1, close)
  }
}

/** The process with this pid, `null` when there is none. Throws when it could not be told, such as `EMFILE`. */
export const readStat = (pid: number): ProcessStat | null => {
  try {
    const fd = fs.openSync(`/proc/${pid}/stat`, "r")
    try {
      return parse(pid, statBytes.toString("latin1", 0, fs.readSync(fd, statBytes, 0, statBytes.length, 0)))
    } finally {
      fs.closeSync(fd)
    }
  } catch (error) {
    if (isUnseen(error)) return null
    throw error
  }
}

/** The names in an environment, or `null` when it cannot be read: another user's, a kernel thread's, or one in exec. */
const readEnvironNames = (pid: number): ReadonlyArray<string> | null => {
  const text = readEnviron(`/proc/${pid}/environ`) || readEnvironOfThreads(pid)
  return text.length === 0 ? null : text.split("\0").map((entry) => entry.split("=", 1)[0] ?? "")
}

const readEnviron = (path: string): string => {
  try {
    return readAll(path)
  } catch {
    return ""
  }
}

/** A process whose first thread has ended has no environment to show; its other threads have. */
const readEnvironOfThreads = (pid: number): string => {
  try {
    for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
      const text = thread === String(pid) ? "" : readEnviron(`/proc/${pid}/task/${thread}/environ`)
      if (text.length > 0) return text
    }
  } catch {
    // It has ended meanwhile.
  }
  return ""
}

const readAll = (path: string): string => {
  const fd = fs.openSync(path, "r")
  try {
    let text = ""
    for (;;) {
      const count = fs.readSync(fd, environBytes, 0, environBytes.length, null)
      if (count === 0) return text
      text += environBytes.toString("latin1", 0, count)
    }
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * The boot this machine runs and the namespace that pids are of here, or `null` where the kernel does not tell. Containers
 * of one machine share a boot, and a pid of one means nothing in another: see pid_namespaces(7).
 */
export const readBootId = (): string | null => {
  try {
    const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
    const namespace = readPidNamespace()
    return namespace === null ? boot : `${boot}/${namespace}`
  } catch {
    return null
  }
}

/** The number of the namespace: `pid:[4026531836]` is what the link says. `null` in a kernel without them. */
const readPidNamespace = (): string | null => {
  try {
    return /\d+/.exec(fs.readlinkSync("/proc/self/ns/pid"))?.[0] ?? null
  } catch {
    return null
  }
}

/** A reading of the table. Not a snapshot: a process that forks and ends within the reading can be in neither place. */
export interface Reading {
  readonly processes: ReadonlyMap<number, ProcessStat>
  /** `false`: some of it could not be read. */
  readonly complete: boolean
  /** By the monotonic clock, in milliseconds: what it says may have changed since then. */
  readonly beganAt: number
}

/** How the table of a platform is read. */
export interface ProcessTable {
  /** Reads all of it, and calls back once. */
  readonly read: (done: (reading: Reading) => void) => void
  /** The process with this pid, `null` when there is none. Throws when it could not be told. */
  readonly readStat: (pid: number) => ProcessStat | null
  /** The names in its environment, `null` when they cannot be read now. */
  readonly readEnvironNames: (pid: number) => ReadonlyArray<string> | null
}

/** Reads the table in slices, and calls back once. */
export const readTable = (done: (reading: Reading) => void): void => {
  const beganAt = performance.now()
  const processes = new Map<number, ProcessStat>()
  const pids = listPids()
  let complete = pids !== null
  const read = (pid: number): void => {
    try {
      const stat = readStat(pid)
      if (stat !== null) processes.set(pid, stat)
    } catch {
      complete = false
    }
  }
  inSlices(pids ?? [], read, () => done({ processes, complete, beganAt }))
}

const listPids = (): ReadonlyArray<number> | null => {
  try {
    const pids: Array<number> = []
    for (const name of fs.readdirSync("/proc")) {
      const pid = Number(name)
      if (pid > 0) pids.push(pid)
    }
    return pids
  } catch {
    return null
  }
}

/** The table in `/proc`. */
export const linux: ProcessTable = { read: readTable, readStat, readEnvironNames }

/** As the table's `readStat`; what could not be read counts as absent. For callers that then do nothing. */
export const tryReadStat = (pid: number, table: ProcessTable = linux): ProcessStat | null => {
  try {
    return table.readStat(pid)
  } catch {
    return null
  }
}
