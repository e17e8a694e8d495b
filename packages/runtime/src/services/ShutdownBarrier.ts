/**
 * The one way a runtime ends: stop new work, drain, terminate, flush, settle, remove workspaces, closed.
 *
 * It runs in a fiber of the runtime, so that interrupting whoever asked for it ends only the wait. Everybody who closes
 * the runtime (a signal, a layer's finalizer, a call) runs or joins the same barrier, and its report is told however it
 * was reached.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Lifecycle from "../domain/Lifecycle.ts"
import * as ShutdownPlan from "../domain/ShutdownPlan.ts"
import type { Phase as ProcessPhase } from "../domain/Status.ts"
import { within } from "../internal/Within.ts"
import type { OwnedProcess } from "./host/OwnedProcess.ts"
import * as ProcessHost from "./ProcessHost.ts"
import * as OwnedWorkspace from "./workspaces/OwnedWorkspace.ts"

export { Phase, ShutdownReport, summarize } from "../domain/ShutdownPlan.ts"

/** The end of a runtime: for applications that close it, and for services that have work to do when it closes. */
export interface ShutdownBarrier {
  /**
   * Runs the barrier, or joins the one that runs; of a closed runtime it answers with the report it had. `now` skips what
   * is left of every grace, whoever began it. Bounded by one budget, which counts from the first request. Interrupting
   * the caller ends only its wait.
   */
  readonly shutdown: (mode?: ShutdownPlan.Mode) => Effect.Effect<ShutdownPlan.ShutdownReport>
  /** How far it is: `open` until a shutdown is asked for. */
  readonly phase: Effect.Effect<ShutdownPlan.Phase>
  /** Every phase it has entered and will enter, each once, as it enters them. Ends with `closed`. */
  readonly phases: Stream.Stream<ShutdownPlan.PhaseTime>
  /** Waits for the report, and starts nothing. Answers after the layer is closed too. */
  readonly report: Effect.Effect<ShutdownPlan.ShutdownReport>
  /**
   * Adds work for a phase: draining owners, settling rows, removing workspaces. Isolated and bounded by what is left of
   * the budget; before children are ended also by the port window.
   */
  readonly on: (phase: "draining" | "settling" | "workspaces", work: Effect.Effect<void>) => void
}

/** The barrier of the runtime. `ProcessRuntime.layer` gives it. */
class ShutdownBarrierService extends Context.Service<ShutdownBarrierService, ShutdownBarrier>()(
  "@procyon/runtime/ShutdownBarrier"
) {}
export { ShutdownBarrierService as Service }

/** What is told the report as the barrier's last act; bounded, its failure logged. Set with `onReport`. */
const OnReport = Context.Reference<(report: ShutdownPlan.ShutdownReport) => Effect.Effect<void>>(
  "@procyon/runtime/ShutdownBarrier/OnReport",
  { defaultValue: () => (report) => report.clean ? Effect.void : Effect.logWarning(ShutdownPlan.summarize(report)) }
)

/**
 * Tells the report to `f` when the barrier is done, also when the main fiber is interrupted and cannot return it. Read
 * when the runtime's layer is built. By default a report that is not clean is logged as a warning.
 */
export const onReport = (f: (report: ShutdownPlan.ShutdownReport) => Effect.Effect<void>): Layer.Layer<never> =>
  Layer.succeed(OnReport, f)

/** What a process looks like in the report. */
const rowOf = (process: OwnedProcess): ShutdownPlan.ReportRow => ({
  id: process.id,
  owner: process.owner,
  title: process.policy.title,
  status: Lifecycle.statusOf(process.state),
  survivors: process.survivors,
  survivorCount: process.survivorCount,
  detached: process.detached
})

/** What outlives the runtime is let go of, unless its end was asked for before: that is not left half done. */
const isToEnd = ({ detached, state }: OwnedProcess): boolean => !detached || endingPhases.has(Lifecycle.phaseOf(state))

const endingPhases: ReadonlySet<ProcessPhase> = new Set(["draining", "terminating", "flushing"])

const make = Effect.gen(function*() {
  const host = yield* ProcessHost.Service
  const tell = yield* OnReport
  const { settings, timers } = host
  const works = new Map<ShutdownPlan.Phase, Array<Effect.Effect<void>>>()
  const done = yield* Deferred.make<ShutdownPlan.ShutdownReport>()
  let times: ReadonlyArray<ShutdownPlan.PhaseTime> = []
  let mode: ShutdownPlan.Mode = "graceful"
  let began = 0

  let entered = Deferred.makeUnsafe<void>()

  const enter = (phase: ShutdownPlan.Phase): void => {
    times = ShutdownPlan.enter(times, phase, Math.round(timers.now() - began)) ?? times
    Deferred.doneUnsafe(entered, Effect.void)
    entered = Deferred.makeUnsafe()
  }

  const phaseAt = (index: number): Effect.Effect<readonly [ShutdownPlan.PhaseTime, number] | undefined> =>
    Effect.suspend(() => {
      const time = times[index]
      if (time !== undefined) return Effect.succeed([time, index + 1] as const)
      if (ShutdownPlan.current(times) === "closed") return Effect.succeed(undefined)
      return Effect.flatMap(Deferred.await(entered), () => phaseAt(index))
    })

  const left = (): number => Math.max(0, began + settings.shutdownBudgetMillis - timers.now())

  const ending = (): ReadonlyArray<OwnedProcess> => [...host.live].filter(isToEnd)

  const hurry = (): void => {
    mode = "now"
    for (const process of ending()) host.end(process, { _tag: "Shutdown" }, true)
  }

  /** Whoever is to outlive the runtime is not left between the driver and the row that tells of it. */
  const awaitStarts = Effect.suspend(() =>
    Effect.forEach(
      [...host.live].filter(({ detached, state }) => detached && state._tag === "Starting"),
      ({ started }) => Effect.exit(Deferred.await(started)),
      { concurrency: "unbounded", discard: true }
    )
  )

  const workOf = (phase: ShutdownPlan.Phase, millis: number): Effect.Effect<void> =>
    Effect.forEach(
      works.get(phase) ?? [],
      (work) =>
        within(() => work, millis).pipe(
          Effect.catchCause(() => Effect.logWarning(`work of the shutdown's phase ${phase} failed`))
        ),
      { concurrency: "unbounded", discard: true }
    )

  /** Asks all of them first, and only then waits: however many there are, they cost one grace. */
  const endAll = (processes: ReadonlyArray<OwnedProcess>): Effect.Effect<void> =>
    Effect.suspend(() => {
      for (const process of processes) host.end(process, { _tag: "Shutdown" }, mode === "now")
      return Effect.forEach(
        processes,
        (process) => process.state._tag === "Unresolved" ? host.retry(process) : Deferred.await(process.ended),
        { concurrency: "unbounded", discard: true }
      )
    })

  const run: Effect.Effect<void> = Effect.gen(function*() {
    enter("stopping")
    host.drain()
    const processes = [...host.live]
    const workspaces = new Set(host.workspaces)
    enter("draining")
    // Bounded apart: it must not use up what the children need.
    yield* workOf("draining", Math.min(left(), settings.portWindowMillis))
    enter("terminating")
    // What may still be forced after the last grace has to fit into the budget.
    const reserve = settings.forceWindowMillis + settings.flushWindowMillis
    const cut = timers.after(Math.max(0, left() - reserve), hurry)
    const ended = yield* Effect.timeoutOption(
      Effect.all([endAll(ending()), awaitStarts], { concurrency: "unbounded" }),
      left()
    )
    cut.cancel()
    // Each process is flushed and settled by its own ending; these phases are over when the last of them was.
    enter("flushing")
    enter("settling")
    yield* workOf("settling", left())
    enter("workspaces")
    // Recovery may have come upon some meanwhile.
    for (const workspace of host.workspaces) workspaces.add(workspace)
    yield* workOf("workspaces", left())
    enter("closed")
    const report = ShutdownPlan.report({
      mode,
      budgetExceeded: Option.isNone(ended),
      durationMillis: Math.round(timers.now() - began),
      phases: times,
      rows: processes.map(rowOf),
      workspaces: Array.from(workspaces, OwnedWorkspace.rowOf)
    })
    yield* within(() => tell(report), settings.portWindowMillis).pipe(
      Effect.catchCause(() => Effect.logWarning("telling the shutdown's report failed"))
    )
    yield* Deferred.succeed(done, report)
  })

  const shutdown: ShutdownBarrier["shutdown"] = (asked = "graceful") =>
    Effect.suspend(() => {
      if (ShutdownPlan.current(times) === "open") {
        began = timers.now()
        mode = asked
        host.drain()
        host.fork(run)
      } else if (asked === "now" && mode !== "now") hurry()
      return Deferred.await(done)
    })

  const barrier = ShutdownBarrierService.of({
    shutdown,
    phase: Effect.sync(() => ShutdownPlan.current(times)),
    phases: Stream.unfold(0, phaseAt),
    report: Deferred.await(done),
    on: (phase, work) => {
      works.set(phase, [...works.get(phase) ?? [], work])
    }
  })
  yield* Effect.addFinalizer(() => barrier.shutdown())
  return barrier
})

/** Its finalizer runs the barrier, so closing the runtime's scope, by whatever way, ends in the same order. */
export const layer: Layer.Layer<ShutdownBarrierService, never, ProcessHost.Service> = Layer.effect(
  ShutdownBarrierService,
  make
)

/**
 * Builds the layer, runs the application on it, closes it, and answers with both results. When the calling fiber is
 * itself interrupted there is nobody to answer to: use `onReport`, or a `runMain`, for that.
 */
export const withReport = <A, E, R, LE>(
  application: Effect.Effect<A, E, R>,
  layer: Layer.Layer<R | ShutdownBarrierService, LE>
): Effect.Effect<readonly [Exit.Exit<A, E>, ShutdownPlan.ShutdownReport], LE> =>
  Effect.acquireUseRelease(
    Effect.sync(() => ManagedRuntime.make(layer)),
    (runtime) =>
      Effect.flatMap(runtime.contextEffect, (context) =>
        Effect.gen(function*() {
          const exit = yield* Effect.exit(Effect.provide(application, context))
          const report = yield* Context.get(context, ShutdownBarrierService).shutdown()
          return [exit, report] as const
        })),
    (runtime) => runtime.disposeEffect
  )
