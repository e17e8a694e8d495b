/**
 * One look at the process table for everybody who asks in the meantime.
 *
 * A look costs about as much for a thousand trees as for one, and a stop of a thousand jobs would otherwise pay a
 * thousand of them. Every answer comes from a look that began after it was asked for: an older one proves nothing.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Identity } from "../domain/Identity.ts"
import type { ProcessDriver, TreeLook } from "../ports/ProcessDriver.ts"
import { within } from "./Within.ts"

interface Request {
  readonly root: Identity
  readonly answer: Deferred.Deferred<TreeLook>
}

/** Looks at one tree. Never fails and never waits past the bound: a look that broke or overran is not `complete`. */
export type SharedLook = (root: Identity) => Effect.Effect<TreeLook>

const unanswered = (root: Identity): TreeLook => ({
  root,
  leader: "alive",
  members: [],
  occupied: [],
  complete: false
})

export const make = (
  driver: Pick<ProcessDriver, "look">,
  options: { readonly windowMillis: number; readonly fork: (effect: Effect.Effect<void>) => unknown }
): SharedLook => {
  let waiting: Array<Request> = []
  let looking = false

  const answerAll = (batch: ReadonlyArray<Request>, looks: ReadonlyArray<TreeLook>) => {
    for (const [index, { answer, root }] of batch.entries()) {
      Deferred.doneUnsafe(answer, Effect.succeed(looks[index] ?? unanswered(root)))
    }
  }

  const lookAll = Effect.suspend(() => {
    const batch = waiting
    waiting = []
    return within(() => driver.look(batch.map((request) => request.root)), options.windowMillis).pipe(
      // Also when it is interrupted: nobody may wait for a look that will not come.
      Effect.onExit((exit) =>
        Effect.sync(() =>
          answerAll(batch, exit._tag === "Success" && exit.value._tag === "Some" ? exit.value.value : [])
        )
      ),
      Effect.exit
    )
  })

  const run: Effect.Effect<void> = Effect.gen(function*() {
    do {
      yield* Effect.yieldNow
      yield* lookAll
    } while (waiting.length > 0)
    // In the same step as the check: whoever asks from here on starts a run of their own.
    looking = false
  }).pipe(
    Effect.onInterrupt(() =>
      Effect.sync(() => {
        looking = false
        answerAll(waiting.splice(0), [])
      })
    )
  )

  return (root) =>
    Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<TreeLook>()
      waiting.push({ root, answer })
      if (!looking) {
        looking = true
        options.fork(run)
      }
      return Deferred.await(answer)
    })
}
