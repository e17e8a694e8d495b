/** A history as a test that can be pasted, and what it broke. */
import type { History } from "./History.ts"
import type { Outcome } from "./Outcome.ts"

/** A value as source code in the style of the tests: bare keys, one line where it fits. */
const source = (value: unknown, indent = ""): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const inner = `${indent}  `
  const parts = Array.isArray(value)
    ? value.map((item) => source(item, inner))
    : Object.entries(value).filter(([, item]) => item !== undefined).map(([key, item]) =>
      `${key}: ${source(item, inner)}`
    )
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{ ", " }"]
  if (parts.length === 0) return Array.isArray(value) ? "[]" : "{}"
  const line = `${open}${parts.join(", ")}${close}`
  if (line.length + indent.length <= 100 && !line.includes("\n")) return line
  return `${open.trim()}\n${parts.map((part) => `${inner}${part}`).join(",\n")}\n${indent}${close.trim()}`
}

/** The text of a test, for a file that imports `it` of `@effect/vitest` and `Simulator` of `@procyon/testing`. */
export const toTest = (history: History, { violations }: Outcome): string => {
  const broken = violations[0]
  const name = broken === undefined ? "keeps its promises" : `${broken.rule}: ${broken.detail}`
  return `it.live(${JSON.stringify(name)}, () =>\n  Simulator.check(${source(history, "  ")}))\n`
}

/** What was broken, and what happened before. */
export const report = ({ trace, violations }: Outcome): string =>
  [
    ...violations.map(({ detail, rule, step }) =>
      `${rule} (${step === null ? "at the end" : `after step ${step}`}): ${detail}`
    ),
    "",
    ...trace
  ].join("\n")
