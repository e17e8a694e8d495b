/**
 * Cuts a history that breaks a promise to a short one that breaks the same.
 *
 * It tries one cut after the other and keeps those after which the same promise is still broken: steps, faults, settings,
 * options, and time. What is left is not the shortest there is, but nothing of it can be left out by itself.
 */
import * as Effect from "effect/Effect"
import type { History, Step } from "./History.ts"
import type { Outcome, Rule } from "./Outcome.ts"

type Run = (history: History) => Effect.Effect<Outcome>

/** At most so many runs. */
const mostRuns = 2000

export const shrink = (run: Run, history: History): Effect.Effect<History> =>
  Effect.gen(function*() {
    const rule = (yield* run(history)).violations[0]?.rule
    if (rule === undefined) return history
    let runs = 0
    let best = history
    const still = (candidate: History): Effect.Effect<boolean> =>
      Effect.suspend(() => runs++ >= mostRuns ? Effect.succeed(false) : Effect.map(run(candidate), breaks(rule)))
    let before: History
    do {
      before = best
      best = yield* cutList(best.steps, (steps) => still({ ...best, steps }), (steps) => ({ ...best, steps }), best)
      best = yield* cutList(
        best.faults,
        (faults) => still({ ...best, faults }),
        (faults) => ({ ...best, faults }),
        best
      )
      for (const candidate of simpler(best)) {
        const next = candidate(best)
        if (next !== null && (yield* still(next))) best = next
      }
    } while (best !== before && runs < mostRuns)
    return best
  })

const breaks = (rule: Rule) => ({ violations }: Outcome): boolean => violations[0]?.rule === rule

/** Leaves out halves, quarters, and so on down to single items. */
const cutList = <A>(
  items: ReadonlyArray<A>,
  still: (items: ReadonlyArray<A>) => Effect.Effect<boolean>,
  make: (items: ReadonlyArray<A>) => History,
  unchanged: History
): Effect.Effect<History> =>
  Effect.gen(function*() {
    let left = items
    for (let size = Math.ceil(items.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let at = left.length - size; at > -size; at -= size) {
        const from = Math.max(0, at)
        const without = left.toSpliced(from, at + size - from)
        if (without.length < left.length && (yield* still(without))) left = without
      }
    }
    return left.length === items.length ? unchanged : make(left)
  })

/** Each is one simplification, of the history as it is by then; `null`: there is nothing to simplify. */
function* simpler(history: History): Generator<(history: History) => History | null> {
  for (const name of Object.keys(history.settings)) {
    yield (now) => name in now.settings ? { ...now, settings: without(now.settings, name) } : null
  }
  for (const index of history.steps.keys()) {
    yield (now) => changed(now, index, (step) => step.wait === 0 ? null : { ...step, wait: 0 })
    yield (now) =>
      changed(now, index, (step) => step.wait < 100 ? null : { ...step, wait: Math.round(step.wait / 100) * 100 })
    yield (now) =>
      changed(
        now,
        index,
        (step) => "withdrawAfter" in step.act ? { ...step, act: without(step.act, "withdrawAfter") } : null
      )
    const { act } = history.steps[index] as Step
    const options = "options" in act ? Object.keys(act.options ?? {}) : []
    for (const option of options) {
      yield (now) =>
        changed(now, index, (step) => {
          if (!("options" in step.act) || step.act.options === undefined || !(option in step.act.options)) return null
          return { ...step, act: { ...step.act, options: without(step.act.options, option) } }
        })
    }
  }
}

const changed = (history: History, index: number, change: (step: Step) => Step | null): History | null => {
  const step = history.steps[index]
  const next = step === undefined ? null : change(step)
  return next === null ? null : { ...history, steps: history.steps.with(index, next) }
}

const without = <A extends object>(record: A, key: string): A => {
  const { [key as keyof A]: _, ...others } = record
  return others as A
}
