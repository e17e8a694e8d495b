/**
 * A process driver whose children are scripts: every lifecycle a process can have, exactly as often and as fast as a
 * test wants it.
 *
 * It implements the port fully, on a scripted operating system instead of a real one. All that takes time takes it on
 * the Clock it was built under, so a TestClock drives children and runtime together. It starts no real process.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import type { CommandSpec } from "@procyon/runtime/domain/CommandSpec"
import type { Identity } from "@procyon/runtime/domain/Identity"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scheduler from "effect/Scheduler"
import * as TestClock from "effect/testing/TestClock"
import { Machine, type Process } from "./internal/Machine.ts"
import { InputPipe, OutputPipe } from "./internal/Pipes.ts"
import * as Quiescence from "./internal/Quiescence.ts"
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
  detached: false
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
  detachedFiles: null,
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
  signals: Effect.sync(() =>
    driver.calls.filter((call) => call.what.startsWith("SIG") && call.what !== "SIGCONT").map((call) => call.line)
  ),
  alive: Effect.sync(() => machine.living.map((process) => process.label)),
  spawned: Effect.sync(() => machine.started),
  open: Effect.sync(() => [...driver.open].map((child) => child.leader.label)),
  looks: Effect.sync(() => driver.looks),
  kill: (name, how = "SIGKILL") =>
    Effect.sync(() => {
      const exit = typeof how === "number" ? { code: how, signal: null } : { code: null, signal: how }
      for (const process of machine.living) if (process.label === name) machine.end(process, exit)
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

interface Call {
  readonly what: string
  readonly line: string
}

class ScriptedDriver {
  readonly capabilities: ProcessDriver.Capabilities
  readonly calls: Array<Call> = []
  readonly open = new Set<ScriptedChild>()
  readonly lastPids = new Map<string, number>()
  looks = 0
  blindLooks = 0
  readonly #machine: Machine
  readonly #options: Options
  readonly #records = new Map<string, TreeRecord>()
  /** Whom to tell when a leader that another runtime has started is gone. */
  readonly #watchers = new Map<string, () => void>()

  constructor(machine: Machine, options: Options) {
    this.#machine = machine
    this.#options = options
    this.capabilities = { ...capabilities, ...options.capabilities }
  }

  spawn(request: ProcessDriver.SpawnRequest): Effect.Effect<ProcessDriver.Child, ProcessDriver.SpawnFailed> {
    return Effect.gen({ self: this }, function*() {
      const { label, name, script } = this.#find(request.command)
      this.log("spawn", label)
      if (script === undefined) {
        return yield* new ProcessDriver.SpawnFailed({ problem: "CommandNotFound", code: "ENOENT" })
      }
      const { afterMillis, answersAfterMillis, failsWith } = script.plan.start
      yield* this.#machine.sleep(afterMillis)
      if (failsWith !== null) return yield* new ProcessDriver.SpawnFailed(failsWith)
      const child = this.#start(request, { label, name, script })
      yield* this.#machine.sleep(answersAfterMillis).pipe(
        Effect.onInterrupt(() => Effect.sync(() => this.#endTree(child)))
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
      for (const look of looks) this.#tellGone(look)
      return looks
    })
  }

  attach(request: ProcessDriver.AttachRequest): Effect.Effect<ProcessDriver.Child> {
    return Effect.sync(() => {
      const { identity, onExit, stderr, stdout } = request
      this.log("attach", this.#machine.table.get(identity.pid)?.label ?? "nobody")
      stdout.end()
      if (stderr !== "merged") stderr.end()
      this.#watchers.set(recordKey(identity), () => onExit({ code: null, signal: null }))
      return {
        identity,
        write: () => Effect.succeed(0),
        closeStdin: () => Effect.void,
        resume: () => {},
        drain: () => "ended" as const,
        finish: Effect.void,
        release: Effect.sync(() => {
          this.#watchers.delete(recordKey(identity))
          this.#records.delete(recordKey(identity))
        })
      }
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

  #tellGone({ complete, leader, root }: ProcessDriver.TreeLook): void {
    const tell = this.#watchers.get(recordKey(root))
    if (tell === undefined || leader === "alive" || !complete) return
    this.#watchers.delete(recordKey(root))
    tell()
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
    return Effect.sync(() => [
      ...targets.members.map((member) => this.#signalMember(root, member, signal)),
      ...(targets.groups ?? []).map((group) => this.#signalGroup(root, group, signal))
    ])
  }

  log(what: string, whom: string, answer = ""): void {
    this.calls.push({
      what,
      line: `${this.#machine.nowMillis} ${what} ${whom}${answer === "" ? "" : ` ${answer}`}`
    })
  }

  released(child: ScriptedChild): void {
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
    const { command, marker, onExit } = request
    const stdout = new OutputPipe(request.stdout)
    const stderr = request.stderr === "merged" ? stdout : new OutputPipe(request.stderr)
    const { stdin } = command.options
    const leader = this.#machine.start({
      ...who,
      parent: 1,
      group: "own",
      session: "own",
      marker,
      stdin: stdin === undefined || stdin === "none" ? null : new InputPipe(),
      outputs: { stdout, stderr },
      onReap: (exit) => {
        if (!child.isReleased) onExit(exit)
      }
    })
    this.lastPids.set(who.label, leader.pid)
    const child = new ScriptedChild(this, this.#machine, leader, {
      pid: leader.pid,
      startedAt: leader.startedAt,
      bootId,
      marker
    })
    this.#recordOf(child.identity)
    this.open.add(child)
    return child
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

class ScriptedChild implements ProcessDriver.Child {
  readonly identity: Identity
  readonly leader: Process
  readonly #driver: ScriptedDriver
  readonly #machine: Machine
  #released = false

  constructor(driver: ScriptedDriver, machine: Machine, leader: Process, identity: Identity) {
    this.#driver = driver
    this.#machine = machine
    this.leader = leader
    this.identity = identity
  }

  get isReleased(): boolean {
    return this.#released
  }

  write(bytes: Uint8Array): Effect.Effect<number> {
    return Effect.suspend(() => {
      this.#driver.log("write", this.leader.label)
      const { stdin } = this.leader
      if (stdin === null) return Effect.succeed(0)
      return Effect.callback<number>((resume) => stdin.write(bytes, (taken) => resume(Effect.succeed(taken))))
    })
  }

  closeStdin(options?: { readonly now?: boolean | undefined }): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#driver.log("closeStdin", this.leader.label, options?.now === true ? "now" : "")
      const { stdin } = this.leader
      if (stdin === null) return Effect.void
      if (options?.now === true) return Effect.sync(() => stdin.drop())
      return Effect.callback<void>((resume) => stdin.end(() => resume(Effect.void)))
    })
  }

  resume(stream: ProcessDriver.StreamName): void {
    const pipe = this.leader.outputs[stream]
    if (pipe === undefined || this.#released) return
    pipe.resume()
    this.#machine.defer(() => pipe.pump())
  }

  drain(stream: ProcessDriver.StreamName): "empty" | "ended" | "bound" | "paused" {
    return this.leader.outputs[stream]?.drain() ?? "ended"
  }

  get finish(): Effect.Effect<void> {
    return Effect.void
  }

  get release(): Effect.Effect<void> {
    return Effect.sync(() => {
      if (this.#released) return
      this.#driver.log("release", this.leader.label)
      this.letGo()
    })
  }

  letGo(): void {
    this.#released = true
    for (const pipe of Object.values(this.leader.outputs)) pipe.close()
    this.leader.stdin?.drop()
    this.#driver.released(this)
  }
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
