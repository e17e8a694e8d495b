/**
 * The bare right behind an `Authority`: whether it stands, which commits run under it, and who is in the middle of what.
 *
 * Rights form chains: one stands while it was not revoked and the one it was derived from stands. So revoking an outer
 * one reaches all that were derived from it in the same step, and nothing has to be kept of those.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { warn } from "./Warning.ts"

/** Runs an effect in a fiber of its own, outside of every activity. */
export type Fork = <A>(effect: Effect.Effect<A>) => Fiber.Fiber<A>

/**
 * What came of the commits that ran when a right was revoked.
 *
 * - `ended`: by themselves, within the window.
 * - `interrupted`: past it.
 * - `unfinished`: they still ran when this was answered. Past a second window, of those that cannot be interrupted; or
 *   asked from within one of them, which cannot wait for itself.
 */
export interface Revocation {
  readonly ended: number
  readonly interrupted: number
  readonly unfinished: number
}

/** A commit that runs. */
export class Running {
  fiber: Fiber.Fiber<unknown, unknown> | undefined
  readonly ended = Deferred.makeUnsafe<void>()
  over = false
  /** Its right was revoked, and it outlived the window. */
  cut = false
}

export class Right {
  readonly outer: Right | undefined
  readonly windowMillis: number
  readonly fork: Fork
  /** Commits under this right, or under one derived from it. */
  readonly running = new Set<Running>()
  /** Commits that came too late, by this right or by one derived from it. */
  discarded = 0
  #revoked = false
  #revocation: Deferred.Deferred<Revocation> | undefined

  constructor(fork: Fork, windowMillis: number, outer?: Right) {
    this.fork = fork
    this.windowMillis = windowMillis
    this.outer = outer
  }

  derive(): Right {
    return new Right(this.fork, this.windowMillis, this)
  }

  get stands(): boolean {
    return !this.#revoked && (this.outer === undefined || this.outer.stands)
  }

  /** This right, and those it was derived from. */
  *chain(): Generator<Right> {
    yield this
    if (this.outer !== undefined) yield* this.outer.chain()
  }

  /** Whether it is `right`, or was derived from it. */
  isUnder(right: Right): boolean {
    return this === right || (this.outer !== undefined && this.outer.isUnder(right))
  }

  discard(): void {
    for (const right of this.chain()) right.discarded++
  }

  enter(running: Running): void {
    for (const right of this.chain()) right.running.add(running)
  }

  leave(running: Running): void {
    for (const right of this.chain()) right.running.delete(running)
    running.over = true
    Deferred.doneUnsafe(running.ended, Effect.void)
  }

  /** From this step on no commit begins. Those that run are another matter: see `revoke`. */
  withdraw(): void {
    this.#revoked = true
  }

  /** Withdraws the right, and waits for the commits that run. Once for all who ask; interrupting one ends only its wait. */
  revoke(): Effect.Effect<Revocation> {
    return Effect.suspend(() => {
      this.withdraw()
      const revocation = this.#revocation ??= this.#settle()
      return Effect.flatMap(isWithin(this, "Commit"), (inside) =>
        inside
          ? Effect.succeed({ ended: 0, interrupted: 0, unfinished: this.running.size })
          : Deferred.await(revocation))
    })
  }

  #settle(): Deferred.Deferred<Revocation> {
    const done = Deferred.makeUnsafe<Revocation>()
    if (this.running.size === 0) {
      Deferred.doneUnsafe(done, Effect.succeed({ ended: 0, interrupted: 0, unfinished: 0 }))
    } else this.fork(Effect.flatMap(settle([...this.running], this.windowMillis), (it) => Deferred.succeed(done, it)))
    return done
  }
}

const settle = (commits: ReadonlyArray<Running>, windowMillis: number): Effect.Effect<Revocation> =>
  Effect.gen(function*() {
    yield* allOver(commits, windowMillis)
    const late = commits.filter((commit) => !commit.over)
    if (late.length === 0) return { ended: commits.length, interrupted: 0, unfinished: 0 }
    for (const commit of late) {
      commit.cut = true
      commit.fiber?.interruptUnsafe()
    }
    // What undoes half a commit is given its time too.
    yield* allOver(late, windowMillis)
    const unfinished = late.filter((commit) => !commit.over).length
    yield* warn(
      `${late.length} commits outlived their authority by ${windowMillis} ms and were interrupted, ${unfinished} in vain`
    )
    return { ended: commits.length - late.length, interrupted: late.length - unfinished, unfinished }
  })

const allOver = (commits: ReadonlyArray<Running>, millis: number): Effect.Effect<void> =>
  Effect.suspend(() => {
    const left = commits.filter((commit) => !commit.over)
    if (left.length === 0) return Effect.void
    return Effect.asVoid(Effect.timeoutOption(
      Effect.forEach(left, (commit) => Deferred.await(commit.ended), { discard: true }),
      millis
    ))
  })

/**
 * Something in the middle of which a fiber is, and for which a revocation or a closing waits: a `Commit`, or an `Upkeep`,
 * the start or the close of something owned. Whoever asks for that revocation or closing from within does not wait, since
 * it would wait for itself.
 */
export class Activity {
  readonly kind: "Commit" | "Upkeep"
  readonly right: Right
  readonly outer: Activity | undefined
  /**
   * Fibers that outlive what they were started in keep it in their context; it means nothing to them any more. That of
   * forked processes, which all of a registry share, is never over. Finalizers run in the context in which they were added,
   * so what is made and closed has one activity for both, which is over in between.
   */
  over = false

  constructor(kind: "Commit" | "Upkeep", right: Right, outer?: Activity) {
    this.kind = kind
    this.right = right
    // Those that are over are left out, or a worker that starts its successor would make the chain longer for ever.
    while (outer?.over === true) outer = outer.outer
    this.outer = outer
  }
}

export const CurrentActivity: Context.Reference<Activity | undefined> = Context.Reference<Activity | undefined>(
  "@procyon/runtime/internal/Right/CurrentActivity",
  { defaultValue: () => undefined }
)

/** Whether the fiber is in the middle of something for which the end of `right` waits. */
export const isWithin = (right: Right, kind?: Activity["kind"]): Effect.Effect<boolean> =>
  Effect.map(CurrentActivity, (current) => {
    for (let activity = current; activity !== undefined; activity = activity.outer) {
      if (!activity.over && (kind === undefined || activity.kind === kind) && activity.right.isUnder(right)) return true
    }
    return false
  })

/** Runs `effect` in the middle of `activity`, which is over afterwards, and may be taken up again. */
export const during = <A, E, R>(activity: Activity, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    activity.over = false
    return Effect.ensuring(
      Effect.provideService(effect, CurrentActivity, activity),
      Effect.sync(() => {
        activity.over = true
      })
    )
  })

/** Forks in the context the caller has now, outside of every activity. */
export const makeFork: Effect.Effect<Fork> = Effect.map(
  Effect.context<never>(),
  (context) => Effect.runForkWith(Context.add(context, CurrentActivity, undefined))
)

/** A right of its own. */
export const make = (windowMillis: number): Effect.Effect<Right> =>
  Effect.map(makeFork, (fork) => new Right(fork, windowMillis))
