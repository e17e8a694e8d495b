/** Ports whose calls are points. */
import type { BlobStore, ProcessDriver, ProcessLedger, WorkspaceLedger, WorkspaceStore } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import { basename } from "node:path"
import type { Points } from "./points.ts"

/** Titles of jobs, by id and by marker: what a port is called with tells whose call it is. */
export class Titles {
  readonly #titles = new Map<string, string>()

  learn({ id, identity, title }: ProcessLedger.LedgerRow): void {
    if (title === null) return
    this.#titles.set(id, title)
    if (identity !== null) this.#titles.set(identity.marker, title)
  }

  /** A workspace has the title of the job that works in it for its name. */
  learnPlace({ id, path }: Pick<WorkspaceLedger.WorkspaceRecord, "id" | "path">): void {
    this.#titles.set(id, basename(path))
  }

  of(idOrMarker: string): string | null {
    return this.#titles.get(idOrMarker.replace(/-stderr$/, "")) ?? null
  }
}

/** What a transition says, by the fields that only one kind of them has. */
const kindOf = (changes: ProcessLedger.Changes): string => {
  if (changes.endedAt !== undefined) return changes.status === "kill_failed" ? "unresolved" : "ended"
  if (changes.identity !== undefined) return "started"
  if (changes.fence !== undefined) return "claimed"
  if (changes.holder === null) return "released"
  if (changes.told !== undefined) return "told"
  if (changes.offered !== undefined) return "offered"
  return "changed"
}

/** The same of what changes of a workspace's record. */
const changeOf = ({ fence, guests, identity }: WorkspaceLedger.WorkspaceChanges): string => {
  if (fence !== undefined) return "claimed"
  if (identity !== undefined) return "made"
  return guests === undefined ? "renewed" : "changed"
}

const workspaceLedger = (
  inner: WorkspaceLedger.WorkspaceLedger,
  { around }: Points,
  titles: Titles
): WorkspaceLedger.WorkspaceLedger => ({
  insert: (record) =>
    Effect.suspend(() => {
      titles.learnPlace(record)
      return around("ledger.workspaces.insert", titles.of(record.id), inner.insert(record))
    }),
  update: (id, fence, changes) =>
    around(`ledger.workspaces.update ${changeOf(changes)}`, titles.of(id), inner.update(id, fence, changes)),
  remove: (id, fence) => around("ledger.workspaces.remove", titles.of(id), inner.remove(id, fence)),
  list: (options) =>
    Effect.tap(inner.list(options), (records) => Effect.sync(() => records.forEach((one) => titles.learnPlace(one))))
})

export const workspaces = (
  inner: WorkspaceStore.WorkspaceStore,
  { around }: Points
): WorkspaceStore.WorkspaceStore => ({
  locate: (root, name) => inner.locate(root, name),
  create: (place) => around("workspace.create", basename(place.path), inner.create(place)),
  remove: (place) => around("workspace.remove", basename(place.path), inner.remove(place))
})

export const ledger = (
  inner: ProcessLedger.ProcessLedger,
  points: Points,
  titles: Titles
): ProcessLedger.ProcessLedger => ({
  ...inner,
  workspaces: workspaceLedger(inner.workspaces, points, titles),
  insert: (row) =>
    Effect.suspend(() => {
      titles.learn(row)
      return points.around("ledger.insert", row.title, inner.insert(row))
    }),
  transition: (id, expected, changes) =>
    points.around(`ledger.transition ${kindOf(changes)}`, titles.of(id), inner.transition(id, expected, changes)),
  renew: (renewals) => points.around("ledger.renew", null, inner.renew(renewals)),
  rows: (filter) =>
    points.around(
      "ledger.rows",
      null,
      Effect.tap(inner.rows(filter), (rows) => Effect.sync(() => rows.forEach((row) => titles.learn(row))))
    ),
  remove: (id, fence) => points.around("ledger.remove", titles.of(id), inner.remove(id, fence))
})

const sink = (inner: ProcessDriver.OutputSink, { at }: Points, job: string | null): ProcessDriver.OutputSink => ({
  reserve: () => inner.reserve(),
  commit: (count) => {
    at("output read", job)
    const more = inner.commit(count)
    at("output kept", job)
    return more
  },
  end: () => {
    at("output ends", job)
    inner.end()
  }
})

const child = (inner: ProcessDriver.Child, { around }: Points, job: string | null): ProcessDriver.Child => ({
  ...inner,
  finish: around("child.finish", job, inner.finish),
  release: around("child.release", job, inner.release)
})

/** Of a start and of an attachment: the same sinks and the same exit, told through points. */
const told = <
  Request extends Pick<ProcessDriver.SpawnRequest | ProcessDriver.AttachRequest, "onExit" | "stderr" | "stdout">
>(request: Request, points: Points, job: string | null): Request => ({
  ...request,
  stdout: sink(request.stdout, points, job),
  stderr: request.stderr === "merged" ? "merged" : sink(request.stderr, points, job),
  onExit: (exit: Parameters<Request["onExit"]>[0], by?: ProcessDriver.EndedBy) => {
    points.at("exit before", job)
    request.onExit(exit, by)
    points.at("exit after", job)
  }
})

export const driver = (
  inner: ProcessDriver.ProcessDriver,
  points: Points,
  titles: Titles
): ProcessDriver.ProcessDriver => {
  const { around } = points
  return {
    ...inner,
    spawn: (request) => {
      const job = titles.of(request.marker)
      return Effect.map(
        around("driver.spawn", job, inner.spawn(told(request, points, job))),
        (started) => child(started, points, job)
      )
    },
    attach: (request) => {
      const job = titles.of(request.identity.marker)
      return Effect.map(
        around("driver.attach", job, inner.attach(told(request, points, job))),
        (attached) => child(attached, points, job)
      )
    },
    look: (roots) => around("driver.look", null, inner.look(roots)),
    signal: (root, targets, signal) =>
      around(`driver.signal ${signal}`, titles.of(root.marker), inner.signal(root, targets, signal))
  }
}

export const blobs = (
  inner: BlobStore.BlobStore,
  { around }: Points,
  titles: Titles
): BlobStore.BlobStore => ({
  write: (name) => {
    const job = titles.of(name)
    return Effect.map(around("blob.write", job, inner.write(name)), (writer) => ({
      append: (bytes) => around("blob.append", job, writer.append(bytes)),
      seal: (label) => around("blob.seal", job, writer.seal(label))
    }))
  },
  read: (ref, options) => inner.read(ref, options),
  lease: (ref) => inner.lease(ref),
  remove: (name) => around("blob.remove", titles.of(name), inner.remove(name))
})
