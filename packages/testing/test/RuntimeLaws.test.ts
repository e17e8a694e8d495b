import { assert, it } from "@effect/vitest"
import type * as ProcessRuntime from "@procyon/runtime/ProcessRuntime"
import { RuntimeLaws, RuntimeTest, ScriptedDriver, World } from "@procyon/testing"
import type * as Layer from "effect/Layer"
import { children, options } from "./vices.ts"

const living = World.use((world) => world.alive)
const full: RuntimeLaws.Options<World> = { ...options, living }

type Runtime = Layer.Layer<ProcessRuntime.ProcessRuntime | World>

const runtime: Runtime = RuntimeTest.layer({ children })

RuntimeLaws.runtimeLaws("a runtime on the scripted driver", runtime, full)

const less = { ...ScriptedDriver.capabilities, sessions: false, marker: false, wholeTree: "group-only" } as const

const reduced: RuntimeLaws.Options<World> = {
  ...full,
  capabilities: less,
  programs: { ...options.programs, polite: { missing: "no polite children here" } }
}

RuntimeLaws.runtimeLaws(
  "a runtime on a driver that sees less",
  RuntimeTest.layer({ children, capabilities: less }),
  reduced
)

it("a law that cannot be shown says which capability or program is missing, and all others are run", () => {
  const skips = RuntimeLaws.laws(reduced).flatMap(({ name, skipped }) => skipped === null ? [] : [[name, skipped]])
  assert.deepStrictEqual(skips, [
    ["a child that ends itself politely is not forced, and all it says is kept", "no polite children here"],
    ["a child that passes its output cap is ended as cancelled", "no polite children here"],
    ["one that answers the signal keeps its exit and its last words", "no polite children here"],
    ["a member that has left the group is ended with its leader", "no sessions"],
    ["a member that has left the session is ended with its leader", "no sessions"],
    ["members that nobody waits for when they die are no survivors", "no sessions"],
    ["a daemon that has left for good is ended after its leader, and told", "no marker"],
    ["a follower waits for what comes, and ends when the job does", "no polite children here"],
    ["who has left the tree for good is ended too", "no marker"]
  ])
  assert.deepStrictEqual(RuntimeLaws.laws(full).filter(({ skipped }) => skipped !== null), [])
})
