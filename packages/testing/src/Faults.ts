/**
 * What goes wrong at a port: a fault fails, delays, tears or doubles the n-th or a random call of a driver, a ledger, a
 * blob store or a workspace store.
 *
 * A fault is plain data, so that it can be generated, shrunk, printed and pasted; the functions here only write it shorter.
 * `make` builds what lets faults strike. It stands between a runtime and its ports, and holds the clock that a runtime runs
 * on, for faults of time. What no fault strikes at goes through as it is.
 *
 * ```ts
 * RuntimeTest.layer({ children, faults: [Faults.spawnEagain(), ...Faults.ledgerDown(Faults.from(3))] })
 * ```
 */
import type * as BlobStore from "@procyon/runtime/ports/BlobStore"
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import type * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import type * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Blobs from "./internal/faults/blobs.ts"
import * as Driver from "./internal/faults/driver.ts"
import {
  calls as callsOf,
  describe,
  type Fault,
  mistakeIn,
  nameOf,
  type Port,
  type What,
  type When
} from "./internal/faults/Fault.ts"
import * as Ledger from "./internal/faults/ledger.ts"
import { InjectedDefect, Strikes } from "./internal/faults/Strikes.ts"
import * as Workspaces from "./internal/faults/workspaces.ts"
import { clockOf, Gate } from "./internal/Gate.ts"

export { type Fault, InjectedDefect, type Port, type What, type When }

/** Ports with faults in them, and the clock of a runtime that stands on them. */
export interface Injector {
  /** Any number of ports of a kind may be wrapped; all of them are counted as one. */
  readonly driver: (driver: ProcessDriver.ProcessDriver) => ProcessDriver.ProcessDriver
  readonly ledger: (ledger: ProcessLedger.ProcessLedger) => ProcessLedger.ProcessLedger
  readonly blobs: (store: BlobStore.BlobStore) => BlobStore.BlobStore
  readonly workspaces: (store: WorkspaceStore.WorkspaceStore) => WorkspaceStore.WorkspaceStore
  /** For the runtime, not for the world: its timers stop with `stop`, and its wall clock may be wrong. */
  readonly clock: Clock.Clock
  /**
   * The event loop of the runtime is blocked: its timers do not fire, its calls of ports are neither made nor answered, and
   * no exit and no output is told to it, until `continue`. The world goes on. What a fiber of its own does without a port
   * or a timer is not held up.
   */
  readonly stop: Effect.Effect<void>
  /** What was held back happens now, in order. */
  readonly continue: Effect.Effect<void>
  /** Stops now and continues after this long on the world's clock. Returns at once. */
  readonly stall: (duration: Duration.Input) => Effect.Effect<void>
  /** From now on the runtime's wall clock is this much ahead (negative: behind) of the world's; the monotonic one goes on. */
  readonly setWallClock: (aheadMillis: number) => Effect.Effect<void>
  /**
   * From now on no fault strikes, and what is stopped goes on. What a fault has done stays: a wall clock stays wrong, and who
   * hangs goes on hanging, but can be interrupted.
   */
  readonly heal: Effect.Effect<void>
  /** Whether any fault of this port has struck. */
  readonly struck: (port: Port) => boolean
  /** What struck so far, one line each: the milliseconds, at what, and what. `0 driver.spawn Fail TooManyProcesses EAGAIN` */
  readonly injected: Effect.Effect<ReadonlyArray<string>>
}

/** The injector of a runtime that is built with faults: for tests that heal it, stop it, or ask what struck. */
class FaultsService extends Context.Service<FaultsService, Injector>()("@procyon/testing/Faults") {}
export { FaultsService as Service }

/**
 * Lets these faults strike. Of several that strike at one call the first in the list does; all of them count it.
 *
 * The clock it is made under is the world's: the injected lines and stalls are in its time. A fault that makes no sense is a
 * mistake in the program: making it dies with a `RangeError` that names the fault, before anything runs.
 */
export const make = (
  faults: ReadonlyArray<Fault>,
  options: { readonly seed?: number | undefined } = {}
): Effect.Effect<Injector> =>
  Effect.suspend(() => {
    for (const fault of faults) {
      const mistake = mistakeIn(fault)
      if (mistake !== null) return Effect.die(new RangeError(`Faults: ${format(fault)}: ${mistake}`))
    }
    return Effect.map(Clock.Clock, (clock) => injectorOf(faults, options.seed ?? 0, clock))
  })

const injectorOf = (faults: ReadonlyArray<Fault>, seed: number, clock: Clock.Clock): Injector => {
  const gate = new Gate()
  const strikes = new Strikes(faults, seed, clock, gate)
  return {
    driver: (driver) => Driver.make(driver, strikes),
    ledger: (ledger) => Ledger.make(ledger, strikes),
    blobs: (store) => Blobs.make(store, strikes),
    workspaces: (store) => Workspaces.make(store, strikes),
    clock: clockOf(clock, gate, strikes.wall),
    stop: Effect.sync(() => gate.close()),
    continue: Effect.sync(() => gate.open()),
    stall: (duration) => strikes.stall(millisOf(duration)),
    setWallClock: (aheadMillis) =>
      Effect.sync(() => {
        strikes.wall.ahead = aheadMillis
      }),
    heal: Effect.sync(() => strikes.heal()),
    struck: (port) => strikes.struck.has(port),
    injected: Effect.sync(() => [...strikes.lines])
  }
}

/** The injector of `make`. */
export const layer = (
  faults: ReadonlyArray<Fault>,
  options?: { readonly seed?: number | undefined }
): Layer.Layer<FaultsService> => Layer.effect(FaultsService, make(faults, options))

/** Every call a fault can be about, by port. */
export const calls: Readonly<Record<Port, ReadonlyArray<string>>> = {
  driver: Object.keys(callsOf.driver),
  ledger: Object.keys(callsOf.ledger),
  blobs: Object.keys(callsOf.blobs),
  workspaces: Object.keys(callsOf.workspaces)
}

/** What is wrong with a fault, or `null`: it is one that `make` takes. */
export const check = (fault: Fault): string | null => mistakeIn(fault)

/** One line: `driver.spawn Fail TooManyProcesses EAGAIN, nth 1`. */
export const format = (fault: Fault): string => {
  const { when } = fault
  const { _tag, ...how } = when
  return `${nameOf(fault)} ${describe(fault.what)}, ${[_tag.toLowerCase(), ...Object.values(how)].join(" ")}`
}

const millisOf = (duration: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(duration))

// When.

/** At the n-th call, from 1, and at `times` - 1 (default 0) after it. */
export const nth = (n: number, times?: number): When =>
  times === undefined ? { _tag: "Nth", n } : { _tag: "Nth", n, times }

/** At the n-th call, from 1, and at all after it. */
export const from = (n: number): When => ({ _tag: "From", n })

/** At each call with this chance, from 0 to 1. */
export const chance = (chance: number): When => ({ _tag: "Chance", chance })

/** At each call. */
export const always: When = { _tag: "Always" }

const first = nth(1)

// Any fault.

/** A fault of any kind, at the first call if nothing else is asked for: `on("ledger", "insert", { _tag: "Hang" })`. */
export const on = (port: Port, call: string, what: What, when: When = first): Fault => ({ port, call, when, what })

// The driver's.

/** A start fails: there may be no more processes. */
export const spawnEagain = (when?: When): Fault =>
  on("driver", "spawn", { _tag: "Fail", problem: "TooManyProcesses", code: "EAGAIN" }, when)

/** A start fails: there may be no more open files. */
export const spawnEmfile = (when?: When): Fault =>
  on("driver", "spawn", { _tag: "Fail", problem: "TooManyFiles", code: "EMFILE" }, when)

/** The exit of a leader is never told by itself: only a look shows that it is gone. */
export const exitLost = (when?: When): Fault => on("driver", "spawn", { _tag: "LoseExit" }, when)

/** The exit of a leader is told twice. */
export const exitTwice = (when?: When): Fault => on("driver", "spawn", { _tag: "Duplicate" }, when)

/** The exit is told before the start answers, which it does only then: of a leader that runs on, after 5 seconds. */
export const exitBeforeAnswer = (when?: When): Fault => on("driver", "spawn", { _tag: "ExitEarly" }, when)

/** Signals are refused with EPERM. */
export const signalRefused = (when?: When): Fault => on("driver", "signal", { _tag: "Refuse", code: "EPERM" }, when)

/** Signals are told as sent, and reach nobody. */
export const signalSwallowed = (when?: When): Fault => on("driver", "signal", { _tag: "Swallow" }, when)

/** A look that is cut short. */
export const lookCutShort = (when?: When): Fault => on("driver", "look", { _tag: "Tear" }, when)

/** The keeper is lost at a look, and there is none for so long: see `KeeperGone`. */
export const keeperGone = (duration: Duration.Input = "10 seconds", when?: When): Fault =>
  on("driver", "look", { _tag: "KeeperGone", millis: millisOf(duration) }, when)

// The stores'.

/** A blob store without space. */
export const noSpace = (when?: When): Fault => on("blobs", "append", { _tag: "Fail", problem: "NoSpace" }, when)

/** Half of an append is written, and then there is no space. */
export const tornWrite = (when?: When): Fault => on("blobs", "append", { _tag: "Tear" }, when)

/** A disk without space for directories. */
export const noSpaceForWorkspace = (when?: When): Fault =>
  on("workspaces", "create", { _tag: "Fail", problem: "Full" }, when)

// The ledger's.

/** Leases turn out to be another runtime's when they are to be renewed. */
export const leaseLost = (when?: When): Fault => on("ledger", "renew", { _tag: "LeaseLost" }, when)

/** No call of the ledger gets through: a fault each, `when` is counted for each. */
export const ledgerDown = (when: When = always): ReadonlyArray<Fault> =>
  calls.ledger.map((call) => on("ledger", call, { _tag: "Fail", problem: "Unavailable" }, when))

// Those of time, at whatever call they are put.

/** The event loop is blocked for so long when a leader is looked at. */
export const stalled = (duration: Duration.Input = "10 seconds", when?: When): Fault =>
  on("driver", "look", { _tag: "Stall", millis: millisOf(duration) }, when)

/** The wall clock jumps, ahead or (negative) back of the world's, when leases are renewed. */
export const clockJumps = (aheadMillis: number, when?: When): Fault =>
  on("ledger", "renew", { _tag: "WallClock", aheadMillis }, when)
