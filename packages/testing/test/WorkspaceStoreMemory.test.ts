import { WorkspaceStoreLaws, WorkspaceStoreMemory } from "../src/index.ts"

WorkspaceStoreLaws.workspaceStoreLaws("a store of imagined files", WorkspaceStoreMemory.layer)
