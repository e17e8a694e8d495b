/**
 * The end of a child's stdin, for those who open it by name after it was closed.
 *
 * A pipe without writers is at its end. A FIFO is so for whoever has it open, but holds back whoever opens it until there
 * is a writer: `cat /dev/stdin` would wait for ever for what it has missed. So after the end a writer is opened for a
 * moment, again and again, and lets them go on. Nothing tells that somebody waits, hence the one timer of this driver; it
 * holds no event loop, and ends with the child.
 */
import * as fs from "node:fs"

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

/** The first pause, in milliseconds. Each is twice as long as the one before: most programs open their input early. */
const firstPauseMillis = 4
const longestPauseMillis = 512

export interface FifoEnd {
  /** To be called while the writing end is still open, right before it is closed. */
  readonly begin: () => void
  /** Nobody will open it any more, or nobody who counts. */
  readonly stop: () => void
}

/** The end of the FIFO that has `fd`, its writing end. */
export const make = (fd: number): FifoEnd => {
  let kept: number | null = null
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  const openAgain = (of: number, flags: number): number => fs.openSync(`/proc/self/fd/${of}`, flags | O_NONBLOCK)
  const letGo = (pause: number): void => {
    timer = setTimeout(() => {
      if (kept === null) return
      try {
        fs.closeSync(openAgain(kept, O_WRONLY))
      } catch {
        // No descriptors left: who waits, waits for the next time.
      }
      letGo(Math.min(pause * 2, longestPauseMillis))
    }, pause)
    timer.unref()
  }

  return {
    begin() {
      if (stopped || kept !== null) return
      try {
        // A reader, which hides from nobody that there is no writer.
        kept = openAgain(fd, O_RDONLY)
      } catch {
        return
      }
      letGo(firstPauseMillis)
    },
    stop() {
      stopped = true
      clearTimeout(timer)
      if (kept !== null) fs.closeSync(kept)
      kept = null
    }
  }
}
