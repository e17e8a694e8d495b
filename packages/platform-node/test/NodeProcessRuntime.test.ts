import { assert, it } from "@effect/vitest"
import {
  AppProcess,
  BackgroundProcess,
  BlobStore,
  CommandSpec,
  ProcessLedger,
  Settings,
  ShutdownBarrier
} from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { NodeProcessRuntime } from "../src/index.ts"
import { temporaryDirectory } from "./support/directory.ts"

const programs = {
  main: fileURLToPath(new URL("programs/main.ts", import.meta.url)),
  building: fileURLToPath(new URL("programs/building.ts", import.meta.url))
}

interface Run {
  readonly child: ChildProcess
  /** Everything printed so far. */
  readonly printed: () => string
  readonly complained: () => string
  readonly until: (text: string) => Promise<void>
  readonly exit: Promise<readonly [number | null, NodeJS.Signals | null]>
  /** Living processes that were started by this run. */
  readonly left: () => ReadonlyArray<string>
}

/** Zombies are dead; a process that is gone meanwhile has no files to read. */
const livingWith = (mark: string): ReadonlyArray<string> =>
  readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      const state = readFileSync(`/proc/${name}/stat`, "latin1").split(") ")[1]?.[0]
      return state !== "Z" && state !== "X" && readFileSync(`/proc/${name}/environ`, "latin1").includes(mark)
    } catch {
      return false
    }
  })

let runs = 0

const start = (...args: ReadonlyArray<string>): Run => startProgram("main", ...args)

const startProgram = (name: keyof typeof programs, ...args: ReadonlyArray<string>): Run => {
  const mark = `TEST_RUN=${process.pid}-${runs++};`
  const child = spawn(process.execPath, [programs[name], ...args], {
    env: { ...process.env, TEST_RUN: mark.slice("TEST_RUN=".length) },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let printed = ""
  let complained = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complained += text
  })
  const waiting = new Set<() => void>()
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text
    for (const check of waiting) check()
  })
  return {
    child,
    printed: () => printed,
    complained: () => complained,
    until: (text) =>
      new Promise((resolve) => {
        const check = () => {
          if (!printed.includes(text)) return
          waiting.delete(check)
          resolve()
        }
        waiting.add(check)
        check()
      }),
    exit: new Promise((resolve) => child.on("close", (code, signal) => resolve([code, signal]))),
    left: () => livingWith(mark).filter((pid) => pid !== String(child.pid))
  }
}

const promise = <A>(f: () => Promise<A>) => Effect.promise(f)

for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]] as const) {
  it.live(`runMain ends every tree on ${signal}, tells the report, and exits with ${code}`, () =>
    promise(async () => {
      const run = start("ours", "200")
      await run.until("ready")
      assert.isAbove(run.left().length, 0)
      run.child.kill(signal)
      assert.deepStrictEqual(await run.exit, [code, null])
      assert.include(run.printed(), "report graceful cancelled cancelled clean=true")
      assert.deepStrictEqual(run.left(), [])
    }))
}

it.live("runMain takes a second signal for now, whatever the grace", () =>
  promise(async () => {
    const run = start("ours", "3600000")
    await run.until("ready")
    run.child.kill("SIGTERM")
    run.child.kill("SIGINT")
    assert.deepStrictEqual((await run.exit)[1], null)
    assert.include(run.printed(), "clean=true")
    assert.deepStrictEqual(run.left(), [])
  }), 20_000)

it.live("runMain closes the runtime after a success and after a failure, and says which by its exit code", () =>
  promise(async () => {
    for (const [what, code] of [["succeed", 0], ["fail", 1]] as const) {
      const run = start("ours", "100", what)
      assert.deepStrictEqual(await run.exit, [code, null])
      assert.include(run.printed(), "clean=true")
      assert.deepStrictEqual(run.left(), [])
    }
  }))

it.live("runMain takes a signal while the layer is being built for the end of the building, however many come", () =>
  promise(async () => {
    const run = startProgram("building", "waits")
    await run.until("building")
    run.child.kill("SIGTERM")
    run.child.kill("SIGINT")
    assert.deepStrictEqual(await run.exit, [42, null])
    const [, released, code] = run.printed().split("\n")
    assert.strictEqual(released, "released")
    assert.match(code ?? "", /^code from a failure, report none, SIG(TERM|INT), 0 listeners$/)
    assert.strictEqual(run.complained(), "")
  }))

for (const [what, said] of [["fails", "the layer's own failure"], ["throws", "the layer's own defect"]] as const) {
  it.live(`runMain reports a layer that ${what}, and lets go of what it had built`, () =>
    promise(async () => {
      const run = startProgram("building", what)
      assert.deepStrictEqual(await run.exit, [42, null])
      assert.include(run.printed(), "released")
      assert.notInclude(run.printed(), "built")
      assert.include(run.printed(), "code from a failure, report none, no signal, 0 listeners")
      assert.include(run.printed() + run.complained(), said)
    }))
}

it.live("runMain exits with 1 when the layer cannot be built", () =>
  promise(async () => {
    for (const what of ["fails", "throws"]) {
      assert.deepStrictEqual(await startProgram("building", what, "default").exit, [1, null])
    }
  }))

it.live("runMain gives the report to the exit code's function, and waits for nothing else that is pending", () =>
  promise(async () => {
    const run = startProgram("building", "works")
    assert.deepStrictEqual(await run.exit, [42, null])
    assert.deepStrictEqual(run.printed().trim().split("\n"), [
      "building",
      "built",
      "reported",
      "released",
      "code from a value, report graceful, no signal, 0 listeners"
    ])
  }))

it.live("an application run with Effect's own runMain gets the barrier from the layer's finalizer", () =>
  promise(async () => {
    const run = start("effect", "100")
    await run.until("ready")
    run.child.kill("SIGTERM")
    assert.deepStrictEqual(await run.exit, [130, null])
    assert.include(run.printed(), "clean=true")
    assert.deepStrictEqual(run.left(), [])
  }))

it.live("the layer is one runtime, however often it is provided in one application", () =>
  Effect.gen(function*() {
    const first = yield* ShutdownBarrier.Service
    const second = yield* Effect.provide(ShutdownBarrier.Service, NodeProcessRuntime.layer)
    assert.strictEqual(first, second)
  }).pipe(Effect.provide(NodeProcessRuntime.layer)))

it.live("output that memory loses is whole in a blob where a directory is given, and on no disk where none is", () =>
  Effect.gen(function*() {
    const directory = join(mkdtempSync(join(tmpdir(), "procyon-test-")), "blobs")
    yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(join(directory, ".."), { recursive: true })))
    const run = AppProcess.run(CommandSpec.make("seq", ["1", "300000"]), { output: { limit: 10_000, head: 1000 } })
    const without = yield* Effect.provide(run, Layer.fresh(NodeProcessRuntime.layer))
    assert.isTrue(without.info.output.truncated)
    assert.deepStrictEqual([without.info.output.blob, without.info.output.spill], [null, "none"])
    yield* Effect.gen(function*() {
      const { info } = yield* run
      assert.strictEqual(info.output.spill, "complete")
      assert.strictEqual(info.output.blob, `sha256-${info.output.sha256}.${info.id}`)
      const hash = createHash("sha256")
      const store = yield* BlobStore.Service
      yield* Stream.runForEach(
        store.read(info.output.blob ?? ""),
        (bytes) => Effect.sync(() => hash.update(bytes))
      )
      assert.strictEqual(hash.digest("hex"), info.output.sha256)
      assert.isFalse(info.output.bytesSeen === info.output.bytesRetained)
    }).pipe(Effect.provide(
      Layer.fresh(NodeProcessRuntime.layer).pipe(Layer.provideMerge(NodeProcessRuntime.layerBlobs({ directory })))
    ))
  }).pipe(Effect.scoped))

it.live("two hundred jobs, escapees and stubborn ones among them, are stopped at the cost of one grace, all verified", () =>
  Effect.gen(function*() {
    const jobs = (yield* BackgroundProcess.Service).of("s1")
    const commands = [
      CommandSpec.make("sleep", ["600.5"]),
      CommandSpec.shell("setsid sleep 600.5 & wait"),
      CommandSpec.shell("trap '' TERM; sleep 600.5 & wait; wait")
    ]
    const ended = yield* Effect.gen(function*() {
      for (let n = 0; n < 25; n++) {
        yield* Effect.forEach(
          Array.from({ length: 8 }, (_, i) => commands[(n * 8 + i) % 3] ?? CommandSpec.make("true")),
          (command) => jobs.start(command, { grace: "300 millis" }),
          { concurrency: "unbounded" }
        )
      }
      return yield* jobs.stopAll
    })
    assert.strictEqual(ended.length, 200)
    assert.deepStrictEqual(new Set(ended.map((info) => info.status)), new Set(["cancelled"]))
    assert.deepStrictEqual(ended.flatMap((info) => info.receipt?.survivors ?? []), [])
    const slowest = Math.max(...ended.map((info) => info.receipt?.durationMillis ?? 0))
    assert.isBelow(slowest, 300 * 20) // one grace of each in turn would be sixty seconds
  }).pipe(Effect.provide(
    Layer.fresh(NodeProcessRuntime.layer).pipe(
      Layer.provide(Settings.layer({ maxRunningPerOwner: 0 }))
    )
  )))

it.live("a durable runtime's rows say after it what became of its jobs", () =>
  Effect.gen(function*() {
    const directory = join(yield* temporaryDirectory, "state")
    const [stopped, done] = yield* Effect.gen(function*() {
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      const stopped = yield* jobs.start(CommandSpec.make("sleep", ["600.25"]))
      const done = yield* jobs.start(CommandSpec.make("true"))
      yield* jobs.wait(done.id)
      return [stopped.id, done.id]
    }).pipe(Effect.provide(NodeProcessRuntime.layerDurable({ directory })))
    const rows = yield* Effect.flatMap(ProcessLedger.Service, (ledger) => ledger.rows({ owner: "s1" })).pipe(
      Effect.provide(NodeProcessRuntime.layerLedger({ directory }))
    )
    assert.deepStrictEqual(rows.map(({ id, status }) => [id, status]), [[stopped, "cancelled"], [done, "completed"]])
    assert.deepStrictEqual(rows.map(({ termination }) => termination?.wholeTree), ["verified", "verified"])
    assert.isFalse(JSON.stringify(rows).includes("600.25"))
  }).pipe(Effect.scoped))
