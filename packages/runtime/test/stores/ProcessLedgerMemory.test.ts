import { assert, it } from "@effect/vitest"
import { LedgerLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as ProcessLedger from "../../src/ports/ProcessLedger.ts"
import * as ProcessLedgerMemory from "../../src/stores/ProcessLedgerMemory.ts"

LedgerLaws.ledgerLaws("a ledger in memory", ProcessLedgerMemory.layer)

it.effect("a ledger in memory is a new and empty one each time its layer is built", () => {
  const use = Effect.gen(function*() {
    const ledger = yield* ProcessLedger.Service
    assert.isTrue(yield* ledger.insert(LedgerLaws.row("a")))
  })
  return Effect.andThen(
    Effect.provide(use, ProcessLedgerMemory.layer),
    Effect.provide(use, ProcessLedgerMemory.layer)
  )
})
