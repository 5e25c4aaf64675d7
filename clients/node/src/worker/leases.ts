import * as contract from '../contract.js'
import { CanceledError, ClaimLostError } from '../errors.js'
import type { Queue } from '../queue.js'
import { now } from '../wait.js'
import type { Job } from './job.js'

/** A claim whose lease is extended until it is removed. */
export interface Leased {
  ticket: string
  job: Job
  /** Aborts the signal of the job. */
  stop: AbortController
  /** The task was canceled: its handler has the grace to end. */
  onCanceled: () => void
  /** The lease is lost: nothing more is sent for the task. */
  onLost: () => void
}

interface Entry extends Leased {
  heldUntil: number
  beatAt: number
}

/** Longest sleep between two checks of the leases, in ms. */
const CHECK_MS = 500
/** Longest time in ms before a failed heartbeat is sent again. */
const BEAT_AGAIN_MS = 1_000

/** Extends the leases of a worker's claims together, after each third of the lease. */
export class Leases {
  readonly #queue: Queue
  readonly #leaseMs: number
  readonly #held = new Set<Entry>()
  #timer: NodeJS.Timeout | undefined

  constructor(queue: Queue, leaseMs: number) {
    this.#queue = queue
    this.#leaseMs = leaseMs
  }

  /** Adds a claim, which was answered just now. */
  add(leased: Leased): Entry {
    const entry = { ...leased, heldUntil: this.#certain(now()), beatAt: now() + this.#leaseMs / 3 }
    this.#held.add(entry)
    this.#timer ??= this.#checkIn(this.#leaseMs / 3)
    return entry
  }

  /** Removes a claim, which has ended. */
  remove(entry: Entry): void {
    this.#held.delete(entry)
  }

  /** The end of a lease, less a tenth of it, 1 ms to 1 s, because clocks drift. */
  #certain(sent: number): number {
    return sent + this.#leaseMs - Math.min(Math.max(this.#leaseMs / 10, 1), 1_000)
  }

  #checkIn(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#check(), Math.max(1, Math.min(ms, CHECK_MS)))
  }

  /** Signals lost leases, and extends those that are due. */
  #check(): void {
    const time = now()
    for (const entry of this.#held) if (entry.heldUntil <= time) this.#lose(entry)
    const due = [...this.#held].filter(({ beatAt }) => beatAt <= time + this.#leaseMs / 10).slice(0, contract.BATCH.max)
    // If no answer comes by then, the heartbeat is sent again.
    for (const entry of due) entry.beatAt = time + this.#leaseMs / 4
    if (due.length > 0) void this.#beat(due)
    const next = Math.min(...[...this.#held].map(({ beatAt, heldUntil }) => Math.min(beatAt, heldUntil)))
    this.#timer = this.#held.size === 0 ? undefined : this.#checkIn(next - now())
  }

  async #beat(due: Entry[]): Promise<void> {
    const sent = now()
    const heartbeats = due.map(({ ticket, job }) => ({ ticket, progress: job.takeProgress() }))
    try {
      const outcomes = await this.#queue.queues.extend(this.#queue.name, heartbeats, this.#leaseMs)
      outcomes.forEach((outcome, at) => this.#answered(due[at]!, outcome, sent))
    } catch {
      const again = now() + Math.min(this.#leaseMs / 20, BEAT_AGAIN_MS)
      due.forEach((entry, at) => {
        entry.beatAt = again
        entry.job.putBack(heartbeats[at]!.progress)
      })
    }
  }

  #answered(entry: Entry, outcome: 'extended' | 'cancelled' | 'lost', sent: number): void {
    if (!this.#held.has(entry)) return
    if (outcome === 'lost') return this.#lose(entry)
    entry.heldUntil = Math.max(entry.heldUntil, this.#certain(sent))
    entry.beatAt = sent + this.#leaseMs / 3
    if (outcome === 'cancelled' && !entry.stop.signal.aborted) {
      entry.stop.abort(new CanceledError(`The task \`${entry.job.id}\` was canceled.`))
      entry.onCanceled()
    }
  }

  #lose(entry: Entry): void {
    this.#held.delete(entry)
    entry.stop.abort(new ClaimLostError(`The claim of the task \`${entry.job.id}\` was lost.`))
    entry.onLost()
  }

  close(): void {
    clearTimeout(this.#timer)
  }
}
