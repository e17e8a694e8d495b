import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { withoutChance } from "./harness/chance.ts"
import { run } from "./harness/program.ts"

const expected = readFileSync(new URL("quickstart.txt", import.meta.url), "utf8")

// After a change on purpose: npm start --silent > examples/quickstart.txt
it("the quickstart prints what quickstart.txt shows, exits with 0, and leaves no process and no file", async () => {
  const ended = await run("quickstart")
  assert.strictEqual(withoutChance(ended.stdout), withoutChance(expected))
  assert.strictEqual(ended.stderr, "")
  assert.strictEqual(ended.code, 0)
  assert.deepStrictEqual(ended.alive, [])
  assert.deepStrictEqual(ended.files, [])
})

it("the quickstart tells its shutdown report after Ctrl-C too, and leaves no process and no file", async () => {
  const ended = await run("quickstart", { args: ["--hold"], interruptAt: "Ctrl-C ends them." })
  assert.match(
    ended.stdout,
    /The shutdown report[^]*2 processes[^]*\bann +left running +cancelled[^]*\bbob +left running/
  )
  assert.match(ended.stdout, /Every process is verified gone\.\s*$/)
  assert.strictEqual(ended.code, 130) // 128 + SIGINT
  assert.deepStrictEqual(ended.alive, [])
  assert.deepStrictEqual(ended.files, [])
})

it("the quickstart ends in order when it is interrupted at its beginning", async () => {
  const ended = await run("quickstart", { args: ["--hold"], interruptAt: "Procyon" })
  assert.match(ended.stdout, /Every process is verified gone\.\s*$/)
  assert.strictEqual(ended.code, 130)
  assert.deepStrictEqual(ended.alive, [])
  assert.deepStrictEqual(ended.files, [])
})
