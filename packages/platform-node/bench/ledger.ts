// What rows cost in a file of SQLite: written at once, which is committed in groups, beside one after the other in the same
// run, and read back.
//
//   node packages/platform-node/bench/ledger.ts [DIRECTORY]
//
// The files are made in a folder under the directory (by default the system's for temporary ones) and removed: an `fsync`
// costs what the disk there makes of it, and nothing in memory. Ends with exit code 1 when writing at once is no faster, or
// when reading 10,000 rows takes 200 ms or more.
import { ProcessLedger } from "@procyon/runtime"
import * as ProcessLedgerSql from "@procyon/runtime/ProcessLedgerSql"
import { LedgerLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { NodeSqlite } from "../src/index.ts"

const written = 1000
const read = 10_000
const runs = 5
const mostMillis = 200

type Ledger = ProcessLedger.ProcessLedger

const directory = mkdtempSync(join(process.argv[2] ?? tmpdir(), "procyon-bench-"))
let files = 0
const newFile = () => join(directory, `${files++}.sqlite`)

const withLedger = <A>(use: (ledger: Ledger) => Effect.Effect<A, ProcessLedger.LedgerError>) => {
  const client = NodeSqlite.layer({ filename: newFile() })
  return Effect.provide(
    Effect.flatMap(ProcessLedger.Service, use),
    Layer.fresh(ProcessLedgerSql.layer.pipe(Layer.provide(client)))
  )
}

/** Times of a busy machine spread upwards only, so the least of a few runs is nearest to the truth. */
const leastMillis = Effect.fnUntraced(function*<E, R>(effect: Effect.Effect<unknown, E, R>) {
  const times: Array<number> = []
  for (let run = 0; run < runs; run++) {
    const began = performance.now()
    yield* effect
    times.push(performance.now() - began)
  }
  return Math.min(...times)
})

const rows = (count: number, run: number) =>
  Array.from({ length: count }, (_, index) =>
    LedgerLaws.row(`job_${run}_${index}`, {
      owner: `s-${index % 100}`,
      status: index % 100 === 0 ? "running" : "completed",
      startedAt: index
    }))

const inserting = (concurrency: "unbounded" | 1) =>
  withLedger((ledger) => {
    let run = 0
    return leastMillis(Effect.suspend(() =>
      Effect.forEach(rows(written, run++), (row) => ledger.insert(row), { concurrency, discard: true })
    ))
  })

/** The least that has to be done by hand for as many rows that are durable each, or all together. */
const bare = (control: { readonly begin: string; readonly commit: string }) => {
  const database = new DatabaseSync(newFile())
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
  database.exec("CREATE TABLE bare (id TEXT PRIMARY KEY NOT NULL, json TEXT NOT NULL)")
  const insert = database.prepare("INSERT INTO bare VALUES (?, ?) ON CONFLICT DO NOTHING")
  let run = 0
  return leastMillis(Effect.sync(() => {
    database.exec(control.begin)
    for (const row of rows(written, run++)) insert.run(row.id, JSON.stringify(row))
    database.exec(control.commit)
  })).pipe(Effect.ensuring(Effect.sync(() => database.close())))
}

const reading = withLedger((ledger) =>
  Effect.gen(function*() {
    yield* Effect.forEach(rows(read, 0), (row) => ledger.insert(row), { concurrency: "unbounded", discard: true })
    return {
      all: yield* leastMillis(ledger.rows()),
      open: yield* leastMillis(ledger.rows({ settled: false })),
      "one owner's": yield* leastMillis(ledger.rows({ owner: "s-7" }))
    }
  })
)

const main = Effect.gen(function*() {
  const inserts = {
    "at once": yield* inserting("unbounded"),
    "one after the other": yield* inserting(1),
    "bare, each by itself": yield* bare({ begin: "", commit: "" }),
    "bare, in one transaction": yield* bare({ begin: "BEGIN IMMEDIATE", commit: "COMMIT" })
  }
  return { inserts, reads: yield* reading }
})

const { inserts, reads } = await Effect.runPromise(
  Effect.ensuring(main, Effect.sync(() => rmSync(directory, { recursive: true })))
)
const alone = inserts["one after the other"]
console.log(`${written} inserts`)
console.table(Object.fromEntries(
  Object.entries(inserts).map(([name, millis]) => [name, {
    "writes/s": Math.round(written * 1000 / millis),
    "ms each": (millis / written).toFixed(3),
    "of one after the other": `${(alone / millis).toFixed(1)}x`
  }])
))
console.log(`${read} rows, of which 100 are open and 100 are one owner's`)
console.table(Object.fromEntries(Object.entries(reads).map(([name, millis]) => [name, { ms: millis.toFixed(1) }])))

const ratio = alone / inserts["at once"]
if (ratio <= 1) console.log("writing at once is no faster")
if (reads.all >= mostMillis) console.log(`reading ${read} rows takes ${reads.all.toFixed(0)} ms`)
process.exitCode = ratio <= 1 || reads.all >= mostMillis ? 1 : 0
