import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("programs/limits.ts", import.meta.url))
const isRoot = process.getuid?.() === 0

/** What the program prints under a limit, and how it exits. */
const under = (limit: string, ...args: ReadonlyArray<string>) =>
  Effect.callback<readonly [code: number, printed: string]>((resume) => {
    execFile("prlimit", [limit, process.execPath, program, ...args], (error, stdout) => {
      resume(Effect.succeed([typeof error?.code === "number" ? error.code : 0, stdout.trim()]))
    })
  })

it.live("a start past the limit of files is refused by name, and the others are stopped, and room is used again", () =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* under("--nofile=64", "100"), [
      0,
      "refused TooManyFiles, some started true, then cancelled, later completed"
    ])
  }))

it.live.skipIf(!isRoot)(
  "a start past the limit of processes is refused by name, and the others are stopped, and room is used again",
  () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* under("--nproc=40", "100", "65533"), [
        0,
        "refused TooManyProcesses, some started true, then cancelled, later completed"
      ])
    })
)
