import type { PlantedBug } from "./PlantedBug.ts"

const port = "packages/runtime/src/ports/ProcessLedger.ts"
const memory = "packages/runtime/src/stores/ProcessLedgerMemory.ts"
const sql = "packages/runtime/src/stores/ProcessLedgerSql.ts"
const groupCommit = "packages/runtime/src/internal/GroupCommit.ts"
const onMemory = ["runtime/test/stores/ProcessLedgerMemory"]
const onSql = ["platform-node/test/NodeSqlite"]

/** Ledgers: what a row may become, and when a write counts. */
export const ledgers: ReadonlyArray<PlantedBug> = [
  {
    name: "heartbeat-undoes-a-transition",
    file: port,
    find: "    ? { ...row, leaseUntil, counters:",
    replace: "    ? { ...row, status: \"running\", leaseUntil, counters:",
    about: "a beat that comes late makes a job that could not be ended a running one",
    laws: onMemory,
    simulated: true
  },
  {
    name: "heartbeat-counts-back",
    file: port,
    find: "Math.max(row.counters.bytesSeen, bytesSeen)",
    replace: "bytesSeen",
    about: "a count in a row goes down",
    laws: onMemory,
    simulated: false
  },
  {
    name: "settled-row-renewed",
    file: port,
    find: "row.fence === fence && !isSettled(row.status)",
    replace: "row.fence === fence",
    about: "a row that is settled keeps a lease",
    laws: onMemory,
    simulated: false
  },
  {
    name: "settled-row-moves",
    file: port,
    find: "return from === \"kill_failed\" && isSettled(to)",
    replace: "return true",
    about: "a status that is final changes",
    laws: onMemory,
    simulated: false
  },
  {
    name: "fence-ignored",
    file: port,
    find: "if (row.fence !== expected.fence || row.status !== expected.status",
    replace: "if (row.status !== expected.status",
    about: "whoever has lost a row still writes it",
    laws: onMemory,
    simulated: true
  },
  {
    name: "running-row-forgotten",
    file: memory,
    find: "row.fence !== fence || row.status === \"running\"",
    replace: "row.fence !== fence",
    about: "a row goes while its process lives, and nobody finds that again",
    laws: onMemory,
    simulated: false
  },
  {
    name: "identity-forgotten-in-remove",
    file: memory,
    find: "row.fence !== fence || row.status === \"running\"",
    replace: "row.status === \"running\"",
    about: "whoever has lost a row still removes it",
    laws: onMemory,
    simulated: false
  },
  {
    name: "taken-id-overwritten",
    file: memory,
    find: "        if (rows.has(row.id)) return false\n",
    replace: "",
    about: "a new job takes the row of another away",
    laws: onMemory,
    simulated: false
  },
  {
    name: "sql-transition-without-a-status",
    file: sql,
    find: "AND fence = ${expected.fence} AND status = ${expected.status} RETURNING id",
    replace: "AND fence = ${expected.fence} RETURNING id",
    about: "of two who move a row at once, the last wins",
    laws: onSql,
    simulated: false
  },
  {
    name: "sql-heartbeat-of-a-settled-row",
    file: sql,
    find: "        AND ${sql.in(\"status\", open)} RETURNING",
    replace: "        RETURNING",
    about: "a row that is settled keeps a lease",
    laws: onSql,
    simulated: false
  },
  {
    name: "sql-answers-inside-a-transaction",
    file: sql,
    find: "Effect.updateContext(effect, (context: Context.Context<never>) => Context.omit(sql.transactionService)(context))",
    replace: "effect",
    about: "a caller's transaction takes back a row that was said to be written",
    laws: onSql,
    simulated: false
  },
  {
    name: "answered-before-the-commit",
    file: groupCommit,
    find: "          else isCommitting = true\n",
    replace: `          else {
            isCommitting = true
            for (const member of members) member.answer()
          }
`,
    about: "a write is said to be on the disk before it is",
    laws: ["runtime/test/internal/GroupCommit"],
    simulated: false
  },
  {
    name: "interrupted-write-made",
    file: groupCommit,
    find: "yield* commitBatch(members.filter(({ isWanted }) => isWanted), options)",
    replace: "yield* commitBatch(members, options)",
    about: "a write whose caller was interrupted before it began is made all the same",
    laws: ["runtime/test/internal/GroupCommit"],
    simulated: false
  },
  {
    name: "one-failure-fails-all",
    file: groupCommit,
    find: "return mayTryAlone ? oneByOne(members, options) : Effect.sync(() => refuseAll(members, told))",
    replace: "return Effect.sync(() => refuseAll(members, told))",
    about: "a write that fails takes those of others with it",
    laws: ["runtime/test/internal/GroupCommit"],
    simulated: false
  }
]
