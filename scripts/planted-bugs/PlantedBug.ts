/** One mistake that somebody could make in these sources, and where it would be. */
export interface PlantedBug {
  readonly name: string
  /** From the root of the repository. */
  readonly file: string
  /** Text of the file, as it is there exactly once. */
  readonly find: string
  readonly replace: string
  /** What goes wrong for a user. */
  readonly about: string
  /** Test files that have to find it, from `packages`, without their ending. Few, since all of them run for it. */
  readonly laws: ReadonlyArray<string>
  /** Random histories are expected to come upon it. What they cannot see is looked for by laws only. */
  readonly simulated: boolean
}

/** The text with the bug in it, or why it cannot be there any more. */
export const plant = (text: string, { find, replace }: PlantedBug): { readonly planted: string } | string => {
  const places = text.split(find).length - 1
  if (places !== 1) return `its text is there ${places} times, and not once`
  return find === replace ? "it changes nothing" : { planted: text.replace(find, () => replace) }
}
