/**
 * A host that runs and stops a short job with a long grace and a long deadline, and then has nothing left to do. With
 * `open` it never closes its runtime either. It says when it is done, and ends only if nothing holds it.
 */
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, CommandSpec } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"

const runtime = ManagedRuntime.make(NodeProcessRuntime.layer)

await runtime.runPromise(Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("host")
  const options = { grace: "10 minutes", deadline: "10 minutes", idleDeadline: "10 minutes" } as const
  const job = yield* jobs.start(CommandSpec.make("sleep", ["0.05"]), options)
  yield* jobs.stop(job.id)
}))
if (process.argv[2] !== "open") await runtime.dispose()
process.stdout.write(`"done"\n`)
