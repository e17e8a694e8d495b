/** Many trials: every point of a list with every seed, a few at a time, and a table of what came of them. */
import * as Effect from "effect/Effect"
import type { DriverName } from "./life.ts"
import * as Plan from "./plan.ts"
import type { Reached, Target } from "./points.ts"
import * as Trial from "./trial.ts"

export interface Options {
  readonly items: ReadonlyArray<Plan.Item>
  readonly seeds: ReadonlyArray<number>
  readonly keep: boolean
  /** Called with each verdict as it comes. */
  readonly onVerdict?: ((verdict: Trial.Verdict) => void) | undefined
}

/** What came of one item, with all seeds. */
export interface Line {
  readonly item: Plan.Item
  readonly verdicts: ReadonlyArray<Trial.Verdict>
}

/** As many as the smallest machine has cores. */
const concurrency = 2

/** What one life of each stage reaches. */
type Known = Readonly<Record<Plan.Stage, ReadonlyArray<Reached>>>

const targetsBefore = (stage: Plan.Stage): ReadonlyArray<Target> => stage === "living" ? [] : [Plan.atWork]

const knownOf = (driver: DriverName, seed: number, cache: string): Effect.Effect<Known> =>
  Effect.gen(function*() {
    const stage = (stage: Plan.Stage) => Trial.enumerate({ driver, seed, targets: targetsBefore(stage) }, { cache })
    return { living: yield* stage("living"), recovering: yield* stage("recovering") }
  })

const unreached = (trial: Trial.Trial): Trial.Verdict => ({
  trial,
  directory: "",
  reached: false,
  problems: ["the point was never reached"],
  known: [],
  review: 0,
  millis: 0
})

const tryItem = (
  { driver, point, stage }: Plan.Item,
  seed: number,
  known: Known,
  options: { readonly cache: string; readonly keep: boolean }
): Effect.Effect<Trial.Verdict> =>
  Effect.gen(function*() {
    let verdict = unreached({ driver, seed, targets: [] })
    for (const target of Plan.targetsOf(point, known[stage], seed)) {
      verdict = yield* Trial.run({ driver, seed, targets: [...targetsBefore(stage), target] }, options)
      if (verdict.reached) return verdict
    }
    return unreached(verdict.trial)
  })

export const run = ({ items, keep, onVerdict, seeds }: Options): Effect.Effect<ReadonlyArray<Line>> =>
  Effect.scoped(Effect.gen(function*() {
    const cache = yield* Trial.compileCache
    const verdicts = new Map<Plan.Item, Array<Trial.Verdict>>(items.map((item) => [item, []]))
    // One driver tells for all: where another reaches a point less often, the first time is tried.
    const driver = items[0]?.driver ?? "direct"
    for (const seed of seeds) {
      const known = yield* knownOf(driver, seed, cache)
      yield* Effect.forEach(items, (item) =>
        Effect.gen(function*() {
          const verdict = yield* tryItem(item, seed, known, { cache, keep })
          verdicts.get(item)?.push(verdict)
          onVerdict?.(verdict)
        }), { concurrency, discard: true })
    }
    return items.map((item) => ({ item, verdicts: verdicts.get(item) ?? [] }))
  }))

const isFailed = ({ problems }: Trial.Verdict): boolean => problems.length > 0

export const failures = (lines: ReadonlyArray<Line>): ReadonlyArray<Trial.Verdict> =>
  lines.flatMap(({ verdicts }) => verdicts.filter(isFailed))

/** One failed trial, so that it can be run again. */
export const describe = ({ directory, problems, trial }: Trial.Verdict): string => {
  const where = trial.targets.map(({ job, occurrence, point }) =>
    `${point}${job === null ? "" : ` of ${job}`} #${occurrence}`
  )
  return [
    `${trial.driver}, seed ${trial.seed}, killed at ${where.join(", then at ") || "no point"}:`,
    ...problems.map((problem) => `  ${problem}`),
    ...(directory === "" ? [] : [`  in ${directory}`])
  ].join("\n")
}

const countsOf = (texts: ReadonlyArray<string>): ReadonlyArray<string> =>
  [...new Set(texts)].map((text) => `${text} (${texts.filter((one) => one === text).length})`)

export const table = (lines: ReadonlyArray<Line>): string => {
  const width = Math.max(...lines.map(({ item }) => item.point.length))
  const rows = lines.map(({ item, verdicts }) => {
    const failed = verdicts.filter(isFailed).length
    const seconds = verdicts.reduce((sum, { millis }) => sum + millis, 0) / verdicts.length / 1000
    return [
      item.stage.padEnd(10),
      item.point.padEnd(width),
      item.driver.padEnd(6),
      `${verdicts.length - failed} passed`.padStart(10),
      `${failed} failed`.padStart(10),
      `${seconds.toFixed(2)} s`.padStart(8)
    ].join("  ")
  })
  const verdicts = lines.flatMap((line) => line.verdicts)
  const points = new Set(lines.map(({ item }) => `${item.stage} ${item.point}`)).size
  const review = verdicts.reduce((sum, verdict) => sum + verdict.review, 0)
  const left = countsOf(verdicts.flatMap(({ known }) => known))
  return [
    ...rows,
    ...(left.length === 0 ? [] : [`left behind, as is known: ${left.join(", ")}`]),
    ...(review === 0 ? [] : [`${review} rows left for review`]),
    `${points} points, ${verdicts.length} runs, ${failures(lines).length} failed`
  ].join("\n")
}
