/** A class with the interface of redlock 4, on Rushgate locks. It retries as redlock does, instead of waiting in turn. */

import { EventEmitter } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'

import Bluebird from 'bluebird'
import { Redis } from 'ioredis'
import { CorruptError, LockLostError, Rushgate } from 'rushgate'

const URL = process.env.RUSHGATE_TEST_REDIS
/** The tests get or extend a lock before a lease of 200 ms ends. A busy machine can pause longer, so their times are multiplied. */
const SLOWER = 3
const DEFAULTS = { retryCount: 10, retryDelay: 200, retryJitter: 100 }

class LockError extends Error {
  constructor(message, attempts) {
    super(message)
    this.attempts = attempts
  }
}

class Lock {
  constructor(redlock, held, expiration, attempts, retryCount) {
    Object.assign(this, { redlock, held, expiration, attempts, attemptsRemaining: retryCount - attempts })
  }

  unlock(callback) {
    this.expiration = 0
    return later(callback, async () => {
      if (!await this.held.release()) throw new LockError('the lock was lost')
    })
  }

  extend(ttl, callback) {
    return later(callback, async () => {
      const expiration = endOf(ttl)
      try {
        await this.held.extend(SLOWER * ttl)
      } catch (error) {
        throw error instanceof LockLostError ? new LockError(error.message, 0) : error
      }
      this.expiration = expiration
      return this
    })
  }
}

/** When the lease of a request that is sent now ends. `leaseLeftMs` ends sooner: it allows for clocks of different speed. */
function endOf(ttl) {
  return Date.now() + SLOWER * ttl
}

/** A client of Redis as the tests make it: the store of the locks. */
class Client {
  constructor(library) {
    this.rushgate = Rushgate.connect(URL, { library })
    this.redis = new Redis(URL)
  }

  /** Damages a lock. */
  sadd(lock, member, callback) {
    later(callback, () => this.redis.sadd(`rg:{l:${lock}}:lock`, member))
  }

  /** Frees a lock. */
  del(lock, callback) {
    later(callback, async () => (await this.rushgate).lock(lock).forceRelease())
  }

  /** Scripts are not used. */
  script(command, callback) {
    later(callback, () => this.redis.script(command))
  }

  async quit() {
    await (await this.rushgate).close()
    return this.redis.quit()
  }
}

class Redlock extends EventEmitter {
  static Lock = Lock
  static LockError = LockError

  constructor(clients, options = {}) {
    super()
    if (clients.length === 0) throw new Error('no client')
    this.servers = clients
    this.options = { ...DEFAULTS, ...options }
  }

  lock(name, ttl, callback) {
    return this.lockWithOptions(name, ttl, {}, callback)
  }

  lockWithOptions(name, ttl, options, callback) {
    return later(callback, () => this.#acquire(name, ttl, { ...this.options, ...options }))
  }

  async #acquire(name, ttl, { retryCount, retryDelay, retryJitter }) {
    const lock = (await this.servers[0].rushgate).lock(name, { leaseMs: SLOWER * ttl, renew: false })
    for (let attempts = 1; ; attempts++) {
      const expiration = endOf(ttl)
      const held = await lock.acquire().catch((error) => this.#failed(error))
      if (held) return new Lock(this, held, expiration, attempts, retryCount)
      if (attempts > retryCount) throw new LockError(`the lock ${name} is busy`, attempts)
      await delay(SLOWER * (retryDelay + (Math.random() * 2 - 1) * retryJitter))
    }
  }

  #failed(error) {
    if (!(error instanceof CorruptError)) throw error
    this.emit('clientError', error)
  }

  disposer(name, ttl, onError = () => {}) {
    return this.lock(name, ttl).disposer((lock) => lock.unlock().catch(onError))
  }

  quit() {
    return later(undefined, () => Promise.all(this.servers.map((client) => client.quit())))
  }
}

function later(callback, work) {
  return Bluebird.resolve(work()).asCallback(callback)
}

/** What the tests require, in place of redlock and the clients of Redis. */
export const modules = {
  './redlock': Redlock,
  redis: { createClient: () => new Client('redis') },
  ioredis: function ioredis() { return new Client('ioredis') },
}
