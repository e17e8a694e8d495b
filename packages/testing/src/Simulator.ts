/**
 * Random histories of a whole runtime, each held against its promises step by step, repeatable from its seed, and cut to a
 * short one when it fails.
 *
 * A history starts, stops, kills, withdraws, follows and forgets jobs and commands of every temper, for several owners;
 * replaces the application, crashes, closes, stops and recovers it; makes ports fail, and clocks and event loops go wrong.
 * It runs on the scripted driver and a test clock of its own, in one thread, so the same history gives the same trace.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as TestClock from "effect/testing/TestClock"
import * as Faults from "./Faults.ts"
import * as Lives from "./Lives.ts"
import { children } from "./simulation/children.ts"
import { generate } from "./simulation/generate.ts"
import type { History } from "./simulation/History.ts"
import type { Outcome } from "./simulation/Outcome.ts"
import * as Print from "./simulation/print.ts"
import * as Shrink from "./simulation/shrink.ts"
import { Trial } from "./simulation/Trial.ts"

export { children } from "./simulation/children.ts"
export { defaults, generate, type Limits } from "./simulation/generate.ts"
export type { Action, History, JobOptions, Options, Step, Taking } from "./simulation/History.ts"
export type { Outcome, Rule, Violation } from "./simulation/Outcome.ts"
export { report, toTest } from "./simulation/print.ts"

const world = Lives.layer({ children }).pipe(
  Layer.provideMerge(TestClock.layer()),
  Layer.provideMerge(Logger.layer([]))
)

/**
 * Runs a history in a world and on a clock of its own. Needs nothing, never fails, and does no input or output: what was
 * broken is in the outcome. It ends after the first step that broke something.
 */
export const run = (history: History): Effect.Effect<Outcome> =>
  Effect.gen(function*() {
    const shared = yield* Effect.context<Lives.Shared>()
    const injector = yield* Faults.make(history.faults, { seed: history.seed })
    return yield* new Trial(history, shared, injector).run
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.fresh(world)),
    Random.withSeed(history.seed)
  )

/** A test of one history: a defect that tells what was broken, and the whole trace before it. */
export const check = (history: History): Effect.Effect<void> =>
  Effect.flatMap(
    run(history),
    (outcome) => outcome.violations.length === 0 ? Effect.void : Effect.die(new Error(Print.report(outcome)))
  )

/**
 * A short history that breaks the same promise first as this one does; the same history where it breaks none. Up to 2,000
 * runs.
 */
export const shrink = (history: History): Effect.Effect<History> => Shrink.shrink(run, history)

/** One history of a campaign: its seed, what it broke, and a digest of its trace. */
export interface Verdict {
  readonly seed: number
  readonly outcome: Pick<Outcome, "violations">
  readonly digest: number
}

/** Generates and runs the history of a seed. */
export const judge = (seed: number): Effect.Effect<Verdict> =>
  Effect.map(
    run(generate(seed)),
    ({ trace, violations }) => ({ seed, outcome: { violations }, digest: digestOf(trace) })
  )

/** FNV-1a, of all lines. */
const digestOf = (trace: ReadonlyArray<string>): number => {
  let hash = 0x811c_9dc5
  for (const line of trace) {
    for (let at = 0; at < line.length; at++) hash = Math.imul(hash ^ line.charCodeAt(at), 0x0100_0193)
    hash = Math.imul(hash ^ 10, 0x0100_0193)
  }
  return hash >>> 0
}
