import { CorruptError } from '../errors.js'
import type { Reply } from './driver.js'

type Layout = readonly (readonly [name: string, bytes: number])[]
type Fields<L extends Layout> = { [F in L[number] as F[0]]: number }

/** Reads a packed record from its beginning. */
export class Packed {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get rest(): Buffer {
    return this.#bytes.subarray(this.#at)
  }

  take(length: number): Buffer {
    const from = this.#pass(length)
    return this.#bytes.subarray(from, this.#at)
  }

  /** An unsigned integer, most significant byte first. */
  number(length: number): number {
    let number = 0
    for (let at = this.#pass(length); at < this.#at; at++) number = number * 256 + this.#bytes[at]!
    return number
  }

  /** Text or bytes whose length precedes it. */
  sized(lengthBytes: number): Buffer {
    return this.take(this.number(lengthBytes))
  }

  /** The fixed part of a record. */
  fields<const L extends Layout>(layout: L): Fields<L> {
    const fields: Record<string, number> = {}
    for (const [name, bytes] of layout) fields[name] = this.number(bytes)
    return fields as Fields<L>
  }

  /** Passes bytes, and returns where they begin. */
  #pass(length: number): number {
    const from = this.#at
    if (from + length > this.#bytes.length) throw new CorruptError('A record is shorter than this package expects.')
    this.#at = from + length
    return from
  }
}

/** Packs the fixed part of a record. The numbers have at most 6 bytes. */
export function pack<const L extends Layout>(layout: L, fields: Fields<L>): Buffer {
  return Buffer.concat(layout.map(([name, bytes]) => {
    const packed = Buffer.alloc(bytes)
    packed.writeUIntBE((fields as Record<string, number>)[name]!, 0, bytes)
    return packed
  }))
}

/** Reads a list in an answer from its beginning. */
export class List {
  readonly #entries: Reply[]
  #at = 0

  constructor(reply: Reply | undefined) {
    if (!Array.isArray(reply)) throw strange()
    this.#entries = reply
  }

  get isEmpty(): boolean {
    return this.#at >= this.#entries.length
  }

  next(): Reply {
    if (this.isEmpty) throw strange()
    return this.#entries[this.#at++]!
  }

  number(): number {
    return numberOf(this.next())
  }

  /** A number, or nothing if the answer is ''. */
  optional(): number | undefined {
    const entry = this.next()
    return Buffer.isBuffer(entry) && entry.length === 0 ? undefined : numberOf(entry)
  }

  bytes(): Buffer {
    const entry = this.next()
    if (!Buffer.isBuffer(entry)) throw strange()
    return entry
  }

  text(): string {
    return this.bytes().toString()
  }

  list(): List {
    return new List(this.next())
  }
}

export function numberOf(reply: Reply): number {
  const number = Buffer.isBuffer(reply) && reply.length > 0 ? Number(reply.toString('latin1')) : reply
  if (typeof number !== 'number' || Number.isNaN(number)) throw strange()
  return number
}

/** The meaning of a number. An unknown number belongs to a later protocol. */
export function meaning<W extends string>(words: readonly (W | undefined)[], number: number): W {
  const word = words[number]
  if (word === undefined) throw strange()
  return word
}

export function strange(): CorruptError {
  return new CorruptError('The server answered something that this package does not know.', { hint: 'Update the package.' })
}
