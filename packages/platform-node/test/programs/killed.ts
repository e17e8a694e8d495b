/**
 * An application with durable jobs: a third of them waits, a third has a child in a session of its own, a third ignores
 * SIGTERM. Run by `support/kills.ts`, which kills it or its keeper. It says lines of JSON. Arguments: what it does, the
 * directory of its state, how many jobs, the grace in milliseconds, and a tag that is in the command line of each job.
 *
 * - `first`: starts the jobs and says so. Once a loss of its keeper is told it says that, ends the jobs, and says what came
 *   of it.
 * - `next`: says what recovery found, and what the rows say then.
 */
import { BackgroundProcess, CommandSpec, ProcessLedger, Recovery, Settings } from "@procyon/runtime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { NodeProcessRuntime } from "../../src/index.ts"
import type { Found, Healed, Started, Told } from "../support/kills.ts"

const [how, directory = "", jobs, grace, tag = ""] = process.argv.slice(2)
const count = Number(jobs)

const say = (what: Started | Told | Healed | Found): void => void process.stdout.write(`${JSON.stringify(what)}\n`)

const tally = (words: ReadonlyArray<string>): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

const wait = `sleep 300.${tag}`
const scripts = [`echo up; exec ${wait}`, `setsid ${wait} & echo up; wait`, `trap '' TERM; echo up; exec ${wait}`]

const lost = Deferred.makeUnsafe<string>()
const logger = Logger.make(({ logLevel, message }) => {
  if (logLevel === "Warn") Deferred.doneUnsafe(lost, Effect.succeed(String(message)))
})

const first = Effect.gen(function*() {
  const began = performance.now()
  const jobs = (yield* BackgroundProcess.Service).of("session")
  const started = yield* Effect.forEach(
    Array.from({ length: count }, (_, index) => scripts[index % scripts.length] ?? ""),
    (script) => jobs.start(CommandSpec.shell(script)),
    { concurrency: "unbounded" }
  )
  for (const { id } of started) {
    const output = yield* jobs.output(id)
    while (!(yield* output.read()).data.includes("up")) yield* Effect.sleep(20)
  }
  say({ upMillis: performance.now() - began })
  say({ told: yield* Deferred.await(lost) })
  const toldAt = performance.now()
  const next = yield* jobs.start(CommandSpec.shell("exit 7"))
  const { exit } = yield* jobs.wait(next.id)
  const nextMillis = performance.now() - toldAt
  const ended = yield* jobs.stopAll
  say({
    next: exit?.code ?? null,
    nextMillis,
    statuses: tally(ended.map(({ status }) => status)),
    unknownExits: ended.filter(({ exit }) => exit === null || (exit.code === null && exit.signal === null)).length,
    endMillis: performance.now() - toldAt - nextMillis
  })
})

const next = Effect.gen(function*() {
  const recovery = yield* Recovery.Service
  const { durationMillis, entries, failed, unreadable } = yield* recovery.started
  const ledger = yield* ProcessLedger.Service
  say({
    failed: failed || unreadable,
    outcomes: tally(entries.map(({ outcome }) => outcome)),
    statuses: tally((yield* ledger.rows()).map(({ status }) => status)),
    open: (yield* ledger.rows({ settled: false })).length,
    recoveryMillis: durationMillis
  })
})

const layer = NodeProcessRuntime.layerDurable({ directory }).pipe(
  Layer.merge(NodeProcessRuntime.layerLedger({ directory })),
  Layer.provide([
    Settings.layer({
      graceMillis: Number(grace),
      maxRunningPerOwner: count + 1,
      maxFinishedPerOwner: count + 1,
      outputBytes: 4096,
      outputHeadBytes: 1024
    }),
    Logger.layer([logger])
  ])
)

if (how === "first") NodeProcessRuntime.runMain(first, layer)
else NodeProcessRuntime.runMain(next, layer)
