/**
 * Random histories of a whole runtime: jobs and commands of every temper are started, stopped, interrupted, killed from
 * outside and shut down at random times, and whatever happened, what is promised of the end holds.
 *
 * A history is its seed: a failure names it, and `history(seed)` runs it again.
 */
import { assert, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as Status from "@procyon/runtime/domain/Status"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as ShutdownBarrier from "@procyon/runtime/services/ShutdownBarrier"
import { child, RuntimeTest, type Script, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

const histories = 300
const steps = 25

const quick = child.prints("hi\n").exits(0, { after: 300 })
const stubborn = child.ignores("SIGTERM")

const tempers: Record<string, Script> = {
  quick,
  instant: child.exits(0),
  failing: child.prints("oh\n", { stream: "stderr" }).exits(3, { after: 2000 }),
  polite: child,
  slowToEnd: child.onSignal("SIGTERM", child.exits(0, { after: 3000 })),
  stubborn,
  stuck: stubborn.refuses("SIGKILL"),
  stuckTwice: stubborn.survives("SIGKILL", 2),
  family: child.forks("son", stubborn, { escapes: "session" }).forks("daughter", child).exits(0, { after: 1500 }),
  holder: child.forks("holder's son", child, { holdsOutput: true, escapes: "daemon" }).exits(1, { after: 700 }),
  chatty: child.prints("x".repeat(100_000)).prints("y".repeat(100_000), { after: 500 }),
  reader: child.readsStdin({ echo: true }).exits(0),
  late: quick.startsAfter(2500),
  lateAnswer: quick.answersAfter(1500),
  unanswered: child.neverAnswers(),
  broken: child.failsToStart("NotExecutable", "EACCES"),
  unseen: child.exits(0, { after: 400 }).exitSeenAfter(7000)
}
const names = Object.keys(tempers)

/** mulberry32: small, and the same everywhere. */
const dice = (seed: number) => {
  let state = seed * 0x9e37_79b1
  const next = () => {
    state = (state + 0x6d2b_79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
  }
  const below = (limit: number) => Math.floor(next() * limit)
  const oneOf = <A>(items: ReadonlyArray<A>): A => items[below(items.length)] as A
  return { below, oneOf, often: (chance: number) => next() < chance }
}

type Told = Map<string, Array<Status.Status>>

/** A ledger that is slow, fails and hangs at random, until it is healed. */
const moody = (seed: number) => {
  const { below, oneOf } = dice(seed)
  const mood = { healed: false }
  const inAMood = <A>(call: Effect.Effect<A, ProcessLedger.LedgerError>): Effect.Effect<A, ProcessLedger.LedgerError> =>
    Effect.suspend(() => {
      if (mood.healed) return call
      return oneOf([
        call,
        call,
        Effect.delay(call, below(3000)),
        Effect.never,
        Effect.uninterruptible(Effect.never),
        Effect.fail(new ProcessLedger.LedgerError({ operation: "transition", problem: "Unavailable" })),
        Effect.die(new Error("a ledger's own trouble"))
      ])
    })
  const ledger = Layer.effect(
    ProcessLedger.Service,
    ProcessLedger.Service.use((memory) =>
      Effect.succeed(
        {
          ...memory,
          insert: (row) => inAMood(memory.insert(row)),
          transition: (id, expected, changes) => inAMood(memory.transition(id, expected, changes)),
          renew: (renewals) => inAMood(memory.renew(renewals)),
          remove: (id, fence) => inAMood(memory.remove(id, fence))
        } satisfies ProcessLedger.ProcessLedger
      )
    )
  )
  return { ledger, mood }
}

/** A driver whose answers are late, cut short, or no answers at all, until it is healed. */
const blurred = (seed: number) => {
  const { below, oneOf } = dice(seed)
  const mood = { healed: false }
  const inAMood = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      if (mood.healed) return call
      const bug = new Error("a driver's own trouble")
      return oneOf([call, call, call, call, Effect.delay(call, below(4000)), Effect.never, Effect.die(bug)])
    })
  const stuck = Effect.uninterruptible(Effect.never)
  const driver = Layer.effect(
    ProcessDriver.Service,
    ProcessDriver.Service.use((scripted) =>
      Effect.succeed(
        {
          ...scripted,
          spawn: (request) => inAMood(scripted.spawn(request)),
          look: (roots) => inAMood(mood.healed || below(10) > 0 ? scripted.look(roots) : stuck),
          signal: (root, targets, signal) =>
            inAMood(mood.healed || below(10) > 0 ? scripted.signal(root, targets, signal) : stuck)
        } satisfies ProcessDriver.ProcessDriver
      )
    )
  )
  return { driver, mood }
}

interface Faults {
  readonly mood: { healed: boolean }
  readonly ledger?: Layer.Layer<ProcessLedger.Service, never, ProcessLedger.Service>
  readonly driver?: Layer.Layer<ProcessDriver.Service, never, ProcessDriver.Service>
}

const history = (seed: number, faults?: Faults) =>
  Effect.gen(function*() {
    const { below, oneOf, often } = dice(seed)
    const world = yield* World
    const service = yield* BackgroundProcess.Service
    const barrier = yield* ShutdownBarrier.Service
    const owners = ["a", "b", "c"].map((owner) => service.of(owner))
    const listed = new Map<string, BackgroundProcess.Jobs>()
    const forgotten = new Set<string>()
    const waiters: Array<Fiber.Fiber<unknown, unknown>> = []
    const told: Told = new Map()
    const events: Array<BackgroundProcess.Event> = []
    yield* Effect.forkScoped(
      Stream.runForEach(service.events, (event) => Effect.sync(() => events.push(event))),
      { startImmediately: true }
    )

    const fork = <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.map(Effect.forkScoped(effect, { startImmediately: true }), (fiber) => {
        waiters.push(fiber)
        return fiber
      })
    const takeNotices = Effect.forEach(owners, (jobs) =>
      Effect.map(jobs.notices, (notices) => {
        for (const notice of notices) {
          if (notice._tag === "Job") told.set(notice.id, [...told.get(notice.id) ?? [], notice.status])
        }
      }))
    const command = () => {
      const name = oneOf(names)
      return CommandSpec.make(name, [], name === "reader" ? { stdin: "open" } : {})
    }
    const options = (): BackgroundProcess.StartOptions => ({
      ...(often(0.3) ? { deadline: below(8000) } : {}),
      ...(often(0.1) ? { idleDeadline: 1 + below(3000) } : {}),
      ...(often(0.2) ? { grace: below(2000) } : {}),
      ...(often(0.1) ? { forceWindow: below(500) } : {}),
      ...(often(0.1) ? { output: { cap: 50_000 } } : {}),
      ...(often(0.1) ? { lifetime: "application" as const } : {}),
      ...(often(0.2) ? { name: oneOf(["x", "y"]), onExisting: oneOf(["join", "fail"] as const) } : {})
    })
    const start = Effect.suspend(() => {
      const jobs = oneOf(owners)
      return fork(Effect.map(jobs.start(command(), options()), ({ id }) => listed.set(id, jobs)))
    })
    const onJob = (use: (jobs: BackgroundProcess.Jobs, id: string) => Effect.Effect<unknown, unknown>) =>
      Effect.suspend(() => {
        const [id, jobs] = oneOf([...listed]) ?? []
        return id === undefined || jobs === undefined ? Effect.void : fork(use(jobs, id))
      })
    const interrupted = <A, E>(started: Effect.Effect<Fiber.Fiber<A, E>, never, Scope.Scope>) =>
      Effect.flatMap(started, (fiber) => fork(Effect.delay(Fiber.interrupt(fiber), below(3000))))

    const actions: ReadonlyArray<() => Effect.Effect<unknown, unknown, AppProcess.Service | Scope.Scope>> = [
      () => start,
      () => start,
      () => start,
      () => interrupted(start),
      () => onJob((jobs, id) => jobs.stop(id)),
      () => onJob((jobs, id) => jobs.stop(id, { now: true })),
      () => onJob((jobs, id) => jobs.wait(id)),
      () => onJob((jobs, id) => Effect.timeoutOption(jobs.termination(id), below(2000))),
      () => onJob((jobs, id) => jobs.retryTermination(id)),
      () => onJob((jobs, id) => jobs.extend(id, below(5000))),
      () => onJob((jobs, id) => jobs.write(id, "z".repeat(below(200_000)))),
      () => onJob((jobs, id) => jobs.closeStdin(id)),
      () =>
        onJob((jobs, id) =>
          Effect.map(jobs.forget(id), (done) => {
            if (done) forgotten.add(id)
          })
        ),
      () => world.kill(oneOf([...names, "son"]), oneOf(["SIGKILL", "SIGSEGV"])),
      // A ledger that hangs holds up whoever takes notices, for a bounded time.
      () => fork(takeNotices),
      () => often(0.3) ? fork(oneOf(owners).stopAll) : Effect.void,
      () => often(0.1) ? fork(oneOf(owners).retire) : Effect.void,
      () => often(0.1) ? fork(barrier.shutdown(oneOf(["now", "graceful"] as const))) : Effect.void,
      () => world.blindLooks(below(3)),
      () => AppProcess.Service.use((app) => fork(app.run(command(), options()))),
      () => AppProcess.Service.use((app) => interrupted(fork(app.run(command(), options()))))
    ]
    for (let step = 0; step < steps; step++) {
      yield* Effect.ignore(oneOf(actions)())
      yield* often(0.5) ? world.advance(below(3000)) : world.drain
    }

    yield* world.blindLooks(0)
    if (faults !== undefined) faults.mood.healed = true
    yield* fork(barrier.shutdown())
    yield* world.advance("2 minutes")
    for (const name of yield* world.alive) yield* world.kill(name)
    // A beat looks again at what could not be ended.
    yield* world.advance("30 seconds")
    yield* takeNotices

    const where = `history ${seed}`
    assert.deepStrictEqual(yield* world.alive, [], where)
    assert.deepStrictEqual(yield* world.open, [], where)
    assert.strictEqual(waiters.filter((fiber) => fiber.pollUnsafe() === undefined).length, 0, `${where}: waiters`)
    for (const [id, jobs] of listed) {
      const statuses = told.get(id) ?? []
      const last = statuses.at(-1)
      const isOnce = statuses.length === 1 || (statuses.length === 2 && statuses[0] === "kill_failed")
      assert.isTrue(isOnce, `${where}: notices of ${id}: ${statuses.join(" ")}`)
      assert.isTrue(last !== undefined && Status.isSettled(last), `${where}: ${id} ended as ${last}`)
      const now = yield* Effect.option(jobs.get(id))
      assert.strictEqual(now._tag, forgotten.has(id) ? "None" : "Some", `${where}: ${id} is listed`)
      const own = events.flatMap((event) => event._tag !== "Missed" && event.id === id ? [event._tag] : [])
      if (now._tag === "Some") {
        assert.deepStrictEqual([now.value.status, now.value.output.sealed], [last, true], where)
        // What could not be recorded was not started.
        assert.isTrue(now.value.recorded || !own.includes("Started"), `${where}: ${id} is not recorded`)
      }
      const end = own.findIndex((tag) => tag === "Ended" || tag === "Resolved")
      assert.strictEqual(end, own.length - 1, `${where}: events of ${id}: ${own.join(" ")}`)
      assert.isAtMost(own.filter((tag) => tag === "Started").length, 1, where)
    }
    const rows = yield* ProcessLedger.Service.use((ledger) => ledger.rows({ settled: false }))
    assert.deepStrictEqual(rows.map((row) => [row.id, row.status]), [], `${where}: rows`)
    const looks = yield* world.looks
    yield* world.advance("1 hour")
    assert.strictEqual(yield* world.looks, looks, `${where}: somebody still looks`)
  }).pipe(
    Effect.scoped,
    Effect.provide(RuntimeTest.layer({
      children: tempers,
      settings: { maxFinishedPerOwner: 0, outputBytes: 64 * 1024 },
      ledger: faults?.ledger,
      driver: faults?.driver
    }))
  )

const seeds = Array.from({ length: histories }, (_, seed) => seed)

it.effect(
  "whatever happens, everything ends, is told of once, and leaves nothing",
  () => Effect.forEach(seeds, (seed) => history(seed), { discard: true }),
  60_000
)

it.effect(
  "the same holds over a ledger in any mood, and rows catch up once it is well",
  () => Effect.forEach(seeds, (seed) => history(seed, moody(seed)), { discard: true }),
  60_000
)

it.effect(
  "the same holds over a driver that answers late, in part or not at all",
  () => Effect.forEach(seeds, (seed) => history(seed, blurred(seed)), { discard: true }),
  60_000
)
