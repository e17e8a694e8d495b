/**
 * What the child is given: its argument vector and its environment. The one place where redacted words are revealed.
 */
import type { CommandSpec, Options, Program, Word } from "@procyon/runtime/domain/CommandSpec"
import * as Redacted from "effect/Redacted"

/** A program as the system wants it. `args` is without the name of the program itself. */
export interface ProgramLine {
  readonly file: string
  readonly args: ReadonlyArray<string>
}

const reveal = (word: Word): string => typeof word === "string" ? word : Redacted.value(word)

/**
 * A shell takes a script that begins with `-` or `+` for more options, and not every shell knows `--` after `-c`. White
 * space before a command means nothing to any of them.
 */
const asScript = (text: string): string => text.startsWith("-") || text.startsWith("+") ? ` ${text}` : text

/** The command line of a program. No argument of an `Exec` ever passes through a shell. */
export const programLine = (program: Program): ProgramLine =>
  program._tag === "Exec"
    ? { file: program.command, args: program.args.map(reveal) }
    : { file: program.shell, args: ["-c", asScript(reveal(program.script))] }

const inherited = (policy: Options["inheritEnv"]): Record<string, string> => {
  if (policy === "none") return {}
  const environment: Record<string, string> = {}
  for (const name of policy === undefined || policy === "all" ? Object.keys(process.env) : policy) {
    const value = process.env[name]
    if (value !== undefined) environment[name] = value
  }
  return environment
}

/** The child's whole environment: what it inherits, the values set for it, and the marker, which nothing overrides. */
export const environmentOf = (command: CommandSpec, marker: string): Record<string, string> => {
  const environment = inherited(command.options.inheritEnv)
  for (const [name, word] of Object.entries(command.options.env ?? {})) {
    if (word === undefined) delete environment[name]
    else environment[name] = reveal(word)
  }
  environment[marker] = "1"
  return environment
}
