/**
 * A directory that is held while something is done in it, so that no path to it can be moved, swapped or turned into a link
 * in between: names below it are resolved from the open descriptor, through `/proc/self/fd` (proc_pid_fd(5)).
 *
 * Node has no `openat`. `/proc/self/fd/N/name` is resolved like it: the kernel goes to what the descriptor has open, then
 * to the last component, which none of the calls used here follows where it is a link (`O_NOFOLLOW`, `lstat`, `unlink`,
 * `rmdir`, `mkdir`, `rename`).
 */
import { type DirectoryIdentity, sameDirectory } from "@procyon/runtime/ports/WorkspaceStore"
import { constants } from "node:fs"
import * as fs from "node:fs/promises"

/** A name below a directory; bytes where it was read, since a name in Linux need not be text. */
export type Name = string | Buffer

/** `O_PATH` of Linux, which Node does not name: opens the directory itself, whatever its mode. */
const O_PATH = 0o10000000
const flags = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

export class Anchor {
  readonly #handle: fs.FileHandle
  readonly identity: DirectoryIdentity
  readonly #mode: number

  constructor(handle: fs.FileHandle, identity: DirectoryIdentity, mode: number) {
    this.#handle = handle
    this.identity = identity
    this.#mode = mode
  }

  /** A path of the directory itself, as long as it is held. */
  get self(): string {
    return `/proc/self/fd/${this.#handle.fd}`
  }

  /** A path of what has this name in it. */
  at(name: Name): Buffer {
    return Buffer.concat([Buffer.from(`${this.self}/`), Buffer.from(name)])
  }

  is(identity: DirectoryIdentity): boolean {
    return sameDirectory(this.identity, identity)
  }

  /** Where the directory is now; nothing that `realpath` could give when it was removed. */
  get place(): Promise<string> {
    return fs.readlink(this.self)
  }

  /** The mount it was reached through: a directory of the same file system that is mounted here has another one. */
  async mount(): Promise<string> {
    const text = await fs.readFile(`/proc/self/fdinfo/${this.#handle.fd}`, "latin1")
    return text.match(/^mnt_id:\s*(\d+)$/m)?.[1] ?? ""
  }

  /** Gives its owner all rights in it, which it needs to be listed and emptied. */
  async claim(): Promise<void> {
    if ((this.#mode & 0o700) !== 0o700) await fs.chmod(this.self, 0o700)
  }

  /** Makes what was done in it last through a loss of power, where the file system can. */
  async sync(): Promise<void> {
    try {
      const readable = await fs.open(this.self, constants.O_RDONLY | constants.O_DIRECTORY)
      try {
        await readable.sync()
      } finally {
        await readable.close()
      }
    } catch {
      // Not every file system can, and not every owner may read it.
    }
  }
}

/** Holds the directory at a path while `use` runs. A link there, and whatever else is no directory, is `ENOTDIR`. */
export const anchored = async <A>(path: string | Buffer, use: (anchor: Anchor) => Promise<A>): Promise<A> => {
  const handle = await fs.open(path, flags)
  try {
    const { dev, ino, mode } = await handle.stat({ bigint: true })
    return await use(new Anchor(handle, { device: `${dev}`, inode: `${ino}` }, Number(mode)))
  } finally {
    await handle.close()
  }
}

/** The `errno` name of a failed call. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

/** Whether nothing has the name that a call was made on. */
export const isAbsent = (error: unknown): boolean => codeOf(error) === "ENOENT"
