/**
 * A host without rights: runs a command as a job, stops it, and says what came of it; then again when it has settled.
 *
 * It gives its rights up itself, so that everything it is made of can be loaded by then.
 */
import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import {
  BackgroundProcess,
  CommandSpec,
  ProcessLedger,
  ProcessLedgerMemory,
  ProcessRuntime,
  Settings
} from "@procyon/runtime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const nobody = 65534
process.setgroups?.([])
process.setgid?.(nobody)
process.setuid?.(nobody)

const [command = "true", ...args] = process.argv.slice(2)
const say = (said: unknown): void => void process.stdout.write(`${JSON.stringify(said)}\n`)

const layer = ProcessRuntime.layer.pipe(
  Layer.provideMerge(ProcessLedgerMemory.layer),
  Layer.provide(NodeProcessDriver.layer),
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
  const job = yield* jobs.start(CommandSpec.make(command, args))
  const output = yield* jobs.output(job.id)
  while (!(yield* output.preview).includes("ready")) yield* Effect.sleep("5 millis")
  const tell = Effect.gen(function*() {
    say({
      info: yield* jobs.get(job.id),
      listed: (yield* jobs.list).map(({ id }) => id),
      row: yield* ledger.get(job.id),
      events,
      notices: yield* jobs.notices
    })
  })
  yield* jobs.stop(job.id)
  yield* tell
  yield* Deferred.await(resolved)
  yield* tell
})

await Effect.runPromise(Effect.scoped(application).pipe(Effect.provide(layer)))
