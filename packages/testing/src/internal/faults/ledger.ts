/** The faults of a ledger. */
import type { Identity } from "@procyon/runtime/domain/Identity"
import { isSettled } from "@procyon/runtime/domain/Status"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as Effect from "effect/Effect"
import type { What } from "./Fault.ts"
import type { Strikes } from "./Strikes.ts"

type Operation = ProcessLedger.LedgerError["operation"]
type Call<A> = Effect.Effect<A, ProcessLedger.LedgerError>

/** No process on any machine: a start time that no kernel gives. */
const stranger = ({ bootId }: Identity): Identity => ({ pid: 3, startedAt: 0, bootId, marker: "" })

export const make = (ledger: ProcessLedger.ProcessLedger, strikes: Strikes): ProcessLedger.ProcessLedger => {
  const through = <A>(
    call: string,
    operation: Operation,
    make: Call<A>,
    own?: (what: What) => Call<A> | undefined
  ): Call<A> =>
    strikes.through<A, ProcessLedger.LedgerError>({
      port: "ledger",
      call,
      make,
      failure: ({ problem = "Unavailable" }) =>
        new ProcessLedger.LedgerError({ operation, problem: problem as ProcessLedger.LedgerError["problem"] }),
      ...(own === undefined ? {} : { own })
    })

  const takeOver = (id: string): Call<void> =>
    Effect.gen(function*() {
      const row = yield* ledger.get(id)
      if (row === null || isSettled(row.status)) return
      yield* ledger.transition(id, row, {
        status: row.status,
        fence: row.fence + 1,
        holder: row.holder === null ? null : stranger(row.holder)
      })
    })

  const { workspaces } = ledger
  return {
    durable: ledger.durable,
    insert: (row) => through("insert", "insert", ledger.insert(row)),
    transition: (id, expected, changes) => {
      const make = ledger.transition(id, expected, changes)
      return through(
        "transition",
        "transition",
        make,
        (what) => what._tag === "LeaseLost" ? Effect.andThen(takeOver(id), make) : undefined
      )
    },
    renew: (renewals) => {
      const make = ledger.renew(renewals)
      return through("renew", "renew", make, (what) => {
        if (what._tag === "LeaseLost") {
          return Effect.andThen(Effect.forEach(renewals, ({ id }) => takeOver(id), { discard: true }), make)
        }
        if (what._tag !== "Tear") return undefined
        const half = renewals.slice(0, renewals.length >> 1)
        const failed = new ProcessLedger.LedgerError({ operation: "renew", problem: "Unavailable" })
        return Effect.andThen(ledger.renew(half), Effect.suspend(() => Effect.fail(failed)))
      })
    },
    get: (id) => through("get", "get", ledger.get(id)),
    rows: (filter) => through("rows", "rows", ledger.rows(filter)),
    remove: (id, fence) => through("remove", "remove", ledger.remove(id, fence)),
    workspaces: {
      insert: (record) => through("workspaces.insert", "insert", workspaces.insert(record)),
      update: (id, fence, changes) => through("workspaces.update", "transition", workspaces.update(id, fence, changes)),
      remove: (id, fence) => through("workspaces.remove", "remove", workspaces.remove(id, fence)),
      list: (options) => through("workspaces.list", "rows", workspaces.list(options))
    }
  }
}
