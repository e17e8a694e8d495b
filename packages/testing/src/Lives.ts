/**
 * Several lives of an application in one scripted world, over one ledger that outlives them: each may end by its layer's
 * close, be killed in the middle of whatever it does, or be stopped and go on later.
 *
 * A life is a whole runtime of its own, in the same program as the test. What is killed or stopped is what it can do: its
 * calls of ports, and its timers. Its fibers are not interrupted by a kill, as nothing of a killed program is tidied up;
 * they wait for ever, and go with the test.
 */
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as Settings from "@procyon/runtime/services/Settings"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { Files } from "./Files.ts"
import { clockOf, Gate } from "./internal/Gate.ts"
import * as ScriptedDriver from "./ScriptedDriver.ts"
import * as WorkspaceStoreMemory from "./WorkspaceStoreMemory.ts"
import { World } from "./World.ts"

/** What a life consists of, and what is around it. */
export type Services = ProcessRuntime.ProcessRuntime | World

/** One life: what an application has, and what can happen to it. */
export interface Life {
  /** The pid of its application, which is no process of the scripted table. */
  readonly pid: number
  /** Runs as a part of it: on its services, and on its clock. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, Services>) => Effect.Effect<A, E, World>
  /** As by SIGKILL: nothing it asked for is done any more, nothing is told to it, and its process is gone. */
  readonly kill: Effect.Effect<void>
  /**
   * As by SIGSTOP, or by an event loop that is blocked: its timers do not fire, its calls are not made, and no exit is told
   * to it, until it is continued. Its process is there.
   */
  readonly stop: Effect.Effect<void>
  readonly continue: Effect.Effect<void>
  /** From now on its wall clock is this much ahead (negative: behind) of the world's; the monotonic one goes on. */
  readonly setWallClock: (aheadMillis: number) => Effect.Effect<void>
  /**
   * Closes its layer, on a test clock that moves meanwhile, an hour at most: past it this is a defect. A life that was
   * killed or stopped cannot be closed.
   */
  readonly close: Effect.Effect<void, never, World>
}

/** Applications by pid: they are no processes of the scripted table. */
class Applications extends Context.Service<Applications, Map<number, "alive" | "gone">>()(
  "@procyon/testing/Lives/Applications"
) {}

/** What outlives them. */
export type Shared =
  | ProcessDriver.Service
  | ProcessLedger.Service
  | BlobStore.Service
  | WorkspaceStore.Service
  | Files
  | World
  | Applications

const firstPid = 1_000_001

/** A fresh world, and a ledger and stores in memory that count as durable. */
export const layer = (options: ScriptedDriver.Options): Layer.Layer<Shared> =>
  Layer.fresh(Layer.mergeAll(
    Layer.effect(
      ProcessLedger.Service,
      Effect.map(ProcessLedgerMemory.make, (ledger) => ({ ...ledger, durable: true }))
    ),
    Layer.effect(Applications, Effect.sync(() => new Map())),
    BlobStoreMemory.layer,
    WorkspaceStoreMemory.layer,
    ScriptedDriver.layer(options)
  ))

const driverOf = (
  driver: ProcessDriver.ProcessDriver,
  applications: ReadonlyMap<number, "alive" | "gone">,
  pid: number,
  gate: Gate,
  starts: Map<string, Fiber.Fiber<unknown, unknown>>
): ProcessDriver.ProcessDriver => {
  const self = { ...ScriptedDriver.self, pid }
  const { pass, tell } = gate
  return {
    ...driver,
    self,
    probe: (identity) =>
      pass(Effect.suspend(() => {
        const known = identity.bootId === self.bootId ? applications.get(identity.pid) : undefined
        return known === undefined ? driver.probe(identity) : Effect.succeed(known)
      })),
    spawn: (request) =>
      pass(Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(
          Effect.forkDetach(driver.spawn({ ...request, onExit: tell(request.onExit) }), {
            startImmediately: true,
            uninterruptible: false
          }),
          (start) => {
            starts.set(request.marker, start)
            return restore(Fiber.join(start)).pipe(
              Effect.onInterrupt(() => Fiber.interrupt(start)),
              Effect.ensuring(Effect.sync(() => starts.delete(request.marker)))
            )
          }
        )
      )),
    attach: (request) => pass(driver.attach({ ...request, onExit: tell(request.onExit) })),
    look: (roots) => pass(driver.look(roots)),
    signal: (root, targets, signal) => pass(driver.signal(root, targets, signal)),
    detachedFiles: driver.detachedFiles === null ? null : gate.all(driver.detachedFiles)
  }
}

const ledgerOf = (ledger: ProcessLedger.ProcessLedger, gate: Gate): ProcessLedger.ProcessLedger => ({
  ...gate.all(ledger),
  insert: (row) => gate.pass(ledger.insert(row)),
  transition: (id, expected, changes) => gate.pass(ledger.transition(id, expected, changes)),
  renew: (renewals) => gate.pass(ledger.renew(renewals)),
  get: (id) => gate.pass(ledger.get(id)),
  rows: (filter) => gate.pass(ledger.rows(filter)),
  remove: (id, fence) => gate.pass(ledger.remove(id, fence)),
  workspaces: gate.all(ledger.workspaces)
})

/**
 * Begins a life over the ports it is given: those of `layer`, or what a test has made of them. It has a pid of its own.
 * What it is told of blobs is not part of it: a spill stops where its driver does.
 */
export const begin = (settings: Partial<Settings.Settings> = {}): Effect.Effect<Life, never, Shared> =>
  Effect.gen(function*() {
    const shared = yield* Effect.context<Shared>()
    const applications = Context.get(shared, Applications)
    const pid = firstPid + applications.size
    applications.set(pid, "alive")
    const gate = new Gate()
    /** By their markers. */
    const starts = new Map<string, Fiber.Fiber<unknown, unknown>>()
    const wall = { ahead: 0 }
    const clock = clockOf(yield* Clock.Clock, gate, wall)
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      Layer.fresh(ProcessRuntime.layer).pipe(Layer.provide([
        Layer.succeed(
          ProcessDriver.Service,
          driverOf(Context.get(shared, ProcessDriver.Service), applications, pid, gate, starts)
        ),
        Layer.succeed(ProcessLedger.Service, ledgerOf(Context.get(shared, ProcessLedger.Service), gate)),
        Layer.succeed(WorkspaceStore.Service, gate.all(Context.get(shared, WorkspaceStore.Service))),
        Layer.succeed(BlobStore.Service, gate.all(Context.get(shared, BlobStore.Service))),
        Settings.layer(settings)
      ])),
      scope
    ).pipe(Effect.provideService(Clock.Clock, clock))
    return {
      pid,
      run: (effect) => Effect.provideContext(effect, Context.add(context, Clock.Clock, clock)),
      kill: Effect.map(Context.get(shared, World).processes, (living) => {
        gate.dead = true
        applications.set(pid, "gone")
        // Nobody starts what a program that is gone was about to start; what is there already stays.
        const there = new Set(living.map(({ marker }) => marker))
        for (const [marker, start] of starts) if (!there.has(marker)) start.interruptUnsafe()
      }),
      stop: Effect.sync(() => gate.close()),
      continue: Effect.sync(() => gate.open()),
      setWallClock: (aheadMillis) =>
        Effect.sync(() => {
          wall.ahead = aheadMillis
        }),
      close: Effect.gen(function*() {
        const world = yield* World
        const closing = yield* Effect.forkDetach(Scope.close(scope, Exit.void), { startImmediately: true })
        for (let second = 0; closing.pollUnsafe() === undefined; second++) {
          if (second === 3600) return yield* Effect.die(new Error("a life did not close within an hour"))
          yield* world.advance("1 second")
        }
        applications.set(pid, "gone")
      })
    }
  })
