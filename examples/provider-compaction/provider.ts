// A stand-in for a provider that makes a long conversation short: an HTTP server on this machine, which answers when it
// is told to, and the client that an application would have of the real one.
import { NodeHttpClient, NodeHttpServer } from "@effect/platform-node"
import { Context, Deferred, Effect, Layer, Queue, Ref, Schema, Stream } from "effect"
import {
  HttpClient,
  HttpClientRequest,
  HttpIncomingMessage,
  HttpRouter,
  HttpServer,
  type HttpServerError,
  HttpServerResponse
} from "effect/http"
import { createServer } from "node:http"

/** What the provider made of a request. `transient`: the same request may succeed later. */
export class ProviderFailed extends Schema.TaggedError<ProviderFailed>()("ProviderFailed", {
  reason: Schema.String,
  transient: Schema.Boolean
}) {
  override get message(): string {
    return this.reason
  }
}

/** The provider has accepted, and what follows is paid for. `summary` reads the rest, for ten seconds at most. */
export interface Answer {
  readonly summary: Effect.Effect<string, ProviderFailed>
}

/** The client. Interrupting `compact` withdraws the request. */
export class Provider extends Context.Service<Provider, {
  readonly compact: (messages: ReadonlyArray<string>) => Effect.Effect<Answer, ProviderFailed>
}>()("example/Provider") {}

/** A request as the server sees it, which holds it until it is told what to do. */
export interface Call {
  /** Sends the status and the beginning of the body. */
  readonly accept: Effect.Effect<void>
  readonly answer: (summary: string) => Effect.Effect<void>
  readonly refuse: (status: number) => Effect.Effect<void>
  /** Waits until the client has withdrawn it. */
  readonly withdrawn: Effect.Effect<void>
}

/** The other end of the wire, for the story to play. */
export class ProviderServer extends Context.Service<ProviderServer, {
  readonly nextCall: Effect.Effect<Call>
  readonly counts: Effect.Effect<{ readonly received: number; readonly withdrawn: number }>
}>()("example/ProviderServer") {}

const readBody = HttpIncomingMessage.schemaBodyJson(Schema.Struct({ summary: Schema.String }))

class Held implements Call {
  readonly status = Deferred.makeUnsafe<number>()
  readonly summary = Deferred.makeUnsafe<string>()
  readonly gone = Deferred.makeUnsafe<void>()

  get accept(): Effect.Effect<void> {
    return Deferred.succeed(this.status, 200)
  }

  answer(summary: string): Effect.Effect<void> {
    return Effect.andThen(this.accept, Deferred.succeed(this.summary, summary))
  }

  refuse(status: number): Effect.Effect<void> {
    return Deferred.succeed(this.status, status)
  }

  get withdrawn(): Effect.Effect<void> {
    return Deferred.await(this.gone)
  }

  get response(): Effect.Effect<HttpServerResponse.HttpServerResponse> {
    return Effect.map(Deferred.await(this.status), (status) => {
      if (status !== 200) return HttpServerResponse.empty({ status })
      const rest = Effect.map(Deferred.await(this.summary), (summary) => `${JSON.stringify(summary)}}`)
      const body = Stream.concat(Stream.succeed("{\"summary\":"), Stream.fromEffect(rest))
      return HttpServerResponse.stream(Stream.encodeText(body), { contentType: "application/json" })
    })
  }
}

const server = Layer.unwrap(Effect.gen(function*() {
  const calls = yield* Queue.unbounded<Call>()
  const received = yield* Ref.make(0)
  const withdrawn = yield* Ref.make(0)
  const handler = Effect.gen(function*() {
    const held = new Held()
    yield* Ref.update(received, (count) => count + 1)
    yield* Queue.offer(calls, held)
    return yield* Effect.onInterrupt(
      held.response,
      () => Effect.andThen(Ref.update(withdrawn, (count) => count + 1), Deferred.succeed(held.gone, undefined))
    )
  })
  const routes = HttpRouter.serve(HttpRouter.add("POST", "/compact", handler), {
    disableLogger: true,
    disableListenLog: true
  })
  const played = Layer.succeed(ProviderServer, {
    nextCall: Queue.take(calls),
    counts: Effect.all({ received: Ref.get(received), withdrawn: Ref.get(withdrawn) })
  })
  return Layer.merge(routes, played)
})).pipe(Layer.provideMerge(NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 })))

const client = Layer.effect(
  Provider,
  Effect.gen(function*() {
    const address = HttpServer.formatAddress((yield* HttpServer.HttpServer).address)
    const http = (yield* HttpClient.HttpClient).pipe(
      HttpClient.mapRequest(HttpClientRequest.prependUrl(address)),
      HttpClient.filterStatusOk
    )
    return Provider.of({
      compact: (messages) =>
        HttpClientRequest.post("/compact").pipe(
          HttpClientRequest.bodyJsonUnsafe({ messages }),
          http.execute,
          Effect.map((response) => ({
            summary: readBody(response).pipe(
              Effect.map((body) => body.summary),
              Effect.timeout("10 seconds"),
              Effect.mapError(failure)
            )
          })),
          Effect.mapError(failure)
        )
    })
  })
).pipe(Layer.provide(NodeHttpClient.layerUndici))

const failure = (error: unknown): ProviderFailed => {
  const transient = HttpClient.isTransientError(error)
  return new ProviderFailed({
    transient,
    reason: transient ? "the provider is busy" : "the provider refuses this session"
  })
}

/** Both ends, on a free port of 127.0.0.1. */
export const layer: Layer.Layer<Provider | ProviderServer, HttpServerError.ServeError> = Layer.provideMerge(
  client,
  server
)
