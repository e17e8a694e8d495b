/**
 * All deadlines, heartbeats and windows of a runtime on one heap with one armed sleep.
 *
 * Entries are keyed on the monotonic clock: a wall clock set back by an hour must not hold a timer for that hour. A
 * parked fiber a job would cost some 1,100 bytes each; an entry costs some 100.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/** A timer that was set. `cancel` is idempotent, and does nothing once it has fired. */
export interface Timer {
  readonly cancel: () => void
}

interface Entry {
  readonly at: number
  readonly order: number
  readonly fire: () => void
  cancelled: boolean
}

export interface TimerHeap {
  /** Milliseconds on the monotonic clock. Only differences mean anything. */
  readonly now: () => number
  /** Runs `fire` synchronously after `millis`: never before, and in the order of the times. `fire` must not throw. */
  readonly after: (millis: number, fire: () => void) => Timer
}

type Fork = (effect: Effect.Effect<void>) => Fiber.Fiber<void>

const before = (a: Entry, b: Entry): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)

class Heap implements TimerHeap {
  readonly #entries: Array<Entry> = []
  readonly #clock: Clock.Clock
  readonly #fork: Fork
  #order = 0
  #cancelled = 0
  #armed: { readonly at: number; readonly fiber: Fiber.Fiber<void> } | undefined

  constructor(clock: Clock.Clock, fork: Fork) {
    this.#clock = clock
    this.#fork = fork
  }

  now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  after(millis: number, fire: () => void): Timer {
    const entry: Entry = { at: this.now() + millis, order: this.#order++, fire, cancelled: false }
    this.#push(entry)
    this.#arm()
    return { cancel: () => this.#cancel(entry) }
  }

  #cancel(entry: Entry): void {
    if (entry.cancelled) return
    entry.cancelled = true
    this.#cancelled++
    // Cancelled entries stay until they come up, so many short jobs with long deadlines would fill the heap.
    if (this.#cancelled > 64 && this.#cancelled > this.#entries.length / 2) this.#sweep()
    this.#arm()
  }

  #sweep(): void {
    const live = this.#entries.filter((entry) => !entry.cancelled)
    this.#entries.length = 0
    this.#cancelled = 0
    for (const entry of live) this.#push(entry)
  }

  /** Keeps exactly one sleep armed, for the earliest entry, or none. */
  #arm(): void {
    while (this.#entries[0]?.cancelled === true) {
      this.#pop()
      this.#cancelled--
    }
    const first = this.#entries[0]
    if (first === undefined) {
      this.#armed?.fiber.interruptUnsafe()
      this.#armed = undefined
      return
    }
    if (this.#armed !== undefined) {
      if (this.#armed.at <= first.at) return
      this.#armed.fiber.interruptUnsafe()
    }
    // Whole milliseconds, rounded up: a timer of the platform drops the fraction, and would end early.
    const millis = Math.ceil(first.at - this.now())
    const fiber = this.#fork(Effect.andThen(
      // Never at once: whoever sets a timer has it in hand before it fires, also where a sleep of zero is no sleep.
      millis <= 0 ? Effect.yieldNow : this.#clock.sleep(Duration.millis(millis)),
      Effect.sync(() => {
        if (this.#armed?.fiber !== fiber) return
        this.#armed = undefined
        this.#fireDue()
      })
    ))
    this.#armed = { at: first.at, fiber }
  }

  #fireDue(): void {
    const due = this.now()
    // What a firing timer sets waits for the next turn, so that one that sets itself anew for now does not go on forever.
    const next = this.#order
    for (let first = this.#entries[0]; first !== undefined && first.at <= due; first = this.#entries[0]) {
      if (first.order >= next) break
      this.#pop()
      if (first.cancelled) this.#cancelled--
      else {
        first.cancelled = true
        first.fire()
      }
    }
    this.#arm()
  }

  #push(entry: Entry): void {
    const heap = this.#entries
    let at = heap.length
    heap.push(entry)
    while (at > 0) {
      const up = (at - 1) >> 1
      const parent = heap[up] as Entry
      if (!before(entry, parent)) break
      heap[at] = parent
      at = up
    }
    heap[at] = entry
  }

  #pop(): void {
    const heap = this.#entries
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let at = 0
    for (;;) {
      let child = at * 2 + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1] as Entry, heap[child] as Entry)) child++
      const candidate = heap[child] as Entry
      if (!before(candidate, last)) break
      heap[at] = candidate
      at = child
    }
    heap[at] = last
  }
}

/** `fork` runs the one armed sleep, in the context the runtime was built in. */
export const make = (clock: Clock.Clock, fork: Fork): TimerHeap => {
  const heap = new Heap(clock, fork)
  return { now: () => heap.now(), after: (millis, fire) => heap.after(millis, fire) }
}
