/** What is left of an application that is killed: nothing that lives, and nothing that is not true. See `crash/`. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Campaign from "./crash/campaign.ts"
import * as Plan from "./crash/plan.ts"

describe("an application that is killed and started again", () => {
  it.live(
    "leaves nobody alive, no row untrue, and no notice untold or told twice, wherever it is killed",
    () =>
      Effect.gen(function*() {
        const lines = yield* Campaign.run({ items: Plan.quick, seeds: [1], keep: false })
        assert.isAtLeast(lines.length, 30)
        assert.deepStrictEqual(Campaign.failures(lines).map(Campaign.describe), [])
      }),
    180_000
  )
})
