import { assert, it } from "@effect/vitest"
import { run } from "./harness/program.ts"

it("the plugin's jobs belong to the session it was called in, and end with it", async () => {
  const ended = await run("plugin")
  const session = (owner: string) => [
    `${owner}    jobs before: 0`,
    `${owner}    watch: watching src`,
    `${owner}    watch again: watching src`,
    `${owner}    jobs now: 1`,
    `${owner}    countLines: 3`,
    `application  ${owner} is over, its watcher cancelled`
  ]
  assert.deepStrictEqual(ended.stdout.trimEnd().split("\n"), [...session("session-1"), ...session("session-2")])
  assert.strictEqual(ended.stderr, "")
  assert.strictEqual(ended.code, 0)
  assert.deepStrictEqual(ended.alive, [])
})
