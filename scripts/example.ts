// `npm run example NAME`: runs examples/NAME.ts in a process of its own, as a reader would.
import { spawnSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"

const folder = fileURLToPath(new URL("../examples", import.meta.url))
const names = readdirSync(folder)
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.endsWith(".d.ts"))
  .map((file) => file.slice(0, -3))
const [name, ...args] = process.argv.slice(2)

if (name === undefined || !names.includes(name)) {
  console.error(`Usage: npm run example NAME, where NAME is one of: ${names.join(", ")}`)
  process.exit(2)
}
// Ctrl-C reaches the example too; it decides how to end, and this waits for it.
process.on("SIGINT", () => {})
const { signal, status } = spawnSync(process.execPath, [`${folder}/${name}.ts`, ...args], { stdio: "inherit" })
process.exitCode = status ?? (signal === null ? 1 : 130)
