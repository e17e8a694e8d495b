/**
 * One life of the application in a simulation, with what was asked of it, and what of it has not ended.
 */
import * as AppProcess from "@procyon/runtime/services/AppProcess"
import * as Authority from "@procyon/runtime/services/Authority"
import type * as Generation from "@procyon/runtime/services/Generation"
import * as RuntimeStore from "@procyon/runtime/services/RuntimeStore"
import type { Workspace } from "@procyon/runtime/services/Workspace"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Metric from "effect/Metric"
import type * as Scope from "effect/Scope"
import type { Life } from "../Lives.ts"

/** How many fibers of a runtime have not ended. Effect tells of each that starts and ends. */
export class FiberCount implements Metric.FiberRuntimeMetricsService {
  active = 0
  recordFiberStart(): void {
    this.active++
  }
  recordFiberEnd(): void {
    this.active--
  }
}

/** The application that runs in a runtime, as far as a simulation needs one: something that may commit. */
export class Application extends Context.Service<
  Application,
  { readonly generation: number; readonly authority: Authority.Authority }
>()("@procyon/testing/simulation/Application") {
  static readonly layer = Layer.effect(
    Application,
    Effect.gen(function*() {
      const { generation } = yield* RuntimeStore.Service
      return { generation, authority: yield* Authority.Current }
    })
  )
}

export type Applications = Generation.Generation<Application, never>

/** A caller that has not had its answer, by what it asked for. */
export interface Asking {
  readonly what: string
  readonly fiber: Fiber.Fiber<unknown, unknown>
}

export class Session {
  readonly number: number
  readonly life: Life
  readonly fibers: FiberCount
  /** The callers' own scopes: of the application, of workspaces. Closed before the life is. */
  readonly scope: Scope.Closeable
  readonly asking = new Set<Asking>()
  readonly workspaces = new Map<string, { readonly workspace: Workspace; readonly scope: Scope.Closeable }>()
  applications: Applications | null = null
  /** Commits of older applications have no effect any more. */
  revokedBefore = 0
  frozen = false

  constructor(number: number, life: Life, fibers: FiberCount, scope: Scope.Closeable) {
    this.number = number
    this.life = life
    this.fibers = fibers
    this.scope = scope
  }

  /** The titles of commands that this life has not let go of. */
  get commands(): Effect.Effect<ReadonlySet<string | null>> {
    return Effect.map(
      this.life.run(AppProcess.Service.use((app) => app.list)) as Effect.Effect<ReadonlyArray<AppProcess.Info>>,
      (infos) => new Set(infos.map(({ title }) => title))
    )
  }
}
