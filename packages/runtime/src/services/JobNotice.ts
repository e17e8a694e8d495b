/**
 * What an owner is told of its ended jobs: one notice a terminal state, in order, drained exactly once.
 */
import * as Schema from "effect/Schema"
import { Exit, Status } from "../domain/Status.ts"

/**
 * - `Job`: it ended, or could not be ended (`kill_failed`); a job that was `kill_failed` and settled later has two.
 *   `display` is redacted and for the owner only. `tail`: the last output, cut at a character border. `exitCode`: -1
 *   when a signal ended it or nobody saw it end.
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
    tail: Schema.String
  },
  Summary: { dropped: Schema.Natural }
})
export type Notice = typeof Notice.Type

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
    while (this.#notices.length > this.#capacity) {
      this.#notices.shift()
      this.#dropped++
    }
  }

  /** All of them, the summary first. They are gone from here. */
  drain(): ReadonlyArray<Notice> {
    const notices = this.#notices
    this.#notices = []
    if (this.#dropped === 0) return notices
    const dropped = this.#dropped
    this.#dropped = 0
    return [{ _tag: "Summary", dropped }, ...notices]
  }
}
