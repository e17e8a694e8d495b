import { assert, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as BlobNames from "../../src/internal/BlobNames.ts"

it("a reference tells what is in it, and whose it is", () => {
  assert.strictEqual(BlobNames.ref("sha256-9f2c", "0193"), "sha256-9f2c.0193")
  assert.isTrue(BlobNames.isOf("sha256-9f2c.0193", "0193"))
  assert.isFalse(BlobNames.isOf("sha256-9f2c.0193", "193"))
  assert.isFalse(BlobNames.isOf("sha256-9f2c.0193-stderr", "0193"))
})

it.prop(
  "two pairs of label and name share no reference, and none leaves its directory",
  [Schema.String, Schema.String, Schema.String, Schema.String],
  ([label, name, otherLabel, otherName]) => {
    const [one, other] = [BlobNames.ref(label, name), BlobNames.ref(otherLabel, otherName)]
    if (one === null || other === null) return
    assert.strictEqual(one === other, label === otherLabel && name === otherName)
    assert.strictEqual(BlobNames.isOf(one, otherName), name === otherName)
    assert.match(one, /^[\w=-]+\.[\w=-]+$/)
  }
)

it("what is empty, or longer than a file name may be, is none", () => {
  for (const text of ["", "x".repeat(101), "/".repeat(40)]) {
    assert.isNull(BlobNames.ref(text, "job"))
    assert.isNull(BlobNames.ref("sha256", text))
    assert.isFalse(BlobNames.isName(text))
  }
  for (const text of ["", ".", "..", "a", "a.", ".a", "a/b.c", "a.b.c", "a.b\n"]) assert.isFalse(BlobNames.isRef(text))
})
