import { describe, it } from "@effect/vitest"
import * as ProcessDriver from "@procyon/runtime/ports/ProcessDriver"
import { DriverLaws, ScriptedDriver } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { refuted } from "./refuted.ts"
import { children, options } from "./vices.ts"

const driver = ScriptedDriver.layer({ children })

DriverLaws.driverLaws("ScriptedDriver", driver, options)

type Driver = ProcessDriver.ProcessDriver

/** Drivers with one fault each, and the law that has to catch it. */
const faulty: ReadonlyArray<readonly [fault: string, law: string, (driver: Driver) => Partial<Driver>]> = [
  [
    "answers with a marker of its own",
    "spawn answers with an identity that carries the marker asked for",
    (driver) => ({
      spawn: (request) => driver.spawn({ ...request, marker: "PROCYON_MARK_fixed" })
    })
  ],
  [
    "takes every exit for a success",
    "tells the exit code as the system gave it",
    (driver) => ({
      spawn: (request) => driver.spawn({ ...request, onExit: () => request.onExit({ code: 0, signal: null }) })
    })
  ],
  [
    "tells an exit twice",
    "tells the signal that ended a child, once",
    (driver) => ({
      spawn: (request) =>
        driver.spawn({
          ...request,
          onExit: (exit) => {
            request.onExit(exit)
            request.onExit(exit)
          }
        })
    })
  ],
  [
    "tells the exit before the last bytes",
    "all the leader wrote is committed before its exit is told",
    (driver) => ({
      spawn: (request) => {
        const { flush, sink } = lateSink(request.stdout)
        return driver.spawn({
          ...request,
          stdout: sink,
          onExit: (exit) => {
            request.onExit(exit)
            flush()
          }
        })
      }
    })
  ],
  [
    "takes the end of the output for the exit",
    "the end of the output is not an exit",
    (driver) => ({
      spawn: (request) =>
        driver.spawn({
          ...request,
          stdout: {
            ...request.stdout,
            end: () => {
              request.stdout.end()
              request.onExit({ code: 0, signal: null })
            }
          }
        })
    })
  ],
  [
    "ends the output at the exit",
    "an exit is not the end of the output",
    (driver) => ({
      spawn: (request) =>
        driver.spawn({
          ...request,
          onExit: (exit) => {
            request.stdout.end()
            request.onExit(exit)
          }
        })
    })
  ],
  [
    "reads on when paused",
    "a paused stream commits nothing until it is resumed, and loses nothing",
    (driver) => ({
      spawn: (request) =>
        driver.spawn({
          ...request,
          stdout: { ...request.stdout, commit: (count) => request.stdout.commit(count) || true }
        })
    })
  ],
  [
    "keeps merged streams apart",
    "output: gives one sink both streams in their order when merged, and ends it once",
    (driver) => ({
      spawn: (request) =>
        driver.spawn({
          ...request,
          stderr: request.stderr === "merged" ? lateSink(request.stdout).sink : request.stderr
        })
    })
  ],
  [
    "claims that every byte was taken",
    "a child that closed its stdin takes fewer bytes than given",
    (driver) => withChild(driver, (child) => ({ write: (bytes) => Effect.as(child.write(bytes), bytes.length) }))
  ],
  [
    "kills by bare pid",
    "a signal to a pid with another start time is never sent",
    (driver) => ({
      signal: (root, targets, signal) =>
        Effect.flatMap(driver.look([root]), ([look]) =>
          driver.signal(root, {
            members: look!.members.filter(({ pid }) => targets.members.some((member) => member.pid === pid))
          }, signal))
    })
  ],
  [
    "finds nobody that left the session",
    "finds a daemon by its marker",
    (driver) =>
      withLook(driver, (look) => ({ members: look.members.filter(({ session }) => session === look.root.pid) }))
  ],
  [
    "forgets the tree with its leader",
    "finds and ends a member that outlived its leader",
    (driver) => withLook(driver, (look) => look.leader === "gone" ? { members: [] } : {})
  ],
  [
    "lists the dead",
    "a dead process that nobody waited for is not a member",
    (driver) =>
      withLook(driver, (look) => ({
        members: look.members.flatMap((member) => [member, { ...member, pid: member.pid + 1, state: "Z" }])
      }))
  ],
  [
    "leaves the process of an interrupted start",
    "an interrupted slow start leaves no process",
    (driver) => ({ spawn: (request) => Effect.flatMap(Effect.forkDetach(driver.spawn(request)), Fiber.join) })
  ],
  [
    "ends what it releases",
    "releasing touches no process, and a second time nothing",
    (driver) =>
      withChild(driver, ({ identity, release }) => ({
        release: Effect.flatMap(driver.look([identity]), ([look]) =>
          Effect.andThen(driver.signal(identity, { members: look!.members }, "SIGKILL"), release))
      }))
  ],
  [
    "takes a zombie for alive",
    "tells a zombie from a living process",
    () => ({ probe: () => Effect.succeed("alive") })
  ],
  [
    "tells the exit of a stranger",
    "to attach to a leader that is somebody else now signals nobody and says gone",
    (driver) => ({ attach: (request) => driver.attach({ ...request, onExit: () => undefined }) })
  ],
  [
    "forgets what a detached process wrote before",
    "outlives the release, and is found with all its output and its exit",
    (driver) => ({ attach: (request) => driver.attach({ ...request, stdout: lateSink(request.stdout).sink }) })
  ],
  [
    "takes an exit that was never recorded for a success",
    "an exit that was never recorded is unknown",
    (driver) => ({
      attach: (request) => driver.attach({ ...request, onExit: () => request.onExit({ code: 0, signal: null }) })
    })
  ],
  [
    "ends the output of a detached process at its exit",
    "tells all output and then the exit, and ends the output when it is told to",
    (driver) => ({
      spawn: (request) =>
        driver.spawn({
          ...request,
          onExit: (exit) => {
            request.stdout.end()
            request.onExit(exit)
          }
        })
    })
  ],
  [
    "keeps no files",
    "what ended while nobody was there tells its exit",
    (driver) => ({ attach: (request) => driver.attach({ ...request, detached: null }) })
  ]
]

/** Commits what it was given, and tells the end, only when it is flushed. */
const lateSink = (sink: ProcessDriver.OutputSink) => {
  const held: Array<Uint8Array> = []
  const region = new Uint8Array(4096)
  return {
    sink: {
      reserve: () => region,
      commit: (count: number) => held.push(region.slice(0, count)) > 0,
      end: () => undefined
    },
    flush: () => {
      for (const bytes of held) {
        sink.reserve().set(bytes)
        sink.commit(bytes.length)
      }
      sink.end()
    }
  }
}

const withChild = (
  driver: Driver,
  change: (child: ProcessDriver.Child) => Partial<ProcessDriver.Child>
): Partial<Driver> => ({
  spawn: (request) =>
    Effect.map(driver.spawn(request), (child) => ({
      identity: child.identity,
      write: (bytes) => child.write(bytes),
      closeStdin: (options) => child.closeStdin(options),
      resume: (stream) => child.resume(stream),
      drain: (stream) => child.drain(stream),
      finish: child.finish,
      release: child.release,
      ...change(child)
    }))
})

const withLook = (
  driver: Driver,
  change: (look: ProcessDriver.TreeLook) => Partial<ProcessDriver.TreeLook>
): Partial<Driver> => ({
  look: (roots) => Effect.map(driver.look(roots), (looks) => looks.map((look) => ({ ...look, ...change(look) })))
})

describe("the laws notice a driver that", () => {
  it.effect.each(faulty)("%s", ([, name, fault]) => {
    const faultyDriver = Layer.effect(
      ProcessDriver.Service,
      Effect.map(ProcessDriver.Service, (driver) => ({ ...driver, ...fault(driver) }))
    ).pipe(Layer.provide(driver))
    return refuted(DriverLaws.laws(options), name, faultyDriver)
  })
})
