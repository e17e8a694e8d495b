/**
 * A file of SQLite that is trusted only after it was looked at: made whole or not at all, refused when it is damaged or
 * somebody else's, and never changed before that is known. Synchronous, as `node:sqlite` is.
 *
 * The file format: https://www.sqlite.org/fileformat2.html, section 1.3 for the header.
 */
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { dirname } from "node:path"
import type { DatabaseSync, DatabaseSyncOptions } from "node:sqlite"
import { isOpenToOthers, makePrivateDirectory } from "./privateFiles.ts"

export const Problem = Schema.Literals([
  "Corrupt",
  "Foreign",
  "Unsafe",
  "Unavailable",
  "Denied",
  "Full",
  "Unsupported",
  "Other"
])
export type Problem = typeof Problem.Type

class Refused extends Error {
  readonly problem: Problem
  constructor(problem: Problem) {
    super(problem)
    this.problem = problem
  }
}

/** "PRCY": what `PRAGMA application_id` says in every database of ours, from its first moment on. */
const applicationId = 0x50524359
const magic = Buffer.from("SQLite format 3\0", "latin1")
const headerBytes = 100
const logHeaderBytes = 32

export interface Opened {
  readonly database: DatabaseSync
  readonly close: () => void
}

/** Opens what is there, or makes it. Throws what `problemOf` understands. */
export const open = (filename: string): Opened => {
  const Database = database()
  protectDirectory(dirname(filename))
  if (!isThere(filename)) create(Database, filename)
  protectFile(filename)
  const file = fileOf(filename)
  if (!inUse.has(file)) {
    checkHeader(filename)
    checkLog(`${filename}-wal`)
  }
  checkContent(Database, filename)
  const opened = configured(new Database(filename, settings))
  inUse.set(file, (inUse.get(file) ?? 0) + 1)
  return {
    database: opened,
    close: () => {
      opened.close()
      const others = (inUse.get(file) ?? 1) - 1
      if (others === 0) inUse.delete(file)
      else inUse.set(file, others)
    }
  }
}

/**
 * The files this process has open, and how many times. Their bytes are left to SQLite: whoever closes another descriptor of
 * one takes away the locks that the process has on it (fcntl(2)), and the next process to close the file could take itself
 * for the last, and delete the log. See section 2.2 of https://www.sqlite.org/howtocorrupt.html.
 */
const inUse = new Map<string, number>()

const fileOf = (filename: string): string => {
  const { dev, ino } = fs.statSync(filename, { bigint: true })
  return `${dev} ${ino}`
}

/** See `NodeSqlite.setAside`. The file goes first: a log without its file is refused, a file without its log is not. */
export const setAside = (filename: string): string => {
  let number = 1
  while (parts.some((part) => exists(`${filename}.aside-${number}${part}`))) number++
  const aside = `${filename}.aside-${number}`
  const there = parts.filter((part) => exists(filename + part))
  if (there.length === 0) throw new Refused("Other")
  for (const part of there) fs.renameSync(filename + part, aside + part)
  syncDirectory(dirname(filename))
  return aside
}

const parts = ["", "-wal", "-shm"]

/** Numbers: https://www.sqlite.org/rescode.html; an extended one has the primary one in its low byte. */
const problemsOfCodes: Readonly<Record<string | number, Problem>> = {
  3: "Denied",
  5: "Unavailable",
  6: "Unavailable",
  8: "Denied",
  11: "Corrupt",
  13: "Full",
  14: "Denied",
  26: "Corrupt",
  EACCES: "Denied",
  EPERM: "Denied",
  EROFS: "Denied",
  ENOSPC: "Full",
  EDQUOT: "Full"
}

export const problemOf = (error: unknown): Problem => {
  if (error instanceof Refused) return error.problem
  const errcode = errcodeOf(error)
  if (errcode !== null) return problemsOfCodes[errcode & 0xff] ?? "Other"
  const code = error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""
  return problemsOfCodes[code] ?? "Other"
}

/** SQLite's own number for an error of `node:sqlite`. */
export const errcodeOf = (error: unknown): number | null =>
  error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode : null

/** Asked for only here, so that this package also loads where there is none. */
const database = (): typeof DatabaseSync => {
  const sqlite: { readonly DatabaseSync: typeof DatabaseSync } | undefined = process.getBuiltinModule("node:sqlite")
  if (sqlite === undefined) throw new Refused("Unsupported")
  return sqlite.DatabaseSync
}

/** `timeout: 0`: SQLite would wait in the middle of the event loop. Whoever calls tries again instead. */
const settings: DatabaseSyncOptions = { timeout: 0, allowExtension: false }

const configured = (db: DatabaseSync): DatabaseSync => {
  try {
    db.exec("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON")
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Makes it for its owner alone, or throws when it is another user's or others may write to it. */
export const protectDirectory = (directory: string): void => {
  if (!makePrivateDirectory(directory)) throw new Refused("Unsafe")
}

const protectFile = (filename: string): void => {
  const stat = fs.lstatSync(filename)
  if (!stat.isFile() || isOpenToOthers(stat)) throw new Refused("Unsafe")
  if ((stat.mode & 0o077) !== 0) fs.chmodSync(filename, 0o600)
  // SQLite would open it to read alone, and say so at the first write.
  fs.accessSync(filename, fs.constants.R_OK | fs.constants.W_OK)
}

const exists = (path: string): boolean => fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined

/** A log with nothing to belong to holds rows of a file that is lost. */
const isThere = (filename: string): boolean => {
  if (exists(filename)) return true
  if (sizeOf(`${filename}-wal`) > 0) throw new Refused("Corrupt")
  return false
}

const sizeOf = (path: string): number => fs.lstatSync(path, { throwIfNoEntry: false })?.size ?? 0

/** Made under another name and linked to its own when it is whole. Of two who do so at once, the first one's stays. */
const create = (Database: typeof DatabaseSync, filename: string): void => {
  const made = `${filename}.new-${process.pid}-${Math.random().toString(36).slice(2)}`
  try {
    fs.closeSync(fs.openSync(made, "wx", 0o600))
    const db = new Database(made, settings)
    try {
      const mode = db.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"]
      if (mode !== "wal") throw new Refused("Unsupported")
      db.exec(`PRAGMA application_id = ${applicationId}`)
    } finally {
      db.close()
    }
    try {
      fs.linkSync(made, filename)
    } catch (error) {
      if (!exists(filename)) throw error
    }
  } finally {
    for (const part of parts) fs.rmSync(made + part, { force: true })
  }
  syncDirectory(dirname(filename))
}

/** Without it a power loss may undo the name. Some file systems cannot; then it is theirs to keep. */
const syncDirectory = (directory: string): void => {
  try {
    const fd = fs.openSync(directory, "r")
    try {
      fs.fsyncSync(fd)
    } finally {
      fs.closeSync(fd)
    }
  } catch {
    // What was named is there.
  }
}

/** What SQLite does not refuse: an empty file, and one that lacks a part of its last page. */
const checkHeader = (filename: string): void => {
  const header = readStart(filename, headerBytes)
  if (!header.subarray(0, magic.length).equals(magic.subarray(0, header.length))) {
    throw new Refused(header.every((byte) => byte === 0) ? "Corrupt" : "Foreign")
  }
  if (header.length < headerBytes) throw new Refused("Corrupt")
  if (header.readUInt32BE(68) !== applicationId) throw new Refused("Foreign")
  // The log may hold the pages that are missing here.
  if (sizeOf(`${filename}-wal`) > 0) return
  const size = header.readUInt16BE(16)
  const pageBytes = size === 1 ? 65_536 : size
  if (sizeOf(filename) < pageBytes * header.readUInt32BE(28)) throw new Refused("Corrupt")
}

/**
 * SQLite takes a log whose header is damaged for an empty one. With `synchronous = FULL` the header is on the disk before
 * anything comes after it, so no crash leaves a longer log without one. Read again before it counts: another process may be
 * writing it.
 */
const checkLog = (log: string): void => {
  if (sizeOf(log) > logHeaderBytes && !hasLogHeader(log) && !hasLogHeader(log)) throw new Refused("Corrupt")
}

const hasLogHeader = (log: string): boolean => {
  try {
    return isLogHeader(readStart(log, logHeaderBytes))
  } catch (error) {
    // Another process was the last to close the file.
    if (!exists(log)) return true
    throw error
  }
}

/** https://www.sqlite.org/fileformat2.html, section 4: the last bit of the first word says how the sums were made. */
const isLogHeader = (header: Buffer): boolean => {
  if (header.length < logHeaderBytes) return false
  const first = header.readUInt32BE(0)
  if ((first & ~1) >>> 0 !== 0x377f0682) return false
  const word = (at: number) => (first & 1) === 1 ? header.readUInt32BE(at) : header.readUInt32LE(at)
  let [one, two] = [0, 0]
  for (let at = 0; at < 24; at += 8) {
    one = (one + word(at) + two) >>> 0
    two = (two + word(at + 4) + one) >>> 0
  }
  return one === header.readUInt32BE(24) && two === header.readUInt32BE(28)
}

const readStart = (filename: string, bytes: number): Buffer => {
  const start = Buffer.alloc(bytes)
  const fd = fs.openSync(filename, "r")
  try {
    return start.subarray(0, fs.readSync(fd, start, 0, bytes, 0))
  } finally {
    fs.closeSync(fd)
  }
}

/** Read-only, so that the log of a damaged file stays as it is: closing writes it into the file, and deletes it. */
const checkContent = (Database: typeof DatabaseSync, filename: string): void => {
  const db = new Database(filename, { ...settings, readOnly: true })
  try {
    const said = db.prepare("PRAGMA integrity_check(1)").get()?.["integrity_check"]
    if (said !== "ok") throw new Refused("Corrupt")
  } finally {
    db.close()
  }
}
