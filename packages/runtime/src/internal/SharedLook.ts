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
  driver: ProcessDriver,
  options: { readonly windowMillis: number; readonly fork: (effect: Effect.Effect<void>) => unknown }
): SharedLook => {
  let waiting: Array<Request> = []
  let looking = false

  const lookAll = Effect.suspend(() => {
    const batch = waiting
    waiting = []
    return driver.look(batch.map((request) => request.root)).pipe(
      Effect.timeoutOption(options.windowMillis),
      Effect.exit,
      Effect.map((exit) => {
        const looks = exit._tag === "Success" && exit.value._tag === "Some" ? exit.value.value : []
        for (const [index, { answer, root }] of batch.entries()) {
          Deferred.doneUnsafe(answer, Effect.succeed(looks[index] ?? unanswered(root)))
        }
        // In the same step as the check: whoever asks from here on starts a run of their own.
        looking = waiting.length > 0
      })
    )
  })

  const run: Effect.Effect<void> = Effect.yieldNow.pipe(
    Effect.andThen(lookAll),
    Effect.repeat({ while: () => looking }),
    // The runtime is closing: nobody may wait for a look that will not come.
    Effect.onInterrupt(() =>
      Effect.sync(() => {
        looking = false
        for (const { answer, root } of waiting.splice(0)) {
          Deferred.doneUnsafe(answer, Effect.succeed(unanswered(root)))
        }
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
