/**
 * Random histories: the same seed gives the same history, on every machine.
 */
import type { Settings } from "@procyon/runtime/services/Settings"
import type { Fault } from "../Faults.ts"
import { type Dice, dice } from "../internal/Dice.ts"
import { children } from "./children.ts"
import { randomFaults } from "./faulting.ts"
import type { Action, History, JobOptions, Options, Step } from "./History.ts"

/** How long a history is, and how much goes wrong in it. */
export interface Limits {
  /** Steps of a history. */
  readonly steps: number
  /** Whether ports fail at random. */
  readonly faults: boolean
  /** Whether the application is killed, restarted and stopped. */
  readonly lives: boolean
}

export const defaults: Limits = { steps: 24, faults: true, lives: true }

const names = Object.keys(children)
const inner = ["son", "daughter", "heir", "daemon", "sheep"]
const owners = ["a", "b", "c"]
const workspaces = ["w1", "w2"]

const settingsOf = ({ often, oneOf }: Dice): Partial<Settings> => ({
  // Small, so that windows lose output and spills are needed.
  outputBytes: oneOf([8 * 1024, 64 * 1024]),
  maxFinishedPerOwner: 0,
  ...(often(0.1) ? { maxRunningPerOwner: 2 } : {}),
  ...(often(0.1) ? { startAnswerMillis: 0 } : {}),
  ...(often(0.1) ? { heartbeatMillis: 1500, leaseMillis: 6000 } : {}),
  ...(often(0.1) ? { deadlineCapMillis: 4000 } : {}),
  ...(often(0.1) ? { spillBytes: 10_000 } : {})
})

const optionsOf = ({ below, often, oneOf }: Dice): Options => ({
  ...(often(0.3) ? { deadline: below(8000) } : {}),
  ...(often(0.1) ? { idleDeadline: 1 + below(3000) } : {}),
  ...(often(0.2) ? { grace: below(2000) } : {}),
  ...(often(0.1) ? { forceWindow: below(500) } : {}),
  ...(often(0.1) ? { cap: 1 + below(40_000) } : {}),
  ...(often(0.15) ? { streams: oneOf(["merged", "separate"] as const) } : {}),
  ...(often(0.15) ? { workspace: oneOf(workspaces) } : {})
})

const jobOptionsOf = (random: Dice): JobOptions => {
  const { often, oneOf } = random
  return {
    ...optionsOf(random),
    ...(often(0.3) ? { lifetime: oneOf(["application", "detached"] as const) } : {}),
    ...(often(0.2) ? { name: oneOf(["x", "y"]), onExisting: oneOf(["join", "fail"] as const) } : {})
  }
}

/** Weighted kinds of steps. Each is given the names of the jobs so far. */
const kinds = (
  random: Dice,
  jobs: Array<string>,
  limits: Limits
): ReadonlyArray<readonly [number, () => Action | null]> => {
  const { below, often, oneOf } = random
  const newJob = (): string => {
    const job = `j${jobs.length + 1}`
    jobs.push(job)
    return job
  }
  const job = (): string => jobs.length === 0 ? "j0" : oneOf(jobs)
  const owner = (): string => oneOf(owners)
  const withdrawn = () => (often(0.25) ? { withdrawAfter: below(3000) } : {})
  const lives = limits.lives ? 1 : 0
  return [
    [6, () => ({
      _tag: "Start",
      job: newJob(),
      owner: owner(),
      child: oneOf(names),
      options: jobOptionsOf(random),
      ...withdrawn()
    })],
    [2, () => ({ _tag: "Run", job: newJob(), child: oneOf(names), options: optionsOf(random), ...withdrawn() })],
    [2, () => ({ _tag: "Stop", job: job(), ...(often(0.5) ? { now: true } : {}) })],
    [1, () => ({ _tag: "Wait", job: job() })],
    [1, () => ({ _tag: "Receipt", job: job(), giveUpAfter: below(2000) })],
    [1, () => ({ _tag: "Retry", job: job() })],
    [1, () => ({ _tag: "Extend", job: job(), deadline: below(5000) })],
    [1, () => ({ _tag: "Write", job: job(), bytes: below(150_000) })],
    [1, () => ({ _tag: "CloseStdin", job: job() })],
    [1, () => ({ _tag: "Forget", job: job() })],
    [0.3, () => ({ _tag: "RetrySpill", job: job() })],
    [
      1,
      () => ({ _tag: "Follow", job: job(), since: often(0.7) ? 0 : below(20_000), stream: oneOf(["stdout", "stderr"]) })
    ],
    [2, () => ({
      _tag: "Notices",
      owner: owner(),
      how: oneOf(["take", "take", "await", "consume", "refuse"] as const),
      takes: often(0.5) ? 0 : below(3000)
    })],
    [1, () => ({ _tag: "Kill", child: oneOf([...names, ...inner]), how: oneOf(["SIGKILL", "SIGSEGV", 5]) })],
    [0.3, () => ({ _tag: "ReusePid", child: oneOf(names) })],
    [0.2, () => ({ _tag: "LoseExit", child: oneOf(names) })],
    [0.2, () => ({ _tag: "EndDetached", child: oneOf(names), by: oneOf(["deadline", "cap"]) })],
    [0.7, () => ({ _tag: "Blind", looks: 1 + below(3) })],
    [0.7, () => ({ _tag: "Acquire", workspace: oneOf(workspaces) })],
    [0.4, () => ({ _tag: "Release", workspace: oneOf(workspaces) })],
    [0.4, () => ({ _tag: "StopAll", owner: owner() })],
    [0.2, () => ({ _tag: "Retire", owner: owner() })],
    [0.12, () => ({ _tag: "Shutdown", mode: oneOf(["now", "graceful"]) })],
    [0.4, () => ({ _tag: "Replace" })],
    [0.8, () => ({ _tag: "Commit", after: often(0.5) ? 0 : below(3000), takes: often(0.5) ? 0 : below(8000) })],
    [0.4, () => ({ _tag: "Stall", millis: oneOf([500, 10_000]) })],
    [0.3, () => ({ _tag: "WallClock", ahead: oneOf([0, 3_600_000, -3_600_000, 20_000]) })],
    [lives * 0.6, () => ({ _tag: "Crash" })],
    [lives * 0.3, () => ({ _tag: "Restart" })],
    [lives * 0.15, () => ({ _tag: "Freeze" })],
    [lives * 0.2, () => ({ _tag: "Thaw" })],
    [lives * 0.3, () => ({ _tag: "Reconcile" })],
    [0.3, () => ({ _tag: "Review" })]
  ]
}

const stepsOf = (random: Dice, limits: Limits): ReadonlyArray<Step> => {
  const { below, next, often } = random
  const weighted = kinds(random, [], limits)
  const total = weighted.reduce((sum, [weight]) => sum + weight, 0)
  const pick = (): Action | null => {
    let at = next() * total
    for (const [weight, make] of weighted) {
      at -= weight
      if (at < 0) return make()
    }
    return null
  }
  return Array.from({ length: limits.steps }, pick).flatMap((act) =>
    act === null ? [] : [{ act, wait: often(0.5) ? below(3000) : 0 }]
  )
}

/** The history of a seed. */
export const generate = (seed: number, limits: Limits = defaults): History => {
  const random = dice(seed)
  const faults: ReadonlyArray<Fault> = limits.faults && random.often(0.6) ? randomFaults(random) : []
  return { seed, settings: settingsOf(random), faults, steps: stepsOf(random, limits) }
}
