/**
 * Processes that outlive this application: started under a watcher of their own (`watcher.ts`), with output and exit in
 * files, and found again from those files and an identity.
 *
 * The identity is the watcher's. What is attached to reads files and lets go of them: it keeps no event loop alive and
 * ends nothing. Linux only.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import { isUnborn } from "@procyon/runtime/domain/Identity"
import {
  type AttachRequest,
  type Child,
  type Detached as As,
  type DetachedFiles,
  SpawnFailed,
  type SpawnProblem,
  type SpawnRequest
} from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { environmentOf, programLine } from "../environment.ts"
import type { Forest } from "../forest.ts"
import { errnoOf, type ProcessTable, tryReadStat } from "../processTable.ts"
import { nameFailure } from "../spawnFailure.ts"
import * as Changes from "./changes.ts"
import * as Completion from "./completion.ts"
import * as Files from "./files.ts"
import { channel, type Order, parseAnswer, type Refusal } from "./order.ts"

/** `directory`: where all files are, made with mode 0700. `forest`: where the trees are recorded and judged. */
export interface Options {
  readonly directory: string
  readonly forest: Pick<Forest, "plant" | "reap" | "fell" | "watch">
  readonly bootId: string
  readonly table: ProcessTable
}

/** What is told of a start: `begun` within the call and before anything else, unless it fails there, then one of the others. */
interface Events {
  /** The watcher is there. From here on undoing the start is to end its tree. */
  readonly begun: (child: Child) => void
  readonly started: (child: Child) => void
  /** The child of `begun` was released, and the files are gone. */
  readonly failed: (failure: SpawnFailed) => void
}

export interface Detached {
  readonly start: (request: SpawnRequest, as: As, events: Events) => void
  readonly attach: (request: AttachRequest) => Child
  readonly files: DetachedFiles
  /** Releases every child. */
  readonly close: () => void
}

export const make = ({ bootId, forest, table, ...options }: Options): Detached => {
  // Wherever this process goes later.
  const directory = path.resolve(options.directory)
  const open = new Set<() => void>()

  /** Begins to read the files of `own`. `letGo`: what else the release has to undo. */
  const childOf = (
    own: string | null,
    readers: Files.Readers,
    onExit: SpawnRequest["onExit"],
    letGo: () => void
  ): Attached => {
    const attached = attach(own, readers, onExit)
    const release = (): void => {
      if (!open.delete(release)) return
      attached.release()
      letGo()
    }
    open.add(release)
    return { ...attached, release }
  }

  /** A start whose files are there. */
  const launch = (request: SpawnRequest, as: As, paths: Files.Paths, order: Order, events: Events): void => {
    const undoFiles = (): void => void Files.removeNow(directory, as.name)
    let readers: Files.Readers | null = null
    const failToWatch = (error: unknown): void => {
      for (const reader of readers === null ? [] : Object.values(readers)) reader.close()
      undoFiles()
      events.failed(ownFailure(errnoOf(error)))
    }
    let watcher: ChildProcess
    try {
      readers = Files.readMade(paths.directory, request)
      watcher = spawnWatcher(request.marker)
    } catch (error) {
      return failToWatch(error)
    }
    if (watcher.pid === undefined) return void watcher.once("error", failToWatch)
    watcher.on("error", () => {})
    watcher.unref()

    // In the turn of the start: it is there, even if it has ended, until its exit is collected.
    const startedAt = tryReadStat(watcher.pid, table)?.startedAt ?? 0
    const identity: Identity = { pid: watcher.pid, startedAt, bootId, marker: request.marker }
    const tree = forest.plant(identity)
    const attached = childOf(paths.directory, readers, request.onExit, () => forest.fell(tree))
    const child = portOf(identity, attached)
    let started = false
    let exited = false
    watcher.prependOnceListener("exit", () => {
      forest.reap(tree)
      exited = true
      if (started) attached.tellExit()
    })
    events.begun(child)
    converse(watcher, order, (text) => {
      const answer = parseAnswer(text)
      if (answer?.outcome === "started") {
        started = true
        events.started(child)
        if (exited) attached.tellExit()
        return
      }
      attached.release()
      // Without an answer the command may be there, and write.
      if (answer !== null) undoFiles()
      events.failed(failureOf(order, answer))
    })
  }

  return {
    files: Files.port(directory),
    close: () => open.forEach((release) => release()),
    start(request, as, events) {
      let order: Omit<Order, "directory" | "out" | "err">
      try {
        const { args, file } = programLine(request.command.program)
        order = {
          file,
          args,
          cwd: request.command.options.cwd,
          env: environmentOf(request.command, request.marker),
          marker: request.marker,
          deadlineAt: as.deadlineAt,
          capBytes: as.capBytes,
          graceMillis: as.graceMillis
        }
      } catch (error) {
        // A secret that was wiped.
        return events.failed(new SpawnFailed(nameFailure({ file: "", cwd: undefined, path: undefined }, error)))
      }
      const paths = Files.create(directory, as.name, request.stderr === "merged" ? "merged" : "apart")
      if (typeof paths === "string") return events.failed(ownFailure(paths))
      launch(request, as, paths, { ...order, ...paths }, events)
    },
    attach(request) {
      const own = request.detached === null ? null : Files.find(directory, request.detached)
      const { identity } = request
      const forget = forest.watch(
        identity,
        request.detached !== null && isUnborn(identity) ? "tree" : "leader",
        () => attached.tellExit()
      )
      const attached = childOf(own, Files.readFound(own, request), request.onExit, forget)
      attached.tellRecorded()
      return portOf(identity, attached)
    }
  }
}

/** The readers of one leader's files, and what is told of its exit. */
interface Attached {
  readonly readers: Files.Readers
  /** The leader is gone: reads what is there, and tells the recorded exit or the unknown one. Once. */
  readonly tellExit: () => void
  /** Tells the exit as soon as there is a file that says it. */
  readonly tellRecorded: () => void
  readonly release: () => void
}

const attach = (own: string | null, readersOf: Files.Readers, onExit: SpawnRequest["onExit"]): Attached => {
  const readers = new Set(Object.values(readersOf))
  let told = false
  let released = false
  let awaited = false

  const tellExit = (): void => {
    if (told || released) return
    told = true
    // Final by now: it is written before the leader ends.
    const completion = own === null ? null : Completion.read(own)
    let open = readers.size
    for (const reader of readers) {
      reader.settle(() => {
        if (--open > 0 || released) return
        const { code, signal } = completion ?? { code: null, signal: null }
        onExit({ code, signal }, completion?.ended ?? undefined)
      })
    }
  }
  const tellIfRecorded = (): void => {
    if (awaited && !told && own !== null && Completion.read(own) !== null) tellExit()
  }
  const unwatch = own === null ? () => {} : Changes.watch(own, (name) => {
    if (name === null || name === Completion.fileName) tellIfRecorded()
    if (name !== Completion.fileName) { for (const reader of readers) reader.poke() }
  })
  // What was written before the watch began is told by nobody.
  for (const reader of readers) reader.poke()

  return {
    readers: readersOf,
    tellExit,
    tellRecorded() {
      awaited = true
      setImmediate(tellIfRecorded)
    },
    release() {
      released = true
      unwatch()
      for (const reader of readers) reader.close()
    }
  }
}

const portOf = (identity: Identity, { readers, release }: Attached): Child => ({
  identity,
  write: () => Effect.succeed(0),
  closeStdin: () => Effect.void,
  resume: (stream) => readers[stream].resume(),
  drain: (stream) => readers[stream].drain(),
  finish: Effect.sync(() => {
    for (const reader of new Set(Object.values(readers))) reader.finish()
  }),
  release: Effect.sync(release)
})

/** Beside this file, with its ending: as source, and as built. */
const program = fileURLToPath(
  import.meta.url.endsWith(".ts") ? new URL("watcher.ts", import.meta.url) : new URL("watcher.js", import.meta.url)
)

/** Whether there is such a program: a bundle of the application may have left it out. */
export const hasWatcher = (): boolean => fs.existsSync(program)

/** Without the application's environment: an option of Node's in it would be the watcher's too. */
const spawnWatcher = (marker: string): ChildProcess => {
  const libraries = process.env["LD_LIBRARY_PATH"]
  const env = { [marker]: "1", ...(libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries }) }
  // SIGUSR1 would make it listen for a debugger.
  return spawn(process.execPath, ["--disable-sigusr1", program], {
    detached: true,
    env,
    stdio: ["ignore", "ignore", "ignore", "pipe"]
  })
}

/** Says the order, and calls back once with all that is answered. Keeps the event loop alive until then. */
const converse = (watcher: ChildProcess, order: Order, answered: (text: string) => void): void => {
  const line = channelOf(watcher)
  if (line === null) return answered("")
  let text = ""
  line.on("error", () => {})
  line.on("data", (bytes: Buffer) => {
    text += bytes.toString("utf8")
  })
  line.once("close", () => answered(text))
  line.end(JSON.stringify(order))
}

const channelOf = ({ stdio }: ChildProcess): net.Socket | null => {
  const line = stdio[channel]
  return line instanceof net.Socket ? line : null
}

/** `null`: the watcher ended before it had answered, and whether the command was started cannot be told. */
const failureOf = ({ cwd, env, file }: Order, answer: Refusal | null): SpawnFailed => {
  if (answer === null) return new SpawnFailed({ problem: "OutcomeUnknown", code: null })
  const { code, of } = answer
  if (of === "files") return ownFailure(code)
  return new SpawnFailed(nameFailure({ file, cwd, path: env["PATH"] }, Object.assign(new Error(of), { code })))
}

/** What failed is nothing of the command's: files could not be made or opened, or the watcher not be started. */
const ownFailure = (code: string): SpawnFailed => new SpawnFailed({ problem: shortages[code] ?? "Other", code })

const shortages: Readonly<Record<string, SpawnProblem>> = {
  EMFILE: "TooManyFiles",
  ENFILE: "TooManyFiles",
  EAGAIN: "TooManyProcesses"
}
