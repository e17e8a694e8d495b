import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as GroupCommit from "../../src/internal/GroupCommit.ts"

type Refusal = "no" | "locked" | "lost" | "full"

const fails = (error: Refusal): Exit.Exit<never, Refusal> => Exit.fail(error)

/** What a transaction does beside its writes. */
interface Hooks {
  readonly begin?: Effect.Effect<void, Refusal>
  readonly commit?: Effect.Effect<void, Refusal>
  readonly rollback?: Effect.Effect<void>
}

/** A database that is an array: what is committed is in `log`, and what was done to get there in `steps`. */
const setUp = (hooks: Hooks = {}, limit = 256) => {
  const steps: Array<string> = []
  const log: Array<string> = []
  let open: Array<string> | null = null
  const write = GroupCommit.make<Refusal>({
    transaction: (writes) =>
      Effect.gen(function*() {
        steps.push("begin")
        yield* hooks.begin ?? Effect.void
        open = []
        yield* writes
        yield* hooks.commit ?? Effect.void
        steps.push("commit")
        log.push(...open)
        open = null
      }).pipe(
        Effect.onError(() => {
          steps.push("rollback")
          open = null
          return hooks.rollback ?? Effect.void
        })
      ),
    isEverybodys: (error) => error === "locked",
    isTakenBack: (error) => error === "full",
    limit
  })
  const put = (name: string) =>
    Effect.sync(() => {
      steps.push(name)
      const rows = open ?? log
      return rows.push(name)
    })
  const fork = <A>(effect: Effect.Effect<A, Refusal>) => Effect.forkChild(write(effect), { startImmediately: true })
  const settled = Effect.fnUntraced(function*<A>(effects: ReadonlyArray<Effect.Effect<A, Refusal>>) {
    return yield* Effect.forEach(effects, (effect) => Effect.exit(write(effect)), { concurrency: "unbounded" })
  })
  return { fork, log, put, settled, steps, write }
}

describe("writes that are asked for at once", () => {
  it.effect("are made in one transaction, in order, and each is answered with what it gave", () =>
    Effect.gen(function*() {
      const { log, put, settled, steps } = setUp()
      assert.deepStrictEqual(yield* settled(["a", "b", "c"].map(put)), [1, 2, 3].map((n) => Exit.succeed(n)))
      assert.deepStrictEqual(steps, ["begin", "a", "b", "c", "commit"])
      assert.deepStrictEqual(log, ["a", "b", "c"])
    }))

  it.effect("that nobody waits for any more when their turn comes open no transaction", () =>
    Effect.gen(function*() {
      const { log, put, steps, write } = setUp()
      // In one step, before anything that it forks has begun.
      const asked = Effect.runFork(write(put("a")))
      asked.interruptUnsafe()
      yield* Fiber.await(asked)
      yield* Effect.yieldNow
      assert.deepStrictEqual([steps, log], [[], []])
      assert.strictEqual(yield* write(put("b")), 1)
    }))

  it.effect("are answered after the commit, and not before", () =>
    Effect.gen(function*() {
      const [reached, finish] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const { fork, put } = setUp({
        commit: Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(finish))
      })
      const fibers = [yield* fork(put("a")), yield* fork(put("b"))]
      yield* Deferred.await(reached)
      assert.deepStrictEqual(fibers.map((fiber) => fiber.pollUnsafe()), [undefined, undefined])
      yield* Deferred.succeed(finish, undefined)
      assert.deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), [1, 2])
    }))

  it.effect("and those that come during a commit make the next one together", () =>
    Effect.gen(function*() {
      const [reached, finish] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const { fork, put, steps } = setUp({
        commit: Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(finish))
      })
      const first = [yield* fork(put("a")), yield* fork(put("b"))]
      yield* Deferred.await(reached)
      const next = yield* Effect.forEach(["c", "d", "e"], (name) => fork(put(name)))
      yield* Deferred.succeed(finish, undefined)
      yield* Effect.forEach([...first, ...next], Fiber.join)
      assert.deepStrictEqual(steps, ["begin", "a", "b", "commit", "begin", "c", "d", "e", "commit"])
    }))

  it.effect("are at most so many in one transaction", () =>
    Effect.gen(function*() {
      const { put, settled, steps } = setUp({}, 2)
      yield* settled(["a", "b", "c", "d", "e"].map(put))
      assert.deepStrictEqual(steps, ["begin", "a", "b", "commit", "begin", "c", "d", "commit", "e"])
    }))
})

describe("a write that is alone", () => {
  it.effect("is made without a transaction, once the turn is over", () =>
    Effect.gen(function*() {
      const { fork, put, steps } = setUp()
      const fiber = yield* fork(put("a"))
      assert.deepStrictEqual(steps, [])
      yield* Effect.yieldNow
      assert.deepStrictEqual(steps, ["a"])
      assert.strictEqual(yield* Fiber.join(fiber), 1)
    }))
})

describe("a write that fails", () => {
  for (
    const [what, effect, exit] of [
      ["with an error", Effect.fail("no" as const), fails("no")],
      ["with a defect", Effect.die("bug"), Exit.die("bug")]
    ] as const
  ) {
    it.effect(`${what} fails alone: the others are made, in order, each once`, () =>
      Effect.gen(function*() {
        const { log, put, settled } = setUp()
        const exits = yield* settled<number>([put("a"), effect, put("b")])
        assert.deepStrictEqual(exits, [Exit.succeed(1), exit, Exit.succeed(2)])
        assert.deepStrictEqual(log, ["a", "b"])
      }))
  }

  it.effect("as every other would is everybody's answer, and nobody waits for it again", () =>
    Effect.gen(function*() {
      const { log, put, settled, steps } = setUp()
      const exits = yield* settled<number>([put("a"), Effect.fail("locked"), put("b")])
      assert.deepStrictEqual(exits, [1, 2, 3].map(() => fails("locked")))
      assert.deepStrictEqual([log, steps], [[], ["begin", "a", "rollback"]])
    }))

  it.effect("so when the others are tried alone already, is the answer of those after it", () =>
    Effect.gen(function*() {
      let tries = 0
      const { log, put, settled } = setUp()
      const turning = Effect.suspend(() => Effect.fail(tries++ === 0 ? "no" as const : "locked" as const))
      const exits = yield* settled<number>([put("a"), turning, put("b")])
      assert.deepStrictEqual(exits, [Exit.succeed(1), fails("locked"), fails("locked")])
      assert.deepStrictEqual(log, ["a"])
    }))

  it.effect("is told as it is when its transaction cannot be taken back", () =>
    Effect.gen(function*() {
      const { log, put, settled } = setUp({ rollback: Effect.die("no connection") })
      const exits = yield* settled<number>([put("a"), Effect.fail("locked")])
      assert.deepStrictEqual(exits.map(errorOf), ["locked", "locked"])
      assert.deepStrictEqual(log, [])
    }))
})

describe("a transaction", () => {
  it.effect("that does not begin answers all with its error, and the next one may", () =>
    Effect.gen(function*() {
      let isFirst = true
      const begin = Effect.suspend(() => {
        const exit = isFirst ? Effect.fail("lost" as const) : Effect.void
        isFirst = false
        return exit
      })
      const { log, put, settled } = setUp({ begin })
      assert.deepStrictEqual(yield* settled(["a", "b"].map(put)), [fails("lost"), fails("lost")])
      assert.deepStrictEqual(yield* settled(["c", "d"].map(put)), [Exit.succeed(1), Exit.succeed(2)])
      assert.deepStrictEqual(log, ["c", "d"])
    }))

  it.effect("whose commit was surely taken back is tried write by write", () =>
    Effect.gen(function*() {
      const { log, put, settled } = setUp({ commit: Effect.fail("full") })
      assert.deepStrictEqual(yield* settled(["a", "b"].map(put)), [Exit.succeed(1), Exit.succeed(2)])
      assert.deepStrictEqual(log, ["a", "b"])
    }))

  it.effect("whose commit may have been made is not tried again, and nobody is told that it was", () =>
    Effect.gen(function*() {
      const { put, settled, steps } = setUp({ commit: Effect.fail("lost") })
      assert.deepStrictEqual(yield* settled(["a", "b"].map(put)), [fails("lost"), fails("lost")])
      assert.deepStrictEqual(steps, ["begin", "a", "b", "rollback"])
    }))

  it.effect("that dies answers all with that, and the next one is made", () =>
    Effect.gen(function*() {
      let isFirst = true
      const commit = Effect.suspend(() => {
        const exit = isFirst ? Effect.die("bug") : Effect.void
        isFirst = false
        return exit
      })
      const { log, put, settled } = setUp({ commit })
      assert.deepStrictEqual(yield* settled(["a", "b"].map(put)), [Exit.die("bug"), Exit.die("bug")])
      yield* settled(["c", "d"].map(put))
      assert.deepStrictEqual(log, ["c", "d"])
    }))
})

describe("a caller who is interrupted", () => {
  it.effect("before its write has begun has it never made, and the others theirs", () =>
    Effect.gen(function*() {
      const { fork, log, put } = setUp()
      const [first, gone, last] = [yield* fork(put("a")), yield* fork(put("b")), yield* fork(put("c"))]
      yield* Fiber.interrupt(gone)
      yield* Effect.forEach([first, last], Fiber.join)
      assert.deepStrictEqual(log, ["a", "c"])
    }))

  it.effect("during the transaction waits for its end, which is the one the others see", () =>
    Effect.gen(function*() {
      const [reached, finish] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const { fork, log, put } = setUp({
        commit: Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(finish))
      })
      const [gone, stays] = [yield* fork(put("a")), yield* fork(put("b"))]
      yield* Deferred.await(reached)
      const interruption = yield* Effect.forkChild(Fiber.interrupt(gone), { startImmediately: true })
      yield* Effect.yieldNow
      assert.isUndefined(interruption.pollUnsafe())
      yield* Deferred.succeed(finish, undefined)
      yield* Fiber.join(interruption)
      assert.deepStrictEqual(log, ["a", "b"])
      assert.strictEqual(yield* Fiber.join(stays), 2)
    }))

  it.effect("as the last of a transaction's ends it, and it is taken back", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const { fork, log, put, steps, write } = setUp({
        commit: Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
      })
      const gone = [yield* fork(put("a")), yield* fork(put("b"))]
      yield* Deferred.await(reached)
      const next = yield* fork(put("c"))
      yield* Fiber.interruptAll(gone)
      assert.strictEqual(yield* Fiber.join(next), 1)
      assert.deepStrictEqual(log, ["c"])
      assert.deepStrictEqual(steps, ["begin", "a", "b", "rollback", "c"])
      assert.strictEqual(yield* write(put("d")), 2)
    }))

  it.effect("as the only one there is ends its write", () =>
    Effect.gen(function*() {
      const { fork, log, put, write } = setUp()
      const reached = yield* Deferred.make<void>()
      const gone = yield* fork(Effect.andThen(Deferred.succeed(reached, undefined), Effect.never))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(gone)
      yield* write(put("a"))
      assert.deepStrictEqual(log, ["a"])
    }))

  it.effect("while the writes are tried one by one has its own left out when it had not begun", () =>
    Effect.gen(function*() {
      const [reached, finish] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      let tries = 0
      const { fork, log, put } = setUp()
      const slow = Effect.suspend(() =>
        tries++ === 0
          ? Effect.fail("no" as const)
          : Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(finish))
      )
      const [first, gone, last] = [yield* fork(slow), yield* fork(put("b")), yield* fork(put("c"))]
      yield* Deferred.await(reached)
      gone.interruptUnsafe()
      yield* Deferred.succeed(finish, undefined)
      yield* Effect.forEach([first, last], (fiber) => Fiber.await<unknown, unknown>(fiber))
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(gone)))
      assert.deepStrictEqual(log, ["c"])
    }))
})

const errorOf = (exit: Exit.Exit<unknown, Refusal>): unknown =>
  Exit.isSuccess(exit) ? exit.value : Cause.squash(exit.cause)
