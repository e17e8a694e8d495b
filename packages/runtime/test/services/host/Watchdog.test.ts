import { assert, it } from "@effect/vitest"
import { child, Lives, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import { jobsOf, start } from "../lives.ts"

for (const [what, aheadMillis] of [["forward", 3_600_000], ["back", -3_600_000]] as const) {
  it.effect(`an extension counts on the monotonic clock, also when the wall clock was set ${what} since the start`, () =>
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin()
      const { id } = yield* life.run(start("server", { deadline: "1 minute" }))
      yield* life.setWallClock(aheadMillis)
      const jobs = yield* life.run(jobsOf("s1"))
      yield* life.run(jobs.extend(id, "10 minutes"))
      yield* world.advance("599 seconds")
      assert.deepStrictEqual(yield* world.signals, [])
      yield* world.advance("1 second")
      assert.deepStrictEqual(yield* world.signals, ["600000 SIGTERM server"])
    }).pipe(Effect.provide(Lives.layer({ children: { server: child } }))))
}
