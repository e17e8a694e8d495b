/**
 * What to run: bounded, validated before anything starts, and redacted wherever it is shown.
 *
 * A `CommandSpec` says nothing about policy (deadlines, retention, ownership): those belong to the caller of a service.
 * Commands of `effect/process` are taken wherever a `CommandSpec` is; they are read by their structure, so nothing of
 * that module is loaded. `resolve` is the one door: what has not passed it must not reach a driver.
 */
import type * as Duration from "effect/Duration"
import { dual } from "effect/Function"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as Bounds from "./Bounds.ts"
import { InvalidCommand, type Problem } from "./InvalidCommand.ts"
import * as Printable from "./Printable.ts"

export { InvalidCommand }

/** An argument or an environment value. A `Redacted` one reaches the child and nothing else. */
export type Word = string | Redacted.Redacted<string>

/**
 * - `cwd`: the working directory; that of this process when absent.
 * - `env`: values set for the child; `undefined` removes a name that would be inherited.
 * - `inheritEnv`: `"all"` (default), `"none"`, or the names to inherit. The runtime's marker is set under each of them.
 * - `stdin`: `"none"` (default: the child reads an end of file at once), `"open"` (fed by `write`, ended by
 *   `closeStdin`), bytes, or a stream that the runtime feeds and then closes.
 * - `stopSignal`: the first signal of a termination; SIGTERM when absent.
 */
export interface Options {
  readonly cwd?: string | undefined
  readonly env?: Readonly<Record<string, Word | undefined>> | undefined
  readonly inheritEnv?: "all" | "none" | ReadonlyArray<string> | undefined
  readonly stdin?: "none" | "open" | Uint8Array | Stream.Stream<Uint8Array, unknown> | undefined
  readonly stopSignal?: string | undefined
}

/** What is run: an executable with its arguments, which no shell reads, or one script for a named shell. */
export type Program =
  | { readonly _tag: "Exec"; readonly command: string; readonly args: ReadonlyArray<Word> }
  | { readonly _tag: "Shell"; readonly shell: string; readonly script: Word }

/**
 * What to run and in which surroundings: plain data, made by `make` or `shell` and checked by `resolve`. It holds
 * secrets as they were given, so it is not for logs; `summary` and `display` are.
 */
export interface CommandSpec {
  readonly _tag: "CommandSpec"
  readonly program: Program
  readonly options: Options
  /** Milliseconds between the first signal and SIGKILL, where the command itself asks for it. */
  readonly graceMillis?: number | undefined
}

/**
 * What is read of a command of `effect/process`. Its options mean what they mean there, or are refused:
 *
 * - `env` without `extendEnv: true` replaces the inherited environment; without `env`, all is inherited.
 * - `shell`: the command is the whole script; `true` is `/bin/sh`.
 * - `stdin`: absent, `"pipe"` and `"overlapped"` (a pipe, outside Windows) are `"open"`; `"ignore"` is `"none"`.
 * - `stdout`, `stderr`: pipes only; the runtime reads and bounds what comes through them.
 * - `killSignal` is the first signal of a termination, `forceKillAfter` its grace period. Absent, the runtime's own
 *   grace holds, so a command that ignores the signal is still ended.
 * - `windowsHide` changes nothing on a POSIX system, and is taken.
 * - Refused as `Unsupported`: `"inherit"`, Sinks, `stdout: "ignore"`, `additionalFds`, `detached: false`, an encoding
 *   other than UTF-8, a stdin stream that is not to be closed after it, and every option unknown here.
 */
export interface StandardCommandLike {
  readonly _tag: "StandardCommand"
  readonly command: string
  readonly args: ReadonlyArray<Word>
  readonly options: {
    readonly cwd?: string | undefined
    readonly env?: Readonly<Record<string, Word | undefined>> | undefined
    readonly extendEnv?: boolean | undefined
    readonly shell?: boolean | string | undefined
    readonly detached?: boolean | undefined
    readonly windowsHide?: boolean | undefined
    readonly stdin?: unknown
    readonly stdout?: unknown
    readonly stderr?: unknown
    readonly additionalFds?: unknown
    readonly killSignal?: string | undefined
    readonly forceKillAfter?: Duration.Input | undefined
  }
}

/** A pipeline of `effect/process`: part of the type, since that module's combinators return it, and always refused. */
export interface PipedCommandLike {
  readonly _tag: "PipedCommand"
  readonly left: unknown
  readonly right: unknown
}

/** Whatever can be run. */
export type Input = CommandSpec | StandardCommandLike | PipedCommandLike

/**
 * How much the operating system takes, in bytes.
 *
 * - `stringBytes`: one argument, or one `NAME=value`, with its end (Linux: `MAX_ARG_STRLEN`, 32 pages of 4 KiB).
 * - `totalBytes`: all of them, each with its end and one pointer (Linux: a quarter of the stack's limit, so 2 MiB under
 *   the usual 8 MiB). What is inherited is not known here and not counted; a driver can still answer `TooLarge`.
 * - `cwdBytes`: the working directory, with its end (Linux: `PATH_MAX`).
 */
export interface Limits {
  readonly stringBytes: number
  readonly totalBytes: number
  readonly cwdBytes: number
}

/** Those of Linux with its usual 8 MiB stack: 128 KiB a string, 2 MiB in all, a path of 4 KiB. */
export const defaultLimits: Limits = { stringBytes: 131_072, totalBytes: 2 * 1024 * 1024, cwdBytes: 4096 }

/** The shell that runs a script when none is named. */
export const defaultShell = "/bin/sh"

/** An executable and its arguments. They reach it as they are: no shell reads them. Validated by `resolve`, not here. */
export const make = (command: string, args: ReadonlyArray<Word> = [], options: Options = {}): CommandSpec => ({
  _tag: "CommandSpec",
  program: { _tag: "Exec", command, args },
  options
})

/** A script for a shell, one text. Validated by `resolve`, not here. */
export const shell = (
  script: Word,
  options: Options & { readonly shell?: string | undefined } = {}
): CommandSpec => {
  const { shell: name = defaultShell, ...rest } = options ?? {} // without types, `null` is passed for "none"
  return { _tag: "CommandSpec", program: { _tag: "Shell", shell: name, script }, options: rest }
}

/** The same command in another working directory. */
export const setCwd: {
  (cwd: string): (self: CommandSpec) => CommandSpec
  (self: CommandSpec, cwd: string): CommandSpec
} = dual(2, (self: CommandSpec, cwd: string): CommandSpec => ({ ...self, options: { ...self.options, cwd } }))

/** The same command with these variables over those it had. */
export const setEnv: {
  (env: Readonly<Record<string, Word | undefined>>): (self: CommandSpec) => CommandSpec
  (self: CommandSpec, env: Readonly<Record<string, Word | undefined>>): CommandSpec
} = dual(
  2,
  (self: CommandSpec, env: Readonly<Record<string, Word | undefined>>): CommandSpec => ({
    ...self,
    options: { ...self.options, env: { ...self.options.env, ...env } }
  })
)

/**
 * The validated command, or the first thing wrong with it. Never throws, also on what is no command at all. Lists and
 * records are copied, so changing them later changes nothing; bytes and streams are not. Resolving twice changes nothing.
 */
export const resolve = (input: Input, limits: Limits = defaultLimits): Result.Result<CommandSpec, InvalidCommand> => {
  try {
    const spec = read(input)
    check(spec, limits)
    return Result.succeed(spec)
  } catch (error) {
    // Anything but a refusal was thrown by the input itself (a getter, a proxy, a wiped secret): its text is not ours to show.
    return Result.fail(error instanceof Refusal ? error.reason : invalid("command", "Malformed"))
  }
}

/** What errors, rows, spans and logs may say of a command: no argument, no script, no path. */
export interface Summary {
  /** Base name of the executable or shell, at most 64 characters, without control characters. */
  readonly name: string
  /** Number of arguments; 0 for a script. */
  readonly args: number
}

/** The summary of a command, bounded whatever the command is. Of no path it keeps more than the last segment. */
export const summary = (self: CommandSpec): Summary => {
  const { program } = self
  const path = program._tag === "Exec" ? program.command : program.shell
  const name = path.slice(1 + Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")))
  return { name: Printable.line(name, 64), args: program._tag === "Exec" ? program.args.length : 0 }
}

/**
 * Text that equal commands have in common and others have not: what runs, with what, and where. Secrets are left out of
 * it, the environment too. It holds arguments, so it is only ever to be hashed, and with a key: a short secret that was
 * given as a plain argument could be guessed from a plain hash.
 */
export const fingerprint = (self: CommandSpec): string => {
  const { options, program } = self
  const known = (word: Word) => typeof word === "string" ? word : null
  const words = program._tag === "Exec"
    ? [program.command, ...program.args.map(known)]
    : [program.shell, known(program.script)]
  return JSON.stringify([program._tag, options.cwd ?? null, words])
}

/** At most this many characters are shown of a command. */
export const maxDisplay = 200

/**
 * One line for the command's owner to recognise it by: arguments as a shell would take them, control characters
 * escaped, `<redacted>` for each secret, `…` where it was cut. Not for errors, rows or telemetry: see `summary`.
 */
export const display = (self: CommandSpec): string => {
  const { program } = self
  if (program._tag === "Shell") return Printable.cut(shown(program.script, (script) => script), maxDisplay)
  let line = shown(program.command, quoted)
  for (const arg of program.args) {
    if (line.length > maxDisplay) break
    line += ` ${shown(arg, quoted)}`
  }
  return Printable.cut(line, maxDisplay)
}

const invalid = (where: string, problem: Problem): InvalidCommand => new InvalidCommand({ where, problem })

/** Carries a refusal out of `resolve`'s readers; never leaves it. */
class Refusal {
  readonly reason: InvalidCommand
  constructor(reason: InvalidCommand) {
    this.reason = reason
  }
}

const refuse = (where: string, problem: Problem): never => {
  throw new Refusal(invalid(where, problem))
}

// --- Reading: from what was given to a fresh CommandSpec of the right types --------------------------------------------

type Unknowns = Readonly<Record<string, unknown>>

const isObject = (u: unknown): u is Unknowns => typeof u === "object" && u !== null

const objectAt = (where: string, u: unknown): Unknowns => isObject(u) ? u : refuse(where, "Malformed")

const stringAt = (where: string, u: unknown): string => typeof u === "string" ? u : refuse(where, "Malformed")

const read = (input: unknown): CommandSpec => {
  const given = objectAt("command", input)
  switch (given._tag) {
    case "CommandSpec":
      return readSpec(given)
    case "StandardCommand":
      return readStandard(given)
    case "PipedCommand":
      return refuse("pipeline", "Unsupported")
    default:
      return refuse("command", "Malformed")
  }
}

const readSpec = (given: Unknowns): CommandSpec => {
  const options = objectAt("options", given.options)
  onlyKnown(options, ownOptions)
  const grace = given.graceMillis
  if (grace !== undefined && (typeof grace !== "number" || !Bounds.isWait(grace))) refuse("graceMillis", "BadDuration")
  return {
    _tag: "CommandSpec",
    program: readProgram(objectAt("command", given.program)),
    options: {
      ...present("cwd", optional("cwd", options.cwd, stringAt)),
      ...present("env", optional("env", options.env, readEnv)),
      ...present("inheritEnv", optional("inheritEnv", options.inheritEnv, readInherit)),
      ...present("stdin", optional("stdin", options.stdin, readStdin)),
      ...present("stopSignal", optional("stopSignal", options.stopSignal, readSignal))
    },
    ...present("graceMillis", typeof grace === "number" ? grace : undefined)
  }
}

const readProgram = (given: Unknowns): Program => {
  switch (given._tag) {
    case "Exec":
      return { _tag: "Exec", command: stringAt("command", given.command), args: readArgs(given.args) }
    case "Shell":
      return { _tag: "Shell", shell: stringAt("shell", given.shell), script: readWord("script", given.script) }
    default:
      return refuse("command", "Malformed")
  }
}

const readStandard = (given: Unknowns): CommandSpec => {
  const options = objectAt("options", given.options)
  onlyKnown(options, effectOptions)
  refuseUnsupported(options)
  const env = optional("env", options.env, readEnv)
  const extend = optional("extendEnv", options.extendEnv, booleanAt)
  const grace = options.forceKillAfter === undefined ? undefined : readGrace(options.forceKillAfter)
  return {
    _tag: "CommandSpec",
    program: readStandardProgram(given, options.shell),
    options: {
      ...present("cwd", optional("cwd", options.cwd, stringAt)),
      ...present("env", env),
      // `env` alone replaces the environment (there: `process.env` is the base only under `extendEnv: true`).
      inheritEnv: env === undefined || extend === true ? "all" : "none",
      stdin: readEffectStdin(options.stdin),
      ...present("stopSignal", optional("killSignal", options.killSignal, readSignal))
    },
    ...present("graceMillis", grace)
  }
}

const readStandardProgram = (given: Unknowns, shellOption: unknown): Program => {
  const command = stringAt("command", given.command)
  const args = readArgs(given.args)
  if (shellOption === undefined || shellOption === false) return { _tag: "Exec", command, args }
  if (args.length > 0) refuse("args", "ShellWithArguments")
  return { _tag: "Shell", shell: shellOption === true ? defaultShell : stringAt("shell", shellOption), script: command }
}

const readGrace = (input: unknown): number => {
  const millis = Bounds.millisOf(input)
  return Bounds.isWait(millis) ? millis : refuse("forceKillAfter", "BadDuration")
}

const ownOptions: ReadonlySet<string> = new Set(["cwd", "env", "inheritEnv", "stdin", "stopSignal"])

const effectOptions: ReadonlySet<string> = new Set([
  "cwd",
  "env",
  "extendEnv",
  "shell",
  "detached",
  "windowsHide",
  "stdin",
  "stdout",
  "stderr",
  "additionalFds",
  "killSignal",
  "forceKillAfter"
])

/** An option that nobody here reads would be silently ignored. Its name is shown where it looks like one. */
const onlyKnown = (options: Unknowns, known: ReadonlySet<string>): void => {
  for (const name of Object.keys(options)) {
    if (!known.has(name) && options[name] !== undefined) {
      refuse(/^[A-Za-z]\w{0,31}$/.test(name) ? name : "options", "Unsupported")
    }
  }
}

const refuseUnsupported = (options: Unknowns): void => {
  refuseOutput("stdout", options.stdout)
  refuseOutput("stderr", options.stderr)
  const fds = options.additionalFds
  if (fds !== undefined && Object.keys(objectAt("additionalFds", fds)).length > 0) {
    refuse("additionalFds", "Unsupported")
  }
  if (optional("detached", options.detached, booleanAt) === false) refuse("detached", "Unsupported")
}

const isPipe = (u: unknown): boolean => u === undefined || u === "pipe" || u === "overlapped"

/** A Sink is an object without a `stream`, and is refused for it. */
const refuseOutput = (where: string, output: unknown): void => {
  if (isPipe(output)) return
  if (!isObject(output) || !("stream" in output)) refuse(where, "Unsupported")
  else if (!isPipe(output.stream)) refuse(`${where}.stream`, "Unsupported")
}

const readEffectStdin = (given: unknown): NonNullable<Options["stdin"]> => {
  if (!isObject(given) || Stream.isStream(given)) return readCommandInput("stdin", given)
  if (!("stream" in given)) return refuse("stdin", "Unsupported")
  const stdin = readCommandInput("stdin.stream", given.stream)
  if (!isUtf8(given.encoding)) refuse("stdin.encoding", "Unsupported")
  if (optional("stdin.endOnDone", given.endOnDone, booleanAt) === false && typeof stdin !== "string") {
    refuse("stdin.endOnDone", "Unsupported")
  }
  return stdin
}

const readCommandInput = (where: string, given: unknown): NonNullable<Options["stdin"]> => {
  if (isPipe(given)) return "open"
  if (given === "ignore") return "none"
  return Stream.isStream(given) ? bytesStream(given) : refuse(where, "Unsupported")
}

const isUtf8 = (encoding: unknown): boolean => encoding === undefined || encoding === "utf8" || encoding === "utf-8"

const readStdin = (where: string, given: unknown): NonNullable<Options["stdin"]> => {
  if (given === "none" || given === "open" || given instanceof Uint8Array) return given
  return Stream.isStream(given) ? bytesStream(given) : refuse(where, "Malformed")
}

// What a stream emits cannot be seen before it runs; that it emits bytes is its type's promise.
const bytesStream = (stream: Stream.Stream<unknown, unknown, unknown>): Stream.Stream<Uint8Array, unknown> =>
  stream as Stream.Stream<Uint8Array, unknown>

const booleanAt = (where: string, u: unknown): boolean => typeof u === "boolean" ? u : refuse(where, "Malformed")

const optional = <A>(where: string, u: unknown, readAt: (where: string, u: unknown) => A): A | undefined =>
  u === undefined ? undefined : readAt(where, u)

/** So that what was absent stays absent, and resolving twice gives equal specs. */
const present = <K extends string, A>(key: K, value: A | undefined): { readonly [P in K]?: A } =>
  value === undefined ? {} : { [key]: value } as { readonly [P in K]?: A }

const readWord = (where: string, u: unknown): Word => {
  if (typeof u === "string") return u
  if (!Redacted.isRedacted(u)) return refuse(where, "Malformed")
  // Also refuses a secret that was wiped: `reveal` answers nothing then.
  return reveal(u) === undefined ? refuse(where, "Malformed") : u as Redacted.Redacted<string>
}

const reveal = (word: Redacted.Redacted<unknown>): string | undefined => {
  try {
    const value = Redacted.value(word)
    return typeof value === "string" ? value : undefined
  } catch {
    return undefined
  }
}

const readArgs = (given: unknown): ReadonlyArray<Word> => {
  if (!Array.isArray(given)) return refuse("args", "Malformed")
  // `Array.from` and not `map`: a hole in a list is an `undefined` that has to be refused.
  return Array.from(given, (arg: unknown, index) => readWord(`args[${index}]`, arg))
}

const readEnv = (_: string, given: unknown): Readonly<Record<string, Word | undefined>> => {
  const entries = Object.entries(objectAt("env", given)).map(([name, value], index) => {
    const where = envPlace(name, index)
    if (!isName(name)) refuse(where, name.includes("\0") ? "NulByte" : "Malformed")
    return [name, optional(where, value, readWord)] as const
  })
  return Object.fromEntries(entries) // defines `__proto__` as a property, where an assignment would not
}

/** A name that is not an ordinary one may be a value in the wrong place (`TOKEN=...`): its position is told instead. */
const envPlace = (name: string, index: number): string =>
  /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name) ? `env.${name}` : `env[${index}]`

const isName = (name: string): boolean => name !== "" && !name.includes("=") && !name.includes("\0")

const readInherit = (where: string, given: unknown): "all" | "none" | ReadonlyArray<string> => {
  if (given === "all" || given === "none") return given
  if (!Array.isArray(given)) return refuse(where, "Malformed")
  return Array.from(
    given,
    (name: unknown, index) =>
      typeof name === "string" && isName(name) ? name : refuse(`${where}[${index}]`, "Malformed")
  )
}

/** Signals that POSIX names or that Linux and macOS share; others have no meaning to rely on. */
const signals: ReadonlySet<string> = new Set(
  ("HUP INT QUIT ILL TRAP ABRT IOT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM CHLD CONT STOP TSTP TTIN TTOU URG XCPU " +
    "XFSZ VTALRM PROF WINCH IO SYS").split(" ").map((name) => `SIG${name}`)
)

const readSignal = (where: string, given: unknown): string => {
  const name = stringAt(where, given)
  return signals.has(name) ? name : refuse(where, "Unsupported")
}

// --- Checking: what the operating system would refuse, or cut off at a NUL ------------------------------------------

const check = (spec: CommandSpec, limits: Limits): void => {
  if (spec.options.cwd !== undefined) checkCwd(spec.options.cwd, limits)
  const used = checkProgram(spec.program, limits)
  checkEnv(spec.options.env ?? {}, limits, used)
}

const checkCwd = (cwd: string, limits: Limits): void => {
  if (cwd === "") refuse("cwd", "Malformed")
  checkString("cwd", cwd, limits.cwdBytes, "ArgumentsTooLarge")
}

const checkProgram = (program: Program, limits: Limits): number => {
  const words: ReadonlyArray<readonly [string, Word]> = program._tag === "Exec"
    ? [["command", program.command], ...program.args.map((arg, index) => [`args[${index}]`, arg] as const)]
    : [["shell", program.shell], ["script", program.script]]
  let total = 0
  for (const [where, word] of words) {
    const text = plain(where, word)
    if (text === "" && !where.startsWith("args")) refuse(where, "EmptyCommand")
    total += checkString(where, text, limits.stringBytes, "ArgumentsTooLarge")
    if (total > limits.totalBytes) refuse("args", "ArgumentsTooLarge")
  }
  return total
}

const checkEnv = (env: Readonly<Record<string, Word | undefined>>, limits: Limits, used: number): void => {
  let total = used
  Object.entries(env).forEach(([name, value], index) => {
    if (value === undefined) return
    const where = envPlace(name, index)
    total += checkString(where, `${name}=${plain(where, value)}`, limits.stringBytes, "EnvironmentTooLarge")
    if (total > limits.totalBytes) refuse("env", "EnvironmentTooLarge")
  })
}

const plain = (where: string, word: Word): string =>
  typeof word === "string" ? word : reveal(word) ?? refuse(where, "Malformed")

const pointerBytes = 8

/** What the string costs of `totalBytes`. */
const checkString = (where: string, text: string, limit: number, problem: Problem): number => {
  if (text.includes("\0")) refuse(where, "NulByte")
  // UTF-8 has at least a byte for each UTF-16 unit, so what is far too long need not be encoded to be counted.
  const bytes = text.length < limit ? encoder.encode(text).length + 1 : Infinity
  if (bytes > limit) refuse(where, problem)
  return bytes + pointerBytes
}

const encoder = new TextEncoder()

// --- Showing --------------------------------------------------------------------------------------------------------

const shown = (word: Word, form: (text: string) => string): string =>
  // One character more than is shown, so that a cut is seen as one; the rest of a long word is not worth escaping.
  typeof word === "string" ? Printable.escape(form(word.slice(0, maxDisplay + 1))) : "<redacted>"

const quoted = (text: string): string => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
