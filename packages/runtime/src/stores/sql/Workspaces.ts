/**
 * The records of workspaces in a SQL database, as a part of the ledger there: its statements are made by it, so they are
 * as atomic and as durable as its own.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Statement } from "effect/sql/Statement"
import * as Struct from "effect/Struct"
import { LedgerError } from "../../ports/ProcessLedger.ts"
import * as WorkspaceLedger from "../../ports/WorkspaceLedger.ts"

type Operation = LedgerError["operation"]

/** Makes one statement of the ledger's, outside of any transaction of its caller's. */
export type Run = <A extends object>(
  operation: Operation,
  statement: Statement<A>
) => Effect.Effect<ReadonlyArray<A>, LedgerError>

/** The records over `procyon_workspaces`. */
export const make = (sql: SqlClient.SqlClient, run: Run): WorkspaceLedger.WorkspaceLedger => {
  const changed = (operation: Operation, statement: Statement<object>) =>
    Effect.map(run(operation, statement), (rows) => rows.length > 0)

  return {
    insert: (record) =>
      Effect.flatMap(encoded("insert", encodeRecord(record)), (columns) =>
        changed(
          "insert",
          sql`INSERT INTO procyon_workspaces ${sql.insert(columns)} ON CONFLICT DO NOTHING RETURNING id`
        )),
    update: (id, fence, changes) => {
      if (!WorkspaceLedger.isAllowed(fence, changes)) return Effect.succeed(false)
      // It sets the fence also where that stays: a statement has to set something.
      return Effect.flatMap(encoded("transition", encodeChanges({ fence, ...changes })), (columns) =>
        changed(
          "transition",
          sql`UPDATE procyon_workspaces SET ${sql.update(columns)}
            WHERE id = ${encodeText(id)} AND fence = ${fence} RETURNING id`
        ))
    },
    remove: (id, fence) =>
      changed(
        "remove",
        sql`DELETE FROM procyon_workspaces WHERE id = ${encodeText(id)} AND fence = ${fence} RETURNING id`
      ),
    list: ({ unreadable = "fail" } = {}) =>
      Effect.flatMap(run("rows", sql`SELECT * FROM procyon_workspaces`), (found) => {
        const exits = found.map((columns) => decodeRecord(columns))
        const records = exits.flatMap((exit) => Exit.isSuccess(exit) ? [exit.value] : [])
        if (unreadable === "fail" && records.length < found.length) {
          return Effect.fail(new LedgerError({ operation: "rows", problem: "Corrupt" }))
        }
        return Effect.succeed(records.toSorted(WorkspaceLedger.byCreation))
      })
  }
}

/** A text in JSON's quotes: a database refuses or changes some that JSON escapes, such as U+0000. */
const encodeText = (text: string): string => JSON.stringify(text)
const Text = Schema.fromJsonString(Schema.String)

const { fields } = WorkspaceLedger.WorkspaceRecord

const columns = {
  ...fields,
  id: Text,
  owner: Schema.NullOr(Text),
  root: Text,
  rootIdentity: Schema.fromJsonString(fields.rootIdentity),
  path: Text,
  identity: Schema.NullOr(Schema.fromJsonString(fields.identity.members[0])),
  guests: Schema.fromJsonString(fields.guests),
  holder: Schema.NullOr(Schema.fromJsonString(fields.holder.members[0]))
}

const StoredRecord = Schema.Struct(columns).pipe(
  Schema.encodeKeys({ rootIdentity: "root_identity", createdAt: "created_at", leaseUntil: "lease_until" })
)

const StoredChanges = Schema.Struct(Struct.pick(columns, ["identity", "guests", "holder", "fence", "leaseUntil"]))
  .mapFields(Struct.map(Schema.optionalKey)).pipe(Schema.encodeKeys({ leaseUntil: "lease_until" }))

const encodeRecord = Schema.encodeUnknownExit(StoredRecord)
const encodeChanges = Schema.encodeUnknownExit(StoredChanges)
const decodeRecord = Schema.decodeUnknownExit(StoredRecord)

const encoded = <A>(operation: Operation, exit: Exit.Exit<A, unknown>): Effect.Effect<A, LedgerError> =>
  Effect.mapError(exit, () => new LedgerError({ operation, problem: "Other" }))

/** What this part adds to the ledger's migrations. */
export const migrations: {
  readonly "0003_workspaces": Effect.Effect<unknown, SqlError, SqlClient.SqlClient>
} = {
  "0003_workspaces": SqlClient.SqlClient.use((sql) =>
    sql`CREATE TABLE procyon_workspaces (
      id TEXT PRIMARY KEY NOT NULL,
      owner TEXT,
      root TEXT NOT NULL,
      root_identity TEXT NOT NULL,
      path TEXT UNIQUE NOT NULL,
      identity TEXT,
      guests TEXT NOT NULL,
      created_at DOUBLE PRECISION NOT NULL,
      holder TEXT,
      fence DOUBLE PRECISION NOT NULL,
      lease_until DOUBLE PRECISION NOT NULL
    )`
  )
}
