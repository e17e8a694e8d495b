/**
 * Sending signals to members of a tree, each only after it was proven that they are still meant.
 *
 * Groups are signalled in one pass, which the kernel makes atomic against `fork`; the others one by one. Nothing is ever
 * sent to this process, to its group, or to process 1.
 */
import type { Member, SignalOutcome } from "@procyon/runtime/ports/ProcessDriver"
import { ownsGroup, type Tree } from "./forest.ts"
import { errnoOf, isDead, type ProcessStat, type ProcessTable, tryReadStat } from "./processTable.ts"

/** What became of one signal. */
export type Outcome = Pick<SignalOutcome, "outcome" | "code">

/** Signals `members` and whole `groups` of a tree, and calls back once. One outcome each, groups last. */
export type SignalTree = (
  tree: Tree,
  members: ReadonlyArray<Member>,
  groups: ReadonlyArray<number>,
  signal: string,
  done: (outcomes: ReadonlyArray<SignalOutcome>) => void
) => void

export const sent: Outcome = { outcome: "sent", code: null }
export const gone: Outcome = { outcome: "gone", code: null }
export const notSame: Outcome = { outcome: "not-same", code: null }

export const ofMember = (member: Member, { code, outcome }: Outcome): SignalOutcome => ({
  pid: member.pid,
  startedAt: member.startedAt,
  name: member.name,
  outcome,
  code
})

export const ofGroup = (group: number, { code, outcome }: Outcome): SignalOutcome => ({
  pid: group,
  startedAt: 0,
  name: "",
  outcome,
  code
})

// Root may signal everybody; for others a group pass leaves out members that have changed their user, and says nothing.
const isRoot = process.getuid?.() === 0

/** Signals as POSIX systems have them, proven by a table. Calls back within the call. */
export const make = (table: ProcessTable): SignalTree => {
  const ownGroup = tryReadStat(process.pid, table)?.group ?? process.pid
  const isSignallable = (id: number): boolean => id > 1 && id !== process.pid && id !== ownGroup

  /** `passed`: what became of the groups signalled before; `null` for a group that is signalled one by one. */
  const signalMember = (tree: Tree, member: Member, signal: string, passed: Map<number, Outcome | null>): Outcome => {
    const before = passed.get(member.group)
    if (before?.outcome === "sent") return withinGroup(member)
    const proof = prove(tree, member, table)
    if ("outcome" in proof) return proof
    if (!isSignallable(member.pid)) return { outcome: "refused", code: "EPERM" }
    // A group holds nobody but members when its session is the tree's.
    const isWhole = isSignallable(proof.group) && tree.groups.has(proof.group) && tree.sessions.has(proof.session)
    if (before === null || !isWhole) return send(member.pid, signal)
    const outcome = send(-proof.group, signal)
    const reached = outcome.outcome === "sent"
    passed.set(proof.group, reached ? outcome : null)
    return reached ? withinGroup(member) : outcome
  }
  const signalGroup = (tree: Tree, group: number, signal: string): Outcome => {
    if (!isSignallable(group)) return { outcome: "refused", code: "EPERM" }
    if (tree.unreapedChild && group === tree.root.pid) return send(-group, signal)
    return ownsGroup(tree, group, table) ? send(-group, signal) : notSame
  }

  return (tree, members, groups, signal, done) => {
    const passed = new Map<number, Outcome | null>()
    const outcomes = members.map((member) => ofMember(member, signalMember(tree, member, signal, passed)))
    for (const group of groups) {
      if (passed.get(group)?.outcome === "sent") continue
      outcomes.push(ofGroup(group, signalGroup(tree, group, signal)))
    }
    done(outcomes)
  }
}

/** The member as it is now, or why it is not meant any more. */
const prove = (tree: Tree, member: Member, table: ProcessTable): Outcome | ProcessStat => {
  const isLeader = member.pid === tree.root.pid && member.startedAt === tree.root.startedAt
  if (isLeader && tree.reapedAt !== null) return gone
  let stat: ProcessStat | null
  try {
    stat = table.readStat(member.pid)
  } catch (error) {
    return { outcome: "refused", code: errnoOf(error) }
  }
  if (stat === null) return gone
  if (stat.startedAt !== member.startedAt) return notSame
  // An exit that was not collected yet keeps its number, and takes signals without an effect.
  return isDead(stat) ? gone : stat
}

/** What a pass over its group was for a member: it succeeds when it reached anybody, if only a zombie. */
const withinGroup = (member: Member): Outcome => {
  const probe = isRoot ? sent : send(member.pid, 0)
  return probe.outcome === "refused" ? probe : sent
}

const send = (target: number, signal: string | 0): Outcome => {
  try {
    process.kill(target, signal)
    return sent
  } catch (error) {
    const code = errnoOf(error)
    return code === "ESRCH" ? gone : { outcome: "refused", code }
  }
}
