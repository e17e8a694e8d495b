/**
 * What `AppProcess` owes whoever runs commands in a scope of its own.
 */
import { assert } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { brief, hashOf, keepingAll, law, patient, signalsIn, type Statements } from "./RuntimeBench.ts"

export const running: Statements = (programs) => [
  law(
    "a run answers with the output, the exit and a receipt that proves the end",
    [programs.speaksTwice],
    (bench, command) =>
      Effect.gen(function*() {
        const { info, stderr, stdout, termination } = yield* bench.run(command)
        assert.deepStrictEqual([stdout.trim(), stderr.trim(), info.status], ["out", "err", "completed"])
        assert.deepStrictEqual(info.exit, { code: 0, signal: null })
        assert.deepStrictEqual([termination.status, termination.cause], ["completed", { _tag: "SelfExit" }])
        assert.deepStrictEqual([termination.forced, termination.leftovers], [false, []])
        bench.assertProven(termination)
        yield* bench.nobodyLives
      })
  ),

  law("another exit code is a value and no error", [programs.exits7], (bench, command) =>
    Effect.gen(function*() {
      const { info, termination } = yield* bench.run(command)
      assert.deepStrictEqual([info.status, info.exit], ["error", { code: 7, signal: null }])
      assert.deepStrictEqual([termination.cause, termination.exit], [{ _tag: "SelfExit" }, info.exit])
    })),

  law(
    "a signal that ended the child is told as the system gave it",
    [programs.diesByKill],
    (bench, command) =>
      Effect.gen(function*() {
        const { info } = yield* bench.run(command)
        assert.deepStrictEqual([info.status, info.exit], ["error", { code: null, signal: "SIGKILL" }])
      })
  ),

  law("merged streams are one, in their order", [programs.speaksTwice], (bench, command) =>
    Effect.gen(function*() {
      const { info, stderr, stdout } = yield* bench.run(command, { streams: "merged" })
      assert.match(stdout, /^out\s*err\s*$/)
      assert.deepStrictEqual([stderr, info.stderr], ["", null])
    })),

  law("every byte is counted, hashed and kept", [programs.talks.command], (bench, command) =>
    Effect.gen(function*() {
      const { bytes, sha256 } = programs.talks
      const { info, output } = yield* bench.run(command, keepingAll(programs))
      assert.deepInclude(info.output, {
        bytesSeen: bytes,
        bytesRetained: bytes,
        truncated: false,
        sealed: true,
        drained: true,
        sha256
      })
      const pages = yield* Stream.runCollect(output.followBytes({ limit: 10_000 }))
      assert.deepStrictEqual(hashOf(pages), { end: bytes, sha256 })
    })),

  law(
    "what memory does not keep is counted and hashed all the same",
    [programs.talks.command],
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes, sha256 } = programs.talks
        const { info, stdout } = yield* bench.run(command, { output: { limit: 4_096, spill: "never" } })
        assert.deepInclude(info.output, { bytesSeen: bytes, truncated: true, sealed: true, drained: true, sha256 })
        assert.isAtMost(info.output.bytesRetained, 4_096)
        assert.isBelow(stdout.length, 5_000)
      })
  ),

  ...programs.failures.map(({ command, problem, what }) =>
    law(`${what}: nothing is started, and told as ${problem}`, [command], (bench) =>
      Effect.gen(function*() {
        const told = yield* Effect.match(bench.run(command), {
          onFailure: ({ reason }) => reason._tag === "SpawnFailed" ? reason.problem : reason._tag,
          onSuccess: () => "started"
        })
        // What is too large for every system need not get as far as the driver.
        assert.include(problem === "TooLarge" ? [problem, "InvalidCommand"] : [problem], told)
        assert.deepStrictEqual(yield* bench.app.list, [])
        yield* bench.nobodyLives
      }))
  ),

  law(
    "a command and a policy that mean nothing are refused before anything is started",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const refusals = [
          [CommandSpec.make(""), {}],
          [command, { deadline: -1 }],
          [command, { grace: NaN }],
          [command, { output: { cap: 0.5 } }]
        ] as const
        for (const [given, options] of refusals) {
          const reason = yield* Effect.match(bench.run(given, options), {
            onFailure: (error) => error.reason._tag,
            onSuccess: () => "started"
          })
          assert.strictEqual(reason, "InvalidCommand")
        }
        yield* bench.nobodyLives
      })
  )
]

export const owning: Statements = (programs) => [
  law(
    "a spawned process is listed while its scope is open, and proven gone when that is closed",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const [handle, close] = yield* bench.spawn(command)
        assert.deepStrictEqual((yield* bench.app.list).map(({ id, status }) => [id, status]), [[handle.id, "running"]])
        yield* close
        yield* bench.nobodyLives
        const receipt = yield* handle.termination
        assert.deepStrictEqual([receipt.status, receipt.cause], ["cancelled", { _tag: "Scope" }])
        bench.assertProven(receipt)
        assert.deepStrictEqual(yield* bench.app.list, [])
      })
  ),

  law(
    "a handle goes on answering when its scope is closed",
    [programs.speaksTwice],
    (bench, command) =>
      Effect.gen(function*() {
        const [handle, close] = yield* bench.spawn(command)
        const receipt = yield* bench.done("the process has ended", handle.termination)
        yield* close
        assert.deepStrictEqual(yield* handle.termination, receipt)
        assert.deepStrictEqual(yield* bench.done("it answers", handle.terminate()), receipt)
        assert.deepStrictEqual(yield* handle.exit, { code: 0, signal: null })
        assert.strictEqual((yield* handle.info).status, "completed")
        const page = yield* handle.output.read()
        assert.deepStrictEqual([page.data.trim(), page.sealed], ["out", true])
        assert.strictEqual((yield* handle.stderr.preview).trim(), "err")
      })
  ),

  law(
    "a child that ends itself politely is not forced, and all it says is kept",
    [programs.polite],
    (bench, command) =>
      Effect.gen(function*() {
        const [handle, close] = yield* bench.spawn(command, patient)
        yield* bench.untilText(handle.output, "ready")
        yield* close
        yield* bench.nobodyLives
        const receipt = yield* handle.termination
        assert.deepStrictEqual([receipt.status, receipt.forced, receipt.exit], [
          "cancelled",
          false,
          { code: 0, signal: null }
        ])
        assert.include(yield* handle.output.preview, "bye")
      })
  ),

  law(
    "a child that ignores the stop signal is forced when its grace is over",
    [programs.ignoresTerm],
    (bench, command) =>
      Effect.gen(function*() {
        const [handle, close] = yield* bench.spawn(command, brief)
        yield* bench.untilText(handle.output, "ready")
        yield* close
        yield* bench.nobodyLives
        const receipt = yield* handle.termination
        assert.deepStrictEqual([receipt.status, receipt.forced, receipt.exit], [
          "cancelled",
          true,
          { code: null, signal: "SIGKILL" }
        ])
        assert.deepStrictEqual(signalsIn(receipt), ["SIGTERM", "SIGKILL"])
        bench.assertProven(receipt)
      })
  ),

  law("to be ended now is to be spared no grace", [programs.ignoresTerm], (bench, command) =>
    Effect.gen(function*() {
      const [handle] = yield* bench.spawn(command, patient)
      yield* bench.untilText(handle.output, "ready")
      const receipt = yield* bench.done("it is ended", handle.terminate({ now: true }))
      assert.deepStrictEqual([receipt.status, receipt.exit?.signal], ["cancelled", "SIGKILL"])
      yield* bench.nobodyLives
    })),

  law("an interrupted run has ended its tree", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const run = yield* Effect.forkChild(bench.app.run(command), { startImmediately: true })
      yield* bench.until("it runs", bench.app.list, (list) => list.some(({ phase }) => phase === "running"))
      yield* bench.interrupted(run)
      yield* bench.nobodyLives
      assert.deepStrictEqual(yield* bench.app.list, [])
    })),

  law(
    "an interrupted start leaves nobody, at whatever turn",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        for (const turns of [0, 1, 2, 3, 5, 8, 13]) {
          const run = yield* Effect.forkChild(bench.app.run(command), { startImmediately: true })
          for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
          yield* bench.interrupted(run)
          yield* bench.nobodyLives
          assert.deepStrictEqual(yield* bench.app.list, [])
        }
      })
  )
]

export const bounding: Statements = (programs) => [
  law("a deadline ends the tree as timed_out", [programs.waits], (bench, command) =>
    Effect.gen(function*() {
      const { info, termination } = yield* bench.run(command, { deadline: "30 millis" })
      assert.deepStrictEqual([info.status, termination.cause], ["timed_out", { _tag: "Deadline", kind: "total" }])
      assert.strictEqual(info.deadlineMillis, 30)
      bench.assertProven(termination)
      yield* bench.nobodyLives
    })),

  law(
    "a child that says nothing for its idle deadline is ended as timed_out",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const { info, termination } = yield* bench.run(command, { idleDeadline: "30 millis" })
        assert.deepStrictEqual([info.status, termination.cause], ["timed_out", { _tag: "Deadline", kind: "idle" }])
        yield* bench.nobodyLives
      })
  ),

  law(
    "a child that passes its output cap is ended as cancelled",
    [programs.polite],
    (bench, command) =>
      Effect.gen(function*() {
        const { info, termination } = yield* bench.run(command, { ...patient, output: { cap: 3 } })
        assert.deepStrictEqual([info.status, termination.cause], ["cancelled", { _tag: "OutputCap" }])
        assert.isAbove(info.output.bytesSeen, 3)
        yield* bench.nobodyLives
      })
  )
]

export const feeding: Statements = (programs) => [
  law(
    "what is written to stdin arrives, and closing it ends the child's input",
    [programs.echoes],
    (bench, command) =>
      Effect.gen(function*() {
        const open = { ...command, options: { ...command.options, stdin: "open" as const } }
        const [handle] = yield* bench.spawn(open)
        yield* handle.write("hel")
        yield* bench.untilText(handle.output, "hel")
        yield* handle.write(new TextEncoder().encode("lo"))
        yield* bench.done("stdin is closed", handle.closeStdin)
        const receipt = yield* bench.done("the process has ended", handle.termination)
        assert.strictEqual(receipt.status, "completed")
        assert.deepStrictEqual([yield* handle.output.preview, (yield* handle.info).stdinAccepted], ["hello", 5])
      })
  ),

  law(
    "a command that brings its input is fed all of it",
    [programs.echoes],
    (bench, command) =>
      Effect.gen(function*() {
        const bytes = new Uint8Array(300_000).map((_, index) => 97 + index % 23)
        const fed = { ...command, options: { ...command.options, stdin: bytes } }
        const { info, output } = yield* bench.run(fed, { output: { limit: 2 * bytes.length } })
        assert.deepStrictEqual([info.status, info.output.bytesSeen, info.stdinAccepted], [
          "completed",
          bytes.length,
          bytes.length
        ])
        const pages = yield* Stream.runCollect(output.followBytes())
        assert.strictEqual(
          hashOf(pages).sha256,
          hashOf([{ data: bytes, since: 0, next: bytes.length, gap: null, sealed: true }]).sha256
        )
      })
  ),

  law(
    "who writes to a process that has ended, or never had an input, is told",
    [programs.waits],
    (bench, command) =>
      Effect.gen(function*() {
        const refused = (write: Effect.Effect<void, { readonly _tag: string }>) =>
          Effect.match(bench.done("the write is answered", write), {
            onFailure: ({ _tag }) => _tag,
            onSuccess: () => "taken"
          })
        const [without] = yield* bench.spawn(command)
        assert.strictEqual(yield* refused(without.write("x")), "StdinClosed")
        const [handle, close] = yield* bench.spawn({ ...command, options: { ...command.options, stdin: "open" } })
        yield* close
        assert.strictEqual(yield* refused(handle.write("x")), "StdinClosed")
      })
  )
]

export const trees: Statements = (programs) => [
  law(
    "what a leader leaves behind is ended after it, and told",
    [programs.leavesMember],
    (bench, command) =>
      Effect.gen(function*() {
        const { info, termination } = yield* bench.run(command)
        assert.deepStrictEqual([info.status, termination.leftovers.length], ["completed", 1])
        bench.assertProven(termination)
        yield* bench.nobodyLives
      }),
    ["processTable"]
  ),

  law(
    "a leftover that holds the output ends too, and what was said is kept",
    [programs.leavesHolder],
    (bench, command) =>
      Effect.gen(function*() {
        const { info, stdout } = yield* bench.run(command)
        assert.deepStrictEqual([info.status, stdout, info.output.drained], ["completed", "hi\n", true])
        yield* bench.nobodyLives
      }),
    ["processTable"]
  )
]
