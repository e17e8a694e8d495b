/**
 * The rows of jobs: written before the start, moved with the job, renewed while it is held.
 *
 * A ledger that fails, hangs or throws harms no job: what it has missed is kept and tried again with the leases. Writes
 * to one row never overlap, and each says all that earlier ones have missed, so that a slow one cannot undo a later one.
 *
 * A row is held by a lease, renewed at a third of its time. Whoever was stopped for longer may find that another runtime
 * has taken the row over: so before anything is done to a job, a lease that may have run out is renewed, and a row that
 * turns out to be another's is lost. A ledger that cannot be asked then takes nothing away: nobody else could ask it
 * either.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import { unborn } from "../../domain/Identity.ts"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import * as Status from "../../domain/Status.ts"
import type { Timer } from "../../internal/TimerHeap.ts"
import { within } from "../../internal/Within.ts"
import type {
  Changes,
  LedgerRow,
  ProcessLedger,
  Renewal,
  StoredOutput,
  StoredStream
} from "../../ports/ProcessLedger.ts"
import type { OwnedProcess } from "../host/OwnedProcess.ts"
import type { OutputRetention } from "../OutputRetention.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import * as ProcessOptions from "../ProcessOptions.ts"
import type { Job } from "./Owners.ts"

/** What is known of a job's row. */
export class Row {
  readonly lock = Semaphore.makeUnsafe(1)
  /** What it says; `null` before it is written. */
  written: Status.Status | null = null
  /** The ledger did not answer when it was to be written: it may be there or not. */
  doubtful = false
  /** What it does not say yet. */
  missed: Changes | null = null
  /** The last write failed. */
  behind = false
  /** Nobody will ask for it any more: it goes once it says how the job ended. */
  forgotten = false
  /** It was given up, for whoever comes next. */
  released = false
  /** Another runtime holds it: it is not written any more, and nothing is told of the job. */
  lost = false
  fence = firstFence
  /** Until when the lease is certain, by both clocks: monotonic milliseconds, and epoch milliseconds. */
  certainUntilMono = 0
  certainUntil = 0
}

/**
 * What became of a write: the row says it, it does not say it yet and is tried again, or it is another runtime's row, or
 * nobody's.
 */
export type Outcome = "written" | "missed" | "lost"

export interface Rows {
  /**
   * Writes the first row. `false`: it could not be, its id is taken, or the ledger did not answer; then what the row says is
   * put right when it does again.
   */
  readonly insert: (owner: string, job: Job) => Effect.Effect<boolean>
  /** Makes the row say this, and the job's status. Bounded; never fails. */
  readonly move: (job: Job, changes: Omit<Changes, "status">) => Effect.Effect<Outcome>
  /**
   * The same, for somebody who waits for more than the row: where the row has not caught up with earlier changes, the
   * ledger is not well, and this one is left to be written with them, as long as the lease is certain.
   */
  readonly note: (job: Job, changes: Omit<Changes, "status">) => Effect.Effect<Outcome>
  /** Whether the job is still this runtime's, as far as that can be found out. Bounded; never fails. */
  readonly holds: (job: Job) => Effect.Effect<boolean>
  /**
   * Takes over a row whose lease is void. `null`: somebody else was first. `undefined`: the ledger did not say, so that the
   * row may be this runtime's by now.
   */
  readonly claim: (row: LedgerRow) => Effect.Effect<LedgerRow | null | undefined>
  /** Gives up a row that was claimed and is not wanted. Bounded; never fails. */
  readonly waive: (row: LedgerRow) => Effect.Effect<void>
  /** Holds a row that was claimed, as that of a job. */
  readonly adopt: (job: Job, row: LedgerRow) => void
  /** Gives a row up, so that the next runtime need not wait for its lease. */
  readonly release: (job: Job) => Effect.Effect<void>
  /** Removes the row of a settled job, now or when it has caught up. */
  readonly remove: (job: Job) => Effect.Effect<void>
  /** Removes the row of a job that could not be ended. `false`: it is another's, or the ledger failed. */
  readonly abandon: (job: Job) => Effect.Effect<boolean>
  /** Keeps the row of a start that failed among those of the last ones. Past the bound the oldest are removed. */
  readonly keepFailed: (job: Job) => Effect.Effect<void>
}

/** When the lease of a row ended that nobody holds any more: long ago, whatever the next runtime's wall clock says. */
const released = 0

/** Whether the row says of the job what is true of it. */
export const isRecorded = ({ process, row }: Job): boolean =>
  !row.lost && !row.doubtful && row.missed === null && row.written === Lifecycle.statusOf(process.state)

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

const firstFence = 1
const concurrency = 16

/**
 * `onLost` is called once for a job whose row turns out to be another runtime's. `onErased` gives back what the row of a job
 * told of, when no row does any more.
 */
export const make = (
  host: Pick<ProcessHost, "clock" | "fork" | "self" | "settings" | "timers">,
  ledger: ProcessLedger,
  onLost: (job: Job) => void,
  onErased: (job: Job) => Effect.Effect<void>
): Rows => {
  const { clock, self, settings, timers } = host
  /** Those whose row says `running` or `kill_failed`, or has not caught up. */
  const held = new Set<Job>()
  let renewal: Timer | null = null
  let catchingUp = false

  const rowOf = (owner: string, job: Job): LedgerRow => {
    const { process } = job
    return {
      id: process.id,
      owner,
      lifetime: job.lifetime,
      status: "running",
      command: { ...process.summary, digest: process.digest },
      title: process.policy.title,
      name: job.name,
      policy: ProcessOptions.stored(process.policy),
      identity: self === null ? null : unborn(self.bootId, process.marker),
      startedAt: process.startedAt,
      endedAt: null,
      deadlineAt: process.deadlineMillis === null ? null : process.startedAt + process.deadlineMillis,
      holder: self,
      fence: firstFence,
      leaseUntil: leaseUntil(),
      counters: { bytesSeen: 0 },
      output: outputOf(process),
      workspace: process.workspace?.id ?? null,
      termination: null,
      offered: null,
      told: null
    }
  }

  const leaseUntil = (): number => clock.currentTimeMillisUnsafe() + settings.leaseMillis

  /** To be called before the ledger is asked: the lease counts from then. The last part of it is no certainty. */
  const certainty = (): { readonly mono: number; readonly wall: number } => {
    const certain = settings.leaseMillis * 5 / 6
    return { mono: timers.now() + certain, wall: clock.currentTimeMillisUnsafe() + certain }
  }

  const secure = ({ row }: Job, until: ReturnType<typeof certainty>): void => {
    row.certainUntilMono = until.mono
    row.certainUntil = until.wall
  }

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

  const lose = (job: Job): void => {
    if (job.row.lost) return
    job.row.lost = true
    job.row.missed = null
    letGo(job)
    onLost(job)
  }

  /** Armed only while a row is held: an idle runtime does nothing, and keeps no host that has nothing left to do. */
  const armRenewal = (): void => {
    renewal ??= timers.after(settings.leaseMillis / 3, () => {
      renewal = null
      armRenewal()
      host.fork(renew([...held].filter(isLeased)))
      host.fork(catchUp)
    })
  }

  /** Who holds the row: `null` for nobody, since it is gone; `undefined` when the ledger could not tell. */
  const read = (job: Job): Effect.Effect<LedgerRow | null | undefined> =>
    within(() => ledger.get(job.process.id), settings.portWindowMillis).pipe(
      Effect.map(Option.getOrUndefined),
      Effect.catchCause(() => Effect.succeed(undefined))
    )

  /** A refused renewal may also be that of a row that has just been settled here, or that an operator has deleted. */
  const checkHolder = (job: Job): Effect.Effect<void> =>
    Effect.map(read(job), (row) => {
      if (row?.fence !== undefined && row.fence !== job.row.fence) lose(job)
    })

  const renew = (jobs: ReadonlyArray<Job>): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (jobs.length === 0) return Effect.void
      const until = leaseUntil()
      const certain = certainty()
      const renewals = jobs.map(({ process, row }): Renewal => ({
        id: process.id,
        fence: row.fence,
        leaseUntil: until,
        bytesSeen: process.bytesSeen
      }))
      return within(() => ledger.renew(renewals), settings.portWindowMillis).pipe(
        Effect.flatMap((answer) => {
          if (Option.isNone(answer)) return Effect.void
          const refused = new Set(answer.value)
          for (const job of jobs) if (!refused.has(job.process.id)) secure(job, certain)
          const doubtful = jobs.filter(({ process }) => refused.has(process.id))
          return Effect.forEach(doubtful, checkHolder, { concurrency, discard: true })
        }),
        Effect.catchCause(() => Effect.logWarning("leases of jobs could not be renewed"))
      )
    })

  /** Also one that has ended and whose row cannot say so yet: another runtime would take it for lost. */
  const isLeased = ({ row }: Job): boolean => row.written !== null && !Status.isSettled(row.written) && !row.released

  const isCertain = ({ row }: Job): boolean =>
    timers.now() < row.certainUntilMono && clock.currentTimeMillisUnsafe() < row.certainUntil

  const holds: Rows["holds"] = (job) =>
    Effect.suspend(() => {
      const { row } = job
      if (row.lost) return Effect.succeed(false)
      if (row.written === null || Status.isSettled(row.written) || (!row.released && isCertain(job))) {
        return Effect.succeed(true)
      }
      // What was given up is not taken back by looking after it.
      return Effect.map(row.released ? checkHolder(job) : renew([job]), () => !row.lost)
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

  /** A row that stays tells of a job that is over, and of where its output is: it costs room, and no truth. */
  const erase = (job: Job): Effect.Effect<boolean> =>
    within(() => ledger.remove(job.process.id, job.row.fence), settings.portWindowMillis).pipe(
      Effect.flatMap((answer) => {
        if (Option.isNone(answer)) return Effect.succeed(false)
        return answer.value ? Effect.succeed(true) : Effect.map(read(job), (row) => row === null)
      }),
      Effect.catchCause(() => Effect.succeed(false)),
      Effect.tap((erased) => erased ? onErased(job) : Effect.void)
    )

  const writeNow = (job: Job): Effect.Effect<Outcome> =>
    Effect.suspend((): Effect.Effect<Outcome> => {
      const { row } = job
      const { missed, written } = row
      if (row.lost) return Effect.succeed("lost")
      if (missed === null || written === null) return Effect.succeed("written")
      if (row.doubtful) {
        return Effect.flatMap(resolve(job), (isKnown) => isKnown ? writeNow(job) : Effect.succeed("missed"))
      }
      const call = () => ledger.transition(job.process.id, { fence: row.fence, status: written }, missed)
      return Effect.flatMap(Effect.exit(within(call, settings.portWindowMillis)), (exit) => {
        if (exit._tag === "Failure" || Option.isNone(exit.value)) {
          row.behind = true
          return Effect.as(Effect.logWarning("a job's row could not be moved; it is tried again"), "missed")
        }
        return exit.value.value ? wrote(job, missed) : refused(job, missed)
      })
    })

  /** Whether it is known by now if the row was written. One of another job, with the same id, is not this one's. */
  const resolve = (job: Job): Effect.Effect<boolean> =>
    Effect.map(read(job), (found) => {
      if (found === undefined) return false
      const { process, row } = job
      row.doubtful = false
      if (found?.identity?.marker === process.marker) return true
      row.written = null
      row.missed = null
      letGo(job)
      job.process.workspace?.leave(job.process)
      return true
    })

  const wrote = (job: Job, said: Changes): Effect.Effect<Outcome> => {
    const { row } = job
    row.written = said.status
    row.behind = false
    if (row.missed === said) row.missed = null
    const isFinal = row.missed === null && Status.isSettled(said.status)
    if (isFinal) {
      letGo(job)
      // It is settled for whoever comes later, too.
      job.process.workspace?.leave(job.process)
    }
    return Effect.as(isFinal && row.forgotten ? erase(job) : Effect.void, "written")
  }

  /** Somebody moved the row first: this runtime itself, with a call whose answer did not come, or another one. */
  const refused = (job: Job, said: Changes): Effect.Effect<Outcome> =>
    Effect.flatMap(read(job), (row): Effect.Effect<Outcome> => {
      if (row === undefined) return Effect.succeed("missed")
      if (row === null) return wrote(job, said)
      if (row.fence === job.row.fence) {
        // It cannot say more than it does: there is nothing to be tried again.
        if (row.status === job.row.written) return wrote(job, said)
        // An earlier call has moved it, whose answer did not come. What was asked for since is still to be written.
        job.row.written = row.status
        return writeNow(job)
      }
      lose(job)
      return Effect.as(Effect.logWarning("a job's row was taken over by another runtime"), "lost")
    })

  const write = (job: Job): Effect.Effect<Outcome> => job.row.lock.withPermit(writeNow(job))

  const remove: Rows["remove"] = (job) =>
    Effect.suspend(() => {
      job.row.forgotten = true
      if (job.row.lost) return Effect.void
      if (job.row.written === null) return onErased(job)
      return job.row.missed === null ? Effect.asVoid(erase(job)) : Effect.asVoid(write(job))
    })

  const move: Rows["move"] = (job, changes) =>
    Effect.suspend(() => {
      const { row } = job
      if (row.lost) return Effect.succeed<Outcome>("lost")
      if (row.written === null) return Effect.succeed<Outcome>("missed")
      row.missed = { ...row.missed, ...changes, status: Lifecycle.statusOf(job.process.state) }
      hold(job)
      // Nothing was started, and whoever waits for the answer has waited for the ledger once.
      if (row.doubtful) return Effect.succeed<Outcome>("missed")
      // One call may be out already, which is waited for first.
      return Effect.map(
        within(() => write(job), settings.portWindowMillis * 2),
        Option.getOrElse((): Outcome => row.lost ? "lost" : "missed")
      )
    })

  const note: Rows["note"] = (job, changes) =>
    Effect.suspend(() => {
      const { behind, missed } = job.row
      if (missed === null || !behind || !isCertain(job)) return move(job, changes)
      job.row.missed = { ...missed, ...changes }
      return Effect.succeed<Outcome>("missed")
    })

  /** Jobs whose start failed and whose row is still there, the oldest first. */
  const failed: Array<Job> = []

  return {
    insert: (owner, job) =>
      Effect.suspend(() => {
        const certain = certainty()
        return within(() => ledger.insert(rowOf(owner, job)), settings.portWindowMillis).pipe(
          Effect.map((answer) => {
            const isThere = Option.getOrElse(answer, () => self !== null)
            job.row.doubtful = isThere && Option.isNone(answer)
            if (isThere) {
              job.row.written = "running"
              secure(job, certain)
              hold(job)
            }
            return isThere && !job.row.doubtful
          }),
          Effect.catchCause(() => Effect.as(Effect.logWarning("a job's row could not be written"), false))
        )
      }),
    move,
    note,
    holds,
    claim: (row) =>
      Effect.suspend(() => {
        const claimed = { holder: self, fence: row.fence + 1, leaseUntil: leaseUntil() }
        const call = () =>
          ledger.transition(row.id, { fence: row.fence, status: row.status }, { ...claimed, status: row.status })
        return within(call, settings.portWindowMillis).pipe(
          Effect.map(Option.match({
            onNone: () => undefined,
            onSome: (isOurs) => isOurs ? { ...row, ...claimed } : null
          })),
          Effect.catchCause(() => Effect.as(Effect.logWarning("a row could not be claimed"), undefined))
        )
      }),
    waive: (row) => {
      const call = () =>
        ledger.transition(row.id, { fence: row.fence, status: row.status }, {
          status: row.status,
          holder: null,
          leaseUntil: released
        })
      return Effect.ignoreCause(within(call, settings.portWindowMillis))
    },
    adopt: (job, row) => {
      job.row.written = row.status
      job.row.fence = row.fence
      if (Status.isSettled(row.status)) return
      // Counted from the claim, which was written a moment ago: the first renewal comes soon.
      const certain = Math.max(0, row.leaseUntil - clock.currentTimeMillisUnsafe()) * 5 / 6
      secure(job, { mono: timers.now() + certain, wall: clock.currentTimeMillisUnsafe() + certain })
      hold(job)
    },
    release: (job) =>
      Effect.suspend(() => {
        job.row.released = true
        // There is no later time at which what it has missed could be tried again.
        return Effect.asVoid(move(job, { holder: null, leaseUntil: released }))
      }),
    remove,
    abandon: (job) =>
      Effect.map(erase(job), (erased) => {
        if (erased) lose(job)
        return erased
      }),
    keepFailed: (job) =>
      Effect.suspend(() => {
        failed.push(job)
        const limit = settings.maxFailedStartRows
        const going = limit === 0 ? [] : failed.splice(0, Math.max(0, failed.length - limit))
        return Effect.forEach(going, remove, { discard: true })
      })
  }
}
