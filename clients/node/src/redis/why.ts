/** Why a task is not running: the same reasons, in the same order, as the library and the HTTP API give. */

import * as contract from '../contract.js'
import type { QueueStats, Running, Task, TaskInfo, Why } from '../types.js'
import { queueKey } from './keys.js'
import { List } from './packed.js'
import type { RedisQueues } from './queues.js'
import type { Store } from './store.js'

/** Reads of one question. */
interface Asked {
  queues: RedisQueues
  store: Store
  queue: string
}

/** Length of what precedes the ID in the members of the sorted sets of leased and of waiting tasks. */

export async function explain(queues: RedisQueues, store: Store, queue: string, id: string): Promise<Why[]> {
  const asked = { queues, store, queue }
  for (let tries = 0; tries < contract.WHY_TRIES; tries++) {
    const reasons = await once(asked, id)
    if (reasons.length > 0) return reasons
    // No reason found: the task changed its state between two reads.
  }
  return [{ reason: 'unknown' }]
}

async function once(asked: Asked, id: string): Promise<Why[]> {
  const { nowUs, tasks: [info] } = await asked.queues.tasks(asked.queue, [id])
  if (!info || info.state === 'done') return whyOver(asked, id, nowUs)
  const reasons = info.state === 'leased' ? [running(info, nowUs)] : await whyWaiting(asked, info, nowUs)
  return reasons.length === 0 ? reasons : [...reasons, ...deadlineOf(info, nowUs)]
}

async function whyOver({ queues, queue }: Asked, id: string, nowUs: number): Promise<Why[]> {
  const ended = await queues.ended(queue, id)
  if (!ended) return []
  const untilUs = await queues.uniqueUntil(queue, id)
  const unique: Why[] = untilUs > nowUs ? [{ reason: 'unique', untilUs, leftMs: since(nowUs, untilUs) }] : []
  if (ended.outcome === 'gone') return unique.length > 0 ? unique : [{ reason: 'unknown' }]
  if (ended.outcome === 'finished') return [done(ended.task), ...unique]
  const maxAttempts = (await queues.deadLetter(queue, id))?.maxAttempts ?? ended.attempts
  const { attempts, error, diedUs } = ended
  return [{ reason: 'dead', attempts, maxAttempts, error, diedUs }, ...unique]
}

async function whyWaiting(asked: Asked, info: TaskInfo, nowUs: number): Promise<Why[]> {
  const stats = await asked.queues.stats(asked.queue)
  const general: Why[] = [...paused(stats), ...await whyBusy(asked, stats), ...limited(stats, nowUs)]
  switch (info.state) {
    case 'scheduled': return [...general, notYet(info, nowUs)]
    case 'blocked': return [...general, ...await (info.waits ? whyItWaits(asked, info, nowUs) : whyBlocked(asked, info, stats))]
    default: return general.length > 0 ? general : await whyReady(asked, info, stats, nowUs)
  }
}

function paused(stats: QueueStats): Why[] {
  return stats.paused ? [{ reason: 'paused' }] : []
}

async function whyBusy(asked: Asked, { limits: { concurrency }, leased }: QueueStats): Promise<Why[]> {
  if (concurrency === undefined || leased < concurrency) return []
  return [{ reason: 'queue_busy', concurrency, running: runningOf(await leasedTasks(asked, contract.WHY_RUNNING)) }]
}

function limited({ rateUntilUs }: QueueStats, nowUs: number): Why[] {
  return rateUntilUs === undefined ? [] : [{ reason: 'rate_limited', untilUs: rateUntilUs, waitMs: since(nowUs, rateUntilUs) }]
}

async function whyReady({ queues, queue }: Asked, info: TaskInfo, stats: QueueStats, nowUs: number): Promise<Why[]> {
  const first = await queues.top(queue, contract.WHY_AHEAD)
  const place = first.findIndex((task) => task.id === info.id)
  if (place < 0 && first.length < contract.WHY_AHEAD) return []
  const dueForMs = since(info.notBeforeUs ?? info.dueUs, nowUs)
  return [{ reason: 'waiting', ahead: place < 0 ? undefined : place, leased: stats.leased, dueForMs, lastClaimUs: stats.lastClaimUs }]
}

async function whyItWaits({ queues, queue }: Asked, info: TaskInfo, nowUs: number): Promise<Why[]> {
  const waits = await queues.waits(queue, info.id)
  if (!waits) return []
  const reasons: Why[] = waits.open || waits.left > 0 ? [waits] : []
  return info.dueUs > nowUs ? [...reasons, notYet(info, nowUs)] : reasons
}

async function whyBlocked(asked: Asked, info: TaskInfo, { limits: { perKey } }: QueueStats): Promise<Why[]> {
  const { key, priority } = info
  if (key === undefined) return []
  const most = perKey?.fifo ? 1 : perKey?.concurrency
  if (most !== undefined) {
    const others = (await leasedTasks(asked, contract.WHY_LISTED)).filter((task) => task.key === key)
    if (others.length >= most) return [{ reason: 'key_busy', key, running: runningOf(others) }]
  }
  const isFirst = (task: Task) => task.key === key && task.priority === priority
  const first = (await asked.queues.top(asked.queue, contract.WHY_AHEAD)).find(isFirst) ?? (await waitingTasks(asked, priority)).find(isFirst)
  return [{ reason: 'in_line', key, first: first?.id }]
}

/** A scheduled task is not due, or the rate limit of its key does not allow it yet. */
function notYet(info: TaskInfo, nowUs: number): Why {
  const { key, dueUs, notBeforeUs = 0, attempt: attempts, maxAttempts, error } = info
  if (notBeforeUs > dueUs) return { reason: 'rate_limited', key, untilUs: notBeforeUs, waitMs: since(nowUs, notBeforeUs) }
  return { reason: 'not_due', dueUs, waitMs: since(nowUs, dueUs), attempts, maxAttempts, error }
}

function deadlineOf({ deadlineUs }: TaskInfo, nowUs: number): Why[] {
  return deadlineUs === undefined ? [] : [{ reason: 'deadline', deadlineUs, leftMs: since(nowUs, deadlineUs) }]
}

function running(info: TaskInfo, nowUs: number): Why {
  const { worker = '', attempt, fence = 0, leaseUntilUs = 0, cancelled, replaced } = info
  return { reason: 'running', worker, attempt, fence, leaseUntilUs, leaseLeftMs: since(nowUs, leaseUntilUs), cancelled, replaced }
}

function done({ finished, worker }: TaskInfo): Why {
  return finished ? { reason: 'done', how: finished.how, finishedUs: finished.atUs, worker } : { reason: 'unknown' }
}

function runningOf(tasks: TaskInfo[]): Running[] {
  return tasks.slice(0, contract.WHY_RUNNING).map(({ id, worker = '', leaseUntilUs = 0 }) => ({ id, worker, leaseUntilUs }))
}

async function leasedTasks(asked: Asked, most: number): Promise<TaskInfo[]> {
  const members = await readMembers(asked, 'ZRANGE', queueKey(asked.queue, contract.LEASES_KEY), '0', String(most - 1))
  const tasks = await tasksOf(asked, members.map((member) => member.subarray(contract.LEASES_HEAD_BYTES).toString()))
  return tasks.filter((task) => task.state === 'leased')
}

/** Tasks of one priority that can be claimed now or later, and the first of each key. */
async function waitingTasks(asked: Asked, priority: number): Promise<TaskInfo[]> {
  const members = await readMembers(asked, 'ZRANGE', queueKey(asked.queue, contract.WAITING_KEY + priority), '0', String(contract.WHY_LISTED - 1))
  return tasksOf(asked, members.map((member) => member.subarray(contract.WAITING_HEAD_BYTES).toString()))
}

async function readMembers({ store }: Asked, command: string, key: string, ...args: string[]): Promise<Buffer[]> {
  const list = new List(await store.read(command, key, ...args))
  const members: Buffer[] = []
  while (!list.isEmpty) members.push(list.bytes())
  return members
}

async function tasksOf({ queues, queue }: Asked, ids: string[]): Promise<TaskInfo[]> {
  const tasks: TaskInfo[] = []
  for (let at = 0; at < ids.length; at += contract.BATCH.max) {
    tasks.push(...(await queues.tasks(queue, ids.slice(at, at + contract.BATCH.max))).tasks)
  }
  return tasks
}

/** Time from one moment to a later one, in whole ms. 0 if it is not later. */
function since(fromUs: number, toUs: number): number {
  return Math.max(0, Math.floor((toUs - fromUs) / 1_000))
}
