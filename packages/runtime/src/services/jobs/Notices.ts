/**
 * Gives owners their notices, each exactly once, and keeps the records of ended jobs within bounds: what an owner was
 * told of may go, oldest first.
 */
import * as Effect from "effect/Effect"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import * as Status from "../../domain/Status.ts"
import type { Notice } from "../JobNotice.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import type { Job, Owner, Owners } from "./Owners.ts"
import type { Rows } from "./Rows.ts"

export interface Notices {
  /** Adds the notice of a job that ended or could not be ended. */
  readonly add: (owner: Owner, job: Job) => void
  /** Those that nobody has taken; they are taken now. */
  readonly take: (owner: string) => Effect.Effect<ReadonlyArray<Notice>>
  /** The same, waiting for one. Answers with none only when the runtime is closed, and none will come. */
  readonly await: (owner: string) => Effect.Effect<ReadonlyArray<Notice>>
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

  const noticeOf = (owner: Owner, { process }: Job): Notice => {
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
      durationMillis: Math.round(timers.now() - process.startedMono),
      bytesSeen: process.bytesSeen,
      tail: process.stdout.tail(settings.noticeTailBytes)
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
      return Effect.andThen(host.forget(job.process), rows.remove(job))
    })

  const evict: Notices["evict"] = (owner) =>
    Effect.suspend(() => {
      const finished = [...owner.jobs.values()].filter((job) => job.concluded && job.row.missed === null)
      const excess = settings.maxFinishedPerOwner === 0 ? 0 : finished.length - settings.maxFinishedPerOwner
      const going = excess <= 0 ? [] : finished.filter((job) => !job.noticed).slice(0, excess)
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
      owner.notices.drain()
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

  const drain = (owner: Owner): ReadonlyArray<Notice> => {
    const notices = owner.notices.drain()
    // A summary tells of those it stands for too.
    for (const job of owner.jobs.values()) job.noticed = false
    if (notices.length > 0) host.fork(evict(owner))
    owners.tidy(owner)
    return notices
  }

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
      if (owner.notices.size > 0 || closed) return Effect.succeed(drain(owner))
      return Effect.flatMap(anyNotice(owner), () => awaitAny(name))
    })

  return {
    add: (owner, job) => {
      job.noticed = true
      owner.notices.add(noticeOf(owner, job))
      wake(owner)
    },
    take: (name) =>
      Effect.sync(() => {
        const owner = owners.known(name)
        return owner === undefined ? [] : drain(owner)
      }),
    await: awaitAny,
    evict,
    keepRetired,
    drop,
    close: () => {
      closed = true
      for (const owner of owners.all) wake(owner)
    }
  }
}
