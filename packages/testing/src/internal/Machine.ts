/**
 * The scripted operating system: a process table whose processes perform scripts.
 *
 * It keeps to Unix where a driver could tell the difference: groups and sessions, orphans adopted by init, zombies until
 * their parent waits, signals that a stopped process gets when it is continued, SIGPIPE. It knows nothing of trees,
 * roots or runtimes; `ScriptedDriver` reads it the way a real driver reads the kernel.
 */
import type { Exit } from "@procyon/runtime/domain/Status"
import type { StreamName } from "@procyon/runtime/ports/ProcessDriver"
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Script, Step } from "../Script.ts"
import type { InputPipe, Output } from "./Pipes.ts"

/** Who adopts orphans, and reaps them at once. Never in the table. */
const initPid = 1
const firstPid = 1001
/** Like Linux: start times are ticks of 10 ms since a boot some time before the test. */
const ticksAtStart = 100_000
const millisPerTick = 10

const harmlessByDefault: ReadonlySet<string> = new Set(["SIGCHLD", "SIGURG", "SIGWINCH", "SIGCONT"])
const stopSignals: ReadonlySet<string> = new Set(["SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"])

export type Delivery = "sent" | "gone" | "refused"

export interface Birth {
  /** What a test calls it. */
  readonly label: string
  /** What the process table calls it. */
  readonly name: string
  readonly script: Script
  readonly parent: number
  readonly group: number | "own"
  readonly session: number | "own"
  readonly marker: string | null
  readonly stdin: InputPipe | null
  readonly outputs: Partial<Record<StreamName, Output>>
  readonly onReap: ((exit: Exit) => void) | null
}

/** One entry of the table. */
export class Process {
  readonly pid: number
  readonly startedAt: number
  readonly label: string
  readonly name: string
  readonly script: Script
  readonly group: number
  readonly session: number
  readonly marker: string | null
  readonly stdin: InputPipe | null
  readonly outputs: Partial<Record<StreamName, Output>>
  readonly onReap: ((exit: Exit) => void) | null
  parent: number
  exit: Exit | null = null
  stopped = false
  /** Accepted a SIGKILL and is still there. */
  stuck = false
  readonly pendingSignals = new Set<string>()
  readonly refusals: Map<string, number>
  readonly survivals: Map<string, number>
  readonly fibers = new Set<Fiber.Fiber<void>>()
  readonly continueWaiters: Array<() => void> = []

  constructor(pid: number, startedAt: number, birth: Birth) {
    this.pid = pid
    this.startedAt = startedAt
    this.label = birth.label
    this.name = birth.name
    this.script = birth.script
    this.parent = birth.parent
    this.group = birth.group === "own" ? pid : birth.group
    this.session = birth.session === "own" ? pid : birth.session
    this.marker = birth.marker
    this.stdin = birth.stdin
    this.outputs = birth.outputs
    this.onReap = birth.onReap
    this.refusals = new Map(Object.entries(birth.script.plan.refuses))
    this.survivals = new Map(Object.entries(birth.script.plan.survives))
  }

  /** A zombie is dead. */
  get alive(): boolean {
    return this.exit === null
  }

  /** The state letter of the process table. */
  get state(): string {
    return this.exit !== null ? "Z" : this.stopped ? "T" : this.stuck ? "D" : "S"
  }

  /** Whether a look at the table can see it. */
  get visible(): boolean {
    return !this.script.plan.outrunsLooks || this.stopped || !this.alive
  }
}

export class Machine {
  readonly table = new Map<number, Process>()
  readonly #clock: Clock.Clock
  readonly #fork: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  #nextPid = firstPid
  #started = 0

  /** `context` holds the clock and the scheduler that all scripts run on. */
  constructor(clock: Clock.Clock, context: Context.Context<never>) {
    this.#clock = clock
    this.#fork = Effect.runForkWith(context)
  }

  get nowMillis(): number {
    return this.#clock.currentTimeMillisUnsafe()
  }

  /** How many processes were ever started. */
  get started(): number {
    return this.#started
  }

  sleep(millis: number): Effect.Effect<void> {
    if (millis === Infinity) return Effect.never
    return millis > 0 ? this.#clock.sleep(Duration.millis(millis)) : Effect.void
  }

  /** Does it on a turn of its own, soon, and without any time passing. */
  defer(action: () => void): void {
    this.#fork(Effect.andThen(Effect.yieldNow, Effect.sync(action)))
  }

  /** The living processes, oldest first. */
  get living(): ReadonlyArray<Process> {
    return [...this.table.values()].filter((process) => process.alive)
  }

  /** Starts one. `pid`: of a process that is no longer in the table, to be used again. */
  start(birth: Birth, pid: number = this.#nextPid++): Process {
    const process = new Process(pid, ticksAtStart + Math.floor(this.nowMillis / millisPerTick), birth)
    this.table.set(pid, process)
    this.#started++
    for (const pipe of Object.values(birth.outputs)) pipe.writers.add(process)
    this.perform(process, birth.script.plan.steps)
    return process
  }

  /** Takes these steps, beside what the process is doing already. */
  perform(process: Process, steps: ReadonlyArray<Step>): void {
    if (steps.length === 0) return
    const fiber = this.#fork(Effect.andThen(
      Effect.yieldNow,
      Effect.forEach(steps, (step) => this.#take(process, step), { discard: true })
    ))
    process.fibers.add(fiber)
    fiber.addObserver(() => process.fibers.delete(fiber))
  }

  /** Delivers a signal the way the kernel does. */
  deliver(process: Process, signal: string): Delivery {
    if (!process.alive) return "gone"
    if (takeOne(process.refusals, signal)) return "refused"
    if (signal === "SIGKILL") {
      if (takeOne(process.survivals, signal)) process.stuck = true
      else this.end(process, { code: null, signal })
    } else if (signal === "SIGCONT") this.#continue(process)
    else if (signal === "SIGSTOP") process.stopped = true
    else if (process.stopped) process.pendingSignals.add(signal)
    else this.#act(process, signal)
    return "sent"
  }

  /** Ends it, whatever its script says about signals. */
  end(process: Process, exit: Exit): void {
    if (!process.alive) return
    process.exit = exit
    for (const fiber of process.fibers) fiber.interruptUnsafe()
    process.stdin?.closeReader()
    for (const pipe of Object.values(process.outputs)) pipe.letGo(process)
    for (const other of this.table.values()) {
      if (other.parent !== process.pid) continue
      other.parent = initPid
      if (!other.alive) this.table.delete(other.pid)
    }
    this.#fork(Effect.andThen(
      Effect.yieldNow,
      Effect.sync(() => {
        for (const pipe of Object.values(process.outputs)) pipe.pump()
      })
    ))
    this.#leaveTable(process, exit)
  }

  /** Stops every script. For the end of the layer. */
  shutdown(): void {
    for (const process of this.table.values()) for (const fiber of process.fibers) fiber.interruptUnsafe()
  }

  #leaveTable(process: Process, exit: Exit): void {
    if (process.onReap === null) {
      const parent = this.table.get(process.parent)
      if (parent === undefined || parent.script.plan.reaps) this.table.delete(process.pid)
      return
    }
    const onReap = process.onReap
    this.#fork(Effect.gen({ self: this }, function*() {
      yield* this.sleep(process.script.plan.exitSeenAfterMillis)
      yield* Effect.yieldNow
      // What a resumed pipe still holds comes before the exit.
      for (const pipe of Object.values(process.outputs)) pipe.pump()
      this.table.delete(process.pid)
      onReap(exit)
    }))
  }

  #continue(process: Process): void {
    process.stopped = false
    for (const signal of process.pendingSignals) {
      process.pendingSignals.delete(signal)
      if (process.alive) this.#act(process, signal)
    }
    for (const waiter of process.continueWaiters.splice(0)) waiter()
  }

  #act(process: Process, signal: string): void {
    const { handlers, ignores } = process.script.plan
    if (takeOne(process.survivals, signal)) return
    const handler = handlers[signal]
    if (handler !== undefined) return this.perform(process, handler.plan.steps)
    if (ignores.includes(signal) || harmlessByDefault.has(signal)) return
    if (stopSignals.has(signal)) process.stopped = true
    else this.end(process, { code: null, signal })
  }

  #take(process: Process, step: Step): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      yield* this.sleep(step.afterMillis)
      yield* whenRunning(process)
      switch (step._tag) {
        case "Print":
          return yield* this.#print(process, step.stream, step.bytes)
        case "End":
          return this.end(process, { code: step.code, signal: step.signal })
        case "CloseOutput":
          return this.#closeOutput(process, step.streams)
        case "ReadStdin":
          return yield* this.#readStdin(process, step)
        case "Fork":
          return this.#forkChild(process, step)
      }
    })
  }

  #print(process: Process, stream: StreamName, bytes: Uint8Array): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const pipe = process.outputs[stream]
      let written = 0
      while (pipe !== undefined && pipe.writers.has(process) && written < bytes.length) {
        if (pipe.closed) return this.#act(process, "SIGPIPE")
        written += pipe.write(bytes.subarray(written))
        if (written < bytes.length) yield* called(pipe.roomWaiters)
        yield* whenRunning(process)
      }
    })
  }

  #closeOutput(process: Process, streams: ReadonlyArray<StreamName>): void {
    for (const stream of streams) process.outputs[stream]?.letGo(process)
    for (const stream of streams) process.outputs[stream]?.pump()
  }

  #readStdin(process: Process, step: Step & { readonly _tag: "ReadStdin" }): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const stdin = process.stdin
      let left = step.closesAfter
      while (stdin !== null && left > 0 && !stdin.ended) {
        if (stdin.available === 0) yield* called(stdin.readWaiters)
        yield* whenRunning(process)
        const bytes = stdin.read(left)
        left -= bytes.length
        if (step.echo) yield* this.#print(process, "stdout", bytes)
      }
      if (left === 0) stdin?.closeReader()
    })
  }

  #forkChild(process: Process, step: Step & { readonly _tag: "Fork" }): void {
    const { escapes } = step
    const away = escapes === "session" || escapes === "daemon" || escapes === "invisible"
    this.start({
      label: step.name,
      name: step.name,
      script: step.script,
      parent: escapes === "daemon" || escapes === "invisible" ? initPid : process.pid,
      group: away || escapes === "group" ? "own" : process.group,
      session: away ? "own" : process.session,
      marker: escapes === "invisible" ? null : process.marker,
      stdin: null,
      outputs: step.holdsOutput ? process.outputs : {},
      onReap: null
    })
    if (step.everyMillis !== null) this.perform(process, [{ ...step, afterMillis: step.everyMillis }])
  }
}

/** Counts one down; whether there was one. */
const takeOne = (times: Map<string, number>, signal: string): boolean => {
  const left = times.get(signal) ?? 0
  if (left <= 0) return false
  times.set(signal, left - 1)
  return true
}

/** Waits to be called back, and goes on in a turn of its own: never inside the call that made it possible. */
const called = (waiters: Array<() => void>): Effect.Effect<void> =>
  Effect.andThen(
    Effect.callback<void>((resume) => {
      waiters.push(() => resume(Effect.void))
    }),
    Effect.yieldNow
  )

/** A stopped process does nothing until it is continued. */
const whenRunning = (process: Process): Effect.Effect<void> =>
  Effect.suspend(() =>
    process.stopped ? Effect.andThen(called(process.continueWaiters), whenRunning(process)) : Effect.void
  )
