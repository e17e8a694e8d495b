import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as Keeper from "../../../src/internal/keeper/keeper.ts"
import { readBootId } from "../../../src/internal/processTable.ts"
import { isLiving, seenAt } from "../../support/processes.ts"
import { newMarker } from "../bench.ts"

describe("keeper", () => {
  it.live("ends whom it keeps though a directory that is to go cannot be removed", () =>
    Effect.gen(function*() {
      const child = spawn("sleep", ["300"], { detached: true, stdio: "ignore" })
      const seen = seenAt(child.pid ?? 0) ?? assert.fail("not started")
      const root = { pid: seen.pid, startedAt: seen.startedAt, bootId: readBootId() ?? "", marker: newMarker() }
      const keeper = Keeper.make(() => {}, { starts: false })
      keeper.handle({ _tag: "Attach", root, graceMillis: 0 })
      // No system takes such a name.
      keeper.handle({ _tag: "Remove", directory: "/\0" })
      yield* Effect.callback<void>((resume) => keeper.end(() => resume(Effect.void)))
      assert.isFalse(isLiving(seen))
    }))
})
