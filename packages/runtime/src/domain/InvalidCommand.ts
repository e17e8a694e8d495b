/**
 * Why a command, or a bound given with it, was refused before anything was started.
 *
 * It says what is wrong and where, and holds nothing of what was given: no argument, no value, no script, no path.
 */
import * as Schema from "effect/Schema"

/**
 * - `EmptyCommand`: there is nothing to run.
 * - `NulByte`: a NUL character in a place the operating system ends strings at.
 * - `ArgumentsTooLarge`, `EnvironmentTooLarge`: past what the operating system takes; see `CommandSpec.Limits`.
 * - `BadDuration`: negative, not a number, not a duration, or infinite where the wait has to end.
 * - `BadSize`: negative, fractional, not a number, or infinite where memory has to be bounded.
 * - `ShellWithArguments`: a script and separate arguments; a shell would join them unquoted.
 * - `Unsupported`: meant something, and cannot be honoured.
 * - `Malformed`: not of the type its place asks for, or a name that cannot be one.
 */
export const Problem = Schema.Literals([
  "EmptyCommand",
  "NulByte",
  "ArgumentsTooLarge",
  "EnvironmentTooLarge",
  "BadDuration",
  "BadSize",
  "ShellWithArguments",
  "Unsupported",
  "Malformed"
])
export type Problem = typeof Problem.Type

/** `where` is a place, such as `command`, `args[3]`, `env.TOKEN`, `stdout` or `deadline`; never a value. */
export class InvalidCommand extends Schema.TaggedError<InvalidCommand>()("InvalidCommand", {
  where: Schema.String,
  problem: Problem
}) {
  override get message(): string {
    return `${this.problem} at ${this.where}`
  }
}
