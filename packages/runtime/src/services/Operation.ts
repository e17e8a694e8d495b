/**
 * Long operations that are going on: a name for each, a way to find it, and a limit of how many an owner has at a time.
 *
 * An operation is only an identity. What it does, how it is told of, and how it is cancelled belongs to whoever runs it;
 * the work itself may be a managed process, a job, or neither. Admission is a scoped resource: it lasts while the scope of
 * the work does, so neither a failure nor an interruption leaves an owner locked out.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Bounds from "../domain/Bounds.ts"
import * as ProcessId from "../domain/ProcessId.ts"

/** An operation that is going on. `startedAt`: epoch milliseconds. */
export const Operation = Schema.Struct({
  id: Schema.String,
  owner: Schema.String,
  kind: Schema.String,
  startedAt: Schema.Finite
})
export interface Operation extends Schema.Schema.Type<typeof Operation> {}

/**
 * The owner has as many operations of this kind as it may. `id` and `startedAt` (epoch milliseconds) are those of the
 * oldest that stands in the way, to look it up by, to show, or to cancel.
 */
export class OperationActive extends Schema.TaggedError<OperationActive>()("OperationActive", {
  id: Schema.String,
  kind: Schema.String,
  startedAt: Schema.Finite,
  limit: Schema.Natural
}) {
  override get message(): string {
    return `${this.kind} is going on: ${this.id}`
  }
}

/** The terms of one admission. */
export interface AdmitOptions {
  /** How many of the kind the owner may have; 1 by default. Zero and infinite: no limit. Other than a count: a defect. */
  readonly limit?: number | undefined
}

/** Admission and lookup. Holds nothing but what is active. */
export interface Operations {
  /**
   * Admits an operation until the scope ends; the look at what is active and the admission are one step. Ids are not used
   * twice.
   */
  readonly admit: (
    owner: string,
    kind: string,
    options?: AdmitOptions
  ) => Effect.Effect<Operation, OperationActive, Scope.Scope>
  /** What is going on for the owner, of one kind or of all, in the order of admission. */
  readonly active: (owner: string, kind?: string) => Effect.Effect<ReadonlyArray<Operation>>
}

/** Where operations are admitted. */
class OperationService extends Context.Service<OperationService, Operations>()("@procyon/runtime/Operation") {}
export { OperationService as Service }

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const owners = new Map<string, Set<Operation>>()
  let ids = ProcessId.initial

  const begin = (owner: string, kind: string, limit: number): Effect.Effect<Operation, OperationActive> =>
    Effect.suspend(() => {
      const known = owners.get(owner)
      const same = known === undefined ? [] : [...known].filter((operation) => operation.kind === kind)
      const [oldest] = same
      if (oldest !== undefined && same.length >= limit) {
        return Effect.fail(new OperationActive({ id: oldest.id, kind, startedAt: oldest.startedAt, limit }))
      }
      const startedAt = clock.currentTimeMillisUnsafe()
      const made = ProcessId.make(ids, startedAt, random.nextDoubleUnsafe())
      ids = made.state
      const operation: Operation = { id: made.id, owner, kind, startedAt }
      owners.set(owner, (known ?? new Set<Operation>()).add(operation))
      return Effect.succeed(operation)
    })

  const end = (operation: Operation): void => {
    const known = owners.get(operation.owner)
    known?.delete(operation)
    if (known?.size === 0) owners.delete(operation.owner)
  }

  return OperationService.of({
    admit: (owner, kind, options) =>
      Result.match(Bounds.cap("limit", options?.limit, 1), {
        onFailure: () => Effect.die(new RangeError("the limit of operations is no count")),
        onSuccess: (limit) =>
          Effect.acquireRelease(begin(owner, kind, limit), (operation) => Effect.sync(() => end(operation)))
      }),
    active: (owner, kind) =>
      Effect.sync(() =>
        [...owners.get(owner) ?? []].filter((operation) => kind === undefined || operation.kind === kind)
      )
  })
})

/** Holds what is active in memory. Where it is built decides how long that is known: with the application, or beyond it. */
export const layer: Layer.Layer<OperationService> = Layer.effect(OperationService, make)
