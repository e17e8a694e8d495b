import { assert, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { globSync } from "node:fs"
import { basename } from "node:path"
import { fileURLToPath } from "node:url"

const script = fileURLToPath(new URL("../scripts/example.ts", import.meta.url))
const example = (...args: ReadonlyArray<string>) => spawnSync(process.execPath, [script, ...args], { encoding: "utf8" })

const names = globSync("*.ts", { cwd: fileURLToPath(new URL(".", import.meta.url)) })
  .map((file) => basename(file, ".ts"))
  .filter((name) => !name.endsWith(".test"))

it("without a name the examples are listed, each with its question", () => {
  const { status, stdout } = example()
  const listed = [...stdout.matchAll(/^ {2}(\S+) +(\S.*\?)$/gm)].map(([, name = ""]) => name)
  assert.deepStrictEqual(listed, names.toSorted())
  assert.strictEqual(status, 0)
})

it("a name that is none is refused with the list", () => {
  const { status, stderr } = example("nothing")
  assert.match(stderr, /^No such example: nothing\.[^]*\bquickstart\b/)
  assert.strictEqual(status, 2)
})
