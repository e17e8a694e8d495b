/**
 * Who may start a job: everything that can be refused is refused here, before anything is started.
 */
import * as Result from "effect/Result"
import * as CommandSpec from "../../domain/CommandSpec.ts"
import { InvalidCommand } from "../../domain/InvalidCommand.ts"
import type { Lifetime } from "../../ports/ProcessLedger.ts"
import { RuntimeClosed } from "../AppProcess.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import type * as ProcessOptions from "../ProcessOptions.ts"
import { oneOf, resolve as resolveOptions } from "../ProcessOptions.ts"
import { enter } from "../workspaces/entering.ts"
import { DetachedUnsupported, OwnerRetired, ProcessAlreadyExists, StartError, TooManyJobs } from "./JobErrors.ts"
import { Job, type Owner, type Owners } from "./Owners.ts"

/**
 * - `name`: the caller's own handle for the job, unique among the owner's jobs that are not settled.
 * - `onExisting`: what a taken name does: `fail` (default), or `join`, which answers with the job that has it.
 * - `lifetime`: `session` (default) ends with its owner, `application` with the runtime, `detached` with neither.
 *
 * Streams are `merged` by default.
 */
export interface StartOptions extends ProcessOptions.Options {
  readonly name?: string | undefined
  readonly onExisting?: "fail" | "join" | undefined
  readonly lifetime?: Lifetime | undefined
}

export interface Admitted {
  readonly owner: Owner
  readonly job: Job
  /** It was there already. */
  readonly joined: boolean
}

export interface Admission {
  /** The place among the running jobs is taken in the same step as it is checked. */
  readonly admit: (
    owner: string,
    input: CommandSpec.Input,
    options: StartOptions
  ) => Result.Result<Admitted, StartError>
  /** From here on the owner starts nothing. */
  readonly retire: (owner: string) => void
}

/** `detached`: whether jobs can be started that outlive the runtime. */
export const make = (
  host: Pick<ProcessHost, "admit" | "settings" | "workspaces">,
  owners: Owners,
  can: { readonly detached: boolean }
): Admission => {
  const { settings } = host
  /** A retired owner stays so while the runtime lives, whatever else is forgotten of it. */
  const retired = new Set<string>()

  /** Nobody is there to write to it in the end. */
  const checkDetached = (command: CommandSpec.CommandSpec): Result.Result<void, StartError["reason"]> => {
    if (!can.detached) return Result.fail(new DetachedUnsupported())
    return (command.options.stdin ?? "none") === "none"
      ? Result.void
      : Result.fail(new InvalidCommand({ where: "stdin", problem: "Unsupported" }))
  }

  const admit: Admission["admit"] = (name, input, options) =>
    Result.gen(function*() {
      const refused = (command: string) => (reason: StartError["reason"]) => new StartError({ command, reason })
      const command = yield* Result.mapError(CommandSpec.resolve(input), refused("command"))
      const because = refused(CommandSpec.summary(command).name)
      const policy = yield* Result.mapError(resolveOptions(command, options, settings, "merged"), because)
      const lifetime = yield* Result.mapError(
        oneOf<Lifetime>("lifetime", options.lifetime, ["session", "application", "detached"], "session"),
        because
      )
      const onExisting = yield* Result.mapError(
        oneOf("onExisting", options.onExisting, ["fail", "join"], "fail"),
        because
      )
      if (lifetime === "detached") yield* Result.mapError(checkDetached(command), because)
      if (retired.has(name)) return yield* Result.fail(because(new OwnerRetired()))
      const known = owners.known(name)
      const existing = options.name === undefined ? undefined : known?.named(options.name)
      if (known !== undefined && existing !== undefined) {
        return onExisting === "join"
          ? { owner: known, job: existing, joined: true }
          : yield* Result.fail(because(new ProcessAlreadyExists({ id: existing.process.id })))
      }
      const limit = settings.maxRunningPerOwner
      if (limit > 0 && (known?.running ?? 0) >= limit) return yield* Result.fail(because(new TooManyJobs({ limit })))
      const entered = yield* Result.mapError(enter(host, command, policy, options.workspace), because)
      const process = host.admit(entered.command, policy, {
        detached: lifetime === "detached",
        workspace: entered.workspace
      })
      if (process === null) return yield* Result.fail(because(new RuntimeClosed()))
      const owner = owners.of(name)
      const job = new Job(process, options.name ?? null, lifetime)
      process.owner = name
      owner.jobs.set(process.id, job)
      return { owner, job, joined: false }
    })

  return {
    admit,
    retire: (owner) => {
      retired.add(owner)
    }
  }
}
