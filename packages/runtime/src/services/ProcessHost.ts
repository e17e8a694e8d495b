/**
 * The one place where processes live: it admits them, starts them, moves them through `Lifecycle`, performs the actions
 * that come of it, and keeps them until they are settled.
 *
 * `AppProcess`, `BackgroundProcess` and `ShutdownBarrier` are views on it. It knows no owners, no notices and no rows:
 * what a service does at a turn of a process's life, it hands in as `Hooks`. No fiber is held for a live process; one
 * runs while a process starts, and one while it ends.
 */
import type * as EffectCause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { CommandSpec } from "../domain/CommandSpec.ts"
import { markerPrefix } from "../domain/Identity.ts"
import * as Lifecycle from "../domain/Lifecycle.ts"
import * as ProcessId from "../domain/ProcessId.ts"
import type { Cause } from "../domain/Status.ts"
import * as SharedLook from "../internal/SharedLook.ts"
import * as TimerHeap from "../internal/TimerHeap.ts"
import * as BlobStore from "../ports/BlobStore.ts"
import * as ProcessDriver from "../ports/ProcessDriver.ts"
import * as OutputRetention from "./OutputRetention.ts"
import { type Hooks, OwnedProcess, receiptOf, subjectOf } from "./OwnedProcess.ts"
import type { Policy } from "./ProcessOptions.ts"
import * as Settings from "./Settings.ts"
import * as Termination from "./Termination.ts"

export interface ProcessHost {
  readonly settings: Settings.Settings
  readonly driver: ProcessDriver.ProcessDriver
  readonly timers: TimerHeap.TimerHeap
  readonly clock: Clock.Clock
  /** Whether output that memory loses may go into a blob store at all. */
  readonly spills: boolean
  /** Runs an effect in a fiber of the runtime; it ends at the latest with the layer. */
  readonly fork: <A>(effect: Effect.Effect<A>) => Fiber.Fiber<A>
  /** A fresh id, later than all before. */
  readonly nextId: () => string
  /** Every process that is not settled, in the order of admission. */
  readonly live: ReadonlySet<OwnedProcess>
  /** Takes a process in, in phase `starting`, without starting it. `null`: the runtime is draining. */
  readonly admit: (command: CommandSpec, policy: Policy, id?: string) => OwnedProcess | null
  /** Starts it in a fiber of the runtime. What comes of it is told by `process.started`. */
  readonly start: (process: OwnedProcess) => void
  /** Asks for its end. Synchronous: all can be asked before any is waited for. */
  readonly end: (process: OwnedProcess, cause: Cause, now?: boolean) => void
  /** Runs the protocol once more on one that could not be ended, or joins the run that is under way. */
  readonly retry: (process: OwnedProcess) => Effect.Effect<void>
  /** How many of the bytes its stdin took. Waits for a start in progress. */
  readonly write: (process: OwnedProcess, bytes: Uint8Array) => Effect.Effect<number>
  readonly closeStdin: (process: OwnedProcess) => Effect.Effect<void>
  /** Sets the deadline anew, `millis` from now; `null` for none. The runtime's cap holds. */
  readonly extend: (process: OwnedProcess, millis: number | null) => void
  /** Gives back what a settled process holds: its blobs. */
  readonly forget: (process: OwnedProcess) => Effect.Effect<void>
  /** From here on nothing is admitted. */
  readonly drain: () => void
  readonly draining: () => boolean
}

class ProcessHostService extends Context.Service<ProcessHostService, ProcessHost>()("@procyon/runtime/ProcessHost") {}
export { ProcessHostService as Service }

/** How the action is answered when performing it broke: never by a claim. */
const brokenAnswers: { readonly [A in Lifecycle.Action]?: Lifecycle.Event } = {
  WithdrawStart: { _tag: "StartLost" },
  RecordTree: { _tag: "TreeRecorded", leaderAlive: true },
  AwaitExit: { _tag: "ExitAwaited" },
  Linger: { _tag: "LingerEnded", end: true },
  SignalTree: { _tag: "Signalled", delivered: false },
  AwaitGrace: { _tag: "GraceElapsed" },
  ForceTree: { _tag: "ForceElapsed" },
  RetryTree: { _tag: "ForceElapsed" },
  Flush: { _tag: "Flushed" }
}

const make = Effect.gen(function*() {
  const settings = yield* Settings.Current
  const driver = yield* ProcessDriver.Service
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const store = yield* Effect.serviceOption(BlobStore.Service)
  const runFork = yield* FiberSet.makeRuntime<never, unknown, never>()
  const fork = <A>(effect: Effect.Effect<A>): Fiber.Fiber<A> => runFork(effect)
  const timers = TimerHeap.make(clock, fork)
  const look = SharedLook.make(driver, { windowMillis: settings.portWindowMillis, fork })
  const termination = Termination.make({ driver, look, clock, timers, settings })
  let ids = ProcessId.initial
  const live = new Set<OwnedProcess>()
  /** Settled ones whose output is still in memory, oldest first. */
  const finished = new Set<OwnedProcess>()
  /** Children whose leftovers were kept on purpose: their output is read, and dropped, until it ends. */
  const kept = new Set<ProcessDriver.Child>()
  let finishedBytes = 0
  let draining = false

  const hex = () => random.nextIntUnsafe().toString(16).replace("-", "").padStart(8, "0").slice(-8)

  /** Bounds a hook or a port, and keeps its failure where it happened. */
  const isolated = (effect: Effect.Effect<void>, millis: number, what: string): Effect.Effect<void> =>
    effect.pipe(
      Effect.timeoutOption(millis),
      Effect.flatMap((done) =>
        Option.isNone(done) ? Effect.logWarning(`${what} did not finish within ${millis} ms`) : Effect.void
      ),
      // The cause may hold what a caller's code threw, and with it anything: its kind is told, its text is not.
      Effect.catchCause(() => Effect.logWarning(`${what} failed`))
    )

  const makeRetention = (id: string, policy: Policy, onCap: () => void): OutputRetention.OutputRetention =>
    OutputRetention.make({
      name: id,
      head: policy.headBytes,
      limit: policy.limitBytes,
      cap: policy.capBytes,
      onCap,
      spill: policy.spill === "on-truncation" && Option.isSome(store)
        ? { store: store.value, cap: settings.spillBytes, fork, stallMillis: settings.spillWindowMillis }
        : null,
      sha256: driver.sha256(),
      now: timers.now,
      preview: settings.previewBytes
    })

  const admit: ProcessHost["admit"] = (command, policy, id = nextId()) => {
    if (draining) return null
    const onCap = () => end(process, { _tag: "OutputCap" })
    const process: OwnedProcess = new OwnedProcess({
      id,
      command,
      policy,
      marker: `${markerPrefix}${hex()}${hex()}`,
      stdout: makeRetention(id, policy, onCap),
      stderr: policy.streams === "merged" ? null : makeRetention(id, policy, onCap),
      startedAt: clock.currentTimeMillisUnsafe(),
      startedMono: timers.now()
    })
    live.add(process)
    return process
  }

  const nextId = (): string => {
    const next = ProcessId.make(ids, clock.currentTimeMillisUnsafe(), random.nextDoubleUnsafe())
    ids = next.state
    return next.id
  }

  /** Moves a process, and sees to what comes of it. The only place that writes `process.state`. */
  const dispatch = (process: OwnedProcess, event: Lifecycle.Event): void => {
    const from = process.state
    const [to, actions] = Lifecycle.step(from, event)
    process.state = to
    if (event._tag === "Exited") {
      Deferred.doneUnsafe(process.exited, Effect.succeed(event.exit))
      process.nudge.notify()
    }
    if (from._tag === "Running" && to._tag !== "Running") stopTimers(process)
    if (from._tag !== "Draining" && to._tag === "Draining") process.endingMono ??= timers.now()
    notify(process, from, event)
    for (const action of actions) {
      if (action === "Hurry") process.nudge.notify()
      else process.todo.push(action)
    }
    if (process.todo.length > 0 && !process.working) {
      process.working = true
      fork(work(process))
    }
  }

  const notify = (process: OwnedProcess, from: Lifecycle.State, event: Lifecycle.Event): void => {
    try {
      process.hooks.onTransition?.(from, event)
    } catch {
      fork(Effect.logWarning("an observer of a process threw"))
    }
  }

  const work = (process: OwnedProcess): Effect.Effect<void> =>
    Effect.gen(function*() {
      for (let action = process.todo.shift(); action !== undefined; action = process.todo.shift()) {
        const broken = brokenAnswers[action] ?? null
        const answer = yield* perform(process, action).pipe(
          Effect.catchCause(() => Effect.as(Effect.logError(`${action} of a process broke`), broken))
        )
        if (answer !== null) dispatch(process, answer)
      }
      process.working = false
    })

  const perform = (process: OwnedProcess, action: Lifecycle.Action): Effect.Effect<Lifecycle.Event | null> => {
    switch (action) {
      case "WithdrawStart":
        return withdrawStart(process)
      case "RecordTree":
        return withTree(process, (subject) =>
          Effect.map(termination.look(subject), (seen) => {
            process.lastLook = seen
            return { _tag: "TreeRecorded", leaderAlive: !seen.complete || seen.leader === "alive" }
          }))
      case "AwaitExit":
        return awaitExit(process)
      case "Linger":
        return withTree(process, (subject) => linger(process, subject))
      case "SignalTree":
        return withTree(process, (subject) => signalTree(process, subject))
      case "AwaitGrace":
        return withTree(process, (subject) => awaitGrace(process, subject))
      case "ForceTree":
        return withTree(process, (subject) => forceTree(process, subject))
      case "Recheck":
        return withTree(process, (subject) => recheck(process, subject))
      case "RetryTree":
        return retryTree(process)
      case "Flush":
        return flush(process)
      case "Settle":
        return settle(process)
      case "ReportUnresolved":
        return reportUnresolved(process)
      case "Hurry":
        return Effect.succeed(null)
    }
  }

  const withTree = (
    process: OwnedProcess,
    f: (subject: Termination.Subject) => Effect.Effect<Lifecycle.Event | null>
  ): Effect.Effect<Lifecycle.Event | null> =>
    process.child === null
      ? Effect.succeed({ _tag: "ForceElapsed" })
      : f(subjectOf(process, process.child, timers.now))

  // ---- starting

  const start: ProcessHost["start"] = (process) => {
    process.startFiber = fork(startNow(process))
  }

  const startNow = (process: OwnedProcess): Effect.Effect<void> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        if (process.state._tag !== "Starting") return
        dispatch(process, { _tag: "Asked" })
        const admitted = yield* process.hooks.beforeSpawn ?? Effect.succeed(true)
        if (!admitted) return dispatch(process, { _tag: "StartFailed" })
        if (isWithdrawn(process)) return dispatch(process, { _tag: "StartWithdrawn" })
        const overdue = timers.after(settings.startWindowMillis, () => end(process, { _tag: "StartFailed" }))
        const exit = yield* Effect.exit(restore(driver.spawn(requestOf(process))))
        overdue.cancel()
        if (exit._tag === "Success") yield* answerStarted(process, exit.value)
        else answerFailed(process, exit.cause)
      })
    )

  const isWithdrawn = (process: OwnedProcess): boolean =>
    process.state._tag !== "Starting" || process.state.request !== null

  const requestOf = (process: OwnedProcess): ProcessDriver.SpawnRequest => ({
    command: process.command,
    marker: process.marker,
    stdout: process.stdout.sink,
    stderr: process.stderr === null ? "merged" : process.stderr.sink,
    onExit: (exit) => dispatch(process, { _tag: "Exited", exit })
  })

  const answerStarted = (process: OwnedProcess, child: ProcessDriver.Child): Effect.Effect<void> =>
    Effect.gen(function*() {
      process.child = child
      process.startedAt = clock.currentTimeMillisUnsafe()
      process.startedMono = timers.now()
      process.stdout.onResume(() => child.resume("stdout"))
      process.stderr?.onResume(() => child.resume("stderr"))
      dispatch(process, { _tag: "Started" })
      if (process.state._tag === "Running") armTimers(process)
      if (process.hooks.onStarted !== undefined) {
        yield* isolated(process.hooks.onStarted, settings.portWindowMillis, "recording a start")
      }
      Deferred.doneUnsafe(process.started, Effect.succeed(true))
      feedStdin(process)
    })

  const answerFailed = (process: OwnedProcess, cause: EffectCause.Cause<ProcessDriver.SpawnFailed>): void => {
    const failure = cause.reasons.find((reason) => reason._tag === "Fail")
    if (failure?._tag === "Fail") {
      process.spawnFailed = failure.error
      return dispatch(process, { _tag: "StartFailed" })
    }
    if (isOverdue(process)) {
      process.spawnFailed = new ProcessDriver.SpawnFailed({ problem: "OutcomeUnknown", code: null })
    }
    if (isWithdrawn(process)) return dispatch(process, { _tag: "StartWithdrawn" })
    process.spawnFailed = new ProcessDriver.SpawnFailed({ problem: "Other", code: null })
    dispatch(process, { _tag: "StartFailed" })
  }

  const isOverdue = (process: OwnedProcess): boolean =>
    process.state._tag === "Starting" && process.state.request?.cause._tag === "StartFailed"

  /** Interrupts the start: it answers for itself, if it can in time. */
  const withdrawStart = (process: OwnedProcess): Effect.Effect<Lifecycle.Event | null> =>
    process.startFiber === null
      ? Effect.succeed(null)
      : Fiber.interrupt(process.startFiber).pipe(
        // The interruption is not to end with this wait, so it is waited for from outside.
        (interruption) => Fiber.await(fork(interruption)),
        Effect.timeoutOption(process.policy.forceWindowMillis),
        Effect.map((done): Lifecycle.Event | null => {
          if (Option.isSome(done)) return null
          if (isOverdue(process)) {
            process.spawnFailed = new ProcessDriver.SpawnFailed({ problem: "OutcomeUnknown", code: null })
          }
          return { _tag: "StartLost" }
        })
      )

  // ---- running

  const armTimers = (process: OwnedProcess): void => {
    armDeadline(process)
    const idle = process.policy.idleDeadlineMillis
    if (idle !== null) armIdle(process, idle, idle)
    if (process.hooks.onBeat !== undefined) armBeat(process)
  }

  const armDeadline = (process: OwnedProcess): void => {
    const { deadlineMillis } = process
    if (deadlineMillis === null) {
      process.deadlineAt = null
      return
    }
    const left = Math.max(0, process.startedMono + deadlineMillis - timers.now())
    process.deadlineAt = process.startedAt + deadlineMillis
    process.timers.push(timers.after(left, () => end(process, { _tag: "Deadline", kind: "total" })))
  }

  /** Output does not touch the timer: when it fires, it looks how long the silence has really been. */
  const armIdle = (process: OwnedProcess, idle: number, millis: number): void => {
    process.timers.push(timers.after(millis, () => {
      const left = process.lastOutputMono + idle - timers.now()
      if (left <= 0) end(process, { _tag: "Deadline", kind: "idle" })
      else armIdle(process, idle, left)
    }))
  }

  const armBeat = (process: OwnedProcess): void => {
    process.beat = timers.after(settings.heartbeatMillis, () => {
      if (process.state._tag === "Settled") return
      armBeat(process)
      try {
        process.hooks.onBeat?.()
      } catch {
        fork(Effect.logWarning("an observer of a process threw"))
      }
      // What could not be ended may end by itself; nobody else would look.
      if (process.state._tag === "Unresolved" && !process.working) {
        process.todo.push("Recheck")
        process.working = true
        fork(work(process))
      }
    })
  }

  const stopTimers = (process: OwnedProcess): void => {
    for (const timer of process.timers) timer.cancel()
    process.timers = []
  }

  const extend: ProcessHost["extend"] = (process, millis) => {
    if (process.state._tag !== "Running") return
    const cap = settings.deadlineCapMillis
    const sinceStart = millis === null ? null : timers.now() - process.startedMono + millis
    process.deadlineMillis = sinceStart === null || cap === null ? sinceStart : Math.min(sinceStart, cap)
    stopTimers(process)
    process.beat?.cancel()
    armTimers(process)
  }

  const end: ProcessHost["end"] = (process, cause, now = false) =>
    dispatch(process, { _tag: "EndRequested", request: { cause, now } })

  const feedStdin = (process: OwnedProcess): void => {
    const { stdin } = process.command.options
    if (stdin === undefined || stdin === "none" || stdin === "open") return
    const feed = stdin instanceof Uint8Array
      ? write(process, stdin)
      : Stream.runForEachWhile(stdin, (bytes) => Effect.map(write(process, bytes), (taken) => taken === bytes.length))
    // A source that fails ends the input as one that is over does: the count tells how much the child got.
    fork(feed.pipe(Effect.ignoreCause, Effect.andThen(closeStdin(process))))
  }

  const write: ProcessHost["write"] = (process, bytes) =>
    Effect.gen(function*() {
      if (process.state._tag === "Starting") yield* Effect.exit(Deferred.await(process.started))
      const { child } = process
      if (process.stdinClosed || child === null || process.state._tag !== "Running") return 0
      process.writing ??= Semaphore.makeUnsafe(1)
      return yield* process.writing.withPermit(Effect.suspend(() =>
        process.stdinClosed ? Effect.succeed(0) : Effect.tap(child.write(bytes), (taken) =>
          Effect.sync(() => {
            process.stdinAccepted += taken
          }))
      ))
    })

  const closeStdin: ProcessHost["closeStdin"] = (process) =>
    Effect.suspend(() => {
      if (process.stdinClosed) return Effect.void
      process.stdinClosed = true
      const { child } = process
      if (child === null) return Effect.void
      return child.closeStdin().pipe(
        Effect.timeoutOption(settings.portWindowMillis),
        Effect.flatMap((done) => Option.isNone(done) ? child.closeStdin({ now: true }) : Effect.void)
      )
    })

  // ---- ending

  const awaitExit = (process: OwnedProcess): Effect.Effect<Lifecycle.Event> =>
    Deferred.await(process.exited).pipe(
      Effect.timeoutOption(settings.portWindowMillis),
      Effect.as<Lifecycle.Event>({ _tag: "ExitAwaited" })
    )

  const isHurried = (process: OwnedProcess): boolean => {
    const { state } = process
    return (state._tag === "Draining" && state.request?.now === true) ||
      (state._tag === "Terminating" && state.now)
  }

  /** Most leaders leave nobody behind, which the first look shows. */
  const linger = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Lifecycle.Event> => {
    const keep = process.policy.leftovers === "keep"
    const millis = keep ? 0 : settings.lingerMillis
    return Effect.map(termination.awaitGone(subject, millis, () => isHurried(process)), (seen) => {
      process.lastLook = seen
      if (Termination.isGone(seen)) return { _tag: "LingerEnded", end: false }
      process.leftovers = Termination.listed(seen.members, process.refused)
      process.keptLeftovers = keep
      return { _tag: "LingerEnded", end: !keep }
    })
  }

  const signalTree = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Lifecycle.Event> =>
    Effect.suspend(() => {
      // Decided and done in one step: an exit that this very signal causes is told after it.
      dispatch(process, { _tag: "Signalling" })
      const { lastLook } = process
      if (lastLook === null) return Effect.succeed({ _tag: "Signalled", delivered: false })
      const signal = process.command.options.stopSignal ?? "SIGTERM"
      return Effect.map(
        termination.request(subject, lastLook, signal),
        (delivered) => ({ _tag: "Signalled", delivered })
      )
    })

  const awaitGrace = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Lifecycle.Event> => {
    const millis = isHurried(process) ? 0 : process.policy.graceMillis
    return Effect.map(termination.awaitGone(subject, millis, () => isHurried(process)), (seen) => {
      if (!Termination.isGone(seen)) return { _tag: "GraceElapsed" }
      subject.note("verified gone")
      return { _tag: "TreeGone" }
    })
  }

  const forceTree = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Lifecycle.Event> =>
    Effect.suspend(() => {
      process.forced = true
      return Effect.map(termination.force(subject, process.policy.forceWindowMillis), (seen) => {
        process.lastLook = seen
        if (Termination.isGone(seen)) {
          process.survivors = []
          process.survivorCount = 0
          subject.note("verified gone")
          return { _tag: "TreeGone" }
        }
        process.survivors = Termination.listed(seen.members, process.refused)
        process.survivorCount = seen.members.length
        subject.note(seen.complete ? `${seen.members.length} still there` : "the process table could not be read")
        return { _tag: "ForceElapsed" }
      })
    })

  const recheck = (process: OwnedProcess, subject: Termination.Subject): Effect.Effect<Lifecycle.Event | null> =>
    Effect.map(termination.look(subject), (seen) => {
      if (!Termination.isGone(seen)) return null
      process.survivors = []
      process.survivorCount = 0
      subject.note("verified gone")
      return { _tag: "TreeGone" }
    })

  const retryTree = (process: OwnedProcess): Effect.Effect<Lifecycle.Event> =>
    withTree(process, (subject) =>
      Effect.gen(function*() {
        subject.note("tried again")
        const seen = yield* termination.look(subject)
        if (!Termination.isGone(seen)) {
          yield* termination.request(subject, seen, process.command.options.stopSignal ?? "SIGTERM")
          const left = yield* termination.awaitGone(subject, process.policy.graceMillis, () => draining)
          if (!Termination.isGone(left)) return yield* forceTree(process, subject)
        }
        process.survivors = []
        process.survivorCount = 0
        subject.note("verified gone")
        return { _tag: "TreeGone" as const }
      })).pipe(
        Effect.map((event) => event ?? { _tag: "ForceElapsed" as const }),
        Effect.tap((event) =>
          Effect.sync(() => {
            if (event._tag === "TreeGone") return
            process.receipt = receiptOf(process, timers.now())
            finishRetry(process)
          })
        )
      )

  const finishRetry = (process: OwnedProcess): void => {
    const { retry } = process
    process.retry = null
    if (retry !== null) Deferred.doneUnsafe(retry, Effect.void)
  }

  const retry: ProcessHost["retry"] = (process) =>
    Effect.suspend(() => {
      if (process.state._tag !== "Unresolved") return Effect.void
      const waiting = process.retry ??= Deferred.makeUnsafe<void>()
      dispatch(process, { _tag: "RetryRequested" })
      return Deferred.await(waiting)
    })

  // ---- flushing and settling

  const retentionsOf = (process: OwnedProcess): ReadonlyArray<OutputRetention.OutputRetention> =>
    process.stderr === null ? [process.stdout] : [process.stdout, process.stderr]

  const flush = (process: OwnedProcess): Effect.Effect<Lifecycle.Event> =>
    Effect.gen(function*() {
      const { child } = process
      const retentions = retentionsOf(process)
      const millis = process.keptLeftovers ? 0 : settings.flushWindowMillis
      const drained = yield* Effect.forEach(
        retentions,
        (retention) => Effect.map(Effect.timeoutOption(retention.ended, millis), Option.isSome),
        { concurrency: "unbounded" }
      )
      yield* sealAll(retentions, drained)
      if (child !== null) {
        if (process.keptLeftovers && drained.includes(false)) kept.add(child)
        else yield* isolated(child.release, settings.portWindowMillis, "letting go of a child")
      }
      return { _tag: "Flushed" }
    })

  const sealAll = (
    retentions: ReadonlyArray<OutputRetention.OutputRetention>,
    drained: ReadonlyArray<boolean>
  ): Effect.Effect<void> =>
    Effect.forEach(
      retentions,
      (retention, index) =>
        isolated(
          retention.seal({ drained: drained[index] ?? false }),
          settings.spillWindowMillis,
          "sealing an output"
        ),
      { concurrency: "unbounded", discard: true }
    )

  const settle = (process: OwnedProcess): Effect.Effect<null> =>
    Effect.gen(function*() {
      const neverRan = process.child === null
      if (neverRan) yield* sealAll(retentionsOf(process), [true, true])
      process.stdinClosed = true
      process.beat?.cancel()
      stopTimers(process)
      process.endedAt = clock.currentTimeMillisUnsafe()
      process.receipt = receiptOf(process, timers.now())
      if (process.hooks.onSettled !== undefined) {
        yield* isolated(process.hooks.onSettled, settings.portWindowMillis, "settling a process")
      }
      live.delete(process)
      keepFinished(process)
      Deferred.doneUnsafe(process.exited, Effect.succeed(Lifecycle.exitOf(process.state)))
      Deferred.doneUnsafe(
        process.started,
        process.spawnFailed === null ? Effect.succeed(false) : Effect.fail(process.spawnFailed)
      )
      Deferred.doneUnsafe(process.ended, Effect.void)
      Deferred.doneUnsafe(process.settled, Effect.void)
      finishRetry(process)
      return null
    })

  const reportUnresolved = (process: OwnedProcess): Effect.Effect<null> =>
    Effect.gen(function*() {
      process.receipt = receiptOf(process, timers.now())
      if (process.hooks.onUnresolved !== undefined) {
        yield* isolated(process.hooks.onUnresolved, settings.portWindowMillis, "reporting a process")
      }
      if (process.child === null) {
        Deferred.doneUnsafe(
          process.started,
          process.spawnFailed === null ? Effect.succeed(false) : Effect.fail(process.spawnFailed)
        )
      }
      Deferred.doneUnsafe(process.ended, Effect.void)
      return null
    })

  /** Bounds what finished processes hold in memory together: the oldest shrink to what their preview shows. */
  const keepFinished = (process: OwnedProcess): void => {
    finished.add(process)
    finishedBytes += retainedBy(process)
    for (const oldest of finished) {
      if (finishedBytes <= settings.finishedOutputBytes) return
      finished.delete(oldest)
      finishedBytes -= retainedBy(oldest)
      for (const retention of retentionsOf(oldest)) retention.shrink()
    }
  }

  const retainedBy = (process: OwnedProcess): number =>
    retentionsOf(process).reduce((total, retention) => total + retention.metadata().bytesRetained, 0)

  const forget: ProcessHost["forget"] = (process) =>
    Effect.suspend(() => {
      if (finished.delete(process)) finishedBytes -= retainedBy(process)
      return Effect.forEach(retentionsOf(process), (retention) => retention.dispose, { discard: true })
    })

  yield* Effect.addFinalizer(() =>
    Effect.forEach(kept, (child) => child.release, { discard: true, concurrency: "unbounded" })
  )

  const host: ProcessHost = {
    settings,
    driver,
    timers,
    clock,
    spills: Option.isSome(store),
    fork,
    nextId,
    live,
    admit,
    start,
    end,
    retry,
    write,
    closeStdin,
    extend,
    forget,
    drain: () => {
      draining = true
    },
    draining: () => draining
  }
  return ProcessHostService.of(host)
})

/** Ends nothing by itself when it is closed: `ShutdownBarrier` does, and stands above it. */
export const layer: Layer.Layer<ProcessHostService, never, ProcessDriver.Service> = Layer.effect(
  ProcessHostService,
  make
)

export type { Hooks, OwnedProcess }
