/**
 * Tells of jobs as things happen: to the streams of their owner, to those of all owners, and to observers.
 *
 * Telling is synchronous and waits for nobody: every subscriber has a bounded ring of its own.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import * as EventRing from "../../internal/EventRing.ts"
import type { Event } from "../JobEvent.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import type { Job, Owner, Owners } from "./Owners.ts"

export interface Events {
  /** A step of its life. */
  readonly transition: (owner: Owner, job: Job, from: Lifecycle.State, event: Lifecycle.Event) => void
  /** It was taken over from an earlier life. */
  readonly adopted: (owner: Owner, job: Job) => void
  /** Another runtime has taken it over. */
  readonly disowned: (owner: Owner, job: Job) => void
  readonly beat: (owner: Owner, job: Job) => void
  readonly killFailed: (owner: Owner, job: Job) => void
  /** It is settled. Nothing is told of it after this. */
  readonly ended: (owner: Owner, job: Job) => void
  /** Of one owner. It ends with the runtime. */
  readonly of: (owner: string) => Stream.Stream<Event>
  readonly all: Stream.Stream<Event>
  readonly observe: (observer: (event: Event) => Effect.Effect<void>) => Effect.Effect<void, never, Scope.Scope>
  /** Ends all streams once they are read to the end. */
  readonly close: () => void
}

const missed = (count: number): Event => ({ _tag: "Missed", count })

export const make = (host: Pick<ProcessHost, "settings" | "timers">, owners: Owners): Events => {
  const { settings, timers } = host
  const subscribers = new Set<EventRing.EventRing<Event>>()
  let closed = false

  const emit = (owner: Owner, event: Event): void => {
    for (const ring of owner.subscribers) ring.publish(event)
    for (const ring of subscribers) ring.publish(event)
  }

  const attached = (set: Set<EventRing.EventRing<Event>>, ring: EventRing.EventRing<Event>): void => {
    if (closed) ring.close()
    else set.add(ring)
  }

  const all = EventRing.stream(
    (ring: EventRing.EventRing<Event>) => {
      attached(subscribers, ring)
      return () => subscribers.delete(ring)
    },
    settings.eventBuffer,
    missed
  )

  return {
    transition: (owner, job, from, event) => {
      // An exit that is told of after the end is news to nobody.
      if (from._tag === "Settled") return
      const { id, state } = job.process
      const fields = { id, owner: owner.name }
      if (event._tag === "Started") emit(owner, { _tag: "Started", ...fields })
      if (event._tag === "Exited") emit(owner, { _tag: "Exited", ...fields, exit: event.exit })
      if (from._tag === state._tag) return
      if (state._tag === "Draining") emit(owner, { _tag: "Draining", ...fields })
      if (state._tag === "Terminating") emit(owner, { _tag: "Terminating", ...fields })
    },
    adopted: (owner, job) => emit(owner, { _tag: "Adopted", id: job.process.id, owner: owner.name }),
    disowned: (owner, job) => emit(owner, { _tag: "Disowned", id: job.process.id, owner: owner.name }),
    beat: (owner, job) => {
      const { bytesSeen, id, lastOutputMono, startedMono } = job.process
      const fields = { id, owner: owner.name, bytesSeen }
      if (bytesSeen !== job.reportedBytes) emit(owner, { _tag: "Progress", ...fields })
      job.reportedBytes = bytesSeen
      const now = timers.now()
      emit(owner, {
        _tag: "Heartbeat",
        ...fields,
        elapsedMillis: Math.round(now - startedMono),
        idleMillis: Math.round(now - lastOutputMono)
      })
    },
    killFailed: (owner, { process: { id, survivorCount } }) =>
      emit(owner, { _tag: "KillFailed", id, owner: owner.name, survivorCount }),
    ended: (owner, job) => {
      const fields = { id: job.process.id, owner: owner.name, status: Lifecycle.statusOf(job.process.state) }
      emit(owner, job.unresolved ? { _tag: "Resolved", ...fields } : { _tag: "Ended", ...fields })
    },
    of: (name) =>
      EventRing.stream(
        (ring: EventRing.EventRing<Event>) => {
          const owner = owners.of(name)
          attached(owner.subscribers, ring)
          return () => {
            owner.subscribers.delete(ring)
            owners.tidy(owner)
          }
        },
        settings.eventBuffer,
        missed
      ),
    all,
    observe: (observer) =>
      Effect.asVoid(Effect.forkScoped(
        Stream.runForEach(all, (event) =>
          Effect.suspend(() => observer(event)).pipe(
            Effect.catchCause(() => Effect.logWarning("an observer of jobs failed"))
          )),
        { startImmediately: true }
      )),
    close: () => {
      closed = true
      for (const ring of subscribers) ring.close()
      for (const owner of owners.all) for (const ring of owner.subscribers) ring.close()
    }
  }
}
