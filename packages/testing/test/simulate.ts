// `npm run simulate -- --histories 20000 --seed 1`: random histories of a whole runtime on fakes, on all cores. Each that
// breaks a promise is cut short and printed as a test. `--only SEED` runs one history and prints its trace.
import * as Simulator from "@procyon/testing/Simulator"
import * as Effect from "effect/Effect"
import { fork } from "node:child_process"
import { createHash } from "node:crypto"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    histories: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    workers: { type: "string", default: `${Math.min(8, availableParallelism())}` },
    only: { type: "string" },
    worker: { type: "string" }
  }
})

const natural = (name: "histories" | "seed" | "workers" | "only", text: string): number => {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  console.error(`--${name} has to be a natural number`)
  process.exit(2)
}

/** Broken histories that are cut short and printed; the others are counted. */
const mostShown = 5
/** Of so many histories one runs twice, to see that it does the same. */
const repeated = 50

const histories = natural("histories", values.histories)
const seed = natural("seed", values.seed)
const workers = Math.max(1, natural("workers", values.workers))
const seedOf = (index: number): number => seed * 1_000_000 + index

interface Answer {
  readonly index: number
  readonly digest: number
  readonly broken: string | null
}

const judge = async (index: number): Promise<Answer> => {
  const { digest, outcome } = await Effect.runPromise(Simulator.judge(seedOf(index)))
  const first = outcome.violations[0]
  if (first !== undefined) return { index, digest, broken: `${first.rule}: ${first.detail}` }
  const again = index % repeated === 0 ? await Effect.runPromise(Simulator.judge(seedOf(index))) : null
  const differs = again !== null && again.digest !== digest
  return { index, digest, broken: differs ? "the same seed gave another trace" : null }
}

const work = async (first: number): Promise<void> => {
  let answers: Array<Answer> = []
  for (let index = first; index < histories; index += workers) {
    answers.push(await judge(index))
    if (answers.length === 20 || index + workers >= histories) {
      process.send?.(answers)
      answers = []
    }
  }
  process.disconnect?.()
}

const show = async (index: number): Promise<void> => {
  const history = await Effect.runPromise(Simulator.shrink(Simulator.generate(seedOf(index))))
  const outcome = await Effect.runPromise(Simulator.run(history))
  console.log(
    `\n// Seed ${seedOf(index)}, cut to ${history.steps.length} steps.\n${Simulator.toTest(history, outcome)}`
  )
}

const campaign = async (): Promise<number> => {
  const began = performance.now()
  const answers: Array<Answer> = []
  const ends = await Promise.all(Array.from({ length: workers }, (_, worker) => {
    const args = [
      "--worker",
      `${worker}`,
      "--histories",
      `${histories}`,
      "--seed",
      `${seed}`,
      "--workers",
      `${workers}`
    ]
    const child = fork(fileURLToPath(import.meta.url), args)
    child.on("message", (more) => answers.push(...more as ReadonlyArray<Answer>))
    return new Promise<number>((resolve) => child.on("exit", (code) => resolve(code ?? 1)))
  }))
  const missing = histories - answers.length
  if (missing > 0) {
    console.log(`${missing} histories did not end: a worker exited with ${ends.find((code) => code !== 0)}`)
  }
  answers.sort((self, that) => self.index - that.index)
  const broken = answers.filter((answer) => answer.broken !== null)
  for (const answer of broken) console.log(`seed ${seedOf(answer.index)}: ${answer.broken}`)
  for (const { index } of broken.slice(0, mostShown)) await show(index)
  const trace = createHash("sha256").update(answers.map(({ digest }) => digest).join()).digest("hex").slice(0, 16)
  console.log(
    `seed ${seed}, trace ${trace}, ${((performance.now() - began) / 1000).toFixed(1)} s on ${workers} workers`
  )
  console.log(`histories ${histories}, violations ${broken.length + missing}`)
  return broken.length + missing === 0 ? 0 : 1
}

if (values.worker !== undefined) await work(Number(values.worker))
else if (values.only !== undefined) {
  const history = Simulator.generate(natural("only", values.only))
  const outcome = await Effect.runPromise(Simulator.run(history))
  console.log(Simulator.toTest(history, outcome))
  console.log(Simulator.report(outcome))
} else process.exitCode = await campaign()
