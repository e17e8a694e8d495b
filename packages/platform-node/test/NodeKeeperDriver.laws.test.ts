import * as NodeKeeperDriver from "@procyon/platform-node/NodeKeeperDriver"
import { DriverLaws } from "@procyon/testing"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll } from "vitest"
import { lawOptions } from "./support/laws.ts"

const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-laws-"))
afterAll(() => fs.rmSync(directory, { recursive: true }))

DriverLaws.driverLaws(
  "NodeKeeperDriver",
  NodeKeeperDriver.layer({ detached: path.join(directory, "detached") }),
  lawOptions(directory, { detached: true })
)
