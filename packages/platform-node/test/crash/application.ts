/**
 * The application that is killed. Its first life starts the jobs and shuts down; the later ones find what is left of
 * them, end what outlives them, and shut down. All of them consume notices. Each is killed at its target, if it has one.
 *
 * Argument: its `Life`, as JSON.
 */
import { NodeKeeperDriver, NodeProcessDriver, NodeProcessRuntime, NodeWorkspaceStore } from "@procyon/platform-node"
import {
  BackgroundProcess,
  BlobStore,
  ProcessDriver,
  ProcessLedger,
  ProcessRuntime,
  Recovery,
  Settings,
  ShutdownBarrier,
  Status,
  Workspace,
  WorkspaceStore
} from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import { seenAt } from "../support/table.ts"
import * as Instrumented from "./instrumented.ts"
import * as Jobs from "./jobs.ts"
import * as Journal from "./journal.ts"
import { type Life, placesIn } from "./life.ts"
import * as Points from "./points.ts"
import { numbers, shuffled } from "./seeded.ts"

const life: Life = JSON.parse(process.argv[2] ?? "")
const places = placesIn(life.directory)
const next = numbers(life.seed)
const write = (line: Journal.Line): void => Journal.append(places.journal, line)

/** The keepers among the children of this process: the watchers of detached jobs are its children too. */
const keepers = (): ReadonlyArray<number> =>
  fs.readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "latin1").trim().split(" ").map(Number)
    .filter((pid) => pid > 0 && fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("/internal/keeper/"))

const writeKeepers = (): void => {
  for (const pid of keepers()) write({ _tag: "Keeper", pid, startedAt: seenAt(pid)?.startedAt ?? 0 })
}

const points = Points.make(life.target, (target) => {
  writeKeepers()
  write({ _tag: "Killed", life: life.number, target })
  // With a keeper, that is the only child.
  if (life.driver === "unkept") { for (const pid of keepers()) process.kill(pid, "SIGKILL") }
  process.kill(process.pid, "SIGKILL")
})
const titles = new Instrumented.Titles()

const graceMillis = 150

const settings = Settings.layer({
  graceMillis,
  forceWindowMillis: 2_000,
  lingerMillis: 20,
  pollMillis: 10,
  leaseMillis: 1_000,
  heartbeatMillis: 150,
  outputBytes: 16 * 1024,
  outputHeadBytes: 4 * 1024,
  maxRunningPerOwner: 0,
  // On a busy machine a start may take longer than the second after which it answers without one.
  startAnswerMillis: 10_000
})

const driver = life.driver === "direct" ?
  NodeProcessDriver.layerWith({ detached: places.detached })
  : NodeKeeperDriver.layer({ graceMillis, detached: places.detached })

const ports = Layer.mergeAll(
  Layer.effect(
    ProcessLedger.Service,
    Effect.map(ProcessLedger.Service, (ledger) => Instrumented.ledger(ledger, points, titles))
  ).pipe(Layer.provide(NodeProcessRuntime.layerLedger({ directory: places.state }))),
  Layer.effect(
    ProcessDriver.Service,
    Effect.map(ProcessDriver.Service, (driver) => Instrumented.driver(driver, points, titles))
  ).pipe(Layer.provide(driver)),
  Layer.effect(
    WorkspaceStore.Service,
    Effect.map(WorkspaceStore.Service, (store) => Instrumented.workspaces(store, points))
  ).pipe(Layer.provide(NodeWorkspaceStore.layer)),
  Layer.effect(
    BlobStore.Service,
    Effect.map(BlobStore.Service, (blobs) => Instrumented.blobs(blobs, points, titles))
  ).pipe(Layer.provide(NodeProcessRuntime.layerBlobs({ directory: places.blobs })))
)

const runtime = ProcessRuntime.layer.pipe(
  Layer.provideMerge(ports),
  Layer.provide(settings),
  Layer.provide(ShutdownBarrier.onReport(() => Effect.sync(() => points.at("shutdown reported"))))
)

const jobs = Effect.map(BackgroundProcess.Service, (service) => service.of("crash"))

/** Every notice is written down before it counts as taken. */
const consume = Effect.gen(function*() {
  const { consumeNotices } = yield* jobs
  const some = consumeNotices((notices) =>
    Effect.sync(() => {
      for (const notice of notices) {
        if (notice._tag !== "Job") continue
        points.at("notice handed", notice.title)
        write({ _tag: "Notice", life: life.number, noticeId: notice.noticeId, repeated: notice.repeated })
        points.at("notice seen", notice.title)
      }
      return notices.length > 0
    })
  )
  while (yield* some) points.at("notice taken")
})

const observe = Effect.flatMap(
  BackgroundProcess.Service,
  (service) =>
    service.observe((event) =>
      Effect.sync(() => points.at(`event ${event._tag}`, event._tag === "Missed" ? null : titles.of(event.id)))
    )
)

/** Asks again until it is so. The parent bounds the whole life. */
const until = <E, R>(ask: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  Effect.flatMap(ask, (isSo) => isSo ? Effect.void : Effect.andThen(Effect.sleep("5 millis"), until(ask)))

/** Whether who consumes notices has been told of everything. */
const allTold = Effect.gen(function*() {
  const rows = yield* (yield* ProcessLedger.Service).rows()
  return rows.every((row) => row.status !== "running" && row.told === row.status)
})

const said = (id: string, text: string) =>
  Effect.gen(function*() {
    const output = yield* (yield* jobs).output(id)
    return (yield* output.preview).includes(text)
  })

const shutDown = Effect.gen(function*() {
  points.at("shutdown asked")
  yield* (yield* ShutdownBarrier.Service).shutdown()
  points.at("shutdown told")
})

/** In a scope of its own, so that it can be released before the others. */
const acquire = (name: string) =>
  Effect.gen(function*() {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const workspaces = yield* Workspace.Service
    const workspace = yield* Scope.provide(workspaces.acquire({ root: places.workspaces, name }), scope)
    return { workspace, release: Scope.close(scope, Exit.void) }
  })

const startAll = Effect.gen(function*() {
  const { start } = yield* jobs
  const releases = new Map<string, Effect.Effect<void>>()
  const ids = new Map<string, string>()
  for (const job of shuffled(next, Jobs.all)) {
    points.at("start asked", job.title)
    const place = job.housed ? yield* acquire(job.title) : null
    if (place !== null) releases.set(job.title, place.release)
    const { id } = yield* start(Jobs.command(job, life.tag), {
      ...job.options,
      title: job.title,
      workspace: place?.workspace
    })
    write({ _tag: "Started", title: job.title, id })
    points.at("start answered", job.title)
    ids.set(job.title, id)
    yield* Effect.sleep(Math.floor(next() * 20))
  }
  return {
    idOf: (title: string): string => ids.get(title) ?? "",
    release: (title: string): Effect.Effect<void> => releases.get(title) ?? Effect.void
  }
})

const firstLife = Effect.gen(function*() {
  const { idOf, release } = yield* startAll
  const { forget, stop, wait } = yield* jobs
  yield* until(said(idOf("stubborn"), "up\n"))
  yield* until(said(idOf("stubborn"), "escaped\n"))
  points.at("jobs at work")
  yield* Effect.forEach(["talker", "dropped", "brief", "late", "lodger"], (title) => wait(idOf(title)), {
    concurrency: "unbounded"
  })
  yield* release("lodger")
  yield* stop(idOf("stopped"))
  const dropped = idOf("dropped")
  const ledger = yield* ProcessLedger.Service
  yield* until(Effect.map(ledger.get(dropped), (row) => row?.told === row?.status))
  write({ _tag: "Forgetting", id: dropped })
  yield* forget(dropped)
  yield* shutDown
})

const laterLife = Effect.gen(function*() {
  const { list, stop } = yield* jobs
  const { entries } = yield* (yield* Recovery.Service).started
  for (const { id, outcome } of entries) write({ _tag: "Recovered", life: life.number, id, outcome })
  points.at("recovery told")
  const left = (yield* list).filter(({ lifetime, status }) => lifetime === "detached" && !Status.isSettled(status))
  yield* Effect.forEach(left, ({ id }) => stop(id), { concurrency: "unbounded" })
  yield* until(allTold)
  yield* shutDown
})

const main = Effect.gen(function*() {
  writeKeepers()
  points.at("runtime built")
  yield* observe
  yield* Effect.forkScoped(consume)
  yield* life.number === 1 ? firstLife : laterLife
}).pipe(Effect.scoped, Effect.provide(runtime))

await Effect.runPromise(main)
write({ _tag: "Closed", life: life.number, reached: points.reached() })
