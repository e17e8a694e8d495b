// Checks the packages' manifests: what `exports` names exists, what is published mirrors it, and every store or edge can be
// reached by a flat subpath, since those are not in the barrel. What is a part of a module is closed to the outside.
import { existsSync, globSync, readFileSync } from "node:fs"
import { basename } from "node:path"

type Published = string | null | { readonly types: string; readonly default: string }
interface Manifest {
  readonly exports: Record<string, string | null>
  readonly publishConfig: { readonly exports: Record<string, Published> }
}

const problems: Array<string> = []
for (const folder of globSync("packages/*")) {
  const { exports, publishConfig } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as Manifest
  const expected: Record<string, Published> = {}
  for (const [subpath, target] of Object.entries(exports)) {
    if (target === null || !target.startsWith("./src/")) {
      expected[subpath] = target
      continue
    }
    const built = target.replace(/^\.\/src\//, "./dist/").replace(/\.ts$/, "")
    expected[subpath] = { types: `${built}.d.ts`, default: `${built}.js` }
    if (!target.includes("*") && !existsSync(`${folder}/${target}`)) {
      problems.push(`${folder}: "${subpath}" names ${target}, which does not exist`)
    }
  }
  if (JSON.stringify(expected) !== JSON.stringify(publishConfig.exports)) {
    problems.push(`${folder}: publishConfig.exports has to be ${JSON.stringify(expected, undefined, 2)}`)
  }
  for (const part of globSync("src/{internal,*/*/}", { cwd: folder })) {
    const subpath = `./${part.replace(/^src\//, "").replace(/\/$/, "")}/*`
    if (exports[subpath] !== null) problems.push(`${folder}: "${subpath}" has to be null: it is a part of something`)
  }
  const barrel = readFileSync(`${folder}/src/index.ts`, "utf8")
  for (const file of globSync("src/{stores,edges}/*.ts", { cwd: folder })) {
    const subpath = `./${basename(file, ".ts")}`
    if (!barrel.includes(`"./${file.slice("src/".length)}"`) && exports[subpath] !== `./${file}`) {
      problems.push(`${folder}: ${file} is not in the barrel and has no subpath "${subpath}": "./${file}"`)
    }
  }
}
if (problems.length > 0) {
  console.error(problems.join("\n"))
  process.exitCode = 1
}
