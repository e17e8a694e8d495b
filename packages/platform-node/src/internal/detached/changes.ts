/**
 * Noticing that something in a directory has changed.
 */
import * as fs from "node:fs"

/**
 * How often the caller is told without being asked where the system watches nothing any more (`ENOSPC`, `EMFILE`: the
 * bounds of inotify), in milliseconds.
 */
const fallbackMillis = 250

/**
 * Calls back with the name of what has changed, or with `null` when that is not known. Does not keep the event loop alive.
 * Answers how to stop.
 */
export const watch = (directory: string, changed: (name: string | null) => void): () => void => {
  let stop = (): void => {}
  const poll = (): void => {
    const timer = setInterval(() => changed(null), fallbackMillis).unref()
    stop = () => clearInterval(timer)
  }
  try {
    const watcher = fs.watch(directory, { persistent: false }, (_event, name) => changed(name))
    stop = () => watcher.close()
    watcher.on("error", () => {
      watcher.close()
      poll()
    })
  } catch {
    poll()
  }
  return () => stop()
}
