import type { PlantedBug } from "./PlantedBug.ts"

const services = "packages/runtime/src/services"
const internal = "packages/runtime/src/internal"
const authority = ["runtime/test/services/Authority"]
const managed = ["runtime/test/services/ManagedProcess"]
const generation = ["runtime/test/services/Generation"]
const store = ["runtime/test/services/RuntimeStore"]

/** Applications that are replaced, what they share, and who may still change anything. */
export const applications: ReadonlyArray<PlantedBug> = [
  {
    name: "late-commit-accepted",
    file: `${internal}/Right.ts`,
    find: "    this.#revoked = true\n",
    replace: "",
    about: "work of an application that was replaced still changes what the new one sees",
    laws: authority,
    simulated: true
  },
  {
    name: "derived-right-outlives-its-own",
    file: `${internal}/Right.ts`,
    find: "return !this.#revoked && (this.outer === undefined || this.outer.stands)",
    replace: "return !this.#revoked",
    about: "what a replaced application handed out still commits",
    laws: authority,
    simulated: true
  },
  {
    name: "running-commit-not-waited-for",
    file: `${internal}/Right.ts`,
    find: "    yield* allOver(commits, windowMillis)\n",
    replace: "",
    about: "a commit that has begun is cut in its middle",
    laws: authority,
    simulated: true
  },
  {
    name: "revoked-after-the-close",
    file: `${services}/ManagedProcess.ts`,
    find: `      yield* Effect.all([this.#right.revoke(), this.#startsSettled()], { concurrency: "unbounded", discard: true })
      const entries = [...this.#entries]
      const closings = entries.map(([, entry]) => this.#right.fork(this.#closeOf(entry)))
      yield* allEndWithin(closings, this.#closeWindowMillis)
`,
    replace: `      yield* this.#startsSettled()
      const entries = [...this.#entries]
      const closings = entries.map(([, entry]) => this.#right.fork(this.#closeOf(entry)))
      yield* allEndWithin(closings, this.#closeWindowMillis)
      yield* this.#right.revoke()
`,
    about: "a process that is being closed commits once more",
    laws: managed,
    simulated: true
  },
  {
    name: "identity-forgotten-in-removal",
    file: `${services}/ManagedProcess.ts`,
    find: "if (entry === undefined || entry.process !== self || entry.removed",
    replace: "if (entry === undefined || entry.removed",
    about: "a process that is over removes its successor, which then nobody closes",
    laws: managed,
    simulated: false
  },
  {
    name: "start-not-waited-for-at-the-close",
    file: `${services}/ManagedProcess.ts`,
    find: "yield* Effect.all([this.#right.revoke(), this.#startsSettled()], { concurrency: \"unbounded\", discard: true })",
    replace: "yield* this.#right.revoke()",
    about: "a process that is just starting is closed before it has begun, and goes on",
    laws: managed,
    simulated: false
  },
  {
    name: "failed-start-not-closed",
    file: `${services}/ManagedProcess.ts`,
    find: "return Effect.map(this.#tryClose(id, entry), () => {",
    replace: "return Effect.map(Effect.void, () => {",
    about: "what a start had begun before it failed is ended by nobody",
    laws: managed,
    simulated: false
  },
  {
    name: "uninterruptible-start-goes-on",
    file: `${services}/ManagedProcess.ts`,
    find: "      if (fiber.pollUnsafe() === undefined) this.#closeOnceOver(id, entry, fiber)\n",
    replace: "",
    about: "a start that overran begins later what nobody ends",
    laws: managed,
    simulated: false
  },
  {
    name: "forked-process-stays-registered",
    file: `${services}/ManagedProcess.ts`,
    find: "          if (this.#entries.get(id) === entry) this.#entries.delete(id)\n",
    replace: "",
    about: "the id of work that is over stays taken",
    laws: managed,
    simulated: false
  },
  {
    name: "oldest-closed-first",
    file: `${internal}/InstanceStore.ts`,
    find: "for (const instance of this.#made.toReversed()) {",
    replace: "for (const instance of this.#made) {",
    about: "an instance is closed before those that were made from it",
    laws: store,
    simulated: false
  },
  {
    name: "made-twice",
    file: `${internal}/InstanceStore.ts`,
    find: "            this.#instances.set(key.name, instance)\n",
    replace: "",
    about: "two plugins that ask at once get two instances of one key",
    laws: store,
    simulated: false
  },
  {
    name: "failed-instance-kept-open",
    file: `${internal}/InstanceStore.ts`,
    find: "return bounded(during(instance.activity, Scope.close(instance.scope, exit)), instance.closeWindowMillis).pipe(",
    replace: "return bounded(Effect.void, instance.closeWindowMillis).pipe(",
    about: "what was acquired for an instance that could not be made is never released",
    laws: store,
    simulated: false
  },
  {
    name: "replaced-application-not-waited-for",
    file: `${services}/Generation.ts`,
    find: "(inside) => Effect.as(inside ? Effect.void : Fiber.awaitAll(endings.values()), number)",
    replace: "(inside) => Effect.as(Effect.void, inside ? number : number)",
    about: "a replacement answers while the old application still runs",
    laws: generation,
    simulated: false
  },
  {
    name: "old-application-goes-before-the-new",
    file: `${services}/Generation.ts`,
    find: "      const fresh = this.#prepare()\n",
    replace: "      const fresh = this.#prepare()\n      this.#current?.right.withdraw()\n",
    about: "a build that fails leaves the running application without its rights",
    laws: generation,
    simulated: false
  },
  {
    name: "failed-build-not-closed",
    file: `${services}/Generation.ts`,
    find: "return Effect.flatMap(this.#end(fresh), (): Effect.Effect<never, E | RuntimeStore.NoApplication> => {",
    replace: "return Effect.flatMap(Effect.void, (): Effect.Effect<never, E | RuntimeStore.NoApplication> => {",
    about: "what a build had acquired before it failed stays open",
    laws: generation,
    simulated: false
  },
  {
    name: "operation-slot-leaked",
    file: `${services}/Operation.ts`,
    find: "    known?.delete(operation)\n",
    replace: "",
    about: "an owner whose operation failed cannot begin another",
    laws: ["runtime/test/services/Operation"],
    simulated: false
  }
]
