/**
 * Who looks for planted bugs, in the order they are asked. Each is a command that ends well where it finds nothing, and not
 * well, or not in time, where it does.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export interface Finder {
  readonly name: string
  /** What to run, or `null` where there is nothing to run. `report`: a file that is this run's own. */
  readonly command: (of: {
    readonly root: string
    readonly laws: ReadonlyArray<string>
    readonly simulated: boolean
    readonly report: string
  }) => ReadonlyArray<string> | null
  /** Longer than it takes on a busy machine: what takes longer hangs. */
  readonly windowMillis: number
  /** The first thing that it has found, in its own words. */
  readonly told: (ran: { readonly output: string; readonly report: string }) => string
}

const scriptsOf = (root: string): Record<string, string> =>
  JSON.parse(readFileSync(join(root, "package.json"), "utf8")).scripts

const firstLine = (text: string, wanted: RegExp): string | undefined =>
  text.split("\n").find((line) => wanted.test(line))?.trim()

const simulator: Finder = {
  name: "simulator",
  command: ({ root, simulated }) =>
    simulated && "simulate" in scriptsOf(root)
      ? ["npm", "run", "--silent", "simulate", "--", "--histories", "400", "--seed", "1"]
      : null,
  windowMillis: 120_000,
  told: ({ output }) => firstLine(output, /violat(?!ions 0)|broken|Error/i) ?? "it did not end well"
}

interface VitestReport {
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly status: string
    readonly assertionResults: ReadonlyArray<{ readonly status: string; readonly fullName: string }>
  }>
}

const failedTest = (report: string): string | undefined => {
  let read: VitestReport
  try {
    read = JSON.parse(readFileSync(report, "utf8"))
  } catch {
    return undefined
  }
  const tests = read.testResults.flatMap(({ assertionResults }) => assertionResults)
  const test = tests.find(({ status }) => status === "failed")
  return test?.fullName ?? read.testResults.find(({ status }) => status === "failed")?.name
}

const laws: Finder = {
  name: "laws",
  // In one worker, and all files in one world of modules: loading them takes longer than most of them do.
  // dprint-ignore
  command: ({ laws, report }) => [
    "vitest", "run", "--config", "vitest.workspace.ts", "--no-isolate", "--maxWorkers=1", "--bail=1",
    "--reporter=json", `--outputFile=${report}`, ...laws.map((law) => `packages/${law}.test.ts`)
  ],
  windowMillis: 120_000,
  told: ({ output, report }) => failedTest(report) ?? firstLine(output, /Error/) ?? "vitest did not end well"
}

export const finders: ReadonlyArray<Finder> = [simulator, laws]
