/**
 * The program that starts a detached command and outlives the application with it: it is the leader of the tree, waits for
 * the command, and writes down how it ended. With no application alive it also keeps the deadline and the byte cap.
 *
 * Run by `detached.ts`, in a session of its own that the command stays in. Everything secret comes over a descriptor that
 * is closed again: nothing of the command is in this program's arguments, environment or files. Signals to the tree reach
 * it too, and it takes no notice, so that it lives to see the command's end; only SIGKILL ends it, and then the exit is
 * lost. Once the command has ended by itself it is gone, and so is the deadline of whom the command left behind.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import { errnoOf } from "../processTable.ts"
import * as Completion from "./completion.ts"
import { type Answer, channel, type Order } from "./order.ts"
import * as OwnTree from "./ownTree.ts"

/** A clock that is set is noticed after this long, in milliseconds. Also keeps timers below 2^31. */
const clockMillis = 60_000
/** How often the sizes of the output files are read, in milliseconds. */
const sizeMillis = 500
/** How long it waits before it looks whether those it has signalled are gone, in milliseconds. */
const pollMillis = 100
/** How long it kills those that the command left, in milliseconds. The command itself is waited for. */
const forceMillis = 3_000

/** SIGKILL and SIGSTOP cannot be caught; faults are this program's own; the rest do nothing, or Node needs them. */
const left = new Set<string>([
  "SIGKILL",
  "SIGSTOP",
  "SIGSEGV",
  "SIGBUS",
  "SIGFPE",
  "SIGILL",
  "SIGTRAP",
  "SIGSYS",
  "SIGABRT",
  "SIGIOT",
  "SIGCHLD",
  "SIGCONT",
  "SIGURG",
  "SIGWINCH",
  "SIGPIPE",
  "SIGPROF",
  "SIGUNUSED"
])

// Caught and not ignored: an ignored signal would be the command's as well.
const takeNoNotice = (): void => {
  const isSignal = (name: string): name is NodeJS.Signals => name in os.constants.signals && !left.has(name)
  for (const name of Object.keys(os.constants.signals)) if (isSignal(name)) process.on(name, () => {})
}

const answer = (given: Answer): void => {
  try {
    fs.writeSync(channel, JSON.stringify(given))
  } catch {
    // The application has died meanwhile: nobody asks any more.
  } finally {
    fs.closeSync(channel)
  }
}

const openOutputs = ({ err, out }: Order): readonly [out: number, err: number] => {
  const open = (path: string): number =>
    fs.openSync(path, fs.constants.O_WRONLY | fs.constants.O_APPEND | fs.constants.O_NOFOLLOW)
  const fd = open(out)
  return [fd, err === null ? fd : open(err)]
}

/** Starts the command and answers. `null`: nothing was started. */
const launch = (order: Order): ChildProcess | null => {
  let of: "files" | "command" = "files"
  try {
    const [out, err] = openOutputs(order)
    Completion.reserve(order.directory)
    of = "command"
    const { args, cwd, env, file } = order
    const child = spawn(file, args, { cwd, env, stdio: ["ignore", out, err] })
    if (child.pid === undefined) {
      child.once("error", (error) => answer({ outcome: "failed", of, code: errnoOf(error) }))
      return null
    }
    for (const fd of new Set([out, err])) fs.closeSync(fd)
    answer({ outcome: "started" })
    return child
  } catch (error) {
    answer({ outcome: "failed", of, code: errnoOf(error) })
    return null
  }
}

const watch = (
  child: ChildProcess,
  { capBytes, deadlineAt, directory, err, graceMillis, marker, out }: Order
): void => {
  const tree = OwnTree.make(marker)
  let exit: Pick<Completion.Completion, "code" | "signal"> | null = null
  let ended: Completion.Completion["ended"] = null

  const complete = (exit: Pick<Completion.Completion, "code" | "signal">): void => {
    let written = 0
    try {
      Completion.write(directory, { ...exit, at: Date.now(), ended })
    } catch {
      // The directory has gone, or the disk is broken: the exit is lost.
      written = 1
    }
    process.exit(written)
  }

  const kill = (until: number): void => {
    tree.kill((remaining) => {
      if (exit !== null && (remaining === 0 || performance.now() > until)) return complete(exit)
      setTimeout(() => kill(until), pollMillis)
    })
  }
  const linger = (until: number): void => {
    if (performance.now() >= until) return kill(performance.now() + forceMillis)
    setTimeout(() => {
      if (exit === null) return linger(until)
      const seen = exit
      tree.look((members) => members.length === 0 ? complete(seen) : linger(until))
    }, Math.min(pollMillis, until - performance.now()))
  }
  const end = (why: "deadline" | "cap"): void => {
    if (ended !== null || exit !== null) return
    ended = why
    const until = performance.now() + graceMillis
    tree.signal("SIGTERM", () => tree.signal("SIGCONT", () => linger(until)))
  }

  child.on("error", () => {})
  child.once("exit", (code, signal) => {
    exit = { code, signal }
    if (ended === null) complete(exit)
  })

  if (deadlineAt !== null) {
    const recheck = (): void => {
      const remaining = deadlineAt - Date.now()
      if (remaining <= 0) end("deadline")
      else setTimeout(recheck, Math.min(remaining, clockMillis))
    }
    recheck()
  }
  if (capBytes > 0) {
    const files = err === null ? [out] : [out, err]
    setInterval(() => {
      if (files.some((path) => sizeOf(path) > capBytes)) end("cap")
    }, sizeMillis)
  }
}

/** What cannot be looked at must not end the watch. */
const sizeOf = (path: string): number => {
  try {
    return fs.statSync(path).size
  } catch {
    return 0
  }
}

takeNoNotice()
// Throws when the application died before it had said all: then nothing is started.
const order: Order = JSON.parse(fs.readFileSync(channel, "utf8"))
const child = launch(order)
if (child !== null) watch(child, order)
