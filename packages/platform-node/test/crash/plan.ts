/** Which points an application is killed at, and which time and which job's of each: that is up to the seed. */
import { type DriverName, drivers } from "./life.ts"
import type { Reached, Target } from "./points.ts"
import { numbers, shuffled } from "./seeded.ts"

const around = (...calls: ReadonlyArray<string>): ReadonlyArray<string> =>
  calls.flatMap((call) => [`${call} before`, `${call} after`])

/** In the order of a job's life. */
const living: ReadonlyArray<string> = [
  "runtime built",
  "start asked",
  ...around("ledger.workspaces.insert", "workspace.create", "ledger.workspaces.update made"),
  ...around("ledger.insert", "driver.spawn", "ledger.transition started"),
  "start answered",
  "event Started",
  "output read",
  "output kept",
  ...around("blob.write", "blob.append"),
  "jobs at work",
  "event Progress",
  ...around("ledger.renew"),
  "event Draining",
  ...around("driver.look", "driver.signal SIGTERM", "driver.signal SIGCONT"),
  "event Terminating",
  ...around("driver.signal SIGSTOP", "driver.signal SIGKILL"),
  "output ends",
  ...around("exit", "child.finish", "blob.seal", "child.release", "ledger.transition ended"),
  "event Ended",
  ...around("ledger.transition offered"),
  "notice handed",
  "notice seen",
  ...around("ledger.transition told"),
  "notice taken",
  ...around("workspace.remove", "ledger.workspaces.remove"),
  ...around("blob.remove", "ledger.remove"),
  "shutdown asked",
  ...around("ledger.transition released"),
  "shutdown reported",
  "shutdown told"
]

/** Of a life that finds what one killed in the middle of its work has left. */
const recovering = (driver: DriverName): ReadonlyArray<string> => [
  ...around("ledger.rows", "ledger.transition claimed", "driver.attach"),
  "runtime built",
  ...around("driver.look"),
  // A keeper has ended everybody before that.
  ...(driver === "keeper" ? [] : around("driver.signal SIGTERM", "driver.signal SIGKILL")),
  ...around("ledger.transition ended", "ledger.transition offered"),
  "notice seen",
  ...around("ledger.transition told"),
  ...around("workspace.remove", "ledger.workspaces.remove"),
  "recovery told",
  "shutdown asked",
  "shutdown told"
]

export type Stage = "living" | "recovering"

/** One line of the table. */
export interface Item {
  readonly driver: DriverName
  readonly stage: Stage
  readonly point: string
}

/** Where the first life is killed when it is the recovery that is tried. */
export const atWork: Target = { point: "jobs at work", job: null, occurrence: 1 }

export const itemsOf = (driver: DriverName): ReadonlyArray<Item> => [
  ...living.map((point): Item => ({ driver, stage: "living", point })),
  ...recovering(driver).map((point): Item => ({ driver, stage: "recovering", point }))
]

/** Every so many of the items of a stage, the drivers in turn. */
const sampled = (stage: Stage, step: number): ReadonlyArray<Item> => {
  const lists = drivers.map((driver) => itemsOf(driver).filter((item) => item.stage === stage))
  return (lists[0] ?? []).flatMap((_, index) =>
    index % step === 0 ? lists[(index / step) % lists.length]?.[index] ?? [] : []
  )
}

/** A short form of all of it. */
export const quick: ReadonlyArray<Item> = [...sampled("living", 2), ...sampled("recovering", 6)]

/**
 * Targets for a point, the one that the seed chose first. How often a point is reached differs from run to run, so the
 * others follow for when that one is not reached: the first time, of each job.
 */
export const targetsOf = (point: string, reached: ReadonlyArray<Reached>, seed: number): ReadonlyArray<Target> => {
  const next = numbers(seed)
  const found = shuffled(next, reached.filter((one) => one.point === point))
  const [chosen] = found
  if (chosen === undefined) return []
  return [
    { point, job: chosen.job, occurrence: 1 + Math.floor(next() * chosen.count) },
    ...found.map(({ job }) => ({ point, job, occurrence: 1 }))
  ]
}
