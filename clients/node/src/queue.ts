import * as check from './check.js'
import * as contract from './contract.js'
import { encode } from './payload.js'
import type { EncodedTask, Queues, Transport } from './transport.js'
import type {
  Cancelled, Closed, Completed, Content, DeadLetter, Ended, Enqueued, NewSchedule, NewTask, Page, Progress, QueueLimits, QueueStats, Rate,
  Recurrence, Rescheduled, Retried, Schedule, Scheduled, Task, TaskExtended, TaskInfo, TaskReleased, Waited, Why, WorkerInfo,
  WorkerMode,
} from './types.js'

/** How to claim tasks. */
export interface ClaimOptions {
  /** Maximum number of tasks: 1 to 1,000. Default: 1. */
  n?: number
  /** Lease in ms: 10 to 86,400,000. Default: 30,000. A task whose lease expires becomes available again. */
  leaseMs?: number
  /** Longest wait for the first task, in ms: 0 to 24 h. Default: 0. */
  waitMs?: number
  /** Name of the worker, as shown to operators: at most 200 bytes. Default: host and process ID. */
  worker?: string
  /** Ends the wait. */
  signal?: AbortSignal
}

/** How long to wait. */
export interface WaitOptions {
  /** Longest wait in ms: 0 to 24 h. Default: 0. */
  waitMs?: number
  signal?: AbortSignal
}

/** A durable task queue. A task runs at least once, and a queue has at most one live task per ID. */
export class Queue {
  readonly name: string
  /** @internal */
  readonly queues: Queues
  /** @internal */
  readonly host: string

  constructor(transport: Transport, name: string) {
    this.queues = transport.queues
    this.name = check.name('queue', name)
    this.host = check.cut(`${transport.host}:${process.pid}`, contract.LABEL_BYTES)
  }

  /** Enqueues a task. */
  async enqueue(task: NewTask): Promise<Enqueued> {
    const [outcome] = await this.enqueueAll([task])
    return outcome!
  }

  /** Enqueues 1 to 1,000 tasks in one atomic step, in this order. Returns one outcome per task. */
  async enqueueAll(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    return this.queues.enqueue(this.name, check.list('tasks', tasks).map(encodeTask))
  }

  /** Claims due tasks under a lease. Waits for the first one if none is due. */
  async claim({ n = 1, leaseMs = contract.DEFAULT_LEASE, waitMs = 0, worker = this.host, signal }: ClaimOptions = {}): Promise<ClaimedTask[]> {
    check.whole('n', n, contract.BATCH)
    check.lease(leaseMs)
    check.wait(waitMs)
    signal?.throwIfAborted()
    const request = { n, leaseMs, waitMs, worker: check.label('worker', worker), signal }
    const tasks = await this.queues.claim(this.name, request)
    return tasks.map((task) => new ClaimedTask(this.queues, this.name, leaseMs, task))
  }

  /** The first due tasks, without claiming them: at most `n`, 1 to 1,000. */
  async top(n = 1): Promise<Task[]> {
    return this.queues.top(this.name, check.whole('n', n, contract.BATCH))
  }

  /** Removes the first due tasks: at most `n`, 1 to 1,000. They are lost if the program dies, so prefer `claim`. */
  async pop(n = 1): Promise<Task[]> {
    return this.queues.pop(this.name, check.whole('n', n, contract.BATCH))
  }

  /** Removes a task if it is unchanged since it was read with this ticket. False if it was changed, or a worker is running it. */
  async dequeue(ticket: string): Promise<boolean> {
    return this.queues.dequeue(this.name, ticket)
  }

  /** A live or retained task. `null` if there is none. */
  async task(id: string): Promise<TaskInfo | null> {
    return await this.queues.task(this.name, check.name('id', id)) ?? null
  }

  /** Cancels a task: removes it, or marks it if it is running, so that its worker stops it. */
  async cancel(id: string): Promise<Cancelled> {
    return this.queues.cancel(this.name, check.name('id', id))
  }

  /**
   * Changes when a waiting task is due, earlier or later: `delayMs` from now, which is 0 to 400 days, or at `dueUs`. Default:
   * now. Everything else about the task stays.
   */
  async reschedule(id: string, { delayMs, dueUs }: { delayMs?: number; dueUs?: number } = {}): Promise<Rescheduled> {
    check.oneOf('delayMs', delayMs !== undefined, 'dueUs', dueUs !== undefined)
    check.delay('delayMs', delayMs ?? 0)
    const due = dueUs === undefined ? { delayMs: delayMs ?? 0 } : { dueUs: check.moment('dueUs', dueUs) }
    return this.queues.reschedule(this.name, check.name('id', id), due)
  }

  /** Waits until a task has ended. `null` if it is live after the wait. The queue needs a retention. */
  async waitFor(id: string, { waitMs = 0, signal }: WaitOptions = {}): Promise<Ended | null> {
    check.wait(waitMs)
    signal?.throwIfAborted()
    return await this.queues.waitFor(this.name, check.name('id', id), waitMs, signal) ?? null
  }

  /** Reasons why a task is not running: at least one, and the one that must end first comes first. */
  async why(id: string): Promise<Why[]> {
    return this.queues.why(this.name, check.name('id', id))
  }

  /** Closes an open batch: its callback runs when all members have finished. */
  async closeBatch(id: string): Promise<Closed> {
    return this.queues.closeBatch(this.name, check.name('id', id))
  }

  /**
   * IDs of the live tasks that still wait for a task: by their policy for a dead dependency, `ifDead`, and then by arrival. At
   * most `n`: 1 to 1,000. Default: 100.
   */
  async dependents(id: string, { n = 100 }: { n?: number } = {}): Promise<string[]> {
    return this.queues.dependents(this.name, check.name('id', id), check.whole('n', n, contract.BATCH))
  }

  /** Finished tasks that a live task waited for, by ID, with their results. `limit`: 1 to 100. Default: 100. */
  async waited(id: string, page: Page = {}): Promise<Waited[]> {
    return this.queues.waited(this.name, check.name('id', id), checkPage(page, contract.WAITED_PAGE.max))
  }

  /**
   * Clears the uniqueness window of an ID, which may then be enqueued again. Returns when the window would have ended, in µs.
   * `null` if there is none.
   */
  async clearUnique(id: string): Promise<number | null> {
    return await this.queues.clearUnique(this.name, check.name('id', id)) ?? null
  }

  /** Task counts, lag and limits. */
  async stats(): Promise<QueueStats> {
    return this.queues.stats(this.name)
  }

  /** Sets the limits of the queue. A limit that is absent does not apply from now on. */
  async limit(limits: QueueLimits): Promise<void> {
    await this.queues.limit(this.name, checkLimits(limits))
  }

  /** Pauses the queue: workers get no tasks from it. */
  async pause(): Promise<void> {
    await this.queues.pause(this.name, true)
  }

  /** Resumes the queue. */
  async resume(): Promise<void> {
    await this.queues.pause(this.name, false)
  }

  /** Dead letters by ID. `limit`: 1 to 1,000. Default: 1,000. */
  async dead(page: Page = {}): Promise<DeadLetter[]> {
    return this.queues.dead(this.name, checkPage(page, contract.DEAD_PAGE.max))
  }

  /** Requeues these dead letters, or all, due at once. `kept`: their ID is live, or the queue is full. */
  async requeueDead(ids: readonly string[] | 'all'): Promise<{ requeued: number; kept: number }> {
    return this.queues.requeueDead(this.name, checkIds(ids))
  }

  /** Deletes these dead letters, or all. Returns how many. */
  async deleteDead(ids: readonly string[] | 'all'): Promise<number> {
    return this.queues.deleteDead(this.name, checkIds(ids))
  }

  /**
   * Creates or changes a schedule, whose ID has at most 170 bytes. Saving the same settings again changes nothing. Workers of
   * the queue and `rushgate serve` fire it: each occurrence enqueues a task with an ID such as `ID@2026-11-22T03:30:00Z`.
   */
  async saveSchedule(id: string, schedule: NewSchedule): Promise<Scheduled> {
    const { priority = contract.DEFAULT_PRIORITY, maxAttempts = contract.DEFAULT_ATTEMPTS, paused } = schedule
    return this.queues.saveSchedule(this.name, check.name('id', id, contract.SCHEDULE_ID_BYTES), {
      recurrence: checkRecurrence(schedule),
      content: encode({ ...schedule, traceparent: undefined }),
      priority: check.whole('priority', priority, contract.PRIORITY),
      maxAttempts: check.whole('maxAttempts', maxAttempts, contract.ATTEMPTS),
      paused,
    })
  }

  /** Schedules by ID. `limit`: 1 to 10,000. Default: 10,000. */
  async schedules(page: Page = {}): Promise<Schedule[]> {
    return this.queues.schedules(this.name, checkPage(page, contract.SCHEDULES_PAGE.max))
  }

  /** Deletes a schedule. False if it does not exist. Tasks that it enqueued stay. */
  async deleteSchedule(id: string): Promise<boolean> {
    return this.queues.deleteSchedule(this.name, check.name('id', id))
  }

  /** Workers that run, busy or idle, by ID. `limit`: 1 to 10,000. Default: 10,000. */
  async workers(page: Page = {}): Promise<WorkerInfo[]> {
    return this.queues.workers(this.name, checkPage(page, contract.WORKERS_PAGE.max))
  }

  /**
   * Lets a worker `work`, be `quiet` (it claims nothing from this queue) or `stop`, for operators. The worker obeys within
   * 10 s. False if it is not listed.
   */
  async setWorker(id: string, mode: WorkerMode): Promise<boolean> {
    if (!contract.WORKER_MODE.includes(mode)) throw check.invalid('mode', 'must be work, quiet or stop')
    return this.queues.setWorker(this.name, check.name('id', id), mode)
  }
}

/** A claimed task. End it before its lease expires; otherwise another worker gets it. */
export class ClaimedTask implements Task {
  declare readonly id: string
  declare readonly ticket: string
  declare readonly dueUs: number
  declare readonly revision: number
  declare readonly fence: number
  declare readonly claimedUs: number
  declare readonly payload: any
  declare readonly contentType: string
  declare readonly kind?: string
  declare readonly traceparent?: string
  declare readonly undecodable?: boolean
  declare readonly priority: number
  declare readonly attempt: number
  declare readonly maxAttempts: number
  declare readonly key?: string
  declare readonly deadlineUs?: number
  readonly queue: string
  readonly #queues: Queues
  readonly #leaseMs: number

  constructor(queues: Queues, queue: string, leaseMs: number, task: Task) {
    Object.assign(this, task)
    this.#queues = queues
    this.queue = queue
    this.#leaseMs = leaseMs
  }

  /** Completes the task. A result of at most 64 KiB is kept if the queue has a retention. `stale`: the claim was lost. */
  async complete(result?: unknown): Promise<Completed> {
    const [outcome] = await this.#queues.complete(this.queue, [{ ticket: this.ticket, result: encodeResult(result), discarded: false }])
    return outcome!
  }

  /** Completes the task without work, because there is nothing to do. */
  async discard(): Promise<Completed> {
    const [outcome] = await this.#queues.complete(this.queue, [{ ticket: this.ticket, discarded: true }])
    return outcome!
  }

  /** Fails the attempt. The task is due again after `delayMs`; after its last attempt, or with `giveUp`, it becomes a dead letter. */
  async retry(error: unknown, { delayMs = 0, giveUp = false }: { delayMs?: number; giveUp?: boolean } = {}): Promise<Retried> {
    check.delay('delayMs', delayMs)
    const [outcome] = await this.#queues.retry(this.queue, [{ ticket: this.ticket, delayMs, giveUp, error: errorText(error) }])
    return outcome!
  }

  /** Returns the task to the queue, due after `delayMs`. The attempt does not count. */
  async release({ delayMs = 0 }: { delayMs?: number } = {}): Promise<TaskReleased> {
    check.delay('delayMs', delayMs)
    const [outcome] = await this.#queues.release(this.queue, [{ ticket: this.ticket, delayMs }])
    return outcome!
  }

  /** Extends the lease to `leaseMs` from now, and stores progress. `lost`: stop. `cancelled`: stop, and complete it. */
  async extend({ leaseMs = this.#leaseMs, progress }: { leaseMs?: number; progress?: Progress } = {}): Promise<TaskExtended> {
    check.lease(leaseMs)
    const [outcome] = await this.#queues.extend(this.queue, [{ ticket: this.ticket, progress: progress && checkProgress(progress) }], leaseMs)
    return outcome!
  }
}

/** Checks progress. */
export function checkProgress({ percent, note = '' }: Progress): Progress {
  return {
    percent: percent === undefined ? undefined : check.whole('percent', percent, contract.PERCENT),
    note: check.label('note', note),
  }
}

/** Encodes the result of a task. Nothing for `undefined`. */
export function encodeResult(result: unknown): ReturnType<typeof encode> | undefined {
  return result === undefined ? undefined : encode({ payload: result }, 'result', contract.RESULT_BYTES)
}

/** What operators see of an error: its trace with those of its causes, cut to 2,000 bytes. */
export function errorText(error: unknown): string {
  const parts: string[] = []
  for (let one = error; one !== undefined && parts.length < 5; one = one instanceof Error ? one.cause : undefined) {
    parts.push(one instanceof Error ? one.stack ?? String(one) : String(one))
  }
  return check.cut(parts.join('\nCaused by: '), contract.ERROR_BYTES)
}

const optional = <T, R>(value: T | undefined, checked: (value: T) => R): R | undefined => value === undefined ? undefined : checked(value)

/** Checks a task, fills in the defaults, and encodes its content. */
function encodeTask(task: NewTask): EncodedTask {
  const { priority = contract.DEFAULT_PRIORITY, maxAttempts = contract.DEFAULT_ATTEMPTS, onDuplicate = 'keep', ifDead = 'wait', after = [] } = task
  check.oneOf('delayMs', task.delayMs !== undefined, 'dueUs', task.dueUs !== undefined)
  check.oneOf('deadlineAfterMs', task.deadlineAfterMs !== undefined, 'deadlineUs', task.deadlineUs !== undefined)
  check.oneOf('after', after.length > 0, 'partOf', task.partOf !== undefined)
  check.choice('onDuplicate', onDuplicate, contract.ON_DUPLICATE)
  check.choice('ifDead', ifDead, contract.IF_DEAD)
  if ((onDuplicate === 'debounce') !== (task.maxWaitMs !== undefined)) {
    throw check.invalid('maxWaitMs', onDuplicate === 'debounce' ? 'is required by debounce' : 'applies to debounce only')
  }
  optional(task.delayMs, (ms) => check.delay('delayMs', ms))
  optional(task.deadlineAfterMs, (ms) => check.delay('deadlineAfterMs', ms))
  optional(task.maxWaitMs, (ms) => check.delay('maxWaitMs', ms))
  optional(task.uniqueForMs, (ms) => check.micros('uniqueForMs', ms, contract.PERIOD_US))
  return {
    id: check.name('id', task.id),
    content: encode(task),
    delayMs: task.delayMs,
    dueUs: optional(task.dueUs, (us) => check.moment('dueUs', us)),
    deadlineAfterMs: task.deadlineAfterMs,
    deadlineUs: optional(task.deadlineUs, (us) => check.moment('deadlineUs', us)),
    priority: check.whole('priority', priority, contract.PRIORITY),
    onDuplicate,
    maxWaitMs: task.maxWaitMs,
    maxAttempts: check.whole('maxAttempts', maxAttempts, contract.ATTEMPTS),
    uniqueForMs: task.uniqueForMs,
    key: optional(task.key, (key) => check.name('key', key)),
    after: after.length === 0 ? [] : check.list('after', after, contract.AFTER.max).map((id) => check.name('after', id)),
    ifDead,
    heldOpen: task.heldOpen ?? false,
    partOf: optional(task.partOf, (id) => check.name('partOf', id)),
  }
}

function checkRecurrence({ cron, zone, everyMs, missed = 'once' }: NewSchedule & Content): Recurrence {
  if (!(contract.MISSED as readonly string[]).includes(missed)) throw check.invalid('missed', 'must be skip, once or all')
  if ((cron === undefined) === (everyMs === undefined)) throw check.invalid('cron', 'or everyMs must be set, and not both')
  if (everyMs !== undefined) {
    if (zone !== undefined) throw check.invalid('zone', 'applies to cron only')
    return { everyMs: check.interval(everyMs), missed }
  }
  if (typeof cron !== 'string' || Buffer.byteLength(cron) > contract.RECURRENCE_BYTES / 2) throw check.invalid('cron', 'is not a cron pattern')
  return { cron, ...(zone !== undefined && { zone }), missed }
}

function checkPage({ after = '', limit }: Page, max: number): { after: string; limit: number } {
  return { after: after === '' ? '' : check.name('after', after), limit: check.whole('limit', limit ?? max, { min: 1, max }) }
}

function checkIds(ids: readonly string[] | 'all'): readonly string[] | 'all' {
  return ids === 'all' ? ids : check.list('ids', ids).map((id) => check.name('ids', id))
}

function checkRate(rate: Rate | undefined): void {
  if (!rate) return
  check.whole('rate.n', rate.n, contract.RATE)
  check.micros('rate.perMs', rate.perMs, contract.PERIOD_US)
}

function checkLimits(limits: QueueLimits): QueueLimits {
  const { bound, overflow, concurrency, rate, perKey, retention, events } = limits
  optional(bound, (value) => check.whole('bound', value, contract.BOUND))
  optional(overflow, (value) => check.choice('overflow', value, contract.OVERFLOW))
  for (const value of [concurrency, perKey?.concurrency]) optional(value, (n) => check.whole('concurrency', n, contract.CONCURRENCY))
  for (const one of [rate, perKey?.rate]) checkRate(one)
  optional(retention, ({ ageMs, count }) => {
    check.micros('retention.ageMs', ageMs, contract.PERIOD_US)
    check.whole('retention.count', count, contract.RETAINED)
  })
  optional(events, (n) => check.whole('events', n, contract.EVENTS))
  return limits
}
