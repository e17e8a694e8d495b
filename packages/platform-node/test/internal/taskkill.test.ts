import { assert, describe, it } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { SignalOutcome } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as Forest from "../../src/internal/forest.ts"
import type { SignalTree } from "../../src/internal/signals.ts"
import * as Taskkill from "../../src/internal/taskkill.ts"

const root: Identity = { pid: 2 ** 22 + 100, startedAt: 0, bootId: "", marker: "PROCYON_MARK_a" }

/** A program in the place of `taskkill`, that keeps its arguments and ends with a code. */
const program = (code: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-test-"))
      const name = path.join(directory, "taskkill")
      fs.writeFileSync(name, `#!/bin/sh\necho "$@" >>${directory}/given\nexit ${code}\n`, { mode: 0o755 })
      return { directory, name, given: () => fs.readFileSync(path.join(directory, "given"), "utf8") }
    }),
    ({ directory }) => Effect.sync(() => fs.rmSync(directory, { recursive: true }))
  )

const signal = (by: SignalTree, tree: Forest.Tree, name: string) =>
  Effect.callback<ReadonlyArray<SignalOutcome>>((resume) =>
    by(tree, [], [root.pid], name, (outcomes) => resume(Effect.succeed(outcomes)))
  )

describe("taskkill", () => {
  it.live("ends the whole tree by force, for SIGTERM and SIGKILL alike", () =>
    Effect.gen(function*() {
      const { given, name } = yield* program(0)
      const tree = Forest.make(null).plant(root)
      for (const one of ["SIGTERM", "SIGKILL"]) {
        assert.deepStrictEqual(yield* signal(Taskkill.make(name), tree, one), [
          { pid: root.pid, startedAt: 0, name: "", outcome: "sent", code: null }
        ])
      }
      assert.strictEqual(given(), `/T /F /PID ${root.pid}\n`.repeat(2))
    }).pipe(Effect.scoped))

  it.live("says that nobody was there, or that it was refused, by the program's own code", () =>
    Effect.gen(function*() {
      const tree = Forest.make(null).plant(root)
      for (const [code, outcome, errno] of [[128, "gone", null], [1, "refused", "EPERM"]] as const) {
        const { name } = yield* program(code)
        const [told] = yield* signal(Taskkill.make(name), tree, "SIGKILL")
        assert.deepStrictEqual([told?.outcome, told?.code], [outcome, errno])
      }
      const [missing] = yield* signal(Taskkill.make("/no/such"), tree, "SIGKILL")
      assert.deepStrictEqual([missing?.outcome, missing?.code], ["refused", "ENOENT"])
    }).pipe(Effect.scoped))

  it.live("sends nothing for other signals, nor to a number that may be somebody else's by now", () =>
    Effect.gen(function*() {
      const forest = Forest.make(null)
      const tree = forest.plant(root)
      const by = Taskkill.make("/no/such")
      const [stop] = yield* signal(by, tree, "SIGSTOP")
      assert.deepStrictEqual([stop?.outcome, stop?.code], ["refused", "ENOSYS"])
      forest.reap(tree)
      assert.deepStrictEqual((yield* signal(by, tree, "SIGKILL")).map((told) => told.outcome), ["gone"])
    }))
})
