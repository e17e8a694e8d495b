import * as NodeProcessDriver from "@procyon/platform-node/NodeProcessDriver"
import { DriverLaws, RuntimeLaws } from "@procyon/testing"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll } from "vitest"
import { lawOptions, runtimeOn, runtimeOptions, sharedDriver } from "./support/laws.ts"

const directory = fs.mkdtempSync(path.join(os.tmpdir(), "procyon-laws-"))
afterAll(() => fs.rmSync(directory, { recursive: true }))

const driver = NodeProcessDriver.layerWith({ detached: path.join(directory, "detached") })

DriverLaws.driverLaws("NodeProcessDriver", driver, lawOptions(directory, { detached: true }))

RuntimeLaws.runtimeLaws(
  "a runtime on NodeProcessDriver",
  runtimeOn(sharedDriver(driver)),
  runtimeOptions(directory)
)
