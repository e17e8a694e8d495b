/**
 * The streams of a child, as the port has them.
 */
import type { AttachRequest, Child } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import type { Ends } from "./carrier.ts"

type Streams = Omit<Child, "identity" | "release">

/** Those of a leader that this application reads and feeds. */
export const streamsOf = ({ outputs, stdin }: Ends): Streams => ({
  write: (bytes) => Effect.callback((resume) => stdin.write(bytes, (accepted) => resume(Effect.succeed(accepted)))),
  closeStdin: (options) =>
    options?.now === true
      ? Effect.sync(stdin.destroy)
      : Effect.callback((resume) => stdin.close(() => resume(Effect.void))),
  resume: (stream) => outputs[stream].resume(),
  drain: (stream) => outputs[stream].drain(),
  finish: Effect.void
})

/** Those of a leader that somebody else has started, whose output went to whoever that was: they end at once. */
export const noStreams = ({ stderr, stdout }: AttachRequest): Streams => {
  stdout.end()
  if (stderr !== "merged") stderr.end()
  return {
    write: () => Effect.succeed(0),
    closeStdin: () => Effect.void,
    resume: () => {},
    drain: () => "ended",
    finish: Effect.void
  }
}
