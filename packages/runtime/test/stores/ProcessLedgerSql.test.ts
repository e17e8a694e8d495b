import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import { LedgerLaws } from "@procyon/testing"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
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

const program = fileURLToPath(new URL("../programs/ledger.ts", import.meta.url))

/** As the first program made them: these tables, and in their rows no more than these fields. */
const firstForm = [
  `CREATE TABLE procyon_migrations (
    migration_id integer primary key, created_at timestamp with time zone not null default now(), name text not null
  )`,
  "INSERT INTO procyon_migrations (migration_id, name) VALUES (1, 'processes')",
  `CREATE TABLE procyon_processes (
    id TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    lifetime TEXT NOT NULL,
    status TEXT NOT NULL,
    command TEXT NOT NULL,
    title TEXT,
    identity TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    deadline_at DOUBLE PRECISION,
    holder TEXT,
    fence DOUBLE PRECISION NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL,
    bytes_seen DOUBLE PRECISION NOT NULL,
    blob TEXT,
    workspace TEXT,
    termination TEXT
  )`,
  "CREATE INDEX procyon_processes_owner ON procyon_processes (owner)",
  `INSERT INTO procyon_processes VALUES ('old', 's-1', 'session', 'running', '{"name":"make","args":0,"digest":"9f"}',
    NULL, '{"pid":7,"startedAt":8,"bootId":"b","marker":"m"}', 1.5, NULL, NULL, NULL, 3, 4, 5, 'sha256-1', 'w-1', NULL)`
]

const ofFirstForm = row("old", {
  command: { name: "make", args: 0, digest: "9f" },
  title: null,
  name: null,
  policy: null,
  identity: { pid: 7, startedAt: 8, bootId: "b", marker: "m" },
  startedAt: 1.5,
  deadlineAt: null,
  holder: null,
  fence: 3,
  leaseUntil: 4,
  counters: { bytesSeen: 5 }
})

/** Two ledgers, each with a client of its own on the schema. */
const twoLedgers = Effect.fnUntraced(function*(schema: string) {
  const open = Effect.map(
    Layer.build(Layer.fresh(ProcessLedgerSql.layer.pipe(Layer.provide(clientOf(schema))))),
    (context) => Context.get(context, ProcessLedger.Service)
  )
  return yield* Effect.all([open, open], { concurrency: 2 })
})

const both = Effect.all([ProcessLedger.Service, SqlClient.SqlClient])

describe("a ledger in PostgreSQL", () => {
  it.live.skipIf(skipped !== null)(
    `of two clients who take one row over at once, lets one do it${told}`,
    () =>
      Effect.gen(function*() {
        const ledgers = yield* twoLedgers(yield* temporarySchema)
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
    `commits writes at once together, in order, and answers each by itself${told}`,
    () =>
      Effect.gen(function*() {
        const [ledger, sql] = yield* both
        const expected = { fence: 1, status: "running" } as const
        const answers = yield* Effect.all([
          ledger.insert(row("a")),
          ledger.insert(row("a", { owner: "s-2" })),
          ledger.transition("a", expected, { status: "running", title: "moved" }),
          ledger.renew([{ id: "a", fence: 1, leaseUntil: 9, bytesSeen: 9 }, {
            id: "b",
            fence: 1,
            leaseUntil: 9,
            bytesSeen: 9
          }]),
          ledger.insert(row("b")),
          ledger.transition("b", expected, { status: "error" }),
          ledger.transition("b", expected, { status: "completed" }),
          ledger.remove("b", 1),
          ledger.remove("b", 1),
          ledger.insert(row("c"))
        ], { concurrency: "unbounded" })
        assert.deepStrictEqual(answers, [true, false, true, ["b"], true, true, false, true, false, true])
        assert.deepStrictEqual(yield* ledger.rows(), [
          row("a", { title: "moved", leaseUntil: 9, counters: { bytesSeen: 9 } }),
          row("c")
        ])
        const [transactions] = yield* sql`SELECT count(DISTINCT xmin::text)::int AS count FROM procyon_processes`
        assert.deepStrictEqual(transactions, { count: 1 })
      }).pipe(Effect.provide(fresh))
  )

  it.live.skipIf(skipped !== null)(
    `of writes at once, fails the one that the database refuses, and makes the others${told}`,
    () =>
      Effect.gen(function*() {
        const [ledger, sql] = yield* both
        yield* sql`CREATE UNIQUE INDEX one_title ON procyon_processes (title)`
        const rows = ["a", "b", "c"].map((id) => row(id, { title: id === "c" ? "c" : "same" }))
        const exits = yield* Effect.forEach(rows, (row) => Effect.exit(ledger.insert(row)), {
          concurrency: "unbounded"
        })
        const refused = new ProcessLedger.LedgerError({ operation: "insert", problem: "Other" })
        assert.deepStrictEqual(exits, [Exit.succeed(true), Exit.fail(refused), Exit.succeed(true)])
        assert.deepStrictEqual(yield* ledger.rows(), rows.filter(({ id }) => id !== "b"))
      }).pipe(Effect.provide(fresh))
  )

  it.live.skipIf(skipped !== null)(
    `of two clients who write the same rows at once in opposite order, answers both, with no write lost${told}`,
    () =>
      Effect.gen(function*() {
        const [first, second] = yield* twoLedgers(yield* temporarySchema)
        const ids = Array.from({ length: 50 }, (_, index) => `p-${index}`)
        yield* Effect.forEach(ids, (id) => first.insert(row(id)), { concurrency: "unbounded" })
        const expected = { fence: 1, status: "running" } as const
        const titling = ids.map((id) => first.transition(id, expected, { status: "running", title: "first" }))
        const naming = ids.toReversed().map((id) =>
          second.transition(id, expected, { status: "running", name: "second" })
        )
        const answers = yield* Effect.all([...titling, ...naming], { concurrency: "unbounded" })
        assert.deepStrictEqual(new Set(answers), new Set([true]))
        const rows = yield* second.rows()
        assert.isTrue(rows.every(({ name, title }) => name === "second" && title === "first"))
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(skipped !== null)(
    `answers writes at once whose connection is lost with Unavailable, makes none, and then works again${told}`,
    () =>
      Effect.gen(function*() {
        const schema = yield* temporarySchema
        const [ledger] = yield* twoLedgers(schema)
        yield* ledger.insert(row("a"))
        const client = yield* Effect.provide(SqlClient.SqlClient, yield* Layer.build(clientOf(schema)))
        const writes = [
          ledger.insert(row("b")),
          ledger.transition("a", { fence: 1, status: "running" }, { status: "error" }),
          ledger.insert(row("c"))
        ]
        const blocked = client<{ readonly pid: number }>`SELECT pid FROM pg_stat_activity
          WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))`
        const exits = yield* client.withTransaction(Effect.gen(function*() {
          yield* client`UPDATE procyon_processes SET title = 'held'`
          const all = yield* Effect.forkChild(
            Effect.forEach(writes, (write) => Effect.result(write), { concurrency: "unbounded" })
          )
          const [waiting] = yield* Effect.repeat(blocked, { until: (rows) => rows.length > 0 })
          yield* client`SELECT pg_terminate_backend(${waiting?.pid ?? 0})`
          return yield* Fiber.join(all)
        }))
        assert.deepStrictEqual(
          exits.map((exit) => exit._tag === "Failure" ? exit.failure.message : "written"),
          ["insert: Unavailable", "transition: Unavailable", "insert: Unavailable"]
        )
        assert.deepStrictEqual(yield* ledger.rows(), [row("a", { title: "held" })])
        assert.isTrue(yield* ledger.insert(row("b")))
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(skipped !== null)(
    `of an older program is brought up to date by one of several processes at once, and its rows are there${told}`,
    () =>
      Effect.gen(function*() {
        const schema = yield* temporarySchema
        const client = yield* Effect.provide(SqlClient.SqlClient, yield* Layer.build(clientOf(schema)))
        yield* Effect.forEach(firstForm, (statement) => client.unsafe(statement))
        const ids = ["p-1", "p-2", "p-3"]
        const run = (id: string) => promisify(execFile)(process.execPath, [program, url, schema, id])
        const said = yield* Effect.promise(() => Promise.all(ids.map(run)))
        assert.deepStrictEqual(said, ids.map(() => ({ stdout: "written\n", stderr: "" })))
        const ledger = yield* Effect.provideService(ProcessLedgerSql.make, SqlClient.SqlClient, client)
        assert.deepStrictEqual(yield* ledger.rows(), [ofFirstForm, ...ids.map((id) => row(id))])
      }).pipe(Effect.scoped)
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
  ["an error without a cause", new SqlError.UnknownError({ cause: "/home/ann/secret" }), "Other"],
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
