/**
 * Foreground processes of an application: started in a scope, owned by it, and gone with it.
 *
 * `spawn` gives a `Handle`, whose scope's end is the barrier draining, terminate, flush, settle; `run` starts, waits and
 * answers with a bounded result. Not for work that outlives the fiber that began it: that is `BackgroundProcess`.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as CommandSpec from "../domain/CommandSpec.ts"
import { InvalidCommand } from "../domain/InvalidCommand.ts"
import * as Status from "../domain/Status.ts"
import { spanned } from "../internal/Spanned.ts"
import { SpawnFailed } from "../ports/ProcessDriver.ts"
import { WorkspaceError } from "../ports/WorkspaceStore.ts"
import { retentionsOf } from "./host/Core.ts"
import { type OwnedProcess, receiptOf as currentReceipt } from "./host/OwnedProcess.ts"
import { StdinClosed, writeAll } from "./host/Stdin.ts"
import type { View } from "./OutputRetention.ts"
import * as ProcessHost from "./ProcessHost.ts"
import { Info, infoOf, stderrOf } from "./ProcessInfo.ts"
import type * as ProcessOptions from "./ProcessOptions.ts"
import { resolve as resolveOptions } from "./ProcessOptions.ts"
import * as ShutdownBarrier from "./ShutdownBarrier.ts"
import { enter } from "./workspaces/entering.ts"
import { WorkspaceReleased } from "./workspaces/OwnedWorkspace.ts"

export { Info, StdinClosed }
export type { Page, ReadOptions, View } from "./OutputRetention.ts"
export type { Options, OutputOptions } from "./ProcessOptions.ts"

/** The runtime is shutting down or closed, so nothing is started. */
export class RuntimeClosed extends Schema.TaggedError<RuntimeClosed>()("RuntimeClosed", {}) {
  override get message(): string {
    return "the runtime is shutting down"
  }
}

/** The start was taken back before anything ran: its scope was closed, or it was stopped meanwhile. */
export class StartWithdrawn extends Schema.TaggedError<StartWithdrawn>()("StartWithdrawn", {}) {
  override get message(): string {
    return "the start was withdrawn"
  }
}

/**
 * Nothing was started, and why. `command` is the executable's base name. What happens after a start is an outcome, never
 * this error.
 */
export class SpawnError extends Schema.TaggedError<SpawnError>()("SpawnError", {
  command: Schema.String,
  reason: Schema.Union([InvalidCommand, SpawnFailed, RuntimeClosed, StartWithdrawn, WorkspaceReleased, WorkspaceError])
}) {
  override get message(): string {
    return `${this.command}: ${this.reason.message}`
  }
}

/** A command ended otherwise than `completed`. Only from `requireSuccess`. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  id: Schema.String,
  command: Schema.String,
  result: Status.TerminationResult
}) {
  override get message(): string {
    return `${this.command}: ${this.result.status}${this.result.error === null ? "" : `, ${this.result.error}`}`
  }
}

/** A process could not be shown to be gone when its bracket ended. Only from `use`. */
export class KillFailed extends Schema.TaggedError<KillFailed>()("KillFailed", {
  id: Schema.String,
  result: Status.TerminationResult
}) {
  override get message(): string {
    return `${this.id}: ${this.result.survivorCount} of its tree could not be ended`
  }
}

/**
 * A process, owned by the scope it was spawned in. Every member stays usable after that scope and the runtime are
 * closed, and then tells how it ended. A handle is never rebuilt.
 */
export interface Handle {
  /** Its name in this library; never a pid. */
  readonly id: string
  /** The process as it is now. */
  readonly info: Effect.Effect<Info>
  /**
   * Stdout, or both streams where they are merged. What memory holds of it outlives scope and runtime; a blob is removed
   * when the runtime closes, since nothing would tell of it any more.
   */
  readonly output: View
  /** Stderr; empty and sealed where the streams are merged. */
  readonly stderr: View
  /**
   * Waits until the pipe has taken all of it. Interruption ends the wait; what was taken stays taken. Refused from
   * draining on.
   */
  readonly write: (data: string | Uint8Array) => Effect.Effect<void, StdinClosed>
  /** The child reads an end of file after what was written. Bounded: what a full pipe does not take in time is dropped. */
  readonly closeStdin: Effect.Effect<void>
  /** Goes on with a spill that failed. `false`: nothing to go on with, or it failed again. */
  readonly retrySpill: Effect.Effect<boolean>
  /** The leader's exit; its tree may still be ending. `null` when there was none: the start was withdrawn. */
  readonly exit: Effect.Effect<Status.Exit | null>
  /** How it ended, verified. Waits, changes nothing, never fails. */
  readonly termination: Effect.Effect<Status.TerminationResult>
  /**
   * Ends the tree and waits for the proof. Idempotent: a second call joins; of a finished process it changes nothing; of
   * one that is `kill_failed` it is the retry. `now` skips the grace. Interruption ends only the wait.
   */
  readonly terminate: (options?: { readonly now?: boolean | undefined }) => Effect.Effect<Status.TerminationResult>
}

/** `stdout` and `stderr` are bounded previews; `output` and `errorOutput` read all that is kept. */
export interface RunResult {
  readonly info: Info
  readonly termination: Status.TerminationResult
  readonly stdout: string
  readonly stderr: string
  readonly output: View
  readonly errorOutput: View
}

/** What an application asks for to run processes inside its own scopes. */
export interface AppProcess {
  /**
   * Starts a process that the scope owns: closing it ends the tree, waits for the proof (bounded by grace and force
   * window), flushes and settles. Interrupted, nothing of it is left. Streams are `separate` by default.
   */
  readonly spawn: (
    command: CommandSpec.Input,
    options?: ProcessOptions.Options
  ) => Effect.Effect<Handle, SpawnError, Scope.Scope>
  /**
   * Starts a command, waits for its end and answers with what came of it; a non-zero exit is a value. Interrupting it
   * ends the tree first.
   */
  readonly run: (command: CommandSpec.Input, options?: ProcessOptions.Options) => Effect.Effect<RunResult, SpawnError>
  /** Those that are not settled, in the order of their starts. */
  readonly list: Effect.Effect<ReadonlyArray<Info>>
}

/** The foreground processes of the runtime. `ProcessRuntime.layer` gives it. */
class AppProcessService extends Context.Service<AppProcessService, AppProcess>()("@procyon/runtime/AppProcess") {}
export { AppProcessService as Service }

/** Waits until the process has ended or is reported as `kill_failed`, and tells the receipt. */
const receiptOf = (host: ProcessHost.ProcessHost, process: OwnedProcess): Effect.Effect<Status.TerminationResult> =>
  Effect.map(Deferred.await(process.ended), () => process.receipt ?? currentReceipt(process, host.timers.now()))

const terminate = (
  host: ProcessHost.ProcessHost,
  process: OwnedProcess,
  cause: Status.Cause,
  now: boolean
): Effect.Effect<Status.TerminationResult> =>
  Effect.suspend(() => {
    if (process.state._tag === "Unresolved") {
      return Effect.andThen(host.retry(process), receiptOf(host, process))
    }
    host.end(process, cause, now)
    return receiptOf(host, process)
  })

class ProcessHandle implements Handle {
  readonly #host: ProcessHost.ProcessHost
  readonly #process: OwnedProcess

  constructor(host: ProcessHost.ProcessHost, process: OwnedProcess) {
    this.#host = host
    this.#process = process
  }
  get id(): string {
    return this.#process.id
  }
  get info(): Effect.Effect<Info> {
    return Effect.sync(() => infoOf(this.#process))
  }
  get output(): View {
    return this.#process.stdout.view
  }
  get stderr(): View {
    return stderrOf(this.#process)
  }
  write(data: string | Uint8Array): Effect.Effect<void, StdinClosed> {
    return writeAll(this.#host, this.#process, data)
  }
  get closeStdin(): Effect.Effect<void> {
    return this.#host.closeStdin(this.#process)
  }
  get retrySpill(): Effect.Effect<boolean> {
    return this.#host.retrySpill(this.#process)
  }
  get exit(): Effect.Effect<Status.Exit | null> {
    return Deferred.await(this.#process.exited)
  }
  get termination(): Effect.Effect<Status.TerminationResult> {
    return receiptOf(this.#host, this.#process)
  }
  terminate(options?: { readonly now?: boolean | undefined }): Effect.Effect<Status.TerminationResult> {
    return terminate(this.#host, this.#process, { _tag: "Stop", by: "owner" }, options?.now ?? false)
  }
}

const unnamed = "command"

const make = Effect.gen(function*() {
  const host = yield* ProcessHost.Service
  const barrier = yield* ShutdownBarrier.Service
  /** Those started here, so that `list` shows no jobs of owners. */
  const own = new WeakSet<OwnedProcess>()
  /** Whose blobs are to go: no row tells of them, so nobody could find them once the runtime is gone. */
  const spilled: Array<string> = []

  const settled = (process: OwnedProcess): Effect.Effect<void> =>
    Effect.sync(() => {
      process.workspace?.leave(process)
      for (const retention of retentionsOf(process)) {
        // One that failed may be gone on with.
        if (retention.metadata().spill !== "none") spilled.push(retention.name)
      }
    })

  const admit = (
    input: CommandSpec.Input,
    options: ProcessOptions.Options
  ): Result.Result<OwnedProcess, SpawnError> =>
    Result.gen(function*() {
      const command = yield* Result.mapError(
        CommandSpec.resolve(input),
        (reason) => new SpawnError({ command: unnamed, reason })
      )
      const { name } = CommandSpec.summary(command)
      const policy = yield* Result.mapError(
        resolveOptions(command, options, host.settings, "separate"),
        (reason) => new SpawnError({ command: name, reason })
      )
      const { workspace, ...entered } = yield* Result.mapError(
        enter(host, command, policy, options.workspace),
        (reason) => new SpawnError({ command: name, reason })
      )
      const process = host.admit(entered.command, policy, { workspace })
      if (process === null) return yield* Result.fail(new SpawnError({ command: name, reason: new RuntimeClosed() }))
      own.add(process)
      process.hooks = { beforeSpawn: workspace?.recordGuests, onSettled: settled(process) }
      return process
    })

  /** Why a start ended with nothing started and no failure of the driver's. */
  const withdrawal = ({ state }: OwnedProcess): SpawnError["reason"] => {
    if (host.draining()) return new RuntimeClosed()
    return state._tag === "Settled" && state.cause._tag === "StartFailed"
      ? new WorkspaceError({ operation: "record", problem: "NotRecorded", refusal: null })
      : new StartWithdrawn()
  }

  /** The driver's answer as the caller sees it. */
  const awaitStart = (process: OwnedProcess): Effect.Effect<void, SpawnError> =>
    Deferred.await(process.started).pipe(
      Effect.mapError((reason) => new SpawnError({ command: process.summary.name, reason })),
      Effect.flatMap((started) =>
        started ? Effect.void : Effect.fail(
          new SpawnError({
            command: process.summary.name,
            reason: withdrawal(process)
          })
        )
      )
    )

  /**
   * The record and its finalizer come first, and the driver is asked from a fiber of the runtime: nothing is started
   * that no finalizer knows, and an interruption cannot fall between the start and the record.
   */
  const spawn: AppProcess["spawn"] = (command, options = {}) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const process = yield* Effect.fromResult(admit(command, options))
        yield* Effect.addFinalizer(() => endScope(process))
        host.start(process)
        // Nobody will ever hold the handle of a start that was interrupted.
        yield* Effect.onInterrupt(restore(awaitStart(process)), () => endScope(process))
        return new ProcessHandle(host, process)
      })
    )

  const endScope = (process: OwnedProcess) => terminate(host, process, { _tag: "Scope" }, false)

  /** Has no scope: of what could not be ended, one answer is due, and no second attempt at once. */
  const run: AppProcess["run"] = (command, options = {}) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const process = yield* Effect.fromResult(admit(command, options))
        host.start(process)
        const ended = Effect.andThen(awaitStart(process), receiptOf(host, process))
        const termination = yield* Effect.onInterrupt(restore(ended), () => endScope(process))
        const handle = new ProcessHandle(host, process)
        return {
          info: infoOf(process),
          termination,
          stdout: yield* handle.output.preview,
          stderr: yield* handle.stderr.preview,
          output: handle.output,
          errorOutput: handle.stderr
        }
      })
    )

  yield* Effect.addFinalizer(() => Effect.forEach(spilled, host.removeBlobs, { concurrency: 16, discard: true }))
  // Whoever closes this layer alone, closes the runtime: both run the one barrier.
  yield* Effect.addFinalizer(() => barrier.shutdown())

  return AppProcessService.of({
    spawn: (command, options) => spanned("AppProcess.spawn", spawn(command, options)),
    run: (command, options) => spanned("AppProcess.run", run(command, options)),
    list: Effect.sync(() => [...host.live].filter((process) => own.has(process)).map((process) => infoOf(process)))
  })
})

/** Closing it runs the barrier of the whole runtime. */
export const layer: Layer.Layer<AppProcessService, never, ProcessHost.Service | ShutdownBarrier.Service> = Layer.effect(
  AppProcessService,
  make
)

/** `AppProcess.spawn` of the service in context. */
export const spawn = (
  command: CommandSpec.Input,
  options?: ProcessOptions.Options
): Effect.Effect<Handle, SpawnError, AppProcessService | Scope.Scope> =>
  AppProcessService.use((service) => service.spawn(command, options))

/** `AppProcess.run` of the service in context. */
export const run = (
  command: CommandSpec.Input,
  options?: ProcessOptions.Options
): Effect.Effect<RunResult, SpawnError, AppProcessService> =>
  AppProcessService.use((service) => service.run(command, options))

/**
 * A bracket whose release can fail by type: when the tree could not be ended, the result is `KillFailed`, beside the
 * body's own failure if there is one.
 */
export const use = <A, E, R>(
  command: CommandSpec.Input,
  body: (handle: Handle) => Effect.Effect<A, E, R>,
  options?: ProcessOptions.Options
): Effect.Effect<A, E | SpawnError | KillFailed, R | AppProcessService> =>
  AppProcessService.use((service) => {
    let spawned: Handle | null = null
    return Effect.acquireUseRelease(
      Scope.make(),
      (scope) =>
        Effect.flatMap(Scope.provide(service.spawn(command, options), scope), (handle) => {
          spawned = handle
          return body(handle)
        }),
      (scope, exit) => Effect.andThen(Scope.close(scope, exit), Effect.suspend(() => checkGone(spawned)))
    )
  })

const checkGone = (handle: Handle | null): Effect.Effect<void, KillFailed> =>
  handle === null ?
    Effect.void :
    Effect.flatMap(handle.termination, (result) =>
      result.status === "kill_failed" ? Effect.fail(new KillFailed({ id: handle.id, result })) : Effect.void)

/** Turns every end but `completed` into an error. */
export const requireSuccess = (result: RunResult): Effect.Effect<RunResult, CommandFailed> =>
  result.info.status === "completed"
    ? Effect.succeed(result)
    : Effect.fail(
      new CommandFailed({ id: result.info.id, command: result.info.command, result: result.termination })
    )
