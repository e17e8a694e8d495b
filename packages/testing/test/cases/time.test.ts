import { assert, describe, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import { child, RuntimeTest, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"

const server = CommandSpec.make("server")
const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** Longer than any test: beats would only cost time here. */
const year = 365 * 86_400_000
const settings = { heartbeatMillis: 1_000 * year, leaseMillis: 3_000 * year }

describe("a deadline that passes after the leader has ended", () => {
  it.effect("K26 changes nothing while the leftovers are given their linger and their grace", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server, { deadline: "300 millis" })
      // The leader ends at 5 ms, the linger at 105; the leftover ignores TERM until its grace ends at 5,105 ms.
      yield* TestClock.adjust("301 millis")
      const draining = yield* jobs.get(id)
      assert.deepStrictEqual([draining.status, draining.phase, draining.exit], [
        "running",
        "terminating",
        { code: 0, signal: null }
      ])
      yield* world.advance("10 seconds")
      const job = yield* jobs.wait(id)
      assert.deepStrictEqual([job.status, job.receipt?.cause], ["completed", { _tag: "SelfExit" }])
      assert.strictEqual((yield* (yield* jobs.output(id)).read()).data, "done\n")
      assert.deepStrictEqual(yield* world.alive, [])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: {
        server: child.prints("done\n").forks("sleep", child.ignores("SIGTERM"), { holdsOutput: true }).exits(0, {
          after: "5 millis"
        })
      },
      settings
    }))))

  it.effect("K26 does not win in the millisecond of an exit that was seen first", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server, { deadline: "301 millis" })
      yield* world.advance("10 seconds")
      const job = yield* jobs.wait(id)
      assert.deepStrictEqual([job.status, yield* world.signals], ["completed", []])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.exits(0, { after: "300 millis" }) },
      settings
    }))))

  it.effect("K26 does not win over an exit that had happened and was told late", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server, { deadline: "300 millis" })
      yield* world.advance("10 seconds")
      const job = yield* jobs.wait(id)
      assert.deepStrictEqual([job.status, job.exit], ["completed", { code: 0, signal: null }])
      assert.deepStrictEqual(yield* world.signals, [])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.exits(0, { after: "290 millis" }).exitSeenAfter("50 millis") },
      settings
    }))))
})

describe("a child that answers TERM with exit 0", () => {
  const polite = child.onSignal("SIGTERM", child.prints("bye\n").exits(0))

  it.effect("K27 has timed out when the deadline sent it", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server, { deadline: "200 millis" })
      yield* world.advance("199 millis")
      assert.deepStrictEqual([(yield* jobs.get(id)).status, yield* world.signals], ["running", []])
      yield* world.advance("5 seconds")
      const job = yield* jobs.wait(id)
      assert.deepStrictEqual([job.status, job.exit, yield* world.signals], [
        "timed_out",
        { code: 0, signal: null },
        ["200 SIGTERM server"]
      ])
      assert.strictEqual((yield* (yield* jobs.output(id)).read()).data, "bye\n")
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: polite }, settings }))))

  it.effect("K27 was cancelled when its owner stopped it, also when the deadline passes meanwhile", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      const { id } = yield* jobs.start(server, { deadline: "200 millis" })
      yield* world.advance("100 millis")
      const stopping = yield* Effect.forkChild(jobs.stop(id))
      yield* world.advance("10 seconds")
      const job = yield* Fiber.join(stopping)
      assert.deepStrictEqual([job.status, job.exit, job.receipt?.cause], [
        "cancelled",
        { code: 0, signal: null },
        { _tag: "Stop", by: "owner" }
      ])
      assert.deepStrictEqual(yield* world.signals, ["100 SIGTERM server"])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: { server: child.onSignal("SIGTERM", child.exits(0, { after: "300 millis" })) },
      settings
    }))))
})

describe("deadlines of every size", () => {
  const longs = [
    ["2^31 ms", 2 ** 31],
    ["30 days", 30 * 86_400_000],
    ["half a millisecond", 0.5]
  ] as const

  for (const [name, millis] of longs) {
    it.effect(`K28 of ${name} fire at that time and not before`, () =>
      Effect.gen(function*() {
        const world = yield* World
        const jobs = yield* jobsOf("s1")
        const { id } = yield* jobs.start(server, { deadline: millis })
        const run = yield* Effect.forkChild(AppProcess.run(server, { deadline: millis }))
        yield* world.advance(Math.max(0, millis - 1))
        assert.deepStrictEqual([(yield* jobs.get(id)).status, yield* world.signals], ["running", []])
        yield* world.advance(1)
        const job = yield* jobs.wait(id)
        assert.deepStrictEqual([job.status, job.deadlineAt], ["timed_out", millis])
        assert.strictEqual((yield* Fiber.join(run)).info.status, "timed_out")
      }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child }, settings }))))
  }

  for (const [name, deadline] of [["2^53 ms", 2 ** 53], ["infinity", Infinity], ["zero", 0]] as const) {
    it.effect(`K28 of ${name} do not fire within a year`, () =>
      Effect.gen(function*() {
        const world = yield* World
        const jobs = yield* jobsOf("s1")
        const { id } = yield* jobs.start(server, { deadline, idleDeadline: deadline })
        const { deadlineAt } = yield* jobs.get(id)
        assert.strictEqual(deadlineAt, deadline === 2 ** 53 ? deadline : null)
        yield* world.advance(year)
        assert.deepStrictEqual([(yield* jobs.get(id)).status, yield* world.signals], ["running", []])
      }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child }, settings }))))
  }

  it.effect("K28 that make no sense are refused, and the driver is not asked", () =>
    Effect.gen(function*() {
      const world = yield* World
      const jobs = yield* jobsOf("s1")
      for (const deadline of [NaN, -1, -Infinity]) {
        const error = yield* Effect.flip(jobs.start(server, { deadline }))
        assert.strictEqual(error.reason._tag === "InvalidCommand" && error.reason.problem, "BadDuration")
        const other = yield* Effect.flip(AppProcess.run(server, { idleDeadline: deadline }))
        assert.strictEqual(other.reason._tag === "InvalidCommand" && other.reason.problem, "BadDuration")
      }
      assert.deepStrictEqual([yield* world.calls, yield* jobs.list], [[], []])
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child }, settings }))))
})
