/** What the tests of this package start and collect with. Everything waits for evidence, and ends what it started. */
import { assert } from "@effect/vitest"
import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import type { CommandSpec, Options } from "@procyon/runtime/domain/CommandSpec"
import { type Identity, markerPrefix } from "@procyon/runtime/domain/Identity"
import type { Exit } from "@procyon/runtime/domain/Status"
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs"

/** A sink that keeps its bytes where they were read to, so that bytes written over by a later read are noticed. */
export class Arena implements ProcessDriver.OutputSink {
  readonly #memory: Uint8Array
  readonly #regionBytes: number
  bytes = 0
  ends = 0
  /** Says stop at each commit from here on, until it is moved. */
  pauseAt = Infinity

  constructor(options: { readonly capacity?: number; readonly regionBytes?: number } = {}) {
    this.#memory = new Uint8Array(options.capacity ?? 1024 * 1024)
    this.#regionBytes = options.regionBytes ?? 64 * 1024
  }

  readonly reserve = (): Uint8Array => this.#memory.subarray(this.bytes, this.bytes + this.#regionBytes)
  readonly commit = (count: number): boolean => {
    this.bytes += count
    return this.bytes < this.pauseAt
  }
  readonly end = (): void => {
    this.ends++
  }
  get content(): Uint8Array {
    return this.#memory.subarray(0, this.bytes)
  }
  get text(): string {
    return new TextDecoder().decode(this.content)
  }
  get sha256(): string {
    return sha256(this.content)
  }
}

export const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex")

export const exec = (command: string, args: ReadonlyArray<string> = [], options: Options = {}): CommandSpec => ({
  _tag: "CommandSpec",
  program: { _tag: "Exec", command, args },
  options
})

export const shell = (script: string, options: Options = {}, shell = "/bin/sh"): CommandSpec => ({
  _tag: "CommandSpec",
  program: { _tag: "Shell", shell, script },
  options
})

export const newMarker = (): string => `${markerPrefix}${randomBytes(8).toString("hex")}`

/** Waits for evidence, a turn of the event loop and some milliseconds at a time; fails after some ten seconds. */
export const until = <A>(what: string, check: () => A | false | null | undefined): Effect.Effect<A> =>
  Effect.gen(function*() {
    for (let left = 2000; left > 0; left--) {
      const seen = check()
      if (seen !== false && seen !== null && seen !== undefined && seen !== "") return seen
      yield* Effect.sleep(5)
    }
    return assert.fail(`no evidence: ${what}`)
  })

export interface Started {
  readonly driver: ProcessDriver.ProcessDriver
  readonly child: ProcessDriver.Child
  readonly root: Identity
  readonly out: Arena
  readonly err: Arena
  readonly exits: ReadonlyArray<Exit>
  readonly exit: Effect.Effect<Exit>
  readonly look: Effect.Effect<ProcessDriver.TreeLook>
}

export const lookAt = (driver: ProcessDriver.ProcessDriver, root: Identity): Effect.Effect<ProcessDriver.TreeLook> =>
  Effect.map(driver.look([root]), ([look]) => look ?? assert.fail("no answer for the root"))

/** Kills and looks until nobody is left. */
export const endTree = (driver: ProcessDriver.ProcessDriver, root: Identity): Effect.Effect<void> =>
  Effect.gen(function*() {
    for (let left = 2000; left > 0; left--) {
      const { leader, members, occupied } = yield* lookAt(driver, root)
      if (leader === "gone" && members.length + occupied.length === 0) return
      yield* driver.signal(root, { members, groups: occupied }, "SIGKILL")
      yield* Effect.sleep(5)
    }
    return assert.fail("a tree could not be ended")
  })

/** Starts a command, and ends and releases its tree with the scope. */
export const start = (
  driver: ProcessDriver.ProcessDriver,
  command: CommandSpec,
  options: {
    readonly merged?: boolean
    readonly marker?: string
    readonly out?: Arena
    readonly onExit?: (exit: Exit) => void
  } = {}
): Effect.Effect<Started, ProcessDriver.SpawnFailed, Scope.Scope> =>
  Effect.gen(function*() {
    const out = options.out ?? new Arena()
    const err = new Arena()
    const exits: Array<Exit> = []
    const child = yield* Effect.acquireRelease(
      driver.spawn({
        command,
        marker: options.marker ?? newMarker(),
        stdout: out,
        stderr: options.merged === true ? "merged" : err,
        onExit: (exit) => {
          exits.push(exit)
          options.onExit?.(exit)
        }
      }),
      (child) => Effect.andThen(endTree(driver, child.identity), child.release)
    )
    const root = child.identity
    const exit = until("the exit is told", () => exits[0])
    return { driver, child, root, out, err, exits, exit, look: lookAt(driver, root) }
  })

/** Runs a test on a fresh driver. */
export const withDriver = <E>(
  body: (driver: ProcessDriver.ProcessDriver) => Effect.Effect<void, E, Scope.Scope>
): Effect.Effect<void, E> => Effect.scoped(Effect.flatMap(NodeProcessDriver.make, body))

/** The descriptors this process has open. */
export const openDescriptors = (): number => fs.readdirSync("/proc/self/fd").length
