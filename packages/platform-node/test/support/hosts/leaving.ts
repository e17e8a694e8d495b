/**
 * A host without a keeper that runs a process in a workspace, as a job or in its own scope, with rows in a file, says which, and waits to
 * be killed.
 */
import { NodeProcessRuntime } from "@procyon/platform-node"
import { AppProcess, BackgroundProcess, CommandSpec, Workspace } from "@procyon/runtime"
import * as Effect from "effect/Effect"

const [directory = "", root = "", seconds = "", how = "job"] = process.argv.slice(2)

const application = Effect.gen(function*() {
  const workspace = yield* Workspace.acquire({ root, owner: "host" })
  const jobs = (yield* BackgroundProcess.Service).of("host")
  const command = CommandSpec.make("sleep", [seconds])
  const { id } = yield* how === "job" ? jobs.start(command, { workspace }) : AppProcess.spawn(command, { workspace })
  process.stdout.write(`${JSON.stringify({ id: workspace.id, job: id, path: workspace.path })}\n`)
  return yield* Effect.never
})

await Effect.runPromise(
  Effect.scoped(application).pipe(Effect.provide(NodeProcessRuntime.layerDurable({ directory, driver: "direct" })))
)
