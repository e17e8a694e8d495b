/**
 * Directories for FIFOs, among the temporary files of this machine. Each is removed by the application that has made it,
 * or by its keeper. When neither could, because they were killed, the next application of the same user does it: the name
 * tells who it was.
 */
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { isOpenToOthers } from "./privateFiles.ts"
import { readBootId, readStat, tryReadStat } from "./processTable.ts"

/** The directories there are. An application that ends without closing its drivers leaves none of them behind. */
const directories = new Set<string>()

const removeAll = (): void => directories.forEach(removeNow)

/** Best effort: one that cannot be removed is left behind, and holds up nobody. */
export const removeNow = (directory: string): void => {
  try {
    fs.rmSync(directory, { recursive: true, force: true })
  } catch {
    // Such as on a disk that was mounted read-only after an error.
  }
}

/** Makes one that only this user can enter. Throws when it cannot. */
export const make = (): string => {
  const within = os.tmpdir()
  const owner = thisOwner()
  if (directories.size === 0) {
    process.on("exit", removeAll)
    if (owner !== null) sweep(within, owner)
  }
  const directory = fs.mkdtempSync(path.join(within, owner === null ? "procyon-" : `procyon-${nameOf(owner)}-`))
  directories.add(directory)
  return directory
}

/** Removes one of those that this process has made. */
export const remove = (directory: string): void => {
  removeNow(directory)
  if (directories.delete(directory) && directories.size === 0) process.off("exit", removeAll)
}

/** Who has made a directory. `boot`: a digest of the boot, with the namespace that the pid is of. */
interface Owner {
  readonly boot: string
  readonly pid: number
  readonly startedAt: number
}

const thisOwner = (): Owner | null => {
  const bootId = readBootId()
  const stat = bootId === null ? null : tryReadStat(process.pid)
  if (bootId === null || stat === null) return null
  const boot = createHash("sha256").update(bootId).digest("hex").slice(0, 16)
  return { boot, pid: process.pid, startedAt: stat.startedAt }
}

const nameOf = ({ boot, pid, startedAt }: Owner): string => `${boot}-${pid}-${startedAt}`

const form = /^procyon-([0-9a-f]{16})-(\d+)-(\d+)-[^-]{6}$/

/** Removes what those have left that are gone for certain: on this boot, and of this user. */
const sweep = (within: string, self: Owner): void => {
  let names: ReadonlyArray<string> = []
  try {
    names = fs.readdirSync(within)
  } catch {
    // Then none can be made either.
  }
  for (const name of names) {
    const [, boot, pid, startedAt] = form.exec(name) ?? []
    if (boot !== self.boot || !isGone(Number(pid), Number(startedAt))) continue
    const directory = path.join(within, name)
    if (isOurs(directory)) removeNow(directory)
  }
}

/** Whoever cannot be told of may live. */
const isGone = (pid: number, startedAt: number): boolean => {
  try {
    return readStat(pid)?.startedAt !== startedAt
  } catch {
    return false
  }
}

const isOurs = (directory: string): boolean => {
  const stat = fs.lstatSync(directory, { throwIfNoEntry: false })
  return stat?.isDirectory() === true && !isOpenToOthers(stat)
}
