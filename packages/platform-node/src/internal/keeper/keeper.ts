/**
 * The keeper proper: starts children, tells their exits, looks, signals, and ends what is left when nobody else can.
 *
 * Starts wait in a queue, one a turn of the event loop, so that whatever else is asked overtakes them. It holds nothing
 * of a live child but its record: no pipe, no descriptor.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import type { ChildProcess } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as FifoDirectory from "../fifoDirectory.ts"
import { type MakeFifos, mkfifo } from "../mkfifo.ts"
import { errnoOf, linux, readBootId, tryReadStat } from "../processTable.ts"
import * as Trees from "../trees.ts"
import { endTrees, type Subject } from "./ending.ts"
import type { Answer, Order, Question, Report, Seen, Start } from "./protocol.ts"
import { start } from "./spawning.ts"
import * as Watching from "./watching.ts"

export interface Keeper {
  readonly handle: (order: Order) => void
  /** Starts nothing any more, ends every tree that was not released, and calls back: once for each call. */
  readonly end: (done: () => void) => void
}

/** A tree that ends with the application. */
interface Job extends Subject {
  readonly forget: () => void
}

/**
 * `report` is called on turns of the keeper's own. `starts: false` refuses every start: for an application that looks for
 * itself because it could have no keeper.
 */
export const make = (report: (report: Report) => void, options: { readonly starts: boolean }): Keeper => {
  const bootId = readBootId()
  const trees = Trees.make(bootId, linux)
  const jobs = new Map<string, Job>()
  const queue = new Map<number, Start>()
  const directories = new Set<string>()
  const makeFifos = mkfifo()
  const watch = Watching.make((root) => trees.look([root], () => {}))
  let turn: NodeJS.Immediate | null = null
  let ending = false

  const plant = (order: Start, child: ChildProcess, pid: number): void => {
    // In the turn of the start: the leader is there, even if it has ended, until its exit is collected.
    const startedAt = tryReadStat(pid)?.startedAt ?? 0
    const root: Identity = { pid, startedAt, bootId: bootId ?? "", marker: order.marker }
    const tree = trees.forest.plant(root)
    const job: Job = { root, graceMillis: order.graceMillis, forget: () => trees.forest.fell(tree) }
    jobs.set(order.marker, job)
    child.once("exit", (code, signal) => {
      trees.forest.reap(tree)
      // Released, it is nobody's business, also when its tree was attached to afterwards.
      if (jobs.get(order.marker) !== job) return
      report({ _tag: "Exited", marker: order.marker, exit: { code, signal } })
    })
    report({ _tag: "Started", id: order.id, pid, startedAt })
  }
  const startNext = (): void => {
    turn = null
    for (const [id, order] of queue) {
      queue.delete(id)
      start(order, {
        started: (child, pid) => plant(order, child, pid),
        failed: (failure) => report({ _tag: "Failed", id, ...failure })
      })
      break
    }
    if (queue.size > 0) turn ??= setImmediate(startNext)
  }

  const attach = (root: Identity, graceMillis: number): void => {
    const forget = trees.forest.watch(root, "leader", () => {
      watch.remove(root.marker)
      report({ _tag: "Exited", marker: root.marker, exit: { code: null, signal: null } })
    })
    watch.add(root)
    // Who belongs to it shows best while its leader lives.
    trees.look([root], () => {})
    jobs.set(root.marker, {
      root,
      graceMillis,
      forget() {
        watch.remove(root.marker)
        forget()
      }
    })
  }

  const makeAll: MakeFifos = (names, done) => {
    for (const name of names) directories.add(path.dirname(name))
    try {
      // Some may be there, when this was asked of another keeper that has not answered.
      for (const name of names) fs.rmSync(name, { force: true })
      makeFifos(names, done)
    } catch (error) {
      done(false, errnoOf(error))
    }
  }

  const seen = ({ root, ...look }: TreeLook): Seen => ({
    ...look,
    groups: [...trees.forest.find(root)?.groups.keys() ?? []]
  })

  const answerTo = (question: Question, answer: (answer: Answer) => void): void => {
    switch (question._tag) {
      case "Look":
        return trees.look(question.roots, (looks) => answer({ _tag: "Looked", looks: looks.map(seen) }))
      case "Signal":
        return trees.signal(
          question.root,
          question,
          question.signal,
          (outcomes) => answer({ _tag: "Signalled", outcomes })
        )
      case "End":
        return endTrees(
          trees,
          question.roots.map((root) => ({ root, graceMillis: 0 })),
          () => answer({ _tag: "Ended" })
        )
      case "MakeFifos":
        return makeAll(question.names, (made, code) => answer({ _tag: "FifosMade", made, code }))
    }
  }

  return {
    handle(order) {
      switch (order._tag) {
        case "Start":
          // Whoever ends everything answers everything else: an application that is told to end too looks meanwhile.
          if (ending) return report({ _tag: "Failed", id: order.id, problem: "Other", code: "ECANCELED" })
          if (!options.starts) return report({ _tag: "Failed", id: order.id, problem: "Other", code: "ENOTCONN" })
          queue.set(order.id, order)
          turn ??= setImmediate(startNext)
          return
        case "Withdraw":
          if (queue.delete(order.id)) report({ _tag: "Withdrawn", id: order.id })
          return
        case "Attach":
          return attach(order.root, order.graceMillis)
        case "Release":
          jobs.get(order.marker)?.forget()
          return void jobs.delete(order.marker)
        case "Remove":
          return void directories.add(order.directory)
        case "Ask":
          return answerTo(order.question, (answer) => report({ _tag: "Answered", id: order.id, answer }))
        case "Ping":
          return report({ _tag: "Pong" })
      }
    },
    end(done) {
      ending = true
      for (const id of queue.keys()) report({ _tag: "Failed", id, problem: "Other", code: "ECANCELED" })
      queue.clear()
      for (const directory of directories) FifoDirectory.removeNow(directory)
      if (jobs.size === 0) done()
      else endTrees(trees, [...jobs.values()], done, ({ marker }) => jobs.has(marker))
    }
  }
}
