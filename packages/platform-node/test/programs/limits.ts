/**
 * Starts jobs until the system refuses one, says why, stops them all, and starts one more. Run under a limit of files or
 * of processes; the second argument is the user to become, since root has no limit of processes.
 */
import { BackgroundProcess, CommandSpec, Settings } from "@procyon/runtime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { NodeProcessRuntime } from "../../src/index.ts"

const [most, user] = process.argv.slice(2).map(Number)
if (user !== undefined) {
  process.setgid?.(user)
  process.setuid?.(user)
}

const application = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("limits")
  let refusal = "none"
  for (let n = 0; n < (most ?? 0) && refusal === "none"; n++) {
    refusal = yield* jobs.start(CommandSpec.make("sleep", ["600"])).pipe(
      Effect.as("none"),
      Effect.catchReason("StartError", "SpawnFailed", ({ problem }) => Effect.succeed(problem))
    )
  }
  const ended = yield* jobs.stopAll
  const statuses = [...new Set(ended.map((info) => info.status))].join(" ")
  const { id } = yield* jobs.start(CommandSpec.make("true"))
  const after = yield* jobs.wait(id)
  yield* Console.log(`refused ${refusal}, some started ${ended.length > 3}, then ${statuses}, later ${after.status}`)
})

const settings = Settings.layer({ maxRunningPerOwner: 0, startAnswerMillis: 10_000 })
NodeProcessRuntime.runMain(application, Layer.provide(NodeProcessRuntime.layer, settings))
