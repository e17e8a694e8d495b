/**
 * Random histories of a whole runtime, each held against its promises step by step, repeatable from its seed, and cut to a
 * short one when it fails.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as TestClock from "effect/testing/TestClock"
import * as Faults from "./Faults.ts"
import * as Lives from "./Lives.ts"
import { children } from "./simulation/children.ts"
import type { History } from "./simulation/History.ts"
import type { Outcome } from "./simulation/Outcome.ts"
import { Trial } from "./simulation/Trial.ts"

export { defaults, generate, type Limits } from "./simulation/generate.ts"
export type { Action, History, JobOptions, Options, Step, Taking } from "./simulation/History.ts"
export type { Outcome, Rule, Violation } from "./simulation/Outcome.ts"

const world = Lives.layer({ children }).pipe(
  Layer.provideMerge(TestClock.layer()),
  Layer.provideMerge(Logger.layer([]))
)

/** Runs a history in a world and on a clock of its own. Needs nothing, and does no input or output. */
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
