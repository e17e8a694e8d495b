// What does a history that once broke a promise look like, as a test? Printed by `npm run simulate`, and pasted here.
import { it } from "@effect/vitest"
import { Simulator } from "@procyon/testing"

it.live("a start that was answered for, and then failed, is told of in the next life", () =>
  Simulator.check({
    seed: 1,
    settings: {},
    faults: [],
    steps: [{ act: { _tag: "Start", job: "j1", owner: "a", child: "unanswered" }, wait: 15_000 }]
  }))
