/** What laws of several lives have in common. */
import { assert, it } from "@effect/vitest"
import { BackgroundProcess, CommandSpec, Recovery } from "@procyon/runtime"
import { Lives, type Script, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

export const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

/** Starts a job of owner `s1`. */
export const start = (name: string, options?: BackgroundProcess.StartOptions) =>
  Effect.flatMap(jobsOf("s1"), (jobs) => jobs.start(CommandSpec.make(name), options))

/** A law on a fresh world. */
export const law = <A, E>(
  name: string,
  children: Record<string, Script>,
  body: Effect.Effect<A, E, Lives.Shared>
) => it.effect(name, () => Effect.provide(body, Lives.layer({ children })))

/** On a clock that moves for it, a minute at most. */
export const moving = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const world = yield* World
    const fiber = yield* Effect.forkChild(effect)
    yield* world.drain
    for (let second = 0; second < 60 && fiber.pollUnsafe() === undefined; second++) yield* world.advance("1 second")
    assert.isDefined(fiber.pollUnsafe(), "it ends within a minute")
    return yield* Fiber.join(fiber)
  })

/** The report of the first pass. */
export const reconciled = (life: Lives.Life) => moving(life.run(Recovery.Service.use((recovery) => recovery.started)))
