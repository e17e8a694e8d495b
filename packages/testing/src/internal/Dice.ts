/** Chance that is the same everywhere for the same seed: mulberry32. */

export interface Dice {
  /** From 0 up to and without 1. */
  readonly next: () => number
  /** A whole number from 0 up to and without `limit`. */
  readonly below: (limit: number) => number
  /** One of these, which have to be some. */
  readonly oneOf: <A>(items: ReadonlyArray<A>) => A
  /** True this often: 0 never, 1 always. */
  readonly often: (chance: number) => boolean
}

export const dice = (seed: number): Dice => {
  let state = seed * 0x9e37_79b1
  const next = () => {
    state = (state + 0x6d2b_79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return { next, below, oneOf: (items) => items[below(items.length)] as never, often: (chance) => next() < chance }
}
