/**
 * Chance that is the same everywhere: a small seeded generator (mulberry32), so that a seed is a whole run.
 */

/** Each call of any member takes one number of the sequence. */
export interface Dice {
  /** From 0, below 1. */
  readonly next: () => number
  /** A natural number below `limit`, which is at least 1. */
  readonly below: (limit: number) => number
  /** `items` is not empty. */
  readonly oneOf: <A>(items: ReadonlyArray<A>) => A
  /** Whether something of this chance, from 0 to 1, happens now. */
  readonly often: (chance: number) => boolean
}

/** The sequence of this seed, from its beginning. */
export const dice = (seed: number): Dice => {
  let state = Math.imul(seed, 0x9e37_79b1)
  const next = () => {
    state = (state + 0x6d2b_79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    next,
    below,
    oneOf: <A>(items: ReadonlyArray<A>): A => items[below(items.length)] as A,
    often: (chance) => next() < chance
  }
}
