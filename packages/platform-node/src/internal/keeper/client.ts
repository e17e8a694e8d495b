/**
 * The keeper as the driver has it: always there. A keeper that is lost is replaced, is told whom the lost one kept, and
 * is asked again what that one had not answered. When none can be had, this process looks and signals itself and refuses
 * to start anything, until one can be had again: it tries after a while if there are children, and at a later start.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Exit } from "@procyon/runtime/domain/Status"
import * as path from "node:path"
import { probeGroup } from "../forest.ts"
import type { Failure } from "../spawnFailure.ts"
import * as Helper from "./helper.ts"
import * as Keeper from "./keeper.ts"
import type { Answer, Order, Question, Report, Start } from "./protocol.ts"

/** Pauses before each try to replace a keeper, in milliseconds. */
const retryMillis = [0, 100, 500]

/** After how long a loss is forgotten, and tries begin anew, in milliseconds. */
const steadyMillis = 10_000

/** What was lost. `restarted: false`: no other keeper could be started. */
export interface Lost {
  /** `ended`: it was killed or has failed. `silent`: it did not answer any more, and was killed. */
  readonly how: Helper.Loss
  /** How many children it had that were not known to have ended. */
  readonly children: number
  readonly restarted: boolean
}

/** What becomes of a start: one of the three, once. */
interface StartEvents {
  readonly started: (root: Identity) => void
  readonly failed: (failure: Failure) => void
  /** It was taken back in time. */
  readonly withdrawn: () => void
}

export interface Client {
  /** Answers how to take it back, as long as it is not answered: it may then be answered in any way. */
  readonly start: (
    spec: Omit<Start, "_tag" | "id">,
    onExit: (exit: Exit) => void,
    events: StartEvents
  ) => () => void
  readonly attach: (root: Identity, graceMillis: number, onExit: (exit: Exit) => void) => void
  /** The keeper does not end this tree any more, and tells nothing of it. */
  readonly release: (root: Identity) => void
  /** Calls back once, whatever becomes of the keeper. */
  readonly ask: (question: Question, answer: (answer: Answer) => void) => void
  readonly occupied: (root: Identity) => boolean
  /** The keeper goes, after it has ended what was not released. Only a look and a signal are of use afterwards. */
  readonly close: (done: () => void) => void
}

/** A leader that ends with this application. */
interface Kept {
  readonly root: Identity
  readonly graceMillis: number
  readonly onExit: (exit: Exit) => void
  exited: boolean
}

interface Waiting {
  readonly order: Start
  readonly onExit: (exit: Exit) => void
  readonly events: StartEvents
  sent: boolean
}

interface Asked {
  readonly question: Question
  readonly answer: (answer: Answer) => void
}

/** Whoever answers orders now: a keeper process, or this one. */
type Peer = Pick<Helper.Helper, "send" | "hold" | "kill" | "leave">

/** Opens a keeper, and calls back once: with its client, or with `null` when it could not be had. */
export const open = (
  options: { readonly bootId: string; readonly silenceMillis: number; readonly onLost: (lost: Lost) => void },
  done: (client: Client | null) => void
): void => {
  const starts = new Map<number, Waiting>()
  const asked = new Map<number, Asked>()
  const kept = new Map<string, Kept>()
  /** The groups known to be a tree's, by marker: as of the last look. */
  const groups = new Map<string, Set<number>>()
  /** Those that FIFOs were made in. */
  const directories = new Set<string>()
  /** How many of those kept are not known to have ended. */
  let living = 0
  let ids = 0
  let peer: Peer | null = null
  /**
   * A keeper that is not ready yet. It is told whom to keep from its first moment on: it reads that also when this process
   * is killed meanwhile.
   */
  let coming: Helper.Helper | null = null
  /** This process in the place of a keeper, and since when. */
  let standIn: { readonly peer: Peer; readonly since: number } | null = null
  let reviving = false
  let closed = false
  let tries = 0
  let readyAt = 0

  const update = (): void => {
    peer?.hold(starts.size + asked.size + living > 0)
  }
  const send = (order: Order): void => peer?.send(order)
  /** For what the next one has to know as well. */
  const tell = (order: Order): void => {
    send(order)
    coming?.send(order)
  }
  /** Tells somebody what those before have been told. */
  const brief = ({ send }: Pick<Peer, "send">): void => {
    for (const directory of directories) send({ _tag: "Remove", directory })
    for (const { graceMillis, root } of kept.values()) send({ _tag: "Attach", root, graceMillis })
  }
  const keep = (root: Identity, graceMillis: number, onExit: (exit: Exit) => void): void => {
    if (kept.get(root.marker)?.exited === false) living--
    kept.set(root.marker, { root, graceMillis, onExit, exited: false })
    living++
  }
  const ask: Client["ask"] = (question, answer) => {
    const id = ++ids
    asked.set(id, { question, answer })
    if (question._tag === "MakeFifos") {
      for (const directory of new Set(question.names.map((name) => path.dirname(name)))) {
        directories.add(directory)
        coming?.send({ _tag: "Remove", directory })
      }
    }
    send({ _tag: "Ask", id, question })
    update()
  }

  const onStarted = (id: number, pid: number, startedAt: number): void => {
    const waiting = starts.get(id)
    if (waiting === undefined) return
    starts.delete(id)
    const { graceMillis, marker } = waiting.order
    const root = { pid, startedAt, bootId: options.bootId, marker }
    keep(root, graceMillis, waiting.onExit)
    groups.set(marker, new Set([pid]))
    waiting.events.started(root)
  }
  const settle = (id: number, tell: (events: StartEvents) => void): void => {
    const waiting = starts.get(id)
    if (waiting === undefined) return
    starts.delete(id)
    tell(waiting.events)
  }
  const onExited = (marker: string, exit: Exit): void => {
    const one = kept.get(marker)
    if (one === undefined || one.exited) return
    one.exited = true
    living--
    one.onExit(exit)
  }
  const onAnswered = (id: number, answer: Answer): void => {
    const one = asked.get(id)
    if (one === undefined) return
    asked.delete(id)
    if (one.question._tag === "Look" && answer._tag === "Looked") {
      for (const [index, { marker }] of one.question.roots.entries()) {
        const known = answer.looks[index]?.groups ?? []
        if (known.length > 0) groups.set(marker, new Set(known))
        else groups.delete(marker)
      }
    }
    one.answer(answer)
  }
  const receive = (report: Report): void => {
    switch (report._tag) {
      case "Started":
        onStarted(report.id, report.pid, report.startedAt)
        break
      case "Failed":
        settle(report.id, (events) => events.failed({ problem: report.problem, code: report.code }))
        break
      case "Withdrawn":
        settle(report.id, (events) => events.withdrawn())
        break
      case "Exited":
        onExited(report.marker, report.exit)
        break
      case "Answered":
        onAnswered(report.id, report.answer)
        break
      default:
        return
    }
    update()
  }

  const makeStandIn = (): Peer => {
    const keeper = Keeper.make((report) => queueMicrotask(() => receive(report)), { starts: false })
    return { send: keeper.handle, hold: () => {}, kill: (done) => done(), leave: () => keeper.end(() => {}) }
  }

  /** Tries once, and calls back with a keeper or with `null`. */
  const openKeeper = (answer: (helper: Helper.Helper | null) => void): void => {
    let isReady = false
    try {
      const helper = Helper.open({
        report: receive,
        ready() {
          isReady = true
          coming = null
          readyAt = performance.now()
          answer(helper)
        },
        lost(how) {
          if (isReady) return lose(helper, how)
          coming = null
          helper.kill(() => answer(null))
        }
      }, options.silenceMillis)
      coming = helper
      brief(helper)
    } catch {
      setImmediate(answer, null)
    }
  }
  const reopenKeeper = (answer: (helper: Helper.Helper | null) => void): void => {
    const pause = retryMillis[tries++]
    if (pause === undefined) return answer(null)
    setTimeout(() => openKeeper((helper) => helper === null ? reopenKeeper(answer) : answer(helper)), pause)
  }

  /** Makes it the one that is told and asked, and tells and asks it what has been so far. `null`: this process. */
  const install = (next: Peer | null): void => {
    reviving = false
    const before = standIn?.peer ?? null
    if (next !== null && before !== null) {
      for (const marker of kept.keys()) before.send({ _tag: "Release", marker })
    }
    peer = next ?? before ?? makeStandIn()
    standIn = next === null ? { peer, since: performance.now() } : null
    // Nobody ends them meanwhile if this process is killed.
    if (next === null && kept.size > 0) setTimeout(revive, steadyMillis).unref()
    if (peer !== before) {
      // A keeper has been told while it was coming.
      if (next === null) brief(peer)
      for (const [id, { question }] of asked) send({ _tag: "Ask", id, question })
    }
    for (const waiting of starts.values()) forward(waiting)
    update()
    if (closed) leave(() => {})
  }

  /** Looks for a keeper again, in the place of which this process stands. Starts wait for that. */
  const revive = (): void => {
    if (closed || reviving || standIn === null) return
    reviving = true
    tries = 0
    reopenKeeper(install)
  }

  const lose = (helper: Helper.Helper, how: Helper.Loss): void => {
    peer = null
    if (performance.now() - readyAt > steadyMillis) tries = 0
    const children = living
    const unanswered = [...starts].filter(([, { sent }]) => sent)
    for (const [id] of unanswered) starts.delete(id)
    helper.kill(() =>
      reopenKeeper((next) => {
        install(next)
        // Of what the lost one was starting nobody knows how far it got.
        const markers = [helper.marker, ...unanswered.map(([, { order }]) => order.marker)]
        const roots = markers.map((marker) => ({ pid: 0, startedAt: 0, bootId: options.bootId, marker }))
        ask({ _tag: "End", roots }, () => {
          for (const [, { events }] of unanswered) events.failed({ problem: "OutcomeUnknown", code: null })
        })
        options.onLost({ how, children, restarted: next !== null })
      })
    )
  }

  const forward = (waiting: Waiting): void => {
    if (peer === null || reviving) return
    waiting.sent = true
    send(waiting.order)
  }

  const leave = (done: () => void): void => {
    const left = peer
    if (left === null) return done()
    peer = makeStandIn()
    for (const [id, { question }] of asked) send({ _tag: "Ask", id, question })
    if (kept.size + starts.size > 0) {
      left.leave()
      done()
    } else left.kill(done)
  }

  const client: Client = {
    start(spec, onExit, events) {
      const id = ++ids
      const waiting: Waiting = { order: { _tag: "Start", id, ...spec }, onExit, events, sent: false }
      starts.set(id, waiting)
      if (standIn !== null && performance.now() - standIn.since >= steadyMillis) revive()
      forward(waiting)
      update()
      return () => {
        if (waiting.sent) return send({ _tag: "Withdraw", id })
        settle(id, (events) => events.withdrawn())
        update()
      }
    },
    attach(root, graceMillis, onExit) {
      keep(root, graceMillis, onExit)
      tell({ _tag: "Attach", root, graceMillis })
      update()
    },
    release({ marker }) {
      if (kept.get(marker)?.exited === false) living--
      if (!kept.delete(marker)) return
      groups.delete(marker)
      tell({ _tag: "Release", marker })
      update()
    },
    ask,
    occupied(root) {
      const known = groups.get(root.marker) ?? []
      for (const group of known) {
        if (probeGroup(group)) return true
        groups.get(root.marker)?.delete(group)
      }
      return false
    },
    close(done) {
      closed = true
      leave(done)
    }
  }

  openKeeper((helper) => {
    peer = helper
    done(helper === null ? null : client)
  })
}
