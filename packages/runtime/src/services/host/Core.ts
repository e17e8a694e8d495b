/**
 * What the parts of the process host share: the ports, time, fibers, and the one way to move a process.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Lifecycle from "../../domain/Lifecycle.ts"
import type { Cause, Exit } from "../../domain/Status.ts"
import type { TimerHeap } from "../../internal/TimerHeap.ts"
import { within } from "../../internal/Within.ts"
import type { EndedBy, ProcessDriver, StreamName } from "../../ports/ProcessDriver.ts"
import type { OutputRetention } from "../OutputRetention.ts"
import type { Settings } from "../Settings.ts"
import type { OwnedProcess } from "./OwnedProcess.ts"

export interface Core {
  readonly settings: Settings
  readonly driver: ProcessDriver
  readonly clock: Clock.Clock
  readonly timers: TimerHeap
  /** Runs an effect in a fiber of the runtime; it ends at the latest with the layer. */
  readonly fork: <A>(effect: Effect.Effect<A>) => Fiber.Fiber<A>
  /** Moves a process, and sees to what comes of it. Synchronous. */
  readonly dispatch: (process: OwnedProcess, event: Lifecycle.Event) => void
  /** Whether the runtime is over: no fiber of it runs any more, and nothing moves. */
  readonly closed: () => boolean
  /** Whether the runtime takes nothing in any more. */
  readonly draining: () => boolean
}

/**
 * How long a hook may take. It bounds what it asks a port for by the port window itself, and may have to wait for an
 * answer that is still out; cut off at the same instant, it would not get to tell anybody.
 */
export const hookMillis = (settings: Settings): number => settings.portWindowMillis * 3

/** Bounds what a hook or a port does, and keeps its failure where it happened. */
export const isolated = (effect: Effect.Effect<void>, millis: number, what: string): Effect.Effect<void> =>
  within(() => effect, millis).pipe(
    Effect.flatMap((done) =>
      Option.isNone(done) ? Effect.logWarning(`${what} did not finish within ${millis} ms`) : Effect.void
    ),
    // The cause may hold what a caller's code threw, and with it anything: that it failed is told, its text is not.
    Effect.catchCause(() => Effect.logWarning(`${what} failed`))
  )

/** Calls an observer, and keeps what it throws from whoever is observed. */
export const observed = (core: Pick<Core, "fork">, call: (() => void) | undefined): void => {
  try {
    call?.()
  } catch {
    core.fork(Effect.logWarning("an observer of a process threw"))
  }
}

const causes: { readonly [By in EndedBy]: Cause } = {
  deadline: { _tag: "Deadline", kind: "total" },
  cap: { _tag: "OutputCap" }
}

/** What a driver tells of an exit. */
export const exited = (exit: Exit, by?: EndedBy): Lifecycle.Event =>
  by === undefined ? { _tag: "Exited", exit } : { _tag: "Exited", exit, by: causes[by] }

export const retentionsOf = (process: OwnedProcess): ReadonlyArray<OutputRetention> =>
  process.stderr === null ? [process.stdout] : [process.stdout, process.stderr]

/** Whose output it is, in all lives of its process: what its blobs are named by. */
export const nameOfOutput = (id: string, stream: StreamName): string => stream === "stdout" ? id : `${id}-stderr`
