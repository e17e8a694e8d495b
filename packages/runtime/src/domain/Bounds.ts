/**
 * What a caller's duration or size means: the one reading of zero, of infinity and of nonsense for every entry point.
 *
 * `Duration.fromInputUnsafe` is not asked first, since it reads NaN as zero (and zero means "none" here), drops unknown
 * keys of an object, and throws on the rest. Nothing here throws, whatever it is given.
 */
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import { InvalidCommand } from "./InvalidCommand.ts"

/**
 * A deadline in milliseconds, possibly fractional. Zero, left out and infinite mean none: `null`. Any other finite value
 * is legal, beyond 2^31 ms too. Negative, NaN, and what is no duration: `BadDuration` at `where`.
 */
export const deadline = (
  where: string,
  input: Duration.Input | undefined
): Result.Result<number | null, InvalidCommand> => {
  if (input === undefined) return Result.succeed(null)
  const millis = millisOf(input)
  if (Number.isNaN(millis) || millis < 0) return badDuration(where)
  return Result.succeed(millis === 0 || millis === Infinity ? null : millis)
}

/**
 * A wait in milliseconds that has to end, such as a grace period: `fallback` when left out, and zero is zero. Negative,
 * NaN, infinite, and what is no duration: `BadDuration` at `where`.
 */
export const wait = (
  where: string,
  input: Duration.Input | undefined,
  fallback: number
): Result.Result<number, InvalidCommand> => {
  if (input === undefined) return Result.succeed(fallback)
  const millis = millisOf(input)
  return isWait(millis) ? Result.succeed(millis === 0 ? 0 : millis) : badDuration(where)
}

/** Whether a number of milliseconds can be waited for: finite and not negative. */
export const isWait = (millis: number): boolean => Number.isFinite(millis) && millis >= 0

/** A bound of memory in whole bytes: `fallback` when zero or left out. Everything else: `BadSize` at `where`. */
export const bytes = (
  where: string,
  input: number | undefined,
  fallback: number
): Result.Result<number, InvalidCommand> => {
  if (input === undefined || input === 0) return Result.succeed(fallback)
  return Number.isSafeInteger(input) && input > 0 ? Result.succeed(input) : badSize(where)
}

/**
 * A cap on how many, such as running jobs or bytes of one read: `fallback` when left out, `Infinity` (no cap) for zero
 * and for infinite. Negative, fractional and NaN: `BadSize` at `where`.
 */
export const cap = (
  where: string,
  input: number | undefined,
  fallback: number
): Result.Result<number, InvalidCommand> => {
  if (input === undefined) return Result.succeed(fallback)
  if (input === 0 || input === Infinity) return Result.succeed(Infinity)
  return Number.isSafeInteger(input) && input > 0 ? Result.succeed(input) : badSize(where)
}

const badDuration = (where: string): Result.Result<never, InvalidCommand> =>
  Result.fail(new InvalidCommand({ where, problem: "BadDuration" }))

const badSize = (where: string): Result.Result<never, InvalidCommand> =>
  Result.fail(new InvalidCommand({ where, problem: "BadSize" }))

/** Milliseconds of anything that may be a `Duration.Input`; NaN when it is none. */
export const millisOf = (input: unknown): number => {
  if (typeof input === "number") return input
  try {
    if (typeof input === "object" && !Duration.isDuration(input) && !isSum(input)) return NaN
    // It throws on what it cannot read, so nothing has to be proven about the type; its message would hold the input.
    return Duration.toMillis(Duration.fromInputUnsafe(input as Duration.Input))
  } catch {
    return NaN
  }
}

const units: ReadonlySet<string> = new Set([
  "weeks",
  "days",
  "hours",
  "minutes",
  "seconds",
  "milliseconds",
  "microseconds",
  "nanoseconds"
])

/** Whether the parts of `[seconds, nanos]` or `{ hours, ... }` can be added up: all known, all numbers, no two infinities. */
const isSum = (input: object | null): boolean => {
  const parts: ReadonlyArray<unknown> = input === null ? [] : Array.isArray(input)
    ? input
    : Object.entries(input).filter(([, part]) => part !== undefined).map(([unit, part]) => units.has(unit) ? part : NaN)
  const sum = parts.reduce((total: number, part) => typeof part === "number" ? total + part : NaN, 0)
  return parts.length > 0 && !Number.isNaN(sum)
}
