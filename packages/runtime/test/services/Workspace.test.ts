import { assert, it } from "@effect/vitest"
import {
  AppProcess,
  BackgroundProcess,
  CommandSpec,
  ProcessDriver,
  ProcessLedger,
  ProcessLedgerMemory,
  ProcessRuntime,
  type Settings,
  ShutdownBarrier,
  Workspace,
  WorkspaceStore
} from "@procyon/runtime"
import { child, Files, LedgerLaws, RuntimeTest, type Script, ScriptedDriver, World } from "@procyon/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { law } from "./law.ts"

const run = CommandSpec.make
const root = "/work"

type Store = WorkspaceStore.WorkspaceStore
type Ledger = ProcessLedger.ProcessLedger

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** A workspace in a scope that the law closes itself. */
const opened = (options: Partial<Workspace.AcquireOptions> = {}) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const workspace = yield* Scope.provide(Workspace.acquire({ root, ...options }), scope)
    return { workspace, release: Scope.close(scope, Exit.void) }
  })

const has = (path: string) => Files.use((files) => files.has(path))
const records = ProcessLedger.Service.use(({ workspaces }) => workspaces.list())
const shutdown = ShutdownBarrier.Service.use((barrier) => barrier.shutdown())

/** Runs an effect that takes this long. */
const taking = <A, E, R>(duration: "1 second" | "10 seconds" | "1 minute", effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(effect)
    yield* (yield* World).advance(duration)
    return yield* Fiber.join(fiber)
  })

const problemOf = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) => "problem" in error ? error.problem : error._tag)

const reasonOf = <A, R>(effect: Effect.Effect<A, AppProcess.SpawnError | BackgroundProcess.StartError, R>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason._tag === "InvalidCommand" ? reason.message : reason._tag)

/** The store and the ledger in memory, changed. */
const onPorts = (
  children: Record<string, Script>,
  changes: {
    readonly store?: (store: Store) => Partial<Store>
    readonly ledger?: (ledger: Ledger) => Partial<Ledger>
    readonly driver?: (driver: ProcessDriver.ProcessDriver) => Partial<ProcessDriver.ProcessDriver>
  },
  settings?: Partial<Settings.Settings>
) =>
  RuntimeTest.layer({
    children,
    settings,
    workspaces: Layer.effect(
      WorkspaceStore.Service,
      WorkspaceStore.Service.use((store) => Effect.succeed({ ...store, ...changes.store?.(store) }))
    ),
    ledger: Layer.effect(
      ProcessLedger.Service,
      ProcessLedger.Service.use((ledger) => Effect.succeed({ ...ledger, ...changes.ledger?.(ledger) }))
    ),
    driver: Layer.effect(
      ProcessDriver.Service,
      ProcessDriver.Service.use((driver) => Effect.succeed({ ...driver, ...changes.driver?.(driver) }))
    )
  })

const storeFailure = (problem: WorkspaceStore.WorkspaceError["problem"]) =>
  Effect.fail(new WorkspaceStore.WorkspaceError({ operation: "remove", problem, refusal: null }))

law(
  "a workspace is there and recorded while its scope is open, and gone with its record afterwards",
  {},
  Effect.gen(function*() {
    const { release, workspace } = yield* opened({ name: "ws", owner: "s1" })
    assert.deepStrictEqual([workspace.path, workspace.owner], ["/work/ws", "s1"])
    assert.isTrue(yield* has("/work/ws"))
    const [record = assert.fail("no record")] = yield* records
    assert.deepStrictEqual([record.id, record.path, record.owner], [workspace.id, "/work/ws", "s1"])
    assert.isNotNull(record.identity)
    yield* release
    assert.deepStrictEqual([yield* has("/work/ws"), yield* records], [false, []])
  })
)

law(
  "a workspace without a name has its id as one, and two are two directories",
  {},
  Effect.gen(function*() {
    const [first, second] = [yield* opened(), yield* opened()]
    assert.strictEqual(first.workspace.path, `/work/${first.workspace.id}`)
    assert.notStrictEqual(first.workspace.path, second.workspace.path)
    yield* Effect.andThen(first.release, second.release)
  })
)

law(
  "what cannot be made fails by its kind, and leaves neither a directory nor a record",
  {},
  Effect.gen(function*() {
    yield* opened({ name: "taken" })
    assert.strictEqual(yield* problemOf(opened({ name: "taken" })), "Exists")
    assert.strictEqual(yield* problemOf(opened({ name: "../x" })), "BadName")
    assert.strictEqual(yield* problemOf(opened({ root: "/none" })), "NoRoot")
    assert.deepStrictEqual((yield* records).map(({ path }) => path), ["/work/taken"])
  })
)

it.effect("the command runs in it when it names no place, and its row names the workspace before it is started", () => {
  const seen: Array<readonly [string | undefined, string | null | undefined]> = []
  let rows: Ledger["rows"] = () => Effect.succeed([])
  return Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { workspace } = yield* opened({ name: "ws" })
    const { id } = yield* jobs.start(run("server"), { workspace })
    yield* jobs.start(run("server", [], { cwd: "/elsewhere" }), { workspace })
    assert.deepStrictEqual(seen, [["/work/ws", workspace.id], ["/elsewhere", workspace.id]])
    assert.strictEqual((yield* (yield* ProcessLedger.Service).get(id))?.workspace, workspace.id)
  }).pipe(Effect.provide(onPorts({ server: child }, {
    ledger: (ledger) => {
      rows = ledger.rows
      return {}
    },
    driver: (driver) => ({
      spawn: (request) =>
        Effect.gen(function*() {
          const row = (yield* Effect.orDie(rows())).at(-1)
          seen.push([request.command.options.cwd, row?.workspace])
          return yield* driver.spawn(request)
        })
    })
  })))
})

/** A store that notes, whenever it is to remove, what is alive and what the rows say. */
const noting = () => {
  const noted: Array<ReadonlyArray<string>> = []
  let look: Effect.Effect<ReadonlyArray<string>> = Effect.succeed([])
  return {
    noted,
    watch: Effect.gen(function*() {
      const [world, ledger] = [yield* World, yield* ProcessLedger.Service]
      look = Effect.gen(function*() {
        const rows = yield* Effect.orDie(ledger.rows())
        return [...yield* world.alive, ...rows.map(({ status }) => status)]
      })
    }),
    store: (store: Store): Partial<Store> => ({
      remove: (place) =>
        Effect.gen(function*() {
          noted.push(yield* look)
          return yield* store.remove(place)
        })
    })
  }
}

it.effect("the barrier removes a workspace after its jobs are ended and settled, and never before", () => {
  const { noted, store, watch } = noting()
  return Effect.gen(function*() {
    yield* watch
    const jobs = yield* jobsOf("s1")
    const { release, workspace } = yield* opened({ owner: "s1" })
    yield* jobs.start(run("stubborn"), { workspace })
    const report = yield* taking("10 seconds", shutdown)
    assert.deepStrictEqual(noted, [["cancelled"]])
    assert.deepStrictEqual(report.workspaces, [
      { id: workspace.id, owner: "s1", outcome: "removed", problem: null, by: null }
    ])
    assert.deepStrictEqual([report.clean, yield* has(workspace.path), yield* records], [true, false, []])
    yield* release
  }).pipe(Effect.provide(onPorts({ stubborn: child.ignores("SIGTERM") }, { store })))
})

law(
  "a child that cannot be ended keeps its workspace, and the report says because of whom",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL"), polite: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    const [first, second] = [yield* opened({ name: "a" }), yield* opened({ name: "b" })]
    const { id } = yield* jobs.start(run("stuck"), { workspace: first.workspace })
    yield* jobs.start(run("polite"), { workspace: second.workspace })
    const report = yield* taking("10 seconds", shutdown)
    assert.deepStrictEqual(report.workspaces.map(({ by, outcome }) => [outcome, by]), [["kept", id], ["removed", null]])
    assert.isFalse(report.clean)
    assert.deepStrictEqual((yield* records).map(({ path }) => path), ["/work/a"])
    assert.deepStrictEqual([yield* has("/work/a"), yield* has("/work/b")], [true, false])
    yield* world.kill("stuck")
  })
)

law(
  "a workspace that a kill_failed job keeps is removed when the job is proven gone",
  { stuck: child.ignores("SIGTERM").refuses("SIGKILL", 1) },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { release, workspace } = yield* opened()
    const { id } = yield* jobs.start(run("stuck"), { workspace })
    assert.strictEqual((yield* taking("10 seconds", jobs.stop(id))).status, "kill_failed")
    yield* release
    assert.isTrue(yield* has(workspace.path))
    assert.strictEqual((yield* taking("10 seconds", jobs.retryTermination(id))).status, "cancelled")
    assert.deepStrictEqual([yield* has(workspace.path), yield* records], [false, []])
  })
)

law(
  "released while jobs run, it takes in no new one, waits for nobody, and goes with the last",
  { server: child },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { release, workspace } = yield* opened()
    const [first, second] = [
      yield* jobs.start(run("server"), { workspace }),
      yield* jobs.start(run("server"), { workspace })
    ]
    yield* release
    assert.strictEqual(yield* reasonOf(jobs.start(run("server"), { workspace })), "WorkspaceReleased")
    assert.strictEqual(yield* reasonOf(AppProcess.run(run("server"), { workspace })), "WorkspaceReleased")
    assert.strictEqual((yield* jobs.list).length, 2)
    yield* taking("1 second", jobs.stop(first.id))
    assert.isTrue(yield* has(workspace.path))
    yield* taking("1 second", jobs.stop(second.id))
    assert.deepStrictEqual([yield* has(workspace.path), yield* records], [false, []])
    assert.strictEqual(yield* reasonOf(jobs.start(run("server"), { workspace })), "WorkspaceReleased")
  })
)

law(
  "a start that comes to nothing leaves its workspace",
  { broken: child.failsToStart("CommandNotFound") },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { release, workspace } = yield* opened()
    assert.strictEqual(yield* reasonOf(jobs.start(run("broken"), { workspace })), "SpawnFailed")
    assert.strictEqual(yield* reasonOf(AppProcess.run(run("broken"), { workspace })), "SpawnFailed")
    yield* release
    assert.isFalse(yield* has(workspace.path))
  })
)

law(
  "a process of a scope inside its own is ended before it is removed",
  { stubborn: child.ignores("SIGTERM") },
  Effect.gen(function*() {
    const world = yield* World
    const scope = yield* Scope.make()
    const path = yield* Scope.provide(
      Effect.gen(function*() {
        const workspace = yield* Workspace.acquire({ root })
        yield* AppProcess.spawn(run("stubborn"), { workspace })
        return workspace.path
      }),
      scope
    )
    const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
    yield* world.advance("1 second")
    assert.isTrue(yield* has(path))
    yield* world.advance("10 seconds")
    yield* Fiber.join(closing)
    assert.deepStrictEqual([yield* has(path), yield* world.alive], [false, []])
  })
)

law(
  "only a workspace of this runtime can be worked in, and by nobody who leaves others behind on purpose",
  { server: child },
  Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { workspace } = yield* opened()
    const look = { id: workspace.id, path: workspace.path, owner: null }
    assert.strictEqual(yield* reasonOf(jobs.start(run("server"), { workspace: look })), "Malformed at workspace")
    assert.strictEqual(
      yield* reasonOf(jobs.start(run("server"), { workspace, leftovers: "keep" })),
      "Unsupported at leftovers"
    )
    yield* Effect.gen(function*() {
      const others = yield* jobsOf("s1")
      assert.strictEqual(yield* reasonOf(others.start(run("server"), { workspace })), "Unsupported at workspace")
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { server: child } })))
  })
)

it.effect("a removal that failed keeps the record, and the barrier tries it once more", () => {
  let failures = 1
  return Effect.gen(function*() {
    const { release, workspace } = yield* opened()
    yield* release
    assert.deepStrictEqual([yield* has(workspace.path), (yield* records).length], [true, 1])
    const report = yield* shutdown
    assert.deepStrictEqual(report.workspaces.map(({ outcome }) => outcome), ["removed"])
    assert.deepStrictEqual([report.clean, yield* has(workspace.path), yield* records], [true, false, []])
  }).pipe(Effect.provide(onPorts({}, {
    store: (store) => ({ remove: (place) => failures-- > 0 ? storeFailure("Busy") : store.remove(place) })
  })))
})

it.effect("a removal that goes on failing is reported with its problem, and nothing of a path", () => {
  let calls = 0
  return Effect.gen(function*() {
    const { release, workspace } = yield* opened({ name: "secret-project", owner: "s1" })
    const report = yield* shutdown
    assert.deepStrictEqual(report.workspaces, [
      { id: workspace.id, owner: "s1", outcome: "failed", problem: "Denied", by: null }
    ])
    assert.isFalse(report.clean)
    assert.notInclude(ShutdownBarrier.summarize(report), "secret-project")
    assert.deepStrictEqual([calls, (yield* records).length], [2, 1])
    yield* release
  }).pipe(Effect.provide(onPorts({}, {
    store: () => ({
      remove: () => {
        calls++
        return storeFailure("Denied")
      }
    })
  })))
})

it.effect("a store that never answers a removal holds up a shutdown for its budget only", () =>
  Effect.gen(function*() {
    yield* opened()
    const report = yield* taking("1 minute", shutdown)
    assert.deepStrictEqual(report.workspaces.map(({ outcome, problem }) => [outcome, problem]), [[
      "failed",
      "TimedOut"
    ]])
    assert.deepStrictEqual([report.durationMillis, (yield* records).length], [30_000, 1])
  }).pipe(Effect.provide(onPorts({}, { store: () => ({ remove: () => Effect.uninterruptible(Effect.never) }) }))))

it.effect("a store that dies at a removal costs that one its removal", () =>
  Effect.gen(function*() {
    yield* opened()
    const report = yield* shutdown
    assert.deepStrictEqual(report.workspaces.map(({ outcome, problem }) => [outcome, problem]), [["failed", "Other"]])
  }).pipe(Effect.provide(onPorts({}, { store: () => ({ remove: () => Effect.die("a secret") }) }))))

it.effect("a job whose row cannot be settled keeps its workspace until the row has caught up", () => {
  let isDown = false
  const unavailable = new ProcessLedger.LedgerError({ operation: "transition", problem: "Unavailable" })
  return Effect.gen(function*() {
    const jobs = yield* jobsOf("s1")
    const { release, workspace } = yield* opened()
    const { id } = yield* jobs.start(run("server"), { workspace })
    isDown = true
    yield* taking("1 second", jobs.stop(id))
    yield* release
    assert.isTrue(yield* has(workspace.path))
    isDown = false
    yield* (yield* World).advance("1 minute")
    assert.isTrue((yield* jobs.get(id)).recorded)
    assert.isFalse(yield* has(workspace.path))
  }).pipe(Effect.provide(onPorts({ server: child }, {
    ledger: (ledger) => ({
      transition: (...given) => isDown ? Effect.fail(unavailable) : ledger.transition(...given)
    })
  })))
})

const notRecorded = (changes: (ledger: Ledger) => Partial<Ledger["workspaces"]>) => ({
  ledger: (ledger: Ledger) => ({ workspaces: { ...ledger.workspaces, ...changes(ledger) } })
})

const denied = Effect.fail(new ProcessLedger.LedgerError({ operation: "insert", problem: "Denied" }))

it.effect("a workspace that cannot be recorded is not made", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* problemOf(opened({ name: "ws" })), "NotRecorded")
    assert.deepStrictEqual([yield* has("/work/ws"), (yield* shutdown).workspaces], [false, []])
  }).pipe(Effect.provide(onPorts({}, notRecorded(() => ({ insert: () => denied }))))))

it.effect("a workspace whose identity cannot be recorded is removed again", () => {
  let failures = 1
  return Effect.gen(function*() {
    assert.strictEqual(yield* problemOf(opened({ name: "ws" })), "NotRecorded")
    assert.deepStrictEqual([yield* has("/work/ws"), yield* records], [false, []])
  }).pipe(Effect.provide(onPorts(
    {},
    notRecorded(({ workspaces }) => ({
      update: (...given) => failures-- > 0 ? denied : workspaces.update(...given)
    }))
  )))
})

it.effect("a workspace whose record is another's by its id is not made, and the record is left alone", () =>
  Effect.gen(function*() {
    const { workspaces } = yield* ProcessLedger.Service
    assert.strictEqual(yield* problemOf(opened({ name: "ws" })), "Exists")
    assert.deepStrictEqual([yield* has("/work/ws"), (yield* workspaces.list()).length], [false, 1])
    assert.deepStrictEqual((yield* shutdown).workspaces, [])
  }).pipe(Effect.provide(onPorts(
    {},
    notRecorded(({ workspaces }) => ({
      insert: (record) => Effect.as(workspaces.insert({ ...record, owner: "another" }), false)
    }))
  ))))

it.effect("a workspace whose record is another's by the time it was made is not handed out, and stays for that one", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* problemOf(opened({ name: "ws" })), "Lost")
    assert.deepStrictEqual((yield* records).map(({ fence }) => fence), [2])
    assert.isTrue(yield* has("/work/ws"))
    assert.deepStrictEqual((yield* shutdown).workspaces.map(({ problem }) => problem), ["Lost"])
  }).pipe(Effect.provide(onPorts(
    {},
    notRecorded(({ workspaces }) => ({
      insert: (record) => Effect.tap(workspaces.insert(record), () => workspaces.update(record.id, 1, { fence: 2 }))
    }))
  ))))

it.effect("a ledger that does not answer, and a store that does not, cost the wait for one call each", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* taking("10 seconds", problemOf(opened({ name: "ws" }))), "TimedOut")
    assert.isFalse(yield* has("/work/ws"))
  }).pipe(Effect.provide(onPorts({}, notRecorded(() => ({ insert: () => Effect.never }))))))

it.effect("a creation nobody answers stays recorded, and the barrier removes what came of it", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* taking("10 seconds", problemOf(opened({ name: "ws" }))), "TimedOut")
    assert.deepStrictEqual((yield* records).map(({ identity }) => identity), [null])
    assert.isTrue(yield* has("/work/ws"))
    assert.deepStrictEqual((yield* shutdown).workspaces.map(({ outcome }) => outcome), ["removed"])
    assert.deepStrictEqual([yield* has("/work/ws"), yield* records], [false, []])
  }).pipe(Effect.provide(onPorts({}, {
    store: (store) => ({ create: (place) => Effect.andThen(store.create(place), Effect.never) })
  }))))

it.effect("one that is being made when the runtime closes is removed by its barrier, and not handed out", () =>
  Effect.gen(function*() {
    const world = yield* World
    const making = yield* Effect.forkChild(problemOf(opened({ name: "ws" })))
    yield* world.drain
    const closing = yield* Effect.forkChild(shutdown)
    yield* world.advance("10 seconds")
    assert.deepStrictEqual((yield* Fiber.join(closing)).workspaces.map(({ outcome }) => outcome), ["removed"])
    assert.strictEqual(yield* Fiber.join(making), "RuntimeClosed")
    assert.isFalse(yield* has("/work/ws"))
    assert.strictEqual(yield* problemOf(opened()), "RuntimeClosed")
  }).pipe(Effect.provide(onPorts({}, {
    store: (store) => ({ create: (place) => Effect.delay(store.create(place), "1 second") })
  }))))

it.effect("without a store there is no workspace, and everything else works", () =>
  Effect.gen(function*() {
    assert.strictEqual(yield* problemOf(opened()), "Unsupported")
    const jobs = yield* jobsOf("s1")
    yield* jobs.start(run("server"))
    assert.isTrue((yield* shutdown).clean)
  }).pipe(Effect.provide(Layer.fresh(ProcessRuntime.layer.pipe(
    Layer.provide(ProcessLedgerMemory.layer),
    Layer.provideMerge(ScriptedDriver.layer({ children: { server: child } }))
  )))))

law(
  "a record is held by renewing its lease",
  {},
  Effect.gen(function*() {
    yield* opened()
    yield* (yield* World).advance("1 minute")
    assert.deepStrictEqual((yield* records).map(({ leaseUntil }) => leaseUntil), [90_000])
  })
)

law(
  "a workspace whose record another runtime has taken over is not removed",
  {},
  Effect.gen(function*() {
    const ledger = yield* ProcessLedger.Service
    const { release, workspace } = yield* opened()
    assert.isTrue(yield* ledger.workspaces.update(workspace.id, 1, { fence: 2 }))
    yield* release
    const report = yield* shutdown
    assert.deepStrictEqual(report.workspaces.map(({ outcome, problem }) => [outcome, problem]), [["failed", "Lost"]])
    assert.deepStrictEqual([yield* has(workspace.path), (yield* records).length], [true, 1])
  })
)

law(
  "a workspace whose record another runtime has taken over takes in nobody from the next renewal on",
  { server: child },
  Effect.gen(function*() {
    const ledger = yield* ProcessLedger.Service
    const { workspace } = yield* opened()
    yield* ledger.workspaces.update(workspace.id, 1, { fence: 2 })
    yield* (yield* World).advance("10 seconds")
    assert.strictEqual(yield* reasonOf(AppProcess.run(run("server"), { workspace })), "WorkspaceReleased")
  })
)

it.effect("a scope that ends after the runtime finds what became of its workspace, and does not wait", () =>
  Effect.gen(function*() {
    const failing = onPorts({}, { store: () => ({ remove: () => storeFailure("Denied") }) })
    const { release } = yield* Effect.provide(opened(), failing)
    yield* release
    const removed = yield* Effect.provide(opened(), onPorts({}, {}))
    yield* removed.release
  }))

/** Two lives over one ledger and one file system: what the first leaves, the second finds. */
const twoLives = <A, E, E2>(
  first: Effect.Effect<A, E, RuntimeTest.Services>,
  second: (left: A) => Effect.Effect<void, E2, RuntimeTest.Services>,
  changes: {
    readonly store?: (store: Store) => Partial<Store>
    readonly driver?: (driver: ProcessDriver.ProcessDriver) => Partial<ProcessDriver.ProcessDriver>
  }
) =>
  Effect.gen(function*() {
    const ledger = yield* ProcessLedgerMemory.make
    const shared = Deferred.makeUnsafe<Store>()
    const life = (change: (store: Store) => Partial<Store>) =>
      onPorts({ server: child }, {
        ...changes,
        ledger: () => ledger,
        store: (own) => {
          Deferred.doneUnsafe(shared, Effect.succeed(own))
          const store: Store = {
            locate: (...given) => Effect.flatMap(Deferred.await(shared), (store) => store.locate(...given)),
            create: (place) => Effect.flatMap(Deferred.await(shared), (store) => store.create(place)),
            remove: (place) => Effect.flatMap(Deferred.await(shared), (store) => store.remove(place))
          }
          return { ...store, ...change(store) }
        }
      })
    const left = yield* Effect.provide(first, life((store) => changes.store?.(store) ?? {}))
    yield* Effect.provide(second(left), life(() => ({})))
  })

const finish = (unsettled: ReadonlyArray<{ readonly id: string; readonly workspace: string | null }>, isVoid = true) =>
  Workspace.Service.use((service) => service.finish({ unsettled, isVoid: () => Effect.succeed(isVoid) }))

it.effect("a later runtime finishes what failed, once nobody unsettled works in it and its holder is gone", () =>
  twoLives(
    Effect.gen(function*() {
      const files = yield* Files
      const { workspace } = yield* opened({ owner: "s1" })
      yield* shutdown
      return { files, id: workspace.id, path: workspace.path }
    }),
    ({ files, id, path }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* finish([], false), [])
        const row = { id, owner: "s1", problem: null }
        assert.deepStrictEqual(yield* finish([{ id: "other", workspace: null }, { id: "job", workspace: id }]), [
          { ...row, outcome: "kept", by: "job" }
        ])
        assert.deepStrictEqual([yield* files.has(path), (yield* records).map(({ fence }) => fence)], [true, [1]])
        assert.deepStrictEqual(yield* finish([{ id: "other", workspace: null }]), [
          { ...row, outcome: "removed", by: null }
        ])
        assert.deepStrictEqual([yield* files.has(path), yield* records, yield* finish([])], [false, [], []])
      }),
    { store: () => ({ remove: () => storeFailure("Busy") }) }
  ))

it.effect("what cannot be finished either is this runtime's, and in its report", () =>
  Effect.gen(function*() {
    const files = yield* Files
    const { workspaces } = yield* ProcessLedger.Service
    const { release, workspace } = yield* opened({ name: "ws" })
    const [record = assert.fail("no record")] = yield* records
    yield* release
    // As another runtime has left it, and then somebody put another directory there.
    yield* workspaces.insert(record)
    yield* files.makeDirectory("/work/ws")
    const row = { id: workspace.id, owner: null, outcome: "failed" as const, problem: "Refused", by: null }
    assert.deepStrictEqual(yield* finish([]), [row])
    assert.deepStrictEqual(yield* finish([]), [])
    assert.deepStrictEqual((yield* shutdown).workspaces, [row])
    assert.deepStrictEqual([yield* has("/work/ws"), (yield* records).map(({ fence }) => fence)], [true, [2]])
  }).pipe(Effect.provide(onPorts({}, {}))))

it.effect("a runtime without a store leaves a record as it is, to one that has a store", () =>
  Effect.gen(function*() {
    const { workspaces } = yield* ProcessLedger.Service
    const record = LedgerLaws.workspace("w-1", { guests: [] })
    yield* workspaces.insert(record)
    assert.deepStrictEqual((yield* finish([])).map(({ outcome, problem }) => [outcome, problem]), [
      ["failed", "Unsupported"]
    ])
    assert.deepStrictEqual(yield* records, [record])
  }).pipe(Effect.provide(Layer.fresh(ProcessRuntime.layer.pipe(
    Layer.provideMerge(ProcessLedgerMemory.layer),
    Layer.provide(ScriptedDriver.layer({ children: {} }))
  )))))

it.effect("a record that cannot be taken over, or is another's by then, is left as it is", () => {
  let answer: ReturnType<Ledger["workspaces"]["update"]> = denied
  return Effect.gen(function*() {
    const { workspaces } = yield* ProcessLedger.Service
    const record = LedgerLaws.workspace("w-1", { guests: [] })
    yield* workspaces.insert(record)
    assert.deepStrictEqual(yield* finish([]), [])
    answer = Effect.succeed(false)
    assert.deepStrictEqual(yield* finish([]), [])
    assert.deepStrictEqual(yield* records, [record])
  }).pipe(Effect.provide(onPorts({}, notRecorded(() => ({ update: () => answer })))))
})

it.effect("of two runtimes that finish one at once, one does it", () =>
  Effect.gen(function*() {
    const { workspaces } = yield* ProcessLedger.Service
    const { release } = yield* opened({ name: "ws" })
    const [record = assert.fail("no record")] = yield* records
    yield* release
    yield* workspaces.insert(record)
    const rows = yield* Effect.all([finish([]), finish([])], { concurrency: "unbounded" })
    assert.deepStrictEqual(rows.flat().map(({ outcome }) => outcome), ["removed"])
  }).pipe(Effect.provide(onPorts({}, {}))))

const boot = { pid: 1, startedAt: 1, bootId: "this boot", marker: "" }

for (
  const [what, members, complete, outcome] of [
    ["lives", 1, true, "kept"],
    ["is gone", 0, true, "removed"],
    ["cannot be looked for", 0, false, "kept"]
  ] as const
) {
  it.effect(`a process without a row is recorded with its workspace before it starts, and found by it when it ${what}`, () => {
    let asked: ReadonlyArray<string> = []
    return Effect.gen(function*() {
      const { workspaces } = yield* ProcessLedger.Service
      const { release, workspace } = yield* opened({ name: "ws" })
      const handle = yield* AppProcess.spawn(run("server"), { workspace })
      const [record = assert.fail("no record")] = yield* records
      assert.deepStrictEqual(record.guests.map(({ bootId, pid }) => [bootId, pid]), [["this boot", 0]])
      yield* taking("1 second", handle.terminate())
      yield* release
      yield* workspaces.insert(record)
      assert.deepStrictEqual((yield* finish([])).map((row) => row.outcome), [outcome])
      assert.deepStrictEqual(asked, record.guests.map(({ marker }) => marker))
    }).pipe(
      Effect.scoped,
      Effect.provide(onPorts({ server: child }, {
        driver: (driver) => ({
          self: boot,
          look: (roots) => {
            if (roots.some(({ pid }) => pid !== 0)) return driver.look(roots)
            asked = roots.map(({ marker }) => marker)
            const member = { pid: 9, startedAt: 1, parent: 1, group: 9, session: 9, state: "S", name: "server" }
            return Effect.succeed(roots.map((root) => ({
              root,
              leader: "gone" as const,
              members: Array.from({ length: members }, () => member),
              occupied: [],
              complete
            })))
          }
        })
      }))
    )
  })
}

for (
  const [what, self, bootId, outcome] of [
    ["of this boot is asked for, and keeps it while nobody can tell", boot, "this boot", "kept"],
    ["of another boot is gone", boot, "the boot before", "removed"],
    ["of no boot keeps it", boot, "", "kept"],
    ["keeps it where this platform knows no boot", null, "this boot", "kept"]
  ] as const
) {
  it.effect(`a process without a row ${what}`, () =>
    Effect.gen(function*() {
      const { workspaces } = yield* ProcessLedger.Service
      const { release } = yield* opened({ name: "ws" })
      const [record = assert.fail("no record")] = yield* records
      yield* release
      yield* workspaces.insert({ ...record, guests: [{ pid: 0, startedAt: 0, bootId, marker: "m" }] })
      const rows = yield* taking("10 seconds", finish([]))
      assert.deepStrictEqual(rows.map((row) => row.outcome), [outcome])
    }).pipe(Effect.provide(onPorts({}, { driver: () => ({ self, look: () => Effect.never }) }))))
}

it.effect("a process works in a workspace also on a platform that knows no boot, and is taken for alive by later lives", () =>
  Effect.gen(function*() {
    const { workspace } = yield* opened()
    yield* AppProcess.spawn(run("server"), { workspace })
    assert.deepStrictEqual((yield* records).flatMap(({ guests }) => guests.map(({ bootId }) => bootId)), [""])
  }).pipe(Effect.scoped, Effect.provide(onPorts({ server: child }, { driver: () => ({ self: null }) }))))

it.effect("a process whose use of a workspace cannot be recorded is not started", () =>
  Effect.gen(function*() {
    const world = yield* World
    const { workspace } = yield* opened()
    assert.strictEqual(yield* reasonOf(AppProcess.run(run("server"), { workspace })), "WorkspaceError")
    assert.strictEqual(yield* world.spawned, 0)
  }).pipe(Effect.provide(onPorts(
    { server: child },
    notRecorded(({ workspaces }) => ({
      update: (id, fence, changes) => changes.guests ? denied : workspaces.update(id, fence, changes)
    }))
  ))))
