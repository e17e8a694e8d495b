import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { InvalidCommand } from "../../../src/domain/InvalidCommand.ts"
import { SpawnFailed } from "../../../src/ports/ProcessDriver.ts"
import { WorkspaceError } from "../../../src/ports/WorkspaceStore.ts"
import * as AppProcess from "../../../src/services/AppProcess.ts"
import * as JobErrors from "../../../src/services/jobs/JobErrors.ts"
import { WorkspaceReleased } from "../../../src/services/workspaces/OwnedWorkspace.ts"
import { throughJson } from "../../throughJson.ts"

const reasons = [
  new InvalidCommand({ where: "args[3]", problem: "NulByte" }),
  new SpawnFailed({ problem: "NotExecutable", code: "EACCES" }),
  new AppProcess.RuntimeClosed(),
  new AppProcess.StartWithdrawn(),
  new WorkspaceReleased({ id: "w-1" })
]

const spawnReasons: ReadonlyArray<AppProcess.SpawnError["reason"]> = [
  ...reasons,
  new WorkspaceError({ operation: "record", problem: "NotRecorded", refusal: null })
]

const startReasons: ReadonlyArray<JobErrors.StartError["reason"]> = [
  ...reasons,
  new JobErrors.TooManyJobs({ limit: 8 }),
  new JobErrors.ProcessAlreadyExists({ id: "j-1" }),
  new JobErrors.OwnerRetired(),
  new JobErrors.DetachedUnsupported(),
  new JobErrors.NotRecorded()
]

describe("StartError", () => {
  for (const reason of startReasons) {
    it(`goes through JSON and back as the same classes, with ${reason._tag} as its reason`, () => {
      const given = new JobErrors.StartError({ command: "make", reason })
      const back = throughJson(JobErrors.StartError, given)
      assert.deepStrictEqual(back, given)
      assert.instanceOf(back, JobErrors.StartError)
      assert.strictEqual(back.reason.constructor, reason.constructor)
      assert.strictEqual(back.message, `make: ${reason.message}`)
    })
  }

  it.effect("is handled by its reason, and passes where it has another", () =>
    Effect.gen(function*() {
      const start = (reason: JobErrors.StartError["reason"]) =>
        Effect.fail(new JobErrors.StartError({ command: "make", reason })).pipe(
          Effect.catchReason("StartError", "TooManyJobs", ({ limit }) => Effect.succeed(limit))
        )
      assert.strictEqual(yield* start(new JobErrors.TooManyJobs({ limit: 8 })), 8)
      assert.strictEqual((yield* Effect.flip(start(new JobErrors.OwnerRetired()))).reason._tag, "OwnerRetired")
    }))
})

describe("SpawnError", () => {
  for (const reason of spawnReasons) {
    it(`goes through JSON and back as the same classes, with ${reason._tag} as its reason`, () => {
      const given = new AppProcess.SpawnError({ command: "make", reason })
      const back = throughJson(AppProcess.SpawnError, given)
      assert.deepStrictEqual(back, given)
      assert.strictEqual(back.reason.constructor, reason.constructor)
    })
  }
})

describe("OutputUnavailable", () => {
  it("names the job, and nothing of its output", () => {
    assert.strictEqual(new JobErrors.OutputUnavailable({ id: "j-1" }).message, "the output of job j-1 was not kept")
  })
})
