/**
 * The process driver for Node on Linux that starts its children through a *keeper*: one small helper process, started
 * with the layer, that is the parent of all of them.
 *
 * A start does not copy this process, so it costs the same however large the application has grown. And when the
 * application is killed, or ends without closing its runtime, the keeper ends every tree that was not released, within
 * each one's grace, members that left the group and the session included as far as `NodeProcessDriver` sees them too.
 * Output does not pass through it.
 *
 * What the children inherit besides their environment and working directory (limits, user, umask) is that of the
 * application at the time when the layer was built. A keeper that is killed, fails or stops answering is noticed and
 * replaced: its children live on and are ended as before, but an exit that nobody could collect is told as unknown
 * (`{ code: null, signal: null }`). If the application and its keeper are both killed, nobody ends the children.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as path from "node:path"
import * as Apart from "./internal/apart.ts"
import * as Carrier from "./internal/carrier.ts"
import { noStreams, streamsOf } from "./internal/child.ts"
import { environmentOf, programLine } from "./internal/environment.ts"
import * as FifoPool from "./internal/fifoPool.ts"
import * as Client from "./internal/keeper/client.ts"
import * as FifoEnds from "./internal/keeper/fifoEnds.ts"
import * as Helper from "./internal/keeper/helper.ts"
import type { Question, Seen, Start } from "./internal/keeper/protocol.ts"
import type { MakeFifos } from "./internal/mkfifo.ts"
import { errnoOf } from "./internal/processTable.ts"
import { type Failure, nameFailure, nameLimit } from "./internal/spawnFailure.ts"
import * as Starting from "./internal/starting.ts"
import * as StartQueue from "./internal/startQueue.ts"
import * as NodeProcessDriver from "./NodeProcessDriver.ts"

/** No keeper could be started. `reason` says why, and names no path. */
export class KeeperUnavailable extends Schema.TaggedError<KeeperUnavailable>()("KeeperUnavailable", {
  reason: Schema.String
}) {
  override get message(): string {
    return this.reason
  }
}

/** That a keeper was lost, and what came of it. */
export interface Lost {
  /** How many children it had that were not known to have ended. */
  readonly children: number
  /**
   * `false`: no other keeper could be started. Children are looked at and signalled by this process from here on, and
   * starts fail, until a keeper can be had again, which is tried some ten seconds later.
   */
  readonly restarted: boolean
}

/**
 * - `graceMillis`: from SIGTERM to SIGKILL when the keeper ends what an application has left, for commands that ask for no
 *   other; 5,000 when absent.
 * - `silenceMillis`: how long a keeper that has something to do may say nothing before it counts as stopped, and is killed and
 *   replaced; 5,000 when absent.
 * - `detached`: as for `NodeProcessDriver`, which starts detached processes and finds them again also here: they are not the
 *   keeper's to end.
 * - `onLost`: called once a lost keeper was replaced, or could not be. A warning is logged as well.
 */
export interface Options extends NodeProcessDriver.Options {
  readonly graceMillis?: number | undefined
  readonly silenceMillis?: number | undefined
  readonly onLost?: ((lost: Lost) => void) | undefined
}

const defaultGraceMillis = 5_000
const defaultSilenceMillis = 5_000

/**
 * A driver that lives as long as its scope, and its keeper with it. When the scope closes with children that were not
 * released, the keeper ends those before itself; nobody waits for that.
 */
export const make = (
  options: Options = {}
): Effect.Effect<ProcessDriver.ProcessDriver, KeeperUnavailable, Scope.Scope> =>
  Effect.gen(function*() {
    const graceMillis = options.graceMillis ?? defaultGraceMillis
    const direct = yield* NodeProcessDriver.makeWith(options)
    const { self } = direct
    const reason = self === null ? "this process cannot be identified" : Helper.unsupported()
    if (self === null || reason !== null) return yield* new KeeperUnavailable({ reason: reason ?? "" })
    const client = yield* acquireClient(self.bootId, options)
    let lastCode: string | null = null
    const makeFifos: MakeFifos = (names, done) =>
      client.ask({ _tag: "MakeFifos", names }, (answer) => {
        const made = answer._tag === "FifosMade" && answer.made
        lastCode = answer._tag === "FifosMade" ? answer.code : null
        done(made, lastCode)
      })
    const fifos = FifoPool.make(makeFifos)
    const queue = StartQueue.make()
    const open = new Set<Carrier.Carrier>()
    let closed = false

    yield* Effect.addFinalizer(() =>
      Effect.callback<void>((resume) => {
        closed = true
        for (const carrier of open) carrier.release()
        fifos.close(() => resume(Effect.void))
      })
    )

    const childOf = (identity: Identity, carrier: Carrier.Carrier): ProcessDriver.Child => {
      open.add(carrier)
      return {
        identity,
        ...streamsOf(carrier),
        release: Effect.sync(() => {
          if (!open.delete(carrier)) return
          carrier.release()
          client.release(identity)
        })
      }
    }

    const attach = (request: ProcessDriver.AttachRequest): ProcessDriver.Child => {
      const { identity } = request
      const streams = noStreams(request)
      client.attach(identity, graceMillis, request.onExit)
      return { identity, ...streams, release: Effect.sync(() => client.release(identity)) }
    }

    /** Hands a start to the keeper. Answers how to take it back. */
    const launch = (
      request: ProcessDriver.SpawnRequest,
      names: ReadonlyArray<string> | null,
      events: {
        readonly started: (child: ProcessDriver.Child) => void
        readonly failed: (failure: Failure) => void
        readonly withdrawn: () => void
      }
    ): () => void => {
      let ends: FifoEnds.FifoEnds | null = null
      const fail = (failure: Failure): () => void => {
        events.failed(failure)
        return () => {}
      }
      if (names === null) return fail(nameLimit(lastCode))
      try {
        ends = FifoEnds.open(request, names)
      } catch (error) {
        return fail(nameLimit(errnoOf(error)))
      }
      const { abandon, connect, fifos } = ends
      let spec: Omit<Start, "_tag" | "id">
      try {
        spec = { ...lineOf(request), fifos, graceMillis: request.command.graceMillis ?? graceMillis }
      } catch (error) {
        abandon()
        return fail(nameFailure({ file: "", cwd: undefined, path: undefined }, error))
      }
      let carrier: Carrier.Carrier | null = null
      return client.start(spec, (exit) => carrier?.exited(exit), {
        started(root) {
          carrier = Carrier.make(connect(), request.onExit)
          events.started(childOf(root, carrier))
        },
        failed(failure) {
          abandon()
          events.failed(failure)
        },
        withdrawn() {
          abandon()
          events.withdrawn()
        }
      })
    }

    /** Enqueues a start. Answers what to wait for, and how to undo it from wherever it has got to. */
    const begin = (request: ProcessDriver.SpawnRequest): Starting.Starting => {
      let state: "queued" | "launched" | "over" | ProcessDriver.Child = "queued"
      let undone: (() => void) | null = null
      let withdraw = (): void => {}
      const { await: awaitAnswer, tell } = Starting.answerOnce()
      const fail = (failure: Failure): void => {
        state = "over"
        tell(Effect.fail(new ProcessDriver.SpawnFailed(failure)))
        undone?.()
      }
      const endNow = (child: ProcessDriver.Child, done: () => void): void =>
        client.ask({ _tag: "End", roots: [child.identity] }, () => {
          Effect.runSync(child.release)
          done()
        })
      const take = (names: ReadonlyArray<string> | null): void => {
        if (state === "over") return fifos.give(names ?? [])
        if (closed) {
          fifos.give(names ?? [])
          return fail({ problem: "Other", code: "ECANCELED" })
        }
        state = "launched"
        withdraw = launch(request, names, {
          started(child) {
            if (undone !== null) return endNow(child, undone)
            state = child
            tell(Effect.succeed(child))
          },
          failed: fail,
          withdrawn() {
            state = "over"
            undone?.()
          }
        })
      }
      let names: ReadonlyArray<string> | null = null
      const takeBack = queue.add({
        prepare: (ready) =>
          fifos.take(Carrier.fifosOf(request), (taken) => {
            names = taken
            ready()
          }),
        launch: () => take(names)
      })
      return {
        await: awaitAnswer,
        undo: Effect.callback<void>((resume) => {
          const done = (): void => resume(Effect.void)
          takeBack()
          if (state === "launched") {
            undone = done
            withdraw()
          } else if (typeof state === "string") {
            state = "over"
            done()
          } else endNow(state, done)
        })
      }
    }

    const look: ProcessDriver.ProcessDriver["look"] = (roots) =>
      Effect.callback((resume) => {
        client.ask({ _tag: "Look", roots }, (told) => {
          const looks = told._tag === "Looked" ? told.looks : []
          resume(Effect.succeed(roots.map((root, index) => lookOf(root, looks[index]))))
        })
      })

    return Apart.detached(direct, {
      ...direct,
      spawn: (request) => Starting.spawning(() => begin(request)),
      attach: (request) => Effect.sync(() => attach(request)),
      look,
      occupied: client.occupied,
      signal: (root, targets, signal) =>
        Effect.callback((resume) => {
          const question: Question = {
            _tag: "Signal",
            root,
            members: targets.members,
            groups: targets.groups ?? [],
            signal
          }
          client.ask(question, (told) => resume(Effect.succeed(told._tag === "Signalled" ? told.outcomes : [])))
        })
    })
  })

/** The driver as a layer. Write it once and share it: each build has a keeper of its own. */
export const layer = (options: Options = {}): Layer.Layer<ProcessDriver.Service, KeeperUnavailable> =>
  Layer.effect(ProcessDriver.Service, make(options))

/**
 * Through a keeper where one can be had, else `NodeProcessDriver`; a debug line says why. It cannot be had outside Linux,
 * without `/proc`, when the program that runs is no plain Node.js, and when a bundler has put the modules of this package
 * into one file.
 */
export const layerAuto: Layer.Layer<ProcessDriver.Service> = Layer.effect(
  ProcessDriver.Service,
  Effect.suspend(() => makeAuto({}))
)

/** `layerAuto` with options. Each call makes another layer. */
export const layerAutoWith = (options: Options): Layer.Layer<ProcessDriver.Service> =>
  Layer.effect(ProcessDriver.Service, makeAuto(options))

const makeAuto = (options: Options): Effect.Effect<ProcessDriver.ProcessDriver, never, Scope.Scope> =>
  Effect.catchTag(make(options), "KeeperUnavailable", ({ reason }) =>
    Effect.andThen(
      Effect.logDebug(`Children are started directly, and not through a keeper: ${reason}`),
      NodeProcessDriver.makeWith(options)
    ))

/** The keeper, for as long as the scope is open. */
const acquireClient = (
  bootId: string,
  { onLost, silenceMillis = defaultSilenceMillis }: Options
): Effect.Effect<Client.Client, KeeperUnavailable, Scope.Scope> =>
  Effect.gen(function*() {
    const context = yield* Effect.context<never>()
    const tell = ({ children, how, restarted }: Client.Lost): void => {
      const what = how === "ended" ? "has ended" : "did not answer, and was killed"
      const then = restarted ? "Another one keeps them now" : "No other one could be started"
      const warning = `The keeper ${what}. It had ${children} ${children === 1 ? "child" : "children"}. ${then}.`
      Effect.runForkWith(context)(Effect.logWarning(warning))
      onLost?.({ children, restarted })
    }
    return yield* Effect.acquireRelease(
      Effect.callback<Client.Client, KeeperUnavailable>((resume) =>
        Client.open({ bootId, silenceMillis, onLost: tell }, (client) =>
          resume(
            client === null
              ? Effect.fail(new KeeperUnavailable({ reason: "the helper process did not answer" }))
              : Effect.succeed(client)
          ))
      ),
      (client) => Effect.callback<void>((resume) => client.close(() => resume(Effect.void)))
    )
  })

/** What is to be run, as this application sees it now. */
const lineOf = (
  { command, marker }: ProcessDriver.SpawnRequest
): Pick<Start, "file" | "args" | "cwd" | "env" | "marker"> => ({
  ...programLine(command.program),
  cwd: directoryOf(command.options.cwd),
  env: environmentOf(command, marker),
  marker
})

/** The keeper has a working directory of its own. */
const directoryOf = (cwd: string | undefined): string => {
  try {
    return path.resolve(cwd ?? ".")
  } catch {
    // This process's own has been removed, and has no name any more.
    return `/proc/${process.pid}/cwd/${cwd ?? ""}`
  }
}

const lookOf = (root: Identity, seen: Seen | undefined): ProcessDriver.TreeLook => {
  if (seen === undefined) return { root, leader: "gone", members: [], occupied: [], complete: false }
  const { groups: _, ...look } = seen
  return { root, ...look }
}
