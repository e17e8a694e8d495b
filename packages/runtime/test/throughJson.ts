import * as Schema from "effect/Schema"

/** What is left of a value that was written as JSON text and read again. */
export const throughJson = <S extends Schema.Codec<unknown, unknown>>(schema: S, value: S["Type"]): S["Type"] => {
  const codec = Schema.toCodecJson(schema)
  const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(codec)(value)))
  return Schema.decodeUnknownSync(codec)(json)
}
