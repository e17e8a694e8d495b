/**
 * The tree that a watcher leads: who is in it, and signals to them and not to the watcher itself. Without Effect.
 *
 * Members are those in its session, those that carry the marker, and the descendants of both; who was seen once is known
 * afterwards. Each is signalled only after its start time was read again.
 */
import { isDead, linux, type ProcessStat, type Reading, tryReadStat } from "../processTable.ts"

/** How often it stops whom it finds before it kills: who is stopped forks no more. */
const mostFreezes = 50

export interface OwnTree {
  /** Calls back with the living members, this process left out. */
  readonly look: (done: (members: ReadonlyArray<ProcessStat>) => void) => void
  /** Signals everybody a fresh look shows. */
  readonly signal: (signal: NodeJS.Signals, done: () => void) => void
  /** Stops them until nobody new is found, kills them all, and calls back with how many another look finds. */
  readonly kill: (done: (remaining: number) => void) => void
}

export const make = (marker: string): OwnTree => {
  const startedAt = tryReadStat(process.pid)?.startedAt ?? 0
  const known = new Map<number, number>()
  const carriers = new Map<number, number>()

  const carries = (stat: ProcessStat): boolean => {
    if (carriers.get(stat.pid) === stat.startedAt) return true
    if (linux.readEnvironNames(stat.pid)?.includes(marker) !== true) return false
    carriers.set(stat.pid, stat.startedAt)
    return true
  }
  const membersOf = (reading: Reading): ReadonlyArray<ProcessStat> => {
    const candidates = [...reading.processes.values()].filter((stat) =>
      stat.startedAt >= startedAt && stat.pid !== process.pid && !isDead(stat)
    )
    const members = new Set(
      candidates.filter((stat) =>
        stat.session === process.pid || stat.parent === process.pid || known.get(stat.pid) === stat.startedAt ||
        carries(stat)
      )
    )
    const pids = new Set([...members].map((stat) => stat.pid))
    for (let size = -1; size !== members.size;) {
      size = members.size
      for (const stat of candidates) {
        if (!pids.has(stat.parent) && !pids.has(stat.session)) continue
        members.add(stat)
        pids.add(stat.pid)
      }
    }
    known.clear()
    for (const stat of members) known.set(stat.pid, stat.startedAt)
    return [...members]
  }
  const look: OwnTree["look"] = (done) => linux.read((reading) => done(membersOf(reading)))

  const freeze = (frozen: Set<string>, times: number, done: (members: ReadonlyArray<ProcessStat>) => void): void =>
    look((members) => {
      const fresh = members.filter((stat) => !frozen.has(keyOf(stat)))
      if (fresh.length === 0 || times === 0) return done(members)
      for (const stat of fresh) {
        frozen.add(keyOf(stat))
        send(stat, "SIGSTOP")
      }
      freeze(frozen, times - 1, done)
    })

  return {
    look,
    signal: (signal, done) =>
      look((members) => {
        for (const stat of members) send(stat, signal)
        done()
      }),
    kill: (done) =>
      freeze(new Set(), mostFreezes, (members) => {
        for (const stat of members) send(stat, "SIGKILL")
        look((remaining) => done(remaining.length))
      })
  }
}

const keyOf = (stat: ProcessStat): string => `${stat.pid}:${stat.startedAt}`

const send = (stat: ProcessStat, signal: NodeJS.Signals): void => {
  try {
    if (tryReadStat(stat.pid)?.startedAt === stat.startedAt) process.kill(stat.pid, signal)
  } catch {
    // It has ended, or has become another user's.
  }
}
