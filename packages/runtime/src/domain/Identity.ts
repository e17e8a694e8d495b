/**
 * Which process is meant: enough facts to tell it from every other one this machine runs, has run, or will run.
 *
 * A pid alone is never proof, since the system hands it out again. A start time helps and can still repeat: Linux
 * counts it in steps of 10 ms. So an identity also holds the boot it belongs to and a marker that only this process and
 * its descendants carry in their environment.
 */
import * as Schema from "effect/Schema"

export { markerPrefix } from "./Marker.ts"

/**
 * - `pid`: the process id.
 * - `startedAt`: the platform's own start time (Linux: clock ticks since boot, field 22 of `/proc/PID/stat`). Only ever
 *   compared for equality.
 * - `bootId`: the boot this pid belongs to, and on Linux the namespace it is a number of; another boot means the process is
 *   lost.
 * - `marker`: name of the environment variable that was set for this process and is inherited by its descendants.
 */
export const Identity = Schema.Struct({
  pid: Schema.Int,
  startedAt: Schema.Finite,
  bootId: Schema.String,
  marker: Schema.String
})
export interface Identity extends Schema.Schema.Type<typeof Identity> {}

/** Whether both name the same process. */
export const same = (self: Identity, that: Identity): boolean =>
  self.pid === that.pid && self.startedAt === that.startedAt && self.bootId === that.bootId &&
  self.marker === that.marker

/**
 * The identity of a start that nobody has answered yet: no pid, only the marker by which whoever was started can be
 * found.
 */
export const unborn = (bootId: string, marker: string): Identity => ({ pid: 0, startedAt: 0, bootId, marker })

/** Whether it is one of a start that nobody has answered. */
export const isUnborn = (self: Identity): boolean => self.pid === 0
