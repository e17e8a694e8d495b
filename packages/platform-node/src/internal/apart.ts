/**
 * One driver made of two: detached processes are started, looked at and signalled by one of them, all others by the other.
 */
import type { Identity } from "@procyon/runtime/domain/Identity"
import type { Child, ProcessDriver, SignalOutcome, TreeLook } from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"

/** `own` has the detached processes, `other` the rest. */
export const detached = (own: ProcessDriver, other: ProcessDriver): ProcessDriver => {
  /** Markers of the trees that `own` has. */
  const apart = new Set<string>()

  const keep = (child: Child): Child => ({
    ...child,
    release: Effect.andThen(child.release, Effect.sync(() => void apart.delete(child.identity.marker)))
  })
  const driverOf = ({ marker }: Identity): ProcessDriver => apart.has(marker) ? own : other

  /** Each is asked for its own only, and not at all when it has none. */
  const look = (roots: ReadonlyArray<Identity>): Effect.Effect<ReadonlyArray<TreeLook>> => {
    const groups = [own, other].map((driver) => [driver, roots.filter((root) => driverOf(root) === driver)] as const)
    const asked = groups.filter(([, roots]) => roots.length > 0)
    const [only] = asked
    if (only === undefined || asked.length === 1) return (only?.[0] ?? other).look(roots)
    return Effect.map(
      Effect.forEach(asked, ([driver, roots]) => driver.look(roots), { concurrency: "unbounded" }),
      (looks) => {
        const found = new Map(looks.flat().map((look) => [look.root.marker, look]))
        return roots.flatMap((root) => found.get(root.marker) ?? [])
      }
    )
  }

  return {
    ...other,
    spawn: (request) =>
      Effect.suspend(() => {
        if (request.detached === undefined) return other.spawn(request)
        apart.add(request.marker)
        return Effect.map(own.spawn(request), keep)
      }),
    attach: (request) =>
      Effect.suspend(() => {
        if (request.detached === null) return other.attach(request)
        apart.add(request.identity.marker)
        return Effect.map(own.attach(request), keep)
      }),
    look,
    occupied: (root) => driverOf(root).occupied(root),
    signal: (root, targets, signal): Effect.Effect<ReadonlyArray<SignalOutcome>> =>
      driverOf(root).signal(root, targets, signal)
  }
}
