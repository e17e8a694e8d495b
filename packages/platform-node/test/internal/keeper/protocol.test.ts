import { assert, describe, it } from "@effect/vitest"
import { encode, lines } from "../../../src/internal/keeper/protocol.ts"

const read = (pieces: ReadonlyArray<string>): ReadonlyArray<string> => {
  const seen: Array<string> = []
  const take = lines((line) => seen.push(line))
  for (const piece of pieces) take(piece)
  return seen
}

describe("the keeper's protocol", () => {
  it("puts lines together wherever they were cut", () => {
    const text = "one\ntwo\n\nthree\n"
    for (let size = 1; size <= text.length; size++) {
      const pieces = Array.from(
        { length: Math.ceil(text.length / size) },
        (_, at) => text.slice(at * size, at * size + size)
      )
      assert.deepStrictEqual(read(pieces), ["one", "two", "", "three"])
    }
  })

  it("hands on no line before its end", () => {
    assert.deepStrictEqual(read(["whole\nhal"]), ["whole"])
  })

  it("keeps one message on one line, whatever is in it", () => {
    const strings = ["a\nb", "\u2028", "\ud800", "\"\\", ""]
    const line = encode({
      _tag: "Start",
      id: 1,
      marker: "m",
      file: "f",
      args: strings,
      cwd: "/",
      env: { NAME: "a\nb" },
      fifos: { stdin: null, stdout: "/f", stderr: null },
      graceMillis: 1
    })
    const [seen = "", ...more] = read([line])
    assert.lengthOf(more, 0)
    assert.deepInclude(JSON.parse(seen), { args: strings, env: { NAME: "a\nb" } })
  })
})
