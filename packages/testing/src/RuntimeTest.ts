/**
 * The whole runtime on fakes, in one line: scripted children, a ledger, a blob store and directories in memory, and the
 * world a test moves. Nothing in it does real input or output, so a TestClock and `World.drain` see all that happens.
 */
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import type * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import type * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as Settings from "@procyon/runtime/services/Settings"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { Files } from "./Files.ts"
import * as ScriptedDriver from "./ScriptedDriver.ts"
import * as WorkspaceStoreMemory from "./WorkspaceStoreMemory.ts"
import { World } from "./World.ts"

/** What the layer provides. */
export type Services = ProcessRuntime.ProcessRuntime | ProcessLedger.Service | Files | World

/** The children of the world, and what of the runtime differs from the ordinary. */
export interface Options extends ScriptedDriver.Options {
  /** Wraps the scripted driver, to make it fail. */
  readonly driver?: Layer.Layer<ProcessDriver.Service, never, ProcessDriver.Service> | undefined
  /** Wraps the ledger in memory, to make it fail. */
  readonly ledger?: Layer.Layer<ProcessLedger.Service, never, ProcessLedger.Service> | undefined
  /** Wraps the store of imagined directories, to make it fail. */
  readonly workspaces?: Layer.Layer<WorkspaceStore.Service, never, WorkspaceStore.Service> | undefined
  /** Settings that differ from the defaults. Without it, those in force where the layer is built. */
  readonly settings?: Partial<Settings.Settings> | undefined
}

/**
 * What an application asks for, with the world beside it; the ledger stays visible, to read rows from. A function on
 * purpose: each call is a fresh runtime in a fresh world, so each test has its own.
 *
 * Closing it runs the barrier. Nobody moves a test clock any more by then, so the layer does, until the barrier is done:
 * at most by the shutdown budget and a second. For scopes of the test's own that end processes, see `scoped`.
 */
export const layer = (
  options: Options
): Layer.Layer<Services> => {
  const onStore = options.workspaces === undefined
    ? ProcessRuntime.layer
    : Layer.provide(ProcessRuntime.layer, options.workspaces)
  const runtime = closing.pipe(
    Layer.provideMerge(options.driver === undefined ? onStore : Layer.provide(onStore, options.driver)),
    Layer.provideMerge(
      options.ledger === undefined
        ? ProcessLedgerMemory.layer
        : Layer.provide(options.ledger, ProcessLedgerMemory.layer)
    ),
    Layer.provide(BlobStoreMemory.layer),
    Layer.provideMerge(WorkspaceStoreMemory.layer),
    Layer.provideMerge(ScriptedDriver.layer(options))
  )
  return Layer.fresh(
    options.settings === undefined ? runtime : Layer.provide(runtime, Settings.layer(options.settings))
  )
}

const stepMillis = 1_000
const mostSteps = 3_600

const isTestClock = (clock: Clock.Clock): boolean => "adjust" in clock

/**
 * Runs an effect, and while it waits moves the test clock, a second at a time and at most an hour. Under another clock it
 * just runs.
 */
const letTimePass = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | World> =>
  Effect.gen(function*() {
    if (!isTestClock(yield* Clock.Clock)) return yield* effect
    const world = yield* World
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    yield* world.drain
    for (let step = 0; step < mostSteps && fiber.pollUnsafe() === undefined; step++) yield* world.advance(stepMillis)
    return yield* Fiber.join(fiber)
  })

/**
 * `Effect.scoped` for a test: what `body` does takes the time that the test gives it, and then time passes until the
 * scope is closed. A handle or a scoped owner ends its processes there, which may take a grace, and under a test clock
 * that nobody moves any more `Effect.scoped` would wait for it for ever.
 */
export const scoped = <A, E, R>(
  body: Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Scope.Scope> | World> =>
  Effect.acquireUseRelease(
    Scope.make(),
    (scope) => Scope.provide(body, scope),
    (scope, exit) => letTimePass(Scope.close(scope, exit))
  )

/** Built last, so closed first: by the time the runtime closes, its barrier has already run. */
const closing: Layer.Layer<never, never, ShutdownBarrier.Service | World> = Layer.effectDiscard(
  ShutdownBarrier.Service.use((barrier) => Effect.addFinalizer(() => letTimePass(barrier.shutdown())))
)
