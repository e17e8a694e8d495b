import { assert, describe, it } from "@effect/vitest"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import type * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as Settings from "@procyon/runtime/services/Settings"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import { RuntimeLaws, RuntimeTest, ScriptedDriver, World } from "@procyon/testing"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { assertAllRefuted, refuted } from "./refuted.ts"
import { children, options } from "./vices.ts"

type Runtime = Layer.Layer<ProcessRuntime.ProcessRuntime | World>

const full: RuntimeLaws.Options<World> = { ...options, living: World.use((world) => world.alive) }

RuntimeLaws.runtimeLaws("a runtime on the scripted driver", RuntimeTest.layer({ children }), full)

const less = { ...ScriptedDriver.capabilities, sessions: false, marker: false, wholeTree: "group-only" } as const

const reduced: RuntimeLaws.Options<World> = {
  ...full,
  capabilities: less,
  programs: { ...options.programs, polite: { missing: "no polite children here" } }
}

RuntimeLaws.runtimeLaws(
  "a runtime on a driver that sees less",
  RuntimeTest.layer({ children, capabilities: less }),
  reduced
)

it("a law that cannot be shown says which capability or program is missing, and all others are run", () => {
  const skips = RuntimeLaws.laws(reduced).flatMap(({ name, skipped }) => skipped === null ? [] : [[name, skipped]])
  assert.deepStrictEqual(skips, [
    ["a child that ends itself politely is not forced, and all it says is kept", "no polite children here"],
    ["a child that passes its output cap is ended as cancelled", "no polite children here"],
    ["one that answers the signal keeps its exit and its last words", "no polite children here"],
    ["a member that has left the group is ended with its leader", "no sessions"],
    ["a member that has left the session is ended with its leader", "no sessions"],
    ["members that nobody waits for when they die are no survivors", "no sessions"],
    ["a daemon that has left for good is ended after its leader, and told", "no marker"],
    ["a follower waits for what comes, and ends when the job does", "no polite children here"],
    ["who has left the tree for good is ended too", "no marker"]
  ])
  assert.deepStrictEqual(RuntimeLaws.laws(full).filter(({ skipped }) => skipped !== null), [])
})

interface Services {
  readonly app: AppProcess.AppProcess
  readonly background: BackgroundProcess.BackgroundProcess
  readonly barrier: ShutdownBarrier.ShutdownBarrier
}

/** A runtime with some of its services replaced. */
const withServices = (change: (services: Services) => Partial<Services>): Runtime =>
  Layer.effectContext(Effect.gen(function*() {
    const context = yield* Effect.context<ProcessRuntime.ProcessRuntime | World>()
    const services = {
      app: Context.get(context, AppProcess.Service),
      background: Context.get(context, BackgroundProcess.Service),
      barrier: Context.get(context, ShutdownBarrier.Service)
    }
    const { app, background, barrier } = { ...services, ...change(services) }
    return context.pipe(
      Context.add(AppProcess.Service, app),
      Context.add(BackgroundProcess.Service, background),
      Context.add(ShutdownBarrier.Service, barrier)
    )
  })).pipe(Layer.provide(RuntimeTest.layer({ children })))

const withApp = (change: (app: AppProcess.AppProcess) => Partial<AppProcess.AppProcess>): Runtime =>
  withServices(({ app }) => ({ app: { ...app, ...change(app) } }))

/** Every run answers otherwise. */
const withResult = (change: (result: AppProcess.RunResult) => Partial<AppProcess.RunResult>): Runtime =>
  withApp((app) => ({
    run: (command, options) => Effect.map(app.run(command, options), (result) => ({ ...result, ...change(result) }))
  }))

/** Every command is run and spawned with other options. */
const withOptions = (change: AppProcess.Options): Runtime =>
  withApp((app) => ({
    run: (command, options) => app.run(command, { ...options, ...change }),
    spawn: (command, options) => app.spawn(command, { ...options, ...change })
  }))

const withHandle = (change: (handle: AppProcess.Handle) => Partial<AppProcess.Handle>): Runtime =>
  withApp((app) => ({
    spawn: (command, options) =>
      Effect.map(app.spawn(command, options), (handle) => ({
        id: handle.id,
        info: handle.info,
        output: handle.output,
        stderr: handle.stderr,
        write: (data) => handle.write(data),
        closeStdin: handle.closeStdin,
        retrySpill: handle.retrySpill,
        exit: handle.exit,
        termination: handle.termination,
        terminate: (options) => handle.terminate(options),
        ...change(handle)
      }))
  }))

const withJobs = (change: (jobs: BackgroundProcess.Jobs) => Partial<BackgroundProcess.Jobs>): Runtime =>
  withServices(({ background }) => {
    const changed = (jobs: BackgroundProcess.Jobs) => ({ ...jobs, ...change(jobs) })
    return {
      background: {
        ...background,
        of: (owner) => changed(background.of(owner)),
        scoped: (owner) => Effect.map(background.scoped(owner), changed)
      }
    }
  })

const withView = (change: (view: BackgroundProcess.View) => Partial<BackgroundProcess.View>): Runtime =>
  withJobs((jobs) => ({ output: (id) => Effect.map(jobs.output(id), (view) => ({ ...view, ...change(view) })) }))

const withBarrier = (
  change: (barrier: ShutdownBarrier.ShutdownBarrier) => Partial<ShutdownBarrier.ShutdownBarrier>
): Runtime => withServices(({ barrier }) => ({ barrier: { ...barrier, ...change(barrier) } }))

const withDriver = (change: (driver: ProcessDriver.ProcessDriver) => Partial<ProcessDriver.ProcessDriver>): Runtime =>
  RuntimeTest.layer({
    children,
    driver: Layer.effect(
      ProcessDriver.Service,
      Effect.map(ProcessDriver.Service, (driver) => ({ ...driver, ...change(driver) }))
    )
  })

const withLook = (change: (look: ProcessDriver.TreeLook) => Partial<ProcessDriver.TreeLook>): Runtime =>
  withDriver((driver) => ({
    look: (roots) => Effect.map(driver.look(roots), (looks) => looks.map((look) => ({ ...look, ...change(look) })))
  }))

/** Goes on in a fiber of its own, so interrupting who waits ends only the wait. */
const apart = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.flatMap(Effect.forkDetach(effect), Fiber.join)

const unforced = () =>
  withDriver((driver) => ({
    signal: (root, targets, signal) => signal === "SIGKILL" ? Effect.succeed([]) : driver.signal(root, targets, signal)
  }))

const impolite = () =>
  withDriver((driver) => ({
    signal: (root, targets) => driver.signal(root, targets, "SIGKILL")
  }))

/** Nobody of a tree is found once its leader is gone, which is when it takes the marker. */
const blindToDaemons = () => withLook((look) => look.leader === "alive" ? {} : { members: [], occupied: [] })

/** Claims that everybody is gone who was asked to. */
const trusting = () =>
  withDriver((driver) => ({
    look: (roots) =>
      Effect.succeed(roots.map((root) => ({ root, leader: "gone", members: [], occupied: [], complete: true }))),
    occupied: () => false,
    signal: () => Effect.succeed([]),
    spawn: (request) => Effect.tap(driver.spawn(request), () => Effect.void)
  }))

/** Runtimes with one fault each, and the law that has to catch it. */
const faulty: ReadonlyArray<readonly [fault: string, law: string, runtime: () => Runtime]> = [
  [
    "loses what is said to stderr",
    "a run answers with the output, the exit and a receipt that proves the end",
    () => withResult(() => ({ stderr: "" }))
  ],
  [
    "takes every end for a success",
    "another exit code is a value and no error",
    () => withResult(({ info }) => ({ info: { ...info, status: "completed", exit: { code: 0, signal: null } } }))
  ],
  [
    "tells signals as a shell does",
    "a signal that ended the child is told as the system gave it",
    () => withResult(({ info }) => ({ info: { ...info, exit: { code: 137, signal: null } } }))
  ],
  [
    "keeps streams apart that are to be merged",
    "merged streams are one, in their order",
    () => withOptions({ streams: "separate" })
  ],
  [
    "keeps less than was asked for",
    "every byte is counted, hashed and kept",
    () => withOptions({ output: { limit: 1_000 } })
  ],
  [
    "keeps more than was asked for",
    "what memory does not keep is counted and hashed all the same",
    () => withOptions({ output: { limit: 1_000_000 } })
  ],
  [
    "tells every failed start the same way",
    "an unknown command: nothing is started, and told as CommandNotFound",
    () =>
      withDriver((driver) => ({
        spawn: (request) =>
          Effect.mapError(driver.spawn(request), () => new ProcessDriver.SpawnFailed({ problem: "Other", code: null }))
      }))
  ],
  [
    "reads nonsense as none",
    "a command and a policy that mean nothing are refused before anything is started",
    () => withOptions({ deadline: undefined, grace: undefined, output: {} })
  ],
  [
    "forgets the scope of a spawn",
    "a spawned process is listed while its scope is open, and proven gone when that is closed",
    () =>
      withApp((app) => ({
        spawn: (command, options) =>
          Effect.flatMap(Scope.make(), (scope) => Scope.provide(app.spawn(command, options), scope))
      }))
  ],
  [
    "has handles that forget how it ended",
    "a handle goes on answering when its scope is closed",
    () => withHandle(() => ({ exit: Effect.succeed(null) }))
  ],
  [
    "asks nobody politely",
    "a child that ends itself politely is not forced, and all it says is kept",
    impolite
  ],
  ["never forces", "a child that ignores the stop signal is forced when its grace is over", unforced],
  [
    "knows no hurry",
    "to be ended now is to be spared no grace",
    () => withHandle((handle) => ({ terminate: () => handle.terminate() }))
  ],
  [
    "lets an interrupted run go on",
    "an interrupted run has ended its tree",
    () => withApp((app) => ({ run: (command, options) => apart(app.run(command, options)) }))
  ],
  [
    "lets an interrupted start go on",
    "an interrupted start leaves nobody, at whatever turn",
    () => withApp((app) => ({ run: (command, options) => apart(app.run(command, options)) }))
  ],
  ["knows no deadline", "a deadline ends the tree as timed_out", () => withOptions({ deadline: undefined })],
  [
    "knows no idle deadline",
    "a child that says nothing for its idle deadline is ended as timed_out",
    () => withOptions({ idleDeadline: undefined })
  ],
  ["knows no cap", "a child that passes its output cap is ended as cancelled", () => withOptions({ output: {} })],
  [
    "does not close stdin",
    "what is written to stdin arrives, and closing it ends the child's input",
    () => withHandle(() => ({ closeStdin: Effect.void }))
  ],
  [
    "feeds no input",
    "a command that brings its input is fed all of it",
    () =>
      withApp((app) => ({
        run: (command, options) =>
          app.run(command._tag === "CommandSpec" ? { ...command, options: {} } : command, options)
      }))
  ],
  [
    "takes input for nobody",
    "who writes to a process that has ended, or never had an input, is told",
    () => withHandle((handle) => ({ write: (data) => Effect.ignore(handle.write(data)) }))
  ],
  [
    "keeps leftovers",
    "what a leader leaves behind is ended after it, and told",
    () => withOptions({ leftovers: "keep" })
  ],
  [
    "keeps who holds the output",
    "a leftover that holds the output ends too, and what was said is kept",
    () => withOptions({ leftovers: "keep" })
  ],
  [
    "lists a job once it has ended",
    "a started job is listed at once, and its end is told by its row",
    () =>
      withJobs((jobs) => ({
        list: Effect.map(jobs.list, (list) => list.filter(({ status }) => status !== "running"))
      }))
  ],
  [
    "lists the last job first",
    "jobs are listed in the order of their starts",
    () => withJobs((jobs) => ({ list: Effect.map(jobs.list, (list) => list.toReversed()) }))
  ],
  [
    "takes all owners for one",
    "an owner sees its own jobs only: another's are as if they were not",
    () => withServices(({ background }) => ({ background: { ...background, of: () => background.of("one") } }))
  ],
  [
    "answers for a start that failed",
    "an unknown command: the start fails with CommandNotFound, and there is no job and no notice",
    () =>
      withJobs((jobs) => ({
        start: (command, options) =>
          Effect.mapError(jobs.start(command, options), (error) =>
            new BackgroundProcess.StartError({ command: error.command, reason: new BackgroundProcess.NotRecorded() }))
      }))
  ],
  [
    "hides the job of an interrupted start",
    "an interrupted start leaves a listed job or nothing, at whatever turn",
    () => withJobs(() => ({ list: Effect.succeed([]) }))
  ],
  [
    "gives a name twice",
    "a name that is taken fails the start, or joins it, and is free when its job has ended",
    () => withJobs((jobs) => ({ start: (command, options) => jobs.start(command, { ...options, name: undefined }) }))
  ],
  [
    "starts as many as are asked for",
    "an owner has so many running jobs and no more, until one has ended",
    () => RuntimeTest.layer({ children, settings: { ...RuntimeLaws.settings, maxRunningPerOwner: 0 } })
  ],
  [
    "forgets nothing",
    "a forgotten job is found no more, and who holds its output reads on",
    () => withJobs(() => ({ forget: () => Effect.succeed(true) }))
  ],
  [
    "takes half of what is written",
    "stdin of a job is written in order and closed",
    () => withJobs((jobs) => ({ write: (id, data) => jobs.write(id, data.slice(0, 2)) }))
  ],
  [
    "trusts a signal that was sent",
    "a stopped job is proven gone and cancelled, and stopping it again changes nothing",
    trusting
  ],
  [
    "never forces",
    "to stop one that ignores the signal is to force it: cancelled, and the receipt says how",
    unforced
  ],
  [
    "knows no hurry",
    "to stop it now overtakes whoever waits for its grace",
    () => withJobs((jobs) => ({ stop: (id) => jobs.stop(id) }))
  ],
  [
    "asks nobody politely",
    "one that answers the signal keeps its exit and its last words",
    impolite
  ],
  ["answers who waits at once", "all who stop and wait share one end", () => withJobs((jobs) => ({ wait: jobs.get }))],
  [
    "ends a job with who waits for it",
    "interrupting who waits or stops does nothing to the job but what was asked",
    () =>
      withJobs((jobs) => ({
        wait: (id) => Effect.onInterrupt(jobs.wait(id), () => Effect.ignore(jobs.stop(id)))
      }))
  ],
  [
    "stops everybody's",
    "to stop all is to stop those of one owner",
    () =>
      withServices(({ background }) => ({
        background: {
          ...background,
          of: (owner) => ({
            ...background.of(owner),
            stopAll: Effect.andThen(background.of("other").stopAll, background.of(owner).stopAll)
          })
        }
      }))
  ],
  [
    "knows no deadline",
    "a deadline ends a job as timed_out",
    () =>
      withJobs((jobs) => ({ start: (command, options) => jobs.start(command, { ...options, deadline: undefined }) }))
  ],
  [
    "moves no deadline",
    "a deadline can be moved, and taken away",
    () => withJobs((jobs) => ({ extend: (id) => jobs.get(id) }))
  ],
  [
    "retires nobody",
    "a retired owner has its jobs ended but those of the application, and starts nothing",
    () =>
      withServices(({ background }) => ({
        background: { ...background, scoped: (owner) => Effect.sync(() => background.of(owner)) }
      }))
  ],
  [
    "finds nobody that left the group",
    "a member that has left the group is ended with its leader",
    () => withLook((look) => ({ members: look.members.filter(({ group }) => group === look.root.pid) }))
  ],
  [
    "finds nobody that left the session",
    "a member that has left the session is ended with its leader",
    () => withLook((look) => ({ members: look.members.filter(({ session }) => session === look.root.pid) }))
  ],
  [
    "ends leaders only",
    "members that nobody waits for when they die are no survivors",
    () => withLook((look) => ({ members: look.members.filter(({ pid }) => pid === look.root.pid) }))
  ],
  [
    "takes the dead for survivors",
    "a member that is long dead is no survivor",
    () =>
      withLook((look) => ({ members: [...look.members, { ...dead, group: look.root.pid, session: look.root.pid }] }))
  ],
  [
    "forgets the tree with its leader",
    "a daemon that has left for good is ended after its leader, and told",
    blindToDaemons
  ],
  [
    "tells an end to whoever asks",
    "each end is told once, with how it went",
    () => {
      const told: Array<BackgroundProcess.Notice> = []
      return withJobs((jobs) => ({
        notices: Effect.map(jobs.notices, () => told),
        awaitNotices: Effect.map(jobs.awaitNotices, (notices) => (told.push(...notices), notices))
      }))
    }
  ],
  [
    "tells an end to all who wait",
    "of two who wait for a notice one gets it, and who was interrupted has taken none",
    () => {
      const first = Deferred.makeUnsafe<ReadonlyArray<BackgroundProcess.Notice>>()
      return withJobs((jobs) => ({
        awaitNotices: Effect.andThen(
          Effect.forkDetach(Effect.flatMap(jobs.awaitNotices, (notices) => Deferred.succeed(first, notices))),
          Deferred.await(first)
        )
      }))
    }
  ],
  [
    "takes notices before they are seen",
    "notices that were not seen come again, and say so; those that were do not",
    () => withJobs((jobs) => ({ consumeNotices: (use) => Effect.flatMap(jobs.awaitNotices, use) }))
  ],
  [
    "tells events twice",
    "events come in order, each once, and nothing after the end",
    () => withJobs((jobs) => ({ events: Stream.flatMap(jobs.events, (event) => Stream.make(event, event)) }))
  ],
  [
    "has one observer at a time",
    "an observer that dies or hangs changes nothing for the job or for another observer",
    () =>
      withServices(({ background }) => {
        let isObserved = false
        return {
          background: {
            ...background,
            observe: (observer) =>
              Effect.suspend(() => {
                if (isObserved) return Effect.void
                isObserved = true
                return background.observe(observer)
              })
          }
        }
      })
  ],
  [
    "follows from the beginning only",
    "a follower reads everything, from wherever it begins and whenever it comes, and ends",
    () => withView((view) => ({ followBytes: () => view.followBytes() }))
  ],
  [
    "ends a follower with what there is",
    "a follower waits for what comes, and ends when the job does",
    () => withView((view) => ({ follow: (options) => Stream.fromEffect(view.read(options)) }))
  ],
  [
    "reports jobs only",
    "all are ended, of every owner and lifetime, and each is reported",
    () =>
      withBarrier((barrier) => ({
        shutdown: (mode) =>
          Effect.map(barrier.shutdown(mode), (report) => ({
            ...report,
            rows: report.rows.filter(({ owner }) => owner !== null)
          }))
      }))
  ],
  [
    "does not say why nothing is started any more",
    "nothing is started any more, and whoever tries is told",
    () =>
      withApp((app) => ({
        run: (command, options) =>
          Effect.mapError(app.run(command, options), (error) =>
            new AppProcess.SpawnError({ command: error.command, reason: new AppProcess.StartWithdrawn() }))
      }))
  ],
  [
    "has a report for each who asks",
    "all who ask share one barrier and its report, also afterwards",
    () => {
      let asked = 0
      return withBarrier((barrier) => ({
        shutdown: (mode) => Effect.map(barrier.shutdown(mode), (report) => ({ ...report, durationMillis: asked++ }))
      }))
    }
  ],
  [
    "closes for who waits for the report",
    "waiting for the report begins nothing",
    () => withBarrier((barrier) => ({ report: barrier.shutdown() }))
  ],
  [
    "closes only while somebody waits",
    "interrupting who asked ends only the wait",
    () => withBarrier((barrier) => ({ shutdown: (mode) => Effect.andThen(Effect.yieldNow, barrier.shutdown(mode)) }))
  ],
  ["never forces", "one that ignores the stop signal is forced when its grace is over", unforced],
  [
    "knows no hurry",
    "to be closed now overtakes whoever waits for a grace",
    () => withBarrier((barrier) => ({ shutdown: () => barrier.shutdown() }))
  ],
  ["forgets the tree with its leader", "who has left the tree for good is ended too", blindToDaemons],
  [
    "forgets its jobs when it closes",
    "what was said and how all ended can be read afterwards",
    () =>
      withServices(({ background, barrier }) => ({
        background: {
          ...background,
          of: (owner) => {
            const jobs = background.of(owner)
            const list = Effect.flatMap(barrier.phase, (phase) => phase === "open" ? jobs.list : Effect.succeed([]))
            return { ...jobs, list }
          }
        }
      }))
  ]
]

const dead: ProcessDriver.Member = {
  pid: 999_999,
  startedAt: 1,
  parent: 1,
  group: 0,
  session: 0,
  state: "Z",
  name: "dead"
}

describe("the laws notice a runtime that", () => {
  it.effect.each(faulty)(
    "%s (%s)",
    ([, name, runtime]) =>
      refuted(RuntimeLaws.laws(full), name, Layer.provide(runtime(), Settings.layer(RuntimeLaws.settings)))
  )

  it("breaks any of them", () => {
    const isAnotherFailedStart = ({ name }: { readonly name: string }) =>
      name.startsWith("a file that cannot be executed")
    const laws = RuntimeLaws.laws(full).filter((law) => !isAnotherFailedStart(law))
    assertAllRefuted(laws, faulty.map(([, name]) => name))
  })
})
