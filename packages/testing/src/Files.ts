/**
 * What is around a workspace store: a test puts links, files and other directories where a workspace is, past the store,
 * and looks at what is left.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** What a test does to the files around a store, past it. Paths are absolute; what is asked for has to be possible. */
export interface FilesService {
  /** A real path of a directory that is the test's own. */
  readonly home: string
  readonly makeDirectory: (path: string) => Effect.Effect<void>
  readonly write: (path: string) => Effect.Effect<void>
  readonly link: (target: string, path: string) => Effect.Effect<void>
  readonly rename: (from: string, to: string) => Effect.Effect<void>
  /** Whether there is anything of this name, a link too. */
  readonly has: (path: string) => Effect.Effect<boolean>
}

/** The key of the files around a store. */
export class Files extends Context.Service<Files, FilesService>()("@procyon/testing/Files") {}
