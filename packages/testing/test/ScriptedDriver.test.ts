import { assert, describe, it } from "@effect/vitest"
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import type { Exit } from "@procyon/runtime/domain/Status"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import { child, type Script, ScriptedDriver, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"

const command = (name: string, stdin: "none" | "open" = "none"): CommandSpec => ({
  _tag: "CommandSpec",
  program: { _tag: "Exec", command: name, args: [] },
  options: { stdin }
})

class Sink implements ProcessDriver.OutputSink {
  text = ""
  ended = false
  flowing = true
  readonly #region = new Uint8Array(7)
  reserve = () => this.#region
  commit = (count: number) => {
    this.text += new TextDecoder().decode(this.#region.subarray(0, count))
    return this.flowing
  }
  end = () => {
    this.ended = true
  }
}

const start = (name: string, stdin: "none" | "open" = "none") =>
  Effect.gen(function*() {
    const driver = yield* ProcessDriver.Service
    const out = new Sink()
    const err = new Sink()
    const exits: Array<Exit> = []
    const child = yield* driver.spawn({
      command: command(name, stdin),
      marker: `PROCYON_MARK_${name}`,
      stdout: out,
      stderr: err,
      onExit: (exit) => exits.push(exit)
    })
    const look = Effect.map(driver.look([child.identity]), (looks) => looks[0]!)
    const signal = (signal: string) =>
      Effect.flatMap(look, ({ members }) => driver.signal(child.identity, { members }, signal))
    return { driver, child, out, err, exits, look, signal, world: yield* World }
  })

const scripted = (children: Readonly<Record<string, Script>>) => Effect.provide(ScriptedDriver.layer({ children }))

describe("time", () => {
  it.effect("steps are taken at their times, and each counts from the one before", () =>
    Effect.gen(function*() {
      const { exits, out, world } = yield* start("a")
      yield* world.advance("999 millis")
      assert.strictEqual(out.text, "now\n")
      yield* world.advance("1 milli")
      assert.strictEqual(out.text, "now\nlater\n")
      yield* world.advance("2 seconds")
      assert.deepStrictEqual(exits, [{ code: 3, signal: null }])
    }).pipe(scripted({
      a: child.prints("now\n").prints("later\n", { after: "1 second" }).exits(3, { after: "2 seconds" })
    })))

  it.effect("a step that needs no time is taken by drain, without moving the clock", () =>
    Effect.gen(function*() {
      const { exits, out, world } = yield* start("a")
      assert.strictEqual(out.text, "")
      yield* world.drain
      assert.strictEqual(out.text, "hi")
      assert.isTrue(out.ended)
      assert.deepStrictEqual(exits, [{ code: 0, signal: null }])
    }).pipe(scripted({ a: child.prints("hi").exits(0) })))

  it.effect("drain waits for fibers that run under the layer, however many turns they take", () =>
    Effect.gen(function*() {
      const world = yield* World
      let turns = 0
      yield* Effect.forkChild(Effect.gen(function*() {
        while (turns < 500) {
          yield* Effect.yieldNow
          turns++
        }
      }))
      yield* world.drain
      assert.strictEqual(turns, 500)
    }).pipe(scripted({})))

  it.effect("one adjust runs deadline, grace and KILL at their exact times", () =>
    Effect.gen(function*() {
      const { exits, signal, world } = yield* start("server")
      yield* Effect.forkChild(Effect.gen(function*() {
        yield* Effect.sleep("24 hours")
        yield* signal("SIGTERM")
        yield* Effect.sleep("5 seconds")
        yield* signal("SIGKILL")
      }))
      yield* TestClock.adjust("48 hours")
      assert.deepStrictEqual(yield* world.calls, [
        "0 spawn server",
        "86400000 SIGTERM server",
        "86405000 SIGKILL server"
      ])
      assert.deepStrictEqual(exits, [{ code: null, signal: "SIGKILL" }])
    }).pipe(scripted({ server: child.ignores("SIGTERM") })))
})

describe("signals", () => {
  it.effect("a refused KILL is an answer, and the next one after its times works", () =>
    Effect.gen(function*() {
      const { exits, signal, world } = yield* start("server")
      assert.deepStrictEqual((yield* signal("SIGKILL")).map(({ outcome, code }) => [outcome, code]), [[
        "refused",
        "EPERM"
      ]])
      assert.deepStrictEqual(yield* world.alive, ["server"])
      yield* signal("SIGKILL")
      yield* world.drain
      assert.deepStrictEqual(exits, [{ code: null, signal: "SIGKILL" }])
      assert.deepStrictEqual(yield* world.signals, ["0 SIGKILL server refused", "0 SIGKILL server"])
    }).pipe(scripted({ server: child.refuses("SIGKILL", 1) })))

  it.effect("a survived KILL is accepted and leaves the process, in state D", () =>
    Effect.gen(function*() {
      const { exits, look, signal, world } = yield* start("server")
      assert.strictEqual((yield* signal("SIGKILL"))[0]?.outcome, "sent")
      yield* world.advance("1 hour")
      assert.deepStrictEqual((yield* look).members.map((member) => member.state), ["D"])
      yield* world.kill("server")
      yield* world.drain
      assert.deepStrictEqual(exits, [{ code: null, signal: "SIGKILL" }])
    }).pipe(scripted({ server: child.survives("SIGKILL") })))

  it.effect("a polite child answers TERM with its last words and exit 0", () =>
    Effect.gen(function*() {
      const { exits, out, signal, world } = yield* start("server")
      yield* signal("SIGTERM")
      yield* world.drain
      assert.strictEqual(out.text, "bye\n")
      assert.deepStrictEqual(exits, [{ code: 0, signal: null }])
    }).pipe(scripted({ server: child.onSignal("SIGTERM", child.prints("bye\n").exits(0)) })))

  it.effect("a stopped process takes no step and keeps a TERM until it is continued", () =>
    Effect.gen(function*() {
      const { exits, look, out, signal, world } = yield* start("server")
      yield* signal("SIGSTOP")
      yield* world.advance("10 seconds")
      yield* signal("SIGTERM")
      yield* world.drain
      assert.strictEqual((yield* look).members[0]?.state, "T")
      assert.strictEqual(out.text, "")
      yield* signal("SIGCONT")
      yield* world.drain
      assert.deepStrictEqual(exits, [{ code: null, signal: "SIGTERM" }])
    }).pipe(scripted({ server: child.prints("late", { after: "1 second" }) })))
})

describe("trees", () => {
  it.effect("finds children that left the group, the session or their parent, and not the invisible one", () =>
    Effect.gen(function*() {
      const { look, world } = yield* start("server")
      yield* world.drain
      assert.deepStrictEqual((yield* look).members.map((member) => member.name), [
        "server",
        "plain",
        "group",
        "session",
        "daemon"
      ])
      assert.deepStrictEqual(yield* world.alive, ["server", "plain", "group", "session", "daemon", "invisible"])
      yield* world.kill("server")
      yield* world.drain
      const after = yield* look
      assert.strictEqual(after.leader, "gone")
      assert.deepStrictEqual(after.members.map((member) => member.name), ["plain", "group", "session", "daemon"])
    }).pipe(scripted({
      server: child.forks("plain", child).forks("group", child, { escapes: "group" })
        .forks("session", child, { escapes: "session" }).forks("daemon", child, { escapes: "daemon" })
        .forks("invisible", child, { escapes: "invisible" })
    })))

  it.effect("without a marker or sessions a look finds only what is left", () =>
    Effect.gen(function*() {
      const { look, world } = yield* start("server")
      yield* world.drain
      assert.deepStrictEqual((yield* look).members.map((member) => member.name), ["server", "plain"])
    }).pipe(Effect.provide(ScriptedDriver.layer({
      children: { server: child.forks("plain", child).forks("daemon", child, { escapes: "daemon" }) },
      capabilities: { marker: false, sessions: false, wholeTree: "group-only" }
    }))))

  it.effect("an exit that is seen late leaves a dead, unreaped leader until then", () =>
    Effect.gen(function*() {
      const { child, driver, exits, look, world } = yield* start("server")
      yield* world.advance("1 second")
      assert.deepStrictEqual(yield* look, {
        root: child.identity,
        leader: "unreaped",
        members: [],
        occupied: [],
        complete: true
      })
      assert.isTrue(driver.occupied(child.identity))
      assert.deepStrictEqual(exits, [])
      yield* world.advance("1 second")
      assert.strictEqual((yield* look).leader, "gone")
      assert.deepStrictEqual(exits, [{ code: 0, signal: null }])
    }).pipe(scripted({ server: child.exits(0).exitSeenAfter("2 seconds") })))

  it.effect("a group that outruns looks is occupied, and a signal to the group ends it", () =>
    Effect.gen(function*() {
      const { child, driver, look, world } = yield* start("server")
      yield* world.drain
      const seen = yield* look
      assert.deepStrictEqual(seen.members, [])
      assert.deepStrictEqual(seen.occupied, [child.identity.pid])
      const outcomes = yield* driver.signal(child.identity, { members: [], groups: seen.occupied }, "SIGKILL")
      assert.strictEqual(outcomes[0]?.outcome, "sent")
      assert.isFalse(driver.occupied(child.identity))
      assert.deepStrictEqual(yield* world.alive, [])
    }).pipe(scripted({ server: child.forks("runner", child.outrunsLooks()).exits(0) })))

  it.effect("forks for ever until it is stopped", () =>
    Effect.gen(function*() {
      const { look, signal, world } = yield* start("server")
      yield* world.advance("3 millis")
      assert.lengthOf((yield* look).members, 5)
      yield* signal("SIGSTOP")
      yield* world.advance("1 second")
      assert.lengthOf((yield* look).members, 5)
    }).pipe(scripted({ server: child.forksForever("child", child, { every: "1 milli" }) })))

  it.effect("a stranger with the leader's old pid is no member and is never signalled", () =>
    Effect.gen(function*() {
      const { child, driver, look, world } = yield* start("server")
      const before = yield* look
      yield* world.advance("1 second")
      yield* world.reusePid("server")
      assert.deepStrictEqual(yield* world.alive, ["stranger"])
      assert.deepInclude(yield* look, { leader: "gone", members: [], occupied: [] })
      assert.isFalse(driver.occupied(child.identity))
      const outcomes = yield* driver.signal(child.identity, before, "SIGKILL")
      assert.deepStrictEqual(outcomes.map(({ outcome }) => outcome), ["not-same"])
      assert.deepStrictEqual(yield* world.alive, ["stranger"])
    }).pipe(scripted({ server: child.exits(0, { after: "1 second" }) })))

  it.effect("a child that ended is a zombie while its parent does not wait for it", () =>
    Effect.gen(function*() {
      const { child, driver, look, world } = yield* start("server")
      yield* world.drain
      assert.deepStrictEqual((yield* look).members.map((member) => member.name), ["server"])
      yield* world.kill("server")
      yield* world.drain
      assert.isFalse(driver.occupied(child.identity))
    }).pipe(scripted({ server: child.neverReaps().forks("short", child.exits(0)) })))
})

describe("output and input", () => {
  it.effect("a paused reader blocks the child at a full pipe, and loses nothing", () =>
    Effect.gen(function*() {
      const { child, exits, out, world } = yield* start("chatty")
      out.flowing = false
      yield* world.advance("1 second")
      assert.deepStrictEqual([out.text.length, exits.length], [7, 0])
      assert.strictEqual(child.drain("stdout"), "paused")
      out.flowing = true
      child.resume("stdout")
      yield* world.drain
      assert.strictEqual(out.text, "x".repeat(200_000))
      assert.lengthOf(exits, 1)
    }).pipe(scripted({ chatty: child.prints("x".repeat(200_000)).exits(0) })))

  it.effect("a child that holds the output keeps it open past the leader's exit", () =>
    Effect.gen(function*() {
      const { exits, out, world } = yield* start("sh")
      yield* world.drain
      assert.deepStrictEqual([out.text, out.ended, exits.length], ["hi\n", false, 1])
      yield* world.advance("20 seconds")
      assert.isTrue(out.ended)
    }).pipe(scripted({
      sh: child.prints("hi\n").forks("sleep", child.exits(0, { after: "20 seconds" }), { holdsOutput: true }).exits(0)
    })))

  it.effect("stdin is echoed until it ends", () =>
    Effect.gen(function*() {
      const { child, exits, out, world } = yield* start("cat", "open")
      assert.strictEqual(yield* child.write(new TextEncoder().encode("hello")), 5)
      yield* child.closeStdin()
      yield* world.drain
      assert.strictEqual(out.text, "hello")
      assert.lengthOf(exits, 1)
    }).pipe(scripted({ cat: child.readsStdin({ echo: true }).exits(0) })))

  it.effect("a write tells how much was taken when the child closes its stdin or dies", () =>
    Effect.gen(function*() {
      const { child, world } = yield* start("server", "open")
      const write = yield* Effect.forkChild(child.write(new Uint8Array(100_000)))
      yield* world.drain
      yield* world.kill("server")
      assert.strictEqual(yield* Fiber.join(write), 64 * 1024)
      assert.strictEqual(yield* child.write(new Uint8Array(1)), 0)
    }).pipe(scripted({ server: child })))

  it.effect("the world can make a child print", () =>
    Effect.gen(function*() {
      const { out, world } = yield* start("server")
      yield* world.print("server", "ready\n")
      yield* world.drain
      assert.strictEqual(out.text, "ready\n")
    }).pipe(scripted({ server: child })))
})

describe("starts", () => {
  it.effect("a failed start names its problem and starts nothing", () =>
    Effect.gen(function*() {
      const missing = yield* Effect.flip(start("no-such"))
      assert.deepInclude(missing, { problem: "CommandNotFound", code: "ENOENT" })
      const failing = yield* Effect.flip(start("bad"))
      assert.deepInclude(failing, { problem: "TooManyFiles", code: "EMFILE" })
      assert.strictEqual(yield* (yield* World).spawned, 0)
    }).pipe(scripted({ bad: child.failsToStart("TooManyFiles", "EMFILE") })))

  it.effect("interrupting a start that was not answered leaves no process", () =>
    Effect.gen(function*() {
      const world = yield* World
      const slow = yield* Effect.forkChild(start("slow"))
      const silent = yield* Effect.forkChild(start("silent"))
      yield* world.advance("1 second")
      assert.deepStrictEqual(yield* world.alive, ["silent"])
      yield* Fiber.interrupt(slow)
      yield* Fiber.interrupt(silent)
      yield* world.advance("1 minute")
      assert.deepStrictEqual(yield* world.alive, [])
      assert.deepStrictEqual(yield* world.open, [])
    }).pipe(scripted({ slow: child.startsAfter("10 seconds"), silent: child.neverAnswers() })))

  it.effect("a child can have exited before its start is answered", () =>
    Effect.gen(function*() {
      const world = yield* World
      const fiber = yield* Effect.forkChild(start("quick"))
      yield* world.advance("1 second")
      const { exits, out } = yield* Fiber.join(fiber)
      assert.deepStrictEqual([out.text, exits.length], ["hi", 1])
    }).pipe(scripted({ quick: child.prints("hi").exits(0).answersAfter("1 second") })))

  it.effect("open lists who was not released", () =>
    Effect.gen(function*() {
      const { child, world } = yield* start("server")
      assert.deepStrictEqual(yield* world.open, ["server"])
      yield* child.release
      yield* child.release
      assert.deepStrictEqual(yield* world.open, [])
      assert.deepStrictEqual((yield* world.calls).slice(1), ["0 release server"])
    }).pipe(scripted({ server: child })))
})

it.effect("sha256 is the real one, fed in pieces", () =>
  Effect.gen(function*() {
    const hash = (yield* ProcessDriver.Service).sha256()
    hash.update(new TextEncoder().encode("a"))
    hash.update(new TextEncoder().encode("bc"))
    assert.strictEqual(hash.digest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  }).pipe(scripted({})))

describe("detached children", () => {
  const detached = (name: string) => ({ name, deadlineAt: null, capBytes: 0, graceMillis: 0 })

  const startDetached = (name: string) =>
    Effect.gen(function*() {
      const driver = yield* ProcessDriver.Service
      const out = new Sink()
      const exits: Array<Exit> = []
      const child = yield* driver.spawn({
        command: command(name),
        marker: `PROCYON_MARK_${name}`,
        stdout: out,
        stderr: "merged",
        onExit: (exit) => exits.push(exit),
        detached: detached(`${name}-1`)
      })
      const attach = Effect.gen(function*() {
        const out = new Sink()
        const exits: Array<Exit> = []
        const attached = yield* driver.attach({
          identity: child.identity,
          detached: `${name}-1`,
          stdout: out,
          stderr: "merged",
          onExit: (exit) => exits.push(exit)
        })
        return { child: attached, out, exits }
      })
      const look = Effect.asVoid(driver.look([child.identity]))
      return { driver, child, out, exits, attach, look, world: yield* World }
    })

  it.effect("write on when nobody is attached, and are read from the first byte by whoever comes", () =>
    Effect.gen(function*() {
      const { attach, child, exits, out, world } = yield* startDetached("a")
      yield* world.drain
      yield* child.release
      yield* world.advance("1 second")
      assert.deepStrictEqual([yield* world.alive, yield* world.open], [["a"], []])
      const attached = yield* attach
      assert.strictEqual(attached.out.text, "")
      yield* world.advance("1 second")
      assert.strictEqual(attached.out.text, "one\ntwo\nthree\n")
      assert.deepStrictEqual([out.text, exits, attached.exits], ["one\n", [], [{ code: 3, signal: null }]])
      assert.isFalse(attached.out.ended)
      yield* attached.child.finish
      assert.isTrue(attached.out.ended)
      assert.deepStrictEqual(yield* world.open, ["a"])
      yield* attached.child.release
      assert.deepStrictEqual(yield* world.calls, ["0 spawn a", "0 release a", "1000 attach a", "2000 release a"])
    }).pipe(scripted({
      a: child.prints("one\n").prints("two\n", { after: "1 second" }).prints("three\n", { after: "1 second" }).exits(3)
    })))

  it.effect("tell an exit that is recorded already on a turn of its own", () =>
    Effect.gen(function*() {
      const { attach, child, world } = yield* startDetached("a")
      yield* child.release
      yield* world.drain
      const attached = yield* attach
      assert.deepStrictEqual(attached.exits, [])
      yield* world.drain
      assert.deepStrictEqual([attached.out.text, attached.exits], ["hi", [{ code: 0, signal: null }]])
    }).pipe(scripted({ a: child.prints("hi").exits(0) })))

  it.effect("whose completion file is lost have an unknown exit, which a look tells", () =>
    Effect.gen(function*() {
      const { attach, child, look, world } = yield* startDetached("a")
      yield* child.release
      yield* world.loseExit("a")
      const before = yield* attach
      yield* look
      yield* world.kill("a", 0)
      yield* world.drain
      assert.deepStrictEqual(before.exits, [])
      yield* before.child.release
      const after = yield* attach
      yield* world.drain
      assert.deepStrictEqual(after.exits, [])
      yield* look
      assert.deepStrictEqual([before.exits, after.exits], [[], [{ code: null, signal: null }]])
    }).pipe(scripted({ a: child })))

  it.effect("that their own watcher has ended say why", () =>
    Effect.gen(function*() {
      const { child, driver, world } = yield* startDetached("a")
      yield* child.release
      yield* world.endDetached("a", "deadline")
      yield* world.drain
      const told: Array<unknown> = []
      yield* driver.attach({
        identity: child.identity,
        detached: "a-1",
        stdout: new Sink(),
        stderr: "merged",
        onExit: (exit, by) => told.push([exit, by])
      })
      yield* world.drain
      assert.deepStrictEqual(told, [[{ code: null, signal: "SIGTERM" }, "deadline"]])
    }).pipe(scripted({ a: child })))

  it.effect("are refused by a driver that cannot start any", () =>
    Effect.gen(function*() {
      const failed = yield* Effect.flip(startDetached("a"))
      assert.deepStrictEqual([failed.problem, failed.code], ["Other", "ENOTSUP"])
      assert.isNull((yield* ProcessDriver.Service).detachedFiles)
    }).pipe(
      Effect.provide(ScriptedDriver.layer({ children: { a: child }, capabilities: { detached: false } }))
    ))
})
