/** Random faults: some calls of some ports fail, are late, hang, or are done and not answered. */
import { calls, check, type Fault, type Port, type What, type When } from "../Faults.ts"
import type { Dice } from "../internal/Dice.ts"

/** Every call of every port. Those that say most of what a runtime does are drawn more often. */
const targets: ReadonlyArray<readonly [Port, string]> = (["driver", "ledger", "blobs", "workspaces"] as const).flatMap(
  (port) => calls[port].map((call) => [port, call] as const)
)
const busy: ReadonlyArray<readonly [Port, string]> = [
  ["driver", "spawn"],
  ["driver", "look"],
  ["driver", "signal"],
  ["ledger", "insert"],
  ["ledger", "transition"],
  ["blobs", "append"]
]

/** Of any kind but stalls and wrong clocks: those are steps of a history, since they are about a life as a whole. */
const whatOf = ({ below, oneOf, often }: Dice): What => {
  const done = often(0.4) ? { done: true } : {}
  const uninterruptible = often(0.3) ? { uninterruptible: true } : {}
  return oneOf<() => What>([
    () => ({ _tag: "Fail", ...done }),
    () => ({ _tag: "Fail" }),
    () => ({
      _tag: "Delay",
      millis: below(oneOf([4000, 12_000])),
      of: oneOf(["call", "answer"] as const),
      ...uninterruptible
    }),
    () => ({ _tag: "Hang", ...done, ...uninterruptible }),
    () => ({ _tag: "Die", ...done }),
    () => ({ _tag: "Tear" }),
    () => ({ _tag: "Duplicate" }),
    () => ({ _tag: "LoseExit" }),
    () => ({ _tag: "ExitEarly" }),
    () => ({ _tag: "Refuse" }),
    () => ({ _tag: "Swallow" }),
    () => ({ _tag: "LeaseLost" }),
    () => ({ _tag: "KeeperGone", millis: below(12_000) })
  ])()
}

const whenOf = ({ below, oneOf, often }: Dice): When =>
  often(0.5)
    ? { _tag: "Nth", n: 1 + below(8), times: 1 + below(3) }
    : { _tag: "Chance", chance: oneOf([0.05, 0.2, 0.5]) }

/**
 * What the port allows. A start that is interrupted leaves nothing, so none may be done and then not be answered; children
 * that answer late are among the histories' own. And what lets go of a child is not made to keep it.
 */
const isAllowed = ({ call, what }: Fault): boolean => {
  if (call === "child.release") return false
  const { done, of, uninterruptible } = { done: false, of: "call", uninterruptible: false, ...what }
  if (call === "attach") return what._tag !== "Die" && !done && of !== "answer" && !uninterruptible
  return call !== "spawn" || (!done && of !== "answer" && !uninterruptible && what._tag !== "ExitEarly")
}

/** One to five faults; of those drawn, what makes no sense where it is put is drawn again. */
export const randomFaults = (random: Dice): ReadonlyArray<Fault> =>
  Array.from({ length: 1 + random.below(5) }, () => {
    for (;;) {
      const [port, call] = random.oneOf(random.often(0.5) ? busy : targets)
      const fault: Fault = { port, call, when: whenOf(random), what: whatOf(random) }
      if (check(fault) === null && isAllowed(fault)) return fault
    }
  })
