/**
 * References of blobs: what is in it, then whose it is, as in `sha256-9f2c.0193`. Each is one file name, and no way out
 * of a directory.
 */

/** One text without a dot, and with none of what a file system may take for something else, for each name. */
export const encode = (name: string): string =>
  name.replaceAll(/[^A-Za-z0-9_-]/gu, (character) => `=${(character.codePointAt(0) ?? 0).toString(16)}=`)

/** `null` where one of them is empty, or longer than a file name may be. */
export const ref = (label: string, name: string): string | null => {
  const made = `${encode(label)}.${encode(name)}`
  return isRef(made) ? made : null
}

/** Whether a text is a reference. */
export const isRef = (text: string): boolean => /^[\w=-]{1,100}\.[\w=-]{1,100}$/.test(text)

/** Whether a name can have blobs. */
export const isName = (name: string): boolean => isRef(`x.${encode(name)}`)

/** Whether a reference is that of a blob of this name. */
export const isOf = (reference: string, name: string): boolean =>
  isRef(reference) && reference.endsWith(`.${encode(name)}`)
