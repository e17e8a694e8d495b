/**
 * The application's own ends of a leader's pipes, and what its exit means for them. Who the leader's parent is makes no
 * difference here.
 */
import type { Exit } from "@procyon/runtime/domain/Status"
import type { OutputSink, SpawnRequest, StreamName } from "@procyon/runtime/ports/ProcessDriver"
import type { OutputReader } from "./outputReader.ts"
import type { StdinWriter } from "./stdinWriter.ts"

/** What reads a leader's output and feeds its stdin. */
export interface Ends {
  readonly stdin: StdinWriter
  readonly outputs: Readonly<Record<StreamName, OutputReader>>
}

export interface Carrier extends Ends {
  /** The leader is gone: what it wrote is read, and then its exit is told, unless it was released. To be called once. */
  readonly exited: (exit: Exit) => void
  /** Lets go of everything. The exit is told to nobody. Idempotent. */
  readonly release: () => void
}

export const make = ({ outputs, stdin }: Ends, onExit: (exit: Exit) => void): Carrier => {
  const readers = new Set(Object.values(outputs))
  let released = false
  return {
    outputs,
    stdin,
    exited(exit) {
      // A writer that does not write never learns that nobody reads.
      stdin.release()
      let open = readers.size
      const settled = (): void => {
        if (--open === 0 && !released) onExit(exit)
      }
      for (const reader of readers) reader.settle(settled)
    },
    release() {
      if (released) return
      released = true
      stdin.release()
      for (const reader of readers) reader.close()
    }
  }
}

/** How many FIFOs a start takes: one for each stream that is read apart, one for stdin. */
export const fifosOf = (request: SpawnRequest): number =>
  (request.stderr === "merged" ? 1 : 2) + (takesInput(request) ? 1 : 0)

export const takesInput = (request: SpawnRequest): boolean => (request.command.options.stdin ?? "none") !== "none"

/** The readers of a request's streams: one for both where they are merged. */
export const outputsOf = (
  request: SpawnRequest,
  read: (stream: StreamName, sink: OutputSink) => OutputReader
): Ends["outputs"] => {
  const stdout = read("stdout", request.stdout)
  return { stdout, stderr: request.stderr === "merged" ? stdout : read("stderr", request.stderr) }
}
