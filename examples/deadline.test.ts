// How to test an application of one's own: the runtime on scripted children and a virtual clock. An hour takes
// milliseconds, and a process that cannot be ended is one word in a script.
import { assert, it } from "@effect/vitest"
import { BackgroundProcess, CommandSpec, type Status } from "@procyon/runtime"
import { child, RuntimeTest, type Script, World } from "@procyon/testing"
import { Context, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"

// ---- The application: builds that may take an hour.

type Outcome = "built" | "broken" | "too slow" | "stuck"

const outcomeOf = (status: Status.Status): Outcome => {
  if (status === "completed") return "built"
  if (status === "timed_out") return "too slow"
  return status === "kill_failed" ? "stuck" : "broken"
}

class Builds extends Context.Service<Builds, {
  readonly build: (target: string) => Effect.Effect<Outcome, BackgroundProcess.StartError>
  /** Tries again to end what is stuck; answers with how many are left. */
  readonly cleanUp: Effect.Effect<number>
  readonly progress: Effect.Effect<ReadonlyArray<string>>
}>()("example/Builds") {
  static readonly layer = Layer.effect(
    Builds,
    Effect.gen(function*() {
      const jobs = (yield* BackgroundProcess.Service).of("builds")
      const progress: Array<string> = []
      const stuck = Effect.map(jobs.list, (all) => all.filter(({ status }) => status === "kill_failed"))
      yield* jobs.events.pipe(
        Stream.runForEach((event) =>
          Effect.sync(() => {
            if (event._tag === "Heartbeat") progress.push(`building for ${event.elapsedMillis / 1000} s`)
          })
        ),
        Effect.forkScoped({ startImmediately: true })
      )
      return {
        build: Effect.fn("Builds.build")(function*(target: string) {
          const job = yield* jobs.start(CommandSpec.make("make", [target]), { deadline: "1 hour" })
          return yield* jobs.wait(job.id).pipe(
            Effect.map(({ status }) => outcomeOf(status)),
            Effect.orDie // a job that was just started is there, unless somebody forgets it
          )
        }),
        cleanUp: Effect.gen(function*() {
          for (const { id } of yield* stuck) yield* Effect.ignore(jobs.retryTermination(id))
          return (yield* stuck).length
        }),
        progress: Effect.sync(() => [...progress])
      }
    })
  )
}

// ---- Its tests. Each has a runtime and a world of its own, in which `make` is a script.

const withMake = (make: Script) => Layer.provideMerge(Builds.layer, RuntimeTest.layer({ children: { make } }))

it.effect("ends a build when its hour is over, and not before", () =>
  Effect.gen(function*() {
    const world = yield* World
    const builds = yield* Builds
    const build = yield* Effect.forkChild(builds.build("all"), { startImmediately: true })
    yield* world.advance("59 minutes")
    assert.deepStrictEqual(yield* world.alive, ["make"])
    yield* world.advance("1 minute")
    assert.deepStrictEqual(yield* world.signals, ["3600000 SIGTERM make"])
    assert.strictEqual(yield* Fiber.join(build), "too slow")
    assert.deepStrictEqual(yield* world.alive, [])
  }).pipe(Effect.provide(withMake(child.prints("compiling\n")))))

it.effect("tells every five seconds how long a build has been running", () =>
  Effect.gen(function*() {
    const world = yield* World
    const builds = yield* Builds
    const build = yield* Effect.forkChild(builds.build("all"), { startImmediately: true })
    yield* world.advance("12 seconds")
    assert.strictEqual(yield* Fiber.join(build), "built")
    assert.deepStrictEqual(yield* builds.progress, ["building for 5 s", "building for 10 s"])
  }).pipe(Effect.provide(withMake(child.exits(0, { after: "12 seconds" })))))

it.effect("calls a build stuck while the system refuses to end it, until a retry is obeyed", () =>
  Effect.gen(function*() {
    const world = yield* World
    const builds = yield* Builds
    const build = yield* Effect.forkChild(builds.build("all"), { startImmediately: true })
    yield* TestClock.adjust("1 hour")
    yield* TestClock.adjust("8 seconds") // the grace of 5 s, and the force window of 3 s
    assert.strictEqual(yield* Fiber.join(build), "stuck")
    assert.deepStrictEqual(yield* world.alive, ["make"])
    const retry = yield* Effect.forkChild(builds.cleanUp)
    yield* world.advance("8 seconds")
    assert.strictEqual(yield* Fiber.join(retry), 0)
    assert.deepStrictEqual(yield* world.alive, [])
  }).pipe(Effect.provide(withMake(child.ignores("SIGTERM").refuses("SIGKILL", 1)))))
