/**
 * Which fault strikes at a call, and what of it is the same at every port.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { dice } from "../Dice.ts"
import type { Gate } from "../Gate.ts"
import { describe, type Fault, nameOf, type Port, type What, type When } from "./Fault.ts"

/** What the defect of a `Die` says. */
export class InjectedDefect extends Error {
  override readonly name = "InjectedDefect"
}

/** How a call is made, and what a fault may have to know of it. */
interface Call<A, E> {
  readonly port: Port
  readonly call: string
  readonly make: Effect.Effect<A, E>
  /** Fails with a problem of the port's. Absent: the call cannot fail. */
  readonly failure?: (what: Extract<What, { readonly _tag: "Fail" }>) => E
  /** Undoes what was done when nobody waits for its answer any more. */
  readonly abandon?: (answer: A) => Effect.Effect<void>
  /** The kinds that are this call's own. */
  readonly own?: (what: What) => Effect.Effect<A, E> | undefined
}

export class Strikes {
  readonly gate: Gate
  readonly wall = { ahead: 0 }
  readonly lines: Array<string> = []
  readonly struck = new Set<Port>()
  /** The world's clock, which no fault touches. */
  readonly clock: Clock.Clock
  readonly #byCall = new Map<string, Array<{ readonly fault: Fault; readonly isDue: () => boolean }>>()
  #healed = false
  readonly #healing = Latch.makeUnsafe()
  #stalledUntil = 0

  constructor(faults: ReadonlyArray<Fault>, seed: number, clock: Clock.Clock, gate: Gate) {
    this.clock = clock
    this.gate = gate
    for (const fault of faults) {
      const name = nameOf(fault)
      const there = this.#byCall.get(name) ?? []
      there.push({ fault, isDue: countingOf(fault.when, seed ^ hashOf(JSON.stringify(fault))) })
      this.#byCall.set(name, there)
    }
  }

  /** Whether any fault is of this kind, so that it needs preparing for. */
  readonly expects = (kind: What["_tag"]): boolean =>
    [...this.#byCall.values()].some((there) => there.some(({ fault }) => fault.what._tag === kind))

  heal(): void {
    this.#healed = true
    this.#healing.openUnsafe()
    this.gate.open()
  }

  /** Counts the call. What strikes at it: of several faults the first. */
  strike(port: Port, call: string): What | null {
    const there = this.#byCall.get(`${port}.${call}`)
    if (there === undefined || this.#healed) return null
    let what: What | null = null
    for (const { fault, isDue } of there) if (isDue()) what ??= fault.what
    if (what !== null) {
      this.struck.add(port)
      this.lines.push(`${this.clock.currentTimeMillisUnsafe()} ${port}.${call} ${describe(what)}`)
    }
    return what
  }

  /** For so long nothing moves; whoever calls this goes on. */
  stall(millis: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { clock, gate } = this
      this.#stalledUntil = Math.max(this.#stalledUntil, clock.currentTimeMillisUnsafe() + millis)
      gate.close()
      const wake = Effect.sync(() => {
        if (clock.currentTimeMillisUnsafe() >= this.#stalledUntil) gate.open()
      })
      const timer = Effect.andThen(clock.sleep(Duration.millis(millis)), wake)
      return Effect.asVoid(Effect.forkDetach(timer, { startImmediately: true }))
    })
  }

  /** Makes the call through the gate, with what strikes at it. */
  readonly through = <A, E>(call: Call<A, E>): Effect.Effect<A, E> =>
    this.gate.passBoth(Effect.suspend(() => {
      const what = this.strike(call.port, call.call)
      return what === null ? call.make : call.own?.(what) ?? this.#suffer(what, call)
    }))

  #suffer<A, E>(what: What, { abandon, failure, make }: Call<A, E>): Effect.Effect<A, E> {
    switch (what._tag) {
      case "Fail": {
        if (failure === undefined) return make
        const failed = Effect.suspend(() => Effect.fail(failure(what)))
        return what.done === true ? Effect.andThen(make, failed) : failed
      }
      case "Delay": {
        const pause = Effect.sleep(what.millis)
        const late = what.of === "answer" ? thenWait(make, pause, abandon) : Effect.andThen(pause, make)
        return what.uninterruptible === true ? Effect.uninterruptible(late) : late
      }
      case "Hang": {
        if (what.uninterruptible !== true) {
          return what.done === true ? thenWait(make, Effect.never, abandon) : Effect.never
        }
        const stuck = Effect.andThen(Effect.uninterruptible(this.#healing.await), Effect.never)
        return what.done === true ? Effect.andThen(make, stuck) : stuck
      }
      case "Die": {
        const dying = Effect.suspend(() => Effect.die(new InjectedDefect("a fault of a test's")))
        return what.done === true ? Effect.andThen(make, dying) : dying
      }
      case "Duplicate":
        return Effect.flatMap(make, (first) => what.answer === "second" ? make : Effect.as(Effect.exit(make), first))
      case "Stall":
        return Effect.andThen(this.stall(what.millis), this.gate.pass(make))
      case "WallClock":
        return Effect.suspend(() => {
          this.wall.ahead = what.aheadMillis
          return make
        })
      default:
        return make
    }
  }
}

/** An answer that is held back: whoever stops waiting for it leaves nothing behind. */
export const thenWait = <A, E>(
  make: Effect.Effect<A, E>,
  wait: Effect.Effect<unknown>,
  abandon: (answer: A) => Effect.Effect<void> = () => Effect.void
): Effect.Effect<A, E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      restore(make),
      (answer) => Effect.as(Effect.onInterrupt(restore(wait), () => abandon(answer)), answer)
    )
  )

const countingOf = (when: When, seed: number): () => boolean => {
  let count = 0
  switch (when._tag) {
    case "Nth":
      return () => ++count >= when.n && count < when.n + (when.times ?? 1)
    case "From":
      return () => ++count >= when.n
    case "Chance": {
      const { often } = dice(seed)
      return () => often(when.chance)
    }
    case "Always":
      return () => true
  }
}

/** FNV-1a. */
const hashOf = (text: string): number => {
  let hash = 0x811c_9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x0100_0193)
  return hash | 0
}
