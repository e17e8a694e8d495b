import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as CommandSpec from "../../src/domain/CommandSpec.ts"
import * as ProcessOptions from "../../src/services/ProcessOptions.ts"
import * as Settings from "../../src/services/Settings.ts"

const resolve = (output: ProcessOptions.OutputOptions, settings: Partial<Settings.Settings> = {}) => {
  const all = { ...Settings.defaults, ...settings }
  const { headBytes, limitBytes } = Result.getOrThrow(
    ProcessOptions.resolve(CommandSpec.make("true"), { output }, all, "merged")
  )
  return [headBytes, limitBytes]
}

const policy = (options: ProcessOptions.Options, settings: Partial<Settings.Settings> = {}) =>
  Result.getOrThrow(
    ProcessOptions.resolve(CommandSpec.make("true"), options, { ...Settings.defaults, ...settings }, "merged")
  )

describe("ProcessOptions", () => {
  it("keeps 64 KiB of the beginning in 1 MiB by default", () => {
    assert.deepStrictEqual(resolve({}), [64 * 1024, 1024 * 1024])
  })

  it("keeps the end too under a limit smaller than the default beginning", () => {
    assert.deepStrictEqual(resolve({ limit: 1000 }), [500, 1000])
    assert.deepStrictEqual(resolve({}, { outputBytes: 4096 }), [2048, 4096])
    assert.deepStrictEqual(resolve({ limit: 1 }), [0, 1])
  })

  it("takes a beginning that was asked for as it is, as far as the limit goes", () => {
    assert.deepStrictEqual(resolve({ head: 900, limit: 1000 }), [900, 1000])
    assert.deepStrictEqual(resolve({ head: 2000, limit: 1000 }), [1000, 1000])
  })

  it("fills in every default", () => {
    assert.deepStrictEqual(policy({}), {
      title: null,
      deadlineAskedMillis: null,
      deadlineMillis: null,
      idleDeadlineMillis: null,
      graceMillis: 5_000,
      forceWindowMillis: 3_000,
      leftovers: "end",
      streams: "merged",
      headBytes: 64 * 1024,
      limitBytes: 1024 * 1024,
      capBytes: 0,
      spill: "on-truncation",
      stopSignal: "SIGTERM"
    })
  })

  it("restores from a row what it says, and for everything else what this life has", () => {
    const settings = { ...Settings.defaults, graceMillis: 7, forceWindowMillis: 8 }
    const row = { title: "dev", deadlineMillis: 5, streams: "separate" as const }
    const asked = policy({ idleDeadline: 9, grace: 1, leftovers: "keep", output: { cap: 3 } })
    const kept = ProcessOptions.restored({ ...row, policy: ProcessOptions.stored(asked) }, settings)
    const defaults = ProcessOptions.restored({ ...row, policy: null }, settings)
    const of = (given: ProcessOptions.Policy) => [
      given.title,
      given.deadlineMillis,
      given.streams,
      given.spill,
      given.idleDeadlineMillis,
      given.graceMillis,
      given.forceWindowMillis,
      given.leftovers,
      given.capBytes,
      given.stopSignal
    ]
    const always = ["dev", 5, "separate", "never"]
    assert.deepStrictEqual(of(kept), [...always, 9, 1, 3_000, "keep", 3, "SIGTERM"])
    assert.deepStrictEqual(of(defaults), [...always, null, 7, 8, "end", 0, "SIGTERM"])
  })

  it("takes what the caller sets over what the runtime sets", () => {
    const given = policy(
      {
        title: "dev server",
        deadline: "2 hours",
        idleDeadline: "1 minute",
        grace: 0,
        forceWindow: "1 second",
        leftovers: "keep",
        streams: "separate",
        output: { cap: 7, spill: "never" }
      },
      { graceMillis: 1, forceWindowMillis: 2 }
    )
    assert.deepStrictEqual(given, {
      title: "dev server",
      deadlineAskedMillis: 7_200_000,
      deadlineMillis: 7_200_000,
      idleDeadlineMillis: 60_000,
      graceMillis: 0,
      forceWindowMillis: 1_000,
      leftovers: "keep",
      streams: "separate",
      headBytes: 64 * 1024,
      limitBytes: 1024 * 1024,
      capBytes: 7,
      spill: "never",
      stopSignal: "SIGTERM"
    })
  })

  it("reads zero, left out and infinite as no deadline and no cap", () => {
    const inputs = [undefined, 0, Infinity, "0 seconds"] as const
    for (const deadline of inputs) {
      const given = policy({ deadline, idleDeadline: deadline })
      assert.deepStrictEqual([given.deadlineMillis, given.idleDeadlineMillis], [null, null])
    }
    for (const cap of [undefined, 0, Infinity]) assert.strictEqual(policy({ output: { cap } }).capBytes, 0)
  })

  it("clamps a longer deadline where the runtime has a cap, shows both, and adds none", () => {
    const capped = { deadlineCapMillis: 1_000 }
    const long = policy({ deadline: "1 hour" }, capped)
    assert.deepStrictEqual([long.deadlineAskedMillis, long.deadlineMillis], [3_600_000, 1_000])
    assert.strictEqual(policy({ deadline: 10 }, capped).deadlineMillis, 10)
    assert.isNull(policy({}, capped).deadlineMillis)
  })

  it("takes any finite deadline, beyond 2^31 milliseconds too", () => {
    assert.strictEqual(policy({ deadline: "400 days" }).deadlineMillis, 400 * 24 * 60 * 60 * 1000)
  })

  it("prefers a grace set here to the command's own, and the command's to the runtime's", () => {
    const command = { ...CommandSpec.make("true"), graceMillis: 2_000 }
    const grace = (options: ProcessOptions.Options) =>
      Result.getOrThrow(ProcessOptions.resolve(command, options, Settings.defaults, "merged")).graceMillis
    assert.deepStrictEqual([grace({}), grace({ grace: "1 second" })], [2_000, 1_000])
  })

  it.each(
    [
      ["deadline", { deadline: -1 }, "BadDuration"],
      ["deadline", { deadline: NaN }, "BadDuration"],
      ["idleDeadline", { idleDeadline: -1 }, "BadDuration"],
      ["grace", { grace: Infinity }, "BadDuration"],
      ["forceWindow", { forceWindow: NaN }, "BadDuration"],
      ["output.limit", { output: { limit: -1 } }, "BadSize"],
      ["output.head", { output: { head: 1.5 } }, "BadSize"],
      ["output.cap", { output: { cap: NaN } }, "BadSize"]
    ] as const
  )("refuses %s of %o as %s", (where, options, problem) => {
    const refused = Result.flip(ProcessOptions.resolve(CommandSpec.make("true"), options, Settings.defaults, "merged"))
    const { problem: said, where: place } = Result.getOrThrow(refused)
    assert.deepStrictEqual([place, said], [where, problem])
  })

  it("refuses a choice that there is not, instead of ignoring it", () => {
    const choices = { leftovers: "some", streams: "both", output: { spill: "always" } } as const
    for (const [where, choice] of Object.entries(choices)) {
      const options: unknown = { [where]: choice }
      const refused = ProcessOptions.resolve(
        CommandSpec.make("true"),
        options as ProcessOptions.Options,
        Settings.defaults,
        "merged"
      )
      assert.strictEqual(Result.getOrThrow(Result.flip(refused)).problem, "Unsupported")
    }
  })

  it("cuts a long title between two characters", () => {
    const { title } = policy({ title: `x${"😀".repeat(200)}` })
    assert.isAtMost(title?.length ?? Infinity, 200)
    assert.isTrue(title?.isWellFormed())
  })
})
