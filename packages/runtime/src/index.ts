/**
 * The process runtime: modules as namespaces, of those that need stable modules of Effect only. The stores and edges
 * that need others are subpath exports.
 */
export * as CommandSpec from "./domain/CommandSpec.ts"
export * as Identity from "./domain/Identity.ts"
export * as Lifecycle from "./domain/Lifecycle.ts"
export * as ShutdownPlan from "./domain/ShutdownPlan.ts"
export * as Status from "./domain/Status.ts"
export * as BlobStore from "./ports/BlobStore.ts"
export * as ProcessDriver from "./ports/ProcessDriver.ts"
export * as ProcessLedger from "./ports/ProcessLedger.ts"
export * as ProcessRuntime from "./ProcessRuntime.ts"
export * as AppProcess from "./services/AppProcess.ts"
export * as BackgroundProcess from "./services/BackgroundProcess.ts"
export * as OutputRetention from "./services/OutputRetention.ts"
export * as Settings from "./services/Settings.ts"
export * as ShutdownBarrier from "./services/ShutdownBarrier.ts"
export * as BlobStoreMemory from "./stores/BlobStoreMemory.ts"
export * as ProcessLedgerMemory from "./stores/ProcessLedgerMemory.ts"
