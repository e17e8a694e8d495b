/**
 * Who still needs which blob: references counted per `ref`, and leases held while somebody reads.
 *
 * A blob's bytes go when its last reference was given back and no lease is held, else when the last lease ends.
 */
interface Entry {
  references: number
  leases: number
}

export interface BlobReferences {
  readonly has: (ref: string) => boolean
  readonly add: (ref: string) => void
  /** `gone`: there was none. `kept`: others need the bytes. `last`: nobody does, and the blob is known no more. */
  readonly remove: (ref: string) => "gone" | "kept" | "last"
  readonly lease: (ref: string) => void
  /** `true`: nobody needs the bytes any more, and the blob is known no more. */
  readonly release: (ref: string) => boolean
}

export const make = (): BlobReferences => new References()

class References implements BlobReferences {
  readonly #entries = new Map<string, Entry>()

  has(ref: string): boolean {
    return this.#entries.has(ref)
  }

  add(ref: string): void {
    this.#entry(ref).references++
  }

  remove(ref: string): "gone" | "kept" | "last" {
    const entry = this.#entries.get(ref)
    if (entry === undefined || entry.references === 0) return "gone"
    entry.references--
    return this.#forget(ref, entry) ? "last" : "kept"
  }

  lease(ref: string): void {
    this.#entry(ref).leases++
  }

  release(ref: string): boolean {
    const entry = this.#entries.get(ref)
    if (entry === undefined || entry.leases === 0) return false
    entry.leases--
    return this.#forget(ref, entry)
  }

  #entry(ref: string): Entry {
    const known = this.#entries.get(ref)
    if (known !== undefined) return known
    const entry = { references: 0, leases: 0 }
    this.#entries.set(ref, entry)
    return entry
  }

  #forget(ref: string, entry: Entry): boolean {
    return entry.references === 0 && entry.leases === 0 && this.#entries.delete(ref)
  }
}
