/**
 * The process driver for Node on Linux that starts its children itself.
 *
 * Each start blocks the event loop for as long as the system takes to copy this process, so this driver is for small and
 * short-lived applications. It sees a whole tree within these limits: a descendant that has left the session, has wiped
 * its environment and has lost its parent before any look is not found, and neither is one that has changed its user, or
 * lets nobody read its environment (`ssh-agent`), under the same conditions. On other systems it sees less, and
 * `capabilities` says so: on macOS what `ps` tells, on Windows nothing, where `taskkill` ends trees. Neither was verified.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { fifosOf } from "./internal/carrier.ts"
import { noStreams, streamsOf } from "./internal/child.ts"
import * as Detached from "./internal/detached/detached.ts"
import * as FifoPool from "./internal/fifoPool.ts"
import * as Leader from "./internal/leader.ts"
import { isDead, linux, type ProcessTable, readBootId, tryReadStat } from "./internal/processTable.ts"
import * as PsTable from "./internal/psTable.ts"
import * as Starting from "./internal/starting.ts"
import * as StartQueue from "./internal/startQueue.ts"
import * as Trees from "./internal/trees.ts"

/** How long an interrupted start kills and looks again, in milliseconds, before it gives up on a tree that will not end. */
const endingMillis = 3_000

/** The table of this machine, `null` where none can be read. */
const findTable = (bootId: string | null): ProcessTable | null => {
  if (bootId !== null) return linux
  return isWindows ? null : PsTable.find()
}

const capabilitiesOf = (
  bootId: string | null,
  table: ProcessTable | null,
  detached: boolean
): ProcessDriver.Capabilities => {
  // Where `/proc` hides the processes of others (`hidepid`), a member that changes its user is not seen any more.
  const seesAll = bootId !== null && fs.existsSync("/proc/1/stat")
  return {
    platform: process.platform,
    processTable: table !== null,
    sessions: table === linux || (table !== null && PsTable.hasSessions),
    marker: table === linux,
    wholeTree: seesAll ? "verified" : isWindows ? "none" : "group-only",
    pty: false,
    detached
  }
}

/** What a driver may be given. */
export interface Options {
  /**
   * Where the output and the exits of detached processes are kept: made with mode 0700, and no such process is started in
   * one that is another user's or that others may write to. What it holds is as secret as what the processes print. Left
   * out: no detached process can be started. Used on Linux only.
   */
  readonly detached?: string | undefined
}

const build = Effect.fnUntraced(function*(options: Options) {
  const bootId = readBootId()
  const table = findTable(bootId)
  const trees = Trees.make(bootId, table ?? linux)
  const { forest } = trees
  const queue = StartQueue.make()
  const fifos = FifoPool.make()
  const open = new Set<Leader.Leader>()
  const detached = options.detached === undefined || bootId === null || !Detached.hasWatcher()
    ? null
    : Detached.make({ directory: options.detached, forest, bootId, table: linux })
  let closed = false

  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      closed = true
      for (const leader of open) leader.release()
      detached?.close()
      fifos.close(() => resume(Effect.void))
    })
  )

  const look: ProcessDriver.ProcessDriver["look"] = (roots) =>
    Effect.callback((resume) => trees.look(roots, (looks) => resume(Effect.succeed(looks))))

  const signal: ProcessDriver.ProcessDriver["signal"] = (root, targets, signal) =>
    Effect.callback((resume) => trees.signal(root, targets, signal, (told) => resume(Effect.succeed(told))))

  /** Ends a tree that nobody will hear of. */
  const endTree = (child: ProcessDriver.Child): Effect.Effect<void> =>
    Effect.gen(function*() {
      const until = performance.now() + endingMillis
      yield* signal(child.identity, { members: [], groups: [child.identity.pid] }, "SIGKILL")
      while (performance.now() < until) {
        const [found] = yield* look([child.identity])
        if (found === undefined || isOver(found)) break
        yield* signal(child.identity, { members: found.members, groups: found.occupied }, "SIGKILL")
      }
      yield* child.release
    })

  /** Begins to tell a leader's facts, once it is started. */
  const childOf = (request: ProcessDriver.SpawnRequest, leader: Leader.Leader): ProcessDriver.Child => {
    // In the turn of the start: the leader is there, even if it has ended, until its exit is collected.
    const startedAt = tryReadStat(leader.pid, table ?? linux)?.startedAt ?? 0
    const identity: Identity = { pid: leader.pid, startedAt, bootId: bootId ?? "", marker: request.marker }
    const tree = forest.plant(identity)
    leader.child.prependOnceListener("exit", () => forest.reap(tree))
    open.add(leader)
    return {
      identity,
      ...streamsOf(leader),
      release: Effect.sync(() => {
        if (!open.delete(leader)) return
        leader.release()
        forest.fell(tree)
      })
    }
  }

  /** What nobody but a look can tell of: the exit was another's to collect. */
  const attach = (request: ProcessDriver.AttachRequest): ProcessDriver.Child => {
    if (detached !== null) return detached.attach(request)
    const { identity, onExit } = request
    const forget = forest.watch(identity, "leader", () => onExit({ code: null, signal: null }))
    return { identity, ...noStreams(request), release: Effect.sync(forget) }
  }

  /** Enqueues a start. Answers what to wait for, and how to undo it from wherever it has got to. */
  const begin = (request: ProcessDriver.SpawnRequest): Starting.Starting => {
    let state: "queued" | "undone" | ProcessDriver.Child = "queued"
    const { await: awaitAnswer, tell } = Starting.answerOnce()
    let names: ReadonlyArray<string> | null = null
    const launch = (): void => {
      if (closed) return tell(Effect.fail(new ProcessDriver.SpawnFailed({ problem: "Other", code: "ECANCELED" })))
      if (state === "undone") return fifos.give(names ?? [])
      if (request.detached !== undefined) return launchDetached(request.detached)
      Leader.start(request, names, {
        started: (leader) => {
          const child = childOf(request, leader)
          state = child
          tell(Effect.succeed(child))
        },
        failed: (failure) => tell(Effect.fail(new ProcessDriver.SpawnFailed(failure)))
      })
    }
    const launchDetached = (as: ProcessDriver.Detached): void => {
      if (detached === null) {
        return tell(Effect.fail(new ProcessDriver.SpawnFailed({ problem: "Other", code: "ENOTSUP" })))
      }
      detached.start(request, as, {
        begun: (child) => {
          state = child
        },
        started: (child) => tell(Effect.succeed(child)),
        failed: (failure) => tell(Effect.andThen(endUnknown(failure), Effect.fail(failure)))
      })
    }
    /** Of whom a leader had started that was lost before it answered: nobody would know that they live. */
    const endUnknown = ({ problem }: ProcessDriver.SpawnFailed): Effect.Effect<void> =>
      typeof state === "string" || problem !== "OutcomeUnknown"
        ? Effect.void
        : Effect.uninterruptible(Effect.andThen(endTree(state), forgetFiles))
    const prepare = (ready: () => void): void => {
      if (!hasFifos || request.detached !== undefined) return ready()
      fifos.take(fifosOf(request), (taken) => {
        names = taken
        ready()
      })
    }
    const forgetFiles = request.detached === undefined || detached === null
      ? Effect.void
      : detached.files.remove(request.detached.name)
    const takeBack = queue.add({ prepare, launch })
    return {
      await: awaitAnswer,
      undo: Effect.suspend(() => {
        const before = state
        state = "undone"
        takeBack()
        return typeof before === "string" ? Effect.void : Effect.andThen(endTree(before), forgetFiles)
      })
    }
  }

  return {
    capabilities: capabilitiesOf(bootId, table, detached !== null),
    spawn: (request) => Starting.spawning(() => begin(request)),
    self: selfOf(bootId, table ?? linux),
    probe: (identity) => Effect.sync(() => probe(identity, bootId, table ?? linux)),
    attach: (request) => Effect.sync(() => attach(request)),
    detachedFiles: detached?.files ?? null,
    look,
    occupied: trees.occupied,
    signal,
    sha256: () => {
      const hash = createHash("sha256")
      return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest("hex") }
    }
  } satisfies ProcessDriver.ProcessDriver
})

/**
 * A driver that lives as long as its scope. Closing the scope closes every pipe and removes the directory of the FIFOs;
 * it ends no process, so whoever owns children ends them first.
 *
 * A detached process has a small Node process of its own as its leader, which waits for it and outlives the application
 * with it; following one keeps no event loop alive.
 */
export const makeWith: (options: Options) => Effect.Effect<ProcessDriver.ProcessDriver, never, Scope.Scope> = build

/** `makeWith` without a place for detached processes. */
export const make: Effect.Effect<ProcessDriver.ProcessDriver, never, Scope.Scope> = makeWith({})

/** The driver as a layer. Write it once and share it: each build has a stock of FIFOs and a memory of its own. */
export const layer: Layer.Layer<ProcessDriver.Service> = Layer.effect(ProcessDriver.Service, make)

/** As `layer`, with a place for detached processes. Each call makes another layer: keep the one that is provided. */
export const layerWith = (options: Options): Layer.Layer<ProcessDriver.Service> =>
  Layer.effect(ProcessDriver.Service, makeWith(options))

const selfOf = (bootId: string | null, table: ProcessTable): Identity | null => {
  const stat = bootId === null ? null : tryReadStat(process.pid, table)
  return bootId === null || stat === null
    ? null
    : { pid: process.pid, startedAt: stat.startedAt, bootId, marker: "" }
}

const probe = (identity: Identity, bootId: string | null, table: ProcessTable): ProcessDriver.Vitality => {
  if (bootId === null || identity.bootId !== bootId) return "unknown"
  try {
    const stat = table.readStat(identity.pid)
    return stat === null || isDead(stat) || stat.startedAt !== identity.startedAt ? "gone" : "alive"
  } catch {
    return "unknown"
  }
}

const isWindows = process.platform === "win32"

// An open FIFO is opened again through /proc/self/fd, which other systems have not.
const hasFifos = process.platform === "linux"

const isOver = (look: ProcessDriver.TreeLook): boolean =>
  look.complete && look.leader === "gone" && look.members.length === 0 && look.occupied.length === 0
