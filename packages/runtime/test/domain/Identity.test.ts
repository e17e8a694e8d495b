import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Identity from "../../src/domain/Identity.ts"

const identity: Identity.Identity = {
  pid: 4711,
  startedAt: 1234,
  bootId: "boot-1",
  marker: `${Identity.markerPrefix}0a1b`
}

describe("same", () => {
  it("holds for two readings of one process", () => {
    assert.isTrue(Identity.same(identity, { ...identity }))
  })

  it("does not hold when a single fact differs", () => {
    const others: ReadonlyArray<Partial<Identity.Identity>> = [
      { pid: 4712 },
      { startedAt: 1235 },
      { bootId: "boot-2" },
      { marker: `${Identity.markerPrefix}0a1c` }
    ]
    for (const other of others) assert.isFalse(Identity.same(identity, { ...identity, ...other }))
  })

  it.prop("holds after an identity went through JSON", [Identity.Identity], ([given]) => {
    const codec = Schema.toCodecJson(Identity.Identity)
    const json = JSON.stringify(Schema.encodeSync(codec)(given))
    const back = Schema.decodeUnknownSync(codec)(JSON.parse(json))
    // NaN is no start time of any platform, and equals nothing.
    assert.strictEqual(Identity.same(back, given), !Number.isNaN(given.startedAt))
  })
})
