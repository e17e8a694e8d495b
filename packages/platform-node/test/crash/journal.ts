/** What the lives of one application write down, each line synced before the life goes on: the evidence of a trial. */
import * as fs from "node:fs"
import type { Reached, Target } from "./points.ts"

export type Line =
  /** Who consumes notices has seen this one. */
  | { readonly _tag: "Notice"; readonly life: number; readonly noticeId: string; readonly repeated: boolean }
  /** A start was answered. */
  | { readonly _tag: "Started"; readonly title: string; readonly id: string }
  /** A keeper of this life: nothing else tells whose it is. */
  | { readonly _tag: "Keeper"; readonly pid: number; readonly startedAt: number }
  /** A record was to be dropped, from here on. */
  | { readonly _tag: "Forgetting"; readonly id: string }
  /** What a recovery told of one row. */
  | { readonly _tag: "Recovered"; readonly life: number; readonly id: string; readonly outcome: string }
  /** The life is killed here. */
  | { readonly _tag: "Killed"; readonly life: number; readonly target: Target }
  /** The life has ended as it was meant to. */
  | { readonly _tag: "Closed"; readonly life: number; readonly reached: ReadonlyArray<Reached> }

export const append = (file: string, line: Line): void => {
  const fd = fs.openSync(file, "a", 0o600)
  fs.writeSync(fd, `${JSON.stringify(line)}\n`)
  fs.fsyncSync(fd)
  fs.closeSync(fd)
}

export const read = (file: string): ReadonlyArray<Line> =>
  fs.existsSync(file)
    ? fs.readFileSync(file, "utf8").split("\n").filter((line) => line !== "").map((line): Line => JSON.parse(line))
    : []
