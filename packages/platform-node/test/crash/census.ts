/**
 * The living processes of one trial: those with its tag in their command line, its directory in their environment or for
 * their working directory, and the keepers that its journal tells of.
 */
import * as fs from "node:fs"
import { isLiving, type Seen, seenAt } from "../support/table.ts"
import * as Journal from "./journal.ts"
import { placesIn } from "./life.ts"

const textOf = (pid: number, file: "cmdline" | "environ"): string => {
  try {
    return fs.readFileSync(`/proc/${pid}/${file}`, "latin1").replaceAll("\0", " ")
  } catch {
    return ""
  }
}

const placeOf = (pid: number): string => {
  try {
    return fs.readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ""
  }
}

export const take = (tag: string, directory: string): ReadonlyArray<Seen> => {
  const keepers = Journal.read(placesIn(directory).journal).filter((line) => line._tag === "Keeper")
  const isOf = ({ pid, startedAt }: Seen): boolean =>
    textOf(pid, "cmdline").includes(tag) ||
    textOf(pid, "environ").includes(directory) ||
    placeOf(pid).startsWith(directory) ||
    keepers.some((keeper) => keeper.pid === pid && keeper.startedAt === startedAt)
  return fs.readdirSync("/proc").map(Number).filter((pid) => pid > 0 && pid !== process.pid).flatMap((pid) => {
    const seen = seenAt(pid)
    return seen !== null && isOf(seen) && isLiving(seen) ? [seen] : []
  })
}

/** Kills whoever is still there, each proven to be who was counted. */
export const clear = (tag: string, directory: string): void => {
  for (let left = 20; left > 0; left--) {
    const living = take(tag, directory)
    if (living.length === 0) return
    for (const seen of living) {
      if (!isLiving(seen)) continue
      try {
        process.kill(seen.pid, "SIGKILL")
      } catch {
        // Gone meanwhile.
      }
    }
  }
}
