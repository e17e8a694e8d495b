/**
 * What happens to jobs, as it happens: for observers and streams. Holds ids, statuses and counts, and no output.
 */
import * as Schema from "effect/Schema"
import { Exit, Status } from "../domain/Status.ts"

const job = { id: Schema.String, owner: Schema.String }

/**
 * An event of a job. Of one that could not be ended, `KillFailed` tells so, and `Resolved` when it is shown to be gone
 * later. `Adopted`: it was taken over from a runtime that is gone. `Disowned`: another runtime has taken it over from this
 * one, which tells nothing more of it.
 */
export const Event = Schema.TaggedUnion({
  Started: job,
  /** There was output since the last beat. */
  Progress: { ...job, bytesSeen: Schema.Natural },
  /** `idleMillis`: since the last byte of output. */
  Heartbeat: { ...job, elapsedMillis: Schema.Finite, idleMillis: Schema.Finite, bytesSeen: Schema.Natural },
  Draining: job,
  Terminating: job,
  /** The leader is over; the job is not. */
  Exited: { ...job, exit: Exit },
  /** The job is settled: its output is sealed and its row is written. Nothing comes after it. */
  Ended: { ...job, status: Status },
  KillFailed: { ...job, survivorCount: Schema.Natural },
  /** A job that could not be ended is shown to be gone, and has settled. */
  Resolved: { ...job, status: Status },
  Adopted: job,
  Disowned: job,
  /** The subscriber was too slow for this many events. */
  Missed: { count: Schema.Natural }
})
export type Event = typeof Event.Type
