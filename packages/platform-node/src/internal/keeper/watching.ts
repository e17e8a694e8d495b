/**
 * Noticing the end of leaders whose parent is somebody else, since no exit is told of them.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import { isDead, tryReadStat } from "../processTable.ts"

/** How often each is read, in milliseconds. One line of the table each, some 10 us. */
const pollMillis = 200

export interface Watch {
  readonly add: (root: Identity) => void
  readonly remove: (marker: string) => void
}

/** `ask` is called for a leader that seems to be gone, again and again until it is removed: a look is to prove it. */
export const make = (ask: (root: Identity) => void): Watch => {
  const roots = new Map<string, Identity>()
  let timer: NodeJS.Timeout | undefined
  const poll = (): void => {
    for (const root of roots.values()) if (seemsGone(root)) ask(root)
  }
  return {
    add(root) {
      roots.set(root.marker, root)
      timer ??= setInterval(poll, pollMillis)
    },
    remove(marker) {
      roots.delete(marker)
      if (roots.size > 0) return
      clearInterval(timer)
      timer = undefined
    }
  }
}

const seemsGone = (root: Identity): boolean => {
  const stat = tryReadStat(root.pid)
  return stat === null || isDead(stat) || stat.startedAt !== root.startedAt
}
