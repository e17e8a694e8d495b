// `npm run coverage`: how much of packages/runtime/src its own tests run through. It fails below the thresholds of
// vitest.workspace.ts, and unless packages/runtime/test/uncovered.ts explains exactly what is left.
import { spawnSync } from "node:child_process"
import { readFileSync, rmSync } from "node:fs"
import { relative } from "node:path"
import { fileURLToPath } from "node:url"
import { uncovered } from "../packages/runtime/test/uncovered.ts"

/**
 * The runtime's own, and those of its ledger in a file. The others are left out on purpose: those on real processes and
 * those of random histories go through the same lines, another time each, and take minutes.
 */
const tests = ["packages/runtime/", "packages/platform-node/test/NodeSqlite.test.ts"]

/** The part of vitest's report that is read here: istanbul's format. */
interface Span {
  readonly start: { readonly line?: number }
}
interface Covered {
  readonly path: string
  readonly statementMap: Readonly<Record<string, Span>>
  readonly s: Readonly<Record<string, number>>
  readonly fnMap: Readonly<Record<string, { readonly decl: Span }>>
  readonly f: Readonly<Record<string, number>>
  readonly branchMap: Readonly<Record<string, { readonly loc: Span; readonly locations: ReadonlyArray<Span> }>>
  readonly b: Readonly<Record<string, ReadonlyArray<number>>>
}

const root = fileURLToPath(new URL("..", import.meta.url))
const report = `${root}coverage/coverage-final.json`
const source = `${root}packages/runtime/src`

/** Lines on which a statement, a function or a branch begins that nothing has run through. */
const missedLines = ({ b, branchMap, f, fnMap, s, statementMap }: Covered): ReadonlyArray<number> => {
  const lines = new Set<number | undefined>()
  for (const [id, count] of Object.entries(s)) if (count === 0) lines.add(statementMap[id]?.start.line)
  for (const [id, count] of Object.entries(f)) if (count === 0) lines.add(fnMap[id]?.decl.start.line)
  for (const [id, counts] of Object.entries(b)) {
    const branch = branchMap[id]
    // An absent `else` is nowhere: it counts for its `if`.
    counts.forEach((count, index) => {
      if (count === 0) lines.add(branch?.locations[index]?.start.line ?? branch?.loc.start.line)
    })
  }
  return [...lines].filter((line) => line !== undefined).toSorted((a, b) => a - b)
}

/** A line as it is named in the list: without a number, which every change above it would make wrong. */
const placeOf = (file: string, text: string): string => `${file}: ${text}`

// Also what a PostgreSQL would cover is on the list, so that a machine that has one measures the same.
const { PROCYON_TEST_POSTGRES: _, ...env } = process.env
rmSync(report, { force: true })
const { status } = spawnSync("vitest", ["run", "--config", "vitest.workspace.ts", "--coverage", ...tests], {
  cwd: root,
  env,
  stdio: "inherit"
})
if (status !== 0) process.exit(status ?? 1)

/** Line numbers by place; those of equal lines of a file together. */
const missed = new Map<string, Array<number>>()
for (const covered of Object.values(JSON.parse(readFileSync(report, "utf8")) as Record<string, Covered>)) {
  const file = relative(source, covered.path)
  const lines = readFileSync(covered.path, "utf8").split("\n")
  for (const line of missedLines(covered)) {
    const place = placeOf(file, lines[line - 1]?.trim() ?? "")
    missed.set(place, [...missed.get(place) ?? [], line])
  }
}

const explained = new Map<string, number>()
for (const { places } of uncovered) {
  for (const [file, lines] of Object.entries(places)) {
    for (const line of lines) {
      const place = placeOf(file, line)
      explained.set(place, (explained.get(place) ?? 0) + 1)
    }
  }
}

const list = "packages/runtime/test/uncovered.ts"
const missing = [...missed].filter(([place, lines]) => lines.length > (explained.get(place) ?? 0))
const stale = [...explained].filter(([place, count]) => count > (missed.get(place)?.length ?? 0))
if (missing.length > 0) {
  console.error(`\nNot covered, and not explained in ${list}:`)
  for (const [place, lines] of missing) console.error(`  ${place}   (line ${lines.join(", ")})`)
}
if (stale.length > 0) {
  console.error(`\nExplained in ${list}, but covered now, or not there any more:`)
  for (const [place] of stale) console.error(`  ${place}`)
}
const count = [...missed.values()].reduce((sum, lines) => sum + lines.length, 0)
if (missing.length + stale.length > 0) process.exit(1)
console.log(
  `${count} lines of packages/runtime/src are not covered, or not in every branch; all are explained in ${list}`
)
