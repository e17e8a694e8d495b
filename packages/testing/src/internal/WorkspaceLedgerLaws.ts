/**
 * What every ledger owes the runtime for the records of workspaces: a part of `LedgerLaws`.
 */
import { assert } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { LedgerError } from "@procyon/runtime/ports/ProcessLedger"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import type { WorkspaceLedger, WorkspaceRecord } from "@procyon/runtime/ports/WorkspaceLedger"
import * as Effect from "effect/Effect"
import type { Law } from "../Law.ts"

const identity: Identity = { pid: 4711, startedAt: 123_456, bootId: "boot", marker: "PROCYON_MARK_x" }

/** A record of owner `s-1` with fence 1, for tests of ledgers; every field that can be set is. */
export const workspace = (id: string, change: Partial<WorkspaceRecord> = {}): WorkspaceRecord => ({
  id,
  owner: "s-1",
  root: "/srv/work",
  rootIdentity: { device: "65024", inode: "2" },
  path: `/srv/work/${id}`,
  identity: { device: "65024", inode: "18446744073709551615" },
  guests: [identity],
  createdAt: 1_800_000_000_000,
  holder: { ...identity, pid: 1 },
  fence: 1,
  leaseUntil: 1_800_000_030_000.5,
  ...change
})

const law = (
  name: string,
  check: (ledger: WorkspaceLedger) => Effect.Effect<void, LedgerError>
): Law<LedgerError, ProcessLedger.Service> => ({
  about: "workspaces",
  name,
  skipped: null,
  run: ProcessLedger.Service.use(({ workspaces }) => check(workspaces))
})

export const laws: ReadonlyArray<Law<LedgerError, ProcessLedger.Service>> = [
  law(
    "gives a record back as it was inserted, every field",
    Effect.fnUntraced(function*(ledger) {
      const bare = workspace("b", { owner: null, identity: null, guests: [], holder: null })
      const odd = workspace("c", {
        owner: "\u0000 \"\\ \ud800",
        path: "/srv/work/\u00e4\n",
        createdAt: 1_800_000_000_001
      })
      for (const record of [bare, workspace("a"), odd]) assert.isTrue(yield* ledger.insert(record))
      assert.deepStrictEqual(yield* ledger.list(), [workspace("a"), bare, odd])
      assert.deepStrictEqual(yield* ledger.list({ unreadable: "skip" }), [workspace("a"), bare, odd])
    })
  ),
  law(
    "refuses an id and a place that are taken, and keeps the first record",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(workspace("a"))
      assert.isFalse(yield* ledger.insert(workspace("a", { path: "/elsewhere" })))
      assert.isFalse(yield* ledger.insert(workspace("b", { path: "/srv/work/a" })))
      assert.deepStrictEqual(yield* ledger.list(), [workspace("a")])
    })
  ),
  law(
    "of many who record one place at once, lets one do it",
    Effect.fnUntraced(function*(ledger) {
      const inserts = Array.from(
        { length: 20 },
        (_, index) => ledger.insert(workspace(`w-${index}`, { path: "/srv/w" }))
      )
      const answers = yield* Effect.all(inserts, { concurrency: "unbounded" })
      assert.strictEqual(answers.filter(Boolean).length, 1)
    })
  ),
  law(
    "an update changes what it names and nothing else",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(workspace("a", { identity: null, guests: [] }))
      yield* ledger.insert(workspace("b"))
      const made = { device: "1", inode: "2" }
      assert.isTrue(yield* ledger.update("a", 1, { identity: made }))
      assert.isTrue(yield* ledger.update("a", 1, { guests: [identity], holder: null, leaseUntil: 9 }))
      assert.isTrue(yield* ledger.update("a", 1, {}))
      assert.deepStrictEqual(yield* ledger.list(), [
        workspace("a", { identity: made, holder: null, leaseUntil: 9 }),
        workspace("b")
      ])
    })
  ),
  law(
    "of many who take one record over at once, lets one do it",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(workspace("a"))
      const takeOver = ledger.update("a", 1, { fence: 2 })
      const answers = yield* Effect.all(Array.from({ length: 50 }, () => takeOver), { concurrency: "unbounded" })
      assert.strictEqual(answers.filter(Boolean).length, 1)
    })
  ),
  law(
    "who was taken over from can neither change nor remove the record, and a fence never goes down",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(workspace("a"))
      yield* ledger.update("a", 1, { fence: 2 })
      assert.isFalse(yield* ledger.update("a", 1, { identity: null }))
      assert.isFalse(yield* ledger.update("a", 2, { fence: 1 }))
      assert.isFalse(yield* ledger.update("b", 2, { identity: null }))
      assert.isFalse(yield* ledger.remove("a", 1))
      assert.deepStrictEqual(yield* ledger.list(), [workspace("a", { fence: 2 })])
    })
  ),
  law(
    "what was removed is gone, and its place can be recorded again",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(workspace("a"))
      assert.isTrue(yield* ledger.remove("a", 1))
      assert.isFalse(yield* ledger.remove("a", 1))
      assert.deepStrictEqual(yield* ledger.list(), [])
      assert.isTrue(yield* ledger.insert(workspace("b", { path: "/srv/work/a" })))
    })
  )
]
