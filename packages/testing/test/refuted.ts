/**
 * Laws that have to be able to fail: each is tried on an implementation with one fault.
 */
import { assert } from "@effect/vitest"
import type { Law } from "@procyon/testing"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"

/** The law of this name. Where groups have laws of one name, it is told with its group, as a test's title is. */
const named = <E, R>(laws: ReadonlyArray<Law<E, R>>, name: string): Law<E, R> => {
  const found = laws.filter((law) => law.name === name || `${law.about}: ${law.name}` === name)
  assert.lengthOf(found, 1, name)
  return found[0] ?? assert.fail("unreachable")
}

/** The law fails on this implementation, by its own assertion or by a failure that the implementation tells. */
export const refuted = <E, R, LE>(
  laws: ReadonlyArray<Law<E, R>>,
  name: string,
  faulty: Layer.Layer<R, LE>
): Effect.Effect<void> =>
  Effect.gen(function*() {
    const exit = yield* Effect.exit(Effect.provide(named(laws, name).run, faulty))
    const failure = Exit.isFailure(exit) ? Cause.squash(exit.cause) : "none"
    const isTold = typeof failure === "object" && failure !== null && "_tag" in failure
    assert.isTrue(
      isTold || (failure instanceof Error && failure.name === "AssertionError"),
      `failure: ${String(failure)}`
    )
  })

/** Every law has a title of its own, and a fault that it is tried on. */
export const assertAllRefuted = <E, R>(laws: ReadonlyArray<Law<E, R>>, names: ReadonlyArray<string>): void => {
  assert.strictEqual(new Set(laws.map(({ about, name }) => `${about}: ${name}`)).size, laws.length)
  const refuted = new Set(names.map((name) => named(laws, name)))
  assert.deepStrictEqual(laws.filter((law) => !refuted.has(law)).map(({ about, name }) => `${about}: ${name}`), [])
}
