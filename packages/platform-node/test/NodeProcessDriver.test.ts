import { assert, describe, it } from "@effect/vitest"
import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import {
  Arena,
  endTree,
  exec,
  lookAt,
  newMarker,
  openDescriptors,
  sha256,
  shell,
  start,
  until,
  withDriver
} from "./internal/bench.ts"

const isRoot = process.getuid?.() === 0

const sameCommand = exec("seq", ["1", "20000"])
const sameOutput = execFileSync("seq", ["1", "20000"])

const hasPython = spawnSync("python3", ["--version"]).status === 0

// In a session of its own, its parents gone. Tells its pid when its first thread is about to end.
const threadedDaemon = `
import ctypes, os, sys, threading, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.dup2(os.open("/dev/null", os.O_RDWR), 1)
os.dup2(1, 2)
threading.Thread(target=time.sleep, args=(300,)).start()
with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
ctypes.CDLL(None).pthread_exit(None)
`

const turn = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "procyon-test-"))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
)

/** Sets a variable of this process until the scope is closed. */
const withVariable = (name: string, value: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = process.env[name]
      process.env[name] = value
      return before
    }),
    (before) =>
      Effect.sync(() => {
        if (before === undefined) delete process.env[name]
        else process.env[name] = before
      })
  )

describe("NodeProcessDriver", () => {
  describe("output", () => {
    it.live(
      "has read all that the leader wrote when it tells the exit, a hundred times",
      () =>
        withDriver((driver) =>
          Effect.gen(function*() {
            for (let round = 0; round < 10; round++) {
              yield* Effect.scoped(Effect.gen(function*() {
                const digests: Array<string> = []
                const jobs = yield* Effect.forEach(Array.from({ length: 10 }), () => {
                  const out = new Arena()
                  return start(driver, sameCommand, { out, merged: true, onExit: () => digests.push(out.sha256) })
                }, { concurrency: "unbounded" })
                yield* Effect.forEach(jobs, (job) => job.exit)
                assert.deepStrictEqual(digests, Array.from({ length: 10 }, () => sha256(sameOutput)))
              }))
            }
          })
        ),
      30_000
    )

    it.live("keeps the order of both streams when they are merged", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
          const job = yield* start(driver, shell(script), { merged: true })
          yield* job.exit
          const lines = Array.from({ length: 200 }, (_, index) => `o${index}\ne${index}\n`)
          assert.strictEqual(job.out.text, lines.join(""))
        })
      ))

    it.live("keeps both streams apart when they are not", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("echo out; echo err >&2"))
          yield* job.exit
          assert.strictEqual(job.out.text, "out\n")
          assert.strictEqual(job.err.text, "err\n")
        })
      ))

    it.live("lets a child open its output again by name", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("echo one >/dev/stdout; echo two >/dev/stderr"), { merged: true })
          assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
          assert.strictEqual(job.out.text, "one\ntwo\n")
        })
      ))

    it.live("tells the exit of a leader whose output a grandchild goes on writing to, and loses nothing of either", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const file = path.join(yield* temporary, "go")
          const script =
            `(while [ ! -e ${file} ]; do sleep 0.01; done; i=0; while [ $i -lt 3000 ]; do echo later$i; i=$((i+1)); done) & ` +
            "i=0; while [ $i -lt 3000 ]; do echo first$i; i=$((i+1)); done"
          const first = Array.from({ length: 3000 }, (_, index) => `first${index}\n`).join("")
          const later = Array.from({ length: 3000 }, (_, index) => `later${index}\n`).join("")
          let atExit = ""
          const out = new Arena({ regionBytes: 4096 })
          const job = yield* start(driver, shell(script), { merged: true, out, onExit: () => (atExit = out.sha256) })
          yield* job.exit
          assert.strictEqual(atExit, sha256(first))
          fs.writeFileSync(file, "")
          yield* until("the output ends", () => out.ends > 0)
          assert.strictEqual(out.sha256, sha256(first + later))
        })
      ))

    it.live("holds a child back while its sink says stop, and lets it go on after a resume", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const out = new Arena()
          out.pauseAt = 1
          const job = yield* start(driver, exec("head", ["-c", "300000", "/dev/zero"]), { out })
          yield* until("something came", () => out.bytes > 0)
          for (let turns = 0; turns < 20; turns++) yield* turn
          assert.isAtMost(out.bytes, 64 * 1024)
          assert.strictEqual(job.exits.length, 0)
          out.pauseAt = Infinity
          job.child.resume("stdout")
          assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
          assert.strictEqual(out.bytes, 300_000)
        })
      ))

    it.live("goes on with pipes of Node's when no FIFO can be made", () =>
      Effect.scoped(Effect.gen(function*() {
        yield* withVariable("PATH", "/nonexistent")
        yield* withDriver((driver) =>
          Effect.gen(function*() {
            let atExit = ""
            const out = new Arena()
            const command = exec("/usr/bin/seq", ["1", "20000"])
            const job = yield* start(driver, command, { out, onExit: () => (atExit = out.sha256) })
            assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
            assert.strictEqual(atExit, sha256(sameOutput))
            const cat = yield* start(driver, exec("/bin/cat", [], { stdin: "open" }), { merged: true })
            assert.strictEqual(yield* cat.child.write(Buffer.from("hello")), 5)
            yield* cat.child.closeStdin()
            yield* cat.exit
            assert.strictEqual(cat.out.text, "hello")
          })
        )
      })))
  })

  describe("stdin", () => {
    it.live("is at its end at once when nothing is to be written", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("cat"))
          assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
          assert.strictEqual(yield* job.child.write(Buffer.from("x")), 0)
          yield* job.child.closeStdin()
        })
      ))

    it.live("passes every byte on, in order, and counts them", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const bytes = Buffer.alloc(3_000_000, "0123456789abcdef\n")
          const job = yield* start(driver, exec("sha256sum", [], { stdin: "open" }))
          const counts = yield* Effect.all([
            job.child.write(bytes.subarray(0, 1_000_001)),
            job.child.write(bytes.subarray(1_000_001, 1_000_002)),
            job.child.write(bytes.subarray(1_000_002))
          ], { concurrency: "unbounded" })
          assert.deepStrictEqual(counts, [1_000_001, 1, 1_999_998])
          yield* job.child.closeStdin()
          yield* job.exit
          assert.strictEqual(job.out.text.slice(0, 64), sha256(bytes))
        })
      ))

    it.live("is at its end also for who opens it by name when it is closed, and gives what was written before", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const before = openDescriptors()
          const go = path.join(yield* temporary, "go")
          const script = `while [ ! -e ${go} ]; do sleep 0.01; done; cat /dev/stdin`
          for (const text of ["hello", ""]) {
            const job = yield* start(driver, shell(script, { stdin: "open" }), { merged: true })
            assert.strictEqual(yield* job.child.write(Buffer.from(text)), text.length)
            yield* job.child.closeStdin({ now: text === "" })
            fs.writeFileSync(go, "")
            assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
            assert.strictEqual(job.out.text, text)
            fs.rmSync(go)
          }
          yield* until("the descriptors are closed", () => openDescriptors() === before)
        })
      ))

    it.live("answers with fewer bytes than given when the child has gone, and harms nobody", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("true", [], { stdin: "open" }))
          const accepted = yield* job.child.write(new Uint8Array(1024 * 1024))
          assert.isBelow(accepted, 1024 * 1024)
          assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
          assert.strictEqual(yield* job.child.write(new Uint8Array(1)), 0)
        })
      ))

    it.live("lets a write that waits for a child know that it has gone", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("sleep", ["300"], { stdin: "open" }))
          const writing = yield* Effect.forkChild(job.child.write(new Uint8Array(1024 * 1024)), {
            startImmediately: true
          })
          yield* driver.signal(job.root, { members: [], groups: [job.root.pid] }, "SIGKILL")
          assert.isBelow(yield* Fiber.join(writing), 1024 * 1024)
          assert.deepStrictEqual(yield* job.exit, { code: null, signal: "SIGKILL" })
        })
      ))

    it.live("closes at once, and drops what was not taken, when told now", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("read line; wc -c", { stdin: "open" }))
          const writing = yield* Effect.forkChild(job.child.write(Buffer.alloc(1024 * 1024, "x")), {
            startImmediately: true
          })
          yield* job.child.closeStdin({ now: true })
          assert.isBelow(yield* Fiber.join(writing), 1024 * 1024)
          yield* job.exit
        })
      ))
  })

  describe("commands", () => {
    it.live("gives arguments to the program as they are, and to no shell", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const args = ["a; echo pwned", "$(id)", "-rf", "", "two words", "*"]
          const job = yield* start(driver, exec("printf", ["[%s]", ...args]))
          yield* job.exit
          assert.strictEqual(job.out.text, args.map((arg) => `[${arg}]`).join(""))
        })
      ))

    for (const name of ["/bin/sh", "/bin/bash"]) {
      for (const script of ["-foo bar", "+x", "--version"]) {
        it.live(`runs ${script} as a command of ${name}, not as its option`, () =>
          withDriver((driver) =>
            Effect.gen(function*() {
              const job = yield* start(driver, shell(script, {}, name))
              assert.deepStrictEqual(yield* job.exit, { code: 127, signal: null })
              assert.include(job.err.text, "not found")
            })
          ))
      }
    }

    it.live("reveals redacted words to the child alone", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const command = exec(
            "sh",
            ["-c", "echo $0 $SECRET", Redacted.make("an argument")].map((word) => word as string),
            {
              env: { SECRET: Redacted.make("a value") }
            }
          )
          const job = yield* start(driver, command)
          yield* job.exit
          assert.strictEqual(job.out.text, "an argument a value\n")
          const failure = yield* Effect.flip(
            start(driver, exec("/no/such", [], { env: { SECRET: Redacted.make("a value") } }))
          )
          assert.notInclude(JSON.stringify(failure) + String(failure), "a value")
        })
      ))

    it.live("inherits the environment by policy, and sets the marker under each", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const marker = newMarker()
          const environmentUnder = (inheritEnv: "all" | "none" | ReadonlyArray<string>) =>
            Effect.scoped(Effect.gen(function*() {
              const options = { inheritEnv, env: { ADDED: "1", HOME: undefined } }
              const job = yield* start(driver, exec("/usr/bin/env", [], options), { marker })
              yield* job.exit
              return job.out.text.trim().split("\n").map((line) => line.split("=")[0])
            }))
          assert.sameMembers(yield* environmentUnder("none"), ["ADDED", marker])
          assert.sameMembers(yield* environmentUnder(["PATH", "HOME", "NO_SUCH"]), ["ADDED", "PATH", marker])
          const all = yield* environmentUnder("all")
          assert.include(all, "PATH")
          assert.include(all, marker)
          assert.notInclude(all, "HOME")
        })
      ))

    it.live("tells an end by a signal from an exit with a code", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const exitOf = (script: string) =>
            Effect.scoped(Effect.flatMap(start(driver, shell(script)), (job) => job.exit))
          assert.deepStrictEqual(yield* exitOf("kill -9 $$"), { code: null, signal: "SIGKILL" })
          assert.deepStrictEqual(yield* exitOf("kill -SEGV $$"), { code: null, signal: "SIGSEGV" })
          assert.deepStrictEqual(yield* exitOf("sh -c 'kill -9 $$'; exit $?"), { code: 137, signal: null })
        })
      ))
  })

  describe("starting", () => {
    it.live("lets the event loop turn while many starts wait", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          let turns = 0
          let counting = true
          const count = (): void => {
            turns++
            if (counting) setImmediate(count)
          }
          setImmediate(count)
          const jobs = yield* Effect.forEach(
            Array.from({ length: 200 }),
            () => start(driver, exec("true"), { merged: true }),
            {
              concurrency: "unbounded"
            }
          )
          counting = false
          // 200 starts of a millisecond or more, at most 8 ms of them a turn.
          assert.isAbove(turns, 20)
          yield* Effect.forEach(jobs, (job) => job.exit)
        })
      ), 30_000)

    it.live("starts nothing for a start that was interrupted while it waited", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const directory = yield* temporary
          const spawn = (index: number) => {
            const command = shell(`: > ${directory}/${index}; exec sleep 300`)
            const stdout = new Arena()
            return driver.spawn({ command, marker: newMarker(), stdout, stderr: "merged", onExit: () => {} })
          }
          const fibers = yield* Effect.forEach(
            Array.from({ length: 40 }, (_, index) => index),
            (index) => Effect.forkChild(spawn(index), { startImmediately: true })
          )
          // The first one waits for FIFOs to be made, the others for their turn.
          const exits = yield* Effect.forEach(fibers, (fiber) =>
            Effect.andThen(Fiber.interrupt(fiber), Fiber.await(fiber)))
          assert.isTrue(exits.every((exit) =>
            Exit.hasInterrupts(exit)
          ))
          const job = yield* start(driver, exec("true"))
          yield* job.exit
          assert.deepStrictEqual(fs.readdirSync(directory), [])
        })
      ))

    it.live(
      "leaves nothing of a start that is interrupted before it has answered, however far it has got",
      () =>
        withDriver((driver) =>
          Effect.gen(function*() {
            const idle = yield* start(driver, exec("true"))
            yield* idle.exit
            const { bootId, pid, startedAt } = idle.root
            let unanswered = 0
            for (let steps = 0; steps < 20; steps++) {
              const marker = newMarker()
              const answers: Array<ProcessDriver.Child> = []
              const command = shell("setsid sleep 300 & exec sleep 300")
              const spawning = driver.spawn({
                command,
                marker,
                stdout: new Arena(),
                stderr: "merged",
                onExit: () => {}
              })
              // Without a turn in between, the process is there and its answer is not.
              const fiber = yield* Effect.uninterruptibleMask((restore) =>
                Effect.map(restore(spawning), (child) => answers.push(child))
              ).pipe(Effect.forkChild({ startImmediately: true }))
              for (let left = steps; left > 0; left--) yield* Effect.yieldNow
              yield* Fiber.interrupt(fiber)
              // Found by the marker alone: this leader's own number was never heard of.
              const root = { pid, startedAt, bootId, marker }
              const { members } = yield* lookAt(driver, root)
              if (answers.length === 0) {
                unanswered++
                assert.deepStrictEqual(members, [])
              }
              for (const child of answers) yield* Effect.andThen(endTree(driver, child.identity), child.release)
            }
            assert.isAbove(unanswered, 0)
          })
        ),
      30_000
    )

    it.live(
      "leaves no descriptor, listener or file behind, whatever became of the starts",
      () =>
        Effect.scoped(Effect.gen(function*() {
          const directory = yield* temporary
          yield* withVariable("TMPDIR", directory)
          const listeners = () => process.eventNames().map((name) => [name, process.listenerCount(name)])
          const before = { descriptors: openDescriptors(), listeners: listeners() }
          yield* withDriver((driver) =>
            Effect.forEach(Array.from({ length: 200 }, (_, index) => index), (index) =>
              Effect.scoped(Effect.gen(function*() {
                if (index % 4 === 0) {
                  yield* Effect.flip(start(driver, exec("/no/such", [], { stdin: "open" })))
                  yield* Effect.flip(start(driver, exec("true", ["x".repeat(200_000)])))
                }
                const job = yield* start(driver, exec("true", [], { stdin: index % 2 === 0 ? "open" : "none" }), {
                  merged: index % 3 === 0
                })
                yield* job.exit
              })), { concurrency: 20, discard: true })
          )
          yield* until("the descriptors are closed", () =>
            openDescriptors() === before.descriptors)
          assert.deepStrictEqual(listeners(), before.listeners)
          assert.deepStrictEqual(fs.readdirSync(directory), [])
        })),
      30_000
    )

    it.live("makes new FIFOs when the directory of the others was removed", () =>
      Effect.scoped(Effect.gen(function*() {
        const directory = yield* temporary
        yield* withVariable("TMPDIR", directory)
        yield* withDriver((driver) =>
          Effect.gen(function*() {
            for (let round = 0; round < 3; round++) {
              const job = yield* start(driver, shell("echo one >/dev/stdout"))
              assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
              assert.strictEqual(job.out.text, "one\n")
              for (const name of fs.readdirSync(directory)) fs.rmSync(path.join(directory, name), { recursive: true })
            }
          })
        )
      })))

    it.live("fails a start whose secret was wiped, and goes on with the next", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const secret = Redacted.make("gone")
          Redacted.wipeUnsafe(secret)
          const failure = yield* Effect.flip(start(driver, exec("true", [], { env: { SECRET: secret } })))
          assert.strictEqual(failure.problem, "Other")
          const job = yield* start(driver, exec("true"))
          assert.deepStrictEqual(yield* job.exit, { code: 0, signal: null })
        })
      ))

    it.live("refuses a start once its scope is closed", () =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const driver = yield* Scope.provide(NodeProcessDriver.make, scope)
        yield* Scope.close(scope, Exit.void)
        const failure = yield* Effect.flip(Effect.scoped(start(driver, exec("true"))))
        assert.strictEqual(failure.code, "ECANCELED")
      }))

    it.live("names a program that is being written by its code alone", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const busy = path.join(yield* temporary, "busy")
          fs.copyFileSync("/bin/true", busy)
          const writing = fs.openSync(busy, "r+")
          const failure = yield* Effect.flip(start(driver, exec(busy)))
          fs.closeSync(writing)
          assert.deepStrictEqual([failure.problem, failure.code], ["Other", "ETXTBSY"])
        })
      ))
  })

  describe("trees", () => {
    it.live("finds a daemon by its marker when its parents are gone", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("(setsid sleep 300 >/dev/null 2>&1 &); exit 0"))
          yield* job.exit
          // The leader need not have waited for the daemon to become one.
          let look = yield* job.look
          while (look.members[0]?.name !== "sleep") look = yield* job.look
          assert.strictEqual(look.leader, "gone")
          assert.deepStrictEqual(look.members.map((member) => [member.group, member.session]), [
            [look.members[0]?.pid, look.members[0]?.pid]
          ])
        })
      ))

    it.live("finds members of the session that have wiped their environment and changed their group", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("set -m; env -i sleep 300 >/dev/null 2>&1 & exit 0", {}, "/bin/bash"))
          yield* job.exit
          const look = yield* job.look
          assert.deepStrictEqual(look.members.map((member) => member.session), [job.root.pid])
          assert.notStrictEqual(look.members[0]?.group, job.root.pid)
        })
      ))

    it.live("still knows a member it has seen, when marker, session and parents are lost", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, shell("env -i setsid sleep 300 & wait", { stdin: "open" }))
          const seen = yield* Effect.gen(function*() {
            for (;;) {
              const { members } = yield* job.look
              const stray = members.find((member) => member.name === "sleep" && member.session !== job.root.pid)
              if (stray !== undefined) return stray
              yield* turn
            }
          })
          yield* driver.signal(job.root, { members: [], groups: [job.root.pid] }, "SIGKILL")
          yield* job.exit
          const look = yield* job.look
          assert.deepStrictEqual(look.members.map((member) => member.pid), [seen.pid])
        })
      ))

    it.live("does not take a marker for another that it begins with", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const marker = newMarker()
          const long = yield* start(driver, exec("sleep", ["300"]), { marker: `${marker}0` })
          const short = yield* start(driver, exec("sleep", ["300"]), { marker })
          assert.deepStrictEqual((yield* short.look).members.map((member) => member.pid), [short.root.pid])
          assert.deepStrictEqual((yield* long.look).members.map((member) => member.pid), [long.root.pid])
        })
      ))

    it.live("finds a marker behind a long environment", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const env = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`A${index}`, "x".repeat(10_000)]))
          const job = yield* start(driver, shell("(setsid sleep 300 >/dev/null 2>&1 &); exit 0", { env }))
          yield* job.exit
          assert.lengthOf((yield* job.look).members, 1)
        })
      ))

    it.live.skipIf(!hasPython)(
      "finds a daemon by its marker when its first thread has ended and others run",
      () =>
        withDriver((driver) =>
          Effect.gen(function*() {
            const directory = yield* temporary
            const script = path.join(directory, "daemon.py")
            const there = path.join(directory, "pid")
            fs.writeFileSync(script, threadedDaemon)
            const job = yield* start(driver, exec("python3", [script, there]))
            yield* job.exit
            const pid = Number(
              yield* until("the daemon is there", () => fs.existsSync(there) && fs.readFileSync(there, "utf8"))
            )
            yield* until(
              "its first thread has ended",
              () => fs.readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")
            )
            assert.deepStrictEqual((yield* job.look).members.map((member) => [member.pid, member.state]), [[pid, "S"]])
          })
        )
    )

    it.live("lists no zombie as a member, and still finds its group occupied", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const go = path.join(yield* temporary, "go")
          const script = `(while [ ! -e ${go} ]; do sleep 0.01; done) & echo $!; exec sleep 300`
          const job = yield* start(driver, shell(script))
          const zombie = Number(yield* until("the child is there", () => job.out.text.trim()))
          // A shell would wait for its child; what it has become does not.
          const commandOf = (pid: number) => fs.readFileSync(`/proc/${pid}/stat`, "utf8")
          yield* until("the shell is gone", () => commandOf(job.root.pid).includes("(sleep)"))
          fs.writeFileSync(go, "")
          yield* until("the child is a zombie", () => commandOf(zombie).includes(") Z "))
          const look = yield* job.look
          assert.deepStrictEqual(look.members.map((member) => member.pid), [job.root.pid])
          assert.isTrue(driver.occupied(job.root))
          assert.deepStrictEqual(look.occupied, [])
        })
      ))

    it.live("answers many looks asked at once from one reading, for every root in order", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const jobs = yield* Effect.forEach(Array.from({ length: 5 }), () => start(driver, exec("sleep", ["300"])))
          const roots = jobs.map((job) => job.root)
          const looks = yield* Effect.all(Array.from({ length: 50 }, () => driver.look(roots)), {
            concurrency: "unbounded"
          })
          for (const look of looks) {
            assert.deepStrictEqual(
              look.map((one) => [one.root.pid, one.leader, one.members.length]),
              roots.map((root) => [root.pid, "alive", 1])
            )
          }
        })
      ))

    it.live("finds by its identity a tree that another driver has started", () =>
      withDriver((first) =>
        Effect.gen(function*() {
          const job = yield* start(first, shell("sleep 300 & env -i setsid sleep 300 & echo ready; wait"))
          yield* until("both children are there", () => job.out.text)
          const second = yield* NodeProcessDriver.make
          const look = yield* lookAt(second, job.root)
          assert.strictEqual(look.leader, "alive")
          const pids = (found: ProcessDriver.TreeLook) => new Set(found.members.map((member) => member.pid))
          assert.deepStrictEqual(pids(look), pids(yield* job.look))
          assert.lengthOf(look.members, 3)
        })
      ))

    it.live("takes nobody for a leader by its number alone, nor by its start time in another boot", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const { root } = yield* start(driver, exec("sleep", ["300"]))
          const others = [
            { pid: root.pid, startedAt: root.startedAt + 1, bootId: root.bootId, marker: newMarker() },
            { pid: root.pid, startedAt: root.startedAt, bootId: "another", marker: newMarker() }
          ]
          for (const other of others) {
            const look = yield* lookAt(driver, other)
            assert.deepStrictEqual([look.leader, look.members.length, look.occupied.length], ["gone", 0, 0])
          }
        })
      ))
  })

  describe("signals", () => {
    it.live("sends nothing to a process that only has the number of a member", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("sleep", ["300"]))
          const stranger = yield* start(driver, exec("sleep", ["300"]))
          const [member] = (yield* stranger.look).members
          if (member === undefined) return assert.fail("no member")
          const outcomes = yield* driver.signal(job.root, {
            members: [{ ...member, startedAt: member.startedAt - 1 }],
            groups: [stranger.root.pid]
          }, "SIGKILL")
          assert.deepStrictEqual(outcomes.map((one) => one.outcome), ["not-same", "not-same"])
          assert.strictEqual((yield* stranger.look).leader, "alive")
        })
      ))

    it.live("signals itself, its group and process 1 never", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("sleep", ["300"]))
          const own = fs.readFileSync("/proc/self/stat", "utf8").split(") ")[1]?.split(" ")
          const group = Number(own?.[2])
          const startedAt = Number(own?.[19])
          const outcomes = yield* driver.signal(job.root, {
            members: [{ pid: process.pid, startedAt, parent: 0, group, session: 0, state: "R", name: "node" }],
            groups: [0, 1, -1, group]
          }, "SIGCONT")
          assert.deepStrictEqual(outcomes.map((one) => one.outcome), Array.from({ length: 5 }, () => "refused"))
        })
      ))

    it.live("answers gone for a leader whose exit was collected", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("sleep", ["300"]))
          const { members } = yield* job.look
          assert.deepStrictEqual((yield* driver.signal(job.root, { members }, "SIGTERM")).map((one) => one.outcome), [
            "sent"
          ])
          assert.deepStrictEqual(yield* job.exit, { code: null, signal: "SIGTERM" })
          assert.deepStrictEqual((yield* driver.signal(job.root, { members }, "SIGTERM")).map((one) => one.outcome), [
            "gone"
          ])
          assert.isFalse(driver.occupied(job.root))
        })
      ))

    it.live("answers refused for a signal that does not exist", () =>
      withDriver((driver) =>
        Effect.gen(function*() {
          const job = yield* start(driver, exec("sleep", ["300"]))
          const { members } = yield* job.look
          const outcomes = yield* driver.signal(job.root, { members }, "SIGNOTHING")
          assert.deepStrictEqual(outcomes.map((one) => one.outcome), ["refused"])
        })
      ))

    it.live.skipIf(!isRoot)(
      "leaves a stranger alone that has the number of a leader that is gone",
      () =>
        withDriver((driver) =>
          Effect.gen(function*() {
            const job = yield* start(driver, exec("true"))
            yield* job.exit
            const stranger = yield* Effect.acquireRelease(
              Effect.sync(() => {
                for (let left = 50; left > 0; left--) {
                  fs.writeFileSync("/proc/sys/kernel/ns_last_pid", String(job.root.pid - 1))
                  const child = spawn("sleep", ["300"], { detached: true, stdio: "ignore" })
                  if (child.pid === job.root.pid) return child
                  child.kill("SIGKILL")
                }
                return assert.fail("somebody else always had the number first")
              }),
              (child) => Effect.sync(() => child.kill("SIGKILL"))
            )
            const look = yield* job.look
            assert.deepStrictEqual([look.leader, look.members.length, look.occupied.length], ["gone", 0, 0])
            const outcomes = yield* driver.signal(job.root, { members: [], groups: [job.root.pid] }, "SIGKILL")
            assert.deepStrictEqual(outcomes.map((one) => one.outcome), ["not-same"])
            assert.strictEqual(stranger.exitCode ?? stranger.signalCode, null)
          })
        )
    )
  })
})
