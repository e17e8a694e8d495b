import { WorkspaceLaws, WorkspaceStoreMemory } from "../src/index.ts"

WorkspaceLaws.workspaceLaws("a store of imagined files", WorkspaceStoreMemory.layer)
