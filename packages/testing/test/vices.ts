/**
 * The programs of the laws, as scripted children.
 */
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import { child, type DriverLaws, ScriptedDriver } from "@procyon/testing"

const command = (name: string): CommandSpec => ({
  _tag: "CommandSpec",
  program: { _tag: "Exec", command: name, args: [] },
  options: {}
})

const ready = child.prints("ready\n")

/** Each has one vice, as `DriverLaws.Programs` asks for it. */
export const children = {
  waits: child,
  succeeds: child.exits(0),
  exits7: child.exits(7),
  diesByKill: child.dies("SIGKILL"),
  talks: child.prints("x".repeat(600_000)).exits(0),
  speaksTwice: child.prints("out\n").prints("err\n", { stream: "stderr" }).exits(0),
  closesOutput: child.closesOutput(),
  leavesHolder: child.prints("hi\n").forks("holder", child, { holdsOutput: true }).exits(0),
  leavesMember: child.forks("member", child).exits(0),
  childLeavesGroup: child.forks("member", child, { escapes: "group" }),
  childLeavesSession: child.forks("member", child, { escapes: "session" }),
  daemonizes: child.forks("daemon", child, { escapes: "daemon" }).exits(0),
  keepsZombie: child.neverReaps().forks("short", child.exits(0)).prints("ready\n", { after: "1 milli" }),
  ignoresTerm: ready.ignores("SIGTERM"),
  polite: ready.onSignal("SIGTERM", child.prints("bye\n").exits(0)),
  echoes: child.readsStdin({ echo: true }).exits(0),
  closesStdin: child.readsStdin({ closesAfter: 0 }).prints("ready\n"),
  startsSlowly: child.answersAfter("1 hour"),
  neverReaps: child.neverReaps().forks("member", child, { escapes: "group" }),
  broken: child.failsToStart("NotExecutable", "EACCES")
}

/** Everything a driver can have, on scripted children. */
export const options: DriverLaws.Options = {
  clock: "virtual",
  capabilities: ScriptedDriver.capabilities,
  programs: {
    waits: command("waits"),
    succeeds: command("succeeds"),
    exits7: command("exits7"),
    diesByKill: command("diesByKill"),
    talks: {
      command: command("talks"),
      bytes: 600_000,
      sha256: "34e95fe8877d07873716a3f575a4ea908b2e776b18e0b5122d33f7a93ff012b4"
    },
    speaksTwice: command("speaksTwice"),
    closesOutput: command("closesOutput"),
    leavesHolder: command("leavesHolder"),
    leavesMember: command("leavesMember"),
    childLeavesGroup: command("childLeavesGroup"),
    childLeavesSession: command("childLeavesSession"),
    daemonizes: command("daemonizes"),
    keepsZombie: command("keepsZombie"),
    ignoresTerm: command("ignoresTerm"),
    polite: command("polite"),
    echoes: command("echoes"),
    closesStdin: command("closesStdin"),
    startsSlowly: command("startsSlowly"),
    neverReaps: command("neverReaps"),
    failures: [
      { what: "an unknown command", command: command("no-such"), problem: "CommandNotFound" },
      { what: "a file that cannot be executed", command: command("broken"), problem: "NotExecutable" }
    ]
  }
}
