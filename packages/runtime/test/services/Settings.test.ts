import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Settings from "../../src/services/Settings.ts"

const read = (env: Record<string, string>, prefix?: string) =>
  Settings.Current.pipe(
    Effect.provide(
      Settings.layerConfig(prefix).pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(env))))
    )
  )

describe("Current", () => {
  it.effect("holds the defaults without a layer", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* Settings.Current, Settings.defaults)
    }))

  it("has the documented defaults", () => {
    const { defaults } = Settings
    assert.deepStrictEqual(
      [defaults.startWindowMillis, defaults.graceMillis, defaults.forceWindowMillis, defaults.lingerMillis],
      [10_000, 5_000, 3_000, 100]
    )
    assert.deepStrictEqual(
      [defaults.flushWindowMillis, defaults.pollMillis, defaults.shutdownBudgetMillis],
      [3_000, 25, 30_000]
    )
    assert.deepStrictEqual(
      [defaults.maxRunningPerOwner, defaults.maxFinishedPerOwner, defaults.maxNoticesPerOwner],
      [8, 64, 256]
    )
    assert.deepStrictEqual([defaults.heartbeatMillis, defaults.leaseMillis], [5_000, 30_000])
    assert.deepStrictEqual(
      [defaults.outputBytes, defaults.outputHeadBytes, defaults.previewBytes, defaults.noticeTailBytes],
      [1024 * 1024, 64 * 1024, 4096, 500]
    )
    assert.strictEqual(defaults.finishedOutputBytes, 64 * 1024 * 1024)
    assert.isNull(defaults.deadlineCapMillis)
  })
})

describe("layer", () => {
  it.effect("sets what it is given and keeps the rest", () =>
    Effect.gen(function*() {
      const settings = yield* Settings.Current.pipe(Effect.provide(Settings.layer({ graceMillis: 0 })))
      assert.deepStrictEqual(settings, { ...Settings.defaults, graceMillis: 0 })
    }))

  it.effect("reads 0 as the default for a size of output, and as a limit of its own for a count of jobs", () =>
    Effect.gen(function*() {
      const zeros = { outputBytes: 0, outputHeadBytes: 0, finishedOutputBytes: 0, maxRunningPerOwner: 0 }
      const settings = yield* Settings.Current.pipe(Effect.provide(Settings.layer(zeros)))
      assert.deepStrictEqual(settings, { ...Settings.defaults, maxRunningPerOwner: 0 })
    }))
})

describe("a setting that means nothing", () => {
  const mistakes: ReadonlyArray<Partial<Settings.Settings>> = [
    { graceMillis: -1 },
    { shutdownBudgetMillis: NaN },
    { forceWindowMillis: Infinity },
    { heartbeatMillis: 0 },
    { pollMillis: 0 },
    { outputBytes: -5 },
    { maxRunningPerOwner: -1 }
  ]
  for (const mistake of mistakes) {
    it.effect(`${Object.entries(mistake).join(": ")} is refused by name when the layer is built`, () =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(Effect.provide(Settings.Current, Settings.layer(mistake)))
        assert.isTrue(Exit.isFailure(exit))
        assert.include(String(exit), Object.keys(mistake).join())
      }))
  }
})

describe("layerConfig", () => {
  it.effect("keeps every default when nothing is set", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* read({}), Settings.defaults)
    }))

  it.effect("reads durations and numbers under its prefix", () =>
    Effect.gen(function*() {
      const settings = yield* read({
        PROCYON_GRACE: "2 seconds",
        PROCYON_FORCE_WINDOW: "250 millis",
        PROCYON_LINGER: "0 millis",
        PROCYON_SHUTDOWN_BUDGET: "1 minute",
        PROCYON_HEARTBEAT: "10 seconds",
        PROCYON_START_WINDOW: "3 seconds",
        PROCYON_MAX_RUNNING_PER_OWNER: "0",
        PROCYON_OUTPUT_BYTES: "2048",
        GRACE: "1 day"
      })
      assert.deepStrictEqual(settings, {
        ...Settings.defaults,
        graceMillis: 2_000,
        forceWindowMillis: 250,
        lingerMillis: 0,
        shutdownBudgetMillis: 60_000,
        heartbeatMillis: 10_000,
        startWindowMillis: 3_000,
        maxRunningPerOwner: 0,
        outputBytes: 2048
      })
    }))

  it.effect("takes another prefix", () =>
    Effect.gen(function*() {
      const settings = yield* read({ APP_GRACE: "1 second", PROCYON_GRACE: "2 seconds" }, "APP_")
      assert.strictEqual(settings.graceMillis, 1_000)
    }))

  it.effect.each([
    { PROCYON_GRACE: "soon" },
    { PROCYON_GRACE: "-1 seconds" },
    { PROCYON_SHUTDOWN_BUDGET: "Infinity" },
    { PROCYON_MAX_RUNNING_PER_OWNER: "-1" },
    { PROCYON_MAX_RUNNING_PER_OWNER: "1.5" },
    { PROCYON_OUTPUT_BYTES: "much" }
  ])("refuses %o", (env) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(read({ ...env }))
      assert.strictEqual(error._tag, "ConfigError")
    }))
})
