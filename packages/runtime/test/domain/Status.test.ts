import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Status from "../../src/domain/Status.ts"

const zero: Status.Exit = { code: 0, signal: null }
const two: Status.Exit = { code: 2, signal: null }
const killed: Status.Exit = { code: null, signal: "SIGKILL" }

describe("statusOf", () => {
  it("reads the exit of a leader that ended by itself, and calls one nobody saw an error", () => {
    const cause: Status.Cause = { _tag: "SelfExit" }
    assert.strictEqual(Status.statusOf(cause, zero), "completed")
    for (const exit of [two, killed, Status.unknownExit, null]) {
      assert.strictEqual(Status.statusOf(cause, exit), "error")
    }
  })

  it.prop("does not read the exit of one that was ended", [Schema.NullOr(Status.Exit)], ([exit]) => {
    assert.strictEqual(Status.statusOf({ _tag: "Deadline", kind: "total" }, exit), "timed_out")
    assert.strictEqual(Status.statusOf({ _tag: "Deadline", kind: "idle" }, exit), "timed_out")
    assert.strictEqual(Status.statusOf({ _tag: "StartFailed" }, exit), "error")
    const cancels: ReadonlyArray<Status.Cause> = [
      { _tag: "Stop", by: "owner" },
      { _tag: "Stop", by: "runtime" },
      { _tag: "OutputCap" },
      { _tag: "Scope" },
      { _tag: "Shutdown" }
    ]
    for (const cause of cancels) assert.strictEqual(Status.statusOf(cause, exit), "cancelled")
  })

  it.prop("names a settled status for every cause", [Status.Cause, Schema.NullOr(Status.Exit)], ([cause, exit]) => {
    assert.isTrue(Status.isSettled(Status.statusOf(cause, exit)))
  })
})

describe("isSettled", () => {
  it("holds for all but running and kill_failed", () => {
    assert.deepStrictEqual(Status.Status.literals.filter((status) => !Status.isSettled(status)), [
      "running",
      "kill_failed"
    ])
  })
})

describe("exit codes", () => {
  it("are the code as it was given", () => {
    assert.deepStrictEqual([Status.exitCode(two), Status.shellExitCode(two)], [2, 2])
    assert.deepStrictEqual([Status.exitCode(zero), Status.shellExitCode(zero)], [0, 0])
  })

  it("are -1 for a signal, and 128 + n as a shell tells it", () => {
    assert.strictEqual(Status.exitCode(killed), -1)
    assert.strictEqual(Status.shellExitCode(killed), 137)
    assert.strictEqual(Status.shellExitCode({ code: null, signal: "SIGTERM" }), 143)
    assert.strictEqual(Status.shellExitCode({ code: null, signal: "SIGHUP" }), 129)
  })

  it("are -1 for a signal without a number, and for an exit nobody saw", () => {
    assert.strictEqual(Status.shellExitCode({ code: null, signal: "SIGSTRANGE" }), -1)
    assert.strictEqual(Status.shellExitCode(Status.unknownExit), -1)
    assert.strictEqual(Status.exitCode(Status.unknownExit), -1)
  })
})

describe("TerminationResult", () => {
  it.prop("goes through JSON and back", [Status.TerminationResult], ([given]) => {
    const codec = Schema.toCodecJson(Status.TerminationResult)
    const json = JSON.stringify(Schema.encodeSync(codec)(given))
    assert.strictEqual(
      JSON.stringify(Schema.encodeSync(codec)(Schema.decodeUnknownSync(codec)(JSON.parse(json)))),
      json
    )
  })
})
