// Makes sure that what package-lock.json asks for is installed, before a script that needs it. Runs on whatever Node the
// machine has (20 is enough) and depends on nothing; when everything is in place it only reads two files.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { delimiter, dirname, join, sep } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const windows = process.platform === "win32"

/** @param {string} path @returns {Record<string, { version?: string, integrity?: string, optional?: boolean, link?: boolean }>} */
const packagesOf = (path) => JSON.parse(readFileSync(join(root, path), "utf8")).packages

/** What is missing, or undefined. npm writes node_modules/.package-lock.json last, and after `npm install` as well as `npm ci`. */
const missing = () => {
  if (!existsSync(join(root, "node_modules/.package-lock.json"))) return "nothing is installed"
  const installed = packagesOf("node_modules/.package-lock.json")
  for (const [path, wanted] of Object.entries(packagesOf("package-lock.json"))) {
    if (!path.startsWith("node_modules/")) continue
    const found = installed[path]
    // Optional packages of other platforms are in the lock file and not on the disk.
    if (found === undefined && wanted.optional === true) continue
    if (found?.version !== wanted.version || found?.integrity !== wanted.integrity) {
      return `${path} is not what package-lock.json asks for`
    }
  }
  if (!existsSync(join(root, "node_modules/node/bin", windows ? "node.exe" : "node"))) {
    return "the pinned Node is missing"
  }
  return undefined
}

// Settings of the npm command that runs this script, which the nested one would take as its own.
const outerOnly = new RegExp(
  "^npm_(?:lifecycle_|package_|command$|execpath$|node_execpath$|config_(?:workspaces?|include_workspace_root|ignore_scripts|" +
    "omit|include|only|also|production|dev|optional|global|location|dry_run|package_lock|package_lock_only|prefix|global_prefix|" +
    "local_prefix|if_present|json|parseable|script_shell|call|package|yes|save.*)$)"
)

const install = () => {
  /** @type {NodeJS.ProcessEnv} */
  const env = {}
  for (const [name, value] of Object.entries(process.env)) if (!outerOnly.test(name)) env[name] = value
  // The nested npm must not run on the Node inside the folder it is about to replace.
  const path = Object.keys(env).find((name) => name.toUpperCase() === "PATH") ?? "PATH"
  env[path] = (env[path] ?? "").split(delimiter).filter((entry) => !entry.startsWith(root + sep)).join(delimiter)
  // On stderr: stdout belongs to the command that is about to run.
  return spawnSync(
    "npm",
    ["ci", "--include=dev", "--include=optional", "--no-audit", "--no-fund", "--loglevel=error"],
    {
      cwd: root,
      env,
      shell: windows,
      stdio: ["ignore", 2, 2]
    }
  )
}

const before = missing()
if (before !== undefined) {
  process.stderr.write(`Setting up: ${before}. Running npm ci, once.\n`)
  const result = install()
  const after = result.status === 0
    ? missing()
    : result.error?.message ?? `npm ci ended with ${result.status ?? result.signal}`
  if (after !== undefined) {
    process.stderr.write(`Could not set up: ${after}.\n`)
    if (after === "the pinned Node is missing") {
      process.stderr.write("Its install script was not allowed to run. Try: npm rebuild node --ignore-scripts=false\n")
    }
    process.exit(1)
  }
}
