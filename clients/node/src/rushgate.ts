import type { ConnectionOptions } from 'node:tls'

import * as check from './check.js'
import * as contract from './contract.js'
import { InvalidError } from './errors.js'
import { HttpTransport } from './http/transport.js'
import { Lock } from './lock.js'
import { Queue } from './queue.js'
import { type Library, RedisTransport } from './redis/transport.js'
import { checkSale, Sale } from './sale.js'
import type { Transport } from './transport.js'
import type { LockOptions, NewSale } from './types.js'
import { Worker, type WorkerOptions } from './worker/worker.js'

/** Settings of a client. */
export interface ConnectOptions {
  /** API token of a Rushgate server. */
  token?: string
  /** TLS settings of the connections to Redis, such as `ca`. */
  tls?: ConnectionOptions
  /** Client library for a Redis URL. Default: ioredis if it is installed, otherwise redis. */
  library?: Library
  /** Time limit of one try of a call, in ms, without the waits that a call asks for. Default: 5,000. */
  timeoutMs?: number
  /** How long a call is repeated after a lost connection, in ms. Default: 10,000. */
  retryForMs?: number
}

const HTTP_URL = /^https?:\/\//

/**
 * A client of locks, queues and sales. It has a client ID, a connection for calls and one for notifications.
 *
 * Any number of asynchronous tasks of one thread may share it, and everything that it returns.
 */
export class Rushgate {
  readonly #transport: Transport

  /**
   * Connects to a store. `to` is a URL (`redis:`, `rediss:`, with `+sentinel` or `+cluster`, `http:` or `https:`), or a
   * client of ioredis or node-redis whose settings the connections get. The passed client is not used itself.
   */
  static async connect(to: string | object, options: ConnectOptions = {}): Promise<Rushgate> {
    const { token, tls = {}, library, timeoutMs = contract.DEFAULT_TIMEOUT, retryForMs = contract.DEFAULT_RETRY_FOR } = options
    for (const [field, ms] of Object.entries({ timeoutMs, retryForMs })) check.micros(field, ms, { min: 1_000, max: contract.WAIT_US.max })
    if (typeof to === 'string' && HTTP_URL.test(to)) return new Rushgate(new HttpTransport(to, { token, timeoutMs, retryForMs }))
    if (token !== undefined) throw new InvalidError('Only a Rushgate server has API tokens.', { field: 'token' })
    if (typeof to !== 'string' && (typeof to !== 'object' || to === null)) throw new InvalidError('Pass a URL or a client.', { field: 'to' })
    return new Rushgate(await RedisTransport.connect(to, { tls, library, timeoutMs, retryForMs }))
  }

  private constructor(transport: Transport) {
    this.#transport = transport
  }

  /** A lock by name. */
  lock(name: string, options?: LockOptions): Lock {
    return new Lock(this.#transport.locks, name, options)
  }

  /** A queue by name. */
  queue(name: string): Queue {
    return new Queue(this.#transport, name)
  }

  /** A worker for a queue. It does nothing until it runs. */
  worker(queue: string, options?: WorkerOptions): Worker {
    return new Worker(this.queue(queue), options)
  }

  /** A sale by ID. */
  sale(id: string): Sale {
    return new Sale(this.#transport.sales, id)
  }

  /** Creates a sale without opening it. `exists`: another sale has the ID. */
  async createSale(sale: NewSale): Promise<'created' | 'exists'> {
    return this.#transport.sales.create(checkSale(sale))
  }

  /** Closes the connections. Held locks end with their leases unless they were released. */
  async close(): Promise<void> {
    await this.#transport.close()
  }

  /** Closes the connections at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
