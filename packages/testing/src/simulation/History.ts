/**
 * A history as plain data: what is done to a runtime and around it, in what order, and how long each step takes.
 *
 * Everything a run depends on is in it, so it can be repeated, cut shorter, printed and pasted. Times are milliseconds of
 * the virtual clock. A step that refers to something that is not there (a job that was never started) does nothing, so any
 * part of a history is one again.
 */
import type { StreamName } from "@procyon/runtime/ports/ProcessDriver"
import type { Lifetime } from "@procyon/runtime/ports/ProcessLedger"
import type { Settings } from "@procyon/runtime/services/Settings"
import type { Fault } from "../Faults.ts"

/** Options of a start. `workspace` is the name that an `Acquire` gave. */
export interface Options {
  readonly deadline?: number
  readonly idleDeadline?: number
  readonly grace?: number
  readonly forceWindow?: number
  readonly cap?: number
  readonly streams?: "merged" | "separate"
  readonly workspace?: string
}

/** Options of a job's start. */
export interface JobOptions extends Options {
  readonly lifetime?: Lifetime
  readonly name?: string
  readonly onExisting?: "fail" | "join"
}

/** How an owner's notices are taken. `refuse`: consumed by somebody who fails, so that they come again. */
export type Taking = "take" | "await" | "consume" | "refuse"

/**
 * One thing that is done. A `job` is a name within the history; `child` is one of the simulator's children.
 *
 * - `Start`, `Run`: a job, or a command in a scope. `withdrawAfter`: its caller is interrupted then.
 * - `Kill`, `ReusePid`, `EndDetached`, `LoseExit`, `Blind`: what the world does, past the runtime.
 * - `Acquire`, `Release`: a workspace, and the end of its scope.
 * - `Replace`, `Commit`: the application in the runtime is replaced; its work commits something that takes so long.
 * - `Crash`: the runtime is killed, and the next life begins. `Restart`: it is closed in order before. `Freeze`: it is
 *   stopped, and the next one begins beside it; `Thaw`: those that were stopped go on.
 * - `Stall`: nothing of the runtime moves for so long, while the world does. `WallClock`: its wall clock is so much ahead.
 */
export type Action =
  | {
    readonly _tag: "Start"
    readonly job: string
    readonly owner: string
    readonly child: string
    readonly options?: JobOptions
    readonly withdrawAfter?: number
  }
  | {
    readonly _tag: "Run"
    readonly job: string
    readonly child: string
    readonly options?: Options
    readonly withdrawAfter?: number
  }
  | { readonly _tag: "Stop"; readonly job: string; readonly now?: boolean }
  | { readonly _tag: "StopAll" | "Retire"; readonly owner: string }
  | { readonly _tag: "Wait" | "Retry" | "CloseStdin" | "Forget" | "RetrySpill"; readonly job: string }
  | { readonly _tag: "Receipt"; readonly job: string; readonly giveUpAfter: number }
  | { readonly _tag: "Extend"; readonly job: string; readonly deadline: number }
  | { readonly _tag: "Write"; readonly job: string; readonly bytes: number }
  | { readonly _tag: "Follow"; readonly job: string; readonly since: number; readonly stream: StreamName }
  | { readonly _tag: "Notices"; readonly owner: string; readonly how: Taking; readonly takes?: number }
  | { readonly _tag: "Kill"; readonly child: string; readonly how: string | number }
  | { readonly _tag: "ReusePid" | "LoseExit"; readonly child: string }
  | { readonly _tag: "EndDetached"; readonly child: string; readonly by: "deadline" | "cap" }
  | { readonly _tag: "Blind"; readonly looks: number }
  | { readonly _tag: "Acquire" | "Release"; readonly workspace: string }
  | { readonly _tag: "Shutdown"; readonly mode: "now" | "graceful" }
  | { readonly _tag: "Commit"; readonly after: number; readonly takes: number }
  | { readonly _tag: "Stall"; readonly millis: number }
  | { readonly _tag: "WallClock"; readonly ahead: number }
  | { readonly _tag: "Replace" | "Crash" | "Restart" | "Freeze" | "Thaw" | "Reconcile" | "Review" }

/** What is done, and how long the world goes on before the next step. Zero: until nothing is left to do that needs no time. */
export interface Step {
  readonly act: Action
  readonly wait: number
}

/** `seed`: of what is left to chance while it runs. `settings`: what differs from the defaults. */
export interface History {
  readonly seed: number
  readonly settings: Partial<Settings>
  readonly faults: ReadonlyArray<Fault>
  readonly steps: ReadonlyArray<Step>
}
