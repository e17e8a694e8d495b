/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
export const numbers = (seed: number): () => number => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

/** The same in another order. */
export const shuffled = <A>(next: () => number, from: ReadonlyArray<A>): ReadonlyArray<A> =>
  from
    .map((value) => ({ value, key: next() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ value }) => value)
