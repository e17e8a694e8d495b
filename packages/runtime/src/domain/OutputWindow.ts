/**
 * A bounded window over one output stream: its first bytes, its last bytes, and exact offsets of what lies between.
 */
import * as Schema from "effect/Schema"

/** Bytes that are not there: from offset `from` up to, not including, `to`. */
export interface Gap {
  readonly from: number
  readonly to: number
}

/** A cursor or a limit that is negative, not a whole number, or not a number. */
export class BadCursor extends Schema.TaggedError<BadCursor>()("BadCursor", {
  field: Schema.Literals(["since", "limit"]),
  value: Schema.Number
}) {
  override get message(): string {
    return `${this.field} must be a whole number of bytes, not ${this.value}`
  }
}
