import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, beforeAll } from "vitest"
import { nameFailure } from "../../src/internal/spawnFailure.ts"

describe("spawnFailure", () => {
  let directory = ""
  beforeAll(() => {
    directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-test-"))
    fs.mkdirSync(path.join(directory, "a/tool"), { recursive: true })
    fs.mkdirSync(path.join(directory, "b"))
    fs.writeFileSync(path.join(directory, "b/orphan"), "#!/no/such\n", { mode: 0o755 })
    fs.writeFileSync(path.join(directory, "b/plain"), "", { mode: 0o644 })
  })
  afterAll(() => fs.rmSync(directory, { recursive: true }))

  const name = (
    code: string,
    attempt: { readonly file: string; readonly cwd?: string; readonly path?: string }
  ): string => {
    const error = Object.assign(new Error("a message that names the wrong thing"), { code })
    const failure = nameFailure({ file: attempt.file, cwd: attempt.cwd, path: attempt.path }, error)
    assert.strictEqual(failure.code, code)
    assert.notInclude(JSON.stringify(failure), "wrong")
    return failure.problem
  }

  it("looks along the child's own PATH, and in its own working directory", () => {
    const cwd = directory
    assert.strictEqual(name("ENOENT", { file: "orphan", cwd, path: "a:b" }), "InterpreterMissing")
    assert.strictEqual(name("ENOENT", { file: "orphan", cwd, path: "a" }), "CommandNotFound")
    assert.strictEqual(name("ENOENT", { file: "b/orphan", cwd, path: "/bin" }), "InterpreterMissing")
    assert.strictEqual(name("ENOENT", { file: "b/orphan" }), "CommandNotFound")
    assert.strictEqual(name("ENOENT", { file: "true", path: "/nonexistent" }), "CommandNotFound")
    assert.strictEqual(name("EACCES", { file: "plain", cwd, path: "a:b" }), "NotExecutable")
    assert.strictEqual(name("EACCES", { file: "tool", cwd, path: "a" }), "NotExecutable")
  })

  it("takes an empty part of PATH for the working directory", () => {
    assert.strictEqual(
      name("ENOENT", { file: "orphan", cwd: path.join(directory, "b"), path: ":/bin" }),
      "InterpreterMissing"
    )
  })

  it("names the working directory before the command", () => {
    assert.strictEqual(name("ENOENT", { file: "/bin/true", cwd: path.join(directory, "c") }), "CwdMissing")
    assert.strictEqual(name("ENOTDIR", { file: "/no/such", cwd: path.join(directory, "b/plain") }), "CwdNotADirectory")
  })

  it("names the limits of the system", () => {
    assert.strictEqual(name("E2BIG", { file: "true" }), "TooLarge")
    assert.strictEqual(name("EMFILE", { file: "true" }), "TooManyFiles")
    assert.strictEqual(name("ENFILE", { file: "true" }), "TooManyFiles")
    assert.strictEqual(name("EAGAIN", { file: "true" }), "TooManyProcesses")
  })

  it("claims nothing about what it does not know", () => {
    for (const code of ["ENOMEM", "ETXTBSY", "EPERM", "ERR_INVALID_ARG_VALUE"]) {
      assert.strictEqual(name(code, { file: "/no/such" }), "Other")
    }
  })
})
