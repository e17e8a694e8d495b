// The first life: it starts what it is there for, and is killed in the middle of it.
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, CommandSpec } from "@procyon/runtime"
import { Effect, Stream } from "effect"
import * as Page from "../printing/page.ts"

const [directory = ""] = process.argv.slice(2)

const main = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("session-1")
  const server = yield* jobs.start(CommandSpec.shell("echo listening; exec sleep 302"), {
    title: "dev server",
    lifetime: "detached"
  })
  yield* jobs.start(CommandSpec.shell("sleep 0.5; echo '3 problems'; exit 3"), {
    title: "check",
    lifetime: "detached"
  })
  yield* jobs.start(CommandSpec.shell("echo building; setsid sleep 301 & sleep 301"), { title: "build" })
  const quick = yield* jobs.start(CommandSpec.shell("echo formatted"), { title: "format" })
  yield* Stream.runHead((yield* jobs.output(server.id)).follow())
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
