/**
 * What `npm run coverage` does not see covered in `packages/runtime/src`, and why. It fails where something is missing here,
 * and where something here is covered by now. A place is a file and the text of its line, so that it stays the same when
 * lines are added above it; a text that is uncovered twice in a file is here twice.
 */
export interface Uncovered {
  readonly reason: string
  readonly places: Readonly<Record<string, ReadonlyArray<string>>>
}

export const uncovered: ReadonlyArray<Uncovered> = [
  {
    reason:
      "The value is there by construction, which the compiler cannot tell: a code point of a match that is not empty, " +
      "an index below a length, a receipt of what has ended, an owner of a job, a child of what was started, a digest of " +
      "what is closed.",
    places: {
      "domain/Printable.ts": [
        "text.replace(/[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]/gu, (char) => `\\\\u{${char.codePointAt(0)?.toString(16) ?? \"\"}}`)"
      ],
      "domain/Utf8.ts": ["const byteAt = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0"],
      "internal/BlobNames.ts": [
        "name.replaceAll(/[^A-Za-z0-9_-]/gu, (character) => `=${(character.codePointAt(0) ?? 0).toString(16)}=`)"
      ],
      "services/AppProcess.ts": [
        "Effect.map(Deferred.await(process.ended), () => process.receipt ?? currentReceipt(process, host.timers.now()))"
      ],
      "services/BackgroundProcess.ts": [
        "const owner = owners.known(job.process.owner ?? \"\")",
        "rows.move(job, { identity: job.process.child?.identity ?? null, deadlineAt: job.process.deadlineAt })",
        "() => job.process.receipt ?? receiptOf(job.process, host.timers.now())",
        "? Effect.asVoid(rows.move(job, { output: Rows.endOf(job).output ?? null }))"
      ],
      "services/ManagedProcess.ts": [
        "return this.fiber === undefined ? Effect.void : Fiber.interrupt(this.fiber)",
        "return [{ id: entries[index]?.[0] ?? \"\", reason: exit === undefined ? \"overran\" as const : \"failed\" as const }]"
      ],
      "services/OutputRetention.ts": [
        "return Effect.ensuring(restore(spill.finish(this.#digest ?? \"\")), Effect.sync(() => this.#sealWindow()))"
      ],
      "services/host/Settling.ts": [
        "isolated(retention.seal({ drained: drained[index] ?? false }), settings.spillWindowMillis, \"sealing an output\"),"
      ]
    }
  },
  {
    reason:
      "Nobody asks for it in this state, and the answer is the one that claims nothing. Who calls has looked before: " +
      "whether there is a blob or a source, whether the process has a child, a start or a hook, whether the job is still " +
      "its owner's or the row still this runtime's.",
    places: {
      "internal/OutputSpill.ts": [
        "if (this.blob === null) return null",
        "if (blob === null) return Effect.succeed(null)",
        "if (!this.capped) return"
      ],
      "services/BackgroundProcess.ts": ["if (owner === undefined || !owner.jobs.delete(job.process.id)) return"],
      "services/OutputRetention.ts": [
        "return source === null ? Effect.succeed(null) : form.fromBlob(source, since, Math.min(limit, blobPage), gap)"
      ],
      "services/ShutdownBarrier.ts": [
        "times = ShutdownPlan.enter(times, phase, Math.round(timers.now() - began)) ?? times"
      ],
      "services/host/Ending.ts": ["? Effect.void"],
      "services/host/Settling.ts": ["if (process.hooks.onSettled !== undefined) {"],
      "services/host/Starting.ts": ["if (startFiber === null) return Effect.succeed(null)"],
      "services/jobs/Rows.ts": ["if (row.lost) return Effect.succeed(false)"]
    }
  },
  {
    reason: "A secret that is wiped between being read and being measured: both are done in one step, so nobody can.",
    places: {
      "domain/CommandSpec.ts": ["typeof word === \"string\" ? word : reveal(word) ?? refuse(where, \"Malformed\")"]
    }
  },
  {
    reason:
      "A process that drains has an exit or a request, since one of them made it drain; its state's type has both as null.",
    places: {
      "domain/Lifecycle.ts": [
        "cause: state.exit === null ? state.request?.cause ?? selfExit : selfExit,",
        "return untraceable(state.exit === null ? state.request?.cause ?? selfExit : selfExit, state.exit)"
      ]
    }
  },
  {
    reason:
      "Two fibers that are ready at the same time. What would have to come between them takes no time on a test clock, " +
      "and the guard costs a comparison: a writer that opens after it was given up, a sleep that is replaced as it ends, a " +
      "change between the check for it and the wait for it, a second removal behind the first one, a deadline that passed " +
      "while nobody was there and that the watchdog has always seen first.",
    places: {
      "internal/OutputSpill.ts": ["if (this.#scope === scope) this.#writer = writer"],
      "internal/TimerHeap.ts": ["if (this.#armed?.fiber !== fiber) return"],
      "services/OutputRetention.ts": ["if (condition()) {", "resume(Effect.void)", "return undefined"],
      "services/Workspace.ts": ["if (workspace.removed || workspace.users.size > 0) return"],
      "services/jobs/Reconciling.ts": ["? { _tag: \"Deadline\", kind: \"total\" }"]
    }
  },
  {
    reason:
      "The runtime's own code does not fail here. Were it to, the failure would cost the one process, pass or phase it " +
      "is about, and not everybody.",
    places: {
      "services/host/Core.ts": ["core.fork(Effect.logWarning(\"an observer of a process threw\"))"],
      "services/host/Starting.ts": [
        "Effect.catchCause(process.hooks.beforeSpawn ?? Effect.succeed(true), () => Effect.succeed(false))"
      ],
      "services/jobs/Reconciling.ts": [
        "const report = Exit.isSuccess(exit) ? exit.value : { ...nothing, failed: true }"
      ]
    }
  },
  {
    reason: "A workspace is only held where there is a store, which is the same for all of a runtime's life.",
    places: {
      "services/Workspace.ts": ["if (Option.isNone(store)) return yield* failure(\"remove\", \"Unsupported\")"]
    }
  },
  {
    reason:
      "An output of an earlier life is sealed as soon as it is made: nothing is ever written to it, capped or hashed.",
    places: {
      "services/OutputRetention.ts": ["onCap: () => {},", "sha256: { update: () => {}, digest: () => \"\" },"]
    }
  },
  {
    reason:
      "Only on PostgreSQL, which most machines do not have: where PROCYON_TEST_POSTGRES names one, `npm test` runs its laws.",
    places: {
      "stores/ProcessLedgerSql.ts": [
        "isTakenBack: (error) => problemOf(error.reason) === \"Full\" || isConflict(error.reason),",
        "pg: () => listedByPostgres,",
        "const listedByPostgres = (sql: Client, json: string): Fragment =>",
        "sql`(SELECT id, fence, \"leaseUntil\" AS lease_until, \"bytesSeen\" AS bytes_seen FROM json_to_recordset(${json}::json)"
      ]
    }
  },
  {
    reason:
      "Effect's migrator brings tables up to the last migration or fails, and fails for no other reason than the " +
      "database's: the list of migrations is the ledger's own, and the database answers numbers with numbers.",
    places: {
      "stores/ProcessLedgerSql.ts": [
        "return typeof reached === \"number\" ? reached : -1",
        "const problem = reached > newest ? \"Newer\" : \"Corrupt\"",
        "problem: known._tag === \"SqlError\" ? problemOf(known.reason) : \"Other\""
      ]
    }
  }
]
