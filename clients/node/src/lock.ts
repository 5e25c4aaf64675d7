import { label, lease, name as checkName, wait } from './check.js'
import * as contract from './contract.js'
import { LockBusyError, LockLostError } from './errors.js'
import type { Grant, Locks } from './transport.js'
import type { AcquireOptions, Holder, LockOptions, LockState } from './types.js'
import { MAX_TIMER_MS, now } from './wait.js'

/** Longest time in ms between two attempts of a failed renewal. */
const RENEW_AGAIN_MS = 1_000

type Settings = Required<LockOptions>

/** A distributed lock. At most one client holds it at a time, and waiters get it in the order of their arrival. */
export class Lock {
  readonly name: string
  readonly #locks: Locks
  readonly #settings: Settings

  constructor(locks: Locks, name: string, { leaseMs = contract.DEFAULT_LEASE, renew = true, label: text = '', barging = false }: LockOptions = {}) {
    this.#locks = locks
    this.name = checkName('lock', name)
    lease(leaseMs)
    this.#settings = { leaseMs, renew, label: label('label', text), barging }
  }

  /** Acquires the lock. `null` if another client holds it when the wait ends. */
  async acquire({ waitMs = 0, signal }: AcquireOptions = {}): Promise<HeldLock | null> {
    wait(waitMs)
    signal?.throwIfAborted()
    const { leaseMs, label, barging } = this.#settings
    const acquired = await this.#locks.acquire(this.name, { leaseMs, waitMs, label, barging, signal })
    return 'token' in acquired ? new HeldLock(this.#locks, this.name, acquired, this.#settings) : null
  }

  /**
   * Runs `work` while it holds the lock. Throws `LockBusyError` if the lock is not free within the wait, and
   * `LockLostError` if it was lost before `work` ended.
   */
  async run<T>(work: (held: HeldLock) => Promise<T> | T, options: AcquireOptions = {}): Promise<T> {
    const held = await this.acquire(options)
    if (!held) throw new LockBusyError(`Another client holds the lock \`${this.name}\`.`)
    let result: T
    try {
      result = await work(held)
    } catch (error) {
      // The error of the work matters more than that of the release.
      await held.release().catch(() => {})
      throw error
    }
    if (!await held.release()) throw lost(this.name)
    return result
  }

  /** The holder and the wait queue. */
  state(): Promise<LockState> {
    return this.#locks.show(this.name)
  }

  /** Takes the lock from its holder, which is notified, and grants it to the next waiter. For operators. */
  forceRelease(): Promise<Holder | undefined> {
    return this.#locks.forceRelease(this.name)
  }
}

/** A held lock, which is renewed until it is released or lost. Until then it keeps the process running. */
export class HeldLock {
  readonly name: string
  /** Fencing token: greater than that of every earlier grant. Let the protected resource refuse smaller ones. */
  readonly fence: number
  /** Secret proof of this acquisition. */
  readonly token: string
  readonly #locks: Locks
  readonly #settings: Settings
  /** Made when the signal is first asked for. Until then, `#isLost` suffices. */
  #lost: AbortController | undefined
  #isLost = false
  readonly #unwatch: () => void
  #heldUntil: number
  /** The lease of renewals: that of the latest extension. */
  #leaseMs: number
  /** Ends with the latest extension. Extensions are sent one at a time, so that the last answer has the end. */
  #extending: Promise<unknown> = Promise.resolve()
  #renewal: NodeJS.Timeout | undefined
  #expiry: NodeJS.Timeout | undefined
  #release: Promise<boolean> | undefined

  constructor(locks: Locks, name: string, grant: Grant, settings: Settings) {
    this.#locks = locks
    this.name = name
    this.#settings = settings
    this.token = grant.token
    this.fence = grant.fence
    this.#heldUntil = grant.heldUntil
    this.#leaseMs = settings.leaseMs
    this.#unwatch = locks.watch(name, grant.token, () => this.#lose())
    this.#schedule()
  }

  /** Aborted, with a `LockLostError`, before the store can grant the lock to another client: stop the work then. */
  get signal(): AbortSignal {
    if (!this.#lost) {
      this.#lost = new AbortController()
      if (this.#isLost) this.#lost.abort(lost(this.name))
    }
    return this.#lost.signal
  }

  /** Whether the lock is certainly held. */
  get isHeld(): boolean {
    return this.leaseLeftMs > 0
  }

  /** How long the lock is certainly held, in ms, unless it is renewed. 0 if it was lost or released. */
  get leaseLeftMs(): number {
    return this.#isLost || this.#release ? 0 : Math.max(0, this.#heldUntil - now())
  }

  /**
   * Extends the lease to `leaseMs` from now, which may be earlier than its present end. Later renewals use it too.
   * Default: the lease of the lock. Throws `LockLostError` if it was lost.
   */
  async extend(leaseMs: number = this.#settings.leaseMs): Promise<void> {
    lease(leaseMs)
    this.#throwIfLost()
    this.#leaseMs = leaseMs
    await this.#extend()
  }

  #throwIfLost(): void {
    if (this.#isLost) throw lost(this.name)
  }

  #extend(): Promise<void> {
    const extended = this.#extending.then(() => this.#extendNow())
    this.#extending = extended.catch(() => {})
    return extended
  }

  async #extendNow(): Promise<void> {
    this.#throwIfLost()
    const leaseMs = this.#leaseMs
    // Without an answer, the lease ends at the old or the new time.
    this.#heldUntil = Math.min(this.#heldUntil, now() + leaseMs)
    this.#schedule()
    let grant: Grant | undefined
    try {
      grant = this.#release ? undefined : await this.#locks.extend(this.name, this.token, leaseMs)
    } catch (error) {
      this.#renewSoon()
      throw error
    }
    if (!grant) {
      this.#lose()
      throw lost(this.name)
    }
    this.#heldUntil = grant.heldUntil
    this.#schedule()
  }

  /** Releases the lock. False if it was lost before. Calling it again returns the same answer. */
  release(): Promise<boolean> {
    this.#release ??= this.#releaseOnce()
    return this.#release
  }

  async #releaseOnce(): Promise<boolean> {
    this.#stop()
    return await this.#locks.release(this.name, this.token) && !this.#isLost
  }

  /** Releases the lock at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  /** Renews after a third of the lease, and signals the loss at its certain end. */
  #schedule(): void {
    clearTimeout(this.#renewal)
    clearTimeout(this.#expiry)
    if (this.#isLost || this.#release) return
    if (this.#settings.renew) this.#renewIn(this.#leaseMs / 3)
    this.#expiry = setTimeout(() => this.#expire(), Math.min(this.leaseLeftMs, MAX_TIMER_MS))
  }

  #expire(): void {
    if (this.isHeld) this.#schedule()
    else this.#lose()
  }

  #renewIn(ms: number): void {
    clearTimeout(this.#renewal)
    this.#renewal = setTimeout(() => void this.#extend().catch(() => {}), ms)
  }

  /** After a failed extension. The old lease may still run, so a third of the new one could be too late. */
  #renewSoon(): void {
    if (this.#settings.renew && !this.#isLost && !this.#release) this.#renewIn(Math.min(this.#leaseMs / 20, RENEW_AGAIN_MS))
  }

  #lose(): void {
    if (this.#release || this.#isLost) return
    this.#isLost = true
    this.#stop()
    this.#lost?.abort(lost(this.name))
  }

  #stop(): void {
    clearTimeout(this.#renewal)
    clearTimeout(this.#expiry)
    this.#unwatch()
  }
}

function lost(name: string): LockLostError {
  return new LockLostError(`The lock \`${name}\` was lost.`)
}
