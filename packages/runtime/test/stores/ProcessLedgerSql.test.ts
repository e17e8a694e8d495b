import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import { LedgerLaws, WorkspaceLedgerLaws } from "@procyon/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { randomBytes } from "node:crypto"
import * as ProcessLedger from "../../src/ports/ProcessLedger.ts"
import * as ProcessLedgerSql from "../../src/stores/ProcessLedgerSql.ts"

const { row } = LedgerLaws

/** Such as `postgres://postgres@127.0.0.1:5432/postgres`: a server to make schemas in, which are dropped again. */
const url = process.env["PROCYON_TEST_POSTGRES"] ?? ""
const skipped = url === "" ? "PROCYON_TEST_POSTGRES names no server" : null
const told = skipped === null ? "" : ` (skipped: ${skipped})`

const clientOf = (schema: string | null) =>
  PgClient.layer({
    url: Redacted.make(url),
    maxConnections: 4,
    ...schema === null ? {} : { startupParameters: { search_path: schema } }
  })

/** A schema of the test's own, gone with the scope. */
const temporarySchema = Effect.acquireRelease(
  Effect.sync(() => `procyon_${randomBytes(8).toString("hex")}`).pipe(
    Effect.tap((schema) =>
      Effect.provide(SqlClient.SqlClient.use((sql) => sql`CREATE SCHEMA ${sql(schema)}`), clientOf(null))
    )
  ),
  (schema) =>
    Effect.orDie(Effect.provide(
      SqlClient.SqlClient.use((sql) => sql`DROP SCHEMA ${sql(schema)} CASCADE`),
      clientOf(null)
    ))
)

const fresh = Layer.unwrap(
  Effect.map(temporarySchema, (schema) => ProcessLedgerSql.layer.pipe(Layer.provideMerge(clientOf(schema))))
)

LedgerLaws.ledgerLaws("a ledger in PostgreSQL", fresh, { skipped })
WorkspaceLedgerLaws.workspaceLedgerLaws("a ledger in PostgreSQL", fresh, { skipped })

const both = Effect.all([ProcessLedger.Service, SqlClient.SqlClient])

describe("a ledger in PostgreSQL", () => {
  it.live.skipIf(skipped !== null)(
    `of two clients who take one row over at once, lets one do it${told}`,
    () =>
      Effect.gen(function*() {
        const schema = yield* temporarySchema
        const open = Layer.build(Layer.fresh(ProcessLedgerSql.layer.pipe(Layer.provide(clientOf(schema)))))
        const contexts = yield* Effect.all([open, open], { concurrency: 2 })
        const [first, second] = contexts.map((context) => Effect.provide(ProcessLedger.Service, context))
        const ledgers = yield* Effect.all([first ?? Effect.die("none"), second ?? Effect.die("none")])
        yield* ledgers[0].insert(row("a"))
        const takings = ledgers.flatMap((ledger) =>
          Array.from(
            { length: 25 },
            () => ledger.transition("a", { fence: 1, status: "running" }, { status: "running", fence: 2 })
          )
        )
        const answers = yield* Effect.all(takings, { concurrency: "unbounded" })
        assert.strictEqual(answers.filter(Boolean).length, 1)
        assert.deepStrictEqual(yield* ledgers[1].renew([{ id: "a", fence: 1, leaseUntil: 9, bytesSeen: 9 }]), ["a"])
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(skipped !== null)(
    `keeps what it has written when its caller's transaction is taken back${told}`,
    () =>
      Effect.gen(function*() {
        const [ledger, sql] = yield* both
        yield* Effect.exit(sql.withTransaction(Effect.andThen(ledger.insert(row("a")), Effect.fail("taken back"))))
        assert.deepStrictEqual(yield* ledger.rows(), [row("a")])
      }).pipe(Effect.provide(fresh))
  )

  it.live.skipIf(skipped !== null)(
    `a writer that is interrupted in a transaction leaves the row as it was${told}`,
    () =>
      Effect.gen(function*() {
        const [ledger, sql] = yield* both
        yield* ledger.insert(row("a"))
        const begun = yield* Deferred.make<void>()
        const writer = yield* Effect.forkChild(sql.withTransaction(Effect.andThen(
          sql`UPDATE procyon_processes SET status = 'completed'`,
          Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
        )))
        yield* Deferred.await(begun)
        yield* Fiber.interrupt(writer)
        assert.isTrue(yield* ledger.transition("a", { fence: 1, status: "running" }, { status: "error" }))
      }).pipe(Effect.provide(fresh))
  )

  it.live.skipIf(skipped !== null)(
    `a row that cannot be read is Corrupt, and the others can be read${told}`,
    () =>
      Effect.gen(function*() {
        const [ledger, sql] = yield* both
        yield* Effect.forEach(["a", "b", "c"], (id) => ledger.insert(row(id)))
        yield* sql`UPDATE procyon_processes SET holder = '{"pid":' WHERE id = 'b'`
        assert.strictEqual((yield* Effect.flip(ledger.get("b"))).message, "get: Corrupt")
        assert.strictEqual((yield* Effect.flip(ledger.rows())).message, "rows: Corrupt")
        assert.deepStrictEqual(yield* ledger.get("a"), row("a"))
        assert.deepStrictEqual(yield* ledger.rows({ unreadable: "skip" }), [row("a"), row("c")])
      }).pipe(Effect.provide(fresh))
  )

  it.live.skipIf(skipped !== null)(
    `is refused when a newer program has changed its tables${told}`,
    () =>
      Effect.gen(function*() {
        const [, sql] = yield* both
        yield* sql`INSERT INTO procyon_migrations (migration_id, name) VALUES (9, 'later')`
        assert.strictEqual((yield* Effect.flip(ProcessLedgerSql.make)).message, "open: Newer")
      }).pipe(Effect.provide(fresh))
  )
})

/** A client that answers nothing but this error. */
const failing = (reason: SqlError.SqlErrorReason, compiler: Statement.Compiler = Statement.makeCompilerSqlite()) =>
  Effect.provide(
    SqlClient.make({
      acquirer: Effect.fail(new SqlError.SqlError({ reason })),
      compiler,
      driver: "test",
      spanAttributes: []
    }),
    Reactivity.layer
  )

const cases: ReadonlyArray<readonly [string, SqlError.SqlErrorReason, ProcessLedger.LedgerError["problem"]]> = [
  ["a lost connection", new SqlError.ConnectionError({ cause: "" }), "Unavailable"],
  ["a lock that is held", SqlError.classifySqliteError({ errno: 5 }), "Unavailable"],
  ["a deadlock", new SqlError.DeadlockError({ cause: "" }), "Unavailable"],
  ["a server that shuts down", new SqlError.UnknownError({ cause: { code: "57P01" } }), "Unavailable"],
  ["a wrong password", new SqlError.AuthenticationError({ cause: "" }), "Denied"],
  ["a read-only file", SqlError.classifySqliteError({ errno: 8 | 4 << 8 }), "Denied"],
  ["a full disk of SQLite's", SqlError.classifySqliteError({ errno: 13 }), "Full"],
  ["a full disk of PostgreSQL's", new SqlError.UnknownError({ cause: { code: "53100" } }), "Full"],
  ["a damaged file", SqlError.classifySqliteError({ errno: 11 | 1 << 8 }), "Corrupt"],
  ["a damaged table", new SqlError.UnknownError({ cause: { code: "XX001" } }), "Corrupt"],
  ["anything else", new SqlError.UnknownError({ cause: new Error("/home/ann/secret") }), "Other"]
]

describe("a ledger's error", () => {
  for (const [what, reason, problem] of cases) {
    it.effect(`for ${what} is ${problem}, and has nothing of the database's words`, () =>
      Effect.gen(function*() {
        const client = yield* failing(reason)
        const error = yield* Effect.flip(Effect.provideService(ProcessLedgerSql.make, SqlClient.SqlClient, client))
        assert.deepStrictEqual(
          JSON.parse(JSON.stringify(error)),
          { _tag: "LedgerError", operation: "open", problem }
        )
        assert.isUndefined(error.cause)
      }))
  }

  it.effect("is told for a database that the ledger was not tried on", () =>
    Effect.gen(function*() {
      const compiler = Statement.makeCompiler({
        dialect: "mysql",
        placeholder: () => "?",
        onIdentifier: (name) => name,
        onCustom: () => ["", []],
        onRecordUpdate: () => ["", []]
      })
      const client = yield* failing(new SqlError.ConnectionError({ cause: "" }), compiler)
      const error = yield* Effect.flip(Effect.provideService(ProcessLedgerSql.make, SqlClient.SqlClient, client))
      assert.strictEqual(error.message, "open: Other")
    }))
})
