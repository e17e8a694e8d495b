/**
 * Everything composed for Node: the layer an application provides, and the `runMain` that ends it in the right order.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { BlobStore, ProcessLedgerMemory, ProcessRuntime, ShutdownBarrier } from "@procyon/runtime"
import type { ProcessLedger, ShutdownPlan } from "@procyon/runtime"
import * as BlobStoreFileSystem from "@procyon/runtime/BlobStoreFileSystem"
import * as ProcessLedgerSql from "@procyon/runtime/ProcessLedgerSql"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import { join } from "node:path"
import { problemOf, protectDirectory } from "./internal/sqliteFile.ts"
import * as NodeKeeperDriver from "./NodeKeeperDriver.ts"
import * as NodeProcessDriver from "./NodeProcessDriver.ts"
import * as NodeSqlite from "./NodeSqlite.ts"
import * as NodeWorkspaceStore from "./NodeWorkspaceStore.ts"

/**
 * `AppProcess`, `BackgroundProcess`, `Workspace` and `ShutdownBarrier` on this machine's processes, with rows in memory. Output goes to
 * no disk, unless a `BlobStore` is provided to it: see `layerBlobs`. Closing it runs the shutdown barrier. A constant, so
 * that however often it is provided in one application there is one runtime.
 *
 * Where it can, it starts its children through a keeper, a process of its own that ends them when this one is killed: see
 * `NodeKeeperDriver`.
 */
export const layer: Layer.Layer<ProcessRuntime.ProcessRuntime> = ProcessRuntime.layer.pipe(
  Layer.provide([NodeKeeperDriver.layerAuto, NodeWorkspaceStore.layer, ProcessLedgerMemory.layer])
)

/**
 * As `layer`, with this process as the parent of its children: for programs that run one command and end. It is there some
 * 100 ms earlier and without a second process; when this one is killed, its children live on.
 */
export const layerDirect: Layer.Layer<ProcessRuntime.ProcessRuntime> = ProcessRuntime.layer.pipe(
  Layer.provide([NodeProcessDriver.layer, NodeWorkspaceStore.layer, ProcessLedgerMemory.layer])
)

/** Who starts the children: see `NodeKeeperDriver` and `NodeProcessDriver`. */
export interface DriverOptions {
  /** `auto`, the default: a keeper where one can be had. `direct`: the application itself. */
  readonly driver?: "auto" | "direct" | undefined
}

/** Where a durable runtime keeps its state. */
export interface StateOptions {
  /** Where the state is: made with mode 0700, and refused when it is another user's or others may write to it. */
  readonly directory: string
}

/**
 * Keeps rows in `ledger.sqlite` under `directory`. A file that is damaged, foreign or of a newer program is refused, and
 * stays as it is: see `NodeSqlite`.
 */
export const layerLedger = (
  options: StateOptions
): Layer.Layer<ProcessLedger.Service, NodeSqlite.OpenError | ProcessLedger.LedgerError> =>
  ProcessLedgerSql.layer.pipe(Layer.provide(NodeSqlite.layer({ filename: join(options.directory, "ledger.sqlite") })))

/** Also who starts the children, and whether output may be kept. */
export interface DurableOptions extends StateOptions, DriverOptions {
  /** `false`: no output of any child but detached ones touches the disk, and what memory does not hold is lost. Default `true`. */
  readonly blobs?: boolean | undefined
}

const durableDriver = ({ directory, driver = "auto" }: DurableOptions) => {
  const options = { detached: join(directory, "detached") }
  return driver === "auto" ? NodeKeeperDriver.layerAutoWith(options) : NodeProcessDriver.layerWith(options)
}

/**
 * As `layer`, with all that outlives the application in files under `directory`: rows in `ledger.sqlite`, output that memory
 * would lose in `blobs`, output and exits of detached jobs in `detached`. The next application on it finds the jobs again,
 * ends those that have no owner, and tells what nobody was told (see `Recovery`). Several may share it at the same time.
 *
 * Output that memory held to the end is in no file, so it is gone with the application. Each call makes another layer: keep
 * the one that is provided.
 */
export const layerDurable = (
  options: DurableOptions
): Layer.Layer<
  ProcessRuntime.ProcessRuntime,
  NodeSqlite.OpenError | ProcessLedger.LedgerError | BlobStore.BlobError
> => {
  const state = Layer.mergeAll(durableDriver(options), NodeWorkspaceStore.layer, layerLedger(options))
  return options.blobs === false
    ? ProcessRuntime.layer.pipe(Layer.provide(state))
    : ProcessRuntime.layer.pipe(
      Layer.provide(Layer.merge(state, layerBlobs({ directory: join(options.directory, "blobs") })))
    )
}

/**
 * Keeps output that memory would lose as files under `directory`, which is made with mode 0700, and refused as `Denied` when
 * it is another user's or others may write to it: provide it to `layer`. Several runtimes may share one. Output is the
 * child's own bytes, so it is as secret as what the child prints.
 */
export const layerBlobs = (
  options: BlobStoreFileSystem.Options
): Layer.Layer<BlobStore.Service, BlobStore.BlobError> =>
  Layer.unwrap(Effect.map(
    Effect.try({
      try: () => protectDirectory(options.directory),
      catch: (error) => new BlobStore.BlobError({ operation: "open", ...problemOfDirectory(error) })
    }),
    () => BlobStoreFileSystem.layer(options).pipe(Layer.provide(NodeServices.layer))
  ))

const problemOfDirectory = (error: unknown): Pick<BlobStore.BlobError, "problem" | "retryable"> => {
  switch (problemOf(error)) {
    case "Denied":
    case "Unsafe":
      return { problem: "Denied", retryable: false }
    case "Full":
      return { problem: "NoSpace", retryable: true }
    default:
      return { problem: "Other", retryable: false }
  }
}

/** How the end of an application is told to whoever started this process. */
export interface RunMainOptions<A, E> {
  /**
   * The exit code. `signal` is the one that ended the application, if one did. By default: 128 + n after signal n; else
   * 1 for a failure, and for a success whose shutdown was not clean; else 0.
   */
  readonly exitCode?:
    | ((
      exit: Exit.Exit<A, E>,
      report: ShutdownPlan.ShutdownReport | null,
      signal: NodeJS.Signals | null
    ) => number)
    | undefined
}

const signalNumbers = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const

const defaultExitCode = <A, E>(
  exit: Exit.Exit<A, E>,
  report: ShutdownPlan.ShutdownReport | null,
  signal: NodeJS.Signals | null
): number => {
  const number = signals.find((name) => name === signal)
  if (number !== undefined) return 128 + signalNumbers[number]
  if (Exit.isFailure(exit)) return Runtime.getErrorExitCode(Cause.squash(exit.cause))
  return report === null || report.clean ? 0 : 1
}

/**
 * Runs an application on a runtime's layer until it ends, and then this process with it.
 *
 * The first SIGINT, SIGTERM or SIGHUP starts the barrier and then interrupts the application, so that all trees are asked
 * to end at once, and the budget counts from the signal. A second one skips the rest of every grace. The layer is closed
 * in every case. Listeners are there only while it runs.
 */
export const runMain = <A, E, R, LE>(
  application: Effect.Effect<A, E, R>,
  runtimeLayer: Layer.Layer<R | ShutdownBarrier.Service, LE>,
  options: RunMainOptions<A, E | LE> = {}
): void => {
  let barrier: ShutdownBarrier.ShutdownBarrier | null = null
  let report: ShutdownPlan.ShutdownReport | null = null
  let signal: NodeJS.Signals | null = null
  let outcome: Exit.Exit<A, E | LE> = Exit.interrupt()

  // Interruptible only where something is there to answer an interruption: it may come between any two steps.
  const main = Effect.uninterruptibleMask((restore): Effect.Effect<A, E | LE> =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const context = yield* restore(Layer.buildWithScope(runtimeLayer, scope)).pipe(
        Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
      )
      const service = Context.get(context, ShutdownBarrier.Service)
      barrier = service
      return yield* restore(Effect.provide(application, context)).pipe(
        Effect.onExit((exit) =>
          service.shutdown().pipe(
            Effect.tap((told) =>
              Effect.sync(() => {
                report = told
              })
            ),
            Effect.andThen(Scope.close(scope, exit))
          )
        )
      )
    })
  )

  Runtime.makeRunMain(({ fiber, teardown }) => {
    const onSignal = (received: NodeJS.Signals): void => {
      const first = signal === null
      signal ??= received
      if (barrier !== null) Effect.runFork(barrier.shutdown(first ? "graceful" : "now"))
      if (first) fiber.interruptUnsafe()
    }
    for (const name of signals) process.on(name, onSignal)
    fiber.addObserver((exit) => {
      for (const name of signals) process.off(name, onSignal)
      teardown(exit, (code) => process.exit(code))
    })
  })(
    Effect.onExit(main, (exit) =>
      Effect.sync(() => {
        outcome = exit
      })),
    { teardown: (_, onExit) => onExit((options.exitCode ?? defaultExitCode)(outcome, report, signal)) }
  )
}
