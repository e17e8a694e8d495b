/**
 * What every ledger owes the runtime, as tests that any ledger can run.
 *
 * A law is a sentence and a program that asserts it on a fresh and empty ledger: the layer is built for each, and has to
 * give one. Nothing in them depends on time.
 */
import { assert } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Status } from "@procyon/runtime/domain/Status"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import type { LedgerError, LedgerRow } from "@procyon/runtime/ports/ProcessLedger"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Suite from "./internal/Suite.ts"
import { laws as workspaceLaws } from "./internal/WorkspaceLedgerLaws.ts"
import type { Law as AnyLaw, StoreOptions } from "./Law.ts"

export { workspace } from "./internal/WorkspaceLedgerLaws.ts"

/** One law. */
export type Law = AnyLaw<LedgerError, ProcessLedger.Service>

/** Where the laws are tried. */
export type Options = StoreOptions

const identity: Identity = { pid: 4711, startedAt: 123_456, bootId: "boot", marker: "PROCYON_MARK_x" }

/** A running row of owner `s-1` with fence 1, for tests of ledgers; every field that can be set is. */
export const row = (id: string, change: Partial<LedgerRow> = {}): LedgerRow => ({
  id,
  owner: "s-1",
  lifetime: "session",
  status: "running",
  command: { name: "sleep", args: 1, digest: "9f2c" },
  title: "dev server",
  name: "dev",
  policy: {
    stopSignal: "SIGTERM",
    graceMillis: 5000,
    forceWindowMillis: 3000,
    idleDeadlineMillis: null,
    capBytes: 0,
    leftovers: "end"
  },
  identity,
  startedAt: 1_800_000_000_000,
  endedAt: null,
  deadlineAt: 1_800_000_600_000.5,
  holder: { ...identity, pid: 1 },
  fence: 1,
  leaseUntil: 1_800_000_030_000,
  counters: { bytesSeen: 0 },
  output: null,
  workspace: "w-1",
  termination: null,
  offered: null,
  told: null,
  ...change
})

const stream: ProcessLedger.StoredStream = {
  bytesSeen: 10_485_760,
  truncated: true,
  drained: true,
  sha256: "9f2c",
  blob: null,
  spilledBytes: 10_485_760,
  gap: { from: 0, to: 1 }
}

const ended: Partial<LedgerRow> = {
  endedAt: 1_800_000_005_000,
  output: { stdout: { ...stream, blob: "sha256-9f2c" }, stderr: stream },
  offered: "cancelled",
  told: "cancelled",
  termination: {
    status: "cancelled",
    cause: { _tag: "Stop", by: "owner" },
    exit: { code: null, signal: "SIGKILL" },
    forced: true,
    durationMillis: 5020,
    timeline: [{ atMillis: 0, what: "TERM -> group 4711" }],
    leftovers: [],
    keptLeftovers: false,
    survivors: [{ pid: 4713, startedAt: 1, name: "sleep", refused: null }],
    survivorCount: 1,
    wholeTree: "verified",
    error: null
  }
}

const statuses: ReadonlyArray<Status> = ["running", "completed", "error", "cancelled", "timed_out", "kill_failed"]
const settled: ReadonlyArray<Status> = ["completed", "error", "cancelled", "timed_out"]

/** What some database refuses, changes or takes for the end: halves of pairs, U+0000, quotes, escapes. */
const oddTexts = ["\0", "a\0b", "\ud800", "\udc00a", "\ufffd", "\\", "\\u0000", "\"", "'", "\n\x7f\u2028", "😀", ""]

/** A row that says `text` wherever it can. */
const saying = (text: string): Partial<LedgerRow> => {
  const odd = { ...stream, sha256: text, blob: text }
  const identified = { ...identity, bootId: text, marker: text }
  return {
    command: { name: text, args: 0, digest: text },
    title: text,
    name: text,
    policy: {
      stopSignal: text,
      graceMillis: 0.5,
      forceWindowMillis: 0,
      idleDeadlineMillis: 86_400_000.25,
      capBytes: 2 ** 52,
      leftovers: "keep"
    },
    identity: identified,
    holder: identified,
    output: { stdout: odd, stderr: null },
    workspace: text,
    termination: {
      status: "error",
      cause: { _tag: "Stop", by: "owner" },
      exit: { code: null, signal: text },
      forced: false,
      durationMillis: 0,
      timeline: [{ atMillis: 0, what: text }],
      leftovers: [],
      keptLeftovers: true,
      survivors: [{ pid: 1, startedAt: 1, name: text, refused: text }],
      survivorCount: 1,
      wholeTree: "verified",
      error: text
    },
    offered: "running",
    told: "kill_failed"
  }
}

const law = (
  about: string,
  name: string,
  check: (ledger: ProcessLedger.ProcessLedger) => Effect.Effect<void, LedgerError>
): Law => ({ about, name, skipped: null, run: ProcessLedger.Service.use(check) })

const ids = (rows: ReadonlyArray<LedgerRow>): ReadonlyArray<string> => rows.map(({ id }) => id)

/** The laws as data, to be run one by one: each needs an empty ledger of its own. */
export const laws: ReadonlyArray<Law> = [
  law(
    "inserting",
    "gives a row back as it was inserted, every field",
    Effect.fnUntraced(function*(ledger) {
      const full = row("a", { ...ended, status: "cancelled" })
      const bare = row("b", { title: null, identity: null, deadlineAt: null, holder: null, workspace: null })
      assert.isTrue(yield* ledger.insert(full))
      assert.isTrue(yield* ledger.insert(bare))
      assert.deepStrictEqual(yield* ledger.get("a"), full)
      assert.deepStrictEqual(yield* ledger.get("b"), bare)
    })
  ),
  law(
    "inserting",
    "gives every text back as it was, inserted or changed, whatever characters it holds",
    Effect.fnUntraced(function*(ledger) {
      for (const text of oddTexts) {
        const inserted = row(`a-${text}`, { ...saying(text), owner: text })
        assert.isTrue(yield* ledger.insert(inserted))
        assert.deepStrictEqual(yield* ledger.get(inserted.id), inserted)
        const { id } = row(`b-${text}`)
        assert.isTrue(yield* ledger.insert(row(id)))
        assert.isTrue(
          yield* ledger.transition(id, { fence: 1, status: "running" }, { status: "error", ...saying(text) })
        )
        assert.deepStrictEqual(yield* ledger.get(id), row(id, { ...saying(text), status: "error" }))
      }
      assert.strictEqual((yield* ledger.rows()).length, 2 * oddTexts.length)
    })
  ),
  law(
    "reading",
    "answers null for an id it does not know",
    Effect.fnUntraced(function*(ledger) {
      assert.isNull(yield* ledger.get("a"))
    })
  ),
  law(
    "inserting",
    "refuses an id that is taken, and keeps the first row",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a"))
      assert.isFalse(yield* ledger.insert(row("a", { owner: "s-2" })))
      assert.deepStrictEqual(yield* ledger.rows(), [row("a")])
    })
  ),
  law(
    "inserting",
    "of many who insert one id at once, lets one in",
    Effect.fnUntraced(function*(ledger) {
      const inserts = Array.from({ length: 20 }, (_, index) => ledger.insert(row("a", { owner: `s-${index}` })))
      const answers = yield* Effect.all(inserts, { concurrency: "unbounded" })
      assert.strictEqual(answers.filter(Boolean).length, 1)
    })
  ),
  law(
    "inserting",
    "a row it was given and changed afterwards is kept as it was given",
    Effect.fnUntraced(function*(ledger) {
      const given = { ...row("a") }
      yield* ledger.insert(given)
      given.status = "completed"
      assert.strictEqual((yield* ledger.get("a"))?.status, "running")
    })
  ),
  law(
    "transitions",
    "a transition changes what it names and nothing else",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a"))
      yield* ledger.insert(row("b"))
      assert.isTrue(yield* ledger.transition("a", { fence: 1, status: "running" }, { status: "cancelled", ...ended }))
      assert.deepStrictEqual(yield* ledger.get("a"), row("a", { ...ended, status: "cancelled" }))
      assert.deepStrictEqual(yield* ledger.get("b"), row("b"))
    })
  ),
  law(
    "transitions",
    "a transition can set a field to null",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a"))
      yield* ledger.transition("a", { fence: 1, status: "running" }, { status: "running", deadlineAt: null })
      assert.isNull((yield* ledger.get("a"))?.deadlineAt)
    })
  ),
  law(
    "transitions",
    "a transition from another status, with another fence or of an unknown id changes nothing",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { fence: 2 }))
      const changes = { status: "error" } as const
      assert.isFalse(yield* ledger.transition("a", { fence: 2, status: "kill_failed" }, changes))
      assert.isFalse(yield* ledger.transition("a", { fence: 1, status: "running" }, changes))
      assert.isFalse(yield* ledger.transition("a", { fence: 3, status: "running" }, changes))
      assert.isFalse(yield* ledger.transition("b", { fence: 2, status: "running" }, changes))
      assert.deepStrictEqual(yield* ledger.rows(), [row("a", { fence: 2 })])
    })
  ),
  law(
    "transitions",
    "of many who take one row over at once, lets one do it",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a"))
      const takeOver = ledger.transition("a", { fence: 1, status: "running" }, { status: "running", fence: 2 })
      const answers = yield* Effect.all(Array.from({ length: 50 }, () => takeOver), { concurrency: "unbounded" })
      assert.strictEqual(answers.filter(Boolean).length, 1)
      assert.strictEqual((yield* ledger.get("a"))?.fence, 2)
    })
  ),
  law(
    "transitions",
    "who was taken over from can neither move, renew nor remove the row",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { status: "kill_failed" }))
      yield* ledger.transition("a", { fence: 1, status: "kill_failed" }, { status: "kill_failed", fence: 2 })
      assert.isFalse(yield* ledger.transition("a", { fence: 1, status: "kill_failed" }, { status: "cancelled" }))
      assert.deepStrictEqual(yield* ledger.renew([{ id: "a", fence: 1, leaseUntil: 9, bytesSeen: 9 }]), ["a"])
      assert.isFalse(yield* ledger.remove("a", 1))
      assert.deepStrictEqual(yield* ledger.get("a"), row("a", { status: "kill_failed", fence: 2 }))
    })
  ),
  law(
    "transitions",
    "a fence never goes down",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { fence: 5 }))
      assert.isFalse(
        yield* ledger.transition("a", { fence: 5, status: "running" }, { status: "running", fence: 4, title: null })
      )
      assert.deepStrictEqual(yield* ledger.get("a"), row("a", { fence: 5 }))
    })
  ),
  law(
    "transitions",
    "a settled status is final",
    Effect.fnUntraced(function*(ledger) {
      for (const from of settled) {
        yield* ledger.insert(row(from, { status: from }))
        for (const to of statuses.filter((status) => status !== from)) {
          assert.isFalse(yield* ledger.transition(from, { fence: 1, status: from }, { status: to }), `${from} -> ${to}`)
        }
        assert.strictEqual((yield* ledger.get(from))?.status, from)
      }
    })
  ),
  law(
    "transitions",
    "a settled row can still let go of its blob",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { status: "error", output: { stdout: { ...stream, blob: "ref" }, stderr: null } }))
      assert.isTrue(yield* ledger.transition("a", { fence: 1, status: "error" }, { status: "error", output: null }))
      assert.isNull((yield* ledger.get("a"))?.output)
    })
  ),
  law(
    "transitions",
    "kill_failed becomes settled by proof, and never running again",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { status: "kill_failed" }))
      assert.isFalse(yield* ledger.transition("a", { fence: 1, status: "kill_failed" }, { status: "running" }))
      assert.isTrue(yield* ledger.transition("a", { fence: 1, status: "kill_failed" }, { status: "timed_out" }))
      assert.strictEqual((yield* ledger.get("a"))?.status, "timed_out")
    })
  ),
  law(
    "renewals",
    "renew sets leases in one batch and lets counters only grow",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { counters: { bytesSeen: 10 } }))
      yield* ledger.insert(row("b", { status: "kill_failed" }))
      yield* ledger.insert(row("c"))
      assert.deepStrictEqual(
        yield* ledger.renew([
          { id: "a", fence: 1, leaseUntil: 50, bytesSeen: 7 },
          { id: "b", fence: 1, leaseUntil: 60, bytesSeen: 2 ** 40 }
        ]),
        []
      )
      assert.deepStrictEqual(yield* ledger.get("a"), row("a", { leaseUntil: 50, counters: { bytesSeen: 10 } }))
      assert.deepStrictEqual(
        yield* ledger.get("b"),
        row("b", { status: "kill_failed", leaseUntil: 60, counters: { bytesSeen: 2 ** 40 } })
      )
      assert.deepStrictEqual(yield* ledger.get("c"), row("c"))
    })
  ),
  law(
    "renewals",
    "renew answers with those that could not be, and renews the others",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a"))
      yield* ledger.insert(row("b", { status: "completed" }))
      const renewals = ["a", "b", "c"].map((id) => ({ id, fence: 1, leaseUntil: 50, bytesSeen: 0 }))
      assert.deepStrictEqual(yield* ledger.renew(renewals), ["b", "c"])
      assert.strictEqual((yield* ledger.get("a"))?.leaseUntil, 50)
      assert.deepStrictEqual(yield* ledger.get("b"), row("b", { status: "completed" }))
      assert.deepStrictEqual(yield* ledger.renew([]), [])
    })
  ),
  law(
    "renewals",
    "a heartbeat and an end at once undo nothing of each other",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a"))
      const renew = ledger.renew([{ id: "a", fence: 1, leaseUntil: 50, bytesSeen: 70 }])
      const title = ledger.transition("a", { fence: 1, status: "running" }, { status: "running", title: "other" })
      const [refused, isTitled] = yield* Effect.all([renew, title], { concurrency: "unbounded" })
      assert.deepStrictEqual([refused, isTitled], [[], true])
      assert.deepStrictEqual(
        yield* ledger.get("a"),
        row("a", { title: "other", leaseUntil: 50, counters: { bytesSeen: 70 } })
      )
    })
  ),
  law(
    "renewals",
    "renew takes several heartbeats of one row, and a hundred rows, at once",
    Effect.fnUntraced(function*(ledger) {
      const many = Array.from({ length: 100 }, (_, index) => `p-${index}`)
      yield* Effect.forEach(many, (id) => ledger.insert(row(id)), { discard: true })
      const beats = many.map((id) => ({ id, fence: 1, leaseUntil: 50, bytesSeen: 1 }))
      const stranger = { id: "p-0", fence: 2, leaseUntil: 60, bytesSeen: 9 }
      const again = { id: "p-1", fence: 1, leaseUntil: 60, bytesSeen: 0 }
      assert.deepStrictEqual(yield* ledger.renew([...beats, stranger, again]), ["p-0"])
      const rows = yield* ledger.rows()
      assert.strictEqual(rows.filter((row) => row.leaseUntil === 50 && row.counters.bytesSeen === 1).length, 99)
      assert.deepStrictEqual(yield* ledger.get("p-1"), row("p-1", { leaseUntil: 60, counters: { bytesSeen: 1 } }))
    })
  ),
  law(
    "reading",
    "rows come in creation order, those of one millisecond by id",
    Effect.fnUntraced(function*(ledger) {
      for (const [id, startedAt] of [["z", 1], ["b", 2], ["a", 2], ["y", 0.5], ["B", 2]] as const) {
        yield* ledger.insert(row(id, { startedAt }))
      }
      assert.deepStrictEqual(ids(yield* ledger.rows()), ["y", "z", "B", "a", "b"])
    })
  ),
  law(
    "reading",
    "rows are filtered by owner, by being settled, and by both",
    Effect.fnUntraced(function*(ledger) {
      for (const [index, status] of statuses.entries()) {
        yield* ledger.insert(row(`1-${status}`, { status, startedAt: index }))
        yield* ledger.insert(row(`2-${status}`, { status, startedAt: 10 + index, owner: "s-2" }))
      }
      const open = ["1-running", "1-kill_failed", "2-running", "2-kill_failed"]
      assert.deepStrictEqual(ids(yield* ledger.rows({ settled: false })), open)
      assert.deepStrictEqual(ids(yield* ledger.rows({ owner: "s-2" })), statuses.map((status) => `2-${status}`))
      assert.deepStrictEqual(
        ids(yield* ledger.rows({ owner: "s-1", settled: true })),
        settled.map((status) => `1-${status}`)
      )
      assert.deepStrictEqual(yield* ledger.rows({ owner: "s-3" }), [])
      assert.strictEqual((yield* ledger.rows({ owner: undefined, settled: undefined })).length, 12)
    })
  ),
  law(
    "reading",
    "owners and ids are compared as they are, whatever characters they hold",
    Effect.fnUntraced(function*(ledger) {
      const odd = ["\0", "a\0b", "\ud800", "\ud801", "\ufffd", "\\", "\\u0000", "\"", "\n"]
      const owners = ["s", "S", "s%", "s_", "'; --", "ß", "😀", "__proto__", "", ...odd]
      for (const [index, owner] of owners.entries()) {
        yield* ledger.insert(row(`p-${owner}`, { owner, startedAt: index }))
      }
      for (const owner of owners) {
        assert.deepStrictEqual(ids(yield* ledger.rows({ owner })), [`p-${owner}`])
        assert.strictEqual((yield* ledger.get(`p-${owner}`))?.owner, owner)
      }
    })
  ),
  law(
    "removing",
    "remove forgets a row that is not running, once",
    Effect.fnUntraced(function*(ledger) {
      for (const status of statuses) yield* ledger.insert(row(status, { status }))
      for (const status of statuses) assert.strictEqual(yield* ledger.remove(status, 1), status !== "running", status)
      assert.deepStrictEqual(ids(yield* ledger.rows()), ["running"])
      assert.isFalse(yield* ledger.remove("completed", 1))
      assert.isFalse(yield* ledger.remove("never", 1))
    })
  ),
  law(
    "removing",
    "an id that was removed can be inserted again",
    Effect.fnUntraced(function*(ledger) {
      yield* ledger.insert(row("a", { status: "completed" }))
      yield* ledger.remove("a", 1)
      assert.isTrue(yield* ledger.insert(row("a", { owner: "s-2" })))
      assert.strictEqual((yield* ledger.get("a"))?.owner, "s-2")
    })
  ),
  ...workspaceLaws
]

/** Defines one test a law. `layer` is built for each, and has to give an empty ledger. */
export const ledgerLaws = <E>(
  name: string,
  layer: Layer.Layer<ProcessLedger.Service, E>,
  options: Options = {}
): void => Suite.define(name, "a process ledger", Suite.skipping(laws, options.skipped), layer, "live")
