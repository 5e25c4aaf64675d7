import { randomUUID } from 'node:crypto'

import type {
  Announcement, ClaimRequest, Completion, Due, EncodedSchedule, EncodedTask, Failure, Heartbeat, Part, Queues, Release,
} from '../transport.js'
import type {
  Cancelled, Closed, Completed, DeadLetter, Ended, Enqueued, QueueLimits, QueueStats, Rescheduled, Retried, Schedule, Scheduled, Task,
  TaskExtended, TaskInfo, TaskReleased, Waited, Why, WorkerInfo, WorkerMode,
} from '../types.js'
import { type Answer, asRushgateError, type HttpClient, Problem, type Request } from './client.js'
import * as op from './operations.js'
import { waiting } from './waiting.js'
import { contentFields, fromWire } from './wire.js'

/** Queues by the HTTP API. */
export class HttpQueues implements Queues {
  readonly #client: HttpClient

  constructor(client: HttpClient) {
    this.#client = client
  }

  async enqueue(queue: string, tasks: readonly EncodedTask[]): Promise<Enqueued[]> {
    return this.#outcomes(queue, op.ENQUEUE_ALL, { tasks: tasks.map(wireTask) })
  }

  async claim(queue: string, request: ClaimRequest): Promise<Task[]> {
    const claim = (partMs: number) => this.#claimOnce(queue, request, partMs)
    return waiting(request.waitMs, request.signal, claim, (tasks) => tasks.length > 0)
  }

  async #claimOnce(queue: string, { n, leaseMs, worker, signal }: ClaimRequest, waitMs: number): Promise<Task[]> {
    const body = { n, lease_ms: Math.round(leaseMs), worker }
    const request: Request = { operation: op.CLAIM, path: [queue], body, key: randomUUID() }
    const claim = (more: Partial<Request>) => this.#tasks({ ...request, ...more })
    try {
      return await claim({ waitMs, signal })
    } catch (error) {
      if (signal?.aborted) await this.#putBack(queue, claim)
      throw error
    }
  }

  async #tasks(request: Request): Promise<Task[]> {
    return fromWire<{ tasks: Task[] }>((await this.#client.ask(request)).body).tasks
  }

  /** An answer may have been under way when the wait was aborted. With the same key it arrives again. */
  async #putBack(queue: string, claim: (more: Partial<Request>) => Promise<Task[]>): Promise<void> {
    const tasks = await claim({}).catch(() => [])
    if (tasks.length > 0) await this.release(queue, tasks.map(({ ticket }) => ({ ticket, delayMs: 0 }))).catch(() => {})
  }

  async complete(queue: string, completions: readonly Completion[]): Promise<Completed[]> {
    const outcomes = await this.#grouped(queue, op.COMPLETE, completions, ({ result, discarded }) => ({
      fields: { discarded, ...(result && contentFields(result, 'result', 'result_type')) },
      alone: result !== undefined,
    }))
    return outcomes.map(({ outcome }) => outcome as Completed)
  }

  async retry(queue: string, failures: readonly Failure[]): Promise<Retried[]> {
    return await this.#grouped(queue, op.RETRY, failures, ({ delayMs, error, giveUp }) => ({
      fields: { delay_ms: Math.round(delayMs), error, give_up: giveUp },
      alone: true,
    })) as Retried[]
  }

  async release(queue: string, releases: readonly Release[]): Promise<TaskReleased[]> {
    const outcomes = await this.#grouped(queue, op.RELEASE_TASKS, releases, ({ delayMs }) => ({ fields: { delay_ms: Math.round(delayMs) } }))
    return outcomes.map(({ outcome }) => outcome as TaskReleased)
  }

  async extend(queue: string, heartbeats: readonly Heartbeat[], leaseMs: number): Promise<TaskExtended[]> {
    const lease_ms = Math.round(leaseMs)
    const outcomes = await this.#grouped(queue, op.EXTEND_TASKS, heartbeats, ({ progress }) => ({
      fields: progress ? { lease_ms, progress: { percent: progress.percent, note: progress.note ?? '' } } : { lease_ms },
      alone: progress !== undefined,
    }), false)
    return outcomes.map(({ outcome }) => outcome as TaskExtended)
  }

  /** One request for all entries with the same fields, and one for each entry that is `alone`. */
  async #grouped<E extends { ticket: string }>(
    queue: string, operation: op.Operation, entries: readonly E[], fieldsOf: (entry: E) => { fields: object; alone?: boolean }, keyed = true,
  ): Promise<{ outcome: string }[]> {
    const groups = new Map<string, { fields: object; at: number[] }>()
    entries.forEach((entry, at) => {
      const { fields, alone } = fieldsOf(entry)
      const name = alone ? String(at) : JSON.stringify(fields)
      const group = groups.get(name) ?? { fields, at: [] }
      group.at.push(at)
      groups.set(name, group)
    })
    const outcomes: { outcome: string }[] = []
    await Promise.all([...groups.values()].map(async ({ fields, at }) => {
      const tickets = at.map((index) => entries[index]!.ticket)
      const answers = await this.#outcomes<{ outcome: string }>(queue, operation, { tickets, ...fields }, keyed)
      at.forEach((index, position) => { outcomes[index] = answers[position]! })
    }))
    return outcomes
  }

  async #outcomes<O>(queue: string, operation: op.Operation, body: object, keyed = true): Promise<O[]> {
    const key = keyed ? randomUUID() : undefined
    const answer = await this.#client.ask({ operation, path: [queue], body, key })
    return fromWire<{ outcomes: O[] }>(answer.body).outcomes
  }

  async cancel(queue: string, id: string): Promise<Cancelled> {
    const answer = await this.#found({ operation: op.CANCEL, path: [queue, id] })
    return answer === undefined ? 'not_found' : answer.outcome
  }

  async top(queue: string, n: number): Promise<Task[]> {
    return this.#tasks({ operation: op.TOP, path: [queue], query: { n: String(n) } })
  }

  async pop(queue: string, n: number): Promise<Task[]> {
    return this.#tasks({ operation: op.POP, path: [queue], body: { n }, key: randomUUID() })
  }

  async dequeue(queue: string, ticket: string): Promise<boolean> {
    try {
      await this.#client.send({ operation: op.DEQUEUE, path: [queue], body: { ticket } })
      return true
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code === 'stale' || error.code === 'leased') return false
      throw asRushgateError(error)
    }
  }

  async reschedule(queue: string, id: string, due: Due): Promise<Rescheduled> {
    const body = 'dueUs' in due ? { due_us: due.dueUs } : { delay_ms: Math.round(due.delayMs) }
    try {
      const request: Request = { operation: op.RESCHEDULE, path: [queue, id], body, key: randomUUID() }
      return fromWire((await this.#client.send(request)).body)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code === 'leased' || error.code === 'not_found') return { outcome: error.code }
      if (error.body.deadline_us === undefined) throw asRushgateError(error)
      return { outcome: 'too_late', deadlineUs: error.body.deadline_us }
    }
  }

  async task(queue: string, id: string): Promise<TaskInfo | undefined> {
    const ended = await this.#look(queue, id, 0)
    if ('state' in ended) return ended
    return ended.outcome === 'finished' ? ended.task : undefined
  }

  async waitFor(queue: string, id: string, waitMs: number, signal?: AbortSignal): Promise<Ended | undefined> {
    // The server checks the retention of the queue only if it may wait.
    const look = (partMs: number) => this.#look(queue, id, Math.max(partMs, 1), signal)
    const looked = await waiting(waitMs, signal, look, (answer) => !('state' in answer))
    return 'state' in looked ? undefined : looked
  }

  async #look(queue: string, id: string, waitMs: number, signal?: AbortSignal): Promise<TaskInfo | Ended> {
    try {
      const { body } = await this.#client.send({ operation: op.TASK, path: [queue, id], waitMs, signal })
      const task = fromWire<TaskInfo>(body)
      return task.state === 'done' ? { outcome: 'finished', task } : task
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.code === 'not_found') return { outcome: 'gone' }
      if (error.code !== 'dead') throw asRushgateError(error)
      const { error: why, attempts, died_us: diedUs } = error.body
      return { outcome: 'dead', error: why, attempts, diedUs }
    }
  }

  async why(queue: string, id: string): Promise<Why[]> {
    const { body } = await this.#client.ask({ operation: op.WHY, path: [queue, id] })
    return fromWire<{ reasons: Why[] }>(body).reasons
  }

  async closeBatch(queue: string, id: string): Promise<Closed> {
    try {
      const { body } = await this.#client.send({ operation: op.CLOSE_BATCH, path: [queue, id], body: {}, key: randomUUID() })
      return fromWire(body)
    } catch (error) {
      if (error instanceof Problem && (error.code === 'not_open' || error.code === 'not_found')) return { outcome: error.code }
      throw asRushgateError(error as Error)
    }
  }

  async dependents(queue: string, id: string, n: number): Promise<string[]> {
    return (await this.#client.ask({ operation: op.DEPENDENTS, path: [queue, id], query: { n: String(n) } })).body.ids
  }

  async waited(queue: string, id: string, part: Part): Promise<Waited[]> {
    return this.#page(op.WAITED, [queue, id], part)
  }

  async clearUnique(queue: string, id: string): Promise<number | undefined> {
    return (await this.#found({ operation: op.CLEAR_UNIQUE, path: [queue, id] }))?.until_us
  }

  async stats(queue: string): Promise<QueueStats> {
    return fromWire((await this.#client.ask({ operation: op.STATS, path: [queue] })).body)
  }

  async limit(queue: string, { perKey, rate, retention, ...limits }: QueueLimits): Promise<void> {
    const wireRate = (one: QueueLimits['rate']) => one && { n: one.n, per_ms: one.perMs }
    const body = {
      ...limits,
      rate: wireRate(rate),
      per_key: perKey && { ...perKey, rate: wireRate(perKey.rate) },
      retention: retention && { age_ms: retention.ageMs, count: retention.count },
    }
    await this.#client.ask({ operation: op.LIMIT, path: [queue], body })
  }

  async pause(queue: string, paused: boolean): Promise<void> {
    await this.#client.ask({ operation: paused ? op.PAUSE : op.RESUME, path: [queue], body: {} })
  }

  async dead(queue: string, part: Part): Promise<DeadLetter[]> {
    return this.#page(op.DEAD, [queue], part)
  }

  async requeueDead(queue: string, ids: readonly string[] | 'all'): Promise<{ requeued: number; kept: number }> {
    const { body } = await this.#client.ask({ operation: op.REQUEUE_DEAD, path: [queue], body: selectionOf(ids) })
    return fromWire(body)
  }

  async deleteDead(queue: string, ids: readonly string[] | 'all'): Promise<number> {
    return (await this.#client.ask({ operation: op.DELETE_DEAD, path: [queue], body: selectionOf(ids) })).body.deleted
  }

  async saveSchedule(queue: string, id: string, { recurrence, content, priority, maxAttempts, paused }: EncodedSchedule): Promise<Scheduled> {
    const { everyMs: every_ms, ...rest } = recurrence
    const { traceparent, ...template } = contentFields(content) as { traceparent?: string }
    const body = { ...rest, every_ms, ...template, priority, max_attempts: maxAttempts, paused }
    try {
      return fromWire((await this.#client.send({ operation: op.SCHEDULE, path: [queue, id], body })).body)
    } catch (error) {
      if (error instanceof Problem && error.code === 'queue_full') return { outcome: 'full' }
      throw asRushgateError(error as Error)
    }
  }

  async schedules(queue: string, part: Part): Promise<Schedule[]> {
    return this.#page(op.SCHEDULES, [queue], part)
  }

  async deleteSchedule(queue: string, id: string): Promise<boolean> {
    return await this.#found({ operation: op.UNSCHEDULE, path: [queue, id] }) !== undefined
  }

  async fireSchedules(): Promise<undefined> {}

  async announce(queue: string, { id, leaseMs, ...worker }: Announcement): Promise<WorkerMode> {
    const body = { ...worker, lease_ms: leaseMs }
    return (await this.#client.ask({ operation: op.ANNOUNCE, path: [queue, id], body })).body.mode
  }

  async endWorker(queue: string, id: string): Promise<void> {
    await this.#client.ask({ operation: op.END_WORKER, path: [queue, id] })
  }

  async workers(queue: string, part: Part): Promise<WorkerInfo[]> {
    return this.#page(op.WORKERS, [queue], part)
  }

  async setWorker(queue: string, id: string, mode: WorkerMode): Promise<boolean> {
    return await this.#found({ operation: op.SET_WORKER, path: [queue, id], body: { mode } }) !== undefined
  }

  async #page<T>(operation: op.Operation, path: string[], { after, limit }: Part): Promise<T[]> {
    const items: T[] = []
    let next: string | undefined = after
    // Large payloads make a page of the server smaller.
    while (next !== undefined && items.length < limit) {
      const { body }: Answer = await this.#client.ask({ operation, path, query: { after: next, limit: String(limit - items.length) } })
      items.push(...fromWire<T[]>(body.items))
      next = body.next
    }
    return items
  }

  /** The answer. Nothing if what the path names does not exist. */
  async #found(request: Request): Promise<any> {
    try {
      return (await this.#client.send(request)).body
    } catch (error) {
      if (error instanceof Problem && error.code === 'not_found') return undefined
      throw asRushgateError(error as Error)
    }
  }
}

function selectionOf(ids: readonly string[] | 'all'): object {
  return ids === 'all' ? { all: true } : { ids: [...new Set(ids)] }
}

function wireTask({ content, ...task }: EncodedTask): object {
  return {
    id: task.id,
    ...contentFields(content),
    delay_ms: task.delayMs === undefined ? undefined : Math.round(task.delayMs),
    due_us: task.dueUs,
    deadline_after_ms: task.deadlineAfterMs === undefined ? undefined : Math.round(task.deadlineAfterMs),
    deadline_us: task.deadlineUs,
    priority: task.priority,
    on_duplicate: task.onDuplicate,
    max_wait_ms: task.maxWaitMs === undefined ? undefined : Math.round(task.maxWaitMs),
    max_attempts: task.maxAttempts,
    unique_for_ms: task.uniqueForMs === undefined ? undefined : Math.round(task.uniqueForMs),
    key: task.key,
    after: task.after,
    if_dead: task.ifDead,
    held_open: task.heldOpen,
    part_of: task.partOf,
  }
}
