/**
 * An application whose job prints more than memory keeps, until it is killed: says `spilling ID` once the store has some of
 * it. Argument: the directory of its state.
 */
import { BackgroundProcess, CommandSpec, Settings } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeSync } from "node:fs"
import { NodeProcessRuntime } from "../../src/index.ts"

const [directory = ""] = process.argv.slice(2)

const application = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("s1")
  const done = yield* jobs.start(CommandSpec.make("seq", ["1", "100000"]))
  yield* jobs.wait(done.id)
  const job = yield* jobs.start(CommandSpec.shell("seq 1 100000; exec sleep 600.125"))
  while ((yield* jobs.get(job.id)).output.spilledBytes === 0) yield* Effect.sleep("5 millis")
  writeSync(1, `spilling ${done.id} ${job.id}\n`)
  return yield* Effect.never
})

await Effect.runPromise(Effect.provide(
  application,
  NodeProcessRuntime.layerDurable({ directory, driver: "direct" }).pipe(
    Layer.provide(Settings.layer({ outputBytes: 10_000 }))
  )
))
