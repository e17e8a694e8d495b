/**
 * One reading of the process table for everybody who asks at the same time.
 *
 * A reading answers only those who asked before it began: what they were asking about may have happened since an earlier
 * one had passed it.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import type { Forest } from "./forest.ts"
import { type Reading, readTable } from "./processTable.ts"

type Answer = (looks: ReadonlyArray<TreeLook>) => void

export interface Looker {
  /** Calls back once. Ignoring the answer is all there is to cancelling. */
  readonly look: (roots: ReadonlyArray<Identity>, answer: Answer) => void
}

/** A looker over a forest. `read` is there to be replaced where the table is read in another way. */
export const make = (forest: Forest, read: (done: (reading: Reading) => void) => void = readTable): Looker => {
  let waiting: Array<readonly [ReadonlyArray<Identity>, Answer]> = []
  let running = false

  const run = (): void => {
    const asked = waiting
    waiting = []
    for (const [roots] of asked) for (const root of roots) forest.adopt(root)
    const judge = (reading: Reading): void => {
      running = false
      const looks = forest.judge(reading, asked.flatMap(([roots]) => roots))
      if (waiting.length > 0) start()
      let from = 0
      for (const [roots, answer] of asked) answer(looks.slice(from, from += roots.length))
    }
    read((reading) => forest.ask(reading, () => judge(reading)))
  }
  const start = (): void => {
    running = true
    // Leaders that end together are told in one turn, each from a callback of its own: this waits for the last of them.
    setImmediate(run)
  }

  return {
    look(roots, answer) {
      waiting.push([roots, answer])
      if (!running) start()
    }
  }
}
