/**
 * What the tests of trees and starts find out about real processes by themselves, without the driver they test, and how
 * they bring a process into the states that a runtime has to cope with. Everything ends with its scope.
 */
import { assert, it } from "@effect/vitest"
import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import * as NodeWorkspaceStore from "@procyon/platform-node/NodeWorkspaceStore"
import {
  type ProcessLedger,
  ProcessLedgerMemory,
  ProcessRuntime,
  Settings,
  ShutdownBarrier,
  type WorkspaceStore
} from "@procyon/runtime"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { setImmediate } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { isLiving, living, type Seen, seenAt } from "./table.ts"

export { isLiving, living, type Seen, seenAt }

/** The parent's number, `null` for a process that is gone. */
export const parentOf = (pid: number): number | null => {
  try {
    const line = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
    return Number(line.slice(line.lastIndexOf(")") + 2).split(" ")[1])
  } catch {
    return null
  }
}

const keeperProgram = fileURLToPath(new URL("../../src/internal/keeper/procyonKeeper.ts", import.meta.url))

/** The keepers that a process has, oldest number first. */
export const keepersOf = (application: number): ReadonlyArray<Seen> =>
  living(keeperProgram).filter(({ pid }) => parentOf(pid) === application)

const patienceMillis = 15_000

/** Asks again until the answer is there, and fails when it does not come. */
export const until = <A, E = never, R = never>(
  what: string,
  ask: (() => A | null | undefined | false) | Effect.Effect<A | null | undefined | false, E, R>
): Effect.Effect<A, E, R> =>
  Effect.gen(function*() {
    const giveUpAt = performance.now() + patienceMillis
    for (;;) {
      const answer = typeof ask === "function" ? ask() : yield* ask
      if (answer !== null && answer !== undefined && answer !== false) return answer
      if (performance.now() > giveUpAt) return assert.fail(`never seen: ${what}`)
      yield* Effect.sleep("5 millis")
    }
  })

/** Waits until the living processes of this tag are these programs, in any order. */
export const untilLiving = (tag: string, ...programs: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Seen>> =>
  until(programs.join(", "), () => {
    const now = living(tag)
    return now.map(({ name }) => name).toSorted().join() === programs.toSorted().join() ? now : null
  })

const kill = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone meanwhile.
  }
}

let tags = 0

/**
 * Digits that no other command line holds, to be put behind a decimal point: `sleep 300.${tag}`. Whatever still carries
 * them at the scope's end is killed, so that a test that failed leaves nothing behind.
 */
export const newTag: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => `0${process.pid}0${process.hrtime.bigint() % 1_000_000_000n}${++tags}`),
  (tag) =>
    Effect.sync(() => {
      for (const { pid } of living(tag)) kill(pid, "SIGKILL")
    })
)

/** A directory, open to every user, that is removed with the scope. */
export const directory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => {
    const made = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-cases-"))
    fs.chmodSync(made, 0o755)
    return made
  }),
  (made) => Effect.sync(() => fs.rmSync(made, { recursive: true, force: true }))
)

/** A named pipe. */
export const fifo: Effect.Effect<string, never, Scope.Scope> = Effect.map(directory, (made) => {
  const name = path.join(made, "fifo")
  assert.strictEqual(spawnSync("mkfifo", [name]).status, 0)
  return name
})

/** Writes a line into a named pipe, which goes on holding it until the scope ends. */
export const writeInto = (fifo: string, line: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.asVoid(Effect.acquireRelease(
    Effect.sync(() => {
      // For both directions, because opening it only to write waits for somebody who reads.
      const fd = fs.openSync(fifo, "r+")
      fs.writeSync(fd, `${line}\n`)
      return fd
    }),
    (fd) => Effect.sync(() => fs.closeSync(fd))
  ))

/** What this process holds that a runtime must not leak: descriptors, and listeners of all its events. */
const held = (): { readonly descriptors: number; readonly listeners: number } => ({
  descriptors: fs.readdirSync("/proc/self/fd").length,
  listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0)
})

export type Services = ProcessRuntime.ProcessRuntime | ProcessLedger.Service

/** Settings that make an end that needs force a matter of some hundred milliseconds. */
const short: Partial<Settings.Settings> = { graceMillis: 300, forceWindowMillis: 500 }

/** A runtime of its own on real processes, its rows in sight. */
export const runtime = (
  settings: Partial<Settings.Settings>,
  onReport: (report: ShutdownBarrier.ShutdownReport) => void = () => {},
  workspaces: Layer.Layer<WorkspaceStore.Service> = NodeWorkspaceStore.layer
): Layer.Layer<Services> =>
  Layer.fresh(ProcessRuntime.layer.pipe(
    Layer.provideMerge(ProcessLedgerMemory.layer),
    Layer.provide([NodeProcessDriver.layer, workspaces]),
    Layer.provide(Settings.layer({ ...short, ...settings })),
    Layer.provide(ShutdownBarrier.onReport((report) => Effect.sync(() => onReport(report))))
  ))

/**
 * Runs the body on a runtime of its own. When that is closed, nothing may live that carries the tag, and nothing may be
 * open or listened to that was not before.
 */
export const onRuntime = <E>(
  body: (tag: string) => Effect.Effect<void, E, Services | Scope.Scope>,
  settings: Partial<Settings.Settings> = {}
): Effect.Effect<void, E> =>
  Effect.scoped(Effect.gen(function*() {
    const tag = yield* newTag
    const before = held()
    yield* body(tag).pipe(Effect.scoped, Effect.provide(runtime(settings)))
    assert.deepStrictEqual(living(tag), [])
    assert.isAtMost(held().listeners, before.listeners)
    yield* until("all descriptors are closed again", () => held().descriptors <= before.descriptors)
  }))

const statusLine = (pid: number, name: string): string | undefined => {
  try {
    return fs.readFileSync(`/proc/${pid}/status`, "latin1").match(new RegExp(`^${name}:\\s*(.*)$`, "m"))?.[1]
  } catch {
    return undefined
  }
}

/**
 * Attaches a tracer to a process and stops the tracer: signals to the process are accepted, SIGKILL too, and it stays.
 * The answer lets it go; so does the scope's end.
 */
export const holdByTracer = (pid: number): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const tracer = yield* Effect.acquireRelease(
      Effect.sync(() => spawn("strace", ["-o", "/dev/null", "-p", String(pid)], { stdio: "ignore" })),
      (tracer) =>
        Effect.gen(function*() {
          // Its end detaches what it holds, and signals that wait there are delivered then.
          tracer.kill("SIGKILL")
          yield* until("the tracer has gone", () => ended(tracer))
        })
    )
    const tracerPid = tracer.pid ?? assert.fail("no tracer")
    yield* until("the tracer is attached", () => statusLine(pid, "TracerPid") === String(tracerPid))
    kill(tracerPid, "SIGSTOP")
    yield* until("the tracer is stopped", () => seenAt(tracerPid)?.state === "T")
    return Effect.sync(() => kill(tracerPid, "SIGCONT"))
  })

const ended = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null

/** Somebody else on this machine has the pid, and keeps it. */
class PidTaken extends Data.TaggedError("PidTaken")<{ readonly pid: number }> {}

/**
 * Starts `sleep` under a pid that is free again, in a group of its own. Others on the machine start processes too, and one
 * of them may have the pid for as long as it likes: then only another pid can be tried.
 */
export const reusePid = (pid: number, seconds: string): Effect.Effect<Seen, PidTaken, Scope.Scope> =>
  Effect.gen(function*() {
    for (let left = 200; left > 0; left--) {
      // A dead one is there until it is collected, which takes a turn of the event loop.
      yield* Effect.promise(() => setImmediate())
      if (seenAt(pid) !== null) continue
      const stranger = yield* Effect.sync(() => {
        fs.writeFileSync("/proc/sys/kernel/ns_last_pid", String(pid - 1))
        return spawn("sleep", [seconds], { detached: true, stdio: "ignore" })
      })
      const end = Effect.gen(function*() {
        stranger.kill("SIGKILL")
        yield* until("the stranger has gone", () => ended(stranger))
      })
      const seen = seenAt(stranger.pid ?? 0) ?? assert.fail("no stranger")
      if (seen.pid === pid) return yield* Effect.as(Effect.addFinalizer(() => end), seen)
      yield* end
    }
    return yield* new PidTaken({ pid })
  })

/** Never gives up being root, whoever starts it. Ends by itself at SIGUSR1. */
export const staysRoot = `
#define _GNU_SOURCE
#include <signal.h>
#include <unistd.h>
static void leave(int signal) { _exit(0); }
int main(void) {
  if (setresuid(0, 0, 0) != 0) return 1;
  signal(SIGUSR1, leave);
  if (write(1, "ready\\n", 6) != 6) return 1;
  for (;;) pause();
}
`

/** A program compiled from C that every user may run; with `asRoot` it runs with its owner's rights. */
export const compiled = (
  source: string,
  options: { readonly asRoot: boolean }
): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(directory, (made) => {
    const program = path.join(made, "program")
    const { status, stderr } = spawnSync("cc", ["-x", "c", "-o", program, "-"], { input: source, encoding: "utf8" })
    assert.strictEqual(status, 0, stderr)
    fs.chmodSync(program, options.asRoot ? 0o4755 : 0o755)
    return program
  })

/** Another Node process that runs one of `hosts/`, and what it says, a line of JSON at a time. */
export interface Host<A> {
  /** The next line that has not been taken. */
  readonly line: Effect.Effect<A>
  /** Kills it, as a system does that has run out of memory, and waits until it has gone. */
  readonly kill: Effect.Effect<void>
  /** Waits for its end: the exit code, or -1 for a signal, and everything that it wrote to stderr. */
  readonly end: Effect.Effect<{ readonly code: number; readonly stderr: string }>
}

/** `via`: what starts it, with its arguments, such as a program that changes where it runs. */
export const host = <A>(
  file: URL,
  args: ReadonlyArray<string>,
  via: ReadonlyArray<string> = []
): Effect.Effect<Host<A>, never, Scope.Scope> =>
  Effect.gen(function*() {
    // A host that is killed, or never closes its runtime, leaves its files there; it may be any user.
    const temporary = yield* directory
    fs.chmodSync(temporary, 0o777)
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn("env", [
          ...via,
          process.execPath,
          "--disable-warning=ExperimentalWarning",
          fileURLToPath(file),
          ...args
        ], { env: { ...process.env, TMPDIR: temporary }, stdio: ["ignore", "pipe", "pipe"] })
      ),
      (child) =>
        Effect.gen(function*() {
          child.kill("SIGKILL")
          yield* until("the host has gone", () => ended(child))
        })
    )
    let stdout = ""
    let stderr = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
    return {
      line: Effect.map(
        until("a line of the host", () => {
          if (!stdout.includes("\n") && ended(child)) assert.fail(`the host ended early: ${stderr}`)
          return stdout.includes("\n")
        }),
        () => {
          const [line = "", ...rest] = stdout.split("\n")
          stdout = rest.join("\n")
          return JSON.parse(line) as A
        }
      ),
      kill: Effect.suspend(() => {
        child.kill("SIGKILL")
        return Effect.asVoid(until("the host has gone", () => ended(child)))
      }),
      end: Effect.map(
        until("the host ends", () => ended(child) && child.stdout.readableEnded && child.stderr.readableEnded),
        () => ({ code: child.exitCode ?? -1, stderr })
      )
    }
  })

const has = (program: string): boolean => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0

/** Why a test cannot run here; `null` when it can. */
const lacks = (what: "root" | "strace" | "cc" | "python3" | "pids" | "mounts" | "unshare"): string | null => {
  if (what === "root") return process.getuid?.() === 0 ? null : "root"
  if (what === "pids") return canWrite("/proc/sys/kernel/ns_last_pid") ? null : "a writable ns_last_pid"
  if (what === "mounts") return canMount() ? null : "the right to mount"
  if (what === "unshare") return canUnshare() ? null : "namespaces of its own"
  return has(what) ? null : what
}

const canUnshare = (): boolean => spawnSync("unshare", ["--mount", "--pid", "--fork", "true"]).status === 0

const canMount = (): boolean => spawnSync("unshare", ["-m", "mount", "-t", "tmpfs", "none", "/tmp"]).status === 0

const canWrite = (file: string): boolean => {
  try {
    fs.accessSync(file, fs.constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Declares a test that needs these to be here. Where one is missing it is skipped, and its name says for what. */
export const live = (
  name: string,
  needs: ReadonlyArray<Parameters<typeof lacks>[0]>,
  body: () => Effect.Effect<void, unknown, Scope.Scope>
): void => {
  const reasons = needs.map(lacks).filter((reason) => reason !== null)
  it.live.skipIf(reasons.length > 0)(reasons.length === 0 ? name : `${name} (needs ${reasons.join(", ")})`, body)
}
