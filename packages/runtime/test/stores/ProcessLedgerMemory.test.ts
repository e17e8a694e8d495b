import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ProcessLedger from "../../src/ports/ProcessLedger.ts"
import * as ProcessLedgerMemory from "../../src/stores/ProcessLedgerMemory.ts"
import { ledgerLaws, row } from "../ports/ledgerLaws.ts"

describe("a ledger in memory", () => {
  for (const { check, name } of ledgerLaws) it.effect(name, () => Effect.flatMap(ProcessLedgerMemory.make, check))

  it.effect("is a new and empty one each time its layer is built", () => {
    const use = Effect.gen(function*() {
      const ledger = yield* ProcessLedger.Service
      assert.isTrue(yield* ledger.insert(row("a")))
    })
    return Effect.andThen(
      Effect.provide(use, ProcessLedgerMemory.layer),
      Effect.provide(use, ProcessLedgerMemory.layer)
    )
  })
})
