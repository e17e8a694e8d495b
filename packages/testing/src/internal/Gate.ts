/**
 * What all goes through that a program under test does and is told, so that the program can be stopped, or be over.
 */
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"

export class Gate {
  readonly #latch = Latch.makeUnsafe(true)
  dead = false
  #stopped = false
  readonly #held: Array<() => void> = []

  get stopped(): boolean {
    return this.#stopped
  }

  /** Done while the program goes on only. */
  readonly pass = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      if (this.dead) return Effect.never
      if (!this.#stopped) return effect
      return Effect.andThen(this.#latch.await, Effect.suspend(() => this.dead ? Effect.never : effect))
    })

  /** The same, and its answer waits for the program too. Once it is done, its answer cannot be interrupted away. */
  readonly passBoth = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) => Effect.onExit(restore(this.pass(effect)), () => this.pass(Effect.void)))

  /** Told when the program goes on again, in order, or not at all. */
  readonly tell = <Args extends ReadonlyArray<unknown>>(f: (...args: Args) => void) => (...args: Args): void => {
    if (this.dead) return
    if (this.#stopped) this.#held.push(() => f(...args))
    else f(...args)
  }

  /**
   * A sink that is read into while the program goes on. What a driver has read before it learns that it is stopped is
   * handed on later; then the stream is paused, and `resume` called when it may flow again.
   */
  readonly sink = (sink: ProcessDriver.OutputSink, resume: () => void): ProcessDriver.OutputSink => {
    let own: Uint8Array | null = null
    return {
      reserve: () => {
        if (!this.#stopped) return sink.reserve()
        own = new Uint8Array(heldBytes)
        return own
      },
      commit: (count) => {
        const bytes = own?.slice(0, count)
        own = null
        const take = () => bytes === undefined ? sink.commit(count) : copyInto(sink, bytes)
        if (!this.#stopped) return take()
        this.#held.push(() => {
          if (take()) resume()
        })
        return false
      },
      end: this.tell(() => sink.end())
    }
  }

  close(): void {
    this.#stopped = true
    this.#latch.closeUnsafe()
  }

  open(): void {
    this.#stopped = false
    this.#latch.openUnsafe()
    for (const tell of this.#held.splice(0)) if (!this.dead) tell()
  }

  /** Every function of a service that answers with an effect passes; what is no effect is as it was. */
  readonly all = <A extends object>(service: A): A => {
    const pass = this.pass
    return new Proxy(service, {
      get(target, key, receiver) {
        const member: unknown = Reflect.get(target, key, receiver)
        if (Effect.isEffect(member)) return pass(member as Effect.Effect<unknown>)
        if (typeof member !== "function") return member
        return (...args: ReadonlyArray<unknown>) => {
          const answer: unknown = Reflect.apply(member, target, args)
          return Effect.isEffect(answer) ? pass(answer as Effect.Effect<unknown>) : answer
        }
      }
    })
  }
}

/** One read of a driver's. */
const heldBytes = 16 * 1024

const copyInto = (sink: ProcessDriver.OutputSink, bytes: Uint8Array): boolean => {
  let flows = true
  for (let at = 0; at < bytes.length;) {
    const region = sink.reserve()
    const part = bytes.subarray(at, at + region.length)
    region.set(part)
    at += part.length
    flows = sink.commit(part.length)
  }
  return flows
}

/** A program's own clock: its timers pass its gate, and its wall clock may be wrong. */
export const clockOf = (clock: Clock.Clock, gate: Gate, wall: { readonly ahead: number }): Clock.Clock => {
  const millis = (): number => clock.currentTimeMillisUnsafe() + wall.ahead
  const nanos = (): bigint => clock.currentTimeNanosUnsafe() + BigInt(Math.round(wall.ahead)) * 1_000_000n
  // A clock may be an instance of a class, whose members a copy would lose.
  const own: Pick<
    Clock.Clock,
    "currentTimeMillisUnsafe" | "currentTimeMillis" | "currentTimeNanosUnsafe" | "currentTimeNanos" | "sleep"
  > = {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    sleep: (duration) => gate.pass(Effect.andThen(clock.sleep(duration), gate.pass(Effect.void)))
  }
  return Object.assign(Object.create(clock) as Clock.Clock, own)
}
