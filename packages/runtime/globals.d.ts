// The two web globals that runtime and testing use. Everything else of the DOM and of Node.js is left out on purpose
// (`lib` has neither, `types` is empty), so `setTimeout`, `process`, `Buffer` or `performance` in them is a type error: time
// goes through Effect's Clock, and the operating system through a driver. No entry of TypeScript's `lib` holds these alone.

declare class TextEncoder {
  readonly encoding: string
  encode(input?: string): Uint8Array<ArrayBuffer>
  encodeInto(source: string, destination: Uint8Array): { readonly read: number; readonly written: number }
}

declare class TextDecoder {
  constructor(label?: string, options?: { readonly fatal?: boolean; readonly ignoreBOM?: boolean })
  readonly encoding: string
  readonly fatal: boolean
  readonly ignoreBOM: boolean
  decode(input?: ArrayBufferView | ArrayBufferLike, options?: { readonly stream?: boolean }): string
}
