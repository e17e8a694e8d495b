/**
 * The whole runtime on fakes, in one line: scripted children, a ledger, a blob store and directories in memory, and the
 * world a test moves. Nothing in it does real input or output, so a TestClock and `World.drain` see all that happens.
 */
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as Settings from "@procyon/runtime/services/Settings"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Faults from "./Faults.ts"
import type { Files } from "./Files.ts"
import * as ScriptedDriver from "./ScriptedDriver.ts"
import * as WorkspaceStoreMemory from "./WorkspaceStoreMemory.ts"
import { World } from "./World.ts"

/** What the layer provides. */
export type Services = ProcessRuntime.ProcessRuntime | ProcessLedger.Service | Faults.Service | Files | World

/** The children of the world, and what of the runtime differs from the ordinary. */
export interface Options extends ScriptedDriver.Options {
  /** Wraps the scripted driver, to make it fail. */
  readonly driver?: Layer.Layer<ProcessDriver.Service, never, ProcessDriver.Service> | undefined
  /** Wraps the ledger in memory, to make it fail. */
  readonly ledger?: Layer.Layer<ProcessLedger.Service, never, ProcessLedger.Service> | undefined
  /** Wraps the store of imagined directories, to make it fail. */
  readonly workspaces?: Layer.Layer<WorkspaceStore.Service, never, WorkspaceStore.Service> | undefined
  /** Wraps the blobs in memory, to make them fail. */
  readonly blobs?: Layer.Layer<BlobStore.Service, never, BlobStore.Service> | undefined
  /**
   * What goes wrong at the ports, as they are with the wrappers above. The injector is there as `Faults.Service`, without
   * any faults too.
   */
  readonly faults?: ReadonlyArray<Faults.Fault> | undefined
  /** What faults with a chance are seeded with. 0 when absent. */
  readonly faultSeed?: number | undefined
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
  const ports = Layer.mergeAll(
    wrapped<ProcessDriver.Service, World>(ScriptedDriver.layer(options), options.driver),
    wrapped(ProcessLedgerMemory.layer, options.ledger),
    wrapped(BlobStoreMemory.layer, options.blobs),
    wrapped<WorkspaceStore.Service, Files>(WorkspaceStoreMemory.layer, options.workspaces)
  )
  const runtime = closing.pipe(
    Layer.provideMerge(ProcessRuntime.layer),
    Layer.provide(faulty),
    Layer.provideMerge(Faults.layer(options.faults ?? [], { seed: options.faultSeed })),
    Layer.provideMerge(ports)
  )
  return Layer.fresh(
    options.settings === undefined ? runtime : Layer.provide(runtime, Settings.layer(options.settings))
  )
}

const wrapped = <Port, Others>(
  port: Layer.Layer<Port | Others>,
  wrapper: Layer.Layer<Port, never, Port> | undefined
): Layer.Layer<Port | Others> => wrapper === undefined ? port : Layer.merge(port, Layer.provide(wrapper, port))

type Ports = ProcessDriver.Service | ProcessLedger.Service | BlobStore.Service | WorkspaceStore.Service

/** The ports as the runtime sees them, and its clock. */
const faulty: Layer.Layer<Ports, never, Ports | Faults.Service> = Layer.effectContext(Effect.gen(function*() {
  const faults = yield* Faults.Service
  return Context.make(ProcessDriver.Service, faults.driver(yield* ProcessDriver.Service)).pipe(
    Context.add(ProcessLedger.Service, faults.ledger(yield* ProcessLedger.Service)),
    Context.add(BlobStore.Service, faults.blobs(yield* BlobStore.Service)),
    Context.add(WorkspaceStore.Service, faults.workspaces(yield* WorkspaceStore.Service)),
    Context.add(Clock.Clock, faults.clock)
  )
}))

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

/** Built last, so closed first: by the time the runtime closes, its barrier has already run. One that is stopped goes on. */
const closing: Layer.Layer<never, never, ShutdownBarrier.Service | Faults.Service | World> = Layer.effectDiscard(
  Effect.gen(function*() {
    const barrier = yield* ShutdownBarrier.Service
    const faults = yield* Faults.Service
    yield* Effect.addFinalizer(() => Effect.andThen(faults.continue, letTimePass(barrier.shutdown())))
  })
)
