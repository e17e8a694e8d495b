/** The faults of a process driver. */
import type { Identity } from "@procyon/runtime/domain/Identity"
import { unknownExit } from "@procyon/runtime/domain/Status"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Gate } from "../Gate.ts"
import type { What } from "./Fault.ts"
import { type Strikes, thenWait } from "./Strikes.ts"

type Tell = ProcessDriver.SpawnRequest["onExit"]
type Sinks = Pick<ProcessDriver.SpawnRequest, "stdout" | "stderr">

/** What a lost keeper knew of. */
class Keeper {
  readonly starting = new Set<Deferred.Deferred<never, ProcessDriver.SpawnFailed>>()
  readonly open = new Set<ExitTold>()
  goneUntil = 0

  lose(until: number): void {
    this.goneUntil = until
    for (const child of this.open) child.lost = true
    for (const start of this.starting) Deferred.doneUnsafe(start, Effect.fail(unknownOutcome()))
  }
}

const unknownOutcome = () => new ProcessDriver.SpawnFailed({ problem: "OutcomeUnknown", code: null })

/** One leader's exit on its way to the runtime. It holds nothing of what its leader was started with. */
class ExitTold {
  readonly told = Deferred.makeUnsafe<void>()
  lost = false
  times = 1
  readonly #onExit: Tell

  constructor(onExit: Tell) {
    this.#onExit = onExit
  }

  readonly tell: Tell = (exit, by) => {
    Deferred.doneUnsafe(this.told, Effect.void)
    for (let time = 0; time < this.times; time++) this.#onExit(this.lost ? unknownExit : exit, by)
  }
}

/** Sinks that hold still with the gate, and the child whose streams they resume. */
class GatedSinks {
  readonly stdout: ProcessDriver.OutputSink
  readonly stderr: ProcessDriver.OutputSink | "merged"
  readonly #early = new Set<ProcessDriver.StreamName>()
  #child: ProcessDriver.Child | null = null

  constructor(gate: Gate, { stderr, stdout }: Sinks) {
    this.stdout = gate.sink(stdout, () => this.#resume("stdout"))
    this.stderr = stderr === "merged" ? stderr : gate.sink(stderr, () => this.#resume("stderr"))
  }

  bind(child: ProcessDriver.Child): void {
    this.#child = child
    for (const stream of this.#early) child.resume(stream)
  }

  #resume(stream: ProcessDriver.StreamName): void {
    if (this.#child === null) this.#early.add(stream)
    else this.#child.resume(stream)
  }
}

/** The driver with what strikes at it. */
export const make = (driver: ProcessDriver.ProcessDriver, strikes: Strikes): ProcessDriver.ProcessDriver => {
  const faulty = new FaultyDriver(driver, strikes)
  return {
    ...driver,
    spawn: (request) => faulty.spawn(request),
    attach: (request) => faulty.attach(request),
    probe: (identity) => faulty.ask("probe", driver.probe(identity)),
    look: (roots) => faulty.look(roots),
    signal: (root, targets, signal) => faulty.signal(root, targets, signal),
    detachedFiles: driver.detachedFiles === null ? null : filesOf(driver.detachedFiles, strikes)
  }
}

const port = "driver"

class FaultyDriver {
  readonly #driver: ProcessDriver.ProcessDriver
  readonly #strikes: Strikes
  readonly #keeper: Keeper | null

  constructor(driver: ProcessDriver.ProcessDriver, strikes: Strikes) {
    this.#driver = driver
    this.#strikes = strikes
    this.#keeper = strikes.expects("KeeperGone") ? new Keeper() : null
  }

  spawn(request: ProcessDriver.SpawnRequest): Effect.Effect<ProcessDriver.Child, ProcessDriver.SpawnFailed> {
    return Effect.suspend(() => {
      const { gate } = this.#strikes
      const exit = new ExitTold(request.onExit)
      const sinks = new GatedSinks(gate, request)
      // Those that outlive the application are not the keeper's.
      const keeper = request.detached === undefined ? this.#keeper : null
      const started = this.#driver.spawn({
        ...request,
        stdout: sinks.stdout,
        stderr: sinks.stderr,
        onExit: gate.tell(exit.tell)
      })
      const bound = Effect.tap(started, (child) =>
        Effect.sync(() => {
          sinks.bind(child)
          keeper?.open.add(exit)
        }))
      const abandon = (child: ProcessDriver.Child) => this.#endStarted(child, request)
      const make = keeper === null ? bound : this.#whileKept(keeper, bound, abandon)
      const call = this.#strikes.through<ProcessDriver.Child, ProcessDriver.SpawnFailed>({
        port,
        call: "spawn",
        make,
        abandon,
        failure: ({ code, problem }) =>
          problem === undefined
            ? new ProcessDriver.SpawnFailed({ problem: "TooManyProcesses", code: code ?? "EAGAIN" })
            : new ProcessDriver.SpawnFailed({ problem: problem as ProcessDriver.SpawnProblem, code: code ?? null }),
        own: (what) => {
          switch (what._tag) {
            case "LoseExit":
            case "Duplicate":
              exit.times = what._tag === "LoseExit" ? 0 : 2
              return make
            case "ExitEarly": {
              const most = Effect.sleep(what.atMostMillis ?? defaultEarlyMillis)
              return thenWait(make, Effect.raceFirst(Deferred.await(exit.told), most), abandon)
            }
            case "Fail":
              // What it leaves nobody would know of.
              return what.done === true
                ? Effect.andThen(
                  Effect.uninterruptibleMask((restore) => Effect.flatMap(restore(make), abandon)),
                  Effect.suspend(() => Effect.fail(unknownOutcome()))
                )
                : undefined
            case "KeeperGone":
              this.#loseKeeper(what.millis)
              return keeper === null ? make : Effect.suspend(() => Effect.fail(unknownOutcome()))
            default:
              return undefined
          }
        }
      })
      return Effect.map(call, (child) => this.#childOf(child, exit))
    })
  }

  attach(request: ProcessDriver.AttachRequest): Effect.Effect<ProcessDriver.Child> {
    return Effect.suspend(() => {
      const { gate } = this.#strikes
      const exit = new ExitTold(request.onExit)
      const sinks = new GatedSinks(gate, request)
      const attached = this.#driver.attach({
        ...request,
        stdout: sinks.stdout,
        stderr: sinks.stderr,
        onExit: gate.tell(exit.tell)
      })
      const make = Effect.tap(attached, (child) => Effect.sync(() => sinks.bind(child)))
      const call = this.#strikes.through({
        port,
        call: "attach",
        make,
        abandon: (child) => child.release,
        own: (what) => {
          if (what._tag !== "LoseExit" && what._tag !== "Duplicate") return undefined
          exit.times = what._tag === "LoseExit" ? 0 : 2
          return make
        }
      })
      return Effect.map(call, (child) => this.#childOf(child, exit))
    })
  }

  look(roots: Parameters<ProcessDriver.ProcessDriver["look"]>[0]) {
    return this.ask("look", this.#driver.look(roots), (what) =>
      what._tag === "Tear"
        // The table was read, and not to its end.
        ? Effect.map(this.#driver.look([]), () => roots.map(unseen))
        : undefined)
  }

  signal(root: Identity, targets: Parameters<ProcessDriver.ProcessDriver["signal"]>[1], signal: string) {
    return this.ask("signal", this.#driver.signal(root, targets, signal), (what) => {
      if (what._tag === "Refuse") return Effect.succeed(outcomesOf(targets, "refused", what.code ?? "EPERM"))
      return what._tag === "Swallow" ? Effect.succeed(outcomesOf(targets, "sent", null)) : undefined
    })
  }

  /** A question that another keeper is asked again when the first one is lost. */
  ask<A>(
    call: string,
    make: Effect.Effect<A>,
    own?: (what: What) => Effect.Effect<A> | undefined
  ): Effect.Effect<A> {
    return this.#strikes.through({
      port,
      call,
      make,
      own: (what) => {
        if (what._tag !== "KeeperGone") return own?.(what)
        this.#loseKeeper(what.millis)
        return make
      }
    })
  }

  #loseKeeper(millis: number): void {
    this.#keeper?.lose(this.#strikes.clock.currentTimeMillisUnsafe() + millis)
  }

  /** Without a keeper nothing is started, and what one was starting when it was lost leaves nothing. */
  #whileKept(
    keeper: Keeper,
    started: Effect.Effect<ProcessDriver.Child, ProcessDriver.SpawnFailed>,
    abandon: (child: ProcessDriver.Child) => Effect.Effect<void>
  ): Effect.Effect<ProcessDriver.Child, ProcessDriver.SpawnFailed> {
    return Effect.suspend(() => {
      if (this.#strikes.clock.currentTimeMillisUnsafe() < keeper.goneUntil) {
        return Effect.fail(new ProcessDriver.SpawnFailed({ problem: "Other", code: "ENOTCONN" }))
      }
      const lost = Deferred.makeUnsafe<never, ProcessDriver.SpawnFailed>()
      keeper.starting.add(lost)
      return Effect.raceFirst(thenWait(started, Effect.void, abandon), Deferred.await(lost)).pipe(
        Effect.ensuring(Effect.sync(() => keeper.starting.delete(lost)))
      )
    })
  }

  /** What an interrupted start does with a process that is there already: it is the driver's to end. */
  #endStarted(child: ProcessDriver.Child, { detached }: ProcessDriver.SpawnRequest): Effect.Effect<void> {
    const driver = this.#driver
    return Effect.gen(function*() {
      const [look] = yield* driver.look([child.identity])
      if (look !== undefined) {
        yield* driver.signal(child.identity, { members: look.members, groups: look.occupied }, "SIGKILL")
      }
      yield* child.release
      if (detached !== undefined && driver.detachedFiles !== null) yield* driver.detachedFiles.remove(detached.name)
    })
  }

  #childOf(child: ProcessDriver.Child, exit: ExitTold): ProcessDriver.Child {
    const { through } = this.#strikes
    const forgotten = Effect.sync(() => {
      this.#keeper?.open.delete(exit)
    })
    return {
      identity: child.identity,
      write: (bytes) =>
        through({
          port,
          call: "child.write",
          make: child.write(bytes),
          own: (what) => what._tag === "Tear" ? child.write(bytes.subarray(0, bytes.length >> 1)) : undefined
        }),
      closeStdin: (options) => through({ port, call: "child.closeStdin", make: child.closeStdin(options) }),
      resume: (stream) => child.resume(stream),
      drain: (stream) => child.drain(stream),
      finish: through({ port, call: "child.finish", make: child.finish }),
      release: through({ port, call: "child.release", make: Effect.andThen(forgotten, child.release) })
    }
  }
}

const filesOf = (files: ProcessDriver.DetachedFiles, { through }: Strikes): ProcessDriver.DetachedFiles => ({
  read: (name, stream, offset, limit) =>
    through({
      port,
      call: "detachedFiles.read",
      make: files.read(name, stream, offset, limit),
      own: (what) => what._tag === "Tear" ? files.read(name, stream, offset, Math.max(1, limit >> 1)) : undefined
    }),
  remove: (name) => through({ port, call: "detachedFiles.remove", make: files.remove(name) })
})

/** How long a start waits at most for its exit: less than a runtime waits for a start. */
const defaultEarlyMillis = 5_000

const unseen = (root: ProcessDriver.TreeLook["root"]): ProcessDriver.TreeLook => ({
  root,
  leader: "alive",
  members: [],
  occupied: [],
  complete: false
})

const outcomesOf = (
  { groups, members }: Parameters<ProcessDriver.ProcessDriver["signal"]>[1],
  outcome: ProcessDriver.SignalOutcome["outcome"],
  code: string | null
): ReadonlyArray<ProcessDriver.SignalOutcome> => [
  ...members.map(({ name, pid, startedAt }) => ({ pid, startedAt, name, outcome, code })),
  ...(groups ?? []).map((pid) => ({ pid, startedAt: 0, name: "", outcome, code }))
]
