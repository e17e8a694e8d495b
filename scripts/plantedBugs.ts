// `npm run planted-bugs`: are our laws able to fail? Plants bugs into a copy of the sources, one after the other, asks the
// finders for each in turn until one of them finds it, and prints who it was. `--only NAME` plants one; `--all` asks every
// finder, also after one has found it; `--check` runs nothing, and tells whether each bug still fits its file.
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { bugs } from "./planted-bugs/all.ts"
import { copyOf, runIn } from "./planted-bugs/copies.ts"
import { type Finder, finders } from "./planted-bugs/finders.ts"
import { plant, type PlantedBug } from "./planted-bugs/PlantedBug.ts"

const root = fileURLToPath(new URL("..", import.meta.url))

const { values: asked } = parseArgs({
  options: { only: { type: "string" }, all: { type: "boolean" }, check: { type: "boolean" } }
})

/** One answer: `null` for a finder that has found nothing. */
interface Answer {
  readonly bug: PlantedBug
  readonly finder: string
  readonly found: string | null
  readonly seconds: number
}

const problemOf = (bug: PlantedBug): string | null => {
  const lost = bug.laws.find((law) => !existsSync(join(root, `packages/${law}.test.ts`)))
  if (lost !== undefined) return `there are no laws ${lost}`
  if (!existsSync(join(root, bug.file))) return `there is no ${bug.file}`
  const planted = plant(readFileSync(join(root, bug.file), "utf8"), bug)
  return typeof planted === "string" ? `${bug.file}: ${planted}` : null
}

const ask = async (
  copy: string,
  finder: Finder,
  about: Pick<PlantedBug, "laws" | "simulated">
): Promise<{ readonly found: string | null; readonly seconds: number } | null> => {
  const report = join(copy, "node_modules/.planted-report.json")
  writeFileSync(report, "")
  const command = finder.command({ root: copy, laws: about.laws, simulated: about.simulated, report })
  if (command === null) return null
  const began = performance.now()
  const { code, output } = await runIn(copy, command, finder.windowMillis)
  const found = code === 0 ? null : code === null ? "hangs" : finder.told({ output, report })
  return { found, seconds: (performance.now() - began) / 1000 }
}

/** Plants it, asks, and takes it back. */
const look = async (copy: string, bug: PlantedBug): Promise<ReadonlyArray<Answer>> => {
  const path = join(copy, bug.file)
  const text = readFileSync(path, "utf8")
  const planted = plant(text, bug)
  if (typeof planted === "string") return []
  writeFileSync(path, planted.planted)
  try {
    const answers: Array<Answer> = []
    for (const finder of finders) {
      const answer = await ask(copy, finder, asked.all === true ? { ...bug, simulated: true } : bug)
      if (answer === null) continue
      answers.push({ bug, finder: finder.name, ...answer })
      if (answer.found !== null && asked.all !== true) break
    }
    return answers
  } finally {
    writeFileSync(path, text)
  }
}

/** What finds something where nothing is planted proves nothing. */
const findsNothing = async (copies: ReadonlyArray<string>, chosen: ReadonlyArray<PlantedBug>): Promise<boolean> => {
  const laws = [...new Set(chosen.flatMap((bug) => bug.laws))]
  const simulated = chosen.some((bug) => bug.simulated) || asked.all === true
  const answers = await Promise.all(
    finders.map(async (finder, index) => ({
      finder,
      answer: await ask(copies[index % copies.length] ?? "", { ...finder, windowMillis: finder.windowMillis * 4 }, {
        laws,
        simulated
      })
    }))
  )
  for (const { answer, finder } of answers) {
    if (answer === null) console.log(`${finder.name}: nothing to run, left out`)
    else if (answer.found === null) console.log(`${finder.name}: finds nothing where nothing is planted`)
    else console.error(`${finder.name}: finds something where nothing is planted: ${answer.found}`)
  }
  return answers.every(({ answer }) => answer === null || answer.found === null)
}

const lookForAll = async (chosen: ReadonlyArray<PlantedBug>): Promise<ReadonlyMap<PlantedBug, ReadonlyArray<Answer>>> => {
  // One for each of two cores.
  const copies = [copyOf(root), copyOf(root)]
  const answers = new Map<PlantedBug, ReadonlyArray<Answer>>()
  if (!await findsNothing(copies, chosen)) return answers
  const left = [...chosen]
  await Promise.all(copies.map(async (copy) => {
    for (let bug = left.shift(); bug !== undefined; bug = left.shift()) answers.set(bug, await look(copy, bug))
  }))
  return answers
}

const cut = (text: string, most: number): string => text.length <= most ? text : `${text.slice(0, most - 1)}…`

const printTable = (rows: ReadonlyArray<ReadonlyArray<string>>): void => {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  for (const row of rows) console.log(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd())
}

const rowOf = ({ bug, finder, found, seconds }: Answer): ReadonlyArray<string> => [
  bug.name,
  found === null ? `not by ${finder}` : finder,
  cut(found ?? bug.about, 100),
  seconds.toFixed(1)
]

const isFound = (answers: ReadonlyArray<Answer> | undefined): boolean =>
  answers?.some(({ found }) => found !== null) === true

const main = async (): Promise<boolean> => {
  const chosen = bugs.filter(({ name }) => asked.only === undefined || name === asked.only)
  if (chosen.length === 0) {
    console.error(`No such bug: ${asked.only}. There are:\n\n${bugs.map(({ name }) => `  ${name}`).join("\n")}`)
    return false
  }
  const names = new Set(bugs.map(({ name }) => name))
  if (names.size < bugs.length) throw new Error("two bugs have one name")
  const unfit = chosen.flatMap((bug) => {
    const problem = problemOf(bug)
    return problem === null ? [] : [`${bug.name}: ${problem}`]
  })
  for (const line of unfit) console.error(line)
  if (asked.check === true) {
    console.log(`${chosen.length} bugs, ${unfit.length} that do not fit any more`)
    return unfit.length === 0
  }
  const answers = await lookForAll(chosen.filter((bug) => problemOf(bug) === null))
  if (answers.size === 0) return false
  printTable([
    ["bug", "found by", "by which", "seconds"],
    ...chosen.flatMap((bug) => answers.get(bug)?.map(rowOf) ?? [])
  ])
  const found = chosen.filter((bug) => isFound(answers.get(bug))).length
  console.log(`planted ${chosen.length}, found ${found}, missed ${chosen.length - found}`)
  return found === chosen.length
}

process.once("SIGINT", () => process.exit(130))
process.exitCode = await main() ? 0 : 1
