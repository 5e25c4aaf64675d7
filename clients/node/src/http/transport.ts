import { hostname } from 'node:os'

import type { Transport } from '../transport.js'
import { HttpClient, type HttpSettings } from './client.js'
import { HttpLocks } from './locks.js'
import { HttpQueues } from './queues.js'
import { HttpSales } from './sales.js'

/** A Rushgate server, by the HTTP API. */
export class HttpTransport implements Transport {
  readonly locks: HttpLocks
  readonly queues: HttpQueues
  readonly sales: HttpSales
  readonly host = hostname()
  readonly #client: HttpClient

  constructor(url: string, settings: HttpSettings) {
    this.#client = new HttpClient(url, settings)
    this.locks = new HttpLocks(this.#client)
    this.queues = new HttpQueues(this.#client)
    this.sales = new HttpSales(this.#client)
  }

  async close(): Promise<void> {
    this.#client.close()
  }
}
