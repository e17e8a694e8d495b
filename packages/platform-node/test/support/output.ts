/**
 * What the tests of output, time and lifecycle share: layers over real processes, bounded waits for evidence, and what
 * this process holds (memory, descriptors, listeners).
 */
import { NodeProcessRuntime } from "@procyon/platform-node"
import { type BlobStore, type OutputRetention, type ProcessRuntime, Settings } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

const short: Partial<Settings.Settings> = {
  graceMillis: 300,
  forceWindowMillis: 3_000,
  // On a busy machine a start may take longer than the second after which it answers without one.
  startAnswerMillis: 10_000
}

/** A runtime of its own on real processes. */
export const runtime = (
  settings: Partial<Settings.Settings> = {}
): Layer.Layer<ProcessRuntime.ProcessRuntime> =>
  Layer.fresh(NodeProcessRuntime.layerDirect).pipe(Layer.provide(Settings.layer({ ...short, ...settings })))

/** The same with a store for what memory loses. */
export const runtimeWith = <E>(
  store: Layer.Layer<BlobStore.Service, E>,
  settings: Partial<Settings.Settings> = {}
): Layer.Layer<ProcessRuntime.ProcessRuntime, E> =>
  Layer.fresh(NodeProcessRuntime.layerDirect).pipe(
    Layer.provide(store),
    Layer.provide(Settings.layer({ ...short, ...settings }))
  )

/** A directory that is removed with the scope. */
export const directory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "procyon-cases-"))),
  (made) => Effect.sync(() => fs.rmSync(made, { recursive: true, force: true }))
)

const patienceMillis = 20_000

/** Asks again until the answer is there, and dies when it does not come: a test that hangs tells nothing. */
export const until = <A, E, R>(
  what: string,
  ask: Effect.Effect<A | null | undefined | false, E, R>
): Effect.Effect<A, E, R> => {
  const giveUpAt = performance.now() + patienceMillis
  const again: Effect.Effect<A, E, R> = Effect.flatMap(ask, (answer) => {
    if (answer !== null && answer !== undefined && answer !== false) return Effect.succeed(answer)
    return performance.now() > giveUpAt
      ? Effect.die(new Error(`never seen: ${what}`))
      : Effect.andThen(Effect.sleep("5 millis"), again)
  })
  return again
}

/** Waits until this much output was seen. */
export const untilSeen = (view: OutputRetention.View, bytes: number): Effect.Effect<void> =>
  Effect.asVoid(until(
    `${bytes} bytes of output`,
    Effect.map(view.metadata, (metadata) => metadata.bytesSeen >= bytes)
  ))

/** Waits until the text of the output has this in it. */
export const untilSaid = (view: OutputRetention.View, text: string): Effect.Effect<void> =>
  Effect.asVoid(until(`"${text}" in the output`, Effect.map(view.preview, (preview) => preview.includes(text))))

/** Whether the pid is there and no zombie. */
export const isAlive = (pid: number): boolean => {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
    return !"ZX".includes(stat.charAt(stat.lastIndexOf(")") + 2))
  } catch {
    return false
  }
}

/** The pid that a child has written into a file. */
export const pidIn = (file: string): Effect.Effect<number> =>
  until(
    "a pid in a file",
    Effect.sync(() => {
      const text = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : ""
      return text.endsWith("\n") ? Number(text) : null
    })
  )

/** The hash of `bytes` bytes that repeat `pattern`. */
export const sha256Of = (pattern: string | Uint8Array, bytes: number): string => {
  const hash = createHash("sha256")
  const unit = Buffer.from(pattern)
  const block = Buffer.alloc(Math.min(bytes, unit.length * Math.ceil((1024 * 1024) / unit.length)), unit)
  let left = bytes
  for (; left >= block.length && left > 0; left -= block.length) hash.update(block)
  return hash.update(block.subarray(0, left)).digest("hex")
}

/** Runs an effect, and tells how many bytes this process grew by at most while it ran. */
export const growthDuring = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<{ readonly value: A; readonly bytes: number }, E, R> =>
  Effect.scoped(Effect.gen(function*() {
    collectGarbage()
    const before = process.memoryUsage.rss()
    let most = before
    const measure = Effect.sync(() => {
      most = Math.max(most, process.memoryUsage.rss())
    })
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(measure, Effect.sleep("10 millis"))))
    const value = yield* effect
    yield* measure
    return { value, bytes: most - before }
  }))

setFlagsFromString("--expose-gc")
const gc: () => void = runInNewContext("gc")

/** Twice: what a finalizer lets go of is found by the second. */
const collectGarbage = (): void => {
  gc()
  gc()
}

/** The bytes of the heap in use after a full collection. */
export const heapUsed = (): number => {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

export const openDescriptors = (): number => fs.readdirSync("/proc/self/fd").length

/** Listeners on this process, by event. */
export const processListeners = (): Readonly<Record<string, number>> =>
  Object.fromEntries(process.eventNames().map((name) => [String(name), process.listenerCount(name)]))

/** Collects the warnings of Node while the scope is open. */
export const warnings: Effect.Effect<ReadonlyArray<string>, never, Scope.Scope> = Effect.gen(function*() {
  const seen: Array<string> = []
  const listener = (warning: Error): void => {
    seen.push(`${warning.name}: ${warning.message}`)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("warning", listener)),
    () => Effect.sync(() => process.off("warning", listener))
  )
  return seen
})
