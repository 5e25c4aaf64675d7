/** Data that both transports return. Times that end in `Us` are µs since 1970 on the store's clock. */

/** Which part of a list: names greater than `after`, at most `limit` of them. */
export interface Page {
  after?: string
  limit?: number
}

// ── Locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** How to acquire a lock. */
export interface AcquireOptions {
  /** Longest wait in ms: 0 to 24 h. Default: 0, which returns at once. */
  waitMs?: number
  /** Ends the wait, and leaves the wait queue. */
  signal?: AbortSignal
}

/** Settings of a lock. */
export interface LockOptions {
  /** Lease in ms: 10 to 86,400,000. Default: 30,000. If the holder dies, the lock is free after this time. */
  leaseMs?: number
  /** Whether to renew the lease after each third of it, until it is released. Default: true. */
  renew?: boolean
  /** What the holder does, as shown to operators: at most 200 bytes. Default: empty. */
  label?: string
  /** Whether to take a free lock ahead of the wait queue. Default: false. */
  barging?: boolean
}

/** Identity of a holder or waiter. */
export interface Owner {
  host: string
  pid: number
  label: string
}

/** A holder. */
export interface Holder extends Owner {
  fence: number
  sinceUs: number
  leaseUntilUs: number
}

/** A waiter. The one at position 1 is next. */
export interface Waiter extends Owner {
  position: number
  sinceUs: number
  waitUntilUs: number
}

/** A lock and its wait queue. */
export interface LockState {
  name: string
  holder?: Holder
  waiters: Waiter[]
}

// ── Queues ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Content: bytes or a value that becomes JSON. */
export interface Content {
  /** A `Uint8Array` is stored as it is. Anything else becomes JSON, unless `contentType` is another type. At most 1 MiB. */
  payload?: unknown
  /** Media type. Default: `application/json`, or `application/octet-stream` for bytes. */
  contentType?: string
  /** Kind of work, by which a worker selects the handler: 1 to 80 ASCII letters, digits and `. _ : / -`. */
  kind?: string
  /** W3C `traceparent` of the span that enqueues the task. */
  traceparent?: string
}

/** A task to enqueue. */
export interface NewTask extends Content {
  /** ID of the task. A queue has at most one live task per ID. */
  id: string
  /** Delay in ms before the task is due: 0 to 400 days. Default: 0. */
  delayMs?: number
  /** When the task is due, instead of `delayMs`. */
  dueUs?: number
  /** Deadline in ms from now, later than the due time. A task not started by then becomes a dead letter. */
  deadlineAfterMs?: number
  /** Deadline, instead of `deadlineAfterMs`. */
  deadlineUs?: number
  /** Priority: 0 (first) to 9 (last). Default: 5. */
  priority?: number
  /** What happens if a live task has the ID. Default: `keep`. */
  onDuplicate?: 'keep' | 'replace' | 'earliest' | 'debounce'
  /** With `debounce`, which requires it: the longest time in ms that a burst may postpone the run. */
  maxWaitMs?: number
  /** Maximum number of attempts before the task becomes a dead letter: 1 to 1,000. Default: 20. */
  maxAttempts?: number
  /** How long the ID stays unique, in ms from now, even after the task is done: 1 ms to 400 days. */
  uniqueForMs?: number
  /** Key that tasks share, such as a tenant. Tasks of a key run in order; keys take turns. */
  key?: string
  /** IDs of tasks in this queue that must finish first: at most 1,000. */
  after?: readonly string[]
  /** What happens if a task in `after` becomes a dead letter. Default: `wait`. */
  ifDead?: 'wait' | 'fail' | 'run'
  /** Whether the task is the callback of an open batch. Default: false. */
  heldOpen?: boolean
  /** ID of the open batch that the task is a member of. */
  partOf?: string
}

/** Outcome of an enqueue. */
export type Enqueued =
  | { outcome: 'added' | 'kept' | 'replaced'; revision: number }
  | { outcome: 'displaced'; revision: number; dropped: string }
  | { outcome: 'full' | 'dropped'; bound: number }
  | { outcome: 'recent'; untilUs: number }
  | { outcome: 'refused'; task: string; why: 'unknown' | 'not_open' | 'taken' }

/** Content as it was read. */
export interface Payload {
  /** JSON is parsed, text is a string, anything else is a `Buffer`. */
  payload: unknown
  /** Media type without the kind and the trace. */
  contentType: string
  kind?: string
  traceparent?: string
  /** True if the content does not match its media type. `payload` is then a `Buffer`. */
  undecodable?: boolean
}

/** A task that was read or claimed. */
export interface Task extends Payload {
  id: string
  /** Proof of this claim. */
  ticket: string
  dueUs: number
  revision: number
  /** Fencing token of the claim. Absent if the task was only read. */
  fence?: number
  /** When it was claimed, exact to the duration of the claiming call. Absent if the task was only read. */
  claimedUs?: number
  priority: number
  /** Number of claims so far, this one included. */
  attempt: number
  maxAttempts: number
  key?: string
  deadlineUs?: number
}

/** Progress of a task. */
export interface Progress {
  /** Percentage: 0 to 100. */
  percent?: number
  /** What the task is doing: at most 200 bytes. */
  note?: string
}

/** A run without success. */
export interface PastRun {
  attempt: number
  beganUs: number
  endedUs: number
  how: 'failed' | 'lost' | 'snoozed'
  worker: string
  error: string
}

/** How a retained task ended. */
export interface Finished {
  atUs: number
  how: 'done' | 'discarded' | 'cancelled' | 'dropped'
  result?: Payload
}

/** A task and its state. */
export interface TaskInfo extends Task {
  state: 'scheduled' | 'ready' | 'leased' | 'blocked' | 'done'
  /** Whether it waits for other tasks. */
  waits: boolean
  notBeforeUs?: number
  leaseUntilUs?: number
  worker?: string
  progress?: Progress
  /** Whether a pending replacement waits for the end of the run. */
  replaced: boolean
  /** Whether a client asked to cancel it. */
  cancelled: boolean
  /** Error of the latest failed attempt. */
  error?: string
  past: PastRun[]
  finished?: Finished
}

/** A finished task that another one waited for. */
export interface Waited {
  id: string
  end: 'done' | 'discarded' | 'cancelled' | 'dropped' | 'popped' | 'deleted' | 'dead'
  atUs: number
  result?: Payload
  /** Why it failed, if it is dead. */
  error?: string
}

/** How a task ended: finished and kept, a dead letter, or gone without a trace. */
export type Ended =
  | { outcome: 'finished'; task: TaskInfo }
  | { outcome: 'dead'; error: string; attempts: number; diedUs: number }
  | { outcome: 'gone' }

/** A dead letter. */
export interface DeadLetter extends Payload {
  id: string
  priority: number
  attempts: number
  maxAttempts: number
  error: string
  diedUs: number
  key?: string
  past: PastRun[]
}

/** Sliding-window rate limit: at most `n` tasks in any period of `perMs`. */
export interface Rate {
  /** 1 to 10,000. */
  n: number
  /** 1 ms to 400 days. */
  perMs: number
}

/** Limits of a queue. A limit that is absent does not apply. */
export interface QueueLimits {
  /** Capacity: the most live tasks. */
  bound?: number
  /** What happens to a new task when the queue is full. Default: `refuse`. */
  overflow?: 'refuse' | 'drop_new' | 'drop_oldest'
  /** The most tasks that run at a time: 1 to 1,000,000. */
  concurrency?: number
  rate?: Rate
  /** The same for the tasks of each key. With `fifo`, one task of a key runs at a time, and a failed task keeps its place. */
  perKey?: { concurrency?: number; rate?: Rate; fifo?: boolean }
  /** How long finished tasks are kept: at most `count` (1 to 1,000,000) for at most `ageMs`. Default: not at all. */
  retention?: { ageMs: number; count: number }
  /** How many of the latest events are kept: 1 to 100,000. Default: none. */
  events?: number
}

/** Task counts and limits of a queue. */
export interface QueueStats {
  queue: string
  ready: number
  scheduled: number
  leased: number
  blocked: number
  dead: number
  done: number
  dropped: number
  /** How long the oldest ready task has been ready, in ms. */
  lagMs: number
  rateUntilUs?: number
  lastClaimUs?: number
  paused: boolean
  limits: QueueLimits
}

/** When a schedule fires: a cron pattern, or an interval. */
export type Recurrence =
  | {
    /** `minute hour day month weekday`, with seconds in front if there are six fields. */
    cron: string
    /** IANA time zone. Default: UTC. */
    zone?: string
    everyMs?: undefined
    missed?: Missed
  }
  | {
    /** Interval in ms: 1 s to 400 days. */
    everyMs: number
    cron?: undefined
    zone?: undefined
    missed?: Missed
  }

/** What happens to missed occurrences. Default: `once`. */
export type Missed = 'skip' | 'once' | 'all'

/** A schedule to save. */
export type NewSchedule = Recurrence & Content & {
  /** Priority of its tasks: 0 to 9. Default: 5. */
  priority?: number
  /** Maximum number of attempts of its tasks: 1 to 1,000. Default: 20. */
  maxAttempts?: number
  /** Whether it is paused. Default: unchanged; a new schedule is active. */
  paused?: boolean
}

/** Outcome of saving a schedule. */
export type Scheduled = { outcome: 'added' | 'changed' | 'unchanged'; revision: number } | { outcome: 'full' }

/** A schedule. */
export interface Schedule extends Payload {
  id: string
  recurrence: Recurrence
  priority: number
  maxAttempts: number
  nextUs?: number
  /** Its next occurrences: at most five, and none while the schedule is paused. */
  upcomingUs: number[]
  previousUs?: number
  paused: boolean
  revision: number
}

/** What a worker does: claims tasks, claims nothing, or ends. */
export type WorkerMode = 'work' | 'quiet' | 'stop'

/** A worker of a queue, busy or idle. */
export interface WorkerInfo {
  id: string
  /** Name under which it claims. */
  name: string
  /** Program and version. */
  version: string
  concurrency: number
  /** How many tasks of the queue it ran at its latest announcement. */
  running: number
  /** Its first announcement. */
  sinceUs: number
  /** Its latest announcement. */
  seenUs: number
  leaseUntilUs: number
  mode: WorkerMode
}

/** A running task. */
export interface Running {
  id: string
  worker: string
  leaseUntilUs: number
}

/** Reason why a task is not running. */
export type Why =
  | {
    reason: 'running'
    worker: string
    attempt: number
    fence: number
    leaseUntilUs: number
    leaseLeftMs: number
    cancelled: boolean
    replaced: boolean
  }
  | { reason: 'paused' }
  | { reason: 'not_due'; dueUs: number; waitMs: number; attempts: number; maxAttempts: number; error?: string }
  | { reason: 'queue_busy'; concurrency: number; running: Running[] }
  | { reason: 'rate_limited'; key?: string; untilUs: number; waitMs: number }
  | { reason: 'key_busy'; key: string; running: Running[] }
  | { reason: 'in_line'; key: string; first?: string }
  | {
    reason: 'waits_for'
    left: number
    dead: number
    first: { id: string; error?: string }[]
    ifDead: 'wait' | 'fail' | 'run'
    open: boolean
  }
  | { reason: 'waiting'; ahead?: number; leased: number; dueForMs: number; lastClaimUs?: number }
  | { reason: 'deadline'; deadlineUs: number; leftMs: number }
  | { reason: 'dead'; attempts: number; maxAttempts: number; error: string; diedUs: number }
  | { reason: 'done'; how: Finished['how']; finishedUs: number; worker?: string }
  | { reason: 'unique'; untilUs: number; leftMs: number }
  | { reason: 'unknown' }

export type Completed = 'done' | 'requeued' | 'stale'
export type Retried =
  | { outcome: 'scheduled'; dueUs: number }
  | { outcome: 'dead' | 'requeued' | 'cancelled' | 'stale' }
export type TaskReleased = 'waiting' | 'cancelled' | 'stale'
export type TaskExtended = 'extended' | 'cancelled' | 'lost'
export type Cancelled = 'removed' | 'marked' | 'not_found'
/** Outcome of rescheduling a task. `too_late`: the new due time is not before the deadline of the task. */
export type Rescheduled =
  | { outcome: 'rescheduled'; dueUs: number }
  | { outcome: 'too_late'; deadlineUs: number }
  | { outcome: 'leased' | 'not_found' }
export type Closed = { outcome: 'closed'; left: number } | { outcome: 'not_open' | 'not_found' }

// ── Sales ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A sale to create. */
export interface NewSale {
  id: string
  /** 1 to 1,000 SKUs. `units`: 1 to 10,000,000. `perBuyer`: purchase limit, 1 to 10,000. Default: 1. */
  skus: readonly { sku: string; units: number; perBuyer?: number }[]
  /** Hold duration in ms: 10 ms to 30 days. Default: 300,000. */
  holdMs?: number
  opensAtUs?: number
  closesAtUs?: number
  /** Whether a ledger records the orders. Default: false over Redis, and whether the server has a ledger over HTTP. */
  ledger?: boolean
}

/** State of a reservation. */
export type HoldState =
  'held' | 'confirming' | 'cancelling' | 'expiring' | 'confirmed' | 'cancelled' | 'expired' | 'rejected'

/** A reservation. */
export interface Hold {
  id: string
  buyer: string
  /** Its units, by line and then by number. */
  units: { sku: string; unit: number }[]
  state: HoldState
  /** Deadline for the confirmation. */
  deadlineUs: number
  seq: number
  generation: number
  /** Signed receipt, which restores the units if the store loses the reservation. */
  receipt?: string
}

/** A line of a cart. `quantity`: 1 to 1,000. Default: 1. */
export interface Line {
  sku: string
  quantity?: number
}

/** What to reserve. */
export interface Reservation {
  buyer: string
  /** Idempotency key of this attempt to buy: reuse it to retry. 1 to 128 visible ASCII characters without braces. */
  key: string
  /** 1 to 32 lines, each SKU once. The buyer gets all of them or none. */
  lines: readonly Line[]
  /** Whether every line must get the same unit number. Default: false. */
  sameNumber?: boolean
  /** Admission token of the waiting room, for a buyer over HTTP. */
  pass?: string
}

/** Outcome of a reservation. */
export type Reserved =
  | { outcome: 'reserved' | 'replayed'; hold: Hold }
  | { outcome: 'key_reused' | 'ended' }
  | { outcome: 'sold_out'; sku: string; free: number }
  | { outcome: 'all_held'; sku: string; free: number; nextExpiryUs?: number }
  | { outcome: 'limit_reached'; sku: string; limit: number; has: number }
  | { outcome: 'not_open'; opensAtUs?: number }
  | { outcome: 'halted'; retryAtUs: number }

/** Outcome of a confirmation or a cancellation. `refused`: decided otherwise before, so refund a payment. */
export type Decision =
  | { outcome: 'done' | 'pending'; hold: Hold }
  | { outcome: 'refused'; state: HoldState }
  | { outcome: 'unknown' | 'halted' }

/** Outcome of restoring a reservation from its receipt. */
export type Restored =
  | { outcome: 'restored' | 'known'; hold: Hold }
  | { outcome: 'expired' | 'not_honoured' }
  | { outcome: 'none_left'; sku: string; free: number }
  | { outcome: 'limit_reached'; sku: string; limit: number; has: number }
  | { outcome: 'halted'; retryAtUs?: number }

/** Stock of a SKU: `total = free + held + confirmed + withdrawn`. */
export interface SkuState {
  sku: string
  total: number
  free: number
  held: number
  confirmed: number
  withdrawn: number
  perBuyer: number
}

/** A sale and its stock. */
export interface SaleState {
  id: string
  holdMs: number
  opensAtUs?: number
  closesAtUs?: number
  ledger: boolean
  status: 'created' | 'open' | 'ended'
  generation: number
  /** Number of its latest event. */
  seq: number
  skus: SkuState[]
  nextExpiryUs?: number
  halted?: { reason: 'lost_writes' | 'operator' | 'rebuilding'; sinceUs: number }
  receiptsUntilUs?: number
  /** How far the ledger has followed the sale, if it has one. */
  orders?: { through: number; behindSinceUs?: number; failed: number; workerUntilUs?: number }
  nowUs: number
}
