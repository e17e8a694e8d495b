/**
 * Whom we know: the trees of started leaders, who belongs to them, and which sessions and groups are theirs.
 *
 * Everything here is judged on readings of the process table that somebody else makes (`look.ts`). What was seen once is
 * remembered, because the links that show it are lost when a parent dies.
 *
 * Ids are handed out again, so an id is a tree's only while that is certain. A session nobody can join from outside; it
 * stays owned while its leader is the recorded process, or while there is no process of that id and the session was seen
 * populated so lately that the ids cannot have come round. The same holds for groups.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import { markerPrefix } from "@procyon/runtime/domain/Marker"
import type { TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import { errnoOf, isDead, linux, type ProcessStat, type ProcessTable, type Reading } from "./processTable.ts"
import { inSlices } from "./slices.ts"

/** How long an id that no process has stays known after it was seen populated, in milliseconds. */
const rememberMillis = 10_000

/** How long a process whose environment cannot be read is asked again: it may be in the middle of `exec`. */
const youngMillis = 2_000

/** What is known of one leader and its descendants. */
export interface Tree {
  readonly root: Identity
  /** Start times by pid, the leader's included until it is reaped. */
  readonly members: Map<number, number>
  /** The leader's start time, or `null` for a session whose leader was gone when it was found. */
  readonly sessions: Map<number, { startedAt: number | null; seenAt: number }>
  readonly groups: Map<number, { seenAt: number }>
  /** Whether this process is the leader's parent and has not collected its exit: its pid cannot be anybody else's. */
  unreapedChild: boolean
  /**
   * When the leader's exit was collected, by the monotonic clock: whoever has had its pid since then is somebody else,
   * whatever the start time says.
   */
  reapedAt: number | null
  /** Whether it was recorded from an identity alone, so that nobody will release it. */
  readonly adopted: boolean
}

/** Asks the system whether a group has any process, zombies included. Not allowed to signal it means that it has. */
export const probeGroup = (group: number): boolean => {
  try {
    process.kill(-group, 0)
    return true
  } catch (error) {
    return errnoOf(error) === "EPERM"
  }
}

export interface Forest {
  /** Records a leader that this process has just started. */
  readonly plant: (root: Identity) => Tree
  /** Records that a leader's exit was collected. */
  readonly reap: (tree: Tree) => void
  readonly fell: (tree: Tree) => void
  readonly find: (root: Identity) => Tree | undefined
  /** Records a root of this boot that is not known yet, from its identity alone. */
  readonly adopt: (root: Identity) => void
  /**
   * Records a root as `adopt` does, until the answer is called, and calls `onGone` once: when a judgement first finds its
   * leader gone, or, for `tree`, nobody of its tree. A root of another boot is gone at the first that is asked for it.
   */
  readonly watch: (root: Identity, of: "leader" | "tree", onGone: () => void) => () => void
  /** Asks those whom no record names for their markers, in slices, so that `judge` finds the answers. Calls back once. */
  readonly ask: (reading: Reading, done: () => void) => void
  /** What a reading says of every tree. The answers are for the roots given, in order. */
  readonly judge: (reading: Reading, roots: ReadonlyArray<Identity>) => ReadonlyArray<TreeLook>
}

/**
 * An empty forest. `bootId`: trees of another boot are gone without a look. `null`: the boot is not known, and whole trees
 * are claimed by nobody. What a probe of its group says of a tree that was planted here counts as a whole look then, also
 * when there is no table to read.
 */
export const make = (bootId: string | null, table: ProcessTable = linux): Forest => {
  // A marker is random and its own tree's alone, so it serves as the key.
  const trees = new Map<string, Tree>()
  const strangers = new Map<number, Stranger>()

  /** Whom to tell when a leader that somebody else has started is gone, by marker. */
  const watchers = new Map<string, Watcher>()

  const record = (root: Identity, is: { readonly ours: boolean; readonly adopted: boolean }): Tree => {
    const tree: Tree = {
      root,
      members: new Map(),
      sessions: new Map(),
      groups: new Map(),
      unreapedChild: is.ours,
      reapedAt: null,
      adopted: is.adopted
    }
    trees.set(root.marker, tree)
    return tree
  }

  return {
    plant(root) {
      const tree = record(root, { ours: true, adopted: false })
      const seenAt = performance.now()
      tree.members.set(root.pid, root.startedAt)
      tree.sessions.set(root.pid, { startedAt: root.startedAt, seenAt })
      tree.groups.set(root.pid, { seenAt })
      return tree
    },
    reap(tree) {
      const { pid } = tree.root
      tree.unreapedChild = false
      tree.reapedAt = performance.now()
      tree.members.delete(pid)
      const session = tree.sessions.get(pid)
      if (session !== undefined) {
        session.startedAt = null
        session.seenAt = performance.now()
      }
      probeKnown(tree, pid)
    },
    fell: (tree) => void trees.delete(tree.root.marker),
    find: (root) => trees.get(root.marker),
    adopt(root) {
      if (root.bootId !== bootId || trees.has(root.marker)) return
      record(root, { ours: false, adopted: true })
    },
    watch(root, of, onGone) {
      const watcher: Watcher = { of, onGone }
      watchers.set(root.marker, watcher)
      const tree = root.bootId === bootId ? record(root, { ours: false, adopted: false }) : undefined
      return () => {
        // Somebody may have begun to watch it anew meanwhile.
        if (watchers.get(root.marker) === watcher) watchers.delete(root.marker)
        if (trees.get(root.marker) === tree) trees.delete(root.marker)
      }
    },
    ask(reading, done) {
      const sessions = new Set<number>()
      const members = new Map<number, number>()
      for (const tree of trees.values()) {
        for (const id of tree.sessions.keys()) sessions.add(id)
        for (const [pid, startedAt] of tree.members) members.set(pid, startedAt)
      }
      const unknown = candidatesOf(reading.processes, [...trees.values()]).filter((stat) =>
        !isDead(stat) && !sessions.has(stat.session) && members.get(stat.pid) !== stat.startedAt
      )
      inSlices(unknown, (stat) => void askStranger(stat, strangers, table), done)
    },
    judge(reading, roots) {
      const found = classify(reading, [...trees.values()], strangers, table)
      const lookAt = (root: Identity): TreeLook => {
        const tree = trees.get(root.marker)
        if (tree === undefined) return { root, leader: "gone", members: [], occupied: [], complete: reading.complete }
        const look = describe(tree, reading.complete || bootId === null, found)
        if (tree.adopted && look.leader === "gone" && isEmpty(look) && look.complete) trees.delete(root.marker)
        return look
      }
      const tell = (look: TreeLook): void => {
        const watcher = watchers.get(look.root.marker)
        // A reading that broke off has not seen everybody.
        if (watcher === undefined || look.leader === "alive" || !look.complete) return
        if (watcher.of === "tree" && !isEmpty(look)) return
        watchers.delete(look.root.marker)
        watcher.onGone()
      }
      const looks = roots.map(lookAt)
      for (const look of looks) tell(look)
      return looks
    }
  }
}

/** Who is told when a leader that somebody else has started, or all of its tree, is gone. */
interface Watcher {
  readonly of: "leader" | "tree"
  readonly onGone: () => void
}

const isEmpty = (look: TreeLook): boolean => look.members.length === 0 && look.occupied.length === 0

/** Whether a known group of the tree's is populated, zombies included. Forgets those that are not. */
export const isOccupied = (tree: Tree): boolean => {
  for (const id of tree.groups.keys()) if (probeKnown(tree, id)) return true
  return false
}

/** Whether a group is the tree's for certain, though nobody in it was seen. */
export const ownsGroup = (tree: Tree, id: number, table: ProcessTable): boolean => {
  const known = tree.groups.get(id)
  if (known === undefined || performance.now() - known.seenAt > rememberMillis) return false
  let holder: ProcessStat | null
  try {
    holder = table.readStat(id)
  } catch {
    return false
  }
  if (holder === null || tree.members.get(id) === holder.startedAt) return true
  const session = tree.sessions.get(holder.session)
  return session !== undefined && (holder.session !== id || session.startedAt === holder.startedAt)
}

/** Probes a known group: notes the time when it is populated, forgets it when it is empty. */
const probeKnown = (tree: Tree, id: number): boolean => {
  const known = tree.groups.get(id)
  if (known === undefined) return false
  const populated = (tree.unreapedChild && id === tree.root.pid) || probeGroup(id)
  if (populated) known.seenAt = performance.now()
  else tree.groups.delete(id)
  return populated
}

/** A process that was asked for markers. `final`: it need not be asked again. */
interface Stranger {
  readonly startedAt: number
  readonly since: number
  readonly markers: ReadonlyArray<string>
  readonly final: boolean
}

const recall = (stat: ProcessStat, strangers: ReadonlyMap<number, Stranger>): Stranger | null => {
  const known = strangers.get(stat.pid)
  return known?.startedAt === stat.startedAt ? known : null
}

const askStranger = (stat: ProcessStat, strangers: Map<number, Stranger>, table: ProcessTable): Stranger => {
  const before = recall(stat, strangers)
  if (before?.final === true) return before
  const now = performance.now()
  const since = before?.since ?? now
  const names = table.readEnvironNames(stat.pid)
  const asked: Stranger = {
    startedAt: stat.startedAt,
    since,
    markers: names?.filter((name) => name.startsWith(markerPrefix)) ?? [],
    final: names !== null || now - since > youngMillis
  }
  strangers.set(stat.pid, asked)
  return asked
}

/** A reading, sorted by what is asked of it, and whom each process in it belongs to. */
interface Index {
  readonly processes: ReadonlyMap<number, ProcessStat>
  readonly complete: boolean
  readonly candidates: ReadonlyArray<ProcessStat>
  readonly children: ReadonlyMap<number, ReadonlyArray<ProcessStat>>
  readonly bySession: ReadonlyMap<number, ReadonlyArray<ProcessStat>>
  readonly byGroup: ReadonlyMap<number, ReadonlyArray<ProcessStat>>
  readonly owners: Map<number, Tree>
  readonly members: Map<Tree, Array<ProcessStat>>
}

const sort = (
  processes: ReadonlyArray<ProcessStat>,
  by: "parent" | "session" | "group"
): ReadonlyMap<number, ReadonlyArray<ProcessStat>> => {
  const sorted = new Map<number, Array<ProcessStat>>()
  for (const stat of processes) {
    const those = sorted.get(stat[by])
    if (those === undefined) sorted.set(stat[by], [stat])
    else those.push(stat)
  }
  return sorted
}

/** Who may belong to a tree. Nothing that is older than every leader can. Ids come round; start times do not. */
const candidatesOf = (
  processes: ReadonlyMap<number, ProcessStat>,
  trees: ReadonlyArray<Tree>
): ReadonlyArray<ProcessStat> => {
  const oldest = trees.reduce((least, tree) => Math.min(least, tree.root.startedAt), Infinity)
  return [...processes.values()].filter((stat) => stat.startedAt >= oldest && stat.pid > 1 && stat.pid !== process.pid)
}

/** A reading's processes, without the leaders whose exit was collected after it had passed them. */
const stillThere = (reading: Reading, trees: ReadonlyArray<Tree>): ReadonlyMap<number, ProcessStat> => {
  const gone = trees.filter((tree) => tree.reapedAt !== null && tree.reapedAt >= reading.beganAt)
  if (gone.length === 0) return reading.processes
  const processes = new Map(reading.processes)
  for (const tree of gone) processes.delete(tree.root.pid)
  return processes
}

const indexOf = (reading: Reading, trees: ReadonlyArray<Tree>): Index => {
  const processes = stillThere(reading, trees)
  const candidates = candidatesOf(processes, trees)
  return {
    processes,
    complete: reading.complete,
    candidates,
    children: sort(candidates, "parent"),
    bySession: sort(candidates, "session"),
    byGroup: sort(candidates, "group"),
    owners: new Map(),
    members: new Map(trees.map((tree) => [tree, []]))
  }
}

type Take = (stat: ProcessStat, tree: Tree) => void

/** Finds every member, to a fixpoint, and brings what is remembered of each tree up to this reading. */
const classify = (
  reading: Reading,
  trees: ReadonlyArray<Tree>,
  strangers: Map<number, Stranger>,
  table: ProcessTable
): Index => {
  const index = indexOf(reading, trees)
  const queue: Array<readonly [ProcessStat, Tree]> = []
  const gathered = new Set<number>()
  const take: Take = (stat, tree) => {
    // The older cannot descend from the younger.
    if (index.owners.has(stat.pid) || stat.startedAt < tree.root.startedAt) return
    index.owners.set(stat.pid, tree)
    queue.push([stat, tree])
  }
  const spread = (): void => {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      const [stat, tree] = next
      if (!isDead(stat)) index.members.get(tree)?.push(stat)
      ownSession(tree, stat, index)
      for (const child of index.children.get(stat.pid) ?? []) take(child, tree)
      // Once a session: a crowd in one would else be compared each with each.
      if (gathered.has(stat.session) || !tree.sessions.has(stat.session)) continue
      gathered.add(stat.session)
      for (const fellow of index.bySession.get(stat.session) ?? []) take(fellow, tree)
    }
  }
  for (const tree of trees) forgetSessions(tree, index)
  for (const tree of trees) takeKnown(tree, index, take)
  spread()
  askStrangers(index, trees, strangers, table, take)
  spread()
  for (const [tree, members] of index.members) {
    forgetMembers(tree, index)
    for (const stat of members) recordMember(tree, stat)
  }
  for (const pid of strangers.keys()) if (!reading.processes.has(pid)) strangers.delete(pid)
  return index
}

/** Takes whom a tree's records name: its leader, its recorded members, and everybody in its sessions. */
const takeKnown = (tree: Tree, index: Index, take: Take): void => {
  const takeIf = (pid: number, startedAt: number): void => {
    const stat = index.processes.get(pid)
    if (stat?.startedAt === startedAt) take(stat, tree)
  }
  // Once its exit was collected, whoever has the leader's number is somebody else, even with the same start time.
  if (tree.reapedAt === null) takeIf(tree.root.pid, tree.root.startedAt)
  for (const [pid, startedAt] of tree.members) takeIf(pid, startedAt)
  for (const session of tree.sessions.keys()) for (const stat of index.bySession.get(session) ?? []) take(stat, tree)
}

/** A member's session is the tree's when the member leads it, or when nobody is left who leads it. */
const ownSession = (tree: Tree, stat: ProcessStat, index: Index): void => {
  if (stat.session <= 1 || tree.sessions.has(stat.session)) return
  const leader = index.processes.get(stat.session)
  if (leader !== undefined && leader.pid !== stat.pid) return
  tree.sessions.set(stat.session, { startedAt: leader?.startedAt ?? null, seenAt: performance.now() })
}

const recordMember = (tree: Tree, stat: ProcessStat): void => {
  tree.members.set(stat.pid, stat.startedAt)
  if (stat.group > 1 && tree.sessions.has(stat.session)) tree.groups.set(stat.group, { seenAt: performance.now() })
}

const forgetMembers = (tree: Tree, index: Index): void => {
  // Whom a reading could not tell of may live.
  if (!index.complete) return
  for (const [pid, startedAt] of tree.members) {
    if (index.processes.get(pid)?.startedAt === startedAt || (tree.unreapedChild && pid === tree.root.pid)) continue
    tree.members.delete(pid)
  }
}

const forgetSessions = (tree: Tree, index: Index): void => {
  const now = performance.now()
  for (const [id, session] of tree.sessions) {
    if (tree.unreapedChild && id === tree.root.pid) continue
    const leader = index.processes.get(id)
    // Somebody may fork faster than a reading: then the group of the same id tells that the session is populated.
    const isSeen = leader !== undefined || index.bySession.has(id) || probeKnown(tree, id)
    if (leader === undefined && !index.complete) continue
    const isOurs = leader === undefined
      ? now - session.seenAt <= rememberMillis && (isSeen || isOccupied(tree))
      : leader.startedAt === session.startedAt
    if (!isOurs) tree.sessions.delete(id)
    else if (isSeen) session.seenAt = now
  }
}

/** Takes those that carry a marker. Whoever was not asked before is asked now. */
const askStrangers = (
  index: Index,
  trees: ReadonlyArray<Tree>,
  strangers: Map<number, Stranger>,
  table: ProcessTable,
  take: Take
): void => {
  const byMarker = new Map(trees.map((tree) => [tree.root.marker, tree]))
  for (const stat of index.candidates) {
    if (index.owners.has(stat.pid) || isDead(stat)) continue
    const { markers } = recall(stat, strangers) ?? askStranger(stat, strangers, table)
    const marker = markers.find((name) => byMarker.has(name))
    const tree = marker === undefined ? undefined : byMarker.get(marker)
    if (tree !== undefined) take(stat, tree)
  }
}

/** What one reading says of one tree. */
const describe = (tree: Tree, complete: boolean, index: Index): TreeLook => ({
  root: tree.root,
  leader: leaderOf(tree, index),
  members: index.members.get(tree) ?? [],
  occupied: occupiedUnseen(tree, index),
  complete
})

const leaderOf = (tree: Tree, index: Index): TreeLook["leader"] => {
  if (tree.reapedAt !== null) return "gone"
  const stat = index.processes.get(tree.root.pid)
  // A child whose exit was not collected is there, also where its line could not be read.
  if (stat === undefined || stat.startedAt !== tree.root.startedAt) return tree.unreapedChild ? "alive" : "gone"
  return isDead(stat) ? "unreaped" : "alive"
}

/** The tree's groups that a probe finds populated and the reading does not. Forgets those that are no longer its own. */
const occupiedUnseen = (tree: Tree, index: Index): ReadonlyArray<number> => {
  const occupied: Array<number> = []
  for (const [id, known] of tree.groups) {
    const inside = index.byGroup.get(id) ?? []
    // A group lies within one session, so one process tells for all.
    if (inside.some((stat) => index.owners.get(stat.pid) === tree)) known.seenAt = performance.now()
    else if (inside.length > 0 || performance.now() - known.seenAt > rememberMillis) tree.groups.delete(id)
    else if (probeKnown(tree, id)) occupied.push(id)
  }
  return occupied
}
