import { assert, describe, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import { child, Children, Faults, Lives, RuntimeTest, World } from "@procyon/testing"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { ChildProcess } from "effect/process"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { expect } from "vitest"

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

/** What a helper died with. */
const complaintOf = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<string, E, R> =>
  Effect.andThen(effect, Effect.die(new Error("nobody complained"))).pipe(
    Effect.catchDefect((defect) =>
      defect instanceof RuntimeTest.Unexpected ? Effect.succeed(defect.message) : Effect.die(defect)
    )
  )

const onChildren = (children: RuntimeTest.Options["children"], options?: Partial<RuntimeTest.Options>) =>
  Effect.provide(RuntimeTest.layer({ children, ...options }))

describe("time", () => {
  it.effect("passes from one thing that is due to the next, and not past the end of what is waited for", () =>
    Effect.gen(function*() {
      yield* RuntimeTest.startJob("late")
      assert.strictEqual(yield* Clock.currentTimeMillis, 0, "a start that is answered costs no time")
      yield* RuntimeTest.startJob("lateAnswer")
      assert.strictEqual(yield* Clock.currentTimeMillis, 300)
      yield* RuntimeTest.letTimePass(Effect.sleep("2500 millis"))
      assert.strictEqual(yield* Clock.currentTimeMillis, 2800)
    }).pipe(onChildren({ late: Children.succeeding({ after: "90 seconds" }), lateAnswer: child.answersAfter(300) })))

  it.effect("passes for an hour at most, and then it is told what has happened", () =>
    Effect.gen(function*() {
      yield* RuntimeTest.startJob("server")
      expect(yield* complaintOf(RuntimeTest.letTimePass(Effect.never))).toMatchInlineSnapshot(`
        "what was waited for has not ended after 1h

        what the driver was asked:
        0.000  spawn  server  started"
      `)
      assert.strictEqual(yield* Clock.currentTimeMillis, 3_600_000)
      yield* complaintOf(RuntimeTest.letTimePass(Effect.never, { atMost: "1500 millis" }))
      assert.strictEqual(yield* Clock.currentTimeMillis, 3_601_500)
    }).pipe(onChildren({ server: Children.idle })))

  it.effect("passes until a condition holds, which is looked at whenever something was due", () =>
    Effect.gen(function*() {
      const world = yield* World
      yield* RuntimeTest.startJob("job")
      yield* RuntimeTest.advanceUntil(Effect.map(world.alive, (alive) => alive.length === 0))
      assert.strictEqual(yield* Clock.currentTimeMillis, 12_345)
      yield* RuntimeTest.advanceUntil(Effect.succeed(true))
      assert.strictEqual(yield* Clock.currentTimeMillis, 12_345)
      const complaint = yield* complaintOf(RuntimeTest.advanceUntil(Effect.succeed(false), { atMost: "10 seconds" }))
      assert.include(complaint, "the condition does not hold after 10s")
    }).pipe(onChildren({ job: Children.succeeding({ after: 12_345 }) })))

  it.live("is left alone under a real clock", () =>
    Effect.gen(function*() {
      const { id } = yield* RuntimeTest.startJob("job")
      assert.strictEqual((yield* RuntimeTest.settled(id)).status, "completed")
    }).pipe(onChildren({ job: Children.succeeding({ after: 20 }) })))
})

describe("a job of a test", () => {
  it.effect("is its owner's, which is `test` where nobody is named", () =>
    Effect.gen(function*() {
      const [one, two] = [
        yield* RuntimeTest.startJob("server"),
        yield* RuntimeTest.startJob(CommandSpec.make("server", ["--quiet"]), { owner: "s2", title: "mine" })
      ]
      assert.deepStrictEqual([one.owner, two.owner, two.title], ["test", "s2", "mine"])
      assert.deepStrictEqual((yield* (yield* RuntimeTest.jobs()).list).map(({ id }) => id), [one.id])
      assert.strictEqual((yield* RuntimeTest.stopped(two.id)).status, "cancelled")
      assert.deepStrictEqual(
        (yield* RuntimeTest.notices("s2")).map((notice) => notice._tag === "Job" ? notice.status : ""),
        ["cancelled"]
      )
      assert.deepStrictEqual(yield* RuntimeTest.notices("s2"), [])
      assert.deepStrictEqual(yield* RuntimeTest.notices(), [])
    }).pipe(onChildren({ server: Children.server() })))

  it.effect("fails to start as it would", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(RuntimeTest.startJob("missing"))
      assert.strictEqual(error.message, "missing: CommandNotFound (ENOENT)")
    }).pipe(onChildren({ missing: Children.missing })))

  it.effect("is waited for until it has settled, or could not be ended", () =>
    Effect.gen(function*() {
      const build = yield* RuntimeTest.startJob("build")
      assert.strictEqual((yield* RuntimeTest.settled(build.id)).status, "error")
      const stuck = yield* RuntimeTest.startJob("stuck", { deadline: "1 minute" })
      assert.strictEqual((yield* RuntimeTest.settled(stuck.id)).status, "kill_failed")
      const server = yield* RuntimeTest.startJob("server")
      yield* complaintOf(RuntimeTest.settled(server.id, { atMost: "1 minute" }))
      assert.include(yield* complaintOf(RuntimeTest.settled("none")), "there is no job none")
    }).pipe(onChildren({
      build: Children.failing(2, { after: "1 minute", prints: "oh\n" }),
      stuck: Children.refusingKill(),
      server: Children.idle
    })))

  it.effect("has a receipt that says what is expected, and is given back whole", () =>
    Effect.gen(function*() {
      const { id } = yield* RuntimeTest.startJob("server", { deadline: "1 hour" })
      const receipt = yield* RuntimeTest.expectReceipt(id, {
        status: "timed_out",
        cause: { _tag: "Deadline", kind: "total" },
        exit: { signal: "SIGKILL" },
        survivors: []
      }, { atMost: "2 hours" })
      assert.strictEqual(receipt.forced, true)
      assert.strictEqual(yield* Clock.currentTimeMillis, 3_605_000)
    }).pipe(onChildren({ server: Children.ignoringTerm })))

  it.effect("whose receipt says something else is told of with every difference, and with what happened", () =>
    Effect.gen(function*() {
      const { id } = yield* RuntimeTest.startJob("server", { deadline: "1 minute" })
      const expected = RuntimeTest.expectReceipt(id, {
        status: "cancelled",
        cause: { kind: "idle" },
        exit: null,
        forced: true,
        survivors: [{ name: "server" }]
      })
      expect(yield* complaintOf(expected)).toMatchInlineSnapshot(`
        "the receipt of server
          status: expected "cancelled", was "timed_out"
          cause.kind: expected "idle", was "total"
          exit: expected null, was {"code":null,"signal":"SIGKILL"}
          survivors: expected [{"name":"server"}], was []

        what the driver was asked:
         0.000  spawn    server  started
        60.000  SIGTERM  server  sent
        65.000  SIGSTOP  server  sent
        65.000  SIGKILL  server  sent
        65.000  exit     server  SIGKILL
        65.000  release  server

        what struck:
        60000 driver.look Tear"
      `)
    }).pipe(onChildren({ server: Children.ignoringTerm }, {
      faults: [Faults.lookCutShort(Faults.nth(2)), Faults.spawnEagain(Faults.nth(2))]
    })))
})

describe("one of several lives", () => {
  it.effect("is helped in the same way", () =>
    Effect.gen(function*() {
      const life = yield* Lives.begin()
      const { id } = yield* life.run(RuntimeTest.startJob("server", { deadline: "10 minutes" }))
      const receipt = yield* life.run(RuntimeTest.expectReceipt(id, { status: "timed_out", forced: true }))
      assert.deepStrictEqual(receipt.exit, { code: null, signal: "SIGKILL" })
      assert.include(
        yield* complaintOf(life.run(RuntimeTest.expectReceipt(id, { forced: false }))),
        "forced: expected false, was true"
      )
      yield* life.close
    }).pipe(Effect.provide(Lives.layer({ children: { server: Children.ignoringTerm } }))))
})

describe("a beat", () => {
  it.effect("is the next one of any job, with what is told at it", () =>
    Effect.gen(function*() {
      yield* RuntimeTest.startJob("talker")
      yield* RuntimeTest.letTimePass(Effect.sleep("2 seconds"))
      yield* RuntimeTest.startJob("quiet")
      const beat = Effect.gen(function*() {
        const events = yield* RuntimeTest.advanceToNextBeat()
        return [yield* Clock.currentTimeMillis, ...events.map(({ _tag }) => _tag)]
      })
      assert.deepStrictEqual(yield* beat, [5000, "Progress", "Heartbeat"])
      assert.deepStrictEqual(yield* beat, [7000, "Heartbeat"])
      assert.deepStrictEqual(yield* beat, [10_000, "Heartbeat"])
    }).pipe(onChildren({ talker: Children.talking("x", { every: "1 second", times: 3 }), quiet: Children.idle })))

  it.effect("is missed where no job runs", () =>
    Effect.gen(function*() {
      assert.include(
        yield* complaintOf(RuntimeTest.advanceToNextBeat({ atMost: "1 minute" })),
        "there was no beat after 1m"
      )
    }).pipe(onChildren({})))
})

describe("nothing is left", () => {
  it.effect("of a runtime that was not used, nor of jobs that have ended", () =>
    Effect.gen(function*() {
      yield* RuntimeTest.nothingLeft
      const { id } = yield* RuntimeTest.startJob("server")
      yield* RuntimeTest.stopped(id)
      yield* RuntimeTest.nothingLeft
    }).pipe(onChildren({ server: Children.slowToEnd("1 second") })))

  it.effect("is not so while a job runs, and what is left is named", () =>
    Effect.gen(function*() {
      yield* RuntimeTest.startJob("server")
      expect(yield* complaintOf(RuntimeTest.nothingLeft)).toMatchInlineSnapshot(`
        "something is left
          server lives
          server is not released
          a timer is due in 5 s
          the row of server is running

        what the driver was asked:
        0.000  spawn  server  started"
      `)
    }).pipe(onChildren({ server: Children.idle })))

  it.effect("is not so while somebody lives who was let go of", () =>
    Effect.gen(function*() {
      const { id } = yield* RuntimeTest.startJob("leaver", { leftovers: "keep" })
      yield* RuntimeTest.settled(id)
      assert.include(yield* complaintOf(RuntimeTest.nothingLeft), "daemon lives")
    }).pipe(onChildren({ leaver: Children.leavingDaemon() })))
})

describe("ready-made children", () => {
  it.effect("are what their names say", () =>
    Effect.gen(function*() {
      const statuses: Record<string, string> = {}
      for (const name of Object.keys(ready)) {
        const job = yield* Effect.result(RuntimeTest.startJob(name, { deadline: "1 minute" }))
        if (Result.isFailure(job)) {
          statuses[name] = "not started"
          continue
        }
        const { cause, forced, status } = yield* RuntimeTest.expectReceipt(job.success.id, {})
        statuses[name] = `${status} ${cause._tag}${forced ? " forced" : ""}`
      }
      expect(statuses).toMatchInlineSnapshot(`
        {
          "failing": "error SelfExit",
          "idle": "timed_out Deadline",
          "ignoringTerm": "timed_out Deadline forced",
          "leavingDaemon": "completed SelfExit",
          "missing": "not started",
          "neverStarting": "error StartFailed",
          "refusingKill": "kill_failed Deadline forced",
          "server": "timed_out Deadline",
          "slowToEnd": "timed_out Deadline",
          "succeeding": "completed SelfExit",
          "survivingKill": "kill_failed Deadline forced",
          "talking": "timed_out Deadline",
        }
      `)
    }).pipe(onChildren(ready, { settings: { maxRunningPerOwner: 0 } })))

  const ready = {
    idle: Children.idle,
    server: Children.server(),
    succeeding: Children.succeeding({ prints: "hi" }),
    failing: Children.failing(2),
    slowToEnd: Children.slowToEnd("1 second"),
    ignoringTerm: Children.ignoringTerm,
    refusingKill: Children.refusingKill(),
    survivingKill: Children.survivingKill(),
    leavingDaemon: Children.leavingDaemon(),
    talking: Children.talking("x", { every: "1 second", times: 3 }),
    neverStarting: Children.neverStarting,
    missing: Children.missing
  }
})

describe("blobs", () => {
  it.effect("of a store given to it are what the runtime spills to", () =>
    Effect.gen(function*() {
      const { id } = yield* RuntimeTest.startJob("chatty")
      const { output } = yield* RuntimeTest.settled(id)
      assert.deepStrictEqual([output.spill, output.blob], ["failed", null])
    }).pipe(onChildren({ chatty: child.prints("x".repeat(10_000)).exits(0) }, {
      settings: { outputBytes: 2048, outputHeadBytes: 512 },
      blobs: Layer.effect(
        BlobStore.Service,
        BlobStore.Service.use((store) => {
          const failed = new BlobStore.BlobError({ operation: "open", problem: "Denied", retryable: false })
          return Effect.succeed({ ...store, write: () => Effect.fail(failed) })
        })
      )
    })))
})

it("a program without a test runner uses it too", () => {
  const program = fileURLToPath(new URL("programs/plain.ts", import.meta.url))
  const { stderr, stdout } = spawnSync(process.execPath, [program], { encoding: "utf8", timeout: 30_000 })
  assert.strictEqual(stderr, "")
  assert.strictEqual(
    stdout,
    `   0.000  spawn    server  started
3600.000  SIGTERM  server  sent
3605.000  SIGSTOP  server  sent
3605.000  SIGKILL  server  sent
3605.000  exit     server  SIGKILL
3605.000  release  server
`
  )
})
