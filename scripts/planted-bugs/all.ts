import { applications } from "./applications.ts"
import { ending } from "./ending.ts"
import { jobs } from "./jobs.ts"
import { ledgers } from "./ledgers.ts"
import { machine } from "./machine.ts"
import { output } from "./output.ts"
import type { PlantedBug } from "./PlantedBug.ts"

export const bugs: ReadonlyArray<PlantedBug> = [
  ...ending,
  ...jobs,
  ...output,
  ...ledgers,
  ...applications,
  ...machine
]
