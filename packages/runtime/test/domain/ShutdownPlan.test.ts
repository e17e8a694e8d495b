import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as ShutdownPlan from "../../src/domain/ShutdownPlan.ts"

const phases = ShutdownPlan.Phase.literals

const row = (id: string, change: Partial<ShutdownPlan.ReportRow> = {}): ShutdownPlan.ReportRow => ({
  id,
  owner: "s-1",
  title: null,
  status: "cancelled",
  survivors: [],
  survivorCount: 0,
  detached: false,
  ...change
})

const workspace = (
  outcome: ShutdownPlan.WorkspaceRow["outcome"],
  change: Partial<ShutdownPlan.WorkspaceRow> = {}
): ShutdownPlan.WorkspaceRow => ({ id: "w-1", owner: "s-1", outcome, problem: null, by: null, ...change })

const report = (change: Partial<Omit<ShutdownPlan.ShutdownReport, "clean">> = {}): ShutdownPlan.ShutdownReport =>
  ShutdownPlan.report({
    mode: "graceful",
    budgetExceeded: false,
    durationMillis: 5020,
    phases: [],
    rows: [],
    workspaces: [],
    ...change
  })

describe("the order of phases", () => {
  it("leads from open to closed through every phase once", () => {
    const walked: Array<ShutdownPlan.Phase> = []
    for (let phase: ShutdownPlan.Phase | null = "open"; phase !== null; phase = ShutdownPlan.next(phase)) {
      walked.push(phase)
    }
    assert.deepStrictEqual(walked, [...phases])
  })

  it("reaches workspaces from settling and from nowhere else", () => {
    assert.deepStrictEqual(phases.filter((phase) => ShutdownPlan.next(phase) === "workspaces"), ["settling"])
  })

  it("has closed as its end", () => {
    assert.isNull(ShutdownPlan.next("closed"))
    for (const phase of phases) assert.isTrue(ShutdownPlan.hasReached("closed", phase))
  })

  it("knows what was reached", () => {
    assert.isTrue(ShutdownPlan.hasReached("settling", "settling"))
    assert.isFalse(ShutdownPlan.hasReached("flushing", "settling"))
  })

  it.prop(
    "no attempt to enter phases in another order skips or repeats one",
    { attempts: Arbitrary.array(Arbitrary.schema(ShutdownPlan.Phase), { maxLength: 60 }) },
    ({ attempts }) => {
      let times: ReadonlyArray<ShutdownPlan.PhaseTime> = []
      attempts.forEach((phase, index) => {
        times = ShutdownPlan.enter(times, phase, index) ?? times
      })
      assert.deepStrictEqual(times.map(({ phase }) => phase), phases.slice(1, 1 + times.length))
    }
  )
})

describe("report", () => {
  it("is clean when every process settled and the budget sufficed", () => {
    assert.isTrue(report().clean)
    assert.isTrue(report({ rows: [row("a"), row("b", { status: "error" })] }).clean)
  })

  it("is not clean when one is left, or when the budget ran out", () => {
    assert.isFalse(report({ rows: [row("a"), row("b", { status: "kill_failed" })] }).clean)
    assert.isFalse(report({ rows: [row("a", { status: "running" })] }).clean)
    assert.isFalse(report({ budgetExceeded: true }).clean)
  })

  it("is not clean when a workspace is left", () => {
    assert.isTrue(report({ workspaces: [workspace("removed")] }).clean)
    assert.isFalse(report({ workspaces: [workspace("removed"), workspace("kept")] }).clean)
    assert.isFalse(report({ workspaces: [workspace("failed")] }).clean)
  })

  it("is clean when what is left is a job that was to live on, and the workspace it works in", () => {
    const living = row("a", { status: "running", detached: true })
    const rows = [row("b"), living]
    assert.isTrue(report({ rows, workspaces: [workspace("kept", { by: "a" })] }).clean)
    assert.isFalse(report({ rows, workspaces: [workspace("kept", { by: "b" })] }).clean)
    assert.isFalse(report({ rows, workspaces: [workspace("kept", { by: "another" })] }).clean)
    assert.isFalse(report({ rows, workspaces: [workspace("failed", { problem: "Busy" })] }).clean)
    const stuck = { ...living, status: "kill_failed" as const }
    assert.isFalse(report({ rows: [stuck], workspaces: [workspace("kept", { by: "a" })] }).clean)
  })

  it.prop("goes through JSON and back", [ShutdownPlan.ShutdownReport], ([given]) => {
    const codec = Schema.toCodecJson(ShutdownPlan.ShutdownReport)
    const json = JSON.stringify(Schema.encodeSync(codec)(given))
    assert.strictEqual(
      JSON.stringify(Schema.encodeSync(codec)(Schema.decodeUnknownSync(codec)(JSON.parse(json)))),
      json
    )
  })
})

describe("summarize", () => {
  it("shows how it went, the phases, and the rows with those that are left first", () => {
    const survivor = { pid: 4713, startedAt: 1, name: "sleep", refused: "EPERM" }
    const text = ShutdownPlan.summarize(report({
      budgetExceeded: true,
      phases: [{ phase: "stopping", atMillis: 0 }, { phase: "closed", atMillis: 5020 }],
      rows: [
        row("0myxn7sw000i00", { title: "dev server" }),
        row("build", { owner: null, status: "kill_failed", survivors: [survivor], survivorCount: 2 })
      ]
    }))
    assert.deepStrictEqual(text.split("\n"), [
      "shutdown (graceful): 1 not settled, budget exceeded; 2 processes, 5.02 s",
      "  stopping  +0 ms",
      "  closed    +5.02 s",
      "  id              owner  title       status       survivors",
      "  build           -      -           kill_failed  2: 4713 sleep (EPERM), …",
      "  0myxn7sw000i00  s-1    dev server  cancelled    -"
    ])
  })

  it("shows the workspaces that are left, and why", () => {
    const text = ShutdownPlan.summarize(report({
      workspaces: [
        workspace("removed"),
        workspace("kept", { id: "w-2", by: "0myxn7sw000i00" }),
        workspace("failed", { id: "w-3", owner: null, problem: "Refused" })
      ]
    }))
    assert.deepStrictEqual(text.split("\n"), [
      "shutdown (graceful): 2 workspaces left; 0 processes, 5.02 s",
      "  workspace  owner  outcome  because of",
      "  w-2        s-1    kept     0myxn7sw000i00",
      "  w-3        -      failed   Refused"
    ])
  })

  it("shows no more workspaces than rows, counts the others, and knows one without a reason", () => {
    const left = Array.from({ length: ShutdownPlan.maxSummaryRows + 2 }, (_, n) => workspace("kept", { id: `w-${n}` }))
    const lines = ShutdownPlan.summarize(report({ workspaces: left })).split("\n")
    assert.deepStrictEqual([lines[2], lines.at(-1)], ["  w-0        s-1    kept     -", "  … and 2 more"])
    assert.strictEqual(lines.length, 1 + 1 + ShutdownPlan.maxSummaryRows + 1)
  })

  it("says that it was not clean also where a report does not tell why", () => {
    assert.include(ShutdownPlan.summarize({ ...report(), clean: false }), "shutdown (graceful): not clean; 0 processes")
  })

  it("says so in one line when there was nothing to end", () => {
    assert.strictEqual(
      ShutdownPlan.summarize(report({ durationMillis: 1 })),
      "shutdown (graceful): clean; 0 processes, 1 ms"
    )
  })

  it.prop("keeps to its bounds and lets no text break a line", [Schema.String, Schema.String], ([owner, title]) => {
    const rows = Array.from({ length: 50 }, (_, index) => row(`r${index}`, { owner, title: `${title}\u001b[2J\n` }))
    const lines = ShutdownPlan.summarize(report({ rows })).split("\n")
    assert.strictEqual(lines.length, 1 + 1 + ShutdownPlan.maxSummaryRows + 1)
    assert.strictEqual(lines.at(-1), "  … and 30 more")
    for (const line of lines) assert.notMatch(line, /[\p{Cc}\p{Cs}]/u)
  })
})
