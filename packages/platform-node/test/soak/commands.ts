/** Real commands of the tempers that simulated histories ask for. All that they start carries the tag. */
import { CommandSpec } from "@procyon/runtime"

/** `tag`: digits, so that it can end the number of seconds that a `sleep` is given. */
const scripts: Readonly<Record<string, (tag: string) => string>> = {
  quick: (tag) => `sleep 0.03${tag}; echo hi`,
  instant: (tag) => `: ${tag}`,
  failing: (tag) => `echo oh >&2; sleep 0.05${tag}; exit 3`,
  polite: (tag) => `exec sleep 300.${tag}`,
  slowToEnd: (tag) => `trap 'echo bye; sleep 0.05${tag}; exit 0' TERM; while :; do sleep 0.05${tag}; done`,
  stubborn: (tag) => `trap "" TERM; exec sleep 301.${tag}`,
  family: (tag) => `setsid sh -c 'trap "" TERM; exec sleep 302.${tag}' & sleep 303.${tag} & sleep 0.1${tag}`,
  holder: (tag) => `setsid sleep 304.${tag} & sleep 0.05${tag}; exit 1`,
  orphan: (tag) =>
    `(setsid sh -c 'trap "" TERM; exec sleep 305.${tag}' > /dev/null 2>&1 < /dev/null &); sleep 0.05${tag}`,
  chatty: (tag) => `head -c 200000 /dev/zero; exec sleep 306.${tag}`,
  talker: (tag) => `head -c 9000 /dev/zero; sleep 0.03${tag}; head -c 9000 /dev/zero >&2; head -c 9000 /dev/zero`,
  reader: (tag) => `: ${tag}; exec cat`,
  crowd: (tag) => `while :; do sleep 0.1${tag} & sleep 0.03${tag}; done`,
  broken: (tag) => `exec /nonexistent/${tag}`
}

/** What a real system cannot be asked for, and what comes nearest to it. */
const nearest: Readonly<Record<string, string>> = {
  stuck: "stubborn",
  stuckTwice: "stubborn",
  late: "quick",
  lateAnswer: "quick",
  unanswered: "polite",
  unseen: "instant",
  unreaping: "crowd"
}

export const commandOf = (child: string, tag: string): CommandSpec.CommandSpec => {
  const script = scripts[nearest[child] ?? child]
  if (script === undefined) throw new Error(`no real command for ${child}`)
  return CommandSpec.shell(script(tag), child === "reader" ? { stdin: "open" } : {})
}
