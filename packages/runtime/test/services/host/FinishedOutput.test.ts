import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as FinishedOutput from "../../../src/services/host/FinishedOutput.ts"
import * as OutputRetention from "../../../src/services/OutputRetention.ts"

/** An output of this many bytes, sealed; its preview shows 100. */
const output = (bytes: number): OutputRetention.OutputRetention => {
  const retention = OutputRetention.make({
    name: "job",
    head: 1000,
    limit: 10_000,
    cap: 0,
    onCap: () => {},
    spill: null,
    sha256: { update: () => {}, digest: () => "" },
    now: () => 0,
    preview: 100
  })
  for (let left = bytes; left > 0;) {
    const count = Math.min(left, retention.sink.reserve().length)
    retention.sink.commit(count)
    left -= count
  }
  Effect.runSync(retention.seal({ drained: true }))
  return retention
}

const retained = (outputs: ReadonlyArray<OutputRetention.OutputRetention>) =>
  outputs.map((retention) => retention.metadata().bytesRetained)

describe("FinishedOutput", () => {
  it("shrinks the oldest past the bound, and no more of them than it must", () => {
    const finished = FinishedOutput.make(2_500)
    const outputs = [output(1_000), output(1_000), output(1_000), output(1_000)]
    for (const retention of outputs) finished.add(retention)
    assert.deepStrictEqual(retained(outputs), [100, 100, 1_000, 1_000])
  })

  it("leaves everything as it is up to the bound", () => {
    const finished = FinishedOutput.make(2_000)
    const outputs = [output(1_000), output(1_000), output(0)]
    for (const retention of outputs) finished.add(retention)
    assert.deepStrictEqual(retained(outputs), [1_000, 1_000, 0])
  })

  it("gives back the share of what is removed", () => {
    const finished = FinishedOutput.make(2_000)
    const [first, second, third] = [output(1_000), output(1_000), output(1_000)]
    finished.add(first)
    finished.add(second)
    finished.remove(first)
    finished.remove(first)
    finished.remove(third)
    finished.add(third)
    assert.deepStrictEqual(retained([first, second, third]), [1_000, 1_000, 1_000])
  })

  it("keeps no output alive that nobody else holds", async () => {
    setFlagsFromString("--expose-gc")
    const gc: () => void = runInNewContext("gc")
    const finished = FinishedOutput.make(1_000_000)
    const dropped = (() => {
      const retention = output(1_000)
      finished.add(retention)
      return new WeakRef(retention)
    })()
    // A WeakRef holds its target to the end of the turn it was made or asked in.
    for (let round = 0; round < 20 && dropped.deref() !== undefined; round++) {
      await new Promise((resolve) => setImmediate(resolve))
      gc()
    }
    assert.isUndefined(dropped.deref())
    finished.add(output(1))
  })
})
