/**
 * The names of markers: environment variables that tell whose tree a process belongs to. A module of its own, without
 * Effect: processes that have none loaded need it too.
 */

/** What every marker's name starts with. The rest is random, so nested runtimes keep each other's. */
export const markerPrefix = "PROCYON_MARK_"
