/**
 * What a runtime asked of the scripted driver, and what it was told, as data, and as lines that a test can keep as a
 * snapshot: the same from run to run, with virtual times.
 *
 * It stands at the driver itself: what a fault kept from it is not there (see `Faults.Injector.injected`), and what a
 * fault has doubled is there twice.
 */
import type { Exit } from "@procyon/runtime/domain/Status"
import type { SignalOutcome, StreamName, TreeLook } from "@procyon/runtime/ports/ProcessDriver"

/** One process or group that a signal was for. `process`: its name, or `group 1001`. */
export interface Signalled {
  readonly process: string
  readonly pid: number
  readonly outcome: SignalOutcome["outcome"]
}

/** What a look answered of one root. `members`: the names of the living, the leader among them. */
export interface Looked {
  readonly process: string
  readonly leader: TreeLook["leader"]
  readonly members: ReadonlyArray<string>
  readonly complete: boolean
}

interface Common {
  /** When it was asked or told: milliseconds of the world's clock. */
  readonly atMillis: number
  /** The name of the leader it is about, as in `children`; `nobody` of an attach that found none. */
  readonly process: string
}

/**
 * One thing that was asked, or told.
 *
 * - `spawn`: `answer` is `started`, a problem with its code (`Other (EEXIST)`), `interrupted`, or `null` as long as there is
 *   none. `answeredAtMillis` is when it came.
 * - `attach`, `release`: no more than that. `finish`, `resume`, `drain`: of its output; `drain` tells what it found.
 * - `look`: every root of one look, in order; `process` is empty.
 * - `signal`: every target of one call, in order, with what became of it.
 * - `write`: `bytes` were handed over, and `taken` taken; `null`: not yet. `closeStdin`: `now` drops what was not taken.
 * - `exit`: the leader's exit, when it was told to whoever had started it or attached to it.
 */
export type Recorded =
  | Common & {
    readonly call: "spawn"
    readonly detached: boolean
    readonly answer: string | null
    readonly answeredAtMillis: number | null
  }
  | Common & { readonly call: "attach" }
  | Common & { readonly call: "finish" }
  | Common & { readonly call: "release" }
  | Common & { readonly call: "resume"; readonly stream: StreamName }
  | Common & { readonly call: "drain"; readonly stream: StreamName; readonly answer: string }
  | Common & { readonly call: "look"; readonly found: ReadonlyArray<Looked> }
  | Common & { readonly call: "signal"; readonly signal: string; readonly targets: ReadonlyArray<Signalled> }
  | Common & { readonly call: "write"; readonly bytes: number; readonly taken: number | null }
  | Common & { readonly call: "closeStdin"; readonly now: boolean }
  | Common & { readonly call: "exit"; readonly exit: Exit }

/** The names of what can be recorded. */
export type Call = Recorded["call"]

/**
 * - `only`: which entries; absent: those that are `essential`. `() => true`: all.
 * - `from`: which time is called 0. Absent: the beginning of the world's clock, which under a test clock is 0.
 */
export interface Format {
  readonly only?: ((entry: Recorded) => boolean) | undefined
  readonly from?: number | undefined
}

/** Neither a question nor about the flow of output, and no SIGCONT, which wakes whom another signal ends. */
export const essential = (entry: Recorded): boolean =>
  entry.call === "signal" ? entry.signal !== "SIGCONT" : !["look", "drain", "resume", "finish"].includes(entry.call)

/** Only these calls, for `only`. */
export const calls = (...names: ReadonlyArray<Call>) => (entry: Recorded): boolean => names.includes(entry.call)

/**
 * Aligned columns, an entry a line, or a line a target or root: the seconds, what, whose, and what came of it. Ends without
 * a line break; empty without entries.
 *
 * ```text
 *  0.000  spawn    server  started
 *  5.000  SIGTERM  server  sent
 * 10.000  SIGKILL  server  refused
 * ```
 */
export const format = (recorded: ReadonlyArray<Recorded>, options: Format = {}): string => {
  const { from = 0, only = essential } = options
  const rows = recorded.filter((entry) => only(entry)).flatMap((entry) => {
    const time = ((entry.atMillis - from) / 1000).toFixed(3)
    return linesOf(entry).map((line) => ({ time, line }))
  })
  const width = (of: (row: (typeof rows)[number]) => string): number =>
    rows.reduce((widest, row) => Math.max(widest, of(row).length), 0)
  const times = width(({ time }) => time)
  const whats = width(({ line: [what] }) => what)
  const whose = width(({ line: [, process] }) => process)
  return rows.map(({ line: [what, process, answer], time }) =>
    `${time.padStart(times)}  ${what.padEnd(whats)}  ${process.padEnd(whose)}  ${answer}`.trimEnd()
  ).join("\n")
}

/** What, whose, and what came of it. */
type Line = readonly [string, string, string]

const linesOf = (entry: Recorded): ReadonlyArray<Line> => {
  const { call, process } = entry
  switch (entry.call) {
    case "spawn":
      return [[call, process, answerOf(entry)]]
    case "signal":
      return entry.targets.map((target) => [entry.signal, target.process, target.outcome])
    case "look":
      return entry.found.map((look) => [call, look.process, foundOf(look)])
    case "write":
      return [[call, process, `${entry.taken ?? "none yet"} of ${entry.bytes} bytes`]]
    case "closeStdin":
      return [[call, process, entry.now ? "now" : ""]]
    case "drain":
      return [[call, process, `${entry.stream} ${entry.answer}`]]
    case "resume":
      return [[call, process, entry.stream]]
    case "exit":
      return [[call, process, exitOf(entry.exit)]]
    default:
      return [[call, process, ""]]
  }
}

const answerOf = ({ answer, answeredAtMillis, atMillis, detached }: Extract<Recorded, { call: "spawn" }>): string => {
  if (answer === null || answeredAtMillis === null) return "no answer"
  const late = answeredAtMillis - atMillis
  return `${answer}${detached ? ", detached" : ""}${late > 0 ? `, after ${late / 1000} s` : ""}`
}

const foundOf = ({ complete, leader, members }: Looked): string =>
  complete ? `leader ${leader}: ${members.length === 0 ? "nobody" : members.join(", ")}` : "cut short"

const exitOf = ({ code, signal }: Exit): string => code !== null ? `code ${code}` : signal ?? "unknown"
