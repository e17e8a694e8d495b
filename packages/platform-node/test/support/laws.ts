/**
 * What the driver laws are tried with on Linux: programs, each with one vice. The same for every driver of this package.
 */
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import type { DriverLaws } from "@procyon/testing"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"

const numbers = Array.from({ length: 100_000 }, (_, index) => `${index + 1}\n`).join("")

const { make, shell } = CommandSpec

/** `directory`: an empty one, for programs that cannot be started. */
export const lawOptions = (directory: string, can: { readonly detached: boolean }): DriverLaws.Options => {
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
      waits: make("sleep", ["300"]),
      succeeds: make("true"),
      exits7: shell("exit 7"),
      diesByKill: shell("kill -9 $$"),
      talks: {
        command: make("seq", ["1", "100000"]),
        bytes: numbers.length,
        sha256: createHash("sha256").update(numbers).digest("hex")
      },
      speaksTwice: shell("echo out; echo err >&2"),
      closesOutput: shell("exec >&- 2>&-; exec sleep 300"),
      leavesHolder: shell("echo hi; sleep 300 & exit 0"),
      leavesMember: shell("sleep 300 >/dev/null 2>&1 & exit 0"),
      childLeavesGroup: shell("set -m; sleep 300 & wait", { shell: "/bin/bash" }),
      childLeavesSession: shell("setsid sleep 300 & wait"),
      daemonizes: shell("(setsid sleep 300 >/dev/null 2>&1 &); exit 0"),
      // Builtins only between the fork and the exec: a shell that forks again would wait for the dead child too.
      keepsZombie: shell(
        "sleep 0 & while read -r line </proc/$!/stat; do case $line in *') Z '*) break;; esac; done; echo ready; exec sleep 300"
      ),
      ignoresTerm: shell("trap '' TERM; echo ready; exec sleep 300"),
      polite: shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"),
      echoes: make("cat"),
      closesStdin: shell("exec 0<&-; echo ready; exec sleep 300"),
      neverReaps: shell("set -m; sleep 300 & exec sleep 300", { shell: "/bin/bash" }),
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
