/** Driver for ioredis 5 and later. */

import type { ConnectionOptions } from 'node:tls'

import { type Argument, ConnectionError, type Connection, type Driver, type Reply, ReplyError, type Subscriber, type Subscription } from './driver.js'
import type { Target } from './url.js'

/** The parts of an ioredis client or Cluster that the driver uses. */
export interface IoredisClient {
  isCluster: boolean
  callBuffer(command: string, ...args: unknown[]): Promise<unknown>
  duplicate(...args: unknown[]): IoredisClient
  subscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...args: any[]) => void): unknown
  disconnect(): void
}

/** The parts of the module. */
export interface IoredisModule {
  Redis: new (options: object) => IoredisClient
  Cluster: new (nodes: object[], options: object) => IoredisClient
}

/** Whether a value is a client of ioredis. */
export function isIoredis(client: unknown): client is IoredisClient {
  return typeof (client as IoredisClient | null)?.callBuffer === 'function' && typeof (client as IoredisClient).isCluster === 'boolean'
}

/** Settings that the driver needs: a call that loses its connection fails at once, and the connection comes back. */
function settings(timeoutMs: number): object {
  return {
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    enableOfflineQueue: true,
    lazyConnect: false,
    connectTimeout: timeoutMs,
    retryStrategy: (attempt: number) => Math.min(25 * 2 ** Math.min(attempt, 5), 500),
  }
}

/** The same in a Cluster, whose client chooses the subscribed node itself. */
function clusterSettings(timeoutMs: number): object {
  return { redisOptions: { connectTimeout: timeoutMs }, slotsRefreshTimeout: timeoutMs, lazyConnect: false }
}

/** A driver that opens connections like the given client's. */
export function ioredisLike(client: IoredisClient, timeoutMs: number): Driver {
  const make = client.isCluster
    ? () => client.duplicate([], { slotsRefreshTimeout: timeoutMs, lazyConnect: false })
    : () => client.duplicate(settings(timeoutMs))
  return new IoredisDriver(client.isCluster, make)
}

/** A driver that opens connections to a URL. */
export function ioredisTo(module: IoredisModule, target: Target, tls: ConnectionOptions, timeoutMs: number): Driver {
  const { username, password, database: db } = target
  const account = { username, password, ...(target.tls && { tls }) }
  const [first] = target.nodes
  switch (target.kind) {
    case 'server':
      return new IoredisDriver(false, () => new module.Redis({ ...settings(timeoutMs), ...first, ...account, db }))
    case 'sentinel': {
      const secure = target.tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }
      const sentinels = { sentinels: target.nodes, name: target.service, sentinelUsername: username, sentinelPassword: password }
      return new IoredisDriver(false, () => new module.Redis({ ...settings(timeoutMs), ...sentinels, ...account, ...secure, db }))
    }
    case 'cluster': {
      const base = clusterSettings(timeoutMs) as { redisOptions: object }
      const options = { ...base, redisOptions: { ...base.redisOptions, ...account } }
      return new IoredisDriver(true, () => new module.Cluster(target.nodes, options))
    }
  }
}

class IoredisDriver implements Driver {
  constructor(readonly isCluster: boolean, readonly make: () => IoredisClient) {}

  async connect(): Promise<Connection> {
    return new IoredisConnection(this.make())
  }

  async subscribe(channel: string, subscriber: Subscriber): Promise<Subscription> {
    const client = this.make()
    client.on('messageBuffer', (_: unknown, content: Buffer) => subscriber.message(content))
    client.on('error', () => {})
    try {
      await (this.isCluster ? subscribeInCluster : subscribe)(client, channel, subscriber)
    } catch (cause) {
      client.disconnect()
      throw new ConnectionError('cannot subscribe', { cause })
    }
    return { close: () => client.disconnect() }
  }
}

/** Subscribes after each connect, so that `reconnected` means that messages arrive again. */
async function subscribe(client: IoredisClient, channel: string, subscriber: Subscriber): Promise<void> {
  await new Promise<void>((resolve) => {
    client.on('ready', () => {
      client.subscribe(channel).then(() => {
        resolve()
        subscriber.reconnected()
      }, () => {})
    })
  })
}

/** The client of a Cluster subscribes again itself, without an event. A changed node is the only sign. */
async function subscribeInCluster(client: IoredisClient, channel: string, subscriber: Subscriber): Promise<void> {
  await client.subscribe(channel)
  for (const event of ['ready', '+node', '-node']) client.on(event, () => subscriber.reconnected())
}

class IoredisConnection implements Connection {
  readonly #client: IoredisClient
  #error: unknown

  constructor(client: IoredisClient) {
    this.#client = client
    client.on('error', (error) => { this.#error = error })
    client.on('ready', () => { this.#error = undefined })
  }

  async send([name, ...args]: Argument[]): Promise<Reply> {
    try {
      return await this.#client.callBuffer(String(name), ...args) as Reply
    } catch (error) {
      throw this.#read(error as Error)
    }
  }

  /** A connection that could not be opened has its reason in the latest `error` event. */
  #read(error: Error): Error {
    const cause = error.name === 'ReplyError' ? error : this.#error ?? error
    const { name, message } = cause as Error
    return name === 'ReplyError' ? new ReplyError(message) : new ConnectionError(message, { cause })
  }

  close(): void {
    this.#client.disconnect()
  }
}
