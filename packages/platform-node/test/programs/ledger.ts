// Opens the ledger in the directory it is given, writes a row, and says so. Then it ends, or waits to be killed: with a
// transaction open, or while it writes rows in groups and says the id of each: `ledger.ts DIRECTORY ends|waits|floods [ID]`.
import { ProcessLedger } from "@procyon/runtime"
import * as ProcessLedgerSql from "@procyon/runtime/ProcessLedgerSql"
import { LedgerLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { writeSync } from "node:fs"
import { join } from "node:path"
import { NodeSqlite } from "../../src/index.ts"

const [directory = "", what, id = "written"] = process.argv.slice(2)

const main = Effect.gen(function*() {
  const ledger = yield* ProcessLedger.Service
  const sql = yield* SqlClient.SqlClient
  yield* ledger.insert(LedgerLaws.row(id))
  const half = Effect.andThen(
    sql`UPDATE procyon_processes SET status = 'completed'`,
    sql`DELETE FROM procyon_processes WHERE id = ${id}`
  )
  const waiting = Effect.sync(() => {
    writeSync(1, "in a transaction\n")
    setInterval(() => {}, 1000)
  })
  if (what === "waits") return yield* sql.withTransaction(Effect.andThen(half, Effect.andThen(waiting, Effect.never)))
  for (let group = 0; what === "floods"; group++) {
    const ids = Array.from({ length: 20 }, (_, index) => `${id}-${group}-${index}`)
    const insert = (id: string) =>
      Effect.map(ledger.insert(LedgerLaws.row(id)), () => {
        writeSync(1, `${id}\n`)
      })
    yield* Effect.forEach(ids, insert, { concurrency: "unbounded", discard: true })
  }
  writeSync(1, "written\n")
})

await Effect.runPromise(Effect.provide(
  main,
  ProcessLedgerSql.layer.pipe(
    Layer.provideMerge(NodeSqlite.layer({ filename: join(directory, "ledger.sqlite") }))
  )
))
