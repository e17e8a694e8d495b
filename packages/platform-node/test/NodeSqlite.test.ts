import { assert, describe, it } from "@effect/vitest"
import { ProcessLedger } from "@procyon/runtime"
import * as ProcessLedgerSql from "@procyon/runtime/ProcessLedgerSql"
import { LedgerLaws } from "@procyon/testing"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import { NodeProcessRuntime, NodeSqlite } from "../src/index.ts"
import { temporaryDirectory } from "./support/directory.ts"
import { live } from "./support/processes.ts"

const { row } = LedgerLaws
const program = fileURLToPath(new URL("programs/ledger.ts", import.meta.url))

const temporaryFile = Effect.map(temporaryDirectory, (directory) => join(directory, "ledger.sqlite"))

/** Runs a program on a client and a ledger of its own on the file, which is closed afterwards. */
const on = <A, E>(
  filename: string,
  program: Effect.Effect<A, E, ProcessLedger.Service | SqlClient.SqlClient>
) => {
  const client = NodeSqlite.layer({ filename })
  return Effect.provide(program, Layer.fresh(ProcessLedgerSql.layer.pipe(Layer.provideMerge(client))))
}

/** A ledger on the file, closed with the scope. */
const opened = (filename: string, busyMillis?: number) =>
  Effect.map(
    Layer.build(Layer.fresh(ProcessLedgerSql.layer.pipe(Layer.provide(NodeSqlite.layer({ filename, busyMillis }))))),
    (context) => Context.get(context, ProcessLedger.Service)
  )

const withLedger = <A, E>(filename: string, use: (ledger: ProcessLedger.ProcessLedger) => Effect.Effect<A, E>) =>
  on(filename, Effect.flatMap(ProcessLedger.Service, use))

const problemOnOpening = (filename: string) =>
  Effect.map(Effect.flip(Effect.scoped(withLedger(filename, () => Effect.void))), ({ problem }) => problem)

/** A closed file with these rows. */
const written = Effect.fnUntraced(function*(ids: ReadonlyArray<string>) {
  const filename = yield* temporaryFile
  yield* withLedger(filename, (ledger) => Effect.forEach(ids, (id) => ledger.insert(row(id)), { discard: true }))
  return filename
})

const contentOf = (database: DatabaseSync) =>
  ["sqlite_schema", "procyon_processes", "procyon_migrations"].map((table) =>
    database.prepare(`SELECT * FROM ${table}`).all()
  )

const isRoot = process.getuid?.() === 0
const nobody = 65_534

/** Root may do everything, so rights are tried as another user: this whole process is one meanwhile. */
const withoutRoot = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  isRoot
    ? Effect.acquireUseRelease(
      Effect.sync(() => process.seteuid?.(nobody)),
      () => effect,
      () => Effect.sync(() => process.seteuid?.(0))
    )
    : effect

/** A disk of so many KiB, gone with the scope. */
const disk = Effect.fnUntraced(function*(kibibytes: number) {
  const directory = yield* temporaryDirectory
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const options = ["-t", "tmpfs", "-o", `size=${kibibytes}k,mode=700`]
      assert.strictEqual(spawnSync("mount", [...options, "none", directory]).status, 0)
    }),
    () => Effect.sync(() => spawnSync("umount", ["-l", directory]))
  )
  return directory
})

/** A file whose last process was killed, with the log in which all of it is. */
const killed = Effect.fnUntraced(function*(ids: ReadonlyArray<string>) {
  const from = yield* temporaryFile
  const filename = yield* temporaryFile
  yield* withLedger(from, (ledger) =>
    Effect.gen(function*() {
      for (const id of ids) yield* ledger.insert(row(id))
      for (const part of ["", "-wal"]) fs.copyFileSync(from + part, filename + part)
    }))
  return { filename, log: fs.readFileSync(`${filename}-wal`) }
})

const run = async (directory: string, what: "ends" | "waits" | "floods", until: string, id = "written") => {
  const child = spawn(process.execPath, [program, directory, what, id], { stdio: ["ignore", "pipe", "pipe"] })
  let said = ""
  let complained = ""
  const isReady = new Promise<void>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text
      if (said.includes(until)) resolve()
    })
  })
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complained += text
  })
  const closed = once(child, "close")
  await Promise.race([isReady, closed])
  return { child, closed, said: () => said, complained: () => complained }
}

const inFile = Layer.unwrap(
  Effect.map(temporaryDirectory, (directory) => NodeProcessRuntime.layerLedger({ directory }))
)
LedgerLaws.ledgerLaws("a ledger in a file of SQLite", inFile)

LedgerLaws.ledgerLaws(
  "a ledger whose file is opened anew for every call",
  Layer.effect(
    ProcessLedger.Service,
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      // Who opens it finds what was told, so a failure to open it is a failure of the test.
      const anew = <A>(
        use: (ledger: ProcessLedger.ProcessLedger) => Effect.Effect<A, ProcessLedger.LedgerError>
      ): Effect.Effect<A, ProcessLedger.LedgerError> =>
        Effect.catchTag(Effect.scoped(withLedger(filename, use)), "NodeSqliteOpenError", Effect.die)
      return {
        durable: true,
        insert: (row) => anew((ledger) => ledger.insert(row)),
        transition: (id, expected, changes) => anew((ledger) => ledger.transition(id, expected, changes)),
        renew: (renewals) => anew((ledger) => ledger.renew(renewals)),
        get: (id) => anew((ledger) => ledger.get(id)),
        rows: (filter) => anew((ledger) => ledger.rows(filter)),
        remove: (id, fence) => anew((ledger) => ledger.remove(id, fence)),
        workspaces: {
          insert: (record) => anew(({ workspaces }) => workspaces.insert(record)),
          update: (id, fence, changes) => anew(({ workspaces }) => workspaces.update(id, fence, changes)),
          remove: (id, fence) => anew(({ workspaces }) => workspaces.remove(id, fence)),
          list: (options) => anew(({ workspaces }) => workspaces.list(options))
        }
      }
    })
  )
)

describe("two clients on one file", () => {
  it.live("of fifty who end one row at once, from both, one does it", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      const end = (ledger: ProcessLedger.ProcessLedger) =>
        Array.from({ length: 25 }, (_, index) =>
          ledger.transition("a", { fence: 1, status: "running" }, { status: "completed", title: `${index}` }))
      yield* withLedger(filename, (first) =>
        withLedger(filename, (second) =>
          Effect.gen(function*() {
            const answers = yield* Effect.all([...end(first), ...end(second)], { concurrency: "unbounded" })
            assert.strictEqual(answers.filter(Boolean).length, 1)
            assert.deepStrictEqual(yield* first.get("a"), yield* second.get("a"))
          })))
    }).pipe(Effect.scoped))

  it.live("who was taken over from, by another client, finds its claim lost", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      yield* withLedger(filename, (paused) =>
        withLedger(filename, (next) =>
          Effect.gen(function*() {
            const claim = { fence: 1, status: "running" } as const
            const taking = next.transition("a", claim, { status: "running", fence: 2, leaseUntil: 9 })
            const answers = yield* Effect.all([taking, taking], { concurrency: "unbounded" })
            assert.strictEqual(answers.filter(Boolean).length, 1)
            assert.isFalse(yield* paused.transition("a", claim, { status: "cancelled" }))
            assert.deepStrictEqual(yield* paused.renew([{ id: "a", fence: 1, leaseUntil: 99, bytesSeen: 9 }]), ["a"])
            assert.isFalse(yield* paused.remove("a", 1))
            assert.deepStrictEqual(yield* next.get("a"), row("a", { fence: 2, leaseUntil: 9 }))
          })))
    }).pipe(Effect.scoped))

  it.live("a write waits for another client's transaction without holding up anything else, and then is made", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      const begun = yield* Deferred.make<void>()
      const finish = yield* Deferred.make<void>()
      const held = yield* Effect.forkScoped(on(
        filename,
        SqlClient.SqlClient.use((sql) =>
          sql.withTransaction(Effect.andThen(
            sql`UPDATE procyon_processes SET title = 'held'`,
            Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(finish))
          ))
        )
      ))
      yield* Deferred.await(begun)
      yield* withLedger(filename, (ledger) =>
        Effect.gen(function*() {
          const write = yield* Effect.forkChild(
            ledger.transition("a", { fence: 1, status: "running" }, { status: "error" }),
            { startImmediately: true }
          )
          assert.isUndefined(write.pollUnsafe())
          yield* Deferred.succeed(finish, undefined)
          assert.isTrue(yield* Fiber.join(write))
          assert.deepStrictEqual(yield* ledger.get("a"), row("a", { status: "error", title: "held" }))
        }))
      yield* Fiber.join(held)
    }).pipe(Effect.scoped))

  it.live("a file that stays locked is Unavailable, in time", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      const lock = new DatabaseSync(filename)
      lock.exec("BEGIN IMMEDIATE")
      yield* Effect.addFinalizer(() => Effect.sync(() => lock.close()))
      const client = NodeSqlite.layer({ filename, busyMillis: 40 })
      const error = yield* Effect.flip(Effect.scoped(Effect.provide(
        Effect.flatMap(ProcessLedger.Service, (ledger) => ledger.insert(row("b"))),
        ProcessLedgerSql.layer.pipe(Layer.provide(client))
      )))
      assert.deepInclude(error, { _tag: "LedgerError", problem: "Unavailable" })
    }).pipe(Effect.scoped))

  it.live("writes to a file that stays locked are Unavailable, all of them, and are made once it is free", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      const ledger = yield* opened(filename, 40)
      const lock = new DatabaseSync(filename)
      yield* Effect.addFinalizer(() => Effect.sync(() => lock.close()))
      lock.exec("BEGIN IMMEDIATE")
      const rows = ["a", "b", "c"].map((id) => row(id))
      const refused = Exit.fail(new ProcessLedger.LedgerError({ operation: "insert", problem: "Unavailable" }))
      const insert = Effect.forEach(rows, (row) => Effect.exit(ledger.insert(row)), { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* insert, [refused, refused, refused])
      assert.deepStrictEqual(yield* Effect.exit(ledger.insert(row("alone"))), refused)
      assert.deepStrictEqual(yield* ledger.rows(), [])
      lock.exec("ROLLBACK")
      assert.deepStrictEqual(yield* insert, rows.map(() => Exit.succeed(true)))
      assert.deepStrictEqual(yield* ledger.rows(), rows)
    }).pipe(Effect.scoped))

  live(
    "in one process keep the first one's locks, so that another process is never taken for the last",
    [],
    () =>
      Effect.gen(function*() {
        const filename = yield* written(["a"])
        yield* opened(filename)
        const { ino } = fs.statSync(filename)
        const locks = () =>
          fs.readFileSync("/proc/locks", "utf8").split("\n")
            .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `))
            .map((line) => line.replace(/^\d+: /, ""))
        const held = locks()
        assert.lengthOf(held, 1)
        yield* withLedger(filename, (second) => second.insert(row("b")))
        assert.deepStrictEqual(locks(), held)
      }).pipe(Effect.scoped)
  )
})

const claim = { fence: 1, status: "running" } as const

describe("writes at once", () => {
  it.live("are made in order, and each is answered by itself", () =>
    Effect.gen(function*() {
      const ledger = yield* opened(yield* temporaryFile)
      const beats = ["a", "b"].map((id) => ({ id, fence: 1, leaseUntil: 9, bytesSeen: 9 }))
      const answers = yield* Effect.all([
        ledger.insert(row("a")),
        ledger.insert(row("a", { owner: "s-2" })),
        ledger.transition("a", claim, { status: "running", title: "moved" }),
        ledger.renew(beats),
        ledger.insert(row("b")),
        ledger.transition("b", claim, { status: "error" }),
        ledger.transition("b", claim, { status: "completed" }),
        ledger.remove("b", 1),
        ledger.remove("b", 1),
        ledger.insert(row("c"))
      ], { concurrency: "unbounded" })
      assert.deepStrictEqual(answers, [true, false, true, ["b"], true, true, false, true, false, true])
      assert.deepStrictEqual(yield* ledger.rows(), [
        row("a", { title: "moved", leaseUntil: 9, counters: { bytesSeen: 9 } }),
        row("c")
      ])
    }).pipe(Effect.scoped))

  it.live("are committed together: the log grows by the pages that changed, and not by some for each", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      const ledger = yield* opened(filename)
      const before = fs.statSync(`${filename}-wal`).size
      yield* Effect.forEach(Array.from({ length: 100 }, (_, index) => row(`p-${index}`)), ledger.insert, {
        concurrency: "unbounded"
      })
      const pages = (fs.statSync(`${filename}-wal`).size - before) / 4096
      assert.isAbove(pages, 1)
      assert.isBelow(pages, 100)
      assert.strictEqual((yield* ledger.rows()).length, 100)
    }).pipe(Effect.scoped))

  it.live("fail alone where the file refuses one, and the others are made", () =>
    Effect.gen(function*() {
      const filename = yield* written([])
      const other = new DatabaseSync(filename)
      other.exec("CREATE UNIQUE INDEX one_title ON procyon_processes (title)")
      other.close()
      const rows = ["a", "b", "c"].map((id) => row(id, { title: id === "c" ? "c" : "same" }))
      const ledger = yield* opened(filename)
      const exits = yield* Effect.forEach(rows, (row) => Effect.exit(ledger.insert(row)), { concurrency: "unbounded" })
      const refused = new ProcessLedger.LedgerError({ operation: "insert", problem: "Other" })
      assert.deepStrictEqual(exits, [Exit.succeed(true), Exit.fail(refused), Exit.succeed(true)])
      assert.deepStrictEqual(yield* ledger.rows(), rows.filter(({ id }) => id !== "b"))
    }).pipe(Effect.scoped))

  it.live("of which one is interrupted make the others, and it ends", () =>
    Effect.gen(function*() {
      const filename = yield* written([])
      const ledger = yield* opened(filename)
      const lock = new DatabaseSync(filename)
      yield* Effect.addFinalizer(() => Effect.sync(() => lock.close()))
      lock.exec("BEGIN IMMEDIATE")
      const insert = (id: string) => Effect.forkChild(ledger.insert(row(id)), { startImmediately: true })
      const [first, gone, last] = [yield* insert("a"), yield* insert("b"), yield* insert("c")]
      // From here on the transaction is tried, and cannot begin.
      yield* Effect.yieldNow
      const interruption = yield* Effect.forkChild(Fiber.interrupt(gone), { startImmediately: true })
      lock.exec("COMMIT")
      yield* Fiber.join(interruption)
      assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(last)], [true, true])
      const found = (yield* ledger.rows()).map(({ id }) => id).filter((id) => id !== "b")
      assert.deepStrictEqual(found, ["a", "c"])
    }).pipe(Effect.scoped))

  it.live("are there when their process is killed, each that was told", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const { child, closed, complained, said } = yield* Effect.promise(() => run(directory, "floods", "p-9-0", "p"))
      child.kill("SIGKILL")
      yield* Effect.promise(() => closed)
      assert.strictEqual(complained(), "")
      const told = said().split("\n").slice(0, -1)
      assert.isAbove(told.length, 150)
      const rows = yield* withLedger(join(directory, "ledger.sqlite"), (ledger) => ledger.rows())
      const ids = new Set(rows.map(({ id }) => id))
      assert.deepStrictEqual(told.filter((id) => !ids.has(id)), [])
    }).pipe(Effect.scoped))
})

describe("a transaction", () => {
  it.live("that is interrupted leaves the rows as they were, and the client fit for use", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      yield* on(
        filename,
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const ledger = yield* ProcessLedger.Service
          const begun = yield* Deferred.make<void>()
          const half = Effect.andThen(sql`UPDATE procyon_processes SET status = 'completed'`, sql`SELECT 1`)
          const writer = yield* Effect.forkChild(sql.withTransaction(
            Effect.andThen(half, Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
          ))
          yield* Deferred.await(begun)
          yield* Fiber.interrupt(writer)
          assert.deepStrictEqual(yield* ledger.rows(), [row("a")])
          assert.isTrue(yield* ledger.insert(row("b")))
        })
      )
    }).pipe(Effect.scoped))

  it.live("of a caller's that is taken back takes back nothing that was told to be written", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      yield* on(
        filename,
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const ledger = yield* ProcessLedger.Service
          const asked = yield* Deferred.make<Fiber.Fiber<boolean, ProcessLedger.LedgerError>>()
          yield* Effect.exit(sql.withTransaction(Effect.gen(function*() {
            yield* Deferred.succeed(asked, yield* Effect.forkDetach(ledger.insert(row("a"))))
            // Time enough for one that takes part in it. Others wait for its end, since the client has one connection.
            yield* Effect.repeat(Effect.yieldNow, { times: 100 })
            return yield* Effect.fail("taken back")
          })))
          const insert = yield* Deferred.await(asked)
          assert.deepStrictEqual([yield* Fiber.join(insert), yield* ledger.rows()], [true, [row("a")]])
        })
      )
    }).pipe(Effect.scoped))

  it.live("of a process that is killed leaves the rows as they were, and what was told before is there", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const { child, closed, complained } = yield* Effect.promise(() => run(directory, "waits", "in a transaction"))
      child.kill("SIGKILL")
      yield* Effect.promise(() => closed)
      assert.strictEqual(complained(), "")
      assert.isAbove(fs.statSync(join(directory, "ledger.sqlite-wal")).size, 0)
      yield* withLedger(join(directory, "ledger.sqlite"), (ledger) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* ledger.rows(), [row("written")])
        }))
    }).pipe(Effect.scoped))
})

describe("a damaged file", () => {
  it.live("K35 cut at any length is refused, and not changed", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a", "b"])
      const whole = fs.readFileSync(filename)
      const lengths = [0, 1, 15, 16, 50, 99, 100, 101, 512, 4095]
      for (let page = 1; page * 4096 < whole.length; page++) lengths.push(page * 4096, page * 4096 + 1000)
      lengths.push(whole.length - 4000, whole.length - 1)
      for (const length of lengths) {
        fs.writeFileSync(filename, whole.subarray(0, length))
        assert.strictEqual(yield* problemOnOpening(filename), "Corrupt", `cut at ${length}`)
        assert.isTrue(fs.readFileSync(filename).equals(whole.subarray(0, length)), `cut at ${length}`)
      }
      fs.writeFileSync(filename, whole)
      yield* withLedger(filename, (ledger) => Effect.map(ledger.rows(), (rows) => assert.strictEqual(rows.length, 2)))
    }).pipe(Effect.scoped))

  it.live("cut in pages that hold no row is refused too: SQLite would not notice", () =>
    Effect.gen(function*() {
      const ids = Array.from({ length: 40 }, (_, index) => `p-${index}`)
      const filename = yield* written(ids)
      yield* withLedger(filename, (ledger) =>
        Effect.forEach(ids, (id) =>
          Effect.andThen(
            ledger.transition(id, { fence: 1, status: "running" }, { status: "error" }),
            ledger.remove(id, 1)
          )))
      fs.truncateSync(filename, fs.statSync(filename).size - 1)
      assert.strictEqual(yield* problemOnOpening(filename), "Corrupt")
    }).pipe(Effect.scoped))

  it.live("K35 filled with NUL, whole or in part, is refused, or gives every row or a typed error, and no row less", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a", "b", "c"])
      const whole = fs.readFileSync(filename)
      fs.writeFileSync(filename, Buffer.alloc(whole.length))
      assert.strictEqual(yield* problemOnOpening(filename), "Corrupt")
      for (let from = 0; from < whole.length; from += 512) {
        const damaged = Buffer.from(whole)
        damaged.fill(0, from, from + 512)
        fs.writeFileSync(filename, damaged)
        const seen = yield* Effect.exit(Effect.scoped(withLedger(filename, (ledger) => ledger.rows())))
        if (seen._tag === "Success") {
          assert.deepStrictEqual(seen.value, [row("a"), row("b"), row("c")], `from ${from}`)
          continue
        }
        const [reason] = seen.cause.reasons
        assert.strictEqual(reason?._tag, "Fail", `from ${from}`)
        // The first page also says whose file it is.
        if (reason?._tag === "Fail") {
          assert.include(from === 0 ? ["Corrupt", "Foreign"] : ["Corrupt"], reason.error.problem, `from ${from}`)
        }
        for (const part of ["-wal", "-shm"]) fs.rmSync(filename + part, { force: true })
      }
    }).pipe(Effect.scoped))

  it.live("is Foreign when it is another program's, and not changed", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      const other = new DatabaseSync(filename)
      other.exec("CREATE TABLE procyon_processes (mine)")
      other.close()
      const content = fs.readFileSync(filename)
      assert.strictEqual(yield* problemOnOpening(filename), "Foreign")
      assert.isTrue(fs.readFileSync(filename).equals(content))
      fs.writeFileSync(filename, "{\"jobs\":[]}")
      assert.strictEqual(yield* problemOnOpening(filename), "Foreign")
      assert.strictEqual(fs.readFileSync(filename, "utf8"), "{\"jobs\":[]}")
    }).pipe(Effect.scoped))

  it.live("K35 that is gone while its log is there is refused: the log's rows are not nothing", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const { child, closed } = yield* Effect.promise(() => run(directory, "waits", "in a transaction"))
      child.kill("SIGKILL")
      yield* Effect.promise(() => closed)
      const filename = join(directory, "ledger.sqlite")
      fs.rmSync(filename)
      assert.strictEqual(yield* problemOnOpening(filename), "Corrupt")
      assert.isFalse(fs.existsSync(filename))
    }).pipe(Effect.scoped))

  it.live("K35 with a damaged log is refused, both are not changed, and set aside they make room for a new one", () =>
    Effect.gen(function*() {
      const { filename, log } = yield* killed(["a", "b", "c"])
      const file = fs.readFileSync(filename)
      const damages = [Buffer.alloc(log.length), Buffer.alloc(log.length, 0xff)]
      for (let at = 0; at < 32; at++) {
        damages.push(Buffer.from(log.map((byte, index) => index === at ? byte ^ 1 : byte)))
      }
      for (const [index, damaged] of damages.entries()) {
        fs.writeFileSync(`${filename}-wal`, damaged)
        assert.strictEqual(yield* problemOnOpening(filename), "Corrupt", `${index}`)
        assert.isTrue(fs.readFileSync(`${filename}-wal`).equals(damaged), `${index}`)
        assert.isTrue(fs.readFileSync(filename).equals(file), `${index}`)
      }
      const aside = yield* NodeSqlite.setAside(filename)
      assert.deepStrictEqual(yield* withLedger(filename, (ledger) => ledger.rows()), [])
      // What was refused can still be looked into, and what was mended is taken.
      fs.writeFileSync(`${aside}-wal`, log)
      assert.strictEqual((yield* withLedger(aside, (ledger) => ledger.rows())).length, 3)
    }).pipe(Effect.scoped))

  it.live("K35 whose log was cut gives what was written until some moment, whole and in order", () =>
    Effect.gen(function*() {
      const ids = ["a", "b", "c", "d"]
      const { filename, log } = yield* killed(ids)
      const file = fs.readFileSync(filename)
      const seen = new Set<number>()
      for (let length = log.length; length >= 0; length -= 1009) {
        fs.writeFileSync(filename, file)
        fs.writeFileSync(`${filename}-wal`, log.subarray(0, length))
        fs.rmSync(`${filename}-shm`, { force: true })
        const rows = yield* withLedger(filename, (ledger) => ledger.rows())
        assert.deepStrictEqual(rows, ids.slice(0, rows.length).map((id) => row(id)), `cut at ${length}`)
        seen.add(rows.length)
      }
      assert.deepStrictEqual(seen, new Set([4, 3, 2, 1, 0]))
    }).pipe(Effect.scoped))

  live(
    "K35 that a killed process had not named yet is nothing: the next one makes its own",
    ["strace"],
    () =>
      Effect.gen(function*() {
        const directory = yield* temporaryDirectory
        const injection = [
          "-f",
          "-qq",
          "-o",
          "/dev/null",
          "-e",
          "trace=link,linkat",
          "-e",
          "inject=link,linkat:signal=SIGKILL"
        ]
        const killed = spawnSync("strace", [...injection, process.execPath, program, directory, "ends"])
        assert.strictEqual(killed.stdout.toString(), "")
        const left = fs.readdirSync(directory)
        assert.isTrue(left.every((name) => name.startsWith("ledger.sqlite.new-")) && left.length > 0, left.join())
        const { closed, complained } = yield* Effect.promise(() => run(directory, "ends", "written"))
        yield* Effect.promise(() => closed)
        assert.strictEqual(complained(), "")
        const rows = yield* withLedger(join(directory, "ledger.sqlite"), (ledger) => ledger.rows())
        assert.deepStrictEqual(rows, [row("written")])
      }).pipe(Effect.scoped)
  )

  it.live("K35 is set aside when that is asked for, with its log, and nothing of it is lost", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      const names = []
      for (const content of ["first", "second"]) {
        fs.writeFileSync(filename, content)
        fs.writeFileSync(`${filename}-wal`, "log")
        const name = yield* NodeSqlite.setAside(filename)
        assert.strictEqual(fs.readFileSync(name, "utf8"), content)
        assert.strictEqual(fs.readFileSync(`${name}-wal`, "utf8"), "log")
        names.push(name)
      }
      assert.deepStrictEqual(names, [`${filename}.aside-1`, `${filename}.aside-2`])
      yield* withLedger(filename, (ledger) =>
        Effect.map(ledger.rows(), (rows) => {
          assert.deepStrictEqual(rows, [])
        }))
      const error = yield* Effect.flip(NodeSqlite.setAside(join(dirname(filename), "none")))
      assert.strictEqual(error.message, "database: Other")
    }).pipe(Effect.scoped))
})

describe("a row that cannot be read", () => {
  it.live("is Corrupt, and the others can be read", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a", "b", "c", "d"])
      const breaking = new DatabaseSync(filename)
      breaking.exec("UPDATE procyon_processes SET identity = '{\"pid\":' WHERE id = 'b'")
      breaking.exec("UPDATE procyon_processes SET status = 'done' WHERE id = 'd'")
      breaking.close()
      yield* withLedger(filename, (ledger) =>
        Effect.gen(function*() {
          for (const call of [ledger.get("b"), ledger.get("d")]) {
            assert.strictEqual((yield* Effect.flip(call)).message, "get: Corrupt")
          }
          // One whose status is none may be of any.
          for (const filter of [{}, { settled: true }, { settled: false }, { owner: "s-1" }]) {
            assert.strictEqual((yield* Effect.flip(ledger.rows(filter))).message, "rows: Corrupt")
          }
          assert.deepStrictEqual(yield* ledger.rows({ owner: "s-2" }), [])
          assert.deepStrictEqual(yield* ledger.get("a"), row("a"))
          assert.deepStrictEqual(yield* ledger.rows({ unreadable: "skip" }), [row("a"), row("c")])
          assert.isTrue(yield* ledger.transition("c", { fence: 1, status: "running" }, { status: "error" }))
        }))
    }).pipe(Effect.scoped))
})

describe("a record of a workspace that cannot be read", () => {
  it.live("is Corrupt, and the others can be read", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      const { workspace } = LedgerLaws
      yield* withLedger(filename, ({ workspaces }) =>
        Effect.forEach(["w-1", "w-2"], (id) => workspaces.insert(workspace(id, {}))))
      const breaking = new DatabaseSync(filename)
      breaking.exec("UPDATE procyon_workspaces SET guests = '[{' WHERE id = '\"w-1\"'")
      breaking.close()
      yield* withLedger(filename, ({ workspaces }) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* Effect.flip(workspaces.list())).message, "rows: Corrupt")
          assert.deepStrictEqual(yield* workspaces.list({ unreadable: "skip" }), [workspace("w-2", {})])
        }))
    }).pipe(Effect.scoped))
})

describe("what cannot be a row", () => {
  it.live("is refused without its words, and changes nothing", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      yield* withLedger(filename, (ledger) =>
        Effect.gen(function*() {
          const { workspace } = LedgerLaws
          const never = "a secret" as never
          const calls = [
            ledger.insert(row("b", { lifetime: never })),
            ledger.transition("a", { fence: 1, status: "running" }, { status: "running", output: never }),
            ledger.workspaces.insert(workspace("w-1", { createdAt: never })),
            ledger.workspaces.update("w-1", 1, { guests: never })
          ]
          const errors = yield* Effect.forEach(calls, (call) => Effect.flip(call))
          assert.deepStrictEqual(errors.map(({ message }) => message), [
            "insert: Other",
            "transition: Other",
            "insert: Other",
            "transition: Other"
          ])
          assert.notInclude(JSON.stringify(errors), "secret")
          assert.deepStrictEqual([yield* ledger.rows(), yield* ledger.workspaces.list()], [[row("a")], []])
        }))
    }).pipe(Effect.scoped))
})

/** As the first program made them: these tables, and in their rows no more than these fields. */
const writeFirstForm = (filename: string) => {
  const first = new DatabaseSync(filename)
  first.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA application_id = 0x50524359;
    CREATE TABLE procyon_migrations (
      migration_id integer PRIMARY KEY NOT NULL,
      created_at datetime NOT NULL DEFAULT current_timestamp,
      name VARCHAR(255) NOT NULL
    );
    INSERT INTO procyon_migrations (migration_id, name) VALUES (1, 'processes');
    CREATE TABLE procyon_processes (
      id TEXT PRIMARY KEY NOT NULL,
      owner TEXT NOT NULL,
      lifetime TEXT NOT NULL,
      status TEXT NOT NULL,
      command TEXT NOT NULL,
      title TEXT,
      identity TEXT,
      started_at DOUBLE PRECISION NOT NULL,
      ended_at DOUBLE PRECISION,
      deadline_at DOUBLE PRECISION,
      holder TEXT,
      fence DOUBLE PRECISION NOT NULL,
      lease_until DOUBLE PRECISION NOT NULL,
      bytes_seen DOUBLE PRECISION NOT NULL,
      blob TEXT,
      workspace TEXT,
      termination TEXT
    );
    CREATE INDEX procyon_processes_owner ON procyon_processes (owner);
    INSERT INTO procyon_processes VALUES
      ('old-1', 's\\n1', 'session', 'running', '{"name":"sleep","args":1,"digest":null}', 'a \\"b\\"',
       '{"pid":7,"startedAt":8,"bootId":"b","marker":"m"}', 1.5, NULL, 9, NULL, 3, 4, 5, NULL, 'w-1', NULL),
      ('old-2', 's-2', 'detached', 'error', '{"name":"make","args":0,"digest":"9f"}', NULL,
       NULL, 2, 3, NULL, NULL, 1, 4, 6, 'sha256-1', NULL, NULL)
  `)
  first.close()
  fs.chmodSync(filename, 0o600)
}

const ofFirstForm = [
  row("old-1", {
    owner: "s\n1",
    command: { name: "sleep", args: 1, digest: null },
    title: "a \"b\"",
    name: null,
    policy: null,
    identity: { pid: 7, startedAt: 8, bootId: "b", marker: "m" },
    startedAt: 1.5,
    deadlineAt: 9,
    holder: null,
    fence: 3,
    leaseUntil: 4,
    counters: { bytesSeen: 5 }
  }),
  row("old-2", {
    owner: "s-2",
    lifetime: "detached",
    status: "error",
    command: { name: "make", args: 0, digest: "9f" },
    title: null,
    name: null,
    policy: null,
    identity: null,
    startedAt: 2,
    endedAt: 3,
    deadlineAt: null,
    holder: null,
    leaseUntil: 4,
    counters: { bytesSeen: 6 },
    workspace: null
  })
]

describe("a file of an older program", () => {
  it.live("is brought up to date once, and its rows are there, to be read and moved", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      writeFirstForm(filename)
      yield* withLedger(filename, (ledger) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* ledger.rows(), ofFirstForm)
          const expected = { fence: 3, status: "running" } as const
          assert.isTrue(yield* ledger.transition("old-1", expected, { status: "error", name: "n", told: "error" }))
        }))
      yield* withLedger(filename, (ledger) =>
        Effect.gen(function*() {
          assert.deepInclude(yield* ledger.get("old-1"), { status: "error", name: "n", told: "error" })
          assert.deepStrictEqual(yield* ledger.get("old-2"), ofFirstForm[1])
        }))
    }).pipe(Effect.scoped))

  it.live("is brought up to date by one of several processes that open it at once, and all can use it", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const filename = join(directory, "ledger.sqlite")
      writeFirstForm(filename)
      const ids = ["p-1", "p-2", "p-3", "p-4"]
      const programs = yield* Effect.promise(() => Promise.all(ids.map((id) => run(directory, "ends", "written", id))))
      yield* Effect.promise(() => Promise.all(programs.map(({ closed }) => closed)))
      assert.deepStrictEqual(
        programs.map(({ child, complained }) => [child.exitCode, complained()]),
        ids.map(() => [0, ""])
      )
      assert.deepStrictEqual(
        yield* withLedger(filename, (ledger) => ledger.rows()),
        [...ofFirstForm, ...ids.map((id) => row(id))]
      )
    }).pipe(Effect.scoped))
})

describe("a file", () => {
  it.live("and its directory are the user's alone", () =>
    Effect.gen(function*() {
      const directory = join(yield* temporaryDirectory, "made", "deep")
      const filename = join(directory, "ledger.sqlite")
      const modes = yield* withLedger(filename, (ledger) =>
        Effect.map(ledger.insert(row("a")), () =>
          ["", "-wal", "-shm"].map((part) =>
            (fs.statSync(filename + part).mode & 0o777).toString(8)
          )))
      assert.deepStrictEqual(modes, ["600", "600", "600"])
      assert.strictEqual(fs.statSync(directory).mode & 0o777, 0o700)
      assert.deepStrictEqual(fs.readdirSync(directory), ["ledger.sqlite"])
    }).pipe(Effect.scoped))

  it.live("is refused where others may write, to it or to its directory, and where it is a link", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      for (const mode of [0o770, 0o777, 0o1777]) {
        fs.chmodSync(dirname(filename), mode)
        assert.strictEqual(yield* problemOnOpening(filename), "Unsafe", mode.toString(8))
      }
      fs.chmodSync(dirname(filename), 0o700)
      fs.chmodSync(filename, 0o660)
      assert.strictEqual(yield* problemOnOpening(filename), "Unsafe")
      fs.chmodSync(filename, 0o600)
      fs.symlinkSync(filename, join(dirname(filename), "link"))
      assert.strictEqual(yield* problemOnOpening(join(dirname(filename), "link")), "Unsafe")
      fs.mkdirSync(join(dirname(filename), "folder"))
      assert.strictEqual(yield* problemOnOpening(join(dirname(filename), "folder")), "Unsafe")
    }).pipe(Effect.scoped))

  it.live.skipIf(process.getuid?.() !== 0)(
    "is refused in a directory of another user, and when it is another user's (skipped unless run by root)",
    () =>
      Effect.gen(function*() {
        const filename = yield* written(["a"])
        fs.chownSync(filename, 65_534, 65_534)
        assert.strictEqual(yield* problemOnOpening(filename), "Unsafe")
        fs.chownSync(filename, 0, 0)
        fs.chownSync(dirname(filename), 65_534, 65_534)
        assert.strictEqual(yield* problemOnOpening(filename), "Unsafe")
      }).pipe(Effect.scoped)
  )

  it.live("is opened by many at once that find none, and all have the same", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      const insert = (index: number) => withLedger(filename, (ledger) => ledger.insert(row(`p-${index}`)))
      const answers = yield* Effect.all(Array.from({ length: 10 }, (_, index) => insert(index)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(new Set(answers), new Set([true]))
      const rows = yield* withLedger(filename, (ledger) => ledger.rows())
      assert.strictEqual(rows.length, 10)
    }).pipe(Effect.scoped))

  live(
    "in a directory that may not be written to is Denied, new or not, and not changed",
    ["root"],
    () =>
      Effect.gen(function*() {
        const filename = yield* written(["a"])
        const directory = dirname(filename)
        fs.chownSync(filename, nobody, nobody)
        fs.chownSync(directory, nobody, nobody)
        fs.chmodSync(directory, 0o500)
        const content = fs.readFileSync(filename)
        for (const name of [filename, join(directory, "new.sqlite")]) {
          assert.strictEqual(yield* withoutRoot(problemOnOpening(name)), "Denied", name)
        }
        assert.isTrue(fs.readFileSync(filename).equals(content))
        assert.deepStrictEqual(fs.readdirSync(directory), ["ledger.sqlite"])
        fs.chmodSync(directory, 0o700)
        assert.deepStrictEqual(yield* withoutRoot(withLedger(filename, (ledger) => ledger.rows())), [row("a")])
      }).pipe(Effect.scoped)
  )

  live(
    "on a disk that is too small to have it is Full, and leaves nothing",
    ["root", "mounts"],
    () =>
      Effect.gen(function*() {
        const filename = join(yield* disk(64), "ledger.sqlite")
        assert.strictEqual(yield* problemOnOpening(filename), "Full")
        assert.deepStrictEqual(fs.readdirSync(dirname(filename)).filter((name) => name.includes(".new-")), [])
      }).pipe(Effect.scoped)
  )

  live("on a disk that is full has every row that was told, and takes new ones when there is room again", [
    "root",
    "mounts"
  ], () =>
    Effect.gen(function*() {
      const directory = yield* disk(512)
      const filename = join(directory, "ledger.sqlite")
      fs.writeFileSync(join(directory, "ballast"), Buffer.alloc(128 * 1024))
      const told: Array<string> = []
      const insert = (ledger: ProcessLedger.ProcessLedger, id: string) =>
        Effect.map(ledger.insert(row(id)), () => {
          told.push(id)
        })
      yield* withLedger(filename, (ledger) =>
        Effect.gen(function*() {
          let refused: ReadonlyArray<ProcessLedger.LedgerError> = []
          for (let group = 0; refused.length === 0; group++) {
            const ids = Array.from({ length: 10 }, (_, index) => `p-${1000 + group * 10 + index}`)
            const exits = yield* Effect.forEach(ids, (id) => Effect.result(insert(ledger, id)), {
              concurrency: "unbounded"
            })
            refused = exits.flatMap((exit) => exit._tag === "Failure" ? [exit.failure] : [])
          }
          assert.deepStrictEqual(new Set(refused.map(({ message }) => message)), new Set(["insert: Full"]))
          assert.deepStrictEqual((yield* ledger.rows()).map(({ id }) => id), told)
        }))
      assert.deepStrictEqual((yield* withLedger(filename, (ledger) => ledger.rows())).map(({ id }) => id), told)
      fs.rmSync(join(directory, "ballast"))
      yield* withLedger(filename, (ledger) => insert(ledger, "p-9999"))
      assert.deepStrictEqual((yield* withLedger(filename, (ledger) => ledger.rows())).map(({ id }) => id), told)
    }).pipe(Effect.scoped))

  it.live("that may not grow is Full, loses no row, and takes new ones when there is room again", () =>
    Effect.gen(function*() {
      const filename = yield* temporaryFile
      yield* on(
        filename,
        Effect.gen(function*() {
          const ledger = yield* ProcessLedger.Service
          const sql = yield* SqlClient.SqlClient
          yield* sql`PRAGMA max_page_count = 12`
          const inserted: Array<string> = []
          const insert = (id: string) => Effect.tap(ledger.insert(row(id)), () => Effect.sync(() => inserted.push(id)))
          const filling = Effect.forEach(Array.from({ length: 1000 }, (_, index) => `p-${1000 + index}`), insert)
          assert.strictEqual((yield* Effect.flip(filling)).message, "insert: Full")
          assert.deepStrictEqual((yield* ledger.rows()).map(({ id }) => id), inserted)
          assert.isTrue(yield* ledger.transition("p-1000", { fence: 1, status: "running" }, { status: "error" }))
          yield* sql`PRAGMA max_page_count = 1000`
          yield* insert("p-9999")
          assert.deepStrictEqual((yield* ledger.rows()).map(({ id }) => id), inserted)
        })
      )
    }).pipe(Effect.scoped))

  it.live("of a newer program is refused, and not changed", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      const newer = new DatabaseSync(filename)
      newer.exec("INSERT INTO procyon_migrations (migration_id, name) VALUES (9, 'later')")
      newer.exec("ALTER TABLE procyon_processes ADD COLUMN later TEXT")
      const content = contentOf(newer)
      newer.close()
      assert.strictEqual(yield* problemOnOpening(filename), "Newer")
      const after = new DatabaseSync(filename)
      assert.deepStrictEqual(contentOf(after), content)
      after.close()
    }).pipe(Effect.scoped))

  it.live("whose tables are not those of the program it says to be of is refused, and not changed", () =>
    Effect.gen(function*() {
      const filename = yield* written(["a"])
      const other = new DatabaseSync(filename)
      // Its tables are newer than it says, so that bringing them up to date fails half way.
      other.exec("DELETE FROM procyon_migrations WHERE migration_id > 1")
      const content = contentOf(other)
      other.close()
      assert.strictEqual(yield* problemOnOpening(filename), "Other")
      const after = new DatabaseSync(filename)
      assert.deepStrictEqual(contentOf(after), content)
      after.close()
    }).pipe(Effect.scoped))

  it.live("is used without a word on stderr", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryDirectory
      const { child, closed, complained, said } = yield* Effect.promise(() => run(directory, "ends", "written"))
      yield* Effect.promise(() => closed)
      assert.deepStrictEqual([child.exitCode, said(), complained()], [0, "written\n", ""])
    }).pipe(Effect.scoped))
})
