/** Starting: what was not started is told apart, leaves nothing behind, and what is taken back while it starts is gone. */
import { assert, describe, it } from "@effect/vitest"
import {
  AppProcess,
  BackgroundProcess,
  CommandSpec,
  Identity,
  ProcessLedger,
  ShutdownBarrier,
  Status
} from "@procyon/runtime"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { ChildProcess } from "effect/process"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import {
  directory,
  fifo,
  isLiving,
  living,
  onRuntime,
  type Services,
  until,
  untilLiving,
  writeInto
} from "../support/processes.ts"

const { make, shell } = CommandSpec

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

const rowsOf = (owner: string) => Effect.flatMap(ProcessLedger.Service, (ledger) => ledger.rows({ owner }))

const exited = (code: number): Status.Exit => ({ code, signal: null })

/** A turn of the event loop, in which starts make one step. */
const turn = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

const turns = (count: number) => Effect.forEach(Array.from({ length: count }), () => turn, { discard: true })

/** Waits some turns, or, with `null`, just until there is a process: nobody has been told of it yet in that very step. */
const reach = (step: number | null, tag: string) =>
  step === null
    ? Effect.whileLoop({ while: () => living(tag).length === 0, body: () => turn, step: () => {} })
    : turns(step)

const numbers = (count: number): ReadonlyArray<number> => Array.from({ length: count }, (_, index) => index)

describe("a start that is interrupted", () => {
  const steps: ReadonlyArray<number | null> = [...numbers(40), ...numbers(20).map(() => null)]

  it.live("K13 leaves no process, at whichever step it is", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const service = yield* AppProcess.Service
        let begun = 0
        for (const step of steps) {
          const holding = Effect.scoped(Effect.andThen(
            service.spawn(make("sleep", [`300.${tag}`])),
            Effect.andThen(Effect.sync(() => begun++), Effect.never)
          ))
          const fiber = yield* Effect.forkChild(holding, { startImmediately: true })
          yield* reach(step, tag)
          yield* Fiber.interrupt(fiber)
          assert.deepStrictEqual([living(tag), yield* service.list], [[], []], `after ${step ?? "some"} turns`)
        }
        // Both kinds were met: starts taken back before they were answered, and after.
        assert.isAbove(begun, 0)
        assert.isBelow(begun, steps.length)
      })
    ))

  it.live("K13 leaves a listed job or nothing, and no row that runs without it", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf("a")
        for (const step of steps) {
          const fiber = yield* Effect.forkChild(jobs.start(make("sleep", [`300.${tag}`])), { startImmediately: true })
          yield* reach(step, tag)
          yield* Fiber.interrupt(fiber)
          const running = (yield* jobs.list).filter(({ status }) => !Status.isSettled(status))
          const rows = (yield* rowsOf("a")).filter(({ status }) => status === "running")
          assert.deepStrictEqual(rows.map(({ id }) => id), running.map(({ id }) => id), `after ${step ?? "some"} turns`)
          const children = rows.flatMap(({ identity }) =>
            identity === null || Identity.isUnborn(identity) ? [] : [identity]
          )
          assert.strictEqual(children.filter(isLiving).length, running.length)
          const strays = living(tag).filter(({ pid }) => children.every((child) => child.pid !== pid))
          assert.deepStrictEqual(strays, [], `after ${step ?? "some"} turns`)
          yield* jobs.stopAll
        }
      })
    ))

  it.live("K13 after it has begun is over with its caller's scope: nothing is started in a closed one", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const side = path.join(yield* directory, `side-${tag}`)
        for (const round of numbers(20)) {
          const scope = yield* Scope.make()
          yield* Scope.close(scope, Exit.void)
          const exit = yield* Effect.exit(Scope.provide(AppProcess.spawn(shell(`echo x > ${side}-${round}`)), scope))
          const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
          assert.deepStrictEqual((error as AppProcess.SpawnError).reason._tag, "StartWithdrawn")
        }
        yield* nothingWas(side)
      })
    ))

  it.live("K13 before it has begun starts nothing", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const side = path.join(yield* directory, `side-${tag}`)
        const context = yield* Effect.context<Services>()
        const jobs = yield* jobsOf("a")
        for (const round of numbers(20)) {
          const command = shell(`echo x > ${side}-${round}`)
          const starts: ReadonlyArray<Effect.Effect<unknown, unknown, Services>> = [
            AppProcess.run(command),
            jobs.start(command)
          ]
          for (const start of starts) {
            const exit = yield* Effect.promise(() =>
              Effect.runPromiseExitWith(context)(start, { signal: AbortSignal.abort() })
            )
            assert.isTrue(Exit.hasInterrupts(exit))
          }
        }
        assert.deepStrictEqual(yield* jobs.list, [])
        for (const { identity, status } of yield* rowsOf("a")) {
          assert.deepStrictEqual([identity?.pid, status], [0, "cancelled"])
        }
        yield* nothingWas(side)
      })
    ))

  /** After the barrier nothing can be on its way any more. */
  const nothingWas = (side: string) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* (yield* AppProcess.Service).list, [])
      yield* (yield* ShutdownBarrier.Service).shutdown()
      assert.deepStrictEqual(fs.readdirSync(path.dirname(side)), [])
    })
})

/** What a start is refused with: the tag and its detail. */
const reasonOf = (error: AppProcess.SpawnError | BackgroundProcess.StartError): string => {
  const { reason } = error
  switch (reason._tag) {
    case "SpawnFailed":
    case "InvalidCommand":
      return `${reason._tag} ${reason.problem}`
    default:
      return reason._tag
  }
}

interface Fault {
  readonly what: string
  /** The directory is one of `faulty`. */
  readonly command: (directory: string) => CommandSpec.Input
  readonly reason: string
  readonly code?: string
}

const written = (directory: string, name: string, mode: number, text: string): string => {
  const file = path.join(directory, name)
  fs.writeFileSync(file, text, { mode })
  return file
}

const missing: ReadonlyArray<Fault> = [
  { what: "a path to nothing", command: () => make("/no/such"), reason: "SpawnFailed CommandNotFound" },
  {
    what: "a file that is not executable",
    command: (directory) => make(written(directory, "plain", 0o644, "#!/bin/sh\n")),
    reason: "SpawnFailed NotExecutable"
  },
  { what: "a directory", command: (directory) => make(directory), reason: "SpawnFailed NotExecutable" },
  {
    what: "a script whose interpreter is missing",
    command: (directory) => make(written(directory, "orphan", 0o755, "#!/no/such/interpreter\n")),
    reason: "SpawnFailed InterpreterMissing"
  },
  {
    what: "a missing working directory",
    command: () => make("/bin/true", [], { cwd: "/no/dir" }),
    reason: "SpawnFailed CwdMissing"
  },
  {
    what: "a working directory that is a file",
    command: () => make("/bin/true", [], { cwd: "/bin/true" }),
    reason: "SpawnFailed CwdNotADirectory"
  },
  {
    what: "a command that is not on its PATH",
    command: () => make("true", [], { env: { PATH: "/nonexistent" } }),
    reason: "SpawnFailed CommandNotFound"
  }
]

const thrown: ReadonlyArray<Fault> = [
  {
    what: "an argument of 200 KiB",
    command: () => make("true", ["x".repeat(200 * 1024)]),
    reason: "InvalidCommand ArgumentsTooLarge"
  },
  {
    what: "an environment value of 200 KiB",
    command: () => make("true", [], { env: { BIG: "x".repeat(200 * 1024) } }),
    reason: "InvalidCommand EnvironmentTooLarge"
  },
  { what: "an argument with a NUL", command: () => make("true", ["a\0b"]), reason: "InvalidCommand NulByte" },
  {
    what: "a working directory that is a program",
    command: () => make("true", [], { cwd: "/bin/true" }),
    reason: "SpawnFailed CwdNotADirectory"
  },
  { what: "no command", command: () => make(""), reason: "InvalidCommand EmptyCommand" },
  {
    what: "a program that is open for writing",
    command: (directory) => make(path.join(directory, "busy")),
    reason: "SpawnFailed Other",
    code: "ETXTBSY"
  }
]

/** A directory with a program in it that somebody has open for writing. */
const faulty = Effect.tap(directory, (made) => {
  const busy = path.join(made, "busy")
  fs.copyFileSync("/bin/true", busy)
  fs.chmodSync(busy, 0o755)
  return Effect.acquireRelease(
    Effect.sync(() => fs.openSync(busy, "r+")),
    (fd) => Effect.sync(() => fs.closeSync(fd))
  )
})

describe("a start that fails", () => {
  for (const [id, faults] of [["K14", missing], ["K15", thrown]] as const) {
    for (const { code, command, reason, what } of faults) {
      it.live(`${id} for ${what} says ${reason}, whoever starts it, and takes nothing`, () =>
        onRuntime(() =>
          Effect.gen(function*() {
            const given = command(yield* faulty)
            const jobs = yield* jobsOf("a")
            const errors = [
              yield* Effect.flip(AppProcess.run(given)),
              yield* Effect.flip(Effect.scoped(AppProcess.spawn(given))),
              yield* Effect.flip(jobs.start(given, { name: "build" }))
            ]
            assert.deepStrictEqual(errors.map(reasonOf), [reason, reason, reason])
            for (const error of errors) {
              if (code !== undefined) assert.propertyVal(error.reason, "code", code)
              // The base name at most, and none of what was given.
              assert.notMatch(
                `${error.message} ${JSON.stringify(error)}`,
                /\/|x{20}|u0000|nonexistent/
              )
            }
            // No handle, no job, no word of one, and its row is over.
            assert.deepStrictEqual(yield* (yield* AppProcess.Service).list, [])
            assert.deepStrictEqual([yield* jobs.list, yield* jobs.notices], [[], []])
            const rows = (yield* rowsOf("a")).map((
              { endedAt, identity, status }
            ) => [status, identity?.pid, endedAt !== null])
            assert.deepStrictEqual(rows, reason.startsWith("InvalidCommand") ? [] : [["error", 0, true]])
            // Neither the one place nor the name is taken.
            const next = yield* jobs.start(make("true"), { name: "build" })
            assert.strictEqual((yield* jobs.wait(next.id)).status, "completed")
          }), { maxRunningPerOwner: 1 }))
    }
  }

  for (const [code, script] of [[126, "/bin"], [127, "/no/such"]] as const) {
    it.live(`K14 is not what a shell's exit ${code} is: that is an ordinary error`, () =>
      onRuntime(() =>
        Effect.gen(function*() {
          const { info, stderr, termination } = yield* AppProcess.run(shell(script))
          assert.deepStrictEqual([info.status, info.exit], ["error", exited(code)])
          assert.deepStrictEqual([termination.cause, termination.error], [{ _tag: "SelfExit" }, `exit code ${code}`])
          assert.include(stderr, script)
        })
      ))
  }
})

describe("two jobs of one name", () => {
  it.live("K16 are not started at the same time, and the name is free again after the end", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf("a")
        const first = yield* jobs.start(shell(`echo one; exec sleep 300.${tag}`), { name: "build" })
        const error = yield* Effect.flip(jobs.start(shell(`: ${tag}-second; sleep 301`), { name: "build" }))
        assert.strictEqual(error.reason._tag, "ProcessAlreadyExists")
        assert.propertyVal(error.reason, "id", first.id)
        assert.deepStrictEqual((yield* rowsOf("a")).map(({ id }) => id), [first.id])
        assert.deepStrictEqual([living(`${tag}-second`), living(tag).length], [[], 1])
        assert.strictEqual((yield* jobs.start(make("true"), { name: "build", onExisting: "join" })).id, first.id)
        // Another owner's name is another name.
        yield* (yield* jobsOf("b")).start(make("true"), { name: "build" })

        yield* jobs.stop(first.id)
        const second = yield* jobs.start(shell("echo two"), { name: "build" })
        assert.notStrictEqual(second.id, first.id)
        assert.strictEqual((yield* jobs.wait(second.id)).status, "completed")
        assert.strictEqual((yield* jobs.get(first.id)).status, "cancelled")
      })
    ))

  it.live("K16 do not mix: what the first leaves behind changes nothing of the second", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const go = yield* fifo
        const done = path.join(yield* directory, "done")
        const jobs = yield* jobsOf("a")
        const late = shell(`(read go < ${go}; echo late; : > ${done}; exec sleep 300.${tag}) & echo one`)
        const first = yield* jobs.start(late, { name: "build", leftovers: "keep" })
        const firstEnd = yield* jobs.wait(first.id)
        const second = yield* jobs.start(shell(`echo two; exec sleep 301.${tag}`), { name: "build" })
        yield* writeInto(go, "now")
        yield* until("the first one's leftover has written", () => fs.existsSync(done))
        const [leftover = assert.fail("it was ended")] = yield* untilLiving(`300.${tag}`, "sleep")
        process.kill(leftover.pid, "SIGKILL")
        yield* until("the leftover has gone", () => !isLiving(leftover))

        assert.strictEqual((yield* jobs.get(second.id)).phase, "running")
        assert.deepStrictEqual(yield* jobs.get(first.id), firstEnd)
        yield* jobs.stop(second.id)
        const told = []
        for (const notice of yield* jobs.notices) {
          if (notice._tag === "Job") told.push([notice.id, notice.status, notice.tail])
        }
        assert.deepStrictEqual(told, [[first.id, "completed", "one\n"], [second.id, "cancelled", "two\n"]])
        for (const [id, text] of [[first.id, "one\n"], [second.id, "two\n"]] as const) {
          assert.strictEqual(yield* (yield* jobs.output(id)).preview, text)
        }
      })
    ))
})

describe("an end that is asked for while a start is on its way", () => {
  it.live("K17 is one end, cancelled, for each of 200 jobs that are stopped at once", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const service = yield* BackgroundProcess.Service
        const seen = new Map<string, Array<string>>()
        yield* service.observe((event) =>
          Effect.sync(() => {
            if (event._tag === "Ended" || event._tag === "KillFailed" || event._tag === "Resolved") {
              seen.set(event.id, [...seen.get(event.id) ?? [], event._tag])
            }
          })
        )
        const round = Effect.fnUntraced(function*(index: number) {
          const jobs = service.of(`owner-${index}`)
          const start = yield* Effect.forkChild(Effect.exit(jobs.start(make("sleep", [`60.${tag}`]))), {
            startImmediately: true
          })
          yield* Effect.sleep(`${index % 6} millis`)
          const [job = assert.fail("a start that was not refused is listed")] = yield* jobs.list
          const stopped = yield* jobs.stop(job.id)
          const started = yield* Fiber.join(start)
          if (Exit.isSuccess(started)) assert.strictEqual(started.value.id, job.id)
          assert.deepStrictEqual([stopped.status, stopped.phase], ["cancelled", "settled"])
          const rows = (yield* rowsOf(`owner-${index}`)).map(({ status }) => status)
          assert.isAtMost(rows.length, 1)
          for (const status of rows) assert.strictEqual(status, "cancelled")
          for (const listed of yield* jobs.list) assert.strictEqual(listed.status, "cancelled")
          assert.isAtMost((yield* jobs.notices).length, 1)
        })
        yield* Effect.forEach(numbers(200), round, { concurrency: 8, discard: true })
        assert.deepStrictEqual(living(tag), [])
        for (const [id, ends] of seen) assert.deepStrictEqual(ends, ["Ended"], id)
      })
    ))

  it.live("K17 by a shutdown leaves no process, no running row and no place taken, in 60 rounds", () =>
    Effect.forEach(numbers(60), (index) =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const barrier = yield* ShutdownBarrier.Service
          const jobs = yield* jobsOf("a")
          const starts = yield* Effect.forEach(
            numbers(3),
            () => Effect.forkChild(Effect.exit(jobs.start(make("sleep", [`60.${tag}`]))), { startImmediately: true })
          )
          yield* Effect.sleep(`${index % 6} millis`)
          const report = yield* barrier.shutdown()
          assert.isTrue(report.clean)
          for (const start of starts) {
            const exit = yield* Fiber.join(start)
            if (Exit.isSuccess(exit)) continue
            const error = Cause.squash(exit.cause)
            assert.oneOf((error as BackgroundProcess.StartError).reason._tag, ["RuntimeClosed", "StartWithdrawn"])
          }
          assert.deepStrictEqual(living(tag), [])
          for (const { status } of yield* rowsOf("a")) assert.strictEqual(status, "cancelled")
          for (const { status } of yield* jobs.list) assert.strictEqual(status, "cancelled")
          assert.deepStrictEqual(yield* (yield* AppProcess.Service).list, [])
          const late = yield* Effect.flip(jobs.start(make("true")))
          assert.strictEqual(late.reason._tag, "RuntimeClosed")
        })
      ), { discard: true }))
})

describe("arguments", () => {
  it.live("K18 reach the program byte for byte, and no shell", () =>
    onRuntime(() =>
      Effect.gen(function*() {
        const args = ["a; echo pwned", "$(id)", "-rf", "`id` 'q' \"d\" \\ *\n~ é\u{1F600}"]
        const { stdout } = yield* AppProcess.run(make("printf", ["%s\\0", ...args]))
        assert.deepStrictEqual(stdout.split("\0"), [...args, ""])
        const echoed = yield* AppProcess.run(make("echo", ["a; echo pwned"]))
        assert.strictEqual(echoed.stdout, "a; echo pwned\n")
        const standard = yield* AppProcess.run(ChildProcess.make("printf", ["%s\\0", ...args]))
        assert.strictEqual(standard.stdout, stdout)
      })
    ))

  it.live("K18 are refused together with a script, and nothing runs", () =>
    onRuntime(() =>
      Effect.gen(function*() {
        const made = yield* directory
        const jobs = yield* jobsOf("a")
        const given = ChildProcess.make(`echo x > ${made}/side`, ["arg"], { shell: true })
        for (const refused of [yield* Effect.flip(AppProcess.run(given)), yield* Effect.flip(jobs.start(given))]) {
          assert.strictEqual(reasonOf(refused), "InvalidCommand ShellWithArguments")
        }
        assert.deepStrictEqual([fs.readdirSync(made), yield* rowsOf("a")], [[], []])
      })
    ))

  it.live("K18 are not what a script that begins with a dash is: it runs, and fails, as a command", () =>
    onRuntime(() =>
      Effect.gen(function*() {
        for (const name of ["/bin/sh", "/bin/bash"]) {
          for (const script of ["-foo bar", "-c 'echo pwned'", "+x", "--version"]) {
            const { info, stderr, stdout } = yield* AppProcess.run(shell(script, { shell: name }))
            assert.deepStrictEqual([info.status, info.exit, stdout], ["error", exited(127), ""], script)
            assert.include(stderr, script.replace(/ .*/, ""))
            assert.include(stderr, "not found")
          }
        }
      })
    ))
})
