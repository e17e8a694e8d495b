// What does Procyon do with a process, from its start to the proof that it is gone?
//
// Seven short scenes with real processes, also as `npm start`. Ctrl-C ends it in the right order at any moment.
// `npm start -- --hold` leaves two jobs running at the end, to be looked at, until Ctrl-C.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { NodeKeeperDriver, NodeProcessRuntime } from "@procyon/platform-node"
import {
  AppProcess,
  BackgroundProcess,
  BlobStore,
  CommandSpec,
  ProcessDriver,
  Settings,
  ShutdownBarrier
} from "@procyon/runtime"
import { Effect, FileSystem, Layer, Stream } from "effect"
import * as Page from "./printing/page.ts"

/** Ignoring SIGTERM is inherited; `setsid` leaves both the process group and the session. */
const stubbornTree = `
  (trap "" TERM; exec sh -c 'echo "grandchild $$"; exec sleep 300') &
  (trap "" TERM; exec setsid sh -c 'echo "escapee $$"; exec sleep 300') &
  echo "leader $$"
  wait
`

/** 1,310,720 lines of eight bytes: exactly ten megabytes, and no line like another. */
const tenMegabytes = CommandSpec.make("seq", ["-w", "1", "1310720"])

const completes = Effect.gen(function*() {
  yield* Page.heading(1, "A command that completes", "What comes back from a command?")
  const results = yield* Effect.forEach(
    ["echo hello", "echo oh >&2; exit 3"],
    (script) => AppProcess.run(CommandSpec.shell(script))
  )
  yield* Page.table(
    ["command", "status", "exit", "stdout", "stderr"],
    results.map(({ info, stderr, stdout }) => [
      info.display,
      Page.status(info.status),
      Page.exit(info.exit),
      JSON.stringify(stdout),
      JSON.stringify(stderr)
    ])
  )
  yield* Page.remark("A result is a value, whatever the exit code. AppProcess.requireSuccess makes it an error.")
})

const stopsTheWholeTree = (jobs: BackgroundProcess.Jobs) =>
  Effect.gen(function*() {
    yield* Page.heading(2, "A tree that does not want to end", "Who is left after a stop?")
    const job = yield* jobs.start(CommandSpec.shell(stubbornTree), { title: "stubborn tree" })
    const pids = yield* announcedPids(yield* jobs.output(job.id), 3)
    yield* Page.row("leader", `${pids.get("leader")}, waits for its children`)
    yield* Page.row("grandchild", `${pids.get("grandchild")}, ignores SIGTERM`)
    yield* Page.row("escapee", `${pids.get("escapee")}, ignores SIGTERM in a session of its own`)
    yield* Page.row("asked", "jobs.stop(id)")
    yield* Page.blank
    yield* jobs.stop(job.id)
    yield* Effect.all(Page.receipt(yield* jobs.termination(job.id)))
    yield* Page.row("capabilities", Page.capabilities((yield* ProcessDriver.Service).capabilities))
    yield* Page.row("/proc says", yield* askTheKernel([...pids.values()]))
  })

/** Follows the output until so many lines `name pid` are there: evidence that the tree is up. */
const announcedPids = (output: BackgroundProcess.View, lines: number) =>
  output.follow().pipe(
    Stream.scan(() => "", (text, page) => text + page.data),
    Stream.map((text) => new Map([...text.matchAll(/^(\w+) (\d+)\n/gm)].map(([, name = "", pid = ""]) => [name, pid]))),
    Stream.filter((pids) => pids.size >= lines),
    Stream.runHead,
    Effect.flatMap(Effect.fromOption)
  )

/** A second opinion, which knows nothing of the runtime. A zombie is dead: its parent has not asked how it ended. */
const askTheKernel = (pids: ReadonlyArray<string>) =>
  Effect.map(
    AppProcess.run(
      CommandSpec.make("grep", ["-hs", "^State:", ...["self", ...pids].map((pid) => `/proc/${pid}/status`)])
    ),
    ({ stdout }) => {
      const [self, ...others] = stdout.split("\n").filter((line) => line !== "")
      const alive = others.filter((line) => !/\b[ZX] /.test(line)).length
      return self === undefined ? "nothing: there is none here" : `${alive} of the ${pids.length} alive`
    }
  )

const timesOut = (jobs: BackgroundProcess.Jobs) =>
  Effect.gen(function*() {
    yield* Page.heading(3, "A deadline", "What if it never ends?")
    const job = yield* jobs.start(CommandSpec.make("sleep", ["300"]), { title: "too slow", deadline: "300 millis" })
    yield* Page.row("command", job.display)
    yield* Page.row("deadline", Page.duration(job.deadlineMillis ?? 0))
    yield* Effect.all(Page.receipt(yield* jobs.termination(job.id)))
  })

const keepsOutput = (jobs: BackgroundProcess.Jobs) =>
  Effect.gen(function*() {
    yield* Page.heading(4, "Ten megabytes of output", "Where does it all go?")
    const job = yield* jobs.start(tenMegabytes, { title: "talkative" })
    const { display, output } = yield* jobs.wait(job.id)
    const preview = yield* (yield* jobs.output(job.id)).preview
    yield* Page.row("command", display)
    yield* Page.row("seen", Page.bytes(output.bytesSeen))
    yield* Page.row("in memory", `${Page.bytes(output.bytesRetained)}, truncated ${output.truncated}`)
    yield* Page.row("preview", ...shortened(preview), `(${Page.bytes(preview.length)})`)
    yield* Page.row("sha256", output.sha256 ?? "none")
    if (output.blob === null) return yield* Page.row("blob", "none")
    const blob = yield* readBlob(output.blob)
    const digest = yield* sha256(blob)
    yield* Page.row("blob", output.blob.replace(job.id, "<id of the job>"))
    yield* Page.row("read back", Page.bytes(blob.byteLength), `sha256 ${digest}`)
    yield* Page.remark(
      digest === output.sha256
        ? "The same digest: the blob holds every byte."
        : "The digests differ: the blob is wrong."
    )
  })

/** The first and last lines of a preview, and the line that tells of what lies between. */
const shortened = (preview: string): ReadonlyArray<string> => {
  const lines = preview.trimEnd().split("\n")
  const marker = lines.findIndex((line) => line.startsWith("..."))
  return [...lines.slice(0, 2), ...lines.slice(marker, marker + 1), ...lines.slice(-2)]
}

const readBlob = (ref: string) =>
  BlobStore.Service.use((store) => Stream.runCollect(store.read(ref))).pipe(
    Effect.flatMap((chunks) => Effect.promise(() => new Blob(chunks.map((chunk) => chunk.slice())).arrayBuffer()))
  )

/** Computed here, by nothing that the runtime has a part in. */
const sha256 = (bytes: ArrayBuffer) =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", bytes)),
    (digest) => Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("")
  )

const keepsOwnersApart = (ann: BackgroundProcess.Jobs, bob: BackgroundProcess.Jobs) =>
  Effect.gen(function*() {
    yield* Page.heading(5, "A second owner", "Can bob see what ann runs?")
    const job = yield* ann.start(CommandSpec.make("sleep", ["300"]), { title: "private" })
    yield* Page.row("ann lists", `${(yield* ann.list).length} jobs`)
    yield* Page.row("bob lists", `${(yield* bob.list).length} jobs`)
    yield* Page.row(
      "bob asks",
      `for hers:  ${yield* told(bob.get(job.id))}`,
      `for none:  ${yield* told(bob.get("no-such-job"))}`
    )
    yield* Page.row("bob stops", `all of his own: ${(yield* bob.stopAll).length} jobs`)
    yield* Page.row("ann's job", `still ${Page.status((yield* ann.get(job.id)).status)}`)
    yield* ann.stop(job.id)
    yield* Page.remark("A foreign id and an unknown one get the same answer, so an id tells nothing.")
  })

const told = (answer: Effect.Effect<unknown, BackgroundProcess.ProcessNotFound>) =>
  Effect.match(answer, { onSuccess: () => "found", onFailure: (error) => `${error._tag}, "${error.message}"` })

const givesNotices = (jobs: BackgroundProcess.Jobs) =>
  Effect.gen(function*() {
    yield* Page.heading(6, "Notices", "What ended while nobody was looking?")
    yield* Page.table(["job", "status", "exit", "after", "output", "last line"], (yield* jobs.notices).map(noticeCells))
    yield* Page.remark(`Each is given once: asked again, there are ${(yield* jobs.notices).length}.`)
  })

const noticeCells = (notice: BackgroundProcess.Notice): ReadonlyArray<string> =>
  notice._tag === "Summary" ? [`${notice.dropped} older ones`] : [
    notice.title ?? notice.id,
    Page.status(notice.status),
    Page.exit(notice.exit),
    Page.duration(notice.durationMillis),
    Page.bytes(notice.bytesSeen),
    notice.tail.trimEnd().split("\n").at(-1) ?? ""
  ]

const main = Effect.gen(function*() {
  const background = yield* BackgroundProcess.Service
  const ann = background.of("ann")
  const bob = background.of("bob")
  yield* Page.title("Procyon", "Seven scenes with real processes. Each asks a question, and shows what happened.")
  yield* completes
  yield* stopsTheWholeTree(ann)
  yield* timesOut(ann)
  yield* keepsOutput(ann)
  yield* keepsOwnersApart(ann, bob)
  yield* givesNotices(ann)
  yield* ann.start(CommandSpec.shell(stubbornTree), { title: "left running" })
  yield* bob.start(CommandSpec.make("sleep", ["300"]), { title: "left running" })
  if (process.argv.includes("--hold")) {
    yield* Page.remark("Two jobs are running, of ann and of bob. Ctrl-C ends them.")
    return yield* Effect.never
  }
})

/** Scene 7 is told by the barrier itself, so it is there however the program ends. */
const shutdownReport = ShutdownBarrier.onReport((report) =>
  Effect.gen(function*() {
    yield* Page.heading(7, "The shutdown report", "And what is left when the program ends?")
    yield* Page.lines(ShutdownBarrier.summarize(report))
    yield* Page.remark(report.clean ? "Every process is verified gone." : "Not everything could be ended.")
    yield* Page.blank
  })
)

/** Output that memory does not keep goes to a directory that is removed when the runtime has closed. */
const blobs = Layer.unwrap(
  Effect.map(
    FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped({ prefix: "procyon-" })),
    (directory) => NodeProcessRuntime.layerBlobs({ directory })
  )
).pipe(Layer.provide(NodeServices.layer))

const runtime = Layer.mergeAll(NodeProcessRuntime.layer, NodeKeeperDriver.layerAuto).pipe(
  Layer.provideMerge(blobs),
  Layer.provide([Settings.layer({ graceMillis: 300 }), shutdownReport])
)

NodeProcessRuntime.runMain(main, runtime)
