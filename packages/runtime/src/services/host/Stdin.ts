/**
 * The input of a process: written in order, counted by what the pipe took, refused from draining on.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { within } from "../../internal/Within.ts"
import type { Child } from "../../ports/ProcessDriver.ts"
import { type Core, isolated } from "./Core.ts"
import type { OwnedProcess } from "./OwnedProcess.ts"

/** Stdin took only `accepted` of the bytes: the child has gone, has closed it, or it was closed or never open. */
export class StdinClosed extends Schema.TaggedError<StdinClosed>()("StdinClosed", {
  id: Schema.String,
  accepted: Schema.Natural
}) {
  override get message(): string {
    return `stdin of ${this.id} is closed`
  }
}

export interface Stdin {
  /** How many of the bytes its stdin took. Waits for a start in progress, and for the pipe. */
  readonly write: (process: OwnedProcess, bytes: Uint8Array) => Effect.Effect<number>
  /**
   * Waits for a start in progress, and ends the input after what was written; what a full pipe does not take within the
   * port window is dropped.
   */
  readonly close: (process: OwnedProcess) => Effect.Effect<void>
  /** Feeds the input that the command itself came with, from a fiber of the runtime, and then closes it. */
  readonly feed: (process: OwnedProcess) => void
}

export const make = (core: Core): Stdin => {
  const write: Stdin["write"] = (process, bytes) =>
    Effect.gen(function*() {
      if (process.state._tag === "Starting") yield* Effect.exit(Deferred.await(process.started))
      process.writing ??= Semaphore.makeUnsafe(1)
      let wanted = true
      const writing = core.fork(process.writing.withPermit(Effect.suspend(() => {
        const { child } = process
        const isOpen = !process.stdinClosed && process.state._tag === "Running"
        return wanted && isOpen && child !== null ? writeNow(process, child, bytes) : Effect.succeed(0)
      })))
      const exit = yield* Effect.onInterrupt(Fiber.await(writing), () =>
        Effect.sync(() => {
          wanted = false
        }))
      return exit._tag === "Success" ? exit.value : 0
    })

  /** Goes on in the driver when nobody waits any more, so it has its turn, and is counted, to its end. */
  const writeNow = (process: OwnedProcess, child: Child, bytes: Uint8Array): Effect.Effect<number> =>
    Effect.map(child.write(bytes), (taken) => {
      process.stdinAccepted += taken
      return taken
    })

  const closeNow = (process: OwnedProcess): Effect.Effect<void> =>
    Effect.suspend(() => {
      const { child } = process
      if (process.stdinClosed || child === null) return Effect.void
      process.stdinClosed = true
      const { portWindowMillis } = core.settings
      return Effect.flatMap(Effect.exit(within(() => child.closeStdin(), portWindowMillis)), (exit) =>
        exit._tag === "Success" && Option.isSome(exit.value)
          ? Effect.void
          : isolated(
            Effect.suspend(() =>
              child.closeStdin({ now: true })
            ),
            portWindowMillis,
            "closing an input"
          ))
    })

  const close: Stdin["close"] = (process) =>
    Effect.suspend(() => {
      if (process.state._tag === "Starting") {
        return Effect.flatMap(Effect.exit(Deferred.await(process.started)), () => closeNow(process))
      }
      return closeNow(process)
    })

  return {
    write,
    close,
    feed: (process) => {
      const stdin = process.command?.options.stdin
      if (stdin === undefined || stdin === "none" || stdin === "open") return
      const fed = stdin instanceof Uint8Array
        ? write(process, stdin)
        : Stream.runForEachWhile(stdin, (bytes) => Effect.map(write(process, bytes), (taken) => taken === bytes.length))
      // A source that fails ends the input as one that is over does: the count tells how much the child got.
      const fedWhileItRuns = Effect.raceFirst(Effect.ignoreCause(fed), Deferred.await(process.exited))
      core.fork(Effect.andThen(fedWhileItRuns, closeNow(process)))
    }
  }
}

const encoder = new TextEncoder()

/** Writes all of it, or says how much of it was taken. */
export const writeAll = (
  stdin: Pick<Stdin, "write">,
  process: OwnedProcess,
  data: string | Uint8Array
): Effect.Effect<void, StdinClosed> =>
  Effect.suspend(() => {
    const bytes = typeof data === "string" ? encoder.encode(data) : data
    return Effect.flatMap(stdin.write(process, bytes), (accepted) =>
      accepted === bytes.length && !(bytes.length === 0 && process.stdinClosed)
        ? Effect.void
        : Effect.fail(new StdinClosed({ id: process.id, accepted })))
  })
