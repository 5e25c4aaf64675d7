import { invalid } from '../check.js'
import * as contract from '../contract.js'
import { InvalidError } from '../errors.js'
import type {
  Announcement, ClaimRequest, Completion, Due, EncodedSchedule, EncodedTask, Failure, Heartbeat, Part, Queues, Release,
} from '../transport.js'
import type {
  Cancelled, Closed, Completed, DeadLetter, Ended, Enqueued, QueueLimits, QueueStats, Rescheduled, Retried, Schedule, Scheduled, Task,
  TaskExtended, TaskInfo, TaskReleased, Waited, Why, WorkerInfo, WorkerMode,
} from '../types.js'
import { now } from '../wait.js'
import type { Argument, Reply } from './driver.js'
import { topic } from './inbox.js'
import { type Group, queueKeys, replayKeys, scheduleKeys, uniqueKeys, workerKeys } from './keys.js'
import { readLimits, writeLimits } from './limits.js'
import { Merger, type Shared } from './merger.js'
import { List, meaning, numberOf } from './packed.js'
import { deadEnd, readDead, readFinished, readInfo, readRow, readSchedule, readTask, readTicket, readWaited, readWorker, writeBody } from './records.js'
import { dueOf, nextAfter, wireRecurrence, written } from './recurrence.js'
import type { Store } from './store.js'
import { explain } from './why.js'

/** Longest time until a schedule that another program has saved is noticed. */
const LOOK_EVERY_MS = 5_000
/** Time between two looks while a schedule cannot be read. */
const UNREADABLE_MS = 1_000
/** Maximum payload size of one step of a schedule, unless a single task exceeds it. */
const STEP_BYTES = 4 << 20

/** Queues by the function library. */
export class RedisQueues implements Queues {
  readonly #store: Store
  readonly #enqueues: Merger
  readonly #completes: Merger
  readonly #finishes: Merger

  constructor(store: Store) {
    this.#store = store
    this.#enqueues = new Merger('same', (groups, args) => store.callOrReplay('queue_enqueue', 'queue_replay', groups, args))
    this.#completes = new Merger('same', (groups, args) => store.call('queue_complete', groups, args))
    this.#finishes = new Merger('same', (groups, args) => store.call('queue_finish', groups, args))
    // Another process gets a wake-up that no waiter of this one wants.
    store.onUnheard((heard) => {
      const [kind, queue] = heard.split(' ') as [string, string]
      if (kind === 'tasks') void this.#call(queue, 'ring', []).catch(() => {})
    })
  }

  async enqueue(queue: string, tasks: readonly EncodedTask[]): Promise<Enqueued[]> {
    await this.#store.register(contract.QUEUE_DIRECTORY, queue)
    const op = this.#store.op()
    const args = tasks.flatMap((task, at) => [at === 0 ? op : '', task.id, termsOf(task), writeBody(task.content)])
    const groups = [queueKeys(queue), this.#replays(queue), uniqueKeys(queue)]
    const answers = new List(await ask(this.#enqueues, queue, tasks.length, { groups, args }))
    return tasks.map(() => readEnqueued(answers))
  }

  async claim(queue: string, request: ClaimRequest): Promise<Task[]> {
    const until = now() + request.waitMs
    for (;;) {
      request.signal?.throwIfAborted()
      const answer = await this.#claimNow(queue, request)
      const left = until - now()
      if (answer.tasks.length > 0 || left <= 0) return answer.tasks
      const nextDue = Math.max(answer.nextDueMs ?? contract.CLAIM_SLEEP, 1)
      await this.#sleep(queue, answer.wakeUps, Math.min(left, nextDue, contract.CLAIM_SLEEP), request.signal)
    }
  }

  async #claimNow(queue: string, { n, leaseMs, worker }: ClaimRequest): Promise<{ tasks: Task[]; nextDueMs?: number; wakeUps: number }> {
    const answers = new List(await this.#once(queue, 'claim', [String(n), us(leaseMs), worker]))
    const answer = answers.list()
    const nextDue = answer.optional()
    const wakeUps = answer.number()
    return { tasks: readTasks(answer), wakeUps, nextDueMs: nextDue === undefined ? undefined : nextDue / 1_000 }
  }

  /** Sleeps until a task can be claimed. Returns at once if the process missed a wake-up since the claim. */
  async #sleep(queue: string, wakeUps: number, ms: number, signal?: AbortSignal): Promise<void> {
    const inbox = await this.#store.inbox()
    const tasks = topic.tasks(queue)
    const bell = inbox.listen(tasks)
    try {
      const missed = new List(await this.#call(queue, 'listen', [inbox.hex, String(wakeUps)])).number()
      if (missed === 0) await bell.wait(ms, signal)
    } finally {
      inbox.ignore(tasks, bell)
    }
  }

  async complete(queue: string, completions: readonly Completion[]): Promise<Completed[]> {
    const plain = completions.every(({ result, discarded }) => result === undefined && !discarded)
    const op = this.#store.op()
    const args = completions.flatMap(({ ticket, result, discarded }, at) => {
      const { id, claim } = claimOf(ticket)
      const more = plain ? [] : [discarded ? '1' : '0', result === undefined ? '' : writeBody(result)]
      return [at === 0 ? op : '', id, String(claim), ...more]
    })
    const groups = [queueKeys(queue), this.#replays(queue)]
    const merger = plain ? this.#completes : this.#finishes
    const answers = new List(await ask(merger, queue, completions.length, { groups, args }))
    return completions.map(() => meaning(contract.COMPLETED, answers.number()))
  }

  async retry(queue: string, failures: readonly Failure[]): Promise<Retried[]> {
    const args = failures.flatMap(({ ticket, delayMs, giveUp, error }) => {
      const { id, claim } = claimOf(ticket)
      return [id, String(claim), us(delayMs), giveUp ? '1' : '0', error]
    })
    const list = new List(await this.#once(queue, 'retry', args))
    return failures.map(() => {
      const [outcome, dueUs] = [meaning(contract.RETRIED, list.number()), list.number()]
      return outcome === 'scheduled' ? { outcome, dueUs } : { outcome }
    })
  }

  async release(queue: string, releases: readonly Release[]): Promise<TaskReleased[]> {
    const args = releases.flatMap(({ ticket, delayMs }) => {
      const { id, claim } = claimOf(ticket)
      return [id, String(claim), us(delayMs)]
    })
    const list = new List(await this.#once(queue, 'release', args))
    return releases.map(() => meaning(contract.TASK_RELEASED, list.number()))
  }

  async extend(queue: string, heartbeats: readonly Heartbeat[], leaseMs: number): Promise<TaskExtended[]> {
    const args = heartbeats.flatMap(({ ticket, progress }) => {
      const { id, claim } = claimOf(ticket)
      const percent = progress?.percent === undefined ? '' : String(progress.percent)
      return [id, String(claim), progress ? '1' : '0', percent, progress?.note ?? '']
    })
    const list = new List(await this.#call(queue, 'extend', [us(leaseMs), ...args]))
    return heartbeats.map(() => meaning(contract.TASK_EXTENDED, list.number()))
  }

  async cancel(queue: string, id: string): Promise<Cancelled> {
    return meaning(contract.CANCELED, new List(await this.#once(queue, 'cancel', [id])).number())
  }

  async reschedule(queue: string, id: string, due: Due): Promise<Rescheduled> {
    const when = 'dueUs' in due ? [String(due.dueUs), '0'] : [us(due.delayMs), '1']
    const list = new List(await this.#once(queue, 'reschedule', [id, ...when]))
    const [outcome, time] = [meaning(contract.RESCHEDULED, list.number()), list.number()]
    switch (outcome) {
      case 'rescheduled': return { outcome, dueUs: time }
      case 'too_late': return { outcome, deadlineUs: time }
      default: return { outcome }
    }
  }

  async task(queue: string, id: string): Promise<TaskInfo | undefined> {
    return (await this.tasks(queue, [id])).tasks[0]
  }

  /** Tasks by ID, and the time of the store. */
  async tasks(queue: string, ids: readonly string[]): Promise<{ nowUs: number; tasks: TaskInfo[] }> {
    const list = new List(await this.#call(queue, 'tasks', ['0', ...ids]))
    const nowUs = list.number()
    const tasks: TaskInfo[] = []
    while (!list.isEmpty) {
      const [id, record, run, moment] = [list.text(), list.bytes(), list.bytes(), list.optional()]
      tasks.push(record.length === 0 ? readFinished(id, run) : readInfo(readRow(id, record, run), moment, nowUs))
    }
    return { nowUs, tasks }
  }

  async top(queue: string, n: number): Promise<Task[]> {
    return readTasks(new List(await this.#call(queue, 'top', [String(n)])))
  }

  async pop(queue: string, n: number): Promise<Task[]> {
    return readTasks(new List(await this.#once(queue, 'pop', [String(n)])))
  }

  async dequeue(queue: string, ticket: string): Promise<boolean> {
    const { id, revision, claim } = claimOf(ticket)
    const list = new List(await this.#once(queue, 'dequeue', [id, String(revision), String(claim)]))
    return meaning(contract.DEQUEUED, list.number()) === 'removed'
  }

  async waitFor(queue: string, id: string, waitMs: number, signal?: AbortSignal): Promise<Ended | undefined> {
    const inbox = await this.#store.inbox()
    const finished = topic.finished(queue, id)
    const bell = inbox.listen(finished)
    const until = now() + waitMs
    let longest: number = contract.RESULT_SLEEP
    try {
      for (;;) {
        signal?.throwIfAborted()
        // Registered before the read, so that no end is missed in between.
        const watched = numberOf(await this.#call(queue, 'watch', [inbox.hex, id])) === 1
        const ended = await this.ended(queue, id)
        if (ended) return ended
        if (!watched) await this.#checkRetention(queue)
        const left = until - now()
        if (left <= 0) return undefined
        await bell.wait(Math.min(left, longest), signal)
        longest = Math.min(longest * 2, contract.LAST_RESULT_SLEEP)
      }
    } finally {
      inbox.ignore(finished, bell)
    }
  }

  async #checkRetention(queue: string): Promise<void> {
    const { limits } = await this.stats(queue)
    if (limits.retention) return
    throw new InvalidError('The queue has no retention, so nothing can wait for its tasks.', { code: 'nothing_kept', field: 'queue', hint: 'Set a retention with `limit`.' })
  }

  /** How a task ended. Nothing if it is live. */
  async ended(queue: string, id: string): Promise<Ended | undefined> {
    const task = await this.task(queue, id)
    if (task && task.state !== 'done') return undefined
    const letter = await this.deadLetter(queue, id)
    // A dead letter may have been requeued between the two reads.
    if (!letter && !task && await this.task(queue, id)) return undefined
    if (letter && (task?.finished?.atUs ?? 0) < letter.diedUs) return deadEnd(letter)
    return task ? { outcome: 'finished', task } : { outcome: 'gone' }
  }

  async deadLetter(queue: string, id: string): Promise<DeadLetter | undefined> {
    return readLetters(await this.#call(queue, 'dead_letter', [id]))[0]
  }

  why(queue: string, id: string): Promise<Why[]> {
    return explain(this, this.#store, queue, id)
  }

  /** End of the uniqueness window of an ID. 0 for none. */
  async uniqueUntil(queue: string, id: string): Promise<number> {
    return numberOf(await this.#store.call('queue_unique_until', [uniqueKeys(queue)], [id]))
  }

  async clearUnique(queue: string, id: string): Promise<number | undefined> {
    const groups = [uniqueKeys(queue), this.#replays(queue)]
    const list = new List(await this.#store.call('queue_clear_unique', groups, [this.#store.op(), id]))
    return list.number() || undefined
  }

  /** What a task waits for. Nothing if it never waited. */
  async waits(queue: string, id: string): Promise<Extract<Why, { reason: 'waits_for' }> | undefined> {
    const list = new List(await this.#call(queue, 'waits', [id]))
    if (list.isEmpty) return undefined
    const [open, ifDead, left] = [list.number() === 1, meaning(contract.IF_DEAD, list.number()), list.number()]
    list.next()
    const dead = list.number()
    const first: { id: string; error?: string }[] = []
    while (!list.isEmpty) {
      const [other, isDead, error] = [list.text(), list.number() === 1, list.text()]
      first.push(isDead ? { id: other, error } : { id: other })
    }
    return { reason: 'waits_for', left, dead, first, ifDead, open }
  }

  async closeBatch(queue: string, id: string): Promise<Closed> {
    const list = new List(await this.#once(queue, 'close_batch', [id]))
    const outcome = meaning(contract.CLOSED, list.number())
    return outcome === 'closed' ? { outcome, left: list.number() } : { outcome }
  }

  async dependents(queue: string, id: string, n: number): Promise<string[]> {
    const list = new List(await this.#call(queue, 'dependents', [id, String(n)]))
    const ids: string[] = []
    while (!list.isEmpty) ids.push(list.text())
    return ids
  }

  async waited(queue: string, id: string, { after, limit }: Part): Promise<Waited[]> {
    const list = new List(await this.#call(queue, 'waited', [id, after, String(limit)]))
    const waited: Waited[] = []
    while (!list.isEmpty) waited.push(readWaited(list.text(), list.bytes()))
    return waited
  }

  async stats(queue: string): Promise<QueueStats> {
    const list = new List(await this.#call(queue, 'stats', []))
    const counts = {
      queue,
      ready: list.number(),
      scheduled: list.number(),
      leased: list.number(),
      blocked: list.number(),
      dead: list.number(),
      done: list.number(),
      dropped: list.number(),
      lagMs: Math.floor(list.number() / 1_000),
      rateUntilUs: list.optional(),
      lastClaimUs: list.number() || undefined,
      paused: list.number() === 1,
    }
    return { ...counts, limits: readLimits(list.optional(), list.text()) }
  }

  async limit(queue: string, limits: QueueLimits): Promise<void> {
    await this.#store.register(contract.QUEUE_DIRECTORY, queue)
    await this.#call(queue, 'limit', writeLimits(limits))
  }

  async pause(queue: string, paused: boolean): Promise<void> {
    await this.#store.register(contract.QUEUE_DIRECTORY, queue)
    await this.#call(queue, 'pause', [paused ? '1' : '0'])
  }

  async dead(queue: string, { after, limit }: Part): Promise<DeadLetter[]> {
    return readLetters(await this.#call(queue, 'dead', [after, String(limit)]))
  }

  async requeueDead(queue: string, ids: readonly string[] | 'all'): Promise<{ requeued: number; kept: number }> {
    const list = new List(await this.#once(queue, 'requeue_dead', selectionOf(ids)))
    return { requeued: list.number(), kept: list.number() }
  }

  async deleteDead(queue: string, ids: readonly string[] | 'all'): Promise<number> {
    return new List(await this.#once(queue, 'delete_dead', selectionOf(ids))).number()
  }

  async saveSchedule(queue: string, id: string, schedule: EncodedSchedule): Promise<Scheduled> {
    await this.#store.register(contract.QUEUE_DIRECTORY, queue)
    const { recurrence, content, priority, maxAttempts, paused } = schedule
    const args = [
      id, JSON.stringify(wireRecurrence(recurrence)), writeBody(content), String(priority), String(maxAttempts),
      String(nextAfter(recurrence, await this.#clock(queue))), paused === undefined ? '' : paused ? '1' : '0', '',
    ]
    const list = new List(await this.#store.call('queue_schedule', [queueKeys(queue), scheduleKeys(queue)], args))
    const outcome = meaning(contract.SCHEDULED, list.number())
    if (outcome === 'full') return { outcome }
    if (outcome === 'stale') throw new InvalidError('The schedule was changed meanwhile.')
    return { outcome, revision: list.number() }
  }

  async #clock(queue: string): Promise<number> {
    return new List(await this.#store.call('queue_due_schedules', [scheduleKeys(queue)], ['1'])).number()
  }

  async schedules(queue: string, { after, limit }: Part): Promise<Schedule[]> {
    const list = new List(await this.#store.call('queue_schedules', [scheduleKeys(queue)], [after, String(limit)]))
    const schedules: Schedule[] = []
    while (!list.isEmpty) schedules.push(readSchedule(list.text(), list.bytes()))
    return schedules
  }

  async deleteSchedule(queue: string, id: string): Promise<boolean> {
    return numberOf(await this.#store.call('queue_unschedule', [scheduleKeys(queue)], [id])) === 1
  }

  async fireSchedules(queue: string, reported: Set<string>): Promise<number> {
    const list = new List(await this.#store.call('queue_due_schedules', [scheduleKeys(queue)], [String(contract.BATCH.max)]))
    const [nowUs, nextUs] = [list.number(), list.number()]
    let waitMs = nextUs === 0 ? LOOK_EVERY_MS : Math.min(Math.max(nextUs - nowUs, 0) / 1_000, LOOK_EVERY_MS)
    while (!list.isEmpty) {
      const [id, record] = [list.text(), list.bytes()]
      let [revision, step]: [number, Argument[] | undefined] = [0, undefined]
      try {
        const schedule = readSchedule(id, record)
        revision = schedule.revision
        step = stepOf(schedule, record.length, nowUs)
        await this.#store.call('queue_fire', [queueKeys(queue), scheduleKeys(queue)], step)
        // More occurrences may be due.
        waitMs = 0
      } catch (error) {
        // A schedule that cannot be read, or that the server refuses, stays due, for other programs. The others fire.
        if (step && !(error instanceof InvalidError)) throw error
        waitMs = Math.max(waitMs, UNREADABLE_MS)
        const key = `${id}@${revision}`
        if (!reported.has(key)) process.emitWarning(`cannot fire the schedule ${id} of the queue ${queue}: ${error}`, 'RushgateWarning')
        reported.add(key)
      }
    }
    return waitMs
  }

  async announce(queue: string, { id, name, version, concurrency, running, leaseMs }: Announcement): Promise<WorkerMode> {
    await this.#store.register(contract.QUEUE_DIRECTORY, queue)
    const args = [id, name, version, String(concurrency), String(running), us(leaseMs)]
    return meaning(contract.WORKER_MODE, numberOf(await this.#store.call('queue_announce', [workerKeys(queue)], args)))
  }

  async endWorker(queue: string, id: string): Promise<void> {
    await this.#store.call('queue_announce', [workerKeys(queue)], [id, '', '', '1', '0', '0'])
  }

  async workers(queue: string, { after, limit }: Part): Promise<WorkerInfo[]> {
    const list = new List(await this.#store.call('queue_workers', [workerKeys(queue)], [after, String(limit)]))
    const workers: WorkerInfo[] = []
    while (!list.isEmpty) workers.push(readWorker(list.text(), list.bytes()))
    return workers
  }

  async setWorker(queue: string, id: string, mode: WorkerMode): Promise<boolean> {
    const args = [id, String(contract.WORKER_MODE.indexOf(mode))]
    return numberOf(await this.#store.call('queue_set_worker', [workerKeys(queue)], args)) === 1
  }

  #replays(queue: string): Group {
    return replayKeys(queue, this.#store.clientHex)
  }

  /** A call that changes nothing, or that is harmless to repeat. */
  #call(queue: string, verb: string, args: readonly Argument[]): Promise<Reply> {
    return this.#store.call(`queue_${verb}`, [queueKeys(queue)], args)
  }

  /** A call with an op, which is executed once. */
  #once(queue: string, verb: string, args: readonly Argument[]): Promise<Reply> {
    return this.#store.call(`queue_${verb}`, [queueKeys(queue), this.#replays(queue)], [this.#store.op(), ...args])
  }
}

/** Requests for one task share a call. */
function ask(merger: Merger, queue: string, tasks: number, request: Shared): Promise<Reply> {
  return tasks === 1 ? merger.ask(queue, request) : merger.alone(request)
}

function us(ms: number): string {
  return String(Math.round(ms * 1_000))
}

function readTasks(list: List): Task[] {
  const tasks: Task[] = []
  while (!list.isEmpty) tasks.push(readTask(list.text(), list.bytes(), list.bytes()))
  return tasks
}

function claimOf(ticket: string): { id: string; revision: number; claim: number } {
  const read = readTicket(ticket)
  if (!read) throw invalid('ticket', 'is malformed')
  return read
}

function selectionOf(ids: readonly string[] | 'all'): string[] {
  if (ids === 'all') return ['1']
  const inOrder = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other))
  return ['0', ...[...new Set(ids)].sort(inOrder)]
}

/** Due time and rules of a task, as docs/protocol/queues.md describes them. */
function termsOf(task: EncodedTask): string {
  const due = timeOf(task.delayMs ?? 0, task.dueUs)
  const mode = contract.ON_DUPLICATE.indexOf(task.onDuplicate!)
  const hasDeadline = task.deadlineAfterMs !== undefined || task.deadlineUs !== undefined
  return [
    `${due} ${task.priority} ${mode} ${us(task.maxWaitMs ?? 0)} ${task.maxAttempts}`,
    hasDeadline ? `<${timeOf(task.deadlineAfterMs ?? 0, task.deadlineUs)}` : '',
    task.uniqueForMs === undefined ? '' : `!${us(task.uniqueForMs)}`,
    task.key === undefined ? '' : ` ${task.key}`,
    dependenciesOf(task),
  ].join('')
}

function timeOf(delayMs: number, moment: number | undefined): string {
  return moment === undefined ? `+${us(delayMs)}` : String(moment)
}

function dependenciesOf({ after = [], ifDead, heldOpen, partOf }: EncodedTask): string {
  if (after.length === 0 && !heldOpen && partOf === undefined) return ''
  const head = `${contract.IF_DEAD.indexOf(ifDead!)}${heldOpen ? 1 : 0}${partOf === undefined ? '' : ` ${partOf}`}`
  return ['', head, ...after].join('\n')
}

function readEnqueued(list: List): Enqueued {
  const outcome = meaning(contract.ENQUEUED, list.number())
  const value = list.number()
  switch (outcome) {
    case 'full':
    case 'dropped': return { outcome, bound: value }
    case 'displaced': return { outcome, revision: value, dropped: list.text() }
    case 'recent': return { outcome, untilUs: value }
    case 'refused': return { outcome, why: meaning(contract.UNMET, value), task: list.text() }
    default: return { outcome, revision: value }
  }
}

function readLetters(reply: Reply): DeadLetter[] {
  const list = new List(reply)
  const letters: DeadLetter[] = []
  while (!list.isEmpty) letters.push(readDead(list.text(), list.bytes()))
  return letters
}

/** What `queue_fire` gets: a schedule and its due occurrences. */
function stepOf({ id, revision, recurrence, nextUs = 0, previousUs = 0 }: Schedule, bytes: number, nowUs: number): string[] {
  const most = Math.min(Math.max(Math.floor(STEP_BYTES / bytes), 1), contract.BATCH.max)
  const due = dueOf(recurrence, nextUs, nowUs, most)
  // A schedule that was changed while another program fired it may list an occurrence again.
  const runs = due.runs.filter((at) => at > previousUs)
  return [id, String(revision), String(due.next), ...runs.flatMap((at) => [`${id}@${written(at)}`, String(at)])]
}
