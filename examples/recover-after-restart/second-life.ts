// The second life: the same application on the same directory, some time after the first one was killed.
import { NodeProcessRuntime } from "@procyon/platform-node"
import { BackgroundProcess, Recovery } from "@procyon/runtime"
import { Effect } from "effect"
import * as Page from "../printing/page.ts"

const [directory = ""] = process.argv.slice(2)

const main = Effect.gen(function*() {
  const recovery = yield* Recovery.Service
  const jobs = (yield* BackgroundProcess.Service).of("session-1")

  const report = yield* recovery.started
  yield* Page.table(
    ["job", "found", "status", "because"],
    report.entries.map(({ detail, outcome, status, title }) => [
      title ?? "",
      outcome,
      Page.status(status),
      detail ?? ""
    ])
  )
  yield* Page.remark("What nobody saw end is an error, and never a success.")
  yield* Page.blank

  const notices = yield* jobs.notices
  yield* Page.table(
    ["news of", "status", "exit", "last output"],
    notices.flatMap((notice) =>
      notice._tag === "Summary"
        ? []
        : [[notice.title ?? "", Page.status(notice.status), Page.exit(notice.exit), JSON.stringify(notice.tail)]]
    )
  )
  yield* Page.remark("Each is told once, in whichever life there is somebody to be told.")
  yield* Page.blank

  for (const entry of report.entries.filter(({ outcome }) => outcome === "adopted")) {
    const output = yield* jobs.output(entry.id)
    yield* Page.row(entry.title ?? "", `said ${JSON.stringify(yield* output.preview)} in the life before`)
    const stopped = yield* jobs.stop(entry.id)
    yield* Page.row("stopped", `${Page.status(stopped.status)}, by ${Page.exit(stopped.exit)}`)
  }
})

NodeProcessRuntime.runMain(main, NodeProcessRuntime.layerDurable({ directory }))
