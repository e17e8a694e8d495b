/**
 * An application that starts one detached process and says who it is. Then it goes on until it is killed, or, told
 * `leave`, lets go of it and ends by itself.
 *
 * Arguments: the directory of the files, a shell script, how the process is detached (JSON), `leave` or `stay`.
 */
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import { markerPrefix } from "@procyon/runtime/domain/Identity"
import type { Detached } from "@procyon/runtime/ports/ProcessDriver"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { randomBytes } from "node:crypto"
import { NodeProcessDriver } from "../../src/index.ts"

const [directory = "", script = "", as = "", then] = process.argv.slice(2)
const detached: Detached = JSON.parse(as)

const region = new Uint8Array(4096)
const sink = { reserve: () => region, commit: () => true, end: () => undefined }

const application = Effect.gen(function*() {
  const driver = yield* NodeProcessDriver.makeWith({ detached: directory })
  const child = yield* driver.spawn({
    command: CommandSpec.shell(script),
    marker: `${markerPrefix}${randomBytes(8).toString("hex")}`,
    stdout: sink,
    stderr: "merged",
    onExit: () => undefined,
    detached
  })
  yield* Console.log(JSON.stringify(child.identity))
  // Nothing but a timer keeps it alive from here on.
  if (then === "stay") yield* Effect.sleep("10 minutes")
})

await Effect.runPromise(Effect.scoped(application))
