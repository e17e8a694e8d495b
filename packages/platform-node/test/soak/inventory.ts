/** What a program holds at a quiet moment, counted from outside of the library. */
import * as fs from "node:fs"
import { setTimeout } from "node:timers/promises"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { parentOf } from "../support/processes.ts"
import { seenAt } from "../support/table.ts"

setFlagsFromString("--expose-gc")
const gc = runInNewContext("gc") as () => void

/** Children of this process, zombies too. */
const childrenNow = (): number =>
  fs.readdirSync("/proc").map(Number).filter((pid) => pid > 0 && parentOf(pid) === process.pid && seenAt(pid) !== null)
    .length

export interface Inventory {
  readonly "open files": number
  readonly "listeners of the process": number
  readonly "handles of the event loop": number
  readonly "children, zombies too": number
  readonly "fibers": number
  readonly "heap, KiB": number
}

/** `fibers`: of the runtimes so far, those that have not ended. */
export const take = async (fibers: number): Promise<Inventory> => {
  for (let round = 0; round < 4; round++) {
    gc()
    await setTimeout(20)
  }
  return {
    "open files": fs.readdirSync("/proc/self/fd").length,
    "listeners of the process": process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    "handles of the event loop": process.getActiveResourcesInfo().filter((name) => name !== "Timeout").length,
    "children, zombies too": childrenNow(),
    "fibers": fibers,
    "heap, KiB": Math.round(process.memoryUsage().heapUsed / 1024)
  }
}
