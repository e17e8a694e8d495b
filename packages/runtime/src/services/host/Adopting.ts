/**
 * Taking in a process of an earlier life: what its row says of it becomes a process of this host, and what a look finds
 * of its tree decides how it goes on.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { Identity } from "../../domain/Identity.ts"
import * as Lifecycle from "../../domain/Lifecycle.ts"
import { isSettled } from "../../domain/Status.ts"
import * as OutputSource from "../../internal/OutputSource.ts"
import { within } from "../../internal/Within.ts"
import type { BlobStore } from "../../ports/BlobStore.ts"
import type { Child, StreamName } from "../../ports/ProcessDriver.ts"
import type { LedgerRow, StoredStream } from "../../ports/ProcessLedger.ts"
import * as OutputRetention from "../OutputRetention.ts"
import { type Policy, restored } from "../ProcessOptions.ts"
import { type Core, exited, isolated, nameOfOutput } from "./Core.ts"
import { OwnedProcess } from "./OwnedProcess.ts"

export interface Adopting {
  /** The process that a row tells of, with nothing done to it: actions wait until it is resumed. */
  readonly adopt: (row: LedgerRow) => OwnedProcess
  /** Finds its tree again, and watches over it. Bounded; never fails: where the driver does not answer, it is for review. */
  readonly resume: (process: OwnedProcess, row: LedgerRow) => Effect.Effect<void>
  /** Removes what an output of this name has left in the store. Bounded; never fails. */
  readonly removeBlobs: (name: string) => Effect.Effect<void>
}

/** What of the host it needs. */
export interface Options {
  readonly store: BlobStore | null
  readonly live: Set<OwnedProcess>
  /** The file of a detached process. */
  readonly fileOf: (id: string, stream: StreamName) => OutputSource.OutputSource | null
  /** A stream that is read from the file of a detached process. */
  readonly makeRetention: (
    id: string,
    stream: StreamName,
    policy: Policy,
    onCap: () => void
  ) => OutputRetention.OutputRetention
  /** Arms its deadlines and its beat. */
  readonly watch: (process: OwnedProcess) => void
}

export const make = (core: Core, options: Options): Adopting => {
  const { clock, driver, settings, timers } = core
  const { store } = options

  const removeBlobs = (name: string): Effect.Effect<void> =>
    store === null
      ? Effect.void
      : isolated(
        Effect.suspend(() => Effect.asVoid(Effect.orDie(store.remove(name)))),
        settings.portWindowMillis,
        "removing a blob"
      )

  /**
   * What an earlier life had not finished can be told of by no row: where it begins and what it lacks, only that life knew.
   * Its row was claimed, so whoever wrote it is gone, or is to write no more.
   */
  const removeUnfinished = ({ lifetime, output, id }: LedgerRow): Effect.Effect<void> =>
    Effect.forEach(
      lifetime === "detached" ? [] : streams.filter((stream) => (output?.[stream]?.blob ?? null) === null),
      (stream) => removeBlobs(nameOfOutput(id, stream)),
      { discard: true }
    )

  const sourceOf = (row: LedgerRow, stream: StreamName, stored: StoredStream | null) => {
    if (row.lifetime === "detached") return options.fileOf(row.id, stream)
    const blob = stored?.blob ?? null
    return store === null || stored === null || blob === null
      ? null
      : OutputSource.ofBlob(store, blob, { gap: stored.gap, length: stored.spilledBytes }, settings.portWindowMillis)
  }

  /** Output of which nothing is in memory. Before the settlement, the row's count is a lower bound. */
  const recordedOf = (row: LedgerRow, stream: StreamName): OutputRetention.OutputRetention => {
    const stored = row.output?.[stream] ?? null
    const isOver = isSettled(row.status)
    const name = nameOfOutput(row.id, stream)
    return OutputRetention.recorded({
      name,
      bytesSeen: isOver ? stored?.bytesSeen ?? 0 : stream === "stdout" ? row.counters.bytesSeen : 0,
      drained: isOver && (stored?.drained ?? false),
      sha256: isOver ? stored?.sha256 ?? null : null,
      blob: stored?.blob ?? null,
      spilledBytes: stored?.spilledBytes ?? 0,
      gap: stored?.gap ?? null,
      source: sourceOf(row, stream, stored),
      // Also where the row names none: an earlier life may have sealed one that its row was not told of.
      dispose: row.lifetime === "detached" ? Effect.void : removeBlobs(name)
    })
  }

  const adopt = (row: LedgerRow): OwnedProcess => {
    const kept = row.output?.stderr === null || row.output === null ? "merged" : "separate"
    const deadlineMillis = row.deadlineAt === null ? null : Math.max(0, row.deadlineAt - row.startedAt)
    const policy = restored({ title: row.title, policy: row.policy, deadlineMillis, streams: kept }, settings)
    const detached = row.lifetime === "detached"
    const isRead = detached && !isSettled(row.status)
    const onCap = () =>
      core.dispatch(process, { _tag: "EndRequested", request: { cause: { _tag: "OutputCap" }, now: false } })
    const retentionOf = (stream: StreamName) =>
      isRead ? options.makeRetention(row.id, stream, policy, onCap) : recordedOf(row, stream)
    const process: OwnedProcess = new OwnedProcess({
      id: row.id,
      command: null,
      summary: { name: row.command.name, args: row.command.args },
      display: row.command.name,
      detached,
      state: Lifecycle.resumed({
        status: row.status,
        cause: row.termination?.cause ?? null,
        exit: row.termination?.exit ?? null
      }),
      policy,
      digest: row.command.digest ?? "",
      marker: row.identity?.marker ?? "",
      wholeTree: driver.capabilities.wholeTree,
      stdout: retentionOf("stdout"),
      stderr: kept === "merged" ? null : retentionOf("stderr"),
      startedAt: row.startedAt,
      // A wall clock that went back must not give a process more time than it was granted.
      startedMono: timers.now() - Math.max(0, clock.currentTimeMillisUnsafe() - row.startedAt)
    })
    process.owner = row.owner
    process.endedAt = row.endedAt
    process.receipt = row.termination
    process.timeline.push(...row.termination?.timeline ?? [])
    process.survivors = row.termination?.survivors ?? []
    process.survivorCount = row.termination?.survivorCount ?? 0
    process.leftovers = row.termination?.leftovers ?? []
    process.keptLeftovers = row.termination?.keptLeftovers ?? false
    process.forced = row.termination?.forced ?? false
    Deferred.doneUnsafe(process.started, Effect.succeed(true))
    if (row.status !== "running") {
      Deferred.doneUnsafe(process.exited, Effect.succeed(Lifecycle.exitOf(process.state)))
      Deferred.doneUnsafe(process.ended, Effect.void)
    }
    if (!isSettled(row.status)) {
      options.live.add(process)
      // Whoever asks for its end before it is resumed is answered after.
      process.working = true
    }
    return process
  }

  /** `null`: the driver did not answer. */
  const attach = (process: OwnedProcess, identity: Identity): Effect.Effect<Child | null> =>
    within(() =>
      driver.attach({
        identity,
        detached: process.detached ? process.id : null,
        stdout: process.stdout.sink,
        stderr: process.stderr === null ? "merged" : process.stderr.sink,
        onExit: (exit, by) => core.dispatch(process, exited(exit, by))
      }), settings.portWindowMillis).pipe(
        Effect.map(Option.getOrNull),
        Effect.catchCause(() => Effect.as(Effect.logWarning("a driver could not attach to a process"), null))
      )

  const resume = (process: OwnedProcess, row: LedgerRow): Effect.Effect<void> =>
    Effect.gen(function*() {
      const { identity } = row
      if (process.state._tag === "Settled") return
      process.cleaned = Effect.asVoid(Fiber.await(core.fork(removeUnfinished(row))))
      if (identity === null || driver.self === null) return core.dispatch(process, { _tag: "Untraceable" })
      const child = yield* attach(process, identity)
      if (child === null) return core.dispatch(process, { _tag: "Untraceable" })
      process.child = child
      options.watch(process)
    })

  return { adopt, resume, removeBlobs }
}

const streams = ["stdout", "stderr"] as const
