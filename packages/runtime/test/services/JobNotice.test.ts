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
  tail: ""
})

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
    assert.deepStrictEqual(told(queue.drain()), ["n-1", "n-2", "n-3"])
    assert.strictEqual(queue.size, 0)
    assert.deepStrictEqual(queue.drain(), [])
    queue.add(notice("n-4"))
    assert.deepStrictEqual(told(queue.drain()), ["n-4"])
  })

  it("keeps as many as it may, and turns the oldest into one counted summary", () => {
    const queue = queueOf(2, 5)
    assert.strictEqual(queue.size, 3)
    assert.deepStrictEqual(told(queue.drain()), [3, "n-4", "n-5"])
    queue.add(notice("n-6"))
    assert.deepStrictEqual(told(queue.drain()), ["n-6"])
  })

  it("gives away a list that later notices do not change", () => {
    const queue = queueOf(2, 1)
    const drained = queue.drain()
    queue.add(notice("n-2"))
    assert.deepStrictEqual(told(drained), ["n-1"])
  })

  it("keeps the newest when it is given no room", () => {
    assert.deepStrictEqual(told(queueOf(0, 2).drain()), [1, "n-2"])
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
