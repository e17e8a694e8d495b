import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as JobNotice from "../../src/services/JobNotice.ts"

const notice = (noticeId: string): JobNotice.Notice => ({
  _tag: "Job",
  noticeId,
  id: "j-1",
  owner: "s-1",
  title: null,
  display: "sleep 1",
  status: "completed",
  exit: { code: 0, signal: null },
  exitCode: 0,
  durationMillis: 1000,
  bytesSeen: 0,
  tail: "",
  repeated: false
})

const drain = (queue: JobNotice.NoticeQueue) => queue.take(() => true)

const told = (notices: ReadonlyArray<JobNotice.Notice>) =>
  notices.map((notice) => notice._tag === "Summary" ? notice.dropped : notice.noticeId)

const queueOf = (capacity: number, count: number) => {
  const queue = new JobNotice.NoticeQueue(capacity)
  for (let index = 1; index <= count; index++) queue.add(notice(`n-${index}`))
  return queue
}

describe("NoticeQueue", () => {
  it("gives every notice once, in order", () => {
    const queue = queueOf(10, 3)
    assert.strictEqual(queue.size, 3)
    assert.deepStrictEqual(told(drain(queue)), ["n-1", "n-2", "n-3"])
    assert.strictEqual(queue.size, 0)
    assert.deepStrictEqual(drain(queue), [])
    queue.add(notice("n-4"))
    assert.deepStrictEqual(told(drain(queue)), ["n-4"])
  })

  it("keeps as many as it may, and turns the oldest into one counted summary", () => {
    const queue = queueOf(2, 5)
    assert.strictEqual(queue.size, 3)
    assert.deepStrictEqual(told(drain(queue)), [3, "n-4", "n-5"])
    queue.add(notice("n-6"))
    assert.deepStrictEqual(told(drain(queue)), ["n-6"])
  })

  it("gives away a list that later notices do not change", () => {
    const queue = queueOf(2, 1)
    const drained = drain(queue)
    queue.add(notice("n-2"))
    assert.deepStrictEqual(told(drained), ["n-1"])
  })

  it("takes only those that are wanted, and the summary", () => {
    const queue = new JobNotice.NoticeQueue(2)
    for (const id of ["a", "b", "c"]) queue.add({ ...notice(`n-${id}`), id } as JobNotice.Notice)
    assert.deepStrictEqual(told(queue.take(({ id }) => id === "c")), [1, "n-c"])
    assert.deepStrictEqual(told(drain(queue)), ["n-b"])
  })

  it("gives what was put back first, and says that it was there before", () => {
    const queue = queueOf(2, 3)
    const taken = drain(queue)
    queue.add(notice("n-4"))
    queue.putBack(taken)
    const again = drain(queue)
    assert.deepStrictEqual(told(again), [2, "n-3", "n-4"])
    assert.deepStrictEqual(again.map((notice) => notice._tag === "Job" && notice.repeated), [false, true, false])
  })

  it("keeps the newest when it is given no room", () => {
    assert.deepStrictEqual(told(drain(queueOf(0, 2))), [1, "n-2"])
  })
})

describe("Notice", () => {
  it.prop("goes through JSON and back", [JobNotice.Notice], ([given]) => {
    const codec = Schema.toCodecJson(JobNotice.Notice)
    const json = JSON.stringify(Schema.encodeSync(codec)(given))
    assert.strictEqual(
      JSON.stringify(Schema.encodeSync(codec)(Schema.decodeUnknownSync(codec)(JSON.parse(json)))),
      json
    )
  })
})
