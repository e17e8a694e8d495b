/** Trees that do not die: whatever a command leaves behind or refuses, an end is claimed only when it is one. */
import { assert, describe, it } from "@effect/vitest"
import {
  AppProcess,
  BackgroundProcess,
  CommandSpec,
  ProcessLedger,
  ShutdownBarrier,
  type Status
} from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import {
  compiled,
  directory,
  fifo,
  holdByTracer,
  host,
  isLiving,
  live,
  living,
  newTag,
  onRuntime,
  reusePid,
  runtime,
  seenAt,
  type Services,
  staysRoot,
  until,
  untilLiving,
  writeInto
} from "../support/processes.ts"

const { shell } = CommandSpec

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")

const idleHost = new URL("../support/hosts/idle.ts", import.meta.url)
const unprivilegedHost = new URL("../support/hosts/unprivileged.ts", import.meta.url)

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

const identityOf = (id: string) =>
  Effect.gen(function*() {
    const row = yield* (yield* ProcessLedger.Service).get(id)
    return row?.identity ?? assert.fail("a started job has an identity")
  })

const exited = (code: number): Status.Exit => ({ code, signal: null })
const killedBy = (signal: string): Status.Exit => ({ code: null, signal })

const whats = (receipt: Status.TerminationResult): string => receipt.timeline.map(({ what }) => what).join("\n")

/** The receipt says that everything was ended and shown to be gone. */
const assertProven = (receipt: Status.TerminationResult): void => {
  assert.deepStrictEqual([receipt.survivors, receipt.survivorCount], [[], 0])
  assert.strictEqual(receipt.timeline.at(-1)?.what, "verified gone")
}

/** Exactly one is listed as left behind. It may have been seen before it had become the program it was to run. */
const assertOneLeft = (receipt: Status.TerminationResult): void => {
  assert.strictEqual(receipt.leftovers.length, 1)
  assert.oneOf(receipt.leftovers[0]?.name, ["sh", "setsid", "sleep"])
}

const names = (survivors: ReadonlyArray<Status.Survivor>): ReadonlyArray<string> => survivors.map(({ name }) => name)

/** The ways of an application to end what it started, each with what comes of it. */
const ways: ReadonlyArray<{
  readonly way: string
  readonly end: (
    command: CommandSpec.Input,
    whileRunning: Effect.Effect<void>
  ) => Effect.Effect<Status.TerminationResult, unknown, Services>
  readonly cause: Status.Cause
}> = [
  {
    way: "closing its scope",
    cause: { _tag: "Scope" },
    end: (command, whileRunning) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const handle = yield* Scope.provide(AppProcess.spawn(command), scope)
        yield* whileRunning
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual((yield* handle.info).phase, "settled")
        return yield* handle.termination
      })
  },
  {
    way: "stopping the job",
    cause: { _tag: "Stop", by: "owner" },
    end: (command, whileRunning) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf("a")
        const { id } = yield* jobs.start(command)
        yield* whileRunning
        const stopped = yield* jobs.stop(id)
        return stopped.receipt ?? assert.fail("a stopped job has a receipt")
      })
  },
  {
    way: "shutting down",
    cause: { _tag: "Shutdown" },
    end: (command, whileRunning) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf("a")
        const { id } = yield* jobs.start(command)
        yield* whileRunning
        const report = yield* (yield* ShutdownBarrier.Service).shutdown()
        assert.deepStrictEqual([report.clean, report.rows.map((row) => row.id)], [true, [id]])
        return yield* jobs.termination(id)
      })
  }
]

describe("a background child that holds the output", () => {
  it.live("K01 does not hold up its command, and is ended before that is done", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const { info, stdout, termination } = yield* AppProcess.run(shell(`sleep 20.${tag} & echo hi`))
        assert.deepStrictEqual(living(tag), [])
        assert.deepStrictEqual([info.status, info.exit, stdout], ["completed", exited(0), "hi\n"])
        assert.deepStrictEqual([termination.cause, termination.keptLeftovers], [{ _tag: "SelfExit" }, false])
        assertOneLeft(termination)
        assertProven(termination)
        assert.isBelow(termination.durationMillis, 10_000)
        // The holder is gone by then, so the output has an end, and all of it was read.
        const { bytesSeen, drained, sealed, sha256: digest } = info.output
        assert.deepStrictEqual([bytesSeen, drained, sealed, digest], [3, true, true, sha256("hi\n")])
      })
    ))

  it.live("K01 is said to hold it still where it is kept, and what it writes later is not added", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const go = yield* fifo
        const done = path.join(yield* directory, "done")
        const command = shell(`(read go < ${go}; echo late; : > ${done}; exec sleep 20.${tag}) & echo hi`)
        const jobs = yield* jobsOf("a")
        const { id } = yield* jobs.start(command, { leftovers: "keep" })
        const ended = yield* jobs.wait(id)
        assert.deepStrictEqual([ended.status, ended.exit], ["completed", exited(0)])
        assert.deepStrictEqual([ended.receipt?.keptLeftovers, ended.receipt?.leftovers.length], [true, 1])
        assert.deepStrictEqual(ended.receipt?.timeline, [])
        assert.deepStrictEqual([ended.output.drained, ended.output.sealed], [false, true])
        yield* writeInto(go, "now")
        yield* until("the leftover has written", () => fs.existsSync(done))
        const [holder = assert.fail("it was ended")] = yield* untilLiving(`20.${tag}`, "sleep")
        assert.strictEqual(holder.pid, ended.receipt?.leftovers[0]?.pid)
        const { output } = yield* jobs.get(id)
        assert.deepStrictEqual([output.bytesSeen, output.sha256], [3, sha256("hi\n")])
        assert.strictEqual(yield* (yield* jobs.output(id)).preview, "hi\n")
        // To be ended by whoever wanted it kept.
        process.kill(holder.pid, "SIGKILL")
        yield* until("the leftover has gone", () => !isLiving(holder))
      })
    ))
})

describe("a child in a session of its own", () => {
  it.live("K02 that its leader leaves behind is found and ended before the command is done", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const { info, termination } = yield* AppProcess.run(
          shell(`(setsid sleep 300.${tag} >/dev/null 2>&1 &) ; exit 0`)
        )
        assert.deepStrictEqual(living(tag), [])
        assert.deepStrictEqual([info.status, info.exit], ["completed", exited(0)])
        assertOneLeft(termination)
        assert.match(whats(termination), /^SIGTERM -> (1 escapee|group \d+ \(1 member\))$/m)
        assertProven(termination)
      })
    ))

  for (const { cause, end, way } of ways) {
    it.live(`K02 is gone after ${way}, though nothing but its environment shows whose it is`, () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          let seen: ReadonlyArray<{ readonly pid: number; readonly startedAt: number }> = []
          const termination = yield* end(
            shell(`(setsid sleep 300.${tag} >/dev/null 2>&1 &) ; exec sleep 301.${tag}`),
            Effect.map(untilLiving(tag, "sleep", "sleep"), (both) => {
              seen = both
              assert.strictEqual(new Set(both.map(({ session }) => session)).size, 2)
            })
          )
          assert.deepStrictEqual([living(tag), seen.filter(isLiving)], [[], []])
          assert.deepStrictEqual([termination.status, termination.cause], ["cancelled", cause])
          assert.deepStrictEqual([termination.exit, termination.forced], [killedBy("SIGTERM"), false])
          assert.match(whats(termination), /^SIGTERM -> group \d+ \(1 member\), 1 escapee$/m)
          assertProven(termination)
        })
      ))
  }

  live(
    "K02 that can be seen and not ended makes the job kill_failed, and is named",
    ["strace"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const jobs = yield* jobsOf("a")
          const { id } = yield* jobs.start(shell(`(setsid sleep 300.${tag} >/dev/null 2>&1 &) ; exec sleep 301.${tag}`))
          yield* untilLiving(tag, "sleep", "sleep")
          const [escapee = assert.fail("no escapee")] = living(`300.${tag}`)
          const letGo = yield* holdByTracer(escapee.pid)
          const stopped = yield* jobs.stop(id)
          assert.deepStrictEqual([stopped.status, stopped.exit], ["kill_failed", killedBy("SIGTERM")])
          const { pid, startedAt } = escapee
          assert.deepStrictEqual(stopped.receipt?.survivors, [{ pid, startedAt, name: "sleep", refused: null }])
          yield* letGo
          yield* until("it has gone", () => !isLiving(escapee))
          const retried = yield* jobs.retryTermination(id)
          assert.strictEqual(retried.status, "cancelled")
          assertProven(retried)
        })
      )
  )
})

describe("a shell around the real program", () => {
  for (const { cause, end, way } of ways) {
    it.live(`K03 does not die alone: after ${way} the program is gone too`, () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const termination = yield* end(
            shell(`sleep 300.${tag}; :`),
            Effect.asVoid(untilLiving(tag, "sh", "sleep"))
          )
          assert.deepStrictEqual(living(tag), [])
          assert.deepStrictEqual([termination.status, termination.cause], ["cancelled", cause])
          assert.deepStrictEqual([termination.exit, termination.forced], [killedBy("SIGTERM"), false])
          assert.match(whats(termination), /^SIGTERM -> group \d+ \(2 members\)$/m)
          assertProven(termination)
        })
      ))
  }
})

describe("a member of the group that ignores the signal its leader obeys", () => {
  for (const { cause, end, way } of ways) {
    it.live(`K04 is ended by force when the grace of the whole tree is over, by ${way}`, () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const termination = yield* end(
            shell(`(trap "" TERM; exec sleep 300.${tag}) & exec sleep 301.${tag}`),
            Effect.asVoid(untilLiving(tag, "sleep", "sleep"))
          )
          assert.deepStrictEqual(living(tag), [])
          assert.deepStrictEqual([termination.status, termination.cause], ["cancelled", cause])
          // The leader obeyed; that the rest did not is what `forced` says.
          assert.deepStrictEqual([termination.exit, termination.forced], [killedBy("SIGTERM"), true])
          assert.match(whats(termination), /^SIGTERM -> group \d+ \(2 members\)$/m)
          const force = termination.timeline.find(({ what }) => what.startsWith("SIGKILL"))
          assert.match(force?.what ?? "", /^SIGKILL -> 1 left: \d+ "sleep" \(ignored SIGTERM\)$/)
          assert.isAtLeast(force?.atMillis ?? 0, 300)
          assertProven(termination)
        })
      ))
  }
})

describe("a silent child that a successful leader leaves behind", () => {
  it.live("K05 is ended before the scope is released, and the leader's success stays", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const handle = yield* Scope.provide(AppProcess.spawn(shell(`sleep 300.${tag} >/dev/null 2>&1 & exit 0`)), scope)
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(living(tag), [])
        const { exit, phase } = yield* handle.info
        assert.strictEqual(phase, "settled")
        // Which was first is up to the machine; either way the receipt and the status agree.
        const termination = yield* handle.termination
        assert.deepStrictEqual(termination.exit, exit)
        assertProven(termination)
      })
    ))

  it.live("K05 is ended before the command is done, whoever waits for it", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const handle = yield* Scope.provide(AppProcess.spawn(shell(`sleep 300.${tag} >/dev/null 2>&1 & exit 0`)), scope)
        assert.deepStrictEqual(yield* handle.exit, exited(0))
        // The exit is known, and the end is not claimed yet.
        assert.strictEqual((yield* handle.info).status, "running")
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(living(tag), [])
        const termination = yield* handle.termination
        assert.deepStrictEqual([termination.status, termination.exit], ["completed", exited(0)])
        assert.deepStrictEqual(termination.cause, { _tag: "SelfExit" })
        assertOneLeft(termination)
        assertProven(termination)
      })
    ))

  live(
    "K05 that cannot be ended makes it kill_failed, the leader's exit code kept beside it",
    ["strace"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const go = yield* fifo
          const jobs = yield* jobsOf("a")
          const { id } = yield* jobs.start(shell(`sleep 300.${tag} >/dev/null 2>&1 & read go < ${go}; exit 0`))
          const [, child = assert.fail("no child")] = (yield* untilLiving(tag, "sh", "sleep")).toSorted((a, b) =>
            a.name.localeCompare(b.name)
          )
          const letGo = yield* holdByTracer(child.pid)
          yield* writeInto(go, "now")
          const ended = yield* jobs.wait(id)
          assert.deepStrictEqual([ended.status, ended.phase, ended.exit], ["kill_failed", "unresolved", exited(0)])
          const { pid, startedAt } = child
          const survivor = { pid, startedAt, name: "sleep", refused: null }
          assert.deepStrictEqual([ended.receipt?.leftovers, ended.receipt?.survivors], [[survivor], [survivor]])
          yield* letGo
          yield* until("it has gone", () => !isLiving(child))
          assert.strictEqual((yield* jobs.retryTermination(id)).status, "completed")
        })
      )
  )
})

describe("a program that ignores the polite signal", () => {
  for (const { cause, end, way } of ways) {
    it.live(`K06 is not taken for ended before it is, by ${way}`, () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const termination = yield* end(
            shell(`trap "" TERM; echo ${tag} >/dev/null; while :; do sleep 0.2; done`),
            Effect.asVoid(until("it sleeps", () => living(tag).length === 1 && hasChild(living(tag)[0]?.pid ?? 0)))
          )
          assert.deepStrictEqual(living(tag), [])
          assert.deepStrictEqual([termination.status, termination.cause], ["cancelled", cause])
          assert.deepStrictEqual([termination.exit, termination.forced], [killedBy("SIGKILL"), true])
          assertProven(termination)
        })
      ))
  }

  it.live("K06 is running, with no exit, as long as the grace lasts", () =>
    onRuntime((tag) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf("a")
        const { id } = yield* jobs.start(shell(`trap "" TERM; echo ready; while :; do sleep 0.${tag}; done`), {
          grace: "10 minutes"
        })
        const output = yield* jobs.output(id)
        yield* until("it is ready", Effect.map(output.preview, (text) => text === "ready\n"))
        const stop = yield* Effect.forkChild(jobs.stop(id))
        yield* until("it was signalled", Effect.map(jobs.get(id), ({ phase }) => phase === "terminating"))
        const { exit, receipt, status } = yield* jobs.get(id)
        assert.deepStrictEqual([status, exit, receipt], ["running", null, null])
        assert.isNotEmpty(living(tag))
        const now = yield* jobs.stop(id, { now: true })
        assert.deepStrictEqual([now.status, now.exit, now.receipt?.forced], ["cancelled", killedBy("SIGKILL"), true])
        assert.deepStrictEqual(yield* Fiber.join(stop), now)
        assert.deepStrictEqual(living(tag), [])
      })
    ))
})

describe("a child that has become another user's", () => {
  const rights = ["root", "cc"] as const

  live(
    "K07 refuses the kill: kill_failed with the errno, and settled once it has ended by itself",
    rights,
    () =>
      Effect.gen(function*() {
        const program = yield* compiled(staysRoot, { asRoot: true })
        const unprivileged = yield* host<Told>(unprivilegedHost, [program])
        const stopped = yield* unprivileged.line
        const { pid } = survivorOf(stopped)
        const child = seenAt(pid) ?? assert.fail("the helper has ended")
        yield* Effect.addFinalizer(() => Effect.sync(() => isLiving(child) && process.kill(pid, "SIGKILL")))
        assert.isTrue(isLiving(child))
        const { exit, id, phase, receipt, status } = stopped.info
        assert.deepStrictEqual([status, phase, exit], ["kill_failed", "unresolved", null])
        const survivor = { pid, startedAt: child.startedAt, name: "program", refused: "EPERM" }
        assert.deepStrictEqual([receipt.survivors, receipt.survivorCount, receipt.forced], [[survivor], 1, true])
        for (const signal of ["SIGTERM", "SIGKILL"]) {
          assert.match(whats(receipt), new RegExp(`^${signal} -> .*, refused by ${pid} "program" \\(EPERM\\)$`, "m"))
        }
        // Handle and row stay.
        assert.deepStrictEqual([stopped.listed, stopped.row.status], [[id], "kill_failed"])
        assert.deepStrictEqual(statuses(stopped.notices), ["kill_failed"])
        assert.deepStrictEqual(stopped.row.termination, receipt)
        // It may still work there, so its released workspace stays.
        assert.deepStrictEqual(stopped.workspace, { named: true, recorded: 1, there: true })

        process.kill(pid, "SIGUSR1")
        const settled = yield* unprivileged.line
        assert.isFalse(isLiving(child))
        assert.deepStrictEqual([settled.info.status, settled.info.exit], ["cancelled", exited(0)])
        assert.deepStrictEqual([settled.row.status, statuses(settled.notices)], ["cancelled", ["cancelled"]])
        assert.deepStrictEqual(settled.events, [...openingEvents, "KillFailed", "Exited", "Resolved"])
        assert.deepStrictEqual(settled.workspace, { named: true, recorded: 0, there: false })
        assert.deepStrictEqual(settled.info.receipt.timeline.slice(0, receipt.timeline.length), receipt.timeline)
        assert.deepStrictEqual(yield* unprivileged.end, { code: 0, stderr: "" })
      })
  )

  live("K07 is named alone where the rest of its tree obeyed", rights, () =>
    Effect.gen(function*() {
      const program = yield* compiled(staysRoot, { asRoot: true })
      const unprivileged = yield* host<Told>(unprivilegedHost, ["sh", "-c", `${program} & wait`])
      const told = yield* unprivileged.line
      const { info } = told
      const { pid } = survivorOf(told)
      const child = seenAt(pid) ?? assert.fail("the helper has ended")
      yield* Effect.addFinalizer(() => Effect.sync(() => isLiving(child) && process.kill(pid, "SIGKILL")))
      assert.deepStrictEqual([info.status, info.exit], ["kill_failed", killedBy("SIGTERM")])
      const survivor = { pid, startedAt: child.startedAt, name: "program", refused: "EPERM" }
      assert.deepStrictEqual([info.receipt.survivors, info.receipt.survivorCount], [[survivor], 1])
      process.kill(pid, "SIGUSR1")
      yield* until("the helper has ended", () => !isLiving(child))
    }))
})

/** What the host `unprivileged.ts` says, twice. */
interface Told {
  readonly info: BackgroundProcess.Info & { readonly receipt: Status.TerminationResult }
  readonly listed: ReadonlyArray<string>
  readonly row: ProcessLedger.LedgerRow
  readonly events: ReadonlyArray<string>
  readonly notices: ReadonlyArray<{ readonly status: string }>
  readonly workspace: { readonly named: boolean; readonly recorded: number; readonly there: boolean }
}

const survivorOf = ({ info }: Told): Status.Survivor => info.receipt.survivors[0] ?? assert.fail("nobody survived")

const openingEvents = ["Started", "Draining", "Terminating"]

const statuses = (notices: ReadonlyArray<{ readonly status: string }>) => notices.map(({ status }) => status)

describe("a process that takes SIGKILL and stays", () => {
  live(
    "K08 makes a stop end in kill_failed, and settles the job once when it is let go",
    ["strace"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const jobs = yield* jobsOf("a")
          const ledger = yield* ProcessLedger.Service
          const events = yield* collected
          const { id } = yield* jobs.start(CommandSpec.make("sleep", [`30.${tag}`]))
          const [child = assert.fail("no child")] = yield* untilLiving(tag, "sleep")
          const letGo = yield* holdByTracer(child.pid)
          const stopped = yield* jobs.stop(id)
          assert.isTrue(isLiving(child))
          assert.deepStrictEqual([stopped.status, stopped.phase, stopped.exit], ["kill_failed", "unresolved", null])
          const { pid, startedAt } = child
          assert.deepStrictEqual(stopped.receipt?.survivors, [{ pid, startedAt, name: "sleep", refused: null }])
          assert.deepStrictEqual([stopped.receipt?.forced, stopped.endedAt], [true, null])
          // Grace and force window are 0.8 s; the machine may be slow.
          assert.isBelow(stopped.receipt?.durationMillis ?? Infinity, 5_000)
          assert.strictEqual((yield* ledger.get(id))?.status, "kill_failed")
          assert.deepStrictEqual((yield* jobs.list).map((job) => job.id), [id])
          // A retry of what is still held is no proof either.
          assert.strictEqual((yield* jobs.retryTermination(id)).status, "kill_failed")

          yield* letGo
          yield* until("the late exit settles it", Effect.map(jobs.get(id), ({ phase }) => phase === "settled"))
          assert.isFalse(isLiving(child))
          const settled = yield* jobs.get(id)
          assert.deepStrictEqual([settled.status, settled.exit], ["cancelled", killedBy("SIGKILL")])
          assertProven(settled.receipt ?? assert.fail("no receipt"))
          assert.deepStrictEqual((yield* ledger.get(id))?.status, "cancelled")
          assert.deepStrictEqual(
            (yield* jobs.notices).map((notice) => notice._tag === "Job" ? notice.status : notice._tag),
            ["kill_failed", "cancelled"]
          )
          yield* until("all events", () => events.includes("Resolved"))
          assert.deepStrictEqual(events, [...openingEvents, "KillFailed", "Exited", "Resolved"])
          // Its place is free again, and the job is over for good.
          assert.deepStrictEqual(yield* jobs.stop(id), settled)
        }), { maxRunningPerOwner: 1 })
  )

  live(
    "K08 holds up neither the close of its scope nor the handle, which settles it later",
    ["strace"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const scope = yield* Scope.make()
          const handle = yield* Scope.provide(AppProcess.spawn(CommandSpec.make("sleep", [`30.${tag}`])), scope)
          const [child = assert.fail("no child")] = yield* untilLiving(tag, "sleep")
          const letGo = yield* holdByTracer(child.pid)
          const began = performance.now()
          yield* Scope.close(scope, Exit.void)
          assert.isBelow(performance.now() - began, 5_000)
          assert.isTrue(isLiving(child))
          assert.strictEqual((yield* handle.termination).status, "kill_failed")
          assert.deepStrictEqual((yield* (yield* AppProcess.Service).list).map(({ id }) => id), [handle.id])
          yield* letGo
          yield* until("the late exit settles it", Effect.map(handle.info, ({ phase }) => phase === "settled"))
          assert.isFalse(isLiving(child))
          const termination = yield* handle.termination
          assert.deepStrictEqual([termination.status, termination.exit], ["cancelled", killedBy("SIGKILL")])
          assertProven(termination)
          assert.deepStrictEqual(yield* (yield* AppProcess.Service).list, [])
        })
      )
  )

  live(
    "K08 holds up no shutdown: it is bounded, ends the others and names this one",
    ["strace"],
    () =>
      Effect.gen(function*() {
        const tag = yield* newTag
        const reports: Array<ShutdownBarrier.ShutdownReport> = []
        // Acquired before the runtime, so that it is held until the runtime is closed.
        const began = yield* Effect.gen(function*() {
          const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
          return yield* Effect.gen(function*() {
            const jobs = yield* jobsOf("a")
            const { id } = yield* jobs.start(CommandSpec.make("sleep", [`30.${tag}`]))
            const [child = assert.fail("no child")] = yield* untilLiving(tag, "sleep")
            yield* jobs.start(CommandSpec.make("sleep", [`31.${tag}`]))
            yield* Effect.asVoid(Scope.provide(holdByTracer(child.pid), scope))
            return { at: performance.now(), child, id }
          }).pipe(Effect.provide(runtime({}, (report) => reports.push(report))))
        })
        assert.isBelow(performance.now() - began.at, 10_000)
        assert.isTrue(isLiving(began.child))
        assert.deepStrictEqual(living(tag).map(({ pid }) => pid), [began.child.pid])
        assert.deepStrictEqual(
          reports.map(({ budgetExceeded, clean, rows }) => [clean, budgetExceeded, rows.map((row) => row.status)]),
          [[false, false, ["kill_failed", "cancelled"]]]
        )
        const { pid, startedAt } = began.child
        assert.deepStrictEqual(reports[0]?.rows[0]?.survivors, [{ pid, startedAt, name: "sleep", refused: null }])
      })
  )
})

describe("a dead process that nobody has collected", () => {
  const waitlessScript = (tag: string, seconds: string) =>
    `import subprocess,time;p=subprocess.Popen(["true"]);print(p.pid,flush=True);time.sleep(${seconds}) #${tag}`

  const waitless = (tag: string, seconds: string) => CommandSpec.make("python3", ["-c", waitlessScript(tag, seconds)])

  const zombieOf = (output: Effect.Effect<string>) =>
    Effect.gen(function*() {
      const pid = yield* until("a pid", Effect.map(output, (text) => text.endsWith("\n") && Number(text)))
      yield* until("it is dead and uncollected", () => seenAt(pid)?.state === "Z")
      // The system answers as if it were there.
      assert.isTrue(process.kill(pid, 0))
      return pid
    })

  live(
    "K09 is not waited for when its parent is stopped, and is no survivor",
    ["python3"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const jobs = yield* jobsOf("a")
          const { id } = yield* jobs.start(waitless(tag, "300"), { grace: "10 minutes" })
          yield* zombieOf((yield* jobs.output(id)).preview)
          const { exit, receipt, status } = yield* jobs.stop(id)
          assert.deepStrictEqual([status, exit, receipt?.forced], ["cancelled", killedBy("SIGTERM"), false])
          assertProven(receipt ?? assert.fail("no receipt"))
          assert.deepStrictEqual(living(tag), [])
        })
      )
  )

  live(
    "K09 is no leftover of a leader that ends by itself",
    ["python3"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const { info, termination } = yield* AppProcess.run(waitless(tag, "0"))
          assert.deepStrictEqual([info.status, info.exit], ["completed", exited(0)])
          assert.deepStrictEqual([termination.leftovers, termination.timeline], [[], []])
        })
      )
  )

  live(
    "K09 is not listed beside its living parent, where that is left behind",
    ["python3"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const go = yield* fifo
          const jobs = yield* jobsOf("a")
          const script = `python3 -c '${waitlessScript(tag, "300")}' & read go < ${go}; exit 0`
          const { id } = yield* jobs.start(shell(script), { grace: "10 minutes" })
          const zombie = yield* zombieOf((yield* jobs.output(id)).preview)
          yield* writeInto(go, "now")
          const { exit, receipt, status } = yield* jobs.wait(id)
          assert.deepStrictEqual([status, exit, receipt?.forced], ["completed", exited(0), false])
          assert.deepStrictEqual(names(receipt?.leftovers ?? []), ["python3"])
          assert.notInclude(receipt?.leftovers.map(({ pid }) => pid) ?? [], zombie)
          assertProven(receipt ?? assert.fail("no receipt"))
          assert.deepStrictEqual(living(tag), [])
        })
      )
  )
})

describe("a pid that somebody else has now", () => {
  /** A job that ignores the polite signal: when it has been forced, every grace that began before its own is over. */
  const outlastGrace = (tag: string) =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("clock")
      const { id } = yield* jobs.start(shell(`trap "" TERM; echo ready; exec sleep 302.${tag}`))
      const output = yield* jobs.output(id)
      yield* until("it ignores the signal", Effect.map(output.preview, (text) => text === "ready\n"))
      assert.isTrue((yield* jobs.stop(id)).receipt?.forced)
    })

  live(
    "K10 gets none of the signals that were meant for the one before",
    ["root", "pids"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const jobs = yield* jobsOf("a")
          const succeeded = Effect.gen(function*() {
            const { id } = yield* jobs.start(CommandSpec.make("sleep", ["0.05"]))
            const { pid } = yield* identityOf(id)
            const stopped = yield* jobs.stop(id)
            assert.oneOf(stopped.status, ["cancelled", "completed"])
            assert.isFalse(stopped.receipt?.forced)
            return { id, stopped, stranger: yield* reusePid(pid, `20.${tag}`) }
          })
          const { id, stopped, stranger } = yield* Effect.retry(succeeded, { times: 9 })
          yield* outlastGrace(tag)
          // Nor do later requests reach it.
          assert.deepStrictEqual(yield* jobs.stop(id, { now: true }), stopped)
          yield* jobs.retryTermination(id)
          yield* jobs.stopAll
          yield* (yield* ShutdownBarrier.Service).shutdown("now")
          assert.isTrue(isLiving(stranger))
        }), { graceMillis: 1_000 })
  )

  live(
    "K10 is spared by the force that ends the rest of its predecessor's tree",
    ["root", "pids"],
    () =>
      onRuntime((tag) =>
        Effect.gen(function*() {
          const jobs = yield* jobsOf("a")
          const script = `setsid sh -c 'trap "" TERM; exec sleep 300.${tag}' & exec sleep 301.${tag}`
          const succeeded = Effect.gen(function*() {
            const { id } = yield* jobs.start(shell(script))
            const both = yield* untilLiving(tag, "sleep", "sleep")
            const { pid } = yield* identityOf(id)
            const stop = yield* Effect.forkChild(jobs.stop(id))
            // The leader obeys, its pid and its group are free, and the escapee is still within its grace.
            const stranger = yield* Effect.tapError(reusePid(pid, `20.${tag}`), () => Fiber.join(stop))
            return { both, pid, stop, stranger }
          })
          const { both, pid, stop, stranger } = yield* Effect.retry(succeeded, { times: 9 })
          const { exit, receipt, status } = yield* Fiber.join(stop)
          assert.deepStrictEqual([status, exit, receipt?.forced], ["cancelled", killedBy("SIGTERM"), true])
          assertProven(receipt ?? assert.fail("no receipt"))
          assert.deepStrictEqual(both.filter(isLiving), [])
          assert.isTrue(isLiving(stranger))
          assert.strictEqual(stranger.group, pid)
        }), { graceMillis: 1_000 })
  )

  for (const how of ["closed", "open"]) {
    it.live(`K10 is not waited for: a host with nothing left to do ends at once, its runtime ${how}`, () =>
      Effect.gen(function*() {
        const idle = yield* host<string>(idleHost, [how])
        assert.strictEqual(yield* idle.line, "done")
        const began = performance.now()
        assert.deepStrictEqual(yield* idle.end, { code: 0, stderr: "" })
        assert.isBelow(performance.now() - began, 5_000)
      }))
  }

  it.live("K10 is no reason to end too early: a host waits for the force that it has asked for", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const script =
        `setsid sh -c 'trap "" TERM; echo ready; exec sleep 300.${tag} >/dev/null 2>&1' & exec sleep 301.${tag}`
      const idle = yield* host<string>(idleHost, ["pending", script])
      assert.strictEqual(yield* idle.line, "done")
      assert.isNotEmpty(living(tag))
      assert.deepStrictEqual(yield* idle.end, { code: 0, stderr: "" })
      assert.deepStrictEqual(living(tag), [])
    }))
})

/** The tags of all events from here on but heartbeats, as they come. */
const collected = Effect.gen(function*() {
  const tags: Array<string> = []
  yield* (yield* BackgroundProcess.Service).observe((event) =>
    Effect.sync(() => {
      if (event._tag !== "Heartbeat" && event._tag !== "Progress") tags.push(event._tag)
    })
  )
  return tags
})

const hasChild = (pid: number): boolean => {
  try {
    return fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1") !== ""
  } catch {
    return false
  }
}
