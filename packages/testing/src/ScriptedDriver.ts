/**
 * A process driver whose children are scripts: every lifecycle a process can have, exactly as often and as fast as a
 * test wants it.
 *
 * It implements the port fully, on a scripted operating system instead of a real one. All that takes time takes it on
 * the Clock it was built under, so a TestClock drives children and runtime together. It starts no real process.
 *
 * Files of detached children are kept by the driver, for as long as it is. Nothing in a scripted world enforces their
 * deadlines and byte caps when no application is alive, unless a test says so (`World.endDetached`).
 */
import { sha256 } from "@noble/hashes/sha2.js"
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import { type Identity, isUnborn } from "@procyon/runtime/domain/Identity"
import type { Exit } from "@procyon/runtime/domain/Status"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exits from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scheduler from "effect/Scheduler"
import * as TestClock from "effect/testing/TestClock"
import { Machine, type Process } from "./internal/Machine.ts"
import { InputPipe, nothing, OutputFile, OutputPipe, type Reader } from "./internal/Pipes.ts"
import * as Quiescence from "./internal/Quiescence.ts"
import * as Recorder from "./Recorder.ts"
import { child, type Script } from "./Script.ts"
import { World, type WorldService } from "./World.ts"

/** What there is to run, and what the driver claims to see. */
export interface Options {
  /**
   * Which script a command performs: by its executable as given, then by the executable's base name; for a shell script
   * by its text. A function gives each start its own. A command without an entry fails with `CommandNotFound`.
   */
  readonly children: Readonly<Record<string, Script | ((command: CommandSpec) => Script)>>
  /** What the driver claims and uses less of than it could: without `marker` a look finds no daemons, and so on. */
  readonly capabilities?: Partial<ProcessDriver.Capabilities> | undefined
}

/** The boot of every identity in a scripted world. */
export const bootId = "scripted"

/** Everything a platform can offer, on a platform of its own name. */
export const capabilities: ProcessDriver.Capabilities = {
  platform: "scripted",
  processTable: true,
  sessions: true,
  marker: true,
  wholeTree: "verified",
  pty: false,
  detached: true
}

/** The application itself, which is no process of the scripted table, and always alive. */
export const self: Identity = { pid: 2, startedAt: 1, bootId, marker: "" }

/** The driver and the world around it. A function on purpose: each call is a fresh world, so each test has its own. */
export const layer = (options: Options): Layer.Layer<ProcessDriver.Service | World> =>
  Layer.effectContext(Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const quiescence = Quiescence.make(yield* Scheduler.Scheduler)
    const context = Context.add(yield* Effect.context<never>(), Scheduler.Scheduler, quiescence.scheduler)
    const machine = new Machine(clock, context)
    yield* Effect.addFinalizer(() => Effect.sync(() => machine.shutdown()))
    const driver = new ScriptedDriver(machine, options)
    // With the scheduler, whoever builds on this layer runs on it, and `drain` sees their fibers as well.
    return Context.make(ProcessDriver.Service, portOf(driver)).pipe(
      Context.add(World, makeWorld(driver, machine, quiescence)),
      Context.add(Scheduler.Scheduler, quiescence.scheduler)
    )
  }))

/** Members that work without their driver: a caller may take them apart. */
const portOf = (driver: ScriptedDriver): ProcessDriver.ProcessDriver => ({
  capabilities: driver.capabilities,
  spawn: (request) => driver.spawn(request),
  self,
  attach: (request) => driver.attach(request),
  probe: (identity) => driver.probe(identity),
  detachedFiles: driver.capabilities.detached ? driver.files : null,
  look: (roots) => driver.look(roots),
  occupied: (root) => driver.occupied(root),
  signal: (root, targets, signal) => driver.signal(root, targets, signal),
  sha256: newSha256
})

const newSha256 = (): ProcessDriver.Sha256 => {
  const hash = sha256.create()
  return {
    update: (bytes) => {
      hash.update(bytes)
    },
    digest: () => Array.from(hash.digest(), (byte) => byte.toString(16).padStart(2, "0")).join("")
  }
}

const makeWorld = (driver: ScriptedDriver, machine: Machine, quiescence: Quiescence.Quiescence): WorldService => ({
  calls: Effect.sync(() => driver.calls.map((call) => call.line)),
  recorded: Effect.sync(() => driver.recorded.map((entry) => ({ ...entry }))),
  timeline: (options) => Effect.sync(() => Recorder.format(driver.recorded, options)),
  signals: Effect.sync(() =>
    driver.calls.filter((call) => call.what.startsWith("SIG") && call.what !== "SIGCONT").map((call) => call.line)
  ),
  alive: Effect.sync(() => machine.living.map((process) => process.label)),
  processes: Effect.sync(() => machine.living.map(({ label, marker, pid }) => ({ label, pid, marker }))),
  spawned: Effect.sync(() => machine.started),
  open: Effect.sync(() => [...driver.open].map((child) => child.label)),
  looks: Effect.sync(() => driver.looks),
  kill: (who, how = "SIGKILL") =>
    Effect.sync(() => {
      const exit = typeof how === "number" ? { code: how, signal: null } : { code: null, signal: how }
      for (const process of machine.living) if (who === process.label || who === process.pid) machine.end(process, exit)
    }),
  print: (name, text) =>
    Effect.sync(() => {
      const process = machine.living.find((process) => process.label === name)
      if (process !== undefined) machine.perform(process, child.prints(text).plan.steps)
    }),
  reusePid: (name, stranger) =>
    Effect.sync(() => {
      const pid = driver.lastPids.get(name)
      if (pid !== undefined && !machine.table.has(pid)) {
        machine.start(strangerBirth(stranger?.name ?? "stranger", stranger?.script ?? child), pid)
      }
    }),
  endDetached: (name, by) => Effect.sync(() => driver.endDetached(name, by)),
  loseExit: (name) => Effect.sync(() => driver.loseExit(name)),
  blindLooks: (times) =>
    Effect.sync(() => {
      driver.blindLooks = times
    }),
  drain: quiescence.drain,
  advance: (duration) =>
    quiescence.drain.pipe(Effect.andThen(TestClock.adjust(duration)), Effect.andThen(quiescence.drain))
})

const strangerBirth = (name: string, script: Script) => ({
  label: name,
  name,
  script,
  parent: 1,
  group: "own" as const,
  session: "own" as const,
  marker: null,
  stdin: null,
  outputs: {},
  onReap: null
})

/** What the driver remembers of one tree. Groups and sessions map to the start of the process they are named after. */
interface TreeRecord {
  readonly root: Identity
  readonly members: Map<number, number>
  readonly groups: Map<number, number | null>
  readonly sessions: Map<number, number | null>
}

type Tell = (exit: Exit, by?: ProcessDriver.EndedBy) => void

const unknownExit: Exit = { code: null, signal: null }

/** What a detached leader leaves behind: its files, and who follows them. `err`: `null` when the streams share a file. */
interface DetachedJob {
  readonly label: string
  readonly out: OutputFile
  readonly err: OutputFile | null
  exit: "running" | "lost" | Exit
  by: ProcessDriver.EndedBy | undefined
  readonly followers: Set<Tell>
}

interface Call {
  readonly what: string
  readonly line: string
}

type Writable<A> = { -readonly [Key in keyof A]: A[Key] }
type Entry<Name extends Recorder.Call> = Writable<Extract<Recorder.Recorded, { readonly call: Name }>>
/** What of an entry is not the same for all of them. */
type Rest<Entry> = Entry extends Recorder.Recorded ? Omit<Entry, "atMillis"> : never

class ScriptedDriver {
  readonly capabilities: ProcessDriver.Capabilities
  readonly calls: Array<Call> = []
  readonly recorded: Array<Recorder.Recorded> = []
  readonly open = new Set<{ readonly label: string }>()
  readonly lastPids = new Map<string, number>()
  /** Of all that were ever started or listed, by pid and start time. */
  readonly #labels = new Map<string, string>()
  looks = 0
  blindLooks = 0
  readonly #machine: Machine
  readonly #options: Options
  readonly #records = new Map<string, TreeRecord>()
  /** Whom to tell when a leader that another runtime has started is gone. */
  readonly #watchers = new Map<string, (look: ProcessDriver.TreeLook) => void>()
  /** By the name of their files. */
  readonly #jobs = new Map<string, DetachedJob>()

  constructor(machine: Machine, options: Options) {
    this.#machine = machine
    this.#options = options
    this.capabilities = { ...capabilities, ...options.capabilities }
  }

  spawn(request: ProcessDriver.SpawnRequest): Effect.Effect<ProcessDriver.Child, ProcessDriver.SpawnFailed> {
    return Effect.suspend(() => {
      const entry = this.record<"spawn">({
        call: "spawn",
        process: this.#find(request.command).label,
        detached: request.detached !== undefined,
        answer: null,
        answeredAtMillis: null
      })
      return Effect.onExit(this.#spawn(request), (exit) =>
        Effect.sync(() => {
          entry.answer = answerOf(exit)
          entry.answeredAtMillis = this.#machine.nowMillis
        }))
    })
  }

  #spawn(request: ProcessDriver.SpawnRequest): Effect.Effect<ProcessDriver.Child, ProcessDriver.SpawnFailed> {
    return Effect.gen({ self: this }, function*() {
      const { label, name, script } = this.#find(request.command)
      this.log("spawn", label)
      if (script === undefined) {
        return yield* new ProcessDriver.SpawnFailed({ problem: "CommandNotFound", code: "ENOENT" })
      }
      const refused = this.#refusalOf(request)
      if (refused !== null) return yield* new ProcessDriver.SpawnFailed({ problem: "Other", code: refused })
      const { afterMillis, answersAfterMillis, failsWith } = script.plan.start
      yield* this.#machine.sleep(afterMillis)
      if (failsWith !== null) return yield* new ProcessDriver.SpawnFailed(failsWith)
      const child = this.#start(request, { label, name, script })
      yield* this.#machine.sleep(answersAfterMillis).pipe(
        Effect.onInterrupt(() =>
          Effect.sync(() => {
            this.#endTree(child)
            if (request.detached !== undefined) this.#jobs.delete(request.detached.name)
          })
        )
      )
      return child
    })
  }

  look(roots: ReadonlyArray<Identity>): Effect.Effect<ReadonlyArray<ProcessDriver.TreeLook>> {
    return Effect.gen({ self: this }, function*() {
      this.looks++
      // A look is never answered in the turn it was asked for.
      yield* Effect.yieldNow
      const complete = this.capabilities.processTable && this.blindLooks === 0
      if (this.blindLooks > 0) this.blindLooks--
      const looks = roots.map((root) => complete ? this.#lookAt(root) : unseen(root))
      this.record<"look">({ call: "look", process: "", found: looks.map((look) => this.#foundOf(look)) })
      for (const look of looks) this.#tellGone(look)
      return looks
    })
  }

  attach(request: ProcessDriver.AttachRequest): Effect.Effect<ProcessDriver.Child> {
    return Effect.sync(() => {
      const { identity, onExit } = request
      const job = request.detached === null ? undefined : this.#jobs.get(request.detached)
      const process = this.#machine.table.get(identity.pid)
      const label = process?.startedAt === identity.startedAt ? process.label : job?.label ?? "nobody"
      this.log("attach", label)
      this.record<"attach">({ call: "attach", process: label })
      const readers = followIn(job, request)
      const child = new AttachedChild(this, this.#machine, { identity, label, readers })
      this.open.add(child)
      let told = false
      const tell: Tell = (exit, by) => {
        if (told || child.isReleased) return
        told = true
        this.#watchers.delete(recordKey(identity))
        for (const reader of readersOf(readers)) reader.pump()
        this.record<"exit">({ call: "exit", process: label, exit })
        onExit(exit, by)
      }
      child.forget = () => {
        job?.followers.delete(tell)
        this.#watchers.delete(recordKey(identity))
      }
      job?.followers.add(tell)
      this.#watchers.set(recordKey(identity), (look) => {
        if (isGone(look, request)) tell(...recordedEnd(job))
      })
      this.#machine.defer(() => {
        if (child.isReleased) return
        for (const reader of readersOf(readers)) reader.pump()
        if (job !== undefined && typeof job.exit !== "string") tell(...recordedEnd(job))
      })
      return child
    })
  }

  /** What the leaders' own watchers do with no application alive. */
  endDetached(label: string, by: ProcessDriver.EndedBy): void {
    for (const job of this.#jobs.values()) {
      if (job.label !== label || job.exit !== "running") continue
      job.by = by
      const leader = this.#machine.living.find((process) =>
        process.outputs.stdout === job.out && process.onReap !== null
      )
      if (leader !== undefined) this.#machine.end(leader, { code: null, signal: "SIGTERM" })
    }
  }

  /** Also of those that have not ended: their exit will not be recorded. */
  loseExit(label: string): void {
    for (const job of this.#jobs.values()) if (job.label === label) job.exit = "lost"
  }

  readonly files: ProcessDriver.DetachedFiles = {
    read: (name, stream, offset, limit) =>
      Effect.sync(() => {
        const job = this.#jobs.get(name)
        const file = stream === "stdout" ? job?.out : job?.err
        return file?.read(offset, limit) ?? null
      }),
    remove: (name) =>
      Effect.sync(() => {
        this.#jobs.delete(name)
        return true
      })
  }

  probe(identity: Identity): Effect.Effect<ProcessDriver.Vitality> {
    return Effect.sync(() => {
      if (identity.bootId !== bootId) return "unknown"
      if (identity.pid === self.pid) return identity.startedAt === self.startedAt ? "alive" : "gone"
      const process = this.#machine.table.get(identity.pid)
      return process?.alive === true && process.startedAt === identity.startedAt ? "alive" : "gone"
    })
  }

  #tellGone(look: ProcessDriver.TreeLook): void {
    this.#watchers.get(recordKey(look.root))?.(look)
  }

  occupied(root: Identity): boolean {
    const record = this.#recordOf(root)
    return [...record.groups].some(([group, startedAt]) =>
      this.#stillOurs(group, startedAt) && this.#inGroup(group).length > 0
    )
  }

  signal(
    root: Identity,
    targets: {
      readonly members: ReadonlyArray<ProcessDriver.Member>
      readonly groups?: ReadonlyArray<number> | undefined
    },
    signal: string
  ): Effect.Effect<ReadonlyArray<ProcessDriver.SignalOutcome>> {
    return Effect.sync(() => {
      // Before they are signalled, as one that ends may be gone from the table.
      const labels = targets.members.map(({ name, pid, startedAt }) => this.#labelOf(pid, startedAt) ?? name)
      const outcomes = [
        ...targets.members.map((member) => this.#signalMember(root, member, signal)),
        ...(targets.groups ?? []).map((group) => this.#signalGroup(root, group, signal))
      ]
      this.record<"signal">({
        call: "signal",
        process: this.#labelOf(root.pid, root.startedAt) ?? "nobody",
        signal,
        targets: outcomes.map(({ outcome, pid }, index) => ({ process: labels[index] ?? `group ${pid}`, pid, outcome }))
      })
      return outcomes
    })
  }

  /** The entry stays, to be completed. */
  record<Name extends Recorder.Call>(rest: Rest<Entry<Name>>): Entry<Name> {
    const entry = { atMillis: this.#machine.nowMillis, ...rest } as unknown as Entry<Name>
    this.recorded.push(entry)
    return entry
  }

  #label({ label, pid, startedAt }: Process): void {
    this.#labels.set(`${pid}:${startedAt}`, label)
  }

  #labelOf(pid: number, startedAt: number): string | undefined {
    return this.#labels.get(`${pid}:${startedAt}`)
  }

  #foundOf({ complete, leader, members, root }: ProcessDriver.TreeLook): Recorder.Looked {
    return {
      process: this.#labelOf(root.pid, root.startedAt) ?? "nobody",
      leader,
      members: members.map(({ name, pid, startedAt }) => this.#labelOf(pid, startedAt) ?? name),
      complete
    }
  }

  log(what: string, whom: string, answer = ""): void {
    this.calls.push({
      what,
      line: `${this.#machine.nowMillis} ${what} ${whom}${answer === "" ? "" : ` ${answer}`}`
    })
  }

  released(child: ChildOutput): void {
    this.open.delete(child)
    this.#records.delete(recordKey(child.identity))
  }

  #find(command: CommandSpec): { readonly label: string; readonly name: string; readonly script: Script | undefined } {
    const { program } = command
    const full = program._tag === "Exec" ? program.command : textOf(program.script)
    const name = baseName(program._tag === "Exec" ? program.command : program.shell)
    const label = Object.hasOwn(this.#options.children, full) ? full : name
    const entry = Object.hasOwn(this.#options.children, label) ? this.#options.children[label] : undefined
    return { label, name, script: typeof entry === "function" ? entry(command) : entry }
  }

  #start(
    request: ProcessDriver.SpawnRequest,
    who: { readonly label: string; readonly name: string; readonly script: Script }
  ): ScriptedChild {
    const { command, detached, marker, onExit } = request
    const job = detached === undefined ? null : this.#record(detached.name, who.label, request)
    const { outputs, readers } = job === null ? pipesOf(request) : {
      outputs: { stdout: job.out, stderr: job.err ?? job.out },
      readers: followIn(job, request)
    }
    const stdin = job === null ? command.options.stdin : "none"
    const leader = this.#machine.start({
      ...who,
      parent: 1,
      group: "own",
      session: "own",
      marker,
      stdin: stdin === undefined || stdin === "none" ? null : new InputPipe(),
      outputs,
      onReap: (exit) => {
        if (job !== null && job.exit === "running") job.exit = exit
        const told: Parameters<Tell> = job === null ? [exit] : recordedEnd(job)
        if (!child.isReleased) {
          this.record<"exit">({ call: "exit", process: who.label, exit: told[0] })
          onExit(...told)
        }
        // An exit that was lost is told to them by a look.
        if (job !== null && job.exit !== "lost") { for (const tell of job.followers) tell(exit, job.by) }
      }
    })
    this.lastPids.set(who.label, leader.pid)
    this.#label(leader)
    const identity: Identity = { pid: leader.pid, startedAt: leader.startedAt, bootId, marker }
    const child = new ScriptedChild(this, this.#machine, { leader, identity, readers })
    this.#recordOf(child.identity)
    this.open.add(child)
    return child
  }

  #refusalOf({ detached }: ProcessDriver.SpawnRequest): string | null {
    if (detached === undefined) return null
    return this.capabilities.detached ? this.#jobs.has(detached.name) ? "EEXIST" : null : "ENOTSUP"
  }

  #record(name: string, label: string, { stderr }: ProcessDriver.SpawnRequest): DetachedJob {
    const job: DetachedJob = {
      label,
      out: new OutputFile(),
      err: stderr === "merged" ? null : new OutputFile(),
      exit: "running",
      by: undefined,
      followers: new Set()
    }
    this.#jobs.set(name, job)
    return job
  }

  /** What an interrupted start does with a process that is there already. */
  #endTree(child: ScriptedChild): void {
    for (const member of this.#lookAt(child.identity).members) this.#signalMember(child.identity, member, "SIGKILL")
    child.letGo()
  }

  #recordOf(root: Identity): TreeRecord {
    const key = recordKey(root)
    let record = this.#records.get(key)
    if (record === undefined) {
      record = {
        root,
        members: new Map([[root.pid, root.startedAt]]),
        groups: new Map([[root.pid, root.startedAt]]),
        sessions: new Map([[root.pid, root.startedAt]])
      }
      this.#records.set(key, record)
    }
    return record
  }

  #lookAt(root: Identity): ProcessDriver.TreeLook {
    if (root.bootId !== bootId) return { root, leader: "gone", members: [], occupied: [], complete: true }
    const record = this.#recordOf(root)
    const found = this.#findMembers(record)
    this.#remember(record, found)
    const groupsSeen = new Set(found.map((process) => process.group))
    const occupied = [...record.groups.keys()].filter((group) =>
      !groupsSeen.has(group) && this.#inGroup(group).length > 0
    )
    const leader = this.#machine.table.get(root.pid)
    return {
      root,
      leader: leader === undefined || leader.startedAt !== root.startedAt
        ? "gone"
        : leader.alive
        ? "alive"
        : "unreaped",
      members: found.filter((process) => process.alive).map(memberOf),
      occupied,
      complete: true
    }
  }

  /** Members of the tree in the table, dead ones included: recorded, in an owned group or session, marked, or a child. */
  #findMembers(record: TreeRecord): ReadonlyArray<Process> {
    const visible = [...this.#machine.table.values()].filter((process) => process.visible)
    const found = new Set(visible.filter((process) =>
      record.members.get(process.pid) === process.startedAt ||
      this.#owns(record.groups, process.group) ||
      (this.capabilities.sessions && this.#owns(record.sessions, process.session)) ||
      (this.capabilities.marker && process.marker === record.root.marker)
    ))
    const pids = new Set([...found].map((process) => process.pid))
    for (let size = -1; size !== found.size;) {
      size = found.size
      for (const process of visible) {
        if (!pids.has(process.parent)) continue
        found.add(process)
        pids.add(process.pid)
      }
    }
    return [...found]
  }

  /** Records whom a look found, and forgets what is no longer there: its numbers will be used again. */
  #remember(record: TreeRecord, found: ReadonlyArray<Process>): void {
    record.members.clear()
    for (const process of found) {
      this.#label(process)
      record.members.set(process.pid, process.startedAt)
      if (!record.groups.has(process.group)) record.groups.set(process.group, this.#startOf(process.group))
      if (!record.sessions.has(process.session)) record.sessions.set(process.session, this.#startOf(process.session))
    }
    const processes = [...this.#machine.table.values()]
    for (const [group, startedAt] of record.groups) {
      if (!this.#stillOurs(group, startedAt) || this.#inGroup(group).length === 0) record.groups.delete(group)
    }
    for (const [session, startedAt] of record.sessions) {
      if (!this.#stillOurs(session, startedAt) || !processes.some((process) => process.session === session)) {
        record.sessions.delete(session)
      }
    }
  }

  #owns(ids: ReadonlyMap<number, number | null>, id: number): boolean {
    const startedAt = ids.get(id)
    return startedAt !== undefined && this.#stillOurs(id, startedAt)
  }

  /** Whether the pid a group or session is named after is still unused by anybody else. */
  #stillOurs(id: number, startedAt: number | null): boolean {
    const process = this.#machine.table.get(id)
    return process === undefined || startedAt === null || process.startedAt === startedAt
  }

  #startOf(pid: number): number | null {
    return this.#machine.table.get(pid)?.startedAt ?? null
  }

  #inGroup(group: number): ReadonlyArray<Process> {
    return [...this.#machine.table.values()].filter((process) => process.group === group)
  }

  #signalMember(root: Identity, member: ProcessDriver.Member, signal: string): ProcessDriver.SignalOutcome {
    const { name, pid, startedAt } = member
    const process = this.#machine.table.get(pid)
    const outcome = root.bootId !== bootId || process === undefined
      ? "gone"
      : process.startedAt !== startedAt
      ? "not-same"
      : this.#machine.deliver(process, signal)
    this.log(signal, process?.startedAt === startedAt ? process.label : name, outcome === "sent" ? "" : outcome)
    return { pid, startedAt, name, outcome, code: outcome === "refused" ? "EPERM" : null }
  }

  #signalGroup(root: Identity, group: number, signal: string): ProcessDriver.SignalOutcome {
    const record = this.#recordOf(root)
    const answers = this.#owns(record.groups, group)
      ? this.#inGroup(group).map((process) => this.#machine.deliver(process, signal))
      : null
    const outcome = answers === null ? "not-same" : groupOutcome(answers)
    this.log(signal, `group ${group}`, outcome === "sent" ? "" : outcome)
    return {
      pid: group,
      startedAt: 0,
      name: "",
      outcome,
      code: outcome === "refused" ? "EPERM" : null
    }
  }
}

type Readers = Readonly<Record<ProcessDriver.StreamName, Reader>>

/** Each once: merged streams share one. */
const readersOf = ({ stderr, stdout }: Readers): ReadonlySet<Reader> => new Set([stdout, stderr])

type Sinks = Pick<ProcessDriver.SpawnRequest, "stdout" | "stderr">

const pipesOf = (sinks: Sinks) => {
  const stdout = new OutputPipe(sinks.stdout)
  const stderr = sinks.stderr === "merged" ? stdout : new OutputPipe(sinks.stderr)
  return { outputs: { stdout, stderr }, readers: { stdout, stderr } }
}

/** Readers of a job's files. A stream without a file ends at once. */
const followIn = (job: DetachedJob | undefined, sinks: Sinks): Readers => {
  const follow = (file: OutputFile | null | undefined, sink: ProcessDriver.OutputSink): Reader => {
    if (file !== null && file !== undefined) return file.follow(sink)
    sink.end()
    return nothing
  }
  const stdout = follow(job?.out, sinks.stdout)
  return { stdout, stderr: sinks.stderr === "merged" ? stdout : follow(job?.err, sinks.stderr) }
}

const recordedEnd = (job: DetachedJob | undefined): Parameters<Tell> =>
  job === undefined || typeof job.exit === "string" ? [unknownExit] : [job.exit, job.by]

/** Whether a look tells that the leader is gone. One whose start nobody answered is known by its tree alone. */
const isGone = (look: ProcessDriver.TreeLook, { detached, identity }: ProcessDriver.AttachRequest): boolean =>
  look.complete && look.leader !== "alive" &&
  (detached === null || !isUnborn(identity) || look.members.length + look.occupied.length === 0)

/** What is the same for a leader of our own and for one that another runtime has started. */
abstract class ChildOutput {
  readonly identity: Identity
  readonly label: string
  protected readonly driver: ScriptedDriver
  protected readonly readers: Readers
  readonly #machine: Machine
  #released = false

  constructor(
    driver: ScriptedDriver,
    machine: Machine,
    is: { readonly identity: Identity; readonly label: string; readonly readers: Readers }
  ) {
    this.driver = driver
    this.#machine = machine
    this.identity = is.identity
    this.label = is.label
    this.readers = is.readers
  }

  get isReleased(): boolean {
    return this.#released
  }

  resume(stream: ProcessDriver.StreamName): void {
    if (this.#released) return
    this.driver.record<"resume">({ call: "resume", process: this.label, stream })
    const reader = this.readers[stream]
    reader.resume()
    this.#machine.defer(() => reader.pump())
  }

  drain(stream: ProcessDriver.StreamName): "empty" | "ended" | "bound" | "paused" {
    const answer = this.readers[stream].drain()
    this.driver.record<"drain">({ call: "drain", process: this.label, stream, answer })
    return answer
  }

  get finish(): Effect.Effect<void> {
    return Effect.sync(() => {
      this.driver.record<"finish">({ call: "finish", process: this.label })
      for (const reader of readersOf(this.readers)) reader.finish()
    })
  }

  get release(): Effect.Effect<void> {
    return Effect.sync(() => {
      if (this.#released) return
      this.driver.log("release", this.label)
      this.driver.record<"release">({ call: "release", process: this.label })
      this.letGo()
    })
  }

  letGo(): void {
    this.#released = true
    for (const reader of readersOf(this.readers)) reader.close()
    this.driver.released(this)
  }
}

class AttachedChild extends ChildOutput implements ProcessDriver.Child {
  forget: () => void = () => {}

  write(): Effect.Effect<number> {
    return Effect.succeed(0)
  }

  closeStdin(): Effect.Effect<void> {
    return Effect.void
  }

  override letGo(): void {
    this.forget()
    super.letGo()
  }
}

class ScriptedChild extends ChildOutput implements ProcessDriver.Child {
  readonly #leader: Process

  constructor(
    driver: ScriptedDriver,
    machine: Machine,
    is: { readonly identity: Identity; readonly leader: Process; readonly readers: Readers }
  ) {
    super(driver, machine, { ...is, label: is.leader.label })
    this.#leader = is.leader
  }

  write(bytes: Uint8Array): Effect.Effect<number> {
    return Effect.suspend(() => {
      this.driver.log("write", this.label)
      const entry = this.driver.record<"write">({
        call: "write",
        process: this.label,
        bytes: bytes.length,
        taken: null
      })
      const { stdin } = this.#leader
      const written = stdin === null
        ? Effect.succeed(0)
        : Effect.callback<number>((resume) => stdin.write(bytes, (taken) => resume(Effect.succeed(taken))))
      return Effect.tap(written, (taken) =>
        Effect.sync(() => {
          entry.taken = taken
        }))
    })
  }

  closeStdin(options?: { readonly now?: boolean | undefined }): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.driver.log("closeStdin", this.label, options?.now === true ? "now" : "")
      this.driver.record<"closeStdin">({ call: "closeStdin", process: this.label, now: options?.now === true })
      const { stdin } = this.#leader
      if (stdin === null) return Effect.void
      if (options?.now === true) return Effect.sync(() => stdin.drop())
      return Effect.callback<void>((resume) => stdin.end(() => resume(Effect.void)))
    })
  }

  override letGo(): void {
    this.#leader.stdin?.drop()
    super.letGo()
  }
}

const answerOf = (exit: Exits.Exit<unknown, ProcessDriver.SpawnFailed>): string => {
  if (Exits.isSuccess(exit)) return "started"
  const [reason] = exit.cause.reasons
  return reason?._tag === "Fail" ? reason.error.message : reason?._tag === "Die" ? "died" : "interrupted"
}

const recordKey = (root: Identity): string => `${root.pid}:${root.startedAt}:${root.marker}`

const unseen = (root: Identity): ProcessDriver.TreeLook => ({
  root,
  leader: "alive",
  members: [],
  occupied: [],
  complete: false
})

const memberOf = (process: Process): ProcessDriver.Member => ({
  pid: process.pid,
  startedAt: process.startedAt,
  parent: process.parent,
  group: process.group,
  session: process.session,
  state: process.state,
  name: process.name
})

const groupOutcome = (answers: ReadonlyArray<"sent" | "gone" | "refused">): "sent" | "gone" | "refused" =>
  answers.includes("sent") ? "sent" : answers.includes("refused") ? "refused" : "gone"

const textOf = (word: string | Redacted.Redacted<string>): string =>
  typeof word === "string" ? word : Redacted.value(word)

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1)
