import { assert, describe, it } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import * as Forest from "../../src/internal/forest.ts"
import type { ProcessStat, Reading } from "../../src/internal/processTable.ts"

// Beyond the largest pid a kernel can be told to use, so that no probe and no read can meet a real process.
const base = 2 ** 22

const root: Identity = { pid: base + 100, startedAt: 1000, bootId: "boot", marker: "PROCYON_MARK_a" }

const stat = (pid: number, of: Partial<ProcessStat> = {}): ProcessStat => ({
  pid: base + pid,
  state: of.state ?? "S",
  parent: of.parent === undefined ? 1 : base + of.parent,
  group: base + (of.group ?? pid),
  session: base + (of.session ?? of.group ?? pid),
  startedAt: of.startedAt ?? 1000,
  name: "test"
})

const reading = (...stats: ReadonlyArray<ProcessStat>): Reading => ({
  processes: new Map(stats.map((one) => [one.pid, one])),
  complete: true,
  beganAt: performance.now()
})

const unreadable: Reading = { processes: new Map(), complete: false, beganAt: 0 }

const look = (forest: Forest.Forest, given: Reading, of: Identity = root): TreeLook =>
  forest.judge(given, [of])[0] ?? assert.fail("no answer")

const pids = (found: TreeLook): ReadonlyArray<number> =>
  found.members.map((member) => member.pid - base).toSorted((self, that) => self - that)

describe("forest", () => {
  it("takes the leader, its session and all descendants", () => {
    const forest = Forest.make("boot")
    forest.plant(root)
    const found = look(
      forest,
      reading(
        stat(100),
        stat(101, { group: 101, session: 100 }),
        stat(102, { parent: 101 }),
        stat(103, { parent: 102 }),
        stat(104)
      )
    )
    assert.deepStrictEqual(pids(found), [100, 101, 102, 103])
    assert.strictEqual(found.leader, "alive")
  })

  it("remembers whom it saw once, with the session it is in, when the links to it are lost", () => {
    const forest = Forest.make("boot")
    const tree = forest.plant(root)
    look(forest, reading(stat(100), stat(102, { parent: 100 })))
    forest.reap(tree)
    const found = look(forest, reading(stat(102), stat(105, { group: 105, session: 102 })))
    assert.deepStrictEqual(pids(found), [102, 105])
    assert.strictEqual(found.leader, "gone")
  })

  it("takes nobody that is older than the leader", () => {
    const forest = Forest.make("boot")
    forest.plant(root)
    assert.deepStrictEqual(pids(look(forest, reading(stat(100), stat(101, { parent: 100, startedAt: 999 })))), [100])
  })

  it("takes nobody for the leader once its exit was collected, not even with the same start time", () => {
    const forest = Forest.make("boot")
    const tree = forest.plant(root)
    look(forest, reading(stat(100)))
    forest.reap(tree)
    const found = look(forest, reading(stat(100), stat(101, { session: 100, group: 100 })))
    assert.deepStrictEqual(pids(found), [])
    assert.strictEqual(found.leader, "gone")
  })

  it("gives a session up when somebody else leads it", () => {
    const forest = Forest.make("boot")
    const tree = forest.plant(root)
    look(forest, reading(stat(100), stat(102, { parent: 100 })))
    forest.reap(tree)
    look(forest, reading(stat(102)))
    const found = look(forest, reading(stat(102, { startedAt: 2000 }), stat(103, { session: 102, startedAt: 2000 })))
    assert.deepStrictEqual(pids(found), [])
  })

  it("still takes who is left in a session whose leader is gone", () => {
    const forest = Forest.make("boot")
    const tree = forest.plant(root)
    forest.reap(tree)
    assert.deepStrictEqual(pids(look(forest, reading(stat(101, { group: 101, session: 100 })))), [101])
  })

  it("does not own the session of a member that somebody else leads", () => {
    const forest = Forest.make("boot")
    forest.plant(root)
    const found = look(
      forest,
      reading(stat(100), stat(101, { parent: 100, session: 50 }), stat(50), stat(51, { session: 50 }))
    )
    assert.deepStrictEqual(pids(found), [100, 101])
  })

  it("counts zombies as dead, and a leader that is one as not collected", () => {
    const forest = Forest.make("boot")
    forest.plant(root)
    const found = look(
      forest,
      reading(stat(100, { state: "Z" }), stat(101, { parent: 100, group: 100, session: 100, state: "Z" }))
    )
    assert.deepStrictEqual([found.leader, found.members, found.occupied], ["unreaped", [], []])
  })

  it("knows a root by its identity when a reading shows it, and forgets it when none shows anybody", () => {
    const forest = Forest.make("boot")
    forest.adopt(root)
    assert.deepStrictEqual(pids(look(forest, reading(stat(100), stat(101, { session: 100 })))), [100, 101])
    assert.strictEqual(look(forest, reading()).leader, "gone")
    assert.strictEqual(forest.find(root), undefined)
  })

  it("keeps the session of a leader whose exit was collected after a reading had passed it", () => {
    const forest = Forest.make("boot")
    const tree = forest.plant(root)
    const passed = reading(stat(100), stat(101, { group: 101, session: 100 }))
    forest.reap(tree)
    assert.deepStrictEqual(pids(look(forest, passed)), [101])
    assert.deepStrictEqual(pids(look(forest, reading(stat(101, { group: 101, session: 100 })))), [101])
  })

  it("forgets nobody for a reading that was not complete", () => {
    const forest = Forest.make("boot")
    const tree = forest.plant(root)
    const stray = stat(102, { session: 50 })
    look(forest, reading(stat(100), stat(50), { ...stray, parent: root.pid }))
    look(forest, unreadable)
    forest.reap(tree)
    assert.deepStrictEqual(pids(look(forest, reading(stray, stat(50)))), [102])
  })

  it("sorts a session of many thousands within one turn of the event loop", () => {
    const forest = Forest.make("boot")
    forest.plant(root)
    const many = Array.from({ length: 20_000 }, (_, index) => stat(101 + index, { group: 100, parent: 100 }))
    const crowd = reading(stat(100), ...many)
    const began = performance.now()
    assert.lengthOf(look(forest, crowd).members, 20_001)
    // Comparing each with each takes some four seconds.
    assert.isBelow(performance.now() - began, 1000)
  })

  it("does not forget a root for a reading that was not complete", () => {
    const forest = Forest.make("boot")
    forest.adopt(root)
    const found = look(forest, unreadable)
    assert.strictEqual(found.complete, false)
    assert.notStrictEqual(forest.find(root), undefined)
  })

  it("calls a root of another boot gone, without a record", () => {
    const forest = Forest.make("boot")
    const other = { ...root, bootId: "another" }
    forest.adopt(other)
    assert.deepStrictEqual([look(forest, reading(stat(100)), other).leader, forest.find(other)], ["gone", undefined])
  })

  it("goes on watching for who watches a root anew, when who did before has let go", () => {
    const forest = Forest.make("boot")
    const told: Array<string> = []
    const forget = forest.watch(root, "leader", () => told.push("first"))
    forest.watch(root, "leader", () => told.push("second"))
    forget()
    assert.notStrictEqual(forest.find(root), undefined)
    look(forest, reading())
    assert.deepStrictEqual(told, ["second"])
  })

  it("calls a child alive that no reading shows and whose exit was not collected", () => {
    const forest = Forest.make("boot")
    forest.plant(root)
    const found = look(forest, unreadable)
    assert.deepStrictEqual([found.leader, found.occupied], ["alive", [root.pid]])
  })

  it("believes the probes of a group where there is no table", () => {
    const forest = Forest.make(null)
    const tree = forest.plant({ ...root, bootId: "" })
    assert.deepStrictEqual([look(forest, unreadable).leader, look(forest, unreadable).occupied], ["alive", [root.pid]])
    forest.reap(tree)
    const found = look(forest, unreadable)
    assert.deepStrictEqual([found.leader, found.members, found.occupied, found.complete], ["gone", [], [], true])
  })
})
