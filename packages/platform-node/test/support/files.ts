import { Files } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import { temporaryDirectory } from "./directory.ts"

const has = (path: string): boolean => fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined

/** Real files in a directory of the test's own. */
export const layer: Layer.Layer<Files> = Layer.effect(
  Files,
  Effect.map(temporaryDirectory, (directory) => ({
    home: fs.realpathSync(directory),
    makeDirectory: (path) => Effect.sync(() => fs.mkdirSync(path)),
    write: (path) => Effect.sync(() => fs.writeFileSync(path, "")),
    link: (target, path) => Effect.sync(() => fs.symlinkSync(target, path)),
    rename: (from, to) => Effect.sync(() => fs.renameSync(from, to)),
    has: (path) => Effect.sync(() => has(path))
  }))
)
