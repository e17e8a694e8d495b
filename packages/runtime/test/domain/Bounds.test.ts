import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Bounds from "../../src/domain/Bounds.ts"
import type { InvalidCommand } from "../../src/domain/InvalidCommand.ts"

const answer = <A>(result: Result.Result<A, InvalidCommand>): A | string =>
  Result.match(result, { onFailure: ({ problem, where }) => `${problem} ${where}`, onSuccess: (value) => value })

const deadline = (input: unknown): number | null | string =>
  answer(Bounds.deadline("deadline", input as Duration.Input | undefined))

const nonsense: ReadonlyArray<unknown> = [
  NaN,
  -1,
  -Infinity,
  -1n,
  "-Infinity",
  "-5 seconds",
  "5",
  "soon",
  "5 fortnights",
  "",
  null,
  true,
  Symbol("s"),
  () => 5,
  [],
  [5],
  [NaN, 0],
  [1, NaN],
  [1, "2"],
  [1, 2, 3],
  [Infinity, -Infinity],
  [-5, 0],
  {},
  { seconds: NaN },
  { seconds: "5" },
  { second: 5 },
  { seconds: 5, second: 5 },
  { hours: Infinity, minutes: -Infinity },
  { hours: -1 },
  Duration.seconds(-1),
  Duration.negativeInfinity,
  new Proxy({}, {
    ownKeys: () => {
      throw new Error("no")
    }
  })
]

describe("deadline", () => {
  it("reads zero, infinite and left out as none", () => {
    for (const none of [undefined, 0, -0, 0n, Infinity, "Infinity", "0 seconds", [0, 0], { hours: 0 }, Duration.zero]) {
      assert.strictEqual(deadline(none), null)
    }
    assert.strictEqual(deadline(Duration.infinity), null)
  })

  it("keeps every other finite value, however small or large", () => {
    assert.strictEqual(deadline(0.5), 0.5)
    assert.strictEqual(deadline(1n), 1e-6)
    assert.strictEqual(deadline(2 ** 31), 2 ** 31)
    assert.strictEqual(deadline(2 ** 53), 2 ** 53)
    assert.strictEqual(deadline("30 days"), 30 * 86_400_000)
    assert.strictEqual(deadline([1, 500_000_000]), 1500)
    assert.strictEqual(deadline({ hours: 1, minutes: -30 }), 1_800_000)
    assert.strictEqual(deadline(Duration.minutes(5)), 300_000)
  })

  it("refuses what is negative, NaN or no duration, where Effect would read zero or throw", () => {
    for (const input of nonsense) assert.strictEqual(deadline(input), "BadDuration deadline")
  })

  it.prop("keeps every positive number of milliseconds as it is", [Schema.Finite], ([given]) => {
    const expected = given === 0 ? null : given < 0 ? "BadDuration deadline" : given
    assert.strictEqual(deadline(given), expected)
  })
})

describe("wait", () => {
  const wait = (input: unknown): number | string =>
    answer(Bounds.wait("grace", input as Duration.Input | undefined, 5000))

  it("takes its default when left out, and zero as zero", () => {
    assert.strictEqual(wait(undefined), 5000)
    assert.strictEqual(wait(0), 0)
    assert.strictEqual(wait("2 seconds"), 2000)
  })

  it("refuses what would not end, and nonsense", () => {
    for (const input of [...nonsense, Infinity, Duration.infinity]) assert.strictEqual(wait(input), "BadDuration grace")
  })
})

describe("bytes", () => {
  it("takes its default for zero or left out, and refuses what is no whole positive size", () => {
    assert.strictEqual(answer(Bounds.bytes("output.head", undefined, 64)), 64)
    assert.strictEqual(answer(Bounds.bytes("output.head", 0, 64)), 64)
    assert.strictEqual(answer(Bounds.bytes("output.head", 1, 64)), 1)
    for (const input of [-1, NaN, Infinity, 1.5, 2 ** 53, "8" as never, null as never]) {
      assert.strictEqual(answer(Bounds.bytes("output.head", input, 64)), "BadSize output.head")
    }
  })
})

describe("cap", () => {
  it("takes its default when left out, zero and infinite as no cap, and refuses nonsense", () => {
    assert.strictEqual(answer(Bounds.cap("jobs", undefined, 8)), 8)
    assert.strictEqual(answer(Bounds.cap("jobs", 0, 8)), Infinity)
    assert.strictEqual(answer(Bounds.cap("jobs", Infinity, 8)), Infinity)
    assert.strictEqual(answer(Bounds.cap("jobs", 3, 8)), 3)
    for (const input of [-1, NaN, 1.5, "8" as never]) {
      assert.strictEqual(answer(Bounds.cap("jobs", input, 8)), "BadSize jobs")
    }
  })
})
