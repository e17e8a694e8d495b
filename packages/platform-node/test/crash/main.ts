/**
 * `npm run crash`: kills an application at every point, with each driver. Ends with 1 when a trial failed.
 *
 * `--seeds N` (default 1): with the seeds 1 to N. `--seed N`: with this one. `--driver direct|keeper`, `--point TEXT`: only
 * these. `--keep`: keeps the directory of a trial that failed.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import { parseArgs } from "node:util"
import * as Campaign from "./campaign.ts"
import { drivers } from "./life.ts"
import * as Plan from "./plan.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1" },
    seed: { type: "string" },
    driver: { type: "string" },
    point: { type: "string", default: "" },
    keep: { type: "boolean", default: false }
  }
})

const seeds = values.seed === undefined
  ? Array.from({ length: Number(values.seeds) }, (_, index) => index + 1)
  : [Number(values.seed)]
const items = drivers
  .filter((driver) => values.driver === undefined || driver === values.driver)
  .flatMap(Plan.itemsOf)
  .filter(({ point }) => point.includes(values.point))

const began = performance.now()
let runs = 0
let failed = 0

const seconds = (): string => ((performance.now() - began) / 1000).toFixed(0)

const campaign = Campaign.run({
  items,
  seeds,
  keep: values.keep,
  onVerdict: (verdict) => {
    runs++
    if (verdict.problems.length > 0) {
      failed++
      console.log(Campaign.describe(verdict))
    }
    if (runs % items.length === 0) console.log(`${runs} runs, ${failed} failed so far, ${seconds()} s`)
  }
})

// Ended by a signal, it leaves nothing behind either.
NodeRuntime.runMain(Effect.map(campaign, (lines) => {
  console.log(Campaign.table(lines))
  process.exitCode = failed === 0 && runs > 0 ? 0 : 1
}))
