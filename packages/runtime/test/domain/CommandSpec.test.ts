import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Cause from "effect/Cause"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import { inspect } from "node:util"
import * as CommandSpec from "../../src/domain/CommandSpec.ts"

/** Stops compiling when the structural copy drifts from the installed module. */
const acceptsEffectCommands = (command: ChildProcess.Command): CommandSpec.Input => command

/** What a caller without types can pass; that it has no type is the point. */
const untyped = (input: unknown): CommandSpec.Input => input as CommandSpec.Input

const resolved = (input: CommandSpec.Input): CommandSpec.CommandSpec => Result.getOrThrow(CommandSpec.resolve(input))

const refusal = (input: CommandSpec.Input, limits?: CommandSpec.Limits): string =>
  Result.match(CommandSpec.resolve(input, limits), {
    onFailure: ({ problem, where }) => `${problem} ${where}`,
    onSuccess: () => "accepted"
  })

const refusesAll = (cases: ReadonlyArray<readonly [CommandSpec.Input, string]>): void => {
  for (const [input, expected] of cases) assert.strictEqual(refusal(input), expected)
}

const { make, shell } = CommandSpec
const wiped = (): Redacted.Redacted<string> => {
  const secret = Redacted.make("gone")
  Redacted.wipeUnsafe(secret)
  return secret
}

describe("make and shell", () => {
  it("make keeps arguments as they are, whatever a shell would read in them", () => {
    const args = ["a; echo pwned", "$(id)", "-rf", "", " "]
    assert.deepStrictEqual(resolved(make("echo", args)).program, { _tag: "Exec", command: "echo", args })
  })

  it("shell runs its script by /bin/sh, or by the shell that is named", () => {
    assert.deepStrictEqual(shell("-foo bar").program, { _tag: "Shell", shell: "/bin/sh", script: "-foo bar" })
    const named = shell("exit 1", { shell: "bash", cwd: "/tmp" })
    assert.deepStrictEqual(named.program, { _tag: "Shell", shell: "bash", script: "exit 1" })
    assert.deepStrictEqual(named.options, { cwd: "/tmp" })
  })

  it("setCwd and setEnv change a copy, first or last argument alike", () => {
    const spec = make("true", [], { env: { A: "1", B: "2" } })
    const changed = CommandSpec.setEnv(CommandSpec.setCwd("/tmp")(spec), { B: "3" })
    assert.deepStrictEqual(changed.options, { cwd: "/tmp", env: { A: "1", B: "3" } })
    assert.deepStrictEqual(spec.options, { env: { A: "1", B: "2" } })
  })
})

describe("resolve", () => {
  it("accepts every option of its own", () => {
    const options: CommandSpec.Options = {
      cwd: "/tmp",
      env: { A: "1", B: undefined, TOKEN: Redacted.make("x") },
      inheritEnv: ["PATH", "HOME"],
      stdin: new Uint8Array([1]),
      stopSignal: "SIGINT"
    }
    assert.deepStrictEqual(resolved(make("true", [], options)).options, options)
  })

  it("answers with a copy that later changes of the given lists do not reach", () => {
    const args = ["a"]
    const env: Record<string, string> = { A: "1" }
    const names = ["PATH"]
    const spec = resolved(make("echo", args, { env, inheritEnv: names }))
    args.push("\0")
    env["B"] = "\0"
    names.push("")
    assert.deepStrictEqual(spec, make("echo", ["a"], { env: { A: "1" }, inheritEnv: ["PATH"] }))
  })

  it("refuses a command, a shell or a script that is empty", () => {
    refusesAll([
      [make(""), "EmptyCommand command"],
      [shell(""), "EmptyCommand script"],
      [shell(Redacted.make("")), "EmptyCommand script"],
      [shell("true", { shell: "" }), "EmptyCommand shell"]
    ])
  })

  it("refuses a NUL wherever it is, in secrets too", () => {
    refusesAll([
      [make("a\0"), "NulByte command"],
      [make("a", ["", "\0"]), "NulByte args[1]"],
      [make("a", [Redacted.make("x\0")]), "NulByte args[0]"],
      [make("a", [], { cwd: "/\0" }), "NulByte cwd"],
      [make("a", [], { env: { OK: "1", TOKEN: Redacted.make("x\0") } }), "NulByte env.TOKEN"],
      [make("a", [], { env: { "A\0": "1" } }), "NulByte env[0]"],
      [shell("a\0b"), "NulByte script"],
      [shell("a", { shell: "sh\0" }), "NulByte shell"]
    ])
  })

  it("takes a string one byte short of the system's limit, and not one more", () => {
    const fits = CommandSpec.defaultLimits.stringBytes - 1
    refusesAll([
      [make("a", ["x".repeat(fits)]), "accepted"],
      [make("a", ["x".repeat(fits + 1)]), "ArgumentsTooLarge args[0]"],
      [make("a", ["é".repeat(fits / 2 + 1)]), "ArgumentsTooLarge args[0]"],
      [shell("x".repeat(fits + 1)), "ArgumentsTooLarge script"],
      [make("a", [], { env: { N: "x".repeat(fits - 2) } }), "accepted"],
      [make("a", [], { env: { N: "x".repeat(fits - 1) } }), "EnvironmentTooLarge env.N"],
      [make("a", [], { cwd: "x".repeat(4096) }), "ArgumentsTooLarge cwd"]
    ])
  })

  it("bounds all strings together, each with its end and its pointer", () => {
    const limits = { ...CommandSpec.defaultLimits, totalBytes: 40 }
    assert.strictEqual(refusal(make("a", ["b", "c", "d"]), limits), "accepted")
    assert.strictEqual(refusal(make("a", ["b", "c", "dd"]), limits), "ArgumentsTooLarge args")
    assert.strictEqual(refusal(make("a", [], { env: { A: "x" } }), limits), "accepted")
    assert.strictEqual(refusal(make("a", ["b", "c"], { env: { A: "x" } }), limits), "EnvironmentTooLarge env")
    const many = Array.from({ length: 300_000 }, () => "")
    assert.strictEqual(refusal(make("a", many)), "ArgumentsTooLarge args")
  })

  it("refuses environment names that cannot be one, by position, since they may hold a value", () => {
    refusesAll([
      [make("a", [], { env: { "": "1" } }), "Malformed env[0]"],
      [make("a", [], { env: { A: "1", "TOKEN=secret": "1" } }), "Malformed env[1]"],
      [make("a", [], { inheritEnv: ["PATH", ""] }), "Malformed inheritEnv[1]"],
      [make("a", [], { inheritEnv: ["A=B"] }), "Malformed inheritEnv[0]"]
    ])
  })

  it("passes on a variable of any other name, also __proto__", () => {
    const env = JSON.parse("{\"__proto__\":\"1\",\"a b\":\"2\"}") as Record<string, string>
    assert.deepStrictEqual(Object.entries(resolved(make("a", [], { env })).options.env ?? {}), Object.entries(env))
  })

  it("knows the names of signals", () => {
    refusesAll([
      [make("a", [], { stopSignal: "SIGHUP" }), "accepted"],
      [make("a", [], { stopSignal: "SIGNOPE" }), "Unsupported stopSignal"],
      [make("a", [], { stopSignal: "TERM" }), "Unsupported stopSignal"],
      [make("a", [], { stopSignal: "15" }), "Unsupported stopSignal"]
    ])
  })

  it("refuses a grace period that never ends or is no number", () => {
    for (const graceMillis of [-1, NaN, Infinity]) {
      assert.strictEqual(refusal({ ...make("a"), graceMillis }), "BadDuration graceMillis")
    }
    assert.strictEqual(resolved({ ...make("a"), graceMillis: 0 }).graceMillis, 0)
  })

  it("refuses what has the wrong shape, and options it does not know", () => {
    refusesAll([
      [untyped(undefined), "Malformed command"],
      [untyped(null), "Malformed command"],
      [untyped("ls"), "Malformed command"],
      [untyped({ _tag: "Other" }), "Malformed command"],
      [
        untyped({ _tag: "CommandSpec", program: { _tag: "Exec", command: 1, args: [] }, options: {} }),
        "Malformed command"
      ],
      [untyped({ ...make("a"), program: { _tag: "Other" } }), "Malformed command"],
      [untyped({ ...make("a"), options: null }), "Malformed options"],
      [untyped({ ...make("a"), options: { uid: 0 } }), "Unsupported uid"],
      [untyped({ ...make("a"), options: { "s e c r e t": 0 } }), "Unsupported options"],
      [untyped({ ...make("a"), options: { uid: undefined } }), "accepted"],
      [untyped(make("a", untyped("list") as never)), "Malformed args"],
      [untyped(make("a", [1] as never)), "Malformed args[0]"],
      [untyped(make("a", Object.assign([], { length: 2 }) as never)), "Malformed args[0]"],
      [make("a", [wiped()]), "Malformed args[0]"],
      [untyped(make("a", [Redacted.make(1) as never])), "Malformed args[0]"],
      [untyped(make("a", [], { cwd: 1 as never })), "Malformed cwd"],
      [make("a", [], { cwd: "" }), "Malformed cwd"],
      [untyped(make("a", [], { env: { A: 1 as never } })), "Malformed env.A"],
      [untyped(make("a", [], { inheritEnv: "some" as never })), "Malformed inheritEnv"],
      [shell("a", null as never), "accepted"],
      [untyped(make("a", [], null as never)), "Malformed options"],
      [untyped(make("a", [], { stdin: "pipe" as never })), "Malformed stdin"]
    ])
  })
})

describe("resolve of effect/process commands", () => {
  const command = (options: ChildProcess.CommandOptions, args: ReadonlyArray<string> = []): CommandSpec.Input =>
    acceptsEffectCommands(ChildProcess.make("a", args, options))

  it("takes templates, secrets included", () => {
    const token = Redacted.make("s3cret")
    const spec = resolved(ChildProcess.make`git log --token=${token} ${"a b"}`)
    assert.strictEqual(CommandSpec.display(spec), "git log <redacted> 'a b'")
  })

  it("inherits all without env, nothing with env alone, and all with extendEnv", () => {
    assert.deepStrictEqual(resolved(command({})).options, { inheritEnv: "all", stdin: "open" })
    assert.deepStrictEqual(resolved(command({ extendEnv: false })).options.inheritEnv, "all")
    assert.deepStrictEqual(resolved(command({ env: { A: "1" } })).options.inheritEnv, "none")
    const extended = resolved(command({ env: { A: undefined }, extendEnv: true })).options
    assert.deepStrictEqual(extended, { env: { A: undefined }, inheritEnv: "all", stdin: "open" })
  })

  it("runs its shell text by the shell, and refuses arguments beside it", () => {
    const script = resolved(ChildProcess.make("echo $HOME", { shell: true })).program
    assert.deepStrictEqual(script, { _tag: "Shell", shell: "/bin/sh", script: "echo $HOME" })
    assert.deepStrictEqual(resolved(ChildProcess.make("x", { shell: "bash" })).program, {
      _tag: "Shell",
      shell: "bash",
      script: "x"
    })
    assert.strictEqual(resolved(command({ shell: false }, ["b"])).program._tag, "Exec")
    refusesAll([
      [command({ shell: true }, ["b"]), "ShellWithArguments args"],
      [command({ shell: "bash" }, ["b"]), "ShellWithArguments args"]
    ])
  })

  it("reads killSignal as the first signal and forceKillAfter as the grace", () => {
    const spec = resolved(command({ killSignal: "SIGINT", forceKillAfter: "2 seconds" }))
    assert.strictEqual(spec.options.stopSignal, "SIGINT")
    assert.strictEqual(spec.graceMillis, 2000)
    assert.notProperty(resolved(command({})), "graceMillis")
    refusesAll([
      [command({ killSignal: "SIGBREAK" }), "Unsupported killSignal"],
      [command({ forceKillAfter: NaN }), "BadDuration forceKillAfter"],
      [command({ forceKillAfter: "-1 seconds" }), "BadDuration forceKillAfter"],
      [command({ forceKillAfter: Infinity }), "BadDuration forceKillAfter"]
    ])
  })

  it("maps stdin", () => {
    const input = Stream.make(new Uint8Array([1]))
    const cases: ReadonlyArray<readonly [ChildProcess.CommandOptions["stdin"], CommandSpec.Options["stdin"]]> = [
      [undefined, "open"],
      ["pipe", "open"],
      ["overlapped", "open"],
      ["ignore", "none"],
      [input, input],
      [{ stream: "pipe", endOnDone: false }, "open"],
      [{ stream: input, endOnDone: true, encoding: "utf-8" }, input]
    ]
    for (const [stdin, expected] of cases) assert.strictEqual(resolved(command({ stdin })).options.stdin, expected)
  })

  it("takes what changes nothing here", () => {
    refusesAll([
      [command({ windowsHide: true, detached: true, additionalFds: {} }), "accepted"],
      [command({ stdout: "pipe", stderr: { stream: "pipe" } }), "accepted"]
    ])
  })

  it("refuses by place what it cannot honour, and ignores none of it", () => {
    const stream = Stream.make(new Uint8Array([1]))
    refusesAll([
      [
        acceptsEffectCommands(ChildProcess.make`a`.pipe(ChildProcess.pipeTo(ChildProcess.make`b`))),
        "Unsupported pipeline"
      ],
      [command({ stdin: "inherit" }), "Unsupported stdin"],
      [command({ stdin: { stream: "inherit" } }), "Unsupported stdin.stream"],
      [command({ stdin: { stream, endOnDone: false } }), "Unsupported stdin.endOnDone"],
      [command({ stdin: { stream, encoding: "hex" } }), "Unsupported stdin.encoding"],
      [command({ stdin: {} as never }), "Unsupported stdin"],
      [command({ stdin: { stream, endOnDone: 1 as never } }), "Malformed stdin.endOnDone"],
      [command({ extendEnv: "yes" as never }), "Malformed extendEnv"],
      [command({ stdout: "inherit" }), "Unsupported stdout"],
      [command({ stdout: "ignore" }), "Unsupported stdout"],
      [command({ stderr: Sink.succeed(new Uint8Array()) }), "Unsupported stderr"],
      [command({ stderr: { stream: Sink.succeed(new Uint8Array()) } }), "Unsupported stderr.stream"],
      [command({ additionalFds: { fd3: { type: "output" } } }), "Unsupported additionalFds"],
      [command({ detached: false }), "Unsupported detached"],
      [untyped(ChildProcess.make("a", [], { uid: 0 } as never)), "Unsupported uid"]
    ])
  })
})

describe("any input", () => {
  const throwing = new Proxy({}, {
    get: () => {
      throw new Error("canary")
    },
    ownKeys: () => {
      throw new Error("canary")
    }
  })
  const pool: ReadonlyArray<unknown> = [
    undefined,
    null,
    true,
    0,
    NaN,
    -1,
    1n,
    "",
    "x",
    "\0",
    "\uD800",
    Symbol("s"),
    () => "x",
    {},
    [],
    [undefined],
    throwing,
    [throwing],
    {
      get a() {
        throw new Error("canary")
      }
    },
    Object.create(null),
    new Date(NaN),
    Redacted.make("x"),
    wiped(),
    Redacted.make(throwing),
    new Uint8Array(2),
    Stream.empty,
    { stream: throwing },
    { _tag: "Exec" },
    new Map(),
    /x/
  ] // dprint-ignore

  const keys = [
    "cwd", "env", "inheritEnv", "stdin", "stopSignal", "extendEnv", "shell", "stdout", "stderr", "additionalFds",
    "detached", "windowsHide", "killSignal", "forceKillAfter", "other"
  ] // dprint-ignore

  const hostile = Arbitrary.map(
    Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: pool.length - 1 }))),
    (index) => pool[index]
  )
  const options = Arbitrary.map(
    Arbitrary.array(Arbitrary.all([Arbitrary.schema(Schema.Literals(keys)), hostile] as const)),
    (entries) => Object.fromEntries(entries) as Record<string, unknown>
  )

  it.prop(
    "is answered, and never by a throw or by its own text",
    {
      tag: Schema.Literals(["CommandSpec", "StandardCommand", "PipedCommand", ""]),
      a: hostile,
      b: hostile,
      options,
      whole: hostile
    },
    ({ a, b, options, tag, whole }) => {
      const inputs = [
        whole,
        { _tag: tag, program: a, options: b, command: a, args: b },
        { _tag: tag, program: { _tag: "Exec", command: a, args: b }, options },
        { _tag: tag, program: { _tag: "Exec", command: "x", args: [] }, command: "x", args: [], options },
        { _tag: tag, program: { _tag: "Shell", shell: "sh", script: a }, command: "x", args: [a, b], options: {} }
      ]
      for (const input of inputs) {
        const result = CommandSpec.resolve(untyped(input))
        if (Result.isFailure(result)) assert.notInclude(inspect(result, { depth: 9 }), "canary")
        else assert.deepStrictEqual(CommandSpec.resolve(result.success), result)
      }
    }
  )

  const word = Arbitrary.schema(Schema.String)
  it.prop(
    "stays what it is when resolved again",
    { command: word, args: Arbitrary.array(word), name: word },
    (given) => {
      const first = CommandSpec.resolve(make(given.command, given.args, { env: { [given.name]: "1" } }))
      if (Result.isSuccess(first)) assert.deepStrictEqual(CommandSpec.resolve(first.success), first)
    }
  )
})

describe("secrets", () => {
  const canary = "canary-5f3c"
  const secret = Redacted.make(canary)
  const refused: ReadonlyArray<CommandSpec.Input> = [
    make("a", [`${canary}\0`]),
    make("a", [Redacted.make(`${canary}\0`)]),
    make(`${canary}\0`),
    make("a", [], { cwd: `/${canary}\0` }),
    make("a", [], { env: { TOKEN: `${canary}\0` } }),
    make("a", [], { env: { [`TOKEN=${canary}`]: "1" } }),
    make("a", [], { env: { [`TOKEN ${canary}`]: "\0" } }),
    make("a", [], { stopSignal: canary }),
    make("a", [], { inheritEnv: [`=${canary}`] }),
    untyped(make("a", [], { [`x ${canary}`]: 1 } as never)),
    shell(`echo ${canary}\0`),
    shell("a", { shell: `${canary}\0` }),
    make("a", [canary.repeat(20_000)]),
    ChildProcess.make(canary, [canary], { shell: true }),
    ChildProcess.make("a", [], { stdout: "inherit", env: { TOKEN: secret }, cwd: canary })
  ]

  it("an error holds nothing of the command, in any form it can be printed", () => {
    for (const input of refused) {
      const result = CommandSpec.resolve(input)
      if (Result.isSuccess(result)) return assert.fail("was accepted")
      const error = result.failure
      const forms = [
        JSON.stringify(error),
        String(error),
        inspect(error, { depth: 9, showHidden: true }),
        error.stack ?? "",
        error.message,
        Cause.pretty(Cause.fail(error)),
        inspect(error.cause)
      ]
      for (const form of forms) assert.notInclude(form, canary)
    }
  })

  it("display shows a secret as <redacted>, and a cut leaves nothing of it", () => {
    assert.strictEqual(CommandSpec.display(make("curl", ["-H", secret, "x"])), "curl -H <redacted> x")
    assert.strictEqual(CommandSpec.display(shell(secret)), "<redacted>")
    assert.notInclude(CommandSpec.display(make("x".repeat(190), [secret])), "canary")
  })

  it("summary tells base name and count, and no more", () => {
    const home = `/home/${canary}/bin/tool`
    assert.deepStrictEqual(CommandSpec.summary(make(home, [canary, secret])), { name: "tool", args: 2 })
    assert.deepStrictEqual(CommandSpec.summary(shell(canary, { shell: "/usr/bin/bash" })), { name: "bash", args: 0 })
    assert.deepStrictEqual(CommandSpec.summary(make(`C:\\Users\\${canary}\\a.exe`)), { name: "a.exe", args: 0 })
  })
})

describe("display", () => {
  it("quotes as a shell would take it", () => {
    assert.strictEqual(CommandSpec.display(make("echo", ["a b", "it's", "", "-x=1"])), "echo 'a b' 'it'\\''s' '' -x=1")
    assert.strictEqual(CommandSpec.display(shell("a | b")), "a | b")
  })

  it("escapes what ends a line, hides or reorders text", () => {
    const shown = CommandSpec.display(make("echo", ["a\nb\u001b[2J\u202e\u2028\u200b\uD800"]))
    assert.strictEqual(shown, "echo 'a\\u{a}b\\u{1b}[2J\\u{202e}\\u{2028}\\u{200b}\\u{d800}'")
  })

  it.prop(
    "is one bounded line of well-formed text",
    [Schema.String, Schema.Array(Schema.String)],
    ([command, args]) => {
      const spec = make(command, [...args, "x".repeat(command.length * 9), "😀".repeat(120)])
      for (
        const shown of [CommandSpec.display(spec), CommandSpec.display(shell(command)), CommandSpec.summary(spec).name]
      ) {
        assert.isAtMost(shown.length, CommandSpec.maxDisplay)
        assert.notMatch(shown, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u)
      }
    }
  )

  it("reads no more of a long list of arguments than it shows", () => {
    let read = 0
    const args = new Proxy(Array.from({ length: 10_000 }, () => "x".repeat(50)), {
      get: (list, key, self) => {
        if (typeof key === "string" && /^\d+$/.test(key)) read++
        return Reflect.get(list, key, self)
      }
    })
    const spec: CommandSpec.CommandSpec = { ...make("a"), program: { _tag: "Exec", command: "a", args } }
    assert.strictEqual(CommandSpec.display(spec).length, CommandSpec.maxDisplay)
    assert.isAtMost(read, 10)
  })

  it("marks a cut, and cuts no character in two", () => {
    for (const lead of ["", "x"]) {
      const shown = CommandSpec.display(shell(lead + "😀".repeat(150)))
      assert.isTrue(shown.endsWith("…"))
      assert.isAtLeast(shown.length, 198)
      assert.notMatch(shown, /\p{Cs}/u)
    }
  })
})

describe("fingerprint", () => {
  it("is the same for equal commands, and another where what runs, with what, or where differs", () => {
    const token = Redacted.make("s3cret")
    const commands: ReadonlyArray<CommandSpec.CommandSpec> = [
      make("a"),
      make("a", ["b"]),
      make("a", ["b c"]),
      make("a", ["b", "c"]),
      make("a", [token]),
      make("a", ["b"], { cwd: "/work" }),
      shell("a"),
      shell("a b"),
      shell(token),
      shell("a", { shell: "bash" })
    ]
    const prints = commands.map((command) => CommandSpec.fingerprint(command))
    assert.strictEqual(new Set(prints).size, commands.length)
    assert.deepStrictEqual(prints, commands.map((command) => CommandSpec.fingerprint(resolved(command))))
  })

  it("has no secret and no environment in it", () => {
    const of = (secret: string) =>
      [make("a", [Redacted.make(secret)], { env: { TOKEN: secret } }), shell(Redacted.make(secret))]
        .map((command) => CommandSpec.fingerprint(command))
    assert.deepStrictEqual(of("s3cret"), of("another"))
    assert.notInclude(of("s3cret").join(), "s3cret")
  })
})
