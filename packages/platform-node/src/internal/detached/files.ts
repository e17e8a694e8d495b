/**
 * Where the files of detached processes are: under `directory/NAME/`, `out`, `err` when the streams are kept apart, and
 * `exit.json` once the leader has ended. Directories have mode 0700, files 0600; what others may write to is not believed.
 */
import { ProcessId } from "@procyon/runtime/domain/ProcessId"
import type { DetachedFiles, OutputSink, SpawnRequest, StreamName } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import { isOpenToOthers, makePrivateDirectory } from "../privateFiles.ts"
import { errnoOf } from "../processTable.ts"
import * as Completion from "./completion.ts"
import * as FileReader from "./fileReader.ts"

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

const fileNames: Readonly<Record<StreamName, string>> = { stdout: "out", stderr: "err" }

/** The most that one read of the port gives, in bytes. */
const mostBytes = 16 * 1024 * 1024

const isName = Schema.is(ProcessId)

/** The files of one process. */
export interface Paths {
  readonly directory: string
  readonly out: string
  readonly err: string | null
}

/** Makes them, empty. A string is why not: an errno name, `EPERM` for a directory that is open to others. */
export const create = (directory: string, name: string, streams: "merged" | "apart"): Paths | string => {
  if (!isName(name)) return "EINVAL"
  const own = path.join(directory, name)
  try {
    if (!makePrivateDirectory(directory)) return "EPERM"
    fs.mkdirSync(own, { mode: 0o700 })
  } catch (error) {
    return errnoOf(error)
  }
  try {
    const out = touch(path.join(own, fileNames.stdout))
    return { directory: own, out, err: streams === "merged" ? null : touch(path.join(own, fileNames.stderr)) }
  } catch (error) {
    removeNow(directory, name)
    return errnoOf(error)
  }
}

const touch = (path: string): string => {
  fs.closeSync(fs.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, 0o600))
  return path
}

/** The directory of a process's files, `null` where there is none that can be believed. */
export const find = (directory: string, name: string): string | null => {
  if (!isName(name)) return null
  const own = path.join(directory, name)
  try {
    const isPrivate = !isOpenToOthers(fs.statSync(directory))
    const stat = fs.lstatSync(own)
    return isPrivate && stat.isDirectory() && !isOpenToOthers(stat) ? own : null
  } catch {
    return null
  }
}

const openStream = (own: string, stream: StreamName): number =>
  fs.openSync(path.join(own, fileNames[stream]), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)

type Sinks = Pick<SpawnRequest, "stdout" | "stderr">

/** Who reads which stream; merged ones share a reader. */
export type Readers = Readonly<Record<StreamName, FileReader.FileReader>>

const readersOf = (sinks: Sinks, read: (stream: StreamName, sink: OutputSink) => FileReader.FileReader): Readers => {
  const stdout = read("stdout", sinks.stdout)
  return { stdout, stderr: sinks.stderr === "merged" ? stdout : read("stderr", sinks.stderr) }
}

/** Reads files that were just made. Throws when one cannot be opened. */
export const readMade = (own: string, sinks: Sinks): Readers => {
  const opened: Array<FileReader.FileReader> = []
  try {
    return readersOf(sinks, (stream, sink) => {
      const reader = FileReader.make(openStream(own, stream), sink)
      opened.push(reader)
      return reader
    })
  } catch (error) {
    for (const reader of opened) reader.close()
    throw error
  }
}

/** Reads files that were found; a stream without one that can be opened ends at once. */
export const readFound = (own: string | null, sinks: Sinks): Readers =>
  readersOf(sinks, (stream, sink) => {
    try {
      return own === null ? FileReader.nothing(sink) : FileReader.make(openStream(own, stream), sink)
    } catch {
      return FileReader.nothing(sink)
    }
  })

/** Only what was made here: anything else in the directory keeps it. Links are removed, not followed. */
export const removeNow = (directory: string, name: string): boolean => {
  const own = find(directory, name)
  if (own === null) {
    return !isName(name) || fs.lstatSync(path.join(directory, name), { throwIfNoEntry: false }) === undefined
  }
  try {
    for (const file of [...Object.values(fileNames), Completion.fileName, Completion.temporaryName]) {
      fs.rmSync(path.join(own, file), { force: true })
    }
    fs.rmdirSync(own)
    return true
  } catch (error) {
    return errnoOf(error) === "ENOENT"
  }
}

const readNow = (own: string, stream: StreamName, offset: number, limit: number): Uint8Array => {
  const fd = openStream(own, stream)
  try {
    const bytes = new Uint8Array(Math.max(0, Math.min(limit, fs.fstatSync(fd).size - offset, mostBytes)))
    let read = 0
    while (read < bytes.length) {
      const count = fs.readSync(fd, bytes, read, bytes.length - read, offset + read)
      if (count === 0) break
      read += count
    }
    return bytes.subarray(0, read)
  } finally {
    fs.closeSync(fd)
  }
}

/** The port of them. */
export const port = (directory: string): DetachedFiles => ({
  read: (name, stream, offset, limit) =>
    Effect.sync(() => {
      const own = find(directory, name)
      try {
        return own === null ? null : readNow(own, stream, offset, limit)
      } catch {
        return null
      }
    }),
  remove: (name) => Effect.sync(() => removeNow(directory, name))
})
