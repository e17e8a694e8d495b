/**
 * The protocol that ends a process tree: record it, ask it, force it, and look until it is shown to be gone.
 *
 * Used by everything that ends a process. It decides when to wait and when to escalate; what is true, it asks the
 * driver. Nothing is concluded from a signal that was sent: only a complete look that finds nobody, with every known
 * group empty, counts as gone. Every wait is bounded. Trees that end together share looks and cost one grace.
 *
 * Not here: why a tree is ended and what that makes of its status. That is `Lifecycle`.
 */
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Identity } from "../domain/Identity.ts"
import type { Survivor } from "../domain/Status.ts"
import { maxListed } from "../domain/Status.ts"
import type { Nudge } from "../internal/Nudge.ts"
import type { SharedLook } from "../internal/SharedLook.ts"
import type { TimerHeap } from "../internal/TimerHeap.ts"
import { within } from "../internal/Within.ts"
import type { Member, ProcessDriver, SignalOutcome, TreeLook } from "../ports/ProcessDriver.ts"
import type { Settings } from "./Settings.ts"

/** A tree that is being ended, and where its receipt is written. */
export interface Subject {
  readonly root: Identity
  /** Wakes a wait early: at the leader's exit, and when the rest of a grace is to be skipped. */
  readonly nudge: Nudge
  /** Adds a line to the receipt's timeline. */
  readonly note: (what: string) => void
  /** errno names that signals were refused with, by member. */
  readonly refused: Map<string, string>
  /** The signal each member was asked to end with, which the system took. */
  readonly asked: Map<string, string>
  /** Asked before each signal; `false`: it is somebody else's now, and nothing is sent. */
  readonly mayAct: Effect.Effect<boolean>
}

/** The steps of an ending. Which comes when is decided by `Lifecycle`. None fails; a refused signal is an answer. */
export interface Termination {
  /** A fresh look. */
  readonly look: (subject: Subject) => Effect.Effect<TreeLook>
  /**
   * Sends `signal` and then SIGCONT, since a stopped process would never handle it. `true`: the system took at least
   * one.
   */
  readonly request: (subject: Subject, look: TreeLook, signal: string) => Effect.Effect<boolean>
  /**
   * Waits until the tree is gone, at most `millis`, or until `stop` says so at a nudge. Answers with the last look.
   */
  readonly awaitGone: (subject: Subject, millis: number, stop?: () => boolean) => Effect.Effect<TreeLook>
  /**
   * Freezes the tree until a look finds nobody new, kills it, and looks until it is gone or `millis` are over. One look
   * and one SIGKILL would lose to any program that forks in between. A member that was sent SIGKILL is not sent it
   * again: a second one changes nothing that the first did not.
   */
  readonly force: (subject: Subject, millis: number) => Effect.Effect<TreeLook>
}

/** Whether a look is the proof that a tree is gone. */
export const isGone = (look: TreeLook): boolean =>
  look.complete && look.members.length === 0 && look.occupied.length === 0

const keyOf = (member: { readonly pid: number; readonly startedAt: number }): string =>
  `${member.pid}:${member.startedAt}`

const byPid = (members: ReadonlyArray<Member>): ReadonlyArray<Member> =>
  members.toSorted((self, that) => self.pid - that.pid)

/** The members of a look as a receipt lists them: by pid, bounded, with the errno a signal to them was refused with. */
export const listed = (
  members: ReadonlyArray<Member>,
  refused: ReadonlyMap<string, string>
): ReadonlyArray<Survivor> =>
  byPid(members).slice(0, maxListed).map((member) => ({
    pid: member.pid,
    startedAt: member.startedAt,
    name: member.name,
    refused: refused.get(keyOf(member)) ?? null
  }))

const count = (amount: number, noun: string): string => `${amount} ${noun}${amount === 1 ? "" : "s"}`

const describe = (root: Identity, members: ReadonlyArray<Member>): string => {
  const inGroup = members.filter((member) => member.group === root.pid).length
  const outside = members.length - inGroup
  if (members.length === 0) return "nobody"
  if (outside === 0) return `group ${root.pid} (${count(inGroup, "member")})`
  const escaped = count(outside, "escapee")
  return inGroup === 0 ? escaped : `group ${root.pid} (${count(inGroup, "member")}), ${escaped}`
}

/** Freezing gives up after this many looks, and KILL goes to whoever was seen by then. */
const maxSweeps = 30
/** KILL goes out at most this many times; past it the survivors are reported. */
const maxRounds = 8

export const make = (options: {
  readonly driver: Pick<ProcessDriver, "occupied" | "signal">
  readonly look: SharedLook
  readonly clock: Clock.Clock
  readonly timers: TimerHeap
  readonly settings: Settings
}): Termination => {
  const { clock, driver, settings, timers } = options

  const look = (subject: Subject) => options.look(subject.root)

  const send = (
    subject: Subject,
    targets: { readonly members: ReadonlyArray<Member>; readonly groups?: ReadonlyArray<number> },
    signal: string
  ): Effect.Effect<ReadonlyArray<SignalOutcome>> =>
    Effect.flatMap(subject.mayAct, (may) => may ? sendNow(subject, targets, signal) : Effect.succeed([]))

  const sendNow = (
    subject: Subject,
    targets: { readonly members: ReadonlyArray<Member>; readonly groups?: ReadonlyArray<number> },
    signal: string
  ): Effect.Effect<ReadonlyArray<SignalOutcome>> =>
    within(() => driver.signal(subject.root, targets, signal), settings.portWindowMillis).pipe(
      Effect.exit,
      Effect.map((exit) => {
        if (exit._tag === "Failure" || exit.value._tag === "None") {
          subject.note(`${signal}: the driver did not answer`)
          return []
        }
        for (const outcome of exit.value.value) {
          if (outcome.outcome === "refused") subject.refused.set(keyOf(outcome), outcome.code ?? "refused")
        }
        return exit.value.value
      })
    )

  const noteSent = (subject: Subject, signal: string, what: string, outcomes: ReadonlyArray<SignalOutcome>) => {
    const refusals = outcomes.filter((outcome) => outcome.outcome === "refused")
    const refused = refusals.slice(0, 3).map(({ code, name, pid }) => `${pid} "${name}" (${code ?? "refused"})`)
    subject.note(`${signal} -> ${what}${refused.length === 0 ? "" : `, refused by ${refused.join(", ")}`}`)
  }

  const request: Termination["request"] = Effect.fnUntraced(function*(subject, seen, signal) {
    const outcomes = yield* send(subject, seen, signal)
    for (const outcome of outcomes) if (outcome.outcome === "sent") subject.asked.set(keyOf(outcome), signal)
    noteSent(subject, signal, describe(subject.root, seen.members), outcomes)
    yield* send(subject, seen, "SIGCONT")
    return outcomes.some((outcome) => outcome.outcome === "sent")
  })

  /**
   * Looks with back-off, since zombies answer a probe and only a look tells them apart. A nudge in between costs a probe
   * of microseconds, and a look only when the probe finds nobody.
   */
  const watch = Effect.fnUntraced(function*(
    subject: Subject,
    millis: number,
    enough: (look: TreeLook) => boolean,
    stop: () => boolean
  ) {
    const until = timers.now() + millis
    let interval = settings.pollMillis
    let lookAt = timers.now()
    for (;;) {
      const now = timers.now()
      const over = now >= until || stop()
      if (over || now >= lookAt || !driver.occupied(subject.root)) {
        const seen = yield* look(subject)
        // A look may take long: one that ends past the time is the last.
        if (isGone(seen) || enough(seen) || over || stop() || timers.now() >= until) return seen
        lookAt = timers.now() + interval
      }
      yield* subject.nudge.wait(clock, Math.max(0, Math.min(interval, until - timers.now())))
      interval = Math.min(interval * 2, settings.pollMaxMillis)
    }
  })

  const never = () => false

  const awaitGone: Termination["awaitGone"] = (subject, millis, stop = never) => watch(subject, millis, never, stop)

  /** Stops everybody, until a look shows nobody who was not stopped: what is stopped cannot fork. */
  const freeze = Effect.fnUntraced(function*(subject: Subject, until: number) {
    const stopped = new Set<string>()
    for (let sweep = 0;; sweep++) {
      const seen = yield* look(subject)
      const fresh = seen.members.filter((member) => !stopped.has(keyOf(member)))
      if (fresh.length === 0 || sweep >= maxSweeps || timers.now() > until) return seen
      yield* send(subject, { members: fresh }, "SIGSTOP")
      for (const member of fresh) stopped.add(keyOf(member))
    }
  })

  const force: Termination["force"] = Effect.fnUntraced(function*(subject, millis) {
    const until = timers.now() + millis
    const killed = new Set<string>()
    const isNew = (member: Member) => !killed.has(keyOf(member))
    let seen = yield* freeze(subject, until)
    for (let round = 0; round < maxRounds && !isGone(seen); round++) {
      const fresh = seen.members.filter(isNew)
      if (fresh.length > 0 || seen.occupied.length > 0) {
        const outcomes = yield* send(subject, { members: fresh, groups: seen.occupied }, "SIGKILL")
        noteSent(subject, "SIGKILL", describeLeft(subject, fresh, seen.occupied), outcomes)
        // What the driver did not answer for may not have been sent, and goes out once more.
        for (const outcome of outcomes) killed.add(keyOf(outcome))
      }
      const left = until - timers.now()
      if (left <= 0) break
      seen = yield* watch(subject, left, (next) => next.members.some(isNew) || next.occupied.length > 0, never)
      if (isGone(seen) || timers.now() >= until) return seen
      seen = yield* freeze(subject, until)
    }
    const left = until - timers.now()
    return isGone(seen) || left <= 0 ? seen : yield* watch(subject, left, never, never)
  })

  return { look, request, awaitGone, force }
}

/** Why somebody is still there to be killed, as far as it is known. */
const reasonOf = (subject: Subject, member: Member): string => {
  const asked = subject.asked.get(keyOf(member))
  const reasons = [
    ...(asked === undefined ? [] : [`ignored ${asked}`]),
    ...(member.group === subject.root.pid ? [] : ["left the group"])
  ]
  return reasons.length === 0 ? "" : ` (${reasons.join(", ")})`
}

const describeLeft = (
  subject: Subject,
  members: ReadonlyArray<Member>,
  groups: ReadonlyArray<number>
): string => {
  const named = byPid(members).slice(0, 4).map((member) => `${member.pid} "${member.name}"${reasonOf(subject, member)}`)
  const more = members.length - named.length
  const left = `${members.length} left: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`
  if (groups.length === 0) return left
  return members.length === 0
    ? `group ${groups.join(", ")} as a whole`
    : `${left}; group ${groups.join(", ")} as a whole`
}
