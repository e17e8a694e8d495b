/**
 * The children of simulated histories: one of every temper a process can have that changes what a runtime has to do.
 */
import { child, type Script } from "../Script.ts"

const quick = child.prints("hi\n").exits(0, { after: 300 })
const stubborn = child.ignores("SIGTERM")

/** By the name of the command. */
export const children: Readonly<Record<string, Script>> = {
  quick,
  instant: child.exits(0),
  failing: child.prints("oh\n", { stream: "stderr" }).exits(3, { after: 2000 }),
  polite: child,
  slowToEnd: child.onSignal("SIGTERM", child.prints("bye\n").exits(0, { after: 3000 })),
  stubborn,
  stuck: stubborn.refuses("SIGKILL"),
  stuckTwice: stubborn.survives("SIGKILL", 2),
  family: child.forks("son", stubborn, { escapes: "session" }).forks("daughter", child).exits(0, { after: 1500 }),
  holder: child.forks("heir", child, { holdsOutput: true, escapes: "daemon" }).exits(1, { after: 700 }),
  orphan: child.forks("daemon", stubborn, { escapes: "daemon", after: 200 }).exits(0, { after: 400 }),
  chatty: child.prints("x".repeat(70_000)).prints("y".repeat(30_000), { after: 500 }),
  talker: child.prints("a".repeat(9000)).prints("b".repeat(9000), { after: 900, stream: "stderr" })
    .prints("c".repeat(9000), { after: 900 }).exits(0, { after: 900 }),
  reader: child.readsStdin({ echo: true }).exits(0),
  late: quick.startsAfter(2500),
  lateAnswer: quick.answersAfter(1500),
  unanswered: child.neverAnswers(),
  broken: child.failsToStart("NotExecutable", "EACCES"),
  unseen: child.exits(0, { after: 400 }).exitSeenAfter(7000),
  crowd: child.forksForever("sheep", child.exits(0, { after: 1900 }), { every: 700 }),
  unreaping: child.forks("ghost", child.exits(0, { after: 100 })).neverReaps()
}

/** Whose leaders print all they have to say before they end by themselves, and exactly this much on stdout and stderr. */
export const printed: Readonly<Record<string, readonly [number, number]>> = {
  quick: [3, 0],
  instant: [0, 0],
  failing: [0, 3],
  family: [0, 0],
  orphan: [0, 0],
  talker: [18_000, 9000],
  late: [3, 0],
  lateAnswer: [3, 0],
  unseen: [0, 0]
}
