/**
 * Feeding a child's stdin, and telling truthfully how much of it the pipe has taken.
 *
 * A socket's own count says what it was given, also when the write then failed. So bytes are written in pieces, one at a
 * time, and counted when the system has taken the piece.
 */
import * as net from "node:net"
import type { Writable } from "node:stream"
import * as FifoEnd from "./fifoEnd.ts"

/** The size of a piece in bytes: what a pipe holds. The last piece before a failure is not counted, however far it got. */
const pieceBytes = 64 * 1024

export interface StdinWriter {
  /** Calls back once with the count of bytes taken: less than given when the child has gone or closed its end. */
  readonly write: (bytes: Uint8Array, done: (accepted: number) => void) => void
  /** Refuses further writes, ends the stream when those before have been taken, and calls back when it is closed. */
  readonly close: (done: () => void) => void
  /** Ends it now. What was not taken is dropped. */
  readonly destroy: () => void
  /** As `destroy`, when the child has gone. */
  readonly release: () => void
}

interface Pending {
  readonly bytes: Uint8Array
  readonly done: (accepted: number) => void
  accepted: number
}

/** Writes to a FIFO through `fd`, its non-blocking writing end, which is the writer's from here on. Only for Linux. */
export const fromFifo = (fd: number): StdinWriter => {
  const end = FifoEnd.make(fd)
  const writer = make(new net.Socket({ fd, readable: false, writable: true }), end.begin)
  return {
    ...writer,
    release() {
      end.stop()
      writer.destroy()
    }
  }
}

/** Owns `stream` from here on, and calls `ending` right before closing it. `null`: a stdin that takes nothing. */
export const make = (stream: Writable | null, ending: () => void = () => {}): StdinWriter => {
  const queue: Array<Pending> = []
  const closing: Array<() => void> = []
  let busy = false
  let refusing = stream === null
  let closed = stream === null

  const destroy = (): void => {
    refusing = true
    closed = true
    // An error has closed it before, and its descriptor's number may be somebody else's.
    if (stream?.destroyed === false) ending()
    stream?.destroy()
    for (const pending of queue.splice(0)) pending.done(pending.accepted)
    for (const done of closing.splice(0)) done()
  }
  const pump = (): void => {
    const head = queue[0]
    if (busy || closed || stream === null) return
    if (head === undefined) {
      // All that was written is in the pipe, where the child will find it: closing is the end of file.
      if (refusing) destroy()
      return
    }
    if (head.accepted === head.bytes.length) {
      queue.shift()
      head.done(head.accepted)
      pump()
      return
    }
    const piece = head.bytes.subarray(head.accepted, head.accepted + pieceBytes)
    busy = true
    stream.write(piece, (error) => {
      busy = false
      if (closed) return
      if (error) return destroy()
      head.accepted += piece.length
      pump()
    })
  }
  // A child that goes away is data, told by the counts. Without a listener an EPIPE would end this process.
  stream?.on("error", destroy).on("close", destroy)

  return {
    write(bytes, done) {
      if (refusing) return done(0)
      queue.push({ bytes, done, accepted: 0 })
      pump()
    },
    close(done) {
      if (closed) return done()
      refusing = true
      closing.push(done)
      pump()
    },
    destroy,
    release: destroy
  }
}
