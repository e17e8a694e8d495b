/**
 * What is left alive when an application is killed with many jobs, through a keeper and with children of its own.
 *
 * Run it: `node packages/platform-node/bench/keeper.ts [jobs] [graceMillis]`, 1,000 jobs and 1,000 ms when left out. A third
 * of the jobs waits, a third has a child in a session of its own, a third ignores SIGTERM. Times are from the SIGKILL on.
 */
import { NodeKeeperDriver, NodeProcessDriver } from "@procyon/platform-node"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { Arena, newMarker, shell } from "../test/internal/bench.ts"
import { isLiving, living } from "../test/support/processes.ts"

const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** The application: starts the jobs, says when all of them are up, and waits to be killed. */
const application = async (driverName: string, count: number, graceMillis: number, tag: string): Promise<void> => {
  const make = driverName === "keeper" ? NodeKeeperDriver.make({ graceMillis }) : NodeProcessDriver.make
  const driver = await Effect.runPromise(Scope.provide(make, Scope.makeUnsafe()))
  const wait = `sleep 300.${tag}`
  const scripts = [`echo up; exec ${wait}`, `setsid ${wait} & echo up; wait`, `trap '' TERM; echo up; exec ${wait}`]
  const outputs = Array.from({ length: count }, () => new Arena({ capacity: 64, regionBytes: 16 }))
  const began = performance.now()
  await Effect.runPromise(Effect.forEach(outputs, (stdout, index) =>
    driver.spawn({
      command: shell(scripts[index % scripts.length] ?? ""),
      marker: newMarker(),
      stdout,
      stderr: "merged",
      onExit: () => {}
    }), { concurrency: "unbounded" }))
  while (!outputs.every(({ text }) => text.includes("up"))) await sleep(20)
  say(String(Math.round(performance.now() - began)))
}

/** Runs the application, kills it, and watches what is left of its jobs. */
const measure = async (driverName: string, count: number, graceMillis: number): Promise<Record<string, string>> => {
  const tag = `0${process.pid}0${process.hrtime.bigint() % 1_000_000_000n}`
  const args = [fileURLToPath(import.meta.url), "application", driverName, String(count), String(graceMillis), tag]
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
  const startMillis = await new Promise<string>((resolve) =>
    child.stdout.once("data", (bytes: Buffer) => resolve(bytes.toString().trim()))
  )
  const isJob = ({ pid }: { readonly pid: number }): boolean => pid !== child.pid
  // A shell that has said so may still be about to run what it says.
  await sleep(500)
  const before = living(tag).filter(isJob).length
  const killedAt = performance.now()
  child.kill("SIGKILL")
  const passed = (): number => performance.now() - killedAt
  let left = living(tag).filter(isJob)
  while (left.length > 0 && passed() < graceMillis + 5_000) {
    await sleep(20)
    left = living(tag).filter(isJob)
  }
  const millis = passed()
  for (const one of left) if (isLiving(one)) process.kill(one.pid, "SIGKILL")
  while (living(tag).length > 0) await sleep(20)
  return {
    driver: driverName,
    "start ms": startMillis,
    "alive before": String(before),
    "alive after": String(left.length),
    "none alive after ms": left.length === 0 ? String(Math.round(millis)) : "never"
  }
}

const [how, ...rest] = process.argv.slice(2)
if (how === "application") {
  const [driverName = "", count, graceMillis, tag = ""] = rest
  await application(driverName, Number(count), Number(graceMillis), tag)
} else {
  const count = Number(how ?? 1_000)
  const graceMillis = Number(rest[0] ?? 1_000)
  const rows: Array<Record<string, string>> = []
  for (const name of ["keeper", "direct"]) rows.push(await measure(name, count, graceMillis))
  const columns = Object.keys(rows[0] ?? {})
  say(`${count} jobs, grace ${graceMillis} ms\n`)
  say(`| ${columns.join(" | ")} |`)
  say(`| ${columns.map(() => "---").join(" | ")} |`)
  for (const row of rows) say(`| ${columns.map((column) => row[column]).join(" | ")} |`)
}
