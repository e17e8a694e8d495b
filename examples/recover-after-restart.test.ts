import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { withoutChance } from "./harness/chance.ts"
import { run } from "./harness/program.ts"

const expected = readFileSync(new URL("recover-after-restart.txt", import.meta.url), "utf8")

// After a change on purpose: npm run --silent example recover-after-restart > examples/recover-after-restart.txt
it("the story of two lives is told as its page has it, exits with 0, and leaves no process and no file", async () => {
  const ended = await run("recover-after-restart")
  assert.strictEqual(withoutChance(ended.stdout), withoutChance(expected))
  assert.strictEqual(ended.stderr, "")
  assert.strictEqual(ended.code, 0)
  assert.deepStrictEqual(ended.alive, [])
  assert.deepStrictEqual(ended.files, [])
})
