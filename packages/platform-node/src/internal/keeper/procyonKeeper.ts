/**
 * The program of the keeper process, named as `ps` shows it. Run by `helper.ts`, in a session of its own.
 *
 * Whatever goes wrong leads to the same end: every tree that it keeps is ended, and then it is. So a child survives its
 * application only if the application and its keeper are both killed.
 */
import * as net from "node:net"
import * as Keeper from "./keeper.ts"
import { encode, lines, type Order, ordersFd, type Report, reportsFd } from "./protocol.ts"

const orders = new net.Socket({ fd: ordersFd, readable: true, writable: false })
const reports = new net.Socket({ fd: reportsFd, readable: false, writable: true })
const report = (report: Report): void => {
  if (reports.writable) reports.write(encode(report))
}
const keeper = Keeper.make(report, { starts: true })

/** One that comes of the ending itself must not begin it anew for ever. */
const maxFailures = 5

let ending = false
let failures = 0
const endNow = (): void => {
  ending = true
  keeper.end(() => process.exit(0))
}
const end = (): void => {
  if (!ending) endNow()
}
const fail = (): void => {
  if (++failures > maxFailures) process.exit(1)
  endNow()
}

// Whoever presses Ctrl-C or closes a terminal means the application, which knows what to do about it.
process.on("SIGINT", () => {}).on("SIGHUP", () => {})
process.on("SIGTERM", end)
process.on("uncaughtException", fail).on("unhandledRejection", fail)
// An application that has gone may have left orders that were not read yet, such as whom to let live. They come first.
reports.on("error", () => {})
orders.on("error", end).on("end", end).on("close", end)

orders.setEncoding("utf8")
const parse = (line: string): Order => JSON.parse(line)
orders.on("data", lines((line) => keeper.handle(parse(line))))
report({ _tag: "Ready" })
