import { assert, describe, it } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Member, SignalOutcome } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Forest from "../../src/internal/forest.ts"
import { linux, type ProcessStat } from "../../src/internal/processTable.ts"
import * as Signals from "../../src/internal/signals.ts"

/** A process of nobody's tree, in a group of its own. */
const stranger = Effect.acquireRelease(
  Effect.promise(async () => {
    const child = spawn("sleep", ["300"], { detached: true, stdio: "ignore" })
    await once(child, "spawn")
    return { child, pid: child.pid ?? assert.fail("no pid") }
  }),
  ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
)

const statOf = (pid: number): ProcessStat => linux.readStat(pid) ?? assert.fail("it is gone")

const outcomes = (
  signal: Signals.SignalTree,
  tree: Forest.Tree,
  targets: { readonly members?: ReadonlyArray<Member>; readonly groups?: ReadonlyArray<number> },
  name: string
): ReadonlyArray<string> => {
  let told: ReadonlyArray<SignalOutcome> = []
  signal(tree, targets.members ?? [], targets.groups ?? [], name, (all) => {
    told = all
  })
  return told.map(({ code, outcome }) => code === null ? outcome : `${outcome} ${code}`)
}

const rootOf = ({ pid, startedAt }: ProcessStat): Identity => ({
  pid,
  startedAt,
  bootId: "boot",
  marker: "PROCYON_MARK_a"
})

// Beyond the largest pid a kernel can be told to use.
const nobody: Identity = { pid: 2 ** 22 + 100, startedAt: 1, bootId: "boot", marker: "PROCYON_MARK_b" }

const isAlive = ({ child }: Effect.Success<typeof stranger>): boolean =>
  child.exitCode === null && child.signalCode === null && linux.readStat(child.pid ?? 0)?.state !== "Z"

describe("signals", () => {
  it.live("reach no process that has the pid of a member and another start time", () =>
    Effect.gen(function*() {
      const other = yield* stranger
      const stat = statOf(other.pid)
      const tree = Forest.make("boot").plant(nobody)
      const member = { ...stat, startedAt: stat.startedAt - 1 }
      assert.deepStrictEqual(outcomes(Signals.make(linux), tree, { members: [member] }, "SIGKILL"), ["not-same"])
      assert.isTrue(isAlive(other))
    }).pipe(Effect.scoped))

  it.live("reach nobody who has the pid of a leader that was collected, also with its start time", () =>
    Effect.gen(function*() {
      const other = yield* stranger
      const stat = statOf(other.pid)
      const forest = Forest.make("boot")
      const tree = forest.plant(rootOf(stat))
      forest.reap(tree)
      assert.deepStrictEqual(outcomes(Signals.make(linux), tree, { members: [stat] }, "SIGKILL"), ["gone"])
      assert.isTrue(isAlive(other))
    }).pipe(Effect.scoped))

  it.live("reach no group as a whole whose id is a stranger's by now", () =>
    Effect.gen(function*() {
      const other = yield* stranger
      const stat = statOf(other.pid)
      const forest = Forest.make("boot")
      const tree = forest.plant({ ...rootOf(stat), startedAt: stat.startedAt - 1 })
      forest.reap(tree)
      assert.deepStrictEqual(outcomes(Signals.make(linux), tree, { groups: [other.pid] }, "SIGKILL"), ["not-same"])
      assert.isTrue(isAlive(other))
    }).pipe(Effect.scoped))

  it("never reach this program, nor its group, whoever says that they are the tree's", () => {
    const own = statOf(process.pid)
    const tree = Forest.make("boot").plant(nobody)
    // It harms nobody, also where this law is broken.
    const signal = Signals.make(linux)
    assert.deepStrictEqual(outcomes(signal, tree, { members: [own] }, "SIGCONT"), ["refused EPERM"])
    assert.deepStrictEqual(outcomes(signal, tree, { groups: [own.group] }, "SIGCONT"), ["refused EPERM"])
  })
})
