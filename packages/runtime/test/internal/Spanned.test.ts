import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Tracer from "effect/Tracer"
import { spanned } from "../../src/internal/Spanned.ts"

/** Runs an effect and answers with its exit and with the exits that its spans ended with. */
const traced = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    const exit = yield* Effect.exit(Effect.provideService(effect, Tracer.Tracer, tracer))
    return [
      exit,
      spans.map(({ name, status }) => [name, status._tag === "Ended" ? status.exit : null] as const)
    ] as const
  })

it.effect("a span ends without the answer, and the caller gets it", () =>
  Effect.gen(function*() {
    const [exit, spans] = yield* traced(spanned("verb", Effect.succeed("answer")))
    assert.deepStrictEqual(exit, Exit.succeed("answer"))
    assert.deepStrictEqual(spans, [["verb", Exit.void]])
  }))

it.effect("a span ends with the failure, and so does the caller", () =>
  Effect.gen(function*() {
    const [exit, spans] = yield* traced(spanned("verb", Effect.fail("failure")))
    assert.isTrue(
      Exit.isFailure(exit) && exit.cause.reasons.some((reason) => reason._tag === "Fail" && reason.error === "failure")
    )
    assert.deepStrictEqual(spans.map(([name, ended]) => [name, ended?._tag]), [["verb", "Failure"]])
  }))
