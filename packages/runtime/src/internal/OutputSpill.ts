/**
 * The way of one stream's output from its window into a blob: begun when memory loses bytes, from offset 0 on.
 *
 * Bytes go to the store straight from the window, one append at a time; what is not written yet is protected from being
 * overwritten, and when the room for that gets short the stream is paused until the append is through. A broken or
 * hanging store never holds the stream up: the spill fails, the window flows on, and a retry may go on later.
 *
 * A blob lacks at most one run of bytes (`gap`): it holds `[0, gap.from)` at its beginning and, when a retry went on
 * after bytes were lost, `[gap.to, seen)` at its end. When bytes are lost twice, the gap reaches over what lies between.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Gap, OutputWindow } from "../domain/OutputWindow.ts"
import type { BlobError, BlobStore, BlobWriter } from "../ports/BlobStore.ts"
import * as OutputSource from "./OutputSource.ts"
import { within } from "./Within.ts"

/** How output that memory loses goes into a blob store. */
export interface Options {
  readonly store: BlobStore
  /** Most bytes of one blob; 0 for no cap. Past it the blob is partial, and the process is not disturbed. */
  readonly cap: number
  /** Runs an effect in a fiber of the runtime; what it returns and how it ends is of no interest. */
  readonly fork: (effect: Effect.Effect<void>) => void
  /** How long one call of the store may take before the spill counts as failed. Default 10,000. */
  readonly stallMillis?: number | undefined
  /** Of the runtime: at its end a spill that failed, and might have been gone on with, lets go of what it has written. */
  readonly scope?: Scope.Scope | undefined
}

export interface OutputSpill {
  readonly state: "none" | "writing" | "complete" | "partial" | "failed"
  readonly spilledBytes: number
  readonly capped: boolean
  readonly gap: Gap | null
  readonly blob: string | null
  /** Whether a seal has something to wait for. */
  readonly begun: boolean
  /** Before memory is lent: gives up when nothing more can be lent without overwriting what is not written yet. */
  readonly beforeReserve: () => void
  /** After bytes were committed. `false`: pause, until the `flow` callback is called. */
  readonly afterCommit: () => boolean
  /** Writes what is left and seals the blob. Interrupted, the spill has failed. */
  readonly finish: (sha256: string) => Effect.Effect<void>
  /** Goes on after a failure. `false`: nothing to retry, or failed again. */
  readonly retry: Effect.Effect<boolean>
  /** Removes what it has written. Bounded; the reference is given back at once, for all who read without a `hold`. */
  readonly dispose: Effect.Effect<void>
  /** See `OutputSource.hold`. `null` as long as there is no sealed blob. */
  readonly hold: Effect.Effect<OutputSource.OutputSource | null, never, Scope.Scope>
  /** Where the blob has the byte at `since`, or the first one after it that it has. `null`: no such byte, or no blob. */
  readonly locate: OutputSource.OutputSource["locate"]
  /** Bytes of the blob, `null` when not all of them could be read. */
  readonly read: (offset: number, length: number) => Effect.Effect<Uint8Array | null>
}

/** `flow` is called when a paused stream may flow again. */
export const make = (name: string, window: OutputWindow, options: Options, flow: () => void): OutputSpill =>
  new Spill(name, window, options, flow)

class Spill implements OutputSpill {
  readonly #name: string
  readonly #window: OutputWindow
  readonly #store: BlobStore
  readonly #cap: number
  readonly #fork: (effect: Effect.Effect<void>) => void
  readonly #stallMillis: number
  readonly #parent: Scope.Scope | undefined
  readonly #flow: () => void
  readonly #lock = Semaphore.makeUnsafe(1)
  #phase: "idle" | "writing" | "capped" | "failed" | "sealed" | "disposed" = "idle"
  #retryable = true
  #pumping = false
  #paused = false
  #writer: BlobWriter | null = null
  #scope: Scope.Closeable | null = null
  /** Whether the store was ever asked to write. */
  #isWritten = false
  /** Stream offset of the next byte to be written. */
  #next = 0
  #lost: Gap | null = null
  /** Set when the stream is over: the hash of all of it. */
  #sha256: string | null = null
  spilledBytes = 0
  blob: string | null = null

  constructor(name: string, window: OutputWindow, options: Options, flow: () => void) {
    this.#name = name
    this.#window = window
    this.#store = options.store
    this.#cap = options.cap === 0 ? Infinity : options.cap
    this.#fork = options.fork
    this.#stallMillis = options.stallMillis ?? 10_000
    this.#parent = options.scope
    this.#flow = flow
  }

  get begun(): boolean {
    return this.#phase !== "idle"
  }

  get capped(): boolean {
    return this.spilledBytes >= this.#cap && this.#next < this.#window.seen
  }

  get gap(): Gap | null {
    return this.capped ? { from: this.#lost?.from ?? this.#next, to: this.#window.seen } : this.#lost
  }

  get state(): OutputSpill["state"] {
    switch (this.#phase) {
      case "idle":
      case "disposed":
        return "none"
      case "failed":
        return "failed"
      case "capped":
        return "partial"
      case "writing":
        return this.#lost === null ? "writing" : "partial"
      case "sealed":
        return this.gap === null ? "complete" : "partial"
    }
  }

  beforeReserve(): void {
    // Only a driver that reads on after it was told to pause comes here.
    if ((this.#phase === "writing" || this.#phase === "idle") && this.#window.room < 1) this.#abandon(true)
  }

  afterCommit(): boolean {
    if (this.#phase === "idle" && this.#window.truncated) this.#phase = "writing"
    if (this.#phase !== "writing") return true
    if (!this.#pumping && this.#window.seen - this.#next >= this.#window.slice * 2) this.#startPump()
    if (!this.#mustPause()) return true
    this.#paused = true
    return false
  }

  finish(sha256: string): Effect.Effect<void> {
    const finished = this.#exclusive(Effect.suspend(() => {
      if (this.#phase === "failed") this.#revive()
      return Effect.andThen(this.#writeUntil(this.#window.seen, 1), this.#sealBlob())
    }))
    this.#sha256 = sha256
    // Again outside: also who is interrupted while it waits for its turn leaves nothing half done.
    return Effect.onInterrupt(finished, () => Effect.sync(() => this.#abandon(true)))
  }

  get retry(): Effect.Effect<boolean> {
    return this.#exclusive(Effect.suspend(() => {
      if (this.#phase !== "failed" || !this.#retryable) return Effect.succeed(false)
      this.#revive()
      const written = this.#writeUntil(this.#window.seen, 1)
      const done = this.#sha256 === null ? written : Effect.andThen(written, this.#sealBlob())
      return Effect.map(done, () => this.#phase !== "failed")
    }))
  }

  get dispose(): Effect.Effect<void> {
    return this.#exclusive(Effect.suspend(() => {
      const isWritten = this.#isWritten
      this.#phase = "disposed"
      this.#isWritten = false
      this.#window.protect(null)
      this.blob = null
      this.#resume()
      const dropped = this.#closeWriter()
      // What cannot be removed costs disk, never truth, and its owner has nobody left to tell. A call that was given up may
      // have sealed a blob that is not known of here, so all of it goes.
      return isWritten
        ? Effect.andThen(dropped, Effect.ignoreCause(this.#bounded(() => this.#store.remove(this.#name))))
        : dropped
    }))
  }

  get hold(): Effect.Effect<OutputSource.OutputSource | null, never, Scope.Scope> {
    return Effect.suspend(() => {
      if (this.blob === null) return Effect.succeed(null)
      const extent = { gap: this.gap, length: this.spilledBytes }
      return OutputSource.ofBlob(this.#store, this.blob, extent, this.#stallMillis).hold
    })
  }

  locate(since: number, seen: number): OutputSource.Place | null {
    if (this.blob === null) return null
    return OutputSource.locate({ gap: this.gap, length: this.spilledBytes }, since, seen)
  }

  read(offset: number, length: number): Effect.Effect<Uint8Array | null> {
    const blob = this.blob
    if (blob === null) return Effect.succeed(null)
    return OutputSource.readBlob(this.#store, blob, { offset, length }, this.#stallMillis)
  }

  /** One at a time; whoever is interrupted half way leaves a failed spill behind, never a stuck one. */
  #exclusive<A>(effect: Effect.Effect<A>): Effect.Effect<A> {
    return this.#lock.withPermits(1)(Effect.onInterrupt(effect, () => Effect.sync(() => this.#abandon(true))))
  }

  #mustPause(): boolean {
    // Twice a slice: one may be lent already when the stream is paused.
    return this.#phase === "writing" && this.#window.room < this.#window.slice * 2
  }

  #resume(): void {
    if (!this.#paused || this.#mustPause()) return
    this.#paused = false
    this.#flow()
  }

  #startPump(): void {
    this.#pumping = true
    const write = Effect.suspend(() => this.#writeUntil(Infinity, this.#window.slice * 2))
    this.#fork(Effect.ensuring(
      this.#exclusive(write),
      Effect.sync(() => {
        this.#pumping = false
      })
    ))
  }

  /** Writes while at least `least` bytes wait below `end`, and the phase is `writing`. */
  #writeUntil(end: number, least: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#phase !== "writing" || Math.min(end, this.#window.seen) - this.#next < least) return Effect.void
      return Effect.andThen(this.#step(), this.#writeUntil(end, least))
    })
  }

  #step(): Effect.Effect<void> {
    this.#skipLost()
    const most = Math.min(this.#window.slice * 2, this.#cap - this.spilledBytes)
    const piece = this.#window.piece(this.#next, most)
    if (piece.length === 0) {
      this.#skipToCap()
      return Effect.void
    }
    return this.#calling(() => Effect.flatMap(this.#open(), (writer) => writer.append(piece)), () => {
      this.#next += piece.length
      this.spilledBytes += piece.length
      this.#window.protect(this.#next)
      if (this.capped) this.#skipToCap()
    })
  }

  #skipLost(): void {
    const held = this.#window.heldFrom(this.#next)
    if (held > this.#next) {
      this.#lost = { from: this.#lost?.from ?? this.#next, to: held }
      this.#next = held
    }
    this.#window.protect(this.#next)
  }

  #skipToCap(): void {
    if (!this.capped) return
    this.#phase = "capped"
    this.#window.protect(null)
  }

  #open(): Effect.Effect<BlobWriter, BlobError> {
    if (this.#writer !== null) return Effect.succeed(this.#writer)
    const scope = this.#parent === undefined ? Scope.makeUnsafe() : Scope.forkUnsafe(this.#parent)
    this.#scope = scope
    this.#isWritten = true
    return Effect.tap(Scope.provide(this.#store.write(this.#name), scope), (writer) =>
      Effect.sync(() => {
        if (this.#scope === scope) this.#writer = writer
      }))
  }

  #sealBlob(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const writer = this.#writer
      if ((this.#phase !== "writing" && this.#phase !== "capped") || writer === null) return Effect.void
      const { gap } = this
      // Tells exactly what is in it: a call that was given up and comes through later changes nothing of a later blob.
      const label = gap === null ? `sha256-${this.#sha256}` : `partial-${gap.from}-${gap.to}`
      return Effect.andThen(
        this.#calling(() => writer.seal(label), (ref) => {
          this.#phase = "sealed"
          this.blob = ref
        }),
        Effect.suspend(() => this.#phase === "sealed" ? this.#closeWriter() : Effect.void)
      )
    })
  }

  /** Calls the store, bounded; what it says decides whether the spill goes on. */
  #calling<A>(call: () => Effect.Effect<A, BlobError>, onSuccess: (answer: A) => void): Effect.Effect<void> {
    return Effect.map(Effect.exit(this.#bounded(call)), (exit) => {
      if (this.#phase === "failed" || this.#phase === "disposed") return
      if (Exit.isSuccess(exit)) {
        // A call that hangs may still write when it wakes up, so its writer is not used again.
        if (Option.isNone(exit.value)) this.#abandon(true)
        else onSuccess(exit.value.value)
      } else {
        const error = Option.getOrNull(Exit.findErrorOption(exit))
        if (error === null) this.#abandon(false)
        else this.#fail(error.retryable)
      }
      this.#resume()
    })
  }

  /** `None` when it took too long: it is told to stop, and not waited for. */
  #bounded<A, E>(call: () => Effect.Effect<A, E>): Effect.Effect<Option.Option<A>, E> {
    return within(call, this.#stallMillis)
  }

  /** The stream flows on. The writer is kept: what it has is part of what a retry goes on with. */
  #fail(retryable: boolean): void {
    this.#phase = "failed"
    this.#retryable = retryable
    if (!retryable || this.#writer === null) this.#dropWriter()
    this.#window.protect(retryable ? this.#next : null, true)
    this.#resume()
  }

  /** Fails, and what was written so far cannot be gone on with: a retry begins anew, with what is in memory then. */
  #abandon(retryable: boolean): void {
    if (this.#phase === "sealed" || this.#phase === "disposed") return
    this.#dropWriter()
    this.#fail(retryable)
  }

  #dropWriter(): void {
    this.spilledBytes = 0
    this.#next = 0
    this.#lost = null
    if (this.#scope !== null) this.#fork(this.#closeWriter())
  }

  /** Takes the writer away at once; closing it is bounded. */
  #closeWriter(): Effect.Effect<void> {
    const scope = this.#scope
    this.#scope = null
    this.#writer = null
    return scope === null ? Effect.void : Effect.ignoreCause(this.#bounded(() => Scope.close(scope, Exit.void)))
  }

  #revive(): void {
    if (!this.#retryable) return
    this.#phase = "writing"
    this.#window.protect(this.#window.heldFrom(this.#next))
  }
}
