/**
 * The one place where processes live: it admits them, moves them through `Lifecycle`, performs the actions that come of
 * it, and keeps them until they are settled.
 *
 * `AppProcess`, `BackgroundProcess` and `ShutdownBarrier` are views on it. It knows no owners, no notices and no rows:
 * what a service does at a turn of a process's life, it hands in as `Hooks`. No fiber is held for a live process; one
 * runs while a process starts, and one while it ends.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as CommandSpecs from "../domain/CommandSpec.ts"
import type { CommandSpec } from "../domain/CommandSpec.ts"
import { type Identity, markerPrefix } from "../domain/Identity.ts"
import * as Lifecycle from "../domain/Lifecycle.ts"
import * as ProcessId from "../domain/ProcessId.ts"
import type { Cause } from "../domain/Status.ts"
import { bounded } from "../internal/Bounded.ts"
import * as OutputSource from "../internal/OutputSource.ts"
import * as SharedLook from "../internal/SharedLook.ts"
import * as TimerHeap from "../internal/TimerHeap.ts"
import * as BlobStore from "../ports/BlobStore.ts"
import * as ProcessDriver from "../ports/ProcessDriver.ts"
import type { LedgerRow } from "../ports/ProcessLedger.ts"
import * as Adopting from "./host/Adopting.ts"
import { type Core, nameOfOutput, observed, retentionsOf } from "./host/Core.ts"
import * as Ending from "./host/Ending.ts"
import { type Hooks, OwnedProcess, type Todo } from "./host/OwnedProcess.ts"
import * as Settling from "./host/Settling.ts"
import * as Starting from "./host/Starting.ts"
import * as Stdin from "./host/Stdin.ts"
import * as Watchdog from "./host/Watchdog.ts"
import * as OutputRetention from "./OutputRetention.ts"
import type { Policy } from "./ProcessOptions.ts"
import * as Settings from "./Settings.ts"
import * as Termination from "./Termination.ts"
import type { OwnedWorkspace } from "./workspaces/OwnedWorkspace.ts"

export type { Hooks, OwnedProcess }

export interface ProcessHost {
  readonly settings: Settings.Settings
  readonly timers: TimerHeap.TimerHeap
  readonly clock: Clock.Clock
  /** Runs an effect in a fiber of the runtime; it ends at the latest with the layer. */
  readonly fork: <A>(effect: Effect.Effect<A>) => Fiber.Fiber<A>
  /** Every process that is not settled, in the order of admission. */
  readonly live: ReadonlySet<OwnedProcess>
  /** Every workspace that is recorded and not removed: kept by `Workspace`, told of by the barrier. */
  readonly workspaces: Set<OwnedWorkspace>
  /** An id that no process and no workspace of this runtime has had. */
  readonly nextId: () => string
  /**
   * Takes a process in, in phase `starting`, without starting it, and as a user of the workspace it works in. `null`: the
   * runtime is draining. Who hands it in tells the workspace when it leaves.
   */
  readonly admit: (command: CommandSpec, policy: Policy, options?: AdmitOptions) => OwnedProcess | null
  /** Takes in what a row of an earlier life tells of; nothing is done to it before `resume`. */
  readonly adopt: (row: LedgerRow) => OwnedProcess
  /** Finds the tree of an adopted process again, and watches over it: see `Adopting`. */
  readonly resume: (process: OwnedProcess, row: LedgerRow) => Effect.Effect<void>
  /** Looks at it once: an adopted leader that is gone is told of by this. */
  readonly look: (process: OwnedProcess) => Effect.Effect<void>
  /** Lets go of a process that another runtime holds now: it is not signalled, and nothing is told of it any more. */
  readonly disown: (process: OwnedProcess) => void
  /** From here on ids sort after this one. */
  readonly continueAfter: (id: string) => void
  /** This application's process, with a marker of this runtime's own; `null` where the platform cannot tell. */
  readonly self: Identity | null
  readonly probe: ProcessDriver.ProcessDriver["probe"]
  /** Whether detached processes can be started. */
  readonly detaches: boolean
  /** Starts it in a fiber of the runtime. What comes of it is told by `process.started`. */
  readonly start: (process: OwnedProcess) => void
  /** Asks for its end. Synchronous: all can be asked before any is waited for. */
  readonly end: (process: OwnedProcess, cause: Cause, now?: boolean) => void
  readonly retry: Ending.Ending["retry"]
  readonly write: Stdin.Stdin["write"]
  readonly closeStdin: Stdin.Stdin["close"]
  readonly extend: Watchdog.Watchdog["extend"]
  readonly forget: Settling.Settling["forget"]
  /** Removes what a retention of this name has left in the store, where there is one. Bounded; never fails. */
  readonly removeBlobs: (name: string) => Effect.Effect<void>
  /** Goes on with spills that failed. `false`: none had, or one failed again. */
  readonly retrySpill: (process: OwnedProcess) => Effect.Effect<boolean>
  /** From here on nothing is admitted. */
  readonly drain: () => void
  readonly draining: () => boolean
}

/** `detached`: it is to outlive the runtime. `workspace`: what it works in. */
export interface AdmitOptions {
  readonly detached?: boolean | undefined
  readonly workspace?: OwnedWorkspace | null | undefined
}

class ProcessHostService extends Context.Service<ProcessHostService, ProcessHost>()("@procyon/runtime/ProcessHost") {}
export { ProcessHostService as Service }

/** How an action is answered when performing it broke: never by a claim. */
const brokenAnswers: { readonly [A in Todo]: Lifecycle.Event | null } = {
  WithdrawStart: { _tag: "StartLost" },
  RecordTree: { _tag: "TreeRecorded", leaderAlive: true },
  AwaitExit: { _tag: "ExitAwaited" },
  Linger: { _tag: "LingerEnded", end: true },
  SignalTree: { _tag: "Signalled", delivered: false },
  AwaitGrace: { _tag: "GraceElapsed" },
  ForceTree: { _tag: "ForceElapsed" },
  Recheck: null,
  RetryTree: { _tag: "ForceElapsed" },
  Flush: { _tag: "Flushed" },
  Settle: null,
  ReportUnresolved: null
}

const encoder = new TextEncoder()

const make = Effect.gen(function*() {
  const settings = yield* Settings.Current
  const driver = yield* ProcessDriver.Service
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const store = yield* Effect.serviceOption(BlobStore.Service)
  // Closed last, and bounded: what cannot be interrupted, such as a start that a driver does not let go of, or a source of
  // input, holds up no layer.
  const held = yield* Effect.acquireRelease(
    Scope.make(),
    (scope, exit) => bounded(Scope.close(scope, exit), settings.portWindowMillis)
  )
  const runFork = yield* Scope.provide(FiberSet.makeRuntime<never, unknown, never>(), held)
  const fork = <A>(effect: Effect.Effect<A>): Fiber.Fiber<A> => runFork(effect)
  const timers = TimerHeap.make(clock, fork)
  const look = SharedLook.make(driver, { windowMillis: settings.portWindowMillis, fork })
  const live = new Set<OwnedProcess>()
  let ids = ProcessId.initial
  let draining = false
  let closed = false

  /** The only place that writes `process.state`. */
  const dispatch = (process: OwnedProcess, event: Lifecycle.Event): void => {
    if (closed) return
    const from = process.state
    const [to, actions] = Lifecycle.step(from, event)
    process.state = to
    if (event._tag === "Disowned") process.todo.length = 0
    if (from._tag === "Running" && to._tag !== "Running") watchdog.stopDeadlines(process)
    if (from._tag !== "Draining" && to._tag === "Draining") process.endingMono ??= timers.now()
    observed(core, () => process.hooks.onTransition?.(from, event))
    for (const action of actions) if (action !== "Hurry") process.todo.push(action)
    work(process)
    // Last: whoever waits goes on within these calls, perhaps as far as the end, and everybody has been told by then.
    if (event._tag === "Exited") Deferred.doneUnsafe(process.exited, Effect.succeed(event.exit))
    if (event._tag === "Exited" || actions.includes("Hurry")) process.nudge.notify()
    if (from._tag === "Unresolved" && event._tag === "ForceElapsed") ending.finishRetry(process)
  }

  const work = (process: OwnedProcess): void => {
    if (process.working || process.todo.length === 0) return
    process.working = true
    fork(Effect.gen(function*() {
      for (let action = process.todo.shift(); action !== undefined; action = process.todo.shift()) {
        const broken = brokenAnswers[action]
        const answer = yield* perform(process, action).pipe(
          Effect.catchCause(() => Effect.as(Effect.logError(`${action} of a process broke`), broken))
        )
        // However performing broke, the machine is told that signals were decided on before it is told what became of them.
        if (answer?._tag === "Signalled" && process.state._tag === "Draining") dispatch(process, { _tag: "Signalling" })
        if (answer !== null) dispatch(process, answer)
      }
      process.working = false
    }))
  }

  const perform = (process: OwnedProcess, action: Todo): Effect.Effect<Lifecycle.Event | null> => {
    switch (action) {
      case "WithdrawStart":
        return starting.withdraw(process)
      case "Flush":
        return settling.flush(process)
      case "Settle":
        return settling.settle(process, () => {
          live.delete(process)
          watchdog.stop(process)
          ending.finishRetry(process)
        })
      case "ReportUnresolved":
        return settling.reportUnresolved(process)
      default:
        return ending.perform(process, action)
    }
  }

  const core: Core = { settings, driver, clock, timers, fork, dispatch, closed: () => closed, draining: () => draining }
  const stdin = Stdin.make(core)
  const ending = Ending.make(core, Termination.make({ driver, look, clock, timers, settings }))
  const settling = Settling.make(core)
  const watchdog = Watchdog.make(core, (process) => {
    if (process.state._tag !== "Unresolved") return void fork(ending.look(process))
    if (process.todo.includes("Recheck")) return
    process.todo.push("Recheck")
    work(process)
  })
  const starting = Starting.make(core, (process) => {
    watchdog.arm(process)
    stdin.feed(process)
  })

  const nextId = (): string => {
    const next = ProcessId.make(ids, clock.currentTimeMillisUnsafe(), random.nextDoubleUnsafe())
    ids = next.state
    return next.id
  }

  const hex = () => Math.floor(random.nextDoubleUnsafe() * 0x1_0000_0000).toString(16).padStart(8, "0")

  const digestKey = encoder.encode(hex() + hex() + hex() + hex())

  const digestOf = (command: CommandSpec): string => {
    const sha256 = driver.sha256()
    sha256.update(digestKey)
    sha256.update(encoder.encode(CommandSpecs.fingerprint(command)))
    return sha256.digest().slice(0, 16)
  }

  /** The file of a detached process, which holds all of its output. */
  const fileOf = (id: string, stream: ProcessDriver.StreamName): OutputSource.OutputSource | null => {
    const files = driver.detachedFiles
    return files === null
      ? null
      : OutputSource.ofFile((offset, length) => files.read(id, stream, offset, length), settings.portWindowMillis)
  }

  const makeRetention = (
    id: string,
    stream: ProcessDriver.StreamName,
    policy: Policy,
    onCap: () => void,
    detached: boolean
  ): OutputRetention.OutputRetention =>
    OutputRetention.make({
      name: nameOfOutput(id, stream),
      head: policy.headBytes,
      limit: policy.limitBytes,
      cap: policy.capBytes,
      onCap,
      source: detached ? fileOf(id, stream) : null,
      spill: policy.spill === "on-truncation" && Option.isSome(store) && !detached
        ? { store: store.value, cap: settings.spillBytes, fork, stallMillis: settings.spillWindowMillis, scope: held }
        : null,
      sha256: driver.sha256(),
      now: timers.now,
      preview: settings.previewBytes
    })

  const end: ProcessHost["end"] = (process, cause, now = false) =>
    dispatch(process, { _tag: "EndRequested", request: { cause, now } })

  const admit: ProcessHost["admit"] = (command, policy, { detached = false, workspace = null } = {}) => {
    if (draining) return null
    const id = nextId()
    const onCap = () => end(process, { _tag: "OutputCap" })
    const process: OwnedProcess = new OwnedProcess({
      id,
      command,
      summary: CommandSpecs.summary(command),
      display: CommandSpecs.display(command),
      detached,
      state: Lifecycle.initial,
      policy,
      digest: digestOf(command),
      marker: `${markerPrefix}${hex()}${hex()}`,
      wholeTree: driver.capabilities.wholeTree,
      stdout: makeRetention(id, "stdout", policy, onCap, detached),
      stderr: policy.streams === "merged" ? null : makeRetention(id, "stderr", policy, onCap, detached),
      startedAt: clock.currentTimeMillisUnsafe(),
      startedMono: timers.now()
    })
    live.add(process)
    process.workspace = workspace
    workspace?.users.add(process)
    return process
  }

  const adopting = Adopting.make(core, {
    store: Option.getOrNull(store),
    fileOf,
    makeRetention: (id, stream, policy, onCap) => makeRetention(id, stream, policy, onCap, true),
    watch: watchdog.arm,
    live
  })

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      draining = true
      closed = true
      for (const process of live) {
        settling.abandon(process)
        ending.finishRetry(process)
      }
      return Effect.andThen(
        settling.releaseKept,
        // Who could not be ended, and who is to live on: nobody here reads of them any more, and no reader waits for it.
        Effect.forEach(live, settling.abandonOutput, { concurrency: "unbounded", discard: true })
      )
    })
  )

  return ProcessHostService.of({
    settings,
    timers,
    clock,
    fork,
    live,
    workspaces: new Set(),
    nextId,
    admit,
    adopt: adopting.adopt,
    resume: (process, row) =>
      Effect.ensuring(
        adopting.resume(process, row),
        Effect.sync(() => {
          process.working = false
          work(process)
        })
      ),
    look: ending.look,
    disown: (process) => dispatch(process, { _tag: "Disowned" }),
    continueAfter: (id) => {
      const after = ProcessId.resumeAfter(id)
      if (after.millis > ids.millis || (after.millis === ids.millis && after.sequence > ids.sequence)) ids = after
    },
    self: driver.self === null ? null : { ...driver.self, marker: `runtime-${hex()}${hex()}` },
    probe: driver.probe,
    detaches: driver.detachedFiles !== null,
    start: starting.start,
    end,
    retry: ending.retry,
    write: stdin.write,
    closeStdin: stdin.close,
    extend: watchdog.extend,
    forget: settling.forget,
    removeBlobs: adopting.removeBlobs,
    retrySpill: (process) =>
      Effect.map(
        Effect.forEach(retentionsOf(process), (retention) => retention.retrySpill),
        (retried) => retried.includes(true) && retentionsOf(process).every((it) => it.metadata().spill !== "failed")
      ),
    drain: () => {
      draining = true
    },
    draining: core.draining
  })
})

/**
 * Ends nothing by itself when it is closed: `ShutdownBarrier` does, and stands above it. What the barrier's budget did not
 * suffice for stays as it is, and everybody who waits for it is answered with that.
 */
export const layer: Layer.Layer<ProcessHostService, never, ProcessDriver.Service> = Layer.effect(
  ProcessHostService,
  make
)
