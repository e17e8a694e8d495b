/**
 * `npm run soak -- --minutes 10`: the simulator's histories on real processes, for so long. At the end open files,
 * listeners, handles, children, fibers and memory are where they were. `--seed N` gives other histories.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import { parseArgs } from "node:util"
import * as Campaign from "./campaign.ts"

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "10" }, seed: { type: "string", default: "1" } }
})

const soak = Campaign.run({
  seed: Number(values.seed),
  goOn: (elapsedMillis) => elapsedMillis < Number(values.minutes) * 60_000,
  onRound: (histories, problems) => console.log(`${histories} histories, ${problems} violations so far`)
})

NodeRuntime.runMain(Effect.map(soak, ({ after, before, histories, minutes, problems, processes }) => {
  for (const problem of problems) console.log(problem)
  console.log(`\n${"".padEnd(28)}at the beginning    at the end`)
  for (const [what, now] of Object.entries(after)) {
    console.log(`${what.padEnd(28)}${`${before[what as keyof typeof before]}`.padStart(16)}${`${now}`.padStart(14)}`)
  }
  console.log(
    `\nsoak ${histories} histories, ${processes} processes, ${
      minutes.toFixed(1)
    } minutes: violations ${problems.length}`
  )
  process.exitCode = problems.length === 0 ? 0 : 1
}))
