/**
 * Holds what is against what was promised, after every step. Reads only: the world past the runtime, the rows past the
 * faults, and what the runtime says of itself.
 */
import * as Status from "@procyon/runtime/domain/Status"
import type { LedgerRow } from "@procyon/runtime/ports/ProcessLedger"
import type * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import type { Living } from "../World.ts"
import { printed } from "./children.ts"
import type { Rule } from "./Outcome.ts"
import type { Tally, Witness } from "./Witness.ts"

/** What there is after a step. */
export interface Scene {
  readonly living: ReadonlyArray<Living>
  readonly rows: ReadonlyArray<LedgerRow>
  /** What each life that goes on says of its jobs, and the titles of commands it has not let go of. */
  readonly lives: ReadonlyArray<{
    readonly session: number
    readonly jobs: ReadonlyArray<BackgroundProcess.Info>
    readonly commands: ReadonlySet<string | null>
  }>
  readonly hasDirectory: (path: string) => boolean
}

type Tell = (rule: Rule, detail: string) => void

const isSettled = Status.isSettled

export class Inspection {
  /** Ids of jobs that an operator gave up. */
  readonly abandoned = new Set<string>()
  readonly #mayBeLost: boolean
  readonly #witness: Witness
  readonly #tell: Tell
  readonly #rows = new Map<string, { readonly status: Status.Status; readonly fence: number }>()
  readonly #markers = new Map<string, string>()
  /** Ids of jobs that some life has called settled: their rows may catch up and go in one step. */
  readonly #settled = new Set<string>()
  readonly #statuses = new Map<string, Status.Status>()

  /** `mayBeLost`: whether leases are lost to somebody else. */
  constructor(witness: Witness, mayBeLost: boolean, tell: Tell) {
    this.#mayBeLost = mayBeLost
    this.#witness = witness
    this.#tell = tell
  }

  /** The marker of a job, as far as any row has told it. */
  markerOf(id: string): string | undefined {
    return this.#markers.get(id)
  }

  inspect(scene: Scene): void {
    for (const row of scene.rows) if (row.identity !== null) this.#markers.set(row.id, row.identity.marker)
    this.#inspectRows(scene.rows)
    this.#inspectLiving(scene)
    for (const { jobs, session } of scene.lives) for (const info of jobs) this.#inspectJob(scene, session, info)
  }

  #inspectRows(rows: ReadonlyArray<LedgerRow>): void {
    const now = new Set(rows.map(({ id }) => id))
    for (const { fence, id, status } of rows) {
      const before = this.#rows.get(id)
      this.#rows.set(id, { status, fence })
      if (before === undefined) continue
      if (!isForward(before.status, status)) this.#tell("forward", `row of ${id}: ${before.status} -> ${status}`)
      if (fence < before.fence) this.#tell("forward", `fence of ${id}: ${before.fence} -> ${fence}`)
    }
    for (const [id, { status }] of this.#rows) {
      if (now.has(id)) continue
      this.#rows.delete(id)
      if (!isSettled(status) && !this.#settled.has(id) && !this.abandoned.has(id)) {
        this.#tell("forward", `row of ${id} is gone, it was ${status}`)
      }
    }
  }

  #inspectLiving({ hasDirectory, lives, living, rows }: Scene): void {
    const byMarker = new Map(rows.flatMap((row) => row.identity === null ? [] : [[row.identity.marker, row] as const]))
    for (const { label, marker, pid } of living) {
      const who = `${label} (${pid})`
      if (marker === null) {
        if (label !== "stranger") this.#tell("owned", `${who} carries no marker`)
        continue
      }
      const sighting = this.#witness.of(marker)
      if (sighting === undefined) {
        this.#tell("owned", `${who} was started by nobody`)
        continue
      }
      if (sighting.cwd !== null && !hasDirectory(sighting.cwd)) {
        this.#tell("workspace", `${who} of ${sighting.job} works in a directory that was removed`)
      }
      const row = byMarker.get(marker)
      if (row !== undefined) {
        if (isSettled(row.status)) this.#tell("proof", `${who} lives, and the row of ${row.id} says ${row.status}`)
        continue
      }
      const id = [...this.#markers].find(([, of]) => of === marker)?.[0]
      if (id !== undefined) {
        if (!this.abandoned.has(id)) this.#tell("owned", `${who} lives, and the row of ${id} is gone`)
        continue
      }
      if (!lives.some((life) => life.session === sighting.session)) continue
      if (!lives.some(({ commands }) => commands.has(sighting.job))) {
        this.#tell("owned", `${who} lives, and nobody has ${sighting.job}`)
      }
    }
  }

  #inspectJob({ living }: Scene, session: number, info: BackgroundProcess.Info): void {
    const { endedAt, exit, id, output, phase, receipt, status, stderr } = info
    const key = `${session}:${id}`
    const before = this.#statuses.get(key)
    this.#statuses.set(key, status)
    if (isSettled(status)) this.#settled.add(id)
    // One that was lost to another life, and comes back, comes as its row says.
    if (before !== undefined && !isForward(before, status) && !this.#mayBeLost) {
      this.#tell("forward", `${id}: ${before} -> ${status}`)
    }
    const marker = this.#markers.get(id)
    if (marker === undefined) return
    // What another life has taken over is that one's to tell of. Before it says when it ended, it is being let go of.
    if (isSettled(status) && endedAt !== null && receipt?.cause._tag !== "Disowned") {
      const alive = living.filter((process) => process.marker === marker).map(({ label }) => label)
      if (alive.length > 0) this.#tell("proof", `${id} is ${status}, and of it live ${alive.join(", ")}`)
    }
    const sighting = this.#witness.sightings.findLast((seen) => seen.marker === marker && seen.session === session)
    // Of what an earlier life has read, a later one knows the counts of the last heartbeat; a file it reads anew.
    if (sighting === undefined || (sighting.attached && info.lifetime !== "detached")) return
    const how = { attached: sighting.attached, isSealing: output.sealed || phase === "flushing" }
    this.#inspectStream(`${id} stdout`, output, sighting.stdout, how)
    if (stderr !== null) this.#inspectStream(`${id} stderr`, stderr, sighting.stderr, how)
    const total = printed[sighting.child]
    if (total === undefined || receipt?.cause._tag !== "SelfExit" || exit === null || exit.code === null) return
    if (exit.code === 5 || !output.drained) return
    const said = stderr === null ? total[0] + total[1] : total[0]
    if (output.bytesSeen !== said) {
      this.#tell("output", `${id} printed ${said} bytes, and ${output.bytesSeen} were seen`)
    }
  }

  #inspectStream(
    what: string,
    metadata: BackgroundProcess.Info["output"],
    tally: Tally,
    { attached, isSealing }: { readonly attached: boolean; readonly isSealing: boolean }
  ): void {
    // What comes after a seal is dropped, and said to be not drained.
    if (isSealing && !metadata.drained && metadata.bytesSeen < tally.bytes) return
    if (metadata.bytesSeen !== tally.bytes) {
      this.#tell("output", `${what}: ${tally.bytes} bytes were read, and ${metadata.bytesSeen} seen`)
    } else if (metadata.sealed && metadata.sha256 !== tally.sha256 && !attached) {
      this.#tell("output", `${what}: another hash`)
    }
  }
}

const isForward = (from: Status.Status, to: Status.Status): boolean => {
  if (from === to) return true
  return from === "running" || (from === "kill_failed" && to !== "running")
}
