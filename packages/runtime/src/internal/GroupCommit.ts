/**
 * One transaction for all writes that are asked for in the meantime.
 *
 * A commit costs a flush of the disk, which is most of what a small write costs. Those asked for in one turn, or while
 * another commit is running, are made in the order they were asked for, committed together, and answered only then. A
 * write that is alone is made without a transaction, in the next turn.
 *
 * A write that fails fails alone: its transaction is taken back, and each write of it is tried by itself. So a write may be
 * begun twice, but counts once.
 *
 * Interrupting a caller undoes nothing of the others'. Its write is never made when it had not begun; else the
 * interruption ends when that is decided. Once nobody waits for a transaction any more, it is interrupted itself, so
 * that it takes no longer than the most patient of its callers.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

export interface Options<E> {
  /** Makes all of these writes, or none when it fails or is interrupted. */
  readonly transaction: (writes: Effect.Effect<void, E>) => Effect.Effect<void, E>
  /** Whether the next write could only wait as long for the same error: then it is everybody's, and nobody tries alone. */
  readonly isEverybodys: (error: E) => boolean
  /** Whether a commit that fails so has surely written nothing. If not, trying again might write twice. */
  readonly isTakenBack: (error: E) => boolean
  /** How many writes there are in one transaction at most. */
  readonly limit: number
}

/** Answers with what the write answers, after it is committed. */
export type GroupCommit<E> = <A>(write: Effect.Effect<A, E>) => Effect.Effect<A, E>

interface Member<E> {
  /** Makes the write, and keeps what came of it. */
  readonly make: Effect.Effect<void, E>
  /** Tells its caller what came of it last. */
  readonly answer: () => void
  /** Tells its caller of somebody else's failure. */
  readonly refuse: (cause: Cause.Cause<E>) => void
  isWanted: boolean
  batch: Batch | null
}

interface Batch {
  wanted: number
  fiber: Fiber.Fiber<unknown, unknown> | null
  readonly ended: Deferred.Deferred<void>
}

export const make = <E>(options: Options<E>): GroupCommit<E> => {
  let waiting: Array<Member<E>> = []
  let isRunning = false

  const run = Effect.gen(function*() {
    while (waiting.length > 0) {
      const members = waiting.slice(0, options.limit)
      waiting = waiting.slice(options.limit)
      yield* commitBatch(members.filter(({ isWanted }) => isWanted), options)
    }
    // In the same step as the check: who asks from here on starts a run of their own.
    isRunning = false
  })

  return <A>(write: Effect.Effect<A, E>) =>
    Effect.uninterruptibleMask((restore) => {
      const answer = Deferred.makeUnsafe<A, E>()
      const member = memberOf(write, answer)
      waiting.push(member)
      const begin = isRunning ? Effect.void : Effect.forkDetach(run)
      isRunning = true
      return Effect.andThen(begin, Effect.onInterrupt(restore(Deferred.await(answer)), () => withdraw(member)))
    })
}

const memberOf = <A, E>(write: Effect.Effect<A, E>, answer: Deferred.Deferred<A, E>): Member<E> => {
  let last: Exit.Exit<A, E> = Exit.interrupt()
  return {
    make: Effect.asVoid(Effect.onExit(write, (exit) =>
      Effect.sync(() => {
        last = exit
      }))),
    answer: () => Deferred.doneUnsafe(answer, last),
    refuse: (cause) => Deferred.doneUnsafe(answer, Exit.failCause(cause)),
    isWanted: true,
    batch: null
  }
}

/** Ends when it is decided whether the write is made. */
const withdraw = <E>(member: Member<E>): Effect.Effect<void> =>
  Effect.suspend(() => {
    member.isWanted = false
    const { batch } = member
    if (batch === null) return Effect.void
    batch.wanted--
    if (batch.wanted === 0) batch.fiber?.interruptUnsafe()
    return Deferred.await(batch.ended)
  })

/** In a fiber of its own, which can be interrupted without those that wait for the next. */
const commitBatch = <E>(members: ReadonlyArray<Member<E>>, options: Options<E>): Effect.Effect<void> =>
  Effect.gen(function*() {
    if (members.length === 0) return
    const batch: Batch = { wanted: members.length, fiber: null, ended: Deferred.makeUnsafe() }
    for (const member of members) member.batch = batch
    // It makes itself known: a caller may be interrupted before a fork has told who was forked.
    const work = Effect.withFiber<void>((fiber) => {
      batch.fiber = fiber
      return members.length === 1 ? oneByOne(members, options) : together(members, options)
    })
    const ending = Effect.onExit(work, (exit) =>
      Effect.sync(() => {
        if (Exit.isFailure(exit)) refuseAll(members, exit.cause)
        Deferred.doneUnsafe(batch.ended, Exit.void)
      }))
    yield* Effect.forkDetach(ending, { startImmediately: true })
    yield* Deferred.await(batch.ended)
  })

const refuseAll = <E>(members: ReadonlyArray<Member<E>>, cause: Cause.Cause<E>): void => {
  for (const member of members) member.refuse(cause)
}

const together = <E>(members: ReadonlyArray<Member<E>>, options: Options<E>): Effect.Effect<void> =>
  Effect.suspend(() => {
    let broken: Cause.Cause<E> | null = null
    let isCommitting = false
    const writes = Effect.forEach(members, ({ make }) => make, { discard: true }).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          if (Exit.isFailure(exit)) broken = exit.cause
          else isCommitting = true
        })
      )
    )
    return Effect.matchCauseEffect(options.transaction(writes), {
      onSuccess: () => Effect.sync(() => members.forEach((member) => member.answer())),
      onFailure: (cause) => {
        // A transaction that cannot be taken back, as on a lost connection, says only that.
        const told = broken ?? cause
        const mayTryAlone = broken === null
          ? isCommitting && hasError(told, options.isTakenBack)
          : !hasError(told, options.isEverybodys)
        return mayTryAlone ? oneByOne(members, options) : Effect.sync(() => refuseAll(members, told))
      }
    })
  })

const oneByOne = <E>(members: ReadonlyArray<Member<E>>, options: Options<E>): Effect.Effect<void> =>
  Effect.gen(function*() {
    for (const [index, member] of members.entries()) {
      if (!member.isWanted) continue
      const exit = yield* Effect.exit(member.make)
      member.answer()
      if (Exit.isFailure(exit) && hasError(exit.cause, options.isEverybodys)) {
        return refuseAll(members.slice(index + 1), exit.cause)
      }
    }
  })

const hasError = <E>(cause: Cause.Cause<E>, is: (error: E) => boolean): boolean =>
  Option.exists(Cause.findErrorOption(cause), is)
