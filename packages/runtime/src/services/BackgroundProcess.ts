/**
 * Jobs: processes that go on while the fiber that began them does something else, each owned by a session id.
 *
 * `of(owner)` gives the jobs of one owner, and none of its members takes another: whoever holds it cannot name anybody
 * else's. A job's life is told by rows (`ProcessLedger`), notices (drained once), events and observers; none of them can
 * hold up the job or another one. Not for detached processes that survive the runtime: asking for one is refused.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Bounds from "../domain/Bounds.ts"
import * as CommandSpec from "../domain/CommandSpec.ts"
import { InvalidCommand } from "../domain/InvalidCommand.ts"
import * as Lifecycle from "../domain/Lifecycle.ts"
import * as Status from "../domain/Status.ts"
import * as EventRing from "../internal/EventRing.ts"
import type { Timer } from "../internal/TimerHeap.ts"
import { SpawnFailed } from "../ports/ProcessDriver.ts"
import * as ProcessLedger from "../ports/ProcessLedger.ts"
import { RuntimeClosed, StartWithdrawn, type StdinClosed, writeAll } from "./AppProcess.ts"
import { type OwnedProcess, receiptOf } from "./host/OwnedProcess.ts"
import { Event } from "./JobEvent.ts"
import { Notice, NoticeQueue } from "./JobNotice.ts"
import type { View } from "./OutputRetention.ts"
import * as ProcessHost from "./ProcessHost.ts"
import { Info as ProcessInfo, infoOf, stderrOf } from "./ProcessInfo.ts"
import type * as ProcessOptions from "./ProcessOptions.ts"
import { resolve as resolveOptions } from "./ProcessOptions.ts"
import * as ShutdownBarrier from "./ShutdownBarrier.ts"

export { Event, Notice }
export type { Page, ReadOptions, View } from "./OutputRetention.ts"

/** No such job of this owner: unknown, forgotten and somebody else's are the same, and told the same way. */
export class ProcessNotFound extends Schema.TaggedError<ProcessNotFound>()("ProcessNotFound", { id: Schema.String }) {
  override get message(): string {
    return `no job ${this.id}`
  }
}

/** The owner has `limit` jobs that are not settled. */
export class TooManyJobs extends Schema.TaggedError<TooManyJobs>()("TooManyJobs", { limit: Schema.Natural }) {
  override get message(): string {
    return `at most ${this.limit} running jobs`
  }
}

/** The name is taken by a job that is not settled, whose id this is. Nothing was started. */
export class ProcessAlreadyExists
  extends Schema.TaggedError<ProcessAlreadyExists>()("ProcessAlreadyExists", { id: Schema.String })
{
  override get message(): string {
    return `job ${this.id} has this name`
  }
}

/** The owner was retired, and starts nothing any more. */
export class OwnerRetired extends Schema.TaggedError<OwnerRetired>()("OwnerRetired", {}) {
  override get message(): string {
    return "the owner was retired"
  }
}

/** A detached job needs a ledger that outlives the runtime, and this one does not. */
export class DetachedUnsupported extends Schema.TaggedError<DetachedUnsupported>()("DetachedUnsupported", {}) {
  override get message(): string {
    return "a detached job needs a durable ledger"
  }
}

/** The job could not be recorded, so it was not started. */
export class NotRecorded extends Schema.TaggedError<NotRecorded>()("NotRecorded", {}) {
  override get message(): string {
    return "the job could not be recorded"
  }
}

/** Nothing was started, and why. `command` is the executable's base name. */
export class StartError extends Schema.TaggedError<StartError>()("StartError", {
  command: Schema.String,
  reason: Schema.Union([
    InvalidCommand,
    SpawnFailed,
    RuntimeClosed,
    StartWithdrawn,
    TooManyJobs,
    ProcessAlreadyExists,
    OwnerRetired,
    DetachedUnsupported,
    NotRecorded
  ])
}) {
  override get message(): string {
    return `${this.command}: ${this.reason.message}`
  }
}

/**
 * What is known of a job now. Beside what every process has: `owner`, the caller's `name` for it, its `lifetime`, and
 * whether its row says the same (`recorded`; false while a ledger that failed has not caught up).
 */
export const Info = Schema.Struct({
  ...ProcessInfo.fields,
  owner: Schema.String,
  name: Schema.NullOr(Schema.String),
  lifetime: ProcessLedger.Lifetime,
  recorded: Schema.Boolean
})
export interface Info extends Schema.Schema.Type<typeof Info> {}

/**
 * - `name`: the caller's own handle for the job, unique among the owner's jobs that are not settled.
 * - `onExisting`: what a taken name does: `fail` (default), or `join`, which answers with the job that has it.
 * - `lifetime`: `session` (default) ends with its owner, `application` with the runtime, `detached` with neither.
 *
 * Streams are `merged` by default.
 */
export interface StartOptions extends ProcessOptions.Options {
  readonly name?: string | undefined
  readonly onExisting?: "fail" | "join" | undefined
  readonly lifetime?: ProcessLedger.Lifetime | undefined
}

/** The jobs of one owner. */
export interface Jobs {
  readonly owner: string
  /**
   * Waits for the driver's answer only, and for one second at most: then the row comes in phase `starting`. Interrupted,
   * there is a listed job or nothing.
   */
  readonly start: (command: CommandSpec.Input, options?: StartOptions) => Effect.Effect<Info, StartError>
  readonly get: (id: string) => Effect.Effect<Info, ProcessNotFound>
  /** In creation order. */
  readonly list: Effect.Effect<ReadonlyArray<Info>>
  /** Stdout, or both streams where they are merged. Stays usable when the job is forgotten. */
  readonly output: (id: string) => Effect.Effect<View, ProcessNotFound>
  /** Stderr; empty where the streams are merged. */
  readonly errorOutput: (id: string) => Effect.Effect<View, ProcessNotFound>
  /** Goes on with a spill that failed. `false`: nothing to go on with, or it failed again. */
  readonly retrySpill: (id: string) => Effect.Effect<boolean, ProcessNotFound>
  /** Waits until the pipe has taken all of it. */
  readonly write: (id: string, data: string | Uint8Array) => Effect.Effect<void, ProcessNotFound | StdinClosed>
  readonly closeStdin: (id: string) => Effect.Effect<void, ProcessNotFound>
  /** Waits until it is settled or reported as `kill_failed`. Interrupting a waiter does nothing to the job. */
  readonly wait: (id: string) => Effect.Effect<Info, ProcessNotFound>
  /** The receipt; waits for it. */
  readonly termination: (id: string) => Effect.Effect<Status.TerminationResult, ProcessNotFound>
  /**
   * Ends the job and waits for the proof; of a settled one it changes nothing and is no error; of one that is
   * `kill_failed` it is the retry. All who ask share one termination. Interruption ends only the wait.
   */
  readonly stop: (
    id: string,
    options?: { readonly now?: boolean | undefined }
  ) => Effect.Effect<Info, ProcessNotFound>
  /** Ends all that are not settled, at the cost of one grace, and answers with those it ended. */
  readonly stopAll: Effect.Effect<ReadonlyArray<Info>>
  /** Runs the protocol again on a `kill_failed` job; of any other it answers with the receipt, once there is one. */
  readonly retryTermination: (id: string) => Effect.Effect<Status.TerminationResult, ProcessNotFound>
  /** Sets the deadline to this long from now; zero or infinite: none. Of a job that does not run it changes nothing. */
  readonly extend: (id: string, deadline: Duration.Input) => Effect.Effect<Info, ProcessNotFound | InvalidCommand>
  /** Drops a settled job's record and its blobs. `false`: it is not settled. */
  readonly forget: (id: string) => Effect.Effect<boolean, ProcessNotFound>
  /** The notices that nobody has taken yet; they are taken now. */
  readonly notices: Effect.Effect<ReadonlyArray<Notice>>
  /** The same, waiting for one. Interrupted, it has taken none. */
  readonly awaitNotices: Effect.Effect<ReadonlyArray<Notice>>
  /** Live events of this owner's jobs, from when it is run. A slow reader misses some, and is told how many. */
  readonly events: Stream.Stream<Event>
  /** Ends the session's jobs (not those of lifetime `application`) and refuses later starts. */
  readonly retire: Effect.Effect<void>
}

export interface BackgroundProcess {
  readonly of: (owner: string) => Jobs
  /** The jobs of an owner that lives as long as the scope: its end retires the owner. */
  readonly scoped: (owner: string) => Effect.Effect<Jobs, never, Scope.Scope>
  /** Owners that have jobs or notices. */
  readonly owners: Effect.Effect<ReadonlyArray<string>>
  /** Live events of all owners. */
  readonly events: Stream.Stream<Event>
  /**
   * Calls `observer` with every event, in a fiber of its own, one at a time, while the scope is open. One that fails,
   * dies, hangs or is slow changes nothing for anybody: it misses events, and is told so.
   */
  readonly observe: (observer: (event: Event) => Effect.Effect<void>) => Effect.Effect<void, never, Scope.Scope>
}

class BackgroundProcessService
  extends Context.Service<BackgroundProcessService, BackgroundProcess>()("@procyon/runtime/BackgroundProcess")
{}
export { BackgroundProcessService as Service }

/** The jobs of an owner that somebody else chose: what a plugin asks for, which must not choose one. */
export class CurrentOwner
  extends Context.Service<CurrentOwner, Jobs>()("@procyon/runtime/BackgroundProcess/CurrentOwner")
{}

interface Job {
  readonly process: OwnedProcess
  readonly name: string | null
  readonly lifetime: ProcessLedger.Lifetime
  /** Somebody has been told its id, so that it has to stay listed, and to be told of when it ends. */
  announced: boolean
  /** Its end is in a notice that was drained. */
  told: boolean
  /** What its row says; `null` before it is written. */
  rowStatus: Status.Status | null
  /** A transition that the ledger did not take. */
  unwritten: ProcessLedger.Changes | null
  reportedBytes: number
}

interface Owner {
  readonly name: string
  readonly jobs: Map<string, Job>
  readonly notices: NoticeQueue
  readonly subscribers: Set<EventRing.EventRing<Event>>
  /** Completed when there is a notice to take. */
  noticed: Deferred.Deferred<void> | null
}

const fence = 1
const isSettled = (job: Job): boolean => job.process.state._tag === "Settled"

const make = Effect.gen(function*() {
  const host = yield* ProcessHost.Service
  const ledger = yield* ProcessLedger.Service
  const barrier = yield* ShutdownBarrier.Service
  const { clock, settings, timers } = host
  const owners = new Map<string, Owner>()
  const retired = new Set<string>()
  const subscribers = new Set<EventRing.EventRing<Event>>()
  const missed = (count: number): Event => ({ _tag: "Missed", count })

  const ownerOf = (name: string): Owner => {
    const known = owners.get(name)
    if (known !== undefined) return known
    const owner: Owner = {
      name,
      jobs: new Map(),
      notices: new NoticeQueue(settings.maxNoticesPerOwner),
      subscribers: new Set(),
      noticed: null
    }
    owners.set(name, owner)
    return owner
  }

  const emit = (owner: Owner, event: Event): void => {
    for (const ring of owner.subscribers) ring.publish(event)
    for (const ring of subscribers) ring.publish(event)
  }

  const info = (owner: Owner, job: Job): Info => ({
    ...infoOf(job.process),
    owner: owner.name,
    name: job.name,
    lifetime: job.lifetime,
    recorded: job.unwritten === null && job.rowStatus !== null
  })

  // ---- rows

  const rowOf = (owner: Owner, job: Job): ProcessLedger.LedgerRow => ({
    id: job.process.id,
    owner: owner.name,
    lifetime: job.lifetime,
    status: "running",
    command: { ...job.process.summary, digest: null },
    title: job.process.policy.title,
    identity: null,
    startedAt: job.process.startedAt,
    endedAt: null,
    deadlineAt: null,
    holder: null,
    fence,
    leaseUntil: clock.currentTimeMillisUnsafe() + settings.leaseMillis,
    counters: { bytesSeen: 0 },
    blob: null,
    workspace: null,
    termination: null
  })

  const insertRow = (owner: Owner, job: Job): Effect.Effect<boolean> =>
    ledger.insert(rowOf(owner, job)).pipe(
      Effect.timeoutOption(settings.portWindowMillis),
      Effect.map(Option.getOrElse(() => false)),
      Effect.tap((inserted) =>
        Effect.sync(() => {
          if (inserted) job.rowStatus = "running"
        })
      ),
      Effect.catchCause(() => Effect.as(Effect.logWarning("a job's row could not be written"), false))
    )

  /** Moves a row, or remembers what it has missed: a ledger that fails harms no job. */
  const moveRow = (job: Job, changes: ProcessLedger.Changes): Effect.Effect<void> =>
    Effect.suspend(() => {
      const from = job.rowStatus
      if (from === null) return Effect.void
      const wanted = { ...job.unwritten, ...changes }
      return ledger.transition(job.process.id, { fence, status: from }, wanted).pipe(
        Effect.timeoutOption(settings.portWindowMillis),
        Effect.exit,
        Effect.flatMap((exit) => {
          if (exit._tag === "Success" && Option.isSome(exit.value)) {
            job.unwritten = null
            job.rowStatus = wanted.status
            return exit.value.value ? Effect.void : Effect.logWarning("a job's row was moved by somebody else")
          }
          job.unwritten = wanted
          return Effect.logWarning("a job's row could not be moved; it is tried again")
        })
      )
    })

  const endOfRow = (job: Job): ProcessLedger.Changes => ({
    status: Lifecycle.statusOf(job.process.state),
    endedAt: job.process.endedAt,
    counters: { bytesSeen: job.process.bytesSeen },
    blob: job.process.stdout.metadata().blob,
    termination: job.process.receipt
  })

  const allJobs = (): ReadonlyArray<Job> =>
    Array.from(owners.values(), (owner) => Array.from(owner.jobs.values())).flat()

  const renewLeases = Effect.gen(function*() {
    const leaseUntil = clock.currentTimeMillisUnsafe() + settings.leaseMillis
    const all = allJobs()
    const renewals = all.filter((job) => !isSettled(job) && job.rowStatus !== null).map((job) => ({
      id: job.process.id,
      fence,
      leaseUntil,
      bytesSeen: job.process.bytesSeen
    }))
    if (renewals.length > 0) {
      yield* ledger.renew(renewals).pipe(Effect.timeoutOption(settings.portWindowMillis), Effect.ignoreCause)
    }
    yield* Effect.forEach(
      all.filter((job) => job.unwritten !== null),
      (job) => job.unwritten === null ? Effect.void : moveRow(job, job.unwritten),
      { discard: true }
    )
  })

  const isBusy = (): boolean => {
    for (const owner of owners.values()) {
      for (const job of owner.jobs.values()) if (!isSettled(job) || job.unwritten !== null) return true
    }
    return false
  }

  /** Armed only while there are jobs: an idle runtime does nothing, and holds up no host that has nothing left to do. */
  let renewal: Timer | null = null
  const armRenewal = (): void => {
    renewal ??= timers.after(settings.leaseMillis / 3, () => {
      renewal = null
      if (!isBusy()) return
      armRenewal()
      host.fork(renewLeases)
    })
  }
  const disarmRenewal = (): void => {
    if (renewal === null || isBusy()) return
    renewal.cancel()
    renewal = null
  }

  // ---- notices

  const notice = (owner: Owner, job: Job): void => {
    const { process } = job
    const status = Lifecycle.statusOf(process.state)
    const exit = Lifecycle.exitOf(process.state)
    owner.notices.add({
      _tag: "Job",
      noticeId: `${process.id}:${status}`,
      id: process.id,
      owner: owner.name,
      title: process.policy.title,
      display: process.display,
      status,
      exit,
      exitCode: exit === null ? -1 : Status.exitCode(exit),
      durationMillis: Math.round(timers.now() - process.startedMono),
      bytesSeen: process.bytesSeen,
      tail: process.stdout.tail(settings.noticeTailBytes)
    })
    const { noticed } = owner
    owner.noticed = null
    if (noticed !== null) Deferred.doneUnsafe(noticed, Effect.void)
  }

  const drainNotices = (owner: Owner): ReadonlyArray<Notice> => {
    const notices = owner.notices.drain()
    // A summary tells of those it stands for too.
    for (const job of owner.jobs.values()) if (isSettled(job)) job.told = true
    if (notices.length > 0) host.fork(evict(owner))
    return notices
  }

  /** The oldest records go, of those that are settled and told of. */
  const evict = (owner: Owner): Effect.Effect<void> =>
    Effect.suspend(() => {
      const finished = [...owner.jobs.values()].filter((job) => isSettled(job) && job.unwritten === null)
      const excess = settings.maxFinishedPerOwner === 0 ? 0 : finished.length - settings.maxFinishedPerOwner
      const going = excess <= 0 ? [] : finished.filter((job) => job.told).slice(0, excess)
      return Effect.forEach(going, (job) => drop(owner, job), { discard: true })
    })

  const drop = (owner: Owner, job: Job): Effect.Effect<void> =>
    Effect.suspend(() => {
      owner.jobs.delete(job.process.id)
      if (owner.jobs.size === 0 && owner.notices.size === 0 && owner.subscribers.size === 0 && owner.noticed === null) {
        owners.delete(owner.name)
      }
      return Effect.andThen(
        host.forget(job.process),
        ledger.remove(job.process.id, fence).pipe(
          Effect.timeoutOption(settings.portWindowMillis),
          Effect.ignoreCause
        )
      )
    })

  // ---- a job's life, as the host tells it

  const hooksOf = (owner: Owner, job: Job): ProcessHost.Hooks => ({
    beforeSpawn: insertRow(owner, job),
    onStarted: Effect.suspend(() =>
      moveRow(job, {
        status: "running",
        identity: job.process.child?.identity ?? null,
        deadlineAt: job.process.deadlineAt
      })
    ),
    onTransition: (from, event) => tell(owner, job, from, event),
    onBeat: () => beat(owner, job),
    onUnresolved: Effect.suspend(() =>
      Effect.map(moveRow(job, endOfRow(job)), () => {
        notice(owner, job)
        const { id, survivorCount } = job.process
        emit(owner, { _tag: "KillFailed", id, owner: owner.name, survivorCount })
      })
    ),
    onSettled: Effect.suspend(() => Effect.andThen(settled(owner, job), Effect.sync(disarmRenewal)))
  })

  const tell = (owner: Owner, job: Job, from: Lifecycle.State, event: Lifecycle.Event): void => {
    const { id, state } = job.process
    const fields = { id, owner: owner.name }
    if (event._tag === "Started") emit(owner, { _tag: "Started", ...fields })
    if (event._tag === "Exited") emit(owner, { _tag: "Exited", ...fields, exit: event.exit })
    if (from._tag === state._tag) return
    if (state._tag === "Draining") emit(owner, { _tag: "Draining", ...fields })
    if (state._tag === "Terminating") emit(owner, { _tag: "Terminating", ...fields })
  }

  const beat = (owner: Owner, job: Job): void => {
    const { bytesSeen, id, lastOutputMono, startedMono } = job.process
    const fields = { id, owner: owner.name, bytesSeen }
    if (bytesSeen !== job.reportedBytes) emit(owner, { _tag: "Progress", ...fields })
    job.reportedBytes = bytesSeen
    const now = timers.now()
    emit(owner, {
      _tag: "Heartbeat",
      ...fields,
      elapsedMillis: Math.round(now - startedMono),
      idleMillis: Math.round(now - lastOutputMono)
    })
  }

  /** Row, then notice, then events. A job nobody was ever told of goes without a word. */
  const settled = (owner: Owner, job: Job): Effect.Effect<void> =>
    Effect.gen(function*() {
      const resolved = job.rowStatus === "kill_failed" || job.unwritten?.status === "kill_failed"
      yield* moveRow(job, endOfRow(job))
      if (!job.announced && job.process.child === null) {
        owner.jobs.delete(job.process.id)
        return
      }
      notice(owner, job)
      const fields = { id: job.process.id, owner: owner.name, status: Lifecycle.statusOf(job.process.state) }
      emit(owner, resolved ? { _tag: "Resolved", ...fields } : { _tag: "Ended", ...fields })
      yield* evict(owner)
    })

  // ---- what an owner may ask

  const running = (owner: Owner): number => {
    let count = 0
    for (const job of owner.jobs.values()) if (!isSettled(job)) count++
    return count
  }

  const named = (owner: Owner, name: string): Job | undefined => {
    for (const job of owner.jobs.values()) if (job.name === name && !isSettled(job)) return job
    return undefined
  }

  type Admission = { readonly job: Job; readonly joined: boolean }

  /** Everything that can be refused is refused here, and the place among the running jobs is taken in the same step. */
  const admit = (
    owner: string,
    input: CommandSpec.Input,
    options: StartOptions
  ): Result.Result<Admission, StartError> =>
    Result.gen(function*() {
      const command = yield* Result.mapError(
        CommandSpec.resolve(input),
        (reason) => new StartError({ command: "command", reason })
      )
      const { name: commandName } = CommandSpec.summary(command)
      const refuse = (reason: StartError["reason"]) => Result.fail(new StartError({ command: commandName, reason }))
      const policy = yield* Result.mapError(
        resolveOptions(command, options, settings, "merged"),
        (reason) => new StartError({ command: commandName, reason })
      )
      const lifetime = options.lifetime ?? "session"
      if (lifetime === "detached") return yield* refuse(new DetachedUnsupported())
      if (retired.has(owner)) return yield* refuse(new OwnerRetired())
      const jobs = ownerOf(owner)
      const name = options.name ?? null
      const existing = name === null ? undefined : named(jobs, name)
      if (existing !== undefined) {
        return options.onExisting === "join"
          ? { job: existing, joined: true }
          : yield* refuse(new ProcessAlreadyExists({ id: existing.process.id }))
      }
      const limit = settings.maxRunningPerOwner
      if (limit > 0 && running(jobs) >= limit) return yield* refuse(new TooManyJobs({ limit }))
      const process = host.admit(command, policy)
      if (process === null) return yield* refuse(new RuntimeClosed())
      const job: Job = {
        process,
        name,
        lifetime,
        announced: false,
        told: false,
        rowStatus: null,
        unwritten: null,
        reportedBytes: 0
      }
      process.owner = owner
      process.hooks = hooksOf(jobs, job)
      jobs.jobs.set(process.id, job)
      return { job, joined: false }
    })

  /** Why a start ended with nothing started and no failure of the driver's. */
  const withdrawal = (job: Job): StartError["reason"] => {
    if (host.draining()) return new RuntimeClosed()
    return job.rowStatus === null ? new NotRecorded() : new StartWithdrawn()
  }

  const start = (name: string) => (command: CommandSpec.Input, options: StartOptions = {}) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const { job, joined } = yield* Effect.fromResult(admit(name, command, options))
        const owner = ownerOf(name)
        if (joined) return info(owner, job)
        armRenewal()
        host.start(job.process)
        const answer = yield* restore(
          Deferred.await(job.process.started).pipe(Effect.timeoutOption(settings.startAnswerMillis))
        ).pipe(
          Effect.mapError((reason) => new StartError({ command: job.process.summary.name, reason })),
          Effect.onInterrupt(() =>
            Effect.suspend(() => {
              // A start on its way is taken back, and what it may have started is gone when the interruption is over.
              if (Lifecycle.phaseOf(job.process.state) === "starting") return askEnd(job, { _tag: "Scope" }, false)
              job.announced = true
              return Effect.void
            })
          )
        )
        if (Option.isSome(answer) && !answer.value) {
          return yield* new StartError({ command: job.process.summary.name, reason: withdrawal(job) })
        }
        job.announced = true
        return info(owner, job)
      })
    )

  /** The one way to a job: an id of somebody else and an id of nobody take it alike. */
  const find = (owner: string, id: string): Effect.Effect<Job, ProcessNotFound> =>
    Effect.suspend(() => {
      const job = owners.get(owner)?.jobs.get(id)
      return job === undefined ? Effect.fail(new ProcessNotFound({ id })) : Effect.succeed(job)
    })

  const ended = (owner: string, job: Job): Effect.Effect<Info> =>
    Effect.map(Deferred.await(job.process.ended), () => info(ownerOf(owner), job))

  const askEnd = (job: Job, cause: Status.Cause, now: boolean): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (job.process.state._tag === "Unresolved") return host.retry(job.process)
      host.end(job.process, cause, now)
      return Deferred.await(job.process.ended)
    })

  /** Asks all of them first, and only then waits. */
  const endAll = (owner: string, cause: Status.Cause, which: (job: Job) => boolean) =>
    Effect.suspend(() => {
      const jobs = [...owners.get(owner)?.jobs.values() ?? []].filter((job) => !isSettled(job) && which(job))
      for (const job of jobs) if (job.process.state._tag !== "Unresolved") host.end(job.process, cause)
      return Effect.forEach(jobs, (job) => Effect.as(askEnd(job, cause, false), job), { concurrency: "unbounded" })
    })

  const retire = (owner: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      retired.add(owner)
      return Effect.asVoid(
        endAll(owner, { _tag: "Stop", by: "runtime" }, (job) => job.lifetime === "session")
      )
    })

  const takeNotices = (owner: string): Effect.Effect<ReadonlyArray<Notice>> =>
    Effect.sync(() => {
      const known = owners.get(owner)
      return known === undefined ? [] : drainNotices(known)
    })

  const awaitNotices = (owner: string): Effect.Effect<ReadonlyArray<Notice>> =>
    Effect.suspend(() => {
      const known = ownerOf(owner)
      if (known.notices.size > 0) return Effect.sync(() => drainNotices(known))
      const noticed = known.noticed ??= Deferred.makeUnsafe<void>()
      return Effect.flatMap(Deferred.await(noticed), () => awaitNotices(owner))
    })

  const of = (owner: string): Jobs => ({
    owner,
    start: Effect.fn("BackgroundProcess.start")(start(owner)),
    get: (id) => Effect.map(find(owner, id), (job) => info(ownerOf(owner), job)),
    list: Effect.sync(() => {
      const known = owners.get(owner)
      return known === undefined ? [] : [...known.jobs.values()].map((job) => info(known, job))
    }),
    output: (id) => Effect.map(find(owner, id), (job) => job.process.stdout.view),
    errorOutput: (id) => Effect.map(find(owner, id), (job) => stderrOf(job.process)),
    retrySpill: (id) => Effect.flatMap(find(owner, id), (job) => host.retrySpill(job.process)),
    write: (id, data) => Effect.flatMap(find(owner, id), (job) => writeAll(host, job.process, data)),
    closeStdin: (id) => Effect.flatMap(find(owner, id), (job) => host.closeStdin(job.process)),
    wait: (id) => Effect.flatMap(find(owner, id), (job) => ended(owner, job)),
    termination: (id) => Effect.flatMap(find(owner, id), termination),
    stop: Effect.fn("BackgroundProcess.stop")(function*(id, options) {
      const job = yield* find(owner, id)
      yield* askEnd(job, { _tag: "Stop", by: "owner" }, options?.now ?? false)
      return info(ownerOf(owner), job)
    }),
    stopAll: Effect.map(
      endAll(owner, { _tag: "Stop", by: "owner" }, () => true),
      (jobs) => jobs.map((job) => info(ownerOf(owner), job))
    ),
    retryTermination: (id) =>
      Effect.flatMap(find(owner, id), (job) => Effect.andThen(host.retry(job.process), termination(job))),
    extend: (id, deadline) =>
      Effect.gen(function*() {
        const job = yield* find(owner, id)
        const millis = yield* Effect.fromResult(Bounds.deadline("deadline", deadline))
        host.extend(job.process, millis)
        yield* moveRow(job, { status: job.rowStatus ?? "running", deadlineAt: job.process.deadlineAt })
        return info(ownerOf(owner), job)
      }),
    forget: (id) =>
      Effect.flatMap(find(owner, id), (job) => isSettled(job) ? Effect.as(drop(ownerOf(owner), job), true) : no),
    notices: takeNotices(owner),
    awaitNotices: awaitNotices(owner),
    events: Stream.suspend(() => EventRing.stream(ownerOf(owner).subscribers, settings.eventBuffer, missed)),
    retire: retire(owner)
  })
  const no = Effect.succeed(false)

  const termination = (job: Job): Effect.Effect<Status.TerminationResult> =>
    Effect.map(Deferred.await(job.process.ended), () => job.process.receipt ?? receiptOf(job.process, timers.now()))

  const events = EventRing.stream(subscribers, settings.eventBuffer, missed)

  const observe: BackgroundProcess["observe"] = (observer) =>
    Effect.asVoid(Effect.forkScoped(
      Stream.runForEach(events, (event) =>
        Effect.suspend(() => observer(event)).pipe(
          Effect.catchCause(() => Effect.logWarning("an observer of jobs failed"))
        )),
      { startImmediately: true }
    ))

  yield* Effect.addFinalizer(() => barrier.shutdown())

  return BackgroundProcessService.of({
    of,
    scoped: (owner) => Effect.acquireRelease(Effect.sync(() => of(owner)), (jobs) => jobs.retire),
    owners: Effect.sync(() => [...owners.keys()]),
    events,
    observe
  })
})

/** Closing it runs the barrier of the whole runtime. */
export const layer: Layer.Layer<
  BackgroundProcessService,
  never,
  ProcessHost.Service | ShutdownBarrier.Service | ProcessLedger.Service
> = Layer.effect(BackgroundProcessService, make)

/** Gives what is around a plugin the jobs of `owner`; closing it retires the owner. */
export const layerOwner = (owner: string): Layer.Layer<CurrentOwner, never, BackgroundProcessService> =>
  Layer.effect(CurrentOwner, BackgroundProcessService.use((service) => service.scoped(owner)))
