/**
 * What a watcher is told, over a descriptor that nobody else holds, and what it answers once. Without Effect.
 */

/** The descriptor of the watcher's end. */
export const channel = 3

/** The command as the system wants it, where it writes to, and when it is ended with no application alive. */
export interface Order {
  readonly file: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string | undefined
  readonly env: Readonly<Record<string, string>>
  readonly marker: string
  /** Where `exit.json` goes. */
  readonly directory: string
  readonly out: string
  /** `null`: both streams go to `out`. */
  readonly err: string | null
  readonly deadlineAt: number | null
  readonly capBytes: number
  readonly graceMillis: number
}

/** `files`: the output files could not be opened. `command`: the system refused the start. `code`: an errno name. */
export interface Refusal {
  readonly outcome: "failed"
  readonly of: "files" | "command"
  readonly code: string
}

export type Answer = { readonly outcome: "started" } | Refusal

/** `null`: it was lost before it had said all of it. */
export const parseAnswer = (text: string): Answer | null => {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== "object" || value === null) return null
    const { code, of, outcome }: { readonly outcome?: unknown; readonly of?: unknown; readonly code?: unknown } = value
    if (outcome === "started") return { outcome }
    return { outcome: "failed", of: of === "files" ? of : "command", code: typeof code === "string" ? code : "UNKNOWN" }
  } catch {
    return null
  }
}
