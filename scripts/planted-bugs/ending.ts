import type { PlantedBug } from "./PlantedBug.ts"

const host = "packages/runtime/src/services/host"
const lifecycle = "packages/runtime/src/domain/Lifecycle.ts"

const stories = ["runtime/test/services/BackgroundProcess", "runtime/test/services/AppProcess"]

/** How a process starts, is watched over, and is ended. */
export const ending: ReadonlyArray<PlantedBug> = [
  {
    name: "skip-the-verify",
    file: `${host}/Ending.ts`,
    find: "return Termination.isGone(seen) ? proven(process, subject) : survived(process, subject, seen)",
    replace: "return proven(process, subject)",
    about: "a tree is called gone once its force window is over, whoever still lives",
    laws: stories,
    simulated: true
  },
  {
    name: "trust-the-kill",
    file: "packages/runtime/src/services/Termination.ts",
    find: "for (const outcome of outcomes) killed.add(keyOf(outcome))",
    replace: `for (const outcome of outcomes) killed.add(keyOf(outcome))
        if (outcomes.every(({ outcome }) => outcome === "sent")) return { ...seen, members: [], occupied: [], complete: true }`,
    about: "whoever SIGKILL was sent to counts as dead",
    laws: ["runtime/test/services/Termination"],
    simulated: true
  },
  {
    name: "blind-look-is-proof",
    file: "packages/runtime/src/services/Termination.ts",
    find: "look.complete && look.members.length === 0",
    replace: "look.members.length === 0",
    about: "a process table that could not be read shows everybody gone",
    laws: ["runtime/test/services/Termination"],
    simulated: true
  },
  {
    name: "occupied-group-is-empty",
    file: "packages/runtime/src/services/Termination.ts",
    find: "look.members.length === 0 && look.occupied.length === 0",
    replace: "look.members.length === 0",
    about: "a group that the system says is not empty counts as gone",
    laws: ["runtime/test/services/Termination"],
    simulated: false
  },
  {
    name: "no-continue-after-the-signal",
    file: "packages/runtime/src/services/Termination.ts",
    find: "    yield* send(subject, seen, \"SIGCONT\")\n",
    replace: "",
    about: "a stopped process never gets to follow its SIGTERM",
    laws: ["runtime/test/services/Termination"],
    simulated: false
  },
  {
    name: "kill-without-a-freeze",
    file: "packages/runtime/src/services/Termination.ts",
    find: "      yield* send(subject, { members: fresh }, \"SIGSTOP\")\n",
    replace: "",
    about: "who forks between the look and the kill leaves a child behind",
    laws: ["runtime/test/services/Termination"],
    simulated: false
  },
  {
    name: "one-round-of-kills",
    file: "packages/runtime/src/services/Termination.ts",
    find: "const maxRounds = 8",
    replace: "const maxRounds = 1",
    about: "whoever appears after the kill is not killed",
    laws: ["runtime/test/services/Termination"],
    simulated: false
  },
  {
    name: "kill-again-and-again",
    file: "packages/runtime/src/services/Termination.ts",
    find: "for (const outcome of outcomes) killed.add(keyOf(outcome))",
    replace: "",
    about: "a process that takes its time to die is sent SIGKILL over and over",
    laws: ["runtime/test/services/Termination"],
    simulated: false
  },
  {
    name: "no-force",
    file: `${host}/Ending.ts`,
    find: "return Termination.isGone(left) ? proven(process, subject) : yield* force(process, subject)",
    replace: "return Termination.isGone(left) ? proven(process, subject) : survived(process, subject, left)",
    about: "trying again asks once more and never kills",
    laws: stories,
    simulated: false
  },
  {
    name: "leftovers-ignored",
    file: `${host}/Ending.ts`,
    find: "return { _tag: \"LingerEnded\", end: !keep }",
    replace: "return { _tag: \"LingerEnded\", end: false }",
    about: "what a leader leaves behind goes on for ever",
    laws: stories,
    simulated: true
  },
  {
    name: "no-time-to-finish",
    file: `${host}/Ending.ts`,
    find: "const millis = keep ? 0 : core.settings.lingerMillis",
    replace: "const millis = 0",
    about: "a pipeline whose leader ends first is cut off at once",
    laws: [...stories, "testing/test/cases/trees"],
    simulated: false
  },
  {
    name: "retry-not-joined",
    file: `${host}/Ending.ts`,
    find: "const waiting = process.retry ??= Deferred.makeUnsafe<void>()",
    replace: "const waiting = process.retry = Deferred.makeUnsafe<void>()",
    about: "of two who try again at once, the first waits for ever",
    laws: ["runtime/test/services/faults"],
    simulated: true
  },
  {
    name: "retry-of-the-proven-hangs",
    file: "packages/runtime/src/services/ProcessHost.ts",
    find: "          watchdog.stop(process)\n          ending.finishRetry(process)\n",
    replace: "          watchdog.stop(process)\n",
    about: "a retry that succeeds is never answered",
    laws: stories,
    simulated: true
  },
  {
    name: "no-beat-looks-again",
    file: `${host}/Watchdog.ts`,
    find: "if (process.state._tag === \"Unresolved\" || process.adopted) recheck(process)",
    replace: "if (process.adopted) recheck(process)",
    about: "a job that could not be ended stays kill_failed although it is long gone",
    laws: ["testing/test/cases/trees"],
    simulated: true
  },
  {
    name: "adopted-exit-not-looked-for",
    file: `${host}/Watchdog.ts`,
    find: "if (process.state._tag === \"Unresolved\" || process.adopted) recheck(process)",
    replace: "if (process.state._tag === \"Unresolved\") recheck(process)",
    about: "an adopted job whose exit nobody collects runs for ever in the books",
    laws: ["runtime/test/services/Recovery", "runtime/test/services/Recovery.faults"],
    simulated: true
  },
  {
    name: "beat-of-a-settled-process",
    file: `${host}/Watchdog.ts`,
    find: "      stopDeadlines(process)\n      process.beat?.cancel()\n",
    replace: "      stopDeadlines(process)\n",
    about: "a timer stays armed after the end, and keeps a program from ending for a beat",
    laws: ["runtime/test/services/faults"],
    simulated: true
  },
  {
    name: "settle-before-flush",
    file: lifecycle,
    find: `  { _tag: "Flushing", cause: state.delivered || state.forced ? state.cause : selfExit, exit: state.exit },
  ["Flush"]`,
    replace: `  { _tag: "Settled", cause: state.delivered || state.forced ? state.cause : selfExit, exit: state.exit },
  ["Settle"]`,
    about: "the end is told before the output was read to its end",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "output-not-waited-for",
    file: `${host}/Settling.ts`,
    find: "(retention) => awaitEnd(retention, millis), {",
    replace: "(retention) => awaitEnd(retention, 0), {",
    about: "the last lines of a short command are lost",
    laws: ["runtime/test/services/AppProcess"],
    simulated: false
  },
  {
    name: "cut-output-called-whole",
    file: `${host}/Settling.ts`,
    find: "yield* sealAll(process, drained)\n",
    replace: "yield* sealAll(process, [true, true])\n",
    about: "output that was cut off while somebody still wrote claims to be all of it",
    laws: ["testing/test/cases/trees"],
    simulated: false
  },
  {
    name: "child-never-let-go-of",
    file: `${host}/Settling.ts`,
    find: "        yield* letGo(process, drained)\n",
    replace: "",
    about: "every finished process keeps its descriptors open",
    laws: [...stories, "testing/test/cases/lifecycle"],
    simulated: true
  },
  {
    name: "exit-after-the-signal-decides",
    file: lifecycle,
    find: "cause: state.delivered || state.forced ? state.cause : selfExit, exit: state.exit }",
    replace: "cause: state.exit === null || state.exit.signal !== null ? state.cause : selfExit, exit: state.exit }",
    about: "a job that was stopped and exits with 0 on SIGTERM is completed",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "stop-after-the-exit-claims-it",
    file: lifecycle,
    find: ": [{ _tag: \"Flushing\", cause: selfExit, exit: state.exit ?? unknownExit }, [\"Flush\"]]",
    replace:
      ": [{ _tag: \"Flushing\", cause: state.request?.cause ?? selfExit, exit: state.exit ?? unknownExit }, [\"Flush\"]]",
    about: "a job that had ended by itself is called cancelled since somebody stopped it too late",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "last-cause-wins",
    file: lifecycle,
    find: "first === null ? second : first.now || !second.now ? first : { cause: first.cause, now: true }",
    replace: "first === null ? second : { cause: second.cause, now: first.now || second.now }",
    about: "a job that met its deadline is called cancelled since a shutdown came after",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "no-hurry",
    file: lifecycle,
    find: "return event.request.now && !state.now ? [{ ...state, now: true }, [\"Hurry\"]] : stay(state)",
    replace: "return stay(state)",
    about: "`now` waits for the rest of the grace all the same",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: false
  },
  {
    name: "unseen-exit-is-success",
    file: lifecycle,
    find: "return [{ ...state, exit: state.exit ?? unknownExit }, [\"Linger\"]]",
    replace: "return [{ ...state, exit: state.exit ?? { code: 0, signal: null } }, [\"Linger\"]]",
    about: "a job whose end nobody saw is called completed",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "kill-failed-settled-by-an-exit",
    file: lifecycle,
    find: "return [{ ...state, exit: state.exit ?? event.exit }, state.proven ? none : [\"Recheck\"]]",
    replace: "return [{ ...state, exit: state.exit ?? event.exit, proven: true }, state.proven ? none : [\"Flush\"]]",
    about: "a job that could not be ended is called ended since its leader is, whatever of its tree lives",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "kill-failed-becomes-completed",
    file: lifecycle,
    find:
      "return state.proven ? [{ _tag: \"Settled\", cause: state.cause, exit: state.exit }, [\"Settle\"]] : stay(state)",
    replace:
      "return state.proven ? [{ _tag: \"Settled\", cause: selfExit, exit: state.exit }, [\"Settle\"]] : stay(state)",
    about: "what could not be ended, and then was, is called completed",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "retry-shown-as-running",
    file: lifecycle,
    find: "    case \"Unresolved\":\n      return \"kill_failed\"\n",
    replace: "    case \"Unresolved\":\n      return state.retrying ? \"running\" : \"kill_failed\"\n",
    about: "a status goes back from kill_failed to running while it is tried again",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "stop-during-the-start-forgotten",
    file: lifecycle,
    find: `      return state.request === null
        ? stay({ _tag: "Running" })
        : [{ _tag: "Draining", request: state.request, exit: null }, ["RecordTree"]]`,
    replace: "      return stay({ _tag: \"Running\" })",
    about: "a job that was stopped while it started runs on",
    laws: ["runtime/test/domain/Lifecycle"],
    simulated: true
  },
  {
    name: "start-window-goes-on",
    file: `${host}/Starting.ts`,
    find: "        overdue.cancel()\n",
    replace: "",
    about: "a job that started well is ended when the window for its start is over",
    laws: [...stories],
    simulated: true
  },
  {
    name: "interrupted-start-leaves-a-process",
    file: "packages/runtime/src/services/BackgroundProcess.ts",
    find: "if (isStarting && !job.announced) return askEnd(job, { _tag: \"Scope\" }, false)",
    replace: "if (isStarting && !job.announced) return Effect.void",
    about: "a start that was interrupted starts a job nobody has asked for",
    laws: ["runtime/test/services/BackgroundProcess", "testing/test/cases/starting"],
    simulated: true
  },
  {
    name: "interrupted-run-leaves-a-process",
    file: "packages/runtime/src/services/AppProcess.ts",
    find: "const termination = yield* Effect.onInterrupt(restore(ended), () => endScope(process))",
    replace: "const termination = yield* restore(ended)",
    about: "a command whose caller was interrupted runs on",
    laws: ["runtime/test/services/AppProcess"],
    simulated: true
  },
  {
    name: "closed-scope-leaves-a-process",
    file: "packages/runtime/src/services/AppProcess.ts",
    find: "        yield* Effect.addFinalizer(() => endScope(process))\n",
    replace: "",
    about: "a process outlives the scope that it was spawned in",
    laws: ["runtime/test/services/AppProcess"],
    simulated: true
  },
  {
    name: "timers-on-the-wall-clock",
    file: "packages/runtime/src/internal/TimerHeap.ts",
    find: "return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1e6",
    replace: "return this.#clock.currentTimeMillisUnsafe()",
    about: "a wall clock that is set forward ends jobs before their deadlines",
    laws: ["runtime/test/internal/TimerHeap"],
    simulated: true
  },
  {
    name: "deadline-on-the-wall-clock",
    file: `${host}/Watchdog.ts`,
    find: "const left = Math.max(0, process.startedMono + deadlineMillis - timers.now())",
    replace: "const left = Math.max(0, process.startedAt + deadlineMillis - core.clock.currentTimeMillisUnsafe())",
    about: "an extension is cut short when the wall clock was set forward since the start",
    laws: ["runtime/test/services/host/Watchdog"],
    simulated: false
  },
  {
    name: "idle-since-the-start",
    file: `${host}/Watchdog.ts`,
    find: "const left = process.lastOutputMono + idle - timers.now()",
    replace: "const left = process.startedMono + idle - timers.now()",
    about: "a job that prints all the time is ended as idle",
    laws: ["runtime/test/services/BackgroundProcess", "testing/test/cases/time"],
    simulated: true
  },
  {
    name: "extended-past-the-cap",
    file: `${host}/Watchdog.ts`,
    find: "Math.min(asked, cap)",
    replace: "asked",
    about: "an owner extends its job past what the application allows",
    laws: ["runtime/test/services/BackgroundProcess", "testing/test/cases/time"],
    simulated: false
  },
  {
    name: "older-look-answers",
    file: "packages/runtime/src/internal/SharedLook.ts",
    find: "    const batch = waiting\n    waiting = []\n",
    replace: "    const batch = waiting\n",
    about: "whoever asks during a look is answered by it, though it says nothing of what was done since",
    laws: ["runtime/test/internal/SharedLook"],
    simulated: false
  },
  {
    name: "heap-loses-its-earliest",
    file: "packages/runtime/src/internal/TimerHeap.ts",
    find: "if (this.#armed.at <= first.at) return\n",
    replace: "return\n",
    about: "a short deadline fires as late as the longest that was set before it",
    laws: ["runtime/test/internal/TimerHeap"],
    simulated: true
  }
]
