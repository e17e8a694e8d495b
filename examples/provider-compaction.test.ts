import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { readFileSync } from "node:fs"
import { withoutChance } from "./harness/chance.ts"
import { run } from "./harness/program.ts"
import { Compaction, type Outcome, type Parts, type Problem, type Progress } from "./provider-compaction/compaction.ts"

const expected = readFileSync(new URL("provider-compaction.txt", import.meta.url), "utf8")

// After a change on purpose: npm run --silent example provider-compaction > examples/provider-compaction.txt
it("the story is told as provider-compaction.txt has it, exits with 0, and leaves no process and no file", async () => {
  const ended = await run("provider-compaction")
  assert.strictEqual(withoutChance(ended.stdout), withoutChance(expected))
  assert.strictEqual(ended.stderr, "")
  assert.strictEqual(ended.code, 0)
  assert.deepStrictEqual(ended.alive, [])
  assert.deepStrictEqual(ended.files, [])
})

/** A process whose request is answered by hand, and what it told its application. */
const held = (parts: Partial<Parts> = {}) => {
  const told: Array<Progress | Outcome> = []
  const request = Deferred.makeUnsafe<Effect.Effect<string, Problem>, Problem>()
  const tell = (what: Progress | Outcome) => Effect.sync(() => void told.push(what))
  const compaction = new Compaction({
    request: Deferred.await(request),
    heartbeat: "10 seconds",
    progress: tell,
    apply: () => Effect.succeed({ _tag: "Committed", value: undefined }),
    finished: tell,
    leave: () => Effect.void,
    ...parts
  })
  return { compaction, request, told, tags: () => told.map(({ _tag }) => _tag) }
}

it.effect("start returns while the provider has not answered, and the heartbeat goes by the Clock", () =>
  Effect.gen(function*() {
    const { compaction, request, told } = held()
    yield* compaction.start()
    yield* TestClock.adjust("9999 millis")
    assert.deepStrictEqual(told, [{ _tag: "Waiting", beats: 0, millis: 0 }])
    yield* TestClock.adjust("10001 millis")
    assert.deepStrictEqual(told.slice(1), [
      { _tag: "Waiting", beats: 1, millis: 10_000 },
      { _tag: "Waiting", beats: 2, millis: 20_000 }
    ])
    yield* Deferred.succeed(request, Effect.succeed("short"))
    assert.strictEqual((yield* compaction.outcome)._tag, "Succeeded")
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(told.slice(3).map(({ _tag }) => _tag), ["Reading", "Succeeded"])
  }))

it.effect("a cancellation ends the wait for the provider, and is told once", () =>
  Effect.gen(function*() {
    const { compaction, tags } = held()
    yield* compaction.start()
    yield* TestClock.adjust(0)
    assert.isTrue(yield* compaction.requestCancel("you"))
    yield* compaction.requestCancel("somebody else")
    assert.deepStrictEqual(yield* compaction.outcome, { _tag: "Cancelled", by: "you" })
    assert.deepStrictEqual(tags(), ["Waiting", "Cancelled"])
  }))

it.effect("a cancellation before the start is one too: nothing is requested", () =>
  Effect.gen(function*() {
    const { compaction, tags } = held({ request: Effect.die("requested") })
    yield* compaction.requestCancel("you")
    yield* compaction.start()
    assert.deepStrictEqual(yield* compaction.outcome, { _tag: "Cancelled", by: "you" })
    assert.deepStrictEqual(tags(), ["Cancelled"])
  }))

it.effect("an answer that is being read cannot be cancelled", () =>
  Effect.gen(function*() {
    const { compaction, request, tags } = held()
    const rest = yield* Deferred.make<string>()
    yield* compaction.start()
    yield* Deferred.succeed(request, Deferred.await(rest))
    yield* TestClock.adjust(0)
    assert.isFalse(yield* compaction.requestCancel("you"))
    yield* Deferred.succeed(rest, "short")
    assert.strictEqual((yield* compaction.outcome)._tag, "Succeeded")
    assert.deepStrictEqual(tags(), ["Waiting", "Reading", "Succeeded"])
  }))

it.effect("close returns at once, and a result that comes later and is discarded is told to nobody", () =>
  Effect.gen(function*() {
    const { compaction, request, tags } = held({ apply: () => Effect.succeed({ _tag: "Discarded" }) })
    const rest = yield* Deferred.make<string>()
    yield* compaction.start()
    yield* Deferred.succeed(request, Deferred.await(rest))
    yield* TestClock.adjust(0)
    const outcome = yield* Effect.forkChild(compaction.outcome)
    yield* compaction.close()
    yield* TestClock.adjust("1 hour")
    assert.isUndefined(outcome.pollUnsafe())
    yield* Deferred.succeed(rest, "late")
    assert.strictEqual((yield* Fiber.join(outcome))._tag, "Discarded")
    assert.deepStrictEqual(tags(), ["Waiting", "Reading"])
  }))

it.effect("a failure that another try may mend is told apart from one that it will not", () =>
  Effect.gen(function*() {
    for (const [transient, tag] of [[true, "Retry"], [false, "Failed"]] as const) {
      const { compaction } = held({ request: Effect.fail({ message: "no", transient }) })
      yield* compaction.start()
      assert.deepStrictEqual(yield* compaction.outcome, { _tag: tag, reason: "no" })
    }
  }))
