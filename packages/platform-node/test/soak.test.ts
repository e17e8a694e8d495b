import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Campaign from "./soak/campaign.ts"

it.live(
  "random histories on real processes leave nothing, whichever driver starts these",
  () =>
    Effect.gen(function*() {
      const { histories, problems, processes } = yield* Campaign.run({ seed: 7, perRuntime: 3, goOn: () => false })
      assert.deepStrictEqual(problems, [])
      assert.isAbove(histories, 20)
      assert.isAbove(processes, 40)
    }),
  120_000
)
