import { assert, it } from "@effect/vitest"
import { type BackgroundProcess, BlobStore, BlobStoreMemory, ProcessLedger, Recovery } from "@procyon/runtime"
import { child, Lives, type Script, World } from "@procyon/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { jobsOf, reconciled, start } from "./lives.ts"

const rowOf = (id: string) => ProcessLedger.Service.use((ledger) => ledger.get(id))
const small = { outputBytes: 8192 }
const text = "0123456789".repeat(3000)
const loud = child.prints(text).exits(0, { after: "1 second" })

/** A store that refuses every append while `full`, and what is asked of it by the names of whose blobs are removed. */
class Shared {
  full = false
  readonly removed: Array<string> = []
  readonly layer = Layer.effect(
    BlobStore.Service,
    Effect.map(BlobStoreMemory.make, (store): BlobStore.BlobStore => ({
      read: (ref, options) => store.read(ref, options),
      lease: (ref) => store.lease(ref),
      remove: (name) =>
        Effect.suspend(() => {
          this.removed.push(name)
          return store.remove(name)
        }),
      write: (name) =>
        Effect.map(store.write(name), (writer): BlobStore.BlobWriter => ({
          append: (bytes) =>
            Effect.suspend(() =>
              this.full
                ? Effect.fail(new BlobStore.BlobError({ operation: "append", problem: "NoSpace", retryable: true }))
                : writer.append(bytes)
            ),
          seal: (label) => writer.seal(label)
        }))
    }))
  )
}

const law = <A, E>(
  name: string,
  children: Record<string, Script>,
  body: (store: Shared) => Effect.Effect<A, E, Lives.Shared>
) =>
  it.effect(name, () => {
    const store = new Shared()
    return Effect.provide(body(store), Layer.merge(Lives.layer({ children }), Layer.fresh(store.layer)))
  })

/** All that is left of an output, read by one who follows, and where it has gaps. */
const readAll = (view: BackgroundProcess.View, between: Effect.Effect<unknown> = Effect.void) =>
  Effect.gen(function*() {
    let data = ""
    const gaps: Array<unknown> = []
    yield* Stream.runForEach(view.followBytes({ limit: 4000 }), (page) => {
      data += new TextDecoder().decode(page.data)
      if (page.gap !== null) gaps.push(page.gap)
      return between
    })
    return { data, gaps }
  })

const outputOf = (id: string) => Effect.flatMap(jobsOf("s1"), (jobs) => jobs.output(id))

law(
  "two rows with the same output have a blob each, in this life and the next",
  { loud },
  () =>
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin(small)
      const one = yield* first.run(start("loud"))
      const two = yield* first.run(start("loud"))
      yield* world.advance("5 seconds")
      const refs = [(yield* rowOf(one.id))?.output?.stdout.blob, (yield* rowOf(two.id))?.output?.stdout.blob]
      assert.strictEqual(new Set(refs).size, 2)
      yield* first.kill
      const second = yield* Lives.begin(small)
      yield* reconciled(second)
      const jobs = yield* second.run(jobsOf("s1"))
      yield* jobs.notices
      assert.isTrue(yield* jobs.forget(one.id))
      assert.deepStrictEqual(yield* readAll(yield* jobs.output(two.id)), { data: text, gaps: [] })
      assert.isTrue(yield* jobs.forget(two.id))
      const store = yield* BlobStore.Service
      for (const ref of refs) {
        assert.strictEqual((yield* Effect.flip(Stream.runDrain(store.read(ref ?? "")))).problem, "NotFound")
      }
    })
)

law(
  "a runtime that forgets takes nothing from another that has the same output",
  { loud },
  () =>
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin(small)
      const second = yield* Lives.begin(small)
      const one = yield* first.run(start("loud"))
      const two = yield* second.run(start("loud"))
      yield* world.advance("5 seconds")
      const jobs = yield* first.run(jobsOf("s1"))
      yield* jobs.notices
      assert.isTrue(yield* jobs.forget(one.id))
      assert.isNull(yield* rowOf(one.id))
      assert.deepStrictEqual(yield* readAll(yield* second.run(outputOf(two.id))), { data: text, gaps: [] })
    })
)

law(
  "what a killed runtime was writing is removed by the one that takes its row over, and nobody else's",
  { server: child.prints(text), other: child.prints(text) },
  (store) =>
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin(small)
      const dead = yield* first.run(start("server"))
      const living = yield* Lives.begin(small)
      const other = yield* living.run(start("other"))
      yield* world.advance("1 second")
      const view = yield* living.run(outputOf(other.id))
      assert.strictEqual((yield* view.metadata).spill, "writing")
      yield* first.kill
      const third = yield* Lives.begin(small)
      yield* reconciled(third)
      assert.deepStrictEqual(new Set(store.removed), new Set([dead.id, `${dead.id}-stderr`]))
      const unavailable = yield* Effect.flip(third.run(outputOf(dead.id)))
      assert.strictEqual(unavailable._tag, "OutputUnavailable")
      const stopping = yield* Effect.forkChild(
        living.run(Effect.flatMap(jobsOf("s1"), (jobs) => jobs.stop(other.id)))
      )
      yield* world.advance("10 seconds")
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(yield* readAll(view), { data: text, gaps: [] })
    })
)

law(
  "who follows an output of an earlier life has all of it when the job is forgotten meanwhile",
  { loud },
  () =>
    Effect.gen(function*() {
      const world = yield* World
      const first = yield* Lives.begin(small)
      const { id } = yield* first.run(start("loud"))
      yield* world.advance("5 seconds")
      yield* first.kill
      const second = yield* Lives.begin(small)
      yield* reconciled(second)
      const jobs = yield* second.run(jobsOf("s1"))
      const view = yield* jobs.output(id)
      const forget = Effect.ignore(jobs.forget(id))
      assert.deepStrictEqual(yield* readAll(view, forget), { data: text, gaps: [] })
      assert.isNull(yield* rowOf(id))
      assert.deepStrictEqual((yield* view.read()).gap, { from: 0, to: text.length })
    })
)

law("a blob that is gone is told as a gap, and its job can be forgotten", { loud }, () =>
  Effect.gen(function*() {
    const world = yield* World
    const first = yield* Lives.begin(small)
    const { id } = yield* first.run(start("loud"))
    yield* world.advance("5 seconds")
    yield* first.kill
    yield* BlobStore.Service.use((store) => store.remove(id))
    const second = yield* Lives.begin(small)
    yield* reconciled(second)
    const jobs = yield* second.run(jobsOf("s1"))
    const view = yield* jobs.output(id)
    assert.deepStrictEqual(yield* readAll(view), { data: "", gaps: [{ from: 0, to: text.length }] })
    assert.isString(yield* view.preview)
    assert.isTrue(yield* jobs.forget(id))
  }))

law(
  "a retry after the settlement tells the row of the blob, for the lives to come",
  { loud },
  (store) =>
    Effect.gen(function*() {
      const world = yield* World
      store.full = true
      const first = yield* Lives.begin(small)
      const { id } = yield* first.run(start("loud"))
      yield* world.advance("5 seconds")
      const jobs = yield* first.run(jobsOf("s1"))
      assert.strictEqual((yield* jobs.get(id)).output.spill, "failed")
      assert.isNull((yield* rowOf(id))?.output?.stdout.blob)
      assert.isFalse(yield* jobs.retrySpill(id))
      store.full = false
      assert.isTrue(yield* jobs.retrySpill(id))
      const { blob, gap, spilledBytes } = (yield* jobs.get(id)).output
      const stored = (yield* rowOf(id))?.output?.stdout
      assert.isNotNull(blob)
      assert.deepStrictEqual([stored?.blob, stored?.gap, stored?.spilledBytes], [blob, gap, spilledBytes])
      yield* first.kill
      const second = yield* Lives.begin(small)
      yield* reconciled(second)
      const { data, gaps } = yield* readAll(yield* second.run(outputOf(id)))
      assert.deepStrictEqual(gaps, gap === null ? [] : [gap])
      assert.strictEqual(data.length, spilledBytes)
    })
)

law(
  "a retry that comes while its job is forgotten leaves neither row nor blob",
  { loud },
  (store) =>
    Effect.gen(function*() {
      const world = yield* World
      store.full = true
      const first = yield* Lives.begin(small)
      const { id } = yield* first.run(start("loud"))
      yield* world.advance("5 seconds")
      const jobs = yield* first.run(jobsOf("s1"))
      yield* jobs.notices
      store.full = false
      const retrying = yield* Effect.forkChild(jobs.retrySpill(id), { startImmediately: true })
      assert.isTrue(yield* jobs.forget(id))
      yield* Fiber.await(retrying)
      yield* world.drain
      assert.isNull(yield* rowOf(id))
      assert.isFalse(yield* BlobStore.Service.use((blobs) => blobs.remove(id)))
    })
)

law(
  "a job for review that is forgotten takes its blob with it",
  { server: child.prints(text).ignores("SIGTERM").refuses("SIGKILL") },
  () =>
    Effect.gen(function*() {
      const world = yield* World
      const life = yield* Lives.begin(small)
      const { id } = yield* life.run(start("server"))
      yield* world.advance("1 second")
      const stopping = yield* Effect.forkChild(life.run(Effect.flatMap(jobsOf("s1"), (jobs) => jobs.stop(id))))
      yield* world.advance("20 seconds")
      yield* Fiber.join(stopping)
      const recovery = yield* life.run(Recovery.Service)
      assert.deepStrictEqual((yield* recovery.review).map((info) => info.id), [id])
      assert.isTrue(yield* recovery.forget(id))
      yield* world.drain
      assert.isFalse(yield* BlobStore.Service.use((store) => store.remove(id)))
    })
)

law("a blob stays while a row names it that another runtime has taken over", { loud }, () =>
  Effect.gen(function*() {
    const world = yield* World
    const first = yield* Lives.begin(small)
    const { id } = yield* first.run(start("loud"))
    yield* world.advance("5 seconds")
    const jobs = yield* first.run(jobsOf("s1"))
    yield* jobs.notices
    const ledger = yield* ProcessLedger.Service
    // As where nothing is known of the holder, and its lease has run out.
    const unheld = { status: "completed", holder: null, leaseUntil: 0 } as const
    assert.isTrue(yield* ledger.transition(id, { fence: 1, status: "completed" }, unheld))
    const second = yield* Lives.begin(small)
    assert.strictEqual((yield* reconciled(second)).known, 1)
    assert.strictEqual((yield* rowOf(id))?.fence, 2)
    assert.isTrue(yield* jobs.forget(id))
    assert.deepStrictEqual(yield* readAll(yield* second.run(outputOf(id))), { data: text, gaps: [] })
  }))

law("a blob stays while the ledger keeps the row that names it", { loud }, () =>
  Effect.gen(function*() {
    const world = yield* World
    let broken = false
    const ledger = yield* ProcessLedger.Service
    const failing = Effect.fail(new ProcessLedger.LedgerError({ operation: "remove", problem: "Unavailable" }))
    const first = yield* Lives.begin(small).pipe(
      Effect.provideService(ProcessLedger.Service, {
        ...ledger,
        remove: (id, fence) => broken ? failing : ledger.remove(id, fence)
      })
    )
    const { id } = yield* first.run(start("loud"))
    yield* world.advance("5 seconds")
    const jobs = yield* first.run(jobsOf("s1"))
    yield* jobs.notices
    broken = true
    assert.isTrue(yield* jobs.forget(id))
    yield* first.kill
    const second = yield* Lives.begin(small)
    yield* reconciled(second)
    const again = yield* second.run(jobsOf("s1"))
    assert.deepStrictEqual(yield* readAll(yield* again.output(id)), { data: text, gaps: [] })
    assert.isTrue(yield* again.forget(id))
    assert.isFalse(yield* BlobStore.Service.use((store) => store.remove(id)))
  }))
