/**
 * An application with its rows in a file, which says line by line what comes of them. It goes on until it is killed.
 *
 * Argument: a file of JSON: `directory` of its state, `leaseMillis`, `graceMillis`, `script` of a job to start (or `null`), `uid` of
 * the user it becomes first (or `null`), and what it does with notices: it `takes` them and says so, is `handed` them and never
 * done with them, or `leaves` them.
 */
import { NodeProcessDriver, NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, CommandSpec, ProcessRuntime, Recovery, Settings } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readFileSync, writeSync } from "node:fs"

export interface Orders {
  readonly directory: string
  readonly leaseMillis: number
  readonly graceMillis: number
  readonly uid: number | null
  readonly script: string | null
  readonly notices: "takes" | "handed" | "leaves"
}

export type Said =
  /** Its runtime is built, and its job started. */
  | { readonly _tag: "Ready"; readonly pid: number; readonly id: string | null }
  /** What it found of earlier lives, as of its first look. */
  | { readonly _tag: "Recovered"; readonly outcomes: ReadonlyArray<string>; readonly known: number }
  | { readonly _tag: "Notice"; readonly noticeId: string; readonly repeated: boolean }
  /** An event of a job; `left`: how many jobs its owner has then. */
  | { readonly _tag: "Event"; readonly name: string; readonly left: number }

const orders: Orders = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"))
if (orders.uid !== null) {
  process.setgroups?.([])
  process.setgid?.(orders.uid)
  process.setuid?.(orders.uid)
}
const say = (said: Said): void => void writeSync(1, `${JSON.stringify(said)}\n`)

const runtime = ProcessRuntime.layer.pipe(
  Layer.provide([NodeProcessDriver.layer, NodeProcessRuntime.layerLedger({ directory: orders.directory })]),
  Layer.provide(Settings.layer({
    graceMillis: orders.graceMillis,
    forceWindowMillis: 1_000,
    heartbeatMillis: 500,
    leaseMillis: orders.leaseMillis,
    startAnswerMillis: 10_000
  }))
)

const application = Effect.gen(function*() {
  const background = yield* BackgroundProcess.Service
  const jobs = background.of("a")
  yield* background.observe((event) =>
    Effect.map(jobs.list, ({ length }) => say({ _tag: "Event", name: event._tag, left: length }))
  )
  const { script } = orders
  const id = script === null ? null : (yield* jobs.start(CommandSpec.shell(script))).id
  say({ _tag: "Ready", pid: process.pid, id })
  const { entries, known } = yield* (yield* Recovery.Service).started
  say({ _tag: "Recovered", outcomes: entries.map(({ outcome, status }) => `${outcome} ${status}`), known })
  if (orders.notices === "leaves") return yield* Effect.never
  return yield* Effect.forever(jobs.consumeNotices((notices) => {
    for (const notice of notices) {
      if (notice._tag === "Job") say({ _tag: "Notice", noticeId: notice.noticeId, repeated: notice.repeated })
    }
    return orders.notices === "handed" ? Effect.never : Effect.void
  }))
}).pipe(Effect.scoped, Effect.provide(runtime))

// Once its job has ended, nothing else keeps it alive.
setInterval(() => {}, 1000)
await Effect.runPromise(application)
