/**
 * Copies of the sources, in which bugs can be planted: each stands for itself, so that no import in it leads back to the
 * original. Only the packages of others are shared.
 */
import { spawn } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, delimiter, join } from "node:path"

const leftOut = new Set([".git", "node_modules", "dist", "dist-packages", "coverage"])

/** A fresh copy. It is removed when this program ends. */
export const copyOf = (root: string): string => {
  const copy = mkdtempSync(join(tmpdir(), "procyon-planted-"))
  process.once("exit", () => rmSync(copy, { recursive: true, force: true }))
  cpSync(root, copy, {
    recursive: true,
    filter: (path) => path === root || !leftOut.has(basename(path)) && !path.endsWith(".tsbuildinfo")
  })
  const modules = join(root, "node_modules")
  const own = join(copy, "node_modules")
  mkdirSync(join(own, "@procyon"), { recursive: true })
  for (const name of readdirSync(modules)) {
    // Caches are a copy's own.
    if (name === "@procyon" || name === ".cache" || name.startsWith(".vi")) continue
    symlinkSync(join(modules, name), join(own, name))
  }
  // npm's own links are relative, and so lead to the copy's packages.
  for (const name of readdirSync(join(modules, "@procyon"))) {
    symlinkSync(readlinkSync(join(modules, "@procyon", name)), join(own, "@procyon", name))
  }
  return copy
}

/** How a command ended: `null` when it had not in time, and was killed with all that it had started. */
export interface Ran {
  readonly code: number | null
  readonly output: string
}

/** Those that run now, by the group they lead. */
const running = new Set<number>()

const killGroup = (group: number): void => {
  try {
    process.kill(-group, "SIGKILL")
  } catch {
    // It is gone.
  }
}

process.once("exit", () => running.forEach(killGroup))

/** Runs a command in a copy. */
export const runIn = (copy: string, [program = "", ...args]: ReadonlyArray<string>, millis: number): Promise<Ran> =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: copy,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, PATH: [join(copy, "node_modules/.bin"), process.env["PATH"]].join(delimiter), NO_COLOR: "1" }
    })
    const group = child.pid
    if (group === undefined) return child.once("error", reject)
    running.add(group)
    let output = ""
    let isOverdue = false
    const take = (chunk: Buffer) => {
      // A run that prints for ever must not fill the memory.
      if (output.length < 1_000_000) output += chunk.toString()
    }
    child.stdout.on("data", take)
    child.stderr.on("data", take)
    const timer = setTimeout(() => {
      isOverdue = true
      killGroup(group)
    }, millis)
    return child.once("close", (code) => {
      clearTimeout(timer)
      // Also what it may have left behind.
      killGroup(group)
      running.delete(group)
      resolve({ code: isOverdue ? null : code ?? 1, output })
    })
  })
