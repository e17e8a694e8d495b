/**
 * Who has which jobs. An owner is known while there is something of it: a job, a notice, or somebody who listens.
 */
import * as Effect from "effect/Effect"
import type { Status } from "../../domain/Status.ts"
import type { EventRing } from "../../internal/EventRing.ts"
import type { Lifetime } from "../../ports/ProcessLedger.ts"
import type { OwnedProcess } from "../host/OwnedProcess.ts"
import type { Event } from "../JobEvent.ts"
import { NoticeQueue } from "../JobNotice.ts"
import { ProcessNotFound } from "./JobErrors.ts"
import { Row } from "./Rows.ts"

export class Job {
  readonly process: OwnedProcess
  readonly name: string | null
  readonly lifetime: Lifetime
  readonly row: Row = new Row()
  /** Somebody has been told its id, so that it has to stay listed, and to be told of when it ends. */
  announced = false
  /** Its start has failed, which whoever asked for it is told by the answer, and nobody by a notice. */
  refused = false
  /** It was told of as one that could not be ended. */
  unresolved = false
  /** It is settled, and everybody who had to be told has been. */
  concluded = false
  /** The status of its last notice, when that is waiting to be taken. */
  noticed: Status | null = null
  /** The last status whose notice was taken in this life. */
  told: Status | null = null
  /** So many have a notice of it and have not said yet that it was seen. */
  offering = 0
  /** Its notice was handed out before, in this life or an earlier one, and nobody has said that it was seen. */
  offered = false
  reportedBytes = 0

  constructor(process: OwnedProcess, name: string | null, lifetime: Lifetime) {
    this.process = process
    this.name = name
    this.lifetime = lifetime
  }

  get isSettled(): boolean {
    return this.process.state._tag === "Settled"
  }
}

/** Creation order, of two jobs. */
export const byCreation = (self: Job, that: Job): number => self.process.id < that.process.id ? -1 : 1

export class Owner {
  readonly name: string
  /** In the order they came: those of earlier lives may come late. */
  readonly jobs = new Map<string, Job>()
  readonly notices: NoticeQueue
  readonly subscribers = new Set<EventRing<Event>>()
  /** Who waits for a notice. */
  readonly waiting = new Set<() => void>()

  constructor(name: string, maxNotices: number) {
    this.name = name
    this.notices = new NoticeQueue(maxNotices)
  }

  get running(): number {
    let count = 0
    for (const job of this.jobs.values()) if (!job.isSettled) count++
    return count
  }

  /** The job that is not settled and has this name. */
  named(name: string): Job | undefined {
    for (const job of this.jobs.values()) if (job.name === name && !job.isSettled) return job
    return undefined
  }
}

export class Owners {
  readonly #maxNotices: number
  readonly #owners = new Map<string, Owner>()

  constructor(maxNotices: number) {
    this.#maxNotices = maxNotices
  }

  /** Those of whom there is something. */
  get all(): ReadonlyArray<Owner> {
    return [...this.#owners.values()]
  }

  known(name: string): Owner | undefined {
    return this.#owners.get(name)
  }

  /** Made known when it is not yet: whoever asks has to leave something with it, or `tidy`. */
  of(name: string): Owner {
    let owner = this.#owners.get(name)
    if (owner === undefined) {
      owner = new Owner(name, this.#maxNotices)
      this.#owners.set(name, owner)
    }
    return owner
  }

  /** The one way to a job: an id of somebody else and an id of nobody take it alike. */
  find(owner: string, id: string): Effect.Effect<Job, ProcessNotFound> {
    return Effect.suspend(() => {
      const job = this.#owners.get(owner)?.jobs.get(id)
      return job === undefined ? Effect.fail(new ProcessNotFound({ id })) : Effect.succeed(job)
    })
  }

  /** Forgets an owner of whom nothing is left. */
  tidy(owner: Owner): void {
    const { jobs, name, notices, subscribers, waiting } = owner
    const isEmpty = jobs.size === 0 && notices.size === 0 && subscribers.size === 0 && waiting.size === 0
    // A new owner may have the name by now.
    if (isEmpty && this.#owners.get(name) === owner) this.#owners.delete(name)
  }
}
