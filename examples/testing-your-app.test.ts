// To be copied: a service of an application that keeps a dev server up, and its tests. No test starts a process or waits
// for real time: eight hours take a moment, and a machine that has no more processes is one word. See docs/testing.md.
import { assert, it } from "@effect/vitest"
import { BackgroundProcess, CommandSpec, Recovery } from "@procyon/runtime"
import { child, Children, Faults, Lives, RuntimeTest, type Script, World } from "@procyon/testing"
import { Context, Effect, Layer, Schedule, Schema, Stream } from "effect"
import { expect } from "vitest"

// ---- The application.

/** Why there is no server. */
class ServerDown extends Schema.TaggedError<ServerDown>()("ServerDown", { why: Schema.String }) {
  override get message() {
    return `no dev server: ${this.why}`
  }
}

/** Keeps a dev server up: for eight hours at most, started again when it crashes. */
class DevServer extends Context.Service<DevServer, {
  /** Starts it, unless it is up. */
  readonly start: Effect.Effect<BackgroundProcess.Info, ServerDown>
  readonly stop: Effect.Effect<void>
  /** What an operator would want to know, oldest first. */
  readonly log: Effect.Effect<ReadonlyArray<string>>
}>()("example/DevServer") {
  static readonly layer = Layer.effect(
    DevServer,
    Effect.gen(function*() {
      const jobs = (yield* BackgroundProcess.Service).of("dev")
      const lines: Array<string> = []
      const log = (line: string) => Effect.sync(() => lines.push(line))

      const start = jobs.start(CommandSpec.make("npm", ["run", "dev"]), {
        name: "server",
        onExisting: "join",
        deadline: "8 hours"
      }).pipe(
        // The machine may be short of processes for a moment.
        Effect.retry({ schedule: Schedule.spaced("1 second"), times: 3 }),
        Effect.mapError((error) => new ServerDown({ why: error.message }))
      )

      const onEvent = Effect.fnUntraced(function*(event: BackgroundProcess.Event) {
        if (event._tag === "Heartbeat" && event.idleMillis >= 30_000) {
          yield* log(`it has said nothing for ${event.idleMillis / 1000} s`)
        }
        if (event._tag !== "Ended") return
        yield* log(`it has ended: ${event.status}`)
        if (event.status === "error") yield* start.pipe(Effect.catch((error) => log(error.message)))
      })
      yield* Effect.forkScoped(Stream.runForEach(jobs.events, onEvent), { startImmediately: true })

      return { start, stop: Effect.asVoid(jobs.stopAll), log: Effect.sync(() => [...lines]) }
    })
  )
}

// ---- Its tests. Each has a runtime and a world of its own, in which `npm` is a script.

const withNpm = (npm: Script, faults: ReadonlyArray<Faults.Fault> = []) =>
  Effect.provide(Layer.provideMerge(DevServer.layer, RuntimeTest.layer({ children: { npm }, faults })))

it.effect("is one server, however often it is started, and nothing is left when it is stopped", () =>
  Effect.gen(function*() {
    const server = yield* DevServer
    const first = yield* server.start
    const second = yield* server.start
    assert.strictEqual(first.id, second.id)
    yield* RuntimeTest.letTimePass(server.stop)
    assert.deepStrictEqual(yield* server.log, ["it has ended: cancelled"])
    yield* RuntimeTest.nothingLeft
  }).pipe(withNpm(Children.server())))

it.effect("is ended after eight hours, also when it ignores SIGTERM", () =>
  Effect.gen(function*() {
    const server = yield* DevServer
    const { id } = yield* server.start
    yield* RuntimeTest.expectReceipt(id, {
      status: "timed_out",
      cause: { _tag: "Deadline", kind: "total" },
      forced: true,
      survivors: []
    }, { atMost: "9 hours" })
    const world = yield* World
    expect(yield* world.timeline()).toMatchInlineSnapshot(`
      "    0.000  spawn    npm  started
      28800.000  SIGTERM  npm  sent
      28805.000  SIGSTOP  npm  sent
      28805.000  SIGKILL  npm  sent
      28805.000  exit     npm  SIGKILL
      28805.000  release  npm"
    `)
  }).pipe(withNpm(Children.ignoringTerm)))

it.effect("is called silent at the first beat that finds it so for half a minute", () =>
  Effect.gen(function*() {
    const server = yield* DevServer
    yield* server.start
    for (let beat = 1; beat < 6; beat++) yield* RuntimeTest.advanceToNextBeat()
    assert.deepStrictEqual(yield* server.log, [])
    yield* RuntimeTest.advanceToNextBeat()
    assert.deepStrictEqual(yield* server.log, ["it has said nothing for 30 s"])
  }).pipe(withNpm(Children.server("listening\n"))))

it.effect("is started again when it crashes", () =>
  Effect.gen(function*() {
    const server = yield* DevServer
    const world = yield* World
    const { id } = yield* server.start
    yield* world.kill("npm", "SIGSEGV")
    yield* RuntimeTest.expectReceipt(id, { status: "error", exit: { signal: "SIGSEGV" } })
    yield* RuntimeTest.advanceUntil(Effect.map(world.alive, (alive) => alive.length === 1))
    assert.deepStrictEqual(yield* server.log, ["it has ended: error"])
    assert.strictEqual(yield* world.spawned, 2)
  }).pipe(withNpm(child.prints("listening\n"))))

it.effect("is up a little later when the machine has no more processes for a moment", () =>
  Effect.gen(function*() {
    const server = yield* DevServer
    const faults = yield* Faults.Service
    yield* RuntimeTest.letTimePass(server.start)
    assert.deepStrictEqual(yield* faults.injected, [
      "0 driver.spawn Fail TooManyProcesses EAGAIN",
      "1000 driver.spawn Fail TooManyProcesses EAGAIN"
    ])
    assert.deepStrictEqual(yield* (yield* World).alive, ["npm"])
  }).pipe(withNpm(Children.server(), [Faults.spawnEagain(Faults.nth(1, 2))])))

it.effect("is not started while the ledger is down, and is once it is well", () =>
  Effect.gen(function*() {
    const server = yield* DevServer
    const faults = yield* Faults.Service
    const down = yield* Effect.flip(RuntimeTest.letTimePass(server.start))
    assert.strictEqual(down.message, "no dev server: npm: the job could not be recorded")
    assert.deepStrictEqual(yield* (yield* World).alive, [])
    yield* faults.heal
    yield* RuntimeTest.letTimePass(server.start)
    assert.deepStrictEqual(yield* (yield* World).alive, ["npm"])
  }).pipe(withNpm(Children.server(), Faults.ledgerDown())))

it.effect("is ended by the next life of the application when this one was killed", () =>
  Effect.gen(function*() {
    const world = yield* World
    const first = yield* Lives.begin()
    yield* first.run(Effect.provide(DevServer.use((server) => server.start), DevServer.layer))
    yield* first.kill
    assert.deepStrictEqual(yield* world.alive, ["npm"])
    const second = yield* Lives.begin()
    yield* world.advance("1 second")
    assert.deepStrictEqual(yield* world.alive, [])
    const { entries } = yield* second.run(Recovery.Service.use((recovery) => recovery.started))
    assert.deepStrictEqual(entries.map(({ outcome, status }) => [outcome, status]), [["ended", "cancelled"]])
  }).pipe(Effect.provide(Lives.layer({ children: { npm: Children.server() } }))))
