import type { PlantedBug } from "./PlantedBug.ts"

const retention = "packages/runtime/src/services/OutputRetention.ts"
const spill = "packages/runtime/src/internal/OutputSpill.ts"
const laws = ["runtime/test/services/OutputRetention"]
const windowLaws = ["runtime/test/domain/OutputWindow"]
const fileStore = "packages/runtime/src/stores/BlobStoreFileSystem.ts"

/** Output: what is kept in memory, what goes to a store, and who reads it. */
export const output: ReadonlyArray<PlantedBug> = [
  {
    name: "follower-misses-the-last-chunk",
    file: retention,
    find: "if (page.next > cursor) return Effect.succeed([page, page.next] as const)",
    replace: "if (page.next > cursor && !page.sealed) return Effect.succeed([page, page.next] as const)",
    about: "whoever follows an output does not see its last lines",
    laws,
    simulated: true
  },
  {
    name: "follower-not-woken",
    file: retention,
    find: "const flows = this.#spill === null || this.#spill.afterCommit()\n    this.#wake()\n",
    replace: "const flows = this.#spill === null || this.#spill.afterCommit()\n",
    about: "whoever follows an output sees nothing before it ends",
    laws,
    simulated: true
  },
  {
    name: "gap-not-told",
    file: "packages/runtime/src/domain/OutputWindow.ts",
    find: "return this.#page(gap === null ? text : marker(gap.to - gap.from) + text, since, gap, start + length)",
    replace: "return this.#page(text, since, null, start + length)",
    about: "a reader does not know that something is missing",
    laws: windowLaws,
    simulated: true
  },
  {
    name: "page-cuts-a-character",
    file: "packages/runtime/src/domain/OutputWindow.ts",
    find: "const length = Utf8.textLength(bytes, limit, region < this.seen || this.sealed)",
    replace: "const length = Math.min(bytes.length, limit)",
    about: "a page of text ends in half a character",
    laws: windowLaws,
    simulated: false
  },
  {
    name: "unwritten-bytes-overwritten",
    file: "packages/runtime/src/domain/OutputWindow.ts",
    find: "this.#protected === null ? tailStart : Math.max(this.#ringFrom, Math.min(tailStart, this.#protected))",
    replace: "tailStart",
    about: "a blob holds later bytes in the place of earlier ones",
    laws: [...windowLaws, ...laws],
    simulated: false
  },
  {
    name: "sealed-hash-wrong-at-a-chunk-border",
    file: retention,
    find: "this.#sha256.update(bytes)",
    replace: "this.#sha256.update(bytes.length % 4096 === 0 ? bytes.subarray(1) : bytes)",
    about: "the hash of an output is wrong where a chunk fills what was lent exactly",
    laws,
    simulated: false
  },
  {
    name: "output-counted-twice",
    file: "packages/runtime/src/services/host/OwnedProcess.ts",
    find: "return this.stdout.bytesSeen + (this.stderr?.bytesSeen ?? 0)",
    replace: "return this.stdout.bytesSeen + (this.stderr ?? this.stdout).bytesSeen",
    about: "merged output counts double",
    laws: ["runtime/test/services/BackgroundProcess"],
    simulated: true
  },
  {
    name: "cap-met-is-cap-passed",
    file: retention,
    find: "this.#window.seen > this.#cap)",
    replace: "this.#window.seen >= this.#cap)",
    about: "a job that prints exactly what it may is ended for it",
    laws,
    simulated: false
  },
  {
    name: "finished-output-unbounded",
    file: "packages/runtime/src/services/host/FinishedOutput.ts",
    find: "      total += bytes\n",
    replace: "",
    about: "the outputs of finished jobs fill the memory",
    laws: ["runtime/test/services/host/FinishedOutput"],
    simulated: false
  },
  {
    name: "blob-claims-to-be-whole",
    file: spill,
    find: "      this.#lost = { from: this.#lost?.from ?? this.#next, to: held }\n",
    replace: "",
    about: "a blob that lacks bytes says that it has all of them",
    laws,
    simulated: false
  },
  {
    name: "second-loss-hides-the-first",
    file: spill,
    find: "this.#lost = { from: this.#lost?.from ?? this.#next, to: held }",
    replace: "this.#lost = { from: this.#next, to: held }",
    about: "a blob that lost bytes twice says that it lost them once",
    laws,
    simulated: false
  },
  {
    name: "paused-stream-never-resumed",
    file: spill,
    find: "    this.#paused = false\n    this.#flow()\n",
    replace: "    this.#paused = false\n",
    about: "a child that prints more than the store takes at once hangs for ever",
    laws,
    simulated: false
  },
  {
    name: "stream-not-paused",
    file: spill,
    find: "    if (!this.#mustPause()) return true\n    this.#paused = true\n    return false",
    replace: "    return true",
    about: "a slow store loses output that it would have taken in time",
    laws,
    simulated: false
  },
  {
    name: "hung-append-used-again",
    file: spill,
    find: "if (Option.isNone(exit.value)) this.#abandon(true)",
    replace: "if (Option.isNone(exit.value)) this.#fail(true)",
    about: "a call that hung and writes when it wakes up tears a blob that was gone on with",
    laws,
    simulated: false
  },
  {
    name: "blob-removed-under-a-reader",
    file: retention,
    find: "return Effect.andThen(holds, kept.dispose)",
    replace: "return kept.dispose",
    about: "whoever follows an output loses the rest of it when its job is forgotten",
    laws: [...laws, "runtime/test/services/Recovery.blobs"],
    simulated: false
  },
  {
    name: "leaked-lease",
    file: "packages/runtime/src/internal/Leases.ts",
    find: "      held.holders--\n      if (held.holders > 0) return Effect.void",
    replace: "      if (held.holders > 0) return Effect.void",
    about: "every blob that was read once keeps its file open",
    laws: ["runtime/test/internal/Leases"],
    simulated: false
  },
  {
    name: "lease-taken-from-the-next-reader",
    file: "packages/runtime/src/internal/Leases.ts",
    find: "      if (held.holders > 0) return Effect.void\n",
    replace: "",
    about: "the first of two readers closes the file of the other",
    laws: ["runtime/test/internal/Leases"],
    simulated: false
  },
  {
    name: "wrong-bytes-after-a-gap",
    file: "packages/runtime/src/internal/OutputSource.ts",
    find: "offset: length - (seen - start), length: seen - start }",
    replace: "offset: start, length: seen - start }",
    about: "what is read after a gap of a blob is not what was printed there",
    laws,
    simulated: false
  },
  {
    name: "short-read-taken-for-whole",
    file: "packages/runtime/src/internal/OutputSource.ts",
    find: "Option.isSome(read) && read.value.at === length ? read.value.into : null",
    replace: "Option.isSome(read) ? read.value.into : null",
    about: "a blob that was cut off reads as zeros",
    laws: [...laws, "runtime/test/services/Recovery.blobs"],
    simulated: false
  },
  {
    name: "blob-named-before-it-is-written",
    file: fileStore,
    find: "Effect.andThen(this.#mend(), this.#file.sync)",
    replace: "this.#mend()",
    about: "a crash of the machine leaves a blob with nothing in it",
    laws: ["runtime/test/stores/BlobStoreFileSystem"],
    simulated: false
  },
  {
    name: "torn-append-stays",
    file: fileStore,
    find: "              this.#torn = true\n",
    replace: "",
    about: "a blob holds half of a write that failed before the one that was tried again",
    laws: ["runtime/test/stores/BlobStoreFileSystem"],
    simulated: false
  },
  {
    name: "quota-leaked",
    file: fileStore,
    find: "      if (this.#open) this.#quota.used -= this.#size\n",
    replace: "",
    about: "every spill that was given up takes its part of the quota for ever",
    laws: ["runtime/test/stores/BlobStoreFileSystem"],
    simulated: false
  },
  {
    name: "temporary-file-stays",
    file: fileStore,
    find: "      yield* Effect.addFinalizer(() => Effect.ignore(this.#place.fs.remove(at, { force: true })))\n",
    replace: "",
    about: "every spill that was given up leaves its file behind",
    laws: ["runtime/test/stores/BlobStoreFileSystem"],
    simulated: false
  },
  {
    name: "removes-what-begins-alike",
    file: "packages/runtime/src/internal/BlobNames.ts",
    find: "isRef(reference) && reference.endsWith(`.${encode(name)}`)",
    replace: "isRef(reference) && reference.includes(`.${encode(name)}`)",
    about: "forgetting one job removes the output of another whose id begins the same",
    laws: ["runtime/test/internal/BlobNames", "runtime/test/stores/BlobStoreMemory"],
    simulated: false
  }
]
