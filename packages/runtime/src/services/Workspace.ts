/**
 * Workspaces: directories that processes work in, each recorded exactly, and removed only when nobody works in it.
 *
 * `acquire` makes one for a scope, and the options of a process take it. At the scope's end it is released: nothing starts
 * in it any more, and it is removed once every process that used it is settled with proof, and recorded as such. One that
 * could not be ended keeps it. The shutdown barrier removes those whose scopes are still open, after all settlements.
 *
 * A directory that could not be removed keeps its record, from which a later runtime finishes it: see `finish`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Identity from "../domain/Identity.ts"
import type { WorkspaceRow } from "../domain/ShutdownPlan.ts"
import type { Timer } from "../internal/TimerHeap.ts"
import { within } from "../internal/Within.ts"
import * as ProcessDriver from "../ports/ProcessDriver.ts"
import * as ProcessLedger from "../ports/ProcessLedger.ts"
import type { WorkspaceRecord } from "../ports/WorkspaceLedger.ts"
import * as WorkspaceStore from "../ports/WorkspaceStore.ts"
import { RuntimeClosed } from "./AppProcess.ts"
import * as ProcessHost from "./ProcessHost.ts"
import * as ShutdownBarrier from "./ShutdownBarrier.ts"
import { OwnedWorkspace, rowOf, type Workspace, WorkspaceReleased } from "./workspaces/OwnedWorkspace.ts"

export { type Workspace, WorkspaceReleased }
export type { WorkspaceRow } from "../domain/ShutdownPlan.ts"
export { WorkspaceError } from "../ports/WorkspaceStore.ts"

/** What a workspace is made from. */
export interface AcquireOptions {
  /** The directory it is made in, which has to be there. Nothing outside of it is ever touched. */
  readonly root: string
  /** Its name in the root; its id by default. Letters, digits, `.`, `_` and `-`, at most 64, the first no sign. */
  readonly name?: string | undefined
  /** Whose it is: shown in records and reports. It gives nobody a right. */
  readonly owner?: string | undefined
}

/** What `finish` is told by whoever knows of rows and of holders. */
export interface Recovered {
  /** Every row that is not settled, whoever holds it. Read before `finish` is called. */
  readonly unsettled: ReadonlyArray<Pick<ProcessLedger.LedgerRow, "id" | "workspace">>
  /** Whether the runtime that holds this record is gone, or has let its lease expire. */
  readonly isVoid: (record: WorkspaceRecord) => Effect.Effect<boolean>
}

/** The workspaces of the runtime. */
export interface Workspaces {
  /**
   * Makes a directory of mode 0700 for the scope, and records it first. Bounded by four port windows; not interrupted
   * half way. The scope's end releases it and waits for its removal, which may take as long as a shutdown and is then
   * left to the barrier; where a process still uses it, it does not wait. Fails with `Unsupported` without a `WorkspaceStore`.
   */
  readonly acquire: (
    options: AcquireOptions
  ) => Effect.Effect<Workspace, WorkspaceStore.WorkspaceError | RuntimeClosed, Scope.Scope>
  /**
   * Removes what runtimes that are gone have left: the workspaces of void records that no unsettled row names and no
   * living process without a row works in. Answers with those, each removed, kept (because of `by`) or failed, and leaves
   * all others out. What failed is this runtime's from then on: its shutdown tries once more, and reports it. For
   * recovery; called again, it starts over with what is left.
   */
  readonly finish: (recovered: Recovered) => Effect.Effect<ReadonlyArray<WorkspaceRow>, ProcessLedger.LedgerError>
}

/** The workspaces of the runtime. `ProcessRuntime.layer` gives it. */
class WorkspaceService extends Context.Service<WorkspaceService, Workspaces>()("@procyon/runtime/Workspace") {}
export { WorkspaceService as Service }

type Problem = WorkspaceStore.WorkspaceError["problem"]

const failure = (operation: WorkspaceStore.WorkspaceError["operation"], problem: Problem) =>
  new WorkspaceStore.WorkspaceError({ operation, problem, refusal: null })

const concurrency = 16

const make = Effect.gen(function*() {
  const host = yield* ProcessHost.Service
  const barrier = yield* ShutdownBarrier.Service
  const driver = yield* ProcessDriver.Service
  const { workspaces: ledger } = yield* ProcessLedger.Service
  const store = yield* Effect.serviceOption(WorkspaceStore.Service)
  const { settings, timers } = host
  const held = host.workspaces
  let renewal: Timer | null = null

  const leaseUntil = (): number => host.clock.currentTimeMillisUnsafe() + settings.leaseMillis

  /** What the store answers, in time or `TimedOut`. */
  const asked = <A>(
    operation: WorkspaceStore.WorkspaceError["operation"],
    call: () => Effect.Effect<A, WorkspaceStore.WorkspaceError>,
    millis = settings.portWindowMillis
  ): Effect.Effect<A, WorkspaceStore.WorkspaceError> =>
    within(call, millis).pipe(
      Effect.catchDefect(() => Effect.fail(failure(operation, "Other"))),
      Effect.flatMap((answer) => Effect.mapError(Effect.fromOption(answer), () => failure(operation, "TimedOut")))
    )

  /** What the ledger answers. However it fails, nothing may be taken for written. */
  const recorded = (
    call: () => Effect.Effect<boolean, ProcessLedger.LedgerError>
  ): Effect.Effect<boolean, WorkspaceStore.WorkspaceError> =>
    within(call, settings.portWindowMillis).pipe(
      Effect.catchCause(() => Effect.fail(failure("record", "NotRecorded"))),
      Effect.flatMap((answer) => Effect.mapError(Effect.fromOption(answer), () => failure("record", "TimedOut")))
    )

  const forget = (workspace: OwnedWorkspace): Effect.Effect<void> =>
    Effect.ignore(recorded(() => ledger.remove(workspace.id, workspace.record.fence)))

  const hold = (workspace: OwnedWorkspace): void => {
    held.add(workspace)
    armRenewal()
  }

  const letGo = (workspace: OwnedWorkspace): void => {
    held.delete(workspace)
    if (held.size > 0 || renewal === null) return
    renewal.cancel()
    renewal = null
  }

  /** Armed only while one is held, as for the rows of jobs. */
  const armRenewal = (): void => {
    renewal ??= timers.after(settings.leaseMillis / 3, () => {
      renewal = null
      armRenewal()
      host.fork(Effect.forEach(held, renew, { concurrency, discard: true }))
    })
  }

  const renew = (workspace: OwnedWorkspace): Effect.Effect<void> =>
    Effect.ignore(Effect.map(claim(workspace), (isOurs) => {
      if (isOurs) return
      // Whoever has it may remove it, so nobody may come to work in it any more.
      workspace.released = true
      workspace.problem = "Lost"
    }))

  /** Whether the record is still this runtime's; it is for another lease from here. */
  const claim = ({ id, record: { fence } }: OwnedWorkspace) =>
    recorded(() => ledger.update(id, fence, { leaseUntil: leaseUntil() }))

  const removeNow = (workspace: OwnedWorkspace): Effect.Effect<void> =>
    Effect.gen(function*() {
      if (workspace.removed || workspace.users.size > 0) return
      if (Option.isNone(store)) return yield* failure("remove", "Unsupported")
      if (!(yield* claim(workspace))) return yield* failure("remove", "Lost")
      // One that takes longer is told to stop, and goes on when it is tried again.
      yield* asked("remove", () => store.value.remove(workspace.record), settings.shutdownBudgetMillis)
      yield* recorded(() => ledger.remove(workspace.id, workspace.record.fence))
      workspace.removed = true
      letGo(workspace)
    }).pipe(
      Effect.catch(({ message, problem }) => {
        workspace.problem = problem
        return Effect.logWarning(`workspace ${workspace.id} could not be removed: ${message}`)
      })
    )

  /** In a fiber of the runtime; whoever asks meanwhile joins. */
  const removal = (workspace: OwnedWorkspace): Fiber.Fiber<void> =>
    workspace.removal ??= host.fork(
      Effect.ensuring(
        // Not in this very step: what it does at its end has to find the fiber noted.
        Effect.andThen(Effect.yieldNow, workspace.lock.withPermit(removeNow(workspace))),
        Effect.sync(() => {
          workspace.removal = null
        })
      )
    )

  const remove = (workspace: OwnedWorkspace): Effect.Effect<void> =>
    Effect.suspend(() => Effect.asVoid(Fiber.await(removal(workspace))))

  const release = (workspace: OwnedWorkspace): Effect.Effect<void> =>
    Effect.suspend(() => {
      workspace.released = true
      return workspace.removed || workspace.users.size > 0 ? Effect.void : remove(workspace)
    })

  const guestsOf = (workspace: OwnedWorkspace): ReadonlyArray<Identity.Identity> =>
    [...workspace.users].filter(({ owner }) => owner === null)
      .map(({ marker }) => Identity.unborn(driver.self?.bootId ?? "", marker))

  const keeper = {
    onIdle: (workspace: OwnedWorkspace): void => void removal(workspace),
    recordGuests: (workspace: OwnedWorkspace): Effect.Effect<boolean> =>
      workspace.lock.withPermit(Effect.suspend(() => {
        const guests = guestsOf(workspace)
        return recorded(() => ledger.update(workspace.id, workspace.record.fence, { guests }))
      })).pipe(Effect.orElseSucceed(() => false))
  }

  const create = (
    store: WorkspaceStore.WorkspaceStore,
    workspace: OwnedWorkspace
  ): Effect.Effect<void, WorkspaceStore.WorkspaceError> =>
    Effect.gen(function*() {
      const { fence, id } = workspace.record
      const isNew = yield* recorded(() => ledger.insert(workspace.record))
      if (!isNew) return yield* failure("record", "Exists")
      const identity = yield* asked("create", () => store.create(workspace.record))
      workspace.record = { ...workspace.record, identity }
      const isOurs = yield* recorded(() => ledger.update(id, fence, { identity }))
      if (!isOurs) return yield* failure("record", "Lost")
    })

  /** Leaves what a creation that failed may have left behind to whoever can finish it. */
  const abandon = (workspace: OwnedWorkspace, error: WorkspaceStore.WorkspaceError): Effect.Effect<void> =>
    Effect.suspend(() => {
      workspace.released = true
      // Nobody knows yet what is there, and the barrier tries what is left of it.
      if (error.operation === "create" && error.problem === "TimedOut") return Effect.void
      // It was made, and is not recorded as such; or it may have been, by a store that failed half way.
      const isThere = workspace.record.identity !== null ||
        (error.operation === "create" && error.problem !== "Exists" && error.problem !== "Refused")
      if (isThere) return release(workspace)
      letGo(workspace)
      return error.problem === "Exists" && error.operation === "record" ? Effect.void : forget(workspace)
    })

  const open = (
    options: AcquireOptions
  ): Effect.Effect<OwnedWorkspace, WorkspaceStore.WorkspaceError | RuntimeClosed> =>
    Effect.gen(function*() {
      if (Option.isNone(store)) return yield* failure("locate", "Unsupported")
      const id = host.nextId()
      const place = yield* asked("locate", () => store.value.locate(options.root, options.name ?? id))
      // Nothing can come between this check and the barrier's knowing of it.
      if (host.draining()) return yield* new RuntimeClosed()
      const workspace = new OwnedWorkspace({
        id,
        owner: options.owner ?? null,
        ...place,
        guests: [],
        createdAt: host.clock.currentTimeMillisUnsafe(),
        holder: host.self,
        fence: 1,
        leaseUntil: leaseUntil()
      }, keeper)
      hold(workspace)
      yield* workspace.lock.withPermit(create(store.value, workspace)).pipe(
        Effect.tapError((error) => abandon(workspace, error))
      )
      // The barrier may have been waiting for it.
      return workspace.released ? yield* new RuntimeClosed() : workspace
    })

  /** All that are left, whatever their scopes do; what has failed before is tried once more, everything else twice. */
  const finishAll = Effect.suspend(() =>
    Effect.forEach(
      [...held],
      (workspace) =>
        Effect.gen(function*() {
          const retries = workspace.problem === null ? 1 : 0
          workspace.released = true
          for (let left = retries; left >= 0 && !workspace.removed && workspace.users.size === 0; left--) {
            yield* remove(workspace)
          }
        }),
      { concurrency, discard: true }
    )
  )

  /** Whether a process without a row may still work in it; also where that cannot be told. */
  const hasGuests = ({ guests }: WorkspaceRecord): Effect.Effect<boolean> => {
    const boot = driver.self?.bootId ?? ""
    if (guests.length === 0) return Effect.succeed(false)
    if (boot === "" || guests.some(({ bootId }) => bootId === "")) return Effect.succeed(true)
    const roots = guests.filter(({ bootId }) => bootId === boot)
    if (roots.length === 0) return Effect.succeed(false)
    return Effect.map(
      Effect.exit(within(() => driver.look(roots), settings.portWindowMillis)),
      (exit) =>
        Exit.isFailure(exit) || Option.isNone(exit.value) ||
        exit.value.value.some(({ complete, members, occupied }) => !complete || members.length + occupied.length > 0)
    )
  }

  const finishOne = (record: WorkspaceRecord, by: string | null): Effect.Effect<WorkspaceRow | null> =>
    Effect.gen(function*() {
      const { id, owner } = record
      if (by !== null) return { id, owner, outcome: "kept", problem: null, by }
      if (yield* hasGuests(record)) return { id, owner, outcome: "kept", problem: "Busy", by: null }
      // Left for a runtime that can do something about it.
      if (Option.isNone(store)) return { id, owner, outcome: "failed", problem: "Unsupported", by: null }
      const taken = { holder: host.self, fence: record.fence + 1, leaseUntil: leaseUntil() }
      const isOurs = yield* Effect.orElseSucceed(recorded(() => ledger.update(id, record.fence, taken)), () => false)
      // Somebody else has taken it, or is about to.
      if (!isOurs) return null
      const workspace = new OwnedWorkspace({ ...record, ...taken }, keeper)
      workspace.released = true
      hold(workspace)
      yield* remove(workspace)
      return rowOf(workspace)
    })

  const finish: Workspaces["finish"] = ({ isVoid, unsettled }) =>
    Effect.gen(function*() {
      const answer = yield* within(() => ledger.list({ unreadable: "skip" }), settings.portWindowMillis)
      if (Option.isNone(answer)) {
        return yield* new ProcessLedger.LedgerError({ operation: "rows", problem: "Unavailable" })
      }
      const ours = new Set([...held].map(({ id }) => id))
      const rows = yield* Effect.forEach(
        answer.value.filter(({ id }) => !ours.has(id)),
        (record) =>
          Effect.flatMap(isVoid(record), (isOrphan) =>
            isOrphan
              ? finishOne(record, unsettled.find(({ workspace }) => workspace === record.id)?.id ?? null)
              : Effect.succeed(null)),
        { concurrency }
      )
      return rows.filter((row) => row !== null)
    })

  barrier.on("workspaces", finishAll)
  // Whoever closes this layer alone, closes the runtime: both run the one barrier.
  yield* Effect.addFinalizer(() => barrier.shutdown())

  return WorkspaceService.of({
    acquire: (options) => Effect.acquireRelease(open(options), release),
    finish
  })
})

/** Closing it runs the barrier of the whole runtime. A `WorkspaceStore` is used where one is provided to it. */
export const layer: Layer.Layer<
  WorkspaceService,
  never,
  ProcessHost.Service | ShutdownBarrier.Service | ProcessLedger.Service | ProcessDriver.Service
> = Layer.effect(WorkspaceService, make)

/** `acquire` of the service in context. */
export const acquire = (
  options: AcquireOptions
): Effect.Effect<Workspace, WorkspaceStore.WorkspaceError | RuntimeClosed, WorkspaceService | Scope.Scope> =>
  WorkspaceService.use((service) => service.acquire(options))
