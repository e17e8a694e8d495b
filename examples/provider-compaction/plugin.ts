// The plugin: actions that return at once. They yield the services of the application they run in, and hold none.
import { Authority, ManagedProcess, Operation } from "@procyon/runtime"
import { Context, type Duration, Effect, Exit, Layer, Option, Scope } from "effect"
import { Compaction, Outcome, Progress, type Told } from "./compaction.ts"
import { type Notification, Notifications } from "./notifications.ts"
import { Provider } from "./provider.ts"
import { Sessions } from "./sessions.ts"

/** What every application has of its own, and begins with anew: who runs, and what for. */
export const application = Layer.mergeAll(ManagedProcess.layerShared, Operation.layer)

export const Heartbeat = Context.Reference<Duration.Input>("example/Heartbeat", { defaultValue: () => "10 seconds" })

const kind = "compaction"
export const notificationOf = (session: string): string => `${kind} of ${session}`

/** Has a session's messages replaced by a summary of them, by and by. A session is compacted once at a time. */
export const compact = Effect.fn("plugin.compact")(function*(session: string) {
  const registry = yield* ManagedProcess.Registry
  const authority = yield* Authority.Current
  const sessions = yield* Sessions
  const provider = yield* Provider
  const heartbeat = yield* Heartbeat
  const show = yield* showing(session)
  const { messages, revision } = yield* sessions.get(session)

  // The operation is active for as long as this scope is open, which is for the process to close.
  const scope = yield* Scope.make()
  const { id } = yield* Scope.provide(Operation.Service.use((operations) => operations.admit(session, kind)), scope)
  const process = new Compaction({
    request: Effect.map(provider.compact(messages), (answer) => answer.summary),
    heartbeat,
    progress: (progress) => show(presentProgress(progress)),
    apply: (summary) =>
      authority.commit(sessions.replace(session, revision, [summary])).pipe(
        Effect.mapError(({ message }) => ({ message, transient: true }))
      ),
    finished: (outcome) => show(presentOutcome(outcome, messages.length)),
    leave: (self) => Effect.andThen(Scope.close(scope, Exit.void), registry.remove(id, self))
  })
  yield* Effect.onError(registry.start(id, process), (cause) => Scope.close(scope, Exit.failCause(cause)))
  return { status: "accepted", id } as const
}, Effect.uninterruptible) // it is prompt, and there must be nothing between the admission and the start

/** Finds the session's process and asks it to end. What that means is for the process to say. */
export const cancel = Effect.fn("plugin.cancel")(function*(session: string) {
  const [operation] = yield* Operation.Service.use((operations) => operations.active(session, kind))
  if (operation === undefined) return "nothing to cancel"
  const process = yield* ManagedProcess.Registry.use((registry) => registry.get(operation.id, Compaction))
  if (Option.isNone(process)) return "nothing to cancel"
  return (yield* process.value.requestCancel("you")) ? "cancellation requested" : "too late"
})

/** After a replacement: what the former application left running on the screen has nobody who would update it. */
export const offerAgain = Effect.fn("plugin.offerAgain")(function*(session: string) {
  const active = yield* Operation.Service.use((operations) => operations.active(session, kind))
  const show = yield* showing(session)
  if (active.length === 0) yield* show(presentOutcome(Outcome.Retry({ reason: "the application was replaced" }), 0))
})

/** Shows this session's notification for as long as the application has the right to. */
const showing = Effect.fnUntraced(function*(session: string) {
  const authority = yield* Authority.Current
  const notifications = yield* Notifications
  return (notification: Notification): Effect.Effect<void> =>
    Effect.asVoid(authority.commit(notifications.show(notificationOf(session), notification)))
})

const presentProgress = Progress.$match({
  Waiting: ({ beats, millis }): Notification => ({
    state: "running",
    text: beats === 0 ? "asking the provider" : `waiting for ${millis} ms, ${beats} heartbeats`,
    offers: "Cancel"
  }),
  Reading: (): Notification => ({ state: "running", text: "the provider answers", offers: null })
})

const presentOutcome = (outcome: Told, messages: number): Notification => {
  switch (outcome._tag) {
    case "Succeeded":
      return { state: "succeeded", text: `${messages} messages became 1`, offers: null }
    case "Failed":
      return { state: "failed", text: outcome.reason, offers: null }
    case "Retry":
      return { state: "retry", text: outcome.reason, offers: "Retry" }
    case "Cancelled":
      return { state: "cancelled", text: `cancelled by ${outcome.by}`, offers: "Retry" }
  }
}
