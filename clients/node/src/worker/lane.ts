import { RushgateError } from '../errors.js'
import { Pauses, sleep } from '../wait.js'

/** Maximum number of answers per call. It keeps a call short, so that other calls get their turn. */
const BATCH = 256

interface Pending<E, O> {
  entry: E
  answered: (outcome: O | undefined) => void
}

/** Collects the ends of claims of one sort, and sends those that wait together. */
export class Lane<E, O> {
  readonly #send: (entries: E[]) => Promise<O[]>
  /** Aborted when the worker has no more time to repeat a call. */
  readonly #hurry: AbortSignal
  #pending: Pending<E, O>[] = []
  #sending: Promise<void> | undefined

  constructor(send: (entries: E[]) => Promise<O[]>, hurry: AbortSignal) {
    this.#send = send
    this.#hurry = hurry
  }

  /** The outcome of an end. Nothing if the store did not take it: the lease expires, and the task runs again. */
  push(entry: E): Promise<O | undefined> {
    return new Promise((answered) => {
      this.#pending.push({ entry, answered })
      this.#sending ??= this.#sendAll()
    })
  }

  async #sendAll(): Promise<void> {
    // Handlers that end in the same turn of the event loop share a call.
    await new Promise(setImmediate)
    while (this.#pending.length > 0) {
      const batch = this.#pending.splice(0, BATCH)
      const outcomes = await this.#sendUntilAnswered(batch.map(({ entry }) => entry))
      batch.forEach(({ answered }, at) => answered(outcomes?.[at]))
    }
    this.#sending = undefined
  }

  /** An outage ends eventually. An answer that arrives too late is stale and has no effect. */
  async #sendUntilAnswered(entries: E[]): Promise<O[] | undefined> {
    const pauses = new Pauses()
    for (;;) {
      try {
        return await this.#send(entries)
      } catch (error) {
        const passes = error instanceof RushgateError && error.retryable
        if (!passes || this.#hurry.aborted) return undefined
        await sleep(pauses.draw(), this.#hurry).catch(() => {})
      }
    }
  }
}
