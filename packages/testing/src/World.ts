/**
 * What a test sees of the scripted world, and what it can do to it from outside.
 *
 * Times are those of the clock that the scripted driver was built under: in a test, virtual milliseconds. A name is the
 * one under which a script was given, for a leader as in `children`, for any other process as in `forks`.
 */
import type { EndedBy } from "@procyon/runtime/ports/ProcessDriver"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Recorder from "./Recorder.ts"
import type { Script } from "./Script.ts"

/** A living process of the scripted table. `marker`: that of its tree; `null` for strangers, and where it was wiped. */
export interface Living {
  readonly label: string
  readonly pid: number
  readonly marker: string | null
}

/** The world of one scripted driver. */
export interface WorldService {
  /**
   * Everything the driver was asked to do, in order, one line each: the milliseconds, what, to whom, and the answer where
   * it was not a plain yes. Questions (looks, probes) are not in it.
   *
   * `0 spawn server`, `5000 SIGTERM server`, `8000 SIGKILL server refused`, `8000 SIGKILL server gone`,
   * `9000 SIGSTOP group 1001`, `10 write server`, `10 closeStdin server`, `9000 release server`.
   */
  readonly calls: Effect.Effect<ReadonlyArray<string>>
  /** The same as data, with questions, exits that were told, and the flow of output. */
  readonly recorded: Effect.Effect<ReadonlyArray<Recorder.Recorded>>
  /** `Recorder.format` of it: for a snapshot, and for reading what happened. */
  readonly timeline: (options?: Recorder.Format) => Effect.Effect<string>
  /** The lines of `calls` that are signals, without SIGCONT: that one wakes whom another signal ends. */
  readonly signals: Effect.Effect<ReadonlyArray<string>>
  /** Names of all living processes of scripts, oldest first; also of those that no look can find. */
  readonly alive: Effect.Effect<ReadonlyArray<string>>
  /** The same processes, each with the pid and the marker that the table has of it. */
  readonly processes: Effect.Effect<ReadonlyArray<Living>>
  /** How many processes were started so far: leaders and their children. */
  readonly spawned: Effect.Effect<number>
  /** Names of the leaders that were answered for or attached to, and not released. Empty at the end, or something leaks. */
  readonly open: Effect.Effect<ReadonlyArray<string>>
  /** How many looks the driver was asked for. */
  readonly looks: Effect.Effect<number>
  /**
   * Ends every living process of this name, or the one with this pid, from outside, by a signal (default SIGKILL) or as if it had exited with a
   * code. Nothing its script says about signals holds against it. Does nothing when there is none.
   */
  readonly kill: (who: string | number, how?: string | number) => Effect.Effect<void>
  /** Lets the oldest living process of this name print to its stdout now. */
  readonly print: (name: string, text: string) => Effect.Effect<void>
  /**
   * A process of nobody's tree takes the pid, and so the group and session id, of the last leader of this name, which has
   * to be gone from the table; else nothing happens. It is called `stranger`, or as told.
   */
  readonly reusePid: (
    name: string,
    stranger?: { readonly name: string; readonly script: Script }
  ) => Effect.Effect<void>
  /**
   * Ends every running detached leader of this name by SIGTERM, and records that its deadline or its byte cap was the
   * reason: what its own watcher does when no application is alive. The rest of its tree lives on.
   */
  readonly endDetached: (name: string, by: EndedBy) => Effect.Effect<void>
  /**
   * The completion files of all detached leaders of this name are gone, and those that still run will leave none: their
   * exit is unknown to whoever attaches, and told when a look finds the leader gone.
   */
  readonly loseExit: (name: string) => Effect.Effect<void>
  /** The next `times` looks are cut short (`complete: false`, nobody listed). */
  readonly blindLooks: (times: number) => Effect.Effect<void>
  /**
   * Returns when nothing is left to do that needs no time: due steps of scripts and the work of every fiber that runs
   * under the layer. Needed where a test moved the world rather than the clock. Real input and output is not seen.
   */
  readonly drain: Effect.Effect<void>
  /** Drains, moves the test clock, and drains again. Only under a TestClock. */
  readonly advance: (duration: Duration.Input) => Effect.Effect<void>
}

/** The key of the world, given by `RuntimeTest.layer` and by `ScriptedDriver.layer`. */
export class World extends Context.Service<World, WorldService>()("@procyon/testing/World") {}
