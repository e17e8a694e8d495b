import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as BlobStoreMemory from "../../src/stores/BlobStoreMemory.ts"
import { blobStoreLaws } from "./blobStoreLaws.ts"

describe("BlobStoreMemory", () => {
  blobStoreLaws((law) => Effect.scoped(Effect.provide(law, Layer.fresh(BlobStoreMemory.layer))))
})
