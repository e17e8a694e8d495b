// The managed process: it knows a request, four callbacks and the Clock, and no sessions, no notifications and no HTTP.
import type { Authority, ManagedProcess } from "@procyon/runtime"
import { Cause, Clock, Data, Deferred, type Duration, Effect, type Fiber } from "effect"

/** What came of it. `Discarded`: the application had been replaced, and nobody was told anything. */
export type Outcome = Data.TaggedEnum<{
  Succeeded: {}
  Failed: { readonly reason: string }
  Retry: { readonly reason: string }
  Cancelled: { readonly by: string }
  Discarded: {}
}>
export const Outcome = Data.taggedEnum<Outcome>()
export type Told = Exclude<Outcome, { readonly _tag: "Discarded" }>

export type Progress = Data.TaggedEnum<{
  Waiting: { readonly millis: number; readonly beats: number }
  Reading: {}
}>
export const Progress = Data.taggedEnum<Progress>()

/** `transient`: another try may do. */
export interface Problem {
  readonly message: string
  readonly transient: boolean
}

/** What a process is made of. The callbacks are all that it can do to its application. */
export interface Parts {
  /** Can be interrupted. What it answers with cannot, and reads the rest of the answer. */
  readonly request: Effect.Effect<Effect.Effect<string, Problem>, Problem>
  readonly heartbeat: Duration.Input
  readonly progress: (progress: Progress) => Effect.Effect<void>
  readonly apply: (summary: string) => Effect.Effect<Authority.Commit<unknown>, Problem>
  readonly finished: (outcome: Told) => Effect.Effect<void>
  /** Comes last, whichever way it went. */
  readonly leave: (self: Compaction) => Effect.Effect<void>
}

type Restore = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

export class Compaction implements ManagedProcess.ManagedProcess<never, never> {
  readonly #parts: Parts
  readonly #outcome = Deferred.makeUnsafe<Outcome>()
  #worker: Fiber.Fiber<void> | undefined
  #endedBy: string | undefined
  #reading = false

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Launches the work, and does not wait for it. */
  start(): Effect.Effect<void> {
    return Effect.map(Effect.forkDetach(this.#work, { startImmediately: true }), (worker) => {
      this.#worker = worker
    })
  }

  /** Only a signal: it waits for nothing, and whether a late answer may still be applied is the authority's matter. */
  close(): Effect.Effect<void> {
    return this.#end("the application")
  }

  /** `false`: too late, the answer is being read. Safe at any time, also before the start. */
  requestCancel(by: string): Effect.Effect<boolean> {
    return Effect.suspend(() => this.#reading ? Effect.succeed(false) : Effect.as(this.#end(by), true))
  }

  /** Waits for the end. */
  get outcome(): Effect.Effect<Outcome> {
    return Deferred.await(this.#outcome)
  }

  #end(by: string): Effect.Effect<void> {
    return Effect.sync(() => {
      this.#endedBy ??= by
      this.#worker?.interruptUnsafe()
    })
  }

  get #work(): Effect.Effect<void> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen({ self: this }, function*() {
        const outcome = yield* this.#attempt(restore)
        if (outcome._tag !== "Discarded") yield* this.#parts.finished(outcome)
        yield* this.#parts.leave(this)
        yield* Deferred.succeed(this.#outcome, outcome)
      })
    )
  }

  #attempt(restore: Restore): Effect.Effect<Outcome> {
    return this.#result(restore).pipe(
      Effect.catch(({ message, transient }) =>
        Effect.succeed(transient ? Outcome.Retry({ reason: message }) : Outcome.Failed({ reason: message }))
      ),
      Effect.catchCause((cause) =>
        Effect.succeed(
          Cause.hasInterruptsOnly(cause)
            ? Outcome.Cancelled({ by: this.#endedBy ?? "the application" })
            : Outcome.Failed({ reason: "a defect" })
        )
      )
    )
  }

  /** Only the wait for the provider can be cut short. What comes after that is paid for, and read to its end. */
  #result(restore: Restore): Effect.Effect<Outcome, Problem> {
    return restore(this.#request).pipe(
      Effect.tap(() => this.#beginToRead()),
      Effect.flatMap((rest) => rest),
      Effect.flatMap((summary) => this.#parts.apply(summary)),
      Effect.map((commit) => commit._tag === "Committed" ? Outcome.Succeeded() : Outcome.Discarded())
    )
  }

  get #request(): Effect.Effect<Effect.Effect<string, Problem>, Problem> {
    return Effect.suspend(() =>
      this.#endedBy === undefined ? Effect.raceFirst(this.#parts.request, this.#beats) : Effect.interrupt
    )
  }

  #beginToRead(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#reading = true
      return this.#parts.progress(Progress.Reading())
    })
  }

  get #beats(): Effect.Effect<never> {
    return Effect.gen({ self: this }, function*() {
      const began = yield* Clock.currentTimeMillis
      for (let beats = 0;; beats++) {
        yield* this.#parts.progress(Progress.Waiting({ beats, millis: (yield* Clock.currentTimeMillis) - began }))
        yield* Effect.sleep(this.#parts.heartbeat)
      }
    })
  }
}
