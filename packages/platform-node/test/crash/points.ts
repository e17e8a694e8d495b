/**
 * The points of a life at which an application can be killed: calls of ports before and after, and turns of the runtime.
 * Each has a name, and the title of the job it is about where it is about one; a run counts how often it reached each.
 */
import * as Effect from "effect/Effect"

/** The `occurrence`-th time, counted from 1, that a point is reached for this job. */
export interface Target {
  readonly point: string
  readonly job: string | null
  readonly occurrence: number
}

/** How often a run has reached one point for one job. */
export interface Reached {
  readonly point: string
  readonly job: string | null
  readonly count: number
}

export interface Points {
  /** Is reached here. Does not return when it is the target. */
  readonly at: (point: string, job?: string | null) => void
  /** Two points, `before` and `after`, around a call. */
  readonly around: <A, E, R>(call: string, job: string | null, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly reached: () => ReadonlyArray<Reached>
}

/** `die` is called at the target, and is not to return. */
export const make = (target: Target | null, die: (target: Target) => void): Points => {
  const counts = new Map<string, { readonly point: string; readonly job: string | null; count: number }>()

  const at: Points["at"] = (point, job = null) => {
    const key = `${point}\n${job ?? ""}`
    const reached = counts.get(key) ?? { point, job, count: 0 }
    counts.set(key, reached)
    reached.count++
    if (target?.point === point && target.job === job && target.occurrence === reached.count) die(target)
  }

  return {
    at,
    around: (call, job, effect) =>
      Effect.suspend(() => {
        at(`${call} before`, job)
        return Effect.onExit(effect, () => Effect.sync(() => at(`${call} after`, job)))
      }),
    reached: () => [...counts.values()]
  }
}
