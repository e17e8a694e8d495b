/**
 * What others see of a process: a snapshot of it, as data.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Lifecycle from "../domain/Lifecycle.ts"
import * as Status from "../domain/Status.ts"
import type { OwnedProcess } from "./host/OwnedProcess.ts"
import { Metadata, type Page, type View } from "./OutputRetention.ts"

/**
 * What is known of a process now.
 *
 * - `command`: the executable's base name. `display`: redacted, one line, for its owner only.
 * - `startedAt`, `endedAt`, `deadlineAt`: epoch milliseconds on the wall clock. `deadlineAskedMillis` and
 *   `deadlineMillis`: what was asked for, and what was granted where the runtime has a cap.
 * - `output`: of stdout, or of both where they are merged; `stderr` is `null` then.
 * - `stdinAccepted`: bytes that stdin has taken.
 * - `receipt`: how it ended; `null` while it runs.
 */
export const Info = Schema.Struct({
  id: Schema.String,
  title: Schema.NullOr(Schema.String),
  command: Schema.String,
  display: Schema.String,
  status: Status.Status,
  phase: Status.Phase,
  startedAt: Schema.Finite,
  endedAt: Schema.NullOr(Schema.Finite),
  deadlineAskedMillis: Schema.NullOr(Schema.Finite),
  deadlineMillis: Schema.NullOr(Schema.Finite),
  deadlineAt: Schema.NullOr(Schema.Finite),
  exit: Schema.NullOr(Status.Exit),
  stdinAccepted: Schema.Natural,
  output: Metadata,
  stderr: Schema.NullOr(Metadata),
  error: Schema.NullOr(Schema.String),
  receipt: Schema.NullOr(Status.TerminationResult)
})
export interface Info extends Schema.Schema.Type<typeof Info> {}

/** The process as it is now. */
export const infoOf = (process: OwnedProcess): Info => ({
  id: process.id,
  title: process.policy.title,
  command: process.summary.name,
  display: process.display,
  status: Lifecycle.statusOf(process.state),
  phase: Lifecycle.phaseOf(process.state),
  startedAt: process.startedAt,
  endedAt: process.endedAt,
  deadlineAskedMillis: process.deadlineAskedMillis,
  deadlineMillis: process.deadlineMillis,
  deadlineAt: process.deadlineAt,
  exit: Lifecycle.exitOf(process.state),
  stdinAccepted: process.stdinAccepted,
  output: process.stdout.metadata(),
  stderr: process.stderr?.metadata() ?? null,
  error: process.receipt?.error ?? null,
  receipt: process.receipt
})

const nothing = <A>(data: A): Page<A> => ({ data, since: 0, next: 0, gap: null, sealed: true })

const noMetadata: Metadata = {
  bytesSeen: 0,
  bytesRetained: 0,
  truncated: false,
  sealed: true,
  drained: true,
  sha256: null,
  blob: null,
  spill: "none",
  spilledBytes: 0,
  capped: false,
  gap: null
}

const emptyView: View = {
  metadata: Effect.succeed(noMetadata),
  preview: Effect.succeed(""),
  read: () => Effect.succeed(nothing("")),
  readBytes: () => Effect.succeed(nothing(new Uint8Array(0))),
  follow: () => Stream.empty,
  followBytes: () => Stream.empty
}

/** Stderr; empty where it is merged into the output. */
export const stderrOf = (process: OwnedProcess): View => process.stderr?.view ?? emptyView
