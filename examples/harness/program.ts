// Runs an example as a reader would, in a process of its own, and looks at what it leaves behind.
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

export interface Ended {
  /** What a shell would say: the exit code, or `null` after a signal. */
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** Processes of the run that are alive after it, by name. */
  readonly alive: ReadonlyArray<string>
  /** What is left in its directory for temporary files. */
  readonly files: ReadonlyArray<string>
}

export interface Options {
  readonly args?: ReadonlyArray<string>
  /** Sends SIGINT once this has been printed. */
  readonly interruptAt?: string
}

/** The environment is inherited by all that the program starts, so one variable of its own finds them all. */
const marker = "EXAMPLE_RUN"

/** Runs `examples/NAME.ts` on the Node that runs this, until it has ended and its output too. */
export const run = async (name: string, options: Options = {}): Promise<Ended> => {
  const id = randomUUID()
  const temporary = mkdtempSync(join(tmpdir(), "example-"))
  try {
    const printed = await finish(name, options, { ...process.env, [marker]: id, TMPDIR: temporary })
    return { ...printed, alive: aliveOf(id), files: readdirSync(temporary) }
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

const finish = (name: string, options: Options, env: NodeJS.ProcessEnv) =>
  new Promise<Pick<Ended, "code" | "stdout" | "stderr">>((resolve, reject) => {
    const file = fileURLToPath(new URL(`../${name}.ts`, import.meta.url))
    const child = spawn(process.execPath, [file, ...options.args ?? []], { env, stdio: ["ignore", "pipe", "pipe"] })
    const { interruptAt } = options
    let interrupted = interruptAt === undefined
    let stdout = ""
    let stderr = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text
      if (interrupted || interruptAt === undefined || !stdout.includes(interruptAt)) return
      interrupted = true
      child.kill("SIGINT")
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text
    })
    child.once("error", reject)
    child.once("close", (code) => resolve({ code, stdout, stderr }))
  })

/** A process that is dead and not yet collected has no environment any more, so it is not found. */
const aliveOf = (id: string): ReadonlyArray<string> =>
  readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)).flatMap((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0")
      return environment.includes(`${marker}=${id}`) ? [readFileSync(`/proc/${pid}/comm`, "utf8").trim()] : []
    } catch {
      return [] // ended meanwhile, or somebody else's
    }
  })
