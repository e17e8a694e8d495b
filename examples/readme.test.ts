// The README and the pages in docs say what is: their code is code that runs, and the README's tables are compared with
// what they describe.
import { assert, it } from "@effect/vitest"
import { Settings, Status } from "@procyon/runtime"
import * as testing from "@procyon/testing"
import { existsSync, globSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { basename, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { withoutChance } from "./harness/chance.ts"
import { run } from "./harness/program.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const read = (file: string): string => readFileSync(root + file, "utf8")
const readme = read("README.md")

const blocks = (language: string, text = readme): ReadonlyArray<string> =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"))].map(([, code = ""]) => code)

/** A method of a class stands at the margin on a page. */
const withoutIndentation = (code: string): string => code.replaceAll(/^ +/gm, "")

const section = (title: string): string => {
  const from = readme.indexOf(`\n## ${title}\n`)
  assert.notStrictEqual(from, -1, `no section ${title}`)
  const to = readme.indexOf("\n## ", from + 1)
  return readme.slice(from, to === -1 ? undefined : to)
}

/** The cells of a section's table, without its head. */
const rows = (title: string): ReadonlyArray<ReadonlyArray<string>> =>
  section(title).split("\n").filter((line) => line.startsWith("|")).slice(2)
    .map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()))

const pages = ["README.md", ...globSync("docs/*.md", { cwd: root })]

it.each(pages)("%s: every TypeScript block is part of an example that is type-checked and run", (page) => {
  const examples = globSync("examples/{,*/}*.ts", { cwd: root }).filter((file) => file !== "examples/readme.test.ts")
    .map((file) => withoutIndentation(read(file)))
  const code = blocks("ts", read(page))
  assert.isAbove(code.length, 3)
  for (const block of code) {
    assert.isTrue(examples.some((example) => example.includes(withoutIndentation(block))), `in no example:\n${block}`)
  }
})

it.each(["README.md", "CONTRIBUTING.md", ...pages.slice(1)])("%s: every link to a file leads to one", (page) => {
  for (const [, target = ""] of read(page).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
    assert.isTrue(existsSync(join(root, dirname(page), target)), target)
  }
})

it("the first program prints what stands below it, and leaves no process", async () => {
  assert.strictEqual(blocks("ts")[0], read("examples/hello.ts"))
  const ended = await run("hello")
  assert.strictEqual(ended.stdout, blocks("text")[0])
  assert.strictEqual(ended.stderr, "")
  assert.strictEqual(ended.code, 0)
  assert.deepStrictEqual(ended.alive, [])
})

it("the receipt is one that the quickstart printed", () => {
  const [receipt = "none"] = blocks("text", section("How a tree is ended")).slice(-1)
  const bare = (text: string): string => withoutChance(text).replaceAll(/^ /gm, "")
  assert.include(bare(read("examples/quickstart.txt")), bare(receipt))
})

it("the tree of the runtime's sources lists them all, and nothing else", () => {
  const [tree = ""] = blocks("text", section("Architecture"))
  const listed = [...tree.matchAll(/\b\w+\.ts\b/g)].map(([name]) => name)
  const files = globSync("packages/runtime/src/{,domain/,ports/,services/,stores/,edges/}*.ts", { cwd: root })
  assert.deepStrictEqual(listed.toSorted(), files.map((file) => basename(file)).toSorted())
})

it("the table of statuses has every status", () => {
  assert.sameMembers(rows("Statuses").map(([status]) => status?.replaceAll("`", "")), [...Status.Status.literals])
})

it("the table of settings has every setting, with its default", () => {
  const told = rows("Settings").map(([name = "", value = ""]) => [name.replaceAll("`", ""), numberOf(value)])
  assert.deepStrictEqual(Object.fromEntries(told), { ...Settings.defaults })
})

it("the table of law suites has every suite, and names it as it is called", () => {
  const named = rows("Testing").flatMap(([name = ""]) => /^`(\w+Laws)\.(\w+)`$/.exec(name)?.slice(1).join(".") ?? [])
  const suites = Object.entries(testing).filter(([module]) => module.endsWith("Laws")).flatMap(([module, members]) =>
    Object.keys(members).filter((member) => member.toLowerCase() === module.toLowerCase()).map((it) =>
      `${module}.${it}`
    )
  )
  assert.sameMembers(named, suites)
})

it("the modules that Effect 3's packages became exist", () => {
  const { resolve } = createRequire(import.meta.url)
  const modules = [...section("Where Effect 3's packages went").matchAll(/`(effect\/[\w/-]+)`/g)].map(([, name = ""]) =>
    name
  )
  assert.isAbove(modules.length, 10)
  for (const name of modules) assert.isTrue(existsSync(resolve(name)), name)
})

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }

const numberOf = (text: string): number | null => {
  if (text === "none") return null
  const [amount, unit] = text.split(" ")
  return Number(amount) * (unit === undefined ? 1 : units[unit] ?? NaN)
}
