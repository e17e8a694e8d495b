/**
 * One run of a history: it does what the history says, step by step, on the scripted driver and a test clock, and has what
 * is inspected after each.
 *
 * All of it runs in one thread and on virtual time, and what is left to chance comes from the history's seed, so a run can
 * be repeated exactly.
 */
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as Generation from "@procyon/runtime/services/Generation"
import * as Recovery from "@procyon/runtime/services/Recovery"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import * as Workspace from "@procyon/runtime/services/Workspace"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Injector } from "../Faults.ts"
import { Files, type FilesService } from "../Files.ts"
import * as Lives from "../Lives.ts"
import { World, type WorldService } from "../World.ts"
import { Deliveries } from "./Deliveries.ts"
import type { Action, History, JobOptions, Options, Step } from "./History.ts"
import { Inspection } from "./Inspection.ts"
import type { Outcome, Rule, Violation } from "./Outcome.ts"
import { Application, FiberCount, Session } from "./Session.ts"
import { Witness } from "./Witness.ts"

const owners = ["a", "b", "c"]

/** What a simulation may ask of a life. */
type Asked<A, E> = Effect.Effect<A, E, Lives.Services>

/** Of somebody who consumes notices and cannot. */
class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

export class Trial {
  readonly #history: History
  readonly #shared: Context.Context<Lives.Shared>
  readonly #injector: Injector
  readonly #witness = new Witness()
  readonly #trace: Array<string> = []
  readonly #violations: Array<Violation> = []
  readonly #tell = (rule: Rule, detail: string): void => {
    this.#violations.push({ rule, step: this.#step, detail })
  }
  readonly #inspection: Inspection
  readonly #deliveries = new Deliveries(this.#tell)
  /** Where each job of the history is: its owner, and its id once that was answered. */
  readonly #jobs = new Map<string, { readonly owner: string; id: string | null }>()
  readonly #forgotten = new Set<string>()
  readonly #frozen: Array<Session> = []
  #current!: Session
  #sessions = 0
  #step: number | null = null

  constructor(history: History, shared: Context.Context<Lives.Shared>, injector: Injector) {
    this.#history = history
    this.#shared = shared
    this.#injector = injector
    const mayBeLost = history.faults.some(({ what }) => what._tag === "LeaseLost")
    this.#inspection = new Inspection(this.#witness, mayBeLost, this.#tell)
  }

  get run(): Effect.Effect<Outcome, never, World> {
    return Effect.gen({ self: this }, function*() {
      this.#current = yield* this.#begin
      for (const [index, step] of this.#history.steps.entries()) {
        this.#step = index
        yield* this.#take(step)
        if (this.#violations.length > 0) return this.#outcome
      }
      this.#step = null
      yield* this.#finish
      return this.#outcome
    })
  }

  get #outcome(): Outcome {
    return { violations: this.#violations, trace: this.#trace }
  }

  get #world(): WorldService {
    return Context.get(this.#shared, World)
  }

  get #files(): FilesService {
    return Context.get(this.#shared, Files)
  }

  get #ledger(): ProcessLedger.ProcessLedger {
    return Context.get(this.#shared, ProcessLedger.Service)
  }

  #note(line: string): Effect.Effect<void> {
    return Effect.map(Clock.currentTimeMillis, (now) => {
      this.#trace.push(`${now} ${line}`)
      if ((globalThis as any).LOG) (globalThis as any).console.log(now, line)
    })
  }

  #take({ act, wait }: Step): Effect.Effect<void, never, World> {
    return Effect.gen({ self: this }, function*() {
      yield* this.#note(describe(act))
      yield* this.#perform(act)
      yield* wait > 0 ? this.#world.advance(wait) : this.#world.drain
      yield* this.#inspect
    })
  }

  /** A life, begun while time passes: what it is built on may be slow. */
  get #begin(): Effect.Effect<Session, never, World> {
    return Effect.gen({ self: this }, function*() {
      const number = ++this.#sessions
      const fibers = new FiberCount()
      const { blobs, driver, ledger, workspaces } = this.#injector
      const shared = this.#shared.pipe(
        Context.add(
          ProcessDriver.Service,
          driver(this.#witness.watch(Context.get(this.#shared, ProcessDriver.Service), number))
        ),
        Context.add(ProcessLedger.Service, ledger(this.#ledger)),
        Context.add(BlobStore.Service, blobs(this.#witness.count(Context.get(this.#shared, BlobStore.Service)))),
        Context.add(WorkspaceStore.Service, workspaces(Context.get(this.#shared, WorkspaceStore.Service)))
      )
      const beginning = yield* Lives.begin(this.#history.settings).pipe(
        Effect.provideContext(shared),
        Effect.provideService(Metric.FiberRuntimeMetrics, fibers),
        Effect.forkDetach({ startImmediately: true })
      )
      yield* this.#pass(beginning)
      const life = yield* Fiber.join(beginning)
      return new Session(number, life, fibers, yield* Scope.make())
    })
  }

  /** Lets time pass until a fiber has ended, ten minutes at most: past that it never will. */
  #pass(fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<boolean> {
    return Effect.gen({ self: this }, function*() {
      yield* this.#world.drain
      for (let second = 0; second < 600 && fiber.pollUnsafe() === undefined; second++) {
        yield* this.#world.advance(1000)
      }
      return fiber.pollUnsafe() !== undefined
    })
  }

  /** Asks it of a life and goes on; the answer is noted when it comes. Failures are answers, defects are not. */
  #ask<A, E>(what: string, session: Session, effect: Asked<A, E>): Effect.Effect<Fiber.Fiber<A, E>, never, World> {
    return Effect.gen({ self: this }, function*() {
      const asked = Effect.onExit(session.life.run(effect), (exit) => this.#note(`  ${what}: ${tellExit(exit)}`))
      const fiber = yield* Effect.forkDetach(asked, { startImmediately: true })
      const asking = { what, fiber }
      session.asking.add(asking)
      fiber.addObserver((exit) => {
        session.asking.delete(asking)
        if (Exit.isFailure(exit) && Cause.hasDies(exit.cause)) {
          this.#tell("answer", `${what}: ${Cause.pretty(exit.cause).split("\n")[0] ?? ""}`)
        }
      })
      return fiber
    })
  }

  #withdrawn<A, E>(fiber: Fiber.Fiber<A, E>, after: number | undefined): Effect.Effect<void> {
    return after === undefined
      ? Effect.void
      : Effect.asVoid(
        Effect.forkDetach(Effect.delay(Fiber.interrupt(fiber), after), { startImmediately: true })
      )
  }

  #onJob<A, E>(
    job: string,
    what: string,
    use: (jobs: BackgroundProcess.Jobs, id: string) => Effect.Effect<A, E, Lives.Services>
  ): Effect.Effect<void, never, World> {
    const known = this.#jobs.get(job)
    if (known === undefined || known.id === null) return Effect.void
    const { id, owner } = known
    return Effect.asVoid(
      this.#ask(`${what} ${job}`, this.#current, Effect.flatMap(jobsOf(owner), (jobs) => use(jobs, id)))
    )
  }

  #options({ workspace, ...options }: JobOptions | Options): JobOptions & AppProcess.Options {
    const { cap, ...others } = options
    const held = workspace === undefined ? undefined : this.#current.workspaces.get(workspace)
    return {
      ...others,
      ...(cap === undefined ? {} : { output: { cap } }),
      ...(held === undefined ? {} : { workspace: held.workspace })
    } as JobOptions & AppProcess.Options
  }

  #perform(act: Action): Effect.Effect<void, never, World> {
    const session = this.#current
    const world = this.#world
    switch (act._tag) {
      case "Start": {
        const { child, job, options = {}, owner, withdrawAfter } = act
        this.#jobs.set(job, { owner, id: null })
        return Effect.flatMap(
          this.#ask(
            `start ${job}`,
            session,
            Effect.gen({ self: this }, function*() {
              const jobs = yield* jobsOf(owner)
              const { id } = yield* jobs.start(commandOf(child, job, options), {
                title: job,
                ...this.#options(options)
              })
              this.#jobs.set(job, { owner, id })
            })
          ),
          (fiber) => this.#withdrawn(fiber, withdrawAfter)
        )
      }
      case "Run": {
        const { child, job, options = {}, withdrawAfter } = act
        return Effect.flatMap(
          this.#ask(
            `run ${job}`,
            session,
            AppProcess.Service.use((app) =>
              Effect.flatMap(
                app.run(commandOf(child, job, options), { title: job, ...this.#options(options) }),
                ({ info }) => Effect.as(this.#proveGone(job, info.status), info.status)
              )
            )
          ),
          (fiber) => this.#withdrawn(fiber, withdrawAfter)
        )
      }
      case "Stop":
        return this.#onJob(act.job, "stop", (jobs, id) => statusOf(jobs.stop(id, { now: act.now })))
      case "StopAll":
        return this.#owner("stopAll", act.owner, (jobs) => jobs.stopAll)
      case "Retire":
        return this.#owner("retire", act.owner, (jobs) => jobs.retire)
      case "Wait":
        return this.#onJob(act.job, "wait", (jobs, id) => statusOf(jobs.wait(id)))
      case "Receipt":
        return this.#onJob(
          act.job,
          "receipt",
          (jobs, id) => Effect.timeoutOption(statusOf(jobs.termination(id)), act.giveUpAfter)
        )
      case "Retry":
        return this.#onJob(act.job, "retry", (jobs, id) => statusOf(jobs.retryTermination(id)))
      case "Extend":
        return this.#onJob(act.job, "extend", (jobs, id) => jobs.extend(id, act.deadline))
      case "Write":
        return this.#onJob(act.job, "write", (jobs, id) => jobs.write(id, "z".repeat(act.bytes)))
      case "CloseStdin":
        return this.#onJob(act.job, "closeStdin", (jobs, id) => jobs.closeStdin(id))
      case "RetrySpill":
        return this.#onJob(act.job, "retrySpill", (jobs, id) => jobs.retrySpill(id))
      case "Forget":
        return this.#onJob(act.job, "forget", (jobs, id) =>
          Effect.map(jobs.forget(id), (done) => {
            if (done) this.#forgotten.add(id)
            return done
          }))
      case "Follow":
        return this.#onJob(act.job, "follow", (jobs, id) =>
          Effect.flatMap(
            act.stream === "stdout" ? jobs.output(id) : jobs.errorOutput(id),
            (view) => this.#follow(`${act.job} ${act.stream}`, view, act.since)
          ))
      case "Notices":
        return this.#owner(act.how, act.owner, (jobs) => this.#notices(jobs, act.how, act.takes ?? 0))
      case "Kill":
        return world.kill(act.child, act.how)
      case "ReusePid":
        return world.reusePid(act.child)
      case "LoseExit":
        return world.loseExit(act.child)
      case "EndDetached":
        return world.endDetached(act.child, act.by)
      case "Blind":
        return world.blindLooks(act.looks)
      case "Acquire":
        return this.#acquire(session, act.workspace)
      case "Release": {
        const held = session.workspaces.get(act.workspace)
        session.workspaces.delete(act.workspace)
        return held === undefined
          ? Effect.void
          : Effect.asVoid(this.#ask(`release ${act.workspace}`, session, Scope.close(held.scope, Exit.void)))
      }
      case "Shutdown":
        return Effect.asVoid(
          this.#ask("shutdown", session, ShutdownBarrier.Service.use((barrier) => barrier.shutdown(act.mode)))
        )
      case "Replace":
        return this.#replace(session)
      case "Commit":
        return this.#commit(session, act)
      case "Stall":
        return session.life.stop.pipe(
          Effect.andThen(world.advance(act.millis)),
          Effect.andThen(session.life.continue)
        )
      case "WallClock":
        return session.life.setWallClock(act.ahead)
      case "Reconcile":
        return Effect.asVoid(
          this.#ask("reconcile", session, Recovery.Service.use((recovery) => recovery.reconcile))
        )
      case "Review":
        return Effect.asVoid(this.#ask(
          "review",
          session,
          Recovery.Service.use((recovery) =>
            Effect.flatMap(
              recovery.review,
              (infos) =>
                Effect.forEach(infos, ({ id }) => Effect.ignore(recovery.retry(id)), { concurrency: "unbounded" })
            )
          )
        ))
      case "Crash":
        return this.#crash
      case "Restart":
        return Effect.andThen(this.#close(session), this.#next)
      case "Freeze":
        return Effect.andThen(
          Effect.suspend(() => {
            session.frozen = true
            this.#frozen.push(session)
            return session.life.stop
          }),
          this.#next
        )
      case "Thaw":
        return this.#thaw
    }
  }

  #owner<A, E>(
    what: string,
    owner: string,
    use: (jobs: BackgroundProcess.Jobs) => Effect.Effect<A, E>
  ): Effect.Effect<void, never, World> {
    return Effect.asVoid(this.#ask(`${what} ${owner}`, this.#current, Effect.flatMap(jobsOf(owner), use)))
  }

  get #next(): Effect.Effect<void, never, World> {
    return Effect.map(this.#begin, (session) => {
      this.#current = session
    })
  }

  /** As by SIGKILL. A keeper ends what has no row, as it does with real children. */
  get #crash(): Effect.Effect<void, never, World> {
    return Effect.gen({ self: this }, function*() {
      const session = this.#current
      // Notices that somebody was about to be handed may be gone with it.
      const isTaking = [...session.asking].some(({ what }) => /^(take|await) /.test(what))
      // And what its ledger had not taken down is not known to the next.
      if (isTaking || this.#injector.struck("ledger")) this.#deliveries.uncertain = true
      yield* session.life.kill
      session.asking.clear()
      yield* this.#endCommands(session)
      yield* this.#next
    })
  }

  #endCommands(session: Session): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const recorded = new Set(
        (yield* Effect.orDie(this.#ledger.rows())).flatMap(({ identity }) => identity === null ? [] : [identity.marker])
      )
      for (const { marker, pid } of yield* this.#world.processes) {
        if (marker === null || recorded.has(marker)) continue
        if (this.#witness.of(marker)?.session === session.number) yield* this.#world.kill(pid)
      }
    })
  }

  get #thaw(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const frozen = this.#frozen.filter((session) => session.frozen)
      for (const session of frozen) session.frozen = false
      return Effect.forEach(frozen, ({ life }) => life.continue, { discard: true })
    })
  }

  /** In order: the callers' scopes, then the layer. What cannot be ended is left, and said to be so. */
  #close(session: Session): Effect.Effect<void, never, World> {
    return Effect.gen({ self: this }, function*() {
      const closing = yield* this.#ask("close", session, Scope.close(session.scope, Exit.void))
      for (const { scope } of session.workspaces.values()) {
        yield* this.#ask("release", session, Scope.close(scope, Exit.void))
      }
      yield* this.#pass(closing)
      yield* Effect.catchDefect(session.life.close, (defect) => Effect.sync(() => this.#tell("answer", String(defect))))
      // A port may be late, and its caller waits for it.
      yield* this.#world.advance(15_000)
      yield* this.#endCommands(session)
      const unanswered = [...session.asking].map(({ what }) => what)
      if (unanswered.length > 0) this.#tell("answer", `no answer to ${unanswered.join(", ")}`)
      // Before the faults are over, a call may hang that nobody can interrupt.
      if (this.#step === null && session.fibers.active > 0) {
        this.#tell("left", `${session.fibers.active} fibers of life ${session.number}`)
      }
    })
  }

  #acquire(session: Session, workspace: string): Effect.Effect<void, never, World> {
    return Effect.asVoid(this.#ask(
      `acquire ${workspace}`,
      session,
      Effect.gen({ self: this }, function*() {
        if (session.workspaces.has(workspace)) return
        const scope = yield* Scope.make()
        const made = yield* Workspace.Service.use((workspaces) =>
          workspaces.acquire({ root: this.#files.home, name: workspace })
        ).pipe(Scope.provide(scope), Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))))
        session.workspaces.set(workspace, { workspace: made, scope })
      })
    ))
  }

  #applications(session: Session) {
    return Effect.suspend(() =>
      session.applications === null
        ? Effect.tap(Scope.provide(Generation.make(Application.layer), session.scope), (made) =>
          Effect.sync(() => {
            session.applications = made
          }))
        : Effect.succeed(session.applications)
    )
  }

  #replace(session: Session): Effect.Effect<void, never, World> {
    return Effect.asVoid(this.#ask(
      "replace",
      session,
      Effect.flatMap(this.#applications(session), (applications) =>
        Effect.map(applications.replace, (number) => {
          session.revokedBefore = Math.max(session.revokedBefore, number)
          return number
        }))
    ))
  }

  #commit(session: Session, { after, takes }: Action & { readonly _tag: "Commit" }): Effect.Effect<void, never, World> {
    const work = Effect.gen({ self: this }, function*() {
      const { authority, generation } = yield* Application
      if (after > 0) yield* Effect.sleep(after)
      const committed = yield* authority.commit(Effect.gen({ self: this }, function*() {
        if (takes > 0) yield* Effect.sleep(takes)
        if (generation < session.revokedBefore) this.#tell("commit", `application ${generation} changed something`)
      }))
      return committed._tag
    })
    return Effect.asVoid(
      this.#ask(
        "commit",
        session,
        Effect.flatMap(this.#applications(session), (applications) => applications.use(work))
      )
    )
  }

  #notices(
    jobs: BackgroundProcess.Jobs,
    how: (Action & { readonly _tag: "Notices" })["how"],
    takes: number
  ): Effect.Effect<number> {
    // What the ledger did not take down cannot be known by the next life.
    const certain = () => !this.#injector.struck("ledger") && !this.#deliveries.uncertain
    const handed = (taken: boolean) => (notices: ReadonlyArray<BackgroundProcess.Notice>): number => {
      this.#deliveries.add(notices, { taken, certain: certain() })
      return notices.length
    }
    switch (how) {
      case "take":
        return Effect.map(jobs.notices, handed(true))
      case "await":
        return Effect.map(jobs.awaitNotices, handed(true))
      case "consume":
        return jobs.consumeNotices((notices) => {
          handed(false)(notices)
          return Effect.as(Effect.sleep(takes), notices.length)
        })
      case "refuse":
        return jobs.consumeNotices((notices) => {
          handed(false)(notices)
          return Effect.andThen(Effect.sleep(takes), Effect.fail(new Refused()))
        }).pipe(Effect.orElseSucceed(() => -1))
    }
  }

  /** Reads to the end, and checks that pages follow each other. */
  #follow(what: string, view: BackgroundProcess.View, since: number): Effect.Effect<number> {
    let at = since
    return view.followBytes({ since, limit: 4096 }).pipe(
      Stream.runForEach(({ data, gap, next, since: from }) =>
        Effect.sync(() => {
          const begin = gap?.to ?? from
          if (from !== at || next !== begin + data.length || (gap !== null && gap.from !== from)) {
            this.#tell("output", `${what}: a page [${from}, ${next}) of ${data.length} bytes after ${at}`)
          }
          at = next
        })
      ),
      Effect.andThen(view.metadata),
      Effect.map(({ bytesSeen, sealed }) => {
        if (!sealed) this.#tell("output", `${what}: a follower ended before the seal`)
        else if (at !== Math.max(since, bytesSeen)) {
          this.#tell("output", `${what}: a follower ended at ${at} of ${bytesSeen}`)
        }
        return at
      }),
      Effect.orDie
    )
  }

  #proveGone(job: string, status: string): Effect.Effect<void> {
    return Effect.map(this.#world.processes, (living) => {
      const alive = living.filter(({ marker }) => marker !== null && this.#witness.of(marker)?.job === job)
      if (status !== "kill_failed" && alive.length > 0) {
        this.#tell("proof", `${job} is ${status}, and of it live ${alive.map(({ label }) => label).join(", ")}`)
      }
    })
  }

  get #inspect(): Effect.Effect<void, never, World> {
    return Effect.gen({ self: this }, function*() {
      const living = yield* this.#world.processes
      const rows = yield* Effect.orDie(this.#ledger.rows())
      const lives = yield* Effect.forEach(
        [this.#current, ...this.#frozen].filter(({ frozen }) => !frozen),
        (session) =>
          Effect.gen(function*() {
            const jobs = yield* session.life.run(
              Effect.forEach(owners, (owner) => Effect.flatMap(jobsOf(owner), ({ list }) => list))
            )
            return { session: session.number, jobs: jobs.flat(), commands: yield* session.commands }
          })
      )
      const paths = new Set(this.#witness.sightings.flatMap(({ cwd }) => cwd === null ? [] : [cwd]))
      const there = new Set<string>()
      for (const path of paths) if (yield* this.#files.has(path)) there.add(path)
      this.#inspection.inspect({ living, rows, lives, hasDirectory: (path) => there.has(path) })
    })
  }

  /** Everything is well from here on, and everything has to come to its end. */
  get #finish(): Effect.Effect<void, never, World> {
    return Effect.gen({ self: this }, function*() {
      yield* this.#injector.heal
      yield* this.#world.blindLooks(0)
      yield* this.#thaw
      for (const session of [...this.#frozen, this.#current]) yield* session.life.setWallClock(0)
      yield* this.#world.advance(60_000)
      yield* this.#inspect
      for (const session of [...this.#frozen, this.#current]) {
        yield* this.#note(`close life ${session.number}`)
        yield* this.#close(session)
      }
      this.#frozen.length = 0
      // Only what could not be ended lives, and it ends now.
      const open = new Set(
        (yield* Effect.orDie(this.#ledger.rows({ settled: false }))).map(({ identity }) => identity?.marker ?? null)
      )
      for (const { label, marker, pid } of yield* this.#world.processes) {
        if (label === "stranger") continue
        if (!open.has(marker)) this.#tell("left", `${label} (${pid}) outlived its runtime`)
        yield* this.#world.kill(pid)
      }
      yield* this.#note("the last life")
      const last = yield* this.#begin
      this.#current = last
      yield* this.#world.advance(60_000)
      const reconciling = yield* this.#ask("reconcile", last, Recovery.Service.use((recovery) => recovery.reconcile))
      yield* this.#pass(reconciling)
      yield* this.#inspect
      for (const owner of owners) {
        const taking = yield* this.#ask(
          `take ${owner}`,
          last,
          Effect.flatMap(jobsOf(owner), (jobs) => this.#notices(jobs, "take", 0))
        )
        yield* this.#pass(taking)
      }
      const rows = yield* Effect.orDie(this.#ledger.rows())
      for (const { id, status } of rows) {
        if (status === "running" || status === "kill_failed") this.#tell("left", `the row of ${id} says ${status}`)
      }
      yield* this.#close(last)
      yield* this.#inspectEnd
    })
  }

  get #inspectEnd(): Effect.Effect<void, never, World> {
    return Effect.gen({ self: this }, function*() {
      const alive = (yield* this.#world.alive).filter((label) => label !== "stranger")
      if (alive.length > 0) this.#tell("left", `alive: ${alive.join(", ")}`)
      const rows = yield* Effect.orDie(this.#ledger.rows())
      for (const [job, { id }] of this.#jobs) {
        if (id === null || this.#forgotten.has(id) || this.#deliveries.uncertain) continue
        if (rows.some((row) => row.id === id) && !this.#deliveries.isTold(id)) {
          this.#tell("notice", `nobody was told of the end of ${job} (${id})`)
        }
      }
      const open = yield* this.#world.open
      // Of a life that was killed nobody is there to let go.
      const dead = this.#history.steps.some(({ act }) => act._tag === "Crash")
      if (!dead && open.length > 0) this.#tell("left", `open: ${open.join(", ")}`)
      if (!dead && this.#witness.openBlobs > 0) this.#tell("left", `${this.#witness.openBlobs} blobs are open`)
      const records = yield* Effect.orDie(this.#ledger.workspaces.list())
      if (records.length > 0) this.#tell("workspace", `recorded: ${records.map(({ path }) => path).join(", ")}`)
      for (const name of ["w1", "w2"]) {
        if (yield* this.#files.has(`${this.#files.home}/${name}`)) this.#tell("workspace", `${name} is left`)
      }
      const looks = yield* this.#world.looks
      yield* this.#world.advance(3_600_000)
      if ((yield* this.#world.looks) !== looks) this.#tell("left", "somebody still looks")
      this.#trace.push(...yield* this.#world.calls)
    })
  }
}

const jobsOf = (owner: string) => BackgroundProcess.Service.use((service) => Effect.succeed(service.of(owner)))

const statusOf = <A extends { readonly status: string }, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(effect, ({ status }) => status)

/** The name in the history is its only argument, so that the world tells whose a process is. */
const commandOf = (child: string, job: string, options: JobOptions | Options) =>
  CommandSpec.make(
    child,
    [job],
    child === "reader" && !("lifetime" in options && options.lifetime === "detached") ? { stdin: "open" } : {}
  )

const describe = ({ _tag, ...details }: Action): string => {
  const words = Object.entries(details).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  return [_tag, ...words].join(" ")
}

const tellExit = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isFailure(exit)) return Cause.hasInterruptsOnly(exit.cause) ? "interrupted" : tellError(exit.cause)
  const value = exit.value
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? `${value}` : "done"
}

const tellError = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof Error ? `failed: ${error.message}` : "failed"
}
