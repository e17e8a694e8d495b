/** A program without a test runner that uses a runtime on fakes. */
import * as Children from "@procyon/testing/Children"
import * as RuntimeTest from "@procyon/testing/RuntimeTest"
import { World } from "@procyon/testing/World"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"

const program = Effect.gen(function*() {
  const job = yield* RuntimeTest.startJob("server", { deadline: "1 hour" })
  yield* RuntimeTest.expectReceipt(job.id, { status: "timed_out", forced: true }, { atMost: "2 hours" })
  yield* RuntimeTest.nothingLeft
  yield* Console.log(yield* (yield* World).timeline())
})

const layer = RuntimeTest.layer({ children: { server: Children.ignoringTerm } })

await Effect.runPromise(Effect.provide(program, Layer.provideMerge(layer, TestClock.layer())))
