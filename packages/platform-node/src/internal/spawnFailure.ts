/**
 * Naming why nothing was started.
 *
 * The system answers `ENOENT` alike for a missing command, a missing interpreter and a missing working directory, and
 * Node blames the command for each. So after a failure this looks, with the child's own PATH and working directory,
 * which of them it was. What it cannot tell it calls `Other`, with the errno.
 */
import type { SpawnProblem } from "@procyon/runtime/ports/ProcessDriver"
import * as fs from "node:fs"
import * as path from "node:path"
import { errnoOf } from "./processTable.ts"

/** What was to be started, as far as it decides where a program is looked for. */
export interface Attempt {
  readonly file: string
  /** The child's working directory; this process's own when absent. */
  readonly cwd: string | undefined
  /** The child's PATH; absent when its environment has none. */
  readonly path: string | undefined
}

/** What a `SpawnFailed` tells, without Effect. */
export interface Failure {
  readonly problem: SpawnProblem
  readonly code: string | null
}

/** The failure that `error` was, judged by a look made now. */
export const nameFailure = (attempt: Attempt, error: unknown): Failure => {
  const code = errnoOf(error)
  return { problem: problemOf(attempt, code), code }
}

/** The failure of something that a start needs and that is not the program itself: a limit, or something else. */
export const nameLimit = (code: string | null): Failure => ({ problem: problemOfLimit(code), code })

const problemOfLimit = (code: string | null): SpawnProblem => {
  switch (code) {
    case "E2BIG":
      return "TooLarge"
    case "EMFILE":
    case "ENFILE":
      return "TooManyFiles"
    case "EAGAIN":
      return "TooManyProcesses"
    default:
      return "Other"
  }
}

const problemOf = (attempt: Attempt, code: string): SpawnProblem => {
  switch (code) {
    case "ENOENT":
    case "EACCES":
    case "ENOTDIR":
    case "ELOOP":
    case "ENAMETOOLONG":
      return problemOfDirectory(attempt.cwd) ?? problemOfFile(attempt, code)
    default:
      return problemOfLimit(code)
  }
}

const problemOfDirectory = (cwd: string | undefined): SpawnProblem | null => {
  if (cwd === undefined) return null
  const kind = kindOf(cwd)
  if (kind === "missing") return "CwdMissing"
  if (kind === "unreachable") return "Other"
  if (kind !== "directory") return "CwdNotADirectory"
  return isAccessible(cwd) ? null : "Other"
}

const problemOfFile = (attempt: Attempt, code: string): SpawnProblem => {
  let found: SpawnProblem = "CommandNotFound"
  for (const candidate of candidatesOf(attempt)) {
    const kind = kindOf(candidate)
    if (kind === "file" && isAccessible(candidate)) {
      // The system got as far as running it: what it did not find is what the file itself asks for.
      return code === "ENOENT" || code === "ENOTDIR" ? "InterpreterMissing" : "NotExecutable"
    }
    // As `execvp` does, go on: a later directory may hold one that can be run.
    if (kind !== "missing") found = "NotExecutable"
  }
  return found
}

// `execvp`'s own default in glibc, used when the child has no PATH at all.
const defaultPath = "/bin:/usr/bin"

const candidatesOf = (attempt: Attempt): ReadonlyArray<string> => {
  const within = (base: string, name: string): string => path.isAbsolute(name) ? name : path.join(base, name)
  const cwd = attempt.cwd ?? "."
  if (attempt.file.includes("/")) return [within(cwd, attempt.file)]
  return (attempt.path ?? defaultPath).split(":").map((directory) => path.join(within(cwd, directory), attempt.file))
}

const kindOf = (name: string): "missing" | "unreachable" | "directory" | "file" => {
  try {
    return fs.statSync(name).isDirectory() ? "directory" : "file"
  } catch (error) {
    return errnoOf(error) === "EACCES" ? "unreachable" : "missing"
  }
}

const isAccessible = (name: string): boolean => {
  try {
    fs.accessSync(name, fs.constants.X_OK)
    return true
  } catch {
    return false
  }
}
