import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Utf8 from "../../src/domain/Utf8.ts"

// Bytes that often are UTF-8, and often nearly.
const Piece = Schema.Literals([
  "61",
  "0a",
  "c3a9",
  "e282ac",
  "f09f9880",
  "efbbbf",
  "80",
  "bf",
  "c0",
  "c3",
  "e2",
  "e282",
  "e080",
  "eda080",
  "f0",
  "f09f",
  "f09f98",
  "f08080",
  "f48fbfbf",
  "f4908080",
  "ff"
])
const Bytes = Schema.Array(Piece).check(Schema.isMaxLength(24))
const toBytes = (pieces: ReadonlyArray<string>) => new Uint8Array(Buffer.from(pieces.join(""), "hex"))
const whole = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

const cutUp = (bytes: Uint8Array, limit: number) => {
  const texts: Array<string> = []
  for (let at = 0; at < bytes.length;) {
    const length = Utf8.textLength(bytes.subarray(at), limit, true)
    assert.isAbove(length, 0)
    assert.isAtMost(length, Math.max(4, limit))
    texts.push(Utf8.decode(bytes.subarray(at, at + length)))
    at += length
  }
  return texts
}

describe("Utf8", () => {
  it.prop(
    "decodes the parts to the text of the whole, for any bytes and any limit",
    [Bytes, Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 12 }))],
    ([pieces, limit]) => {
      const bytes = toBytes(pieces)
      const texts = cutUp(bytes, limit)
      assert.strictEqual(texts.join(""), whole(bytes))
      for (const text of texts) assert.isTrue(text.isWellFormed())
    },
    { arbitrary: { runs: 3000 } }
  )

  it.prop("holds back only what more bytes could still change", [Bytes], ([pieces]) => {
    const bytes = toBytes(pieces)
    const length = Utf8.textLength(bytes, Infinity, false)
    const streamed = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true })
    assert.strictEqual(Utf8.decode(bytes.subarray(0, length)), streamed)
  }, { arbitrary: { runs: 3000 } })

  it("begins after the rest of a character that was cut, at each of its bytes", () => {
    const bytes = new TextEncoder().encode("😀x")
    assert.deepStrictEqual([0, 1, 2, 3, 4].map((start) => Utf8.borderAfter(bytes, start, 5)), [0, 4, 4, 4, 4])
  })

  it("skips nothing in a run of continuation bytes that no character can have", () => {
    assert.strictEqual(Utf8.borderAfter(new Uint8Array(8).fill(0x80), 2, 8), 2)
  })
})
