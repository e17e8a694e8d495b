/**
 * What `BackgroundProcess` owes the owners of jobs.
 */
import { assert } from "@effect/vitest"
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import type { Event, Jobs, Notice } from "@procyon/runtime/services/BackgroundProcess"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import {
  type Bench,
  brief,
  type Failure,
  hashOf,
  keepingAll,
  law,
  patient,
  signalsIn,
  type Statements
} from "./RuntimeBench.ts"

/** The tag of the failure or of its reason, `taken` where there was none. */
const refusalOf = <A>(
  effect: Effect.Effect<A, { readonly _tag: string; readonly reason?: { readonly _tag: string } }>
): Effect.Effect<string> =>
  Effect.match(effect, {
    onFailure: ({ _tag, reason }) => reason?._tag ?? _tag,
    onSuccess: () => "taken"
  })

const isJob = (notice: Notice) => notice._tag === "Job"

/** The jobs that notices are about, in their order. */
const toldOf = (notices: ReadonlyArray<Notice>): ReadonlyArray<string> =>
  notices.flatMap((notice) => notice._tag === "Job" ? [notice.id] : [])

/** Takes notices until it has so many. */
const taken = (bench: Bench, jobs: Jobs, count: number): Effect.Effect<ReadonlyArray<Notice>> =>
  Effect.gen(function*() {
    const all: Array<Notice> = []
    while (all.length < count) all.push(...yield* bench.done("there is a notice", jobs.awaitNotices))
    return all
  })

/** Stops a job of a leader and a member, once both are there. */
const stopsTree = (bench: Bench, command: CommandSpec) =>
  Effect.gen(function*() {
    const jobs = bench.background.of("one")
    const { id } = yield* jobs.start(command)
    yield* bench.untilLiving(2)
    assert.strictEqual((yield* bench.stop(jobs, id)).status, "cancelled")
    yield* bench.nobodyLives
    bench.assertProven(yield* jobs.termination(id))
  })

export const jobs: Statements = (programs) => [
  law(
    "a started job is listed at once, and its end is told by its row",
    [programs.succeeds],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const started = yield* jobs.start(command, { title: "quick", name: "n" })
        assert.deepInclude(started, { owner: "one", title: "quick", name: "n", lifetime: "session" })
        assert.deepStrictEqual((yield* jobs.list).map(({ id }) => id), [started.id])
        const ended = yield* bench.done("the job has ended", jobs.wait(started.id))
        assert.deepInclude(ended, { id: started.id, status: "completed", phase: "settled" })
        assert.deepStrictEqual([ended.exit, ended.startedAt], [{ code: 0, signal: null }, started.startedAt])
        assert.deepStrictEqual(yield* jobs.get(started.id), ended)
        assert.deepStrictEqual(ended.receipt, yield* jobs.termination(started.id))
      })
  ),

  law("jobs are listed in the order of their starts", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const ids = [yield* jobs.start(command), yield* jobs.start(command), yield* jobs.start(command)].map(({ id }) =>
        id
      )
      assert.deepStrictEqual((yield* jobs.list).map(({ id }) => id), ids)
    })),

  law(
    "an owner sees its own jobs only: another's are as if they were not",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const { id } = yield* bench.background.of("one").start(command)
        const other = bench.background.of("other")
        assert.deepStrictEqual(yield* other.list, [])
        for (const name of [id, "no-such-job"]) {
          const asks: ReadonlyArray<Effect.Effect<unknown, Failure>> = [
            other.get(name),
            other.stop(name),
            other.wait(name),
            other.output(name),
            other.forget(name),
            other.write(name, "x")
          ]
          for (const ask of asks) {
            assert.strictEqual(yield* refusalOf(bench.done("it is answered", ask)), "ProcessNotFound")
          }
        }
        assert.deepStrictEqual(yield* bench.done("it is answered", other.stopAll), [])
        assert.strictEqual((yield* bench.background.of("one").get(id)).status, "running")
        assert.deepStrictEqual(yield* bench.background.owners, ["one"])
      })
  ),

  ...programs.failures.slice(0, 1).map(({ command, problem, what }) =>
    law(
      `${what}: the start fails with ${problem}, and there is no job and no notice`,
      [command],
      (bench) =>
        Effect.gen(function*() {
          const jobs = bench.background.of("one")
          const reason = yield* Effect.match(jobs.start(command), {
            onFailure: ({ reason }) => reason._tag === "SpawnFailed" ? reason.problem : reason._tag,
            onSuccess: () => "started"
          })
          assert.strictEqual(reason, problem)
          yield* bench.aWhile
          assert.deepStrictEqual([yield* jobs.list, yield* jobs.notices], [[], []])
        })
    )
  ),

  law(
    "an interrupted start leaves a listed job or nothing, at whatever turn",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        for (const turns of [0, 1, 2, 3, 5, 8, 13]) {
          const jobs = bench.background.of(`after-${turns}`)
          const start = yield* Effect.forkChild(jobs.start(command), { startImmediately: true })
          for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
          yield* bench.interrupted(start)
          const listed = (yield* jobs.list).filter(({ phase }) => phase !== "settled")
          if (listed.length === 0) yield* bench.nobodyLives
          const stopped = yield* bench.done("all are stopped", jobs.stopAll)
          assert.deepStrictEqual(stopped.map(({ id }) => id), listed.map(({ id }) => id))
          yield* bench.nobodyLives
        }
      })
  ),

  law(
    "a name that is taken fails the start, or joins it, and is free when its job has ended",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, { name: "server" })
        const existing = yield* Effect.match(jobs.start(command, { name: "server" }), {
          onFailure: ({ reason }) => reason._tag === "ProcessAlreadyExists" ? reason.id : reason._tag,
          onSuccess: () => "started"
        })
        assert.strictEqual(existing, id)
        assert.strictEqual((yield* jobs.start(command, { name: "server", onExisting: "join" })).id, id)
        const other = yield* bench.background.of("other").start(command, { name: "server" })
        assert.notStrictEqual(other.id, id)
        assert.strictEqual((yield* jobs.list).length, 1)
        yield* bench.stop(jobs, id)
        assert.notStrictEqual((yield* jobs.start(command, { name: "server", onExisting: "join" })).id, id)
      })
  ),

  law(
    "an owner has so many running jobs and no more, until one has ended",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const ids: Array<string> = []
        let limit: unknown
        while (limit === undefined && ids.length <= 64) {
          limit = yield* Effect.match(jobs.start(command), {
            onFailure: ({ reason }) => reason._tag === "TooManyJobs" ? reason.limit : reason._tag,
            onSuccess: ({ id }) => void ids.push(id)
          })
        }
        assert.deepStrictEqual([limit, (yield* jobs.list).length], [ids.length, ids.length])
        yield* bench.background.of("other").start(command)
        yield* bench.stop(jobs, ids[0] ?? assert.fail("not even one was started"))
        yield* jobs.start(command)
        assert.strictEqual(yield* refusalOf(jobs.start(command)), "TooManyJobs")
      })
  ),

  law(
    "a forgotten job is found no more, and who holds its output reads on",
    [programs.speaksTwice, programs.waits],
    (bench, speaks, waits) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(waits)
        assert.isFalse(yield* jobs.forget(id))
        const ended = yield* bench.finished(jobs, speaks)
        const view = yield* jobs.output(ended.id)
        yield* taken(bench, jobs, 1)
        yield* bench.until("it is forgotten", jobs.forget(ended.id), (forgotten) => forgotten)
        assert.strictEqual(yield* refusalOf(jobs.get(ended.id)), "ProcessNotFound")
        assert.deepStrictEqual((yield* jobs.list).map(({ id }) => id), [id])
        assert.match(yield* view.preview, /^out\s*err\s*$/)
      })
  ),

  law("stdin of a job is written in order and closed", [programs.echoes], (bench, command) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const { id } = yield* jobs.start({ ...command, options: { ...command.options, stdin: "open" } })
      yield* jobs.write(id, "hel")
      yield* jobs.write(id, "lo")
      yield* bench.done("stdin is closed", jobs.closeStdin(id))
      const ended = yield* bench.done("the job has ended", jobs.wait(id))
      assert.deepStrictEqual([ended.status, ended.stdinAccepted], ["completed", 5])
      assert.strictEqual(yield* (yield* jobs.output(id)).preview, "hello")
      assert.strictEqual(yield* refusalOf(jobs.write(id, "x")), "StdinClosed")
    }))
]

export const ends: Statements = (programs) => [
  law(
    "a stopped job is proven gone and cancelled, and stopping it again changes nothing",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command)
        const stopped = yield* bench.stop(jobs, id)
        yield* bench.nobodyLives
        const receipt = yield* jobs.termination(id)
        assert.deepStrictEqual([stopped.status, receipt.cause], ["cancelled", { _tag: "Stop", by: "owner" }])
        bench.assertProven(receipt)
        assert.deepStrictEqual(yield* bench.stop(jobs, id), stopped)
        assert.deepStrictEqual(yield* bench.stop(jobs, id, { now: true }), stopped)
        assert.deepStrictEqual(yield* bench.done("it answers", jobs.retryTermination(id)), receipt)
      })
  ),

  law(
    "to stop one that ignores the signal is to force it: cancelled, and the receipt says how",
    [programs.ignoresTerm],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, brief)
        yield* bench.untilText(yield* jobs.output(id), "ready")
        assert.strictEqual((yield* bench.stop(jobs, id)).status, "cancelled")
        yield* bench.nobodyLives
        const receipt = yield* jobs.termination(id)
        assert.deepStrictEqual([receipt.forced, receipt.exit], [true, { code: null, signal: "SIGKILL" }])
        assert.deepStrictEqual(signalsIn(receipt), ["SIGTERM", "SIGKILL"])
        bench.assertProven(receipt)
      })
  ),

  law(
    "to stop it now overtakes whoever waits for its grace",
    [programs.ignoresTerm],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, patient)
        yield* bench.untilText(yield* jobs.output(id), "ready")
        const first = yield* Effect.forkChild(jobs.stop(id), { startImmediately: true })
        yield* bench.aWhile
        assert.strictEqual((yield* jobs.get(id)).status, "running")
        const stopped = yield* bench.stop(jobs, id, { now: true })
        assert.deepStrictEqual(yield* Fiber.join(first), stopped)
        yield* bench.nobodyLives
      })
  ),

  law(
    "one that answers the signal keeps its exit and its last words",
    [programs.polite],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, patient)
        const view = yield* jobs.output(id)
        yield* bench.untilText(view, "ready")
        const stopped = yield* bench.stop(jobs, id)
        assert.deepStrictEqual([stopped.status, stopped.exit], ["cancelled", { code: 0, signal: null }])
        assert.isFalse((yield* jobs.termination(id)).forced)
        assert.include(yield* view.preview, "bye")
      })
  ),

  law("all who stop and wait share one end", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const { id } = yield* jobs.start(command)
      const waiting = yield* Effect.forkChild(
        Effect.all([jobs.wait(id), jobs.wait(id)], { concurrency: "unbounded" }),
        {
          startImmediately: true
        }
      )
      const stopped = yield* bench.done(
        "all are answered",
        Effect.all(Array.from({ length: 5 }, () => jobs.stop(id)), { concurrency: "unbounded" })
      )
      const answers = [...stopped, ...yield* Fiber.join(waiting), yield* bench.done("it answers", jobs.wait(id))]
      for (const answer of answers) assert.deepStrictEqual(answer, answers[0])
    })),

  law("interrupting who waits or stops does nothing to the job but what was asked", [
    programs.waits,
    programs.ignoresTerm
  ], (bench, waits, ignores) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const { id } = yield* jobs.start(waits)
      yield* bench.interrupted(yield* Effect.forkChild(jobs.wait(id), { startImmediately: true }))
      yield* bench.aWhile
      assert.strictEqual((yield* jobs.get(id)).phase, "running")
      const other = yield* jobs.start(ignores, brief)
      yield* bench.untilText(yield* jobs.output(other.id), "ready")
      yield* bench.interrupted(yield* Effect.forkChild(jobs.stop(other.id), { startImmediately: true }))
      assert.strictEqual((yield* bench.done("it has ended", jobs.wait(other.id))).status, "cancelled")
    })),

  law("to stop all is to stop those of one owner", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const ids = [yield* jobs.start(command), yield* jobs.start(command)].map(({ id }) => id)
      const other = yield* bench.background.of("other").start(command)
      const stopped = yield* bench.done("all are stopped", jobs.stopAll)
      assert.sameMembers(stopped.map(({ id }) => id), ids)
      assert.deepStrictEqual(stopped.map(({ status }) => status), ["cancelled", "cancelled"])
      assert.strictEqual((yield* bench.background.of("other").get(other.id)).status, "running")
      assert.deepStrictEqual(yield* bench.done("it answers", jobs.stopAll), [])
    })),

  law("a deadline ends a job as timed_out", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const ended = yield* bench.finished(bench.background.of("one"), command, { deadline: "30 millis" })
      assert.deepStrictEqual([ended.status, ended.receipt?.cause], ["timed_out", { _tag: "Deadline", kind: "total" }])
      yield* bench.nobodyLives
    })),

  law("a deadline can be moved, and taken away", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const kept = yield* jobs.start(command, { deadline: "1 hour" })
      assert.isNotNull(kept.deadlineAt)
      assert.isNull((yield* jobs.extend(kept.id, 0)).deadlineAt)
      const moved = yield* jobs.start(command, { deadline: "1 hour" })
      yield* jobs.extend(moved.id, "20 millis")
      assert.strictEqual((yield* bench.done("it has ended", jobs.wait(moved.id))).status, "timed_out")
      assert.strictEqual(yield* refusalOf(jobs.extend(kept.id, -1)), "InvalidCommand")
      assert.strictEqual((yield* jobs.get(kept.id)).status, "running")
    })),

  law(
    "a retired owner has its jobs ended but those of the application, and starts nothing",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const jobs = yield* Scope.provide(bench.background.scoped("one"), scope)
        const session = yield* jobs.start(command)
        const application = yield* jobs.start(command, { lifetime: "application" })
        yield* bench.done("the owner is retired", Scope.close(scope, Exit.void))
        const ended = yield* jobs.get(session.id)
        assert.deepStrictEqual([ended.status, ended.receipt?.cause], ["cancelled", { _tag: "Stop", by: "runtime" }])
        assert.strictEqual((yield* jobs.get(application.id)).status, "running")
        assert.strictEqual(yield* refusalOf(jobs.start(command)), "OwnerRetired")
        assert.strictEqual((yield* bench.stop(jobs, application.id)).status, "cancelled")
      })
  )
]

export const trees: Statements = (programs) => [
  law("a member that has left the group is ended with its leader", [programs.childLeavesGroup], stopsTree, [
    "processTable",
    "sessions"
  ]),
  law("a member that has left the session is ended with its leader", [programs.childLeavesSession], stopsTree, [
    "processTable",
    "sessions"
  ]),
  law("members that nobody waits for when they die are no survivors", [programs.neverReaps], stopsTree, [
    "processTable",
    "sessions"
  ]),
  law("a member that is long dead is no survivor", [programs.keepsZombie], (bench, command) =>
    Effect.gen(function*() {
      const jobs = bench.background.of("one")
      const { id } = yield* jobs.start(command)
      yield* bench.untilText(yield* jobs.output(id), "ready")
      assert.strictEqual((yield* bench.stop(jobs, id)).status, "cancelled")
      bench.assertProven(yield* jobs.termination(id))
      yield* bench.nobodyLives
    }), ["processTable"]),
  law(
    "a daemon that has left for good is ended after its leader, and told",
    [programs.daemonizes],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const ended = yield* bench.finished(jobs, command)
        yield* bench.nobodyLives
        assert.deepStrictEqual([ended.status, ended.receipt?.leftovers.length], ["completed", 1])
        bench.assertProven(yield* jobs.termination(ended.id))
      }),
    ["processTable", "marker"]
  )
]

export const telling: Statements = (programs) => [
  law(
    "each end is told once, with how it went",
    [programs.speaksTwice, programs.exits7],
    (bench, speaks, exits7) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const good = yield* bench.finished(jobs, speaks, { title: "good" })
        const bad = yield* bench.finished(jobs, exits7)
        const notices = yield* taken(bench, jobs, 2)
        assert.deepStrictEqual(toldOf(notices), [good.id, bad.id])
        const [first, second] = notices.filter(isJob)
        assert.deepInclude(first, {
          owner: "one",
          title: "good",
          status: "completed",
          exitCode: 0,
          bytesSeen: good.output.bytesSeen,
          repeated: false
        })
        assert.match(first?.tail ?? "", /out\s*err\s*$/)
        assert.deepInclude(second, { status: "error", exitCode: 7, exit: { code: 7, signal: null } })
        assert.deepStrictEqual(yield* jobs.notices, [])
        const more = yield* Effect.forkChild(jobs.awaitNotices, { startImmediately: true })
        yield* bench.aWhile
        assert.isUndefined(more.pollUnsafe())
      })
  ),

  law(
    "of two who wait for a notice one gets it, and who was interrupted has taken none",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command)
        yield* bench.interrupted(yield* Effect.forkChild(jobs.awaitNotices, { startImmediately: true }))
        const got: Array<string> = []
        const wait = Effect.map(jobs.awaitNotices, (notices) => got.push(...toldOf(notices)))
        yield* Effect.forkChild(wait, { startImmediately: true })
        yield* Effect.forkChild(wait, { startImmediately: true })
        yield* bench.stop(jobs, id)
        yield* bench.until("one of them has it", Effect.sync(() => got.length), (count) => count > 0)
        yield* bench.aWhile
        assert.deepStrictEqual([got, yield* jobs.notices], [[id], []])
      })
  ),

  law(
    "notices that were not seen come again, and say so; those that were do not",
    [programs.succeeds],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* bench.finished(jobs, command)
        const offered: Array<Notice> = []
        const offer = (outcome: Effect.Effect<void, string>) =>
          bench.done(
            "the notices were offered",
            Effect.exit(jobs.consumeNotices((notices) => {
              offered.push(...notices)
              return outcome
            }))
          )
        assert.isTrue(Exit.isFailure(yield* offer(Effect.fail("not seen"))))
        assert.isTrue(Exit.isFailure(yield* offer(Effect.die("nor now"))))
        const interrupted = yield* Effect.forkChild(
          jobs.consumeNotices((notices) => {
            offered.push(...notices)
            return Effect.never
          }),
          { startImmediately: true }
        )
        yield* bench.until("they are offered", Effect.sync(() => offered.length), (count) => count === 3)
        yield* bench.interrupted(interrupted)
        assert.isTrue(Exit.isSuccess(yield* offer(Effect.void)))
        assert.deepStrictEqual(toldOf(offered), [id, id, id, id])
        const told = offered.filter(isJob)
        assert.deepStrictEqual(told.map(({ repeated }) => repeated), [false, true, true, true])
        assert.strictEqual(new Set(told.map(({ noticeId }) => noticeId)).size, 1)
        assert.deepStrictEqual(yield* jobs.notices, [])
      })
  ),

  law(
    "events come in order, each once, and nothing after the end",
    [programs.succeeds, programs.waits],
    (bench, succeeds, waits) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const events: Array<Event> = []
        yield* Effect.forkChild(Stream.runForEach(jobs.events, (event) => Effect.sync(() => events.push(event))), {
          startImmediately: true
        })
        yield* bench.finished(bench.background.of("other"), succeeds)
        const { id } = yield* bench.finished(jobs, succeeds)
        const stopped = yield* jobs.start(waits)
        yield* bench.stop(jobs, stopped.id)
        const of = (job: string) => events.flatMap((event) => "id" in event && event.id === job ? [event._tag] : [])
        yield* bench.until(
          "both ends are told",
          Effect.sync(() => events.filter((it) => it._tag === "Ended").length),
          (n) => n === 2
        )
        yield* bench.aWhile
        assert.deepStrictEqual([...new Set(events.map((event) => "owner" in event ? event.owner : null))], ["one"])
        assert.deepStrictEqual(of(id).filter((tag) => steps.has(tag)), ["Started", "Exited", "Ended"])
        assert.deepStrictEqual(of(stopped.id).filter((tag) => steps.has(tag)), [
          "Started",
          "Terminating",
          "Exited",
          "Ended"
        ])
        assert.deepStrictEqual([of(id).at(-1), of(stopped.id).at(-1)], ["Ended", "Ended"])
      })
  ),

  law(
    "an observer that dies or hangs changes nothing for the job or for another observer",
    [programs.succeeds],
    (bench, command) =>
      Effect.scoped(Effect.gen(function*() {
        const seen: Array<string> = []
        yield* bench.background.observe(() => Effect.die("an observer's defect"))
        yield* bench.background.observe(() => Effect.never)
        yield* bench.background.observe((event) => Effect.sync(() => seen.push(event._tag)))
        assert.strictEqual((yield* bench.finished(bench.background.of("one"), command)).status, "completed")
        yield* bench.until("the end is observed", Effect.sync(() => seen), (tags) => tags.includes("Ended"))
        assert.strictEqual(seen[0], "Started")
      }))
  )
]

export const following: Statements = (programs) => [
  law(
    "a follower reads everything, from wherever it begins and whenever it comes, and ends",
    [programs.talks.command],
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes, sha256 } = programs.talks
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, keepingAll(programs))
        const view = yield* jobs.output(id)
        const middle = Math.floor(bytes / 2)
        const followers = yield* bench.done(
          "all followers have ended",
          Effect.all([
            Stream.runCollect(view.followBytes()),
            Stream.runCollect(view.followBytes({ limit: 1_000 })),
            Stream.runCollect(view.followBytes({ since: middle, limit: 777 })),
            Stream.runCollect(view.followBytes({ since: bytes }))
          ], { concurrency: "unbounded" })
        )
        const late = yield* Stream.runCollect(view.followBytes({ since: middle }))
        const ends = followers.map((pages, index) => hashOf(pages, [0, 0, middle, bytes][index]))
        assert.deepStrictEqual(ends.map(({ end }) => end), [bytes, bytes, bytes, bytes])
        assert.deepStrictEqual([ends[0]?.sha256, ends[1]?.sha256], [sha256, sha256])
        assert.deepStrictEqual(hashOf(late, middle), ends[2])
        const page = yield* view.readBytes({ since: middle, limit: 10 })
        assert.deepStrictEqual([page.since, page.next, page.sealed], [middle, middle + 10, true])
      })
  ),

  law(
    "a follower waits for what comes, and ends when the job does",
    [programs.polite],
    (bench, command) =>
      Effect.gen(function*() {
        const jobs = bench.background.of("one")
        const { id } = yield* jobs.start(command, patient)
        const view = yield* jobs.output(id)
        let text = ""
        const follower = yield* Effect.forkChild(
          Stream.runForEach(view.follow(), ({ data }) => Effect.sync(() => text += data)),
          { startImmediately: true }
        )
        yield* bench.until("it has read so far", Effect.sync(() => text), (seen) => seen.includes("ready"))
        yield* bench.aWhile
        assert.isUndefined(follower.pollUnsafe())
        yield* bench.stop(jobs, id)
        yield* bench.done("it has ended", Fiber.join(follower))
        assert.match(text, /ready[^]*bye/)
      })
  )
]

const steps: ReadonlySet<string> = new Set([
  "Started",
  "Terminating",
  "Exited",
  "Ended",
  "KillFailed",
  "Resolved"
])
