/**
 * Goes through the rows of earlier lives, and of other runtimes that may be gone, and makes jobs of those it may take.
 *
 * First, and quickly, each row whose lease is void is claimed, and its job is listed: nobody can start another of its name
 * meanwhile. Then, as long as it takes, what lives and has no owner is ended.
 *
 * A lease is void when its holder is proven gone; when it has run out and nothing is known of its holder; and, whoever
 * holds it, when this runtime has watched it for a whole lease and nobody renewed it. So a clock that jumps takes nothing
 * from a runtime that lives, and one that was stopped is not waited for.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type { Identity } from "../../domain/Identity.ts"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import type { WorkspaceRow } from "../../domain/ShutdownPlan.ts"
import { type Cause, isSettled } from "../../domain/Status.ts"
import type { Timer } from "../../internal/TimerHeap.ts"
import { within } from "../../internal/Within.ts"
import type { Vitality } from "../../ports/ProcessDriver.ts"
import type { LedgerRow, ProcessLedger } from "../../ports/ProcessLedger.ts"
import type { Hooks, ProcessHost } from "../ProcessHost.ts"
import type { Entry, Outcome, Report } from "../Recovery.ts"
import type { Workspaces } from "../Workspace.ts"
import type { Events } from "./Events.ts"
import type { Notices } from "./Notices.ts"
import { Job, type Owner, type Owners } from "./Owners.ts"
import type { Rows } from "./Rows.ts"

export interface Reconciling {
  /** Runs a pass, or joins the one that runs. */
  readonly reconcile: Effect.Effect<Report>
  /** Begins the first pass, and returns when all that can be adopted is listed, or after a bound. */
  readonly begin: Effect.Effect<void>
  /** The report of the first pass. */
  readonly started: Effect.Effect<Report>
  /** Removes the workspaces that are nobody's any more; a pass that runs does that at its end. */
  readonly finishWorkspaces: Effect.Effect<ReadonlyArray<WorkspaceRow>>
}

/** What it needs of the runtime and its jobs. */
export interface Options {
  readonly host: ProcessHost
  readonly ledger: ProcessLedger
  readonly rows: Rows
  readonly owners: Owners
  readonly notices: Notices
  readonly events: Events
  readonly workspaces: Workspaces
  /** What is done at the turns of a job's life. */
  readonly hooksOf: (owner: Owner, job: Job) => Hooks
}

/** A row that another runtime holds: unchanged since when, in monotonic milliseconds. */
interface Watched {
  readonly renewed: boolean
  readonly fence: number
  readonly leaseUntil: number
  readonly since: number
}

/** Who holds a row or a record, and until when. `renewed`: whoever holds it renews it. */
interface Held extends Pick<LedgerRow, "id" | "holder" | "fence" | "leaseUntil"> {
  readonly renewed: boolean
}

/**
 * A row that is this runtime's now, or not. `detail`: why not, where no other runtime is known to have it. `tell`: tells of
 * its end, which nobody has been told of.
 */
interface Found {
  readonly row: LedgerRow
  readonly owner: Owner | null
  readonly job: Job | null
  readonly detail: string | null
  readonly tell: (() => void) | null
}

interface Read {
  readonly rows: ReadonlyArray<LedgerRow>
  readonly unreadable: boolean
}

const concurrency = 16

export const make = (options: Options): Reconciling => {
  const { events, host, ledger, notices, owners, rows } = options
  const { clock, settings, timers } = host
  const watched = new Map<string, Watched>()
  /** Those of `watched` that this pass has come across. */
  const met = new Set<string>()
  /** Rows that this runtime has tried to claim, and of which it does not know whether it did, or could not take in. */
  const doubtful = new Set<string>()
  let next: Timer | null = null
  /** The next pass has to read all rows, and not only those that may still be held by somebody who lives. */
  let all = true
  /** The last pass has taken rows over, and has not read all. */
  let isHalfDone = false
  const first = Deferred.makeUnsafe<Report>()
  const listed = Deferred.makeUnsafe<void>()
  let running: Deferred.Deferred<Report> | null = null

  /** One row that cannot be read is no reason to forget the others. `null`: the ledger did not answer. */
  const readRows: Effect.Effect<Read | null> = Effect.gen(function*() {
    const filter = all ? {} : { settled: false }
    const whole = yield* Effect.exit(within(() => ledger.rows(filter), settings.portWindowMillis))
    if (Exit.isSuccess(whole)) return Option.isSome(whole.value) ? { rows: whole.value.value, unreadable: false } : null
    const skipping = () => ledger.rows({ ...filter, unreadable: "skip" })
    const rest = yield* Effect.exit(within(skipping, settings.portWindowMillis))
    return Exit.isSuccess(rest) && Option.isSome(rest.value) ? { rows: rest.value.value, unreadable: true } : null
  })

  const isHeldHere = (row: LedgerRow): boolean => row.holder !== null && row.holder.marker === host.self?.marker

  const isKnown = (row: LedgerRow): boolean => owners.known(row.owner)?.jobs.has(row.id) === true

  const isOwn = (row: LedgerRow): boolean => isKnown(row) || (isHeldHere(row) && !doubtful.has(row.id))

  const vitalityOf = (holder: Identity): Effect.Effect<Vitality> =>
    within(() => host.probe(holder), settings.portWindowMillis).pipe(
      Effect.map(Option.getOrElse((): Vitality => "unknown")),
      Effect.catchCause(() => Effect.succeed<Vitality>("unknown"))
    )

  /** For how long this runtime has seen the lease unchanged. */
  const watchedMillis = (row: Held): number => {
    met.add(row.id)
    const before = watched.get(row.id)
    if (before?.fence === row.fence && before.leaseUntil === row.leaseUntil) return timers.now() - before.since
    watched.set(row.id, { renewed: row.renewed, fence: row.fence, leaseUntil: row.leaseUntil, since: timers.now() })
    return 0
  }

  const isVoid = (row: Held): Effect.Effect<boolean> =>
    Effect.gen(function*() {
      const vitality = row.holder === null ? "unknown" : yield* vitalityOf(row.holder)
      if (vitality === "gone") return true
      if (vitality === "unknown" && row.leaseUntil <= clock.currentTimeMillisUnsafe()) return true
      // What is settled is renewed by nobody, and stays its holder's as long as that may live.
      if (!row.renewed && vitality === "alive") return false
      return watchedMillis(row) >= settings.leaseMillis && row.renewed
    })

  const take = (row: LedgerRow): Effect.Effect<Found> => {
    const other = (detail: string | null = null): Found => ({ row, owner: null, job: null, detail, tell: null })
    return Effect.gen(function*() {
      if (host.draining()) return other("the runtime is closing")
      if (!isHeldHere(row) && !(yield* isVoid({ ...row, renewed: !isSettled(row.status) }))) {
        doubtful.delete(row.id)
        return other()
      }
      const before = doubtful.has(row.id)
      doubtful.add(row.id)
      const claimed = yield* rows.claim(row)
      if (claimed === undefined) return other("the ledger did not answer the claim")
      if (claimed === null) {
        // It may have been an earlier call of our own that was faster.
        if (!before) doubtful.delete(row.id)
        return other()
      }
      // The barrier ends what is there when it begins, and would know nothing of this one.
      if (host.draining()) {
        yield* rows.waive(claimed)
        return other("the runtime is closing")
      }
      const found = yield* adopt(claimed)
      doubtful.delete(row.id)
      watched.delete(row.id)
      return found
    }).pipe(
      Effect.catchCause(() =>
        Effect.as(
          Effect.logWarning("a row of an earlier life could not be taken in"),
          other("it could not be taken in")
        )
      )
    )
  }

  const adopt = (row: LedgerRow): Effect.Effect<Found> =>
    Effect.gen(function*() {
      const process = host.adopt(row)
      const job = new Job(process, row.name, row.lifetime)
      job.announced = true
      job.unresolved = row.status === "kill_failed"
      job.concluded = isSettled(row.status)
      job.offered = row.offered === row.status
      rows.adopt(job, row)
      if (job.concluded && process.receipt?.cause._tag === "StartFailed" && row.told === row.status) {
        // Whoever had asked for it was told that it failed, and nobody else. One that was answered for before has a notice.
        yield* rows.keepFailed(job)
        return { row, owner: null, job: null, detail: null, tell: null }
      }
      const owner = owners.of(row.owner)
      owner.jobs.set(row.id, job)
      process.hooks = options.hooksOf(owner, job)
      const tell = row.status === "running" || row.told === row.status ? null : yield* teller(owner, job)
      // It may settle as soon as it is resumed, and is told of that after this.
      if (!job.concluded) tell?.()
      yield* host.resume(process, row)
      if (!job.concluded) events.adopted(owner, job)
      return { row, owner, job, detail: null, tell: job.concluded ? tell : null }
    })

  /** Its record stays until it is told of. */
  const teller = (owner: Owner, job: Job): Effect.Effect<() => void> =>
    Effect.suspend(() => {
      job.offering++
      return Effect.map(job.process.stdout.readTail(settings.noticeTailBytes), (tail) => () => {
        job.offering--
        notices.add(owner, job, tail)
      })
    })

  /** What had a deadline in its absence has met it there. */
  const causeOf = (row: LedgerRow): Cause =>
    row.deadlineAt !== null && row.deadlineAt <= clock.currentTimeMillisUnsafe()
      ? { _tag: "Deadline", kind: "total" }
      : { _tag: "OwnerLost" }

  /** Goes on with a job that was not settled, until it has an outcome. */
  const finish = (row: LedgerRow, { lifetime, process }: Job): Effect.Effect<void> =>
    Effect.gen(function*() {
      if (process.state._tag === "Unresolved") return yield* host.retry(process)
      yield* host.look(process)
      if (process.state._tag === "Running") {
        if (lifetime === "detached") return
        host.end(process, causeOf(row))
      }
      yield* Deferred.await(process.ended)
    })

  const entryOf = ({ detail, job, row }: Found): Entry => {
    const { id, owner, title } = row
    if (job === null) return { id, owner, title, outcome: "elsewhere", status: row.status, detail }
    const { process } = job
    return {
      id,
      owner,
      title,
      outcome: outcomeOf(job),
      status: Lifecycle.statusOf(process.state),
      detail: process.receipt?.error ?? null
    }
  }

  /** Rows first: what settles after they were read keeps its workspace until the next time. */
  const finishWorkspaces: Effect.Effect<ReadonlyArray<WorkspaceRow>> = Effect.suspend(() =>
    within(() => ledger.rows({ settled: false }), settings.portWindowMillis).pipe(
      Effect.flatMap(Option.match({
        onNone: () => Effect.succeed([]),
        onSome: (unsettled) =>
          options.workspaces.finish({ unsettled, isVoid: (record) => isVoid({ ...record, renewed: true }) })
      })),
      Effect.catchCause(() => Effect.as(Effect.logWarning("workspaces of earlier lives could not be gone through"), []))
    )
  )

  const pass: Effect.Effect<Report> = Effect.gen(function*() {
    const began = timers.now()
    const report = (facts: Partial<Report>): Report => ({
      entries: [],
      known: 0,
      workspaces: [],
      unreadable: false,
      failed: false,
      durationMillis: timers.now() - began,
      ...facts
    })
    const read = yield* readRows
    if (read === null) {
      yield* Effect.logWarning("the rows of earlier lives could not be read")
      return report({ failed: true })
    }
    const newest = read.rows.reduce((latest, { id }) => id > latest ? id : latest, "")
    host.continueAfter(newest)
    forgetGone(read.rows)
    const found = yield* Effect.forEach(read.rows.filter((row) => !isOwn(row)), take, { concurrency })
    for (const { tell } of found.toSorted(byEnd)) tell?.()
    for (const owner of new Set(found.flatMap(({ owner }) => owner === null ? [] : [owner]))) {
      host.fork(notices.evict(owner))
    }
    yield* Deferred.succeed(listed, undefined)
    const open = found.filter(({ row }) => !isSettled(row.status))
    yield* Effect.forEach(open, ({ job, row }) => job === null ? Effect.void : finish(row, job), {
      concurrency: "unbounded",
      discard: true
    })
    const entries = open.map(entryOf)
    const workspaces = yield* finishWorkspaces
    for (const id of watched.keys()) if (!met.has(id)) watched.delete(id)
    met.clear()
    // Of whoever is gone all rows are to be taken over; while nobody goes, the many that are settled are not read again.
    const isSomebodyGone = found.some(({ job }) => job !== null)
    isHalfDone = isSomebodyGone && !all
    all = isHalfDone || doubtful.size > 0 || [...watched.values()].some(({ renewed }) => !renewed)
    return report({
      entries,
      known: found.length - open.length,
      workspaces,
      unreadable: read.unreadable
    })
  })

  /** Of what is gone, or was taken in, there is no doubt. */
  const forgetGone = (rows: ReadonlyArray<LedgerRow>): void => {
    if (doubtful.size === 0) return
    const ids = new Set(rows.filter((row) => !isKnown(row)).map(({ id }) => id))
    for (const id of doubtful) if (!ids.has(id)) doubtful.delete(id)
  }

  /** While others hold rows, somebody has to notice when they do no longer; and what failed is tried again. */
  const armNext = (failed: boolean): void => {
    next?.cancel()
    next = null
    const isOver = !failed && !isHalfDone && watched.size === 0 && doubtful.size === 0
    if (isOver || host.draining()) return
    next = timers.after(settings.leaseMillis / 3, () => {
      next = null
      host.fork(again)
    })
  }

  const again: Effect.Effect<Report> = Effect.suspend(() => {
    if (running !== null) return Deferred.await(running)
    // No fiber of the runtime would go on with it.
    if (host.draining()) return Effect.succeed({ ...nothing, failed: true })
    const answer = Deferred.makeUnsafe<Report>()
    running = answer
    host.fork(
      Effect.onExit(pass, (exit) =>
        Effect.sync(() => {
          running = null
          const report = Exit.isSuccess(exit) ? exit.value : { ...nothing, failed: true }
          if (report.failed) all = true
          armNext(report.failed)
          Deferred.doneUnsafe(listed, Effect.void)
          Deferred.doneUnsafe(answer, Effect.succeed(report))
          Deferred.doneUnsafe(first, Effect.succeed(report))
        }))
    )
    return Deferred.await(answer)
  })

  const reconcile: Effect.Effect<Report> = Effect.suspend(() => {
    if (running === null) all = true
    return again
  })

  return {
    reconcile,
    begin: Effect.suspend(() => {
      host.fork(reconcile)
      // A ledger that hangs holds up nobody who builds the runtime for longer than any call to it.
      return Effect.asVoid(Effect.timeoutOption(Deferred.await(listed), settings.portWindowMillis * 2))
    }),
    started: Deferred.await(first),
    finishWorkspaces: Effect.suspend(() => running === null ? finishWorkspaces : Effect.succeed([]))
  }
}

const byEnd = (self: Found, that: Found): number => (self.row.endedAt ?? 0) - (that.row.endedAt ?? 0)

const nothing: Report = { entries: [], known: 0, workspaces: [], unreadable: false, failed: false, durationMillis: 0 }

const outcomeOf = ({ process, unresolved }: Job): Outcome => {
  const { state } = process
  if (state._tag === "Unresolved") return "review"
  if (state._tag !== "Settled") return "adopted"
  if (state.cause._tag === "Disowned") return "elsewhere"
  if (unresolved || state.cause._tag !== "SelfExit") return "ended"
  const isKnown = state.exit !== null && (state.exit.code !== null || state.exit.signal !== null)
  if (isKnown) return "completed"
  return process.leftovers.length > 0 ? "ended" : "lost"
}
