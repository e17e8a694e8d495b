/**
 * Several lives of an application in one scripted world, over one ledger that outlives them: each may end by its layer's
 * close, be killed in the middle of whatever it does, or be stopped and go on later.
 */
import { assert, it } from "@effect/vitest"
import { BackgroundProcess, CommandSpec, Recovery } from "@procyon/runtime"
import { type Script, ScriptedDriver, World } from "@procyon/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type * as BlobStoreService from "../../src/ports/BlobStore.ts"
import * as ProcessDriver from "../../src/ports/ProcessDriver.ts"
import * as ProcessLedger from "../../src/ports/ProcessLedger.ts"
import * as ProcessRuntime from "../../src/ProcessRuntime.ts"
import * as Settings from "../../src/services/Settings.ts"
import * as BlobStoreMemory from "../../src/stores/BlobStoreMemory.ts"
import * as ProcessLedgerMemory from "../../src/stores/ProcessLedgerMemory.ts"

/** What outlives them. */
export type Shared = ProcessDriver.Service | ProcessLedger.Service | BlobStoreService.Service | World

/** One life: what an application has, and what can happen to it. */
export interface Life {
  readonly run: <A, E>(
    effect: Effect.Effect<A, E, ProcessRuntime.ProcessRuntime | World>
  ) => Effect.Effect<A, E, World>
  /** As by SIGKILL: nothing it asked for is done any more, nothing is told to it, and its process is gone. */
  readonly kill: Effect.Effect<void>
  /** As by SIGSTOP: it does nothing until it is continued; its process is there. */
  readonly stop: Effect.Effect<void>
  readonly continue: Effect.Effect<void>
  /** Closes its layer, on a clock that moves meanwhile. */
  readonly close: Effect.Effect<void, never, World>
}

/** A fresh world, ledger and store. */
export const layer = (options: ScriptedDriver.Options): Layer.Layer<Shared> =>
  Layer.fresh(Layer.mergeAll(
    Layer.effect(
      ProcessLedger.Service,
      Effect.map(ProcessLedgerMemory.make, (ledger) => ({ ...ledger, durable: true }))
    ),
    BlobStoreMemory.layer,
    ScriptedDriver.layer(options)
  ))

/** Begins a life. `pid`: of its application, another one for each. */
export const begin = (
  pid: number,
  settings: Partial<Settings.Settings> = {}
): Effect.Effect<Life, never, Shared> =>
  Effect.gen(function*() {
    const shared = yield* Effect.context<Shared>()
    const driver = Context.get(shared, ProcessDriver.Service)
    const ledger = Context.get(shared, ProcessLedger.Service)
    const gate = Latch.makeUnsafe(true)
    let dead = false
    const self = { ...ScriptedDriver.self, pid }
    applications.set(pid, "alive")

    /** What reaches the world only while this life goes on. */
    const gated = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() =>
        dead ? Effect.never : Effect.andThen(gate.await, Effect.suspend(() => dead ? Effect.never : effect))
      )
    const whileAlive = <Args extends ReadonlyArray<unknown>>(f: (...args: Args) => void) => (...args: Args): void => {
      if (!dead) f(...args)
    }
    const mine: ProcessDriver.ProcessDriver = {
      ...driver,
      self,
      probe: (identity) =>
        gated(Effect.suspend(() => {
          const known = identity.bootId === self.bootId ? applications.get(identity.pid) : undefined
          return known === undefined ? driver.probe(identity) : Effect.succeed(known)
        })),
      spawn: (request) => gated(driver.spawn({ ...request, onExit: whileAlive(request.onExit) })),
      attach: (request) => gated(driver.attach({ ...request, onExit: whileAlive(request.onExit) })),
      look: (roots) => gated(driver.look(roots)),
      signal: (root, targets, signal) => gated(driver.signal(root, targets, signal))
    }
    const rows: ProcessLedger.ProcessLedger = {
      durable: true,
      insert: (row) => gated(ledger.insert(row)),
      transition: (id, expected, changes) => gated(ledger.transition(id, expected, changes)),
      renew: (renewals) => gated(ledger.renew(renewals)),
      get: (id) => gated(ledger.get(id)),
      rows: (filter) => gated(ledger.rows(filter)),
      remove: (id, fence) => gated(ledger.remove(id, fence)),
      workspaces: {
        insert: (record) => gated(ledger.workspaces.insert(record)),
        update: (id, fence, changes) => gated(ledger.workspaces.update(id, fence, changes)),
        remove: (id, fence) => gated(ledger.workspaces.remove(id, fence)),
        list: (options) => gated(ledger.workspaces.list(options))
      }
    }
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      Layer.fresh(ProcessRuntime.layer).pipe(Layer.provide([
        Layer.succeed(ProcessDriver.Service, mine),
        Layer.succeed(ProcessLedger.Service, rows),
        Settings.layer(settings)
      ])),
      scope
    )
    return {
      run: (effect) => Effect.provide(effect, context),
      kill: Effect.sync(() => {
        dead = true
        applications.set(pid, "gone")
      }),
      stop: Effect.sync(() => gate.closeUnsafe()),
      continue: Effect.sync(() => gate.openUnsafe()),
      close: Effect.gen(function*() {
        const world = yield* World
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        while (closing.pollUnsafe() === undefined) yield* world.advance("1 second")
        applications.set(pid, "gone")
      })
    }
  })

/** Applications by pid: they are no processes of the scripted table. A pid is of one test only. */
const applications = new Map<number, "alive" | "gone">()

export const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** Starts a job of owner `s1`. */
export const start = (name: string, options?: BackgroundProcess.StartOptions) =>
  Effect.flatMap(jobsOf("s1"), (jobs) => jobs.start(CommandSpec.make(name), options))

/** A law on a fresh world. */
export const law = <A, E>(
  name: string,
  children: Record<string, Script>,
  body: Effect.Effect<A, E, Shared>
) => it.effect(name, () => Effect.provide(body, layer({ children })))

/** On a clock that moves for it, a minute at most. */
export const moving = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const world = yield* World
    const fiber = yield* Effect.forkChild(effect)
    yield* world.drain
    for (let second = 0; second < 60 && fiber.pollUnsafe() === undefined; second++) yield* world.advance("1 second")
    assert.isDefined(fiber.pollUnsafe(), "it ends within a minute")
    return yield* Fiber.join(fiber)
  })

/** The report of the first pass. */
export const reconciled = (life: Life) => moving(life.run(Recovery.Service.use((recovery) => recovery.started)))
