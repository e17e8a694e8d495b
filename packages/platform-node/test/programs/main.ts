/**
 * An application that holds a child which ignores SIGTERM, says so, and waits. Run by the tests of `runMain`, which send
 * it signals. Arguments: the runner (`ours` or `effect`), the grace in milliseconds, what the application does.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { AppProcess, BackgroundProcess, CommandSpec, Settings, ShutdownBarrier } from "@procyon/runtime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { NodeProcessRuntime } from "../../src/index.ts"

const [runner, grace, what] = process.argv.slice(2)

const stubborn = CommandSpec.shell("trap '' TERM; echo up; while :; do sleep 0.05; done")

const application = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("s1")
  const job = yield* jobs.start(stubborn, { title: "stubborn" })
  const handle = yield* AppProcess.spawn(stubborn)
  for (const output of [yield* jobs.output(job.id), handle.output]) {
    while (!(yield* output.read()).data.includes("up")) yield* Effect.sleep(5)
  }
  yield* Console.log("ready")
  if (what === "succeed") return
  if (what === "fail") return yield* Effect.fail("application")
  return yield* Effect.never
}).pipe(Effect.scoped)

const layer = NodeProcessRuntime.layer.pipe(Layer.provide([
  Settings.layer({ graceMillis: Number(grace) }),
  ShutdownBarrier.onReport((report) =>
    Console.log(`report ${report.mode} ${report.rows.map((row) => row.status).join(" ")} clean=${report.clean}`)
  )
]))

if (runner === "ours") NodeProcessRuntime.runMain(application, layer)
else NodeRuntime.runMain(Effect.provide(application, layer), { disableErrorReporting: true })
