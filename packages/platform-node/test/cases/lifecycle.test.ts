import { assert, describe, it } from "@effect/vitest"
import { NodeProcessDriver } from "@procyon/platform-node"
import {
  AppProcess,
  BackgroundProcess,
  CommandSpec,
  ProcessLedger,
  ProcessLedgerMemory,
  ProcessRuntime,
  Status
} from "@procyon/runtime"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { getEventListeners } from "node:events"
import { inspect } from "node:util"
import {
  directory,
  heapUsed,
  isAlive,
  openDescriptors,
  pidIn,
  processListeners,
  runtime,
  until,
  untilSeen,
  warnings
} from "../support/output.ts"

const MiB = 1024 * 1024
const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** Tells its pid, and then does nothing for long. */
const sleeper = CommandSpec.shell("echo $$; exec sleep 600")

const pidOf = Effect.fnUntraced(function*(jobs: BackgroundProcess.Jobs, id: string) {
  const view = yield* jobs.output(id)
  return yield* until(
    "the pid of a job",
    Effect.map(view.preview, (text) => text.endsWith("\n") ? Number.parseInt(text, 10) : null)
  )
})

/** Collects an owner's events from now on. */
const eventsOf = Effect.fnUntraced(function*(jobs: BackgroundProcess.Jobs) {
  const seen: Array<BackgroundProcess.Event> = []
  yield* Effect.forkScoped(
    Stream.runForEach(jobs.events, (event) => Effect.sync(() => seen.push(event))),
    { startImmediately: true }
  )
  return seen
})

const tagsOf = (events: ReadonlyArray<BackgroundProcess.Event>) => events.map((event) => event._tag)

describe("an end by a signal", () => {
  const ends = (script: string) => AppProcess.run(CommandSpec.shell(`ulimit -c 0; ${script}`))

  it.live("K29 is an error with the signal and no code, and differs from a shell's 128 + n", () =>
    Effect.gen(function*() {
      const results = yield* Effect.forEach(
        ["kill -9 $$", "kill -SEGV $$", `sh -c 'kill -9 $$'; exit $?`],
        ends,
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results.map(({ info }) => [info.status, info.exit]), [
        ["error", { code: null, signal: "SIGKILL" }],
        ["error", { code: null, signal: "SIGSEGV" }],
        ["error", { code: 137, signal: null }]
      ])
      assert.deepStrictEqual(
        results.map(({ info }) =>
          info.exit === null ? [] : [Status.exitCode(info.exit), Status.shellExitCode(info.exit)]
        ),
        [[-1, 137], [-1, 139], [137, 137]]
      )
      for (const { termination } of results) {
        assert.deepStrictEqual([termination.cause, termination.forced], [{ _tag: "SelfExit" }, false])
      }
      assert.strictEqual(new Set(results.map(({ info }) => info.error)).size, 3)
      assert.include(results[0]?.info.error, "not sent by this runtime")
      for (const result of results) {
        assert.strictEqual((yield* Effect.flip(AppProcess.requireSuccess(result)))._tag, "CommandFailed")
      }
    }).pipe(Effect.provide(runtime())))

  it.live("K29 from outside is an error of a job too, and says so in its notice", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("outside")
      const { id } = yield* jobs.start(sleeper)
      process.kill(yield* pidOf(jobs, id), "SIGKILL")
      const job = yield* jobs.wait(id)
      assert.deepStrictEqual([job.status, job.exit], ["error", { code: null, signal: "SIGKILL" }])
      assert.deepStrictEqual(
        (yield* jobs.notices).map((notice) => notice._tag === "Job" && [notice.status, notice.exitCode]),
        [["error", -1]]
      )
    }).pipe(Effect.provide(runtime())))
})

describe("stops", () => {
  it.live("K30 of a finished job change nothing and tell nobody", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("finished")
      const events = yield* eventsOf(jobs)
      const { id } = yield* jobs.start(CommandSpec.make("true"))
      const before = yield* jobs.wait(id)
      const told = yield* jobs.notices
      const answers = yield* Effect.forEach(
        [jobs.stop(id), jobs.stop(id, { now: true }), jobs.get(id)],
        (ask) => ask,
        { concurrency: "unbounded" }
      )
      for (const answer of answers) assert.deepStrictEqual(answer, before)
      assert.deepStrictEqual([before.status, yield* jobs.stopAll], ["completed", []])
      assert.deepStrictEqual(yield* jobs.retryTermination(id), before.receipt)
      assert.deepStrictEqual([told.length, yield* jobs.notices], [1, []])
      yield* until("the end of the job", Effect.sync(() => tagsOf(events).includes("Ended")))
      assert.deepStrictEqual(tagsOf(events), ["Started", "Exited", "Draining", "Ended"])
    }).pipe(Effect.scoped, Effect.provide(runtime())))

  it.live("K30 from five fibers are one termination, one event, one notice and the same answer", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("five")
      const events = yield* eventsOf(jobs)
      const { id } = yield* jobs.start(sleeper)
      const pid = yield* pidOf(jobs, id)
      const answers = yield* Effect.forEach(
        [1, 2, 3, 4, 5],
        () => jobs.stop(id),
        { concurrency: "unbounded" }
      )
      assert.isFalse(isAlive(pid))
      for (const answer of answers) assert.deepStrictEqual(answer, answers[0])
      assert.deepStrictEqual([answers[0]?.status, answers[0]?.exit], ["cancelled", { code: null, signal: "SIGTERM" }])
      const notices = yield* jobs.notices
      assert.deepStrictEqual(
        notices.map((notice) => notice._tag === "Job" ? [notice.id, notice.status] : []),
        [[id, "cancelled"]]
      )
      yield* until("the end of the job", Effect.sync(() => tagsOf(events).includes("Ended")))
      assert.deepStrictEqual(tagsOf(events), ["Started", "Draining", "Terminating", "Exited", "Ended"])
      const signals = answers[0]?.receipt?.timeline.filter(({ what }) => what.includes("TERM"))
      assert.strictEqual(signals?.length, 1)
    }).pipe(Effect.scoped, Effect.provide(runtime())))

  it.live("K30 of a handle are one termination with the same answer, also once more when it is over", () =>
    Effect.gen(function*() {
      const handle = yield* AppProcess.spawn(sleeper)
      yield* untilSeen(handle.output, 2)
      const receipts = yield* Effect.all(
        [handle.terminate(), handle.terminate(), handle.termination, handle.terminate({ now: true })],
        { concurrency: "unbounded" }
      )
      for (const receipt of receipts) assert.deepStrictEqual(receipt, receipts[0])
      assert.deepStrictEqual(yield* handle.terminate(), receipts[0])
      assert.strictEqual(receipts[0].status, "cancelled")
    }).pipe(Effect.scoped, Effect.provide(runtime())))
})

describe("what jobs leave behind in this process", () => {
  // Fewer runs than the 2,000 of the case, for the suite's sake: 10 KB a run or a failure, which was seen, is 4 MB here.
  const runs = 300
  const failures = 200

  it.live("K31 is nothing: no listener, no descriptor, no warning, no memory", () =>
    Effect.gen(function*() {
      const seen = yield* warnings
      const context = yield* Effect.context<AppProcess.Service | BackgroundProcess.Service>()
      const controller = new AbortController()
      const jobs = yield* jobsOf("many")
      const interruptible = <A>(
        effect: Effect.Effect<A, unknown, AppProcess.Service | BackgroundProcess.Service>
      ) => Effect.promise(() => Effect.runPromiseExitWith(context)(effect, { signal: controller.signal }))
      const succeeding = [
        Effect.map(AppProcess.run(CommandSpec.make("true")), ({ info }) => info.status),
        Effect.flatMap(jobs.start(CommandSpec.make("true")), ({ id }) => Effect.map(jobs.wait(id), (job) => job.status))
      ]
      const failing = [
        Effect.flip(AppProcess.run(CommandSpec.make("/no/such"))),
        Effect.flip(jobs.start(CommandSpec.make("/no/such")))
      ]
      const repeat = <A>(
        effects: ReadonlyArray<Effect.Effect<A, unknown, AppProcess.Service | BackgroundProcess.Service>>,
        times: number
      ) =>
        Effect.forEach(
          Array.from({ length: times / effects.length }, () => effects).flat(),
          interruptible,
          { concurrency: 20 }
        )
      const round = (count: number, failures: number) =>
        Effect.gen(function*() {
          for (const end of yield* repeat(succeeding, count)) assert.deepStrictEqual(end, Exit.succeed("completed"))
          for (const start of yield* repeat<unknown>(failing, failures)) assert.isTrue(Exit.isSuccess(start))
          yield* jobs.notices
          yield* until("old records going", Effect.map(jobs.list, (list) => list.length <= 64))
          return { fds: openDescriptors(), heap: heapUsed(), listeners: processListeners() }
        })

      const before = yield* round(200, 100)
      const after = yield* round(runs, failures)
      assert.deepStrictEqual(after.listeners, before.listeners)
      assert.strictEqual(getEventListeners(controller.signal, "abort").length, 0)
      assert.isAtMost(after.fds, before.fds)
      assert.isBelow(after.heap - before.heap, 3.5 * MiB)
      assert.deepStrictEqual(seen, [])
      const app = Context.get(context, AppProcess.Service)
      assert.deepStrictEqual([yield* app.list, (yield* jobs.list).every((job) => job.status === "completed")], [
        [],
        true
      ])
    }).pipe(Effect.scoped, Effect.provide(runtime({ maxRunningPerOwner: 0 }))))

  it.live("K31 is nothing once the runtime is closed", () =>
    Effect.gen(function*() {
      const one = Effect.gen(function*() {
        const jobs = yield* jobsOf("closed")
        yield* Effect.forEach([1, 2, 3], () => jobs.start(sleeper))
        yield* AppProcess.run(CommandSpec.make("true"))
      }).pipe(Effect.provide(runtime()))
      yield* one
      const fds = openDescriptors()
      const listeners = processListeners()
      yield* Effect.forEach([1, 2, 3], () => one)
      assert.deepStrictEqual([openDescriptors(), processListeners()], [fds, listeners])
    }))
})

describe("secrets", () => {
  const canary = "CANARY"
  const secret = `tok-${canary}`

  /** All the ways in which a value is commonly written down. */
  const forms = (value: unknown): string =>
    [
      String(value),
      inspect(value, { depth: Infinity, showHidden: true, maxStringLength: Infinity, maxArrayLength: Infinity }),
      JSON.stringify(value, (_, part) => typeof part === "bigint" ? String(part) : part),
      ...(value instanceof Error
        ? [value.message, value.stack, value.cause === undefined ? "" : forms(value.cause)]
        : [])
    ].join("\n")

  const clean = (what: string, value: unknown) => assert.notInclude(forms(value), canary, what)

  const argument = `--password=${secret}`
  const env = { TOKEN: secret }
  const refused: ReadonlyArray<CommandSpec.CommandSpec> = [
    CommandSpec.make("/no/such", [argument], { env }),
    CommandSpec.make("/no/such", [Redacted.make(argument)], { env: { TOKEN: Redacted.make(secret) } }),
    CommandSpec.make("true", [argument], { env: { TOKEN: `${secret}\0x` } }),
    CommandSpec.make("true", [`${argument}\0x`]),
    CommandSpec.make("true", [secret.repeat(30_000)]),
    CommandSpec.make("true", [], { env: { TOKEN: secret.repeat(30_000) } }),
    CommandSpec.make("true", [], { env: { [`${secret}=x`]: "1" } }),
    CommandSpec.make("true", [argument], { cwd: `/no/${secret}` }),
    CommandSpec.make("true", [argument], { cwd: `/bin/true/${secret}` }),
    CommandSpec.make(`/no/${secret}/such`),
    CommandSpec.make("/etc", [argument], { env }),
    CommandSpec.shell(`echo ${secret}`, { shell: "/no/such" }),
    CommandSpec.shell(`echo ${secret}\0`),
    CommandSpec.shell(Redacted.make(`echo ${secret}\0`))
  ]
  const sleeping = CommandSpec.make("sleep", ["600", Redacted.make(argument)], { env })
  const failing: ReadonlyArray<CommandSpec.CommandSpec> = [
    CommandSpec.make("sh", ["-c", "echo $TOKEN >&2; exit 1", argument], { env }),
    CommandSpec.shell(`echo $TOKEN >&2; exit 1 # ${secret}`, { env }),
    CommandSpec.shell(Redacted.make(`echo ${secret} >&2; kill -9 $$`), { env }),
    sleeping
  ]

  it.live("K32 of arguments, scripts, environment and output are in no error, row, event, span or log line", () =>
    Effect.gen(function*() {
      const lines: Array<unknown> = []
      const spans: Array<Tracer.NativeSpan> = []
      const telemetry = Layer.mergeAll(
        Logger.layer([
          Logger.make((options) => {
            lines.push(options.message, options.cause, [...options.fiber.getRef(References.CurrentLogSpans)])
            lines.push(options.fiber.getRef(References.CurrentLogAnnotations))
          })
        ]),
        Layer.succeed(
          Tracer.Tracer,
          Tracer.make({
            span: (options) => {
              const span = new Tracer.NativeSpan(options)
              spans.push(span)
              return span
            }
          })
        ),
        Layer.succeed(References.MinimumLogLevel, "All")
      )
      const composed = ProcessRuntime.layer.pipe(
        Layer.provide(NodeProcessDriver.layer),
        Layer.provideMerge(ProcessLedgerMemory.layer),
        Layer.provideMerge(telemetry)
      )
      yield* Effect.gen(function*() {
        const app = yield* AppProcess.Service
        const ledger = yield* ProcessLedger.Service
        const jobs = yield* jobsOf("secrets")
        const events = yield* eventsOf(jobs)
        const rows: Array<ProcessLedger.LedgerRow> = []

        for (const command of refused) {
          const attempts: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
            app.run(command),
            Effect.scoped(app.spawn(command)),
            jobs.start(command)
          ]
          for (const attempt of attempts) {
            const exit = yield* Effect.exit(attempt)
            if (Exit.isSuccess(exit)) return assert.fail("a command that has to be refused was started")
            clean("an exit", exit)
            clean("a cause, rendered", Cause.pretty(exit.cause))
            clean("an error", Cause.squash(exit.cause))
          }
        }
        for (const command of failing) {
          const options = { deadline: command === sleeping ? "300 millis" : 0 } as const
          const { id } = yield* jobs.start(command, options)
          const running = yield* ledger.get(id)
          if (running !== null) rows.push(running)
          const job = yield* jobs.wait(id)
          clean("a receipt", job.receipt)
          clean("an error's detail", job.error)
          const result = yield* app.run(command, options)
          const failed = yield* Effect.flip(AppProcess.requireSuccess(result))
          clean("an error for a failed command", failed)
          clean("its cause", Cause.pretty(Cause.fail(failed)))
          clean("a write that came too late", yield* Effect.flip(jobs.write(id, secret)))
        }
        rows.push(...yield* ledger.rows())
        assert.isAbove(rows.length, failing.length)
        clean("rows", rows)
        yield* until(
          "the ends of the jobs",
          Effect.sync(() => tagsOf(events).filter((tag) => tag === "Ended").length === failing.length)
        )
        clean("events", events)
        // What is hidden from the owner too: a Redacted word.
        const shown = (yield* jobs.list).at(-1)
        assert.include(shown?.display, "<redacted>")
        clean("the display of redacted words", shown)
        // Only the output itself has it.
        const [first] = yield* jobs.list
        if (first === undefined) return assert.fail("no job is listed")
        assert.include((yield* (yield* jobs.output(first.id)).read()).data, secret)
        yield* Effect.logInfo("the collector works")
      }).pipe(Effect.scoped, Effect.withSpan("test"), Effect.provide(composed))

      assert.include(forms(lines), "the collector works")
      clean("log lines", lines)
      assert.includeMembers(spans.map((span) => span.name), ["AppProcess.run", "BackgroundProcess.start"])
      for (const span of spans) {
        clean("a span", [span.name, [...span.attributes], span.events, span.links])
        // A tracer writes down how a span failed; a value that it ended with is the caller's own.
        if (span.status._tag === "Ended" && Exit.isFailure(span.status.exit)) {
          clean("a span's failure", [span.status.exit, Cause.pretty(span.status.exit.cause)])
        }
      }
    }))
})

describe("owners", () => {
  it.live("K33 end their own jobs only, and ask for a foreign id as for one of nobody", () =>
    Effect.gen(function*() {
      const a = yield* jobsOf("A")
      const b = yield* jobsOf("B")
      const own = yield* a.start(sleeper)
      const foreign = yield* b.start(sleeper)
      const pid = yield* pidOf(b, foreign.id)
      const gone = yield* pidOf(a, own.id)

      const stopped = yield* a.stopAll
      assert.deepStrictEqual(stopped.map((job) => [job.id, job.status]), [[own.id, "cancelled"]])
      assert.deepStrictEqual([isAlive(gone), isAlive(pid), (yield* b.get(foreign.id)).status], [false, true, "running"])
      assert.deepStrictEqual((yield* b.list).map((job) => job.id), [foreign.id])

      const questions: Record<string, (id: string) => Effect.Effect<unknown, unknown>> = {
        get: b.get,
        output: b.output,
        errorOutput: b.errorOutput,
        write: (id) => b.write(id, "x"),
        closeStdin: b.closeStdin,
        wait: b.wait,
        termination: b.termination,
        stop: b.stop,
        retryTermination: b.retryTermination,
        extend: (id) => b.extend(id, "1 second"),
        forget: b.forget
      }
      const unknown = `${own.id.slice(0, -1)}${own.id.endsWith("0") ? "1" : "0"}`
      for (const [name, ask] of Object.entries(questions)) {
        const [one, other] = [yield* Effect.flip(ask(own.id)), yield* Effect.flip(ask(unknown))]
        assert.isTrue(one instanceof BackgroundProcess.ProcessNotFound, name)
        const told = (error: unknown, id: string) =>
          [JSON.stringify(error), String(error), Object.keys(error as object).join()].join("\n").replaceAll(id, "ID")
        assert.strictEqual(told(one, own.id), told(other, unknown), name)
      }
      assert.deepStrictEqual((yield* a.get(own.id)).status, "cancelled")
      assert.deepStrictEqual([(yield* a.notices).length, yield* b.notices], [1, []])
      yield* a.retire
      const late = yield* Effect.flip(a.start(sleeper))
      assert.deepStrictEqual([late.reason._tag, isAlive(pid)], ["OwnerRetired", true])
    }).pipe(Effect.provide(runtime())))
})

describe("notices", () => {
  it.live("K34 tell of each end once, also when a job ends while it is stopped and notices are drained", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("once")
      const told: Array<BackgroundProcess.Notice> = []
      const drain = Effect.map(jobs.notices, (notices) => told.push(...notices))
      const draining = yield* Effect.forkChild(Effect.forever(Effect.andThen(drain, Effect.sleep("1 millis"))))
      const ids = yield* Effect.forEach(
        Array.from({ length: 60 }),
        (_, round) =>
          Effect.gen(function*() {
            const { id } = yield* jobs.start(CommandSpec.shell("read _; exit 0", { stdin: "open" }))
            // The end by itself and the stop set off together, in either order and within each other's way.
            const [end, stop] = [jobs.closeStdin(id), jobs.stop(id)]
            yield* Effect.all(round % 2 === 0 ? [end, stop] : [stop, end], { concurrency: "unbounded" })
            const job = yield* jobs.wait(id)
            assert.include(["completed", "error", "cancelled"], job.status)
            return id
          }),
        { concurrency: 4 }
      )
      yield* Fiber.interrupt(draining)
      yield* drain
      assert.deepStrictEqual(told.map((notice) => notice._tag === "Job" ? notice.id : "").toSorted(), ids.toSorted())
      assert.strictEqual(new Set(told.map((notice) => notice._tag === "Job" ? notice.noticeId : "")).size, ids.length)
      for (const notice of told) {
        if (notice._tag !== "Job") return assert.fail("a summary")
        // Told of older records may be gone by now.
        const job = yield* Effect.option(jobs.get(notice.id))
        if (job._tag === "Some") assert.strictEqual(notice.status, job.value.status)
      }
      assert.deepStrictEqual(yield* jobs.notices, [])
    }).pipe(Effect.provide(runtime())))
})

describe("interrupting who waits", () => {
  it.live("K40 ends the tree of a foreground command before the interruption is complete", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const command = CommandSpec.shell(`sleep 601 & echo $! > "$F.child"; echo $$ > "$F"; exec sleep 600`, {
        env: { F: `${path}/pid` }
      })
      yield* Effect.gen(function*() {
        const running = yield* Effect.forkChild(AppProcess.run(command))
        const pid = yield* pidIn(`${path}/pid`)
        const child = yield* pidIn(`${path}/pid.child`)
        assert.deepStrictEqual([isAlive(pid), isAlive(child)], [true, true])
        yield* Fiber.interrupt(running)
        assert.deepStrictEqual([isAlive(pid), isAlive(child)], [false, false])
        assert.deepStrictEqual(yield* (yield* AppProcess.Service).list, [])
      }).pipe(Effect.provide(runtime()))
    }))

  it.live("K40 of a job changes nothing for the job, nor for who else waits, and leaves nothing behind", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("waited for")
      const { id } = yield* jobs.start(sleeper)
      const pid = yield* pidOf(jobs, id)
      const other = yield* Effect.forkChild(jobs.wait(id))
      const view = yield* jobs.output(id)
      const impatient = (count: number) =>
        Effect.forEach(Array.from({ length: count }), () =>
          Effect.gen(function*() {
            const waiters = [jobs.wait(id), jobs.termination(id), Stream.runDrain(view.follow({ since: 1_000 }))]
            for (const waiter of waiters) {
              yield* Fiber.interrupt(yield* Effect.forkChild(waiter, { startImmediately: true }))
            }
          }), { discard: true })
      yield* impatient(500)
      const before = heapUsed()
      yield* impatient(5_000)
      assert.isBelow(heapUsed() - before, MiB)
      assert.deepStrictEqual([(yield* jobs.get(id)).status, isAlive(pid), other.pollUnsafe()], [
        "running",
        true,
        undefined
      ])
      yield* jobs.stop(id)
      assert.strictEqual((yield* Fiber.join(other)).status, "cancelled")
    }).pipe(Effect.provide(runtime())))

  it.live("K40 and forgetting the id leaves the job listed, to be stopped, and to end with its session", () =>
    Effect.gen(function*() {
      const service = yield* BackgroundProcess.Service
      const session = yield* Scope.make()
      const jobs = yield* Scope.provide(service.scoped("forgetful"), session)
      // The turn ends, and nobody has kept what it started.
      yield* Fiber.join(
        yield* Effect.forkChild(Effect.asVoid(Effect.andThen(jobs.start(sleeper), jobs.start(sleeper))))
      )
      const listed = yield* service.of("forgetful").list
      assert.deepStrictEqual(listed.map((job) => job.status), ["running", "running"])
      const pids = yield* Effect.forEach(listed, (job) => pidOf(jobs, job.id))
      const [first] = listed
      if (first === undefined) return assert.fail("no job is listed")
      assert.strictEqual((yield* jobs.stop(first.id)).status, "cancelled")
      assert.deepStrictEqual(pids.map(isAlive), [false, true])
      yield* Scope.close(session, Exit.void)
      assert.deepStrictEqual(pids.map(isAlive), [false, false])
      assert.deepStrictEqual((yield* jobs.list).map((job) => job.status), ["cancelled", "cancelled"])
    }).pipe(Effect.provide(runtime())))
})
