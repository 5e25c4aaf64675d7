import { randomBytes } from 'node:crypto'

import * as contract from '../contract.js'
import { FullError, MisconfiguredError } from '../errors.js'
import type { Argument, Driver, Reply } from './driver.js'
import { Inbox } from './inbox.js'
import type { Group } from './keys.js'
import { Link } from './link.js'
import { List } from './packed.js'

/** Time limits of a client, in ms. */
export interface Times {
  timeoutMs: number
  retryForMs: number
}

/** Calls functions of the library as one client, which has its own client ID, counter and inbox. */
export class Store {
  readonly #driver: Driver
  readonly #link: Link
  readonly #times: Times
  readonly #client = randomBytes(contract.CLIENT_BYTES)
  readonly #registered = new Set<string>()
  readonly #unheard: ((topic: string) => void)[] = []
  #counter = 0n
  #inbox: Promise<Inbox> | undefined
  #openInbox: Inbox | undefined
  /** Client ID in hexadecimal digits. */
  readonly clientHex = this.#client.toString('hex')

  constructor(driver: Driver, times: Times) {
    this.#driver = driver
    this.#times = times
    this.#link = new Link(driver, times.timeoutMs, times.retryForMs)
  }

  /** Whether the server is a Cluster, where a call has keys of one hash tag only. */
  get isCluster(): boolean {
    return this.#driver.isCluster
  }

  /** Refuses a library of another protocol. */
  async checkProtocol(): Promise<void> {
    const list = new List(await this.#link.send(['FCALL', `${contract.FUNCTION_PREFIX}version`, '0'], ''))
    const protocol = list.number()
    if (protocol === contract.PROTOCOL) return
    throw new MisconfiguredError(`The server speaks protocol ${protocol}, and this package ${contract.PROTOCOL}.`, { hint: 'Update the older one.' })
  }

  /** Calls a function. A call that may have been executed before is sent again with the same arguments. */
  call(name: string, groups: readonly Group[], args: readonly Argument[]): Promise<Reply> {
    const keys = groups.flatMap((group) => this.#driver.isCluster ? group.all : [group.first])
    return this.#link.send(['FCALL', contract.FUNCTION_PREFIX + name, String(keys.length), ...keys, ...args], keys[0]!)
  }

  /** The same for a function that allocates memory. If the server is full, `replay` tells whether it was executed before. */
  async callOrReplay(name: string, replay: string, groups: readonly Group[], args: readonly Argument[]): Promise<Reply> {
    try {
      return await this.call(name, groups, args)
    } catch (error) {
      if (!(error instanceof FullError)) throw error
      return await this.call(replay, groups, args)
    }
  }

  /** Reads a key directly. */
  read(command: string, key: string, ...args: string[]): Promise<Reply> {
    return this.#link.send([command, key, ...args], key)
  }

  /** Eight bytes that this client never used before. */
  op(): Buffer {
    const bytes = Buffer.alloc(contract.OP_BYTES)
    bytes.writeBigUInt64BE(++this.#counter)
    return bytes
  }

  /** A token for an acquisition. */
  token(): Buffer {
    return Buffer.concat([this.#client, this.op()])
  }

  /** Adds a name to a directory, once per client. */
  async register(directory: string, name: string): Promise<void> {
    const entry = `${directory} ${name}`
    if (this.#registered.has(entry)) return
    await this.#link.send(['ZADD', directory, '0', name], directory)
    this.#registered.add(entry)
  }

  /** The client's subscription, which is opened once. */
  inbox(): Promise<Inbox> {
    if (!this.#inbox) {
      const opening = Inbox.open(this.#driver, this.#times.timeoutMs, (topic) => this.#unheard.forEach((hear) => hear(topic)))
      opening.then((inbox) => { this.#openInbox = inbox }, () => { this.#inbox = undefined })
      this.#inbox = opening
    }
    return this.#inbox
  }

  /** The subscription, if it is open. */
  get openInbox(): Inbox | undefined {
    return this.#openInbox
  }

  /** Calls `hear` with the topic of a notification that no waiter of this client expects. */
  onUnheard(hear: (topic: string) => void): void {
    this.#unheard.push(hear)
  }

  async close(): Promise<void> {
    this.#link.close()
    const inbox = await this.#inbox?.catch(() => undefined)
    inbox?.close()
  }
}
