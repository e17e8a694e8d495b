/**
 * Histories on real processes for as long as is asked for: runtimes one after the other in one program, with each driver in
 * turn, and several histories at once in each. Between two runtimes nothing of the last one may be left.
 */
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, Settings } from "@procyon/runtime"
import * as Simulator from "@procyon/testing/Simulator"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as fs from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "../support/directory.ts"
import * as History from "./history.ts"
import { type Inventory, take } from "./inventory.ts"

/** How many fibers have begun and not ended. */
class FiberCount implements Metric.FiberRuntimeMetricsService {
  active = 0
  recordFiberStart(): void {
    this.active++
  }
  recordFiberEnd(): void {
    this.active--
  }
}

const limits: Simulator.Limits = { ...Simulator.defaults, steps: 12, faults: false, lives: false }
const atOnce = 3

const settings = Settings.layer({
  graceMillis: 200,
  forceWindowMillis: 5000,
  heartbeatMillis: 250,
  outputBytes: 64 * 1024,
  maxFinishedPerOwner: 0
})

const layers = (directory: string) => [
  NodeProcessRuntime.layerDirect,
  NodeProcessRuntime.layer,
  NodeProcessRuntime.layerDurable({ directory })
]

export interface Result {
  readonly histories: number
  readonly processes: number
  readonly minutes: number
  readonly before: Inventory
  readonly after: Inventory
  readonly problems: ReadonlyArray<string>
}

/** `until`: whether to go on, asked after each round of all drivers. The first round is the warm-up. */
export const run = (options: {
  readonly seed: number
  /** Histories of each runtime; 9 when left out. */
  readonly perRuntime?: number | undefined
  readonly goOn: (elapsedMillis: number) => boolean
  readonly onRound?: ((histories: number, problems: number) => void) | undefined
}): Effect.Effect<Result> =>
  Effect.gen(function*() {
    const directory = yield* temporaryDirectory
    const began = performance.now()
    const fibers = new FiberCount()
    const problems: Array<string> = []
    let histories = 0
    let processes = 0

    const runtime = (layer: ReturnType<typeof layers>[number], root: string) =>
      Effect.gen(function*() {
        const service = yield* BackgroundProcess.Service
        const seeds = Array.from({ length: options.perRuntime ?? 9 }, () => options.seed * 1_000_000 + histories++)
        yield* Effect.forEach(
          seeds,
          (seed) =>
            Effect.map(
              History.run(Simulator.generate(seed, limits), {
                root,
                tag: `${process.pid}${seed}`,
                jobsOf: (owner) => service.of(owner)
              }),
              (result) => {
                processes += result.started
                problems.push(...result.problems)
              }
            ),
          { concurrency: atOnce, discard: true }
        )
      }).pipe(
        Effect.provide(Layer.fresh(layer.pipe(Layer.provide(settings), Layer.provideMerge(Logger.layer([]))))),
        Effect.provideService(Metric.FiberRuntimeMetrics, fibers),
        Effect.orDie
      )

    const round = Effect.gen(function*() {
      const place = fs.mkdtempSync(join(directory, "round-"))
      const root = join(place, "work")
      fs.mkdirSync(root)
      for (const layer of layers(join(place, "state"))) yield* runtime(layer, root)
      const left = fs.readdirSync(root)
      if (left.length > 0) problems.push(`workspaces are left: ${left.join(", ")}`)
      fs.rmSync(place, { recursive: true })
      options.onRound?.(histories, problems.length)
    })

    const count = Effect.promise(() => take(fibers.active))
    // Twice: what is made once and kept, such as a pool's place, is made by then.
    yield* round
    yield* round
    const before = yield* count
    do yield* round
    while (options.goOn(performance.now() - began))
    const after = yield* count
    for (const [what, now] of Object.entries(after)) {
      const then = before[what as keyof Inventory]
      const slack = what === "heap, KiB" ? 8 * 1024 : 0
      if (now > then + slack) problems.push(`${what}: ${then} at the beginning, ${now} at the end`)
    }
    return { histories, processes, minutes: (performance.now() - began) / 60_000, before, after, problems }
  }).pipe(Effect.scoped)
