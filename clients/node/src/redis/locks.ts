import { hostname } from 'node:os'

import { cut } from '../check.js'
import * as contract from '../contract.js'
import type { AcquireRequest, Busy, Grant, Locks } from '../transport.js'
import type { Holder, LockState, Waiter } from '../types.js'
import { now } from '../wait.js'
import { type Inbox, topic } from './inbox.js'
import { lockKeys } from './keys.js'
import { Merger } from './merger.js'
import { List, meaning, numberOf, Packed } from './packed.js'
import { readOwner } from './records.js'
import type { Store } from './store.js'

const HOST = Buffer.from(cut(hostname(), contract.NAME_BYTES))

/** Process ID, host name and label. */
function writeOwner(label: string): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(process.pid)
  head[4] = HOST.length
  return Buffer.concat([head, HOST, Buffer.from(label)])
}

/** The lease less a tenth of it, 1 ms to 1 s, because clocks drift. */
function certain(leaseLeftMs: number): number {
  return leaseLeftMs - Math.min(Math.max(leaseLeftMs / 10, 1), 1_000)
}

/** Locks by the function library. */
export class RedisLocks implements Locks {
  readonly #store: Store
  readonly #acquires: Merger
  readonly #releases: Merger

  constructor(store: Store) {
    this.#store = store
    this.#acquires = new Merger('each', (groups, args) => store.callOrReplay('lock_acquire', 'lock_confirm', groups, args))
    this.#releases = new Merger('each', (groups, args) => store.call('lock_release', groups, args))
  }

  /** What the locks of a call have in common: in a Cluster, the hash tag. */
  #shared(name: string): string {
    return this.#store.isCluster ? name : ''
  }

  async acquire(name: string, request: AcquireRequest): Promise<Grant | Busy> {
    const inbox = await this.#store.inbox()
    const token = this.#store.token()
    const granted = topic.granted(token.toString('hex'))
    const bell = inbox.listen(granted)
    try {
      const acquired = await this.#waitInLine(name, token, inbox, request, (ms) => bell.wait(ms, request.signal))
      if (!('token' in acquired) && request.waitMs > 0) await this.#leave(name, token)
      return acquired
    } catch (error) {
      // The wait queue forgets a waiter at the end of its wait, so a failure costs at most that.
      await this.#leave(name, token).catch(() => {})
      throw error
    } finally {
      inbox.ignore(granted, bell)
    }
  }

  async #waitInLine(
    name: string, token: Buffer, inbox: Inbox, request: AcquireRequest, wait: (ms: number) => Promise<void>,
  ): Promise<Grant | Busy> {
    const until = now() + request.waitMs
    for (;;) {
      request.signal?.throwIfAborted()
      const sent = now()
      const left = Math.max(until - sent, 0)
      const list = await this.#ask(name, token, inbox.id, request, left)
      const outcome = meaning(contract.ACQUIRED, list.number())
      if (outcome === 'granted') return readGrant(list, token.toString('hex'), sent)
      if (outcome === 'busy') return { retryAfterMs: list.number() / 1_000 }
      const [position, checkAfterMs] = [list.number(), list.number() / 1_000]
      if (left <= 0) return { retryAfterMs: checkAfterMs }
      await wait(Math.min(left, Math.max(checkAfterMs, 1), contract.POSITION_SLEEP * position, contract.LOCK_SLEEP))
    }
  }

  async #ask(name: string, token: Buffer, inbox: Buffer, request: AcquireRequest, leftMs: number): Promise<List> {
    const { leaseMs, barging, label } = request
    const args = [token, us(leaseMs), us(leftMs), barging ? '1' : '0', inbox, writeOwner(label)]
    return new List(await this.#acquires.ask(this.#shared(name), { groups: [lockKeys(name)], args }))
  }

  async #leave(name: string, token: Buffer): Promise<void> {
    await this.#store.call('lock_leave', [lockKeys(name)], [token])
  }

  async extend(name: string, token: string, leaseMs: number): Promise<Grant | undefined> {
    const sent = now()
    const list = new List(await this.#store.call('lock_extend', [lockKeys(name)], [Buffer.from(token, 'hex'), us(leaseMs)]))
    return list.isEmpty ? undefined : readGrant(list, token, sent)
  }

  async release(name: string, token: string): Promise<boolean> {
    const request = { groups: [lockKeys(name)], args: [Buffer.from(token, 'hex')] }
    const outcome = numberOf(await this.#releases.ask(this.#shared(name), request))
    return meaning(contract.RELEASED, outcome) === 'released'
  }

  watch(_name: string, token: string, lost: () => void): () => void {
    // The acquisition has opened it.
    const inbox = this.#store.openInbox
    if (!inbox) return () => {}
    const revoked = topic.revoked(token)
    const bell = inbox.listen(revoked, lost)
    return () => inbox.ignore(revoked, bell)
  }

  async show(name: string): Promise<LockState> {
    const list = new List(await this.#store.call('lock_show', [lockKeys(name)], []))
    return { name, holder: readHolder(list.list()), waiters: readWaiters(list.list()) }
  }

  async forceRelease(name: string): Promise<Holder | undefined> {
    return readHolder(new List(await this.#store.call('lock_force_release', [lockKeys(name)], [])))
  }
}

function us(ms: number): string {
  return String(Math.round(ms * 1_000))
}

/** The lease counts from the time at which the call was sent. */
function readGrant(list: List, token: string, sent: number): Grant {
  const fence = list.number()
  list.next()
  return { token, fence, heldUntil: sent + certain(numberOf(list.next()) / 1_000) }
}

function readHolder(list: List): Holder | undefined {
  if (list.isEmpty) return undefined
  list.bytes()
  const [fence, leaseUntilUs] = [list.number(), list.number()]
  const packed = new Packed(list.bytes())
  const { since } = packed.fields(contract.HOLDER_LAYOUT)
  packed.take(contract.INBOX_BYTES)
  return { ...readOwner(packed), fence, sinceUs: since, leaseUntilUs }
}

function readWaiters(list: List): Waiter[] {
  const waiters: (Omit<Waiter, 'position'> & { ticket: number })[] = []
  while (!list.isEmpty) {
    list.bytes()
    const packed = new Packed(list.bytes())
    const { ticket, since, until } = packed.fields(contract.WAITER_LAYOUT)
    packed.take(contract.INBOX_BYTES)
    waiters.push({ ...readOwner(packed), sinceUs: since, waitUntilUs: until, ticket })
  }
  waiters.sort((one, other) => one.ticket - other.ticket)
  return waiters.map(({ ticket, ...waiter }, at) => ({ position: at + 1, ...waiter }))
}
