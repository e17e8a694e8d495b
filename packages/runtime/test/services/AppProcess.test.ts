import { assert, it } from "@effect/vitest"
import {
  AppProcess,
  BackgroundProcess,
  BlobStore,
  BlobStoreMemory,
  CommandSpec,
  ProcessLedgerMemory,
  ProcessRuntime,
  ShutdownBarrier
} from "@procyon/runtime"
import { child, ScriptedDriver, World } from "@procyon/testing"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { ChildProcess } from "effect/process"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { law } from "./law.ts"

const run = CommandSpec.make

law(
  "run answers with status, exit, both streams apart and the receipt",
  { tool: child.prints("out\n").prints("err\n", { stream: "stderr" }).exits(3) },
  Effect.gen(function*() {
    const result = yield* AppProcess.run(run("tool"))
    assert.deepStrictEqual([result.stdout, result.stderr], ["out\n", "err\n"])
    assert.deepStrictEqual([result.info.status, result.info.exit], ["error", { code: 3, signal: null }])
    assert.strictEqual(result.termination.cause._tag, "SelfExit")
    assert.isTrue(result.info.output.sealed && result.info.output.drained)
    const failed = yield* Effect.flip(AppProcess.requireSuccess(result))
    assert.deepStrictEqual([failed.command, failed.result.error], ["tool", "exit code 3"])
    assert.strictEqual(failed.message, "tool: error, exit code 3")
  })
)

law(
  "requireSuccess passes on what completed, and says of everything else how it ended",
  { tool: child.exits(0), server: child },
  Effect.gen(function*() {
    const world = yield* World
    const result = yield* AppProcess.run(run("tool"))
    assert.strictEqual(yield* AppProcess.requireSuccess(result), result)
    const running = yield* Effect.forkChild(AppProcess.run(run("server"), { deadline: "1 second" }))
    yield* world.advance("2 seconds")
    const failed = yield* Effect.flip(AppProcess.requireSuccess(yield* Fiber.join(running)))
    assert.strictEqual(failed.message, "server: timed_out")
  })
)

law(
  "list has those of scopes that are not settled, in the order of their starts, and no job",
  { first: child, second: child, quick: child.exits(0), job: child },
  Effect.gen(function*() {
    const world = yield* World
    const { list } = yield* AppProcess.Service
    const jobs = yield* Effect.map(BackgroundProcess.Service, (service) => service.of("s1"))
    const first = yield* AppProcess.spawn(run("first"))
    yield* jobs.start(run("job"))
    yield* AppProcess.spawn(run("quick"))
    const second = yield* AppProcess.spawn(run("second"))
    yield* world.advance("1 second")
    assert.deepStrictEqual(yield* list, [yield* first.info, yield* second.info])
    yield* first.terminate()
    assert.deepStrictEqual((yield* list).map(({ id }) => id), [second.id])
  })
)

law(
  "the stderr of a process whose streams are merged is empty and sealed, however it is read",
  { tool: child.prints("out").prints("err", { stream: "stderr" }) },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("tool"), { streams: "merged" })
    yield* world.drain
    assert.strictEqual((yield* handle.output.read()).data, "outerr")
    const { stderr } = handle
    const page = { since: 0, next: 0, gap: null, sealed: true }
    assert.deepStrictEqual(yield* stderr.read({ since: 5 }), { ...page, data: "" })
    assert.deepStrictEqual(yield* stderr.readBytes(), { ...page, data: new Uint8Array(0) })
    assert.deepStrictEqual(yield* Stream.runCollect(stderr.follow()), [])
    assert.deepStrictEqual(yield* Stream.runCollect(stderr.followBytes()), [])
    const { bytesSeen, sealed } = yield* stderr.metadata
    assert.deepStrictEqual([yield* stderr.preview, bytesSeen, sealed], ["", 0, true])
  })
)

law(
  "there is no spill to go on with where none was begun",
  { tool: child.prints("x") },
  Effect.gen(function*() {
    const spilling = yield* AppProcess.spawn(run("tool"))
    const bounded = yield* AppProcess.spawn(run("tool"), { output: { spill: "never" } })
    assert.deepStrictEqual([yield* spilling.retrySpill, yield* bounded.retrySpill], [false, false])
  })
)

law(
  "commands of effect/process are run as they are, and refused by place where they cannot be honoured",
  { tool: child.exits(0) },
  Effect.gen(function*() {
    const result = yield* AppProcess.run(ChildProcess.make("tool", ["a"]))
    assert.strictEqual(result.info.status, "completed")
    const refused = yield* Effect.flip(AppProcess.run(ChildProcess.make("tool", [], { stdout: "inherit" })))
    assert.deepStrictEqual(
      refused.reason,
      new CommandSpec.InvalidCommand({ where: "stdout", problem: "Unsupported" })
    )
  })
)

law(
  "a refused option starts nothing",
  { tool: child.exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    for (
      const [options, where, problem] of [
        [{ deadline: NaN }, "deadline", "BadDuration"],
        [{ deadline: -1 }, "deadline", "BadDuration"],
        [{ idleDeadline: -1 }, "idleDeadline", "BadDuration"],
        [{ grace: Infinity }, "grace", "BadDuration"],
        [{ output: { limit: -1 } }, "output.limit", "BadSize"],
        [{ output: { cap: NaN } }, "output.cap", "BadSize"]
      ] as const
    ) {
      const refused = yield* Effect.flip(AppProcess.run(run("tool"), options))
      assert.deepStrictEqual(refused.reason, new CommandSpec.InvalidCommand({ where, problem }))
    }
    assert.strictEqual(yield* world.spawned, 0)
  })
)

law(
  "closing the scope ends the tree, waits for the proof, and the handle tells how",
  { server: child.prints("x").ignores("SIGTERM").forks("worker", child, { escapes: "session" }) },
  Effect.gen(function*() {
    const world = yield* World
    const scope = yield* Scope.make()
    const handle = yield* Scope.provide(AppProcess.spawn(run("server")), scope)
    assert.strictEqual((yield* handle.info).phase, "running")
    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    yield* world.advance("5 seconds")
    yield* Fiber.join(closing)
    assert.deepStrictEqual(yield* world.alive, [])
    const receipt = yield* handle.termination
    assert.deepStrictEqual([receipt.status, receipt.cause._tag, receipt.forced], ["cancelled", "Scope", true])
    assert.deepStrictEqual(receipt.exit, { code: null, signal: "SIGKILL" })
    assert.strictEqual((yield* handle.output.read()).data, "x")
    assert.deepStrictEqual(yield* world.open, [])
  })
)

law(
  "a scope's own strategy holds: a sequential one ends its children one by one, a parallel one all at once",
  { server: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    for (const [strategy, seconds] of [["sequential", 20], ["parallel", 5]] as const) {
      const scope = yield* Scope.make(strategy)
      for (let n = 0; n < 4; n++) yield* Scope.provide(AppProcess.spawn(run("server")), scope)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* world.advance(seconds * 1000 - 1)
      assert.isUndefined(closing.pollUnsafe(), strategy)
      yield* world.advance("1 millis")
      assert.isDefined(closing.pollUnsafe(), strategy)
    }
  })
)

law(
  "terminate is one termination for all who ask, and now skips what is left of the grace",
  { server: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("server"))
    const asked = yield* Effect.forkChild(handle.terminate())
    yield* world.advance("1 second")
    const receipt = yield* handle.terminate({ now: true })
    assert.deepStrictEqual(yield* Fiber.join(asked), receipt)
    assert.deepStrictEqual(
      (yield* world.signals).filter((line) => !line.includes("SIGSTOP")),
      ["0 SIGTERM server", "1000 SIGKILL server"]
    )
    assert.deepStrictEqual(yield* handle.terminate(), receipt)
  })
)

law(
  "interrupting run ends the tree before the interruption is over",
  { server: child.forks("worker", child, { escapes: "daemon" }) },
  Effect.gen(function*() {
    const world = yield* World
    const running = yield* Effect.forkChild(AppProcess.run(run("server")), { startImmediately: true })
    yield* world.drain
    assert.deepStrictEqual(yield* world.alive, ["server", "worker"])
    yield* Fiber.interrupt(running)
    assert.deepStrictEqual(yield* world.alive, [])
  })
)

law(
  "interrupting a spawn in a longer scope leaves nothing in it",
  { slow: child.answersAfter("2 seconds") },
  Effect.gen(function*() {
    const world = yield* World
    const spawning = yield* Effect.forkChild(AppProcess.spawn(run("slow")), { startImmediately: true })
    yield* world.drain
    yield* Fiber.interrupt(spawning)
    assert.deepStrictEqual(yield* world.alive, [])
    assert.deepStrictEqual(yield* AppProcess.Service.use((service) => service.list), [])
  })
)

law(
  "a spawn that the shutdown takes back fails with RuntimeClosed, and leaves nothing",
  { slow: child.startsAfter("2 seconds") },
  Effect.gen(function*() {
    const world = yield* World
    const spawning = yield* Effect.forkChild(Effect.flip(AppProcess.run(run("slow"))))
    yield* world.advance("1 second")
    const closing = yield* Effect.forkChild(ShutdownBarrier.Service.use((barrier) => barrier.shutdown()))
    yield* world.advance("10 seconds")
    yield* Fiber.join(closing)
    assert.strictEqual((yield* Fiber.join(spawning)).reason._tag, "RuntimeClosed")
    assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
  })
)

law(
  "a closed scope starts nothing",
  { tool: child.exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const scope = yield* Scope.make()
    yield* Scope.close(scope, Exit.void)
    const error = yield* Effect.flip(Scope.provide(AppProcess.spawn(run("tool")), scope))
    assert.strictEqual(error.reason._tag, "StartWithdrawn")
    assert.strictEqual(yield* world.spawned, 0)
  })
)

law(
  "exit is the leader's, while its tree is still ending",
  { server: child.forks("rest", child.ignores("SIGTERM")).exits(0, { after: "1 second" }) },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("server"))
    const exit = yield* Effect.forkChild(handle.exit)
    yield* world.advance("1 second")
    assert.deepStrictEqual(yield* Fiber.join(exit), { code: 0, signal: null })
    assert.strictEqual((yield* handle.info).status, "running")
    yield* world.advance("6 seconds")
    const receipt = yield* handle.termination
    assert.deepStrictEqual([receipt.status, receipt.leftovers.length, receipt.forced], ["completed", 1, true])
  })
)

law(
  "an exit that was seen before the first signal decides, and one after it does not",
  {
    quick: child.exits(0, { after: "1 second" }).exitSeenAfter("100 millis"),
    polite: child.onSignal("SIGTERM", child.prints("bye").exits(0))
  },
  Effect.gen(function*() {
    const world = yield* World
    // Dead for 50 ms when the deadline fires, and nobody has been told: the look finds it, and the exit decides.
    const quick = yield* AppProcess.spawn(run("quick"), { deadline: 1050 })
    yield* world.advance("3 seconds")
    assert.strictEqual((yield* quick.termination).status, "completed")
    const polite = yield* AppProcess.spawn(run("polite"), { deadline: "1 second" })
    yield* world.advance("1 second")
    const receipt = yield* polite.termination
    assert.deepStrictEqual([receipt.status, receipt.exit], ["timed_out", { code: 0, signal: null }])
    assert.strictEqual((yield* polite.output.read()).data, "bye")
  })
)

law(
  "what could not be ended settles once, when its late exit is seen",
  { stuck: child.survives("SIGKILL").ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("stuck"))
    const asked = yield* Effect.forkChild(handle.terminate())
    yield* world.advance("8 seconds")
    const failed = yield* Fiber.join(asked)
    assert.deepStrictEqual([failed.status, failed.survivorCount], ["kill_failed", 1])
    yield* world.kill("stuck")
    yield* world.drain
    const info = yield* handle.info
    assert.deepStrictEqual([info.status, info.phase, info.receipt?.survivors], ["cancelled", "settled", []])
    assert.isAbove(info.receipt?.timeline.length ?? 0, failed.timeline.length)
  })
)

law(
  "terminate of what could not be ended tries it once more",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL", 1) },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("stuck"))
    const asked = yield* Effect.forkChild(Effect.all([handle.terminate(), handle.terminate()]))
    yield* world.advance("30 seconds")
    assert.deepStrictEqual((yield* Fiber.join(asked)).map(({ status }) => status), ["kill_failed", "cancelled"])
    assert.deepStrictEqual(yield* world.alive, [])
  })
)

law(
  "use answers with what its body does once the tree is gone, and with its failure where nothing could be started",
  { server: child.ignores("SIGTERM"), broken: child.failsToStart("CommandNotFound") },
  Effect.gen(function*() {
    const world = yield* World
    const using = yield* Effect.forkChild(AppProcess.use(run("server"), (handle) => Effect.succeed(handle.id)))
    yield* world.advance("6 seconds")
    assert.isString(yield* Fiber.join(using))
    assert.deepStrictEqual(yield* world.alive, [])
    const failed = yield* Effect.flip(AppProcess.use(run("broken"), () => Effect.void))
    assert.strictEqual(failed._tag, "SpawnError")
  })
)

law(
  "use fails with KillFailed beside the body's own failure when the tree could not be ended",
  { stuck: child.refuses("SIGTERM").refuses("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const using = yield* Effect.forkChild(
      Effect.exit(AppProcess.use(run("stuck"), () => Effect.fail("body" as const)))
    )
    yield* world.advance("8 seconds")
    yield* world.advance("8 seconds") // its scope's finalizer tries once more
    const exit = yield* Fiber.join(using)
    assert.isTrue(Exit.isFailure(exit))
    if (Exit.isSuccess(exit)) return
    const errors = exit.cause.reasons.filter(Cause.isFailReason).map(({ error }) =>
      typeof error === "string" ? error : error._tag
    )
    assert.deepStrictEqual(errors.toSorted(), ["KillFailed", "body"])
    yield* world.kill("stuck")
  })
)

law(
  "stdin bytes and streams are fed by the runtime, and one that fails ends the input",
  { cat: child.readsStdin({ echo: true }).exits(0) },
  Effect.gen(function*() {
    const bytes = new TextEncoder().encode("bytes")
    assert.strictEqual((yield* AppProcess.run(run("cat", [], { stdin: bytes }))).stdout, "bytes")
    const stream = Stream.make("a", "b").pipe(Stream.encodeText, Stream.concat(Stream.fail("broken")))
    const result = yield* AppProcess.run(run("cat", [], { stdin: stream }))
    assert.deepStrictEqual([result.stdout, result.info.stdinAccepted, result.info.status], ["ab", 2, "completed"])
  })
)

law(
  "a child that stops reading is told by the count",
  { head: child.readsStdin({ closesAfter: 3 }).exits(0, { after: "1 second" }) },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("head", [], { stdin: "open" }))
    const error = yield* Effect.flip(handle.write(new Uint8Array(200_000)))
    assert.isBelow(error.accepted, 200_000)
    assert.strictEqual(error.message, `stdin of ${handle.id} is closed`)
    assert.strictEqual((yield* Effect.flip(handle.write("more"))).accepted, 0)
    yield* world.advance("1 second")
    assert.strictEqual((yield* handle.termination).status, "completed")
  })
)

law(
  "follow gives history, then live output, and ends at the seal",
  { tool: child.prints("one ").prints("two ", { after: "1 second" }).prints("three", { after: "1 second" }).exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("tool"))
    yield* world.drain
    const following = yield* Effect.forkChild(
      Stream.runCollect(Stream.map(handle.output.follow(), (page) => page.data)),
      { startImmediately: true }
    )
    yield* world.advance("5 seconds")
    assert.strictEqual((yield* Fiber.join(following)).join(""), "one two three")
  })
)

law(
  "a handle outlives its runtime, and late calls change nothing",
  { server: child.prints("x") },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("server"))
    yield* world.drain
    yield* (yield* ShutdownBarrier.Service).shutdown()
    assert.strictEqual((yield* handle.terminate()).status, "cancelled")
    assert.strictEqual((yield* Effect.flip(handle.write("late")))._tag, "StdinClosed")
    const late = yield* Effect.flip(AppProcess.run(run("server")))
    assert.strictEqual(late.reason._tag, "RuntimeClosed")
  })
)

law(
  "a scope that is closed while the body waits ends the child before the body's finalizers go on",
  { server: child },
  Effect.gen(function*() {
    const world = yield* World
    const reached = yield* Deferred.make<void>()
    const order: Array<string> = []
    const body = Effect.scoped(Effect.gen(function*() {
      yield* Effect.addFinalizer(() => Effect.map(world.alive, (alive) => order.push(`outer ${alive.length}`)))
      yield* AppProcess.spawn(run("server"))
      yield* Deferred.succeed(reached, undefined)
      return yield* Effect.never
    }))
    const fiber = yield* Effect.forkChild(body)
    yield* Deferred.await(reached)
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(order, ["outer 0"])
    yield* TestClock.adjust("1 second")
  })
)

it.effect("the blobs of its processes go when the runtime closes, and what memory holds stays readable", () =>
  Effect.gen(function*() {
    const store = yield* BlobStoreMemory.make
    const noisy = child.prints("x".repeat(5000)).exits(0)
    const result = yield* AppProcess.run(run("noisy"), { output: { limit: 1000, head: 100 } }).pipe(
      Effect.tap(({ info }) => Effect.scoped(store.lease(info.output.blob ?? "none"))),
      Effect.provide(
        ProcessRuntime.layer.pipe(
          Layer.provide([
            ScriptedDriver.layer({ children: { noisy } }),
            ProcessLedgerMemory.layer,
            Layer.succeed(BlobStore.Service, store)
          ])
        )
      )
    )
    const { blob } = result.info.output
    assert.isNotNull(blob)
    const gone = yield* Effect.flip(Effect.scoped(store.lease(blob ?? "none")))
    assert.strictEqual(gone.problem, "NotFound")
    const page = yield* result.output.read()
    assert.deepStrictEqual([page.data.length, page.next], [100, 100])
  }))

law(
  "run answers with what could not be ended when its protocol is over, and does not begin a second one",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const running = yield* Effect.forkChild(AppProcess.run(run("stuck"), { deadline: "1 second" }))
    yield* world.advance("9 seconds") // the deadline, grace 5 s, force window 3 s
    assert.strictEqual((yield* Fiber.join(running)).termination.status, "kill_failed")
    yield* world.kill("stuck")
  })
)

law(
  "a write whose writer was interrupted goes on, keeps its turn, and is counted",
  { slow: child.readsStdin({ after: "5 seconds", echo: true }).exits(0) },
  Effect.gen(function*() {
    const world = yield* World
    const handle = yield* AppProcess.spawn(run("slow", [], { stdin: "open" }))
    const interrupted = yield* Effect.forkChild(handle.write("a".repeat(100_000)), { startImmediately: true })
    const waiting = yield* Effect.forkChild(handle.write("never"), { startImmediately: true })
    const last = yield* Effect.forkChild(Effect.andThen(handle.write("b"), handle.closeStdin), {
      startImmediately: true
    })
    yield* world.advance("1 second")
    yield* Fiber.interrupt(interrupted)
    yield* Fiber.interrupt(waiting)
    assert.strictEqual((yield* handle.info).stdinAccepted, 0)
    yield* world.advance("10 seconds")
    yield* Fiber.join(last)
    const { exit, stdinAccepted } = yield* handle.info
    assert.deepStrictEqual([stdinAccepted, exit?.code], [100_001, 0])
    assert.strictEqual((yield* handle.output.read({ since: 99_999 })).data, "ab")
  })
)

law(
  "use answers with KillFailed after one protocol",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL") },
  Effect.gen(function*() {
    const world = yield* World
    const using = yield* Effect.forkChild(Effect.flip(AppProcess.use(run("stuck"), () => Effect.void)))
    yield* world.advance("8 seconds") // grace 5 s, force window 3 s
    assert.strictEqual((yield* Fiber.join(using))._tag, "KillFailed")
    yield* world.kill("stuck")
  })
)

law(
  "output is read to its end, also when somebody whom nobody finds still writes it after the leader's exit",
  {
    leader: child.forks("writer", child.prints("late\n", { after: "1 second" }).exits(0), { escapes: "invisible" })
      .prints("early\n").exits(0)
  },
  Effect.gen(function*() {
    const world = yield* World
    const running = yield* Effect.forkChild(AppProcess.run(run("leader")))
    yield* world.advance("10 seconds")
    const { info, output, stdout } = yield* Fiber.join(running)
    assert.deepStrictEqual([info.status, stdout], ["completed", "early\nlate\n"])
    const { drained, sealed } = yield* output.metadata
    assert.deepStrictEqual([drained, sealed], [true, true])
  })
)
