/**
 * The whole runtime on fakes, in one line: scripted children, a ledger, a blob store and directories in memory, and the
 * world a test moves. Nothing in it does real input or output, so a TestClock and `World.drain` see all that happens.
 */
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import type * as Status from "@procyon/runtime/domain/Status"
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as Settings from "@procyon/runtime/services/Settings"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Faults from "./Faults.ts"
import type { Files } from "./Files.ts"
import { CountedTimers } from "./internal/Timers.ts"
import * as ScriptedDriver from "./ScriptedDriver.ts"
import * as WorkspaceStoreMemory from "./WorkspaceStoreMemory.ts"
import { World } from "./World.ts"

/** What the layer provides. */
export type Services = ProcessRuntime.ProcessRuntime | ProcessLedger.Service | Faults.Service | Files | Timers | World

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
    Layer.provideMerge(runtimeClock),
    Layer.provideMerge(Faults.layer(options.faults ?? [], { seed: options.faultSeed })),
    Layer.provideMerge(ports),
    Layer.provide(worldClock)
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
const faulty: Layer.Layer<Ports, never, Ports | Faults.Service | RuntimeTimers> = Layer.effectContext(
  Effect.gen(function*() {
    const faults = yield* Faults.Service
    return Context.make(ProcessDriver.Service, faults.driver(yield* ProcessDriver.Service)).pipe(
      Context.add(ProcessLedger.Service, faults.ledger(yield* ProcessLedger.Service)),
      Context.add(BlobStore.Service, faults.blobs(yield* BlobStore.Service)),
      Context.add(WorkspaceStore.Service, faults.workspaces(yield* WorkspaceStore.Service)),
      Context.add(Clock.Clock, (yield* RuntimeTimers).clock)
    )
  })
)

/** The timers of a runtime under test and of the world around it. Given by `layer`, for what moves the test clock. */
export class Timers extends Context.Service<Timers, {
  /** In how many milliseconds each timer of the runtime is due, the next one first; negative while it is stalled. */
  readonly armed: Effect.Effect<ReadonlyArray<number>>
  /** The same, with those of the children and of faults. */
  readonly all: Effect.Effect<ReadonlyArray<number>>
  /** The world's clock. What sleeps on it is seen by the helpers here; on the test's own clock it is not. */
  readonly clock: Clock.Clock
}>()("@procyon/testing/RuntimeTest/Timers") {}

/** The clock of the world, with its timers. */
class WorldTimers extends Context.Service<WorldTimers, CountedTimers>()("@procyon/testing/RuntimeTest/WorldTimers") {}

/** The clock of the runtime, which stands on the world's and may be stopped and wrong. */
class RuntimeTimers
  extends Context.Service<RuntimeTimers, CountedTimers>()("@procyon/testing/RuntimeTest/RuntimeTimers")
{}

const worldClock: Layer.Layer<WorldTimers> = Layer.effectContext(Effect.gen(function*() {
  const timers = new CountedTimers(yield* Clock.Clock)
  return Context.make(WorldTimers, timers).pipe(Context.add(Clock.Clock, timers.clock))
}))

const runtimeClock: Layer.Layer<RuntimeTimers | Timers, never, WorldTimers | Faults.Service> = Layer.effectContext(
  Effect.gen(function*() {
    const runtime = new CountedTimers((yield* Faults.Service).clock)
    const world = yield* WorldTimers
    return Context.make(RuntimeTimers, runtime).pipe(
      Context.add(Timers, {
        armed: Effect.sync(() => runtime.armed),
        all: Effect.sync(() => world.armed),
        clock: world.clock
      })
    )
  })
)

// Bounds of a test, in virtual time.

/** How long a helper lets time pass at most, where nothing else is asked for. */
const defaultAtMost: Duration.Input = "1 hour"

/** How long it may take at most; an hour of the test clock when absent. */
export interface Bound {
  readonly atMost?: Duration.Input | undefined
}

/**
 * Runs an effect, and while it waits moves the test clock to whatever is due next. A defect, with the timeline, when it has
 * not ended by then. Under another clock it just runs.
 */
export const letTimePass = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  options: Bound = {}
): Effect.Effect<A, E, R | World> =>
  Effect.gen(function*() {
    if (!isTestClock(yield* Clock.Clock)) return yield* effect
    const timers = yield* Effect.serviceOption(Timers)
    const onWorldsClock = Option.isNone(timers)
      ? effect
      : Effect.provideService(effect, Clock.Clock, timers.value.clock)
    const fiber = yield* Effect.forkChild(onWorldsClock, { startImmediately: true })
    yield* moveUntil("what was waited for has not ended", () => fiber.pollUnsafe() !== undefined, options)
    return yield* Fiber.join(fiber)
  })

/** Moves the test clock, from one thing that is due to the next, until the condition holds. A defect when it does not by then. */
export const advanceUntil = <E, R>(
  condition: Effect.Effect<boolean, E, R>,
  options: Bound = {}
): Effect.Effect<void, E, R | World> =>
  Effect.gen(function*() {
    const world = yield* World
    yield* world.drain
    const end = deadlineOf(yield* Clock.Clock, options)
    while (!(yield* condition)) yield* step(end, "the condition does not hold")
  })

const moveUntil = (what: string, isDone: () => boolean, options: Bound) =>
  Effect.gen(function*() {
    const world = yield* World
    yield* world.drain
    const end = deadlineOf(yield* Clock.Clock, options)
    while (!isDone()) yield* step(end, what)
  })

interface Deadline {
  readonly atMillis: number
  readonly asked: Duration.Input
}

const deadlineOf = (clock: Clock.Clock, { atMost = defaultAtMost }: Bound): Deadline => ({
  atMillis: nowMillis(clock) + Duration.toMillis(Duration.fromInputUnsafe(atMost)),
  asked: atMost
})

const nowMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** With nothing due: what is waited for has a timer that is not seen, on the test's own clock or in one of several lives. */
const blindStepMillis = 1_000
/** Less is a rounding error. */
const shortestStepMillis = 0.001

/** To what is due next, and not past the deadline; at the deadline a defect. */
const step = (deadline: Deadline, what: string) =>
  Effect.gen(function*() {
    const world = yield* World
    const left = deadline.atMillis - nowMillis(yield* Clock.Clock)
    if (left <= 0) return yield* failed(`${what} after ${Duration.format(Duration.fromInputUnsafe(deadline.asked))}`)
    // What is held back is due, and waits for something else.
    const timers = yield* Effect.serviceOption(Timers)
    const due = Option.isNone(timers) ? [] : yield* timers.value.all
    const next = due.find((millis) => millis >= shortestStepMillis) ?? blindStepMillis
    yield* world.advance(Math.min(next, left))
  })

/** A defect for whoever reads the test's failure: what is wrong, and what happened. */
const failed = (what: string): Effect.Effect<never, never, World> =>
  Effect.gen(function*() {
    const timeline = yield* (yield* World).timeline()
    const faults = yield* Effect.serviceOption(Faults.Service)
    const struck = Option.isNone(faults) ? [] : yield* faults.value.injected
    const parts = [
      what,
      `what the driver was asked:\n${timeline === "" ? "nothing" : timeline}`,
      ...(struck.length === 0 ? [] : [`what struck:\n${struck.join("\n")}`])
    ]
    return yield* Effect.die(new Unexpected(parts.join("\n\n")))
  })

/** What a helper of this module dies with: what was expected and is not so. */
export class Unexpected extends Error {
  override readonly name = "Unexpected"
}

const isTestClock = (clock: Clock.Clock): boolean => "adjust" in clock

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

// Jobs.

/** The owner of jobs where a test names none. */
const defaultOwner = "test"

/** How a job of a test is started: `owner` is whose it is, `test` when absent. */
export interface JobOptions extends BackgroundProcess.StartOptions {
  readonly owner?: string | undefined
}

/** The jobs of an owner, `test` when absent. */
export const jobs = (
  owner: string = defaultOwner
): Effect.Effect<BackgroundProcess.Jobs, never, BackgroundProcess.Service> =>
  Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/**
 * Starts a job: a child by its name in `children`, or any command. Lets time pass until the start is answered, a second at
 * most: then the job is listed in phase `starting`.
 */
export const startJob = (
  command: string | CommandSpec.Input,
  options: JobOptions = {}
): Effect.Effect<
  BackgroundProcess.Info,
  BackgroundProcess.StartError,
  BackgroundProcess.Service | World
> =>
  Effect.gen(function*() {
    const { owner, ...start } = options
    const input = typeof command === "string" ? CommandSpec.make(command) : command
    return yield* letTimePass((yield* jobs(owner)).start(input, start))
  })

/** The job of this id, whoever's it is. A defect when there is none. */
const find = (id: string) =>
  Effect.gen(function*() {
    const service = yield* BackgroundProcess.Service
    for (const owner of yield* service.owners) {
      const jobs = service.of(owner)
      if (Option.isSome(yield* Effect.option(jobs.get(id)))) return jobs
    }
    return yield* failed(`there is no job ${id}`)
  })

type Helped<A> = Effect.Effect<A, never, BackgroundProcess.Service | World>

/**
 * Lets time pass until the job is settled or reported as `kill_failed`, and answers with it. Ends nothing: a job that runs
 * on by itself is a defect by then.
 */
export const settled = (id: string, options?: Bound): Helped<BackgroundProcess.Info> =>
  Effect.flatMap(find(id), (jobs) => Effect.orDie(letTimePass(jobs.wait(id), options)))

/** Stops the job, and lets time pass until that is answered: it is settled then, or `kill_failed`. */
export const stopped = (id: string, options?: Bound): Helped<BackgroundProcess.Info> =>
  Effect.flatMap(find(id), (jobs) => Effect.orDie(letTimePass(jobs.stop(id), options)))

/** Some of the fields of a receipt, and of what is in them. Of a list every item has to be there. */
export type Expected<A> = A extends ReadonlyArray<infer Item> ? ReadonlyArray<Expected<Item>>
  : A extends object ? { readonly [Key in keyof A]?: Expected<A[Key]> }
  : A

/**
 * Lets time pass until the job has its receipt, checks that it says what is expected, and answers with all of it. A
 * defect that names every field that differs, with the timeline. What is not expected is not looked at.
 */
export const expectReceipt = (
  id: string,
  expected: Expected<Status.TerminationResult>,
  options?: Bound
): Helped<Status.TerminationResult> =>
  Effect.gen(function*() {
    const jobs = yield* find(id)
    const receipt = yield* Effect.orDie(letTimePass(jobs.termination(id), options))
    const differences = differencesOf("", expected, receipt)
    if (differences.length > 0) {
      const { command } = yield* Effect.orDie(jobs.get(id))
      return yield* failed([`the receipt of ${command}`, ...differences].join("\n  "))
    }
    return receipt
  })

const differencesOf = (where: string, expected: unknown, actual: unknown): ReadonlyArray<string> => {
  if (Object.is(expected, actual)) return []
  const both = typeof expected === "object" && typeof actual === "object" && expected !== null && actual !== null
  const isList = Array.isArray(expected) || Array.isArray(actual)
  if (!both || (isList && Object.keys(expected).length !== Object.keys(actual).length)) {
    return [`${where}: expected ${JSON.stringify(expected)}, was ${JSON.stringify(actual)}`]
  }
  return Object.entries(expected).flatMap(([key, value]) =>
    differencesOf(where === "" ? key : `${where}.${key}`, value, Reflect.get(actual, key))
  )
}

/** The notices of an owner (`test` when absent) that nobody has taken yet: they are taken now. Needs no time. */
export const notices = (
  owner: string = defaultOwner
): Effect.Effect<ReadonlyArray<BackgroundProcess.Notice>, never, BackgroundProcess.Service | World> =>
  Effect.gen(function*() {
    yield* (yield* World).drain
    return yield* (yield* jobs(owner)).notices
  })

/**
 * Moves the test clock to the next heartbeat of whatever job, and answers with what was told at that beat: a `Heartbeat`,
 * and a `Progress` where there was output, of each job that beats there. A defect when there is none by then, as where no
 * job runs.
 */
export const advanceToNextBeat = (options: Bound = {}): Helped<ReadonlyArray<BackgroundProcess.Event>> =>
  Effect.gen(function*() {
    const service = yield* BackgroundProcess.Service
    const world = yield* World
    yield* world.drain
    const told: Array<BackgroundProcess.Event> = []
    const listening = Stream.runForEach(service.events, (event) =>
      Effect.sync(() => {
        if (event._tag === "Heartbeat" || event._tag === "Progress") told.push(event)
      }))
    yield* Effect.forkScoped(listening, { startImmediately: true })
    const isBeat = () => told.some((event) => event._tag === "Heartbeat")
    yield* moveUntil("there was no beat", isBeat, options)
    return told
  }).pipe(Effect.scoped)

/**
 * Whether everything is over: no child lives, nothing is held of one, no timer of the runtime is armed, and no row says that a
 * job is not settled. A defect that names what is left, with the timeline. Moves no clock: what is still to come is left.
 */
export const nothingLeft: Effect.Effect<
  void,
  never,
  ProcessLedger.Service | World | Timers
> = Effect.gen(function*() {
  const world = yield* World
  yield* world.drain
  const rows = yield* Effect.orDie(ProcessLedger.Service.use((ledger) => ledger.rows({ settled: false })))
  const left = [
    ...(yield* world.alive).map((name) => `${name} lives`),
    ...(yield* world.open).map((name) => `${name} is not released`),
    ...(yield* (yield* Timers).armed).map((millis) => `a timer is due in ${millis / 1000} s`),
    ...rows.map(({ command, status }) => `the row of ${command.name} is ${status}`)
  ]
  if (left.length > 0) return yield* failed(["something is left", ...left].join("\n  "))
})

/** Built last, so closed first: by the time the runtime closes, its barrier has already run. One that is stopped goes on. */
const closing: Layer.Layer<never, never, ShutdownBarrier.Service | Faults.Service | Timers | World> = Layer
  .effectDiscard(
    Effect.gen(function*() {
      const barrier = yield* ShutdownBarrier.Service
      const faults = yield* Faults.Service
      yield* Effect.addFinalizer(() => Effect.andThen(faults.continue, letTimePass(barrier.shutdown())))
    })
  )
