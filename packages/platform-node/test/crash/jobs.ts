/** The jobs of the application that is killed. Between them they bring about everything that a job can come to. */
import { type BackgroundProcess, CommandSpec, type Status } from "@procyon/runtime"

export interface Planned {
  readonly title: string
  readonly script: (tag: string) => string
  readonly options: BackgroundProcess.StartOptions
  /** What it may have come to in the end, whenever the application was killed. */
  readonly statuses: ReadonlyArray<Status.Status>
  /** The code of its leader, where that ends by itself. */
  readonly exit: number | null
  /** Whether it works in a workspace, with a link in it that leads outside. */
  readonly housed: boolean
}

/** More than memory keeps of one stream. */
const flood = (letter: string): string => `head -c 60000 /dev/zero | tr '\\0' ${letter}`

/** Files of its own, and a way out. */
const litter = "mkdir -p a/b && echo c > a/b/c && ln -s ../../outside out"

export const all: ReadonlyArray<Planned> = [
  {
    title: "talker",
    script: (tag) => `${flood("t")}; sleep 0.1${tag}; ${flood("u")}`,
    options: {},
    statuses: ["completed", "cancelled", "error"],
    exit: 0,
    housed: false
  },
  {
    title: "dropped",
    script: (tag) => `${flood("d")}; echo ${tag}`,
    options: {},
    statuses: ["completed", "cancelled", "error"],
    exit: 0,
    housed: false
  },
  {
    title: "brief",
    script: (tag) => `echo brief; : ${tag}; exit 3`,
    options: {},
    statuses: ["cancelled", "error"],
    exit: 3,
    housed: false
  },
  {
    title: "stubborn",
    script: (tag) => {
      const escapee = `setsid sh -c 'trap "" TERM; echo escaped; exec sleep 300.${tag}'`
      return `trap "" TERM; ${litter}; ${escapee} & echo up; exec sleep 301.${tag}`
    },
    options: { streams: "separate" },
    statuses: ["cancelled", "error"],
    exit: null,
    housed: true
  },
  {
    title: "late",
    script: (tag) => `sleep 302.${tag} & exec sleep 303.${tag}`,
    options: { deadline: "250 millis" },
    statuses: ["timed_out", "cancelled", "error"],
    exit: null,
    housed: false
  },
  {
    title: "stopped",
    script: (tag) => `sleep 304.${tag} & exec sleep 305.${tag}`,
    options: { lifetime: "application" },
    statuses: ["cancelled", "error"],
    exit: null,
    housed: false
  },
  {
    title: "lodger",
    script: (tag) => `${litter}; echo ${tag}`,
    options: {},
    statuses: ["completed", "cancelled", "error"],
    exit: 0,
    housed: true
  },
  {
    title: "lasting",
    script: (tag) => `echo on; sleep 306.${tag} & exec sleep 307.${tag}`,
    options: { lifetime: "detached" },
    statuses: ["cancelled", "error"],
    exit: null,
    housed: false
  },
  {
    title: "parting",
    script: (tag) => `sleep 0.4${tag}; exit 4`,
    options: { lifetime: "detached" },
    statuses: ["cancelled", "error"],
    exit: 4,
    housed: false
  }
]

export const command = ({ script }: Planned, tag: string): CommandSpec.Input => CommandSpec.shell(script(tag))
