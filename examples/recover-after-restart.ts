// What is left of the jobs of an application that was killed, and what does its next life find?
//
// A story in two process lives, told by a third process that starts them and looks on. The first life starts four jobs and
// kills itself, so that it cannot end anything. Its keeper ends what nobody owns any more. The second life opens the same
// directory and goes on. Ctrl-C ends it in the right order at any moment.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { NodeProcessRuntime } from "@procyon/platform-node"
import { AppProcess, CommandSpec } from "@procyon/runtime"
import { Console, Effect, FileSystem } from "effect"
import { fileURLToPath } from "node:url"
import * as Page from "./printing/page.ts"

/** Runs one of the lives to its end. What it leaves behind is the story, so this process leaves it alone. */
const live = (life: "first" | "second", directory: string) => {
  const file = fileURLToPath(new URL(`recover-after-restart/${life}-life.ts`, import.meta.url))
  return AppProcess.run(CommandSpec.make(process.execPath, [file, directory]), { leftovers: "keep" })
}

/** How many processes have this command line. `/proc` knows nothing of any runtime. */
const alive = (line: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const pids = (yield* fs.readDirectory("/proc")).filter((name) => /^\d+$/.test(name))
    // One that has ended meanwhile has none, and so has one that nobody has collected yet.
    const lines = yield* Effect.forEach(pids, (pid) =>
      Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/cmdline`), () => ""))
    return lines.filter((found) =>
      found.replaceAll("\0", " ").trim() === line
    ).length
  })

const untilGone = (line: string) =>
  Effect.repeat(Effect.andThen(Effect.sleep("50 millis"), alive(line)), { until: (count) => count === 0 })

const main = Effect.gen(function*() {
  yield* Page.title("Recovery", "Two lives of one application, on one directory of state.")
  const directory = yield* FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped())

  yield* Page.heading(1, "The first life", "What was going on when it was killed?")
  const first = yield* live("first", directory)
  yield* Console.log(first.stdout.trimEnd())
  yield* Page.blank
  yield* Page.row("it ended by", Page.exit(first.info.exit))

  yield* Page.heading(2, "Nobody is there", "Who ends what has no owner?")
  yield* untilGone("sleep 301")
  yield* untilGone("sleep 0.5")
  yield* Page.row("build", `${yield* alive("sleep 301")} of 2 alive: the keeper has ended them`)
  yield* Page.row("dev server", `${yield* alive("sleep 302")} of 1 alive: it is detached`)
  yield* Page.row("check", `${yield* alive("sleep 0.5")} of 1 alive: detached too, and it was through`)

  yield* Page.heading(3, "The second life", "What does it find?")
  const second = yield* live("second", directory)
  yield* Console.log((second.stdout + second.stderr).trimEnd())
}).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

NodeProcessRuntime.runMain(main, NodeProcessRuntime.layer)
