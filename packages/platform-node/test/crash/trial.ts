/**
 * One trial: an application is killed at a point, perhaps the next one too, and a last one finds what is left and shuts
 * down. Then the evidence is gathered. Whatever lives is killed, whatever comes of it.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Census from "./census.ts"
import * as Evidence from "./evidence.ts"
import * as Journal from "./journal.ts"
import { type DriverName, type Life, placesIn } from "./life.ts"
import type { Reached, Target } from "./points.ts"

export interface Trial {
  readonly driver: DriverName
  readonly seed: number
  /** Where each life is killed, the first one first. One more life follows. */
  readonly targets: ReadonlyArray<Target>
}

export interface Verdict extends Evidence.Findings {
  readonly trial: Trial
  /** `false`: a life came to its end without having reached its target, so nothing was tried. */
  readonly reached: boolean
  readonly millis: number
  /** Where it was; empty when that is gone. */
  readonly directory: string
}

/** Where what is compiled of the program is kept, which makes its starts faster. */
export const compileCache: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(join(os.tmpdir(), "procyon-compiled-"))),
  (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))
)

const application = fileURLToPath(new URL("./application.ts", import.meta.url))
const patienceMillis = 30_000

interface End {
  readonly how: "killed" | "closed" | "failed"
  readonly why: string
}

const endOf = (child: ChildProcess, stderr: string, code: number | null, signal: NodeJS.Signals | null): End => {
  if (child.killed) return { how: "failed", why: "hangs" }
  if (signal === "SIGKILL") return { how: "killed", why: signal }
  return code === 0
    ? { how: "closed", why: "" }
    : { how: "failed", why: `ends with ${code ?? signal}: ${stderr.trim()}` }
}

/** Lives one life to its end, whichever that is. */
const live = (life: Life, cache: string): Effect.Effect<End> =>
  Effect.callback<End>((resume) => {
    const env = { ...process.env, TMPDIR: placesIn(life.directory).temporary, NODE_COMPILE_CACHE: cache }
    const args = ["--disable-warning=ExperimentalWarning", application, JSON.stringify(life)]
    const child = spawn(process.execPath, args, { env, cwd: life.directory, stdio: ["ignore", "ignore", "pipe"] })
    let stderr = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
    const patience = setTimeout(() => child.kill("SIGKILL"), patienceMillis)
    child.once("exit", (code, signal) => {
      clearTimeout(patience)
      resume(Effect.succeed(endOf(child, stderr, code, signal)))
    })
    return Effect.sync(() => {
      clearTimeout(patience)
      child.kill("SIGKILL")
    })
  })

let trials = 0

const scene = (driver: DriverName): Effect.Effect<Evidence.Scene> =>
  Effect.sync(() => {
    const directory = fs.mkdtempSync(join(os.tmpdir(), "procyon-crash-"))
    const places = placesIn(directory)
    for (const place of [places.outside, places.temporary, places.workspaces]) fs.mkdirSync(place)
    fs.writeFileSync(join(places.outside, "sentinel"), Evidence.sentinel)
    return { directory, driver, tag: `0${process.pid}0${process.hrtime.bigint() % 1_000_000_000n}${++trials}` }
  })

/** The lives of a scene, as far as they go on as they are meant to. `null`: all of them did. */
const liveAll = (
  { directory, driver, tag }: Evidence.Scene,
  { seed, targets }: Pick<Trial, "seed" | "targets">,
  cache: string
): Effect.Effect<End | null> =>
  Effect.gen(function*() {
    for (const [index, target] of [...targets, null].entries()) {
      const end = yield* live({ number: index + 1, directory, driver, tag, seed, target }, cache)
      if (end.how !== (target === null ? "closed" : "killed")) return end
    }
    return null
  })

const cleared = <A>(
  use: (scene: Evidence.Scene) => Effect.Effect<A>,
  driver: DriverName,
  isKept: (result: A) => boolean
): Effect.Effect<A> =>
  Effect.acquireUseRelease(scene(driver), use, ({ directory, tag }, exit) =>
    Effect.sync(() => {
      Census.clear(tag, directory)
      if (exit._tag === "Failure" || !isKept(exit.value)) fs.rmSync(directory, { recursive: true, force: true })
    }))

export const run = (
  trial: Trial,
  options: { readonly cache: string; readonly keep: boolean }
): Effect.Effect<Verdict> =>
  cleared(
    (scene) =>
      Effect.gen(function*() {
        const began = performance.now()
        const end = yield* liveAll(scene, trial, options.cache)
        const killed = Journal.read(placesIn(scene.directory).journal).filter((line) => line._tag === "Killed").length
        const verdict = { trial, directory: options.keep ? scene.directory : "", reached: end?.how !== "closed" }
        const findings: Evidence.Findings = end === null && killed === trial.targets.length
          ? yield* Evidence.gather(scene)
          : { problems: [`a life ${end?.why || "was not killed where it was to be"}`], known: [], review: 0 }
        return { ...verdict, ...findings, millis: performance.now() - began }
      }),
    trial.driver,
    (verdict) => options.keep && verdict.reached && verdict.problems.length > 0
  )

/** The points that the last life of a trial reaches. */
export const enumerate = (trial: Trial, options: { readonly cache: string }): Effect.Effect<ReadonlyArray<Reached>> =>
  cleared(
    (scene) =>
      Effect.gen(function*() {
        const { driver, seed, targets } = trial
        for (const [index, target] of [...targets, null].entries()) {
          const life = { number: index + 1, directory: scene.directory, driver, tag: scene.tag, seed, target }
          const end = yield* live(life, options.cache)
          if (end.how === "failed") return yield* Effect.die(new Error(`a life that nobody kills ${end.why}`))
        }
        const last = Journal.read(placesIn(scene.directory).journal).findLast((line) => line._tag === "Closed")
        return last?._tag === "Closed" ? last.reached : []
      }),
    trial.driver,
    () => false
  )
