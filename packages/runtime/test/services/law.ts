import { it } from "@effect/vitest"
import type { Settings } from "@procyon/runtime"
import { RuntimeTest, type Script } from "@procyon/testing"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A law on a fresh runtime in a fresh world, under a virtual clock. Its scope is closed before the runtime is. */
export const law = <A, E>(
  name: string,
  children: Record<string, Script>,
  body: Effect.Effect<A, E, RuntimeTest.Services | Scope.Scope>,
  settings?: Partial<Settings.Settings>
) => it.effect(name, () => Effect.provide(Effect.scoped(body), RuntimeTest.layer({ children, settings })))
