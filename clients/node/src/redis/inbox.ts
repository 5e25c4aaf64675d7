import { randomBytes } from 'node:crypto'

import * as contract from '../contract.js'
import { UnavailableError } from '../errors.js'
import { Bell, within } from '../wait.js'
import type { Driver, Subscription } from './driver.js'

/** What a notification concerns. */
export const topic = {
  granted: (token: string) => `granted ${token}`,
  revoked: (token: string) => `revoked ${token}`,
  tasks: (queue: string) => `tasks ${queue}`,
  finished: (queue: string, id: string) => `finished ${id} ${queue}`,
  sale: (sale: string) => `sale ${sale}`,
}

/** One subscription for all notifications of a client. */
export class Inbox {
  readonly id = randomBytes(contract.INBOX_BYTES)
  readonly hex = this.id.toString('hex')
  readonly #bells = new Map<string, Set<Bell>>()
  readonly #onUnheard: (topic: string) => void
  #subscription: Subscription | undefined

  /** `onUnheard` gets the topic of a notification that no waiter expects. */
  static async open(driver: Driver, timeoutMs: number, onUnheard: (topic: string) => void): Promise<Inbox> {
    const inbox = new Inbox(onUnheard)
    let late = false
    const opening = driver.subscribe(contract.INBOX_PREFIX + inbox.hex, {
      message: (content) => inbox.#deliver(content),
      reconnected: () => inbox.#ringAll(),
    })
    opening.then((subscription) => { if (late) subscription.close() }, () => {})
    try {
      inbox.#subscription = await within(opening, timeoutMs, () => new Error('no answer in time'))
      return inbox
    } catch (cause) {
      late = true
      throw new UnavailableError('Cannot subscribe to notifications.', { cause })
    }
  }

  private constructor(onUnheard: (topic: string) => void) {
    this.#onUnheard = onUnheard
  }

  /** A bell that rings, and calls `heard`, for each notification of a topic, until it is removed. */
  listen(topic: string, heard?: () => void): Bell {
    const bell = new Bell(heard)
    const bells = this.#bells.get(topic) ?? new Set()
    this.#bells.set(topic, bells.add(bell))
    return bell
  }

  /** Removes a bell. */
  ignore(topic: string, bell: Bell): void {
    const bells = this.#bells.get(topic)
    bells?.delete(bell)
    if (bells?.size === 0) this.#bells.delete(topic)
  }

  #deliver(content: Buffer): void {
    const heard = topicOf(content)
    if (heard === undefined) return
    const bells = this.#bells.get(heard)
    if (bells) for (const bell of bells) bell.ring()
    else this.#onUnheard(heard)
  }

  /** After a lost connection every waiter asks the store. A revocation shows at the next renewal. */
  #ringAll(): void {
    for (const [topic, bells] of this.#bells) {
      if (!topic.startsWith('revoked ')) for (const bell of bells) bell.ring()
    }
  }

  close(): void {
    this.#subscription?.close()
  }
}

function topicOf(content: Buffer): string | undefined {
  const rest = content.subarray(1)
  switch (content.toString('latin1', 0, 1)) {
    case contract.NOTIFY_GRANTED: return topic.granted(rest.toString('hex', 0, contract.TOKEN_BYTES))
    case contract.NOTIFY_REVOKED: return topic.revoked(rest.toString('hex', 0, contract.TOKEN_BYTES))
    // Names have no spaces.
    case contract.NOTIFY_TASKS: return topic.tasks(rest.toString().split(' ')[2] ?? '')
    case contract.NOTIFY_FINISHED: return `finished ${rest.toString()}`
    case contract.NOTIFY_SALE: return topic.sale(rest.toString().split(' ')[1] ?? '')
    default: return undefined
  }
}

