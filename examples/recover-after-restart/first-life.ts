// The first life: it starts what it is there for, and is killed in the middle of it.
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, CommandSpec } from "@procyon/runtime"
import { Effect, Stream } from "effect"
import * as Page from "../printing/page.ts"

const [directory = ""] = process.argv.slice(2)

/** Is to go on whatever becomes of this application. */
const startServer = Effect.fn("startServer")(function*(jobs: BackgroundProcess.Jobs) {
  const command = CommandSpec.shell("echo listening; exec sleep 302")
  const server = yield* jobs.start(command, { title: "dev server", lifetime: "detached" })
  const output = yield* jobs.output(server.id)
  return yield* Stream.runHead(output.follow())
})

const main = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("session-1")
  yield* startServer(jobs)
  yield* jobs.start(CommandSpec.shell("sleep 0.5; echo '3 problems'; exit 3"), {
    title: "check",
    lifetime: "detached"
  })
  yield* jobs.start(CommandSpec.shell("echo building; setsid sleep 301 & sleep 301"), { title: "build" })
  const quick = yield* jobs.start(CommandSpec.shell("echo formatted"), { title: "format" })
  yield* jobs.wait(quick.id)
  const list = yield* jobs.list
  yield* Page.table(
    ["job", "lifetime", "status"],
    list.map(({ lifetime, status, title }) => [title ?? "", lifetime, Page.status(status)])
  )
  // It has told nobody yet that the last one is through.
  process.kill(process.pid, "SIGKILL")
})

NodeProcessRuntime.runMain(main, NodeProcessRuntime.layerDurable({ directory }))
