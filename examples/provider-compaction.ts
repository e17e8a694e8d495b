// What becomes of long work when it fails, is cancelled or overtaken, and when its application is replaced?
//
// A plugin has a provider shorten conversations, over HTTP. The provider is played here, so that each scene can let it
// answer when it suits; everything else is as it would be.
import { NodeRuntime } from "@effect/platform-node"
import { Generation, ManagedProcess, Operation } from "@procyon/runtime"
import { Clock, Effect, Layer, Option } from "effect"
import * as Page from "./printing/page.ts"
import { Compaction } from "./provider-compaction/compaction.ts"
import * as Notifications from "./provider-compaction/notifications.ts"
import { application, cancel, compact, Heartbeat, notificationOf, offerAgain } from "./provider-compaction/plugin.ts"
import * as Provider from "./provider-compaction/provider.ts"
import * as Sessions from "./provider-compaction/sessions.ts"

type Services = Layer.Success<typeof application>
type Application = Generation.Generation<Services, Layer.Error<typeof application>>

const nextCall = Provider.ProviderServer.use((provider) => provider.nextCall)

const succeeds = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(1, "A compaction", "When does the action return?")
    yield* sessionRow("before", "ann")
    const before = yield* Clock.currentTimeMillis
    const { id, status } = yield* Effect.provideService(application.use(compact("ann")), Heartbeat, "40 millis")
    const took = (yield* Clock.currentTimeMillis) - before
    yield* Page.row("action", `${status} after ${Page.duration(took)}, and the provider has not answered`)
    const found = yield* application.use(processOf(id))
    yield* Page.row("looked up", Option.isSome(found) ? "the process, by its id" : "nothing")
    const call = yield* nextCall
    yield* seen("ann", ({ text }) => text.includes("2 heartbeats"))
    yield* call.answer("in short: six")
    yield* settled("ann")
    yield* Page.row("looked up", (yield* gone(application, id)) ? "nothing, it has removed itself" : "still there")
    yield* sessionRow("after", "ann")
    yield* historyOf("ann")
  })

const isAdmitted = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(2, "A second one", "Who may compact at the same time?")
    const first = yield* application.use(compact("bob"))
    yield* Page.row("bob", first.status)
    const refusal = yield* Effect.flip(application.use(compact("bob")))
    yield* Page.row("bob again", `${refusal._tag}, "${refusal.message}"`)
    yield* Page.row("carol", (yield* application.use(compact("carol"))).status)
    yield* (yield* nextCall).answer("in short: six")
    yield* (yield* nextCall).answer("in short: six")
    yield* Effect.all([settled("bob"), settled("carol")])
    yield* gone(application, first.id)
    const active = yield* application.use(Operation.Service.use((operations) => operations.active("bob")))
    yield* Page.row("bob, later", `${active.length} operations are active`)
    yield* Page.remark("One a session. The refusal names the operation in the way, to show it or to cancel it.")
  })

const fails = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(3, "Two failures", "Is it worth another try?")
    const { id } = yield* application.use(compact("dave"))
    yield* (yield* nextCall).refuse(503)
    yield* settled("dave")
    yield* gone(application, id)
    yield* application.use(compact("dave"))
    yield* (yield* nextCall).answer("in short: six")
    yield* seen("dave", ({ state }) => state === "succeeded")
    yield* Page.lines("The provider answers 503, and then somebody presses Retry.")
    yield* historyOf("dave")
    yield* application.use(compact("erin"))
    yield* (yield* nextCall).refuse(422)
    yield* settled("erin")
    yield* Page.remark("The provider answers 422.")
    yield* historyOf("erin")
  })

const isCancelled = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(4, "A cancellation", "Does the provider hear of it?")
    yield* application.use(compact("frank"))
    const call = yield* nextCall
    yield* Page.row("action", yield* application.use(cancel("frank")))
    yield* call.withdrawn
    yield* Page.row("the server", "its client has closed the connection")
    yield* settled("frank")
    yield* sessionRow("after", "frank")
    yield* historyOf("frank")
    yield* Page.remark("The registry cannot cancel. It finds the process, and cancelling is a method of that.")
  })

const movesOn = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(5, "A session that moves on", "What if somebody writes meanwhile?")
    yield* application.use(compact("grace"))
    const call = yield* nextCall
    yield* Sessions.Sessions.use((sessions) => sessions.append("grace", "seven"))
    yield* call.answer("in short: six")
    yield* settled("grace")
    yield* sessionRow("after", "grace")
    yield* historyOf("grace")
    yield* Page.remark("The summary is of revision 1, so it is not put in the place of revision 2.")
  })

const isReplaced = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(6, "An application that is replaced", "Where does a late result go?")
    const { authority, generation } = yield* application.current
    const { id } = yield* application.use(compact("heidi"))
    const old = yield* Effect.flatMap(application.use(processOf(id)), Effect.fromOption)
    const call = yield* nextCall
    yield* call.accept
    yield* seen("heidi", ({ text }) => text === "the provider answers")
    const discarded = yield* authority.discarded

    yield* Page.row(
      "replaced",
      `application ${generation} by ${yield* application.replace}, while the provider answers`
    )
    yield* Page.row("looked up", (yield* gone(application, id)) ? "nothing: no process is carried over" : "still there")
    yield* application.use(offerAgain("heidi"))
    yield* call.answer("in short: too late")
    yield* Page.row("late result", (yield* old.outcome)._tag)
    yield* Page.row("counted", `${(yield* authority.discarded) - discarded} discarded of application ${generation}`)
    yield* sessionRow("after", "heidi")

    yield* application.use(compact("heidi"))
    yield* (yield* nextCall).answer("in short: six")
    yield* settled("heidi")
    yield* sessionRow("after Retry", "heidi")
    yield* historyOf("heidi")
  })

const ends = (application: Application) =>
  Effect.gen(function*() {
    yield* Page.heading(7, "The end", "And what is left of it all?")
    yield* application.use(compact("ivan"))
    const call = yield* nextCall
    const ended = Option.getOrThrow(yield* application.close)
    yield* call.withdrawn
    const { closed, failed } = ended.store
    yield* Page.row("closed", `application ${ended.generation}, with ivan's compaction going on`)
    yield* Page.row("its store", `${closed} closed, ${failed.length} failed`)
    yield* sessionRow("after", "ivan")
    const refusal = yield* Effect.flip(application.use(compact("ivan")))
    yield* Page.row("an action", `${refusal._tag}, "${refusal.message}"`)
    const { received, withdrawn } = yield* Provider.ProviderServer.use((provider) => provider.counts)
    yield* Page.row("the server", `${received} requests, ${withdrawn} withdrawn`)
    yield* Page.blank
  })

const processOf = (id: string) => ManagedProcess.Registry.use((registry) => registry.get(id, Compaction))

/** Waits for the end of what is still there, and looks whether it has removed itself. */
const gone = (application: Application, id: string) =>
  Effect.gen(function*() {
    const found = yield* application.use(processOf(id))
    if (Option.isSome(found)) yield* found.value.outcome
    return Option.isNone(yield* application.use(processOf(id)))
  })

const seen = (session: string, is: (shown: Notifications.Notification) => boolean) =>
  Notifications.Notifications.use((notifications) => notifications.until(notificationOf(session), is))

const settled = (session: string) => seen(session, ({ state }) => state !== "running")

const sessionRow = (label: string, id: string) =>
  Effect.flatMap(
    Sessions.Sessions.use((sessions) => sessions.get(id)),
    ({ messages, revision }) =>
      Page.row(label, `revision ${revision}, ${messages.length === 1 ? "1 message" : `${messages.length} messages`}`)
  )

/** What was shown of it. Of heartbeats that follow one another, the last. */
const historyOf = (session: string) =>
  Effect.gen(function*() {
    const history = yield* Notifications.Notifications.use((notifications) =>
      notifications.history(notificationOf(session))
    )
    const rows = history
      .map(({ offers, state, text }, index) => [index === 0 ? "created" : "updated", state, text, offers ?? ""])
      .filter(([, , text = ""], index) => !(isBeat(text) && isBeat(history[index + 1]?.text ?? "")))
    yield* Page.blank
    yield* Page.table(["notification", "state", "it says", "it offers"], rows)
  })

const isBeat = (text: string): boolean => text.includes("heartbeats")

const main = Effect.gen(function*() {
  yield* Page.title(
    "Long work in memory",
    "Seven scenes with a provider over HTTP. Each asks a question, and shows what happened."
  )
  const running = yield* Generation.make(application)
  yield* succeeds(running)
  yield* isAdmitted(running)
  yield* fails(running)
  yield* isCancelled(running)
  yield* movesOn(running)
  yield* isReplaced(running)
  yield* ends(running)
})

/** What there is beside the application, and outlives it. */
const outside = Layer.mergeAll(Provider.layer, Sessions.layer, Notifications.layer)

main.pipe(Effect.scoped, Effect.provide(outside), NodeRuntime.runMain)
