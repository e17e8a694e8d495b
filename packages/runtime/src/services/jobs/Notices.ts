/**
 * Gives owners their notices, each exactly once, also across a restart: that a notice is taken is written to its job's
 * row before it is handed over, and whose row is another runtime's by then is not told of here. And keeps the records of ended jobs within bounds: what an owner was
 * told of may go, oldest first.
 */
import * as Effect from "effect/Effect"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import * as Status from "../../domain/Status.ts"
import type { Changes } from "../../ports/ProcessLedger.ts"
import type { Notice } from "../JobNotice.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import type { Job, Owner, Owners } from "./Owners.ts"
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

export const make = (
  host: Pick<ProcessHost, "forget" | "fork" | "settings" | "timers">,
  owners: Owners,
  rows: Rows
): Notices => {
  const { settings, timers } = host
  let closed = false

  const durationOf = ({ adopted, endedAt, startedAt, startedMono }: Job["process"]): number =>
    adopted && endedAt !== null ? Math.max(0, endedAt - startedAt) : timers.now() - startedMono

  const noticeOf = (owner: Owner, { offered, process }: Job, tail: string | undefined): Notice => {
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
      const finished = [...owner.jobs.values()].filter((job) => job.concluded && job.row.missed === null)
      const excess = settings.maxFinishedPerOwner === 0 ? 0 : finished.length - settings.maxFinishedPerOwner
      const going = excess <= 0 ? [] : finished.filter((job) => !job.noticed && !job.offering).slice(0, excess)
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

  /** Writes to the rows of all that have a notice waiting, and answers with them. A summary tells of those it stands for. */
  const claim = (
    owner: Owner,
    changes: (status: Status.Status) => Omit<Changes, "status">
  ): Effect.Effect<ReadonlyArray<Job>> =>
    Effect.suspend(() => {
      const jobs = [...owner.jobs.values()].filter((job) => job.noticed)
      return Effect.as(
        Effect.forEach(jobs, (job) => rows.note(job, changes(Lifecycle.statusOf(job.process.state))), {
          concurrency: "unbounded",
          discard: true
        }),
        jobs
      )
    })

  /** In one step, so that two who ask get each notice once, and who is interrupted before has taken none. */
  const hand = (owner: Owner, claimed: ReadonlyArray<Job>): ReadonlyArray<Notice> => {
    const jobs = new Set(claimed.filter((job) => job.noticed).map((job) => job.process.id))
    const taken = owner.notices.take((id) => jobs.has(id) || !owner.jobs.has(id))
    for (const job of claimed) job.noticed = false
    // What another runtime has taken over, it tells of.
    const told = taken.filter((notice) => notice._tag === "Summary" || owner.jobs.get(notice.id)?.row.lost !== true)
    if (taken.length > 0) host.fork(evict(owner))
    return told
  }

  const drain = (owner: Owner): Effect.Effect<ReadonlyArray<Notice>> =>
    Effect.map(claim(owner, (status) => ({ offered: status, told: status })), (jobs) => {
      const notices = hand(owner, jobs)
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
  const offer = (name: string): Effect.Effect<readonly [Owner, ReadonlyArray<Job>]> =>
    Effect.suspend(() => {
      const owner = owners.of(name)
      if (owner.notices.size === 0 && !closed) return Effect.flatMap(anyNotice(owner), () => offer(name))
      return Effect.map(claim(owner, (status) => ({ offered: status })), (jobs) => [owner, jobs] as const)
    })

  const consume: Notices["consume"] = (name, use) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        let notices: ReadonlyArray<Notice> = []
        let jobs: ReadonlyArray<Job> = []
        while (notices.length === 0) {
          const [owner, claimed] = yield* restore(offer(name))
          jobs = claimed.filter((job) => job.noticed)
          notices = hand(owner, claimed)
          if (closed) break
        }
        for (const job of jobs) job.offering = true
        const exit = yield* Effect.exit(restore(use(notices)))
        for (const job of jobs) job.offering = false
        const owner = owners.of(name)
        if (exit._tag === "Success") {
          yield* Effect.forEach(jobs, (job) => rows.note(job, { told: Lifecycle.statusOf(job.process.state) }), {
            concurrency: "unbounded",
            discard: true
          })
          host.fork(evict(owner))
        } else {
          for (const job of jobs) {
            job.noticed = true
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
      job.noticed = true
      owner.notices.add(noticeOf(owner, job, tail))
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
