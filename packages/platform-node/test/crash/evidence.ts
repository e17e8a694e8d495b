/**
 * What has to be true when a killed application was started again and has shut down: read from the process table, the
 * ledger, the directories and the journal, not from what the application says of itself.
 */
import { NodeProcessRuntime } from "@procyon/platform-node"
import { ProcessLedger } from "@procyon/runtime"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { basename, join } from "node:path"
import { living } from "../support/table.ts"
import * as Census from "./census.ts"
import * as Jobs from "./jobs.ts"
import * as Journal from "./journal.ts"
import { type DriverName, placesIn } from "./life.ts"

export interface Findings {
  /** What is wrong. */
  readonly problems: ReadonlyArray<string>
  /** What is known to be left behind, and harms nobody. */
  readonly known: ReadonlyArray<string>
  /** Rows that are left for review. */
  readonly review: number
}

export interface Scene {
  readonly directory: string
  readonly driver: DriverName
  readonly tag: string
}

type Row = ProcessLedger.LedgerRow

/** The content of a file of the outside, which nobody may change. */
export const sentinel = "nobody's business"

/** A keeper that outlived its application ends what that left, and itself, at the latest so long after. */
const keeperMillis = 5_000

/** A job that was started directly is gone by now; helpers may take a moment to end, and so may what a keeper ends. */
const survivors = ({ directory, driver, tag }: Scene): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function*() {
    const atOnce = driver === "keeper" ? [] : living(tag)
    const giveUpAt = performance.now() + keeperMillis
    for (;;) {
      const left = Census.take(tag, directory)
      const isOver = left.length === 0 || performance.now() >= giveUpAt
      if (isOver) return [...atOnce, ...left].map(({ name, pid }) => `lives: ${pid} ${name}`)
      yield* Effect.sleep("20 millis")
    }
  })

const recordsOf = ({ directory }: Scene) =>
  Effect.gen(function*() {
    const ledger = yield* ProcessLedger.Service
    return { rows: yield* ledger.rows(), workspaces: yield* ledger.workspaces.list() }
  }).pipe(
    Effect.provide(NodeProcessRuntime.layerLedger({ directory: placesIn(directory).state })),
    Effect.orDie
  )

/** Of a shell whose command was ended by SIGTERM, SIGKILL, or, for want of a reader, SIGPIPE. */
const shellExits: ReadonlySet<number> = new Set([143, 137, 141])

/** Ended, or for review; and what it says is possible. */
const rowProblems = (row: Row): ReadonlyArray<string> => {
  const planned = Jobs.all.find(({ title }) => title === row.title)
  const what = `row ${row.title ?? "without a title"}`
  if (planned === undefined) return [`${what} is nobody's`]
  if (row.status === "kill_failed") return []
  const code = row.termination?.exit?.code ?? null
  return [
    ...(planned.statuses.includes(row.status) ? [] : [`${what} is ${row.status}`]),
    ...(row.status === "completed" && code !== 0 ? [`${what} is called completed`] : []),
    ...(row.endedAt === null ? [`${what} has no end`] : []),
    ...(row.termination === null ? [`${what} has no receipt`] : []),
    ...(code !== null && code !== planned.exit && !shellExits.has(code)
      ? [`${what} exited with ${code}`]
      : []),
    ...((row.termination?.survivorCount ?? 0) > 0 ? [`${what} is ${row.status} and has survivors`] : [])
  ]
}

/** Each end of each job is told once; more often only where that says so. */
const noticeProblems = (rows: ReadonlyArray<Row>, lines: ReadonlyArray<Journal.Line>): ReadonlyArray<string> => {
  const notices = lines.filter((line) => line._tag === "Notice")
  const forgotten = new Set(lines.flatMap((line) => line._tag === "Forgetting" ? [line.id] : []))
  const times = (noticeId: string): number => notices.filter((notice) => notice.noticeId === noticeId).length
  const ends = new Map(rows.map(({ id, status }) => [id, status]))
  return [
    ...rows.filter(({ id, status }) => times(`${id}:${status}`) === 0).map(({ title }) => `${title} is never told of`),
    ...notices
      .filter((notice, index) => {
        const isFirst = notices.findIndex(({ noticeId }) => noticeId === notice.noticeId) === index
        return !isFirst && !notice.repeated
      })
      .map(({ noticeId }) => `${noticeId} is told again without a word`),
    ...notices
      .filter(({ noticeId }) => {
        const [id = "", status] = noticeId.split(":")
        return ends.get(id) !== status && status !== "kill_failed" && !forgotten.has(id)
      })
      .map(({ noticeId }) => `${noticeId} is told, and not so`)
  ]
}

const streamsOf = ({ output }: Row): ReadonlyArray<ProcessLedger.StoredStream> =>
  output === null ? [] : [output.stdout, ...(output.stderr === null ? [] : [output.stderr])]

const namesIn = (directory: string): ReadonlyArray<string> => fs.existsSync(directory) ? fs.readdirSync(directory) : []

const sha256Of = (file: string): string => createHash("sha256").update(fs.readFileSync(file)).digest("hex")

/**
 * Every blob that a row names is there and holds what the row says, and there is nothing else; but of a job that was being
 * forgotten the row may have gone first.
 */
const blobFindings = (
  directory: string,
  rows: ReadonlyArray<Row>,
  lines: ReadonlyArray<Journal.Line>
): Omit<Findings, "review"> => {
  const files = namesIn(directory)
  const forgotten = new Set(lines.flatMap((line) => line._tag === "Forgetting" ? [line.id] : []))
  const named = new Set<string>()
  const problems: Array<string> = []
  for (const row of rows) {
    for (const { blob, gap, sha256, spilledBytes } of streamsOf(row)) {
      if (blob === null) continue
      const file = `${blob}.blob`
      named.add(file)
      // It may have been killed between the two halves of forgetting it.
      if (!files.includes(file)) {
        if (!forgotten.has(row.id)) problems.push(`the blob of ${row.title} is not there`)
        continue
      }
      if (fs.statSync(join(directory, file)).size !== spilledBytes) {
        problems.push(`the blob of ${row.title} has another size`)
      }
      if (gap === null && sha256Of(join(directory, file)) !== sha256) {
        problems.push(`the blob of ${row.title} holds something else`)
      }
    }
  }
  const left = files.filter((file) => !named.has(file))
  const isForgotten = (file: string): boolean => [...forgotten].some((id) => file.endsWith(`.${id}.blob`))
  return {
    problems: [...problems, ...left.filter((file) => !isForgotten(file)).map((file) => `no row names ${file}`)],
    known: left.filter(isForgotten).map(() => "a blob whose row was removed")
  }
}

const lost = "its exit was not seen"

/** What was started to outlive its application did: it went on until somebody ended it, or it did so by itself. */
const detachedProblems = (rows: ReadonlyArray<Row>, lines: ReadonlyArray<Journal.Line>): ReadonlyArray<string> => {
  const answered = new Set(lines.flatMap((line) => line._tag === "Started" ? [line.id] : []))
  const isRecoveryKilled = lines.some((line) => line._tag === "Killed" && line.life > 1)
  return rows.filter(({ id, lifetime }) => lifetime === "detached" && answered.has(id)).flatMap((row) => {
    const code = row.termination?.exit?.code ?? null
    const isRight = row.status === "cancelled" || (row.title === "parting" && code === 4) ||
      // It was being stopped, and whoever comes next cannot know that.
      (isRecoveryKilled && row.termination?.error !== lost)
    return isRight ? [] : [`${row.title} is ${row.status} with ${code}: ${row.termination?.error}`]
  })
}

const recoveryProblems = (lines: ReadonlyArray<Journal.Line>): ReadonlyArray<string> =>
  lines.flatMap((line) =>
    line._tag === "Recovered" && line.outcome === "elsewhere" ? [`${line.id} is held elsewhere`] : []
  )

export const gather = (scene: Scene): Effect.Effect<Findings> =>
  Effect.gen(function*() {
    const places = placesIn(scene.directory)
    const living = yield* survivors(scene)
    const { rows, workspaces } = yield* recordsOf(scene)
    const lines = Journal.read(places.journal)
    const started = new Set(lines.flatMap((line) => line._tag === "Started" ? [line.id] : []))
    const forgotten = new Set(lines.flatMap((line) => line._tag === "Forgetting" ? [line.id] : []))
    const missing = [...started].filter((id) => !forgotten.has(id) && !rows.some((row) => row.id === id))
    const blobs = blobFindings(places.blobs, rows, lines)
    const outside = fs.readdirSync(places.outside)
    const isTouched = outside.join() !== "sentinel" ||
      fs.readFileSync(join(places.outside, "sentinel"), "utf8") !== sentinel
    return {
      problems: [
        ...living,
        ...rows.flatMap(rowProblems),
        ...missing.map((id) => `${id} was started and has no row`),
        ...noticeProblems(rows, lines),
        ...detachedProblems(rows, lines),
        ...recoveryProblems(lines),
        ...blobs.problems,
        ...(isTouched ? ["the outside was touched"] : []),
        ...fs.readdirSync(places.workspaces).map((name) => `a workspace is left: ${name}`),
        ...workspaces.map(({ path }) => `a record of a workspace is left: ${basename(path)}`),
        ...namesIn(places.detached)
          .filter((name) => !rows.some(({ id, lifetime }) => lifetime === "detached" && name.startsWith(id)))
          .map((name) => `files of a detached job are left: ${name}`)
      ],
      known: [...blobs.known, ...fs.readdirSync(places.temporary).map(() => "a directory of FIFOs")],
      review: rows.filter(({ status }) => status === "kill_failed").length
    }
  })
