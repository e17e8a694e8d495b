/**
 * What becomes of many durable jobs when the keeper of their application is killed, and when both are.
 *
 * Run it: `node packages/platform-node/bench/kills.ts [jobs] [graceMillis]`, 1,000 jobs and 1,000 ms when left out. A third
 * of the jobs waits, a third has a child in a session of its own, a third ignores SIGTERM. Ends with exit code 1 when
 * anybody is left alive or any row open.
 */
import { killBoth, killKeeper } from "../test/support/kills.ts"

const [count = "1000", grace = "1000"] = process.argv.slice(2)
const jobs = { count: Number(count), graceMillis: Number(grace) }

const millis = (time: number): string => `${Math.round(time)} ms`
const counts = (of: Readonly<Record<string, number>>): string =>
  Object.entries(of).map(([word, count]) => `${count} ${word}`).join(", ")

const table = (title: string, rows: Readonly<Record<string, string>>): string =>
  [`| ${title} | |`, "| --- | --- |", ...Object.entries(rows).map(([name, value]) => `| ${name} | ${value} |`), ""]
    .join(
      "\n"
    )

process.stdout.write(`${count} jobs, grace ${grace} ms\n\n`)

const keeper = await killKeeper(jobs)
process.stdout.write(`${
  table("the keeper is killed", {
    "jobs up after": millis(keeper.upMillis),
    "processes before, in the end": `${keeper.alive.before}, ${keeper.alive.left}`,
    "told": keeper.told,
    "told after": millis(keeper.toldMillis),
    "exit code of a new job, after": `${keeper.next ?? "none"}, ${millis(keeper.nextMillis)}`,
    "ended": `${counts(keeper.statuses)}; ${keeper.unknownExits} exits unknown`,
    "ending them took": millis(keeper.endMillis)
  })
}\n`)

const both = await killBoth(jobs)
process.stdout.write(`${
  table("both are killed", {
    "jobs up after": millis(both.upMillis),
    "processes before, after, in the end": `${both.alive.before}, ${both.alive.after}, ${both.alive.left}`,
    "recovery": counts(both.outcomes),
    "rows": `${counts(both.statuses)}; ${both.open} open`,
    "recovery took": millis(both.recoveryMillis),
    "next start until all is right": millis(both.allMillis)
  })
}\n`)

if (keeper.alive.left + both.alive.left + both.open > 0 || both.failed) process.exitCode = 1
