/**
 * A fault as data, and which faults make sense where.
 */
import { BlobError } from "@procyon/runtime/ports/BlobStore"
import { SpawnProblem } from "@procyon/runtime/ports/ProcessDriver"
import { LedgerError } from "@procyon/runtime/ports/ProcessLedger"
import { WorkspaceError } from "@procyon/runtime/ports/WorkspaceStore"

/** The ports a fault can strike at. */
export type Port = "driver" | "ledger" | "blobs" | "workspaces"

/**
 * At which of the calls it is about a fault strikes. Each fault counts them for itself, from 1, also those that another
 * fault strikes at; after `heal` none of them strikes any more.
 *
 * - `Nth`: at the n-th, and at those after it as long as `times` (default 1) are not used up.
 * - `From`: at the n-th and all after it.
 * - `Chance`: at each with this chance, from 0 to 1, by a generator seeded with what the injector was made with and with
 *   the fault itself: so other faults, added or taken away, do not move it.
 * - `Always`: at each.
 */
export type When =
  | { readonly _tag: "Nth"; readonly n: number; readonly times?: number | undefined }
  | { readonly _tag: "From"; readonly n: number }
  | { readonly _tag: "Chance"; readonly chance: number }
  | { readonly _tag: "Always" }

/**
 * What happens then. `done`: whether what was asked for is done all the same; absent: it is not.
 *
 * - `Fail`: fails as its port fails, with this problem; when absent, `TooManyProcesses` of a start, `Unavailable` of a ledger,
 *   `NoSpace` of blobs, `Denied` of workspaces. `code` is an errno, for a start only; `retryable` is for blobs, true when
 *   absent. Of a start that was done only `OutcomeUnknown` may be told, and what was started is ended.
 * - `Delay`: the call is made that many milliseconds later, or its answer comes later. `uninterruptible`: whoever gives
 *   up waiting cannot call it off, and it is done late.
 * - `Hang`: no answer, ever; a start that was done and is interrupted ends what it started. `uninterruptible`: not even
 *   that ends it, before `heal`.
 * - `Die`: a defect.
 * - `Tear`: a part is done. A look is cut short (`complete: false`, nobody listed); half of the bytes go into a child's
 *   stdin; half of the leases are renewed and the call fails as `Unavailable`; half of a read comes, and then `Other`; half
 *   of an append is taken and it fails as `NoSpace`: then its writer fails for ever, as what it holds is torn.
 * - `Duplicate`: it is done twice, one after the other, and what is told is the first answer or the second, which past
 *   the promise of its port may be a plain `false`. A start and an attach are done once, and their exit is told twice.
 * - `LoseExit`: the exit of this leader is never told by itself.
 * - `ExitEarly`: the start answers only when its exit was told, or after `atMostMillis` (5,000 when absent).
 * - `Refuse`: no signal is sent, and each target has refused it with this errno.
 * - `Swallow`: no signal is sent, and each target is told as `sent`.
 * - `LeaseLost`: before the call, another runtime, which is gone by now, has taken over the rows it is about.
 * - `KeeperGone`: the process that starts our children is lost: what is being started fails with `OutcomeUnknown` and leaves
 *   nothing, starts fail with `ENOTCONN` for so many milliseconds, and the exits of children that live are told as unknown
 *   when they come. Detached ones are not its children.
 * - `Stall`: the event loop of the runtime is blocked for so long: no timer fires, no call is made or answered, no exit
 *   and no output is told. Then all that is due happens.
 * - `WallClock`: from now on the wall clock is so far ahead of the world's (negative: behind); the monotonic one goes on.
 */
export type What =
  | {
    readonly _tag: "Fail"
    readonly problem?: string | undefined
    readonly code?: string | undefined
    readonly retryable?: boolean | undefined
    readonly done?: boolean | undefined
  }
  | {
    readonly _tag: "Delay"
    readonly millis: number
    readonly of?: "call" | "answer" | undefined
    readonly uninterruptible?: boolean | undefined
  }
  | { readonly _tag: "Hang"; readonly uninterruptible?: boolean | undefined; readonly done?: boolean | undefined }
  | { readonly _tag: "Die"; readonly done?: boolean | undefined }
  | { readonly _tag: "Tear" }
  | { readonly _tag: "Duplicate"; readonly answer?: "first" | "second" | undefined }
  | { readonly _tag: "LoseExit" }
  | { readonly _tag: "ExitEarly"; readonly atMostMillis?: number | undefined }
  | { readonly _tag: "Refuse"; readonly code?: string | undefined }
  | { readonly _tag: "Swallow" }
  | { readonly _tag: "LeaseLost" }
  | { readonly _tag: "KeeperGone"; readonly millis: number }
  | { readonly _tag: "Stall"; readonly millis: number }
  | { readonly _tag: "WallClock"; readonly aheadMillis: number }

/** One thing that goes wrong. `call` is a member of the port, with the group's name before it where it is in a group. */
export interface Fault {
  readonly port: Port
  readonly call: string
  readonly when: When
  readonly what: What
}

type Kind = What["_tag"]

const anywhere: ReadonlyArray<Kind> = ["Delay", "Hang", "Die", "Stall", "WallClock"]
const twice: ReadonlyArray<Kind> = [...anywhere, "Duplicate"]
const failing: ReadonlyArray<Kind> = [...anywhere, "Fail"]
const failingTwice: ReadonlyArray<Kind> = [...failing, "Duplicate"]

/** Each call a fault can strike at, and the kinds that make sense there. */
export const calls: Readonly<Record<Port, Readonly<Record<string, ReadonlyArray<Kind>>>>> = {
  driver: {
    spawn: [...failingTwice, "LoseExit", "ExitEarly", "KeeperGone"],
    attach: [...twice, "LoseExit"],
    probe: [...twice, "KeeperGone"],
    look: [...twice, "Tear", "KeeperGone"],
    signal: [...twice, "Refuse", "Swallow", "KeeperGone"],
    "child.write": [...anywhere, "Tear"],
    "child.closeStdin": twice,
    "child.finish": twice,
    "child.release": twice,
    "detachedFiles.read": [...twice, "Tear"],
    "detachedFiles.remove": twice
  },
  ledger: {
    insert: failingTwice,
    transition: [...failingTwice, "LeaseLost"],
    renew: [...failingTwice, "Tear", "LeaseLost"],
    get: failingTwice,
    rows: failingTwice,
    remove: failingTwice,
    "workspaces.insert": failingTwice,
    "workspaces.update": failingTwice,
    "workspaces.remove": failingTwice,
    "workspaces.list": failingTwice
  },
  blobs: {
    write: failing,
    append: [...failing, "Tear"],
    seal: failing,
    read: [...failing, "Tear"],
    lease: failing,
    remove: failingTwice
  },
  workspaces: { locate: failingTwice, create: failingTwice, remove: failingTwice }
}

/** What each port can fail with. */
const problems: Readonly<Record<Port, ReadonlyArray<string>>> = {
  driver: SpawnProblem.literals,
  ledger: LedgerError.fields.problem.literals,
  blobs: BlobError.fields.problem.literals,
  workspaces: WorkspaceError.fields.problem.literals
}

/** What is wrong with a fault, or `null`. */
export const mistakeIn = ({ call, port, what, when }: Fault): string | null => {
  const kinds = Object.hasOwn(calls, port) && Object.hasOwn(calls[port], call) ? calls[port][call] : undefined
  if (kinds === undefined) return "there is no such call"
  if (!kinds.includes(what._tag)) return `${what._tag} makes no sense there`
  if (call === "spawn" && what._tag === "Die" && what.done === true) {
    return "of a start that was done somebody has to know"
  }
  return mistakeInWhen(when) ?? mistakeInWhat(port, what)
}

const isTime = (millis: number): boolean => Number.isFinite(millis) && millis >= 0
const isCount = (count: number): boolean => Number.isInteger(count) && count >= 1

const mistakeInWhen = (when: When): string | null => {
  switch (when._tag) {
    case "Nth":
      return isCount(when.n) && isCount(when.times ?? 1) ? null : "calls are counted from 1"
    case "From":
      return isCount(when.n) ? null : "calls are counted from 1"
    case "Chance":
      return when.chance >= 0 && when.chance <= 1 ? null : "a chance is from 0 to 1"
    case "Always":
      return null
  }
}

const mistakeInWhat = (port: Port, what: What): string | null => {
  switch (what._tag) {
    case "Fail":
      if (what.problem !== undefined && !problems[port].includes(what.problem)) {
        return `${what.problem} is none of its problems`
      }
      return port === "driver" && what.done === true && what.problem !== "OutcomeUnknown"
        ? "only of an unknown outcome something may have been started"
        : null
    case "Delay":
    case "KeeperGone":
    case "Stall":
      return isTime(what.millis) ? null : "its time has to be a bound"
    case "ExitEarly":
      return isTime(what.atMostMillis ?? 0) ? null : "its time has to be a bound"
    case "WallClock":
      return Number.isFinite(what.aheadMillis) ? null : "its time has to be a bound"
    default:
      return null
  }
}

/** What it is about, in a word: `driver.spawn`. */
export const nameOf = ({ call, port }: Pick<Fault, "call" | "port">): string => `${port}.${call}`

/** What happens, in a few words: `Fail TooManyProcesses EAGAIN`, `Delay 500 of answer`. */
export const describe = (what: What): string => {
  switch (what._tag) {
    case "Fail":
      return words("Fail", what.problem, what.code, what.done === true && "done")
    case "Delay":
      return words(
        "Delay",
        what.millis,
        what.of === "answer" && "of the answer",
        what.uninterruptible === true && "uninterruptible"
      )
    case "Hang":
      return words("Hang", what.uninterruptible === true && "uninterruptible", what.done === true && "done")
    case "Die":
      return words("Die", what.done === true && "done")
    case "Duplicate":
      return words("Duplicate", what.answer === "second" && "second answer")
    case "Refuse":
      return words("Refuse", what.code ?? "EPERM")
    case "KeeperGone":
    case "Stall":
      return words(what._tag, what.millis)
    case "WallClock":
      return words("WallClock", what.aheadMillis)
    default:
      return what._tag
  }
}

const words = (...all: ReadonlyArray<string | number | false | undefined>): string =>
  all.filter((word) => word !== undefined && word !== false).join(" ")
