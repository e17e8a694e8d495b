// How the examples print: headings, aligned rows, and colour only where somebody is looking at a terminal.
import type { ProcessDriver, Status } from "@procyon/runtime"
import { Console, type Effect } from "effect"

const colours = process.stdout.isTTY && (process.env.NO_COLOR ?? "") === ""
const paint = (code: number) => (text: string): string => colours ? `\u001b[${code}m${text}\u001b[0m` : text
const bold = paint(1)
const dim = paint(2)
const red = paint(31)
const green = paint(32)
const yellow = paint(33)

const margin = "   "
const labelWidth = 14
const leftWidth = 30

export const title = (name: string, about: string): Effect.Effect<void> => Console.log(`\n${bold(name)}\n${dim(about)}`)

/** A scene's number and name, and the question it answers. */
export const heading = (number: number, name: string, question: string): Effect.Effect<void> =>
  Console.log(`\n${bold(`${number}  ${name}`)}\n${margin}${dim(question)}\n`)

/** `label   value`; a value of several lines goes on under its first one. */
export const row = (label: string, ...values: ReadonlyArray<string>): Effect.Effect<void> =>
  Console.log(values.map((value, index) => labelled(index === 0 ? label : "", value)).join("\n"))

/** Two labels and their values on one line. */
const pair = (
  [left, leftValue]: readonly [string, string],
  [right, rightValue]: readonly [string, string]
): Effect.Effect<void> =>
  Console.log(`${labelled(left, pad(leftValue, leftWidth))}${dim(right.padEnd(labelWidth))}${rightValue}`)

/** Columns as wide as their widest cell. A cell that is a size or a time stands at the right of its column. */
export const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): Effect.Effect<void> => {
  const all = [head.map(dim), ...rows]
  const width = (column: number): number => Math.max(...all.map((cells) => visibleLength(cells[column] ?? "")))
  return lines(
    all.map((cells) => cells.map((cell, column) => pad(cell, width(column))).join("   ").trimEnd()).join("\n")
  )
}

export const lines = (text: string): Effect.Effect<void> => Console.log(text.replaceAll(/^/gm, margin))

/** A sentence on what to make of it. */
export const remark = (text: string): Effect.Effect<void> => Console.log(`\n${margin}${dim(text)}`)

export const blank: Effect.Effect<void> = Console.log("")

const labelled = (label: string, value: string): string => `${margin}${dim(label.padEnd(labelWidth))}${value}`

const pad = (text: string, width: number): string => {
  const space = " ".repeat(Math.max(0, width - visibleLength(text)))
  return /^[\d.,]+ (?:ms|s|bytes)$/.test(text) ? space + text : text + space
}

// oxlint-disable-next-line no-control-regex -- the colour codes written above
const visibleLength = (text: string): number => text.replaceAll(/\u001b\[\d+m/g, "").length

export const status = (value: Status.Status): string => {
  if (value === "completed") return green(value)
  return value === "kill_failed" || value === "error" ? red(value) : yellow(value)
}

/** An exit as the operating system gave it. */
export const exit = (value: Status.Exit | null): string => {
  if (value === null) return "none"
  if (value.signal !== null) return `signal ${value.signal}`
  return value.code === null ? "unseen" : `code ${value.code}`
}

const count = (value: number): string => value.toLocaleString("en-US")
export const bytes = (value: number): string => `${count(value)} bytes`

export const duration = (millis: number): string =>
  millis < 1000 ? `${Math.round(millis)} ms` : `${(millis / 1000).toFixed(2)} s`

const cause = (value: Status.Cause): string => {
  switch (value._tag) {
    case "SelfExit":
      return "ended by itself"
    case "Stop":
      return `stopped by its ${value.by}`
    case "Deadline":
      return value.kind === "total" ? "its deadline" : "its idle deadline"
    default:
      return value._tag
  }
}

const survivors = (list: ReadonlyArray<Status.Survivor>): string =>
  list.length === 0 ? "none" : list.map(({ name, pid }) => `${pid} "${name}"`).join(", ")

/** The receipt of a termination: what was asked, what was done and when, and what is left. */
export const receipt = (result: Status.TerminationResult): ReadonlyArray<Effect.Effect<void>> => [
  pair(["status", status(result.status)], ["exit", exit(result.exit)]),
  pair(["cause", cause(result.cause)], ["forced", String(result.forced)]),
  row("timeline", ...result.timeline.map(({ atMillis, what }) => `+${duration(atMillis)}`.padEnd(10) + what)),
  pair(["leftovers", survivors(result.leftovers)], ["survivors", survivors(result.survivors)])
]

/** What this platform can verify, and so what a receipt can claim. */
export const capabilities = (can: ProcessDriver.Capabilities): string =>
  [
    ...(can.processTable ? ["process table"] : []),
    ...(can.sessions ? ["sessions"] : []),
    ...(can.marker ? ["marker"] : [])
  ].join(", ") + `: whole tree ${can.wholeTree}`
