import { assert, describe, it } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import * as Effect from "effect/Effect"
import * as Forest from "../../src/internal/forest.ts"
import * as Look from "../../src/internal/look.ts"
import type { Reading } from "../../src/internal/processTable.ts"
import { until } from "./bench.ts"

const rootOf = (pid: number): Identity => ({
  pid: 2 ** 22 + pid,
  startedAt: 1,
  bootId: "boot",
  marker: `PROCYON_MARK_${pid}`
})

/** A looker whose readings a test ends. */
const bench = () => {
  const readings: Array<(reading: Reading) => void> = []
  const looker = Look.make(Forest.make("boot"), (done) => readings.push(done))
  const end = (): void => readings.shift()?.({ processes: new Map(), complete: true, beganAt: 0 })
  return { looker, readings, end }
}

describe("look", () => {
  it.live("answers all who ask in one turn from one reading, each for its own roots", () =>
    Effect.gen(function*() {
      const { end, looker, readings } = bench()
      const answers: Array<ReadonlyArray<number>> = []
      for (const roots of [[rootOf(1), rootOf(2)], [], [rootOf(2)]]) {
        looker.look(roots, (looks) => answers.push(looks.map((look) => look.root.pid - 2 ** 22)))
      }
      yield* until("a reading begins", () => readings.length > 0)
      end()
      assert.deepStrictEqual(answers, [[1, 2], [], [2]])
      assert.lengthOf(readings, 0)
    }))

  it.live("answers who asks during a reading from the next one", () =>
    Effect.gen(function*() {
      const { end, looker, readings } = bench()
      const answers: Array<string> = []
      looker.look([rootOf(1)], () => answers.push("first"))
      yield* until("a reading begins", () => readings.length > 0)
      looker.look([rootOf(1)], () => answers.push("second"))
      end()
      assert.deepStrictEqual(answers, ["first"])
      yield* until("another reading begins", () => readings.length > 0)
      end()
      assert.deepStrictEqual(answers, ["first", "second"])
    }))
})
