import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as StartQueue from "../../src/internal/startQueue.ts"
import { until } from "./bench.ts"

const work = (millis: number): void => {
  const end = performance.now() + millis
  while (performance.now() < end);
}

const ready = (next: () => void): void => next()

describe("startQueue", () => {
  it.live("makes starts in order, and no more in one turn than fit into it", () =>
    Effect.gen(function*() {
      const queue = StartQueue.make()
      const made: Array<readonly [start: number, turn: number]> = []
      let turn = 0
      const count = (): void => {
        turn++
        if (made.length < 9) setImmediate(count)
      }
      setImmediate(count)
      for (let start = 0; start < 9; start++) {
        queue.add({
          prepare: ready,
          launch: () => {
            made.push([start, turn])
            work(3)
          }
        })
      }
      yield* until("all are made", () => made.length === 9)
      assert.deepStrictEqual(made.map(([start]) => start), [0, 1, 2, 3, 4, 5, 6, 7, 8])
      for (const [, turn] of made) assert.isAtMost(made.filter(([, other]) => other === turn).length, 3)
    }))

  it.live("waits for what a start needs before it makes that one or another", () =>
    Effect.gen(function*() {
      const queue = StartQueue.make()
      const made: Array<string> = []
      queue.add({ prepare: (next) => void setImmediate(next), launch: () => made.push("first") })
      queue.add({ prepare: ready, launch: () => made.push("second") })
      assert.deepStrictEqual(made, [])
      yield* until("both are made", () => made.length === 2)
      assert.deepStrictEqual(made, ["first", "second"])
    }))

  it.live("never makes a start that was taken back", () =>
    Effect.gen(function*() {
      const queue = StartQueue.make()
      const made: Array<string> = []
      queue.add({ prepare: (next) => void setImmediate(next), launch: () => made.push("first") })
      const takeBack = queue.add({ prepare: ready, launch: () => made.push("second") })
      queue.add({ prepare: ready, launch: () => made.push("third") })
      takeBack()
      yield* until("the last is made", () => made.includes("third"))
      assert.deepStrictEqual(made, ["first", "third"])
    }))
})
