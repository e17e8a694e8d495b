/**
 * A law as data: what an implementation owes its callers, as a sentence and a program that shows it.
 *
 * Every suite has its laws as data too, so that one can be run alone, or on an implementation that is broken on purpose.
 */
import type * as Effect from "effect/Effect"

/** One law of a suite, as it is for what the suite is told of the implementation. */
export interface Law<out E, out R> {
  /** The group it belongs to. */
  readonly about: string
  /** A sentence. With `about` it is unique in its suite. */
  readonly name: string
  /** Why it cannot be shown here, such as a capability that is missing; `null`: it can. */
  readonly skipped: string | null
  /** Dies when the law is broken. To be run on a fresh implementation: laws share nothing. */
  readonly run: Effect.Effect<void, E, R>
}

/** What a suite of a store is told beside the store. */
export interface StoreOptions {
  /** Why its laws cannot be tried here, such as a server that is not there; `null` when they can. */
  readonly skipped?: string | null | undefined
}
