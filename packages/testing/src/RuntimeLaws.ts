/**
 * What a whole runtime owes an application, as tests that can be run over any driver: `AppProcess`, `BackgroundProcess`
 * and `ShutdownBarrier`.
 *
 * A law starts the programs of `DriverLaws` and asserts what the services say of them, and, where the caller can tell,
 * what lives whatever they say. It waits for evidence, never for time to pass, and for no longer than 10 s. Each law has
 * a fresh runtime, ends what it started, and ends by running the barrier. A law that cannot be shown, because the driver
 * does not claim the capability or there is no program for it, is skipped with that reason in its name.
 *
 * What a runtime owes about the lives before it (`Recovery`), about detached jobs and about workspaces is not in here.
 */
import { assert } from "@effect/vitest"
import type * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as Settings from "@procyon/runtime/services/Settings"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as DriverLaws from "./DriverLaws.ts"
import * as AppProcessLaws from "./internal/AppProcessLaws.ts"
import * as BackgroundProcessLaws from "./internal/BackgroundProcessLaws.ts"
import { Bench, type Failure, type Statement, type Statements } from "./internal/RuntimeBench.ts"
import * as ShutdownBarrierLaws from "./internal/ShutdownBarrierLaws.ts"
import * as Suite from "./internal/Suite.ts"
import type { Law as AnyLaw } from "./Law.ts"

/** What the laws need to know of the runtime they are tried on: what `DriverLaws` needs to know of its driver, and more. */
export interface Options<out R = never> extends DriverLaws.Options {
  /**
   * Names of all that lives of what the runtime has started, found by other means than its driver's. With it, every law by
   * which something is gone also asserts that it is; without it, the receipt is believed.
   */
  readonly living?: Effect.Effect<ReadonlyArray<string>, never, R> | undefined
}

/** One law, as it is for a runtime on such a driver. */
export type Law<R = never> = AnyLaw<Failure, ProcessRuntime.ProcessRuntime | R>

/** What the laws set beside the defaults: few jobs are many, and ends are noticed soon. */
export const settings: Partial<Settings.Settings> = {
  forceWindowMillis: 10_000,
  lingerMillis: 20,
  maxRunningPerOwner: 3,
  pollMillis: 5
}

const lawsAbout: Readonly<Record<string, Statements>> = {
  "AppProcess, running": AppProcessLaws.running,
  "AppProcess, owning": AppProcessLaws.owning,
  "AppProcess, bounding": AppProcessLaws.bounding,
  "AppProcess, feeding": AppProcessLaws.feeding,
  "AppProcess, trees": AppProcessLaws.trees,
  "BackgroundProcess, jobs": BackgroundProcessLaws.jobs,
  "BackgroundProcess, ends": BackgroundProcessLaws.ends,
  "BackgroundProcess, trees": BackgroundProcessLaws.trees,
  "BackgroundProcess, telling": BackgroundProcessLaws.telling,
  "BackgroundProcess, following": BackgroundProcessLaws.following,
  ShutdownBarrier: ShutdownBarrierLaws.closing
}

/** The laws as data, to be run one by one: each needs a fresh runtime, built under `settings`. */
export const laws = <R = never>(options: Options<R>): ReadonlyArray<Law<R>> =>
  Object.entries(lawsAbout).flatMap(([about, statements]) =>
    statements(options.programs).map((statement) => lawFrom(about, statement, options))
  )

/**
 * Registers every law as a test of this runtime. Call it at the top level of a test file.
 *
 * `layer` is built for each law, under `settings`: it has to leave those settings as they are. Under a virtual clock it
 * has to close without anybody moving the clock, as `RuntimeTest.layer` does.
 */
export const runtimeLaws = <E, R = never>(
  name: string,
  layer: Layer.Layer<ProcessRuntime.ProcessRuntime | R, E>,
  options: Options<R>
): void =>
  Suite.define(
    name,
    "a runtime",
    laws(options),
    Layer.provide(layer, Settings.layer(settings)),
    options.clock
  )

const lawFrom = <R>(about: string, statement: Statement, options: Options<R>): Law<R> => {
  const { body, name, needs, programs } = statement
  const { capabilities, clock } = options
  const commands = programs.flatMap((program) => "missing" in program ? [] : [program])
  const absent = programs.flatMap((program) => "missing" in program ? [program.missing] : [])
  return {
    about,
    name,
    skipped: absent[0] ?? Suite.lacking(needs, capabilities),
    run: Effect.gen(function*() {
      const context = yield* Effect.context<R>()
      const living = options.living === undefined ? null : Effect.provide(options.living, context)
      const bench = new Bench({
        app: yield* AppProcess.Service,
        background: yield* BackgroundProcess.Service,
        barrier: yield* ShutdownBarrier.Service,
        capabilities,
        clock,
        living
      })
      yield* body(bench, ...commands)
      const report = yield* bench.shutdown("now")
      assert.isFalse(report.budgetExceeded)
      yield* bench.nobodyLives
    })
  }
}
