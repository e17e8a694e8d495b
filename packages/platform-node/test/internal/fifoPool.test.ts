import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import * as FifoPool from "../../src/internal/fifoPool.ts"
import { type MakeFifos, mkfifo } from "../../src/internal/mkfifo.ts"
import { temporaryDirectory } from "../support/directory.ts"
import { seenAt, until } from "../support/processes.ts"

const take = (pool: FifoPool.FifoPool, count: number): Effect.Effect<ReadonlyArray<string> | null> =>
  Effect.callback((resume) => pool.take(count, (names) => resume(Effect.succeed(names))))

const withPool = <E>(
  body: (pool: FifoPool.FifoPool) => Effect.Effect<void, E>,
  makeFifos?: MakeFifos
): Effect.Effect<void, E> =>
  Effect.acquireUseRelease(
    Effect.sync(() => FifoPool.make(makeFifos)),
    body,
    (pool) => Effect.callback((resume) => pool.close(() => resume(Effect.void)))
  )

describe("fifoPool", () => {
  it.live("hands each name out once, in a directory that only this user can enter", () =>
    withPool((pool) =>
      Effect.gen(function*() {
        const taken = yield* Effect.forEach(Array.from({ length: 200 }), () => take(pool, 2), {
          concurrency: "unbounded"
        })
        const names = taken.flatMap((two) => two ?? [])
        assert.strictEqual(new Set(names).size, 400)
        for (const name of names) assert.isTrue(fs.statSync(name).isFIFO())
        assert.strictEqual(fs.statSync(path.dirname(names[0] ?? "")).mode & 0o777, 0o700)
      })
    ))

  it("leaves no directory behind of an application that ends without closing its runtime", () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-test-"))
    try {
      const host = fileURLToPath(new URL("../support/hosts/idle.ts", import.meta.url))
      const env = { ...process.env, TMPDIR: directory }
      assert.include(execFileSync(process.execPath, [host, "open"], { env, encoding: "utf8" }), "done")
      assert.deepStrictEqual(fs.readdirSync(directory), [])
    } finally {
      fs.rmSync(directory, { recursive: true })
    }
  })

  it("removes what an application has left that was killed, and nothing of one that lives", () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-test-"))
    const env = { ...process.env, TMPDIR: directory }
    const pool = new URL("../../src/internal/fifoPool.ts", import.meta.url)
    const script = `import { make } from ${JSON.stringify(pool.href)}
      make().take(1, () => process.kill(process.pid, process.argv[1]))`
    const run = (signal: string) =>
      spawn(process.execPath, ["--input-type=module", "-e", script, signal], { env, stdio: "ignore" })
    const ends = (child: ChildProcess) => new Promise((resolve) => child.once("exit", resolve))
    const left = () => fs.readdirSync(directory)
    return Effect.runPromise(
      Effect.gen(function*() {
        const living = run("SIGSTOP")
        yield* Effect.addFinalizer(() =>
          Effect.promise(() => {
            living.kill("SIGKILL")
            return ends(living)
          }).pipe(Effect.andThen(Effect.sync(() => fs.rmSync(directory, { recursive: true }))))
        )
        yield* until("it has stopped itself", () => seenAt(living.pid ?? 0)?.state === "T")
        const its = left()
        assert.lengthOf(its, 1)
        yield* Effect.promise(() => ends(run("SIGKILL")))
        assert.lengthOf(left(), 2)
        // Another user's is not ours to judge, nor is one of another boot or of nobody.
        const others = ["procyon-AbCdEf", `procyon-${"0".repeat(16)}-1-1-AbCdEf`]
        for (const name of others) fs.mkdirSync(path.join(directory, name), { mode: 0o700 })
        yield* Effect.promise(() => ends(run("SIGKILL")))
        assert.includeMembers(left(), [...its, ...others])
        assert.lengthOf(left(), 4)
      }).pipe(Effect.scoped)
    )
  })

  it.live("holds one listener for all pools, and none when they are closed", () =>
    Effect.gen(function*() {
      const before = process.listenerCount("exit")
      yield* withPool((first) =>
        withPool((second) =>
          Effect.gen(function*() {
            yield* take(first, 1)
            yield* take(second, 1)
            assert.strictEqual(process.listenerCount("exit"), before + 1)
          })
        )
      )
      assert.strictEqual(process.listenerCount("exit"), before)
    }))

  it.live("removes its directory when it is closed, also while a batch is being made", () =>
    Effect.gen(function*() {
      const pool = FifoPool.make()
      const [name = ""] = (yield* take(pool, 1)) ?? []
      let late: ReadonlyArray<string> | null | undefined
      pool.take(1000, (names) => {
        late = names
      })
      yield* Effect.callback<void>((resume) => pool.close(() => resume(Effect.void)))
      assert.isFalse(fs.existsSync(path.dirname(name)))
      assert.strictEqual(late, null)
    }))

  it.live("closes also when a batch is never made", () =>
    Effect.gen(function*() {
      const directories: Array<string> = []
      const pool = FifoPool.make(([name = ""]) => directories.push(path.dirname(name)), 50)
      pool.take(1, () => assert.fail("no batch was made"))
      yield* Effect.callback<void>((resume) => pool.close(() => resume(Effect.void)))
      assert.deepStrictEqual(directories.map((directory) => fs.existsSync(directory)), [false])
    }))

  it.live("ends a program that does not end by itself", () =>
    Effect.scoped(Effect.gen(function*() {
      const program = path.join(yield* temporaryDirectory, "mkfifo")
      fs.writeFileSync(program, "#!/bin/sh\nexec sleep 300\n", { mode: 0o755 })
      const made = yield* Effect.callback<boolean>((resume) =>
        mkfifo(program, 50)(["/no/such/name"], (ok) => resume(Effect.succeed(ok)))
      )
      assert.isFalse(made)
    })))

  it.live("makes a new directory when somebody has removed the one it had", () =>
    withPool((pool) =>
      Effect.gen(function*() {
        const [first = ""] = (yield* take(pool, 1)) ?? []
        fs.rmSync(path.dirname(first), { recursive: true })
        const [second = ""] = (yield* take(pool, 1)) ?? []
        assert.isTrue(fs.statSync(second).isFIFO())
      })
    ))

  for (const program of ["/no/such/mkfifo", "false"]) {
    it.live(`answers that none can be made when ${program} cannot`, () =>
      withPool((pool) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* take(pool, 1), null)
        }), mkfifo(program)))
  }
})
