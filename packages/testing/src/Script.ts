/**
 * What a scripted child does: an immutable description, built up from `child`.
 *
 * A script is steps in order (print, fork, read stdin, end) and traits (which signals it ignores, what its start does).
 * It starts nothing and knows no time: the scripted driver performs it, with Effect's Clock as its only clock. A script
 * without an ending (`exits`, `dies`) runs until something ends it.
 */
import type { SpawnProblem, StreamName } from "@procyon/runtime/ports/ProcessDriver"
import * as Duration from "effect/Duration"

/** When a step is taken: this long after the step before it (the first: after the start). Default: at once. */
export interface Timing {
  readonly after?: Duration.Input | undefined
}

/**
 * How a forked child gets away from its tree.
 *
 * - `group`: a group of its own, in the same session (`set -m`, `timeout`).
 * - `session`: a session and group of its own, parent alive (`setsid`).
 * - `daemon`: a session of its own and its parent gone (a double fork): only the marker finds it.
 * - `invisible`: a daemon with a wiped environment (`env -i setsid`): nothing finds it, unless it was recorded before.
 */
export type Escape = "group" | "session" | "daemon" | "invisible"

/**
 * - `escapes`: how it leaves the tree; stays in its parent's group when absent.
 * - `holdsOutput`: whether it inherits its parent's output and so keeps it from ending. Default: whether its script
 *   prints.
 */
export interface ForkOptions extends Timing {
  readonly escapes?: Escape | undefined
  readonly holdsOutput?: boolean | undefined
}

/** One thing a child does. `afterMillis` counts from the end of the step before. */
export type Step =
  | {
    readonly _tag: "Print"
    readonly stream: StreamName
    readonly bytes: Uint8Array
    readonly afterMillis: number
  }
  | { readonly _tag: "End"; readonly code: number | null; readonly signal: string | null; readonly afterMillis: number }
  | { readonly _tag: "CloseOutput"; readonly streams: ReadonlyArray<StreamName>; readonly afterMillis: number }
  | {
    readonly _tag: "ReadStdin"
    readonly echo: boolean
    readonly closesAfter: number
    readonly afterMillis: number
  }
  | {
    readonly _tag: "Fork"
    readonly name: string
    readonly script: Script
    readonly escapes: Escape | undefined
    readonly holdsOutput: boolean
    /** Forks again after each period; `null`: once. */
    readonly everyMillis: number | null
    readonly afterMillis: number
  }

/** How a start goes. `Infinity`: never. */
export interface Start {
  readonly failsWith: { readonly problem: SpawnProblem; readonly code: string | null } | null
  readonly afterMillis: number
  readonly answersAfterMillis: number
}

/** All that a script says, as data. */
export interface Plan {
  readonly steps: ReadonlyArray<Step>
  readonly start: Start
  readonly ignores: ReadonlyArray<string>
  readonly handlers: Readonly<Record<string, Script>>
  /** How many times a signal is refused with EPERM; `Infinity`: always. */
  readonly refuses: Readonly<Record<string, number>>
  /** How many times a signal is accepted and changes nothing. */
  readonly survives: Readonly<Record<string, number>>
  readonly exitSeenAfterMillis: number
  readonly reaps: boolean
  readonly outrunsLooks: boolean
}

/**
 * The description of a child. Every method gives a new script and leaves the old one as it was, so a common beginning
 * can be shared. Steps are taken in the order they were added; traits hold from the start, wherever they are written.
 */
export interface Script {
  readonly plan: Plan
  /**
   * Step: writes to `stream` (default stdout). Like a pipe it holds 64 KiB: when the reader has paused and it is full,
   * the child waits in this step.
   */
  readonly prints: (
    output: string | Uint8Array,
    options?: Timing & { readonly stream?: StreamName | undefined }
  ) => Script
  /** Step: ends by itself with this code. */
  readonly exits: (code: number, options?: Timing) => Script
  /** Step: ends by this signal, as if somebody outside had sent it. */
  readonly dies: (signal: string, options?: Timing) => Script
  /** Step: closes its output (default both streams) and goes on. */
  readonly closesOutput: (options?: Timing & { readonly stream?: StreamName | undefined }) => Script
  /**
   * Step: reads stdin until it ends, then goes on with the next step; `echo` prints it all to stdout. `closesAfter`:
   * reads this many bytes and then closes its stdin. A script without this step never reads.
   */
  readonly readsStdin: (
    options?: Timing & { readonly echo?: boolean | undefined; readonly closesAfter?: number | undefined }
  ) => Script
  /** Step: starts a child of its own. */
  readonly forks: (name: string, script: Script, options?: ForkOptions) => Script
  /** Step: from now on starts another such child every `every` (at least 1 ms), while the steps after it go on. */
  readonly forksForever: (
    name: string,
    script: Script,
    options: ForkOptions & { readonly every: Duration.Input }
  ) => Script
  /** Trait: these signals change nothing. SIGKILL and SIGSTOP cannot be ignored: naming them has no effect. */
  readonly ignores: (...signals: ReadonlyArray<string>) => Script
  /** Trait: takes the steps of `handler` on this signal, beside what it is doing; without an ending in it, it lives on. */
  readonly onSignal: (signal: string, handler: Script) => Script
  /** Trait: the system refuses this signal with EPERM, `times` times (default: always). */
  readonly refuses: (signal: string, times?: number) => Script
  /** Trait: this signal, SIGKILL too, is accepted and the process stays (state D), `times` times (default: always). */
  readonly survives: (signal: string, times?: number) => Script
  /** Trait: the start takes this long, and until then there is no process. `Infinity`: for ever. */
  readonly startsAfter: (duration: Duration.Input) => Script
  /** Trait: there is a process at once, and `spawn` answers this much later, perhaps after the exit. */
  readonly answersAfter: (duration: Duration.Input) => Script
  /** Trait: there is a process at once, and `spawn` never answers. */
  readonly neverAnswers: () => Script
  /** Trait: nothing is started, and why. `code` is the errno name. */
  readonly failsToStart: (problem: SpawnProblem, code?: string) => Script
  /**
   * Trait: the exit is told this long after the death, as when the event loop was blocked. Until then the leader is
   * dead and unreaped in the process table.
   */
  readonly exitSeenAfter: (duration: Duration.Input) => Script
  /** Trait: never waits for its children, so those that end stay in the table, dead, for as long as it lives. */
  readonly neverReaps: () => Script
  /**
   * Trait: forks faster than a look: no look lists it, though its group is populated, until it is stopped. Signals to
   * its group reach it.
   */
  readonly outrunsLooks: () => Script
}

const emptyPlan: Plan = {
  steps: [],
  start: { failsWith: null, afterMillis: 0, answersAfterMillis: 0 },
  ignores: [],
  handlers: {},
  refuses: {},
  survives: {},
  exitSeenAfterMillis: 0,
  reaps: true,
  outrunsLooks: false
}

const millis = (duration: Duration.Input | undefined): number =>
  duration === undefined ? 0 : Duration.toMillis(Duration.fromInputUnsafe(duration))

const hasPrints = (script: Script): boolean =>
  script.plan.steps.some((step) => step._tag === "Print") || Object.values(script.plan.handlers).some(hasPrints)

class ScriptImpl implements Script {
  readonly plan: Plan
  constructor(plan: Plan) {
    this.plan = plan
  }

  prints(output: string | Uint8Array, options?: Timing & { readonly stream?: StreamName | undefined }): Script {
    return this.#step({
      _tag: "Print",
      stream: options?.stream ?? "stdout",
      bytes: typeof output === "string" ? new TextEncoder().encode(output) : output,
      afterMillis: millis(options?.after)
    })
  }
  exits(code: number, options?: Timing): Script {
    return this.#step({ _tag: "End", code, signal: null, afterMillis: millis(options?.after) })
  }
  dies(signal: string, options?: Timing): Script {
    return this.#step({ _tag: "End", code: null, signal, afterMillis: millis(options?.after) })
  }
  closesOutput(options?: Timing & { readonly stream?: StreamName | undefined }): Script {
    return this.#step({
      _tag: "CloseOutput",
      streams: options?.stream === undefined ? ["stdout", "stderr"] : [options.stream],
      afterMillis: millis(options?.after)
    })
  }
  readsStdin(
    options?: Timing & { readonly echo?: boolean | undefined; readonly closesAfter?: number | undefined }
  ): Script {
    return this.#step({
      _tag: "ReadStdin",
      echo: options?.echo ?? false,
      closesAfter: options?.closesAfter ?? Infinity,
      afterMillis: millis(options?.after)
    })
  }
  forks(name: string, script: Script, options?: ForkOptions): Script {
    return this.#fork(name, script, options, null)
  }
  forksForever(name: string, script: Script, options: ForkOptions & { readonly every: Duration.Input }): Script {
    return this.#fork(name, script, options, Math.max(1, millis(options.every)))
  }
  ignores(...signals: ReadonlyArray<string>): Script {
    return this.#with({ ignores: [...this.plan.ignores, ...signals] })
  }
  onSignal(signal: string, handler: Script): Script {
    return this.#with({ handlers: { ...this.plan.handlers, [signal]: handler } })
  }
  refuses(signal: string, times = Infinity): Script {
    return this.#with({ refuses: { ...this.plan.refuses, [signal]: times } })
  }
  survives(signal: string, times = Infinity): Script {
    return this.#with({ survives: { ...this.plan.survives, [signal]: times } })
  }
  startsAfter(duration: Duration.Input): Script {
    return this.#with({ start: { ...this.plan.start, afterMillis: millis(duration) } })
  }
  answersAfter(duration: Duration.Input): Script {
    return this.#with({ start: { ...this.plan.start, answersAfterMillis: millis(duration) } })
  }
  neverAnswers(): Script {
    return this.answersAfter(Infinity)
  }
  failsToStart(problem: SpawnProblem, code?: string): Script {
    return this.#with({ start: { ...this.plan.start, failsWith: { problem, code: code ?? null } } })
  }
  exitSeenAfter(duration: Duration.Input): Script {
    return this.#with({ exitSeenAfterMillis: millis(duration) })
  }
  neverReaps(): Script {
    return this.#with({ reaps: false })
  }
  outrunsLooks(): Script {
    return this.#with({ outrunsLooks: true })
  }

  #fork(name: string, script: Script, options: ForkOptions | undefined, everyMillis: number | null): Script {
    return this.#step({
      _tag: "Fork",
      name,
      script,
      escapes: options?.escapes,
      holdsOutput: options?.holdsOutput ?? hasPrints(script),
      everyMillis,
      afterMillis: millis(options?.after)
    })
  }
  #step(step: Step): Script {
    return this.#with({ steps: [...this.plan.steps, step] })
  }
  #with(changes: Partial<Plan>): Script {
    return new ScriptImpl({ ...this.plan, ...changes })
  }
}

/** A child that does nothing and runs until it is ended: where every script begins. */
export const child: Script = new ScriptImpl(emptyPlan)
