/**
 * A host that has nothing left to do when it has said so, and ends only if nothing holds it.
 *
 * - `closed`, `open`: it has run and stopped a short job with a long grace and long deadlines, and has closed its runtime
 *   or has not.
 * - `pending`: it has asked for the end of a job that runs the script given to it, and does not wait for that.
 */
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, CommandSpec } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"

const [how, script = ""] = process.argv.slice(2)
const runtime = ManagedRuntime.make(NodeProcessRuntime.layer)

const shortJob = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("host")
  const options = { grace: "10 minutes", deadline: "10 minutes", idleDeadline: "10 minutes" } as const
  const job = yield* jobs.start(CommandSpec.make("sleep", ["0.05"]), options)
  yield* jobs.stop(job.id)
})

const pendingStop = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("host")
  const job = yield* jobs.start(CommandSpec.shell(script), { grace: "500 millis" })
  const output = yield* jobs.output(job.id)
  while (!(yield* output.preview).includes("ready")) yield* Effect.sleep("5 millis")
  runtime.runFork(jobs.stop(job.id))
})

await runtime.runPromise(how === "pending" ? pendingStop : shortJob)
if (how === "closed") await runtime.dispose()
process.stdout.write(`"done"\n`)
