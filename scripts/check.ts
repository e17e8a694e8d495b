// `npm run check`: every check that needs no test run. `npm run check lint types` runs only those. All of them run, also
// after one failed, and the end names those that did.
import { spawnSync } from "node:child_process"
import { globSync } from "node:fs"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

const steps: Record<string, { readonly says: string; readonly command: ReadonlyArray<string> }> = {
  format: { says: "dprint; `npm run format` repairs it", command: ["dprint", "check"] },
  lint: { says: "oxlint, with the layer rules", command: ["oxlint", "--deny-warnings"] },
  core: {
    says: "esbuild: the core bundles for a browser, so nothing in it needs Node.js",
    // dprint-ignore
    command: [
      "esbuild", ...globSync("packages/runtime/src/**/*.ts", { cwd: root }),
      "--bundle", "--format=esm", "--platform=browser", "--log-level=warning", "--outdir=node_modules/.cache/core"
    ]
  },
  exports: { says: "the packages' manifests name what exists", command: ["node", "scripts/exports.ts"] },
  // Forced: the incremental build repeats old errors after a tsconfig changed what it includes.
  planted: {
    says: "the planted bugs still fit the sources they are planted in",
    command: ["node", "scripts/plantedBugs.ts", "--check"]
  },
  types: { says: "tsc, sources and tests", command: ["tsc", "-b", "--force"] },
  // Not in the manifest: its optional packages for other platforms cannot always be had, and then `npm ci` refuses the lock file.
  effect: {
    says: "Effect's own diagnostics",
    // dprint-ignore
    command: [
      "npm", "exec", "--yes", "--loglevel=error", "--package=@effect/tsgo@0.45.0", "--",
      "effect-tsgo", "diagnostics", "--project", "tsconfig.json", "--format", "text", "--strict"
    ]
  },
  dead: { says: "knip: unused files, exports and dependencies", command: ["knip"] }
}

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !(name in steps))
if (unknown.length > 0) {
  console.error(`No such check: ${unknown.join(", ")}. There are: ${Object.keys(steps).join(", ")}`)
  process.exit(2)
}

const failed: Array<string> = []
for (const [name, { command: [program = "", ...args], says }] of Object.entries(steps)) {
  if (asked.length > 0 && !asked.includes(name)) continue
  const start = performance.now()
  const { error, status, stderr, stdout } = spawnSync(program, args, {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024
  })
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${name.padEnd(7)} ${seconds.padStart(5)} s   ${says}`)
  if (status !== 0) {
    failed.push(name)
    console.log(`\n${[stdout, stderr, error?.message].filter((text) => (text ?? "") !== "").join("\n").trim()}\n`)
  }
}
console.log(failed.length === 0 ? "check passed" : `check failed: ${failed.join(", ")}`)
process.exitCode = failed.length === 0 ? 0 : 1
