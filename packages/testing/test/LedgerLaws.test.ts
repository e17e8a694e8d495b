import { describe, it } from "@effect/vitest"
import { isSettled } from "@procyon/runtime/domain/Status"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import type { WorkspaceLedger } from "@procyon/runtime/ports/WorkspaceLedger"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import { LedgerLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { assertAllRefuted, refuted } from "./refuted.ts"

type Ledger = ProcessLedger.ProcessLedger

const faulty = (change: (ledger: Ledger) => Partial<Ledger>): Layer.Layer<ProcessLedger.Service> =>
  Layer.effect(
    ProcessLedger.Service,
    Effect.map(ProcessLedger.Service, (ledger) => ({ ...ledger, ...change(ledger) }))
  ).pipe(Layer.provide(Layer.fresh(ProcessLedgerMemory.layer)))

const withWorkspaces = (change: (workspaces: WorkspaceLedger) => Partial<WorkspaceLedger>) =>
  faulty(({ workspaces }) => ({ workspaces: { ...workspaces, ...change(workspaces) } }))

/** What stands in a row replaces what was expected of it. */
const whatever = (ledger: Ledger): Ledger["transition"] => (id, expected, changes) =>
  Effect.flatMap(ledger.get(id), (row) => ledger.transition(id, row ?? expected, changes))

const later = <A, E>(effect: Effect.Effect<A, E>) => Effect.andThen(Effect.yieldNow, effect)

/** Ledgers with one fault each, and the law that has to catch it. */
const faults: ReadonlyArray<readonly [fault: string, law: string, ledger: () => Layer.Layer<ProcessLedger.Service>]> = [
  [
    "loses a field",
    "inserting: gives a row back as it was inserted, every field",
    () => faulty((ledger) => ({ insert: (row) => ledger.insert({ ...row, told: null }) }))
  ],
  [
    "takes U+0000 for the end of a text",
    "gives every text back as it was, inserted or changed, whatever characters it holds",
    () =>
      faulty((ledger) => ({
        insert: (row) => ledger.insert({ ...row, title: row.title?.split("\0")[0] ?? null })
      }))
  ],
  [
    "has a row for every id",
    "answers null for an id it does not know",
    () => faulty((ledger) => ({ get: (id) => Effect.map(ledger.get(id), (row) => row ?? LedgerLaws.row(id)) }))
  ],
  [
    "takes every insert for done",
    "refuses an id that is taken, and keeps the first row",
    () => faulty((ledger) => ({ insert: (row) => Effect.as(ledger.insert(row), true) }))
  ],
  [
    "looks first and inserts then",
    "of many who insert one id at once, lets one in",
    () =>
      faulty((ledger) => ({
        insert: (row) =>
          Effect.flatMap(ledger.get(row.id), (known) =>
            known === null ? later(Effect.as(ledger.insert(row), true)) : Effect.succeed(false))
      }))
  ],
  [
    "keeps the very row it was given",
    "a row it was given and changed afterwards is kept as it was given",
    () =>
      faulty((ledger) => {
        const given = new Map<string, ProcessLedger.LedgerRow>()
        return {
          insert: (row) => {
            given.set(row.id, row)
            return ledger.insert(row)
          },
          get: (id) => Effect.sync(() => given.get(id) ?? null)
        }
      })
  ],
  [
    "forgets what a transition says of the end",
    "a transition changes what it names and nothing else",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, changes) => ledger.transition(id, expected, { ...changes, termination: null })
      }))
  ],
  [
    "takes null for nothing said",
    "a transition can set a field to null",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, { deadlineAt, ...changes }) =>
          ledger.transition(id, expected, { ...changes, ...(typeof deadlineAt === "number" ? { deadlineAt } : {}) })
      }))
  ],
  [
    "expects nothing",
    "a transition from another status, with another fence or of an unknown id changes nothing",
    () => faulty((ledger) => ({ transition: whatever(ledger) }))
  ],
  [
    "compares first and sets then",
    "of many who take one row over at once, lets one do it",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, changes) =>
          Effect.flatMap(ledger.get(id), (row) =>
            row?.fence === expected.fence && row.status === expected.status
              ? later(whatever(ledger)(id, expected, changes))
              : Effect.succeed(false))
      }))
  ],
  [
    "renews for anybody",
    "who was taken over from can neither move, renew nor remove the row",
    () =>
      faulty((ledger) => ({
        renew: (renewals) =>
          Effect.flatMap(
            Effect.forEach(
              renewals,
              (renewal) =>
                Effect.map(ledger.get(renewal.id), (row) => ({ ...renewal, fence: row?.fence ?? renewal.fence }))
            ),
            ledger.renew
          )
      }))
  ],
  [
    "overlooks a fence that goes down",
    "a fence never goes down",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, changes) =>
          ledger.transition(id, expected, { ...changes, fence: Math.max(expected.fence, changes.fence ?? 0) })
      }))
  ],
  [
    "moves what is settled",
    "a settled status is final",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, changes) =>
          Effect.flatMap(ledger.get(id), (row) =>
            row !== null && isSettled(expected.status) && changes.status !== expected.status
              ? Effect.andThen(ledger.remove(id, row.fence), ledger.insert({ ...row, ...changes }))
              : ledger.transition(id, expected, changes))
      }))
  ],
  [
    "changes nothing of what is settled",
    "a settled row can still let go of its blob",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, changes) =>
          isSettled(expected.status) ? Effect.succeed(false) : ledger.transition(id, expected, changes)
      }))
  ],
  [
    "takes kill_failed for final",
    "kill_failed becomes settled by proof, and never running again",
    () =>
      faulty((ledger) => ({
        transition: (id, expected, changes) =>
          expected.status === "kill_failed" ? Effect.succeed(false) : ledger.transition(id, expected, changes)
      }))
  ],
  [
    "sets counters back",
    "renew sets leases in one batch and lets counters only grow",
    () =>
      faulty((ledger) => ({
        renew: (renewals) =>
          Effect.tap(ledger.renew(renewals), () =>
            Effect.forEach(renewals, ({ bytesSeen, fence, id }) =>
              ledger.transition(id, { fence, status: "running" }, { status: "running", counters: { bytesSeen } })))
      }))
  ],
  [
    "takes every renewal for done",
    "renew answers with those that could not be, and renews the others",
    () => faulty((ledger) => ({ renew: (renewals) => Effect.as(ledger.renew(renewals), []) }))
  ],
  [
    "renews with the whole row as it was read",
    "a heartbeat and an end at once undo nothing of each other",
    () =>
      faulty((ledger) => ({
        renew: (renewals) =>
          Effect.flatMap(Effect.forEach(renewals, ({ id }) => ledger.get(id)), (rows) =>
            later(Effect.tap(ledger.renew(renewals), () =>
              Effect.forEach(rows, (row) =>
                row === null
                  ? Effect.void
                  : ledger.transition(row.id, row, { status: row.status, title: row.title })))))
      }))
  ],
  [
    "renews fifty at a time",
    "renew takes several heartbeats of one row, and a hundred rows, at once",
    () => faulty((ledger) => ({ renew: (renewals) => ledger.renew(renewals.slice(0, 50)) }))
  ],
  [
    "gives rows as they were inserted",
    "rows come in creation order, those of one millisecond by id",
    () =>
      faulty((ledger) => ({
        rows: (filter) => Effect.map(ledger.rows(filter), (rows) => rows.toSorted((a, b) => a.id < b.id ? -1 : 1))
      }))
  ],
  [
    "reads half of a filter",
    "rows are filtered by owner, by being settled, and by both",
    () => faulty((ledger) => ({ rows: (filter) => ledger.rows({ ...filter, settled: undefined }) }))
  ],
  [
    "does not tell large letters from small ones",
    "owners and ids are compared as they are, whatever characters they hold",
    () =>
      faulty((ledger) => ({
        rows: (filter) =>
          Effect.map(ledger.rows({ ...filter, owner: undefined }), (rows) =>
            rows.filter(({ owner }) => owner.toLowerCase() === (filter?.owner ?? owner).toLowerCase()))
      }))
  ],
  [
    "forgets what is running",
    "remove forgets a row that is not running, once",
    () =>
      faulty((ledger) => ({
        remove: (id, fence) =>
          Effect.andThen(
            ledger.transition(id, { fence, status: "running" }, { status: "error" }),
            ledger.remove(id, fence)
          )
      }))
  ],
  [
    "never gives an id again",
    "an id that was removed can be inserted again",
    () =>
      faulty((ledger) => {
        const known = new Set<string>()
        return {
          insert: (row) => {
            if (known.has(row.id)) return Effect.succeed(false)
            known.add(row.id)
            return ledger.insert(row)
          }
        }
      })
  ],
  [
    "loses the guests",
    "workspaces: gives a record back as it was inserted, every field",
    () => withWorkspaces((workspaces) => ({ insert: (record) => workspaces.insert({ ...record, guests: [] }) }))
  ],
  [
    "gives a place twice",
    "refuses an id and a place that are taken, and keeps the first record",
    () =>
      withWorkspaces((workspaces) => ({
        insert: (record) =>
          Effect.flatMap(workspaces.list(), (records) =>
            records.some(({ path }) => path === record.path)
              ? workspaces.insert({ ...record, path: `${record.path}/` })
              : workspaces.insert(record))
      }))
  ],
  [
    "looks first and records then",
    "of many who record one place at once, lets one do it",
    () =>
      withWorkspaces((workspaces) => ({
        insert: (record) =>
          Effect.flatMap(workspaces.list(), (records) =>
            records.length === 0 ? later(Effect.as(workspaces.insert(record), true)) : Effect.succeed(false))
      }))
  ],
  [
    "empties what an update does not name",
    "an update changes what it names and nothing else",
    () =>
      withWorkspaces((workspaces) => ({
        update: (id, fence, changes) => workspaces.update(id, fence, { guests: [], ...changes })
      }))
  ],
  [
    "takes every update for done",
    "of many who take one record over at once, lets one do it",
    () =>
      withWorkspaces((workspaces) => ({
        update: (id, fence, changes) => Effect.as(workspaces.update(id, fence, changes), true)
      }))
  ],
  [
    "removes for anybody",
    "who was taken over from can neither change nor remove the record, and a fence never goes down",
    () =>
      withWorkspaces((workspaces) => ({
        remove: (id) =>
          Effect.flatMap(workspaces.list(), (records) =>
            workspaces.remove(id, records.find((record) => record.id === id)?.fence ?? 0))
      }))
  ],
  [
    "keeps what was removed",
    "what was removed is gone, and its place can be recorded again",
    () => withWorkspaces(() => ({ remove: () => Effect.succeed(true) }))
  ]
]

describe("the laws notice a ledger that", () => {
  it.live.each(faults)("%s (%s)", ([, name, ledger]) => refuted(LedgerLaws.laws, name, ledger()))

  it("breaks any of them", () => assertAllRefuted(LedgerLaws.laws, faults.map(([, name]) => name)))
})
