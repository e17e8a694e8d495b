/**
 * A ledger in a SQL database: SQLite for one machine, PostgreSQL when several share it.
 *
 * Every call is one statement, so it is atomic wherever the database is, and an interrupted one was made or was not. A
 * transition names the fence and the status it expects in its condition, and sets only the columns it changes: a
 * heartbeat that comes in between is not undone. It never takes part in a transaction its caller has open, which could
 * still take back what was told to be written. Where the client has one connection, as that of SQLite, a call that is made
 * within a transaction is begun when that has ended, so who waits for it inside waits for himself.
 *
 * Writes that are asked for at once are committed together, at most 256, in the order they were asked for. Each is answered
 * after the commit, with an answer of its own; one that fails does not fail the others, unless they could only wait for
 * the same, as for a database that is locked or away.
 *
 * How durable a written row is depends on the client: `fsync` on every commit is what start and terminal rows need.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import type { Fragment, Statement } from "effect/sql/Statement"
import * as Struct from "effect/Struct"
import { Identity } from "../domain/Identity.ts"
import * as Status from "../domain/Status.ts"
import * as GroupCommit from "../internal/GroupCommit.ts"
import * as ProcessLedger from "../ports/ProcessLedger.ts"
import * as Workspaces from "./sql/Workspaces.ts"

/**
 * Brings the tables up to date (`procyon_processes`, `procyon_workspaces`, `procyon_migrations`) and gives the ledger over them. Fails with
 * `open` when the database cannot be reached, has tables of a newer program (`Newer`, and nothing was changed), or is
 * neither SQLite nor PostgreSQL.
 */
export const make: Effect.Effect<ProcessLedger.ProcessLedger, ProcessLedger.LedgerError, SqlClient.SqlClient> = Effect
  .gen(function*() {
    // Whatever the application's client does to names, the columns stay as they are.
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const renew = renewalOf(sql)
    if (renew === null) return yield* new ProcessLedger.LedgerError({ operation: "open", problem: "Other" })
    const alone = outsideOf(sql)
    yield* alone(migrate(sql))
    return ledger(sql, renew, alone)
  })

/** The ledger of `make`, in whatever database the client is connected to. */
export const layer: Layer.Layer<ProcessLedger.Service, ProcessLedger.LedgerError, SqlClient.SqlClient> = Layer.effect(
  ProcessLedger.Service,
  make
)

type Client = SqlClient.SqlClient
type Alone = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

/** Runs a statement outside of any transaction of its caller's. */
const outsideOf = (sql: Client): Alone => (effect) =>
  Effect.updateContext(effect, (context: Context.Context<never>) => Context.omit(sql.transactionService)(context))

const ledger = (sql: Client, renewal: Renewal, alone: Alone): ProcessLedger.ProcessLedger => {
  const commit = grouped(sql)
  const select = selected(sql)

  const run = <A extends object>(
    operation: Operation,
    statement: Statement<A>,
    commit: GroupCommit.GroupCommit<SqlError> = (read) => read
  ): Effect.Effect<ReadonlyArray<A>, ProcessLedger.LedgerError> =>
    Effect.mapError(alone(commit(statement)), (error) => failure(operation, error))

  /** Whether a statement that returns what it changed has changed a row. */
  const changed = (operation: Operation, statement: Statement<object>) =>
    Effect.map(run(operation, statement, commit), (rows) => rows.length > 0)

  return {
    durable: true,
    insert: (row) =>
      Effect.flatMap(encoded("insert", encodeRow(row)), (columns) =>
        changed(
          "insert",
          sql`INSERT INTO procyon_processes ${sql.insert(columns)} ON CONFLICT (id) DO NOTHING RETURNING id`
        )),
    transition: (id, expected, changes) => {
      if (!ProcessLedger.isAllowed(expected, changes)) return Effect.succeed(false)
      return Effect.flatMap(encoded("transition", encodeChanges(changes)), (columns) =>
        changed(
          "transition",
          sql`UPDATE procyon_processes SET ${sql.update(columns)}
            WHERE id = ${encodeText(id)} AND fence = ${expected.fence} AND status = ${expected.status} RETURNING id`
        ))
    },
    renew: (renewals) =>
      renewals.length === 0 ? Effect.succeed([]) : Effect.map(run("renew", renewal(renewals), commit), (rows) => {
        const done = new Set(rows.map(({ fence, id }) => `${fence} ${id}`))
        return renewals.filter(({ fence, id }) => !done.has(`${fence} ${encodeText(id)}`)).map(({ id }) => id)
      }),
    get: (id) =>
      Effect.flatMap(
        run("get", sql`${select} WHERE id = ${encodeText(id)}`),
        ([columns]) => columns === undefined ? Effect.succeed(null) : decoded("get", columns)
      ),
    rows: (filter = {}) =>
      Effect.flatMap(
        run("rows", sql`${select} WHERE ${sql.and(conditions(sql, filter))}`),
        (found) => filter.unreadable === "skip" ? Effect.succeed(readable(found)) : allDecoded(found)
      ),
    remove: (id, fence) =>
      changed(
        "remove",
        sql`DELETE FROM procyon_processes
          WHERE id = ${encodeText(id)} AND fence = ${fence} AND status <> 'running' RETURNING id`
      ),
    workspaces: Workspaces.make(sql, run)
  }
}

const grouped = (sql: Client): GroupCommit.GroupCommit<SqlError> =>
  GroupCommit.make({
    transaction: (writes) => sql.withTransaction(writes),
    isEverybodys: (error) => problemOf(error.reason) === "Unavailable" && !isConflict(error.reason),
    isTakenBack: (error) => problemOf(error.reason) === "Full" || isConflict(error.reason),
    limit: 256
  })

/** Of transactions, each of which could go on without the other. A statement by itself fares better. */
const isConflict = (reason: SqlError["reason"]): boolean =>
  reason._tag === "DeadlockError" || reason._tag === "SerializationError"

/** A status that is none counts as either: a row that cannot be read hides from no filter by its status. */
const conditions = (sql: Client, { owner, settled }: ProcessLedger.Filter) => [
  ...(owner === undefined ? [] : [sql`owner = ${encodeText(owner)}`]),
  ...(settled === undefined ? [] : [sql`NOT (${sql.in("status", settled ? open : ended)})`])
]

const ended = Status.Status.literals.filter((status) => Status.isSettled(status))
const open = Status.Status.literals.filter((status) => !Status.isSettled(status))

type Renewal = (
  renewals: ReadonlyArray<ProcessLedger.Renewal>
) => Statement<{ readonly id: string; readonly fence: number }>

/**
 * All renewals in one statement: they are one parameter, so no database bounds their number. `null` for a dialect that
 * this store was not tried on.
 */
const renewalOf = (sql: Client): Renewal | null => {
  const table = sql.onDialectOrElse({
    sqlite: () => listedBySqlite,
    pg: () => listedByPostgres,
    orElse: () => null
  })
  return table === null ? null : (renewals) => {
    const json = JSON.stringify(merged(renewals))
    return sql`UPDATE procyon_processes SET lease_until = given.lease_until,
        bytes_seen = CASE WHEN given.bytes_seen > procyon_processes.bytes_seen THEN given.bytes_seen
          ELSE procyon_processes.bytes_seen END
      FROM ${table(sql, json)} WHERE procyon_processes.id = given.id AND procyon_processes.fence = given.fence
        AND ${sql.in("status", open)} RETURNING procyon_processes.id, procyon_processes.fence`
  }
}

const listedBySqlite = (sql: Client, json: string): Fragment =>
  sql`(SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.fence') AS fence,
      json_extract(value, '$.leaseUntil') AS lease_until, json_extract(value, '$.bytesSeen') AS bytes_seen
    FROM json_each(${json})) AS given`

const listedByPostgres = (sql: Client, json: string): Fragment =>
  sql`(SELECT id, fence, "leaseUntil" AS lease_until, "bytesSeen" AS bytes_seen FROM json_to_recordset(${json}::json)
    AS listed(id text, fence float8, "leaseUntil" float8, "bytesSeen" float8)) AS given`

/** One renewal for each row and fence, by the text of its id: a row that a statement is to set twice is set by either. */
const merged = (renewals: ReadonlyArray<ProcessLedger.Renewal>): ReadonlyArray<ProcessLedger.Renewal> => {
  const byRow = new Map<string, ProcessLedger.Renewal>()
  for (const renewal of renewals) {
    const key = `${renewal.fence} ${renewal.id}`
    const bytesSeen = Math.max(byRow.get(key)?.bytesSeen ?? 0, renewal.bytesSeen)
    byRow.set(key, { ...renewal, id: encodeText(renewal.id), bytesSeen })
  }
  return [...byRow.values()]
}

/**
 * Text as it is, but for what a database may refuse or change (U+0000, half a surrogate pair), which is escaped as in
 * JSON, and so are `"` and `\`: two texts never become one.
 */
const encodeText = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Text without any of these is written as it is. */
const escapes = /["\\\p{Cc}]/u

/** Answers at once, which an effect that may throw does not: reading many rows is mostly this. */
const parsed = (json: string, options: SchemaAST.ParseOptions): Exit.Exit<unknown, SchemaIssue.Issue> => {
  try {
    return Exit.succeed(JSON.parse(json))
  } catch {
    return Exit.fail(new SchemaIssue.InvalidValue({ message: "not as it was written" }, json, options))
  }
}

const Text = Schema.String.pipe(
  Schema.decodeTo(
    Schema.String,
    SchemaTransformation.transformEffect({
      decode: (text, options) =>
        escapes.test(text) ? Exit.map(parsed(`"${text}"`, options), String) : Exit.succeed(text),
      encode: (text) => Exit.succeed(encodeText(text))
    })
  )
)

/** As `Schema.fromJsonString`, at once. */
const json = <S extends Schema.Constraint>(schema: S) =>
  Schema.String.pipe(
    Schema.decodeTo(
      Schema.Unknown,
      SchemaTransformation.transformEffect({
        decode: parsed,
        encode: (value) => Exit.succeed(JSON.stringify(value))
      })
    ),
    Schema.decodeTo(schema)
  )

const Counters = Schema.Natural.pipe(
  Schema.decodeTo(
    ProcessLedger.LedgerRow.fields.counters,
    SchemaTransformation.transform({
      decode: (bytesSeen) => ({ bytesSeen }),
      encode: ({ bytesSeen }) => bytesSeen
    })
  )
)

/** The row's fields as they stand in columns: a number in a column of doubles, a nested value as JSON text. */
const columns = {
  id: Text,
  owner: Text,
  lifetime: ProcessLedger.Lifetime,
  status: Status.Status,
  command: json(ProcessLedger.CommandSummary),
  title: Schema.NullOr(Text),
  name: Schema.NullOr(Text),
  policy: Schema.NullOr(json(ProcessLedger.StoredPolicy)),
  identity: Schema.NullOr(json(Identity)),
  startedAt: Schema.Finite,
  endedAt: Schema.NullOr(Schema.Finite),
  deadlineAt: Schema.NullOr(Schema.Finite),
  holder: Schema.NullOr(json(Identity)),
  fence: Schema.Int,
  leaseUntil: Schema.Finite,
  counters: Counters,
  output: Schema.NullOr(json(ProcessLedger.StoredOutput)),
  workspace: Schema.NullOr(Text),
  termination: Schema.NullOr(json(Status.TerminationResult)),
  offered: Schema.NullOr(Status.Status),
  told: Schema.NullOr(Status.Status)
}

/** Columns whose name is not their field's. */
const renamed: Readonly<Record<string, string>> = {
  startedAt: "started_at",
  endedAt: "ended_at",
  deadlineAt: "deadline_at",
  leaseUntil: "lease_until",
  counters: "bytes_seen"
}

const columnOf = (field: string): string => renamed[field] ?? field

const StoredRow = Schema.Struct(columns)

/** Who a row is, whose, and when it began are not among them. */
const StoredChanges = Schema.Struct(Struct.omit(columns, ["id", "owner", "startedAt"])).mapFields(
  Struct.map(Schema.optionalKey)
)

const encodeRow = Schema.encodeUnknownExit(StoredRow)
const encodeChanges = Schema.encodeUnknownExit(StoredChanges)
const decodeRow = Schema.decodeUnknownExit(StoredRow)

/** Under the names of their columns. */
const named = (fields: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).map(([field, value]) => [columnOf(field), value]))

/** Of all columns, under the names of their fields. */
const selected = (sql: Client): Statement<object> =>
  sql`SELECT ${sql.csv(Object.keys(columns).map((field) => sql`${sql(columnOf(field))} AS ${sql(field)}`))}
    FROM procyon_processes`

type Operation = ProcessLedger.LedgerError["operation"]
type Problem = ProcessLedger.LedgerError["problem"]

/** What cannot be a row is a mistake of the caller's, whose words are not passed on. */
const encoded = (
  operation: Operation,
  exit: Exit.Exit<object, unknown>
): Effect.Effect<Record<string, unknown>, ProcessLedger.LedgerError> =>
  Effect.mapBoth(exit, {
    onFailure: () => new ProcessLedger.LedgerError({ operation, problem: "Other" }),
    onSuccess: named
  })

const decoded = (
  operation: Operation,
  found: unknown
): Effect.Effect<ProcessLedger.LedgerRow, ProcessLedger.LedgerError> =>
  Effect.mapError(decodeRow(found), () => new ProcessLedger.LedgerError({ operation, problem: "Corrupt" }))

const allDecoded = (found: ReadonlyArray<unknown>) =>
  Effect.map(
    Effect.forEach(found, (columns) => decoded("rows", columns)),
    (rows) => rows.toSorted(ProcessLedger.byCreation)
  )

const readable = (found: ReadonlyArray<unknown>): ReadonlyArray<ProcessLedger.LedgerRow> =>
  found.flatMap((columns) => {
    const exit = decodeRow(columns)
    return Exit.isSuccess(exit) ? [exit.value] : []
  }).toSorted(ProcessLedger.byCreation)

/**
 * Numbers are doubles in both databases, which hold the integers and the fractions of a row exactly, and which both give
 * back as numbers.
 */
const migrations = {
  "0001_processes": SqlClient.SqlClient.use((sql) =>
    Effect.andThen(
      sql`CREATE TABLE procyon_processes (
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
      sql`CREATE INDEX procyon_processes_owner ON procyon_processes (owner)`
    )
  ),
  "0002_recovery": SqlClient.SqlClient.use((sql) =>
    Effect.forEach(
      [
        sql`ALTER TABLE procyon_processes ADD COLUMN name TEXT`,
        sql`ALTER TABLE procyon_processes ADD COLUMN policy TEXT`,
        sql`ALTER TABLE procyon_processes ADD COLUMN output TEXT`,
        sql`ALTER TABLE procyon_processes ADD COLUMN offered TEXT`,
        sql`ALTER TABLE procyon_processes ADD COLUMN told TEXT`,
        // Until now a blob was all that was known of an output. Nobody has read one after a restart.
        sql`ALTER TABLE procyon_processes DROP COLUMN blob`
      ],
      (statement) => statement,
      { discard: true }
    )
  ),
  ...Workspaces.migrations
}

const newest = Object.keys(migrations).length

/**
 * Asks first: a database that is up to date needs no lock, and a newer one is left alone. An answer that does not come is
 * taken for a database without tables; when that is wrong, the migrator fails for the same reason.
 */
const migrate = (sql: Client): Effect.Effect<void, ProcessLedger.LedgerError> => {
  const latest = Effect.map(
    sql<{ readonly latest: unknown }>`SELECT MAX(migration_id) AS latest FROM procyon_migrations`,
    (rows) => rows[0]?.latest ?? 0
  )
  const run = Migrator.make({})({ loader: Migrator.fromRecord(migrations), table: "procyon_migrations" })
  return Effect.gen(function*() {
    const found = yield* Effect.orElseSucceed(latest, () => 0)
    if (typeof found === "number" && found < newest) yield* run
    const reached = yield* latest
    return typeof reached === "number" ? reached : -1
  }).pipe(
    Effect.provideService(SqlClient.SqlClient, sql),
    Effect.mapError((error) => failure("open", error)),
    Effect.flatMap((reached) => {
      if (reached === newest) return Effect.void
      const problem = reached > newest ? "Newer" : "Corrupt"
      return Effect.fail(new ProcessLedger.LedgerError({ operation: "open", problem }))
    })
  )
}

/** Keeps what a caller can act on; no statement, no name and no message of the database's. */
const failure = (operation: Operation, error: SqlError | Migrator.MigrationError): ProcessLedger.LedgerError => {
  const known = error._tag === "MigrationError" && isSqlError(error.cause) ? error.cause : error
  return new ProcessLedger.LedgerError({
    operation,
    problem: known._tag === "SqlError" ? problemOf(known.reason) : "Other"
  })
}

const problemOf = (reason: SqlError["reason"]): Problem => {
  switch (reason._tag) {
    case "ConnectionError":
    case "DeadlockError":
    case "SerializationError":
    case "LockTimeoutError":
    case "StatementTimeoutError":
      return "Unavailable"
    case "AuthenticationError":
    case "AuthorizationError":
      return "Denied"
    default:
      return problemOfCause(reason.cause)
  }
}

/**
 * Effect's reasons have none for these. Numbers: SQLite's primary result codes (sqlite.org/rescode.html), of which an
 * extended one is the low byte. Words: PostgreSQL's SQLSTATE (Appendix A of its manual), SQLite's names, `errno(3)`.
 */
const problemsOfCauses: Readonly<Record<string, Problem>> = {
  13: "Full",
  SQLITE_FULL: "Full",
  53100: "Full",
  ENOSPC: "Full",
  EDQUOT: "Full",
  8: "Denied",
  SQLITE_READONLY: "Denied",
  25006: "Denied",
  EACCES: "Denied",
  EROFS: "Denied",
  11: "Corrupt",
  26: "Corrupt",
  SQLITE_CORRUPT: "Corrupt",
  SQLITE_NOTADB: "Corrupt",
  XX001: "Corrupt",
  XX002: "Corrupt",
  53300: "Unavailable",
  "57P01": "Unavailable",
  "57P02": "Unavailable",
  "57P03": "Unavailable"
}

const problemOfCause = (cause: unknown): Problem => {
  if (typeof cause !== "object" || cause === null) return "Other"
  const code = "code" in cause && typeof cause.code === "string" ? problemsOfCauses[cause.code] : undefined
  const number = "errno" in cause && typeof cause.errno === "number" ? cause.errno : -1
  return code ?? (number < 0 ? "Other" : problemsOfCauses[number & 0xff] ?? "Other")
}
