/**
 * What ports do badly, as plain data: the n-th call of a port, or one in so many, fails, is late, hangs, or is done and
 * not answered.
 */
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { dice } from "./internal/Dice.ts"

export type Port = "driver" | "ledger" | "blobs" | "workspaces"

export type When =
  | { readonly _tag: "Nth"; readonly n: number; readonly times?: number }
  | { readonly _tag: "Chance"; readonly chance: number }

export type What =
  | { readonly _tag: "Fail" }
  | { readonly _tag: "Delay"; readonly millis: number }
  | { readonly _tag: "Hang"; readonly uninterruptible?: boolean }
  | { readonly _tag: "Die" }
  | { readonly _tag: "Torn" }
  | { readonly _tag: "Unanswered" }

export interface Fault {
  readonly port: Port
  readonly call: string
  readonly when: When
  readonly what: What
}

export interface Injector {
  readonly driver: (driver: ProcessDriver.ProcessDriver) => ProcessDriver.ProcessDriver
  readonly ledger: (ledger: ProcessLedger.ProcessLedger) => ProcessLedger.ProcessLedger
  readonly blobs: (store: BlobStore.BlobStore) => BlobStore.BlobStore
  readonly workspaces: (store: WorkspaceStore.WorkspaceStore) => WorkspaceStore.WorkspaceStore
  readonly heal: Effect.Effect<void>
  /** Whether any fault of this port has struck. */
  readonly struck: (port: Port) => boolean
}

export const make = (
  faults: ReadonlyArray<Fault>,
  options: { readonly seed?: number | undefined } = {}
): Effect.Effect<Injector> =>
  Effect.sync(() => {
    const { often } = dice(options.seed ?? 0)
    const counts = new Map<string, number>()
    const struck = new Set<Port>()
    let healed = false
    const healing = Latch.makeUnsafe()

    const strike = (port: Port, call: string): What | null => {
      if (healed) return null
      const key = `${port}.${call}`
      const count = (counts.get(key) ?? 0) + 1
      counts.set(key, count)
      for (const fault of faults) {
        if (fault.port !== port || fault.call !== call) continue
        const { when } = fault
        const hit = when._tag === "Nth"
          ? count >= when.n && count < when.n + (when.times ?? 1)
          : often(when.chance)
        if (!hit) continue
        struck.add(port)
        return fault.what
      }
      return null
    }

    const through = <A, E, R>(
      port: Port,
      call: string,
      effect: Effect.Effect<A, E, R>,
      fail: Effect.Effect<A, E, R>
    ): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        const what = strike(port, call)
        switch (what?._tag) {
          case undefined:
            return effect
          case "Fail":
            return fail
          case "Delay":
            return Effect.delay(effect, what.millis)
          case "Hang":
            return what.uninterruptible === true
              ? Effect.andThen(Effect.uninterruptible(healing.await), Effect.never)
              : Effect.never
          case "Die":
            return Effect.die(new Error(`${port}.${call} is broken`))
          case "Torn":
            return Effect.andThen(effect, fail)
          case "Unanswered":
            return Effect.andThen(effect, Effect.never)
        }
      })

    const driver = (real: ProcessDriver.ProcessDriver): ProcessDriver.ProcessDriver => ({
      ...real,
      spawn: (request) =>
        through(
          "driver",
          "spawn",
          real.spawn(request),
          Effect.fail(new ProcessDriver.SpawnFailed({ problem: "TooManyProcesses", code: "EAGAIN" }))
        ),
      look: (roots) =>
        through(
          "driver",
          "look",
          real.look(roots),
          Effect.map(real.look(roots), (looks) => looks.map((look) => ({ ...look, members: [], complete: false })))
        ),
      signal: (root, targets, signal) =>
        through(
          "driver",
          "signal",
          real.signal(root, targets, signal),
          Effect.succeed(targets.members.map(({ name, pid, startedAt }) => ({
            pid,
            startedAt,
            name,
            outcome: "refused" as const,
            code: "EPERM"
          })))
        )
    })

    const ledgerFail = (operation: ProcessLedger.LedgerError["operation"]) =>
      Effect.fail(new ProcessLedger.LedgerError({ operation, problem: "Unavailable" }))

    const ledger = (real: ProcessLedger.ProcessLedger): ProcessLedger.ProcessLedger => ({
      ...real,
      insert: (row) => through("ledger", "insert", real.insert(row), ledgerFail("insert")),
      transition: (id, expected, changes) =>
        through("ledger", "transition", real.transition(id, expected, changes), ledgerFail("transition")),
      renew: (renewals) => through("ledger", "renew", real.renew(renewals), ledgerFail("renew")),
      rows: (filter) => through("ledger", "rows", real.rows(filter), ledgerFail("rows")),
      remove: (id, fence) => through("ledger", "remove", real.remove(id, fence), ledgerFail("remove"))
    })

    const full = (operation: BlobStore.BlobError["operation"]) =>
      Effect.fail(new BlobStore.BlobError({ operation, problem: "NoSpace", retryable: true }))

    const blobs = (real: BlobStore.BlobStore): BlobStore.BlobStore => ({
      ...real,
      write: (name) =>
        Effect.map(through("blobs", "write", real.write(name), full("open")), (writer) => ({
          append: (bytes) => through("blobs", "append", writer.append(bytes), full("append")),
          seal: (label) => through("blobs", "seal", writer.seal(label), full("seal"))
        })),
      read: (ref, read) => real.read(ref, read),
      remove: (name) => through("blobs", "remove", real.remove(name), full("remove"))
    })

    const denied = (operation: WorkspaceStore.WorkspaceError["operation"]) =>
      Effect.fail(new WorkspaceStore.WorkspaceError({ operation, problem: "Denied", refusal: null }))

    const workspaces = (real: WorkspaceStore.WorkspaceStore): WorkspaceStore.WorkspaceStore => ({
      locate: (root, name) => real.locate(root, name),
      create: (place) => through("workspaces", "create", real.create(place), denied("create")),
      remove: (place) => through("workspaces", "remove", real.remove(place), denied("remove"))
    })

    return {
      driver,
      ledger,
      blobs,
      workspaces,
      struck: (port) => struck.has(port),
      heal: Effect.sync(() => {
        healed = true
        healing.openUnsafe()
      })
    }
  })
