import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as ProcessId from "../../src/domain/ProcessId.ts"

const now = 1_800_000_000_000

const generate = (walls: ReadonlyArray<number>, random: (index: number) => number, from = ProcessId.initial) => {
  let state = from
  const ids = walls.map((wall, index) => {
    const made = ProcessId.make(state, wall, random(index))
    state = made.state
    return made.id
  })
  return { ids, state }
}

const assertAscending = (ids: ReadonlyArray<string>): void =>
  ids.forEach((id, index) => index === 0 || assert.isTrue(id > (ids[index - 1] ?? ""), `${ids[index - 1]} < ${id}`))

/** A wall clock as bad as it gets: small steps, jumps back and forth, nonsense. */
const bases = [now, now, now, 0, -1, NaN, Infinity, -Infinity, 0.5]
const between = (minimum: number, maximum: number): Arbitrary.Arbitrary<number> =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))
const wall = Arbitrary.map(
  Arbitrary.all([between(-5, 5), between(0, bases.length - 1)]),
  ([step, base]) => (bases[base] ?? now) + step
)
const walls = Arbitrary.array(wall, { minLength: 2, maxLength: 60 })
const fraction = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

describe("make", () => {
  it("makes an id of 14 characters: time, sequence, chance", () => {
    assert.strictEqual(ProcessId.make(ProcessId.initial, now, 0.5).id, "0mywpiww000i00")
  })

  it.prop(
    "sorts in creation order and repeats nothing, whatever the wall clock and chance do",
    { walls, fraction },
    (given) => {
      assertAscending(generate(given.walls, (index) => index % 2 === 0 ? given.fraction : 1 - given.fraction).ids)
    }
  )

  it("goes on within a millisecond that is full", () => {
    assertAscending(generate(Array.from({ length: 5000 }, () => now), () => 0).ids)
  })

  it.prop("is a valid id", { wall, fraction }, (given) => {
    const { id } = ProcessId.make(ProcessId.initial, given.wall, given.fraction)
    assert.isTrue(Schema.is(ProcessId.ProcessId)(id))
    assert.strictEqual(id.length, 14)
  })

  it("is told apart from another runtime's of the same millisecond by chance", () => {
    const one = ProcessId.make(ProcessId.initial, now, 0.1).id
    assert.notStrictEqual(one, ProcessId.make(ProcessId.initial, now, 0.2).id)
  })
})

describe("resumeAfter", () => {
  it.prop(
    "continues after the last id of an earlier run, also when the clock went back between them",
    { walls },
    (given) => {
      const earlier = generate(given.walls, () => 0.99)
      const last = earlier.ids.at(-1) ?? ""
      const later = generate([0, ...given.walls], () => 0, ProcessId.resumeAfter(last))
      assertAscending([...earlier.ids, ...later.ids])
    }
  )

  it("learns nothing from an id that a caller chose", () => {
    for (const id of ["build", "", "0MYWPIWW000I00", "zz"]) {
      assert.deepStrictEqual(ProcessId.resumeAfter(id), ProcessId.initial)
    }
  })
})

describe("ProcessId", () => {
  it("takes what can name a file, and nothing else", () => {
    const is = Schema.is(ProcessId.ProcessId)
    for (const id of ["build", "a.b_c-1", "x".repeat(64)]) assert.isTrue(is(id), id)
    for (const id of ["", ".", "..", "-rf", "a/b", "a b", "a\n", "é", "x".repeat(65)]) assert.isFalse(is(id), id)
  })
})
