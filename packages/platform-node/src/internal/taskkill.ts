/**
 * Ending a tree on Windows, which has no signals: through the program `taskkill`. Not verified there.
 *
 * It ends the leader and whoever it finds below it by parentage, at once and by force: there SIGTERM and SIGKILL are the
 * same. Every other signal is refused.
 */
import { execFile } from "node:child_process"
import { errnoOf } from "./processTable.ts"
import { gone, notSame, ofGroup, ofMember, type Outcome, sent, type SignalTree } from "./signals.ts"

/** How long `taskkill` may take, in milliseconds, before it is ended and counts as refused. */
const timeoutMillis = 5_000

/** Its exit code when there is no such process. */
const notFound = 128

/** Signals by `program`. Only a leader whose exit was not collected: nothing else here is proven to be meant. */
export const make = (program = "taskkill"): SignalTree => (tree, members, groups, signal, done) => {
  const tell = (outcome: Outcome): void =>
    done([...members.map((member) => ofMember(member, outcome)), ...groups.map((group) => ofGroup(group, outcome))])
  if (tree.reapedAt !== null) return tell(gone)
  if (!tree.unreapedChild) return tell(notSame)
  if (signal !== "SIGKILL" && signal !== "SIGTERM") return tell({ outcome: "refused", code: "ENOSYS" })
  const args = ["/T", "/F", "/PID", String(tree.root.pid)]
  execFile(program, args, { timeout: timeoutMillis, windowsHide: true }, (error) => {
    if (error === null) tell(sent)
    else if (error.code === notFound) tell(gone)
    else tell({ outcome: "refused", code: typeof error.code === "string" ? errnoOf(error) : "EPERM" })
  })
}
