/**
 * A `SqlClient` on Node's own `node:sqlite`, for the state of a runtime on one machine: no package to be built, and none
 * to be installed. It is not a general client: the file is Procyon's own, and so is its application id.
 *
 * - **Durable.** A write-ahead log with `synchronous = FULL`: a statement outside of a transaction is on the disk when
 *   its effect ends (`fsync`). Each such write holds the event loop for as long as that takes.
 * - **Never an empty world.** A file that is torn, damaged, of length zero or somebody else's, or whose log has a damaged
 *   header, is refused with a typed error, and not changed. A new file appears under its name only when it is whole, so an empty one is never new.
 * - **Private.** The directory is made with mode 0700 and the files with 0600. A directory that belongs to another user,
 *   or that others may write to, is refused.
 * - **Never waits in SQLite.** While another process or client writes, a statement is tried again through the `Clock`, so
 *   that timers, output and exits go on.
 *
 * Statements hold the event loop while they run: milliseconds for what a ledger asks.
 *
 * What it cannot tell: that the end of the log (`-wal`) was cut off, or that the log was deleted, after the last process was
 * killed. Then the last commits are gone, as after a power loss on a disk that lies about `fsync`; what is left is whole, as
 * of an earlier moment. The last to close the file leaves no log.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite"
import * as SqliteFile from "./internal/sqliteFile.ts"

/**
 * Why a database was not opened. It carries no path.
 *
 * - `Corrupt`: it is ours and damaged: torn, of length zero, filled with something else, or its log is there without it.
 *   `Foreign`: a file of another program. Neither was changed; `setAside` makes room for a new one.
 * - `Unsafe`: the directory or the file belongs to another user, or others may write to it, or it is no plain file.
 * - `Unavailable`: another process holds it; trying again may help. `Denied`: no right to. `Full`: no space.
 * - `Unsupported`: this Node has no `node:sqlite`, or the file system cannot have a write-ahead log.
 */
export class OpenError extends Schema.TaggedError<OpenError>()("NodeSqliteOpenError", {
  problem: SqliteFile.Problem
}) {
  override get message(): string {
    return `database: ${this.problem}`
  }
}

/** Which file, and how patient its client is. */
export interface Options {
  /** The file. Its directory is made when it is missing. */
  readonly filename: string
  /** How long a statement is tried again while somebody else writes, in milliseconds. Default: 5,000. */
  readonly busyMillis?: number | undefined
}

/** The client; its scope closes the file. */
export const make = (
  options: Options
): Effect.Effect<SqlClient.SqlClient, OpenError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function*() {
    const tries = Math.ceil((options.busyMillis ?? 5000) / retryMillis)
    const opened = Effect.retry(attempt(() => SqliteFile.open(options.filename)), {
      while: (error) => error.problem === "Unavailable",
      schedule: Schedule.spaced(retryMillis),
      times: tries
    })
    const { database } = yield* Effect.acquireRelease(
      opened,
      // What is written is in the log, which the next to open it reads.
      ({ close }) => Effect.ignore(attempt(close))
    )
    const acquirers = SqlClient.makeSqliteAcquirers({
      connection: Effect.succeed(connect(database, tries)),
      semaphore: Semaphore.makeUnsafe(1),
      isTransaction: () => database.isTransaction
    })
    return yield* SqlClient.make({
      ...acquirers,
      driver: "node:sqlite",
      compiler: Statement.makeCompilerSqlite(),
      spanAttributes: [["db.system.name", "sqlite"]],
      // A transaction that reads first could not write once somebody else has.
      beginTransaction: "BEGIN IMMEDIATE"
    })
  })

/** The client of `make`, closed with the layer. */
export const layer = (options: Options): Layer.Layer<SqlClient.SqlClient, OpenError> =>
  Layer.effect(SqlClient.SqlClient, make(options)).pipe(Layer.provide(Reactivity.layer))

/**
 * Renames a database that was refused, with its log, so that a new one can be made; answers with the new name of the file.
 * Nothing is deleted. No other process may have it open. Fails with `Other` when there is no such file.
 */
export const setAside = (filename: string): Effect.Effect<string, OpenError> =>
  attempt(() => SqliteFile.setAside(filename))

const retryMillis = 20
const maxPrepared = 64

const attempt = <A>(call: () => A): Effect.Effect<A, OpenError> =>
  Effect.try({ try: call, catch: (error) => new OpenError({ problem: SqliteFile.problemOf(error) }) })

const connect = (database: DatabaseSync, tries: number): Connection => {
  const prepared = new Map<string, StatementSync>()

  const prepare = (sql: string): StatementSync => {
    const found = prepared.get(sql)
    if (found !== undefined) return found
    const statement = database.prepare(sql)
    if (prepared.size === maxPrepared) prepared.clear()
    prepared.set(sql, statement)
    return statement
  }

  const once = (sql: string, params: ReadonlyArray<unknown>) =>
    Effect.try({
      try: (): ReadonlyArray<any> => {
        const statement = prepare(sql)
        const values = params as ReadonlyArray<SQLInputValue>
        if (statement.columns().length > 0) return statement.all(...values)
        statement.run(...values)
        return []
      },
      catch: sqlError
    })

  /** In a transaction nobody else can be in the way any more: see `BEGIN IMMEDIATE`. */
  const query = (sql: string, params: ReadonlyArray<unknown>) =>
    Effect.retry(once(sql, params), {
      while: (error) => error.reason._tag === "LockTimeoutError" && !database.isTransaction,
      schedule: Schedule.spaced(retryMillis),
      times: tries
    })

  const execute: Connection["execute"] = (sql, params, transform) =>
    transform === undefined ? query(sql, params) : Effect.map(query(sql, params), transform)
  const values: Connection["executeValues"] = (sql, params) =>
    Effect.map(query(sql, params), (rows) => rows.map((row: object) => Object.values(row)))

  return {
    execute,
    executeUnprepared: execute,
    executeRaw: query,
    executeValues: values,
    executeValuesUnprepared: values,
    executeStream: (sql, params, transform) =>
      Stream.unwrap(Effect.map(execute(sql, params, transform), (rows) => Stream.fromIterable(rows)))
  }
}

/** Node has SQLite's number in `errcode`, Effect looks for it in `errno`. */
const sqlError = (cause: unknown): SqlError => {
  const errcode = SqliteFile.errcodeOf(cause)
  const known = errcode === null || !(cause instanceof Error) ? cause : Object.assign(cause, { errno: errcode })
  return new SqlError({ reason: classifySqliteError(known, { message: "query failed", operation: "execute" }) })
}
