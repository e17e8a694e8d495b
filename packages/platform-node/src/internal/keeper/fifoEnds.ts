/**
 * The application's ends of the FIFOs that a child of the keeper writes to and reads from.
 */
import type { SpawnRequest } from "@procyon/runtime/ports/ProcessDriver"
import * as fs from "node:fs"
import * as Carrier from "../carrier.ts"
import * as OutputReader from "../outputReader.ts"
import * as StdinWriter from "../stdinWriter.ts"
import type { Start } from "./protocol.ts"

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

export interface FifoEnds {
  readonly fifos: Start["fifos"]
  /**
   * The child has its own ends: the names go, and reading begins. Not before: a FIFO that nobody writes to yet reads as
   * one that has ended.
   */
  readonly connect: () => Carrier.Ends
  /** There will be no child. */
  readonly abandon: () => void
}

/** Opens as many FIFOs as `Carrier.fifosOf` says, or throws, and then none of the names is left. */
export const open = (request: SpawnRequest, names: ReadonlyArray<string>): FifoEnds => {
  const opened = new Set<number>()
  const openOne = (name: string, flags: number): number => {
    const fd = fs.openSync(name, flags | O_NONBLOCK)
    opened.add(fd)
    return fd
  }
  const close = (fd: number): void => {
    if (opened.delete(fd)) fs.closeSync(fd)
  }
  const unlink = (): void => names.forEach((name) => fs.rmSync(name, { force: true }))
  const abandon = (): void => {
    unlink()
    for (const fd of opened) close(fd)
  }
  const left = [...names]
  const next = (): string => {
    const name = left.pop()
    if (name === undefined) throw new Error("a start was given too few FIFOs")
    return name
  }
  try {
    const stdout = next()
    const stderr = request.stderr === "merged" ? null : next()
    const stdin = Carrier.takesInput(request) ? next() : null
    const out = openOne(stdout, O_RDONLY)
    const err = stderr === null ? out : openOne(stderr, O_RDONLY)
    // A FIFO can be written to only while somebody has it open to read.
    const held = stdin === null ? null : openOne(stdin, O_RDONLY)
    const feed = stdin === null ? null : openOne(stdin, O_WRONLY)
    return {
      fifos: { stdin, stdout, stderr },
      connect() {
        unlink()
        // While it is open here, a child that has gone is not noticed.
        if (held !== null) close(held)
        opened.clear()
        return {
          outputs: Carrier.outputsOf(
            request,
            (stream, sink) => OutputReader.fromFifo(stream === "stdout" ? out : err, sink)
          ),
          stdin: feed === null ? StdinWriter.make(null) : StdinWriter.fromFifo(feed)
        }
      },
      abandon
    }
  } catch (error) {
    abandon()
    throw error
  }
}
