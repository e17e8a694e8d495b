/**
 * Looking at trees and signalling them: everything that is known of them in this process, over one table.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Member, SignalOutcome, TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import * as Forest from "./forest.ts"
import * as Look from "./look.ts"
import type { ProcessTable } from "./processTable.ts"
import * as Signals from "./signals.ts"
import * as Taskkill from "./taskkill.ts"

export interface Trees {
  readonly forest: Forest.Forest
  /** Calls back once, with a look for each root that began after this call. */
  readonly look: (roots: ReadonlyArray<Identity>, answer: (looks: ReadonlyArray<TreeLook>) => void) => void
  /** Signals members of a tree, and groups of it as a whole. Calls back once. */
  readonly signal: (
    root: Identity,
    targets: { readonly members: ReadonlyArray<Member>; readonly groups?: ReadonlyArray<number> | undefined },
    signal: string,
    answer: (outcomes: ReadonlyArray<SignalOutcome>) => void
  ) => void
  readonly occupied: (root: Identity) => boolean
}

/** No tree is known yet. `bootId`: as a forest takes it. */
export const make = (bootId: string | null, table: ProcessTable): Trees => {
  const forest = Forest.make(bootId, table)
  const looker = Look.make(forest, table.read)
  const signalTree = process.platform === "win32" ? Taskkill.make() : Signals.make(table)
  return {
    forest,
    look: looker.look,
    signal(root, targets, signal, answer) {
      forest.adopt(root)
      const tree = forest.find(root)
      if (tree === undefined) return answer([])
      signalTree(tree, targets.members, targets.groups ?? [], signal, answer)
    },
    occupied(root) {
      const tree = forest.find(root)
      return tree !== undefined && Forest.isOccupied(tree)
    }
  }
}
