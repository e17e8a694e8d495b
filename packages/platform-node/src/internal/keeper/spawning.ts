/**
 * One start, as the keeper makes it: the child is given the writing ends of FIFOs that the application reads.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import { errnoOf } from "../processTable.ts"
import { type Failure, nameFailure, nameLimit } from "../spawnFailure.ts"
import type { Start } from "./protocol.ts"

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

/** What is told of a start: one of the two, `started` always within the call. */
export interface Events {
  readonly started: (child: ChildProcess, pid: number) => void
  readonly failed: (failure: Failure) => void
}

/** Starts a leader in a session of its own. It inherits nothing of the keeper's but its limits, its user and its umask. */
export const start = (order: Start, events: Events): void => {
  const fail = (error: unknown): void =>
    events.failed(nameFailure({ file: order.file, cwd: order.cwd, path: order.env["PATH"] }, error))
  const opened: Array<number> = []
  // Never waits: the application has the other ends open. If it has not, there is nobody left to start for.
  const open = (name: string, flags: number): number => {
    const fd = fs.openSync(name, flags | O_NONBLOCK)
    opened.push(fd)
    return fd
  }
  let child: ChildProcess
  try {
    let stdio: Array<number | "ignore">
    try {
      const { stderr, stdin, stdout } = order.fifos
      const out = open(stdout, O_WRONLY)
      const err = stderr === null ? out : open(stderr, O_WRONLY)
      stdio = [stdin === null ? "ignore" : open(stdin, O_RDONLY), out, err]
    } catch (error) {
      return events.failed(nameLimit(errnoOf(error)))
    }
    const { cwd, env } = order
    child = spawn(order.file, order.args, { cwd, env, detached: true, stdio })
  } catch (error) {
    return fail(error)
  } finally {
    for (const fd of opened) fs.closeSync(fd)
  }
  if (child.pid === undefined) {
    child.once("error", fail)
    return
  }
  // Node tells a refused signal as an 'error' of a child that runs happily; a start that succeeded cannot fail any more.
  child.on("error", () => {})
  events.started(child, child.pid)
}
