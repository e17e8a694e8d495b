/**
 * Directories and files that are this user's alone to write to: what is found in them is believed, so it has to be known
 * who wrote it.
 */
import * as fs from "node:fs"

/** Whether somebody else owns it or may write to it. Windows has neither users nor modes here. */
export const isOpenToOthers = (stat: fs.Stats): boolean => {
  const uid = process.geteuid?.()
  return uid !== undefined && (stat.uid !== uid || (stat.mode & 0o022) !== 0)
}

/** Makes a directory with mode 0700 where there is none. `false`: there is one, and it is open to others. */
export const makePrivateDirectory = (directory: string): boolean => {
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
  const stat = fs.statSync(directory)
  return stat.isDirectory() && !isOpenToOthers(stat)
}
