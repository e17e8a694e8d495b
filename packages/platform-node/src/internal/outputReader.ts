/**
 * Reading a child's output into the memory that a sink lends.
 *
 * A FIFO is read by a socket whose buffer is the lent region itself, so no byte is copied. That buffer can be exchanged
 * only when the socket has read something, and this decides the shape of what follows: a drain fills the lent region
 * behind the socket's back, and what the socket read next would overwrite it. So after a drain the socket is replaced by
 * a new one on the same FIFO, which begins with a region of its own.
 */
import type { OutputSink } from "@procyon/runtime/ports/ProcessDriver"
import * as fs from "node:fs"
import * as net from "node:net"
import type { Readable } from "node:stream"
import { errnoOf } from "./processTable.ts"

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants

/**
 * The most a drain reads, in bytes: what a pipe of an unprivileged user can be enlarged to (`/proc/sys/fs/pipe-max-size`).
 * More than that cannot have been written before the drain began, and a firehose would keep us for ever.
 */
const drainBound = 1024 * 1024

export interface OutputReader {
  readonly resume: () => void
  readonly drain: () => "empty" | "ended" | "bound" | "paused"
  /** Calls back once nothing that was written before this call is unread, unless the stream is paused or a firehose. */
  readonly settle: (done: () => void) => void
  /** Stops reading. The sink is not called again. */
  readonly close: () => void
}

/**
 * Reads a FIFO through `fd`, its non-blocking read end, which is the reader's from here on. Only for Linux, where an
 * open FIFO can be opened again through `/proc/self/fd`.
 */
export const fromFifo = (fd: number, sink: OutputSink): OutputReader => {
  // Where a paused socket's next byte lands: nothing is asked of a sink that has said stop.
  const holding = Buffer.allocUnsafeSlow(1)
  let region: Uint8Array | null = null
  let paused = false
  let ended = false
  // Whether a drain has filled the region that the socket still holds.
  let overtaken = false

  const lend = (): Uint8Array => region ??= sink.reserve()
  const commit = (count: number): boolean => {
    region = null
    if (!sink.commit(count)) paused = true
    return !paused
  }
  const onRead = (count: number, bytes: Uint8Array): boolean => {
    if (ended) return false
    // A held byte came before all others of its stream, and there is always room for one.
    if (bytes === holding) lend().set(holding)
    return commit(count)
  }
  const open = (fd: number): net.Socket => {
    const socket = new net.Socket({
      fd,
      readable: true,
      writable: false,
      onread: { buffer: () => paused || ended ? holding : lend(), callback: onRead }
    })
    const finished = (): void => {
      if (current.socket === socket) finish()
    }
    // An error of reading is an end of reading. 'end' may come without 'close', and the other way round.
    socket.on("error", finished).on("end", finished).on("close", finished)
    return socket
  }
  const finish = (): void => {
    if (ended) return
    ended = true
    current.socket.destroy()
    sink.end()
  }
  let current: { readonly fd: number; readonly socket: net.Socket }
  current = { fd, socket: open(fd) }

  /**
   * Changes to another descriptor of the same FIFO, which makes the old socket's region nobody's. A writer is held open
   * meanwhile: the kernel tells the end of a FIFO only to those readers that have seen it with a writer.
   */
  const renew = (): boolean => {
    const self = `/proc/self/fd/${current.fd}`
    const old = current.socket
    let writer: number | null = null
    try {
      writer = fs.openSync(self, O_WRONLY | O_NONBLOCK)
      const fresh = fs.openSync(self, O_RDONLY | O_NONBLOCK)
      current = { fd: fresh, socket: open(fresh) }
      // A socket reads from its making on; it has had no turn of the event loop to do so yet.
      if (paused) current.socket.pause()
      old.destroy()
      return true
    } catch {
      // No descriptors left. The old socket must not read; drains still do, and each tries this again.
      old.pause()
      return false
    } finally {
      if (writer !== null) fs.closeSync(writer)
    }
  }

  const drain = (): ReturnType<OutputReader["drain"]> => {
    // A destroyed socket has given its descriptor's number back, and it may be another stream's by now.
    if (ended || current.socket.destroyed) return "ended"
    if (paused) return "paused"
    const [outcome, read] = readNow(current.fd, lend, commit)
    if (outcome === "ended") finish()
    else if (read > 0 || overtaken) overtaken = !renew()
    return outcome
  }

  return {
    resume() {
      if (!paused || ended) return
      paused = false
      if (overtaken) overtaken = !renew()
      else current.socket.resume()
    },
    drain,
    settle(done) {
      drain()
      done()
    },
    close() {
      if (ended) return
      ended = true
      current.socket.destroy()
    }
  }
}

const readNow = (
  fd: number,
  lend: () => Uint8Array,
  commit: (count: number) => boolean
): readonly ["empty" | "ended" | "bound" | "paused", number] => {
  let read = 0
  try {
    while (read < drainBound) {
      const region = lend()
      const count = fs.readSync(fd, region, 0, region.length, null)
      if (count === 0) return ["ended", read]
      read += count
      if (!commit(count)) return ["paused", read]
    }
    return ["bound", read]
  } catch (error) {
    // Any other error is an end: nothing more will be read of this stream.
    return [errnoOf(error) === "EAGAIN" ? "empty" : "ended", read]
  }
}

/**
 * Reads the pipes that Node makes for a child, copying into the sink: for platforms without FIFOs, and for when none can
 * be made. Several pipes share one sink as they happen to arrive. They cannot be read synchronously, so `drain` answers
 * `bound`: there may be more.
 */
export const fromPipes = (streams: ReadonlyArray<Readable>, sink: OutputSink): OutputReader => {
  const held: Array<Uint8Array> = []
  const open = new Set(streams)
  let paused = false
  let closed = false
  let arrived = 0

  const deliver = (): void => {
    for (let bytes = held.shift(); bytes !== undefined; bytes = held.shift()) {
      const region = sink.reserve()
      const count = Math.min(region.length, bytes.length)
      region.set(bytes.subarray(0, count))
      if (count < bytes.length) held.unshift(bytes.subarray(count))
      if (sink.commit(count)) continue
      paused = true
      for (const stream of open) stream.pause()
      return
    }
  }
  const finish = (stream: Readable): void => {
    if (!open.delete(stream) || open.size > 0 || closed || held.length > 0) return
    closed = true
    sink.end()
  }
  for (const stream of streams) {
    const finished = (): void => finish(stream)
    stream.on("error", finished).on("end", finished).on("close", finished)
    stream.on("data", (bytes: Uint8Array) => {
      if (closed) return
      arrived += bytes.length
      held.push(bytes)
      if (!paused) deliver()
    })
  }

  return {
    resume() {
      if (!paused || closed) return
      paused = false
      deliver()
      if (paused) return
      for (const stream of open) stream.resume()
      if (open.size === 0) {
        closed = true
        sink.end()
      }
    },
    drain: () => closed ? "ended" : paused ? "paused" : "bound",
    settle(done) {
      // What was written is readable at once: a turn of the event loop in which nothing came has read all of it.
      const limit = arrived + drainBound
      let seen = -1
      const turn = (): void => {
        if (closed || paused || open.size === 0 || seen === arrived || arrived >= limit) return done()
        seen = arrived
        setImmediate(turn)
      }
      setImmediate(turn)
    },
    close() {
      closed = true
      for (const stream of streams) stream.destroy()
    }
  }
}
