/** What becomes of jobs whose application was killed or stopped: real applications on one state directory. */
import { assert, describe, it } from "@effect/vitest"
import { NodeProcessDriver, NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, ProcessLedger, ProcessRuntime, Recovery, Settings, type Status } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Orders, Said } from "../support/hosts/owning.ts"
import {
  compiled,
  directory,
  holdByTracer,
  type Host,
  host,
  isLiving,
  live,
  living,
  newTag,
  reusePid,
  seenAt,
  staysRoot,
  until,
  untilLiving
} from "../support/processes.ts"

const owningHost = new URL("../support/hosts/owning.ts", import.meta.url)

type Tagged<Tag extends Said["_tag"]> = Extract<Said, { readonly _tag: Tag }>

interface Application {
  readonly pid: number
  /** Its job. */
  readonly id: string
  /** The next line of this kind; others before it are passed over. */
  readonly hears: <Tag extends Said["_tag"]>(tag: Tag) => Effect.Effect<Tagged<Tag>>
  /** Waits for this event. */
  readonly sees: (event: string) => Effect.Effect<Tagged<"Event">>
  /** Sends a signal to its process alone, and waits for what that does. */
  readonly signal: (signal: "SIGKILL" | "SIGSTOP" | "SIGCONT") => Effect.Effect<void>
}

const next = <Tag extends Said["_tag"]>(host: Host<Said>, tag: Tag): Effect.Effect<Tagged<Tag>> =>
  Effect.flatMap(host.line, (said) => isA(said, tag) ? Effect.succeed(said) : next(host, tag))

const isA = <Tag extends Said["_tag"]>(said: Said, tag: Tag): said is Tagged<Tag> => said._tag === tag

const isSo = {
  // Its first thread is dead some time before the others are.
  SIGKILL: (pid: number) => seenAt(pid) === null,
  SIGSTOP: (pid: number) => seenAt(pid)?.state === "T",
  SIGCONT: (pid: number) => seenAt(pid)?.state !== "T"
}

/** Another application on this state. */
const application = (
  state: string,
  orders: Partial<Orders> = {}
): Effect.Effect<Application, never, Scope.Scope> =>
  Effect.gen(function*() {
    const all: Orders = {
      directory: state,
      leaseMillis: 30_000,
      graceMillis: 300,
      uid: null,
      script: null,
      notices: "leaves",
      ...orders
    }
    // In a file: the script in a command line would make the application look like its job.
    const ordersFile = path.join(yield* directory, "orders.json")
    fs.writeFileSync(ordersFile, JSON.stringify(all))
    const it = yield* host<Said>(owningHost, [ordersFile])
    const { id, pid } = yield* next(it, "Ready")
    const sees = (event: string): Effect.Effect<Tagged<"Event">> =>
      Effect.flatMap(next(it, "Event"), (seen) => seen.name === event ? Effect.succeed(seen) : sees(event))
    return {
      pid,
      id: id ?? "",
      hears: (tag) => next(it, tag),
      sees,
      signal: (signal) =>
        Effect.andThen(
          Effect.sync(() => process.kill(pid, signal)),
          until(`the application has its ${signal}`, () => isSo[signal](pid))
        )
    }
  })

/** A life in this process, on the state of others. */
const runtime = (state: string): Layer.Layer<ProcessRuntime.ProcessRuntime | ProcessLedger.Service> =>
  Layer.fresh(ProcessRuntime.layer.pipe(
    Layer.provideMerge(NodeProcessRuntime.layerLedger({ directory: state })),
    Layer.provide(NodeProcessDriver.layer),
    Layer.provide(Settings.layer({ graceMillis: 300, forceWindowMillis: 2_000 })),
    Layer.orDie
  ))

const jobs = Effect.map(BackgroundProcess.Service, (service) => service.of("a"))

const outcomes = Effect.gen(function*() {
  const { entries } = yield* (yield* Recovery.Service).started
  return entries.map(({ outcome, status }) => `${outcome} ${status}`)
})

/** Those of earlier lives are there once these were gone through. */
const takenNotices = Effect.gen(function*() {
  yield* outcomes
  const notices = yield* (yield* jobs).notices
  return notices.flatMap((notice) => notice._tag === "Job" ? [notice] : [])
})

const signalsIn = (receipt: Status.TerminationResult | null): string =>
  receipt?.timeline.map(({ what }) => what).join("\n") ?? assert.fail("no receipt")

const ledgerOf = (state: string) => Layer.orDie(NodeProcessRuntime.layerLedger({ directory: state }))

const rowOf = (state: string, id: string): Effect.Effect<ProcessLedger.LedgerRow> =>
  Effect.flatMap(ProcessLedger.Service, (ledger) => ledger.get(id)).pipe(
    Effect.provide(ledgerOf(state)),
    Effect.orDie,
    Effect.map((row) => row ?? assert.fail("no row"))
  )

describe("a job whose application was killed", () => {
  it.live("K11 runs on without an owner, is ended by the next application, and is never called completed", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const state = yield* directory
      const escapee = `setsid sh -c 'trap "" TERM; echo; exec sleep 300.${tag}'`
      const first = yield* application(state, { script: `${escapee} & exec sleep 301.${tag}` })
      yield* untilLiving(tag, "sleep", "sleep")
      yield* first.signal("SIGKILL")
      assert.strictEqual(living(tag).length, 2)
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* outcomes, ["ended cancelled"])
        assert.deepStrictEqual(living(tag), [])
        const { exit, receipt, status } = yield* (yield* jobs).get(first.id)
        assert.deepStrictEqual([status, receipt?.cause._tag, receipt?.survivorCount], ["cancelled", "OwnerLost", 0])
        assert.deepStrictEqual(exit, { code: null, signal: null })
        const told = yield* takenNotices
        assert.deepStrictEqual(told.map(({ noticeId }) => noticeId), [`${first.id}:cancelled`])
      }).pipe(Effect.provide(runtime(state)))
      assert.strictEqual((yield* rowOf(state, first.id)).fence, 2)
    }))

  live(
    "K12 is lost when its pid is somebody else's by then, who is left alone",
    ["root", "pids"],
    () =>
      Effect.gen(function*() {
        const succeeded = Effect.gen(function*() {
          const tag = yield* newTag
          const state = yield* directory
          const first = yield* application(state, { script: `exec sleep 300.${tag}` })
          const [job] = yield* untilLiving(tag, "sleep")
          const pid = job?.pid ?? assert.fail("no job")
          assert.strictEqual((yield* rowOf(state, first.id)).identity?.pid, pid)
          yield* first.signal("SIGKILL")
          process.kill(pid, "SIGKILL")
          yield* until(
            "whoever has inherited the job has collected it",
            () => seenAt(pid)?.startedAt !== job?.startedAt
          )
          return { first, state, stranger: yield* reusePid(pid, `20.${tag}`) }
        })
        const { first, state, stranger } = yield* Effect.retry(succeeded, { times: 9 })
        yield* Effect.gen(function*() {
          assert.deepStrictEqual(yield* outcomes, ["lost error"])
          const { error, exit, receipt, status } = yield* (yield* jobs).stop(first.id, { now: true })
          assert.deepStrictEqual([status, error, exit], ["error", "its exit was not seen", {
            code: null,
            signal: null
          }])
          assert.notMatch(signalsIn(receipt), /TERM|KILL/)
        }).pipe(Effect.provide(runtime(state)))
        assert.isTrue(isLiving(stranger))
      })
  )

  it.live("K12 is lost after another boot, and whoever has its pid, its start and its marker is left alone", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const state = yield* directory
      const first = yield* application(state, { script: `exec sleep 300.${tag}` })
      const [job] = yield* untilLiving(tag, "sleep")
      yield* first.signal("SIGKILL")
      const { holder, identity } = yield* rowOf(state, first.id)
      const bootId = "00000000-0000-0000-0000-000000000000"
      const moved = yield* Effect.flatMap(
        ProcessLedger.Service,
        (ledger) =>
          ledger.transition(first.id, { fence: 1, status: "running" }, {
            status: "running",
            identity: identity === null ? null : { ...identity, bootId },
            holder: holder === null ? null : { ...holder, bootId },
            leaseUntil: 0
          })
      ).pipe(Effect.provide(ledgerOf(state)))
      assert.isTrue(moved)
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* outcomes, ["lost error"])
        const { receipt } = yield* (yield* jobs).get(first.id)
        assert.notMatch(signalsIn(receipt), /TERM|KILL/)
      }).pipe(Effect.provide(runtime(state)))
      assert.isTrue(job !== undefined && isLiving(job))
    }))
})

describe("a tree that its application could not end before it was killed", () => {
  it.live("K05 leaves a leftover whose leader had ended: it is ended, and the exit that nobody recorded is unknown", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const state = yield* directory
      const script = `(trap '' TERM; exec sleep 300.${tag}) >/dev/null 2>&1 & exit 0`
      const first = yield* application(state, { script, graceMillis: 3_000 })
      yield* first.sees("Terminating")
      yield* first.signal("SIGKILL")
      assert.strictEqual(living(tag).length, 1)
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* outcomes, ["ended error"])
        assert.deepStrictEqual(living(tag), [])
        const { error, exit, receipt, status } = yield* (yield* jobs).get(first.id)
        assert.deepStrictEqual([status, error, exit], ["error", "its exit was not seen", { code: null, signal: null }])
        assert.deepStrictEqual(receipt?.leftovers.map(({ name }) => name), ["sleep"])
      }).pipe(Effect.provide(runtime(state)))
    }))

  live(
    "K07 refuses the next life too: it is for review, and settles once it has ended by itself",
    ["root", "cc"],
    () =>
      Effect.gen(function*() {
        const nobody = 65534
        const program = yield* compiled(staysRoot, { asRoot: true })
        const state = yield* directory
        fs.chownSync(state, nobody, nobody)
        const orders = { uid: nobody, notices: "takes" as const }
        const tag = yield* newTag
        const first = yield* application(state, { ...orders, script: `exec ${program} ${tag}` })
        const [child = assert.fail("no child")] = yield* untilLiving(tag, "program")
        yield* Effect.addFinalizer(() => Effect.sync(() => isLiving(child) && process.kill(child.pid, "SIGKILL")))
        yield* first.signal("SIGKILL")
        const second = yield* application(state, orders)
        assert.deepStrictEqual((yield* second.hears("Recovered")).outcomes, ["review kill_failed"])
        assert.isTrue(isLiving(child))
        assert.strictEqual((yield* second.hears("Notice")).noticeId, `${first.id}:kill_failed`)
        process.kill(child.pid, "SIGUSR1")
        yield* second.sees("Resolved")
        assert.strictEqual((yield* second.hears("Notice")).noticeId, `${first.id}:cancelled`)
      })
  )

  live(
    "K08 stays in the next life too: it is for review, and a retry settles it when it is let go",
    ["strace"],
    () =>
      Effect.gen(function*() {
        const tag = yield* newTag
        const state = yield* directory
        const first = yield* application(state, { script: `exec sleep 300.${tag}` })
        const [child = assert.fail("no child")] = yield* untilLiving(tag, "sleep")
        const letGo = yield* holdByTracer(child.pid)
        yield* first.signal("SIGKILL")
        yield* Effect.gen(function*() {
          assert.deepStrictEqual(yield* outcomes, ["review kill_failed"])
          assert.isTrue(isLiving(child))
          const recovery = yield* Recovery.Service
          assert.deepStrictEqual((yield* recovery.review).map(({ id }) => id), [first.id])
          yield* letGo
          yield* until("it has gone", () => !isLiving(child))
          assert.strictEqual((yield* recovery.retry(first.id)).status, "cancelled")
          assert.deepStrictEqual((yield* takenNotices).map(({ noticeId }) => noticeId), [
            `${first.id}:kill_failed`,
            `${first.id}:cancelled`
          ])
        }).pipe(Effect.provide(runtime(state)))
      })
  )
})

describe("notices of an application that was killed", () => {
  it.live("K34 come to the next one, once", () =>
    Effect.gen(function*() {
      const state = yield* directory
      const first = yield* application(state, { script: "echo bye; exit 3" })
      yield* first.sees("Ended")
      yield* first.signal("SIGKILL")
      yield* Effect.gen(function*() {
        const told = yield* takenNotices
        assert.deepStrictEqual(
          told.map(({ exitCode, noticeId, repeated }) => [noticeId, exitCode, repeated]),
          [[`${first.id}:error`, 3, false]]
        )
        assert.deepStrictEqual(yield* takenNotices, [])
      }).pipe(Effect.provide(runtime(state)))
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* takenNotices, [])
        assert.deepStrictEqual((yield* (yield* jobs).list).map(({ id, status }) => [id, status]), [[first.id, "error"]])
      }).pipe(Effect.provide(runtime(state)))
    }))

  it.live("K34 that it had been handed, and was not done with, come again and say so", () =>
    Effect.gen(function*() {
      const state = yield* directory
      const first = yield* application(state, { script: "exit 0", notices: "handed" })
      const noticeId = `${first.id}:completed`
      assert.deepStrictEqual(yield* first.hears("Notice"), { _tag: "Notice", noticeId, repeated: false })
      yield* first.signal("SIGKILL")
      const second = yield* application(state, { notices: "takes" })
      assert.deepStrictEqual(yield* second.hears("Notice"), { _tag: "Notice", noticeId, repeated: true })
      yield* until("that it was told is recorded", Effect.map(rowOf(state, first.id), ({ told }) => told !== null))
      yield* second.signal("SIGKILL")
      assert.deepStrictEqual(yield* Effect.provide(takenNotices, runtime(state)), [])
    }))
})

describe("two applications on one state", () => {
  it.live("K36 that start at once share what they find: one ends a job, and tells of it, the other does neither", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const state = yield* directory
      const first = yield* application(state, { script: `exec sleep 300.${tag}` })
      yield* untilLiving(tag, "sleep")
      yield* first.signal("SIGKILL")
      const both = yield* Effect.all(
        [application(state, { notices: "takes" }), application(state, { notices: "takes" })],
        { concurrency: "unbounded" }
      )
      const found = yield* Effect.forEach(both, (one) => one.hears("Recovered"), { concurrency: "unbounded" })
      assert.strictEqual(
        found.flatMap((one) => one.outcomes).filter((outcome) => outcome === "ended cancelled").length,
        1
      )
      assert.deepStrictEqual(living(tag), [])
      const taker = both[found.findIndex((one) => one.outcomes.includes("ended cancelled"))]
      const noticeId = `${first.id}:cancelled`
      assert.deepStrictEqual(yield* (taker ?? first).hears("Notice"), { _tag: "Notice", noticeId, repeated: false })
      yield* until("that it was told is recorded", Effect.map(rowOf(state, first.id), ({ told }) => told !== null))
      assert.strictEqual((yield* rowOf(state, first.id)).fence, 2)
    }))

  it.live("K36 one that was stopped past its lease neither writes nor tells of its job when it goes on", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const state = yield* directory
      const orders = { leaseMillis: 1_000, notices: "takes" } as const
      const first = yield* application(state, { ...orders, script: `exec sleep 300.${tag}` })
      yield* untilLiving(tag, "sleep")
      yield* first.signal("SIGSTOP")
      const second = yield* application(state, orders)
      assert.deepStrictEqual((yield* second.hears("Recovered")).outcomes, ["elsewhere running"])
      const noticeId = `${first.id}:cancelled`
      assert.deepStrictEqual(yield* second.hears("Notice"), { _tag: "Notice", noticeId, repeated: false })
      assert.deepStrictEqual(living(tag), [])
      const settled = yield* until(
        "that it was told is recorded",
        Effect.map(rowOf(state, first.id), (row) => row.told === null ? null : row)
      )
      assert.deepStrictEqual([settled.fence, settled.status], [2, "cancelled"])
      yield* first.signal("SIGCONT")
      // It has let go of the job, so there is nothing left that it could tell of.
      assert.strictEqual((yield* first.sees("Disowned")).left, 0)
      assert.deepStrictEqual(yield* rowOf(state, first.id), settled)
    }))

  it.live("K36 one that misses a beat keeps its job", () =>
    Effect.gen(function*() {
      const tag = yield* newTag
      const state = yield* directory
      const orders = { leaseMillis: 3_000 }
      const first = yield* application(state, { ...orders, script: `exec sleep 300.${tag}` })
      yield* untilLiving(tag, "sleep")
      const second = yield* application(state, orders)
      assert.deepStrictEqual((yield* second.hears("Recovered")).outcomes, ["elsewhere running"])
      const leased = rowOf(state, first.id)
      const { leaseUntil } = yield* leased
      // A beat comes every second: one is due, and does not come.
      yield* first.signal("SIGSTOP")
      yield* until("a beat was missed", () => Date.now() > leaseUntil - orders.leaseMillis + 1_200)
      yield* first.signal("SIGCONT")
      const renewed = (after: number) =>
        until("its lease is renewed", Effect.map(leased, (row) => row.leaseUntil > after ? row.leaseUntil : null))
      yield* renewed((yield* renewed(leaseUntil)) + orders.leaseMillis)
      assert.strictEqual((yield* leased).fence, 1)
      assert.strictEqual(living(tag).length, 1)
    }))
})
