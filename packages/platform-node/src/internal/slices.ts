/**
 * Long work in short stretches, giving the event loop a turn between them.
 */

/**
 * The longest stretch, in milliseconds. Reading about 200 processes takes one; two thousand take some 40 ms in all, far
 * too long to hold an event loop.
 */
const sliceMillis = 3

/** Does `work` for each item, in order, and calls back once: within this call when it is short. */
export const inSlices = <A>(items: ReadonlyArray<A>, work: (item: A) => void, done: () => void): void => {
  const rest = items.values()
  const slice = (): void => {
    const until = performance.now() + sliceMillis
    for (let next = rest.next(); next.done !== true; next = rest.next()) {
      work(next.value)
      if (performance.now() <= until) continue
      setImmediate(slice)
      return
    }
    done()
  }
  slice()
}
