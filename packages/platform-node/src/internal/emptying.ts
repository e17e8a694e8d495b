/**
 * Empties a directory, however deep, without following a link and without leaving its file system.
 *
 * Every directory below is moved up into the one that is emptied, under a fresh name, before anything is done in it. So
 * one level is open at a time, no path grows, and no depth is too deep. It is also what keeps mounts out: the system moves
 * neither a mount point (`EBUSY`, rename(2)) nor anything to another mount (`EXDEV`).
 */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs/promises"
import { type Anchor, anchored, codeOf, isAbsent, type Name } from "./anchor.ts"

/** Calls that are out at once: the application's own files go through the same few threads. */
const concurrency = 8

/** How often directories may turn out to have been written to meanwhile, in all. */
const patience = 100

/** Somebody goes on writing into it. */
export class StillWritten extends Error {}

/** Something is mounted in it. */
export class Mounted extends Error {}

/**
 * Ends with the directory empty, or rejects: with `StillWritten`, `Mounted`, the reason of `signal`, or what the system
 * refused. What is left then is still in it.
 */
export const empty = async (top: Anchor, signal: AbortSignal): Promise<void> => {
  await top.claim()
  const mount = await top.mount()
  const prefix = randomBytes(6).toString("hex")
  const hoisted: Array<string> = []
  let made = 0

  const hoist = async (from: Anchor, name: Name): Promise<void> => {
    const fresh = `${prefix}-${made++}`
    const move = () => fs.rename(from.at(name), top.at(fresh))
    try {
      await move()
    } catch (error) {
      if (codeOf(error) === "EBUSY" || codeOf(error) === "EXDEV") throw new Mounted()
      if (codeOf(error) !== "EACCES") throw error
      // Its parent is to change, which takes the right to write in it.
      await anchored(from.at(name), async (directory) => {
        if (await directory.mount() !== mount) throw new Mounted()
        await directory.claim()
      })
      await move()
    }
    hoisted.push(fresh)
  }

  const drop = async (from: Anchor, name: Buffer, isDirectory: boolean): Promise<void> => {
    try {
      if (isDirectory) await hoist(from, name)
      else await fs.unlink(from.at(name))
    } catch (error) {
      if (codeOf(error) === "EBUSY") throw new Mounted()
      // Some file systems do not say what an entry is.
      if (!isDirectory && codeOf(error) === "EISDIR") return hoist(from, name)
      if (!isAbsent(error)) throw error
    }
  }

  const sweep = async (directory: Anchor): Promise<void> => {
    await directory.claim()
    const entries = await fs.readdir(directory.self, { withFileTypes: true, encoding: "buffer" })
    for (let index = 0; index < entries.length; index += concurrency) {
      signal.throwIfAborted()
      const some = entries.slice(index, index + concurrency)
      // All have answered before the first that failed is told: nothing goes on behind the caller's back.
      const answers = await Promise.allSettled(some.map((it) => drop(directory, it.name, it.isDirectory())))
      for (const answer of answers) if (answer.status === "rejected") throw answer.reason
    }
  }

  await sweep(top)
  for (let name = hoisted.pop(), tries = patience; name !== undefined; name = hoisted.pop()) {
    try {
      await anchored(top.at(name), sweep)
      await fs.rmdir(top.at(name))
    } catch (error) {
      // A removal that was told to stop may still be at its last files.
      if (isAbsent(error)) continue
      if (codeOf(error) !== "ENOTEMPTY") throw error
      if (--tries < 0) throw new StillWritten()
      hoisted.push(name)
    }
  }
}
