import { randomUUID } from 'node:crypto'

import { isFinal } from '../holds.js'
import type { Sales } from '../transport.js'
import type { Decision, Hold, NewSale, Reservation, Reserved, Restored, SaleState } from '../types.js'
import { asRushgateError, type HttpClient, Problem } from './client.js'
import * as op from './operations.js'
import { waiting } from './waiting.js'
import { fromWire } from './wire.js'

/** Outcomes by the codes of the API. */
const REFUSED: Record<string, string> = {
  idempotency_key_reused: 'key_reused',
  sold_out: 'sold_out',
  all_held: 'all_held',
  limit_reached: 'limit_reached',
  sale_not_open: 'not_open',
  sale_ended: 'ended',
  sale_halted: 'halted',
}
const NOT_RESTORED: Record<string, string> = {
  sold_out: 'none_left',
  limit_reached: 'limit_reached',
  hold_expired: 'expired',
  receipt_refused: 'not_honoured',
  sale_halted: 'halted',
}
const UNDECIDED: Record<string, string> = { not_found: 'unknown', decided: 'refused', sale_halted: 'halted' }

/** Fields of a problem that every problem has. */
const COMMON = ['type', 'title', 'status', 'code', 'detail', 'hint', 'field', 'retryable', 'retryAfterMs']

/** Sales by the HTTP API. */
export class HttpSales implements Sales {
  readonly #client: HttpClient

  constructor(client: HttpClient) {
    this.#client = client
  }

  async create({ id, skus, holdMs, opensAtUs, closesAtUs, ledger }: NewSale): Promise<'created' | 'exists'> {
    const body = {
      id,
      skus: skus.map(({ sku, units, perBuyer }) => ({ sku, units, per_buyer: perBuyer })),
      hold_ms: Math.round(holdMs!),
      opens_at_us: opensAtUs,
      closes_at_us: closesAtUs,
      ledger,
    }
    try {
      await this.#client.send({ operation: op.CREATE, path: [], body, key: randomUUID() })
      return 'created'
    } catch (error) {
      if (error instanceof Problem && error.code === 'exists') return 'exists'
      throw asRushgateError(error as Error)
    }
  }

  async open(id: string): Promise<SaleState['status']> {
    return (await this.#client.ask({ operation: op.OPEN, path: [id], body: {} })).body.status
  }

  async end(id: string): Promise<SaleState['status']> {
    return (await this.#client.ask({ operation: op.END, path: [id], body: {} })).body.status
  }

  async show(id: string): Promise<SaleState> {
    return fromWire((await this.#client.ask({ operation: op.SALE, path: [id] })).body)
  }

  async reserve(id: string, { buyer, key, lines, sameNumber, pass }: Reservation): Promise<Reserved> {
    const body = { buyer, lines, same_number: sameNumber, pass }
    try {
      const answer = await this.#client.send({ operation: op.RESERVE, path: [id], body, key })
      return { outcome: answer.replayed ? 'replayed' : 'reserved', hold: fromWire(answer.body) }
    } catch (error) {
      return outcomeOf(error as Error, REFUSED)
    }
  }

  confirm(id: string, reservation: string): Promise<Decision> {
    return this.#decide(op.CONFIRM, id, reservation)
  }

  cancel(id: string, reservation: string): Promise<Decision> {
    return this.#decide(op.CANCEL_HOLD, id, reservation)
  }

  async #decide(operation: op.Operation, id: string, reservation: string): Promise<Decision> {
    try {
      const { status, body } = await this.#client.send({ operation, path: [id, reservation], body: {} })
      return { outcome: status === 202 ? 'pending' : 'done', hold: fromWire(body) }
    } catch (error) {
      return outcomeOf(error as Error, UNDECIDED)
    }
  }

  async reservation(id: string, reservation: string): Promise<Hold | undefined> {
    return this.#look(id, reservation, 0)
  }

  async waitFinal(id: string, reservation: string, waitMs: number, signal?: AbortSignal): Promise<Hold | undefined> {
    const look = (partMs: number) => this.#look(id, reservation, partMs, signal)
    return waiting(waitMs, signal, look, (hold) => !hold || isFinal(hold.state))
  }

  async #look(id: string, reservation: string, waitMs: number, signal?: AbortSignal): Promise<Hold | undefined> {
    try {
      return fromWire((await this.#client.send({ operation: op.RESERVATION, path: [id, reservation], waitMs, signal })).body)
    } catch (error) {
      if (error instanceof Problem && error.code === 'not_found') return undefined
      throw asRushgateError(error as Error)
    }
  }

  async restore(id: string, receipt: string): Promise<Restored> {
    try {
      const { status, body } = await this.#client.send({ operation: op.RESTORE, path: [id], body: { receipt } })
      return { outcome: status === 201 ? 'restored' : 'known', hold: fromWire(body) }
    } catch (error) {
      return outcomeOf(error as Error, NOT_RESTORED)
    }
  }
}

/** The outcome that a problem stands for, with its fields. Other problems are errors. */
function outcomeOf<O>(error: Error, outcomes: Record<string, string>): O {
  const outcome = error instanceof Problem ? outcomes[error.code] : undefined
  if (!(error instanceof Problem) || outcome === undefined) throw asRushgateError(error)
  const fields = Object.entries(fromWire<object>(error.body)).filter(([name]) => !COMMON.includes(name))
  return { outcome, ...Object.fromEntries(fields) } as O
}
