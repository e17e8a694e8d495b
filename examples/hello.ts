// What is left of a command that starts others and does not wait for them?
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, CommandSpec } from "@procyon/runtime"
import { Console, Effect } from "effect"

const main = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("session-1")
  const command = CommandSpec.shell("echo hello; setsid sleep 300 & sleep 300")
  const job = yield* jobs.start(command, { deadline: "1 second" })
  const { receipt, status } = yield* jobs.wait(job.id)
  const output = yield* jobs.output(job.id)
  yield* Console.log(`it printed   ${(yield* output.preview).trim()}`)
  yield* Console.log(`it ended     ${status}, ${receipt?.survivorCount} of its processes alive`)
})

NodeProcessRuntime.runMain(main, NodeProcessRuntime.layer)
