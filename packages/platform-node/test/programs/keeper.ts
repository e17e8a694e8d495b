/**
 * An application with a keeper. Run by the tests of the keeper driver, which kill it. Arguments: what it does, and a tag
 * that is in the command line of everything it starts.
 *
 * - `jobs`: starts one job of each vice, says so, and then starts more and more until it is killed.
 * - `live`: has one child that waits, says so, and has nothing else to do. It says too when its keeper was replaced.
 * - `idle`: has had a child and has none left; it does not close its driver.
 * - `closes`: closes its driver with a child that was not released, and one that was.
 * - `replacing`: kills its keeper, and itself while the next one is coming.
 * - `releasing`: releases a child while its keeper is stopped, with orders before it that the keeper answers, and kills
 *   itself. It says the number of that child.
 */
import { NodeKeeperDriver } from "@procyon/platform-node"
import type * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { Arena, exec, lookAt, newMarker, shell } from "../internal/bench.ts"
import { keepersOf, seenAt } from "../support/processes.ts"

const [how = "", tag = ""] = process.argv.slice(2)

const say = (what: string): void => void process.stdout.write(`${what}\n`)

const vices = [
  `exec sleep 300.${tag}`,
  `trap '' TERM; echo ready; exec sleep 300.${tag}`,
  `setsid sleep 300.${tag} & wait`,
  `set -m; sleep 300.${tag} & wait`,
  `(setsid sleep 300.${tag} >/dev/null 2>&1 &); exit 0`,
  `while :; do sleep 0.01${tag} & sleep 0.01; done`
]

const spawn = (driver: ProcessDriver.ProcessDriver, script: string, out = new Arena()) =>
  Effect.gen(function*() {
    let exited = false
    const child = yield* driver.spawn({
      command: shell(script, {}, "/bin/bash"),
      marker: newMarker(),
      stdout: out,
      stderr: "merged",
      onExit: () => {
        exited = true
      }
    })
    return { child, out, hasExited: () => exited }
  })

const until = (holds: Effect.Effect<boolean>): Effect.Effect<void> =>
  Effect.gen(function*() {
    while (!(yield* holds)) yield* Effect.sleep(5)
  })

const scope = Scope.makeUnsafe()
const options = { graceMillis: 300, onLost: () => say("replaced") }
const driver = await Effect.runPromise(Scope.provide(NodeKeeperDriver.make(options), scope))

const jobs = Effect.gen(function*() {
  const started = yield* Effect.forEach(vices, (script) => spawn(driver, script), { concurrency: "unbounded" })
  for (const { child, out } of started.slice(1, 2)) {
    yield* until(Effect.sync(() => out.text.includes("ready")))
    yield* until(Effect.map(lookAt(driver, child.identity), ({ members }) => members.length === 1))
  }
  for (const { child } of started.slice(2, 4)) {
    yield* until(Effect.map(lookAt(driver, child.identity), ({ members }) => members.length === 2))
  }
  for (const { hasExited } of started.slice(4, 5)) yield* until(Effect.sync(hasExited))
  say("up")
  for (;;) yield* Effect.forEach(Array.from({ length: 5 }), () => spawn(driver, `exec sleep 300.${tag}`))
})

switch (how) {
  case "jobs":
    await Effect.runPromise(jobs)
    break
  case "live":
    await Effect.runPromise(spawn(driver, `exec sleep 300.${tag}`))
    say("up")
    break
  case "idle": {
    const { child, hasExited } = await Effect.runPromise(spawn(driver, "exit 0"))
    await Effect.runPromise(until(Effect.sync(hasExited)))
    await Effect.runPromise(child.release)
    say("done")
    break
  }
  case "closes": {
    const [kept] = await Effect.runPromise(Effect.all([
      spawn(driver, `exec sleep 301.${tag}`),
      spawn(driver, `exec sleep 300.${tag}`)
    ]))
    await Effect.runPromise(kept.child.release)
    await Effect.runPromise(Scope.close(scope, Exit.void))
    say("done")
    break
  }
  case "replacing": {
    await Effect.runPromise(spawn(driver, `setsid sleep 300.${tag} & trap '' TERM; echo up; wait`))
    const [first] = keepersOf(process.pid)
    process.kill(first?.pid ?? 0, "SIGKILL")
    await Effect.runPromise(until(Effect.sync(() => keepersOf(process.pid).some(({ pid }) => pid !== first?.pid))))
    process.kill(process.pid, "SIGKILL")
    break
  }
  case "releasing": {
    const { child } = await Effect.runPromise(spawn(driver, `exec sleep 300.${tag}`))
    const [keeper] = keepersOf(process.pid)
    process.kill(keeper?.pid ?? 0, "SIGSTOP")
    await Effect.runPromise(until(Effect.sync(() => seenAt(keeper?.pid ?? 0)?.state === "T")))
    await Effect.runPromise(Effect.gen(function*() {
      yield* Effect.forkDetach(driver.signal(child.identity, { members: [] }, "SIGCONT"), { startImmediately: true })
      // More than is read at once.
      const large = { command: exec("true", ["x".repeat(100_000)]), marker: newMarker() }
      const request = { ...large, stdout: new Arena(), stderr: "merged" as const, onExit: () => {} }
      yield* Effect.forkDetach(driver.spawn(request), { startImmediately: true })
      yield* child.release
    }))
    say(String(child.identity.pid))
    process.kill(process.pid, "SIGKILL")
  }
}
