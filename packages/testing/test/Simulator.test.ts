/**
 * Random histories keep their promises; the same seed gives the same trace; and what breaks a promise is found, and cut
 * short. The histories with names are those by which a mistake was once found.
 */
import { assert, describe, it } from "@effect/vitest"
import { Simulator } from "@procyon/testing"
import * as Effect from "effect/Effect"

const plain = { seed: 1, settings: {}, faults: [] }

it.live(
  "whatever happens in 400 random histories, every promise holds",
  () =>
    Effect.forEach(
      Array.from({ length: 400 }, (_, seed) => seed),
      (seed) =>
        Effect.map(Simulator.judge(seed), ({ outcome }) => {
          assert.deepStrictEqual(outcome.violations, [], `seed ${seed}`)
        }),
      { discard: true }
    ),
  60_000
)

it.live("the same seed gives the same history and the same trace", () =>
  Effect.gen(function*() {
    for (const seed of [3, 14, 159]) {
      assert.deepStrictEqual(Simulator.generate(seed), Simulator.generate(seed))
      const once = yield* Simulator.run(Simulator.generate(seed))
      assert.deepStrictEqual(yield* Simulator.run(Simulator.generate(seed)), once)
      assert.isAbove(once.trace.length, 20)
    }
  }))

describe("a driver that breaks its promise", () => {
  /** It has started somebody, and nobody can learn of it. */
  const liar: Simulator.History = {
    ...plain,
    faults: [
      {
        port: "driver",
        call: "spawn",
        when: { _tag: "Always" },
        what: { _tag: "Hang", done: true, uninterruptible: true }
      },
      { port: "driver", call: "look", when: { _tag: "Nth", n: 2 }, what: { _tag: "Tear" } }
    ],
    steps: [
      { act: { _tag: "Start", job: "j1", owner: "a", child: "talker" }, wait: 0 },
      { act: { _tag: "Acquire", workspace: "w1" }, wait: 300 },
      { act: { _tag: "Start", job: "j2", owner: "b", child: "stubborn", options: { deadline: 70_000 } }, wait: 1000 },
      { act: { _tag: "Blind", looks: 2 }, wait: 0 },
      { act: { _tag: "Reconcile" }, wait: 20_000 },
      { act: { _tag: "Notices", owner: "a", how: "take" }, wait: 0 }
    ]
  }

  it.live("is found, and the history cut to what is needed for that", () =>
    Effect.gen(function*() {
      const broken = yield* Simulator.run(liar)
      assert.strictEqual(broken.violations[0]?.rule, "proof")
      const short = yield* Simulator.shrink(liar)
      assert.deepStrictEqual(short.faults.map(({ call }) => call), ["spawn"])
      assert.deepStrictEqual(short.steps.map(({ act }) => act._tag).filter((tag) => tag !== "Reconcile"), ["Start"])
      assert.strictEqual((yield* Simulator.run(short)).violations[0]?.rule, "proof")
    }))

  it.live("is printed as a test that runs the same history", () =>
    Effect.gen(function*() {
      const outcome = yield* Simulator.run(liar)
      const text = Simulator.toTest(liar, outcome)
      assert.match(text, /^it\.live\("proof: stubborn|^it\.live\("proof: /)
      const printed = text.slice(text.indexOf("check(") + "check(".length, text.lastIndexOf("))"))
      assert.deepStrictEqual(JSON.parse(printed.replaceAll(/([{,]\s*)(\w+):/g, "$1\"$2\":")), liar)
      const told = yield* Effect.flip(
        Effect.catchDefect(Simulator.check(liar), (defect) => Effect.fail(String(defect)))
      )
      assert.include(told, "proof (")
    }))
})

describe("a history by which a mistake was found", () => {
  const law = (name: string, history: Partial<Simulator.History> & Pick<Simulator.History, "steps">) =>
    it.live(name, () => Simulator.check({ ...plain, ...history }))

  law("a start that was answered for, and then failed, is told of in the next life", {
    steps: [{ act: { _tag: "Start", job: "j1", owner: "a", child: "unanswered" }, wait: 15_000 }]
  })

  law("a row that was released is free, although the next wall clock is an hour behind", {
    steps: [
      { act: { _tag: "WallClock", ahead: 3_600_000 }, wait: 0 },
      { act: { _tag: "Start", job: "j1", owner: "a", child: "quick" }, wait: 0 },
      { act: { _tag: "Shutdown", mode: "now" }, wait: 0 }
    ]
  })

  law("whoever follows a job that cannot be ended has an answer at the end of the runtime", {
    steps: [
      { act: { _tag: "Start", job: "j1", owner: "a", child: "stuck" }, wait: 0 },
      { act: { _tag: "Follow", job: "j1", since: 0, stream: "stdout" }, wait: 0 }
    ]
  })

  law("a start that nobody can interrupt does not hold up the end of the runtime for ever", {
    faults: [{
      port: "driver",
      call: "spawn",
      when: { _tag: "Nth", n: 1 },
      what: { _tag: "Hang", uninterruptible: true }
    }],
    steps: [
      { act: { _tag: "Start", job: "j1", owner: "a", child: "polite" }, wait: 15_000 },
      { act: { _tag: "Restart" }, wait: 0 }
    ]
  })

  law("a spill that failed lets go of what it has written when the runtime ends", {
    settings: { outputBytes: 8192 },
    faults: [{ port: "blobs", call: "seal", when: { _tag: "Always" }, what: { _tag: "Fail" } }],
    steps: [
      { act: { _tag: "Start", job: "j1", owner: "a", child: "talker" }, wait: 5000 }
    ]
  })

  law("a directory whose creation failed half way is removed", {
    faults: [{
      port: "workspaces",
      call: "create",
      when: { _tag: "Nth", n: 1 },
      what: { _tag: "Fail", problem: "Denied", done: true }
    }],
    steps: [{ act: { _tag: "Acquire", workspace: "w1" }, wait: 0 }]
  })

  law("a start that fails while the ledger is slow is told of, by its answer or by a notice", {
    faults: [{
      port: "ledger",
      call: "transition",
      when: { _tag: "Chance", chance: 0.8 },
      what: { _tag: "Delay", millis: 3000 }
    }],
    steps: [
      { act: { _tag: "Start", job: "j1", owner: "a", child: "broken" }, wait: 2000 },
      { act: { _tag: "Restart" }, wait: 0 }
    ]
  })
})
