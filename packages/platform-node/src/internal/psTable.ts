/**
 * Reading the process table through the program `ps`, for systems without `/proc`, macOS above all. Not verified there:
 * its parser is tested on texts, and all of it on Linux, whose `ps` understands the same options.
 *
 * It tells less than `/proc`. There are no environments, so nothing is found by its marker. Start times have steps of a
 * second. Only Linux tells sessions: elsewhere a process's group stands for its session, which holds because a group lies
 * within one session, and finds less, namely no group whose members have all lost their parents.
 */
import { spawn, spawnSync } from "node:child_process"
import type { ProcessStat, ProcessTable, Reading } from "./processTable.ts"

/** How long `ps` may take, in milliseconds, before it is ended and its reading counts as failed. */
const timeoutMillis = 5_000

/** Whether `ps` tells kernel sessions here. That of macOS prints an address, or 0. */
export const hasSessions = process.platform === "linux"

// One option a column: in BSD's `ps` everything after a `=` is the heading of that column.
const columns = (sessions: boolean): ReadonlyArray<string> =>
  ["pid", "ppid", "pgid", ...(sessions ? ["sess"] : []), "state", "lstart", "ucomm"].flatMap((
    name
  ) => ["-o", `${name}=`])

// The language and the zone of dates.
const environment = (): NodeJS.ProcessEnv => ({ PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" })

/** `ps` prints nothing for a pid that nobody has, and fails. */
const nobody = 1

const line =
  /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(?:(\d+)\s+)?([A-Z?])\S*\s+([A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4})\s+(.*?)\s*$/

/** The processes in what `ps` printed. Lines that are none are left out. `startedAt` is in seconds since 1970. */
export const parse = (text: string): ReadonlyMap<number, ProcessStat> => {
  const processes = new Map<number, ProcessStat>()
  for (const one of text.split("\n")) {
    const [, pid, parent, group, session, state = "", started, name = ""] = line.exec(one) ?? []
    if (pid === undefined || Number(pid) < 1) continue
    processes.set(Number(pid), {
      pid: Number(pid),
      // BSD's letter for a wait that nothing interrupts.
      state: state === "U" ? "D" : state,
      parent: Number(parent),
      group: Number(group),
      session: Number(session ?? group),
      startedAt: Date.parse(`${started} UTC`) / 1000,
      name
    })
  }
  return processes
}

/** The table that `ps` tells, or `null` where it cannot be had. Runs it once, which takes some milliseconds. */
export const find = (program = "ps", sessions = hasSessions): ProcessTable | null => {
  const readStat = (pid: number): ProcessStat | null => {
    const options = { env: environment(), encoding: "utf8", timeout: timeoutMillis } as const
    const { error, status, stdout } = spawnSync(program, [...columns(sessions), "-p", String(pid)], options)
    if (error !== undefined) throw error
    const stat = parse(stdout).get(pid)
    if (stat === undefined && status !== nobody) throw new Error("ps told nothing that can be read")
    return stat ?? null
  }
  const table: ProcessTable = {
    read: (done) => run(program, ["-A", ...columns(sessions)], done),
    readStat,
    readEnvironNames: () => []
  }
  try {
    return readStat(process.pid) === null ? null : table
  } catch {
    return null
  }
}

const run = (program: string, args: ReadonlyArray<string>, done: (reading: Reading) => void): void => {
  const beganAt = performance.now()
  let text = ""
  let settled = false
  const settle = (code: number | null): void => {
    if (settled) return
    settled = true
    const processes = code === 0 ? parse(text) : new Map<number, ProcessStat>()
    // Whatever does not list who asked is not the table.
    const complete = processes.has(process.pid)
    done({ processes: complete ? processes : new Map(), complete, beganAt })
  }
  const stdio = ["ignore", "pipe", "ignore"] as const
  const child = spawn(program, args, { env: environment(), stdio: [...stdio], timeout: timeoutMillis })
  child.stdout?.setEncoding("utf8").on("error", () => {}).on("data", (more: string) => {
    text += more
  })
  child.once("error", () => settle(null)).once("close", settle)
}
