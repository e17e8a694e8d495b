/**
 * Logging on the way to something that others wait for: a logger that throws must not keep them waiting.
 */
import * as Effect from "effect/Effect"

/** Logs a warning, and goes on also when a logger throws. */
export const warn = (text: string): Effect.Effect<void> => Effect.ignoreCause(Effect.logWarning(text))
