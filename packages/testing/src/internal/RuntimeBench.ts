/**
 * What a law of a runtime works with: the services, the waiting that fits the clock, and what lives by other means.
 */
import { assert } from "@effect/vitest"
import { sha256 } from "@noble/hashes/sha2.js"
import type * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import type { InvalidCommand } from "@procyon/runtime/domain/InvalidCommand"
import type * as Status from "@procyon/runtime/domain/Status"
import type { Capabilities } from "@procyon/runtime/ports/ProcessDriver"
import type * as AppProcess from "@procyon/runtime/services/AppProcess"
import type * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import type { BadCursor, Page, View } from "@procyon/runtime/services/OutputRetention"
import type * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import type { Program, Programs } from "../DriverLaws.ts"
import { Evidence } from "./Evidence.ts"
import type { Clock, Need } from "./Suite.ts"

/** What a law may end with beside dying; one that does has been broken. */
export type Failure =
  | AppProcess.SpawnError
  | AppProcess.StdinClosed
  | BackgroundProcess.OutputUnavailable
  | BackgroundProcess.ProcessNotFound
  | BackgroundProcess.StartError
  | BadCursor
  | InvalidCommand

/** A law before it is known which runtime it is for. */
export interface Statement {
  readonly name: string
  readonly programs: ReadonlyArray<Program>
  readonly needs: ReadonlyArray<Need>
  readonly body: (bench: Bench, ...commands: ReadonlyArray<CommandSpec.CommandSpec>) => Effect.Effect<void, Failure>
}

/** The laws about one service, with these programs. */
export type Statements = (programs: Programs) => ReadonlyArray<Statement>

/** A law about some programs, which its body is given. `needs`: the capabilities without which it cannot be shown. */
export const law = (
  name: string,
  programs: ReadonlyArray<Program>,
  body: (
    bench: Bench,
    ...commands: Array<CommandSpec.CommandSpec>
  ) => Effect.Effect<void, Failure>,
  needs: Statement["needs"] = []
): Statement => ({ name, programs, needs, body: (bench, ...commands) => body(bench, ...commands) })

interface Given {
  readonly app: AppProcess.AppProcess
  readonly background: BackgroundProcess.BackgroundProcess
  readonly barrier: ShutdownBarrier.ShutdownBarrier
  readonly capabilities: Capabilities
  readonly clock: Clock
  /** `null`: nobody can tell. */
  readonly living: Effect.Effect<ReadonlyArray<string>> | null
}

export class Bench extends Evidence {
  readonly app: AppProcess.AppProcess
  readonly background: BackgroundProcess.BackgroundProcess
  readonly barrier: ShutdownBarrier.ShutdownBarrier
  readonly #capabilities: Capabilities
  readonly #living: Effect.Effect<ReadonlyArray<string>> | null

  constructor(given: Given) {
    super(given.clock)
    this.app = given.app
    this.background = given.background
    this.barrier = given.barrier
    this.#capabilities = given.capabilities
    this.#living = given.living
  }

  /** Whatever the runtime says of it: nobody lives that it has started. */
  get nobodyLives(): Effect.Effect<void> {
    return this.#living === null
      ? Effect.void
      : Effect.map(this.#living, (names) => assert.deepStrictEqual(names, [], "these live"))
  }

  /** Waits until so many live, or, where nobody can tell, for some turns. */
  untilLiving(count: number): Effect.Effect<void> {
    return this.#living === null
      ? this.aWhile
      : Effect.asVoid(this.until(`${count} live`, this.#living, (names) => names.length >= count))
  }

  run(
    command: CommandSpec.CommandSpec,
    options?: AppProcess.Options
  ): Effect.Effect<AppProcess.RunResult, AppProcess.SpawnError> {
    return this.done("the command has ended", this.app.run(command, options))
  }

  /** Spawns in a scope of its own, and answers also with what closes it. A law that fails leaves that to the barrier. */
  spawn(
    command: CommandSpec.CommandSpec,
    options?: AppProcess.Options
  ): Effect.Effect<readonly [AppProcess.Handle, Effect.Effect<void>], AppProcess.SpawnError> {
    return Effect.gen({ self: this }, function*() {
      const scope = yield* Scope.make()
      const handle = yield* Scope.provide(this.app.spawn(command, options), scope)
      return [handle, this.done("the scope is closed", Scope.close(scope, Exit.void))]
    })
  }

  /** Starts a job and waits for its end. */
  finished(
    jobs: BackgroundProcess.Jobs,
    command: CommandSpec.CommandSpec,
    options?: BackgroundProcess.StartOptions
  ): Effect.Effect<BackgroundProcess.Info, Failure> {
    return Effect.gen({ self: this }, function*() {
      const { id } = yield* jobs.start(command, options)
      return yield* this.done("the job has ended", jobs.wait(id))
    })
  }

  stop(
    jobs: BackgroundProcess.Jobs,
    id: string,
    options?: { readonly now?: boolean | undefined }
  ): Effect.Effect<BackgroundProcess.Info, BackgroundProcess.ProcessNotFound> {
    return this.done("the job is stopped", jobs.stop(id, options))
  }

  /** Whatever began is over: the fiber was interrupted, and what it left behind was ended. */
  interrupted(fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> {
    return this.done("the interruption is over", Fiber.interrupt(fiber))
  }

  shutdown(mode?: "graceful" | "now"): Effect.Effect<ShutdownBarrier.ShutdownReport> {
    return this.done("the barrier is through", this.barrier.shutdown(mode))
  }

  untilText(view: View, text: string): Effect.Effect<void> {
    return Effect.asVoid(this.until(`the output holds ${text}`, view.preview, (seen) => seen.includes(text)))
  }

  /** The tree is gone by the receipt's own account, which says no more than the platform can see. */
  assertProven(receipt: Status.TerminationResult): void {
    assert.deepStrictEqual([receipt.survivorCount, receipt.survivors], [0, []])
    assert.strictEqual(receipt.wholeTree, this.#capabilities.wholeTree)
    assert.isAtLeast(receipt.durationMillis, 0)
    const times = receipt.timeline.map(({ atMillis }) => atMillis)
    assert.deepStrictEqual(times, times.toSorted((a, b) => a - b))
  }
}

/** What the timeline says of them, in its order. */
export const signalsIn = (receipt: Status.TerminationResult): ReadonlyArray<string> =>
  receipt.timeline.flatMap(({ what }) => /^SIG(?:TERM|KILL)/.exec(what)?.[0] ?? [])

/** SHA-256 of the pages, which have to be in a row and without a gap. */
export const hashOf = (
  pages: Iterable<Page<Uint8Array>>,
  since = 0
): { readonly end: number; readonly sha256: string } => {
  const hash = sha256.create()
  let end = since
  for (const page of pages) {
    assert.deepStrictEqual([page.since, page.gap], [end, null])
    assert.strictEqual(page.next, page.since + page.data.length)
    hash.update(page.data)
    end = page.next
  }
  return { end, sha256: Array.from(hash.digest(), (byte) => byte.toString(16).padStart(2, "0")).join("") }
}

/** With room for all that `talks` prints. */
export const keepingAll = (programs: Programs): AppProcess.Options => ({
  output: { limit: 2 * programs.talks.bytes }
})

/** For what is to be forced: a grace that is over soon. */
export const brief: AppProcess.Options = { grace: "30 millis" }

/** For what is not to be forced, however slow the machine is. */
export const patient: AppProcess.Options = { grace: "1 hour" }
