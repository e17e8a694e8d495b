import { assert, it } from "@effect/vitest"
import { run } from "./harness/program.ts"

it("a facade's job ends with its application, and its session goes on", async () => {
  const ended = await run("facade")
  assert.deepStrictEqual(ended.stdout.trimEnd().split("\n"), [
    "application 1  dev server: it says ready",
    "application 1  lines: 2",
    "replaced       it is application 2 now",
    "application 2  dev server: there is none",
    "session        dev server: cancelled, 0 of its processes alive"
  ])
  assert.strictEqual(ended.stderr, "")
  assert.strictEqual(ended.code, 0)
  assert.deepStrictEqual(ended.alive, [])
})
