/**
 * A host without rights: runs a command as a job in a workspace, stops it, releases the workspace, and says what came of
 * both; then again when the job has settled and its workspace has gone.
 *
 * It gives its rights up itself, so that everything it is made of can be loaded by then.
 */
import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import * as NodeWorkspaceStore from "@procyon/platform-node/NodeWorkspaceStore"
import {
  BackgroundProcess,
  CommandSpec,
  ProcessLedger,
  ProcessLedgerMemory,
  ProcessRuntime,
  Settings,
  Workspace
} from "@procyon/runtime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as os from "node:os"

const nobody = 65534
process.setgroups?.([])
process.setgid?.(nobody)
process.setuid?.(nobody)

const [command = "true", ...args] = process.argv.slice(2)
const say = (said: unknown): void => void process.stdout.write(`${JSON.stringify(said)}\n`)

const layer = ProcessRuntime.layer.pipe(
  Layer.provideMerge(ProcessLedgerMemory.layer),
  Layer.provide([NodeProcessDriver.layer, NodeWorkspaceStore.layer]),
  Layer.provide(Settings.layer({ graceMillis: 300, forceWindowMillis: 300 }))
)

const application = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("host")
  const ledger = yield* ProcessLedger.Service
  const events: Array<string> = []
  const resolved = yield* Deferred.make<void>()
  yield* (yield* BackgroundProcess.Service).observe((event) =>
    Effect.suspend(() => {
      events.push(event._tag)
      return event._tag === "Resolved" ? Deferred.succeed(resolved, void 0) : Effect.void
    })
  )
  const scope = yield* Scope.make()
  const workspace = yield* Scope.provide(Workspace.acquire({ root: os.tmpdir() }), scope)
  const job = yield* jobs.start(CommandSpec.make(command, args), { workspace })
  const output = yield* jobs.output(job.id)
  while (!(yield* output.preview).includes("ready")) yield* Effect.sleep("5 millis")
  const tell = Effect.gen(function*() {
    say({
      info: yield* jobs.get(job.id),
      listed: (yield* jobs.list).map(({ id }) => id),
      row: yield* ledger.get(job.id),
      events,
      notices: yield* jobs.notices,
      workspace: {
        named: (yield* ledger.get(job.id))?.workspace === workspace.id,
        recorded: (yield* ledger.workspaces.list()).length,
        there: fs.existsSync(workspace.path)
      }
    })
  })
  yield* jobs.stop(job.id)
  yield* Scope.close(scope, Exit.void)
  yield* tell
  yield* Deferred.await(resolved)
  while ((yield* ledger.workspaces.list()).length > 0) yield* Effect.sleep("5 millis")
  yield* tell
})

await Effect.runPromise(Effect.scoped(application).pipe(Effect.provide(layer)))
