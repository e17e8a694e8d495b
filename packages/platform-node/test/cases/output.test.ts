import { assert, describe, it } from "@effect/vitest"
import { NodeProcessRuntime } from "@procyon/platform-node"
import { AppProcess, BackgroundProcess, BlobStoreMemory, CommandSpec } from "@procyon/runtime"
import type { OutputRetention } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import {
  directory,
  growthDuring,
  runtime,
  runtimeWith,
  sha256Of,
  until,
  untilSeen,
  warnings
} from "../support/output.ts"

const zeros = Uint8Array.of(0)
const MiB = 1024 * 1024

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** Every byte of a view in order, and what is told to be missing. */
const readAll = (view: OutputRetention.View, limit: number) =>
  Effect.gen(function*() {
    const parts: Array<Uint8Array> = []
    let missing = 0
    for (let since = 0;;) {
      const page = yield* view.readBytes({ since, limit })
      assert.isAtLeast(page.next, since)
      missing += page.gap === null ? 0 : page.gap.to - page.gap.from
      if (page.next === since) return { bytes: Buffer.concat(parts), missing }
      parts.push(page.data)
      since = page.next
    }
  })

describe("the last output of a fast exit", () => {
  const rounds = Array.from({ length: 50 }, (_, round) => round)

  it.live("K19 is counted, kept and hashed before the end is told, in 50 of 50 runs", () =>
    Effect.gen(function*() {
      const lines = Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join("")
      const expected = createHash("sha256").update(lines).digest("hex")
      const results = yield* Effect.forEach(
        rounds,
        () => AppProcess.run(CommandSpec.make("seq", ["1", "100000"])),
        { concurrency: 4 }
      )
      for (const { info, output } of results) {
        const { bytesSeen, drained, sealed, sha256 } = info.output
        assert.deepStrictEqual(
          [info.status, bytesSeen, sha256, sealed, drained],
          ["completed", 588_895, expected, true, true]
        )
        assert.strictEqual(Buffer.from((yield* output.readBytes()).data).toString(), lines)
      }
    }).pipe(Effect.provide(runtime())))

  it.live("K19 reaches a slow reader whole, and does not wait for it", () =>
    Effect.gen(function*() {
      const expected = sha256Of(zeros, 200_000)
      const jobs = yield* jobsOf("slow reader")
      yield* Effect.forEach(rounds, () =>
        Effect.gen(function*() {
          const job = yield* jobs.start(CommandSpec.make("head", ["-c", "200000", "/dev/zero"]))
          const view = yield* jobs.output(job.id)
          const reading = yield* Effect.forkChild(
            view.followBytes().pipe(
              Stream.tap(() => Effect.sleep("30 millis")),
              Stream.runFold(() => 0, (total, page) => total + page.data.length)
            )
          )
          const ended = yield* jobs.wait(job.id)
          assert.deepStrictEqual(
            [ended.status, ended.output.bytesSeen, ended.output.sha256, ended.output.drained],
            ["completed", 200_000, expected, true]
          )
          assert.strictEqual(yield* Fiber.join(reading), 200_000)
        }), { concurrency: 5 })
    }).pipe(Effect.provide(runtime())))

  it.live("K19 is in the spill before the end is told", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("spill")
      const lines = Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join("")
      yield* Effect.forEach(rounds.slice(0, 10), () =>
        Effect.gen(function*() {
          const job = yield* jobs.start(CommandSpec.make("seq", ["1", "100000"]), { output: { limit: 64 * 1024 } })
          const { output } = yield* jobs.wait(job.id)
          assert.deepStrictEqual(
            [output.spill, output.spilledBytes, output.truncated, output.gap],
            ["complete", 588_895, true, null]
          )
          const { bytes, missing } = yield* readAll(yield* jobs.output(job.id), 100_000)
          assert.deepStrictEqual([bytes.toString() === lines, missing], [true, 0])
        }), { concurrency: 4 })
    }).pipe(Effect.provide(runtimeWith(BlobStoreMemory.layer))))
})

describe("huge output", () => {
  const chatter = CommandSpec.shell("head -c 300000000 /dev/zero; echo end")

  it.live("K20 costs a bound of memory, and neither ends nor blocks the command", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("huge")
      const warm = yield* jobs.start(CommandSpec.shell("head -c 30000000 /dev/zero"))
      yield* jobs.wait(warm.id)
      const { bytes, value } = yield* growthDuring(
        Effect.flatMap(jobs.start(chatter), (job) => jobs.wait(job.id))
      )
      const hash = createHash("sha256")
      for (let left = 300_000_000; left > 0; left -= 1_000_000) hash.update(Buffer.alloc(1_000_000))
      assert.deepStrictEqual(
        [value.status, value.exit, value.output.bytesSeen, value.output.truncated, value.output.sha256],
        ["completed", { code: 0, signal: null }, 300_000_004, true, hash.update("end\n").digest("hex")]
      )
      assert.isAtMost(value.output.bytesRetained, MiB)
      assert.isBelow(bytes, 32 * MiB)
      const view = yield* jobs.output(value.id)
      assert.include(yield* view.preview, "end\n")
    }).pipe(Effect.provide(runtime())))

  it.live("K20 past the cap of a spill goes on, and the cap is recorded", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("capped spill")
      const { bytes, value } = yield* growthDuring(
        Effect.flatMap(jobs.start(chatter), (job) => jobs.wait(job.id))
      )
      const { blob, bytesSeen, capped, gap, spill, spilledBytes } = value.output
      assert.deepStrictEqual([value.status, bytesSeen], ["completed", 300_000_004])
      assert.deepStrictEqual([spill, spilledBytes, capped, gap], [
        "partial",
        4 * MiB,
        true,
        { from: 4 * MiB, to: 300_000_004 }
      ])
      assert.isNotNull(blob)
      assert.isBelow(bytes, 48 * MiB)
      const view = yield* jobs.output(value.id)
      const spilled = yield* view.readBytes({ since: 3 * MiB, limit: 1000 })
      assert.deepStrictEqual([spilled.gap, spilled.data.length], [null, 1000])
    }).pipe(Effect.provide(runtimeWith(BlobStoreMemory.layer, { spillBytes: 4 * MiB }))))

  it.live("K20 goes whole into files where it may, with memory bounded", () =>
    Effect.gen(function*() {
      const path = yield* directory
      yield* Effect.gen(function*() {
        const jobs = yield* jobsOf("files")
        const { bytes, value } = yield* growthDuring(
          Effect.flatMap(
            jobs.start(CommandSpec.make("head", ["-c", "50000000", "/dev/zero"])),
            (job) => jobs.wait(job.id)
          )
        )
        const { bytesSeen, sha256, spill, spilledBytes } = value.output
        assert.deepStrictEqual(
          [value.status, bytesSeen, sha256, spill, spilledBytes],
          ["completed", 50_000_000, sha256Of(zeros, 50_000_000), "complete", 50_000_000]
        )
        assert.isBelow(bytes, 48 * MiB)
        const { bytes: all, missing } = yield* readAll(yield* jobs.output(value.id), MiB)
        assert.deepStrictEqual([all.length, missing], [50_000_000, 0])
      }).pipe(Effect.provide(runtimeWith(NodeProcessRuntime.layerBlobs({ directory: path }))))
    }))

  it.live("K20 without an end is ended by a stop, and every byte until then is counted and hashed", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("endless")
      const job = yield* jobs.start(CommandSpec.make("yes"))
      const view = yield* jobs.output(job.id)
      const { bytes, value } = yield* growthDuring(
        Effect.andThen(untilSeen(view, 50_000_000), jobs.stop(job.id))
      )
      const { bytesRetained, bytesSeen, sha256, truncated } = value.output
      assert.deepStrictEqual([value.status, value.exit, truncated], [
        "cancelled",
        { code: null, signal: "SIGTERM" },
        true
      ])
      assert.strictEqual(sha256, sha256Of("y\n", bytesSeen))
      assert.isAtMost(bytesRetained, MiB)
      assert.isBelow(bytes, 32 * MiB)
    }).pipe(Effect.provide(runtime())))

  it.live("K20 of 1 GiB leaves memory flat, with the exact count and hash", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("gibibyte")
      const warm = yield* jobs.start(CommandSpec.shell("head -c 30000000 /dev/zero"))
      yield* jobs.wait(warm.id)
      const { bytes, value } = yield* growthDuring(Effect.flatMap(
        jobs.start(CommandSpec.make("head", ["-c", "1073741824", "/dev/zero"])),
        (job) => jobs.wait(job.id)
      ))
      const { bytesRetained, bytesSeen, drained, sha256 } = value.output
      assert.deepStrictEqual(
        [value.status, bytesSeen, sha256, bytesRetained, drained],
        ["completed", 1024 * MiB, sha256Of(zeros, 1024 * MiB), MiB, true]
      )
      assert.isBelow(bytes, 32 * MiB)
    }).pipe(Effect.provide(runtime())))

  it.live("K20 ends a command only past a cap that its caller has set", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("cap")
      const job = yield* jobs.start(CommandSpec.make("yes"), { output: { cap: 100_000 } })
      const { output, receipt, status } = yield* jobs.wait(job.id)
      assert.deepStrictEqual([status, receipt?.cause], ["cancelled", { _tag: "OutputCap" }])
      assert.isAbove(output.bytesSeen, 100_000)
      assert.strictEqual(output.sha256, sha256Of("y\n", output.bytesSeen))
    }).pipe(Effect.provide(runtime())))
})

describe("a character that comes in two pieces", () => {
  const halves = (redirect: string) =>
    CommandSpec.shell(`printf '\\342' ${redirect}; read _; printf '\\202\\254' ${redirect}`, { stdin: "open" })

  for (const stream of ["stdout", "stderr"] as const) {
    it.live(`K21 is one character in previews, reads and followers of ${stream}`, () =>
      Effect.gen(function*() {
        const handle = yield* AppProcess.spawn(halves(stream === "stdout" ? "" : ">&2"))
        const view = stream === "stdout" ? handle.output : handle.stderr
        const following = yield* Effect.forkChild(Stream.runCollect(view.follow()))
        yield* untilSeen(view, 1)
        const first = yield* view.read()
        assert.deepStrictEqual([first.data, first.next, first.sealed], ["", 0, false])
        yield* handle.write("\n")
        yield* handle.termination
        const second = yield* view.read({ since: first.next })
        assert.deepStrictEqual([second.data, second.next, second.gap], ["€", 3, null])
        const metadata = yield* view.metadata
        assert.deepStrictEqual([metadata.bytesSeen, yield* view.preview], [3, "€"])
        assert.deepStrictEqual((yield* Fiber.join(following)).map((page) => page.data).join(""), "€")
      }).pipe(Effect.scoped, Effect.provide(runtime())))
  }

  it.live("K21 is one character in merged output and in the notice", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("halves")
      const job = yield* jobs.start(halves(">&2"))
      const view = yield* jobs.output(job.id)
      yield* untilSeen(view, 1)
      yield* jobs.write(job.id, "\n")
      yield* jobs.wait(job.id)
      assert.strictEqual((yield* view.read()).data, "€")
      assert.deepStrictEqual(
        (yield* jobs.notices).map((notice) => notice._tag === "Job" ? [notice.tail, notice.bytesSeen] : []),
        [["€", 3]]
      )
    }).pipe(Effect.provide(runtime())))
})

describe("a cut inside a character", () => {
  const count = 1000
  const text = "😀".repeat(count)
  const marker = /\.\.\. \[(\d+) earlier output bytes truncated\]\n/

  /** The text without its marker, and the bytes that the marker names. */
  const parts = (shown: string) => {
    const dropped = Number(marker.exec(shown)?.[1] ?? 0)
    return { kept: shown.replace(/\n?\.\.\. \[\d+ earlier output bytes truncated\]\n/, ""), dropped }
  }

  const check = (shown: string, bytes: number) => {
    assert.isTrue(shown.isWellFormed())
    const { dropped, kept } = parts(shown)
    assert.match(kept, /^(😀)*$/u)
    assert.strictEqual(Buffer.byteLength(kept) + dropped, bytes)
  }

  const offsets = [0, 1, 2, 3].flatMap((head) => [0, 1, 2, 3].map((tail) => [head, tail] as const))

  it.live("K22 falls on its border wherever the limits are, and the count of what was dropped is exact", () =>
    Effect.forEach(offsets, ([head, tail]) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf(`cut ${head} ${tail}`)
        const command = CommandSpec.make("cat", [], { stdin: new TextEncoder().encode(text) })
        const job = yield* jobs.start(command, { output: { head: 40 + head, limit: 100 + head + tail } })
        const ended = yield* jobs.wait(job.id)
        assert.deepStrictEqual([ended.status, ended.output.bytesSeen], ["completed", 4 * count])
        const view = yield* jobs.output(job.id)
        check(yield* view.preview, 4 * count)
        let whole = 0
        for (let since = 0;;) {
          const page = yield* view.read({ since, limit: 13 })
          if (page.next === since) break
          assert.isTrue(page.data.isWellFormed())
          const { dropped, kept } = parts(page.data)
          assert.strictEqual(dropped, page.gap === null ? 0 : page.gap.to - page.gap.from)
          assert.strictEqual(Buffer.byteLength(kept) + dropped, page.next - since)
          whole += page.next - since
          since = page.next
        }
        assert.strictEqual(whole, 4 * count)
        for (const since of [1, 2, 3, 41, 42, 43, 3997, 3999]) {
          assert.isTrue((yield* view.read({ since, limit: 50 })).data.isWellFormed())
        }
        for (const notice of yield* jobs.notices) {
          assert.isTrue(notice._tag === "Job" && notice.tail.length > 0 && /^(😀)*$/u.test(notice.tail))
        }
      }), { concurrency: 4, discard: true }).pipe(Effect.provide(runtime({ noticeTailBytes: 50 }))))

  it.live("K22 falls on its border in previews of every size", () =>
    Effect.forEach([50, 51, 52, 53], (previewBytes) =>
      Effect.gen(function*() {
        const command = CommandSpec.make("cat", [], { stdin: new TextEncoder().encode(text) })
        check((yield* AppProcess.run(command)).stdout, 4 * count)
      }).pipe(Effect.provide(runtime({ previewBytes }))), { discard: true }))
})

describe("stdin of a child that has gone", () => {
  const given = MiB

  it.live("K23 takes less than it was given, which is a count and no failure", () =>
    Effect.gen(function*() {
      const seen = yield* warnings
      const results = yield* Effect.forEach(
        Array.from({ length: 20 }),
        () => AppProcess.run(CommandSpec.make("true", [], { stdin: new Uint8Array(given) })),
        { concurrency: 4 }
      )
      for (const { info } of results) {
        assert.deepStrictEqual([info.status, info.exit], ["completed", { code: 0, signal: null }])
        assert.isBelow(info.stdinAccepted, given)
      }
      assert.deepStrictEqual(seen, [])
    }).pipe(Effect.scoped, Effect.provide(runtime())))

  it.live("K23 refuses a write by type, telling how much it took", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("gone")
      const job = yield* jobs.start(CommandSpec.make("true", [], { stdin: "open" }))
      const error = yield* Effect.flip(jobs.write(job.id, new Uint8Array(given)))
      assert.strictEqual(error._tag, "StdinClosed")
      assert.isBelow(error._tag === "StdinClosed" ? error.accepted : given, given)
      const ended = yield* jobs.wait(job.id)
      assert.strictEqual(ended.status, "completed")
      const later = yield* Effect.flip(jobs.write(job.id, "x"))
      assert.deepStrictEqual(later._tag === "StdinClosed" ? later.accepted : later, 0)
    }).pipe(Effect.provide(runtime())))

  it.live("K23 counts all of it when all of it was taken", () =>
    Effect.gen(function*() {
      const { info } = yield* AppProcess.run(CommandSpec.make("cat", [], { stdin: new Uint8Array(given) }))
      assert.deepStrictEqual(
        [info.status, info.stdinAccepted, info.output.bytesSeen, info.output.sha256],
        ["completed", given, given, sha256Of(zeros, given)]
      )
    }).pipe(Effect.provide(runtime())))
})

describe("output that nobody reads", () => {
  it.live("K24 is read all the same, on both streams, so the command ends", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("unread")
      const command = CommandSpec.shell("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")
      const started = yield* jobs.start(command, { streams: "separate" })
      const job = yield* jobs.wait(started.id)
      assert.deepStrictEqual(
        [job.status, job.output.bytesSeen, job.stderr?.bytesSeen],
        ["completed", 1_000_000, 1_000_000]
      )
      const handle = yield* AppProcess.spawn(command)
      assert.deepStrictEqual(yield* handle.exit, { code: 0, signal: null })
    }).pipe(Effect.scoped, Effect.provide(runtime())))
})

describe("cursors over a window that has lost bytes", () => {
  it.live("K25 never go back, tell what is lost, and account for every byte", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("cursors")
      const job = yield* jobs.start(CommandSpec.make("cat", [], { stdin: "open" }), { output: { limit: 1000 } })
      const view = yield* jobs.output(job.id)
      const bytes = (count: number) => Buffer.alloc(count, "0123456789")

      yield* jobs.write(job.id, bytes(400))
      yield* untilSeen(view, 400)
      const first = yield* view.readBytes({ since: 0 })
      assert.deepStrictEqual([first.next, first.gap, Buffer.from(first.data)], [400, null, bytes(400)])

      yield* jobs.write(job.id, bytes(5000))
      yield* untilSeen(view, 5400)
      const metadata = yield* view.metadata
      assert.deepStrictEqual([metadata.bytesSeen, metadata.bytesRetained, metadata.truncated], [5400, 1000, true])
      // What is still of the beginning, then what is left of the end.
      let since = 400
      let kept = 0
      let lost = 0
      while (since < 5400) {
        const page = yield* view.readBytes({ since })
        assert.isAbove(page.next, since)
        assert.strictEqual(page.since, since)
        if (page.gap !== null) {
          assert.strictEqual(page.gap.from, since)
          lost += page.gap.to - page.gap.from
        }
        kept += page.data.length
        assert.strictEqual((page.gap?.to ?? since) + page.data.length, page.next)
        since = page.next
      }
      assert.deepStrictEqual([since, kept, lost], [5400, 600, 4400])
      const text = yield* view.read({ since: 4000, limit: 2000 })
      assert.match(text.data, /^\.\.\. \[\d+ earlier output bytes truncated\]\n[0-9]+$/)

      for (const ahead of [5410, 2 ** 53]) {
        const page = yield* view.readBytes({ since: ahead })
        assert.deepStrictEqual([page.data.length, page.next, page.gap, page.sealed], [0, 5400, null, false])
      }
      for (const bad of [-1, 1.5, NaN, -Infinity]) {
        assert.strictEqual((yield* Effect.flip(view.readBytes({ since: bad })))._tag, "BadCursor")
        assert.strictEqual((yield* Effect.flip(view.read({ since: bad })))._tag, "BadCursor")
      }
      yield* jobs.closeStdin(job.id)
      const ended = yield* jobs.wait(job.id)
      assert.deepStrictEqual([ended.status, ended.output.bytesSeen], ["completed", 5400])
      const all = yield* readAll(view, 64)
      assert.strictEqual(all.bytes.length + all.missing, 5400)
      assert.strictEqual((yield* view.read({ since: 5400 })).sealed, true)
    }).pipe(Effect.provide(runtime())))

  it.live("K25 of a follower that comes late begin at the beginning that is kept, and end at the seal", () =>
    Effect.gen(function*() {
      const jobs = yield* jobsOf("late follower")
      const job = yield* jobs.start(CommandSpec.make("seq", ["1", "10000"]), { output: { limit: 1000 } })
      const view = yield* jobs.output(job.id)
      yield* until("bytes gone from memory", Effect.map(view.metadata, (metadata) => metadata.truncated))
      const pages = yield* Stream.runCollect(view.followBytes({ limit: 100 }))
      let at = 0
      let counted = 0
      for (const page of pages) {
        assert.strictEqual(page.since, at)
        counted += page.data.length + (page.gap === null ? 0 : page.gap.to - page.gap.from)
        at = page.next
      }
      const { output } = yield* jobs.wait(job.id)
      assert.deepStrictEqual([at, counted], [output.bytesSeen, output.bytesSeen])
    }).pipe(Effect.provide(runtime())))
})
