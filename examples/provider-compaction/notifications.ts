// What a person sees of long work: one notification a key, which outlives the application too.
import { Context, Effect, Layer, Option, Stream, SubscriptionRef } from "effect"

export interface Notification {
  readonly state: "running" | "succeeded" | "failed" | "retry" | "cancelled"
  readonly text: string
  /** The button beside it. */
  readonly offers: "Cancel" | "Retry" | null
}

export class Notifications extends Context.Service<Notifications, {
  /** Creates the notification of this key, or updates it. */
  readonly show: (key: string, notification: Notification) => Effect.Effect<void>
  /** All that was shown under this key, the latest last. */
  readonly history: (key: string) => Effect.Effect<ReadonlyArray<Notification>>
  /** Waits until what is shown is as asked. */
  readonly until: (key: string, is: (shown: Notification) => boolean) => Effect.Effect<void>
}>()("example/Notifications") {}

export const layer = Layer.effect(
  Notifications,
  Effect.gen(function*() {
    const shown = yield* SubscriptionRef.make<ReadonlyMap<string, ReadonlyArray<Notification>>>(new Map())
    return Notifications.of({
      show: (key, notification) =>
        SubscriptionRef.update(shown, (all) => new Map(all).set(key, [...all.get(key) ?? [], notification])),
      history: (key) => Effect.map(SubscriptionRef.get(shown), (all) => all.get(key) ?? []),
      until: (key, is) =>
        SubscriptionRef.changes(shown).pipe(
          Stream.filter((all) => Option.exists(Option.fromUndefinedOr(all.get(key)?.at(-1)), is)),
          Stream.runHead,
          Effect.asVoid
        )
    })
  })
)
