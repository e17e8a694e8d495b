/**
 * Starts, one after the other, with turns of the event loop in between.
 *
 * A start holds the event loop for as long as the system takes to copy this process: milliseconds, and more as it grows.
 * A thousand of them in a row would stop everything else for seconds.
 */

/** How much of one turn starts may use, in milliseconds, before the rest wait for the next turn. */
const turnMillis = 8

/** One start: first what it needs is fetched, which may take turns, then it is made, which takes time of one. */
interface Start {
  /** Calls `ready` once, at once or later. */
  readonly prepare: (ready: () => void) => void
  readonly launch: () => void
}

export interface StartQueue {
  /** Enqueues a start, which may be made within this call. Answers how to take it back while it waits. */
  readonly add: (start: Start) => () => void
}

export const make = (): StartQueue => {
  const waiting = new Set<Start>()
  let busy = false
  let used = 0
  let turn: NodeJS.Immediate | null = null

  const launch = (start: Start): void => {
    turn ??= setImmediate(() => {
      turn = null
      used = 0
      pump()
    })
    const began = performance.now()
    start.launch()
    used += performance.now() - began
    busy = false
    pump()
  }
  const pump = (): void => {
    const [start] = waiting
    if (start === undefined || busy || used >= turnMillis) return
    waiting.delete(start)
    busy = true
    start.prepare(() => launch(start))
  }

  return {
    add(start) {
      waiting.add(start)
      pump()
      return () => void waiting.delete(start)
    }
  }
}
