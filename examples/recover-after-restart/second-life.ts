// The second life: the same application on the same directory, some time after the first one was killed.
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, Recovery } from "@procyon/runtime"
import { Effect } from "effect"
import * as Page from "../printing/page.ts"

const [directory = ""] = process.argv.slice(2)

/** What became of the jobs that had not ended. */
const findings = Effect.gen(function*() {
  const recovery = yield* Recovery.Service
  const { entries } = yield* recovery.started
  yield* Page.table(
    ["job", "found", "status", "because"],
    entries.map(({ detail, outcome, status, title }) => [title ?? "", outcome, Page.status(status), detail ?? ""])
  )
  return entries
})

/** What nobody has been told yet. */
const news = Effect.fn("news")(function*(jobs: BackgroundProcess.Jobs) {
  const notices = yield* jobs.notices
  return notices.flatMap((notice) =>
    notice._tag === "Summary"
      ? []
      : [[notice.title ?? "", Page.status(notice.status), Page.exit(notice.exit), JSON.stringify(notice.tail)]]
  )
})

/** An adopted job is as one that was started in this life. */
const goOn = Effect.fn("goOn")(function*(jobs: BackgroundProcess.Jobs, { id, title }: Recovery.Entry) {
  const output = yield* jobs.output(id)
  yield* Page.row(title ?? "", `said ${JSON.stringify(yield* output.preview)} in the life before`)
  const { exit, status } = yield* jobs.stop(id)
  yield* Page.row("stopped", `${Page.status(status)}, by ${Page.exit(exit)}`)
})

const main = Effect.gen(function*() {
  const jobs = (yield* BackgroundProcess.Service).of("session-1")
  const entries = yield* findings
  yield* Page.remark("What nobody saw end is an error, and never a success.")
  yield* Page.blank
  yield* Page.table(["news of", "status", "exit", "last output"], yield* news(jobs))
  yield* Page.remark("Each is told once, in whichever life there is somebody to be told.")
  yield* Page.blank
  for (const entry of entries) if (entry.outcome === "adopted") yield* goOn(jobs, entry)
})

NodeProcessRuntime.runMain(main, NodeProcessRuntime.layerDurable({ directory }))
