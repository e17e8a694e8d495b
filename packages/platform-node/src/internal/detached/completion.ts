/**
 * The completion file of a detached process: how its leader ended, and whether its watcher ended it. Written whole or not
 * at all, and read as nothing when it is anything else. Without Effect: the watcher writes it.
 */
import * as fs from "node:fs"
import * as path from "node:path"

export const fileName = "exit.json"
export const temporaryName = "exit.json.new"

/** `at`: when it ended, in epoch milliseconds. `ended`: why the watcher ended it; `null`: it did not. */
export interface Completion {
  readonly code: number | null
  readonly signal: string | null
  readonly at: number
  readonly ended: "deadline" | "cap" | null
}

/** More than a completion takes. */
const mostBytes = 4096

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

/** A completion is filled up with spaces to so many bytes. It takes some 80 of them. */
const reservedBytes = 256

/**
 * Takes the room that a completion needs, while there is some: what ends may have filled the disk. Throws when it cannot.
 * On a file system that never writes in place the room may be gone all the same.
 */
export const reserve = (directory: string): void => {
  const fd = fs.openSync(path.join(directory, temporaryName), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
  try {
    fs.writeFileSync(fd, " ".repeat(reservedBytes))
  } finally {
    fs.closeSync(fd)
  }
}

/** Writes it under another name, and renames it once it is on the disk. Throws when it cannot. */
export const write = (directory: string, completion: Completion): void => {
  const temporary = path.join(directory, temporaryName)
  const fd = fs.openSync(temporary, O_WRONLY | O_CREAT | O_NOFOLLOW, 0o600)
  try {
    fs.writeFileSync(fd, JSON.stringify(completion).padEnd(reservedBytes))
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
  fs.renameSync(temporary, path.join(directory, fileName))
}

/** The completion, `null` when there is none that can be believed. */
export const read = (directory: string): Completion | null => {
  try {
    const fd = fs.openSync(path.join(directory, fileName), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    try {
      const bytes = Buffer.alloc(mostBytes)
      return parse(bytes.toString("utf8", 0, fs.readSync(fd, bytes, 0, mostBytes, 0)))
    } finally {
      fs.closeSync(fd)
    }
  } catch {
    return null
  }
}

const parse = (text: string): Completion | null => {
  const value: unknown = JSON.parse(text)
  if (typeof value !== "object" || value === null) return null
  const { at, code, ended, signal }: { [Name in keyof Completion]?: unknown } = value
  if (code !== null && !(typeof code === "number" && Number.isInteger(code))) return null
  if (signal !== null && typeof signal !== "string") return null
  // One of the two is how a process ends.
  if ((code === null) === (signal === null) || typeof at !== "number") return null
  return { code, signal, at, ended: ended === "deadline" || ended === "cap" ? ended : null }
}
