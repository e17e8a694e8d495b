/**
 * Which bytes of a blob are asked for: one reading of the bounds for every store.
 */
import { BlobError } from "../ports/BlobStore.ts"

export interface BlobRange {
  readonly offset: number
  /** `Infinity`: to the end. */
  readonly limit: number
}

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

/** `null` where a bound is negative or no whole number: a file system takes such a position for another one, or dies of it. */
export const of = (
  options: { readonly offset?: number | undefined; readonly limit?: number | undefined } | undefined
): BlobRange | null => {
  const { limit = Infinity, offset = 0 } = options ?? {}
  return isCount(offset) && (limit === Infinity || isCount(limit)) ? { offset, limit } : null
}

/** What a read of none fails with. */
export const refused = (): BlobError => new BlobError({ operation: "read", problem: "Other", retryable: false })
