/**
 * What the longer examples print, without what differs from run to run: ids, times, how many heartbeats there were,
 * which line of a tree comes last, and the widths that follow from those.
 */
export const withoutChance = (text: string): string =>
  text
    .replaceAll(/\b(?=[a-z]*\d)[0-9a-z]{14}\b/g, "<id>")
    .replaceAll(/\b\d\d bytes +(?:leader|grandchild|escapee) \d+/g, "<n> bytes <line>")
    .replaceAll(/\b(leader|grandchild|escapee|group) +\d+/g, "$1 <pid>")
    .replaceAll(/\b\d+ "sleep"/g, "<pid> \"sleep\"")
    .replaceAll(/\b\d+ heartbeats\b/g, "<n> heartbeats")
    .replaceAll(/\b\d+(?:\.\d+)? m?s\b/g, "<time>")
    .replaceAll(/ +/g, " ")
