/**
 * The input of a process: written in order, counted by what the pipe took, refused from draining on.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { Core } from "./Core.ts"
import type { OwnedProcess } from "./OwnedProcess.ts"

export interface Stdin {
  /** How many of the bytes its stdin took. Waits for a start in progress, and for the pipe. */
  readonly write: (process: OwnedProcess, bytes: Uint8Array) => Effect.Effect<number>
  /** Ends the input after what was written; what a full pipe does not take within the port window is dropped. */
  readonly close: (process: OwnedProcess) => Effect.Effect<void>
  /** Feeds the input that the command itself came with, from a fiber of the runtime, and then closes it. */
  readonly feed: (process: OwnedProcess) => void
}

export const make = (core: Core): Stdin => {
  const write: Stdin["write"] = (process, bytes) =>
    Effect.gen(function*() {
      if (process.state._tag === "Starting") yield* Effect.exit(Deferred.await(process.started))
      process.writing ??= Semaphore.makeUnsafe(1)
      return yield* process.writing.withPermit(Effect.suspend(() => {
        const { child } = process
        if (process.stdinClosed || child === null || process.state._tag !== "Running") return Effect.succeed(0)
        return Effect.tap(child.write(bytes), (taken) =>
          Effect.sync(() => {
            process.stdinAccepted += taken
          }))
      }))
    })

  const close: Stdin["close"] = (process) =>
    Effect.suspend(() => {
      if (process.stdinClosed) return Effect.void
      process.stdinClosed = true
      const { child } = process
      if (child === null) return Effect.void
      return child.closeStdin().pipe(
        Effect.timeoutOption(core.settings.portWindowMillis),
        Effect.flatMap((done) => Option.isNone(done) ? child.closeStdin({ now: true }) : Effect.void)
      )
    })

  return {
    write,
    close,
    feed: (process) => {
      const { stdin } = process.command.options
      if (stdin === undefined || stdin === "none" || stdin === "open") return
      const fed = stdin instanceof Uint8Array
        ? write(process, stdin)
        : Stream.runForEachWhile(stdin, (bytes) => Effect.map(write(process, bytes), (taken) => taken === bytes.length))
      // A source that fails ends the input as one that is over does: the count tells how much the child got.
      core.fork(fed.pipe(Effect.ignoreCause, Effect.andThen(close(process))))
    }
  }
}
