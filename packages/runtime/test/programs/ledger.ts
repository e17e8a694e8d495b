// Opens the ledger in a schema of PostgreSQL, writes a row, and says so: `ledger.ts URL SCHEMA ID`.
import * as PgClient from "@effect/sql-pg/PgClient"
import { LedgerLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { writeSync } from "node:fs"
import * as ProcessLedger from "../../src/ports/ProcessLedger.ts"
import * as ProcessLedgerSql from "../../src/stores/ProcessLedgerSql.ts"

const [url = "", schema = "", id = ""] = process.argv.slice(2)

const client = PgClient.layer({ url: Redacted.make(url), startupParameters: { search_path: schema } })

const main = Effect.gen(function*() {
  const ledger = yield* ProcessLedger.Service
  if (yield* ledger.insert(LedgerLaws.row(id))) writeSync(1, "written\n")
})

await Effect.runPromise(Effect.provide(main, ProcessLedgerSql.layer.pipe(Layer.provide(client))))
