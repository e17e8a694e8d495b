/**
 * A start on its way, and the effect that waits for it: the same for every driver, however it starts.
 */
import type { Child, SpawnFailed } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"

export type Answer = Effect.Effect<Child, SpawnFailed>

export interface Starting {
  readonly await: (resume: (answer: Answer) => void) => void
  /** Takes it back from wherever it has got to: nothing of it is left when this is done. */
  readonly undo: Effect.Effect<void>
}

/** The answer of a start, for one who waits: told before or after the wait has begun. */
export const answerOnce = (): { readonly tell: (answer: Answer) => void; readonly await: Starting["await"] } => {
  let answered: Answer | null = null
  let resume: ((answer: Answer) => void) | null = null
  return {
    tell(answer) {
      answered ??= answer
      resume?.(answer)
    },
    await(waiting) {
      // Never at once: a fiber that goes on within its turn may be interrupted before it has taken the answer.
      const before = answered
      if (before === null) resume = waiting
      else queueMicrotask(() => waiting(before))
    }
  }
}

/** Begins when it is run, and undoes what was begun when it is interrupted. */
export const spawning = (begin: () => Starting): Answer =>
  Effect.suspend(() => {
    const starting = begin()
    return Effect.callback((resume) => {
      starting.await(resume)
      return starting.undo
    })
  })
