import { assert, describe, it } from "@effect/vitest"
import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import { type Identity, unborn } from "@procyon/runtime/domain/Identity"
import type { Exit } from "@procyon/runtime/domain/Status"
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { Arena, endTree, exec, lookAt, newMarker, openDescriptors, shell, start, until } from "./internal/bench.ts"
import { temporaryDirectory } from "./support/directory.ts"
import { live, living, newTag } from "./support/processes.ts"

const isRoot = process.getuid?.() === 0

const application = fileURLToPath(new URL("programs/detached.ts", import.meta.url))
const watcher = fileURLToPath(new URL("../src/internal/detached/watcher.ts", import.meta.url))

const unknown: Exit = { code: null, signal: null }

type Terms = Partial<Omit<ProcessDriver.Detached, "name">>

const detachedAs = (name: string, terms: Terms = {}): ProcessDriver.Detached => ({
  name,
  deadlineAt: null,
  capBytes: 0,
  graceMillis: 0,
  ...terms
})

interface Told {
  readonly child: ProcessDriver.Child
  readonly root: Identity
  readonly out: Arena
  readonly err: Arena
  readonly exits: ReadonlyArray<readonly [Exit, ProcessDriver.EndedBy | undefined]>
  readonly exit: Effect.Effect<Exit>
}

/** A driver, its files, and what a test does with both. */
interface Bench {
  readonly driver: ProcessDriver.ProcessDriver
  readonly directory: string
  readonly start: (
    name: string,
    command: CommandSpec,
    terms?: Terms
  ) => Effect.Effect<Told, ProcessDriver.SpawnFailed, Scope.Scope>
  readonly attach: (identity: Identity, name: string) => Effect.Effect<Told, never, Scope.Scope>
  readonly completion: (name: string) => unknown
}

const benchOf = (driver: ProcessDriver.ProcessDriver, directory: string): Bench => {
  const listen = () => {
    const exits: Array<readonly [Exit, ProcessDriver.EndedBy | undefined]> = []
    const onExit = (exit: Exit, by?: ProcessDriver.EndedBy): void => void exits.push([exit, by])
    const exit = Effect.map(until("the exit is told", () => exits[0]), ([exit]) => exit)
    return { out: new Arena(), err: new Arena(), exits, exit, onExit }
  }
  return {
    driver,
    directory,
    start: (name, command, terms) =>
      Effect.gen(function*() {
        const told = listen()
        const child = yield* Effect.acquireRelease(
          driver.spawn({
            command,
            marker: newMarker(),
            stdout: told.out,
            stderr: told.err,
            onExit: told.onExit,
            detached: detachedAs(name, terms)
          }),
          (child) => Effect.andThen(endTree(driver, child.identity), child.release)
        )
        return { ...told, child, root: child.identity }
      }),
    attach: (identity, detached) =>
      Effect.gen(function*() {
        const told = listen()
        const child = yield* Effect.acquireRelease(
          driver.attach({ identity, detached, stdout: told.out, stderr: told.err, onExit: told.onExit }),
          (child) => child.release
        )
        return { ...told, child, root: identity }
      }),
    completion: (name) => {
      const file = path.join(directory, name, "exit.json")
      return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : null
    }
  }
}

const withBench = <E>(body: (bench: Bench) => Effect.Effect<void, E, Scope.Scope>): Effect.Effect<void, E> =>
  Effect.scoped(Effect.gen(function*() {
    const directory = path.join(yield* temporaryDirectory, "detached")
    const driver = yield* NodeProcessDriver.makeWith({ detached: directory })
    yield* body(benchOf(driver, directory))
  }))

/** Runs an application that starts one detached process; ends both with the scope. */
const runApplication = (
  { directory, driver }: Bench,
  script: string,
  as: ProcessDriver.Detached,
  then: "leave" | "stay"
) =>
  Effect.gen(function*() {
    let said = ""
    const running = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [application, directory, script, JSON.stringify(as), then], {
          stdio: ["ignore", "pipe", "inherit"]
        })
      ),
      (running) =>
        Effect.promise(async () => {
          if (running.exitCode !== null || running.signalCode !== null) return
          running.kill("SIGKILL")
          await once(running, "exit")
        })
    )
    running.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text
    })
    const line = yield* until("the application says who it started", () => said.includes("\n") && said)
    const root: Identity = JSON.parse(line)
    yield* Effect.addFinalizer(() => endTree(driver, root))
    return { running, root }
  })

const exitOf = (running: ChildProcess) =>
  until("the application has ended", () => running.exitCode ?? running.signalCode)

const killed = (running: ChildProcess) =>
  Effect.suspend(() => {
    running.kill("SIGKILL")
    return exitOf(running)
  })

/** Waits for a file, then goes on. */
const waitsFor = (file: string): string => `while [ ! -e '${file}' ]; do sleep 0.05; done`

describe("a detached process", () => {
  it.live("survives SIGKILL of the application, and is found with all its output and its exit", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const go = `${bench.directory}-go`
        const script = `echo one; ${waitsFor(go)}; echo two; exit 5`
        const { root, running } = yield* runApplication(bench, script, detachedAs("job"), "stay")
        assert.strictEqual(yield* killed(running), "SIGKILL")
        assert.strictEqual(yield* bench.driver.probe(root), "alive")
        const attached = yield* bench.attach(root, "job")
        yield* until("what was written before", () => attached.out.text === "one\n")
        assert.deepStrictEqual((yield* lookAt(bench.driver, root)).leader, "alive")
        fs.writeFileSync(go, "")
        assert.deepStrictEqual(yield* attached.exit, { code: 5, signal: null })
        assert.strictEqual(attached.out.text, "one\ntwo\n")
      })
    ))

  it.live("lets the application end by itself while it runs", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const { root, running } = yield* runApplication(bench, "exec sleep 300", detachedAs("job"), "leave")
        assert.strictEqual(yield* exitOf(running), 0)
        assert.strictEqual(yield* bench.driver.probe(root), "alive")
      })
    ))

  it.live("of an application killed before it recorded who was started is found by its marker", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const { root, running } = yield* runApplication(bench, "exec sleep 300", detachedAs("job"), "stay")
        yield* killed(running)
        const nobody = unborn(root.bootId, root.marker)
        const attached = yield* bench.attach(nobody, "job")
        const { members } = yield* lookAt(bench.driver, nobody)
        assert.include(members.map((member) => member.pid), root.pid)
        assert.deepStrictEqual(attached.exits, [])
        yield* endTree(bench.driver, nobody)
        yield* attached.exit
        assert.lengthOf(attached.exits, 1)
      })
    ))

  it.live("has its deadline enforced with no application alive", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const terms = { deadlineAt: Date.now() + 1000, graceMillis: 5000 }
        const { root, running } = yield* runApplication(bench, "exec sleep 300", detachedAs("job", terms), "stay")
        yield* killed(running)
        const completion = yield* until("the completion", () => bench.completion("job"))
        assert.deepInclude(completion, { code: null, signal: "SIGTERM", ended: "deadline" })
        const attached = yield* bench.attach(root, "job")
        assert.deepStrictEqual(yield* attached.exit, { code: null, signal: "SIGTERM" })
        assert.strictEqual(attached.exits[0]?.[1], "deadline")
      })
    ))

  it.live("has its byte cap enforced with no application alive, also against those that ignore TERM or have left", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const script = "trap '' TERM; setsid sleep 300 & yes | head -c 5000000; while :; do sleep 300; done"
        const terms = { capBytes: 1_000_000, graceMillis: 200 }
        const { root, running } = yield* runApplication(bench, script, detachedAs("job", terms), "stay")
        yield* killed(running)
        const completion = yield* until("the completion", () => bench.completion("job"))
        assert.deepInclude(completion, { code: null, signal: "SIGKILL", ended: "cap" })
        const attached = yield* bench.attach(root, "job")
        assert.deepStrictEqual(yield* attached.exit, { code: null, signal: "SIGKILL" })
        assert.strictEqual(attached.exits[0]?.[1], "cap")
        yield* until("the leader is gone", () => !fs.existsSync(`/proc/${root.pid}`))
        assert.deepStrictEqual((yield* lookAt(bench.driver, root)).members, [])
      })
    ))

  it.live("that is polite when it is ended is not killed, and its own exit is told with the reason", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const script = "trap 'exit 3' TERM; echo 0123456789; while :; do sleep 0.05; done"
        const started = yield* bench.start("job", shell(script), { capBytes: 10, graceMillis: 60_000 })
        assert.deepStrictEqual(yield* started.exit, { code: 3, signal: null })
        assert.deepStrictEqual([started.exits[0]?.[1], started.out.text], ["cap", "0123456789\n"])
      })
    ))

  it.live("with a deadline beyond what a timer holds runs to its end", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const deadlineAt = Date.now() + 2 ** 33
        const started = yield* bench.start("job", shell("sleep 0.2; exit 3"), { deadlineAt })
        assert.deepStrictEqual(yield* started.exit, { code: 3, signal: null })
        assert.deepInclude(bench.completion("job"), { code: 3, signal: null, ended: null })
      })
    ))

  it.live("whose leader was killed has an unknown exit, and its tree is still found and ended", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const started = yield* bench.start("job", shell("sleep 300 & echo ready; wait"))
        const attached = yield* bench.attach(started.root, "job")
        yield* until("it is ready", () => started.out.text.includes("ready"))
        process.kill(started.root.pid, "SIGKILL")
        assert.deepStrictEqual(yield* started.exit, unknown)
        const look = yield* lookAt(bench.driver, started.root)
        assert.deepStrictEqual([look.leader, look.members.length], ["gone", 2])
        assert.deepStrictEqual(yield* attached.exit, unknown)
        yield* endTree(bench.driver, started.root)
        assert.isNull(bench.completion("job"))
      })
    ))

  it.live("keeps its leader whatever signal its tree is sent, and tells the command's own end", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const script =
          "trap 'exit 9' USR2; trap '' TERM INT HUP QUIT USR1 ALRM; echo ready; while :; do sleep 0.05; done"
        const started = yield* bench.start("job", shell(script))
        yield* until("it is ready", () => started.out.text.includes("ready"))
        for (const signal of ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGALRM"]) {
          process.kill(started.root.pid, signal)
        }
        process.kill(-started.root.pid, "SIGUSR2")
        assert.deepStrictEqual(yield* started.exit, { code: 9, signal: null })
      })
    ))

  it.live("with a completion that is torn or foreign has an unknown exit", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const texts = ["", "{\"code\":0", "[]", "null", "{\"code\":null,\"signal\":null,\"at\":0}", "{\"code\":\"0\"}"]
        for (const [index, text] of texts.entries()) {
          const name = `job-${index}`
          const started = yield* bench.start(name, exec("true"))
          yield* started.exit
          yield* started.child.release
          fs.writeFileSync(path.join(bench.directory, name, "exit.json"), text)
          const attached = yield* bench.attach(started.root, name)
          yield* lookAt(bench.driver, started.root)
          assert.deepStrictEqual(yield* attached.exit, unknown)
        }
      })
    ))

  it.live("has a completion file that is whole from its first moment on", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        for (let round = 0; round < 5; round++) {
          const seen: Array<unknown> = []
          const name = `job-${round}`
          const go = `${bench.directory}-go-${round}`
          const started = yield* bench.start(name, shell(`${waitsFor(go)}; exit 4`))
          // Told of each change of the directory, and read in that moment.
          const watch = fs.watch(path.join(bench.directory, name), () => {
            const file = path.join(bench.directory, name, "exit.json")
            if (fs.existsSync(file)) seen.push(JSON.parse(fs.readFileSync(file, "utf8")))
          })
          fs.writeFileSync(go, "")
          yield* started.exit
          yield* until("the completion was seen", () => seen.length > 0)
          watch.close()
          for (const one of seen) assert.deepInclude(one, { code: 4, signal: null, ended: null })
        }
      })
    ))

  live("that has filled the disk has its exit all the same", ["root", "mounts"], () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      yield* Effect.acquireRelease(
        Effect.sync(() =>
          assert.strictEqual(spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "none", directory]).status, 0)
        ),
        () => Effect.sync(() => spawnSync("umount", ["-l", directory]))
      )
      const driver = yield* NodeProcessDriver.makeWith({ detached: path.join(directory, "detached") })
      const bench = benchOf(driver, path.join(directory, "detached"))
      const filler = yield* bench.start("filler", shell("cat /dev/zero; exit 7"))
      assert.deepStrictEqual(yield* filler.exit, { code: 7, signal: null })
      assert.strictEqual(fs.statfsSync(directory).bavail, 0)
    }))

  it.live("shows nothing of its command in its leader's arguments, environment or files", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const canary = "canary-7b1f"
        const command = shell(": $SECRET; exec sleep 300 # argument", {
          env: { SECRET: Redacted.make(`${canary}-env`) }
        })
        const { root } = yield* bench.start("job", {
          ...command,
          program: { _tag: "Exec", command: "/bin/sh", args: ["-c", "exec sleep 300", Redacted.make(`${canary}-arg`)] }
        })
        const read = (file: string): string => fs.readFileSync(file, "latin1")
        assert.notInclude(read(`/proc/${root.pid}/cmdline`), canary)
        const environment = read(`/proc/${root.pid}/environ`).split("\0").filter((entry) => entry !== "")
        assert.deepStrictEqual(environment.filter((entry) => !entry.startsWith("LD_LIBRARY_PATH=")), [
          `${root.marker}=1`
        ])
        for (const file of fs.readdirSync(bench.directory, { recursive: true, encoding: "utf8" })) {
          assert.notInclude(file, canary)
          const full = path.join(bench.directory, file)
          if (fs.statSync(full).isFile()) assert.notInclude(read(full), canary)
        }
        // The channel it was told over is closed.
        const open = spawnSync("ls", ["-l", `/proc/${root.pid}/fd`], { encoding: "utf8" }).stdout
        assert.include(open, "/dev/null")
        assert.notInclude(open, "socket:")
      })
    ))

  it.live("runs its command as one that is started directly: environment, signals, descriptors, directory, mask", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const script =
          "env -0 | tr '\\0' '\\n' | sort; grep ^Sig[^Q] /proc/self/status; ls /proc/self/fd; pwd; umask; ulimit -a"
        const command = shell(script, {
          inheritEnv: ["PATH", "HOME"],
          env: { MORE: "one\ntwo" },
          cwd: bench.directory
        })
        fs.mkdirSync(bench.directory, { mode: 0o700 })
        const direct = yield* start(bench.driver, command)
        yield* direct.exit
        const started = yield* bench.start("job", command)
        yield* started.exit
        const comparable = (text: string): string => text.replaceAll(/^PROCYON_MARK_\w+=1\n/gm, "")
        assert.strictEqual(comparable(started.out.text), comparable(direct.out.text))
        assert.include(started.out.text, `${started.root.marker}=1`)
        assert.deepStrictEqual([started.err.text, direct.err.text], ["", ""])
      })
    ))

  it.live("has an empty stdin", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const started = yield* bench.start("job", exec("cat", [], { stdin: "open" }))
        assert.strictEqual(yield* started.child.write(new Uint8Array(1)), 0)
        assert.deepStrictEqual(yield* started.exit, { code: 0, signal: null })
        assert.strictEqual(started.out.text, "")
      })
    ))
})

describe("its files", () => {
  const modeOf = (file: string): number => fs.statSync(file).mode & 0o777

  it.live("can be read by their owner alone", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        yield* (yield* bench.start("job", shell("echo hi"))).exit
        assert.strictEqual(modeOf(bench.directory), 0o700)
        assert.strictEqual(modeOf(path.join(bench.directory, "job")), 0o700)
        const files = fs.readdirSync(path.join(bench.directory, "job")).toSorted()
        assert.deepStrictEqual(files, ["err", "exit.json", "out"])
        for (const file of files) assert.strictEqual(modeOf(path.join(bench.directory, "job", file)), 0o600)
      })
    ))

  it.live("are not made, nor believed, where others may write", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const before = yield* bench.start("before", shell("echo hi"))
        yield* before.exit
        fs.chmodSync(bench.directory, 0o777)
        const failed = yield* Effect.flip(Effect.scoped(bench.start("job", exec("true"))))
        assert.deepStrictEqual([failed.problem, failed.code], ["Other", "EPERM"])
        assert.isNull(yield* bench.driver.detachedFiles?.read("before", "stdout", 0, 10) ?? Effect.succeed(null))
        const attached = yield* bench.attach(before.root, "before")
        yield* lookAt(bench.driver, before.root)
        assert.deepStrictEqual([yield* attached.exit, attached.out.bytes, attached.out.ends], [unknown, 0, 1])
        assert.deepStrictEqual(fs.readdirSync(bench.directory), ["before"])
        fs.chmodSync(bench.directory, 0o700)
      })
    ))

  it.live.skipIf(!isRoot)(
    `are not made where somebody else owns the directory${isRoot ? "" : " (skipped: not root)"}`,
    () =>
      withBench((bench) =>
        Effect.gen(function*() {
          fs.mkdirSync(bench.directory, { mode: 0o700 })
          fs.chownSync(bench.directory, 12_345, 12_345)
          const failed = yield* Effect.flip(Effect.scoped(bench.start("job", exec("true"))))
          assert.deepStrictEqual([failed.problem, failed.code], ["Other", "EPERM"])
        })
      )
  )

  it.live("are named by nothing that leads elsewhere", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const files = bench.driver.detachedFiles ?? assert.fail("no files")
        const outside = `${bench.directory}-outside`
        fs.mkdirSync(bench.directory, { mode: 0o700 })
        fs.mkdirSync(outside, { mode: 0o700 })
        fs.writeFileSync(path.join(outside, "out"), "secret")
        fs.symlinkSync(outside, path.join(bench.directory, "link"))
        for (const name of ["../detached-outside", "..", ".", "", "a/b", "link"]) {
          assert.isNull(yield* files.read(name, "stdout", 0, 10))
          const failed = yield* Effect.flip(Effect.scoped(bench.start(name, exec("true"))))
          assert.strictEqual(failed.problem, "Other")
        }
        assert.isFalse(yield* files.remove("link"))
        assert.isTrue(yield* files.remove("../detached-outside"))
        assert.strictEqual(fs.readFileSync(path.join(outside, "out"), "utf8"), "secret")
      })
    ))

  it.live("that are links are not followed", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const started = yield* bench.start("job", shell("echo hi"))
        yield* started.exit
        const out = path.join(bench.directory, "job", "out")
        const secret = `${bench.directory}-secret`
        fs.writeFileSync(secret, "secret")
        fs.rmSync(out)
        fs.symlinkSync(secret, out)
        const attached = yield* bench.attach(started.root, "job")
        yield* attached.exit
        assert.deepStrictEqual([attached.out.bytes, attached.out.ends], [0, 1])
        assert.isTrue(yield* bench.driver.detachedFiles?.remove("job") ?? Effect.succeed(false))
        assert.strictEqual(fs.readFileSync(secret, "utf8"), "secret")
      })
    ))
})

describe("a driver", () => {
  it.live("that was given no directory says so, and starts nothing detached", () =>
    Effect.gen(function*() {
      const driver = yield* NodeProcessDriver.make
      assert.deepStrictEqual([driver.capabilities.detached, driver.detachedFiles], [false, null])
      const failed = yield* Effect.flip(Effect.scoped(benchOf(driver, "").start("job", exec("true"))))
      assert.deepStrictEqual([failed.problem, failed.code], ["Other", "ENOTSUP"])
    }).pipe(Effect.scoped))

  it.live("that is closed touches no process, and another finds it", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const root = yield* Effect.scoped(Effect.gen(function*() {
          const driver = yield* NodeProcessDriver.makeWith({ detached: bench.directory })
          const out = new Arena()
          const { identity } = yield* driver.spawn({
            command: shell("echo one; while :; do sleep 0.05; done"),
            marker: newMarker(),
            stdout: out,
            stderr: "merged",
            onExit: () => undefined,
            detached: detachedAs("job")
          })
          yield* until("its output", () => out.text === "one\n")
          return identity
        }))
        yield* Effect.addFinalizer(() => endTree(bench.driver, root))
        assert.strictEqual(yield* bench.driver.probe(root), "alive")
        const attached = yield* bench.attach(root, "job")
        yield* until("its output", () => attached.out.text === "one\n")
      })
    ))

  it.live("holds a descriptor for each file while one is followed, and none afterwards", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const once = Effect.scoped(Effect.gen(function*() {
          const started = yield* bench.start(newMarker(), exec("sleep", ["300"]))
          yield* until("the channel is closed", () => openDescriptors() <= before + 2)
          return started.root
        }))
        let before = Infinity
        yield* once
        before = openDescriptors()
        yield* once
        yield* until("the descriptors are closed", () => openDescriptors() <= before)
      })
    ))

  it.live("leaves no descriptor and no file of a start that failed", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        yield* Effect.flip(Effect.scoped(bench.start("warm", exec("procyon-no-such-command"))))
        const before = openDescriptors()
        for (let round = 0; round < 5; round++) {
          const failed = yield* Effect.flip(Effect.scoped(bench.start("job", exec("procyon-no-such-command"))))
          assert.deepStrictEqual([failed.problem, failed.code], ["CommandNotFound", "ENOENT"])
        }
        yield* until("the descriptors are closed", () => openDescriptors() <= before)
        assert.deepStrictEqual(fs.readdirSync(bench.directory), [])
      })
    ))
})

describe("a leader", () => {
  it.live("that is lost before it has answered leaves nobody and no file, and the start says that it cannot be told", () =>
    withBench((bench) =>
      Effect.gen(function*() {
        const tag = yield* newTag
        const program = `${bench.directory}-lost`
        // It is told its order, starts the command as a part of its tree, and never says so.
        fs.writeFileSync(program, `#!/bin/sh\ncat <&3 >/dev/null\nexec 3<&-\nsleep 300.${tag} &\nkill -KILL $$\n`, {
          mode: 0o700
        })
        const { execPath } = process
        yield* Effect.acquireRelease(
          Effect.sync(() => {
            process.execPath = program
          }),
          () =>
            Effect.sync(() => {
              process.execPath = execPath
            })
        )
        const failed = yield* Effect.flip(bench.start("job", exec("true")))
        assert.strictEqual(failed.problem, "OutcomeUnknown")
        assert.deepStrictEqual(living(tag), [])
        assert.deepStrictEqual(fs.readdirSync(bench.directory), [])
      })
    ))

  it.live("that was not told all of its order starts nothing", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const made = path.join(directory, "made")
      const order = JSON.stringify({ file: "touch", args: [made], env: {}, directory, out: made, err: null })
      const running = spawn(process.execPath, [watcher], { stdio: ["ignore", "ignore", "ignore", "pipe"] })
      const line = running.stdio[3]
      if (line === null || line === undefined || !("write" in line)) return assert.fail("no channel")
      line.end(order.slice(0, -1))
      assert.notStrictEqual(yield* exitOf(running), 0)
      assert.isFalse(fs.existsSync(made))
    }).pipe(Effect.scoped))
})
