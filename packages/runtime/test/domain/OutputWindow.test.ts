import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as OutputWindow from "../../src/domain/OutputWindow.ts"

const utf8 = new TextEncoder()
const window = (head: number, limit: number, protects = false) => OutputWindow.make({ head, limit, protects })

/** Writes as a driver does: into what is lent, no more than fits. */
const write = (to: OutputWindow.OutputWindow, bytes: Uint8Array | string) => {
  const all = typeof bytes === "string" ? utf8.encode(bytes) : bytes
  for (let at = 0; at < all.length;) {
    const lent = to.reserve()
    const count = Math.min(lent.length, all.length - at)
    lent.set(all.subarray(at, at + count))
    assert.deepStrictEqual(to.commit(count), all.subarray(at, at + count))
    at += count
  }
}

/** Reads from `since` to the end, and checks what every reader relies on. */
const readAll = <Data>(read: (since: number) => OutputWindow.Page<Data>, seen: number, since = 0) => {
  const pages: Array<OutputWindow.Page<Data>> = []
  for (let cursor = since; cursor < seen;) {
    const page = read(cursor)
    assert.strictEqual(page.since, cursor)
    if (page.next === cursor) break
    assert.isAbove(page.next, cursor)
    pages.push(page)
    cursor = page.next
  }
  return pages
}

const lost = (page: OutputWindow.Page<unknown>) => page.gap === null ? 0 : page.gap.to - page.gap.from
const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((all, one) => all + one, 0)

const Size = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const Op = Schema.Union([
  Schema.TaggedStruct("Write", { size: Size(9000), kind: Schema.Literals(["text", "binary"]) }),
  Schema.TaggedStruct("Partly", { size: Size(300) }),
  Schema.TaggedStruct("Twice", {}),
  Schema.TaggedStruct("Read", { since: Size(40_000), limit: Size(3000) })
])

/** Characters of 1 to 4 bytes, in turn, or bytes that are no text; the same for the same offset. */
const content = (kind: "text" | "binary", size: number, from: number): Uint8Array => {
  if (kind === "binary") return Uint8Array.from({ length: size }, (_, i) => ((from + i) * 7919) >> 3)
  let text = ""
  for (let i = from; text.length < size; i++) text += ["a", "é", "€", "😀", "\n"][i % 5]
  return utf8.encode(text).subarray(0, size)
}

describe("OutputWindow", () => {
  it.prop(
    "agrees with an array of all bytes on every read, whatever is written and wherever it is read",
    { head: Size(5000), more: Size(9000), ops: Schema.Array(Op).check(Schema.isMaxLength(14)), seal: Schema.Boolean },
    ({ head, more, ops, seal }) => {
      const limit = head + more
      const subject = window(head, limit)
      let oracle = new Uint8Array(0)
      const put = (bytes: Uint8Array) => {
        write(subject, bytes)
        oracle = Uint8Array.from([...oracle, ...bytes])
      }
      const check = (since: number, limit: number) => {
        const headEnd = Math.min(oracle.length, head)
        const tailStart = Math.max(headEnd, oracle.length - more)
        const page = subject.readBytes(since, limit || Infinity)
        const inGap = since < oracle.length && since >= headEnd && since < tailStart
        const start = inGap ? tailStart : Math.min(since, oracle.length)
        const region = start < headEnd && tailStart > headEnd ? headEnd : oracle.length
        const next = Math.min(region, start + (limit || Infinity))
        assert.deepStrictEqual(page.gap, inGap ? { from: since, to: tailStart } : null)
        assert.strictEqual(page.next, next)
        assert.deepStrictEqual(page.data, oracle.slice(start, next))
        assert.strictEqual(subject.retained, headEnd + oracle.length - tailStart)
      }
      for (const op of ops) {
        switch (op._tag) {
          case "Write":
            put(content(op.kind, op.size, oracle.length))
            break
          case "Partly":
            put(content("binary", op.size, oracle.length))
            break
          case "Twice": {
            const first = subject.reserve()
            first[0] = 1
            assert.strictEqual(subject.reserve().byteOffset, first.byteOffset)
            assert.strictEqual(subject.reserve()[0], 1)
            break
          }
          case "Read":
            check(op.since, op.limit)
        }
      }
      if (seal) subject.seal()
      for (const since of [0, head - 1, head, head + 1, oracle.length - more, oracle.length - 1]) {
        check(Math.max(0, since), 0)
      }
      const bytes = readAll((since) => subject.readBytes(since, 777), oracle.length)
      assert.strictEqual(sum(bytes.map((page) => page.data.length + lost(page))), oracle.length)
    },
    { arbitrary: { runs: 400 } }
  )

  it.prop(
    "gives the same text in pages of any size as in one, well formed, with every byte accounted for",
    {
      head: Size(40),
      more: Size(60),
      kind: Schema.Literals(["text", "binary"]),
      size: Size(400),
      limit: Size(9),
      seal: Schema.Boolean
    },
    ({ head, kind, limit, more, seal, size }) => {
      const subject = window(head, head + more)
      write(subject, content(kind, size, 0))
      if (seal) subject.seal()
      const small = readAll((since) => subject.readText(since, limit || Infinity), size)
      const large = readAll((since) => subject.readText(since, Infinity), size)
      assert.strictEqual(small.map((page) => page.data).join(""), large.map((page) => page.data).join(""))
      for (const page of small) assert.isTrue(page.data.isWellFormed())
      const end = small.at(-1)?.next ?? 0
      assert.isTrue(seal ? end === size : size - end <= 3)
      assert.isTrue(subject.preview(50).isWellFormed())
      assert.isTrue(subject.tail(limit).isWellFormed())
    },
    { arbitrary: { runs: 1500 } }
  )

  it("tells exactly what was lost, wherever the limits cut a 4-byte character", () => {
    const text = "😀".repeat(50)
    for (let head = 8; head < 12; head++) {
      for (let tail = 8; tail < 12; tail++) {
        const subject = window(head, head + tail)
        write(subject, text)
        subject.seal()
        const pages = readAll((since) => subject.readText(since, Infinity), 200)
        const [first, second] = pages
        assert.strictEqual(pages.length, 2)
        assert.strictEqual(first?.data, "😀😀")
        assert.deepStrictEqual(second?.gap, { from: 8, to: 192 })
        assert.strictEqual(second?.data, "... [184 earlier output bytes truncated]\n😀😀")
        assert.strictEqual(subject.preview(head + tail), "😀😀\n... [184 earlier output bytes truncated]\n😀😀")
        assert.strictEqual(subject.tail(tail), "😀😀")
      }
    }
  })

  it("holds a cut euro sign back until it is whole", () => {
    const subject = window(10, 20)
    write(subject, Uint8Array.of(0xe2))
    assert.deepStrictEqual(subject.readText(0, Infinity), { data: "", since: 0, next: 0, gap: null, sealed: false })
    assert.strictEqual(subject.preview(20), "")
    write(subject, Uint8Array.of(0x82, 0xac))
    assert.deepStrictEqual(subject.readText(0, 1), { data: "€", since: 0, next: 3, gap: null, sealed: false })
    assert.strictEqual(subject.preview(20), "€")
    assert.strictEqual(subject.seen, 3)
  })

  it("gives an incomplete character as U+FFFD once nothing more can come", () => {
    const subject = window(10, 20)
    write(subject, Uint8Array.of(0x61, 0xe2, 0x82))
    assert.strictEqual(subject.readText(0, Infinity).next, 1)
    subject.seal()
    assert.deepStrictEqual(subject.readText(1, 1), { data: "\ufffd", since: 1, next: 3, gap: null, sealed: true })
  })

  it("never moves a cursor back, and says what a late reader has lost", () => {
    const subject = window(100, 1000)
    write(subject, "x".repeat(400))
    const first = subject.readText(0, Infinity)
    assert.deepStrictEqual([first.data.length, first.next, first.gap], [400, 400, null])
    write(subject, "y".repeat(5000))
    const second = subject.readText(first.next, Infinity)
    assert.deepStrictEqual(second.gap, { from: 400, to: 4500 })
    assert.strictEqual(second.data, `... [4100 earlier output bytes truncated]\n${"y".repeat(900)}`)
    assert.strictEqual(400 + lost(second) + 900, subject.seen)
    const ahead = { data: "", since: 5400, next: 5400, gap: null, sealed: false }
    assert.deepStrictEqual(subject.readText(second.next + 10, Infinity), ahead)
    assert.deepStrictEqual(subject.readText(2 ** 53, Infinity), ahead)
  })

  it("refuses cursors and limits that are no offsets, and takes those that are only too large", () => {
    for (const value of [-1, NaN, 1.5, Infinity, -Infinity]) {
      const bad = OutputWindow.checkRead({ since: value })
      assert.deepStrictEqual([bad?._tag, bad?.field], ["BadCursor", "since"])
      assert.strictEqual(bad?.message, `since must be a whole number of bytes, not ${value}`)
    }
    for (const value of [-1, NaN, 0.5]) assert.strictEqual(OutputWindow.checkRead({ limit: value })?.field, "limit")
    for (const since of [0, 1, 2 ** 53]) assert.isNull(OutputWindow.checkRead({ since, limit: 0 }))
    assert.isNull(OutputWindow.checkRead(undefined))
  })

  it("takes nothing that was not lent, and gives no piece of what it does not hold", () => {
    const subject = window(10, 100)
    assert.strictEqual(subject.commit(5).length, 0)
    write(subject, content("binary", 20_000, 0))
    assert.strictEqual(subject.commit(5).length, 0)
    assert.deepStrictEqual([subject.piece(15, 5).length, subject.piece(20_000, 5).length], [0, 0])
    subject.reserve()
    subject.seal()
    subject.seal()
    assert.strictEqual(subject.commit(5).length, 0)
    assert.strictEqual(subject.seen, 20_000)
  })

  it("keeps what is protected as long as there is room, and takes no more room than it says", () => {
    const subject = window(10, 100, true)
    const bytes = content("binary", 200_000, 0)
    let at = 0
    while (subject.room >= subject.slice) {
      const lent = subject.reserve()
      const count = Math.min(lent.length, 1000)
      lent.set(bytes.subarray(at, at + count))
      subject.commit(count)
      at += count
    }
    assert.isAbove(at, subject.slice * 6)
    const got: Array<number> = []
    while (got.length < at) got.push(...subject.piece(got.length, 5000))
    assert.deepStrictEqual(Uint8Array.from(got), bytes.subarray(0, at))
    subject.protect(at)
    assert.strictEqual(subject.heldFrom(0), 0)
    write(subject, bytes.subarray(at))
    assert.isAbove(subject.heldFrom(10), 10)
    assert.deepStrictEqual(subject.readBytes(199_950, Infinity).data, bytes.subarray(199_950))
  })

  it("lets the oldest protected bytes give way when asked to, and keeps all that fit", () => {
    const subject = window(10, 100, true)
    const bytes = content("binary", 300_000, 0)
    subject.protect(0, true)
    for (let at = 0; at < bytes.length; at += 1000) {
      write(subject, bytes.subarray(at, at + 1000))
      const held = subject.heldFrom(10)
      assert.isAtMost(held, Math.max(10, subject.seen - 6 * subject.slice))
      const first = subject.piece(held, 500)
      assert.deepStrictEqual(first, bytes.subarray(held, held + first.length))
    }
  })

  it("says that a byte is gone as soon as the region that replaces it is lent", () => {
    const subject = window(10, 100)
    write(subject, content("binary", 20_000, 0))
    for (let i = 0; i < 50; i++) {
      const lent = subject.reserve()
      const held = subject.heldFrom(10)
      lent.fill(0xff)
      assert.deepStrictEqual(subject.piece(held, 1)[0], content("binary", 1, held)[0])
      lent.set(content("binary", 100, subject.seen).subarray(0, lent.length))
      subject.commit(100)
    }
  })

  it("keeps only what a preview shows when a finished record shrinks, and no more than it had", () => {
    const subject = window(1000, 10_000)
    write(subject, "0123456789".repeat(900))
    subject.shrink(5, 5)
    assert.strictEqual(subject.retained, 9000)
    subject.seal()
    subject.shrink(5, 5)
    assert.deepStrictEqual([subject.retained, subject.seen, subject.truncated], [10, 9000, true])
    assert.strictEqual(subject.preview(4096), "01234\n... [8990 earlier output bytes truncated]\n56789")
    subject.shrink(100, 100)
    assert.strictEqual(subject.retained, 10)
  })

  it("does not grow with what passes through it", () => {
    const subject = window(64 * 1024, 1024 * 1024)
    const flood = (bytes: number) => {
      for (const end = subject.seen + bytes; subject.seen < end;) subject.commit(subject.reserve().length)
    }
    flood(4 * 1024 * 1024)
    const buffer = subject.reserve().buffer
    const before = process.memoryUsage().arrayBuffers
    flood(256 * 1024 * 1024)
    assert.strictEqual(subject.reserve().buffer, buffer)
    assert.isBelow(process.memoryUsage().arrayBuffers - before, 1024 * 1024)
    assert.isAtMost(buffer.byteLength, 960 * 1024 + subject.slice)
    assert.strictEqual(subject.retained, 1024 * 1024)
  })

  it("starts small, and takes nothing before the first region is asked for", () => {
    const subject = window(64 * 1024, 1024 * 1024)
    assert.deepStrictEqual(subject.readBytes(0, Infinity).data.length, 0)
    assert.strictEqual(subject.reserve().buffer.byteLength, 4096)
  })
})
