/**
 * Ending trees when there is no runtime that could: because the application is gone, or for a start that nobody answers.
 *
 * All trees share each look, since a look costs the same for one and for a thousand. The steps are the runtime's: ask by
 * SIGTERM, wait the grace, freeze until a look finds nobody new, kill, and look until nobody is left. What is stopped
 * cannot fork, so this ends programs that fork faster than they can be killed one by one.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Member, TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import type { Trees } from "../trees.ts"

/** A tree, and the time from SIGTERM to SIGKILL; 0: it is killed without being asked. */
export interface Subject {
  readonly root: Identity
  readonly graceMillis: number
}

/** How long a tree is frozen and killed, after its grace, before it is given up as one that will not end. */
const forceMillis = 5_000

/** Freezing gives up after this many looks in a row, and SIGKILL goes to whoever was seen by then. */
const maxSweeps = 30

const firstPauseMillis = 10
const longestPauseMillis = 250

/** A tree on its way out. */
interface Ending {
  readonly root: Identity
  readonly dueAt: number
  readonly stopped: Set<string>
  readonly killed: Set<string>
  asked: boolean
  sweeps: number
}

/** Ends trees, and calls back once: when all of them are gone, were given up, or are no longer wanted to end. */
export const endTrees = (
  trees: Trees,
  subjects: ReadonlyArray<Subject>,
  done: () => void,
  isWanted: (root: Identity) => boolean = () => true
): void => {
  const began = performance.now()
  let left: ReadonlyArray<Ending> = subjects.map(({ graceMillis, root }) => ({
    root,
    dueAt: began + graceMillis,
    stopped: new Set(),
    killed: new Set(),
    asked: graceMillis <= 0,
    sweeps: 0
  }))
  let pause = firstPauseMillis

  const look = (): void => trees.look(left.map(({ root }) => root), judge)
  const judge = (looks: ReadonlyArray<TreeLook>): void => {
    const now = performance.now()
    const still: Array<Ending> = []
    let acted = false
    for (const [index, ending] of left.entries()) {
      const seen = looks[index]
      if (seen === undefined || isOver(trees, seen) || now > ending.dueAt + forceMillis) continue
      if (!isWanted(ending.root)) continue
      still.push(ending)
      if (!ending.asked) ask(trees, ending, seen)
      else if (now >= ending.dueAt) acted = force(trees, ending, seen) || acted
    }
    left = still
    if (left.length === 0) return done()
    if (acted) {
      pause = firstPauseMillis
      return look()
    }
    const nextDue = left.reduce((least, { dueAt }) => dueAt > now ? Math.min(least, dueAt - now) : least, Infinity)
    setTimeout(look, Math.min(pause, nextDue))
    pause = Math.min(pause * 2, longestPauseMillis)
  }
  look()
}

/** Whether nobody is left. A child's exit is collected too then, so that it can still be told. */
const isOver = (trees: Trees, look: TreeLook): boolean =>
  look.complete && look.members.length === 0 && look.occupied.length === 0 &&
  trees.forest.find(look.root)?.unreapedChild !== true

const keyOf = (member: Member): string => `${member.pid}:${member.startedAt}`

/** Asks everybody who is there, once. A stopped process handles nothing before it is continued. */
const ask = (trees: Trees, ending: Ending, seen: TreeLook): void => {
  ending.asked = true
  for (const signal of ["SIGTERM", "SIGCONT"]) {
    trees.signal(ending.root, { members: seen.members, groups: seen.occupied }, signal, () => {})
  }
}

/** Stops those who were not stopped yet, or kills when nobody is new. `false`: nothing was left to be done. */
const force = (trees: Trees, ending: Ending, seen: TreeLook): boolean => {
  const isNew = (marks: ReadonlySet<string>) => (member: Member): boolean => !marks.has(keyOf(member))
  const fresh = seen.members.filter(isNew(ending.stopped))
  if (fresh.length > 0 && ending.sweeps++ < maxSweeps) {
    trees.signal(ending.root, { members: fresh }, "SIGSTOP", () => {})
    for (const member of fresh) ending.stopped.add(keyOf(member))
    return true
  }
  ending.sweeps = 0
  const members = seen.members.filter(isNew(ending.killed))
  if (members.length + seen.occupied.length === 0) return false
  trees.signal(ending.root, { members, groups: seen.occupied }, "SIGKILL", () => {})
  for (const member of members) ending.killed.add(keyOf(member))
  return true
}
