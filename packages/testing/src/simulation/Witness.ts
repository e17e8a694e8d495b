/**
 * What a simulation knows of the world past the runtime: who was started for whom, and what was really read of it.
 *
 * It stands closest to the scripted driver, below every fault, so what it saw has happened.
 */
import type * as BlobStore from "@procyon/runtime/ports/BlobStore"
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"

/** What was committed to one sink. */
export class Tally {
  bytes = 0
  readonly #hash: ProcessDriver.Sha256
  #digest: string | null = null

  constructor(hash: ProcessDriver.Sha256) {
    this.#hash = hash
  }

  add(bytes: Uint8Array): void {
    this.bytes += bytes.length
    if (this.#digest === null) this.#hash.update(bytes)
  }

  /** Of all that was committed until it is first asked for. */
  get sha256(): string {
    this.#digest ??= this.#hash.digest()
    return this.#digest
  }
}

/** One leader as one life sees it: a life that takes over has another. */
export interface Sighting {
  readonly session: number
  readonly marker: string
  /** The name in the history; empty for one that was attached to. */
  readonly job: string
  readonly child: string
  /** Found again, not started: what it said before is not always to be had. */
  readonly attached: boolean
  readonly cwd: string | null
  readonly stdout: Tally
  /** The same as `stdout` where the streams are merged. */
  readonly stderr: Tally
}

export class Witness {
  readonly sightings: Array<Sighting> = []
  /** Readers, writers and leases of blobs that were opened and not let go of. */
  openBlobs = 0

  /** The last sighting of a tree, by whatever life. */
  of(marker: string): Sighting | undefined {
    return this.sightings.findLast((sighting) => sighting.marker === marker)
  }

  /** The driver as the life of this number has it. */
  watch(driver: ProcessDriver.ProcessDriver, session: number): ProcessDriver.ProcessDriver {
    const see = <Request extends Pick<ProcessDriver.SpawnRequest, "stdout" | "stderr">>(
      request: Request,
      who: Pick<Sighting, "attached" | "marker" | "job" | "child" | "cwd">
    ): Request => {
      const stdout = new Tally(driver.sha256())
      const stderr = request.stderr === "merged" ? stdout : new Tally(driver.sha256())
      this.sightings.push({ session, stdout, stderr, ...who })
      return {
        ...request,
        stdout: counted(request.stdout, stdout),
        stderr: request.stderr === "merged" ? "merged" : counted(request.stderr, stderr)
      }
    }
    return {
      ...driver,
      spawn: (request) =>
        Effect.suspend(() => {
          const { options, program } = request.command
          const [child, job] = program._tag === "Exec" ? [program.command, program.args[0]] : ["sh", ""]
          return driver.spawn(see(request, {
            marker: request.marker,
            job: typeof job === "string" ? job : "",
            child,
            attached: false,
            cwd: options.cwd ?? null
          }))
        }),
      attach: (request) =>
        Effect.suspend(() => {
          const { marker } = request.identity
          const before = this.of(marker)
          return driver.attach(see(request, {
            marker,
            job: before?.job ?? "",
            child: before?.child ?? "",
            attached: true,
            cwd: before?.cwd ?? null
          }))
        })
    }
  }

  /** The store, with all that is open of it counted. */
  count(store: BlobStore.BlobStore): BlobStore.BlobStore {
    const open = Effect.acquireRelease(
      Effect.sync(() => {
        this.openBlobs++
      }),
      () =>
        Effect.sync(() => {
          this.openBlobs--
        })
    )
    return {
      write: (name) => Effect.andThen(open, store.write(name)),
      lease: (ref) => Effect.andThen(open, store.lease(ref)),
      read: (ref, options) => store.read(ref, options),
      remove: (name) => store.remove(name)
    }
  }
}

const counted = (sink: ProcessDriver.OutputSink, tally: Tally): ProcessDriver.OutputSink => {
  let region: Uint8Array = new Uint8Array(0)
  return {
    reserve: () => {
      region = sink.reserve()
      return region
    },
    commit: (count) => {
      tally.add(region.subarray(0, count))
      return sink.commit(count)
    },
    end: () => sink.end()
  }
}
