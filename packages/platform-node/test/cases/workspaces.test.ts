/** Directories that processes work in: none is removed under somebody, and nothing is removed but what was made. */
import { assert, describe, it } from "@effect/vitest"
import { NodeProcessRuntime, NodeWorkspaceStore } from "@procyon/platform-node"
import {
  AppProcess,
  BackgroundProcess,
  CommandSpec,
  ProcessLedger,
  Recovery,
  type ShutdownBarrier,
  Workspace,
  WorkspaceStore
} from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import {
  directory,
  fifo,
  holdByTracer,
  host,
  isLiving,
  live,
  living,
  newTag,
  runtime,
  type Services,
  until,
  untilLiving,
  writeInto
} from "../support/processes.ts"

const leavingHost = new URL("../support/hosts/leaving.ts", import.meta.url)

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))
const records = ProcessLedger.Service.use(({ workspaces }) => workspaces.list())

/** What a runtime was seen to do: its report, and who was alive whenever a directory was removed. */
interface Watched {
  readonly tag: string
  readonly root: string
  readonly reports: ReadonlyArray<ShutdownBarrier.ShutdownReport>
  readonly atRemoval: ReadonlyArray<ReadonlyArray<string>>
}

/** Runs the body on a runtime of its own, and `after` when that is closed. */
const watched = <A, E>(
  body: (watched: Watched) => Effect.Effect<A, E, Services | Scope.Scope>,
  after: (watched: Watched, left: A) => void
) =>
  Effect.scoped(Effect.gen(function*() {
    const tag = yield* newTag
    const root = fs.realpathSync(yield* directory)
    const reports: Array<ShutdownBarrier.ShutdownReport> = []
    const atRemoval: Array<ReadonlyArray<string>> = []
    const store = Layer.effect(
      WorkspaceStore.Service,
      Effect.map(NodeWorkspaceStore.make, (real) => ({
        ...real,
        remove: (place: WorkspaceStore.Place) =>
          Effect.suspend(() => {
            atRemoval.push(living(tag).map(({ name }) => name))
            return real.remove(place)
          })
      }))
    )
    const seen = { tag, root, reports, atRemoval }
    const layer = runtime({}, (report) => reports.push(report), store)
    const left = yield* body(seen).pipe(Effect.scoped, Effect.provide(layer))
    after(seen, left)
    return left
  }))

const rows = ({ reports }: Watched) =>
  reports.flatMap(({ workspaces }) => workspaces.map(({ by, outcome, problem }) => ({ by, outcome, problem })))

describe("a silent child that a successful leader leaves behind", () => {
  it.live("K05 keeps the workspace until it has been ended", () =>
    watched(({ atRemoval, root, tag }) =>
      Effect.gen(function*() {
        const go = yield* fifo
        const scope = yield* Scope.make()
        const { handle, workspace } = yield* Scope.provide(
          Effect.gen(function*() {
            const workspace = yield* Workspace.acquire({ root })
            const script = `sleep 300.${tag} >/dev/null 2>&1 & read go < ${go}; exit 0`
            return { workspace, handle: yield* AppProcess.spawn(CommandSpec.shell(script), { workspace }) }
          }),
          scope
        )
        yield* untilLiving(tag, "sh", "sleep")
        yield* writeInto(go, "now")
        assert.deepStrictEqual(yield* handle.exit, { code: 0, signal: null })
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual([living(tag), atRemoval], [[], [[]]])
        assert.strictEqual((yield* handle.termination).status, "completed")
        assert.deepStrictEqual([fs.existsSync(workspace.path), yield* records], [false, []])
      }), (seen) => assert.deepStrictEqual(rows(seen), [])))
})

describe("a process that takes SIGKILL and stays", () => {
  live(
    "K08 keeps its released workspace, which goes once it is let go",
    ["strace"],
    () =>
      watched(({ atRemoval, root, tag }) =>
        Effect.gen(function*() {
          const jobs = yield* jobsOf("a")
          const scope = yield* Scope.make()
          const workspace = yield* Scope.provide(Workspace.acquire({ root }), scope)
          const { id } = yield* jobs.start(CommandSpec.make("sleep", [`30.${tag}`]), { workspace })
          const [child = assert.fail("no child")] = yield* untilLiving(tag, "sleep")
          const letGo = yield* holdByTracer(child.pid)
          assert.strictEqual((yield* jobs.stop(id)).status, "kill_failed")
          yield* Scope.close(scope, Exit.void)
          assert.isTrue(isLiving(child))
          assert.deepStrictEqual((yield* records).map((record) => record.id), [workspace.id])
          assert.deepStrictEqual([fs.existsSync(workspace.path), atRemoval], [true, []])
          yield* letGo
          yield* until("its record is gone", Effect.map(records, (left) => left.length === 0))
          assert.strictEqual((yield* jobs.get(id)).status, "cancelled")
          assert.deepStrictEqual([fs.existsSync(workspace.path), atRemoval], [false, [[]]])
        }), (seen) => assert.deepStrictEqual(rows(seen), []))
  )
})

describe("cleaning up where links lead elsewhere", () => {
  const outsideOf = (root: string) => {
    const outside = path.join(root, "outside")
    fs.mkdirSync(path.join(outside, "ws"), { recursive: true })
    fs.writeFileSync(path.join(outside, "ws", "kept"), "")
    return outside
  }

  it.live("K37 leaves a link that has taken the workspace's place, and what it names", () =>
    watched(({ root }) =>
      Effect.gen(function*() {
        const outside = outsideOf(root)
        const workspace = yield* Workspace.acquire({ root, name: "ws" })
        const command = CommandSpec.shell("cd /; mv \"$WS\" \"$WS-moved\" && ln -s \"$OUT\" \"$WS\"", {
          env: { WS: workspace.path, OUT: outside }
        })
        assert.strictEqual((yield* AppProcess.run(command, { workspace })).info.status, "completed")
        return { outside, workspace }
      }), (seen, { outside, workspace }) => {
      assert.deepStrictEqual(rows(seen), [{ by: null, outcome: "failed", problem: "Refused" }])
      assert.isTrue(fs.lstatSync(workspace.path).isSymbolicLink())
      assert.deepStrictEqual(fs.readdirSync(path.join(outside, "ws")), ["kept"])
      assert.isTrue(fs.existsSync(`${workspace.path}-moved`))
    }))

  it.live("K37 removes nothing for a record whose path leads through a link, or only begins like its root", () =>
    watched(({ root }) =>
      Effect.gen(function*() {
        const outside = outsideOf(root)
        const { workspaces } = yield* ProcessLedger.Service
        const inside = path.join(root, "r")
        fs.mkdirSync(inside)
        fs.symlinkSync("../outside", path.join(inside, "link"))
        fs.mkdirSync(path.join(root, "r-evil"))
        yield* Effect.scoped(Workspace.acquire({ root: inside }))
        const made = yield* Effect.scoped(Effect.andThen(Workspace.acquire({ root: inside }), records))
        const [record = assert.fail("no record")] = made
        const identityOf = (at: string) => {
          const { dev, ino } = fs.statSync(at, { bigint: true })
          return { device: `${dev}`, inode: `${ino}` }
        }
        const paths = [path.join(inside, "link", "ws"), path.join(root, "r-evil"), outside]
        for (const [index, at] of paths.entries()) {
          // Even the identity is right.
          yield* workspaces.insert({ ...record, id: `${index}`, path: at, identity: identityOf(at) })
        }
        const { finish } = yield* Workspace.Service
        const finished = yield* finish({ unsettled: [], isVoid: () => Effect.succeed(true) })
        assert.deepStrictEqual(finished.map(({ outcome, problem }) => [outcome, problem]), [
          ["failed", "Refused"],
          ["failed", "Refused"],
          ["failed", "Refused"]
        ])
        return outside
      }), (seen, outside) => {
      assert.deepStrictEqual(rows(seen).map(({ outcome }) => outcome), ["failed", "failed", "failed"])
      assert.deepStrictEqual(fs.readdirSync(seen.root).toSorted(), ["outside", "r", "r-evil"])
      assert.deepStrictEqual(fs.readdirSync(path.join(seen.root, "r")), ["link"])
      assert.deepStrictEqual(fs.readdirSync(path.join(outside, "ws")), ["kept"])
    }))
})

describe("a workspace whose process brings removed directories back", () => {
  const command = (tag: string, ws: string) =>
    CommandSpec.shell(
      `trap 'mkdir -p "$WS/reborn"' TERM; echo ready > started; while :; do sleep 0.1; mkdir -p "$WS/again"; done #${tag}`,
      { env: { WS: ws } }
    )

  it.live("K38 is removed after the whole tree is gone, and does not come back", () =>
    watched(({ root, tag }) =>
      Effect.gen(function*() {
        const jobs = yield* jobsOf("a")
        const workspace = yield* Workspace.acquire({ root })
        yield* jobs.start(command(tag, workspace.path), { workspace })
        yield* until("it is ready", () => fs.existsSync(path.join(workspace.path, "started")))
        return workspace
      }), (seen, workspace) => {
      assert.deepStrictEqual(living(seen.tag), [])
      assert.deepStrictEqual(seen.atRemoval, [[]])
      assert.deepStrictEqual(rows(seen), [{ by: null, outcome: "removed", problem: null }])
      assert.isFalse(fs.existsSync(workspace.path))
      assert.deepStrictEqual(fs.readdirSync(seen.root), [])
    }))

  live(
    "K38 stays, recorded and told of, when a shutdown cannot end its process",
    ["strace"],
    () =>
      Effect.gen(function*() {
        // Acquired before the runtime, so that it is held until the runtime is closed.
        const tracing = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
        const { ledger, workspace } = yield* watched(({ root, tag }) =>
          Effect.gen(function*() {
            const jobs = yield* jobsOf("a")
            const scope = yield* Scope.make()
            const workspace = yield* Scope.provide(Workspace.acquire({ root, owner: "a" }), scope)
            const { id } = yield* jobs.start(CommandSpec.make("sleep", [`30.${tag}`]), { workspace })
            const [child = assert.fail("no child")] = yield* untilLiving(tag, "sleep")
            yield* Effect.asVoid(Scope.provide(holdByTracer(child.pid), tracing))
            return { child, id, workspace, ledger: yield* ProcessLedger.Service }
          }), (seen, { child, id, workspace }) => {
          assert.isTrue(isLiving(child))
          assert.deepStrictEqual(rows(seen), [{ by: id, outcome: "kept", problem: null }])
          assert.deepStrictEqual(seen.reports.map(({ clean }) => clean), [false])
          assert.deepStrictEqual(seen.atRemoval, [])
          assert.isTrue(fs.existsSync(workspace.path))
        })
        const left = yield* ledger.workspaces.list()
        assert.deepStrictEqual(left.map((record) => record.path), [workspace.path])
      })
  )
})

describe("a workspace of an application that was killed", () => {
  interface Left {
    readonly id: string
    readonly job: string
    readonly path: string
  }

  /** Runs the body in a later life of an application that was killed while a process worked in its workspace. */
  const afterKill = <E>(
    how: "job" | "scope",
    body: (left: Left, tag: string) => Effect.Effect<void, E, Services>
  ) =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const [state, root] = [yield* directory, fs.realpathSync(yield* directory)]
      const leaving = yield* host<Left>(leavingHost, [state, root, `300.${tag}`, how])
      const left = yield* leaving.line
      fs.writeFileSync(path.join(left.path, "left"), "")
      yield* leaving.kill
      yield* body(left, tag).pipe(Effect.provide(Layer.fresh(Layer.merge(
        NodeProcessRuntime.layerDurable({ directory: state }),
        NodeProcessRuntime.layerLedger({ directory: state })
      ))))
      assert.deepStrictEqual(fs.readdirSync(root), [])
    })

  it.live("is removed by the next life, once the job that worked in it was ended", () =>
    afterKill("job", ({ id, job }, tag) =>
      Effect.gen(function*() {
        const report = yield* Recovery.Service.use((recovery) => recovery.started)
        assert.deepStrictEqual(report.entries.map(({ id, outcome }) => [id, outcome]), [[job, "ended"]])
        assert.deepStrictEqual(report.workspaces, [{ id, owner: "host", outcome: "removed", problem: null, by: null }])
        assert.deepStrictEqual(living(tag), [])
        assert.deepStrictEqual(yield* records, [])
      })))

  it.live("stays while a process without a row lives there, which is found by its marker", () =>
    afterKill("scope", ({ id, path: at }, tag) =>
      Effect.gen(function*() {
        const row = { id, owner: "host", by: null }
        const recovery = yield* Recovery.Service
        const [child = assert.fail("no child")] = living(tag)
        assert.deepStrictEqual((yield* recovery.started).workspaces, [{ ...row, outcome: "kept", problem: "Busy" }])
        assert.isTrue(fs.existsSync(path.join(at, "left")))
        process.kill(child.pid, "SIGKILL")
        yield* until("it has gone", () => !isLiving(child))
        assert.deepStrictEqual((yield* recovery.reconcile).workspaces, [{ ...row, outcome: "removed", problem: null }])
      })))
})
