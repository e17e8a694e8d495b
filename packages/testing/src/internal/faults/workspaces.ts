/** The faults of a workspace store. */
import * as WorkspaceStore from "@procyon/runtime/ports/WorkspaceStore"
import type * as Effect from "effect/Effect"
import type { Strikes } from "./Strikes.ts"

export const make = (store: WorkspaceStore.WorkspaceStore, strikes: Strikes): WorkspaceStore.WorkspaceStore => {
  const through = <A>(
    operation: "locate" | "create" | "remove",
    make: Effect.Effect<A, WorkspaceStore.WorkspaceError>
  ): Effect.Effect<A, WorkspaceStore.WorkspaceError> =>
    strikes.through<A, WorkspaceStore.WorkspaceError>({
      port: "workspaces",
      call: operation,
      make,
      failure: ({ problem = "Denied" }) =>
        new WorkspaceStore.WorkspaceError({
          operation,
          problem: problem as WorkspaceStore.WorkspaceError["problem"],
          refusal: problem === "Refused" ? "Replaced" : null
        })
    })
  return {
    locate: (root, name) => through("locate", store.locate(root, name)),
    create: (place) => through("create", store.create(place)),
    remove: (place) => through("remove", store.remove(place))
  }
}
