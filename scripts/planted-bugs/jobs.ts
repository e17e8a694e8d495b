import type { PlantedBug } from "./PlantedBug.ts"

const services = "packages/runtime/src/services"
const listed = ["runtime/test/services/BackgroundProcess"]
const faults = ["runtime/test/services/BackgroundProcess", "runtime/test/services/faults"]
const recovery = ["runtime/test/services/Recovery", "runtime/test/services/Recovery.faults"]

/** Jobs of owners: who may start, rows, notices, and what a later life makes of them. */
export const jobs: ReadonlyArray<PlantedBug> = [
  {
    name: "spawn-before-the-row",
    file: `${services}/host/Starting.ts`,
    find: "const recorded = yield* recordFirst(process)",
    replace: "const recorded = true\n        core.fork(recordFirst(process))",
    about: "a runtime that is killed at a start leaves a process that no row names",
    laws: faults,
    simulated: true
  },
  {
    name: "start-without-a-row",
    file: `${services}/host/Starting.ts`,
    find: "        if (!recorded) return dispatch(process, { _tag: \"StartFailed\" })\n",
    replace: "",
    about: "a job is started although its row could not be written",
    laws: faults,
    simulated: true
  },
  {
    name: "identity-not-recorded",
    file: `${services}/BackgroundProcess.ts`,
    find: "identity: job.process.child?.identity ?? null, deadlineAt",
    replace: "deadlineAt",
    about: "a later life does not know which process a row means",
    laws: [...listed, ...recovery],
    simulated: false
  },
  {
    name: "marker-not-recorded",
    file: `${services}/jobs/Rows.ts`,
    find: "identity: self === null ? null : unborn(self.bootId, process.marker)",
    replace: "identity: null",
    about: "what a killed runtime was just starting is not found by the next one",
    laws: recovery,
    simulated: true
  },
  {
    name: "notice-before-the-row",
    file: `${services}/BackgroundProcess.ts`,
    find: "      const outcome = yield* rows.move(job, endOf(job))\n",
    replace: `      host.fork(Effect.andThen(Effect.yieldNow, rows.move(job, endOf(job))))
      const outcome = job.row.lost ? "lost" : "written"
`,
    about: "an owner is told of an end that its row does not know of, and is told again after a crash",
    laws: faults,
    simulated: true
  },
  {
    name: "double-notice",
    file: `${services}/JobNotice.ts`,
    find: "    this.#notices = this.#notices.filter((notice) => !taken.includes(notice))\n",
    replace: "",
    about: "an owner is told of the same end twice",
    laws: ["runtime/test/services/JobNotice", ...listed],
    simulated: true
  },
  {
    name: "taken-notice-not-recorded",
    file: `${services}/jobs/Notices.ts`,
    find: "claim(owner, (status) => ({ offered: status, told: status }))",
    replace: "claim(owner, (status) => ({ offered: status }))",
    about: "a notice that was taken comes once more after a restart",
    laws: recovery,
    simulated: true
  },
  {
    name: "told-rows-told-again",
    file: `${services}/jobs/Reconciling.ts`,
    find: "row.status === \"running\" || row.told === row.status ? null",
    replace: "row.status === \"running\" ? null",
    about: "every restart tells of all ends of earlier lives",
    laws: recovery,
    simulated: true
  },
  {
    name: "untold-rows-stay-silent",
    file: `${services}/jobs/Reconciling.ts`,
    find: "tell: job.concluded ? tell : null }",
    replace: "tell: null }",
    about: "an end that nobody was told of before a crash is told to nobody",
    laws: recovery,
    simulated: true
  },
  {
    name: "failed-consumer-loses-notices",
    file: `${services}/jobs/Notices.ts`,
    find: "          owner.notices.putBack(notices)\n",
    replace: "",
    about: "a consumer that fails takes the notices with it",
    laws: [...recovery, "runtime/test/services/JobNotice"],
    simulated: true
  },
  {
    name: "both-owners-told",
    file: `${services}/jobs/Notices.ts`,
    find:
      "const told = taken.filter((notice) => notice._tag === \"Summary\" || owner.jobs.get(notice.id)?.row.lost !== true)",
    replace: "const told = taken",
    about: "a runtime that was stopped for long tells of a job that another one has told of",
    laws: recovery,
    simulated: true
  },
  {
    name: "no-notice-of-kill-failed",
    file: `${services}/BackgroundProcess.ts`,
    find: "      notices.add(owner, job)\n      events.killFailed(owner, job)",
    replace: "      events.killFailed(owner, job)",
    about: "nobody is told that a job could not be ended",
    laws: listed,
    simulated: true
  },
  {
    name: "lost-summary",
    file: `${services}/JobNotice.ts`,
    find: "      this.#notices.shift()\n      this.#dropped++",
    replace: "      this.#notices.shift()",
    about: "notices that were too many are gone without a word",
    laws: ["runtime/test/services/JobNotice"],
    simulated: false
  },
  {
    name: "fence-not-raised",
    file: `${services}/jobs/Rows.ts`,
    find: "const claimed = { holder: self, fence: row.fence + 1, leaseUntil: leaseUntil() }",
    replace: "const claimed = { holder: self, fence: row.fence, leaseUntil: leaseUntil() }",
    about: "a runtime that was stopped goes on writing rows that another one has taken over",
    laws: recovery,
    simulated: true
  },
  {
    name: "refused-claim-adopts",
    file: `${services}/jobs/Rows.ts`,
    find: "onSome: (isOurs) => isOurs ? { ...row, ...claimed } : null",
    replace: "onSome: () => ({ ...row, ...claimed })",
    about: "of two runtimes that start at once, both take the same job",
    laws: recovery,
    simulated: true
  },
  {
    name: "stopped-runtime-acts",
    file: `${services}/jobs/Rows.ts`,
    find: "timers.now() < row.certainUntilMono && clock.currentTimeMillisUnsafe() < row.certainUntil",
    replace: "true || job.row.lost",
    about: "a runtime that was stopped past its leases signals jobs that are another one's by now",
    laws: recovery,
    simulated: true
  },
  {
    name: "signal-without-asking",
    file: `${services}/host/OwnedProcess.ts`,
    find: "process.hooks.mayAct ?? Effect.succeed(true)",
    replace: "Effect.succeed(true)",
    about: "a process is signalled although its row is another runtime's",
    laws: recovery,
    simulated: true
  },
  {
    name: "clock-jump-takes-from-the-living",
    file: `${services}/jobs/Reconciling.ts`,
    find: "if (vitality === \"unknown\" && row.leaseUntil <= clock.currentTimeMillisUnsafe()) return true",
    replace: "if (row.leaseUntil <= clock.currentTimeMillisUnsafe()) return true",
    about: "a wall clock that is set forward lets one runtime take the jobs of another that lives",
    laws: recovery,
    simulated: true
  },
  {
    name: "one-renewal-only",
    file: `${services}/jobs/Rows.ts`,
    find: "      renewal = null\n      armRenewal()\n",
    replace: "      renewal = null\n",
    about: "leases run out while their holder lives",
    laws: [...recovery, ...faults],
    simulated: true
  },
  {
    name: "missed-write-forgotten",
    file: `${services}/jobs/Rows.ts`,
    find: "      host.fork(catchUp)\n",
    replace: "",
    about: "a row that a ledger could not take once says running for ever",
    laws: faults,
    simulated: true
  },
  {
    name: "lease-not-given-up",
    file: `${services}/jobs/Rows.ts`,
    find: "return Effect.asVoid(move(job, { holder: null, leaseUntil: released }))",
    replace: "return Effect.void",
    about: "an application that was closed and begun anew finds its jobs only when their leases have run out",
    laws: [...recovery],
    simulated: false
  },
  {
    name: "ids-not-continued",
    file: `${services}/jobs/Reconciling.ts`,
    find: "    host.continueAfter(newest)\n",
    replace: "",
    about: "a clock that went back lets a new job have an id that sorts before the old ones",
    laws: recovery,
    simulated: false
  },
  {
    name: "deadline-not-kept-over-a-restart",
    file: `${services}/host/Adopting.ts`,
    find: "const deadlineMillis = row.deadlineAt === null ? null : Math.max(0, row.deadlineAt - row.startedAt)",
    replace: "const deadlineMillis = null",
    about: "an adopted job has no deadline any more",
    laws: recovery,
    simulated: false
  },
  {
    name: "adopted-job-not-watched",
    file: `${services}/host/Adopting.ts`,
    find: "      options.watch(process)\n",
    replace: "",
    about: "an adopted job has neither a deadline nor a beat",
    laws: recovery,
    simulated: true
  },
  {
    name: "clock-back-gives-time",
    file: `${services}/host/Adopting.ts`,
    find: "startedMono: timers.now() - Math.max(0, clock.currentTimeMillisUnsafe() - row.startedAt)",
    replace: "startedMono: timers.now() - (clock.currentTimeMillisUnsafe() - row.startedAt)",
    about: "a wall clock that went back an hour gives an adopted job that hour",
    laws: recovery,
    simulated: false
  },
  {
    name: "detached-job-ended-by-a-restart",
    file: `${services}/jobs/Reconciling.ts`,
    find: "        if (lifetime === \"detached\") return\n",
    replace: "",
    about: "a job that was to outlive its application is ended by the next one",
    laws: recovery,
    simulated: true
  },
  {
    name: "detached-job-ended-by-a-close",
    file: `${services}/ShutdownBarrier.ts`,
    find: "!detached || endingPhases.has(Lifecycle.phaseOf(state))",
    replace: "!detached || state._tag !== \"Settled\"",
    about: "a job that was to outlive its application is ended with it",
    laws: recovery,
    simulated: true
  },
  {
    name: "untraceable-called-lost",
    file: `${services}/host/Adopting.ts`,
    find: "      if (child === null) return core.dispatch(process, { _tag: \"Untraceable\" })\n",
    replace:
      "      if (child === null) return core.dispatch(process, { _tag: \"Exited\", exit: { code: null, signal: null } })\n",
    about: "a job of which the driver says nothing is taken for ended",
    laws: recovery,
    simulated: false
  },
  {
    name: "unfinished-blob-stays",
    file: `${services}/host/Adopting.ts`,
    find: "      process.cleaned = Effect.asVoid(Fiber.await(core.fork(removeUnfinished(row))))\n",
    replace: "",
    about: "what a killed application was writing stays on the disk for ever",
    laws: ["runtime/test/services/Recovery.blobs"],
    simulated: false
  },
  {
    name: "admission-slot-leaked",
    file: `${services}/jobs/Owners.ts`,
    find: "for (const job of this.jobs.values()) if (!job.isSettled) count++",
    replace: "for (const job of this.jobs.values()) if (!job.isSettled || job.noticed !== null) count++",
    about: "an owner that does not read its notices cannot start anything any more",
    laws: [...listed, "runtime/test/services/jobs/Owners"],
    simulated: true
  },
  {
    name: "failed-start-stays-listed",
    file: `${services}/BackgroundProcess.ts`,
    find: "        owner.jobs.delete(job.process.id)\n        host.fork(rows.keepFailed(job))",
    replace: "        host.fork(rows.keepFailed(job))",
    about: "a start that failed is listed as a job",
    laws: listed,
    simulated: true
  },
  {
    name: "retired-owner-accepts",
    file: `${services}/jobs/Admission.ts`,
    find: "      retired.add(owner)\n",
    replace: "",
    about: "a session that is over starts jobs that nobody will end",
    laws: listed,
    simulated: true
  },
  {
    name: "forgotten-before-told",
    file: `${services}/jobs/Notices.ts`,
    find: ": finished.filter((job) => job.noticed === null && job.offering === 0).slice(0, excess)",
    replace: ": finished.slice(0, excess)",
    about: "the record of a job goes before its owner was told of its end",
    laws: listed,
    simulated: false
  },
  {
    name: "forgotten-before-the-news",
    file: `${services}/BackgroundProcess.ts`,
    find: "if (owner === undefined || !job.concluded) return Effect.succeed(false)",
    replace: "if (owner === undefined || !job.isSettled) return Effect.succeed(false)",
    about: "a job that is forgotten as it ends is told of by nobody",
    laws: faults,
    simulated: false
  },
  {
    name: "settled-name-still-taken",
    file: `${services}/jobs/Owners.ts`,
    find: "if (job.name === name && !job.isSettled) return job",
    replace: "if (job.name === name) return job",
    about: "asked again, an owner joins a job that is over",
    laws: [...listed, "runtime/test/services/jobs/Owners"],
    simulated: true
  },
  {
    name: "foreign-jobs-ended",
    file: `${services}/BackgroundProcess.ts`,
    find: "(job) => job.lifetime === \"session\"),",
    replace: "() => true),",
    about: "the end of a session ends the application's jobs too",
    laws: listed,
    simulated: true
  },
  {
    name: "missed-events-not-told",
    file: "packages/runtime/src/internal/EventRing.ts",
    find: "      this.#dropped += excess\n",
    replace: "",
    about: "an observer that fell behind does not know that it missed anything",
    laws: ["runtime/test/internal/EventRing"],
    simulated: false
  },
  {
    name: "barrier-does-not-wait-for-a-late-start",
    file: `${services}/ShutdownBarrier.ts`,
    find: "Effect.all([endAll(ending()), awaitStarts], { concurrency: \"unbounded\" })",
    replace: "endAll(ending())",
    about: "a detached job that just starts when the application closes is never found again",
    laws: recovery,
    simulated: true
  },
  {
    name: "admitted-while-closing",
    file: `${services}/ProcessHost.ts`,
    find: "    if (draining) return null\n",
    replace: "",
    about: "what is started during a shutdown is ended by nobody",
    laws: ["runtime/test/services/ShutdownBarrier", ...listed],
    simulated: true
  },
  {
    name: "barrier-gives-up-on-kill-failed",
    file: `${services}/ShutdownBarrier.ts`,
    find: "process.state._tag === \"Unresolved\" ? host.retry(process) : Deferred.await(process.ended)",
    replace: "Deferred.await(process.ended)",
    about: "a shutdown does not try again what could not be ended before",
    laws: ["runtime/test/services/ShutdownBarrier"],
    simulated: true
  },
  {
    name: "grace-past-the-budget",
    file: `${services}/ShutdownBarrier.ts`,
    find: "const cut = timers.after(Math.max(0, left() - reserve), hurry)",
    replace: "const cut = timers.after(left() + reserve, hurry)",
    about: "a child with a long grace is left alive by a shutdown, since its budget is over before the force",
    laws: ["runtime/test/services/ShutdownBarrier"],
    simulated: true
  },
  {
    name: "workspace-removed-under-a-living-child",
    file: `${services}/BackgroundProcess.ts`,
    find: "      job.unresolved = true\n      notices.add(owner, job)",
    replace:
      "      job.unresolved = true\n      job.process.workspace?.leave(job.process)\n      notices.add(owner, job)",
    about: "the directory of a process that could not be ended is removed under it",
    laws: ["runtime/test/services/Workspace"],
    simulated: true
  },
  {
    name: "workspace-removed-before-its-row-says-so",
    file: `${services}/BackgroundProcess.ts`,
    find: "if (job.row.written === null) job.process.workspace?.leave(job.process)",
    replace: "job.process.workspace?.leave(job.process)",
    about: "a row that says running names a directory that is gone",
    laws: ["runtime/test/services/Workspace"],
    simulated: true
  },
  {
    name: "released-workspace-accepts",
    file: `${services}/workspaces/entering.ts`,
    find: "  if (workspace.released) return Result.fail(new WorkspaceReleased({ id: workspace.id }))\n",
    replace: "",
    about: "a job is started in a directory that is about to be removed",
    laws: ["runtime/test/services/Workspace"],
    simulated: true
  },
  {
    name: "guest-not-recorded",
    file: `${services}/AppProcess.ts`,
    find: "beforeSpawn: workspace?.recordGuests, ",
    replace: "",
    about: "a later runtime removes a directory that a command without a row still works in",
    laws: ["runtime/test/services/Workspace"],
    simulated: true
  },
  {
    name: "blind-look-frees-a-workspace",
    file: `${services}/Workspace.ts`,
    find: "!complete || members.length + occupied.length > 0",
    replace: "members.length + occupied.length > 0 && complete",
    about: "a process table that could not be read shows a directory free",
    laws: ["runtime/test/services/Workspace"],
    simulated: false
  },
  {
    name: "lost-workspace-accepts",
    file: `${services}/Workspace.ts`,
    find: "      workspace.released = true\n      workspace.problem = \"Lost\"",
    replace: "      workspace.problem = \"Lost\"",
    about: "jobs are started in a directory that another runtime has taken over to remove it",
    laws: ["runtime/test/services/Workspace"],
    simulated: false
  }
]
