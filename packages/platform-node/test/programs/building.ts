/**
 * An application that says how far it has got with its layer, and what its exit code is made of. Run by the tests of
 * `runMain`, which send it signals. Argument: what becomes of the layer (`waits`, `fails`, `throws`, `works`),
 * whose the exit code is (`default`; else its own).
 */
import { ShutdownBarrier } from "@procyon/runtime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { NodeProcessRuntime } from "../../src/index.ts"

const [what, whose] = process.argv.slice(2)

const building = Effect.gen(function*() {
  yield* Effect.addFinalizer(() => Console.log("released"))
  yield* Console.log("building")
  if (what === "waits") return yield* Effect.never
  if (what === "fails") return yield* Effect.fail("the layer's own failure")
  if (what === "throws") return yield* Effect.die(new Error("the layer's own defect"))
})

const layer = NodeProcessRuntime.layer.pipe(
  Layer.provideMerge(Layer.effectDiscard(building)),
  Layer.provide(ShutdownBarrier.onReport(() => Console.log("reported")))
)

const application = Console.log("built").pipe(Effect.andThen(what === "works" ? Effect.succeed("value") : Effect.never))

const own: NodeProcessRuntime.RunMainOptions<string, string> = {
  exitCode: (exit, report, signal) => {
    const listeners = ["SIGINT", "SIGTERM", "SIGHUP"].reduce((count, name) => count + process.listenerCount(name), 0)
    const outcome = Exit.isSuccess(exit) ? "a value" : "a failure"
    console.log(
      `code from ${outcome}, report ${report?.mode ?? "none"}, ${signal ?? "no signal"}, ${listeners} listeners`
    )
    return 42
  }
}
NodeProcessRuntime.runMain(application, layer, whose === "default" ? {} : own)
// What keeps this process alive otherwise has no say in when it ends.
setInterval(() => {}, 1000)
