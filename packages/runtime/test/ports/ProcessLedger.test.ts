import { assert, describe, it } from "@effect/vitest"
import { LedgerLaws } from "@procyon/testing"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import { isSettled, Status } from "../../src/domain/Status.ts"
import * as ProcessLedger from "../../src/ports/ProcessLedger.ts"
import * as WorkspaceLedger from "../../src/ports/WorkspaceLedger.ts"

const { row } = LedgerLaws

const changes = Arbitrary.all({
  status: Arbitrary.schema(Status),
  fence: Arbitrary.schema(Schema.Literals([0, 1, 2, 3])),
  expected: Arbitrary.all({ status: Arbitrary.schema(Status), fence: Arbitrary.schema(Schema.Literals([0, 1, 2, 3])) })
})

describe("advance", () => {
  it.prop(
    "no history of transitions lowers a fence, leaves a settled status, or changes who a row is",
    { history: Arbitrary.array(changes, { maxLength: 80 }) },
    ({ history }) => {
      let current = row("a")
      for (const { expected, fence, status } of history) {
        const next = ProcessLedger.advance(current, expected, { status, fence, id: "b", owner: "s-9" } as never)
        if (next === null) continue
        assert.deepStrictEqual(expected, { status: current.status, fence: current.fence })
        assert.isAtLeast(next.fence, current.fence)
        if (isSettled(current.status)) assert.strictEqual(next.status, current.status)
        if (current.status === "kill_failed") assert.notStrictEqual(next.status, "running")
        assert.strictEqual(`${next.id} ${next.owner}`, "a s-1")
        current = next
      }
    }
  )
})

describe("LedgerRow", () => {
  it("goes through JSON and back", () => {
    const codec = Schema.toCodecJson(ProcessLedger.LedgerRow)
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(codec)(row("a"))))
    assert.deepStrictEqual(Schema.decodeUnknownSync(codec)(json), row("a"))
  })
})

describe("LedgerError", () => {
  it("says what failed and how, and nothing else", () => {
    const error = new ProcessLedger.LedgerError({ operation: "insert", problem: "Full" })
    assert.strictEqual(error.message, "insert: Full")
    assert.deepStrictEqual(Object.keys(JSON.parse(JSON.stringify(error)) as object).toSorted(), [
      "_tag",
      "operation",
      "problem"
    ])
  })
})

describe("byCreation", () => {
  it("orders by the start, and by the id what started at once; what is both the same is neither before the other", () => {
    const rows = [row("b", { startedAt: 2 }), row("a", { startedAt: 2 }), row("c", { startedAt: 1 })]
    assert.deepStrictEqual(rows.toSorted(ProcessLedger.byCreation).map(({ id }) => id), ["c", "a", "b"])
    assert.strictEqual(ProcessLedger.byCreation(row("a"), row("a")), 0)
    const { workspace } = LedgerLaws
    const records = [
      workspace("b", { createdAt: 2 }),
      workspace("a", { createdAt: 2 }),
      workspace("c", { createdAt: 1 })
    ]
    assert.deepStrictEqual(records.toSorted(WorkspaceLedger.byCreation).map(({ id }) => id), ["c", "a", "b"])
    assert.strictEqual(WorkspaceLedger.byCreation(workspace("a", {}), workspace("a", {})), 0)
  })
})
