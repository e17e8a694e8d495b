/**
 * Who may start in a workspace, and where its command then runs.
 */
import * as Result from "effect/Result"
import * as CommandSpec from "../../domain/CommandSpec.ts"
import { InvalidCommand } from "../../domain/InvalidCommand.ts"
import type { ProcessHost } from "../ProcessHost.ts"
import type { Policy } from "../ProcessOptions.ts"
import { OwnedWorkspace, type Workspace, WorkspaceReleased } from "./OwnedWorkspace.ts"

export interface Entered {
  readonly command: CommandSpec.CommandSpec
  readonly workspace: OwnedWorkspace | null
}

/**
 * The command as it runs in the workspace, when one was given. Taking the place in it is up to `ProcessHost.admit`, in the
 * same step. A process that may leave others behind on purpose is refused: nobody could tell when they have left it.
 */
export const enter = (
  host: Pick<ProcessHost, "workspaces">,
  command: CommandSpec.CommandSpec,
  policy: Policy,
  workspace: Workspace | undefined
): Result.Result<Entered, InvalidCommand | WorkspaceReleased> => {
  if (workspace === undefined) return Result.succeed({ command, workspace: null })
  if (!(workspace instanceof OwnedWorkspace)) return refused("workspace", "Malformed")
  if (workspace.released) return Result.fail(new WorkspaceReleased({ id: workspace.id }))
  if (!host.workspaces.has(workspace)) return refused("workspace", "Unsupported")
  if (policy.leftovers === "keep") return refused("leftovers", "Unsupported")
  const hasPlace = command.options.cwd !== undefined
  return Result.succeed({ command: hasPlace ? command : CommandSpec.setCwd(command, workspace.path), workspace })
}

const refused = (where: string, problem: InvalidCommand["problem"]): Result.Result<never, InvalidCommand> =>
  Result.fail(new InvalidCommand({ where, problem }))
