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
})
