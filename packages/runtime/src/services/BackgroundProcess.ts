/**
 * Jobs: processes that go on while the fiber that began them does something else, each owned by a session id.
 *
 * `of(owner)` gives the jobs of one owner, and none of its members takes another: whoever holds it cannot name anybody
 * else's. A job's life is told by rows (`ProcessLedger`), notices (drained once), events and observers; none of them can
 * hold up the job or another one.
 *
 * With a ledger that is durable, jobs outlive the application in what is known of them: their rows and untold notices are
 * there again in the next life, and so are detached jobs themselves (see `Recovery`).
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as Bounds from "../domain/Bounds.ts"
import type * as CommandSpec from "../domain/CommandSpec.ts"
import { InvalidCommand } from "../domain/InvalidCommand.ts"
import * as Lifecycle from "../domain/Lifecycle.ts"
import type * as Status from "../domain/Status.ts"
import { spanned } from "../internal/Spanned.ts"
import * as ProcessLedger from "../ports/ProcessLedger.ts"
import { RuntimeClosed, StartWithdrawn } from "./AppProcess.ts"
import { retentionsOf } from "./host/Core.ts"
import { receiptOf } from "./host/OwnedProcess.ts"
import { type StdinClosed, writeAll } from "./host/Stdin.ts"
import { Event } from "./JobEvent.ts"
import { Notice } from "./JobNotice.ts"
import * as Admission from "./jobs/Admission.ts"
import * as Events from "./jobs/Events.ts"
import { NotRecorded, OutputUnavailable, ProcessNotFound, StartError } from "./jobs/JobErrors.ts"
import * as Notices from "./jobs/Notices.ts"
import { byCreation, type Job, type Owner, Owners } from "./jobs/Owners.ts"
import * as Reconciling from "./jobs/Reconciling.ts"
import * as Rows from "./jobs/Rows.ts"
import type { View } from "./OutputRetention.ts"
import * as ProcessHost from "./ProcessHost.ts"
import { Info as ProcessInfo, infoOf as processInfoOf, stderrOf } from "./ProcessInfo.ts"
import * as Recovery from "./Recovery.ts"
import * as ShutdownBarrier from "./ShutdownBarrier.ts"
import * as Workspace from "./Workspace.ts"

export { Event, Notice }
export type { StartOptions } from "./jobs/Admission.ts"
export {
  DetachedUnsupported,
  NotRecorded,
  OutputUnavailable,
  OwnerRetired,
  ProcessAlreadyExists,
  ProcessNotFound,
  StartError,
  TooManyJobs
} from "./jobs/JobErrors.ts"
export type { Page, ReadOptions, View } from "./OutputRetention.ts"

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

/** The jobs of one owner. */
export interface Jobs {
  readonly owner: string
  /**
   * Waits for the driver's answer only, and for one second at most: then the row comes in phase `starting`. One that has
   * failed by then is told when its row is, within the bound on ledgers. Interrupted, there is a listed job or nothing.
   */
  readonly start: (command: CommandSpec.Input, options?: Admission.StartOptions) => Effect.Effect<Info, StartError>
  /** The job as it is now. */
  readonly get: (id: string) => Effect.Effect<Info, ProcessNotFound>
  /** In creation order. */
  readonly list: Effect.Effect<ReadonlyArray<Info>>
  /**
   * Stdout, or both streams where they are merged. Stays usable when the job is forgotten. Of a job of an earlier life it is
   * read from its blob or file; what was only in that life's memory is `OutputUnavailable`.
   */
  readonly output: (id: string) => Effect.Effect<View, ProcessNotFound | OutputUnavailable>
  /** Stderr; empty where the streams are merged. */
  readonly errorOutput: (id: string) => Effect.Effect<View, ProcessNotFound | OutputUnavailable>
  /** Goes on with a spill that failed. `false`: nothing to go on with, or it failed again. */
  readonly retrySpill: (id: string) => Effect.Effect<boolean, ProcessNotFound>
  /** Waits until the pipe has taken all of it. */
  readonly write: (id: string, data: string | Uint8Array) => Effect.Effect<void, ProcessNotFound | StdinClosed>
  /** The child reads an end of file after what was written. What a full pipe does not take in time is dropped. */
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
  /**
   * Sets the deadline to this long from now; zero or infinite: none. Of a job that does not run it changes nothing; of a
   * detached one it is refused.
   */
  readonly extend: (id: string, deadline: Duration.Input) => Effect.Effect<Info, ProcessNotFound | InvalidCommand>
  /** Drops a settled job's record and its blobs. `false`: it is not settled, or not told of yet. */
  readonly forget: (id: string) => Effect.Effect<boolean, ProcessNotFound>
  /**
   * The notices that nobody has taken yet; they are taken now, and do not come again: not in a later life either, should
   * this one end before they are seen. Whoever cannot have that uses `consumeNotices`.
   */
  readonly notices: Effect.Effect<ReadonlyArray<Notice>>
  /** The same, waiting for one. Interrupted, it has taken none. Empty only when the runtime is closed. */
  readonly awaitNotices: Effect.Effect<ReadonlyArray<Notice>>
  /**
   * Waits for notices and hands them to `use`. They count as taken once it has succeeded. When it fails, is interrupted, or
   * this life ends in the middle, they come again, marked as `repeated` and with the same `noticeId`: none is lost, and one
   * that is doubled says so. With none only when the runtime is closed.
   */
  readonly consumeNotices: <A, E, R>(
    use: (notices: ReadonlyArray<Notice>) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /**
   * Live events of this owner's jobs, from when it is run. A slow reader misses some, and is told how many. Ends with the
   * runtime.
   */
  readonly events: Stream.Stream<Event>
  /** Ends the session's jobs (not those of lifetime `application`) and refuses later starts. */
  readonly retire: Effect.Effect<void>
}

/** The jobs of all owners: for applications, which may name any. Plugins get `CurrentOwner`. */
export interface BackgroundProcess {
  /** The jobs of an owner. Makes nothing: asking twice gives views on the same jobs. */
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

/** The jobs of the runtime, of whatever owner. `ProcessRuntime.layer` gives it. */
class BackgroundProcessService
  extends Context.Service<BackgroundProcessService, BackgroundProcess>()("@procyon/runtime/BackgroundProcess")
{}
export { BackgroundProcessService as Service }

/** The jobs of an owner that somebody else chose: what a plugin asks for, which must not choose one. */
export class CurrentOwner
  extends Context.Service<CurrentOwner, Jobs>()("@procyon/runtime/BackgroundProcess/CurrentOwner")
{}

const make = Effect.gen(function*() {
  const host = yield* ProcessHost.Service
  const barrier = yield* ShutdownBarrier.Service
  const owners = new Owners(host.settings.maxNoticesPerOwner)
  const ledger = yield* ProcessLedger.Service
  const rows = Rows.make(host, ledger, (job) => disown(job), (job) => host.forget(job.process))
  const notices = Notices.make(host, owners, rows)
  const events = Events.make(host, owners)
  const admission = Admission.make(host, owners, { detached: ledger.durable && host.detaches })

  const infoOf = (owner: string, job: Job): Info => ({
    ...processInfoOf(job.process),
    owner,
    name: job.name,
    lifetime: job.lifetime,
    recorded: Rows.isRecorded(job)
  })

  /** Another runtime holds its row: it is let go of, and nothing is told of it here but that. */
  const disown = (job: Job): void => {
    host.disown(job.process)
    // It may have settled before, and be known of by its record only.
    if (job.concluded) dropLost(job)
  }

  const dropLost = (job: Job): void => {
    const owner = owners.known(job.process.owner ?? "")
    if (owner === undefined || !owner.jobs.delete(job.process.id)) return
    owner.notices.remove(job.process.id)
    events.disowned(owner, job)
    owners.tidy(owner)
  }

  /** Row, then notice, then events. A job nobody was ever told of goes without a word. */
  const settled = (owner: Owner, job: Job): Effect.Effect<void> =>
    Effect.gen(function*() {
      job.refused = !job.announced && job.process.child === null
      const outcome = yield* rows.move(job, endOf(job))
      if (outcome === "lost") return dropLost(job)
      // One whose row never came to be has none that could still say that it runs.
      if (job.row.written === null) job.process.workspace?.leave(job.process)
      // An earlier life's workspace may have waited for it.
      if (job.process.adopted) host.fork(reconciling.finishWorkspaces)
      if (job.refused) {
        owner.jobs.delete(job.process.id)
        host.fork(rows.keepFailed(job))
        return owners.tidy(owner)
      }
      notices.add(owner, job)
      events.ended(owner, job)
      job.concluded = true
      host.fork(notices.evict(owner))
    })

  /** Of a start that failed, whoever had asked for it was told. */
  const endOf = (job: Job): ReturnType<typeof Rows.endOf> => {
    const end = Rows.endOf(job)
    const status = Lifecycle.statusOf(job.process.state)
    return job.refused ? { ...end, offered: status, told: status } : end
  }

  const unresolved = (owner: Owner, job: Job): Effect.Effect<void> =>
    Effect.map(rows.move(job, Rows.endOf(job)), (outcome) => {
      if (outcome === "lost") return
      job.unresolved = true
      notices.add(owner, job)
      events.killFailed(owner, job)
    })

  /** A job's life, as the host tells it. */
  const hooksOf = (owner: Owner, job: Job): ProcessHost.Hooks => ({
    beforeSpawn: rows.insert(owner.name, job),
    onStarted: Effect.suspend(() =>
      Effect.asVoid(
        rows.move(job, { identity: job.process.child?.identity ?? null, deadlineAt: job.process.deadlineAt })
      )
    ),
    mayAct: rows.holds(job),
    onTransition: (from, event) => events.transition(owner, job, from, event),
    onBeat: () => events.beat(owner, job),
    onUnresolved: Effect.suspend(() => unresolved(owner, job)),
    onSettled: Effect.suspend(() => settled(owner, job))
  })

  /** Why a start ended with nothing started and no failure of the driver's. */
  const withdrawal = (job: Job): StartError["reason"] => {
    if (host.draining()) return new RuntimeClosed()
    return job.row.written === null || job.row.doubtful ? new NotRecorded() : new StartWithdrawn()
  }

  /** A start on its way is taken back, and what it may have started is gone when the interruption is over. */
  const takeBack = (job: Job): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (job.refused) return Effect.void
      const isStarting = Lifecycle.phaseOf(job.process.state) === "starting"
      if (isStarting && !job.announced) return askEnd(job, { _tag: "Scope" }, false)
      job.announced = true
      return Effect.void
    })

  const start = (name: string): Jobs["start"] => (command, options = {}) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const { job, joined, owner } = yield* Effect.fromResult(admission.admit(name, command, options))
        if (joined) {
          job.announced = true
          return infoOf(name, job)
        }
        const failed = (reason: StartError["reason"]) => new StartError({ command: job.process.summary.name, reason })
        job.process.hooks = hooksOf(owner, job)
        host.start(job.process)
        const answer = yield* restore(
          Deferred.await(job.process.started).pipe(Effect.timeoutOption(host.settings.startAnswerMillis))
        ).pipe(Effect.mapError(failed), Effect.onInterrupt(() => takeBack(job)))
        // It has failed already, and its row is being told: no notice will come, so the answer has to.
        if (Option.isNone(answer) && job.refused) {
          yield* restore(Deferred.await(job.process.started)).pipe(Effect.mapError(failed))
          return yield* failed(withdrawal(job))
        }
        if (Option.isSome(answer) && !answer.value) return yield* failed(withdrawal(job))
        job.announced = true
        return infoOf(name, job)
      })
    )

  const askEnd = (job: Job, cause: Status.Cause, now: boolean): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (job.process.state._tag === "Unresolved") return host.retry(job.process)
      host.end(job.process, cause, now)
      return Deferred.await(job.process.ended)
    })

  /** Asks all of them first, and only then waits. */
  const endAll = (
    owner: string,
    cause: Status.Cause,
    which: (job: Job) => boolean
  ): Effect.Effect<ReadonlyArray<Job>> =>
    Effect.suspend(() => {
      const jobs = [...owners.known(owner)?.jobs.values() ?? []].filter((job) => !job.isSettled && which(job))
      for (const job of jobs) if (job.process.state._tag !== "Unresolved") host.end(job.process, cause)
      return Effect.forEach(jobs, (job) => Effect.as(askEnd(job, cause, false), job), { concurrency: "unbounded" })
    })

  const retire = (owner: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      admission.retire(owner)
      return Effect.andThen(
        endAll(owner, { _tag: "Stop", by: "runtime" }, (job) => job.lifetime === "session"),
        notices.keepRetired(owner)
      )
    })

  const termination = (job: Job): Effect.Effect<Status.TerminationResult> =>
    Effect.map(
      Deferred.await(job.process.ended),
      () => job.process.receipt ?? receiptOf(job.process, host.timers.now())
    )

  const extend = (owner: string, job: Job, deadline: Duration.Input): Effect.Effect<Info, InvalidCommand> =>
    Effect.gen(function*() {
      // Whoever watches over it when no application does was told its deadline at the start.
      if (job.process.detached) return yield* new InvalidCommand({ where: "deadline", problem: "Unsupported" })
      const millis = yield* Effect.fromResult(Bounds.deadline("deadline", deadline))
      host.extend(job.process, millis)
      yield* rows.move(job, { deadlineAt: job.process.deadlineAt })
      return infoOf(owner, job)
    })

  /** The row of a settled job is told which blob holds its output now; that of another is told at the settlement. */
  const retrySpill = (job: Job): Effect.Effect<boolean> =>
    Effect.suspend(() => {
      const blobs = () => retentionsOf(job.process).map((retention) => retention.metadata().blob).join()
      const before = blobs()
      // Also when interrupted: a blob may be sealed by then.
      return Effect.ensuring(
        host.retrySpill(job.process),
        Effect.suspend(() =>
          job.isSettled && blobs() !== before
            ? Effect.asVoid(rows.move(job, { output: Rows.endOf(job).output ?? null }))
            : Effect.void
        )
      )
    })

  const forget = (name: string, job: Job): Effect.Effect<boolean> =>
    Effect.suspend(() => {
      const owner = owners.known(name)
      if (owner === undefined || !job.concluded) return Effect.succeed(false)
      return Effect.as(notices.drop(owner, job), true)
    })

  const of = (owner: string): Jobs => {
    const find = (id: string) => owners.find(owner, id)
    const info = (job: Job) => infoOf(owner, job)
    return {
      owner,
      start: (command, options) => spanned("BackgroundProcess.start", start(owner)(command, options)),
      get: (id) => Effect.map(find(id), info),
      list: Effect.sync(() => [...owners.known(owner)?.jobs.values() ?? []].toSorted(byCreation).map(info)),
      output: (id) => Effect.flatMap(find(id), (job) => viewOf(job, job.process.stdout.view)),
      errorOutput: (id) => Effect.flatMap(find(id), (job) => viewOf(job, stderrOf(job.process))),
      retrySpill: (id) => Effect.flatMap(find(id), retrySpill),
      write: (id, data) => Effect.flatMap(find(id), (job) => writeAll(host, job.process, data)),
      closeStdin: (id) => Effect.flatMap(find(id), (job) => host.closeStdin(job.process)),
      wait: (id) => Effect.flatMap(find(id), (job) => Effect.map(Deferred.await(job.process.ended), () => info(job))),
      termination: (id) => Effect.flatMap(find(id), termination),
      stop: (id, options) =>
        spanned(
          "BackgroundProcess.stop",
          Effect.flatMap(
            find(id),
            (job) => Effect.map(askEnd(job, { _tag: "Stop", by: "owner" }, options?.now ?? false), () => info(job))
          )
        ),
      stopAll: Effect.map(endAll(owner, { _tag: "Stop", by: "owner" }, () => true), (jobs) => jobs.map(info)),
      retryTermination: (id) =>
        Effect.flatMap(find(id), (job) => Effect.andThen(host.retry(job.process), termination(job))),
      extend: (id, deadline) => Effect.flatMap(find(id), (job) => extend(owner, job, deadline)),
      forget: (id) => Effect.flatMap(find(id), (job) => forget(owner, job)),
      notices: notices.take(owner),
      awaitNotices: notices.await(owner),
      consumeNotices: (use) => notices.consume(owner, use),
      events: events.of(owner),
      retire: retire(owner)
    }
  }

  const workspaces = yield* Workspace.Service
  const reconciling = Reconciling.make({ host, ledger, rows, owners, notices, events, workspaces, hooksOf })

  /**
   * The next runtime on this ledger need not wait for leases, nor for this program to end. What could not be ended is looked
   * at to the last moment, and stays held.
   */
  const releaseRows = Effect.suspend(() =>
    Effect.forEach(
      owners.all.flatMap((owner) => [...owner.jobs.values()]).filter(({ process }) =>
        process.state._tag === "Settled" || process.detached
      ),
      rows.release,
      { concurrency: "unbounded", discard: true }
    )
  )
  barrier.on("settling", releaseRows)

  yield* Effect.addFinalizer(() =>
    Effect.map(barrier.shutdown(), () => {
      events.close()
      notices.close()
    })
  )
  yield* reconciling.begin

  const unresolvedJobs = (): ReadonlyArray<readonly [Owner, Job]> =>
    owners.all
      .flatMap((owner) => Array.from(owner.jobs.values(), (job) => [owner, job] as const))
      .filter(([, job]) => job.process.state._tag === "Unresolved")

  const findUnresolved = (id: string): Effect.Effect<readonly [Owner, Job], ProcessNotFound> =>
    Effect.suspend(() => {
      const found = unresolvedJobs().find(([, job]) => job.process.id === id)
      return found === undefined ? Effect.fail(new ProcessNotFound({ id })) : Effect.succeed(found)
    })

  const recovery = Recovery.Service.of({
    reconcile: spanned("Recovery.reconcile", reconciling.reconcile),
    started: reconciling.started,
    review: Effect.sync(() =>
      unresolvedJobs().map(([owner, job]) => infoOf(owner.name, job)).toSorted((a, b) => a.id < b.id ? -1 : 1)
    ),
    retry: (id) =>
      Effect.flatMap(
        findUnresolved(id),
        ([owner, job]) => Effect.map(host.retry(job.process), () => infoOf(owner.name, job))
      ),
    forget: (id) => Effect.flatMap(findUnresolved(id), ([, job]) => rows.abandon(job))
  })

  const service = BackgroundProcessService.of({
    of,
    scoped: (owner) => Effect.acquireRelease(Effect.sync(() => of(owner)), (jobs) => jobs.retire),
    owners: Effect.sync(() =>
      owners.all.filter((owner) => owner.jobs.size > 0 || owner.notices.size > 0).map((owner) => owner.name)
    ),
    events: events.all,
    observe: events.observe
  })
  return Context.make(BackgroundProcessService, service).pipe(Context.add(Recovery.Service, recovery))
})

/** What an earlier life had in memory only, and more than nothing, is not to be had any more. */
const viewOf = (job: Job, view: View): Effect.Effect<View, OutputUnavailable> =>
  job.process.adopted && !job.process.stdout.isReadable
    ? Effect.fail(new OutputUnavailable({ id: job.process.id }))
    : Effect.succeed(view)

/**
 * The jobs, and what becomes of those of earlier lives. Built once the rows of the ledger were read and what can be adopted
 * is listed; what has to be ended is ended afterwards. Closing it runs the barrier of the whole runtime.
 */
export const layer: Layer.Layer<
  BackgroundProcessService | Recovery.Service,
  never,
  ProcessHost.Service | ShutdownBarrier.Service | ProcessLedger.Service | Workspace.Service
> = Layer.effectContext(make)

/** Gives what is around a plugin the jobs of `owner`; closing it retires the owner. */
export const layerOwner = (owner: string): Layer.Layer<CurrentOwner, never, BackgroundProcessService> =>
  Layer.effect(CurrentOwner, BackgroundProcessService.use((service) => service.scoped(owner)))
