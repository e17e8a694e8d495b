import { BlobStoreLaws } from "@procyon/testing"
import * as BlobStoreMemory from "../../src/stores/BlobStoreMemory.ts"

BlobStoreLaws.blobStoreLaws("a blob store in memory", BlobStoreMemory.layer)
