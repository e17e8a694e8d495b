import { assert, describe, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import { child, RuntimeTest, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { ChildProcess } from "effect/process"
import * as TestClock from "effect/testing/TestClock"

const server = CommandSpec.make("server")

describe("the runtime on scripted children", () => {
  it.effect("ends in kill_failed when KILL is refused, and in timed_out once a retry is obeyed", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      const job = yield* jobs.start(ChildProcess.make("server"), { deadline: "24 hours" })
      yield* TestClock.adjust("24 hours")
      assert.deepStrictEqual(yield* world.signals, ["86400000 SIGTERM server"])
      yield* TestClock.adjust("8 seconds")
      assert.strictEqual((yield* jobs.get(job.id)).status, "kill_failed")
      const retry = yield* Effect.forkChild(jobs.retryTermination(job.id))
      yield* world.advance("10 seconds")
      assert.strictEqual((yield* Fiber.join(retry)).status, "timed_out")
      assert.deepStrictEqual(yield* world.alive, [])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.prints("hi\n").ignores("SIGTERM").refuses("SIGKILL", 1) }
    }))))

  it.effect("runs a command and answers with its output and exit", () =>
    Effect.gen(function*() {
      const world = yield* World
      const run = yield* Effect.forkChild(AppProcess.run(server))
      yield* world.advance("10 seconds")
      const result = yield* Fiber.join(run)
      assert.deepStrictEqual([result.info.status, result.stdout, result.stderr], ["error", "hi\n", "oh\n"])
      assert.deepStrictEqual(yield* world.open, [])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.prints("hi\n").prints("oh\n", { stream: "stderr" }).exits(3, { after: "1 second" }) }
    }))))

  it.effect("closing the layer ends what still runs, without anybody moving the clock", () =>
    Effect.gen(function*() {
      const reports: Array<ShutdownBarrier.ShutdownReport> = []
      const layer = RuntimeTest.layer({ children: { server: child.ignores("SIGTERM") } }).pipe(
        Layer.provide(ShutdownBarrier.onReport((report) => Effect.sync(() => reports.push(report))))
      )
      const world = yield* Effect.gen(function*() {
        yield* (yield* BackgroundProcess.Service).of("s1").start(server)
        return yield* World
      }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(yield* world.alive, [])
      assert.deepStrictEqual(yield* world.open, [])
      assert.deepStrictEqual(reports.map((report) => report.rows.map((row) => row.status)), [["cancelled"]])
    }))

  it.effect("a scope that ends its processes closes without anybody moving the clock", () =>
    Effect.gen(function*() {
      const world = yield* World
      const service = yield* BackgroundProcess.Service
      const [job, handle] = yield* RuntimeTest.scoped(Effect.gen(function*() {
        const jobs = yield* service.scoped("s1")
        yield* TestClock.adjust("1 second")
        return [yield* jobs.start(server), yield* AppProcess.spawn(server)] as const
      }))
      assert.deepStrictEqual(yield* world.alive, [])
      assert.deepStrictEqual((yield* handle.termination).cause, { _tag: "Scope" })
      assert.strictEqual((yield* service.of("s1").get(job.id)).status, "cancelled")
      assert.strictEqual((yield* world.signals)[0], "1000 SIGTERM server")
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child.ignores("SIGTERM") } }))))

  it.effect("a driver given to it stands between the runtime and the world", () =>
    Effect.gen(function*() {
      const world = yield* World
      const error = yield* Effect.flip((yield* BackgroundProcess.Service).of("s1").start(server))
      assert.strictEqual(error.message, "server: TooManyProcesses (EAGAIN)")
      assert.strictEqual(yield* world.spawned, 0)
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child },
      driver: Layer.effect(
        ProcessDriver.Service,
        ProcessDriver.Service.use((driver) => {
          const failed = new ProcessDriver.SpawnFailed({ problem: "TooManyProcesses", code: "EAGAIN" })
          return Effect.succeed({ ...driver, spawn: () => Effect.fail(failed) })
        })
      )
    }))))

  it.effect("settings given to it hold", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      const job = yield* jobs.start(server)
      yield* Effect.forkChild(jobs.stop(job.id))
      yield* world.advance("999 millis")
      assert.deepStrictEqual(yield* world.signals, ["0 SIGTERM server"])
      yield* world.advance("1 millis")
      assert.include(yield* world.signals, "1000 SIGKILL server")
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.ignores("SIGTERM") },
      settings: { graceMillis: 1_000 }
    }))))
})
