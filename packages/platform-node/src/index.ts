/** Procyon on Node: the driver for this machine's processes, and everything composed over it. */
export * as NodeKeeperDriver from "./NodeKeeperDriver.ts"
export * as NodeProcessDriver from "./NodeProcessDriver.ts"
export * as NodeProcessRuntime from "./NodeProcessRuntime.ts"
export * as NodeSqlite from "./NodeSqlite.ts"
export * as NodeWorkspaceStore from "./NodeWorkspaceStore.ts"
