/**
 * The rows of jobs: written before the start, moved with the job, renewed while it is held.
 *
 * A ledger that fails, hangs or throws harms no job: what it has missed is kept and tried again with the leases. Writes
 * to one row never overlap, and each says all that earlier ones have missed, so that a slow one cannot undo a later one.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import * as Status from "../../domain/Status.ts"
import type { Timer } from "../../internal/TimerHeap.ts"
import { within } from "../../internal/Within.ts"
import type { Changes, LedgerRow, ProcessLedger, StoredOutput, StoredStream } from "../../ports/ProcessLedger.ts"
import type { OwnedProcess } from "../host/OwnedProcess.ts"
import type { OutputRetention } from "../OutputRetention.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import type { Job } from "./Owners.ts"

/** What is known of a job's row. */
export class Row {
  readonly lock = Semaphore.makeUnsafe(1)
  /** What it says; `null` before it is written. */
  written: Status.Status | null = null
  /** What it does not say yet. */
  missed: Changes | null = null
  /** Nobody will ask for it any more: it goes once it says how the job ended. */
  forgotten = false
}

export interface Rows {
  /** Writes the first row. `false`: it could not be, or its id is taken. */
  readonly insert: (owner: string, job: Job) => Effect.Effect<boolean>
  /** Makes the row say this, and the job's status. Bounded; never fails. */
  readonly move: (job: Job, changes: Omit<Changes, "status">) => Effect.Effect<void>
  /** Removes the row of a settled job, now or when it has caught up. */
  readonly remove: (job: Job) => Effect.Effect<void>
  /** Keeps the row of a start that failed among those of the last ones. Past the bound the oldest are removed. */
  readonly keepFailed: (job: Job) => Effect.Effect<void>
}

/** Whether the row says of the job what is true of it. */
export const isRecorded = ({ process, row }: Job): boolean =>
  row.missed === null && row.written === Lifecycle.statusOf(process.state)

/** What a row says of a job that is settled or could not be ended. */
export const endOf = ({ process }: Job): Omit<Changes, "status"> => ({
  endedAt: process.endedAt,
  counters: { bytesSeen: process.bytesSeen },
  output: outputOf(process),
  termination: process.receipt
})

const streamOf = (retention: OutputRetention): StoredStream => {
  const { blob, bytesSeen, drained, gap, sha256, spilledBytes, truncated } = retention.metadata()
  return { bytesSeen, truncated, drained, sha256, blob, spilledBytes, gap }
}

const outputOf = ({ stderr, stdout }: OwnedProcess): StoredOutput => ({
  stdout: streamOf(stdout),
  stderr: stderr === null ? null : streamOf(stderr)
})

const fence = 1
const concurrency = 16

export const make = (
  host: Pick<ProcessHost, "clock" | "fork" | "settings" | "timers">,
  ledger: ProcessLedger
): Rows => {
  const { clock, settings, timers } = host
  /** Those whose row says `running` or `kill_failed`, or has not caught up. */
  const held = new Set<Job>()
  let renewal: Timer | null = null
  let catchingUp = false

  const rowOf = (owner: string, job: Job): LedgerRow => ({
    id: job.process.id,
    owner,
    lifetime: job.lifetime,
    status: "running",
    command: { ...job.process.summary, digest: job.process.digest },
    title: job.process.policy.title,
    name: job.name,
    policy: null,
    identity: null,
    startedAt: job.process.startedAt,
    endedAt: null,
    deadlineAt: null,
    holder: null,
    fence,
    leaseUntil: leaseUntil(),
    counters: { bytesSeen: 0 },
    output: null,
    workspace: job.process.workspace?.id ?? null,
    termination: null,
    offered: null,
    told: null
  })

  const leaseUntil = (): number => clock.currentTimeMillisUnsafe() + settings.leaseMillis

  const hold = (job: Job): void => {
    held.add(job)
    armRenewal()
  }

  const letGo = (job: Job): void => {
    held.delete(job)
    if (held.size > 0 || renewal === null) return
    renewal.cancel()
    renewal = null
  }

  /** Armed only while a row is held: an idle runtime does nothing, and keeps no host that has nothing left to do. */
  const armRenewal = (): void => {
    renewal ??= timers.after(settings.leaseMillis / 3, () => {
      renewal = null
      if (held.size === 0) return
      armRenewal()
      host.fork(renew)
      host.fork(catchUp)
    })
  }

  const renew = Effect.suspend(() => {
    const until = leaseUntil()
    const renewals = [...held].filter((job) => !job.isSettled).map(({ process }) => ({
      id: process.id,
      fence,
      leaseUntil: until,
      bytesSeen: process.bytesSeen
    }))
    if (renewals.length === 0) return Effect.void
    return within(() => ledger.renew(renewals), settings.portWindowMillis).pipe(
      Effect.catchCause(() => Effect.logWarning("leases of jobs could not be renewed"))
    )
  })

  const catchUp = Effect.suspend(() => {
    const late = [...held].filter((job) => job.row.missed !== null)
    if (catchingUp || late.length === 0) return Effect.void
    catchingUp = true
    return Effect.ensuring(
      Effect.forEach(late, write, { concurrency, discard: true }),
      Effect.sync(() => {
        catchingUp = false
      })
    )
  })

  const erase = (job: Job): Effect.Effect<void> =>
    // A row that stays tells of a job that is over: it costs room, and no truth.
    Effect.ignoreCause(within(() => ledger.remove(job.process.id, fence), settings.portWindowMillis))

  const writeNow = (job: Job): Effect.Effect<void> =>
    Effect.suspend(() => {
      const { row } = job
      const { missed, written } = row
      if (missed === null || written === null) return Effect.void
      const call = () => ledger.transition(job.process.id, { fence, status: written }, missed)
      return Effect.flatMap(Effect.exit(within(call, settings.portWindowMillis)), (exit) => {
        if (exit._tag === "Failure" || Option.isNone(exit.value)) {
          return Effect.logWarning("a job's row could not be moved; it is tried again")
        }
        row.written = missed.status
        if (row.missed === missed) row.missed = null
        const isFinal = row.missed === null && Status.isSettled(missed.status)
        if (isFinal) {
          letGo(job)
          // It is settled for whoever comes later, too.
          job.process.workspace?.leave(job.process)
        }
        const told = exit.value.value ? Effect.void : Effect.logWarning("a job's row was moved by somebody else")
        return isFinal && row.forgotten ? Effect.andThen(told, erase(job)) : told
      })
    })

  const write = (job: Job): Effect.Effect<void> => job.row.lock.withPermit(writeNow(job))

  const remove: Rows["remove"] = (job) =>
    Effect.suspend(() => {
      job.row.forgotten = true
      if (job.row.written === null) return Effect.void
      return job.row.missed === null ? erase(job) : write(job)
    })

  /** Jobs whose start failed and whose row is still there, the oldest first. */
  const failed: Array<Job> = []

  return {
    insert: (owner, job) =>
      within(() => ledger.insert(rowOf(owner, job)), settings.portWindowMillis).pipe(
        Effect.map((answer) => {
          const inserted = Option.getOrElse(answer, () => false)
          if (inserted) {
            job.row.written = "running"
            hold(job)
          }
          return inserted
        }),
        Effect.catchCause(() => Effect.as(Effect.logWarning("a job's row could not be written"), false))
      ),
    move: (job, changes) =>
      Effect.suspend(() => {
        const { row } = job
        if (row.written === null) return Effect.void
        row.missed = { ...row.missed, ...changes, status: Lifecycle.statusOf(job.process.state) }
        hold(job)
        // One call may be out already, which is waited for first.
        return Effect.asVoid(within(() => write(job), settings.portWindowMillis * 2))
      }),
    remove,
    keepFailed: (job) =>
      Effect.suspend(() => {
        failed.push(job)
        const limit = settings.maxFailedStartRows
        const going = limit === 0 ? [] : failed.splice(0, Math.max(0, failed.length - limit))
        return Effect.forEach(going, remove, { discard: true })
      })
  }
}
