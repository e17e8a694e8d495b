import { assert, describe, it } from "@effect/vitest"
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as Forest from "../../src/internal/forest.ts"
import * as Look from "../../src/internal/look.ts"
import { type ProcessTable, readStat } from "../../src/internal/processTable.ts"
import * as PsTable from "../../src/internal/psTable.ts"
import * as Signals from "../../src/internal/signals.ts"
import { until } from "./bench.ts"

const macOs = `    1     0     1 Ss   Mon Nov 30 08:01:10 2026     launchd
  412     1   412 Ss   Tue Dec  1 09:30:00 2026     Google Chrome He
  977   412   412 U+   Tue Dec  1 09:30:02 2026     mdworker_shared
  978   977   978 Z    Tue Dec  1 09:30:02 2026     (sleep)
ps: some warning
`
const procps = `      1       0       0       0 S Mon Nov 30 14:45:20 2026 init
  25519   25516   25519   25519 R Mon Nov 30 15:34:23 2026 bash
  25530   25519   25519   25519 Z Mon Nov 30 15:34:24 2026 sleep <defunct>
`

const inUse = PsTable.find() ?? assert.fail("no ps here")

/** A leader in a session of its own, ended with the scope, and the forest that knows it. */
const planted = (script: string, table: ProcessTable) =>
  Effect.gen(function*() {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["ignore", "pipe", "ignore"] })),
      (child) => Effect.sync(() => killGroup(child))
    )
    const root: Identity = { pid: child.pid ?? 0, startedAt: 0, bootId: "", marker: "PROCYON_MARK_ps" }
    const forest = Forest.make(null, table)
    const tree = forest.plant(root)
    child.once("exit", () => forest.reap(tree))
    let printed = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      printed += text
    })
    yield* until("the children are there", () => printed.includes("ready"))
    const looker = Look.make(forest, table.read)
    const look = Effect.callback<TreeLook>((resume) =>
      looker.look([root], ([found]) => resume(found === undefined ? Effect.die("no answer") : Effect.succeed(found)))
    )
    return { child, look, tree }
  })

const killGroup = (child: ChildProcess): void => {
  try {
    process.kill(-(child.pid ?? 0), "SIGKILL")
  } catch {
    // It has ended by then, as it should.
  }
}

describe("psTable", () => {
  it("reads what macOS prints, taking the group for the session that it does not tell", () => {
    const stats = [...PsTable.parse(macOs).values()]
    assert.deepStrictEqual(
      stats.map(({ group, name, parent, pid, session, state }) => [
        pid,
        parent,
        group,
        session,
        state,
        name
      ]),
      [
        [1, 0, 1, 1, "S", "launchd"],
        [412, 1, 412, 412, "S", "Google Chrome He"],
        [977, 412, 412, 412, "D", "mdworker_shared"],
        [978, 977, 978, 978, "Z", "(sleep)"]
      ]
    )
    assert.strictEqual(stats[1]?.startedAt, Date.UTC(2026, 11, 1, 9, 30) / 1000)
  })

  it("reads what the ps of Linux prints, sessions included", () => {
    const stats = [...PsTable.parse(procps).values()]
    assert.deepStrictEqual(stats.map(({ pid, session, state, name }) => [pid, session, state, name]), [
      [1, 0, "S", "init"],
      [25519, 25519, "R", "bash"],
      [25530, 25519, "Z", "sleep <defunct>"]
    ])
  })

  it("reads nothing of what it does not understand", () => {
    for (
      const text of ["", "\n", "ps: illegal option -- o\nusage: ps", "1 2 3", "a b c S Mon Nov 30 14:45:20 2026 x"]
    ) {
      assert.strictEqual(PsTable.parse(text).size, 0)
    }
  })

  for (const sessions of [true, false]) {
    const table = PsTable.find("ps", sessions) ?? assert.fail("no ps here")
    const how = sessions ? "with sessions" : "without sessions"

    it.live(`tells of this process what the kernel tells, ${how}`, () =>
      Effect.gen(function*() {
        const own = readStat(process.pid) ?? assert.fail("not there")
        const reading = yield* Effect.callback<Parameters<Parameters<typeof table.read>[0]>[0]>((resume) =>
          table.read((reading) => resume(Effect.succeed(reading)))
        )
        assert.isTrue(reading.complete)
        for (const stat of [reading.processes.get(process.pid), table.readStat(process.pid)]) {
          assert.deepStrictEqual([stat?.parent, stat?.group], [own.parent, own.group])
          assert.strictEqual(stat?.session, sessions ? own.session : own.group)
        }
        assert.strictEqual(table.readStat(2 ** 22 + 1), null)
      }))

    it.live(`finds a tree, and signals it, ${how}`, () =>
      Effect.gen(function*() {
        // One in the leader's group, one in a session of its own.
        const script = "(sleep 300 & sleep 300 &); setsid sleep 300 & echo ready; exec sleep 300"
        const { child, look, tree } = yield* planted(script, table)
        const seen = yield* Effect.gen(function*() {
          for (;;) {
            const seen = yield* look
            if (seen.members.filter((member) => member.name === "sleep").length === 4) return seen
          }
        })
        assert.deepStrictEqual([seen.leader, seen.complete, seen.occupied], ["alive", true, []])
        Signals.make(table)(tree, seen.members, [], "SIGKILL", (outcomes) => {
          assert.deepStrictEqual(new Set(outcomes.map((one) => one.outcome)), new Set(["sent"]))
        })
        yield* until("the exit is told", () => child.signalCode)
        const after = yield* look
        assert.deepStrictEqual([after.leader, after.members], ["gone", []])
      }).pipe(Effect.scoped))
  }

  it.live("falls back to what probes of the group say when ps fails later", () =>
    Effect.gen(function*() {
      const failing: ProcessTable = {
        ...inUse,
        read: (done) => done({ processes: new Map(), complete: false, beganAt: 0 })
      }
      const { child, look } = yield* planted("echo ready; exec sleep 300", failing)
      const seen = yield* look
      assert.deepStrictEqual([seen.leader, seen.members, seen.occupied], ["alive", [], [child.pid ?? 0]])
      killGroup(child)
      yield* until("the exit is told", () => child.signalCode)
      const after = yield* look
      assert.deepStrictEqual([after.leader, after.occupied, after.complete], ["gone", [], true])
    }).pipe(Effect.scoped))

  it("is not there where ps is not, or prints something else", () => {
    for (const program of ["/no/such", "false", "true", "echo"]) assert.strictEqual(PsTable.find(program), null)
  })
})
