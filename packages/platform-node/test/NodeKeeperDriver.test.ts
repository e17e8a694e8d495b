import { assert, describe, it } from "@effect/vitest"
import * as NodeKeeperDriver from "@procyon/platform-node/NodeKeeperDriver"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { Arena, endTree, exec, lookAt, newMarker, openDescriptors, shell, start } from "./internal/bench.ts"
import {
  directory,
  isLiving,
  keepersOf,
  living,
  newTag,
  parentOf,
  type Seen,
  seenAt,
  until
} from "./support/processes.ts"

const program = fileURLToPath(new URL("programs/keeper.ts", import.meta.url))
const sources = fileURLToPath(new URL("../src/internal/keeper/", import.meta.url))

const keeperOf = (application: number): Effect.Effect<Seen> =>
  until("a keeper", () => keepersOf(application).at(-1) ?? null)

interface Application {
  readonly pid: number
  readonly child: ChildProcess
  readonly said: () => string
}

/** Runs the program, and kills it with the scope. */
const application = (
  how: string,
  tag: string,
  env: Record<string, string> = {},
  file = program
): Effect.Effect<Application, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [file, how, tag], {
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "inherit"]
      })
      let said = ""
      child.stdout.on("data", (bytes: Buffer) => {
        said += bytes.toString()
      })
      return { pid: child.pid ?? assert.fail("not started"), child, said: () => said }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** The living of a tag without the application, which has it in its own command line. */
const jobsOf = (tag: string, { pid }: Application): ReadonlyArray<Seen> =>
  living(tag).filter((seen) => seen.pid !== pid)

/** A driver, what it told of lost keepers, and what it logged. */
const withKeeper = <E>(
  body: (
    driver: ProcessDriver.ProcessDriver,
    lost: ReadonlyArray<NodeKeeperDriver.Lost>,
    keeper: Seen
  ) => Effect.Effect<void, E, Scope.Scope>,
  options: NodeKeeperDriver.Options = {}
): Effect.Effect<void, E | NodeKeeperDriver.KeeperUnavailable> =>
  Effect.scoped(Effect.gen(function*() {
    const lost: Array<NodeKeeperDriver.Lost> = []
    const logged: Array<unknown> = []
    const logger = Logger.make(({ logLevel, message }) => void logged.push(logLevel, message))
    const before = new Set(keepersOf(process.pid).map(({ pid }) => pid))
    const driver = yield* Effect.provide(
      NodeKeeperDriver.make({ graceMillis: 300, onLost: (one) => lost.push(one), ...options }),
      Logger.layer([logger])
    )
    const keeper = keepersOf(process.pid).find(({ pid }) => !before.has(pid)) ?? assert.fail("no keeper")
    yield* body(driver, lost, keeper)
    assert.strictEqual(logged.filter((level) => level === "Warn").length, lost.length)
  }))

const lostOne = (lost: ReadonlyArray<NodeKeeperDriver.Lost>): Effect.Effect<NodeKeeperDriver.Lost> =>
  until("the loss is told", () => lost[0])

/** No program is there for a keeper until the scope ends. */
const withoutNode: Effect.Effect<void, never, Scope.Scope> = Effect.asVoid(Effect.acquireRelease(
  Effect.sync(() => {
    const before = process.execPath
    process.execPath = "/no/such/node"
    return before
  }),
  (before) =>
    Effect.sync(() => {
      process.execPath = before
    })
))

describe("NodeKeeperDriver", () => {
  describe("an application that is killed", () => {
    it.live(
      "leaves nobody alive, whatever the jobs do and however far their starts have got",
      () =>
        Effect.scoped(Effect.gen(function*() {
          for (let round = 0; round < 3; round++) {
            const tag = yield* newTag
            const app = yield* application("jobs", tag)
            yield* until("all vices are up", () => app.said().includes("up"))
            const keeper = yield* keeperOf(app.pid)
            assert.isAbove(jobsOf(tag, app).length, 5)
            process.kill(app.pid, "SIGKILL")
            yield* until("the keeper has ended", () => !isLiving(keeper))
            assert.deepStrictEqual(living(tag), [])
          }
        })),
      60_000
    )

    it.live("leaves nobody alive that its runtime had started", () =>
      Effect.scoped(Effect.gen(function*() {
        const main = fileURLToPath(new URL("programs/main.ts", import.meta.url))
        const app = yield* application("ours", "300", {}, main)
        yield* until("its jobs are up", () => app.said().includes("ready"))
        const keeper = yield* keeperOf(app.pid)
        const jobs = living("trap").filter(({ pid }) => parentOf(pid) === keeper.pid)
        assert.lengthOf(jobs, 2)
        process.kill(app.pid, "SIGKILL")
        yield* until("the keeper has ended", () => !isLiving(keeper))
        assert.deepStrictEqual(jobs.filter(isLiving), [])
      })), 20_000)

    it.live("leaves no directory of FIFOs, nor a job that an earlier keeper had started", () =>
      Effect.scoped(Effect.gen(function*() {
        const tag = yield* newTag
        const temporary = yield* directory
        const app = yield* application("live", tag, { TMPDIR: temporary })
        yield* until("the job is up", () => app.said().includes("up"))
        assert.lengthOf(fs.readdirSync(temporary), 1)
        const first = yield* keeperOf(app.pid)
        process.kill(first.pid, "SIGKILL")
        yield* until("another keeper has taken over", () => app.said().includes("replaced"))
        process.kill(app.pid, "SIGKILL")
        yield* until("nobody is left", () => living(tag).length === 0)
        yield* until("the directory is removed", () => fs.readdirSync(temporary).length === 0)
      })))

    it.live("leaves nobody alive while its keeper is being replaced", () =>
      Effect.scoped(Effect.gen(function*() {
        const tag = yield* newTag
        const app = yield* application("replacing", tag)
        yield* until("the application has killed itself", () => app.child.signalCode !== null)
        yield* until("nobody is left", () => living(tag).length === 0)
      })), 20_000)

    it.live("leaves a child alone that it had released, however much it had said before", () =>
      Effect.scoped(Effect.gen(function*() {
        const tag = yield* newTag
        const app = yield* application("releasing", tag)
        const keeper = yield* keeperOf(app.pid)
        const pid = yield* until("the application has killed itself", () => app.child.signalCode && app.said().trim())
        process.kill(keeper.pid, "SIGCONT")
        yield* until("the keeper has ended", () => !isLiving(keeper))
        assert.deepStrictEqual(living(`300.${tag}`).map((seen) => String(seen.pid)), [pid])
      })))
  })

  describe("a keeper", () => {
    it.live("ends everything when it is told to by SIGTERM, and is replaced", () =>
      withKeeper((driver, lost, keeper) =>
        Effect.gen(function*() {
          const stubborn = yield* start(driver, shell("trap '' TERM; echo ready; exec sleep 300"))
          yield* until("it ignores SIGTERM", () => stubborn.out.text.includes("ready"))
          process.kill(keeper.pid, "SIGTERM")
          assert.deepStrictEqual(yield* lostOne(lost), { children: 0, restarted: true })
          assert.deepStrictEqual(yield* stubborn.exit, { code: null, signal: "SIGKILL" })
          yield* until("the keeper has ended", () => !isLiving(keeper))
        })
      ))

    it.live("is in a session of its own, and deaf to what a terminal sends", () =>
      withKeeper((driver, lost, keeper) =>
        Effect.gen(function*() {
          assert.strictEqual(keeper.session, keeper.pid)
          process.kill(keeper.pid, "SIGINT")
          process.kill(keeper.pid, "SIGHUP")
          const job = yield* start(driver, exec("true"))
          assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
          assert.isTrue(isLiving(keeper))
          assert.deepStrictEqual(lost, [])
        })
      ))

    it.live("goes with its driver, and ends whom the application had not released", () =>
      Effect.scoped(Effect.gen(function*() {
        const tag = yield* newTag
        const app = yield* application("closes", tag)
        const keeper = yield* keeperOf(app.pid)
        yield* until("the application has ended", () => app.child.exitCode !== null)
        assert.strictEqual(app.child.exitCode, 0)
        yield* until("the keeper has ended", () => !isLiving(keeper))
        assert.lengthOf(living(`300.${tag}`), 0)
        assert.lengthOf(living(`301.${tag}`), 1)
      })))

    it.live("does not hold an application that has nothing left to do, and goes with it", () =>
      Effect.scoped(Effect.gen(function*() {
        const app = yield* application("idle", yield* newTag)
        const keeper = yield* keeperOf(app.pid)
        yield* until("the application has ended", () => app.child.exitCode !== null)
        assert.deepStrictEqual([app.child.exitCode, app.said()], [0, "done\n"])
        yield* until("the keeper has ended", () => !isLiving(keeper))
      })))

    it.live("holds an application as long as it has a child", () =>
      Effect.scoped(Effect.gen(function*() {
        const tag = yield* newTag
        const app = yield* application("live", tag)
        yield* until("the job is up", () => app.said().includes("up"))
        const [job] = yield* until("the job", () => jobsOf(tag, app).length === 1 && jobsOf(tag, app))
        assert.isNull(app.child.exitCode)
        process.kill(job?.pid ?? 0, "SIGKILL")
        yield* until("the application has ended", () => app.child.exitCode !== null)
      })))

    it.live(
      "holds no descriptor of a live child, and this process one for each",
      () =>
        withKeeper((driver, _, keeper) =>
          Effect.gen(function*() {
            const of = (pid: number) => fs.readdirSync(`/proc/${pid}/fd`).length
            const first = yield* start(driver, exec("sleep", ["300"]), { merged: true })
            const [kept, ours] = [of(keeper.pid), openDescriptors()]
            const jobs = yield* Effect.forEach(
              Array.from({ length: 20 }),
              () => start(driver, exec("sleep", ["300"]), { merged: true })
            )
            assert.lengthOf(jobs, 20)
            yield* lookAt(driver, first.root)
            assert.isAtMost(of(keeper.pid), kept + 2)
            assert.isAtMost(openDescriptors(), ours + 20 + 2)
          })
        ),
      20_000
    )

    it.live("hands its children neither its channels nor its ignored signals, nor its marker", () =>
      withKeeper((driver, _, keeper) =>
        Effect.gen(function*() {
          const script = "grep SigIgn /proc/self/status; env | grep -c PROCYON_MARK_; exec ls -l /proc/self/fd"
          const job = yield* start(driver, shell(script), { merged: true })
          yield* job.exit
          assert.match(job.out.text, /^SigIgn:\s+0{16}\n1\n/)
          assert.include(job.out.text, "0 -> ")
          for (const fd of [3, 4]) {
            const channel = fs.readlinkSync(`/proc/${keeper.pid}/fd/${fd}`)
            assert.match(channel, /^socket:/)
            assert.notInclude(job.out.text, channel)
          }
        })
      ))

    it.live("gives a child the environment and the working directory of the application as they are now", () =>
      withKeeper((driver) =>
        Effect.scoped(Effect.gen(function*() {
          const inside = fs.realpathSync(yield* directory)
          process.env["PROCYON_TEST_NOW"] = "now"
          yield* Effect.addFinalizer(() => Effect.sync(() => void delete process.env["PROCYON_TEST_NOW"]))
          fs.writeFileSync(path.join(inside, "here"), "#!/bin/sh\necho here $PROCYON_TEST_NOW; pwd\n", { mode: 0o755 })
          const job = yield* start(driver, exec("./here", [], { cwd: path.relative(".", inside) }))
          yield* job.exit
          assert.strictEqual(job.out.text, `here now\n${inside}\n`)
          const plain = yield* start(driver, exec("pwd"))
          yield* plain.exit
          assert.strictEqual(plain.out.text, `${process.cwd()}\n`)
        }))
      ))

    it("has no Effect in it", () => {
      const seen = new Set<string>()
      const visit = (file: string): void => {
        if (seen.has(file)) return
        seen.add(file)
        const text = fs.readFileSync(file, "utf8")
        for (const [statement, from = ""] of text.matchAll(/^(?:import|export)\b[^"]*?from "([^"]+)"/gm)) {
          if (statement.startsWith("import type") || statement.startsWith("export type")) continue
          if (from.startsWith("node:")) continue
          const found = from.startsWith(".")
            ? path.resolve(path.dirname(file), from)
            : fileURLToPath(import.meta.resolve(from))
          assert.notInclude(found, "node_modules", `${file} imports ${from}`)
          visit(found)
        }
      }
      visit(path.join(sources, "procyonKeeper.ts"))
      assert.isAbove(seen.size, 8)
    })
  })

  /** Still long for a keeper that is only slow. */
  const impatient: NodeKeeperDriver.Options = { silenceMillis: 2_000 }

  for (const [how, signal] of [["is killed", "SIGKILL"], ["is stopped", "SIGSTOP"]] as const) {
    describe(`a keeper that ${how}`, () => {
      it.live(
        "is told of and replaced: children live on, can be ended, and new ones start",
        () =>
          withKeeper((driver, lost, keeper) =>
            Effect.gen(function*() {
              const waits = yield* start(driver, shell("echo before; read -r line; echo after", { stdin: "open" }))
              const ends = yield* start(driver, exec("sleep", ["300"]))
              const stubborn = yield* start(driver, shell("setsid sleep 300 & trap '' TERM; echo ready; wait"))
              yield* until("it is up", () => stubborn.out.text.includes("ready"))
              process.kill(keeper.pid, signal)
              // Dead while nobody is there to collect its exit.
              process.kill(ends.root.pid, "SIGKILL")
              assert.deepStrictEqual(yield* lostOne(lost), { children: 3, restarted: true })
              assert.isFalse(isLiving(keeper))
              assert.deepStrictEqual(yield* ends.exit, { code: null, signal: null })
              // The output still flows both ways, and an exit is noticed though nobody can tell its code.
              yield* waits.child.write(new TextEncoder().encode("go\n"))
              assert.deepStrictEqual(yield* waits.exit, { code: null, signal: null })
              assert.strictEqual(waits.out.text, "before\nafter\n")
              assert.lengthOf((yield* stubborn.look).members, 2)
              yield* endTree(driver, stubborn.root)
              assert.deepStrictEqual(yield* stubborn.exit, { code: null, signal: null })
              const next = yield* start(driver, shell("exit 7"))
              assert.deepStrictEqual(yield* next.exit, { code: 7, signal: null })
            }), impatient),
        30_000
      )

      it.live(
        "answers what it was asked through the next one, and leaves no process of a start it did not answer",
        () =>
          withKeeper((driver, lost, keeper) =>
            Effect.gen(function*() {
              const tag = yield* newTag
              const job = yield* start(driver, exec("sleep", ["300"]))
              process.kill(keeper.pid, "SIGSTOP")
              yield* until("the keeper is stopped", () => seenAt(keeper.pid)?.state === "T")
              const spawning = Array.from({ length: 5 }, () =>
                Effect.result(driver.spawn({
                  command: exec("sleep", [`300.${tag}`]),
                  marker: newMarker(),
                  stdout: new Arena(),
                  stderr: "merged",
                  onExit: () => {}
                })))
              const [looks, results] = yield* Effect.all([
                driver.look([job.root]),
                Effect.all(spawning, { concurrency: "unbounded" }),
                Effect.sync(() => {
                  if (signal === "SIGKILL") process.kill(keeper.pid, signal)
                })
              ], { concurrency: "unbounded" })
              assert.deepStrictEqual(looks.map(({ members }) => members.length), [1])
              assert.deepStrictEqual(
                results.map((result) => Result.isFailure(result) ? result.failure.problem : "started"),
                Array.from(spawning, () => "OutcomeUnknown")
              )
              assert.lengthOf(lost, 1)
              assert.deepStrictEqual(living(tag), [])
            }), impatient),
        30_000
      )
    })
  }

  it.live(
    "looks and signals by itself when no other keeper can be had, and starts nothing",
    () =>
      withKeeper((driver, lost, keeper) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("setsid sleep 300 & echo ready; wait"))
          yield* until("it is up", () => job.out.text.includes("ready"))
          yield* withoutNode
          process.kill(keeper.pid, "SIGKILL")
          assert.deepStrictEqual(yield* lostOne(lost), { children: 1, restarted: false })
          const command = exec("true")
          const spawn = driver.spawn({
            command,
            marker: newMarker(),
            stdout: job.err,
            stderr: "merged",
            onExit: () => {}
          })
          const refused = yield* Effect.result(spawn)
          assert.strictEqual(Result.isFailure(refused) ? refused.failure.problem : "started", "Other")
          assert.lengthOf((yield* job.look).members, 2)
          yield* endTree(driver, job.root)
          assert.deepStrictEqual(yield* job.exit, { code: null, signal: null })
        })
      ),
    30_000
  )

  it.live("cannot be had where Node cannot be started, and is then done without", () =>
    Effect.scoped(Effect.gen(function*() {
      yield* withoutNode
      const refused = yield* Effect.result(NodeKeeperDriver.make())
      assert.isTrue(Result.isFailure(refused))
      const driver = Context.get(yield* Layer.build(NodeKeeperDriver.layerAuto), ProcessDriver.Service)
      const job = yield* start(driver, shell("exit 7"))
      assert.deepStrictEqual(yield* job.exit, { code: 7, signal: null })
    })))

  it.live("tells of an attached leader that ended, and ends one with the application's driver", () =>
    Effect.scoped(Effect.gen(function*() {
      const tag = yield* newTag
      const starter = yield* NodeKeeperDriver.make()
      const [ends, stays] = yield* Effect.all([
        start(starter, exec("sleep", [`300.${tag}`])),
        start(starter, exec("sleep", [`301.${tag}`]))
      ])
      yield* Effect.scoped(Effect.gen(function*() {
        const driver = yield* NodeKeeperDriver.make()
        const exits: Array<unknown> = []
        const attach = (identity: typeof ends.root) =>
          driver.attach({
            identity,
            detached: null,
            stdout: new Arena(),
            stderr: "merged",
            onExit: (exit) => exits.push(exit)
          })
        yield* attach(ends.root)
        yield* attach(stays.root)
        process.kill(ends.root.pid, "SIGKILL")
        yield* until("the exit is told", () => exits.length > 0)
        assert.deepStrictEqual(exits, [{ code: null, signal: null }])
      }))
      assert.deepStrictEqual(yield* stays.exit, { code: null, signal: "SIGTERM" })
    })))
})
