/**
 * Starting one leader and carrying its facts out: its output, its stdin, its exit.
 *
 * The child writes to FIFOs that this process reads; where none can be had, to Node's own pipes.
 */
import type { Exit } from "@procyon/runtime/domain/Status"
import type { SpawnRequest } from "@procyon/runtime/ports/ProcessDriver"
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import * as fs from "node:fs"
import * as Carrier from "./carrier.ts"
import { environmentOf, programLine } from "./environment.ts"
import * as OutputReader from "./outputReader.ts"
import { type Failure, nameFailure } from "./spawnFailure.ts"
import * as StdinWriter from "./stdinWriter.ts"

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

/** A started leader, without anything that Effect is needed for. */
export interface Leader extends Carrier.Ends {
  readonly pid: number
  readonly child: ChildProcess
  /** Lets go of everything but the process. Its exit is still collected, and told to nobody. */
  readonly release: () => void
}

/** The ends of a child's pipes: what it is given, and what reads and feeds them. */
interface Pipes {
  readonly stdio: StdioOptions
  /** The child's own ends, closed here after the start. */
  readonly theirs: ReadonlyArray<number>
  readonly connect: (child: ChildProcess) => Carrier.Ends
  /** Undoes the opening, after a start that failed. */
  readonly abandon: () => void
}

/** What is told of a start: one of the two, `started` in the turn of the start and before anything else is told. */
export interface Events {
  readonly started: (leader: Leader) => void
  readonly failed: (failure: Failure) => void
}

/**
 * Starts a leader in a session of its own. `fifos`: as many unused names as `Carrier.fifosOf` says, or `null` for Node's pipes;
 * none of them is left, whatever becomes of the start. Calls one of `started` and `failed`, `started` always within this
 * call.
 */
export const start = (request: SpawnRequest, fifos: ReadonlyArray<string> | null, events: Events): void => {
  const attempt: { file: string; path: string | undefined } = { file: "", path: undefined }
  const fail = (error: unknown): void =>
    events.failed(nameFailure({ ...attempt, cwd: request.command.options.cwd }, error))
  let pipes: Pipes | null = null
  let child: ChildProcess
  try {
    const { args, file } = programLine(request.command.program)
    const env = environmentOf(request.command, request.marker)
    attempt.file = file
    attempt.path = env["PATH"]
    pipes = pipesOf(request, fifos)
    child = spawnWith(pipes, file, args, { cwd: request.command.options.cwd, env })
  } catch (error) {
    // What fails before there are pipes is the environment: a secret that was wiped.
    if (pipes === null) { for (const name of fifos ?? []) fs.rmSync(name, { force: true }) }
    else pipes.abandon()
    return fail(error)
  }
  if (child.pid === undefined) {
    pipes.abandon()
    child.once("error", fail)
  } else events.started(follow(child, child.pid, pipes, request.onExit))
}

const spawnWith = (
  pipes: Pipes,
  file: string,
  args: ReadonlyArray<string>,
  options: { readonly cwd: string | undefined; readonly env: Readonly<Record<string, string>> }
): ChildProcess => {
  try {
    return spawn(file, args, { ...options, detached: true, stdio: pipes.stdio, windowsHide: true })
  } finally {
    for (const fd of pipes.theirs) fs.closeSync(fd)
  }
}

const follow = (child: ChildProcess, pid: number, pipes: Pipes, onExit: (exit: Exit) => void): Leader => {
  const carrier = Carrier.make(pipes.connect(child), onExit)
  // Node tells a refused signal as an 'error' of a child that runs happily; a start that succeeded cannot fail any more.
  child.on("error", () => {})
  child.once("exit", (code, signal) => carrier.exited({ code, signal }))
  return {
    pid,
    child,
    stdin: carrier.stdin,
    outputs: carrier.outputs,
    release() {
      carrier.release()
      child.unref()
    }
  }
}

const pipesOf = (request: SpawnRequest, fifos: ReadonlyArray<string> | null): Pipes => {
  if (fifos === null) return nodePipes(request)
  try {
    return openFifos(request, fifos)
  } catch {
    // They have gone, or there are no descriptors left: of the latter the start itself will tell.
    for (const name of fifos) fs.rmSync(name, { force: true })
    return nodePipes(request)
  }
}

/** Opens FIFOs, reading end first, and unlinks their names: nobody else will ever open them. */
const openFifos = (request: SpawnRequest, names: ReadonlyArray<string>): Pipes => {
  const left = [...names]
  const opened: Array<number> = []
  const open = (flags: number, ...more: ReadonlyArray<number>): ReadonlyArray<number> => {
    const name = left.pop()
    if (name === undefined) throw new Error("a start was given too few FIFOs")
    try {
      return [flags, ...more].map((flags) => {
        const fd = fs.openSync(name, flags)
        opened.push(fd)
        return fd
      })
    } finally {
      fs.unlinkSync(name)
    }
  }
  const output = (): readonly [ours: number, theirs: number] => {
    const [ours = -1, theirs = -1] = open(O_RDONLY | O_NONBLOCK, O_WRONLY)
    return [ours, theirs]
  }
  try {
    const out = output()
    const err = request.stderr === "merged" ? out : output()
    const input = Carrier.takesInput(request) ? open(O_RDONLY | O_NONBLOCK, O_WRONLY | O_NONBLOCK) : null
    const ours = { stdout: out[0], stderr: err[0] }
    const feed = input?.[1]
    return {
      stdio: [input?.[0] ?? "ignore", out[1], err[1]],
      // The reading end of stdin too: while it is open here, a child that has gone is not noticed.
      theirs: [...new Set([out[1], err[1], ...input?.slice(0, 1) ?? []])],
      connect: () => ({
        outputs: Carrier.outputsOf(request, (stream, sink) => OutputReader.fromFifo(ours[stream], sink)),
        stdin: feed === undefined ? StdinWriter.make(null) : StdinWriter.fromFifo(feed)
      }),
      abandon: () => {
        for (const fd of new Set([ours.stdout, ours.stderr])) fs.closeSync(fd)
        if (feed !== undefined) fs.closeSync(feed)
      }
    }
  } catch (error) {
    for (const fd of opened) fs.closeSync(fd)
    throw error
  }
}

const nodePipes = (request: SpawnRequest): Pipes => ({
  stdio: [Carrier.takesInput(request) ? "pipe" : "ignore", "pipe", "pipe"],
  theirs: [],
  connect: (child) => {
    const streams = { stdout: child.stdout ? [child.stdout] : [], stderr: child.stderr ? [child.stderr] : [] }
    return {
      outputs: Carrier.outputsOf(request, (stream, sink) =>
        OutputReader.fromPipes(
          request.stderr === "merged" ? [...streams.stdout, ...streams.stderr] : streams[stream],
          sink
        )),
      stdin: StdinWriter.make(child.stdin)
    }
  },
  abandon: () => {}
})
