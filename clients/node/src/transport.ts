/** What the classes need of a transport: one method per verb. Arguments are checked already. */

import type { Encoded } from './payload.js'
import type {
  Cancelled, Closed, Completed, DeadLetter, Decision, Ended, Enqueued, Hold, Holder, LockState, NewSale, NewTask, Progress, QueueLimits,
  QueueStats, Recurrence, Rescheduled, Reservation, Reserved, Restored, Retried, SaleState, Schedule, Scheduled, Task, TaskExtended, TaskInfo,
  TaskReleased, Waited, Why, WorkerInfo, WorkerMode,
} from './types.js'

/** A granted lock. */
export interface Grant {
  token: string
  fence: number
  /** Monotonic time in ms until which the lock is certainly held. */
  heldUntil: number
}

/** Why a lock was not granted. */
export interface Busy {
  retryAfterMs?: number
}

export interface AcquireRequest {
  leaseMs: number
  waitMs: number
  label: string
  barging: boolean
  signal?: AbortSignal
}

export interface Locks {
  acquire(name: string, request: AcquireRequest): Promise<Grant | Busy>
  /** Nothing if the token does not hold the lock. */
  extend(name: string, token: string, leaseMs: number): Promise<Grant | undefined>
  release(name: string, token: string): Promise<boolean>
  /** Calls `lost` when an operator force-releases the lock, if the transport notices. Returns how to stop that. */
  watch(name: string, token: string, lost: () => void): () => void
  show(name: string): Promise<LockState>
  forceRelease(name: string): Promise<Holder | undefined>
}

/** A task to enqueue, with its content encoded. */
export type EncodedTask = Omit<NewTask, 'payload' | 'contentType' | 'kind' | 'traceparent'> & { content: Encoded }

export interface ClaimRequest {
  n: number
  leaseMs: number
  waitMs: number
  worker: string
  signal?: AbortSignal
}

export interface Completion {
  ticket: string
  result?: Encoded
  discarded: boolean
}

export interface Failure {
  ticket: string
  delayMs: number
  error: string
  giveUp: boolean
}

export interface Release {
  ticket: string
  delayMs: number
}

export interface Heartbeat {
  ticket: string
  progress?: Progress
}

export interface EncodedSchedule {
  recurrence: Recurrence
  content: Encoded
  priority: number
  maxAttempts: number
  paused?: boolean
}

/** What a worker says of itself. */
export interface Announcement {
  id: string
  name: string
  version: string
  concurrency: number
  running: number
  leaseMs: number
}

/** When a task is due: at a moment, or after a delay. */
export type Due = { dueUs: number } | { delayMs: number }

export interface Part {
  after: string
  limit: number
}

export interface Queues {
  enqueue(queue: string, tasks: readonly EncodedTask[]): Promise<Enqueued[]>
  claim(queue: string, request: ClaimRequest): Promise<Task[]>
  complete(queue: string, completions: readonly Completion[]): Promise<Completed[]>
  retry(queue: string, failures: readonly Failure[]): Promise<Retried[]>
  release(queue: string, releases: readonly Release[]): Promise<TaskReleased[]>
  extend(queue: string, heartbeats: readonly Heartbeat[], leaseMs: number): Promise<TaskExtended[]>
  cancel(queue: string, id: string): Promise<Cancelled>
  top(queue: string, n: number): Promise<Task[]>
  pop(queue: string, n: number): Promise<Task[]>
  /** Whether the task was removed. */
  dequeue(queue: string, ticket: string): Promise<boolean>
  reschedule(queue: string, id: string, due: Due): Promise<Rescheduled>
  task(queue: string, id: string): Promise<TaskInfo | undefined>
  /** Nothing if the task is live after the wait. */
  waitFor(queue: string, id: string, waitMs: number, signal?: AbortSignal): Promise<Ended | undefined>
  why(queue: string, id: string): Promise<Why[]>
  closeBatch(queue: string, id: string): Promise<Closed>
  /** IDs of up to `n` live tasks that wait for a task. */
  dependents(queue: string, id: string, n: number): Promise<string[]>
  /** Finished tasks that a live task waited for, by ID. */
  waited(queue: string, id: string, part: Part): Promise<Waited[]>
  /** When the window would have ended, in µs. Nothing if there was none. */
  clearUnique(queue: string, id: string): Promise<number | undefined>
  stats(queue: string): Promise<QueueStats>
  limit(queue: string, limits: QueueLimits): Promise<void>
  pause(queue: string, paused: boolean): Promise<void>
  dead(queue: string, part: Part): Promise<DeadLetter[]>
  requeueDead(queue: string, ids: readonly string[] | 'all'): Promise<{ requeued: number; kept: number }>
  deleteDead(queue: string, ids: readonly string[] | 'all'): Promise<number>
  saveSchedule(queue: string, id: string, schedule: EncodedSchedule): Promise<Scheduled>
  schedules(queue: string, part: Part): Promise<Schedule[]>
  deleteSchedule(queue: string, id: string): Promise<boolean>
  /**
   * Fires due schedules. Returns the time in ms until the next look; nothing if the server fires schedules. `reported`:
   * schedules that cannot be read, each of which causes one warning.
   */
  fireSchedules(queue: string, reported: Set<string>): Promise<number | undefined>
  /** Announces a worker. Returns what an operator asked of it. */
  announce(queue: string, worker: Announcement): Promise<WorkerMode>
  endWorker(queue: string, id: string): Promise<void>
  workers(queue: string, part: Part): Promise<WorkerInfo[]>
  /** `false` if the worker is not listed. */
  setWorker(queue: string, id: string, mode: WorkerMode): Promise<boolean>
}

export interface Sales {
  create(sale: NewSale): Promise<'created' | 'exists'>
  open(id: string): Promise<SaleState['status']>
  end(id: string): Promise<SaleState['status']>
  show(id: string): Promise<SaleState>
  reserve(id: string, reservation: Reservation): Promise<Reserved>
  confirm(id: string, reservation: string): Promise<Decision>
  cancel(id: string, reservation: string): Promise<Decision>
  reservation(id: string, reservation: string): Promise<Hold | undefined>
  /** The reservation when it is final, or after the wait. */
  waitFinal(id: string, reservation: string, waitMs: number, signal?: AbortSignal): Promise<Hold | undefined>
  restore(id: string, receipt: string): Promise<Restored>
}

export interface Transport {
  readonly locks: Locks
  readonly queues: Queues
  readonly sales: Sales
  /** Host and process, as shown to operators. */
  readonly host: string
  close(): Promise<void>
}
