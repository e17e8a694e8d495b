/**
 * The whole runtime on fakes, in one line: scripted children, a ledger and a blob store in memory, and the world a test
 * moves. Nothing in it does real input or output, so a TestClock and `World.drain` see all that happens.
 */
import type * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as Settings from "@procyon/runtime/services/Settings"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as TestClock from "effect/testing/TestClock"
import * as ScriptedDriver from "./ScriptedDriver.ts"
import type { World } from "./World.ts"

/** What the layer provides. */
export type Services = ProcessRuntime.ProcessRuntime | ProcessLedger.Service | World

export interface Options extends ScriptedDriver.Options {
  /** Wraps the ledger in memory, to make it fail. */
  readonly ledger?: Layer.Layer<ProcessLedger.Service, never, ProcessLedger.Service> | undefined
  /** Settings that differ from the defaults. Without it, those in force where the layer is built. */
  readonly settings?: Partial<Settings.Settings> | undefined
}

/**
 * What an application asks for, with the world beside it; the ledger stays visible, to read rows from. A function on
 * purpose: each call is a fresh runtime in a fresh world, so each test has its own.
 *
 * Closing it runs the barrier. Nobody moves a test clock any more by then, so the layer does, until the barrier is done:
 * at most by the shutdown budget and a second.
 */
export const layer = (
  options: Options
): Layer.Layer<Services> => {
  const runtime = closing.pipe(
    Layer.provideMerge(ProcessRuntime.layer),
    Layer.provideMerge(
      options.ledger === undefined
        ? ProcessLedgerMemory.layer
        : Layer.provide(options.ledger, ProcessLedgerMemory.layer)
    ),
    Layer.provide(BlobStoreMemory.layer),
    Layer.provideMerge(ScriptedDriver.layer(options))
  )
  return Layer.fresh(
    options.settings === undefined ? runtime : Layer.provide(runtime, Settings.layer(options.settings))
  )
}

const step = "1 second"

const isTestClock = (clock: Clock.Clock): clock is TestClock.TestClock => "adjust" in clock

/** Built last, so closed first: by the time the runtime closes, its barrier has already run. */
const closing: Layer.Layer<never, never, ShutdownBarrier.Service> = Layer.effectDiscard(Effect.gen(function*() {
  const barrier = yield* ShutdownBarrier.Service
  const clock = yield* Clock.Clock
  if (!isTestClock(clock)) return
  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      const shutdown = yield* Effect.forkChild(barrier.shutdown())
      while (shutdown.pollUnsafe() === undefined) yield* clock.adjust(step)
    })
  )
}))
