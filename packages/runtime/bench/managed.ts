// What owning in-memory work costs, beside a bare Map of fibers in the same run:
//
//   node --expose-gc packages/runtime/bench/managed.ts
//
// Ends with exit code 1 when a process costs 2 KiB of heap or more, or when the time to close is not linear in their number.
import { ManagedProcess } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"

const [few, many] = [5_000, 50_000]
const counted = 10_000
const limitBytes = 2048

/** Of closing ten times as many. Linear is 10, a square would be 100; a garbage collection may come between. */
const limitGrowth = 30

interface Owner {
  readonly own: (id: string) => Effect.Effect<unknown, unknown>
  readonly close: Effect.Effect<unknown>
}

/** The least that could be done by hand: an id, a fiber, and an interruption of all. */
const bareMap = Effect.sync((): Owner => {
  const fibers = new Map<string, Fiber.Fiber<unknown>>()
  return {
    own: (id) =>
      Effect.map(Effect.forkDetach(Effect.never, { startImmediately: true }), (fiber) => fibers.set(id, fiber)),
    close: Effect.suspend(() => Fiber.interruptAll(fibers.values()))
  }
})

/** A process as a plugin would write it: one object, and no fiber. */
class Plain implements ManagedProcess.ManagedProcess<never, never> {
  closed = false

  start(): Effect.Effect<void> {
    return Effect.void
  }

  close(): Effect.Effect<void> {
    return Effect.sync(() => {
      this.closed = true
    })
  }
}

const started = Effect.map(ManagedProcess.make, (registry): Owner => ({
  own: (id) => registry.start(id, new Plain()),
  close: registry.close
}))

const forked = Effect.map(ManagedProcess.make, (registry): Owner => ({
  own: (id) => registry.fork(id, Effect.never),
  close: registry.close
}))

const heapBytes = (): number => {
  for (let times = 0; times < 4; times++) globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

interface Measured {
  readonly bytesEach: number
  readonly startMicros: number
  readonly closeMicros: number
}

const measure = (make: Effect.Effect<Owner, never, Scope.Scope>, count: number): Effect.Effect<Measured> =>
  Effect.gen(function*() {
    const owner = yield* make
    const ids = Array.from({ length: count }, (_, at) => `export:s-${at}:1`)
    const heap = heapBytes()
    const began = performance.now()
    for (const id of ids) yield* Effect.orDie(owner.own(id))
    const startMicros = (performance.now() - began) * 1000 / count
    const bytesEach = (heapBytes() - heap) / count
    const closing = performance.now()
    yield* owner.close
    return { bytesEach, startMicros, closeMicros: (performance.now() - closing) * 1000 / count }
  }).pipe(Effect.scoped)

/** Times of a busy machine spread upwards only, so the least of a few runs is nearest to the truth. */
const least = (make: Effect.Effect<Owner, never, Scope.Scope>, count: number): Effect.Effect<Measured> =>
  Effect.gen(function*() {
    const runs: Array<Measured> = []
    for (let run = 0; run < 5; run++) {
      // What the last run let go of is collected now, and not while this one is measured.
      yield* Effect.sleep(20)
      runs.push(yield* measure(make, count))
    }
    return {
      bytesEach: runs.map((run) => run.bytesEach).toSorted((a, b) => a - b)[2] ?? NaN,
      startMicros: Math.min(...runs.map((run) => run.startMicros)),
      closeMicros: Math.min(...runs.map((run) => run.closeMicros))
    }
  })

const main = Effect.gen(function*() {
  const rows = []
  for (const [name, make] of Object.entries({ "bare Map of fibers": bareMap, start: started, fork: forked })) {
    const { bytesEach, closeMicros, startMicros } = yield* least(make, counted)
    const small = yield* least(make, few)
    const large = yield* least(make, many)
    rows.push({
      name,
      bytesEach,
      startMicros,
      closeMicros,
      growth: large.closeMicros * many / (small.closeMicros * few)
    })
  }
  return rows
})

const rows = await Effect.runPromise(main)
const [bare] = rows
const ratio = (value: number, of: number | undefined): string => `${(value / (of ?? NaN)).toFixed(2)}x`
console.log(`${counted} processes; closing ${many} as against ${few}, which is 10 when it is linear`)
console.table(Object.fromEntries(rows.map((row) => [row.name, {
  "heap, bytes each": Math.round(row.bytesEach),
  "of bare": ratio(row.bytesEach, bare?.bytesEach),
  "start, us each": row.startMicros.toFixed(2),
  "start of bare": ratio(row.startMicros, bare?.startMicros),
  "close, us each": row.closeMicros.toFixed(2),
  "close of bare": ratio(row.closeMicros, bare?.closeMicros),
  "10x the close": row.growth.toFixed(1)
}])))

if (globalThis.gc === undefined) console.log("heap is a guess without --expose-gc")
const failed = rows.filter((row) => row.bytesEach >= limitBytes || row.growth > limitGrowth)
for (const { name } of failed) console.log(`too expensive: ${name}`)
process.exitCode = failed.length === 0 ? 0 : 1
