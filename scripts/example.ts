// `npm run example NAME`: runs examples/NAME.ts in a process of its own, as a reader would. Without a name: lists them,
// each with the question it answers, which is the first line of its file.
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const folder = fileURLToPath(new URL("../examples", import.meta.url))
const names = readdirSync(folder)
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.endsWith(".d.ts"))
  .map((file) => file.slice(0, -3))
const width = Math.max(...names.map((name) => name.length))
const [name, ...args] = process.argv.slice(2)

const questionOf = (example: string): string =>
  /^\/\/ (.*\?)$/.exec(readFileSync(`${folder}/${example}.ts`, "utf8").split("\n", 1)[0] ?? "")?.[1] ?? ""

const list = `npm run example NAME runs one of these:\n\n${
  names.map((example) => `  ${example.padEnd(width)}   ${questionOf(example)}`).join("\n")
}\n`

if (name === undefined) {
  console.log(list)
} else if (!names.includes(name)) {
  console.error(`No such example: ${name}. ${list}`)
  process.exitCode = 2
} else {
  // Ctrl-C reaches the example too; it decides how to end, and this waits for it.
  process.on("SIGINT", () => {})
  const { signal, status } = spawnSync(process.execPath, [`${folder}/${name}.ts`, ...args], { stdio: "inherit" })
  process.exitCode = status ?? (signal === null ? 1 : 130)
}
