import { InvalidError, FullError } from '../errors.js'
import type { Argument, Reply } from './driver.js'
import type { Group } from './keys.js'
import { List } from './packed.js'

/** The most requests in a call, which is the limit of the functions of locks. */
const REQUESTS_MAX = 128
/** Requests whose arguments exceed this size do not share a call. */
const BYTES_MAX = 1 << 20

/** One of the requests of a call. */
export interface Shared {
  groups: readonly Group[]
  args: readonly Argument[]
}

interface Waiting extends Shared {
  bytes: number
  resolve(answer: Reply | Promise<Reply>): void
  reject(error: unknown): void
}

type Send = (groups: readonly Group[], args: readonly Argument[]) => Promise<Reply>

/**
 * Sends the requests of one function that callers make in the same turn of the event loop as one call, which costs client and
 * server much less than separate calls. A request is answered by its entry in the answer of the call.
 */
export class Merger {
  readonly #send: Send
  readonly #keys: 'each' | 'same'
  readonly #waiting = new Map<string, Waiting[]>()
  /** Calls that are not answered yet. */
  #calls = 0
  /** How many requests the latest calls had, the older ones counting less. */
  #crowd = 1

  /** `send` makes a call. `keys` tells whether each request of a call adds its keys, or all have the same. */
  constructor(keys: 'each' | 'same', send: Send) {
    this.#keys = keys
    this.#send = send
  }

  /** The answer of a request. Only requests with the same `name` share a call. */
  ask(name: string, { groups, args }: Shared): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = { groups, args, bytes: sizeOf(args), resolve, reject }
      const waiting = this.#waiting.get(name)
      if (waiting) {
        waiting.push(request)
      } else if (this.#calls === 0 && this.#crowd < 2) {
        // A single caller does not wait.
        void this.#sendTogether([request])
      } else {
        this.#waiting.set(name, [request])
        // All answers that have arrived are read before this, and so are the requests that follow from them.
        setImmediate(() => this.#sendAll(name))
      }
    })
  }

  /** The answer of a request that has its own call, because it concerns many things already. */
  async alone({ groups, args }: Shared): Promise<Reply> {
    return new List(await this.#send(groups, args)).next()
  }

  #sendAll(name: string): void {
    const waiting = this.#waiting.get(name)!
    this.#waiting.delete(name)
    let [from, bytes] = [0, 0]
    waiting.forEach((request, at) => {
      const isFull = at - from === REQUESTS_MAX || bytes + request.bytes > BYTES_MAX
      if (at > from && isFull) {
        void this.#sendTogether(waiting.slice(from, at));
        [from, bytes] = [at, 0]
      }
      bytes += request.bytes
    })
    void this.#sendTogether(waiting.slice(from))
  }

  async #sendTogether(requests: readonly Waiting[]): Promise<void> {
    this.#calls++
    this.#crowd = Math.max(requests.length, this.#crowd / 2)
    try {
      const groups = this.#keys === 'each' ? requests.flatMap((request) => request.groups) : requests[0]!.groups
      const list = new List(await this.#send(groups, requests.flatMap(({ args }) => args)))
      for (const { resolve } of requests) resolve(list.next())
    } catch (error) {
      // A refused call changed nothing. One of its requests may be the reason, so each is sent alone.
      const isRefused = error instanceof InvalidError || error instanceof FullError
      const isOne = requests.length === 1
      for (const { groups, args, resolve, reject } of requests) {
        if (isOne || !isRefused) reject(error)
        else resolve(this.alone({ groups, args }))
      }
    } finally {
      this.#calls--
    }
  }
}

function sizeOf(args: readonly Argument[]): number {
  return args.reduce<number>((bytes, arg) => bytes + arg.length, 0)
}
