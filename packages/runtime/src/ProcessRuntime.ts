/**
 * Everything composed over a driver: the layer that platform packages close and tests run on fakes.
 */
import * as Layer from "effect/Layer"
import type * as ProcessDriver from "./ports/ProcessDriver.ts"
import type * as ProcessLedger from "./ports/ProcessLedger.ts"
import * as AppProcess from "./services/AppProcess.ts"
import * as BackgroundProcess from "./services/BackgroundProcess.ts"
import * as ProcessHost from "./services/ProcessHost.ts"
import type * as Recovery from "./services/Recovery.ts"
import * as ShutdownBarrier from "./services/ShutdownBarrier.ts"
import * as Workspace from "./services/Workspace.ts"

/** What an application and its plugins ask for. */
export type ProcessRuntime =
  | AppProcess.Service
  | BackgroundProcess.Service
  | Recovery.Service
  | ShutdownBarrier.Service
  | Workspace.Service

/**
 * The services over one driver and one ledger. A `BlobStore` and a `WorkspaceStore` are used where they are provided to this
 * layer; `Settings` and `ShutdownBarrier.onReport` are read when it is built. Building it takes over what earlier lives have
 * left in the ledger (see `Recovery`); closing it runs the barrier.
 */
export const layer: Layer.Layer<ProcessRuntime, never, ProcessDriver.Service | ProcessLedger.Service> = Layer.mergeAll(
  AppProcess.layer,
  BackgroundProcess.layer
).pipe(
  Layer.provideMerge(Workspace.layer),
  Layer.provideMerge(ShutdownBarrier.layer),
  Layer.provide(ProcessHost.layer)
)
