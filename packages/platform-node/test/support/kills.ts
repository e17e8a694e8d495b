/**
 * What becomes of a durable application's jobs when its keeper is killed, and when both are.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as readline from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { isLiving, keepersOf, living, type Seen } from "./processes.ts"

const program = fileURLToPath(new URL("../programs/killed.ts", import.meta.url))

/** All jobs are up. */
export interface Started {
  readonly upMillis: number
}

/** A keeper was lost. */
export interface Told {
  readonly told: string
}

/** A job that was started after the loss was told, and what ending all the others has come to. */
export interface Healed {
  readonly next: number | null
  readonly nextMillis: number
  readonly statuses: Readonly<Record<string, number>>
  readonly unknownExits: number
  readonly endMillis: number
}

/** What the next start found: outcomes of recovery, and the rows after it. */
export interface Found {
  readonly failed: boolean
  readonly outcomes: Readonly<Record<string, number>>
  readonly statuses: Readonly<Record<string, number>>
  /** Rows that are not settled. */
  readonly open: number
  readonly recoveryMillis: number
}

export interface Jobs {
  readonly count: number
  readonly graceMillis: number
}

/** Processes of jobs, before the kill and in the end. */
interface Alive {
  readonly before: number
  readonly left: number
}

interface Life {
  readonly child: ChildProcess
  readonly pid: number
  /** The next line it says. Fails when it ends without one. */
  readonly line: <A>() => Promise<A>
  readonly ended: Promise<void>
}

/** An application of its own on a state of its own, and the processes of its jobs. Nothing is left of any of it. */
const withState = async <A>(
  { count, graceMillis }: Jobs,
  use: (
    begin: (how: "first" | "next") => Life,
    jobs: () => ReadonlyArray<Seen>
  ) => Promise<A>
): Promise<A> => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-kills-"))
  const tag = `0${process.pid}0${process.hrtime.bigint() % 1_000_000_000n}`
  const lives: Array<Life> = []
  const begin = (how: "first" | "next"): Life => {
    const args = [program, how, path.join(directory, "state"), String(count), String(graceMillis), tag]
    const child = spawn(process.execPath, args, {
      env: { ...process.env, TMPDIR: directory },
      stdio: ["ignore", "pipe", "inherit"]
    })
    const said = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const life: Life = {
      child,
      pid: child.pid ?? 0,
      async line() {
        const { done, value } = await said.next()
        if (done === true) throw new Error("the application ended early")
        return JSON.parse(value)
      },
      ended: new Promise((resolve) => child.once("exit", () => resolve()))
    }
    lives.push(life)
    return life
  }
  const jobs = (): ReadonlyArray<Seen> => living(tag).filter(({ pid }) => !lives.some((life) => life.pid === pid))
  try {
    return await use(begin, jobs)
  } finally {
    for (const { child, ended } of lives) {
      child.kill("SIGKILL")
      await ended
    }
    for (const seen of jobs()) if (isLiving(seen)) process.kill(seen.pid, "SIGKILL")
    fs.rmSync(directory, { recursive: true, force: true, maxRetries: 10 })
  }
}

const keeperOf = ({ pid }: Life): Seen => {
  const keeper = keepersOf(pid).at(-1)
  if (keeper === undefined) throw new Error("there is no keeper")
  return keeper
}

/** A shell that has said that it is up may still be about to run what it says. */
const untilSteady = async (jobs: () => ReadonlyArray<Seen>, expected: number): Promise<number> => {
  let now = jobs().length
  for (const giveUpAt = performance.now() + 10_000; now !== expected && performance.now() < giveUpAt;) {
    await sleep(50)
    now = jobs().length
  }
  return now
}

/** The wait, the escapee and its shell, the one that ignores SIGTERM: so many processes are so many jobs. */
export const processesOf = (count: number): number => count + Math.floor((count + 1) / 3)

/** Kills the keeper, and lets the application end its jobs through the next one. */
export const killKeeper = (
  jobs: Jobs
): Promise<Started & Told & Healed & { readonly alive: Alive; readonly toldMillis: number }> =>
  withState(jobs, async (begin, alive) => {
    const life = begin("first")
    const started = await life.line<Started>()
    const before = await untilSteady(alive, processesOf(jobs.count))
    const killedAt = performance.now()
    process.kill(keeperOf(life).pid, "SIGKILL")
    const told = await life.line<Told>()
    const toldMillis = performance.now() - killedAt
    const healed = await life.line<Healed>()
    await life.ended
    return { ...started, ...told, toldMillis, ...healed, alive: { before, left: alive().length } }
  })

/** Kills both, and starts the next application on what they left. */
export const killBoth = (
  jobs: Jobs
): Promise<Started & Found & { readonly alive: Alive & { readonly after: number }; readonly allMillis: number }> =>
  withState(jobs, async (begin, alive) => {
    const life = begin("first")
    const started = await life.line<Started>()
    const before = await untilSteady(alive, processesOf(jobs.count))
    const keeper = keeperOf(life)
    process.kill(keeper.pid, "SIGKILL")
    process.kill(life.pid, "SIGKILL")
    await life.ended
    const after = alive().length
    const began = performance.now()
    const found = await begin("next").line<Found>()
    const allMillis = performance.now() - began
    return { ...started, ...found, alive: { before, after, left: alive().length }, allMillis }
  })
