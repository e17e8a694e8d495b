import type { PlantedBug } from "./PlantedBug.ts"

const internal = "packages/platform-node/src/internal"

/** The driver on Node, as far as no real time has to pass for it. */
export const machine: ReadonlyArray<PlantedBug> = [
  {
    name: "drop-the-identity-check",
    file: `${internal}/signals.ts`,
    find: "  if (stat.startedAt !== member.startedAt) return notSame\n",
    replace: "",
    about: "a stranger who has got the pid of one of ours is killed",
    laws: ["platform-node/test/internal/signals"],
    simulated: false
  },
  {
    name: "signal-to-the-collected-leader",
    file: `${internal}/signals.ts`,
    find: "  if (isLeader && tree.reapedAt !== null) return gone\n",
    replace: "",
    about: "whoever got the pid and the start tick of a leader that was collected is killed",
    laws: ["platform-node/test/internal/signals"],
    simulated: false
  },
  {
    name: "signal-to-a-group-of-strangers",
    file: `${internal}/signals.ts`,
    find: "return ownsGroup(tree, group, table) ? send(-group, signal) : notSame",
    replace: "return send(-group, signal)",
    about: "a group whose id is a stranger's by now is killed as a whole",
    laws: ["platform-node/test/internal/signals"],
    simulated: false
  },
  {
    name: "signal-to-ourselves",
    file: `${internal}/signals.ts`,
    find: "    if (!isSignallable(member.pid)) return { outcome: \"refused\", code: \"EPERM\" }\n",
    replace: "",
    about: "an application that is a member of its own tree by mistake kills itself",
    laws: ["platform-node/test/internal/signals"],
    simulated: false
  }
]
