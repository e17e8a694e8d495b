import { WorkspaceStoreLaws } from "@procyon/testing"
import * as Layer from "effect/Layer"
import { NodeWorkspaceStore } from "../src/index.ts"
import * as files from "./support/files.ts"

WorkspaceStoreLaws.workspaceStoreLaws(
  "a store of this machine's directories",
  Layer.merge(NodeWorkspaceStore.layer, files.layer)
)
