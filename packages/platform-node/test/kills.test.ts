import { assert, it } from "@effect/vitest"
import { killBoth, killKeeper, processesOf } from "./support/kills.ts"

const jobs = { count: 30, graceMillis: 300 }

it("tells that its keeper was killed, goes on with another one, and ends every job through it", async () => {
  const { alive, next, statuses, told } = await killKeeper(jobs)
  assert.deepStrictEqual(alive, { before: processesOf(jobs.count), left: 0 })
  assert.include(told, "It had 30 children. Another one keeps them now.")
  assert.strictEqual(next, 7)
  assert.deepStrictEqual(statuses, { cancelled: 30 })
}, 30_000)

it("puts right at the next start what a killed application and its killed keeper have left", async () => {
  const { alive, failed, open, outcomes, statuses } = await killBoth(jobs)
  const processes = processesOf(jobs.count)
  assert.deepStrictEqual(alive, { before: processes, after: processes, left: 0 })
  assert.deepStrictEqual({ failed, open, outcomes }, { failed: false, open: 0, outcomes: { ended: 30 } })
  assert.deepStrictEqual(statuses, { cancelled: 30 })
}, 30_000)
