import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import type { Identity } from "../../src/domain/Identity.ts"
import { maxListed } from "../../src/domain/Status.ts"
import { Nudge } from "../../src/internal/Nudge.ts"
import * as SharedLook from "../../src/internal/SharedLook.ts"
import * as TimerHeap from "../../src/internal/TimerHeap.ts"
import type { Member, ProcessDriver, SignalOutcome, TreeLook } from "../../src/ports/ProcessDriver.ts"
import * as Settings from "../../src/services/Settings.ts"
import * as Termination from "../../src/services/Termination.ts"

const root: Identity = { pid: 100, startedAt: 1, bootId: "boot", marker: "PROCYON_MARK_1" }

/** How a process of the fake takes what is done to it. */
interface Nature {
  readonly name?: string
  readonly group?: number
  readonly ignores?: ReadonlyArray<string>
  /** errno names by signal. */
  readonly refuses?: Readonly<Record<string, string>>
  /** Leaves this many children whenever somebody looks while it can run. */
  readonly forks?: number
  /** Still there for this many looks after SIGKILL. */
  readonly lingers?: number
}

interface Process {
  readonly member: Member
  readonly nature: Nature
  stopped: boolean
  dying: number | null
}

interface Sent {
  readonly signal: string
  readonly pids: ReadonlyArray<number>
  readonly groups: ReadonlyArray<number>
}

/** A process table with nothing of a system in it: who is there, and what was done to them. */
class Table {
  readonly sent: Array<Sent> = []
  looks = 0
  /** Groups that a probe finds populated though nobody in them is seen alive. */
  readonly zombies = new Set<number>()
  readonly chains = new Set<number>()
  complete = true
  look: (answer: TreeLook) => Effect.Effect<TreeLook> = Effect.succeed
  answer: (outcomes: ReadonlyArray<SignalOutcome>, signal: string) => Effect.Effect<ReadonlyArray<SignalOutcome>> =
    Effect.succeed
  /** Stands before every signal; one that does not come through was not sent. */
  before: (signal: string) => Effect.Effect<void> = () => Effect.void
  #processes = new Map<number, Process>()
  #nextPid = 100

  add(nature: Nature = {}): number {
    const pid = this.#nextPid++
    this.#processes.set(pid, {
      member: {
        pid,
        startedAt: pid,
        parent: pid === root.pid ? 1 : root.pid,
        group: nature.group ?? root.pid,
        session: root.pid,
        state: "S",
        name: nature.name ?? "sleep"
      },
      nature,
      stopped: false,
      dying: null
    })
    return pid
  }

  remove(pid: number): void {
    this.#processes.delete(pid)
  }

  get alive(): ReadonlyArray<number> {
    return [...this.#processes.keys()]
  }

  signals(signal: string): ReadonlyArray<ReadonlyArray<number>> {
    return this.sent.filter((sent) => sent.signal === signal).map(({ pids }) => pids)
  }

  /** The signals in order, one for those sent several times in a row. */
  get order(): ReadonlyArray<string> {
    return this.sent.map(({ signal }) => signal).filter((signal, index, all) => signal !== all[index - 1])
  }

  readonly driver: Pick<ProcessDriver, "look" | "occupied" | "signal"> = {
    look: (roots) => Effect.forEach(roots, () => Effect.suspend(() => this.look(this.#lookNow()))),
    occupied: () => this.alive.length > 0 || this.zombies.size > 0 || this.chains.size > 0,
    signal: (_root, targets, signal) =>
      Effect.andThen(
        Effect.suspend(() => this.before(signal)),
        Effect.suspend(() => {
          const groups = targets.groups ?? []
          this.sent.push({ signal, pids: targets.members.map(({ pid }) => pid), groups })
          const outcomes = targets.members.map((member) => this.#signal(member, signal))
          if (signal === "SIGKILL") { for (const group of groups) this.chains.delete(group) }
          return this.answer(outcomes, signal)
        })
      )
  }

  #lookNow(): TreeLook {
    this.looks++
    for (const process of this.#processes.values()) {
      if (process.dying !== null && process.dying-- <= 0) this.remove(process.member.pid)
      else if (!process.stopped) {
        for (let count = 0; count < (process.nature.forks ?? 0); count++) this.add({ ...process.nature, forks: 0 })
      }
    }
    const members = [...this.#processes.values()].map(({ member }) => member)
    return { root, leader: "gone", members, occupied: [...this.chains], complete: this.complete }
  }

  #signal({ name, pid, startedAt }: Member, signal: string): SignalOutcome {
    const told = { pid, startedAt, name, code: null }
    const process = this.#processes.get(pid)
    if (process === undefined) return { ...told, outcome: "gone" }
    const code = process.nature.refuses?.[signal]
    if (code !== undefined) return { ...told, outcome: "refused", code }
    if (signal === "SIGSTOP") process.stopped = true
    if (signal === "SIGCONT") process.stopped = false
    const ignored = process.nature.ignores?.includes(signal) ?? false
    if (signal === "SIGKILL") {
      if (process.nature.lingers === undefined) this.remove(pid)
      else process.dying ??= process.nature.lingers
    } else if (signal === "SIGTERM" && !ignored) this.remove(pid)
    return { ...told, outcome: "sent" }
  }
}

const setUp = (...natures: ReadonlyArray<Nature>) =>
  Effect.gen(function*() {
    const table = new Table()
    for (const nature of natures) table.add(nature)
    const clock = yield* Clock.Clock
    const fork = yield* FiberSet.makeRuntime<never, unknown, never>()
    const timers = TimerHeap.make(clock, yield* FiberSet.makeRuntime<never, void, never>())
    const settings = Settings.defaults
    const look = SharedLook.make(table.driver, { windowMillis: settings.portWindowMillis, fork })
    const termination = Termination.make({ driver: table.driver, look, clock, timers, settings })
    const notes: Array<string> = []
    const subject: Termination.Subject = {
      root,
      nudge: new Nudge(),
      note: (what) => notes.push(`+${timers.now()} ${what}`),
      refused: new Map(),
      asked: new Map(),
      mayAct: Effect.succeed(true)
    }
    return { table, termination, notes, subject, timers }
  })

/** The test clock waits for what a wake causes, not for what came before the first sleep. None of it takes time. */
const untilAsleep = Effect.yieldNow.pipe(Effect.repeat({ times: 300 }))

/** What the effect answers, and how long it took. */
const timed = <A>(effect: Effect.Effect<A>, most = 60_000) =>
  Effect.gen(function*() {
    const from = yield* Clock.currentTimeMillis
    const fiber = yield* Effect.forkChild(
      Effect.flatMap(effect, (value) => Effect.map(Clock.currentTimeMillis, (at) => ({ value, millis: at - from }))),
      { startImmediately: true }
    )
    yield* untilAsleep
    yield* TestClock.adjust(most)
    return fiber.pollUnsafe() === undefined ? assert.fail(`it still waits after ${most} ms`) : yield* Fiber.join(fiber)
  })

const stubborn: Nature = { ignores: ["SIGTERM"] }

describe("request", () => {
  it.effect("sends SIGCONT after the signal, since what is stopped would never handle it", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp(stubborn, {}, { group: 102 })
      const look = yield* termination.look(subject)
      assert.isTrue(yield* termination.request(subject, look, "SIGINT"))
      assert.deepStrictEqual(table.sent, [
        { signal: "SIGINT", pids: [100, 101, 102], groups: [] },
        { signal: "SIGCONT", pids: [100, 101, 102], groups: [] }
      ])
      assert.deepStrictEqual(notes, ["+0 SIGINT -> group 100 (2 members), 1 escapee"])
    }))

  it.effect("tells when the system took none of them", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp({ refuses: { SIGTERM: "EPERM" } }, {})
      const look = yield* termination.look(subject)
      table.remove(101)
      assert.isFalse(yield* termination.request(subject, look, "SIGTERM"))
      assert.deepStrictEqual(notes, [`+0 SIGTERM -> group 100 (2 members), refused by 100 "sleep" (EPERM)`])
      assert.deepStrictEqual(
        Termination.listed(look.members, subject.refused).map(({ pid, refused }) => [pid, refused]),
        [[100, "EPERM"], [101, null]]
      )
    }))

  it.effect("takes a driver that breaks or throws for one that reached nobody", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp({})
      const look = yield* termination.look(subject)
      table.answer = () => Effect.die("broken")
      assert.isFalse(yield* termination.request(subject, look, "SIGTERM"))
      table.answer = () => {
        throw new Error("broken")
      }
      assert.isFalse(yield* termination.request(subject, look, "SIGTERM"))
      assert.include(notes, "+0 SIGTERM: the driver did not answer")
    }))

  it.effect("waits for a driver that does not answer no longer than its window", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp({})
      const look = yield* termination.look(subject)
      table.answer = () => Effect.never
      const { millis, value } = yield* timed(termination.request(subject, look, "SIGTERM"))
      assert.deepStrictEqual([value, millis], [false, 2 * Settings.defaults.portWindowMillis])
    }))
})

describe("awaitGone", () => {
  it.effect("answers at once when the first look finds nobody", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp()
      const { millis, value } = yield* timed(termination.awaitGone(subject, 5_000))
      assert.isTrue(Termination.isGone(value))
      assert.deepStrictEqual([millis, table.looks], [0, 1])
    }))

  it.effect("waits exactly as long as it may for a tree that stays, and looks once more at the end", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      const fiber = yield* Effect.forkChild(termination.awaitGone(subject, 5_000), { startImmediately: true })
      yield* TestClock.adjust(4_999)
      assert.isUndefined(fiber.pollUnsafe())
      const looks = table.looks
      yield* TestClock.adjust(1)
      assert.deepStrictEqual((yield* Fiber.join(fiber)).members.map(({ pid }) => pid), [100])
      assert.strictEqual(table.looks, looks + 1)
    }))

  it.effect("looks once for a wait of zero", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      const { millis, value } = yield* timed(termination.awaitGone(subject, 0))
      assert.deepStrictEqual([millis, table.looks, value.members.length], [0, 1, 1])
    }))

  it.effect("looks less and less often, and never less often than it is set to", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      const at: Array<number> = []
      table.look = (answer) => Effect.as(Effect.map(Clock.currentTimeMillis, (now) => at.push(now)), answer)
      yield* timed(termination.awaitGone(subject, 1_000))
      assert.deepStrictEqual(at, [0, 25, 75, 175, 375, 625, 875, 1000])
    }))

  it.effect("looks as soon as it is nudged and nobody is left", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      const fiber = yield* Effect.forkChild(
        Effect.andThen(termination.awaitGone(subject, 5_000), Clock.currentTimeMillis),
        { startImmediately: true }
      )
      yield* TestClock.adjust(900)
      table.remove(100)
      subject.nudge.notify()
      assert.strictEqual(yield* Fiber.join(fiber), 900)
    }))

  it.effect("does not look for a nudge while somebody is still there to be probed", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      const fiber = yield* Effect.forkChild(termination.awaitGone(subject, 5_000), { startImmediately: true })
      yield* TestClock.adjust(901)
      const looks = table.looks
      for (let n = 0; n < 5; n++) {
        subject.nudge.notify()
        yield* untilAsleep
      }
      assert.strictEqual(table.looks, looks)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("is cut short by stop at the next nudge, and answers with a look made then", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      let stop = false
      const fiber = yield* Effect.forkChild(
        Effect.zip(termination.awaitGone(subject, 5_000, () => stop), Clock.currentTimeMillis),
        { startImmediately: true }
      )
      yield* TestClock.adjust(901)
      stop = true
      const looks = table.looks
      subject.nudge.notify()
      const [look, at] = yield* Fiber.join(fiber)
      assert.deepStrictEqual([at, table.looks, look.members.length], [901, looks + 1, 1])
    }))

  it.effect("takes a group that only zombies hold for gone", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      table.zombies.add(100)
      const fiber = yield* Effect.forkChild(termination.awaitGone(subject, 5_000), { startImmediately: true })
      yield* TestClock.adjust(25)
      table.remove(100)
      yield* TestClock.adjust(50)
      assert.isTrue(Termination.isGone(yield* Fiber.join(fiber)))
    }))

  it.effect("never takes an incomplete look, nor an occupied group, for gone", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp()
      table.complete = false
      const incomplete = yield* timed(termination.awaitGone(subject, 1_000))
      assert.deepStrictEqual([Termination.isGone(incomplete.value), incomplete.millis], [false, 1_000])
      table.complete = true
      table.chains.add(100)
      const occupied = yield* timed(termination.awaitGone(subject, 1_000))
      assert.deepStrictEqual([Termination.isGone(occupied.value), occupied.millis], [false, 1_000])
    }))

  it.effect("waits for looks that hang no longer than one window past its time", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      table.look = () => Effect.never
      const { millis, value } = yield* timed(termination.awaitGone(subject, 1_000))
      assert.isFalse(value.complete)
      assert.isAtMost(millis, 1_000 + Settings.defaults.portWindowMillis)
    }))

  it.effect("is interrupted at once", () =>
    Effect.gen(function*() {
      const { subject, termination } = yield* setUp(stubborn)
      const fiber = yield* Effect.forkChild(termination.awaitGone(subject, 5_000), { startImmediately: true })
      yield* TestClock.adjust(100)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* Clock.currentTimeMillis, 100)
    }))
})

describe("force", () => {
  it.effect("stops everybody until a look shows nobody new, and only then kills", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp(stubborn, stubborn)
      const { millis, value } = yield* timed(termination.force(subject, 3_000))
      assert.isTrue(Termination.isGone(value))
      assert.strictEqual(millis, 0)
      assert.deepStrictEqual(table.sent, [
        { signal: "SIGSTOP", pids: [100, 101], groups: [] },
        { signal: "SIGKILL", pids: [100, 101], groups: [] }
      ])
      assert.deepStrictEqual(notes, [`+0 SIGKILL -> 2 left: 100 "sleep", 101 "sleep"`])
    }))

  it.effect("says by pid why each had to be killed: what it ignored, that it left the group, or nothing", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp(stubborn, { ...stubborn, group: 101 })
      yield* termination.request(subject, yield* termination.look(subject), "SIGTERM")
      table.add({ group: 102 })
      table.add({})
      yield* timed(termination.force(subject, 3_000))
      assert.strictEqual(
        notes.at(-1),
        `+0 SIGKILL -> 4 left: 100 "sleep" (ignored SIGTERM), 101 "sleep" (ignored SIGTERM, left the group), ` +
          `102 "sleep" (left the group), 103 "sleep"`
      )
    }))

  it.effect("lists members by pid, however a look orders them", () =>
    Effect.gen(function*() {
      const { subject, termination } = yield* setUp(stubborn, stubborn, stubborn)
      const { members } = yield* termination.look(subject)
      assert.deepStrictEqual(
        Termination.listed(members.toReversed(), subject.refused).map(({ pid }) => pid),
        [100, 101, 102]
      )
    }))

  it.effect("stops each member once, and those that appear in between as well", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn, stubborn)
      let late = 2
      table.look = (answer) =>
        Effect.sync(() => {
          if (late-- > 0) table.add(stubborn)
          return answer
        })
      yield* timed(termination.force(subject, 3_000))
      assert.deepStrictEqual(table.signals("SIGSTOP"), [[100, 101], [102], [103]])
      assert.deepStrictEqual(table.signals("SIGKILL"), [[100, 101, 102, 103]])
      assert.deepStrictEqual(table.alive, [])
    }))

  it.effect("ends a loop that forks faster than it is looked at", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp({ ...stubborn, forks: 20 }, { ...stubborn, forks: 3 })
      const { value } = yield* timed(termination.force(subject, 3_000))
      assert.isTrue(Termination.isGone(value))
      assert.deepStrictEqual(table.order, ["SIGSTOP", "SIGKILL"])
    }))

  it.effect("kills who appears after the kill too", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      table.answer = (outcomes, signal) =>
        Effect.sync(() => {
          if (signal === "SIGKILL" && table.signals("SIGKILL").length < 3) table.add(stubborn)
          return outcomes
        })
      const { value } = yield* timed(termination.force(subject, 3_000))
      assert.isTrue(Termination.isGone(value))
      assert.deepStrictEqual(table.signals("SIGKILL"), [[100], [101], [102]])
    }))

  it.effect("sends SIGKILL once to each, however long it takes to go", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp({ lingers: 5 }, { lingers: 2 })
      const { value } = yield* timed(termination.force(subject, 3_000))
      assert.isTrue(Termination.isGone(value))
      assert.deepStrictEqual(table.signals("SIGKILL"), [[100, 101]])
    }))

  it.effect("sends it once more to those the driver did not answer for", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp(stubborn, stubborn)
      let breaks = 1
      table.before = (signal) => signal === "SIGKILL" && breaks-- > 0 ? Effect.die("broken") : Effect.void
      yield* timed(termination.force(subject, 3_000))
      assert.include(notes, "+0 SIGKILL: the driver did not answer")
      assert.deepStrictEqual(table.alive, [])
    }))

  it.effect("reports a member the system does not let go, with the errno, at the end of the window", () =>
    Effect.gen(function*() {
      const refusing: Nature = { ...stubborn, name: "sudo", refuses: { SIGSTOP: "EPERM", SIGKILL: "EPERM" } }
      const { notes, subject, table, termination } = yield* setUp(stubborn, refusing)
      const { millis, value } = yield* timed(termination.force(subject, 3_000))
      assert.strictEqual(millis, 3_000)
      assert.deepStrictEqual(Termination.listed(value.members, subject.refused), [
        { pid: 101, startedAt: 101, name: "sudo", refused: "EPERM" }
      ])
      assert.deepStrictEqual(table.signals("SIGKILL"), [[100, 101]])
      assert.deepStrictEqual(notes, [
        `+0 SIGKILL -> 2 left: 100 "sleep", 101 "sudo", refused by 101 "sudo" (EPERM)`
      ])
    }))

  it.effect("kills an occupied group as a whole", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp()
      table.chains.add(100)
      const { value } = yield* timed(termination.force(subject, 3_000))
      assert.isTrue(Termination.isGone(value))
      assert.deepStrictEqual(table.sent, [{ signal: "SIGKILL", pids: [], groups: [100] }])
      assert.deepStrictEqual(notes, ["+0 SIGKILL -> group 100 as a whole"])
    }))

  it.effect("says of a group beside its members that it had to be killed as a whole", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp(stubborn)
      table.look = (answer) => Effect.succeed({ ...answer, occupied: answer.members.length > 0 ? [100] : [] })
      yield* timed(termination.force(subject, 3_000))
      assert.include(notes[0], `SIGKILL -> 1 left: 100 "sleep"; group 100 as a whole`)
    }))

  it.effect("says that a signal was refused also where the system does not say why", () =>
    Effect.gen(function*() {
      const { notes, subject, table, termination } = yield* setUp({ refuses: { SIGTERM: "EPERM" } })
      table.answer = (outcomes) => Effect.succeed(outcomes.map((outcome) => ({ ...outcome, code: null })))
      yield* termination.request(subject, yield* termination.look(subject), "SIGTERM")
      assert.include(notes[0], `refused by 100 "sleep" (refused)`)
      const { members } = yield* termination.look(subject)
      assert.deepStrictEqual(Termination.listed(members, subject.refused).map(({ refused }) => refused), ["refused"])
    }))

  it.effect("gives up on a group that stays occupied, at the end of the window", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp()
      table.look = (answer) => Effect.succeed({ ...answer, occupied: [100] })
      table.zombies.add(100)
      const { millis, value } = yield* timed(termination.force(subject, 3_000))
      assert.deepStrictEqual([Termination.isGone(value), millis], [false, 3_000])
      assert.isAtMost(table.sent.length, 8)
    }))

  it.effect("takes zombies for dead, though their group answers a probe", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      table.zombies.add(100)
      const { millis, value } = yield* timed(termination.force(subject, 3_000))
      assert.deepStrictEqual([Termination.isGone(value), millis], [true, 0])
    }))

  it.effect("never takes an incomplete look for gone, and kills those it has seen", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      table.look = (answer) => Effect.succeed({ ...answer, complete: false })
      const { millis, value } = yield* timed(termination.force(subject, 3_000))
      assert.deepStrictEqual([Termination.isGone(value), millis], [false, 3_000])
      assert.deepStrictEqual(table.signals("SIGKILL"), [[100]])
    }))

  it.effect("waits for a driver that answers nothing no longer than its windows past the time", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      table.look = () => Effect.never
      const blind = yield* timed(termination.force(subject, 3_000))
      assert.isFalse(Termination.isGone(blind.value))
      assert.isAtMost(blind.millis, 3_000 + Settings.defaults.portWindowMillis)
      table.look = Effect.succeed
      table.answer = () => Effect.never
      const numb = yield* timed(termination.force(subject, 3_000))
      assert.isAtMost(numb.millis, 3_000 + 2 * Settings.defaults.portWindowMillis)
    }))

  it.effect("gives a loop that no signal reaches up within the window", () =>
    Effect.gen(function*() {
      const immortal: Nature = { refuses: { SIGSTOP: "EPERM", SIGKILL: "EPERM" }, forks: 1 }
      const { subject, table, termination } = yield* setUp(immortal)
      const { millis, value } = yield* timed(termination.force(subject, 3_000))
      assert.isFalse(Termination.isGone(value))
      assert.strictEqual(millis, 3_000)
      assert.isAtMost(table.signals("SIGKILL").length, 8)
      const killed = table.signals("SIGKILL").flat()
      assert.strictEqual(new Set(killed).size, killed.length)
    }))

  it.effect.prop(
    "ends every tree of mortal members, and kills each of them once",
    {
      natures: Schema.Array(Schema.Struct({
        forks: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 })),
        lingers: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
        group: Schema.Literals([100, 101])
      })).check(Schema.isMaxLength(6))
    },
    ({ natures }) =>
      Effect.gen(function*() {
        const { subject, table, termination } = yield* setUp(...natures)
        const { value } = yield* timed(termination.force(subject, 3_000))
        assert.isTrue(Termination.isGone(value))
        const killed = table.signals("SIGKILL").flat()
        assert.strictEqual(new Set(killed).size, killed.length)
      }).pipe(Effect.scoped),
    { arbitrary: { runs: 100 } }
  )
})

describe("listed", () => {
  it("lists a bounded number of members", () => {
    const members = Array.from({ length: 40 }, (_, index): Member => ({
      pid: index,
      startedAt: index,
      parent: 1,
      group: 1,
      session: 1,
      state: "S",
      name: "sleep"
    }))
    assert.lengthOf(Termination.listed(members, new Map()), maxListed)
  })
})

describe("trees that end together", () => {
  it.effect("share looks and cost one grace", () =>
    Effect.gen(function*() {
      const { subject, table, termination } = yield* setUp(stubborn)
      const subjects = Array.from({ length: 100 }, () => ({ ...subject, nudge: new Nudge() }))
      let calls = 0
      const { millis } = yield* timed(Effect.forEach(subjects, (one) => termination.awaitGone(one, 5_000), {
        concurrency: "unbounded",
        discard: true
      }))
      calls = table.looks / subjects.length
      assert.strictEqual(millis, 5_000)
      assert.isAtMost(calls, 30)
    }))
})
