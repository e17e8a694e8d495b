/**
 * What every process driver owes the runtime, as tests that any driver can run.
 *
 * A law starts a program that has one vice and waits for evidence: the exit that was told, a line of output, a look that
 * shows it. Nothing is concluded from time that passed. Each law has a fresh layer and ends what it started. A law that
 * a driver cannot keep, because it does not claim the capability or has no program for it, is skipped with that reason
 * in its name.
 */
import { assert } from "@effect/vitest"
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import { type Identity, markerPrefix, unborn } from "@procyon/runtime/domain/Identity"
import type { Exit } from "@procyon/runtime/domain/Status"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Evidence } from "./internal/Evidence.ts"
import * as Suite from "./internal/Suite.ts"
import type { Law as AnyLaw } from "./Law.ts"

/** A command, or why the platform has none with this vice. */
export type Program = CommandSpec | { readonly missing: string }

/**
 * The commands the laws start. Each is its leader alone, unless it says otherwise. "Waits" means: runs until a signal
 * ends it. A `ready` line says that the vice is in force.
 */
export interface Programs {
  /** Waits, prints nothing, never reads its stdin, and does nothing about signals. */
  readonly waits: CommandSpec
  /** Exits with code 0 at once. */
  readonly succeeds: CommandSpec
  /** Exits with code 7 at once. */
  readonly exits7: CommandSpec
  /** Ends itself by SIGKILL. */
  readonly diesByKill: Program
  /** Prints exactly this many bytes (more than 256 KiB) of this SHA-256 to stdout, then exits with code 0. */
  readonly talks: { readonly command: CommandSpec; readonly bytes: number; readonly sha256: string }
  /** Prints `out` to stdout, then `err` to stderr, and exits with code 0. */
  readonly speaksTwice: CommandSpec
  /** Closes its output, then waits. */
  readonly closesOutput: Program
  /** Prints `hi` and a line feed, leaves a waiting child that holds its output open, and exits with code 0. */
  readonly leavesHolder: Program
  /** Leaves a waiting child in its group that holds no output, and exits with code 0. */
  readonly leavesMember: Program
  /** Starts a child with a group of its own in the same session; both wait. */
  readonly childLeavesGroup: Program
  /** Starts a child with a session of its own; both wait. */
  readonly childLeavesSession: Program
  /** Leaves a waiting process with a session of its own that is nobody's child, and exits with code 0. */
  readonly daemonizes: Program
  /** Prints `ready` once it has a dead child that it never waits for, then waits. */
  readonly keepsZombie: Program
  /** Prints `ready` once it ignores SIGTERM, then waits. */
  readonly ignoresTerm: Program
  /** Prints `ready`, waits, and on SIGTERM prints `bye` and exits with code 0. */
  readonly polite: Program
  /** Prints what it reads from stdin until that ends, then exits with code 0. */
  readonly echoes: CommandSpec
  /** Closes its stdin, prints `ready`, then waits. */
  readonly closesStdin: Program
  /** Waits, and takes more turns to start than a law waits before it interrupts. */
  readonly startsSlowly: Program
  /** Has a waiting child with a group of its own, never collects its exit, and waits too. */
  readonly neverReaps: Program
  /** Commands that cannot be started, and the problem each has to be told by. */
  readonly failures: ReadonlyArray<{
    readonly what: string
    readonly command: CommandSpec
    readonly problem: ProcessDriver.SpawnProblem
  }>
}

/** What the laws need to know of the driver they are tried on. */
export interface Options {
  /** `live`: real processes on the real clock. `virtual`: under a TestClock, which the laws move. */
  readonly clock: Suite.Clock
  /** What the driver claims; that it does is itself a law. */
  readonly capabilities: ProcessDriver.Capabilities
  readonly programs: Programs
}

/** Collects a stream. Pauses once it has seen `pauseAt` bytes, until told to flow. */
class Sink implements ProcessDriver.OutputSink {
  readonly #hash: ProcessDriver.Sha256
  readonly #region = new Uint8Array(16 * 1024)
  text = ""
  bytes = 0
  ends = 0
  pauseAt = Infinity

  constructor(hash: ProcessDriver.Sha256) {
    this.#hash = hash
  }

  readonly reserve = (): Uint8Array => this.#region
  readonly commit = (count: number): boolean => {
    const bytes = this.#region.subarray(0, count)
    this.#hash.update(bytes)
    this.bytes += count
    if (this.text.length < 4096) this.text += new TextDecoder().decode(bytes)
    return this.bytes < this.pauseAt
  }
  readonly end = (): void => {
    this.ends++
  }
  digest(): string {
    return this.#hash.digest()
  }
}

/** What is told of a leader. */
interface Started {
  readonly child: ProcessDriver.Child
  readonly root: Identity
  readonly out: Sink
  readonly err: Sink
  readonly exits: ReadonlyArray<Exit>
  /** The bytes of stdout that had been committed when the exit was told. */
  readonly bytesAtExit: () => number
}

interface StartOptions {
  readonly stdin?: "open" | undefined
  readonly merged?: boolean | undefined
  readonly pauseAt?: number | undefined
  readonly marker?: string | undefined
  /** The name of its files. */
  readonly detached?: string | undefined
}

/** What a law works with: one driver, and the waiting that fits its clock. */
class Bench extends Evidence {
  readonly driver: ProcessDriver.ProcessDriver
  #markers = 0

  constructor(driver: ProcessDriver.ProcessDriver, clock: Options["clock"]) {
    super(clock)
    this.driver = driver
  }

  /** A marker nobody else has: real ones are random, and laws of one file run one after the other. */
  newMarker(): string {
    return `${markerPrefix}law_${this.#markers++}_${Math.random().toString(36).slice(2)}`
  }

  /** A name for the files of a detached process that nobody else has. */
  newName(): string {
    return `law-${this.#markers++}-${Math.random().toString(36).slice(2)}`
  }

  /** Takes a leader in, and releases it when the law is over. */
  attach(identity: Identity, detached: string | null): Effect.Effect<Started, never, Scope.Scope> {
    return Effect.gen({ self: this }, function*() {
      const told = this.#listen()
      const child = yield* Effect.acquireRelease(
        this.driver.attach({ identity, detached, stdout: told.out, stderr: told.err, onExit: told.onExit }),
        (child) => child.release
      )
      return { ...told, child, root: identity }
    })
  }

  #listen() {
    const out = new Sink(this.driver.sha256())
    const err = new Sink(this.driver.sha256())
    const exits: Array<Exit> = []
    let bytesAtExit = -1
    return {
      out,
      err,
      exits,
      bytesAtExit: () => bytesAtExit,
      onExit: (exit: Exit): void => {
        exits.push(exit)
        bytesAtExit = out.bytes
      }
    }
  }

  get files(): ProcessDriver.DetachedFiles {
    return this.driver.detachedFiles ?? assert.fail("a driver that claims `detached` has to have files")
  }

  /** Starts it, and ends and releases its whole tree when the law is over. */
  start(
    command: CommandSpec,
    options: StartOptions = {}
  ): Effect.Effect<Started, ProcessDriver.SpawnFailed, Scope.Scope> {
    return Effect.gen({ self: this }, function*() {
      const told = this.#listen()
      const { err, onExit, out } = told
      out.pauseAt = options.pauseAt ?? Infinity
      const child = yield* Effect.acquireRelease(
        this.driver.spawn({
          command: options.stdin === undefined
            ? command
            : { ...command, options: { ...command.options, stdin: "open" } },
          marker: options.marker ?? this.newMarker(),
          stdout: out,
          stderr: options.merged === true ? "merged" : err,
          onExit,
          detached: options.detached === undefined ? undefined : detachedAs(options.detached)
        }),
        (child) =>
          Effect.all([
            this.endTree(child.identity),
            child.release,
            options.detached === undefined ? Effect.void : this.files.remove(options.detached)
          ], { discard: true })
      )
      return { ...told, child, root: child.identity }
    })
  }

  look(root: Identity): Effect.Effect<ProcessDriver.TreeLook> {
    return Effect.map(this.driver.look([root]), (looks) => {
      const look = looks[0]
      return look === undefined ? assert.fail("a look has to answer for every root") : look
    })
  }

  untilExit(started: Started): Effect.Effect<Exit> {
    return Effect.map(
      this.until("the exit is told", Effect.sync(() => started.exits[0]), (exit) => exit !== undefined),
      (exit) => exit ?? assert.fail("unreachable")
    )
  }

  untilText(sink: Sink, text: string): Effect.Effect<string> {
    return this.until(`the output holds ${text}`, Effect.sync(() => sink.text), (seen) => seen.includes(text))
  }

  untilEnd(sink: Sink): Effect.Effect<number> {
    return this.until("the output ends", Effect.sync(() => sink.ends), (ends) => ends > 0)
  }

  untilMembers(root: Identity, count: number): Effect.Effect<ProcessDriver.TreeLook> {
    return this.until(`a look shows ${count} members`, this.look(root), (look) => look.members.length === count)
  }

  /** Sends a signal to everybody a fresh look shows. */
  signal(root: Identity, signal: string): Effect.Effect<ReadonlyArray<ProcessDriver.SignalOutcome>> {
    return Effect.flatMap(this.look(root), ({ members }) => this.driver.signal(root, { members }, signal))
  }

  endTree(root: Identity): Effect.Effect<void> {
    const kill = Effect.gen({ self: this }, function*() {
      const { members, occupied } = yield* this.look(root)
      if (members.length + occupied.length > 0) {
        yield* this.driver.signal(root, { members, groups: occupied }, "SIGKILL")
      }
      return members.length + occupied.length
    })
    return Effect.asVoid(this.until("the tree is gone", kill, (left) => left === 0))
  }
}

/** Nothing ends it but what the law does. */
const detachedAs = (name: string): ProcessDriver.Detached => ({ name, deadlineAt: null, capBytes: 0, graceMillis: 0 })

const unknownExit: Exit = { code: null, signal: null }

const otherRoot = (root: Identity, changes: Partial<Identity>): Identity => ({
  pid: changes.pid ?? root.pid,
  startedAt: changes.startedAt ?? root.startedAt,
  bootId: changes.bootId ?? root.bootId,
  marker: changes.marker ?? root.marker
})

const leaderOf = (look: ProcessDriver.TreeLook, root: Identity): ProcessDriver.Member =>
  look.members.find((member) => member.pid === root.pid) ?? assert.fail("the leader is no member of its tree")

const others = (look: ProcessDriver.TreeLook, root: Identity): ReadonlyArray<ProcessDriver.Member> =>
  look.members.filter((member) => member.pid !== root.pid)

const only = (outcomes: ReadonlyArray<ProcessDriver.SignalOutcome>): ProcessDriver.SignalOutcome => {
  assert.lengthOf(outcomes, 1)
  return outcomes[0] ?? assert.fail("unreachable")
}

type Body = (bench: Bench, command: CommandSpec) => Effect.Effect<void, ProcessDriver.SpawnFailed, Scope.Scope>

/** A law before it is known which driver it is for. */
interface Statement {
  readonly name: string
  readonly program: Program
  readonly needs: ReadonlyArray<Suite.Need>
  readonly body: Body
}

/** A law about one program. `needs`: the capabilities without which it cannot be shown. */
const law = (name: string, program: Program, body: Body, needs: Statement["needs"] = []): Statement => ({
  name,
  program,
  needs,
  body
})

const turnsBeforeInterrupt = 8

/** Interrupts a start after more and more turns. Whom the driver answered for is ended here, everybody else by it. */
const interruptedStart =
  (succeeds: CommandSpec, as: "detached" | "owned" = "owned") =>
  (bench: Bench, command: CommandSpec): ReturnType<Body> =>
    Effect.gen(function*() {
      const ended = yield* bench.start(succeeds)
      yield* bench.untilExit(ended)
      for (let turns = 0; turns < turnsBeforeInterrupt; turns++) {
        const marker = bench.newMarker()
        const sink = new Sink(bench.driver.sha256())
        const name = bench.newName()
        const spawn = bench.driver.spawn({
          command,
          marker,
          stdout: sink,
          stderr: "merged",
          onExit: () => undefined,
          detached: as === "detached" ? detachedAs(name) : undefined
        })
        const answered: Array<ProcessDriver.Child> = []
        const fiber = yield* Effect.forkChild(
          Effect.uninterruptibleMask((restore) => Effect.map(restore(spawn), (child) => answered.push(child))),
          { startImmediately: true }
        )
        for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
        // The pid of a process that is gone, so that only the marker can find anybody.
        const { members } = yield* bench.look(otherRoot(ended.root, { marker }))
        if (answered.length === 0) assert.deepStrictEqual(members.map((member) => member.state), [])
        if (answered.length === 0 && as === "detached") assert.isNull(yield* bench.files.read(name, "stdout", 0, 1))
        for (const child of answered) yield* Effect.andThen(bench.endTree(child.identity), child.release)
        if (as === "detached") yield* bench.files.remove(name)
      }
    })

const identityLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "spawn answers with an identity that carries the marker asked for",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const marker = bench.newMarker()
        const { root } = yield* bench.start(command, { marker })
        assert.strictEqual(root.marker, marker)
        assert.isAbove(root.pid, 1)
        assert.notStrictEqual(root.bootId, "")
      })
  ),

  law(
    "a started leader is a member of its tree, in a group and session of its own",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const { root } = yield* bench.start(command)
        const look = yield* bench.look(root)
        const leader = leaderOf(look, root)
        assert.deepInclude(look, { root, leader: "alive", occupied: [], complete: true })
        assert.deepInclude(leader, { startedAt: root.startedAt, group: root.pid, session: root.pid })
        assert.isTrue(bench.driver.occupied(root))
      }),
    ["processTable"]
  ),

  law("a look answers for every root, in order", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const first = yield* bench.start(command)
      const second = yield* bench.start(command)
      const looks = yield* bench.driver.look([second.root, first.root])
      assert.deepStrictEqual(looks.map((look) => look.root), [second.root, first.root])
      assert.deepStrictEqual(looks.map((look) => look.members.map((member) => member.pid)), [
        [second.root.pid],
        [first.root.pid]
      ])
    }), ["processTable"]),

  law(
    "a process of another boot is gone, though its pid be in use",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const { root } = yield* bench.start(command)
        const look = yield* bench.look(otherRoot(root, { bootId: "another-boot", marker: bench.newMarker() }))
        assert.deepInclude(look, { leader: "gone", members: [] })
      }),
    ["processTable"]
  )
]

const exitLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law("tells the exit code as the system gave it", programs.exits7, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      assert.deepStrictEqual(yield* bench.untilExit(started), { code: 7, signal: null })
    })),

  law(
    "tells the signal of a child that ended itself by one",
    programs.diesByKill,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGKILL" })
      })
  ),

  law("tells the signal that ended a child, once", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      assert.strictEqual(only(yield* bench.signal(started.root, "SIGTERM")).outcome, "sent")
      assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGTERM" })
      yield* bench.aWhile
      assert.lengthOf(started.exits, 1)
    })),

  law(
    "a polite child's code is told, not the signal it answered",
    programs.polite,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        yield* bench.untilText(started.out, "ready")
        yield* bench.signal(started.root, "SIGTERM")
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: 0, signal: null })
        assert.include(started.out.text, "bye")
      })
  ),

  law(
    "after all has ended a look is empty and no group is occupied",
    programs.succeeds,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        yield* bench.untilExit(started)
        const look = yield* bench.look(started.root)
        assert.deepStrictEqual(look, {
          root: started.root,
          leader: "gone",
          members: [],
          occupied: [],
          complete: true
        })
        assert.isFalse(bench.driver.occupied(started.root))
      }),
    ["processTable"]
  )
]

const outputLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "all the leader wrote is committed before its exit is told",
    programs.talks.command,
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes, sha256 } = programs.talks
        for (let round = 0; round < 5; round++) {
          const started = yield* bench.start(command)
          assert.deepStrictEqual(yield* bench.untilExit(started), { code: 0, signal: null })
          assert.strictEqual(started.bytesAtExit(), bytes)
          yield* bench.untilEnd(started.out)
          assert.deepStrictEqual([started.out.bytes, started.out.ends], [bytes, 1])
          assert.strictEqual(started.out.digest(), sha256)
        }
      })
  ),

  law("keeps the streams apart when asked to", programs.speaksTwice, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      yield* bench.untilExit(started)
      assert.deepStrictEqual([started.out.text.trim(), started.err.text.trim()], ["out", "err"])
      yield* bench.untilEnd(started.out)
      yield* bench.untilEnd(started.err)
    })),

  law(
    "gives one sink both streams in their order when merged, and ends it once",
    programs.speaksTwice,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command, { merged: true })
        yield* bench.untilExit(started)
        assert.match(started.out.text, /^out\s*err\s*$/)
        yield* bench.untilEnd(started.out)
        assert.deepStrictEqual([started.out.ends, started.err.ends], [1, 0])
      })
  ),

  law("the end of the output is not an exit", programs.closesOutput, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      yield* bench.untilEnd(started.out)
      assert.strictEqual((yield* bench.look(started.root)).leader, "alive")
      assert.lengthOf(started.exits, 0)
    }), ["processTable"]),

  law("an exit is not the end of the output", programs.leavesHolder, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      yield* bench.untilExit(started)
      assert.deepStrictEqual([started.out.text, started.out.ends], ["hi\n", 0])
      assert.strictEqual(started.child.drain("stdout"), "empty")
      yield* bench.endTree(started.root)
      yield* bench.untilEnd(started.out)
      assert.strictEqual(started.child.drain("stdout"), "ended")
      assert.strictEqual(started.out.text, "hi\n")
    }), ["processTable"]),

  law(
    "a paused stream commits nothing until it is resumed, and loses nothing",
    programs.talks.command,
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes, sha256 } = programs.talks
        const started = yield* bench.start(command, { pauseAt: 1 })
        yield* bench.until("the first bytes", Effect.sync(() => started.out.bytes), (seen) => seen > 0)
        const atPause = started.out.bytes
        yield* bench.aWhile
        assert.strictEqual(started.child.drain("stdout"), "paused")
        assert.deepStrictEqual([started.out.bytes, started.out.ends, started.exits.length], [atPause, 0, 0])
        started.out.pauseAt = Infinity
        started.child.resume("stdout")
        started.child.resume("stdout")
        yield* bench.untilExit(started)
        yield* bench.untilEnd(started.out)
        assert.deepStrictEqual([started.out.bytes, started.out.digest()], [bytes, sha256])
      })
  )
]

const inputLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "a write tells how many bytes were taken, and closing ends the child's stdin",
    programs.echoes,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command, { stdin: "open" })
        assert.strictEqual(yield* started.child.write(new TextEncoder().encode("hello")), 5)
        yield* bench.untilText(started.out, "hello")
        yield* started.child.closeStdin()
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: 0, signal: null })
        assert.strictEqual(yield* started.child.write(new Uint8Array(1)), 0)
      })
  ),

  law("more than a pipe holds arrives in order", programs.echoes, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command, { stdin: "open" })
      const bytes = new Uint8Array(300_000).map((_, index) => index % 251)
      const write = yield* Effect.forkChild(Effect.tap(started.child.write(bytes), started.child.closeStdin()))
      yield* bench.untilExit(started)
      assert.strictEqual(yield* Fiber.join(write), bytes.length)
      yield* bench.untilEnd(started.out)
      const expected = bench.driver.sha256()
      expected.update(bytes)
      assert.strictEqual(started.out.digest(), expected.digest())
    })),

  law("a child without stdin reads its end at once", programs.echoes, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      assert.deepStrictEqual(yield* bench.untilExit(started), { code: 0, signal: null })
      assert.strictEqual(yield* started.child.write(new Uint8Array(1)), 0)
      yield* started.child.closeStdin()
    })),

  law(
    "a child that closed its stdin takes fewer bytes than given",
    programs.closesStdin,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command, { stdin: "open" })
        yield* bench.untilText(started.out, "ready")
        assert.isBelow(yield* started.child.write(new Uint8Array(1024 * 1024)), 1024 * 1024)
        assert.lengthOf(started.exits, 0)
      })
  ),

  law(
    "a write that waits for a child that never reads is answered when the child ends",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command, { stdin: "open" })
        const write = yield* Effect.forkChild(started.child.write(new Uint8Array(1024 * 1024)), {
          startImmediately: true
        })
        yield* bench.signal(started.root, "SIGKILL")
        yield* bench.untilExit(started)
        assert.isBelow(yield* Fiber.join(write), 1024 * 1024)
      })
  ),

  law("closing now drops what was not taken", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command, { stdin: "open" })
      const write = yield* Effect.forkChild(started.child.write(new Uint8Array(1024 * 1024)), {
        startImmediately: true
      })
      yield* started.child.closeStdin({ now: true })
      assert.isBelow(yield* Fiber.join(write), 1024 * 1024)
      assert.lengthOf(started.exits, 0)
    })),

  law("interrupting a write stops the wait only", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command, { stdin: "open" })
      const write = yield* Effect.forkChild(started.child.write(new Uint8Array(1024 * 1024)), {
        startImmediately: true
      })
      yield* Fiber.interrupt(write)
      assert.strictEqual(only(yield* bench.signal(started.root, "SIGTERM")).outcome, "sent")
      assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGTERM" })
    }))
]

const signalLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "a signal to a process that is gone is answered with gone",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const { members } = yield* bench.look(started.root)
        yield* bench.signal(started.root, "SIGKILL")
        yield* bench.untilExit(started)
        assert.strictEqual(only(yield* bench.driver.signal(started.root, { members }, "SIGKILL")).outcome, "gone")
      }),
    ["processTable"]
  ),

  law(
    "a signal to a pid with another start time is never sent",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const leader = leaderOf(yield* bench.look(started.root), started.root)
        const stale = { ...leader, startedAt: leader.startedAt - 1 }
        const outcome = only(yield* bench.driver.signal(started.root, { members: [stale] }, "SIGKILL"))
        assert.include(["not-same", "gone"], outcome.outcome)
        // Had the KILL been delivered, it and not this TERM would be the end that is told.
        yield* bench.signal(started.root, "SIGTERM")
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGTERM" })
      }),
    ["processTable"]
  ),

  law("a signal to a stale root is never sent", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      const leader = leaderOf(yield* bench.look(started.root), started.root)
      const stale = otherRoot(started.root, {
        startedAt: started.root.startedAt - 1,
        marker: bench.newMarker()
      })
      const look = yield* bench.look(stale)
      assert.deepInclude(look, { leader: "gone", members: [] })
      const members = [{ ...leader, startedAt: stale.startedAt }]
      const outcome = only(yield* bench.driver.signal(stale, { members }, "SIGKILL"))
      assert.include(["not-same", "gone"], outcome.outcome)
      yield* bench.signal(started.root, "SIGTERM")
      assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGTERM" })
    }), ["processTable"]),

  law(
    "an ignored signal is sent, changes nothing, and KILL ends the child",
    programs.ignoresTerm,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        yield* bench.untilText(started.out, "ready")
        const termed = yield* bench.signal(started.root, "SIGTERM")
        assert.deepStrictEqual(termed.filter(({ outcome }) => outcome !== "sent"), [])
        assert.strictEqual((yield* bench.look(started.root)).leader, "alive")
        yield* bench.endTree(started.root)
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGKILL" })
      })
  ),

  law(
    "a stopped process is listed in state T and goes on when continued",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const inState = (holds: (state: string) => boolean) =>
          bench.until("the state changes", bench.look(started.root), (look) =>
            look.members.length === 1 && look.members.every((member) =>
              holds(member.state)
            ))
        yield* bench.signal(started.root, "SIGSTOP")
        yield* inState((state) => state === "T")
        yield* bench.signal(started.root, "SIGCONT")
        yield* inState((state) => state !== "T")
      }),
    ["processTable"]
  ),

  law(
    "one call gives one outcome for each member",
    programs.childLeavesGroup,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const { members } = yield* bench.untilMembers(started.root, 2)
        const outcomes = yield* bench.driver.signal(started.root, { members }, "SIGKILL")
        assert.sameDeepMembers(
          outcomes.map(({ pid, startedAt }) => [pid, startedAt]),
          members.map(({ pid, startedAt }) => [pid, startedAt])
        )
      }),
    ["processTable", "sessions"]
  )
]

const treeLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "finds and ends a member that outlived its leader",
    programs.leavesMember,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        yield* bench.untilExit(started)
        const look = yield* bench.look(started.root)
        assert.deepInclude(look, { leader: "gone" })
        assert.deepStrictEqual(look.members.map((member) => member.group), [started.root.pid])
        assert.isTrue(bench.driver.occupied(started.root))
        yield* bench.endTree(started.root)
        yield* bench.until(
          "no group is occupied",
          Effect.sync(() => bench.driver.occupied(started.root)),
          (is) => !is
        )
      }),
    ["processTable"]
  ),

  law(
    "finds a member that left the group",
    programs.childLeavesGroup,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const look = yield* bench.until("the child is in its own group", bench.look(started.root), (look) =>
          others(look, started.root).some((member) =>
            member.group === member.pid
          ))
        assert.isTrue(look.members.every((member) => member.session === started.root.pid))
      }),
    ["processTable", "sessions"]
  ),

  law(
    "finds a member that left the session, also when its parent is gone",
    programs.childLeavesSession,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const before = yield* bench.until("the child is in its own session", bench.look(started.root), (look) =>
          others(look, started.root).some((member) =>
            member.session === member.pid
          ))
        yield* bench.driver.signal(started.root, { members: [leaderOf(before, started.root)] }, "SIGKILL")
        yield* bench.untilExit(started)
        const after = yield* bench.look(started.root)
        assert.deepStrictEqual(
          after.members.map((member) => member.pid),
          others(before, started.root).map((member) => member.pid)
        )
        yield* bench.endTree(started.root)
        assert.deepStrictEqual((yield* bench.look(started.root)).members, [])
      }),
    ["processTable", "sessions"]
  ),

  law("finds a daemon by its marker", programs.daemonizes, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      yield* bench.untilExit(started)
      const look = yield* bench.until("one member in a session of its own", bench.look(started.root), (look) =>
        look.members.length === 1 && look.members[0]?.session !== started.root.pid)
      assert.strictEqual(look.leader, "gone")
      yield* bench.endTree(started.root)
      assert.deepStrictEqual((yield* bench.look(started.root)).members, [])
    }), ["processTable", "marker"]),

  law(
    "finds the tree of a root it was never told of",
    programs.daemonizes,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        yield* bench.untilExit(started)
        yield* bench.untilMembers(started.root, 1)
        yield* started.child.release
        assert.lengthOf((yield* bench.look(started.root)).members, 1)
        yield* bench.endTree(started.root)
      }),
    ["processTable", "marker"]
  ),

  law(
    "a dead process that nobody waited for is not a member",
    programs.keepsZombie,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        yield* bench.untilText(started.out, "ready")
        const look = yield* bench.look(started.root)
        assert.deepStrictEqual(look.members.map((member) => member.pid), [started.root.pid])
        assert.deepStrictEqual(look.occupied, [])
      }),
    ["processTable"]
  )
]

const startLaws = (programs: Programs): ReadonlyArray<Statement> => [
  ...programs.failures.map(({ command, problem, what }) =>
    law(`${what}: the start fails with ${problem} and leaves nothing`, command, (bench) =>
      Effect.gen(function*() {
        const ended = yield* bench.start(programs.succeeds)
        yield* bench.untilExit(ended)
        const marker = bench.newMarker()
        const result = yield* Effect.result(bench.start(command, { marker }))
        assert.strictEqual(Result.isFailure(result) ? result.failure.problem : "started", problem)
        assert.deepStrictEqual((yield* bench.look(otherRoot(ended.root, { marker }))).members, [])
      }))
  ),

  law(
    "an interrupted start leaves no process, at whatever turn",
    programs.waits,
    interruptedStart(programs.succeeds),
    [
      "processTable",
      "marker"
    ]
  ),

  law("an interrupted slow start leaves no process", programs.startsSlowly, interruptedStart(programs.succeeds), [
    "processTable",
    "marker"
  ])
]

const takenInLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "a leader that was taken in is looked at and signalled, and its exit is unknown, unless its parent can tell",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const { child, root } = yield* bench.start(command)
        yield* child.release
        const attached = yield* bench.attach(root, null)
        assert.deepStrictEqual([attached.out.ends, attached.err.ends, attached.child.drain("stdout")], [1, 1, "ended"])
        assert.strictEqual(yield* attached.child.write(new Uint8Array(1)), 0)
        assert.strictEqual((yield* bench.look(root)).leader, "alive")
        assert.lengthOf(attached.exits, 0)
        assert.strictEqual(only(yield* bench.signal(root, "SIGTERM")).outcome, "sent")
        yield* bench.until("the leader is gone", bench.look(root), (look) => look.leader === "gone")
        yield* bench.look(root)
        // Here the driver itself, or a helper of its, may still be the parent, and then it knows.
        assert.lengthOf(attached.exits, 1)
        assert.include([null, "SIGTERM"], attached.exits[0]?.signal)
      }),
    ["processTable"]
  ),

  law(
    "to attach to a leader that is somebody else now signals nobody and says gone",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const stale = otherRoot(started.root, {
          startedAt: started.root.startedAt - 1,
          marker: bench.newMarker()
        })
        const attached = yield* bench.attach(stale, null)
        assert.deepInclude(yield* bench.look(stale), { leader: "gone", members: [] })
        assert.deepStrictEqual(attached.exits, [unknownExit])
        const stranger = [{ ...leaderOf(yield* bench.look(started.root), started.root), startedAt: stale.startedAt }]
        assert.include(
          ["not-same", "gone"],
          only(yield* bench.driver.signal(stale, { members: stranger }, "SIGKILL")).outcome
        )
        yield* attached.child.release
        yield* bench.signal(started.root, "SIGTERM")
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: null, signal: "SIGTERM" })
      }),
    ["processTable"]
  ),

  law("a released one is told of nothing", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const { child, root } = yield* bench.start(command)
      yield* child.release
      const attached = yield* bench.attach(root, null)
      yield* attached.child.release
      yield* attached.child.release
      assert.strictEqual((yield* bench.look(root)).leader, "alive")
      yield* bench.endTree(root)
      assert.lengthOf(attached.exits, 0)
    }), ["processTable"])
]

const probeLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "tells a living process from one that has ended, and from one of another start",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const started = yield* bench.start(command)
        const { root } = started
        assert.strictEqual(yield* bench.driver.probe(root), "alive")
        assert.strictEqual(yield* bench.driver.probe(otherRoot(root, { marker: "" })), "alive")
        assert.strictEqual(yield* bench.driver.probe(otherRoot(root, { startedAt: root.startedAt - 1 })), "gone")
        yield* bench.endTree(root)
        yield* bench.untilExit(started)
        assert.strictEqual(yield* bench.driver.probe(root), "gone")
      }),
    ["processTable"]
  ),

  law("tells a zombie from a living process", programs.neverReaps, (bench, command) =>
    Effect.gen(function*() {
      const { root } = yield* bench.start(command)
      const members = others(yield* bench.untilMembers(root, 2), root)
      const [member] = members
      if (member === undefined) return assert.fail("there is no child")
      const child = otherRoot(root, { pid: member.pid, startedAt: member.startedAt })
      assert.strictEqual(yield* bench.driver.probe(child), "alive")
      yield* bench.driver.signal(root, { members }, "SIGKILL")
      yield* bench.untilMembers(root, 1)
      assert.strictEqual(yield* bench.driver.probe(child), "gone")
    }), ["processTable"]),

  law("does not know a process of another boot", programs.waits, (bench, command) =>
    Effect.gen(function*() {
      const { root } = yield* bench.start(command)
      assert.strictEqual(yield* bench.driver.probe(otherRoot(root, { bootId: "another-boot" })), "unknown")
    })),

  law("the application itself lives, and carries no marker", programs.waits, (bench) =>
    Effect.gen(function*() {
      const { self } = bench.driver
      if (self === null) return
      assert.strictEqual(self.marker, "")
      assert.strictEqual(yield* bench.driver.probe(self), "alive")
    }), ["processTable"])
]

const detachedLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "tells all output and then the exit, and ends the output when it is told to",
    programs.talks.command,
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes, sha256 } = programs.talks
        const started = yield* bench.start(command, { detached: bench.newName() })
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: 0, signal: null })
        assert.deepStrictEqual([started.bytesAtExit(), started.out.ends], [bytes, 0])
        assert.strictEqual(started.child.drain("stdout"), "empty")
        yield* started.child.finish
        yield* bench.untilEnd(started.out)
        yield* bench.untilEnd(started.err)
        assert.deepStrictEqual([started.out.bytes, started.out.digest()], [bytes, sha256])
        assert.strictEqual(started.child.drain("stdout"), "ended")
        assert.strictEqual(yield* started.child.write(new Uint8Array(1)), 0)
        yield* started.child.closeStdin()
      }),
    ["detached"]
  ),

  law("keeps the streams apart when asked to", programs.speaksTwice, (bench, command) =>
    Effect.gen(function*() {
      const name = bench.newName()
      const started = yield* bench.start(command, { detached: name })
      yield* bench.untilExit(started)
      assert.deepStrictEqual([started.out.text.trim(), started.err.text.trim()], ["out", "err"])
      assert.isNotNull(yield* bench.files.read(name, "stderr", 0, 1))
    }), ["detached"]),

  law(
    "gives one sink both streams in their order when merged, and ends it once",
    programs.speaksTwice,
    (bench, command) =>
      Effect.gen(function*() {
        const name = bench.newName()
        const started = yield* bench.start(command, { detached: name, merged: true })
        yield* bench.untilExit(started)
        assert.match(started.out.text, /^out\s*err\s*$/)
        yield* started.child.finish
        yield* bench.untilEnd(started.out)
        assert.deepStrictEqual([started.out.ends, started.err.ends], [1, 0])
        assert.isNull(yield* bench.files.read(name, "stderr", 0, 1))
      }),
    ["detached"]
  ),

  law(
    "outlives the release, and is found with all its output and its exit",
    programs.polite,
    (bench, command) =>
      Effect.gen(function*() {
        const name = bench.newName()
        const started = yield* bench.start(command, { detached: name })
        yield* bench.untilText(started.out, "ready")
        yield* started.child.release
        assert.strictEqual((yield* bench.look(started.root)).leader, "alive")
        const attached = yield* bench.attach(started.root, name)
        yield* bench.untilText(attached.out, "ready")
        yield* bench.signal(started.root, "SIGTERM")
        assert.deepStrictEqual(yield* bench.untilExit(attached), { code: 0, signal: null })
        assert.match(attached.out.text, /^ready\s*bye\s*$/)
        yield* bench.untilMembers(started.root, 0)
        yield* attached.child.finish
        yield* bench.untilEnd(attached.out)
        assert.deepStrictEqual([attached.exits.length, started.exits.length, started.out.ends], [1, 0, 0])
      }),
    ["detached", "processTable"]
  ),

  law("what ended while nobody was there tells its exit", programs.exits7, (bench, command) =>
    Effect.gen(function*() {
      const name = bench.newName()
      const started = yield* bench.start(command, { detached: name })
      yield* started.child.release
      yield* bench.until("it has ended", bench.look(started.root), (look) => look.leader === "gone")
      for (const identity of [started.root, otherRoot(started.root, { bootId: "another-boot" })]) {
        const attached = yield* bench.attach(identity, name)
        assert.deepStrictEqual(yield* bench.untilExit(attached), { code: 7, signal: null })
        yield* bench.look(identity)
        yield* bench.aWhile
        assert.lengthOf(attached.exits, 1)
        yield* attached.child.release
      }
    }), ["detached", "processTable"]),

  law("an exit that was never recorded is unknown", programs.succeeds, (bench, command) =>
    Effect.gen(function*() {
      const started = yield* bench.start(command)
      yield* bench.untilExit(started)
      yield* started.child.release
      const attached = yield* bench.attach(started.root, bench.newName())
      assert.deepStrictEqual([attached.out.ends, attached.err.ends], [1, 1])
      yield* bench.look(started.root)
      assert.deepStrictEqual(yield* bench.untilExit(attached), unknownExit)
    }), ["detached", "processTable"]),

  law(
    "a start that nobody answered is found by its marker, and tells its exit",
    programs.polite,
    (bench, command) =>
      Effect.gen(function*() {
        const name = bench.newName()
        const started = yield* bench.start(command, { detached: name })
        yield* bench.untilText(started.out, "ready")
        yield* started.child.release
        const root = unborn(started.root.bootId, started.root.marker)
        const attached = yield* bench.attach(root, name)
        const { members } = yield* bench.look(root)
        assert.include(members.map(({ pid }) => pid), started.root.pid)
        assert.lengthOf(attached.exits, 0)
        yield* bench.driver.signal(root, { members }, "SIGTERM")
        assert.deepStrictEqual(yield* bench.untilExit(attached), { code: 0, signal: null })
      }),
    ["detached", "processTable", "marker"]
  ),

  law(
    "a paused reader holds up nobody, and loses nothing",
    programs.talks.command,
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes, sha256 } = programs.talks
        const started = yield* bench.start(command, { detached: bench.newName(), pauseAt: 1 })
        assert.deepStrictEqual(yield* bench.untilExit(started), { code: 0, signal: null })
        assert.isBelow(started.out.bytes, bytes)
        assert.strictEqual(started.child.drain("stdout"), "paused")
        yield* started.child.finish
        assert.strictEqual(started.out.ends, 0)
        started.out.pauseAt = Infinity
        started.child.resume("stdout")
        yield* bench.untilEnd(started.out)
        assert.deepStrictEqual([started.out.bytes, started.out.digest()], [bytes, sha256])
      }),
    ["detached"]
  ),

  law(
    "its files are read from any offset, until they are removed",
    programs.talks.command,
    (bench, command) =>
      Effect.gen(function*() {
        const { bytes } = programs.talks
        const name = bench.newName()
        const started = yield* bench.start(command, { detached: name })
        yield* bench.untilExit(started)
        const head = (yield* bench.files.read(name, "stdout", 0, 100)) ?? assert.fail("no file")
        const some = (yield* bench.files.read(name, "stdout", 10, 20)) ?? assert.fail("no file")
        assert.deepStrictEqual([...some], [...head.subarray(10, 30)])
        assert.strictEqual((yield* bench.files.read(name, "stdout", bytes - 3, 20))?.length, 3)
        assert.strictEqual((yield* bench.files.read(name, "stdout", bytes + 3, 20))?.length, 0)
        assert.isNull(yield* bench.files.read(bench.newName(), "stdout", 0, 1))
        assert.isTrue(yield* bench.files.remove(name))
        assert.isTrue(yield* bench.files.remove(name))
        assert.isNull(yield* bench.files.read(name, "stdout", 0, 1))
      }),
    ["detached"]
  ),

  law("a name that has files is not taken again", programs.succeeds, (bench, command) =>
    Effect.gen(function*() {
      const name = bench.newName()
      yield* bench.untilExit(yield* bench.start(command, { detached: name }))
      const marker = bench.newMarker()
      const again = yield* Effect.result(Effect.scoped(bench.start(command, { detached: name, marker })))
      assert.strictEqual(Result.isFailure(again) ? again.failure.problem : "started", "Other")
      assert.isNotNull(yield* bench.files.read(name, "stdout", 0, 1))
    }), ["detached"]),

  ...programs.failures.map(({ command, problem, what }) =>
    law(`${what}: the start fails with ${problem} and leaves no files`, command, (bench) =>
      Effect.gen(function*() {
        const name = bench.newName()
        const result = yield* Effect.result(bench.start(command, { detached: name }))
        assert.strictEqual(Result.isFailure(result) ? result.failure.problem : "started", problem)
        assert.isNull(yield* bench.files.read(name, "stdout", 0, 1))
      }), ["detached"])
  ),

  law(
    "an interrupted start leaves no process and no files, at whatever turn",
    programs.waits,
    interruptedStart(programs.succeeds, "detached"),
    ["detached", "processTable", "marker"]
  )
]

const otherLaws = (programs: Programs): ReadonlyArray<Statement> => [
  law(
    "releasing touches no process, and a second time nothing",
    programs.waits,
    (bench, command) =>
      Effect.gen(function*() {
        const { child, exits, root } = yield* bench.start(command)
        yield* child.release
        yield* child.release
        const look = yield* bench.look(root)
        assert.deepStrictEqual(look.members.map((member) => member.pid), [root.pid])
        yield* bench.endTree(root)
        assert.deepStrictEqual(exits, [])
      }),
    ["processTable"]
  ),

  law("the hash is SHA-256, fed in pieces", programs.waits, (bench) =>
    Effect.sync(() => {
      const hash = bench.driver.sha256()
      hash.update(new TextEncoder().encode("a"))
      hash.update(new TextEncoder().encode("bc"))
      assert.strictEqual(hash.digest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }))
]

/** One law, as it is for a driver with these capabilities. */
export type Law = AnyLaw<ProcessDriver.SpawnFailed, ProcessDriver.Service>

const lawsAbout = {
  identity: identityLaws,
  exits: exitLaws,
  output: outputLaws,
  input: inputLaws,
  signals: signalLaws,
  trees: treeLaws,
  starts: startLaws,
  "leaders taken in": takenInLaws,
  probes: probeLaws,
  "detached processes": detachedLaws,
  "what is left": otherLaws
}

/** The laws as data, to be run one by one: each needs a driver of its own. */
export const laws = (options: Options): ReadonlyArray<Law> => [
  claim(options),
  ...Object.entries(lawsAbout).flatMap(([about, statements]) =>
    statements(options.programs).map((statement) => lawFrom(about, statement, options))
  )
]

/** Registers every law as a test of this driver. Call it at the top level of a test file. */
export const driverLaws = <E>(
  name: string,
  layer: Layer.Layer<ProcessDriver.Service, E>,
  options: Options
): void => Suite.define(name, "a process driver", laws(options), layer, options.clock)

const lawFrom = (about: string, statement: Statement, { capabilities, clock }: Options): Law => {
  const { body, name, needs, program } = statement
  return {
    about,
    name,
    skipped: "missing" in program ? program.missing : Suite.lacking(needs, capabilities),
    run: "missing" in program ? Effect.void : Effect.flatMap(
      ProcessDriver.Service,
      (driver) => Effect.scoped(body(new Bench(driver, clock), program))
    )
  }
}

const claim = ({ capabilities }: Options): Law => ({
  about: "capabilities",
  name: "it claims those it is tested for",
  skipped: null,
  run: Effect.map(ProcessDriver.Service, (driver) => assert.deepStrictEqual(driver.capabilities, capabilities))
})
