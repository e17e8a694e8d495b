/**
 * The bounds and intervals of a runtime, each with its default, read once when its layer is built.
 *
 * Times are milliseconds on the monotonic clock; sizes are bytes. A limit of 0 means unlimited for counts of jobs, and
 * the default for sizes of output.
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { isWait } from "../domain/Bounds.ts"

/** All of them. `layer` sets some and checks every one; read `Current` rather than passing them on. */
export interface Settings {
  /** How long the driver may take to answer a start. Past it the start is withdrawn. */
  readonly startWindowMillis: number
  /** How long a job's `start` waits for that answer before it returns the row in phase `starting`. */
  readonly startAnswerMillis: number
  /** From the first signal to SIGKILL. */
  readonly graceMillis: number
  /** From SIGKILL to `kill_failed`. */
  readonly forceWindowMillis: number
  /** What a tree gets to finish once its leader has ended by itself. */
  readonly lingerMillis: number
  /** How long output may take to end once the tree is gone. */
  readonly flushWindowMillis: number
  /** How long a spill may take to finish once the output has ended. */
  readonly spillWindowMillis: number
  /** The first interval between two probes of a tree that is ending; it doubles up to `pollMaxMillis`. */
  readonly pollMillis: number
  /** The longest of those intervals. */
  readonly pollMaxMillis: number
  /** A look at the process table, a write to a ledger: past this bound it counts as failed. */
  readonly portWindowMillis: number
  /** How long a managed process may take to start, and to close. Past it the start has failed, the close was given up. */
  readonly managedStartWindowMillis: number
  readonly managedCloseWindowMillis: number
  /** How long a commit may go on once its authority was revoked. Past it, it is interrupted. */
  readonly commitWindowMillis: number
  /** All of a shutdown. */
  readonly shutdownBudgetMillis: number
  /** Running jobs an owner, unresolved ones included. */
  readonly maxRunningPerOwner: number
  /** Finished records an owner. The oldest go first; never `kill_failed` ones, nor any nobody was told about. */
  readonly maxFinishedPerOwner: number
  /** Retired owners whose records and notices are kept, the last ones to retire. 0: all. */
  readonly maxRetiredOwners: number
  /** Rows of starts that failed, the last ones: nothing else tells of these. 0: all. */
  readonly maxFailedStartRows: number
  /** Notices an owner. Past it the oldest become one counted summary. */
  readonly maxNoticesPerOwner: number
  /** Last output in a notice; cut at a character border. */
  readonly noticeTailBytes: number
  /** Output kept in memory a stream, its head included. */
  readonly outputBytes: number
  /** Of that, the beginning that always stays. */
  readonly outputHeadBytes: number
  /** A preview: beginning and end together. */
  readonly previewBytes: number
  /** Output of finished processes kept in memory, a runtime. Past it the oldest shrink to their preview. */
  readonly finishedOutputBytes: number
  /** The most a spill writes; past it the blob is partial. */
  readonly spillBytes: number
  /** The longest deadline that is granted; `null`: any. */
  readonly deadlineCapMillis: number | null
  /** Between two heartbeats of a job. */
  readonly heartbeatMillis: number
  /** How long a row is held without a renewal. */
  readonly leaseMillis: number
  /** Events a subscriber may be behind before it misses some, and is told so. */
  readonly eventBuffer: number
}

/** What holds where nothing was set. */
export const defaults: Settings = {
  startWindowMillis: 10_000,
  startAnswerMillis: 1_000,
  graceMillis: 5_000,
  forceWindowMillis: 3_000,
  lingerMillis: 100,
  flushWindowMillis: 3_000,
  spillWindowMillis: 10_000,
  pollMillis: 25,
  pollMaxMillis: 250,
  portWindowMillis: 5_000,
  managedStartWindowMillis: 5_000,
  managedCloseWindowMillis: 5_000,
  commitWindowMillis: 5_000,
  shutdownBudgetMillis: 30_000,
  maxRunningPerOwner: 8,
  maxFinishedPerOwner: 64,
  maxRetiredOwners: 64,
  maxFailedStartRows: 64,
  maxNoticesPerOwner: 256,
  noticeTailBytes: 500,
  outputBytes: 1024 * 1024,
  outputHeadBytes: 64 * 1024,
  previewBytes: 4096,
  finishedOutputBytes: 64 * 1024 * 1024,
  spillBytes: 4 * 1024 * 1024 * 1024,
  deadlineCapMillis: null,
  heartbeatMillis: 5_000,
  leaseMillis: 30_000,
  eventBuffer: 1024
}

/** The settings in force. Not a requirement of anything: without a layer the defaults hold. */
export const Current: Context.Reference<Settings> = Context.Reference<Settings>("@procyon/runtime/Settings", {
  defaultValue: () => defaults
})

/** Intervals between two doings: zero would be a loop without a pause. */
const intervals: ReadonlySet<keyof Settings> = new Set([
  "pollMillis",
  "pollMaxMillis",
  "heartbeatMillis",
  "leaseMillis"
])

/** Every wait ends, and nothing is negative or no number; only the cap on deadlines may be left out. */
const isSetting = (name: keyof Settings, value: number | null): boolean => {
  if (value === null) return name === "deadlineCapMillis"
  return isWait(value) && (value > 0 || !intervals.has(name))
}

const withDefaults = (settings: Partial<Settings>): Settings => ({
  ...defaults,
  ...settings,
  outputBytes: settings.outputBytes || defaults.outputBytes,
  outputHeadBytes: settings.outputHeadBytes || defaults.outputHeadBytes,
  finishedOutputBytes: settings.finishedOutputBytes || defaults.finishedOutputBytes
})

/**
 * Sets some of them for the layers it is provided to; the others keep their defaults. A value that means nothing (negative,
 * no number, without end, an interval of zero) is a mistake in the program: building the layer dies with a `RangeError`
 * that names the setting.
 */
export const layer = (settings: Partial<Settings>): Layer.Layer<never> =>
  Layer.effect(
    Current,
    Effect.suspend(() => {
      const given = withDefaults(settings)
      const names = Object.keys(defaults) as ReadonlyArray<keyof Settings>
      const bad = names.find((name) => !isSetting(name, given[name]))
      return bad === undefined
        ? Effect.succeed(given)
        : Effect.die(new RangeError(`Settings: ${bad} has to be a bound`))
    })
  )

const Wait = Schema.DurationFromString.check(
  Schema.makeFilter((given) => isWait(Duration.toMillis(given)) || "a duration that ends, and is not negative")
)

const millis = (name: string, otherwise: number): Config.Config<number> =>
  Config.schema(Wait, name).pipe(Config.map(Duration.toMillis), Config.withDefault(otherwise))

const natural = (name: string, otherwise: number): Config.Config<number> =>
  Config.schema(Schema.Natural, name).pipe(Config.withDefault(otherwise))

/**
 * Reads what operators set most from the configuration: `GRACE`, `FORCE_WINDOW`, `LINGER`, `SHUTDOWN_BUDGET`,
 * `HEARTBEAT`, `START_WINDOW` (durations), `MAX_RUNNING_PER_OWNER`, `OUTPUT_BYTES` (numbers), under `prefix`
 * (`PROCYON_` by default). What is not set keeps its default; what cannot be read, a negative number or duration, and a
 * duration without end are a `ConfigError`.
 */
export const layerConfig = (prefix = "PROCYON_"): Layer.Layer<never, Config.ConfigError> =>
  Layer.unwrap(Effect.map(
    Config.all({
      graceMillis: millis(`${prefix}GRACE`, defaults.graceMillis),
      forceWindowMillis: millis(`${prefix}FORCE_WINDOW`, defaults.forceWindowMillis),
      lingerMillis: millis(`${prefix}LINGER`, defaults.lingerMillis),
      shutdownBudgetMillis: millis(`${prefix}SHUTDOWN_BUDGET`, defaults.shutdownBudgetMillis),
      heartbeatMillis: millis(`${prefix}HEARTBEAT`, defaults.heartbeatMillis),
      startWindowMillis: millis(`${prefix}START_WINDOW`, defaults.startWindowMillis),
      maxRunningPerOwner: natural(`${prefix}MAX_RUNNING_PER_OWNER`, defaults.maxRunningPerOwner),
      outputBytes: natural(`${prefix}OUTPUT_BYTES`, defaults.outputBytes)
    }),
    layer
  ))
