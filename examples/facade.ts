// Who ends a command that belongs to an application, when that is replaced and its session goes on?
//
// A job belongs to an owner, and outlives the application's code. A facade around it is closed with the application.
import { NodeProcessRuntime } from "@procyon/platform-node"
import { AppProcess, Authority, BackgroundProcess, CommandSpec, Generation, ManagedProcess } from "@procyon/runtime"
import { Console, Deferred, Effect, Option, Stream } from "effect"

// ---- The plugin.

/** The job stays where it is owned. The facade knows its id, and what to say to it. */
class DevServer implements ManagedProcess.ManagedProcess<BackgroundProcess.StartError> {
  readonly #jobs: BackgroundProcess.Jobs
  #job = "none yet"

  constructor(jobs: BackgroundProcess.Jobs) {
    this.#jobs = jobs
  }

  /** Takes a second at most. Not interrupted in between, so that there is no job whose id is not known. */
  start(): Effect.Effect<void, BackgroundProcess.StartError> {
    const command = CommandSpec.shell("echo ready; exec sleep 300")
    return Effect.uninterruptible(Effect.map(this.#jobs.start(command, { title: "dev server" }), ({ id }) => {
      this.#job = id
    }))
  }

  /** Waits for the proof that its tree is gone. Should the registry give up the wait, the job is ended all the same. */
  close(): Effect.Effect<void> {
    return Effect.ignore(this.#jobs.stop(this.#job)) // the one error says that there is no such job
  }

  get firstLine() {
    return Effect.flatMap(this.#jobs.output(this.#job), (output) => Stream.runHead(output.follow())).pipe(
      Effect.map(Option.match({ onNone: () => "nothing", onSome: ({ data }) => data.trim() }))
    )
  }
}

const startServer = Effect.fn("plugin.startServer")(function*() {
  const registry = yield* ManagedProcess.Registry
  yield* registry.start("dev-server", new DevServer(yield* BackgroundProcess.CurrentOwner))
})

const askServer = Effect.fn("plugin.askServer")(function*() {
  const registry = yield* ManagedProcess.Registry
  const server = yield* registry.get("dev-server", DevServer)
  return Option.isSome(server) ? `it says ${yield* server.value.firstLine}` : "there is none"
})

/** Has nothing to say while it runs, so an effect will do, and no class. */
const countLines = Effect.fn("plugin.countLines")(
  function*(text: string, save: (lines: number) => Effect.Effect<void>) {
    const registry = yield* ManagedProcess.Registry
    const command = CommandSpec.make("wc", ["-l"], { stdin: new TextEncoder().encode(text) })
    yield* registry.fork(
      "count-lines",
      Effect.gen(function*() {
        const { stdout } = yield* AppProcess.run(command, { deadline: "5 seconds" })
        yield* (yield* Authority.Current).commit(save(Number(stdout)))
      })
    )
  }
)

// ---- The application, and a session that goes on when it is replaced.

const session = Effect.gen(function*() {
  const jobs = yield* BackgroundProcess.CurrentOwner
  const application = yield* Generation.make(ManagedProcess.layerShared)

  yield* application.use(startServer())
  yield* Console.log(`application 1  dev server: ${yield* application.use(askServer())}`)
  const lines = yield* Deferred.make<number>()
  yield* application.use(countLines("one\ntwo\n", (count) => Deferred.succeed(lines, count)))
  yield* Console.log(`application 1  lines: ${yield* Deferred.await(lines)}`)

  yield* Console.log(`replaced       it is application ${yield* application.replace} now`)
  yield* Console.log(`application 2  dev server: ${yield* application.use(askServer())}`)
  for (const { receipt, status, title } of yield* jobs.list) {
    yield* Console.log(`session        ${title}: ${status}, ${receipt?.survivorCount} of its processes alive`)
  }
})

const main = Effect.scoped(session).pipe(Effect.provide(BackgroundProcess.layerOwner("session-1")))

NodeProcessRuntime.runMain(main, NodeProcessRuntime.layer)
