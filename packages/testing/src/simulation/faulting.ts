/** Random faults: some calls of some ports fail, are late, hang, or are done and not answered. */
import type { Fault, Port, What, When } from "../Faults.ts"
import type { Dice } from "../internal/Dice.ts"

const calls: ReadonlyArray<readonly [Port, string]> = [
  ["driver", "spawn"],
  ["driver", "look"],
  ["driver", "look"],
  ["driver", "signal"],
  ["ledger", "insert"],
  ["ledger", "transition"],
  ["ledger", "transition"],
  ["ledger", "renew"],
  ["ledger", "rows"],
  ["ledger", "remove"],
  ["blobs", "write"],
  ["blobs", "append"],
  ["blobs", "seal"],
  ["workspaces", "create"],
  ["workspaces", "remove"]
]

const whatOf = ({ below, oneOf }: Dice): What =>
  oneOf<What>([
    { _tag: "Fail" },
    { _tag: "Fail" },
    { _tag: "Delay", millis: below(4000) },
    { _tag: "Delay", millis: below(12_000) },
    { _tag: "Hang" },
    { _tag: "Hang", uninterruptible: true },
    { _tag: "Die" },
    { _tag: "Torn" },
    { _tag: "Unanswered" }
  ])

const whenOf = ({ below, often, oneOf }: Dice): When =>
  often(0.5)
    ? { _tag: "Nth", n: 1 + below(8), times: 1 + below(3) }
    : { _tag: "Chance", chance: oneOf([0.05, 0.2, 0.5]) }

/** What no port may do: say of a start that nothing was started, when something was. */
const isAllowed = ({ call, what }: Fault): boolean => call !== "spawn" || !["Torn", "Unanswered"].includes(what._tag)

/** At most five of them. */
export const randomFaults = (random: Dice): ReadonlyArray<Fault> =>
  Array.from({ length: 1 + random.below(5) }, (): Fault => {
    const [port, call] = random.oneOf(calls)
    return { port, call, when: whenOf(random), what: whatOf(random) }
  }).filter(isAllowed)
