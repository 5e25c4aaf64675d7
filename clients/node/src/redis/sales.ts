import { randomBytes } from 'node:crypto'

import * as contract from '../contract.js'
import { CorruptError, NotFoundError } from '../errors.js'
import { isFinal } from '../holds.js'
import type { Sales } from '../transport.js'
import type { Decision, Hold, NewSale, Reservation, Reserved, Restored, SaleState, SkuState } from '../types.js'
import { now } from '../wait.js'
import type { Argument, Reply } from './driver.js'
import { topic } from './inbox.js'
import { type Group, homeKeys, saleKeys } from './keys.js'
import { isStatus } from './link.js'
import { List, meaning, numberOf, pack, Packed, strange } from './packed.js'
import { readReceipt, type Receipt, writeReceipt } from './receipts.js'
import type { Store } from './store.js'

/** The specification of a sale, which never changes. */
interface Spec {
  secret: Buffer
  ledger: boolean
  skus: [name: string, units: number, perBuyer: number][]
  holdUs: number
  opensAtUs?: number
  closesAtUs?: number
}

/** Sales by the function library. */
export class RedisSales implements Sales {
  readonly #store: Store
  readonly #specs = new Map<string, Spec>()

  constructor(store: Store) {
    this.#store = store
  }

  async create({ id, skus, holdMs, opensAtUs, closesAtUs, ledger = false }: NewSale): Promise<'created' | 'exists'> {
    await this.#store.register(contract.SALE_DIRECTORY, id)
    const secret = randomBytes(contract.SECRET_BYTES)
    const holdUs = Math.round(holdMs! * 1_000)
    // The fields are in alphabetical order, as every writer has them.
    const specification = JSON.stringify({
      closes_us: closesAtUs ?? null,
      hold_us: holdUs,
      ledger,
      opens_us: opensAtUs ?? null,
      secret: secret.toString('hex'),
      skus: skus.map(({ sku, units, perBuyer }) => [sku, units, perBuyer]),
    })
    const moments = [opensAtUs, closesAtUs].map((moment) => moment === undefined ? '' : String(moment))
    const stock = skus.flatMap(({ units, perBuyer }) => [String(units), String(perBuyer)])
    const args = [specification, secret, String(holdUs), ...moments, ledger ? '1' : '0', ...stock]
    return meaning(contract.CREATED, numberOf(await this.#store.call('sale_create', [homeKeys(id), saleKeys(id)], args)))
  }

  async open(id: string): Promise<SaleState['status']> {
    return meaning(contract.SALE_STATUS, numberOf((await this.#call(id, 'open')).reply))
  }

  async end(id: string): Promise<SaleState['status']> {
    return meaning(contract.SALE_STATUS, numberOf((await this.#call(id, 'end')).reply))
  }

  async show(id: string): Promise<SaleState> {
    const { reply, spec } = await this.#call(id, 'show', ({ skus }) => [String(skus.length)])
    const list = new List(reply)
    const head = {
      status: meaning(contract.SALE_STATUS, list.number()),
      generation: list.number(),
      seq: list.number(),
      nextExpiryUs: list.optional(),
      nowUs: list.number(),
      skus: spec.skus.map(([sku]) => readSku(sku, list.bytes())),
    }
    const [sinceUs, reason] = [list.optional(), meaning(contract.HALT_REASON, list.number())]
    const receiptsUntilUs = list.optional()
    const orders = { through: list.number(), behindSinceUs: list.optional(), failed: list.number(), workerUntilUs: list.optional() }
    const { holdUs, opensAtUs, closesAtUs, ledger } = spec
    return {
      id,
      holdMs: holdUs / 1_000,
      opensAtUs,
      closesAtUs,
      ledger,
      ...head,
      halted: sinceUs === undefined ? undefined : { reason, sinceUs },
      receiptsUntilUs,
      orders: ledger ? orders : undefined,
    }
  }

  async reserve(id: string, { buyer, key, lines, sameNumber }: Reservation): Promise<Reserved> {
    const { reply, spec } = await this.#call(id, 'reserve_by_key', ({ skus }) => [
      key, buyer, sameNumber ? '1' : '0',
      ...lines.flatMap(({ sku, quantity }) => [String(skus.findIndex(([name]) => name === sku)), String(quantity)]),
    ])
    const list = new List(reply)
    const outcome = meaning(contract.RESERVED, list.number())
    switch (outcome) {
      case 'reserved':
      case 'replayed': {
        const packed = list.bytes()
        return { outcome, hold: withReceipt(id, spec, readHold(spec, list.bytes().toString('hex'), packed)) }
      }
      case 'sold_out': return { outcome, sku: skuAt(spec, list.number()), free: list.number() }
      case 'all_held': return { outcome, sku: skuAt(spec, list.number()), free: list.number(), nextExpiryUs: list.optional() }
      case 'limit_reached': return { outcome, sku: skuAt(spec, list.number()), limit: list.number(), has: list.number() }
      case 'not_open': return { outcome, opensAtUs: spec.opensAtUs }
      case 'halted': return { outcome, retryAtUs: list.number() }
      case 'no_such_sku': throw new NotFoundError(`The sale \`${id}\` has no SKU \`${lines[list.number()]?.sku}\`.`)
      default: return { outcome }
    }
  }

  confirm(id: string, reservation: string): Promise<Decision> {
    return this.#decide(id, 'confirm', reservation)
  }

  cancel(id: string, reservation: string): Promise<Decision> {
    return this.#decide(id, 'cancel_hold', reservation)
  }

  async #decide(id: string, verb: string, reservation: string): Promise<Decision> {
    const { reply, spec } = await this.#call(id, verb, () => [Buffer.from(reservation, 'hex')])
    const list = new List(reply).list()
    const outcome = meaning(contract.DECIDED, list.number())
    if (outcome === 'unknown' || outcome === 'halted') return { outcome }
    const hold = readHold(spec, reservation, list.bytes())
    return outcome === 'refused' ? { outcome, state: hold.state } : { outcome, hold }
  }

  async reservation(id: string, reservation: string): Promise<Hold | undefined> {
    const { reply, spec } = await this.#call(id, 'reservation', () => [Buffer.from(reservation, 'hex')])
    const list = new List(reply)
    return list.isEmpty ? undefined : readHold(spec, reservation, list.bytes())
  }

  async waitFinal(id: string, reservation: string, waitMs: number, signal?: AbortSignal): Promise<Hold | undefined> {
    const inbox = await this.#store.inbox()
    const events = topic.sale(id)
    const bell = inbox.listen(events)
    const until = now() + waitMs
    try {
      for (;;) {
        signal?.throwIfAborted()
        const { seq, nowUs } = await this.show(id)
        const hold = await this.reservation(id, reservation)
        const left = until - now()
        if (!hold || isFinal(hold.state) || left <= 0) return hold
        const expiresMs = hold.state === 'held' ? Math.max(0, (hold.deadlineUs - nowUs) / 1_000) : contract.SALE_SLEEP
        if (expiresMs === 0) {
          await this.#call(id, 'expire', () => [String(contract.EXPIRE.max)])
          continue
        }
        const { reply } = await this.#call(id, 'listen', () => [inbox.hex, String(seq)])
        if (numberOf(reply) === 1) await bell.wait(Math.min(left, contract.SALE_SLEEP, Math.max(expiresMs, 1)), signal)
      }
    } finally {
      inbox.ignore(events, bell)
    }
  }

  async restore(id: string, text: string): Promise<Restored> {
    const { secret } = await this.#spec(id)
    const receipt = readReceipt(id, secret, text)
    if (!receipt) return { outcome: 'not_honoured' }
    const { reply, spec } = await this.#call(id, 'restore', (current) => [
      Buffer.from(receipt.i, 'hex'), receipt.b, String(receipt.g), String(receipt.d), isSameNumber(receipt) ? '1' : '0',
      packUnits(current, receipt.u),
    ])
    const list = new List(reply)
    const outcome = meaning(contract.RESTORED, list.number())
    switch (outcome) {
      case 'restored':
      case 'known': return { outcome, hold: withReceipt(id, spec, readHold(spec, receipt.i, list.bytes())) }
      case 'none_left': return { outcome, sku: skuAt(spec, list.number()), free: list.number() }
      case 'limit_reached': return { outcome, sku: skuAt(spec, list.number()), limit: list.number(), has: list.number() }
      case 'halted': return { outcome, retryAtUs: list.number() }
      default: return { outcome }
    }
  }

  /** Calls a function of a sale, with its secret in front. A sale that was created again has another specification. */
  async #call(id: string, verb: string, args: (spec: Spec) => Argument[] = () => []): Promise<{ reply: Reply; spec: Spec }> {
    const keys: Group[] = [saleKeys(id)]
    let spec = await this.#spec(id)
    for (;;) {
      const reply = await this.#store.call(`sale_${verb}`, keys, [spec.secret, ...args(spec)])
      if (!isStatus(reply, contract.MISSING_STATUS)) return { reply, spec }
      this.#specs.delete(id)
      const current = await this.#spec(id)
      if (current.secret.equals(spec.secret)) {
        throw new CorruptError(`The keys of the sale \`${id}\` are missing.`, { hint: 'Rebuild the sale from its ledger, or restore a backup.' })
      }
      spec = current
    }
  }

  async #spec(id: string): Promise<Spec> {
    const known = this.#specs.get(id)
    if (known) return known
    const stored = await this.#store.read('GET', homeKeys(id).first)
    if (!Buffer.isBuffer(stored)) throw new NotFoundError(`There is no sale \`${id}\`.`, { hint: 'Run `rushgate sale ls` to list the sales.' })
    const { secret, ledger, skus, hold_us: holdUs, opens_us: opens, closes_us: closes } = JSON.parse(stored.toString())
    const spec = { secret: Buffer.from(secret, 'hex'), ledger, skus, holdUs, opensAtUs: opens ?? undefined, closesAtUs: closes ?? undefined }
    this.#specs.set(id, spec)
    return spec
  }
}

function skuAt({ skus }: Spec, number: number): string {
  const sku = skus[number]
  if (!sku) throw strange()
  return sku[0]
}

function withReceipt(sale: string, { secret }: Spec, hold: Hold): Hold {
  return { ...hold, receipt: writeReceipt(sale, secret, hold) }
}

function readHold(spec: Spec, id: string, bytes: Buffer): Hold {
  const packed = new Packed(bytes)
  const { state, deadline, event, generation, linesLength } = packed.fields(contract.HOLD_LAYOUT)
  const buyer = packed.sized(contract.BUYER_LENGTH_BYTES).toString()
  packed.take(linesLength)
  const units: Hold['units'] = []
  while (packed.rest.length > 0) {
    const { sku, first, last } = packed.fields(contract.UNITS_LAYOUT)
    for (let unit = first; unit <= last; unit++) units.push({ sku: skuAt(spec, sku), unit })
  }
  return { id, buyer, units, state: meaning(contract.HOLD_STATE, state), deadlineUs: deadline, seq: event, generation }
}

function readSku(sku: string, bytes: Buffer): SkuState {
  const { total, next, ahead, returned, held, confirmed, withdrawn, perBuyer } = new Packed(bytes).fields(contract.SKU_LAYOUT)
  return { sku, total, free: total + returned - next - ahead, held, confirmed, withdrawn, perBuyer }
}

/** Whether other units of a receipt must have one number in every line, as these have. */
function isSameNumber({ u }: Receipt): boolean {
  const [first] = u
  return u.length > 1 && new Set(u.map(([sku]) => sku)).size === u.length && u.every(([, unit]) => unit === first![1])
}

/** Packed ranges of consecutive units, line by line. */
function packUnits({ skus }: Spec, units: Receipt['u']): Buffer {
  const ranges: { sku: number; first: number; last: number }[] = []
  for (const [name, unit] of units) {
    const sku = skus.findIndex(([other]) => other === name)
    const range = ranges.at(-1)
    if (range?.sku === sku && range.last + 1 === unit) range.last = unit
    else ranges.push({ sku, first: unit, last: unit })
  }
  return Buffer.concat(ranges.map((range) => pack(contract.UNITS_LAYOUT, range)))
}
