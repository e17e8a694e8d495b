/**
 * The notices that owners were handed, and whether each was handed as often as it may be.
 */
import * as Status from "@procyon/runtime/domain/Status"
import type { Notice } from "@procyon/runtime/services/JobNotice"
import type { Rule } from "./Outcome.ts"

interface Delivered {
  readonly statuses: Array<Status.Status>
  /** Ids of notices that somebody has taken for good. */
  readonly taken: Set<string>
  readonly seen: Set<string>
}

export class Deliveries {
  readonly #jobs = new Map<string, Delivered>()
  readonly #tell: (rule: Rule, detail: string) => void
  /** Of whose notices nothing is known any more: taken by a life that was killed before it could say so. */
  uncertain = false

  constructor(tell: (rule: Rule, detail: string) => void) {
    this.#tell = tell
  }

  /** `taken`: they were not refused. `certain`: that could be recorded. */
  add(
    notices: ReadonlyArray<Notice>,
    { certain, taken }: { readonly taken: boolean; readonly certain: boolean }
  ): void {
    for (const notice of notices) {
      if (notice._tag !== "Job") continue
      const { id, noticeId, repeated, status } = notice
      const job = this.#of(id)
      if (job.seen.has(noticeId) && !repeated && certain) this.#tell("notice", `${noticeId} came twice`)
      if (job.taken.has(noticeId) && certain) this.#tell("notice", `${noticeId} came again after it was taken`)
      if (!job.seen.has(noticeId)) {
        if (certain && Status.isSettled(job.statuses.at(-1) ?? "running")) {
          this.#tell("notice", `${id} is told of as ${status} after ${job.statuses.join(" ")}`)
        }
        job.statuses.push(status)
      }
      job.seen.add(noticeId)
      if (taken) job.taken.add(noticeId)
    }
  }

  /** Whether its end was told of. */
  isTold(id: string): boolean {
    return Status.isSettled(this.#of(id).statuses.at(-1) ?? "running")
  }

  #of(id: string): Delivered {
    const known = this.#jobs.get(id)
    if (known !== undefined) return known
    const fresh: Delivered = { statuses: [], taken: new Set(), seen: new Set() }
    this.#jobs.set(id, fresh)
    return fresh
  }
}
