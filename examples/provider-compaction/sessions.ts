// Conversations, which outlive the application that works on them. Each has a revision, so that a change that took long
// can be refused when the conversation went on in the meantime.
import { Context, Effect, Layer, Schema } from "effect"

export interface Session {
  readonly id: string
  /** One more with every change. */
  readonly revision: number
  readonly messages: ReadonlyArray<string>
}

/** It is not at the revision any more that the change was made for. Nothing was changed. */
export class SessionMovedOn extends Schema.TaggedError<SessionMovedOn>()("SessionMovedOn", {
  expected: Schema.Int,
  found: Schema.Int
}) {
  override get message(): string {
    return `the session moved on from revision ${this.expected} to ${this.found}`
  }
}

export class Sessions extends Context.Service<Sessions, {
  /** A session that nobody has seen before has six messages. */
  readonly get: (id: string) => Effect.Effect<Session>
  readonly append: (id: string, message: string) => Effect.Effect<Session>
  /** The look at the revision and the change are one step. */
  readonly replace: (
    id: string,
    revision: number,
    messages: ReadonlyArray<string>
  ) => Effect.Effect<Session, SessionMovedOn>
}>()("example/Sessions") {}

export const layer = Layer.sync(Sessions, () => {
  const sessions = new Map<string, Session>()
  const get = (id: string): Session =>
    sessions.get(id) ?? { id, revision: 1, messages: ["one", "two", "three", "four", "five", "six"] }
  const put = ({ id, revision }: Session, messages: ReadonlyArray<string>): Session => {
    const next = { id, revision: revision + 1, messages }
    sessions.set(id, next)
    return next
  }
  return Sessions.of({
    get: (id) => Effect.sync(() => get(id)),
    append: (id, message) => Effect.sync(() => put(get(id), [...get(id).messages, message])),
    replace: (id, expected, messages) =>
      Effect.suspend(() => {
        const session = get(id)
        return session.revision === expected
          ? Effect.succeed(put(session, messages))
          : Effect.fail(new SessionMovedOn({ expected, found: session.revision }))
      })
  })
})
