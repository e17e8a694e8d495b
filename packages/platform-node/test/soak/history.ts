/**
 * One simulated history on real processes, twenty times as fast, on a runtime that it shares with others: what makes sense
 * without a scripted world is done, and at its end all of its jobs are settled, told of once, and gone.
 */
import { AppProcess, type BackgroundProcess, Workspace } from "@procyon/runtime"
import type { Simulator } from "@procyon/testing"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { isLiving, living } from "../support/table.ts"
import { commandOf } from "./commands.ts"

const speed = 20
const patienceMillis = 20_000
const owners = ["a", "b", "c"]

const scaled = (millis: number): number => Math.ceil(millis / speed)

const optionsOf = (options: Simulator.JobOptions, workspace: Workspace.Workspace | undefined) => {
  const { cap, deadline, forceWindow: _, grace, idleDeadline, workspace: __, ...others } = options
  return {
    ...others,
    // Nobody adopts what this program leaves, so nothing may outlive it.
    ...(others.lifetime === "detached" ? { lifetime: "application" as const } : {}),
    ...(deadline === undefined ? {} : { deadline: scaled(deadline) }),
    ...(idleDeadline === undefined ? {} : { idleDeadline: scaled(idleDeadline) }),
    ...(grace === undefined ? {} : { grace: scaled(grace) }),
    ...(cap === undefined ? {} : { output: { cap } }),
    ...(workspace === undefined ? {} : { workspace })
  }
}

export interface Places {
  /** Where workspaces are made. */
  readonly root: string
  /** Digits that nobody else uses. */
  readonly tag: string
  readonly jobsOf: (owner: string) => BackgroundProcess.Jobs
}

/** Answers with how many starts it asked for, and what was not as promised. */
export const run = (history: Simulator.History, { jobsOf, root, tag }: Places) =>
  Effect.gen(function*() {
    const app = yield* AppProcess.Service
    const workspaces = yield* Workspace.Service
    const problems: Array<string> = []
    const ids = new Map<string, { readonly jobs: BackgroundProcess.Jobs; readonly id: string }>()
    const told = new Map<string, Array<string>>()
    const forgotten = new Set<string>()
    const asked = new Set<Fiber.Fiber<unknown, unknown>>()
    const held = new Map<string, { readonly workspace: Workspace.Workspace; readonly scope: Scope.Closeable }>()
    const nameOf = (owner: string) => `${owner}${tag}`
    let started = 0

    const ask = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      Effect.map(Effect.forkDetach(Effect.exit(effect), { startImmediately: true }), (fiber) => {
        asked.add(fiber)
        return fiber
      })
    const withdraw = (fiber: Fiber.Fiber<unknown, unknown>, after: number | undefined) =>
      after === undefined ? Effect.void : ask(Effect.delay(Fiber.interrupt(fiber), scaled(after)))
    const onJob = (job: string, use: (jobs: BackgroundProcess.Jobs, id: string) => Effect.Effect<unknown, unknown>) => {
      const known = ids.get(job)
      return known === undefined ? Effect.void : ask(use(known.jobs, known.id))
    }
    const hear = (notices: ReadonlyArray<BackgroundProcess.Notice>): void => {
      for (const notice of notices) {
        if (notice._tag === "Job" && !notice.repeated) {
          told.set(notice.id, [...told.get(notice.id) ?? [], notice.status])
        }
      }
    }

    const perform = (act: Simulator.Action): Effect.Effect<unknown> => {
      switch (act._tag) {
        case "Start":
          return Effect.suspend(() => {
            started++
            const jobs = jobsOf(nameOf(act.owner))
            const options = optionsOf(act.options ?? {}, held.get(act.options?.workspace ?? "")?.workspace)
            const start = Effect.map(jobs.start(commandOf(act.child, tag), options), ({ id }) =>
              ids.set(act.job, { jobs, id }))
            return Effect.flatMap(ask(start), (fiber) =>
              withdraw(fiber, act.withdrawAfter))
          })
        case "Run":
          return Effect.suspend(() => {
            started++
            const options = {
              deadline: 500,
              ...optionsOf(act.options ?? {}, held.get(act.options?.workspace ?? "")?.workspace)
            }
            return Effect.flatMap(
              ask(app.run(commandOf(act.child, tag), options)),
              (fiber) => withdraw(fiber, act.withdrawAfter)
            )
          })
        case "Stop":
          return onJob(act.job, (jobs, id) => jobs.stop(id, { now: act.now }))
        case "StopAll":
          return ask(jobsOf(nameOf(act.owner)).stopAll)
        case "Retire":
          return ask(jobsOf(nameOf(act.owner)).retire)
        case "Wait":
          return onJob(act.job, (jobs, id) => jobs.wait(id))
        case "Receipt":
          return onJob(act.job, (jobs, id) => Effect.timeoutOption(jobs.termination(id), scaled(act.giveUpAfter)))
        case "Retry":
          return onJob(act.job, (jobs, id) => jobs.retryTermination(id))
        case "Extend":
          return onJob(act.job, (jobs, id) => jobs.extend(id, scaled(act.deadline)))
        case "Write":
          return onJob(act.job, (jobs, id) => jobs.write(id, "z".repeat(act.bytes)))
        case "CloseStdin":
          return onJob(act.job, (jobs, id) => jobs.closeStdin(id))
        case "RetrySpill":
          return onJob(act.job, (jobs, id) => jobs.retrySpill(id))
        case "Forget":
          return onJob(act.job, (jobs, id) =>
            Effect.map(jobs.forget(id), (done) => {
              if (done) forgotten.add(id)
            }))
        case "Follow":
          return onJob(act.job, (jobs, id) =>
            Effect.flatMap(
              act.stream === "stdout" ? jobs.output(id) : jobs.errorOutput(id),
              (view) => Stream.runDrain(view.followBytes({ since: act.since, limit: 4096 }))
            ))
        case "Notices": {
          const jobs = jobsOf(nameOf(act.owner))
          const taking = act.how === "await" ? jobs.awaitNotices : jobs.notices
          return ask(Effect.map(act.how === "consume" ? jobs.notices : taking, hear))
        }
        case "Kill":
          return Effect.sync(() => {
            const victim = living(tag)[0]
            if (victim === undefined || !isLiving(victim)) return
            try {
              process.kill(victim.pid, "SIGKILL")
            } catch {
              // Gone meanwhile.
            }
          })
        case "Acquire":
          return ask(Effect.gen(function*() {
            if (held.has(act.workspace)) return
            const scope = yield* Scope.make()
            const workspace = yield* Scope.provide(
              workspaces.acquire({ root, name: `${act.workspace}-${tag}` }),
              scope
            ).pipe(Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause))))
            held.set(act.workspace, { workspace, scope })
          }))
        case "Release": {
          const scope = held.get(act.workspace)?.scope
          held.delete(act.workspace)
          return scope === undefined ? Effect.void : ask(Scope.close(scope, Exit.void))
        }
        default:
          return Effect.void
      }
    }

    for (const { act, wait } of history.steps) {
      yield* perform(act)
      yield* wait > 0 ? Effect.sleep(scaled(wait)) : Effect.yieldNow
    }

    // All of it ends now.
    const ended = yield* Effect.timeoutOption(
      Effect.gen(function*() {
        for (const owner of owners) yield* jobsOf(nameOf(owner)).stopAll
        for (const { scope } of held.values()) yield* Scope.close(scope, Exit.void)
        for (const owner of owners) yield* jobsOf(nameOf(owner)).retire
        // Whoever still waits for notices that will not come stops waiting.
        yield* Effect.sleep(50)
        for (const fiber of asked) {
          if (fiber.pollUnsafe() === undefined) yield* Effect.timeoutOption(Fiber.interrupt(fiber), patienceMillis)
        }
        for (const owner of owners) yield* Effect.map(jobsOf(nameOf(owner)).notices, hear)
      }),
      Duration.millis(patienceMillis * 2)
    )
    if (Option.isNone(ended)) problems.push("it did not end")
    // Two starts may have joined one job.
    for (const { id, jobs } of new Map([...ids.values()].map((known) => [known.id, known])).values()) {
      const statuses = told.get(id) ?? []
      if (statuses.length !== 1) problems.push(`${id} was told of ${statuses.length} times: ${statuses.join(" ")}`)
      if (forgotten.has(id)) continue
      const info = yield* Effect.option(jobs.get(id))
      if (Option.isNone(info)) problems.push(`${id} is not listed`)
      else if (info.value.receipt === null || info.value.status !== statuses[0]) {
        problems.push(`${id} is ${info.value.status}, and was told of as ${statuses.join(" ")}`)
      } else yield* jobs.forget(id)
    }
    const left = living(tag)
    for (const { name, pid } of left) problems.push(`${name} (${pid}) lives`)
    return { started, problems: problems.map((problem) => `history ${history.seed}: ${problem}`) }
  })
