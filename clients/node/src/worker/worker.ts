import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { createRequire } from 'node:module'

import * as check from '../check.js'
import * as contract from '../contract.js'
import { ClosedError, InvalidError, RushgateError, TimeoutError } from '../errors.js'
import { ClaimedTask, encodeResult, errorText, type Queue } from '../queue.js'
import type { Completion, Failure, Release } from '../transport.js'
import type { Completed, Retried, TaskReleased, WorkerMode } from '../types.js'
import { Bell, MAX_TIMER_MS, Pauses, sleep, within } from '../wait.js'
import { type Backoff, drawDelay } from './backoff.js'
import { Discard, GiveUp, Job, RetryAfter, Snooze } from './job.js'
import { Lane } from './lane.js'
import { Leases } from './leases.js'

/** Runs a task. What it returns is the result of the task; what it throws fails the attempt. */
export type Handler = (payload: any, job: Job) => unknown

/** Settings of one kind. */
export interface HandlerOptions {
  /** Maximum run time in ms, after which the attempt has failed. Default: that of the worker. */
  timeoutMs?: number
  /** Retry delay. Default: that of the worker. */
  backoff?: Backoff
}

/** Settings of a worker. */
export interface WorkerOptions extends HandlerOptions {
  /** Handlers by kind. `*` gets every task whose kind has no handler. */
  handlers?: Record<string, Handler>
  /** How many handlers run at a time: 1 to 10,000. Default: 16. */
  concurrency?: number
  /** Lease in ms: 10 to 86,400,000. Default: 30,000. It is extended while the handler runs. */
  leaseMs?: number
  /** Time in ms that handlers have to end after a stop or a cancellation. Default: 10,000. */
  graceMs?: number
  /** Name of the worker, as shown to operators: at most 200 bytes. Default: host and process ID. */
  label?: string
}

/** How many tasks a worker has claimed, and how they ended. */
export interface WorkerReport {
  claimed: number
  done: number
  discarded: number
  retried: number
  dead: number
  released: number
  cancelled: number
  /** The claim was lost before the end was stored. */
  lost: number
  /** The store did not take the end: the task runs again. */
  unanswered: number
}

interface Route extends HandlerOptions {
  handler: Handler
}

/** How the handling of a task ended. */
type End = { end: 'returned'; result: unknown } | { end: 'threw'; error: unknown } | { end: 'lost' } | { end: 'cancelled' } | { end: 'aborted' }

/** Longest wait of one claim, in ms. */
const CLAIM_WAIT_MS = 60_000
/** Time in ms for sending the remaining ends after the last handler has ended. */
const FLUSH_MS = 5_000
const MAX_CONCURRENCY = 10_000
/** How long a worker is listed after its last announcement, in ms. */
const LISTED_MS = 30_000
/** Time limit in ms for saying that the worker has ended. */
const LEAVE_MS = 1_000
const VERSION = `rushgate-node ${createRequire(import.meta.url)('../../package.json').version}`

/** Claims tasks of a queue, runs a handler for each, and reports one outcome per task. */
export class Worker {
  /**
   * Time in ms between announcements to the queue.
   * @internal
   */
  static announceMs: number = contract.DEFAULT_ANNOUNCE
  readonly #id = randomBytes(8).toString('hex')
  readonly #queue: Queue
  readonly #routes = new Map<string, Route>()
  readonly #concurrency: number
  readonly #leaseMs: number
  readonly #graceMs: number
  readonly #label: string
  readonly #defaults: HandlerOptions
  readonly #stopping = new AbortController()
  /** Ends a claim that waits. Aborted while the worker claims nothing, and replaced when it may claim again. */
  #pausing = new AbortController()
  readonly #resumed = new Bell()
  readonly #over = new AbortController()
  /** Whether the store refused an announcement. */
  #isRefused = false
  readonly #aborting = new AbortController()
  readonly #hurry = new AbortController()
  readonly #freed = new Bell()
  readonly #handling = new Set<Promise<void>>()
  readonly #ending = new Set<Promise<void>>()
  readonly #leases: Leases
  readonly #completions: Lane<Completion, Completed>
  readonly #failures: Lane<Failure, Retried>
  readonly #releases: Lane<Release, TaskReleased>
  readonly #report: WorkerReport = {
    claimed: 0, done: 0, discarded: 0, retried: 0, dead: 0, released: 0, cancelled: 0, lost: 0, unanswered: 0,
  }
  #running = false

  constructor(queue: Queue, options: WorkerOptions = {}) {
    const { concurrency = contract.DEFAULT_CONCURRENCY, leaseMs = contract.DEFAULT_LEASE, graceMs = contract.DEFAULT_GRACE, label = queue.host } = options
    // Each running handler listens.
    setMaxListeners(0, this.#aborting.signal)
    this.#queue = queue
    this.#concurrency = check.whole('concurrency', concurrency, { min: 1, max: MAX_CONCURRENCY })
    check.lease(leaseMs)
    check.delay('graceMs', graceMs)
    this.#leaseMs = leaseMs
    this.#graceMs = graceMs
    this.#label = check.label('label', label)
    this.#defaults = checkOptions(options)
    this.#leases = new Leases(queue, leaseMs)
    const { queues, name } = queue
    this.#completions = new Lane((entries) => queues.complete(name, entries), this.#hurry.signal)
    this.#failures = new Lane((entries) => queues.retry(name, entries), this.#hurry.signal)
    this.#releases = new Lane((entries) => queues.release(name, entries), this.#hurry.signal)
    for (const [kind, handler] of Object.entries(options.handlers ?? {})) this.handle(kind, handler)
  }

  /** Sets the handler for a kind, or with `*` for all kinds without a handler of their own. */
  handle(kind: string, handler: Handler, options: HandlerOptions = {}): this {
    if (kind !== '*') check.kind(kind)
    if (this.#routes.has(kind)) throw new InvalidError(`The kind \`${kind}\` has a handler already.`, { field: 'kind' })
    this.#routes.set(kind, { handler, ...checkOptions(options) })
    return this
  }

  /** Counters of this worker, readable while it runs and after. */
  get report(): WorkerReport {
    return { ...this.#report }
  }

  /** Stops the worker: it claims no more, lets running handlers end within the grace, and returns the other tasks. */
  stop(): void {
    this.#stopping.abort()
    this.#pausing.abort()
  }

  /**
   * Runs until `stop`, or until the signal is aborted, then shuts down in order. Outages are not errors: the worker waits
   * until they end. Any other error of a claim is thrown after the same shutdown.
   */
  async run({ signal }: { signal?: AbortSignal } = {}): Promise<WorkerReport> {
    if (this.#running) throw new InvalidError('The worker runs already, or has run.')
    if (this.#routes.size === 0) throw new InvalidError('The worker has no handler.', { field: 'handlers' })
    this.#running = true
    const stop = () => this.stop()
    signal?.addEventListener('abort', stop)
    if (signal?.aborted) stop()
    void this.#fireSchedules(this.#stopping.signal)
    const presence = this.#announceAll(this.#over.signal)
    try {
      await this.#claimAll(this.#stopping.signal)
    } finally {
      signal?.removeEventListener('abort', stop)
      await this.#finish()
      this.#over.abort()
      // If the worker cannot say that it has ended, it is listed a while longer.
      await within(presence, LEAVE_MS, () => new Error('no more time')).catch(() => {})
    }
    return this.report
  }

  /**
   * Announces the worker to its queue until it is over, and does what an operator asks of it. A failure never stops the
   * worker: outages show in the claims, and a refusal, such as that of a library without the function, causes one warning.
   */
  async #announceAll(over: AbortSignal): Promise<void> {
    const { queues, name } = this.#queue
    const worker = { id: this.#id, name: this.#label, version: VERSION, concurrency: this.#concurrency, leaseMs: LISTED_MS }
    while (!over.aborted) {
      await queues.announce(name, { ...worker, running: this.#handling.size }).then((mode) => this.#obey(mode), (error) => this.#reportRefusal(error))
      await sleep(Worker.announceMs, over).catch(() => {})
    }
    await queues.endWorker(name, this.#id).catch(() => {})
  }

  #reportRefusal(error: unknown): void {
    const passes = error instanceof RushgateError && (error.retryable || error instanceof ClosedError)
    if (passes || this.#isRefused) return
    this.#isRefused = true
    process.emitWarning(`cannot announce the worker to the queue ${this.#queue.name}: ${error}`, 'RushgateWarning')
  }

  #obey(mode: WorkerMode): void {
    if (mode === 'stop') this.stop()
    else if (mode === 'quiet') this.#pausing.abort()
    else if (this.#pausing.signal.aborted && !this.#stopping.signal.aborted) {
      this.#pausing = new AbortController()
      this.#resumed.ring()
    }
  }

  /** Fires the schedules of the queue. Outages show in the claims. */
  async #fireSchedules(stopping: AbortSignal): Promise<void> {
    const { queues, name } = this.#queue
    const reported = new Set<string>()
    let pauses = new Pauses()
    while (!stopping.aborted) {
      let waitMs: number | undefined
      try {
        waitMs = await queues.fireSchedules(name, reported)
        if (waitMs === undefined) return
        pauses = new Pauses()
      } catch (error) {
        const passes = error instanceof RushgateError && error.retryable
        if (!passes && !stopping.aborted) process.emitWarning(`cannot fire the schedules of the queue ${name}: ${error}`, 'RushgateWarning')
        waitMs = passes ? pauses.draw() : CLAIM_WAIT_MS
      }
      await sleep(waitMs, stopping).catch(() => {})
    }
  }

  /** Claims tasks whenever a handler may start. */
  async #claimAll(stopping: AbortSignal): Promise<void> {
    let pauses = new Pauses()
    while (!stopping.aborted) {
      const pausing = this.#pausing.signal
      try {
        if (pausing.aborted) {
          await this.#resumed.wait(MAX_TIMER_MS, stopping)
          continue
        }
        const free = this.#concurrency - this.#handling.size
        if (free <= 0) {
          await this.#freed.wait(MAX_TIMER_MS, stopping)
          continue
        }
        await this.#claim(Math.min(free, contract.BATCH.max), pausing)
        pauses = new Pauses()
      } catch (error) {
        if (stopping.aborted) return
        if (pausing.aborted) continue
        if (!(error instanceof RushgateError) || !error.retryable) throw error
        await sleep(pauses.draw(), stopping).catch(() => {})
      }
    }
  }

  async #claim(n: number, signal: AbortSignal): Promise<void> {
    const tasks = await this.#queue.claim({ n, leaseMs: this.#leaseMs, waitMs: CLAIM_WAIT_MS, worker: this.#label, signal })
    this.#report.claimed += tasks.length
    for (const task of tasks) {
      if (signal.aborted) this.#end(this.#release(task, 0))
      else this.#start(task)
    }
  }

  #start(task: ClaimedTask): void {
    const handling = this.#handle(task).finally(() => {
      this.#handling.delete(handling)
      this.#freed.ring()
    })
    this.#handling.add(handling)
  }

  /** Runs the handler. The end is stored afterwards, so that the next handler can start meanwhile. */
  async #handle(task: ClaimedTask): Promise<void> {
    const route = this.#routes.get(task.kind ?? '*') ?? this.#routes.get('*')
    const options = { ...this.#defaults, ...route }
    const stop = new AbortController()
    const job = new Job(this.#queue, task, stop.signal)
    const ended = endings()
    const entry = this.#leases.add({
      ticket: task.ticket, job, stop, onLost: () => ended.end({ end: 'lost' }), onCanceled: () => ended.endIn(this.#graceMs, { end: 'cancelled' }),
    })
    const abort = () => {
      stop.abort(new Error('The worker has stopped.'))
      ended.end({ end: 'aborted' })
    }
    this.#aborting.signal.addEventListener('abort', abort)
    const timeoutMs = timeOf(task, options.timeoutMs)
    if (timeoutMs !== undefined) ended.after(timeoutMs, () => {
      const error = new TimeoutError(`The handler did not end within ${Math.round(timeoutMs)} ms.`)
      stop.abort(error)
      ended.end({ end: 'threw', error })
    })
    const end = await Promise.race([ended.promise, call(route, task, job)])
    ended.clear()
    this.#aborting.signal.removeEventListener('abort', abort)
    this.#end(this.#settle(task, end, options, job).finally(() => this.#leases.remove(entry)))
  }

  #end(ending: Promise<void>): void {
    const ended = ending.finally(() => this.#ending.delete(ended))
    this.#ending.add(ended)
  }

  /** Stores how a task ended. */
  async #settle(task: ClaimedTask, end: End, options: HandlerOptions, job: Job): Promise<void> {
    if (end.end === 'lost') return this.#count('lost')
    if (end.end === 'aborted') return this.#release(task, 0)
    // A canceled task is over, whatever its handler did.
    if (end.end === 'cancelled' || isCanceled(job)) return this.#complete(task, undefined, 'cancelled')
    return 'error' in end ? this.#fail(task, end.error, options) : this.#succeed(task, end.result)
  }

  /** A result that cannot be stored makes the task a dead letter, so that no client waits for it in vain. */
  async #succeed(task: ClaimedTask, value: unknown): Promise<void> {
    let result: Completion['result']
    try {
      result = encodeResult(value)
    } catch (error) {
      return this.#retry(task, { delayMs: 0, giveUp: true, error: errorText(error) })
    }
    await this.#complete(task, result, 'done')
  }

  #fail(task: ClaimedTask, error: unknown, { backoff }: HandlerOptions): Promise<void> {
    if (error instanceof Discard) return this.#complete(task, undefined, 'discarded')
    if (error instanceof Snooze) return this.#release(task, Math.min(error.delayMs, contract.DELAY_US.max / 1_000))
    const delayMs = error instanceof RetryAfter ? Math.min(error.delayMs, contract.DELAY_US.max / 1_000) : drawDelay(task.attempt, backoff)
    return this.#retry(task, { delayMs, giveUp: error instanceof GiveUp, error: errorText(error) })
  }

  async #complete({ ticket }: ClaimedTask, result: Completion['result'], as: 'done' | 'discarded' | 'cancelled'): Promise<void> {
    const outcome = await this.#completions.push({ ticket, result, discarded: as === 'discarded' })
    this.#count(outcome === undefined ? 'unanswered' : outcome === 'stale' ? 'lost' : as)
  }

  async #retry({ ticket }: ClaimedTask, failure: Omit<Failure, 'ticket'>): Promise<void> {
    const answer = await this.#failures.push({ ticket, ...failure })
    const counters = { scheduled: 'retried', requeued: 'retried', dead: 'dead', cancelled: 'cancelled', stale: 'lost' } as const
    this.#count(answer ? counters[answer.outcome] : 'unanswered')
  }

  async #release({ ticket }: ClaimedTask, delayMs: number): Promise<void> {
    const outcome = await this.#releases.push({ ticket, delayMs })
    const counters = { waiting: 'released', cancelled: 'cancelled', stale: 'lost' } as const
    this.#count(outcome ? counters[outcome] : 'unanswered')
  }

  #count(counter: keyof WorkerReport): void {
    this.#report[counter]++
  }

  /** Shuts down in order. The heartbeats continue until the last end is stored. */
  async #finish(): Promise<void> {
    this.stop()
    const handled = (async () => { while (this.#handling.size > 0) await Promise.all(this.#handling) })()
    await within(handled, this.#graceMs, () => new Error('the grace is over')).catch(() => this.#aborting.abort())
    await handled
    const flushed = (async () => { while (this.#ending.size > 0) await Promise.allSettled(this.#ending) })()
    await within(flushed, FLUSH_MS, () => new Error('no more time')).catch(() => this.#hurry.abort())
    await flushed
    this.#leases.close()
  }
}

function checkOptions({ timeoutMs, backoff }: HandlerOptions): HandlerOptions {
  if (timeoutMs !== undefined) check.micros('timeoutMs', timeoutMs, { min: 1, max: contract.DELAY_US.max })
  return { ...(timeoutMs !== undefined && { timeoutMs }), ...(backoff && { backoff }) }
}

function isCanceled({ signal }: Job): boolean {
  return signal.aborted && (signal.reason as RushgateError | undefined)?.code === 'cancelled'
}

/** How long the handler may run: until its timeout, or the deadline of the task. The claim number is the time of the claim. */
function timeOf({ deadlineUs, fence }: ClaimedTask, timeoutMs: number | undefined): number | undefined {
  const left = deadlineUs === undefined ? undefined : Math.max(0, (deadlineUs - fence) / 1_000)
  if (left === undefined || timeoutMs === undefined) return left ?? timeoutMs
  return Math.min(left, timeoutMs)
}

/** Calls the handler, and turns what it returns or throws into an end. */
async function call(route: Route | undefined, task: ClaimedTask, job: Job): Promise<End> {
  if (!route) return { end: 'threw', error: `no handler for the kind ${task.kind ?? '(none)'}` }
  if (task.undecodable) return { end: 'threw', error: `the payload is not valid ${task.contentType}` }
  try {
    return { end: 'returned', result: await route.handler(task.payload, job) }
  } catch (error) {
    return { end: 'threw', error }
  }
}

/** An end that may come before that of the handler. */
function endings(): {
  promise: Promise<End>
  end(how: End): void
  endIn(ms: number, how: End): void
  after(ms: number, action: () => void): void
  clear(): void
} {
  let end!: (how: End) => void
  const promise = new Promise<End>((resolve) => { end = resolve })
  const timers: NodeJS.Timeout[] = []
  const after = (ms: number, action: () => void) => void timers.push(setTimeout(action, Math.min(ms, MAX_TIMER_MS)))
  return { promise, end, after, endIn: (ms, how) => after(ms, () => end(how)), clear: () => timers.forEach(clearTimeout) }
}
