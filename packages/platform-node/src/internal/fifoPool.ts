/**
 * A stock of FIFOs: named pipes that a child writes to and this process reads.
 *
 * Node gives a child socket pairs, which cannot be opened again as `/dev/stdout`, and has no call that makes a pipe. A
 * FIFO is one, but only a program makes it (`mkfifo.ts`), so they are made in batches, one batch at a time. Each name is
 * used once and unlinked at once, so that what survives of one job can never write into the next one's.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import * as FifoDirectory from "./fifoDirectory.ts"
import { type MakeFifos, mkfifo } from "./mkfifo.ts"

/** The first batch is small, since most programs start few children; `mkfifo` takes some 40 us a name. */
const firstBatch = 24
const batch = 240

/** When this share of a batch is left, the next one is made: so that a start seldom waits for it. */
const lowShare = 1 / 4

export interface FifoPool {
  /**
   * Calls back, at once when there are enough, with so many paths, the caller's to open and unlink; with `null` when none
   * can be made. Calls made while a batch is being made wait for it in order.
   */
  readonly take: (count: number, use: (names: ReadonlyArray<string> | null) => void) => void
  /** Takes unopened names back. */
  readonly give: (names: ReadonlyArray<string>) => void
  /** Removes the directory, after the batch in the making or a bound. Nothing is made afterwards. */
  readonly close: (done: () => void) => void
}

/** How long closing waits for a batch, in milliseconds. */
const closeMillis = 3_000

/** A pool with no directory yet: it is made, readable by this user only, with the first batch. */
export const make = (makeFifos: MakeFifos = mkfifo(), closingMillis = closeMillis): FifoPool => {
  let directory: string | null = null
  let made = 0
  let closed = false
  let names: Array<string> = []
  let waiting: Array<(made: boolean) => void> | null = null

  const forget = (): void => {
    if (directory !== null) FifoDirectory.remove(directory)
    directory = null
    names = []
  }
  const settle = (fresh: ReadonlyArray<string>): void => {
    const callbacks = waiting ?? []
    waiting = null
    // A failure may be the directory's, such as one that a cleaner has removed: the next batch makes a new one.
    if (fresh.length === 0) forget()
    else names.push(...fresh)
    for (const callback of callbacks) callback(fresh.length > 0)
  }
  const produce = (): void => {
    try {
      directory ??= FifoDirectory.make()
      const within = directory
      const fresh = Array.from({ length: made === 0 ? firstBatch : batch }, () => path.join(within, String(made++)))
      makeFifos(fresh, (ok) => settle(ok ? fresh : []))
    } catch {
      settle([])
    }
  }

  const refill = (done: (made: boolean) => void): void => {
    if (closed) done(false)
    else if (waiting === null) {
      waiting = [done]
      produce()
    } else waiting.push(done)
  }
  const take: FifoPool["take"] = (count, use) => {
    // Cleaners of temporary directories remove what has not been touched for days.
    if (waiting === null && directory !== null && !fs.existsSync(directory)) forget()
    if (names.length < count) return refill((made) => made ? take(count, use) : use(null))
    use(names.splice(names.length - count))
    if (waiting === null && names.length < lowShare * Math.min(made, batch)) refill(() => {})
  }

  return {
    take,
    give: (unused) => {
      if (closed) { for (const name of unused) fs.rmSync(name, { force: true }) }
      else names.push(...unused)
    },
    close(done) {
      closed = true
      let finished = false
      const finish = (): void => {
        if (finished) return
        finished = true
        clearTimeout(bound)
        forget()
        done()
      }
      const bound = setTimeout(finish, closingMillis)
      if (waiting === null) finish()
      else waiting.push(finish)
    }
  }
}
