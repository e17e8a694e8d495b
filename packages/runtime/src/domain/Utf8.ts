/**
 * Where UTF-8 text may be cut. Cuts made here never change what the bytes decode to: decoding the parts one by one gives
 * the same text as decoding them together, also when the bytes are no UTF-8.
 *
 * A *unit* is what a decoder turns into one code point: a whole sequence, or a run it replaces with one U+FFFD (WHATWG
 * Encoding, "maximal subpart").
 */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** Always well formed: each invalid unit becomes U+FFFD. A byte order mark is kept, since cuts may fall anywhere. */
export const decode = (bytes: Uint8Array): string => decoder.decode(bytes)

/** Length of the unit at `at` in `bytes[0, end)`; 0 when `end` cuts it before it is decided. `at` is below `end`. */
export const unitLength = (bytes: Uint8Array, at: number, end: number): number => {
  const lead = byteAt(bytes, at)
  const width = widthOf(lead)
  for (let length = 1; length < width; length++) {
    if (at + length >= end) return 0
    if (!follows(lead, length, byteAt(bytes, at + length))) return length
  }
  return width
}

/** The last place up to `end` where `bytes` can be cut without cutting a unit that begins at or after `start`. */
export const borderBefore = (bytes: Uint8Array, start: number, end: number): number => {
  const first = Math.max(start, end - 3)
  for (let at = end - 1; at >= first; at--) {
    if (!isContinuation(byteAt(bytes, at))) return unitLength(bytes, at, end) === 0 ? at : end
  }
  return end
}

/**
 * The first place from `start` on where a character may begin: after at most three bytes that continue one. Four of them
 * in a row belong to no character, so nothing is skipped then.
 */
export const borderAfter = (bytes: Uint8Array, start: number, end: number): number => {
  let at = start
  while (at < end && at < start + 4 && isContinuation(byteAt(bytes, at))) at++
  return at === start + 4 ? start : at
}

/**
 * How many of `bytes` make a text of at most `limit` bytes. At least one unit, however small the limit. `final`: nothing
 * follows `bytes`; otherwise an incomplete sequence at their end waits, so that the answer can be 0. To see whether the
 * limit cuts one, `bytes` has to reach 4 past it, or to the end.
 */
export const textLength = (bytes: Uint8Array, limit: number, final: boolean): number => {
  if (bytes.length === 0 || (final && limit >= bytes.length)) return bytes.length
  const border = borderBefore(bytes, 0, Math.min(limit, bytes.length))
  if (border > 0) return border
  const length = unitLength(bytes, 0, bytes.length)
  return length === 0 && final ? bytes.length : length
}

const byteAt = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0

const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80

/** Bytes of the sequence that `lead` begins. Bytes that begin none stand alone. */
const widthOf = (lead: number): number => lead < 0xc2 || lead > 0xf4 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4

/** Whether `byte` may stand at place `index` of a sequence. The second byte decides about overlong and surrogate forms. */
const follows = (lead: number, index: number, byte: number): boolean => {
  if (!isContinuation(byte)) return false
  if (index > 1) return true
  switch (lead) {
    case 0xe0:
      return byte >= 0xa0
    case 0xed:
      return byte < 0xa0
    case 0xf0:
      return byte >= 0x90
    case 0xf4:
      return byte < 0x90
    default:
      return true
  }
}
