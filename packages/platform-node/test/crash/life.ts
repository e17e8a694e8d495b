/** How one life of the application is told what to do, and where it finds what earlier lives have left. */
import { join } from "node:path"
import type { Target } from "./points.ts"

/**
 * - `direct`: the application is the parent of the jobs.
 * - `keeper`: a keeper is, and outlives the application to end them.
 * - `unkept`: a keeper is, and is killed with the application.
 */
export const drivers = ["direct", "keeper", "unkept"] as const
export type DriverName = typeof drivers[number]

export interface Life {
  /** Counted from 1. The first starts the jobs; the others find what is left. */
  readonly number: number
  readonly directory: string
  readonly driver: DriverName
  /** Digits that the command line of each process of the jobs holds. */
  readonly tag: string
  readonly seed: number
  /** Where it is killed; `null`: nowhere. */
  readonly target: Target | null
}

/** Where the state of an application is, all under one directory. */
export const placesIn = (directory: string) => ({
  state: join(directory, "state"),
  blobs: join(directory, "blobs"),
  detached: join(directory, "detached"),
  workspaces: join(directory, "workspaces"),
  /** `TMPDIR` of all lives. */
  temporary: join(directory, "tmp"),
  /** Nobody has any business here. */
  outside: join(directory, "outside"),
  journal: join(directory, "journal")
})
