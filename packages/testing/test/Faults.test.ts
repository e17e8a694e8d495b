import { assert, describe, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as Status from "@procyon/runtime/domain/Status"
import * as BlobStore from "@procyon/runtime/ports/BlobStore"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as ProcessLedger from "@procyon/runtime/ports/ProcessLedger"
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import * as Recovery from "@procyon/runtime/services/Recovery"
import * as BlobStoreMemory from "@procyon/runtime/stores/BlobStoreMemory"
import * as ProcessLedgerMemory from "@procyon/runtime/stores/ProcessLedgerMemory"
import { child, Faults, RuntimeTest, ScriptedDriver, WorkspaceStoreMemory, World } from "@procyon/testing"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

/** A sink that keeps all. */
class Kept implements ProcessDriver.OutputSink {
  text = ""
  ended = false
  readonly #region = new Uint8Array(4096)
  readonly reserve = () => this.#region
  readonly commit = (count: number) => {
    this.text += text(this.#region.subarray(0, count))
    return true
  }
  readonly end = () => {
    this.ended = true
  }
}

const scripts = {
  server: child,
  quick: child.prints("hi\n").exits(0),
  late: child.exits(3, { after: "5 seconds" }),
  slow: child.answersAfter("5 seconds"),
  both: child.prints("oh\n", { stream: "stderr", after: "1 second" }).prints("x".repeat(60_000)).exits(0),
  echo: child.readsStdin({ echo: true })
}

/** The four ports over a scripted world, without any runtime. */
class Ports {
  readonly driver: ProcessDriver.ProcessDriver
  readonly ledger: ProcessLedger.ProcessLedger
  readonly blobs: BlobStore.BlobStore
  readonly workspaces: WorkspaceStore.WorkspaceStore
  readonly bare: Omit<Ports, "bare" | "spawn" | "row" | "place">

  constructor(bare: Omit<Ports, "bare" | "spawn" | "row" | "place">, injector: Faults.Injector) {
    this.bare = bare
    this.driver = injector.driver(bare.driver)
    this.ledger = injector.ledger(bare.ledger)
    this.blobs = injector.blobs(bare.blobs)
    this.workspaces = injector.workspaces(bare.workspaces)
  }

  spawn(name: keyof typeof scripts, options: { exits?: Array<Status.Exit>; out?: Kept; detached?: string } = {}) {
    return this.driver.spawn({
      command: CommandSpec.make(name, [], name === "echo" ? { stdin: "open" } : {}),
      marker: `marker of ${name}`,
      stdout: options.out ?? new Kept(),
      stderr: "merged",
      onExit: (exit) => options.exits?.push(exit),
      ...(options.detached === undefined
        ? {}
        : { detached: { name: options.detached, deadlineAt: null, capBytes: 0, graceMillis: 0 } })
    })
  }

  row(id: string): ProcessLedger.LedgerRow {
    return {
      id,
      owner: "s1",
      lifetime: "session",
      status: "running",
      command: { name: "server", args: 0, digest: null },
      title: null,
      name: null,
      policy: null,
      identity: null,
      startedAt: 0,
      endedAt: null,
      deadlineAt: null,
      holder: ScriptedDriver.self,
      fence: 1,
      leaseUntil: 30_000,
      counters: { bytesSeen: 0 },
      output: null,
      workspace: null,
      termination: null,
      offered: null,
      told: null
    }
  }

  get place() {
    return this.bare.workspaces.locate("/work", "w1")
  }
}

interface Given {
  readonly ports: Ports
  readonly injector: Faults.Injector
  readonly world: World["Service"]
}

const given = <A, E>(
  faults: ReadonlyArray<Faults.Fault>,
  body: (given: Given) => Effect.Effect<A, E, Scope.Scope>,
  options?: { readonly seed: number }
) =>
  Effect.gen(function*() {
    const injector = yield* Faults.make(faults, options)
    const bare = {
      driver: yield* ProcessDriver.Service,
      ledger: yield* ProcessLedger.Service,
      blobs: yield* BlobStore.Service,
      workspaces: yield* WorkspaceStore.Service
    }
    return yield* Effect.scoped(body({ ports: new Ports(bare, injector), injector, world: yield* World }))
  }).pipe(Effect.provide(Layer.fresh(Layer.mergeAll(
    ScriptedDriver.layer({ children: scripts }),
    ProcessLedgerMemory.layer,
    BlobStoreMemory.layer,
    WorkspaceStoreMemory.layer
  ))))

type Made = Effect.Effect<unknown, unknown, Scope.Scope>

/** Each call once, made in a world where it is done at once. */
const calls: Readonly<Record<string, (ports: Ports) => Made>> = {
  "driver.spawn": (ports) => ports.spawn("server"),
  "driver.attach": (ports) =>
    ports.driver.attach({
      identity: { ...ScriptedDriver.self, pid: 7, marker: "other" },
      detached: null,
      stdout: new Kept(),
      stderr: "merged",
      onExit: () => {}
    }),
  "driver.probe": (ports) => ports.driver.probe(ScriptedDriver.self),
  "driver.look": (ports) => ports.driver.look([]),
  "driver.signal": (ports) => ports.driver.signal(ScriptedDriver.self, { members: [] }, "SIGTERM"),
  "driver.child.write": (ports) => Effect.flatMap(ports.spawn("echo"), (child) => child.write(bytes("four"))),
  "driver.child.closeStdin": (ports) => Effect.flatMap(ports.spawn("echo"), (child) => child.closeStdin()),
  "driver.child.finish": (ports) => Effect.flatMap(ports.spawn("server"), (child) => child.finish),
  "driver.child.release": (ports) => Effect.flatMap(ports.spawn("server"), (child) => child.release),
  "driver.detachedFiles.read": (ports) => ports.driver.detachedFiles?.read("none", "stdout", 0, 10) ?? Effect.void,
  "driver.detachedFiles.remove": (ports) => ports.driver.detachedFiles?.remove("none") ?? Effect.void,
  "ledger.insert": (ports) => ports.ledger.insert(ports.row("a")),
  "ledger.transition": (ports) =>
    Effect.andThen(
      ports.bare.ledger.insert(ports.row("a")),
      ports.ledger.transition("a", { fence: 1, status: "running" }, { status: "completed" })
    ),
  "ledger.renew": (ports) => ports.ledger.renew([]),
  "ledger.get": (ports) => ports.ledger.get("a"),
  "ledger.rows": (ports) => ports.ledger.rows(),
  "ledger.remove": (ports) => ports.ledger.remove("a", 1),
  "ledger.workspaces.insert": (ports) =>
    Effect.flatMap(ports.place, (place) =>
      ports.ledger.workspaces.insert({
        ...place,
        id: "w1",
        owner: null,
        guests: [],
        createdAt: 0,
        holder: null,
        fence: 1,
        leaseUntil: 0
      })),
  "ledger.workspaces.update": (ports) => ports.ledger.workspaces.update("w1", 1, {}),
  "ledger.workspaces.remove": (ports) => ports.ledger.workspaces.remove("w1", 1),
  "ledger.workspaces.list": (ports) => ports.ledger.workspaces.list(),
  "blobs.write": (ports) => ports.blobs.write("a"),
  "blobs.append": (ports) => Effect.flatMap(ports.blobs.write("a"), (writer) => writer.append(bytes("1234"))),
  "blobs.seal": (ports) => Effect.flatMap(ports.blobs.write("a"), (writer) => writer.seal("label")),
  "blobs.read": (ports) => Effect.flatMap(sealed(ports), (ref) => Stream.runCollect(ports.blobs.read(ref))),
  "blobs.lease": (ports) => Effect.flatMap(sealed(ports), (ref) => ports.blobs.lease(ref)),
  "blobs.remove": (ports) => ports.blobs.remove("a"),
  "workspaces.locate": (ports) => ports.workspaces.locate("/work", "w1"),
  "workspaces.create": (ports) => Effect.flatMap(ports.place, (place) => ports.workspaces.create(place)),
  "workspaces.remove": (ports) => Effect.flatMap(ports.place, (place) => ports.workspaces.remove(place))
}

const sealed = (ports: Ports) =>
  Effect.flatMap(
    ports.bare.blobs.write("a"),
    (writer) => Effect.andThen(writer.append(bytes("1234")), writer.seal("label"))
  )

const names = Object.keys(calls)

/** What an error of these calls names as its operation. */
const operations: Readonly<Record<string, string>> = {
  "ledger.workspaces.insert": "insert",
  "ledger.workspaces.update": "transition",
  "ledger.workspaces.remove": "remove",
  "ledger.workspaces.list": "rows"
}

const at = (name: string, what: Faults.What, when?: Faults.When): Faults.Fault => {
  const dot = name.indexOf(".")
  return Faults.on(name.slice(0, dot) as Faults.Port, name.slice(dot + 1), what, when)
}

/** Makes a call and says when it was answered, within an hour. */
const answerTo = ({ ports, world }: Given, name: string) =>
  Effect.gen(function*() {
    const call = calls[name]?.(ports) ?? Effect.die(new Error(name))
    const timed = Effect.exit(call).pipe(
      Effect.flatMap((exit) => Effect.map(Clock.currentTimeMillis, (at) => ({ exit, at })))
    )
    const fiber = yield* Effect.forkScoped(timed, { startImmediately: true })
    yield* world.drain
    for (let second = 0; second < 60 && fiber.pollUnsafe() === undefined; second++) yield* world.advance("1 second")
    const done = fiber.pollUnsafe()
    return done === undefined ? null : yield* done
  })

const failureOf = (answer: { readonly exit: Exit.Exit<unknown, unknown> } | null): string => {
  if (answer === null) return "no answer"
  const { exit } = answer
  if (Exit.isSuccess(exit)) return "success"
  const [reason] = exit.cause.reasons
  return reason?._tag === "Fail" ? (reason.error as Error).message : String(reason?._tag)
}

describe("every call of every port", () => {
  it("can be named", () => {
    assert.sameMembers(
      names,
      Object.entries(Faults.calls).flatMap(([port, all]) => all.map((call) => `${port}.${call}`))
    )
  })

  it.effect.each(names)(
    "%s goes through as it is where no fault strikes",
    (name) =>
      given([at(name, { _tag: "Die" }, Faults.nth(2))], (all) =>
        Effect.gen(function*() {
          const answer = yield* answerTo(all, name)
          assert.deepStrictEqual([failureOf(answer), answer?.at], ["success", 0])
          assert.deepStrictEqual(yield* all.injector.injected, [])
          assert.isFalse(all.injector.struck(name.split(".")[0] as Faults.Port))
        }))
  )

  it.effect.each(names)(
    "%s can be late, in its call and in its answer",
    (name) =>
      Effect.forEach(
        ["call", "answer"] as const,
        (of) =>
          given([at(name, { _tag: "Delay", millis: 3000, of })], (all) =>
            Effect.gen(function*() {
              const answer = yield* answerTo(all, name)
              assert.deepStrictEqual([failureOf(answer), answer?.at], ["success", yield* Clock.currentTimeMillis])
              assert.lengthOf(yield* all.injector.injected, 1)
            }))
      )
  )

  it.effect.each(names)(
    "%s can hang, interruptible or not, until it is healed",
    (name) =>
      Effect.forEach(
        [false, true],
        (uninterruptible) =>
          given([at(name, { _tag: "Hang", uninterruptible })], (all) =>
            Effect.gen(function*() {
              const call = yield* Effect.forkScoped(calls[name]?.(all.ports) ?? Effect.void, { startImmediately: true })
              yield* all.world.advance("1 hour")
              const end = yield* Effect.forkScoped(Fiber.interrupt(call), { startImmediately: true })
              yield* all.world.advance("1 hour")
              assert.strictEqual(end.pollUnsafe() === undefined, uninterruptible)
              yield* all.injector.heal
              yield* Fiber.join(end)
              assert.strictEqual((yield* all.injector.injected).length, 1)
            }))
      )
  )

  it.effect.each(names)("%s can die", (name) =>
    given([at(name, { _tag: "Die" })], (all) =>
      Effect.gen(function*() {
        assert.strictEqual(failureOf(yield* answerTo(all, name)), "Die")
        assert.deepStrictEqual(yield* all.injector.injected, [`0 ${name} Die`])
        assert.isTrue(all.injector.struck(name.split(".")[0] as Faults.Port))
      })))

  it.effect.each(names)(
    "%s waits for an event loop that is stalled at it",
    (name) =>
      given([at(name, { _tag: "Stall", millis: 10_000 })], (all) =>
        Effect.gen(function*() {
          const answer = yield* answerTo(all, name)
          assert.deepStrictEqual([failureOf(answer), answer?.at], ["success", 10_000])
        }))
  )

  const failing: ReadonlyArray<readonly [string, Faults.What, string]> = [
    ["driver.spawn", { _tag: "Fail" }, "TooManyProcesses (EAGAIN)"],
    ["driver.spawn", { _tag: "Fail", problem: "TooManyFiles", code: "EMFILE" }, "TooManyFiles (EMFILE)"],
    ...names.filter((name) => name.startsWith("ledger.")).map((name) =>
      [name, { _tag: "Fail" }, `${operations[name] ?? name.slice(7)}: Unavailable`] as const
    ),
    ["ledger.rows", { _tag: "Fail", problem: "Corrupt" }, "rows: Corrupt"],
    ["blobs.write", { _tag: "Fail" }, "open: NoSpace"],
    ["blobs.append", { _tag: "Fail" }, "append: NoSpace"],
    ["blobs.seal", { _tag: "Fail", problem: "Denied" }, "seal: Denied"],
    ["blobs.read", { _tag: "Fail" }, "read: NoSpace"],
    ["blobs.lease", { _tag: "Fail", problem: "NotFound" }, "open: NotFound"],
    ["blobs.remove", { _tag: "Fail" }, "remove: NoSpace"],
    ["workspaces.locate", { _tag: "Fail" }, "locate: Denied"],
    ["workspaces.create", { _tag: "Fail", problem: "Full" }, "create: Full"],
    ["workspaces.remove", { _tag: "Fail", problem: "Refused" }, "remove: Refused (Replaced)"]
  ]

  it.effect.each(failing)(
    "%s can fail as its port fails: %o",
    ([name, what, message]) =>
      given([at(name, what)], (all) =>
        Effect.gen(function*() {
          assert.strictEqual(failureOf(yield* answerTo(all, name)), message)
        }))
  )

  it.effect("what fails is not done, unless it is to be told of what was done", () =>
    Effect.forEach(
      [false, true],
      (done) =>
        given([at("ledger.insert", { _tag: "Fail", done })], ({ ports }) =>
          Effect.gen(function*() {
            yield* Effect.flip(ports.ledger.insert(ports.row("a")))
            assert.lengthOf(yield* ports.bare.ledger.rows(), done ? 1 : 0)
          }))
    ))

  it.effect("what hangs may have been done, and so may what dies", () =>
    Effect.forEach(
      ["Hang", "Die"] as const,
      (_tag) =>
        given([at("ledger.insert", { _tag, done: true })], ({ ports }) =>
          Effect.gen(function*() {
            yield* Effect.forkScoped(Effect.exit(ports.ledger.insert(ports.row("a"))), { startImmediately: true })
            assert.lengthOf(yield* ports.bare.ledger.rows(), 1)
          }))
    ))

  it.effect("what is late and cannot be interrupted is done although nobody waits for it any more", () =>
    Effect.forEach(
      [false, true],
      (uninterruptible) =>
        given(
          [at("ledger.insert", { _tag: "Delay", millis: 5000, uninterruptible })],
          ({ ports, world }) =>
            Effect.gen(function*() {
              const call = yield* Effect.forkScoped(ports.ledger.insert(ports.row("a")), { startImmediately: true })
              call.interruptUnsafe()
              yield* world.advance("5 seconds")
              assert.lengthOf(yield* ports.bare.ledger.rows(), uninterruptible ? 1 : 0)
            })
        )
    ))

  it.effect("what is doubled is done twice, and told once, as the first or the second answer", () =>
    Effect.forEach(
      ["first", "second"] as const,
      (answer) =>
        given([at("ledger.insert", { _tag: "Duplicate", answer })], ({ ports }) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* ports.ledger.insert(ports.row("a")), answer === "first")
          }))
    ))
})

describe("a start", () => {
  it.effect("that is answered late and interrupted meanwhile leaves no process", () =>
    Effect.forEach([
      { _tag: "Delay", millis: 5000, of: "answer" } as const,
      { _tag: "Hang", done: true } as const,
      { _tag: "ExitEarly" } as const
    ], (what) =>
      given([at("driver.spawn", what)], ({ ports, world }) =>
        Effect.gen(function*() {
          const start = yield* Effect.forkScoped(ports.spawn("server"), { startImmediately: true })
          yield* world.advance("1 second")
          assert.deepStrictEqual(yield* world.alive, ["server"])
          yield* Fiber.interrupt(start)
          assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
        }))))

  it.effect("whose exit is lost is never told of it, and one whose exit is doubled is told twice", () =>
    Effect.forEach(
      [[Faults.exitLost(), 0], [Faults.exitTwice(), 2]] as const,
      ([fault, times]) =>
        given([fault], ({ ports, world }) =>
          Effect.gen(function*() {
            const exits: Array<Status.Exit> = []
            yield* ports.spawn("late", { exits })
            yield* world.advance("5 seconds")
            assert.deepStrictEqual(exits, Array.from({ length: times }, () => ({ code: 3, signal: null })))
            const again: Array<Status.Exit> = []
            yield* ports.spawn("late", { exits: again })
            yield* world.advance("5 seconds")
            assert.lengthOf(again, 1)
          }))
    ))

  it.effect("answers after its exit, or after a bound", () =>
    given([Faults.exitBeforeAnswer(), at("driver.spawn", { _tag: "ExitEarly", atMostMillis: 2000 }, Faults.nth(2))], (
      { ports, world }
    ) =>
      Effect.gen(function*() {
        const exits: Array<Status.Exit> = []
        const start = yield* Effect.forkScoped(ports.spawn("late", { exits }), { startImmediately: true })
        yield* world.advance("4999 millis")
        assert.deepStrictEqual([exits.length, start.pollUnsafe()], [0, undefined])
        yield* world.advance("1 millis")
        assert.lengthOf(exits, 1)
        yield* Fiber.join(start)
        const bounded = yield* Effect.forkScoped(ports.spawn("server"), { startImmediately: true })
        yield* world.advance("2 seconds")
        yield* Fiber.join(bounded)
        assert.deepStrictEqual(yield* world.alive, ["server"])
      })))

  it.effect("may be told as unknown although it was done, and leaves nothing then", () =>
    given(
      [at("driver.spawn", { _tag: "Fail", problem: "OutcomeUnknown", done: true })],
      ({ ports, world }) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* Effect.flip(ports.spawn("server"))).message, "OutcomeUnknown")
          assert.deepStrictEqual([yield* world.spawned, yield* world.alive, yield* world.open], [1, [], []])
        })
    ))
})

describe("an attach", () => {
  it.effect("whose exit is lost is never told of it, and one whose exit is doubled is told twice", () =>
    Effect.forEach(
      [["LoseExit", 0], ["Duplicate", 2]] as const,
      ([_tag, times]) =>
        given([at("driver.attach", { _tag })], ({ ports, world }) =>
          Effect.gen(function*() {
            const { identity } = yield* ports.spawn("late", { detached: "a" })
            const exits: Array<Status.Exit> = []
            const out = new Kept()
            const attach = ports.driver.attach({
              identity,
              detached: "a",
              stdout: out,
              stderr: "merged",
              onExit: (exit) => exits.push(exit)
            })
            yield* attach
            yield* world.print("late", "hi\n")
            yield* world.advance("5 seconds")
            assert.deepStrictEqual([out.text, exits.length], ["hi\n", times])
            yield* attach
            yield* world.drain
            assert.lengthOf(exits, times + 1)
          }))
    ))

  it.effect("that is answered late and interrupted meanwhile holds nothing", () =>
    given(
      [at("driver.attach", { _tag: "Delay", millis: 5000, of: "answer" })],
      ({ ports, world }) =>
        Effect.gen(function*() {
          const attach = yield* Effect.forkScoped(calls["driver.attach"]?.(ports) ?? Effect.void, {
            startImmediately: true
          })
          yield* world.advance("1 second")
          assert.lengthOf(yield* world.open, 1)
          yield* Fiber.interrupt(attach)
          assert.deepStrictEqual(yield* world.open, [])
        })
    ))
})

describe("a stall", () => {
  it.effect("holds calls, answers, output and exits back, and loses none of them", () =>
    given([], ({ injector, ports, world }) =>
      Effect.gen(function*() {
        const exits: Array<Status.Exit> = []
        const [out, err] = [new Kept(), new Kept()]
        yield* ports.driver.spawn({
          command: CommandSpec.make("both"),
          marker: "marker of both",
          stdout: out,
          stderr: err,
          onExit: (exit) => exits.push(exit)
        })
        const slow = yield* Effect.forkScoped(ports.spawn("slow"), { startImmediately: true })
        yield* injector.stall("10 seconds")
        const row = yield* Effect.forkScoped(ports.ledger.insert(ports.row("a")), { startImmediately: true })
        yield* world.advance("9 seconds")
        assert.deepStrictEqual([out.text, err.text, err.ended, exits], ["", "", false, []])
        assert.deepStrictEqual([slow.pollUnsafe(), row.pollUnsafe()], [undefined, undefined])
        assert.deepStrictEqual(yield* world.alive, ["slow"])
        yield* world.advance("1 second")
        assert.deepStrictEqual([out.text.length, err.text], [60_000, "oh\n"])
        assert.deepStrictEqual([err.ended, exits], [true, [{ code: 0, signal: null }]])
        yield* Fiber.join(slow)
        assert.isTrue(yield* Fiber.join(row))
      })))

  it.effect("ends when the longest of several does, and at once when it is healed", () =>
    given([], ({ injector, ports, world }) =>
      Effect.gen(function*() {
        yield* injector.stall("5 seconds")
        yield* injector.stall("2 seconds")
        const get = yield* Effect.forkScoped(ports.ledger.get("a"), { startImmediately: true })
        yield* world.advance("4 seconds")
        assert.isUndefined(get.pollUnsafe())
        yield* world.advance("1 second")
        yield* Fiber.join(get)
        yield* injector.stall("1 hour")
        const again = yield* Effect.forkScoped(ports.ledger.get("a"), { startImmediately: true })
        yield* injector.heal
        yield* Fiber.join(again)
      })))
})

describe("a keeper that is gone", () => {
  it.effect("takes the starts on their way with it, and the exits of its children", () =>
    given([
      Faults.keeperGone("10 seconds"),
      at("driver.spawn", { _tag: "Delay", millis: 1000, of: "answer" }, Faults.nth(2))
    ], ({ injector, ports, world }) =>
      Effect.gen(function*() {
        const exits: Array<Status.Exit> = []
        const out = new Kept()
        yield* ports.spawn("late", { exits, out })
        yield* ports.driver.look([])
        assert.deepStrictEqual(yield* injector.injected, ["0 driver.look KeeperGone 10000"])
        const refused = yield* Effect.flip(ports.spawn("server"))
        assert.deepStrictEqual([refused.problem, refused.code], ["Other", "ENOTCONN"])
        yield* world.print("late", "still here\n")
        yield* world.advance("5 seconds")
        assert.deepStrictEqual([out.text, exits], ["still here\n", [Status.unknownExit]])
        yield* world.advance("5 seconds")
        const later: Array<Status.Exit> = []
        yield* ports.spawn("late", { exits: later })
        yield* world.advance("5 seconds")
        assert.deepStrictEqual(later, [{ code: 3, signal: null }])
      })))

  it.effect("leaves nothing of what it was starting, and nobody can tell what came of it", () =>
    given([
      at("driver.probe", { _tag: "KeeperGone", millis: 0 }),
      at("driver.spawn", { _tag: "KeeperGone", millis: 0 }, Faults.nth(2))
    ], ({ ports, world }) =>
      Effect.gen(function*() {
        const slow = yield* Effect.forkScoped(Effect.flip(ports.spawn("slow")), { startImmediately: true })
        yield* world.drain
        assert.deepStrictEqual(yield* world.alive, ["slow"])
        yield* ports.driver.probe(ScriptedDriver.self)
        assert.strictEqual((yield* Fiber.join(slow)).problem, "OutcomeUnknown")
        assert.deepStrictEqual(yield* world.alive, [])
        assert.strictEqual((yield* Effect.flip(ports.spawn("server"))).problem, "OutcomeUnknown")
        yield* ports.spawn("server")
        assert.deepStrictEqual(yield* world.alive, ["server"])
      })))

  it.effect("is nothing to detached children", () =>
    given([Faults.keeperGone("10 seconds")], ({ ports, world }) =>
      Effect.gen(function*() {
        const exits: Array<Status.Exit> = []
        yield* ports.spawn("late", { exits, detached: "a" })
        yield* ports.driver.look([])
        yield* ports.spawn("server", { detached: "b" })
        yield* world.advance("5 seconds")
        assert.deepStrictEqual(exits, [{ code: 3, signal: null }])
      })))
})

describe("a driver", () => {
  it.effect("refuses signals, or says it sent them, and sends none", () =>
    given(
      [Faults.signalRefused(), Faults.signalSwallowed(Faults.nth(2))],
      ({ ports, world }) =>
        Effect.gen(function*() {
          const { identity } = yield* ports.spawn("server")
          const [look] = yield* ports.driver.look([identity])
          const kill = ports.driver.signal(
            identity,
            { members: look?.members ?? [], groups: [identity.pid] },
            "SIGKILL"
          )
          const told = Effect.map(kill, (outcomes) => outcomes.map(({ code, outcome }) => [outcome, code]))
          assert.deepStrictEqual(yield* told, [["refused", "EPERM"], ["refused", "EPERM"]])
          assert.deepStrictEqual(yield* told, [["sent", null], ["sent", null]])
          assert.deepStrictEqual(yield* world.alive, ["server"])
          yield* kill
          assert.deepStrictEqual(yield* world.alive, [])
        })
    ))

  it.effect("is cut short in a look, and in what it writes to a child", () =>
    given(
      [Faults.lookCutShort(), at("driver.child.write", { _tag: "Tear" })],
      ({ ports, world }) =>
        Effect.gen(function*() {
          const out = new Kept()
          const started = yield* ports.spawn("echo", { out })
          const [torn] = yield* ports.driver.look([started.identity])
          assert.deepStrictEqual([torn?.complete, torn?.members], [false, []])
          const [whole] = yield* ports.driver.look([started.identity])
          assert.deepStrictEqual([whole?.complete, whole?.members.length], [true, 1])
          assert.strictEqual(yield* started.write(bytes("12345678")), 4)
          yield* world.drain
          assert.strictEqual(out.text, "1234")
        })
    ))

  it.effect("reads half of what a detached child has written", () =>
    given([at("driver.detachedFiles.read", { _tag: "Tear" })], ({ ports, world }) =>
      Effect.gen(function*() {
        yield* ports.spawn("quick", { detached: "a" })
        yield* world.drain
        const read = (limit: number) =>
          Effect.map(
            ports.driver.detachedFiles?.read("a", "stdout", 0, limit) ?? Effect.succeed(null),
            (read) => text(read ?? bytes("nothing"))
          )
        assert.deepStrictEqual([yield* read(2), yield* read(2)], ["h", "hi"])
      })))
})

describe("a ledger", () => {
  it.effect("renews half of the leases, and says that it could not be asked", () =>
    given([at("ledger.renew", { _tag: "Tear" })], ({ ports }) =>
      Effect.gen(function*() {
        for (const id of ["a", "b"]) yield* ports.ledger.insert(ports.row(id))
        const renewals = ["a", "b"].map((id) => ({ id, fence: 1, leaseUntil: 99, bytesSeen: 0 }))
        assert.strictEqual((yield* Effect.flip(ports.ledger.renew(renewals))).problem, "Unavailable")
        assert.deepStrictEqual((yield* ports.ledger.rows()).map(({ leaseUntil }) => leaseUntil), [99, 30_000])
      })))

  it.effect("has given rows to another runtime, which is gone by now", () =>
    given([Faults.leaseLost(), at("ledger.transition", { _tag: "LeaseLost" })], ({ ports }) =>
      Effect.gen(function*() {
        for (const id of ["a", "b"]) yield* ports.ledger.insert(ports.row(id))
        assert.deepStrictEqual(
          yield* ports.ledger.renew([{ id: "a", fence: 1, leaseUntil: 99, bytesSeen: 0 }]),
          ["a"]
        )
        assert.isFalse(yield* ports.ledger.transition("b", { fence: 1, status: "running" }, { status: "completed" }))
        for (const { fence, holder, status } of yield* ports.ledger.rows()) {
          assert.deepStrictEqual([fence, status], [2, "running"])
          assert.strictEqual(holder === null ? null : yield* ports.driver.probe(holder), "gone")
        }
      })))

  it.effect("is down as a whole", () =>
    given(Faults.ledgerDown(Faults.from(2)), ({ injector, ports }) =>
      Effect.gen(function*() {
        assert.isTrue(yield* ports.ledger.insert(ports.row("a")))
        yield* Effect.flip(ports.ledger.insert(ports.row("b")))
        assert.lengthOf(yield* ports.ledger.rows(), 1)
        yield* Effect.flip(ports.ledger.rows())
        yield* injector.heal
        assert.lengthOf(yield* ports.ledger.rows(), 1)
      })))
})

describe("a blob store", () => {
  it.effect("takes half of an append, and what is torn is never sealed", () =>
    given([Faults.tornWrite(Faults.nth(2))], ({ ports }) =>
      Effect.gen(function*() {
        const writer = yield* ports.blobs.write("a")
        yield* writer.append(bytes("1234"))
        const problems = [
          yield* Effect.flip(writer.append(bytes("5678"))),
          yield* Effect.flip(writer.append(bytes("9"))),
          yield* Effect.flip(writer.seal("label"))
        ]
        assert.deepStrictEqual(problems.map(({ message }) => message), [
          "append: NoSpace",
          "append: NoSpace",
          "seal: NoSpace"
        ])
      })))

  it.effect("has no space for one append, and keeps nothing of it", () =>
    given([Faults.noSpace(Faults.nth(2))], ({ ports }) =>
      Effect.gen(function*() {
        const writer = yield* ports.blobs.write("a")
        yield* writer.append(bytes("12"))
        yield* Effect.flip(writer.append(bytes("34")))
        yield* writer.append(bytes("34"))
        const ref = yield* writer.seal("label")
        assert.strictEqual(yield* Stream.mkString(Stream.decodeText(ports.blobs.read(ref))), "1234")
      })))

  it.effect("breaks off in the middle of a read", () =>
    given([at("blobs.read", { _tag: "Tear" })], ({ ports }) =>
      Effect.gen(function*() {
        const ref = yield* sealed(ports)
        const got: Array<string> = []
        const read = Stream.runForEach(ports.blobs.read(ref), (part) => Effect.sync(() => got.push(text(part))))
        assert.strictEqual((yield* Effect.flip(read)).problem, "Other")
        assert.deepStrictEqual(got, ["12"])
        yield* read
        assert.deepStrictEqual(got, ["12", "1234"])
      })))
})

describe("when a fault strikes", () => {
  const failing = (when: Faults.When): Faults.Fault => at("ledger.get", { _tag: "Fail" }, when)

  /** Which of so many calls failed, from 1. */
  const failed = (faults: ReadonlyArray<Faults.Fault>, count: number, seed = 0) =>
    given(faults, ({ ports }) =>
      Effect.map(
        Effect.forEach(Array.from({ length: count }), () => Effect.exit(ports.ledger.get("a"))),
        (exits) => exits.flatMap((exit, index) => Exit.isSuccess(exit) ? [] : [index + 1])
      ), { seed })

  it.effect("the n-th call, some from there, all from there, or all", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* failed([failing(Faults.nth(2))], 5), [2])
      assert.deepStrictEqual(yield* failed([failing(Faults.nth(2, 3))], 5), [2, 3, 4])
      assert.deepStrictEqual(yield* failed([failing(Faults.from(3))], 5), [3, 4, 5])
      assert.deepStrictEqual(yield* failed([failing(Faults.always)], 3), [1, 2, 3])
      assert.deepStrictEqual(yield* failed([failing(Faults.nth(1)), failing(Faults.nth(3))], 5), [1, 3])
    }))

  it.effect("by chance, as often as that, and the same for the same seed", () =>
    Effect.gen(function*() {
      const some = yield* failed([failing(Faults.chance(0.3))], 1000, 7)
      assert.isTrue(some.length > 200 && some.length < 400, String(some.length))
      assert.deepStrictEqual(yield* failed([failing(Faults.chance(0.3))], 1000, 7), some)
      assert.notDeepEqual(yield* failed([failing(Faults.chance(0.3))], 1000, 8), some)
      assert.deepStrictEqual(yield* failed([failing(Faults.chance(0))], 100), [])
      assert.lengthOf(yield* failed([failing(Faults.chance(1))], 100), 100)
    }))

  it.effect("by chance, whatever other faults there are", () =>
    Effect.gen(function*() {
      const some = yield* failed([failing(Faults.chance(0.1))], 100, 3)
      assert.deepStrictEqual(yield* failed([Faults.spawnEagain(), failing(Faults.chance(0.1))], 100, 3), some)
    }))

  it.effect("of two at one call the first does, and both have counted it", () =>
    given(
      [at("ledger.get", { _tag: "Die" }, Faults.nth(2)), failing(Faults.nth(2, 2))],
      (all) =>
        Effect.gen(function*() {
          const { ports } = all
          yield* ports.ledger.get("a")
          assert.strictEqual(failureOf(yield* answerTo(all, "ledger.get")), "Die")
          assert.strictEqual(failureOf(yield* answerTo(all, "ledger.get")), "get: Unavailable")
          yield* ports.ledger.get("a")
        })
    ))

  it.effect("none once it is healed, and it says which did before", () =>
    given([failing(Faults.always), Faults.spawnEmfile()], ({ injector, ports, world }) =>
      Effect.gen(function*() {
        yield* Effect.flip(ports.ledger.get("a"))
        yield* world.advance("2 seconds")
        yield* Effect.flip(ports.spawn("server"))
        yield* injector.heal
        yield* ports.ledger.get("a")
        yield* ports.spawn("server")
        assert.deepStrictEqual(yield* injector.injected, [
          "0 ledger.get Fail",
          "2000 driver.spawn Fail TooManyFiles EMFILE"
        ])
        assert.deepStrictEqual([injector.struck("driver"), injector.struck("blobs")], [true, false])
      })))
})

describe("a fault that makes no sense", () => {
  const wrong: ReadonlyArray<readonly [Faults.Fault, string]> = [
    [Faults.on("driver", "launch", { _tag: "Die" }), "driver.launch Die, nth 1: there is no such call"],
    [Faults.on("ledger", "toString", { _tag: "Die" }), "ledger.toString Die, nth 1: there is no such call"],
    [Faults.on("driver", "look", { _tag: "Fail" }), "driver.look Fail, nth 1: Fail makes no sense there"],
    [
      Faults.on("ledger", "get", { _tag: "LoseExit" }, Faults.always),
      "ledger.get LoseExit, always: LoseExit makes no sense there"
    ],
    [
      Faults.on("ledger", "get", { _tag: "Fail", problem: "NoSpace" }),
      "ledger.get Fail NoSpace, nth 1: NoSpace is none of its problems"
    ],
    [
      Faults.on("driver", "spawn", { _tag: "Fail", done: true }),
      "driver.spawn Fail done, nth 1: only of an unknown outcome something may have been started"
    ],
    [
      Faults.on("driver", "spawn", { _tag: "Die", done: true }),
      "driver.spawn Die done, nth 1: of a start that was done somebody has to know"
    ],
    [Faults.leaseLost(Faults.nth(0)), "ledger.renew LeaseLost, nth 0: calls are counted from 1"],
    [Faults.leaseLost(Faults.nth(1, 0)), "ledger.renew LeaseLost, nth 1 0: calls are counted from 1"],
    [Faults.leaseLost(Faults.from(1.5)), "ledger.renew LeaseLost, from 1.5: calls are counted from 1"],
    [Faults.leaseLost(Faults.chance(2)), "ledger.renew LeaseLost, chance 2: a chance is from 0 to 1"],
    [
      Faults.on("blobs", "seal", { _tag: "Delay", millis: Infinity, of: "answer", uninterruptible: true }),
      "blobs.seal Delay Infinity of the answer uninterruptible, nth 1: its time has to be a bound"
    ],
    [Faults.keeperGone(Infinity), "driver.look KeeperGone Infinity, nth 1: its time has to be a bound"],
    [
      Faults.on("driver", "spawn", { _tag: "ExitEarly", atMostMillis: -1 }),
      "driver.spawn ExitEarly, nth 1: its time has to be a bound"
    ],
    [Faults.clockJumps(NaN), "ledger.renew WallClock NaN, nth 1: its time has to be a bound"]
  ]

  it.effect.each(wrong)("is told when it is made: $1", ([fault, message]) =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(Faults.make([Faults.spawnEagain(), fault]))
      assert.isTrue(Exit.isFailure(exit))
      const [reason] = Exit.isFailure(exit) ? exit.cause.reasons : []
      const defect = reason?._tag === "Die" ? reason.defect : null
      assert.instanceOf(defect, RangeError)
      assert.strictEqual(defect.message, `Faults: ${message}`)
    }))
})

describe("a fault", () => {
  it("survives being written down and read again", () => {
    const all = [
      Faults.spawnEagain(Faults.chance(0.5)),
      Faults.keeperGone(),
      ...Faults.ledgerDown(),
      Faults.tornWrite()
    ]
    const again = JSON.parse(JSON.stringify(all)) as ReadonlyArray<Faults.Fault>
    assert.deepStrictEqual(again, all)
    assert.deepStrictEqual(again.map((fault) => Faults.check(fault)), all.map(() => null))
  })
})

/** What each named fault does to the first start, and how a job then ends that exits with 0. */
const named: Readonly<
  Record<
    string,
    {
      readonly faults: ReadonlyArray<Faults.Fault>
      readonly refused?: string
      readonly built?: Status.Status
    }
  >
> = {
  "no more processes": { faults: [Faults.spawnEagain()], refused: "TooManyProcesses (EAGAIN)" },
  "no more open files": { faults: [Faults.spawnEmfile()], refused: "TooManyFiles (EMFILE)" },
  "exits that are lost": { faults: [Faults.exitLost(Faults.always)], built: "error" },
  "exits that are told twice": { faults: [Faults.exitTwice(Faults.always)] },
  "exits before the start is answered": { faults: [Faults.exitBeforeAnswer(Faults.always)] },
  "signals that are refused": { faults: [Faults.signalRefused(Faults.nth(1, 2))] },
  "signals that reach nobody": { faults: [Faults.signalSwallowed(Faults.nth(1, 2))] },
  "looks that are cut short": { faults: [Faults.lookCutShort(Faults.nth(1, 3))] },
  "a keeper that is lost": { faults: [Faults.keeperGone()] },
  "a blob store without space": { faults: [Faults.noSpace(Faults.always)] },
  "a torn write": { faults: [Faults.tornWrite()] },
  "leases that are lost": { faults: [Faults.leaseLost()] },
  "a ledger that is down for a while": { faults: Faults.ledgerDown(Faults.nth(3, 3)) },
  "rows that were written and not answered for": {
    faults: [Faults.on("ledger", "transition", { _tag: "Hang", done: true }, Faults.nth(1, 2))]
  },
  "transitions that are doubled": {
    faults: [Faults.on("ledger", "transition", { _tag: "Duplicate", answer: "second" }, Faults.nth(1, 2))]
  },
  "a stalled event loop": { faults: [Faults.on("driver", "spawn", { _tag: "Stall", millis: 10_000 }, Faults.nth(2))] },
  "a wall clock that jumps ahead": { faults: [Faults.clockJumps(3_600_000)] },
  "a wall clock that jumps back": { faults: [Faults.clockJumps(-3_600_000)] }
}

describe("under each named fault the runtime keeps its promises", () => {
  it.effect.each(Object.entries(named))(
    "%s",
    ([, { built = "completed", faults, refused }]) =>
      Effect.gen(function*() {
        const world = yield* World
        const injector = yield* Faults.Service
        const recovery = yield* Recovery.Service
        const jobs = (yield* BackgroundProcess.Service).of("s1")
        const told = new Map<string, Array<Status.Status>>()
        const take = Effect.map(jobs.notices, (notices) => {
          for (const notice of notices) {
            if (notice._tag === "Job") told.set(notice.id, [...told.get(notice.id) ?? [], notice.status])
          }
        })
        const start = (name: string) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkScoped(Effect.exit(jobs.start(CommandSpec.make(name))), {
              startImmediately: true
            })
            yield* world.advance("1 second")
            return yield* yield* Fiber.join(fiber)
          })

        if (refused !== undefined) assert.include((yield* Effect.flip(start("server"))).message, refused)
        const build = yield* start("build")
        const server = yield* start("server")
        // Nobody is harmed by what fails around it.
        yield* world.advance("25 seconds")
        assert.include(yield* world.alive, "server")
        assert.deepStrictEqual(yield* world.signals, [])
        yield* take
        const stop = yield* Effect.forkScoped(jobs.stopAll, { startImmediately: true })
        yield* world.advance("1 minute")
        assert.isDefined(stop.pollUnsafe())
        assert.isAbove((yield* injector.injected).length, 0)

        yield* injector.heal
        yield* world.advance("1 minute")
        const pass = yield* Effect.forkScoped(recovery.reconcile, { startImmediately: true })
        yield* world.advance("1 minute")
        yield* Fiber.join(pass)
        for (const { id } of yield* recovery.review) {
          yield* Effect.forkScoped(recovery.retry(id), { startImmediately: true })
        }
        yield* world.advance("1 minute")
        yield* take
        assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
        const rows = yield* ProcessLedger.Service.use((ledger) => ledger.rows())
        for (const [id, honest] of [[build.id, built], [server.id, "cancelled"]] as const) {
          const row = rows.find((row) => row.id === id)
          const statuses = told.get(id) ?? []
          assert.strictEqual(row?.status, honest)
          assert.deepStrictEqual(statuses.filter((status) => status !== "kill_failed"), [row?.status], "notices")
          assert.isAtMost(statuses.length, 2)
        }
      }).pipe(
        Effect.scoped,
        Effect.provide(RuntimeTest.layer({
          faults,
          children: {
            build: child.prints("x".repeat(9000)).prints("y".repeat(9000), { after: "1 second" }).exits(0, {
              after: "1 second"
            }),
            server: child
          },
          settings: { outputBytes: 4096, outputHeadBytes: 1024 }
        }))
      )
  )
})

describe("a runtime whose time goes wrong", () => {
  const server = CommandSpec.make("server")
  const children = { server: child.prints("a").prints("b", { after: "5 seconds" }).exits(0, { after: "1 second" }) }

  it.effect("sees no output and no exit while it is stalled, fires no timer, and then all that is due", () =>
    Effect.gen(function*() {
      const world = yield* World
      const injector = yield* Faults.Service
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      const job = yield* jobs.start(server, { deadline: "8 seconds" })
      const idle = yield* jobs.start(CommandSpec.make("idle"), { deadline: "8 seconds" })
      yield* world.drain
      yield* injector.stall("10 seconds")
      yield* world.advance("9999 millis")
      const seen = Effect.map(jobs.get(job.id), ({ output, phase }) => [phase, output.bytesSeen])
      assert.deepStrictEqual(yield* seen, ["running", 1])
      assert.deepStrictEqual([yield* world.alive, yield* world.signals], [["idle"], []])
      yield* world.advance("1 millis")
      yield* world.advance("1 second")
      const { exit, output, status } = yield* jobs.get(job.id)
      assert.deepStrictEqual([status, exit, output.bytesSeen], ["completed", { code: 0, signal: null }, 2])
      assert.deepStrictEqual((yield* jobs.get(idle.id)).status, "timed_out")
      assert.deepStrictEqual(yield* world.signals, ["10000 SIGTERM idle"])
    }).pipe(Effect.provide(RuntimeTest.layer({ children: { ...children, idle: child } }))))

  it.effect("loses no byte of what a child printed while it was stopped", () =>
    Effect.gen(function*() {
      const world = yield* World
      const injector = yield* Faults.Service
      const jobs = (yield* BackgroundProcess.Service).of("s1")
      const job = yield* jobs.start(CommandSpec.make("chatty"))
      yield* injector.stop
      yield* world.advance("1 hour")
      assert.deepStrictEqual(yield* world.alive, ["chatty"], "its pipe is full")
      yield* injector.continue
      yield* world.advance("1 second")
      const { output, status } = yield* jobs.get(job.id)
      assert.deepStrictEqual([status, output.bytesSeen], ["completed", 300_000])
    }).pipe(Effect.provide(RuntimeTest.layer({
      children: {
        chatty: child.prints("x".repeat(100_000), { after: "1 second" }).prints("y".repeat(200_000)).exits(0)
      }
    }))))

  it.effect.each([3_600_000, -3_600_000])(
    "keeps deadlines by its monotonic clock with a wall clock off by %d",
    (ahead) =>
      Effect.gen(function*() {
        const world = yield* World
        const injector = yield* Faults.Service
        const jobs = (yield* BackgroundProcess.Service).of("s1")
        yield* injector.setWallClock(ahead)
        const job = yield* jobs.start(CommandSpec.make("idle"), { deadline: "10 seconds" })
        yield* world.advance("5 seconds")
        yield* injector.setWallClock(0)
        yield* world.advance("4999 millis")
        assert.deepStrictEqual(yield* world.signals, [])
        yield* world.advance("1 second")
        const { startedAt, status } = yield* jobs.get(job.id)
        assert.deepStrictEqual([startedAt, status], [ahead, "timed_out"])
        assert.deepStrictEqual(yield* world.signals, ["10000 SIGTERM idle"])
      }).pipe(Effect.provide(RuntimeTest.layer({ children: { idle: child } })))
  )

  it.effect("closes in order although it was stopped", () =>
    Effect.gen(function*() {
      const world = yield* Effect.gen(function*() {
        const injector = yield* Faults.Service
        yield* (yield* BackgroundProcess.Service).of("s1").start(CommandSpec.make("idle"))
        yield* injector.stop
        return yield* World
      }).pipe(Effect.provide(RuntimeTest.layer({ children: { idle: child } })))
      assert.deepStrictEqual([yield* world.alive, yield* world.open], [[], []])
    }))
})
