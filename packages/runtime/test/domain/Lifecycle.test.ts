import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Lifecycle from "../../src/domain/Lifecycle.ts"
import * as Status from "../../src/domain/Status.ts"

type Tag = Lifecycle.State["_tag"]

const stop: Status.Cause = { _tag: "Stop", by: "owner" }
const shutdown: Status.Cause = { _tag: "Shutdown" }
const deadline: Status.Cause = { _tag: "Deadline", kind: "total" }
const zero: Status.Exit = { code: 0, signal: null }
const three: Status.Exit = { code: 3, signal: null }
const byTerm: Status.Exit = { code: null, signal: "SIGTERM" }

const asked: Lifecycle.Event = { _tag: "Asked" }
const started: Lifecycle.Event = { _tag: "Started" }
const exited = (exit: Status.Exit): Lifecycle.Event => ({ _tag: "Exited", exit })
const end = (cause: Status.Cause, now = false): Lifecycle.Event => ({ _tag: "EndRequested", request: { cause, now } })
const recorded = (leaderAlive: boolean): Lifecycle.Event => ({ _tag: "TreeRecorded", leaderAlive })
const exitAwaited: Lifecycle.Event = { _tag: "ExitAwaited" }
const lingerEnded = (end: boolean): Lifecycle.Event => ({ _tag: "LingerEnded", end })
const signalling: Lifecycle.Event = { _tag: "Signalling" }
const signalled = (delivered: boolean): Lifecycle.Event => ({ _tag: "Signalled", delivered })
const graceElapsed: Lifecycle.Event = { _tag: "GraceElapsed" }
const treeGone: Lifecycle.Event = { _tag: "TreeGone" }
const forceElapsed: Lifecycle.Event = { _tag: "ForceElapsed" }
const retryRequested: Lifecycle.Event = { _tag: "RetryRequested" }
const flushed: Lifecycle.Event = { _tag: "Flushed" }

/** What happens, the state it leads to, and what is to be done. */
type Line = readonly [Lifecycle.Event, Tag, ...ReadonlyArray<Lifecycle.Action>]

const walk = (lines: ReadonlyArray<Line>, from: Lifecycle.State = Lifecycle.initial): Lifecycle.State => {
  let state = from
  for (const [index, [event, tag, ...actions]] of lines.entries()) {
    const [next, asks] = Lifecycle.step(state, event)
    assert.deepStrictEqual([next._tag, asks], [tag, actions], `line ${index + 1}, ${event._tag} while ${state._tag}`)
    state = next
  }
  return state
}

const running: ReadonlyArray<Line> = [[asked, "Starting"], [started, "Running"]]
const signalledAfter = (request: Lifecycle.Event): ReadonlyArray<Line> => [
  ...running,
  [request, "Draining", "RecordTree"],
  [recorded(true), "Draining", "SignalTree"],
  [signalling, "Terminating"]
]
const unresolvedAfter = (request: Lifecycle.Event): ReadonlyArray<Line> => [
  ...signalledAfter(request),
  [signalled(true), "Terminating", "AwaitGrace"],
  [graceElapsed, "Terminating", "ForceTree"],
  [forceElapsed, "Unresolved", "ReportUnresolved"]
]

interface Scenario {
  readonly name: string
  readonly lines: ReadonlyArray<Line>
  readonly status: Status.Status
  readonly cause: Status.Cause
  readonly exit: Status.Exit | null
}

const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "completes a leader that exits with code 0 and leaves nobody behind",
    lines: [
      ...running,
      [exited(zero), "Draining", "Linger"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "cancels on a stop, and keeps the exit beside it",
    lines: [
      ...signalledAfter(end(stop)),
      [signalled(true), "Terminating", "AwaitGrace"],
      [exited(byTerm), "Terminating"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: byTerm
  },
  {
    name: "times out at a deadline, also when the leader answers SIGTERM with code 0",
    lines: [
      ...signalledAfter(end(deadline)),
      [exited(zero), "Terminating"],
      [signalled(true), "Terminating", "AwaitGrace"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "timed_out",
    cause: deadline,
    exit: zero
  },
  {
    name: "forces what is left after the grace",
    lines: [
      ...signalledAfter(end(stop)),
      [signalled(true), "Terminating", "AwaitGrace"],
      [graceElapsed, "Terminating", "ForceTree"],
      [exited({ code: null, signal: "SIGKILL" }), "Terminating"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: { code: null, signal: "SIGKILL" }
  },
  {
    name: "lets an exit decide that was told before the tree was recorded",
    lines: [
      ...running,
      [end(deadline), "Draining", "RecordTree"],
      [exited(three), "Draining"],
      [recorded(true), "Draining", "Linger"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "error",
    cause: { _tag: "SelfExit" },
    exit: three
  },
  {
    name: "lets an exit decide that was told in the last moment before the first signal",
    lines: [
      ...running,
      [end(deadline), "Draining", "RecordTree"],
      [recorded(true), "Draining", "SignalTree"],
      [exited(zero), "Draining"],
      [signalling, "Terminating"],
      [signalled(true), "Terminating", "AwaitGrace"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "waits for the exit of a leader that is dead and not told of yet, and lets it decide",
    lines: [
      ...running,
      [end(stop), "Draining", "RecordTree"],
      [recorded(false), "Draining", "AwaitExit"],
      [exited(zero), "Draining"],
      [exitAwaited, "Draining", "Linger"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "calls an exit nobody told of an error, never a success",
    lines: [
      ...running,
      [end(stop), "Draining", "RecordTree"],
      [recorded(false), "Draining", "AwaitExit"],
      [exitAwaited, "Draining", "Linger"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "error",
    cause: { _tag: "SelfExit" },
    exit: Status.unknownExit
  },
  {
    name: "lets the exit decide when a signal reached nobody",
    lines: [
      ...signalledAfter(end(stop)),
      [signalled(false), "Terminating", "AwaitGrace"],
      [treeGone, "Terminating", "AwaitExit"],
      [exited(zero), "Terminating"],
      [exitAwaited, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "settles without an exit that is not told within its window",
    lines: [
      ...signalledAfter(end(stop)),
      [signalled(true), "Terminating", "AwaitGrace"],
      [treeGone, "Terminating", "AwaitExit"],
      [exitAwaited, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: Status.unknownExit
  },
  {
    name: "ends the leftovers of a leader that ended by itself, under the leader's own status",
    lines: [
      ...running,
      [exited(zero), "Draining", "Linger"],
      [lingerEnded(true), "Draining", "SignalTree"],
      [signalling, "Terminating"],
      [end(stop), "Terminating"],
      [signalled(true), "Terminating", "AwaitGrace"],
      [graceElapsed, "Terminating", "ForceTree"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "signals nobody when leftovers are kept, also when a stop came meanwhile",
    lines: [
      ...running,
      [exited(zero), "Draining", "Linger"],
      [end(stop), "Draining"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "keeps the first cause and takes the hurry of the second",
    lines: [
      ...running,
      [end(deadline), "Draining", "RecordTree"],
      [end(stop), "Draining"],
      [recorded(true), "Draining", "SignalTree"],
      [signalling, "Terminating"],
      [signalled(true), "Terminating", "AwaitGrace"],
      [end(shutdown, true), "Terminating", "Hurry"],
      [end(shutdown, true), "Terminating"],
      [graceElapsed, "Terminating", "ForceTree"],
      [treeGone, "Terminating", "AwaitExit"],
      [exited(byTerm), "Terminating"],
      [exitAwaited, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "timed_out",
    cause: deadline,
    exit: byTerm
  },
  {
    name: "reports what cannot be ended as kill_failed",
    lines: unresolvedAfter(end(stop)),
    status: "kill_failed",
    cause: stop,
    exit: null
  },
  {
    name: "resolves a kill_failed once, when a retry proves it gone",
    lines: [
      ...unresolvedAfter(end(deadline)),
      [retryRequested, "Unresolved", "RetryTree"],
      [retryRequested, "Unresolved"],
      [forceElapsed, "Unresolved"],
      [retryRequested, "Unresolved", "RetryTree"],
      [treeGone, "Unresolved", "Flush"],
      [treeGone, "Unresolved"],
      [retryRequested, "Unresolved"],
      [flushed, "Settled", "Settle"],
      [treeGone, "Settled"],
      [retryRequested, "Settled"],
      [flushed, "Settled"]
    ],
    status: "timed_out",
    cause: deadline,
    exit: null
  },
  {
    name: "looks again when the leader of a kill_failed exits, and resolves it by proof alone",
    lines: [
      ...unresolvedAfter(end(stop)),
      [exited(byTerm), "Unresolved", "Recheck"],
      [treeGone, "Unresolved", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: byTerm
  },
  {
    name: "starts nothing when its end is asked for before the driver was",
    lines: [[end(stop), "Settled", "Settle"], [asked, "Settled"]],
    status: "cancelled",
    cause: stop,
    exit: null
  },
  {
    name: "withdraws a start, and cancels when nothing is left of it",
    lines: [
      [asked, "Starting"],
      [end(stop), "Starting", "WithdrawStart"],
      [end(shutdown, true), "Starting"],
      [{ _tag: "StartWithdrawn" }, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: null
  },
  {
    name: "ends what has started in spite of a withdrawal",
    lines: [
      [asked, "Starting"],
      [end(stop), "Starting", "WithdrawStart"],
      [started, "Draining", "RecordTree"],
      [recorded(true), "Draining", "SignalTree"],
      [signalling, "Terminating"],
      [signalled(true), "Terminating", "AwaitGrace"],
      [exited(byTerm), "Terminating"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: byTerm
  },
  {
    name: "calls a failed start an error",
    lines: [[asked, "Starting"], [{ _tag: "StartFailed" }, "Settled", "Settle"]],
    status: "error",
    cause: { _tag: "StartFailed" },
    exit: null
  },
  {
    name: "keeps an exit that was told before the start was",
    lines: [
      [asked, "Starting"],
      [exited(zero), "Starting"],
      [started, "Draining", "Linger"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "completed",
    cause: { _tag: "SelfExit" },
    exit: zero
  },
  {
    name: "claims nothing about a start that was lost",
    lines: [
      [asked, "Starting"],
      [end(stop), "Starting", "WithdrawStart"],
      [{ _tag: "StartLost" }, "Unresolved", "ReportUnresolved"]
    ],
    status: "kill_failed",
    cause: stop,
    exit: null
  },
  {
    name: "ends a lost start that answers late",
    lines: [
      [asked, "Starting"],
      [end(stop), "Starting", "WithdrawStart"],
      [{ _tag: "StartLost" }, "Unresolved", "ReportUnresolved"],
      [started, "Unresolved", "RetryTree"],
      [treeGone, "Unresolved", "Flush"],
      [exited(byTerm), "Unresolved"],
      [flushed, "Settled", "Settle"]
    ],
    status: "cancelled",
    cause: stop,
    exit: byTerm
  },
  {
    name: "resolves a lost start that fails late",
    lines: [
      [asked, "Starting"],
      [end({ _tag: "StartFailed" }), "Starting", "WithdrawStart"],
      [{ _tag: "StartLost" }, "Unresolved", "ReportUnresolved"],
      [{ _tag: "StartFailed" }, "Unresolved", "Flush"],
      [flushed, "Settled", "Settle"]
    ],
    status: "error",
    cause: { _tag: "StartFailed" },
    exit: null
  }
]

describe("the scenarios", () => {
  it.each(scenarios)("$name", ({ lines, status, cause, exit }) => {
    const last = walk(lines)
    assert.strictEqual(Lifecycle.statusOf(last), status)
    assert.deepStrictEqual("cause" in last ? last.cause : null, cause)
    assert.deepStrictEqual(Lifecycle.exitOf(last), exit)
  })

  it("claims nothing for a wait for the exit that ends while the tree is not shown to be gone", () => {
    walk([...signalledAfter(end(stop)), [exitAwaited, "Terminating"]])
  })

  it("knows no exit of one that is gone before anybody told of it", () => {
    const state = walk([
      ...running,
      [end(stop), "Draining", "RecordTree"],
      [lingerEnded(false), "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ])
    assert.deepStrictEqual(Lifecycle.exitOf(state), { code: null, signal: null })
    assert.strictEqual(Lifecycle.statusOf(state), "error")
  })

  it("takes no end of output for a proof that a kill_failed is gone", () => {
    walk([...unresolvedAfter(end(stop)), [flushed, "Unresolved"], [exitAwaited, "Unresolved"]])
  })

  it("asks those who wait to look again when a drain is hurried", () => {
    walk([...running, [exited(zero), "Draining", "Linger"], [end(stop, true), "Draining", "Hurry"]])
  })
})

// ---- what every history keeps

const order: { readonly [T in Tag]: number } = {
  Starting: 0,
  Running: 1,
  Draining: 2,
  Terminating: 3,
  Flushing: 4,
  Unresolved: 5,
  Settled: 6
}

/** Checks, step by step, what is to hold whatever happens. */
class Witness {
  state: Lifecycle.State = Lifecycle.initial
  #seen = new Set<Lifecycle.Event["_tag"]>()
  #flushAsked = false
  #flushedAfter = false
  #settled = 0

  step(event: Lifecycle.Event): ReadonlyArray<Lifecycle.Action> {
    const from = this.state
    const [to, actions] = Lifecycle.step(from, event)
    this.state = to
    // A settled process takes nothing in: a start that is answered now was never asked for.
    if (from._tag !== "Settled") this.#seen.add(event._tag)
    if (event._tag === "Flushed" && this.#flushAsked) this.#flushedAfter = true
    if (actions.includes("Flush")) this.#flushAsked = true
    this.#settled += actions.filter((action) => action === "Settle").length
    this.#checkOrder(from, to, actions)
    this.#checkCause(from, to)
    this.#checkClaims(to)
    return actions
  }

  #checkOrder(from: Lifecycle.State, to: Lifecycle.State, actions: ReadonlyArray<Lifecycle.Action>) {
    if (from._tag === "Settled") assert.deepStrictEqual([to, actions], [from, []])
    assert.isAtLeast(order[to._tag], order[from._tag])
    if (from._tag === "Flushing") assert.notStrictEqual(to._tag, "Unresolved")
    assert.strictEqual(actions.includes("Settle"), from._tag !== "Settled" && to._tag === "Settled")
    assert.strictEqual(this.#settled, to._tag === "Settled" ? 1 : 0)
  }

  #checkCause(from: Lifecycle.State, to: Lifecycle.State) {
    if (from._tag === "Starting" && from.request !== null && "request" in to) {
      assert.deepStrictEqual(to.request?.cause, from.request.cause)
    }
    if (from._tag === "Draining" && from.request !== null && to._tag === "Terminating") {
      assert.deepStrictEqual(to.cause, from.exit === null ? from.request.cause : { _tag: "SelfExit" })
    }
    if (!("cause" in from) || !("cause" in to)) return
    const reachedNobody = from._tag === "Terminating" && to._tag === "Flushing" && !from.delivered && !from.forced
    assert.deepStrictEqual(to.cause, reachedNobody ? { _tag: "SelfExit" } : from.cause)
  }

  #checkClaims(to: Lifecycle.State) {
    const status = Lifecycle.statusOf(to)
    assert.strictEqual(status === "kill_failed", to._tag === "Unresolved")
    assert.strictEqual(Status.isSettled(status), to._tag === "Settled")
    const ran = this.#seen.has("Started")
    if (status === "cancelled" || status === "timed_out") assert.isTrue(this.#seen.has("TreeGone") || !ran)
    if (to._tag === "Settled" && ran) assert.isTrue(this.#flushAsked && this.#flushedAfter)
  }
}

const Event = Schema.Union([
  Schema.TaggedStruct("Asked", {}),
  Schema.TaggedStruct("Started", {}),
  Schema.TaggedStruct("StartFailed", {}),
  Schema.TaggedStruct("StartWithdrawn", {}),
  Schema.TaggedStruct("StartLost", {}),
  Schema.TaggedStruct("Exited", { exit: Status.Exit }),
  Schema.TaggedStruct("EndRequested", {
    request: Schema.Struct({ cause: Status.Cause, now: Schema.Boolean })
  }),
  Schema.TaggedStruct("TreeRecorded", { leaderAlive: Schema.Boolean }),
  Schema.TaggedStruct("ExitAwaited", {}),
  Schema.TaggedStruct("LingerEnded", { end: Schema.Boolean }),
  Schema.TaggedStruct("Signalling", {}),
  Schema.TaggedStruct("Signalled", { delivered: Schema.Boolean }),
  Schema.TaggedStruct("GraceElapsed", {}),
  Schema.TaggedStruct("TreeGone", {}),
  Schema.TaggedStruct("ForceElapsed", {}),
  Schema.TaggedStruct("RetryRequested", {}),
  Schema.TaggedStruct("Flushed", {})
])

const startAnswers: ReadonlySet<string> = new Set(["Started", "StartFailed", "StartWithdrawn"])

describe("any sequence of events", () => {
  it.prop(
    "settles once and for good, moves forward only, and claims no end it has no proof of",
    { events: Schema.Array(Event).check(Schema.isMaxLength(60)) },
    ({ events }) => {
      const witness = new Witness()
      let answered = false
      for (const event of events) {
        // The one thing a sequence may not do: a start answers once.
        if (startAnswers.has(event._tag)) {
          if (answered) continue
          answered = true
        }
        witness.step(event)
      }
    },
    { arbitrary: { runs: 3000 } }
  )

  it.prop(
    "leaves the state as it is when an event means nothing in it",
    { events: Schema.Array(Event).check(Schema.isMaxLength(60)) },
    ({ events }) => {
      let state = Lifecycle.initial
      for (const event of events) {
        const [next, actions] = Lifecycle.step(state, event)
        if (next === state) assert.isTrue(actions.every((action) => action !== "Settle" && action !== "Flush"))
        state = next
      }
    },
    { arbitrary: { runs: 1000 } }
  )
})

// ---- a performer that answers as the actions allow

/** All but those that are answered by nothing. A recheck is one look, and may be answered by nothing too. */
const answered: ReadonlySet<Lifecycle.Action> = new Set<Lifecycle.Action>([
  "WithdrawStart",
  "RecordTree",
  "AwaitExit",
  "Linger",
  "SignalTree",
  "AwaitGrace",
  "ForceTree",
  "RetryTree",
  "Flush"
])

type Move = () => void

/** The world around a machine: a driver, callers, and one performer that takes the actions in their order. */
class World {
  readonly witness = new Witness()
  #waiting: Array<Lifecycle.Action> = []
  #start: "unasked" | "asked" | "started" | "failed" = "unasked"
  #exitTold = false
  #signalling = false

  get #state(): Lifecycle.State {
    return this.witness.state
  }

  /** Everything that could happen next, what the performer does last. */
  moves(): ReadonlyArray<Move> {
    return [...this.#outside(), ...this.#performed()]
  }

  /** What keeps happening when nobody interferes: starts are answered, processes end, and the performer performs. */
  settling(): Move | undefined {
    const performed = this.#performed()
    if (performed.length > 0) return performed[0]
    if (this.#state._tag === "Starting") return this.#outside()[0]
    return this.#state._tag === "Running" ? () => this.#exit(zero) : undefined
  }

  #feed(event: Lifecycle.Event): void {
    const before = this.#outstanding()
    const actions = this.witness.step(event).filter((action) => action !== "Hurry")
    for (const action of actions) {
      assert.notInclude(this.#waiting, action, "an action is asked for once")
      this.#waiting.push(action)
    }
    if (this.#state._tag === "Unresolved" || this.#state._tag === "Settled") return
    assert.isAtMost(this.#outstanding().length, 1, `${before.join()} and then ${actions.join()}`)
  }

  #outstanding(): ReadonlyArray<Lifecycle.Action> {
    return this.#waiting.filter((action) =>
      answered.has(action) && (action !== "WithdrawStart" || this.#start === "asked")
    )
  }

  /** No state waits for what nobody will bring. */
  checkAlive(): void {
    const outstanding = this.#outstanding()
    const state = this.#state
    switch (state._tag) {
      case "Starting":
        if (state.request !== null) assert.deepStrictEqual(outstanding, ["WithdrawStart"])
        break
      case "Draining":
      case "Terminating":
      case "Flushing":
        assert.lengthOf(outstanding, 1, `stuck in ${state._tag}`)
        break
      case "Unresolved":
        if (state.retrying && !state.proven) assert.include(outstanding, "RetryTree")
        if (state.proven) assert.include(outstanding, "Flush")
        break
      default:
    }
  }

  #outside(): ReadonlyArray<Move> {
    const moves: Array<Move> = []
    if (this.#start === "unasked" && this.#state._tag === "Starting") moves.push(() => this.#ask())
    if (this.#start === "asked") {
      moves.push(() => this.#answer("Started"))
      if (!this.#exitTold) moves.push(() => this.#answer("StartFailed"))
    }
    if (!this.#exitTold && (this.#start === "asked" || this.#start === "started")) {
      moves.push(() => this.#exit(zero), () => this.#exit(byTerm))
    }
    for (const cause of [stop, deadline, shutdown]) moves.push(() => this.#feed(end(cause)))
    moves.push(() => this.#feed(end(shutdown, true)))
    if (this.#state._tag === "Unresolved") moves.push(() => this.#feed(retryRequested))
    return moves
  }

  #ask(): void {
    this.#start = "asked"
    this.#feed(asked)
  }

  #answer(tag: "Started" | "StartFailed" | "StartWithdrawn"): void {
    this.#start = tag === "Started" ? "started" : "failed"
    this.#feed({ _tag: tag })
  }

  #exit(exit: Status.Exit): void {
    this.#exitTold = true
    this.#feed(exited(exit))
  }

  #done(...events: ReadonlyArray<Lifecycle.Event>): Move {
    return () => {
      this.#waiting.shift()
      for (const event of events) this.#feed(event)
    }
  }

  #performed(): ReadonlyArray<Move> {
    const action = this.#waiting[0]
    const done = (...events: ReadonlyArray<Lifecycle.Event>) => this.#done(...events)
    switch (action) {
      case undefined:
        return []
      case "WithdrawStart":
        if (this.#start !== "asked") return [done()]
        return [
          () => {
            this.#waiting.shift()
            this.#answer("StartWithdrawn")
          },
          done({ _tag: "StartLost" })
        ]
      case "RecordTree":
        return [done(recorded(true)), done(recorded(false))]
      case "AwaitExit":
        return [done(exitAwaited)]
      case "Linger":
        return [done(lingerEnded(false)), done(lingerEnded(true))]
      case "SignalTree":
        return this.#signals()
      case "AwaitGrace":
        return [done(treeGone), done(graceElapsed)]
      case "ForceTree":
        return [done(treeGone), done(forceElapsed)]
      case "RetryTree":
        return this.#start === "started" ? [done(treeGone), done(forceElapsed)] : [done(forceElapsed)]
      case "Recheck":
        return this.#start === "started" ? [done(treeGone), done()] : [done()]
      case "Flush":
        return [done(flushed)]
      default:
        return [done()]
    }
  }

  #signals(): ReadonlyArray<Move> {
    if (!this.#signalling) {
      return [() => {
        this.#signalling = true
        this.#feed(signalling)
      }]
    }
    return [true, false].map((delivered) => () => {
      this.#signalling = false
      this.#waiting.shift()
      this.#feed(signalled(delivered))
    })
  }
}

const ends = new Map<string, number>()

describe("a performer that answers every action as its docstring allows", () => {
  it.prop(
    "always gets it to an end, with one long action asked for at a time",
    {
      choices: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9999 }))).check(
        Schema.isMaxLength(50)
      )
    },
    ({ choices }) => {
      const world = new World()
      for (const choice of choices) {
        const moves = world.moves()
        // Odd numbers let the performer have its turn, so that long histories are reached too.
        const settling = choice % 2 === 1 ? world.settling() : undefined
        const move = settling ?? moves[(choice >> 1) % moves.length]
        move?.()
        world.checkAlive()
      }
      let left = 100
      for (let move = world.settling(); move !== undefined; move = world.settling()) {
        assert.isAbove(left--, 0, "it never comes to an end")
        move()
        world.checkAlive()
      }
      const { state } = world.witness
      assert.include(["Settled", "Unresolved"], state._tag)
      const how = `${state._tag} ${Lifecycle.statusOf(state)}`
      ends.set(how, (ends.get(how) ?? 0) + 1)
    },
    { arbitrary: { runs: 5000 } }
  )

  it("has gone every way there is", () => {
    assert.sameMembers([...ends.keys()], [
      "Settled cancelled",
      "Settled completed",
      "Settled error",
      "Settled timed_out",
      "Unresolved kill_failed"
    ])
  })
})

describe("a process that another runtime has taken over", () => {
  const disowned: Lifecycle.Event = { _tag: "Disowned" }

  it("is let go of wherever it is, settles once, and nothing brings it back", () => {
    for (const { lines, name } of scenarios) {
      let state = Lifecycle.initial
      for (const event of [null, ...lines.map(([event]) => event)]) {
        if (event !== null) state = Lifecycle.step(state, event)[0]
        if (state._tag === "Settled") continue
        const [released, actions] = Lifecycle.step(state, disowned)
        assert.strictEqual(Lifecycle.statusOf(released), "error", name)
        assert.deepStrictEqual(actions.filter((action) => action !== "Hurry" && action !== "WithdrawStart"), ["Settle"])
        assert.strictEqual(actions.includes("WithdrawStart"), state._tag === "Starting" && state.asked, name)
        for (const [later] of [...lines, [disowned]] as const) {
          assert.deepStrictEqual(Lifecycle.step(released, later), [released, []])
        }
      }
    }
  })

  it("stays as it was when it had settled before", () => {
    const settled = walk([[end(stop), "Settled", "Settle"]])
    assert.deepStrictEqual(Lifecycle.step(settled, disowned), [settled, []])
  })
})

describe("a process that somebody else has ended in the runtime's place", () => {
  const by: Lifecycle.Event = { _tag: "Exited", exit: byTerm, by: deadline }

  it("has the status of that cause, once its tree is shown to be gone", () => {
    const state = walk([
      ...running,
      [by, "Terminating", "AwaitGrace"],
      [treeGone, "Flushing", "Flush"],
      [flushed, "Settled", "Settle"]
    ])
    assert.strictEqual(Lifecycle.statusOf(state), "timed_out")
  })

  it("is ended by force where somebody of it is left", () => {
    walk([...running, [by, "Terminating", "AwaitGrace"], [graceElapsed, "Terminating", "ForceTree"]])
  })
})

describe("a process of an earlier life", () => {
  it("goes on where its row says it was", () => {
    const states = (["running", "kill_failed", "completed"] as const).map((status) =>
      Lifecycle.resumed({ status, cause: { _tag: "SelfExit" }, exit: zero })
    )
    assert.deepStrictEqual(states.map((state) => Lifecycle.statusOf(state)), ["running", "kill_failed", "completed"])
  })

  it("is as lost, or as never started, as its status says where the row has no cause", () => {
    const states = (["kill_failed", "error"] as const).map((status) =>
      Lifecycle.resumed({ status, cause: null, exit: null })
    )
    assert.deepStrictEqual(states.map((state) => "cause" in state ? state.cause._tag : null), [
      "OwnerLost",
      "StartFailed"
    ])
    assert.deepStrictEqual(states.map((state) => Lifecycle.statusOf(state)), ["kill_failed", "error"])
  })

  it("is for review when nobody can tell whether it lives", () => {
    const state = walk([[{ _tag: "Untraceable" }, "Unresolved", "ReportUnresolved"]], { _tag: "Running" })
    assert.strictEqual(Lifecycle.statusOf(state), "kill_failed")
  })

  it("is for review by the cause it was to be ended for, unless its exit had been seen before", () => {
    const untraceable: Line = [{ _tag: "Untraceable" }, "Unresolved", "ReportUnresolved"]
    const requested = walk([[end(stop), "Draining", "RecordTree"], untraceable], { _tag: "Running" })
    const seen = walk([[exited(zero), "Draining", "Linger"], [end(stop), "Draining"], untraceable], { _tag: "Running" })
    assert.deepStrictEqual([requested, seen].map((state) => "cause" in state ? state.cause : null), [
      stop,
      { _tag: "SelfExit" }
    ])
  })
})

describe("what is told of a state", () => {
  it("names a phase for every state", () => {
    const phases = new Set(scenarios.flatMap(({ lines }) => {
      let state = Lifecycle.initial
      return lines.map(([event]) => Lifecycle.phaseOf(state = Lifecycle.step(state, event)[0]))
    }))
    assert.sameMembers([...phases], [...Status.Phase.literals])
  })

  it("is running until it is settled or unresolved", () => {
    assert.strictEqual(Lifecycle.statusOf(Lifecycle.initial), "running")
    assert.strictEqual(Lifecycle.statusOf(walk(signalledAfter(end(stop)))), "running")
  })
})
