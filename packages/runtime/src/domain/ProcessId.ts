/**
 * The name of a process in this library: of a handle, a job, its row, its notices and its blob. Never a pid.
 *
 * Generated ids are short, sort as plain strings in the order they were made, and are not made twice: by one generator
 * never, also when the wall clock goes back; by the next one after a restart never when it continues after the last
 * recorded id. Two generators at the same millisecond differ by chance only (1 in 46,656 repeats), so whoever records
 * an id has to be told when it is taken.
 */
import * as Schema from "effect/Schema"

/**
 * Also what callers choose: at most 64 letters, digits, `.`, `_` and `-`, the first a letter or a digit, so that it can
 * name a file.
 */
export const ProcessId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)).pipe(
  Schema.brand("ProcessId")
)
export type ProcessId = typeof ProcessId.Type

/** Where a generator stands: the millisecond it last used, and how many ids it has made in it. */
export interface State {
  readonly millis: number
  readonly sequence: number
}

/** A generator that has made nothing. */
export const initial: State = { millis: 0, sequence: 0 }

/**
 * The next id and the generator after it. `wallMillis`: epoch milliseconds; going back, or being no number, is harmless.
 * `random`: from 0 up to and without 1.
 */
export const make = (
  state: State,
  wallMillis: number,
  random: number
): { readonly id: ProcessId; readonly state: State } => {
  const next = after(state, Number.isFinite(wallMillis) ? Math.min(Math.floor(wallMillis), maxMillis) : 0)
  const id = ProcessId.make(
    digits(next.millis, millisWidth) + digits(next.sequence - 1, sequenceWidth) + digits(chance(random), randomWidth)
  )
  return { id, state: next }
}

/** A generator whose ids sort after this generated one. Ids of another form, such as those callers chose, tell nothing. */
export const resumeAfter = (id: string): State => {
  if (!/^[0-9a-z]{14}$/.test(id)) return initial
  const millis = parseInt(id.slice(0, millisWidth), 36)
  const sequence = parseInt(id.slice(millisWidth, millisWidth + sequenceWidth), 36)
  return { millis, sequence: sequence + 1 }
}

const millisWidth = 9 // enough to the year 5188
const sequenceWidth = 2
const randomWidth = 3

const maxMillis = 36 ** millisWidth - 1

/** A full millisecond borrows the next one: the order matters here, and the time does not. */
const after = (state: State, now: number): State => {
  if (now > state.millis) return { millis: now, sequence: 1 }
  return state.sequence < 36 ** sequenceWidth
    ? { millis: state.millis, sequence: state.sequence + 1 }
    : { millis: state.millis + 1, sequence: 1 }
}

const chance = (random: number): number => random >= 0 && random < 1 ? Math.floor(random * 36 ** randomWidth) : 0

const digits = (value: number, width: number): string => value.toString(36).padStart(width, "0")
