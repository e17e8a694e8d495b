// How does a plugin run commands without knowing whose they are?
//
// A plugin yields services and provides none. Which runtime they come from, and whose jobs it starts, is decided by the
// application around it: the plugin holds no pid and no signal, and cannot name another owner.
import { NodeProcessRuntime } from "@procyon/platform-node"
import { AppProcess, BackgroundProcess, CommandSpec } from "@procyon/runtime"
import { Console, Effect, Stream } from "effect"

// ---- The plugin: two actions. A file of its own would import @procyon/runtime and effect only.

/** Starts this session's watcher and returns. Asked again, it joins the one that runs. */
const watch = Effect.fn("plugin.watch")(function*(folder: string) {
  const jobs = yield* BackgroundProcess.CurrentOwner
  const command = CommandSpec.shell("echo \"watching $FOLDER\"; exec sleep 300", { env: { FOLDER: folder } })
  const job = yield* jobs.start(command, { name: "watcher", onExisting: "join", idleDeadline: "30 minutes" })
  const output = yield* jobs.output(job.id)
  const firstLine = yield* Stream.runHead(output.follow())
  return firstLine._tag === "Some" ? firstLine.value.data.trim() : "it said nothing"
})

/** Runs a command to its end. Another exit code than 0 is an error here. */
const countLines = Effect.fn("plugin.countLines")(function*(text: string) {
  const app = yield* AppProcess.Service
  const command = CommandSpec.make("wc", ["-l"], { stdin: new TextEncoder().encode(text) })
  const result = yield* Effect.flatMap(app.run(command, { deadline: "5 seconds" }), AppProcess.requireSuccess)
  return Number(result.stdout)
})

// ---- The application: an owner a session, and one runtime for all of them.

const session = Effect.gen(function*() {
  const { list, owner } = yield* BackgroundProcess.CurrentOwner
  yield* Console.log(`${owner}    jobs before: ${(yield* list).length}`)
  yield* Console.log(`${owner}    watch: ${yield* watch("src")}`)
  yield* Console.log(`${owner}    watch again: ${yield* watch("src")}`)
  yield* Console.log(`${owner}    jobs now: ${(yield* list).length}`)
  yield* Console.log(`${owner}    countLines: ${yield* countLines("one\ntwo\nthree\n")}`)
})

const application = Effect.gen(function*() {
  const background = yield* BackgroundProcess.Service
  for (const owner of ["session-1", "session-2"]) {
    // The owner lives as long as this layer: its end stops the session's jobs, and verifies that they are gone.
    yield* Effect.provide(session, BackgroundProcess.layerOwner(owner))
    for (const notice of yield* background.of(owner).notices) {
      if (notice._tag === "Job") yield* Console.log(`application  ${owner} is over, its watcher ${notice.status}`)
    }
  }
})

NodeProcessRuntime.runMain(application, NodeProcessRuntime.layer)
