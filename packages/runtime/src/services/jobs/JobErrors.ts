/**
 * Why a job could not be found or started.
 */
import * as Schema from "effect/Schema"
import { InvalidCommand } from "../../domain/InvalidCommand.ts"
import { SpawnFailed } from "../../ports/ProcessDriver.ts"
import { RuntimeClosed, StartWithdrawn } from "../AppProcess.ts"
import { WorkspaceReleased } from "../workspaces/OwnedWorkspace.ts"

/** No such job of this owner: unknown, forgotten and somebody else's are the same, and told the same way. */
export class ProcessNotFound extends Schema.TaggedError<ProcessNotFound>()("ProcessNotFound", { id: Schema.String }) {
  override get message(): string {
    return `no job ${this.id}`
  }
}

/** The output of a job of an earlier life that was kept nowhere: neither in a blob nor in a file. */
export class OutputUnavailable
  extends Schema.TaggedError<OutputUnavailable>()("OutputUnavailable", { id: Schema.String })
{
  override get message(): string {
    return `the output of job ${this.id} was not kept`
  }
}

/** The owner has `limit` jobs that are not settled. */
export class TooManyJobs extends Schema.TaggedError<TooManyJobs>()("TooManyJobs", { limit: Schema.Natural }) {
  override get message(): string {
    return `at most ${this.limit} running jobs`
  }
}

/** The name is taken by a job that is not settled, whose id this is. Nothing was started. */
export class ProcessAlreadyExists
  extends Schema.TaggedError<ProcessAlreadyExists>()("ProcessAlreadyExists", { id: Schema.String })
{
  override get message(): string {
    return `job ${this.id} has this name`
  }
}

/** The owner was retired, and starts nothing any more. */
export class OwnerRetired extends Schema.TaggedError<OwnerRetired>()("OwnerRetired", {}) {
  override get message(): string {
    return "the owner was retired"
  }
}

/** A detached job needs a ledger that outlives the runtime, and this one does not. */
export class DetachedUnsupported extends Schema.TaggedError<DetachedUnsupported>()("DetachedUnsupported", {}) {
  override get message(): string {
    return "a detached job needs a durable ledger"
  }
}

/** The job could not be recorded, so it was not started. */
export class NotRecorded extends Schema.TaggedError<NotRecorded>()("NotRecorded", {}) {
  override get message(): string {
    return "the job could not be recorded"
  }
}

/** Nothing was started, and why. `command` is the executable's base name. */
export class StartError extends Schema.TaggedError<StartError>()("StartError", {
  command: Schema.String,
  reason: Schema.Union([
    InvalidCommand,
    SpawnFailed,
    RuntimeClosed,
    StartWithdrawn,
    TooManyJobs,
    ProcessAlreadyExists,
    OwnerRetired,
    DetachedUnsupported,
    NotRecorded,
    WorkspaceReleased
  ])
}) {
  override get message(): string {
    return `${this.command}: ${this.reason.message}`
  }
}
