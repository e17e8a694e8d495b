/**
 * What an owner is told of its ended jobs: one notice a terminal state, in order, drained exactly once.
 */
import * as Schema from "effect/Schema"
import { Exit, Status } from "../domain/Status.ts"

/**
 * - `Job`: it ended, or could not be ended (`kill_failed`); a job that was `kill_failed` and settled later has two.
 *   `display` is redacted and for the owner only. `tail`: the last output, cut at a character border. `exitCode`: -1
 *   when a signal ended it or nobody saw it end. `repeated`: it was handed out before, and whoever took it has not said
 *   that it was seen, or could not: it may be news, or not.
 * - `Summary`: so many notices were dropped for being too many, oldest first.
 */
export const Notice = Schema.TaggedUnion({
  Job: {
    /** Of the notice itself: a receiver that sees it twice knows it by this. */
    noticeId: Schema.String,
    id: Schema.String,
    owner: Schema.String,
    title: Schema.NullOr(Schema.String),
    display: Schema.String,
    status: Status,
    exit: Schema.NullOr(Exit),
    exitCode: Schema.Int,
    durationMillis: Schema.Finite,
    bytesSeen: Schema.Natural,
    tail: Schema.String,
    repeated: Schema.Boolean
  },
  Summary: { dropped: Schema.Natural }
})
export type Notice = typeof Notice.Type

/** That of one job. */
export type JobNotice = Extract<Notice, { readonly _tag: "Job" }>

/** An owner's notices that nobody has taken. Past `capacity` the oldest become one counted summary. */
export class NoticeQueue {
  readonly #capacity: number
  #notices: Array<Notice> = []
  #dropped = 0

  constructor(capacity: number) {
    this.#capacity = Math.max(1, capacity)
  }

  get size(): number {
    return this.#notices.length + (this.#dropped > 0 ? 1 : 0)
  }

  add(notice: Notice): void {
    this.#notices.push(notice)
    this.#trim()
  }

  /** Those that are wanted, in order, the summary first. They are gone from here. */
  take(isWanted: (notice: JobNotice) => boolean): ReadonlyArray<Notice> {
    const taken = this.#notices.filter((notice) => notice._tag === "Summary" || isWanted(notice))
    this.#notices = this.#notices.filter((notice) => !taken.includes(notice))
    if (this.#dropped === 0) return taken
    const dropped = this.#dropped
    this.#dropped = 0
    return [{ _tag: "Summary", dropped }, ...taken]
  }

  /** Puts notices back that were taken and not seen: they come first again. */
  putBack(notices: ReadonlyArray<Notice>): void {
    for (const notice of notices) if (notice._tag === "Summary") this.#dropped += notice.dropped
    this.#notices = [
      ...notices.flatMap((notice) => notice._tag === "Job" ? [{ ...notice, repeated: true }] : []),
      ...this.#notices
    ]
    this.#trim()
  }

  /** Forgets those of a job. */
  remove(id: string): void {
    this.#notices = this.#notices.filter((notice) => notice._tag === "Summary" || notice.id !== id)
  }

  /** Forgets all of them. */
  clear(): void {
    this.#notices = []
    this.#dropped = 0
  }

  #trim(): void {
    while (this.#notices.length > this.#capacity) {
      this.#notices.shift()
      this.#dropped++
    }
  }
}
