import { assert, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Printable from "../../src/domain/Printable.ts"

it("escape leaves ordinary text of any script alone", () => {
  for (const text of ["", "plain text", "naïve 日本語 😀"]) assert.strictEqual(Printable.escape(text), text)
})

it("escape shows control, format, separator and lone surrogate characters by their number", () => {
  assert.strictEqual(Printable.escape("a\n\u001b\u202e\u2028\uD800b"), "a\\u{a}\\u{1b}\\u{202e}\\u{2028}\\u{d800}b")
})

it("cut marks what it cut, and splits no character", () => {
  assert.strictEqual(Printable.cut("abc", 3), "abc")
  assert.strictEqual(Printable.cut("abcd", 3), "ab…")
  assert.strictEqual(Printable.cut("a😀cd", 3), "a…")
})

it.prop("line is bounded and well formed, whatever it is given", [Schema.String], ([text]) => {
  const shown = Printable.line(text.repeat(40), 20)
  assert.isAtMost(shown.length, 20)
  assert.notMatch(shown, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u)
})

it("table pads each column to its widest cell, but the last, and lines may have fewer cells", () => {
  assert.deepStrictEqual(Printable.table([["id", "owner", "status"], ["long-id", "s"], ["x"]]), [
    "  id       owner  status",
    "  long-id  s",
    "  x"
  ])
})
