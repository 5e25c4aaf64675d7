/** Packed records of queues, as docs/protocol/keys.md lays them out. */

import { interval } from '../check.js'
import * as contract from '../contract.js'
import { decode, type Encoded } from '../payload.js'
import type { DeadLetter, Ended, Finished, Owner, PastRun, Payload, Progress, Recurrence, Schedule, Task, TaskInfo, Waited, WorkerInfo } from '../types.js'
import { meaning, Packed } from './packed.js'
import { upcoming } from './recurrence.js'

/** The content types that a body has as a single byte. */
const SHORT_TYPES: [number, string][] = [[contract.BYTES_CODE, contract.BYTES_TYPE], [contract.JSON_CODE, contract.JSON_TYPE]]
const KIND_PARAMETER = /^kind="?([A-Za-z0-9._:/-]{1,80})"?$/i
const TRACE_PARAMETER = /^traceparent="?([0-9a-f-]{55})"?$/i

/** Encodes content type and payload. The two common types are a single byte. */
export function writeBody({ bytes, contentType, kind, traceparent }: Encoded): Buffer {
  let type = contentType
  if (kind !== undefined) type += `;kind="${kind}"`
  if (traceparent !== undefined) type += `;traceparent=${traceparent}`
  const short = SHORT_TYPES.find(([, one]) => one === type)
  if (short !== undefined) return Buffer.concat([Buffer.of(short[0]), bytes])
  const typeBytes = Buffer.from(type, 'latin1')
  return Buffer.concat([Buffer.of(typeBytes.length), typeBytes, bytes])
}

/** Decodes content type and payload: the rest of a record. */
export function readBody(packed: Packed): Payload {
  const byte = packed.number(1)
  const short = SHORT_TYPES.find(([code]) => code === byte)?.[1]
  if (short !== undefined) return decode({ bytes: packed.rest, contentType: short, kind: undefined, traceparent: undefined })
  const type = packed.take(byte).toString('latin1')
  const [essence = '', ...parameters] = type.match(/(?:[^;"]|"[^"]*")+/g) ?? []
  const find = (pattern: RegExp) => parameters.map((text) => pattern.exec(text.trim())?.[1]).find((found) => found !== undefined)
  const others = parameters.filter((text) => !KIND_PARAMETER.test(text.trim()) && !TRACE_PARAMETER.test(text.trim()))
  return decode({
    bytes: packed.rest,
    contentType: [essence, ...others].join(';'),
    kind: find(KIND_PARAMETER),
    traceparent: find(TRACE_PARAMETER),
  })
}

/** What a record and a run have beside the task. */
interface Live {
  waits: boolean
  leased: boolean
  cancelled: boolean
  replaced: boolean
  leaseUntilUs: number
  worker: string
  progress?: Progress
  past: PastRun[]
  error?: string
}

/** A record and a run, decoded. */
interface Row extends Task, Live {}

function readRecord(id: string, bytes: Buffer): { task: Omit<Task, 'ticket'>; waits: boolean } {
  const packed = new Packed(bytes)
  const record = packed.fields(contract.RECORD_LAYOUT)
  const has = (flag: number) => (record.priority & flag) !== 0
  const dueUs = has(contract.PRIORITY_AT_ONCE) ? record.first : packed.number(contract.DUE_BYTES)
  const deadlineUs = has(contract.PRIORITY_DEADLINE) ? packed.number(contract.DEADLINE_BYTES) : undefined
  const key = has(contract.PRIORITY_KEYED) ? packed.sized(contract.KEY_LENGTH_BYTES).toString() : undefined
  const task = {
    id,
    dueUs,
    revision: record.revision + record.turn,
    ...readBody(packed),
    priority: record.priority % contract.PRIORITY_KEYED,
    attempt: 0,
    maxAttempts: record.maxAttempts,
    key,
    deadlineUs,
  }
  return { task, waits: has(contract.PRIORITY_WAITS) }
}

/** Decodes a task. An empty run belongs to a task that was never claimed. */
export function readRow(id: string, record: Buffer, run: Buffer): Row {
  const { task, live } = readLive(id, record, run)
  return { ...task, ...live }
}

function readLive(id: string, record: Buffer, run: Buffer): { task: Task; live: Live } {
  const { task, waits } = readRecord(id, record)
  if (run.length === 0) {
    const live = { waits, leased: false, cancelled: false, replaced: false, leaseUntilUs: 0, worker: '', past: [] }
    return { task: { ...task, ticket: ticketOf(task.revision, 0, task.dueUs, id) }, live }
  }
  const packed = new Packed(run)
  const { claim, turn, attempts, flags, leaseUntil, due } = packed.fields(contract.RUN_LAYOUT)
  const worker = packed.sized(contract.WORKER_LENGTH_BYTES).toString()
  const has = (flag: number) => (flags & flag) !== 0
  const leased = has(contract.RUN_LEASED)
  const fence = leased ? claim + turn : undefined
  // Claims are numbered by the time.
  const started = { ...task, ticket: ticketOf(task.revision, fence ?? 0, due, id), dueUs: due, fence, claimedUs: fence, attempt: attempts }
  const live = {
    waits,
    leased,
    cancelled: has(contract.RUN_CANCELED),
    replaced: has(contract.RUN_REPLACED),
    leaseUntilUs: leaseUntil,
    worker,
    progress: has(contract.RUN_PROGRESS) ? readProgress(packed) : undefined,
    past: has(contract.RUN_PAST) ? readPast(packed) : [],
    error: has(contract.RUN_FAILED) ? packed.rest.toString() : undefined,
  }
  return { task: started, live }
}

function readProgress(packed: Packed): Progress {
  const length = packed.number(contract.NOTE_LENGTH_BYTES)
  const percent = packed.number(contract.PERCENT_BYTES)
  return { percent: percent === contract.NO_PERCENT ? undefined : percent, note: packed.take(length).toString() }
}

function readPast(packed: Packed): PastRun[] {
  const past = new Packed(packed.sized(contract.PAST_LENGTH_BYTES))
  const runs: PastRun[] = []
  while (past.rest.length > 0) {
    const { attempt, began, ended, how } = past.fields(contract.PAST_LAYOUT)
    const worker = past.sized(contract.WORKER_LENGTH_BYTES).toString()
    const error = past.sized(contract.PAST_ERROR_LENGTH_BYTES).toString()
    runs.push({ attempt, beganUs: began, endedUs: ended, how: meaning(contract.PAST_END, how), worker, error })
  }
  return runs
}

/** A claimed task. */
export function readTask(id: string, record: Buffer, run: Buffer): Task {
  return readLive(id, record, run).task
}

/** A live task and its state. `moment`: when its key lets it run, undefined if its key blocks it. */
export function readInfo(row: Row, moment: number | undefined, nowUs: number): TaskInfo {
  const { leased, leaseUntilUs, worker, progress, ...task } = row
  if (leased) return { ...task, state: 'leased', leaseUntilUs, worker, progress }
  const notBeforeUs = moment === undefined || task.key !== undefined ? moment : task.dueUs
  if (notBeforeUs === undefined) return { ...task, state: 'blocked' }
  return { ...task, state: notBeforeUs <= nowUs ? 'ready' : 'scheduled', notBeforeUs }
}

/** A finished task that is kept. */
export function readFinished(id: string, bytes: Buffer): TaskInfo {
  const packed = new Packed(bytes)
  const { finished: at, how } = packed.fields(contract.FINISHED_LAYOUT)
  const result = packed.sized(contract.RESULT_LENGTH_BYTES)
  const run = packed.sized(contract.RUN_LENGTH_BYTES)
  const { leased, leaseUntilUs, worker, progress, ...task } = readRow(id, packed.rest, run)
  const finished = {
    atUs: at,
    how: meaning(contract.TASK_END, how) as Finished['how'],
    result: result.length === 0 ? undefined : readBody(new Packed(result)),
  }
  const ended = { state: 'done' as const, waits: false, replaced: false, cancelled: false }
  return { ...task, ...ended, worker: leased ? worker : undefined, finished }
}

/** A finished task that another one waited for. */
export function readWaited(id: string, bytes: Buffer): Waited {
  const packed = new Packed(bytes)
  const { finished: at, how } = packed.fields(contract.FINISHED_LAYOUT)
  const end = meaning(contract.TASK_END, how)
  if (end === 'dead') return { id, end, atUs: at, error: packed.rest.toString() }
  return { id, end, atUs: at, result: packed.rest.length === 0 ? undefined : readBody(packed) }
}

/** A dead letter. */
export function readDead(id: string, bytes: Buffer): DeadLetter {
  const packed = new Packed(bytes)
  const { died, attempts, maxAttempts, priority } = packed.fields(contract.DEAD_LETTER_LAYOUT)
  const has = (flag: number) => (priority & flag) !== 0
  const error = packed.sized(contract.DEAD_LETTER_ERROR_LENGTH_BYTES).toString()
  const past = has(contract.PRIORITY_PAST) ? readPast(packed) : []
  const key = has(contract.PRIORITY_KEYED) ? packed.sized(contract.KEY_LENGTH_BYTES).toString() : undefined
  const level = priority % contract.PRIORITY_KEYED
  return { id, ...readBody(packed), priority: level, attempts, maxAttempts, error, diedUs: died, key, past }
}

/** How a dead letter shows as the end of a task. */
export function deadEnd({ error, attempts, diedUs }: DeadLetter): Ended {
  return { outcome: 'dead', error, attempts, diedUs }
}

/** A schedule. A recurrence that this package cannot read is an empty cron pattern. */
export function readSchedule(id: string, bytes: Buffer): Schedule {
  const packed = new Packed(bytes)
  const { revision, paused, next, previous, priority, maxAttempts } = packed.fields(contract.SCHEDULE_LAYOUT)
  const recurrence = readRecurrence(packed.sized(contract.RECURRENCE_LENGTH_BYTES).toString())
  return {
    id,
    recurrence,
    ...readBody(packed),
    priority,
    maxAttempts,
    nextUs: next || undefined,
    upcomingUs: paused === 1 ? [] : upcoming(recurrence, next || undefined),
    previousUs: previous || undefined,
    paused: paused === 1,
    revision,
  }
}

export function readWorker(id: string, bytes: Buffer): WorkerInfo {
  const packed = new Packed(bytes)
  const { since, seen, leaseUntil, mode, concurrency, running } = packed.fields(contract.WORKER_LAYOUT)
  const name = packed.sized(contract.NAME_LENGTH_BYTES).toString()
  const version = packed.rest.toString()
  return {
    id, name, version, concurrency, running, sinceUs: since, seenUs: seen, leaseUntilUs: leaseUntil, mode: meaning(contract.WORKER_MODE, mode),
  }
}

function readRecurrence(text: string): Recurrence {
  try {
    const { cron, zone, every_ms: everyMs, missed } = JSON.parse(text)
    if (missed !== undefined && !(contract.MISSED as readonly string[]).includes(missed)) return { cron: '' }
    if (everyMs !== undefined) return { everyMs: interval(everyMs), missed }
    const isText = typeof cron === 'string' && (zone === undefined || typeof zone === 'string')
    if (isText) return { cron, ...(zone !== undefined && { zone }), missed }
  } catch {
    // Not JSON, or not an interval.
  }
  return { cron: '' }
}

/** Identity of a holder or waiter: the rest of a record. */
export function readOwner(packed: Packed): Owner {
  const { pid } = packed.fields(contract.OWNER_LAYOUT)
  const host = packed.sized(contract.HOST_LENGTH_BYTES).toString()
  return { host, pid, label: packed.rest.toString() }
}

/** A ticket as text, in the form of the HTTP API. */
function ticketOf(revision: number, fence: number, dueUs: number, id: string): string {
  return `${revision.toString(16)}.${fence.toString(16)}.${dueUs.toString(16)}.${id}`
}

/** ID and claim number of a ticket. */
export function readTicket(ticket: string): { id: string; revision: number; claim: number } | undefined {
  const parts = /^([0-9a-f]+)\.([0-9a-f]+)\.[0-9a-f]+\.(.+)$/.exec(ticket)
  return parts ? { id: parts[3]!, revision: parseInt(parts[1]!, 16), claim: parseInt(parts[2]!, 16) } : undefined
}
