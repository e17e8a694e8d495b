import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A directory of the test's own, gone with the scope. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "procyon-test-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)
