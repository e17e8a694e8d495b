/** Tools for testing programs on Procyon, and for testing implementations of its ports. */
export * as DriverLaws from "./DriverLaws.ts"
export * as LedgerLaws from "./LedgerLaws.ts"
export * as RuntimeTest from "./RuntimeTest.ts"
export { child, type Escape, type ForkOptions, type Script, type Timing } from "./Script.ts"
export * as ScriptedDriver from "./ScriptedDriver.ts"
export * as WorkspaceLedgerLaws from "./WorkspaceLedgerLaws.ts"
export { World, type WorldService } from "./World.ts"
