import { assert, it } from "@effect/vitest"
import { AppProcess, BackgroundProcess, CommandSpec } from "@procyon/runtime"
import { child, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { throughJson } from "../throughJson.ts"
import { law } from "./law.ts"

law(
  "what is told of a process and a job, live and ended, goes through JSON and back",
  { server: child.prints("hi\n").ignores("SIGTERM").refuses("SIGKILL", 1), quick: child.prints("x").exits(3) },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = (yield* BackgroundProcess.Service).of("s1")
    const infos: Array<BackgroundProcess.Info> = []
    const events: Array<BackgroundProcess.Event> = []
    yield* Effect.forkScoped(
      Stream.runForEach(jobs.events, (event) => Effect.sync(() => events.push(event))),
      { startImmediately: true }
    )
    const job = yield* jobs.start(CommandSpec.make("server"), { deadline: "6 seconds", name: "web", title: "web" })
    infos.push(job)
    yield* world.advance("6 seconds")
    infos.push(yield* jobs.get(job.id))
    yield* world.advance("8 seconds")
    infos.push(yield* jobs.wait(job.id))
    yield* world.kill("server")
    yield* world.advance("10 seconds")
    infos.push(yield* jobs.wait(job.id))
    const { info } = yield* AppProcess.run(CommandSpec.make("quick"))

    assert.deepStrictEqual(infos.map(({ phase }) => phase), ["running", "terminating", "unresolved", "settled"])
    const seen = new Set(events.map(({ _tag }) => _tag))
    for (
      const tag of ["Started", "Progress", "Heartbeat", "Terminating", "KillFailed", "Exited", "Resolved"] as const
    ) {
      assert.isTrue(seen.has(tag), tag)
    }
    for (const given of infos) {
      assert.deepStrictEqual(throughJson(BackgroundProcess.Info, given), given)
    }
    for (const given of events) {
      assert.deepStrictEqual(throughJson(BackgroundProcess.Event, given), given)
    }
    assert.deepStrictEqual(throughJson(AppProcess.Info, info), info)
  })
)

it.prop("every event that may be told goes through JSON and back", [BackgroundProcess.Event], ([given]) => {
  // JSON has one zero, and a number may be the other.
  const once = throughJson(BackgroundProcess.Event, given)
  assert.strictEqual(JSON.stringify(once), JSON.stringify(given))
  assert.deepStrictEqual(throughJson(BackgroundProcess.Event, once), once)
})
