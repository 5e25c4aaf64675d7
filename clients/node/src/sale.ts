import * as check from './check.js'
import * as contract from './contract.js'
import { isFinal } from './holds.js'
import type { WaitOptions } from './queue.js'
import type { Sales } from './transport.js'
import type { Decision, Hold, HoldState, NewSale, Reservation, Reserved, Restored, SaleState } from './types.js'

const RESERVATION_ID = /^[0-9a-f]{32}$/

/** A sale of numbered units. N units are sold exactly once each, to any number of buyers. */
export class Sale {
  readonly id: string
  readonly #sales: Sales

  constructor(sales: Sales, id: string) {
    this.#sales = sales
    this.id = check.name('sale', id)
  }

  /** The sale and its stock. */
  async state(): Promise<SaleState> {
    return this.#sales.show(this.id)
  }

  /** Opens the sale, from its opening time on if it has one. */
  async open(): Promise<SaleState['status']> {
    return this.#sales.open(this.id)
  }

  /** Ends the sale permanently. Holds can still be decided. */
  async end(): Promise<SaleState['status']> {
    return this.#sales.end(this.id)
  }

  /** Reserves units for a buyer, all lines or none. Repeating the call with the same key is answered `replayed`. */
  async reserve({ buyer, key, lines, sameNumber = false, pass }: Reservation): Promise<Reserved> {
    const cart = check.list('lines', lines, contract.LINES.max).map(({ sku, quantity = 1 }) => ({
      sku: check.name('sku', sku),
      quantity: check.whole('quantity', quantity, contract.QUANTITY),
    }))
    if (new Set(cart.map(({ sku }) => sku)).size < cart.length) throw check.invalid('lines', 'has a SKU twice')
    if (sameNumber && cart.some(({ quantity }) => quantity !== 1)) throw check.invalid('sameNumber', 'requires a quantity of 1 in every line')
    return this.#sales.reserve(this.id, {
      buyer: check.name('buyer', buyer),
      key: check.idempotencyKey(key),
      lines: cart,
      sameNumber,
      pass,
    })
  }

  /** A reservation. `null` if there is none. */
  async reservation(id: string): Promise<Hold | null> {
    return await this.#sales.reservation(this.id, checkReservation(id)) ?? null
  }

  /**
   * Confirms a reservation that is paid for. In a sale with a ledger the answer is `pending` until the ledger has the
   * order; with a wait it is that after the wait. `refused`: refund the payment.
   */
  async confirm(id: string, options: WaitOptions = {}): Promise<Decision> {
    return this.#settled(await this.#sales.confirm(this.id, checkReservation(id)), 'confirmed', options)
  }

  /** Cancels a reservation. With a wait, waits for the ledger as `confirm` does. */
  async cancel(id: string, options: WaitOptions = {}): Promise<Decision> {
    return this.#settled(await this.#sales.cancel(this.id, checkReservation(id)), 'cancelled', options)
  }

  async #settled(decision: Decision, wanted: HoldState, { waitMs = 0, signal }: WaitOptions): Promise<Decision> {
    if (decision.outcome !== 'pending' || check.wait(waitMs) === 0) return decision
    const hold = await this.#sales.waitFinal(this.id, decision.hold.id, waitMs, signal)
    if (!hold) return { outcome: 'unknown' }
    if (hold.state === wanted) return { outcome: 'done', hold }
    return isFinal(hold.state) ? { outcome: 'refused', state: hold.state } : { outcome: 'pending', hold }
  }

  /** Waits until a reservation is final, and returns it. Not final: the wait was too short. `null`: there is none. */
  async waitFinal(id: string, { waitMs = 0, signal }: WaitOptions = {}): Promise<Hold | null> {
    check.wait(waitMs)
    signal?.throwIfAborted()
    return await this.#sales.waitFinal(this.id, checkReservation(id), waitMs, signal) ?? null
  }

  /** Restores a reservation that the store has lost, from its receipt. `known`: it was not lost. */
  async restore(receipt: string): Promise<Restored> {
    if (typeof receipt !== 'string') throw check.invalid('receipt', 'must be a string')
    return this.#sales.restore(this.id, receipt)
  }
}

/** Checks a sale to create, and fills in the defaults. */
export function checkSale({ id, skus, holdMs = contract.DEFAULT_HOLD, opensAtUs, closesAtUs, ledger }: NewSale): NewSale {
  check.micros('holdMs', holdMs, contract.HOLD_US)
  const checked = check.list('skus', skus, contract.SKUS.max).map(({ sku, units, perBuyer = contract.DEFAULT_PER_BUYER }) => ({
    sku: check.name('sku', sku),
    units: check.whole('units', units, contract.UNITS),
    perBuyer: check.whole('perBuyer', perBuyer, contract.PER_BUYER),
  }))
  if (new Set(checked.map(({ sku }) => sku)).size < checked.length) throw check.invalid('skus', 'has a SKU twice')
  for (const moment of [opensAtUs, closesAtUs]) if (moment !== undefined) check.moment('opensAtUs', moment)
  return { id: check.name('id', id), skus: checked, holdMs, opensAtUs, closesAtUs, ledger }
}

/** A reservation ID in its one form, of which any other text is none. */
function checkReservation(id: string): string {
  if (typeof id !== 'string' || !RESERVATION_ID.test(id)) throw check.invalid('reservation', 'must be 32 lower-case hexadecimal digits')
  return id
}
