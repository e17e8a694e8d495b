import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Events from "../../../src/services/jobs/Events.ts"
import * as Notices from "../../../src/services/jobs/Notices.ts"
import { Owners } from "../../../src/services/jobs/Owners.ts"
import { defaults } from "../../../src/services/Settings.ts"

const setup = () => {
  const owners = new Owners(4)
  const host = {
    settings: defaults,
    timers: { now: () => 0, after: () => ({ cancel: () => undefined }) },
    fork: Effect.runFork,
    forget: () => Effect.void
  }
  const rows = {
    insert: () => Effect.succeed(true),
    move: () => Effect.succeed("written" as const),
    note: () => Effect.succeed("written" as const),
    holds: () => Effect.succeed(true),
    claim: () => Effect.succeed(null),
    waive: () => Effect.void,
    adopt: () => undefined,
    release: () => Effect.void,
    remove: () => Effect.void,
    abandon: () => Effect.succeed(true),
    keepFailed: () => Effect.void
  }
  return { owners, events: Events.make(host, owners), notices: Notices.make(host, owners, rows) }
}

const names = (owners: Owners) => owners.all.map((owner) => owner.name)

it.effect("an owner who only listened is forgotten with the stream", () =>
  Effect.gen(function*() {
    const { events, owners } = setup()
    const listening = yield* Effect.forkChild(Stream.runDrain(events.of("s1")), { startImmediately: true })
    yield* TestClock.adjust(0)
    assert.deepStrictEqual(names(owners), ["s1"])
    yield* Fiber.interrupt(listening)
    assert.deepStrictEqual(names(owners), [])
  }))

it.effect("an owner who only waited for a notice is forgotten with the wait", () =>
  Effect.gen(function*() {
    const { notices, owners } = setup()
    const waiting = yield* Effect.forkChild(notices.await("s1"), { startImmediately: true })
    assert.deepStrictEqual(names(owners), ["s1"])
    yield* Fiber.interrupt(waiting)
    assert.deepStrictEqual(names(owners), [])
  }))

it.effect("an owner is forgotten when its last notice is taken and it has no job left", () =>
  Effect.gen(function*() {
    const { notices, owners } = setup()
    owners.of("s1").notices.add({ _tag: "Summary", dropped: 1 })
    assert.strictEqual((yield* notices.take("s1")).length, 1)
    assert.deepStrictEqual(names(owners), [])
  }))

it("tidying up after an owner leaves its successor of the same name alone", () => {
  const { owners } = setup()
  const first = owners.of("s1")
  owners.tidy(first)
  const second = owners.of("s1")
  owners.tidy(first)
  assert.strictEqual(owners.known("s1"), second)
})
