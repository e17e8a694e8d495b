/**
 * One keeper process as its application has it: started, spoken to, watched, and told to go.
 */
import { markerPrefix } from "@procyon/runtime/domain/Marker"
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import { isSea } from "node:sea"
import { fileURLToPath } from "node:url"
import { encode, lines, type Order, ordersFd, type Report, reportsFd } from "./protocol.ts"

/** How long a keeper may take to say that it is there, in milliseconds. It takes some 60 on an idle machine. */
const readyMillis = 10_000

/** How often in its silence it is asked for a sign of life, while it has something to do, until it is lost. */
const maxSilent = 5

/** `ended`: its channel broke. `silent`: it is there, and stopped or stuck. */
export type Loss = "ended" | "silent"

export interface Helper {
  /** The marker of the keeper itself: whoever carries it is a child of its that has not run its own program yet. */
  readonly marker: string
  readonly send: (order: Order) => void
  /** `true`: this process lives on for it, and it is watched. `false`, as at first: neither. */
  readonly hold: (busy: boolean) => void
  /** Kills it, and calls back when it has ended, or after a bound. Its children live on. */
  readonly kill: (done: () => void) => void
  /** Closes the channels: it ends what it still keeps, and then itself. */
  readonly leave: () => void
}

/** `ready` or `lost` comes first, always on a later turn; nothing comes after `lost`, nor after `kill` or `leave`. */
export interface Events {
  readonly ready: () => void
  readonly report: (report: Report) => void
  readonly lost: (loss: Loss) => void
}

/**
 * The program, beside this module: a source while this is one, else what was built of it. Its name is nobody else's: beside
 * a bundle that this module is in, another program must not be taken for it.
 */
const program = new URL(`procyonKeeper.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url)

/** Why this process cannot have a keeper; `null` if it may. */
export const unsupported = (): string | null => {
  if (process.platform !== "linux") return `no keeper on ${process.platform}`
  if (!fs.existsSync("/proc/self/stat")) return "no /proc"
  // Their executables are something else than a Node that runs a file.
  if ("bun" in process.versions || "electron" in process.versions || isSea()) return "not plain Node.js"
  return program.protocol === "file:" && fs.existsSync(program) ? null : "its program is not beside this one"
}

/**
 * What a keeper is given of the environment: enough to run, and the markers of runtimes this one runs under. No options
 * of Node, which may be for this process only, such as a debugger's port.
 */
const environment = (marker: string): Record<string, string> => {
  const given: Record<string, string> = { [marker]: "1" }
  for (const [name, value] of Object.entries(process.env)) {
    const isKept = name === "PATH" || name === "LD_LIBRARY_PATH" || name.startsWith(markerPrefix)
    if (isKept && value !== undefined) given[name] = value
  }
  return given
}

/**
 * Starts a keeper, in a session of its own: no signal of a terminal reaches it. `silenceMillis`: how long it may say
 * nothing while it has something to do. May throw what `spawn` throws.
 */
export const open = (events: Events, silenceMillis: number): Helper => {
  const marker = `${markerPrefix}${randomBytes(16).toString("hex")}`
  const child = spawn(process.execPath, [fileURLToPath(program)], {
    cwd: "/",
    env: environment(marker),
    detached: true,
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]
  })
  child.on("error", () => lose("ended"))
  const orders = channelOf(child, ordersFd)
  const reports = channelOf(child, reportsFd)
  let over = false
  let exited = false
  let heard = true
  let silent = 0
  let pulse: NodeJS.Timeout | undefined

  const stop = (): void => {
    over = true
    clearTimeout(patience)
    clearInterval(pulse)
    pulse = undefined
  }
  const lose = (loss: Loss): void => {
    if (over) return
    stop()
    // Never in the turn of the start.
    setImmediate(events.lost, loss)
  }
  const patience = setTimeout(lose, readyMillis, "silent")

  child.once("exit", () => {
    exited = true
  })
  const parse = (line: string): Report => JSON.parse(line)
  const receive = lines((line) => {
    heard = true
    const report = parse(line)
    if (over) return
    if (report._tag !== "Ready") return events.report(report)
    clearTimeout(patience)
    hold(false)
    events.ready()
  })
  orders?.on("error", () => {})
  if (orders === null || reports === null) lose("ended")
  else {
    reports.setEncoding("utf8")
    reports.on("data", receive)
    // Not before all that it has said is read.
    const broken = (): void => lose("ended")
    reports.on("error", broken).on("end", broken).on("close", broken)
  }

  const hold = (busy: boolean): void => {
    if (over) return
    for (const channel of [orders, reports]) {
      if (busy) channel?.ref()
      else channel?.unref()
    }
    child.unref()
    if (!busy) {
      clearInterval(pulse)
      pulse = undefined
    } else if (pulse === undefined) {
      heard = true
      silent = 0
      // Turns are counted, not time: after a long turn of ours its answer is there, and not read yet.
      pulse = setInterval(() => {
        silent = heard ? 0 : silent + 1
        heard = false
        if (silent >= maxSilent) lose("silent")
        else send({ _tag: "Ping" })
      }, silenceMillis / maxSilent)
      pulse.unref()
    }
  }
  const send = (order: Order): void => {
    if (orders?.writable === true) orders.write(encode(order))
  }

  return {
    marker,
    send,
    hold,
    kill(done) {
      stop()
      // First of all: one that sees its channel end would begin to end everybody.
      if (!exited) child.kill("SIGKILL")
      orders?.destroy()
      reports?.destroy()
      if (exited || child.pid === undefined) return done()
      // A killed process is gone within a turn, unless the system holds it: then nobody can wait for it.
      const bound = setTimeout(done, readyMillis)
      const gone = (): void => {
        clearTimeout(bound)
        done()
      }
      child.once("exit", gone)
      child.ref()
    },
    leave() {
      stop()
      orders?.destroySoon()
      orders?.unref()
      reports?.destroy()
      child.unref()
    }
  }
}

const channelOf = (child: ChildProcess, fd: number): net.Socket | null => {
  // Without descriptors there is none, whatever the type says.
  const stdio: ChildProcess["stdio"] | undefined = child.stdio
  const channel = stdio?.[fd]
  return channel instanceof net.Socket ? channel : null
}
