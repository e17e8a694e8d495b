import { assert, it } from "@effect/vitest"
import * as CommandSpec from "@procyon/runtime/domain/CommandSpec"
import * as BackgroundProcess from "@procyon/runtime/services/BackgroundProcess"
import { child, Lives, Recorder, RuntimeTest, type Script, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import { expect } from "vitest"

const jobsOf = (owner: string) => Effect.map(BackgroundProcess.Service, (service) => service.of(owner))

const law = <A, E>(
  name: string,
  children: Record<string, Script>,
  body: Effect.Effect<A, E, RuntimeTest.Services>
) => it.effect(name, () => Effect.provide(body, RuntimeTest.layer({ children })))

const stubborn = {
  server: child.prints("hi\n").ignores("SIGTERM").forks("helper", child, { escapes: "session" })
}

const stopStubborn = Effect.gen(function*() {
  const world = yield* World
  const jobs = yield* jobsOf("s1")
  const { id } = yield* jobs.start(CommandSpec.make("server"))
  yield* world.advance("1 minute")
  yield* Effect.forkChild(jobs.stop(id))
  yield* world.advance("10 seconds")
})

law(
  "a timeline reads well, and is the same from run to run",
  stubborn,
  Effect.gen(function*() {
    const world = yield* World
    yield* stopStubborn
    expect(yield* world.timeline()).toMatchInlineSnapshot(`
      " 0.000  spawn    server  started
      60.000  SIGTERM  server  sent
      60.000  SIGTERM  helper  sent
      65.000  SIGSTOP  server  sent
      65.000  SIGKILL  server  sent
      65.000  exit     server  SIGKILL
      65.000  release  server"
    `)
    expect(yield* world.timeline({ from: 60_000, only: Recorder.calls("signal", "exit") })).toMatchInlineSnapshot(`
      "0.000  SIGTERM  server  sent
      0.000  SIGTERM  helper  sent
      0.000  SIGCONT  server  sent
      0.000  SIGCONT  helper  gone
      5.000  SIGSTOP  server  sent
      5.000  SIGKILL  server  sent
      5.000  exit     server  SIGKILL"
    `)
  })
)

law(
  "questions and the flow of output are in it where they are asked for",
  stubborn,
  Effect.gen(function*() {
    const world = yield* World
    yield* stopStubborn
    const all = (yield* world.timeline({ only: () => true })).split("\n")
    expect(all.slice(0, 8).join("\n")).toMatchInlineSnapshot(`
      " 0.000  spawn    server  started
      60.000  look     server  leader alive: server, helper
      60.000  SIGTERM  server  sent
      60.000  SIGTERM  helper  sent
      60.000  SIGCONT  server  sent
      60.000  SIGCONT  helper  gone
      60.000  look     server  leader alive: server
      60.025  look     server  leader alive: server"
    `)
    const looks = (yield* world.recorded).filter(({ call }) => call === "look")
    assert.lengthOf(looks, yield* world.looks)
    assert.strictEqual(yield* world.timeline({ only: () => false }), "")
  })
)

law(
  "a start is answered for when it is, and told as it ended",
  {
    late: child.answersAfter("2500 millis").exits(0),
    broken: child.failsToStart("NotExecutable", "EACCES"),
    mute: child.neverAnswers()
  },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    for (const name of ["late", "broken", "mute", "missing"]) {
      yield* Effect.forkChild(Effect.exit(jobs.start(CommandSpec.make(name))), { startImmediately: true })
    }
    yield* world.drain
    expect(yield* world.timeline({ only: Recorder.calls("spawn") })).toMatchInlineSnapshot(`
      "0.000  spawn  late     no answer
      0.000  spawn  broken   NotExecutable (EACCES)
      0.000  spawn  mute     no answer
      0.000  spawn  missing  CommandNotFound (ENOENT)"
    `)
    yield* world.advance("1 minute")
    expect(yield* world.timeline({ only: Recorder.calls("spawn") })).toMatchInlineSnapshot(`
      "0.000  spawn  late     started, after 2.5 s
      0.000  spawn  broken   NotExecutable (EACCES)
      0.000  spawn  mute     interrupted, after 10 s
      0.000  spawn  missing  CommandNotFound (ENOENT)"
    `)
  })
)

law(
  "what is written to a child is told with what of it was taken",
  { echo: child.readsStdin({ echo: true }).exits(0), deaf: child },
  Effect.gen(function*() {
    const world = yield* World
    const jobs = yield* jobsOf("s1")
    for (const name of ["echo", "deaf"]) {
      const { id } = yield* jobs.start(CommandSpec.make(name, [], { stdin: "open" }))
      yield* Effect.forkChild(Effect.exit(jobs.write(id, "x".repeat(name === "deaf" ? 70_000 : 4))))
      yield* world.drain
      yield* Effect.forkChild(Effect.exit(jobs.closeStdin(id)))
      yield* world.drain
    }
    expect(yield* world.timeline()).toMatchInlineSnapshot(`
      "0.000  spawn       echo  started
      0.000  write       echo  4 of 4 bytes
      0.000  closeStdin  echo
      0.000  exit        echo  code 0
      0.000  release     echo
      0.000  spawn       deaf  started
      0.000  write       deaf  none yet of 70000 bytes
      0.000  closeStdin  deaf"
    `)
  })
)

it.effect("a detached child is told as such, and so is who attaches to it", () =>
  Effect.gen(function*() {
    const world = yield* World
    const first = yield* Lives.begin()
    yield* first.run(
      Effect.flatMap(jobsOf("s1"), (jobs) => jobs.start(CommandSpec.make("server"), { lifetime: "detached" }))
    )
    yield* world.advance("1 second")
    yield* first.kill
    yield* Lives.begin()
    yield* world.advance("1 second")
    yield* world.kill("server", 4)
    yield* world.advance("1 second")
    expect(yield* world.timeline()).toMatchInlineSnapshot(`
      "0.000  spawn    server  started, detached
      1.000  attach   server
      2.000  exit     server  code 4
      2.000  exit     server  code 4
      2.000  release  server"
    `)
  }).pipe(Effect.provide(Lives.layer({ children: { server: child } }))))

law(
  "what was recorded is data, and a copy",
  stubborn,
  Effect.gen(function*() {
    const world = yield* World
    yield* stopStubborn
    const recorded = yield* world.recorded
    assert.deepStrictEqual(JSON.parse(JSON.stringify(recorded)), recorded)
    assert.deepStrictEqual(recorded[0], {
      atMillis: 0,
      call: "spawn",
      process: "server",
      detached: false,
      answer: "started",
      answeredAtMillis: 0
    })
    const before = recorded.length
    yield* (yield* jobsOf("s1")).start(CommandSpec.make("server"))
    assert.lengthOf(recorded, before)
    assert.isAbove((yield* world.recorded).length, before)
  })
)
