/**
 * Text from outside, made fit for one line of a terminal, a table or a log. It hides nothing: secrets are removed before.
 */

/**
 * Escapes control, format and separator characters, which can end a line, or reorder or hide the text around them, and
 * lone surrogates, which cannot be encoded.
 */
export const escape = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16) ?? ""}}`)

/** At most `limit` UTF-16 units, no character cut in two, a cut marked by `…`. */
export const cut = (text: string, limit: number): string => {
  if (text.length <= limit) return text
  const kept = text.slice(0, limit - 1)
  return `${/[\uD800-\uDBFF]$/.test(kept) ? kept.slice(0, -1) : kept}…`
}

/** Both, without escaping more of a long text than can be seen. */
export const line = (text: string, limit: number): string => cut(escape(text.slice(0, limit + 1)), limit)

/** Columns padded to their widest cell, the last one not. */
export const table = (lines: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const width = (column: number): number => Math.max(...lines.map((line) => line[column]?.length ?? 0))
  return lines.map((line) =>
    `  ${line.map((cell, column) => column === line.length - 1 ? cell : cell.padEnd(width(column))).join("  ")}`
  )
}
