import { randomUUID } from 'node:crypto'

import type { AcquireRequest, Busy, Grant, Locks } from '../transport.js'
import type { Holder, LockState } from '../types.js'
import { now } from '../wait.js'
import { asRushgateError, type HttpClient, Problem, type Request } from './client.js'
import * as op from './operations.js'
import { waiting } from './waiting.js'
import { fromWire } from './wire.js'

/** Longest time in ms between request and answer for which a lease counts from the request. */
const QUICK_MS = 100

/** Locks by the HTTP API. */
export class HttpLocks implements Locks {
  readonly #client: HttpClient

  constructor(client: HttpClient) {
    this.#client = client
  }

  /** Each request waits for as long as the server allows. Between two, the client is not in the wait queue. */
  async acquire(name: string, request: AcquireRequest): Promise<Grant | Busy> {
    const key = randomUUID()
    const acquire = (partMs: number) => this.#acquireOnce(name, request, key, partMs)
    try {
      return await waiting(request.waitMs, request.signal, acquire, (acquired) => 'token' in acquired)
    } catch (error) {
      if (request.signal?.aborted) await this.#putBack(name, { ...request, signal: undefined }, key).catch(() => {})
      throw error
    }
  }

  /** An answer may have been under way when the wait was aborted. The same key leads to the same acquisition. */
  async #putBack(name: string, request: AcquireRequest, key: string): Promise<void> {
    const acquired = await this.#acquireOnce(name, request, key, 0)
    if ('token' in acquired) await this.release(name, acquired.token)
  }

  async #acquireOnce(name: string, request: AcquireRequest, key: string, waitMs: number): Promise<Grant | Busy> {
    const { leaseMs, label, barging, signal } = request
    const body = { lease_ms: Math.round(leaseMs), label, barging }
    const sent = now()
    try {
      const { body: view } = await this.#client.send({ operation: op.ACQUIRE, path: [name], body, key, waitMs, signal })
      if (now() - sent < QUICK_MS) return { token: view.token, fence: view.fence, heldUntil: sent + view.lease_left_ms }
      // After a wait, the time of the request says nothing about the lease. An extension starts it again.
      return await this.extend(name, view.token, leaseMs) ?? {}
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'lock_busy') throw asRushgateError(error as Error)
      return { retryAfterMs: error.body.retry_after_ms }
    }
  }

  async extend(name: string, token: string, leaseMs: number): Promise<Grant | undefined> {
    const body = { token, lease_ms: Math.round(leaseMs) }
    const sent = now()
    const view = await this.#unlessLost({ operation: op.EXTEND_LOCK, path: [name], body })
    return view && { token, fence: view.fence, heldUntil: sent + view.lease_left_ms }
  }

  async release(name: string, token: string): Promise<boolean> {
    return await this.#unlessLost({ operation: op.RELEASE, path: [name], body: { token } }) !== undefined
  }

  async #unlessLost(request: Request): Promise<any> {
    try {
      return (await this.#client.send(request)).body
    } catch (error) {
      if (error instanceof Problem && error.code === 'not_held') return undefined
      throw asRushgateError(error as Error)
    }
  }

  /** The API does not push: a forced release shows at the next renewal. */
  watch(): () => void {
    return () => {}
  }

  async show(name: string): Promise<LockState> {
    return fromWire((await this.#client.ask({ operation: op.SHOW_LOCK, path: [name] })).body)
  }

  async forceRelease(name: string): Promise<Holder | undefined> {
    const { body } = await this.#client.ask({ operation: op.FORCE_RELEASE, path: [name], body: {} })
    return fromWire<{ holder?: Holder }>(body).holder
  }
}
