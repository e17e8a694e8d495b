/**
 * How laws become tests: one a law, each on a layer of its own, and a skip that says why.
 */
import { describe, it } from "@effect/vitest"
import type { Capabilities } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Law } from "../Law.ts"

/** Where laws are tried: on the real clock, or under a TestClock of each law's own. */
export type Clock = "live" | "virtual"

/** Registers the laws of `what`, to be kept by `name`. */
export const define = <R, LE>(
  name: string,
  what: string,
  laws: ReadonlyArray<Law<unknown, R>>,
  layer: Layer.Layer<R, LE>,
  clock: Clock
): void => {
  const test = clock === "live" ? it.live : it.effect
  describe(`${name} keeps the laws of ${what}`, () => {
    for (const { about, name, run, skipped } of laws) {
      const told = `${about}: ${name}${skipped === null ? "" : ` (skipped: ${skipped})`}`
      test.skipIf(skipped !== null)(told, () => Effect.provide(run, Layer.fresh(layer)))
    }
  })
}

/** The laws of a store, which need nothing but the store: all of them can be tried, or for one reason none. */
export const skipping = <E, R>(
  laws: ReadonlyArray<Law<E, R>>,
  reason: string | null | undefined
): ReadonlyArray<Law<E, R>> =>
  reason === null || reason === undefined
    ? laws
    : laws.map((law) => ({ ...law, skipped: reason }))

/** What a law can need of a driver beyond what every driver has. */
export type Need = "processTable" | "sessions" | "marker" | "detached"

/** The capability that is missing, as a skip tells it. */
export const lacking = (needs: ReadonlyArray<Need>, capabilities: Capabilities): string | null => {
  const missing = needs.find((need) => !capabilities[need])
  return missing === undefined ? null : `no ${missing}`
}
