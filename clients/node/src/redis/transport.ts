import { hostname } from 'node:os'
import type { ConnectionOptions } from 'node:tls'

import { InvalidError, MisconfiguredError } from '../errors.js'
import type { Transport } from '../transport.js'
import type { Driver } from './driver.js'
import { ioredisLike, type IoredisModule, ioredisTo, isIoredis } from './ioredis.js'
import { RedisLocks } from './locks.js'
import { isNodeRedis, nodeRedisLike, type NodeRedisModule, nodeRedisTo } from './node-redis.js'
import { RedisQueues } from './queues.js'
import { RedisSales } from './sales.js'
import { Store, type Times } from './store.js'
import { parseUrl } from './url.js'

/** Name of a supported client library. */
export type Library = 'ioredis' | 'redis'

export interface RedisSettings extends Times {
  tls: ConnectionOptions
  library?: Library
}

/** Redis, Valkey, Sentinel or a Cluster, by the function library. */
export class RedisTransport implements Transport {
  readonly locks: RedisLocks
  readonly queues: RedisQueues
  readonly sales: RedisSales
  readonly host = hostname()
  readonly #store: Store

  /** Connects to a URL, or with the settings of a client of ioredis or node-redis. */
  static async connect(to: string | object, settings: RedisSettings): Promise<RedisTransport> {
    const driver = typeof to === 'string' ? await driverTo(to, settings) : driverLike(to, settings)
    const transport = new RedisTransport(new Store(driver, settings))
    try {
      await transport.#store.checkProtocol()
      return transport
    } catch (error) {
      await transport.close()
      throw error
    }
  }

  private constructor(store: Store) {
    this.#store = store
    this.locks = new RedisLocks(store)
    this.queues = new RedisQueues(store)
    this.sales = new RedisSales(store)
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

function driverLike(client: object, { timeoutMs }: RedisSettings): Driver {
  if (isIoredis(client)) return ioredisLike(client, timeoutMs)
  if (isNodeRedis(client)) return nodeRedisLike(client, timeoutMs)
  throw new InvalidError('Pass a URL, or a client of ioredis or node-redis.', { field: 'to' })
}

async function driverTo(url: string, { tls, timeoutMs, library }: RedisSettings): Promise<Driver> {
  const target = parseUrl(url)
  const ioredis = library === 'redis' ? undefined : await load<IoredisModule>('ioredis')
  if (ioredis) return ioredisTo(ioredis, target, tls, timeoutMs)
  const redis = library === 'ioredis' ? undefined : await load<NodeRedisModule>('redis')
  if (redis) return nodeRedisTo(redis, target, tls, timeoutMs)
  throw new MisconfiguredError(`The package ${library ?? 'ioredis or redis'} is not installed.`, { hint: `Run \`npm install ${library ?? 'ioredis'}\`.` })
}

async function load<M>(name: string): Promise<M | undefined> {
  try {
    return await import(name) as M
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
}
