/**
 * Gives owners their notices, each exactly once, also across a restart: that a notice is taken is written to its job's
 * row before it is handed over, and whose row is another runtime's by then is not told of here. And keeps the records of ended jobs within bounds: what an owner was
 * told of may go, oldest first.
 */
import * as Effect from "effect/Effect"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import * as Status from "../../domain/Status.ts"
import type { Changes } from "../../ports/ProcessLedger.ts"
import type { JobNotice, Notice } from "../JobNotice.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import { byCreation, type Job, type Owner, type Owners } from "./Owners.ts"
import type { Rows } from "./Rows.ts"

export interface Notices {
  /** Adds the notice of a job that ended or could not be ended. `tail`: its last output, when memory has none of it. */
  readonly add: (owner: Owner, job: Job, tail?: string) => void
  /** Those that nobody has taken; they are taken now. */
  readonly take: (owner: string) => Effect.Effect<ReadonlyArray<Notice>>
  /** The same, waiting for one. Answers with none only when the runtime is closed, and none will come. */
  readonly await: (owner: string) => Effect.Effect<ReadonlyArray<Notice>>
  /**
   * Waits for notices and hands them to `use`: they are taken when that has succeeded, and come again when it has not, or
   * when this life ends before. With none only when the runtime is closed.
   */
  readonly consume: <A, E, R>(
    owner: string,
    use: (notices: ReadonlyArray<Notice>) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /** Drops the oldest records past the bound, of jobs that are concluded, told of, and recorded as such. */
  readonly evict: (owner: Owner) => Effect.Effect<void>
  /**
   * Keeps what is left of an owner that has retired among that of the last ones that did. Past the bound the oldest go,
   * with the notices nobody took: there is nobody left to take them. What could not be ended stays.
   */
  readonly keepRetired: (owner: string) => Effect.Effect<void>
  /** Drops the record of a concluded job, its output's blobs and its row. */
  readonly drop: (owner: Owner, job: Job) => Effect.Effect<void>
  /** Wakes who waits. */
  readonly close: () => void
}

/** A job whose notices, up to the one of this status, are being taken. */
interface Claimed {
  readonly job: Job
  readonly status: Status.Status
}

interface Handed {
  readonly jobs: ReadonlyArray<Claimed>
  readonly notices: ReadonlyArray<Notice>
}

export const make = (
  host: Pick<ProcessHost, "forget" | "fork" | "settings" | "timers">,
  owners: Owners,
  rows: Rows
): Notices => {
  const { settings, timers } = host
  let closed = false

  const durationOf = ({ adopted, endedAt, startedAt, startedMono }: Job["process"]): number =>
    adopted && endedAt !== null ? Math.max(0, endedAt - startedAt) : timers.now() - startedMono

  const noticeOf = (owner: Owner, { offered, process }: Job, tail: string | undefined): JobNotice => {
    const status = Lifecycle.statusOf(process.state)
    const exit = Lifecycle.exitOf(process.state)
    return {
      _tag: "Job",
      noticeId: `${process.id}:${status}`,
      id: process.id,
      owner: owner.name,
      title: process.policy.title,
      display: process.display,
      status,
      exit,
      exitCode: exit === null ? -1 : Status.exitCode(exit),
      durationMillis: Math.round(durationOf(process)),
      bytesSeen: process.bytesSeen,
      tail: tail ?? process.stdout.tail(settings.noticeTailBytes),
      repeated: offered
    }
  }

  const wake = (owner: Owner): void => {
    const waiting = [...owner.waiting]
    owner.waiting.clear()
    for (const resume of waiting) resume()
  }

  const drop: Notices["drop"] = (owner, job) =>
    Effect.suspend(() => {
      owner.jobs.delete(job.process.id)
      owners.tidy(owner)
      return rows.remove(job)
    })

  const evict: Notices["evict"] = (owner) =>
    Effect.suspend(() => {
      const finished = [...owner.jobs.values()].filter((job) => job.concluded && job.row.missed === null).toSorted(
        byCreation
      )
      const excess = settings.maxFinishedPerOwner === 0 ? 0 : finished.length - settings.maxFinishedPerOwner
      const going = excess <= 0
        ? []
        : finished.filter((job) => job.noticed === null && job.offering === 0).slice(0, excess)
      return Effect.forEach(going, (job) => drop(owner, job), { discard: true })
    })

  /** Names of owners that have retired and of whom something may be left, the oldest first. */
  const retired = new Set<string>()

  /** Nothing of it is running or unresolved. */
  const isOver = (name: string): boolean => [...owners.known(name)?.jobs.values() ?? []].every((job) => job.concluded)

  const dropRetired = (name: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      retired.delete(name)
      const owner = owners.known(name)
      if (owner === undefined) return Effect.void
      owner.notices.clear()
      owners.tidy(owner)
      return Effect.forEach([...owner.jobs.values()], (job) => drop(owner, job), { discard: true })
    })

  const keepRetired: Notices["keepRetired"] = (name) =>
    Effect.suspend(() => {
      retired.add(name)
      const limit = settings.maxRetiredOwners
      const excess = limit === 0 ? 0 : Math.max(0, retired.size - limit)
      return Effect.forEach([...retired].filter(isOver).slice(0, excess), dropRetired, { discard: true })
    })

  /**
   * Writes to the rows of all that have a notice waiting, and answers with them. A summary tells of those it stands for. A
   * job that settles meanwhile has a second notice, which is not among these.
   */
  const claim = (
    owner: Owner,
    changes: (status: Status.Status) => Omit<Changes, "status">
  ): Effect.Effect<ReadonlyArray<Claimed>> =>
    Effect.suspend(() => {
      const claimed = [...owner.jobs.values()].flatMap((job): ReadonlyArray<Claimed> =>
        job.noticed === null ? [] : [{ job, status: job.noticed }]
      )
      return Effect.as(
        Effect.forEach(claimed, ({ job, status }) => rows.note(job, changes(status)), {
          concurrency: "unbounded",
          discard: true
        }),
        claimed
      )
    })

  /** In one step, so that two who ask get each notice once, and who is interrupted before has taken none. */
  const hand = (owner: Owner, claimed: ReadonlyArray<Claimed>): Handed => {
    const jobs = claimed.filter(({ job }) => job.noticed !== null)
    const statuses = new Map(jobs.map(({ job, status }) => [job.process.id, status]))
    const taken = owner.notices.take(({ id, status }) => {
      const upTo = statuses.get(id)
      return upTo === undefined ? !owner.jobs.has(id) : status === upTo || Status.isSettled(upTo)
    })
    for (const { job, status } of jobs) if (job.noticed === status) job.noticed = null
    // What another runtime has taken over, it tells of.
    const told = taken.filter((notice) => notice._tag === "Summary" || owner.jobs.get(notice.id)?.row.lost !== true)
    if (taken.length > 0) host.fork(evict(owner))
    return { jobs, notices: told }
  }

  const drain = (owner: Owner): Effect.Effect<ReadonlyArray<Notice>> =>
    Effect.map(claim(owner, (status) => ({ offered: status, told: status })), (claimed) => {
      const { jobs, notices } = hand(owner, claimed)
      for (const { job, status } of jobs) job.told = status
      owners.tidy(owner)
      return notices
    })

  const anyNotice = (owner: Owner): Effect.Effect<void> =>
    Effect.callback<void>((resume) => {
      const resumed = () => resume(Effect.void)
      owner.waiting.add(resumed)
      return Effect.sync(() => {
        owner.waiting.delete(resumed)
        owners.tidy(owner)
      })
    })

  const awaitAny: Notices["await"] = (name) =>
    Effect.suspend(() => {
      const owner = owners.of(name)
      if (owner.notices.size === 0 && !closed) return Effect.flatMap(anyNotice(owner), () => awaitAny(name))
      return Effect.flatMap(
        drain(owner),
        // Somebody else was faster, or another runtime tells of it.
        (notices) => notices.length > 0 || closed ? Effect.succeed(notices) : awaitAny(name)
      )
    })

  /** Waits for a notice, and marks those that are there as offered. */
  const offer = (name: string): Effect.Effect<readonly [Owner, ReadonlyArray<Claimed>]> =>
    Effect.suspend(() => {
      const owner = owners.of(name)
      if (owner.notices.size === 0 && !closed) return Effect.flatMap(anyNotice(owner), () => offer(name))
      return Effect.map(claim(owner, (status) => ({ offered: status })), (jobs) => [owner, jobs] as const)
    })

  /** Who has read of the end before whoever reads of what came before it has told of both. */
  const told = ({ job, status }: Claimed): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (job.told !== null && Status.isSettled(job.told)) return Effect.void
      job.told = status
      return Effect.asVoid(rows.note(job, { told: status }))
    })

  const consume: Notices["consume"] = (name, use) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        let handed: Handed = { jobs: [], notices: [] }
        while (handed.notices.length === 0) {
          const [owner, claimed] = yield* restore(offer(name))
          handed = hand(owner, claimed)
          if (closed) break
        }
        const { jobs, notices } = handed
        for (const { job } of jobs) job.offering++
        const exit = yield* Effect.exit(restore(use(notices)))
        for (const { job } of jobs) job.offering--
        const owner = owners.of(name)
        if (exit._tag === "Success") {
          yield* Effect.forEach(jobs, told, { concurrency: "unbounded", discard: true })
          host.fork(evict(owner))
        } else {
          for (const { job, status } of jobs) {
            job.noticed ??= status
            job.offered = true
          }
          owner.notices.putBack(notices)
          wake(owner)
        }
        owners.tidy(owner)
        return yield* exit
      })
    )

  return {
    add: (owner, job, tail) => {
      const notice = noticeOf(owner, job, tail)
      job.noticed = notice.status
      owner.notices.add(notice)
      wake(owner)
    },
    take: (name) =>
      Effect.suspend(() => {
        const owner = owners.known(name)
        return owner === undefined ? Effect.succeed([]) : drain(owner)
      }),
    await: awaitAny,
    consume,
    evict,
    keepRetired,
    drop,
    close: () => {
      closed = true
      for (const owner of owners.all) wake(owner)
    }
  }
}
