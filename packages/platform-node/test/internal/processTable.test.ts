import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { readBootId } from "../../src/internal/processTable.ts"
import { live } from "../support/processes.ts"

const table = new URL("../../src/internal/processTable.ts", import.meta.url)

/** What another process takes its boot for. */
const bootOf = (...via: ReadonlyArray<string>): string => {
  const script = `import { readBootId } from ${JSON.stringify(table.href)}; process.stdout.write(readBootId())`
  const args = [...via, process.execPath, "--input-type=module", "-e", script]
  const { stderr, stdout } = spawnSync("env", args, { encoding: "utf8" })
  assert.notStrictEqual(stdout, "", stderr)
  return stdout
}

describe("readBootId", () => {
  it("is the same for every process of one machine", () => {
    assert.strictEqual(bootOf(), readBootId())
  })

  live("tells apart those of one machine whose pids are numbered apart", ["unshare"], () =>
    Effect.sync(() => {
      const inside = bootOf("unshare", "--pid", "--fork", "--mount-proc")
      assert.notStrictEqual(inside, readBootId())
      assert.strictEqual(inside.split("/")[0], readBootId()?.split("/")[0])
    }))
})
