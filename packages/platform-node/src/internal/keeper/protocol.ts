/**
 * What an application and its keeper say to each other: one JSON value a line.
 *
 * Arguments and environments travel here and nowhere else, so the channels are socket pairs that only the two have. One for
 * each direction: whoever writes to an end that has gone loses its socket, and with it what it had not read yet.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Exit } from "@procyon/runtime/domain/Status"
import type { Member, SignalOutcome, SpawnProblem, TreeLook } from "@procyon/runtime/ports/ProcessDriver"

/** The keeper's ends: the one it reads orders from, and the one it writes reports to. */
export const ordersFd = 3
export const reportsFd = 4

/** A start. `stderr: null`: one FIFO for both streams. `stdin: null`: empty. All paths are absolute. */
export interface Start {
  readonly _tag: "Start"
  readonly id: number
  readonly marker: string
  readonly file: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly fifos: { readonly stdin: string | null; readonly stdout: string; readonly stderr: string | null }
  /** From SIGTERM to SIGKILL, when the keeper ends the tree because nobody else can. */
  readonly graceMillis: number
}

/** What is answered by a report with the same `id`, and may be asked again of another keeper. */
export type Question =
  | { readonly _tag: "Look"; readonly roots: ReadonlyArray<Identity> }
  | {
    readonly _tag: "Signal"
    readonly root: Identity
    readonly members: ReadonlyArray<Member>
    readonly groups: ReadonlyArray<number>
    readonly signal: string
  }
  /** Kills these trees, freezing them first, and answers when they are gone or cannot be ended. */
  | { readonly _tag: "End"; readonly roots: ReadonlyArray<Identity> }
  | { readonly _tag: "MakeFifos"; readonly names: ReadonlyArray<string> }

/** What an application tells its keeper. */
export type Order =
  | Start
  /** Takes a start back that is still queued: it is answered as `Withdrawn`. Otherwise nothing happens. */
  | { readonly _tag: "Withdraw"; readonly id: number }
  /** A leader that is not this keeper's child: ended with the application, its exit told once a look finds it gone. */
  | { readonly _tag: "Attach"; readonly root: Identity; readonly graceMillis: number }
  /** A directory of FIFOs that another keeper has made: it goes with the application, however that ends. */
  | { readonly _tag: "Remove"; readonly directory: string }
  /** A tree that is none of the keeper's business any more. */
  | { readonly _tag: "Release"; readonly marker: string }
  | { readonly _tag: "Ask"; readonly id: number; readonly question: Question }
  | { readonly _tag: "Ping" }

/** A look without its root, and which groups are known to be the tree's. */
export type Seen = Omit<TreeLook, "root"> & { readonly groups: ReadonlyArray<number> }

/** What answers a question. */
export type Answer =
  | { readonly _tag: "Looked"; readonly looks: ReadonlyArray<Seen> }
  | { readonly _tag: "Signalled"; readonly outcomes: ReadonlyArray<SignalOutcome> }
  | { readonly _tag: "Ended" }
  | { readonly _tag: "FifosMade"; readonly made: boolean; readonly code: string | null }

/** What a keeper tells its application. Each start is answered by one of `Started`, `Failed` and `Withdrawn`. */
export type Report =
  | { readonly _tag: "Ready" }
  | { readonly _tag: "Started"; readonly id: number; readonly pid: number; readonly startedAt: number }
  | { readonly _tag: "Failed"; readonly id: number; readonly problem: SpawnProblem; readonly code: string | null }
  | { readonly _tag: "Withdrawn"; readonly id: number }
  | { readonly _tag: "Exited"; readonly marker: string; readonly exit: Exit }
  | { readonly _tag: "Answered"; readonly id: number; readonly answer: Answer }
  | { readonly _tag: "Pong" }

/** One line. JSON has no line feed but between values. */
export const encode = (message: Order | Report): string => `${JSON.stringify(message)}\n`

/** Puts lines together that arrive in pieces, and hands each on. A line may be megabytes long. */
export const lines = (use: (line: string) => void): (text: string) => void => {
  let pieces: Array<string> = []
  return (text) => {
    let from = 0
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", from)) {
      pieces.push(text.slice(from, at))
      from = at + 1
      const line = pieces.join("")
      pieces = []
      use(line)
    }
    if (from < text.length) pieces.push(text.slice(from))
  }
}
