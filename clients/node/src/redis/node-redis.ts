/** Driver for node-redis 5 and later (the package `redis`). */

import type { ConnectionOptions } from 'node:tls'

import { within } from '../wait.js'
import { type Argument, ConnectionError, type Connection, type Driver, type Reply, ReplyError, type Subscriber, type Subscription } from './driver.js'
import type { Target } from './url.js'

/** The parts of a node-redis client, Cluster or Sentinel that the driver uses. */
export interface NodeRedisClient {
  sendCommand(...args: any[]): Promise<unknown>
  duplicate(options?: object): NodeRedisClient
  connect(): Promise<unknown>
  subscribe(channel: string, listener: (content: Buffer) => void, bufferMode: true): Promise<unknown>
  on(event: string, listener: (...args: any[]) => void): unknown
  destroy(): unknown
}

/** The parts of the module. */
export interface NodeRedisModule {
  createClient(options: object): NodeRedisClient
  createCluster(options: object): NodeRedisClient
  createSentinel(options: object): NodeRedisClient
}

type Kind = Target['kind']

/** Types of RESP whose values are needed as bytes: simple strings and bulk strings. */
const AS_BYTES = { typeMapping: { 43: Buffer, 36: Buffer } }
const ANSWERS = new Set(['ErrorReply', 'SimpleError', 'BlobError', 'MultiErrorReply'])

/** Whether a value is a client of node-redis. */
export function isNodeRedis(client: unknown): client is NodeRedisClient {
  const { sendCommand, withTypeMapping } = client as Record<string, unknown>
  return typeof sendCommand === 'function' && typeof withTypeMapping === 'function'
}

function kindOf(client: object): Kind {
  if ('getSentinelNode' in client) return 'sentinel'
  return 'slots' in client ? 'cluster' : 'server'
}

function reconnectStrategy(attempt: number): number {
  return Math.min(25 * 2 ** Math.min(attempt, 5), 500)
}

/** A driver that opens connections like the given client's. */
export function nodeRedisLike(client: NodeRedisClient, timeoutMs: number): Driver {
  return new NodeRedisDriver(kindOf(client), timeoutMs, () => client.duplicate({ commandOptions: AS_BYTES }))
}

/** A driver that opens connections to a URL. */
export function nodeRedisTo(module: NodeRedisModule, target: Target, tls: ConnectionOptions, timeoutMs: number): Driver {
  const { username, password, database, nodes, service: name } = target
  const socket = { connectTimeout: timeoutMs, reconnectStrategy, ...(target.tls && { ...tls, tls: true }) }
  const account = { username, password, socket }
  const commandOptions = AS_BYTES
  const [first] = nodes
  const make = {
    server: () => module.createClient({ ...account, database, socket: { ...socket, ...first }, commandOptions }),
    cluster: () => module.createCluster({ rootNodes: nodes.map((node) => ({ socket: node })), defaults: account, commandOptions }),
    sentinel: () => module.createSentinel({
      name,
      sentinelRootNodes: nodes,
      nodeClientOptions: { ...account, database },
      sentinelClientOptions: account,
      commandOptions,
    }),
  }
  return new NodeRedisDriver(target.kind, timeoutMs, make[target.kind])
}

class NodeRedisDriver implements Driver {
  readonly isCluster: boolean

  constructor(readonly kind: Kind, readonly timeoutMs: number, readonly make: () => NodeRedisClient) {
    this.isCluster = kind === 'cluster'
  }

  async connect(): Promise<Connection> {
    return new NodeRedisConnection(await this.#open(), this.kind)
  }

  async subscribe(channel: string, subscriber: Subscriber): Promise<Subscription> {
    const client = await this.#open()
    // The client subscribes again before it is ready.
    for (const event of ['ready', 'topology-change', 'node-ready']) client.on(event, () => subscriber.reconnected())
    try {
      await client.subscribe(channel, (content) => subscriber.message(content), true)
    } catch (error) {
      close(client)
      throw read(error as Error)
    }
    return { close: () => close(client) }
  }

  async #open(): Promise<NodeRedisClient> {
    const client = this.make()
    // The client retries forever, also after a refusal, which shows only as an event.
    const refused = new Promise<never>((_, reject) => {
      client.on('error', (error) => { if (isAnswer(error)) reject(error) })
    })
    try {
      await within(Promise.race([client.connect(), refused]), this.timeoutMs, () => new Error('no answer in time'))
      return client
    } catch (error) {
      close(client)
      throw read(error as Error)
    }
  }
}

class NodeRedisConnection implements Connection {
  readonly #client: NodeRedisClient
  readonly #kind: Kind

  constructor(client: NodeRedisClient, kind: Kind) {
    this.#client = client
    this.#kind = kind
  }

  async send(command: Argument[], key: string): Promise<Reply> {
    try {
      return await this.#send(command, key) as Reply
    } catch (error) {
      throw read(error as Error)
    }
  }

  #send(command: Argument[], key: string): Promise<unknown> {
    switch (this.#kind) {
      case 'server': return this.#client.sendCommand(command)
      case 'sentinel': return this.#client.sendCommand(false, command)
      case 'cluster': return this.#client.sendCommand(key, false, command, AS_BYTES)
    }
  }

  close(): void {
    close(this.#client)
  }
}

/** Closes a client that may not be open. */
function close(client: NodeRedisClient): void {
  try {
    void Promise.resolve(client.destroy()).catch(() => {})
  } catch {
    // It was closed already.
  }
}

function isAnswer(error: Error): boolean {
  return ANSWERS.has(error.constructor.name)
}

function read(error: Error): Error {
  return isAnswer(error) ? new ReplyError(error.message) : new ConnectionError(error.message, { cause: error })
}
