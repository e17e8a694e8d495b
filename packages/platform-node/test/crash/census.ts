/** The living processes of one trial: those with its tag in their command line or its directory in their environment. */
import * as fs from "node:fs"
import { isLiving, type Seen, seenAt } from "../support/processes.ts"

const textOf = (pid: number, file: "cmdline" | "environ"): string => {
  try {
    return fs.readFileSync(`/proc/${pid}/${file}`, "latin1").replaceAll("\0", " ")
  } catch {
    return ""
  }
}

export const take = (tag: string, directory: string): ReadonlyArray<Seen> =>
  fs.readdirSync("/proc").map(Number).filter((pid) => pid > 0 && pid !== process.pid).flatMap((pid) => {
    const seen = seenAt(pid)
    const isOurs = seen !== null &&
      (textOf(pid, "cmdline").includes(tag) || textOf(pid, "environ").includes(directory))
    return isOurs && isLiving(seen) ? [seen] : []
  })

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
