import { fileURLToPath } from "node:url"
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config"
import type { Reporter, TestModule } from "vitest/node"

// vitest reads no workspace files by itself: this is its config, `vitest run --config vitest.workspace.ts`.

/** Ends the run with one plain line, `N passed, N failed`, which also counts files that did not load and hooks that failed. */
class PlainSummary implements Reporter {
  #lines = ""

  onInit(): void {
    // At exit, so that it comes after everything the other reporters print.
    process.once("exit", () => process.stdout.write(this.#lines))
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandled: ReadonlyArray<unknown>): void {
    const count = { passed: 0, failed: unhandled.length, skipped: 0, pending: 0 }
    for (const module of modules) {
      count.failed += module.errors().length
      for (const suite of module.children.allSuites()) count.failed += suite.errors().length
      for (const test of module.children.allTests()) count[test.result().state]++
    }
    const skipped = count.skipped + count.pending
    this.#lines = `${skipped > 0 ? `${skipped} skipped\n` : ""}${count.passed} passed, ${count.failed} failed\n`
  }
}

const project = (
  name: string,
  folder: string,
  include: ReadonlyArray<string>,
  timeout: number
): TestProjectInlineConfiguration => ({
  extends: true,
  root: fileURLToPath(new URL(folder, import.meta.url)), // absolute: works from any folder
  test: { name, include: [...include], testTimeout: timeout, hookTimeout: timeout }
})

export default defineConfig({
  test: {
    projects: [
      // The heaviest take two seconds, or ten times that when they are measured beside other work.
      project("runtime", "packages/runtime", ["test/**/*.test.ts"], 30_000),
      // Real processes, possibly on a busy machine.
      project("platform-node", "packages/platform-node", ["test/**/*.test.ts"], 60_000),
      project("testing", "packages/testing", ["test/**/*.test.ts"], 30_000),
      project("examples", "examples", ["**/*.test.ts"], 60_000)
    ],
    benchmark: { include: ["bench/**/*.bench.ts"] },
    // `npm run coverage` turns it on, for the files that are to be measured.
    coverage: {
      provider: "v8",
      include: ["packages/runtime/src/**"],
      reporter: ["text", "json"],
      reportsDirectory: fileURLToPath(new URL("coverage", import.meta.url)),
      thresholds: { lines: 95, branches: 90 }
    },
    reporters: ["default", new PlainSummary()]
  }
})
