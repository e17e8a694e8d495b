import { assert, it } from "@effect/vitest"
import { BackgroundProcess, BlobStore, CommandSpec, ProcessLedger, Recovery, Settings } from "@procyon/runtime"
import type { OutputRetention } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, chownSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { NodeProcessRuntime } from "../src/index.ts"
import { temporaryDirectory } from "./support/directory.ts"
import { live } from "./support/processes.ts"

const program = fileURLToPath(new URL("programs/spilling.ts", import.meta.url))
const printed = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("")

const durable = (directory: string, options?: { readonly blobs?: boolean }) =>
  Layer.fresh(NodeProcessRuntime.layerDurable({ directory, ...options })).pipe(
    Layer.provide(Settings.layer({ outputBytes: 10_000 }))
  )

const jobsOf = Effect.map(BackgroundProcess.Service, (service) => service.of("s1"))

const spill = Effect.gen(function*() {
  const jobs = yield* jobsOf
  const { id } = yield* jobs.start(CommandSpec.make("seq", ["1", "100000"]))
  yield* jobs.wait(id)
  return id
})

/** What can be read of a job of an earlier life, and what is said to be missing. */
const readAll = (id: string) =>
  Effect.gen(function*() {
    const view = yield* (yield* jobsOf).output(id)
    const parts: Array<Uint8Array> = []
    const gaps: Array<OutputRetention.Gap> = []
    yield* Stream.runForEach(view.followBytes(), ({ data, gap }) =>
      Effect.sync(() => {
        parts.push(data)
        if (gap !== null) gaps.push(gap)
      }))
    return { text: Buffer.concat(parts).toString(), gaps }
  })

const kibibytes64 = Effect.fnUntraced(function*(directory: string) {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k,mode=700", "none", directory])
      assert.strictEqual(status, 0)
    }),
    () => Effect.sync(() => void spawnSync("umount", ["-l", directory]))
  )
})

live(
  "K39 costs the spill and nothing else, and when there is space again later output is spilled",
  ["root", "mounts"],
  () =>
    Effect.gen(function*() {
      const directory = join(yield* temporaryDirectory, "state")
      mkdirSync(directory, { mode: 0o700 })
      yield* kibibytes64(join(directory, "blobs"))
      yield* Effect.gen(function*() {
        const jobs = yield* jobsOf
        const { id } = yield* jobs.start(CommandSpec.shell("head -c 500000 /dev/zero; echo end"))
        const { exit, output, recorded, status } = yield* jobs.wait(id)
        assert.deepStrictEqual([status, exit?.code, recorded], ["completed", 0, true])
        const whole = Buffer.concat([Buffer.alloc(500_000), Buffer.from("end\n")])
        assert.strictEqual(output.sha256, createHash("sha256").update(whole).digest("hex"))
        assert.deepStrictEqual([output.bytesSeen, output.truncated, output.drained], [500_004, true, true])
        assert.deepStrictEqual([output.spill, output.blob], ["failed", null])
        assert.isBelow(output.spilledBytes, 64 * 1024 + 1)
        assert.match(yield* (yield* jobs.output(id)).preview, /end\n$/)
        yield* jobs.notices
        assert.isTrue(yield* jobs.forget(id))
        const next = yield* jobs.start(CommandSpec.shell("head -c 30000 /dev/zero; echo end"))
        const later = yield* jobs.wait(next.id)
        assert.deepStrictEqual([later.output.spill, later.output.spilledBytes], ["complete", 30_004])
        assert.strictEqual((yield* readAll(next.id)).text.length, 30_004)
      }).pipe(Effect.provide(durable(directory)))
    }).pipe(Effect.scoped)
)

it.live("a durable runtime's output is read after a restart, and goes when its job is forgotten", () =>
  Effect.gen(function*() {
    const directory = join(yield* temporaryDirectory, "state")
    const blobs = join(directory, "blobs")
    const id = yield* Effect.provide(spill, durable(directory))
    assert.strictEqual(statSync(blobs).mode & 0o777, 0o700)
    const files = readdirSync(blobs)
    assert.strictEqual(files.length, 1)
    for (const file of files) assert.strictEqual(statSync(join(blobs, file)).mode & 0o777, 0o600)
    yield* Effect.gen(function*() {
      assert.deepStrictEqual(yield* readAll(id), { text: printed, gaps: [] })
      const jobs = yield* jobsOf
      yield* jobs.notices
      assert.isTrue(yield* jobs.forget(id))
      assert.deepStrictEqual(readdirSync(blobs), [])
    }).pipe(Effect.provide(durable(directory)))
  }).pipe(Effect.scoped))

it.live("a durable runtime without blobs writes no output to the disk", () =>
  Effect.gen(function*() {
    const directory = join(yield* temporaryDirectory, "state")
    const id = yield* Effect.provide(spill, durable(directory, { blobs: false }))
    assert.isFalse(readdirSync(directory).includes("blobs"))
    const error = yield* Effect.flip(Effect.provide(readAll(id), durable(directory, { blobs: false })))
    assert.strictEqual(error._tag, "OutputUnavailable")
  }).pipe(Effect.scoped))

it.live("a blob that was cut short or deleted meanwhile is told as a gap", () =>
  Effect.gen(function*() {
    const directory = join(yield* temporaryDirectory, "state")
    const blobs = join(directory, "blobs")
    const id = yield* Effect.provide(spill, durable(directory))
    const [file = ""] = readdirSync(blobs)
    truncateSync(join(blobs, file), 200_000)
    const cut = yield* Effect.provide(readAll(id), durable(directory))
    assert.isAtMost(cut.text.length, 200_000)
    assert.isAtLeast(cut.text.length, 200_000 - 64 * 1024)
    assert.strictEqual(cut.text, printed.slice(0, cut.text.length))
    assert.deepStrictEqual(cut.gaps, [{ from: cut.text.length, to: printed.length }])
    rmSync(join(blobs, file))
    const gone = yield* Effect.provide(readAll(id), durable(directory))
    assert.deepStrictEqual(gone, { text: "", gaps: [{ from: 0, to: printed.length }] })
  }).pipe(Effect.scoped))

it.live("of an application that was killed, the next one keeps the sealed blobs and removes the unfinished ones", () =>
  Effect.gen(function*() {
    const directory = join(yield* temporaryDirectory, "state")
    const blobs = join(directory, "blobs")
    const application = spawn(process.execPath, [program, directory], { stdio: ["ignore", "pipe", "inherit"] })
    yield* Effect.addFinalizer(() => Effect.sync(() => application.kill("SIGKILL")))
    const said = yield* Effect.promise(() =>
      new Promise<string>((resolve) => {
        application.stdout.setEncoding("utf8").once("data", (text: string) => resolve(text))
      })
    )
    const [, done = "", killed = ""] = said.trim().split(" ")
    const closed = new Promise((resolve) => application.once("close", resolve))
    application.kill("SIGKILL")
    yield* Effect.promise(() => closed)
    const unfinished = readdirSync(blobs).filter((file) => file.endsWith(".part"))
    assert.deepStrictEqual(unfinished.map((file) => file.split(".")[0]), [killed])
    assert.isAbove(statSync(join(blobs, unfinished[0] ?? "")).size, 0)
    yield* Effect.gen(function*() {
      const report = yield* (yield* Recovery.Service).started
      assert.deepStrictEqual(report.entries.map(({ id, status }) => [id, status]), [[killed, "cancelled"]])
      while (readdirSync(blobs).some((file) => file.endsWith(".part"))) yield* Effect.sleep("5 millis")
      assert.deepStrictEqual(yield* readAll(done), { text: printed, gaps: [] })
      const error = yield* Effect.flip(readAll(killed))
      assert.strictEqual(error._tag, "OutputUnavailable")
    }).pipe(Effect.provide(durable(directory)))
  }).pipe(Effect.scoped))

it.live("two durable runtimes on one directory keep apart what they have", () =>
  Effect.gen(function*() {
    const directory = join(yield* temporaryDirectory, "state")
    const first = yield* Layer.build(durable(directory))
    const one = yield* Effect.provide(spill, first)
    yield* Effect.gen(function*() {
      const two = yield* spill
      const jobs = yield* Effect.provide(jobsOf, first)
      yield* jobs.notices
      assert.isTrue(yield* jobs.forget(one))
      assert.deepStrictEqual(yield* readAll(two), { text: printed, gaps: [] })
    }).pipe(Effect.provide(durable(directory)))
    const rows = yield* Effect.flatMap(ProcessLedger.Service, (ledger) => ledger.rows()).pipe(
      Effect.provide(NodeProcessRuntime.layerLedger({ directory }))
    )
    assert.deepStrictEqual(
      readdirSync(join(directory, "blobs")),
      rows.map(({ output }) => `${output?.stdout.blob}.blob`)
    )
  }).pipe(Effect.scoped))

for (
  const [whose, make] of [
    ["another user's", (path: string) => chownSync(path, 65_534, 65_534)],
    ["open to others", (path: string) => chmodSync(path, 0o777)]
  ] as const
) {
  it.live.skipIf(process.getuid?.() !== 0)(
    `a directory for blobs that is ${whose} is refused, and left as it is`,
    () =>
      Effect.gen(function*() {
        const directory = join(yield* temporaryDirectory, "blobs")
        mkdirSync(directory)
        make(directory)
        const { mode, uid } = statSync(directory)
        const error = yield* Effect.flip(
          Effect.provide(BlobStore.Service, NodeProcessRuntime.layerBlobs({ directory }))
        )
        assert.deepStrictEqual([error._tag, error.operation, error.problem], ["BlobError", "open", "Denied"])
        assert.notInclude(JSON.stringify(error) + String(error), directory)
        assert.deepStrictEqual([statSync(directory).mode, statSync(directory).uid], [mode, uid])
      }).pipe(Effect.scoped)
  )
}
