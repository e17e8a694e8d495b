/**
 * What the laws of drivers and of runtimes are tried with on Linux: programs, each with one vice. The same for every driver
 * of this package.
 */
import * as NodeWorkspaceStore from "@procyon/platform-node/NodeWorkspaceStore"
import { type ProcessDriver, ProcessLedgerMemory, ProcessRuntime } from "@procyon/runtime"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import type { DriverLaws, RuntimeLaws } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll } from "vitest"
import { living } from "./table.ts"

const numbers = Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join("")

const { make, shell } = CommandSpec

/** `directory`: an empty one, for programs that cannot be started. `seconds`: how long those wait that wait. */
export const lawOptions = (
  directory: string,
  can: { readonly detached: boolean },
  seconds = "300"
): DriverLaws.Options => {
  const file = (name: string, mode: number, text: string): string => {
    const full = path.join(directory, name)
    fs.writeFileSync(full, text, { mode })
    return full
  }
  return {
    clock: "live",
    capabilities: {
      platform: "linux",
      processTable: true,
      sessions: true,
      marker: true,
      wholeTree: "verified",
      pty: false,
      detached: can.detached
    },
    programs: {
      waits: make("sleep", [seconds]),
      succeeds: make("true"),
      exits7: shell("exit 7"),
      diesByKill: shell("kill -9 $$"),
      talks: {
        command: make("seq", ["1", "100000"]),
        bytes: numbers.length,
        sha256: createHash("sha256").update(numbers).digest("hex")
      },
      speaksTwice: shell("echo out; echo err >&2"),
      closesOutput: shell(`exec >&- 2>&-; exec sleep ${seconds}`),
      leavesHolder: shell(`echo hi; sleep ${seconds} & exit 0`),
      leavesMember: shell(`sleep ${seconds} >/dev/null 2>&1 & exit 0`),
      childLeavesGroup: shell(`set -m; sleep ${seconds} & wait`, { shell: "/bin/bash" }),
      childLeavesSession: shell(`setsid sleep ${seconds} & wait`),
      daemonizes: shell(`(setsid sleep ${seconds} >/dev/null 2>&1 &); exit 0`),
      // Builtins only between the fork and the exec: a shell that forks again would wait for the dead child too.
      keepsZombie: shell(
        `sleep 0 & while read -r line </proc/$!/stat; do case $line in *') Z '*) break;; esac; done; echo ready; exec sleep ${seconds}`
      ),
      ignoresTerm: shell(`trap '' TERM; echo ready; exec sleep ${seconds}`),
      polite: shell(`trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done # ${seconds}`),
      echoes: make("cat"),
      closesStdin: shell(`exec 0<&-; echo ready; exec sleep ${seconds}`),
      neverReaps: shell(`set -m; sleep ${seconds} & exec sleep ${seconds}`, { shell: "/bin/bash" }),
      startsSlowly: { missing: "a real start cannot be slowed down from here" },
      failures: [
        { what: "an unknown command", command: make("procyon-no-such-command"), problem: "CommandNotFound" },
        { what: "a path to nothing", command: make(path.join(directory, "nothing")), problem: "CommandNotFound" },
        {
          what: "a file without the right to execute it",
          command: make(file("plain", 0o644, "#!/bin/sh\n")),
          problem: "NotExecutable"
        },
        { what: "a directory", command: make(directory), problem: "NotExecutable" },
        {
          what: "a script without its interpreter",
          command: make(file("orphan", 0o755, "#!/no/such/interpreter\n")),
          problem: "InterpreterMissing"
        },
        {
          what: "a missing working directory",
          command: make("true", [], { cwd: path.join(directory, "nowhere") }),
          problem: "CwdMissing"
        },
        {
          what: "a working directory that is a file",
          command: make("true", [], { cwd: file("file", 0o644, "") }),
          problem: "CwdNotADirectory"
        },
        {
          what: "an argument beyond the system's bound",
          command: make("true", ["x".repeat(200_000)]),
          problem: "TooLarge"
        }
      ]
    }
  }
}

/** What a process that waits can be found by: digits that no other command line holds. */
const newTag = (): string => `0${process.pid}0${process.hrtime.bigint() % 1_000_000_000n}`

/** As `lawOptions` for a driver with files, and what lives of the programs by the system's own account. */
export const runtimeOptions = (directory: string): RuntimeLaws.Options => {
  const tag = newTag()
  return {
    ...lawOptions(directory, { detached: true }, `300.${tag}`),
    living: Effect.sync(() => living(tag).map(({ name, pid }) => `${name} ${pid}`))
  }
}

/** A runtime on this driver. */
export const runtimeOn = (
  driver: Layer.Layer<ProcessDriver.Service>
): Layer.Layer<ProcessRuntime.ProcessRuntime> =>
  ProcessRuntime.layer.pipe(Layer.provide([driver, NodeWorkspaceStore.layer, ProcessLedgerMemory.layer]))

/** One driver for all tests of a file, built before the first and closed after the last. */
export const sharedDriver = <E>(driver: Layer.Layer<ProcessDriver.Service, E>): Layer.Layer<ProcessDriver.Service> => {
  const runtime = ManagedRuntime.make(driver)
  afterAll(() => runtime.dispose())
  return Layer.effectContext(Effect.orDie(runtime.contextEffect))
}
