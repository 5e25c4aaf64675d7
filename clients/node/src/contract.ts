/**
 * Constants of the Redis protocol and of the HTTP API: pure data, described in docs/protocol.md and docs/http.md.
 */

/** Number of the protocol that this package speaks. */
export const PROTOCOL = 1

/** Prefix of the names of the library's functions. */
export const FUNCTION_PREFIX = `rushgate_${PROTOCOL}_`

/** Beginning of every key. The hash tag follows. */
export const KEY_PREFIX = 'rg:'

/** Prefix of the channel of an inbox. 16 hexadecimal digits follow. */
export const INBOX_PREFIX = 'rg:in:'

/** Keys that list the names of queues and sales. */
export const DIRECTORIES = { queues: 'rg:queues', sales: 'rg:sales' } as const

/** First letter of a hash tag, by what the keys belong to. */
export const TAGS = { lock: 'l', queue: 'q', sale: 's' } as const

/** Endings of the keys of each group, in the order in which a Cluster gets them. */
export const KEYS = {
  lock: ['lock', 'line', 'waiters', 'ends'],
  queue: [
    'meta', 'records', 'runs', 'newcomers', 'leases', 'listeners', 'at_once', 'waiting0', 'waiting1', 'waiting2', 'waiting3',
    'waiting4', 'waiting5', 'waiting6', 'waiting7', 'waiting8', 'waiting9', 'blocked', 'held', 'groups', 'key_leases',
    'starts', 'starts_until', 'dead', 'dead_ids', 'done', 'done_ids', 'by_age', 'by_deadline', 'dependents',
    'dependencies', 'results', 'result_ids', 'unsettled', 'unsettled_ids', 'events', 'watchers',
  ],
  replays: ['young', 'old'],
  schedules: ['schedules', 'schedule_ids', 'schedule_moments'],
  unique: ['unique'],
  workers: ['workers', 'worker_ids', 'worker_ends'],
  attempts: ['attempts', 'attempts_of', 'attempt_servers'],
  home: ['home'],
  sale: ['row', 'returned', 'withdrawn', 'buyers', 'holds', 'deadlines', 'events', 'failed'],
} as const

/** Keys of a queue that `why` reads directly. The priority follows `waiting`. */
export const READABLE_KEYS = { leases: 'leases', waiting: 'waiting' } as const

/** Lengths of identifiers, in bytes. */
export const ID_BYTES = { client: 8, op: 8, token: 16, inbox: 8, secret: 16, reservation: 16 } as const

/** Fixed parts of the packed records: names and lengths in bytes, most significant byte first. */
export const LAYOUTS = {
  record: [['arrival', 6], ['placeTurn', 1], ['revision', 6], ['first', 7], ['due', 7], ['priority', 1], ['maxAttempts', 2]],
  run: [['claim', 7], ['turn', 1], ['attempts', 2], ['flags', 1], ['leaseUntil', 7], ['due', 7]],
  past: [['attempt', 2], ['began', 7], ['ended', 7], ['how', 1]],
  dead: [['died', 7], ['attempts', 2], ['maxAttempts', 2], ['priority', 1]],
  finished: [['at', 7], ['how', 1]],
  schedule: [['revision', 6], ['paused', 1], ['next', 7], ['previous', 7], ['priority', 1], ['maxAttempts', 2]],
  worker: [['since', 7], ['seen', 7], ['leaseUntil', 7], ['mode', 1], ['concurrency', 3], ['running', 3]],
  // The 8 bytes of an inbox and an owner follow these two.
  holder: [['since', 7]],
  waiter: [['ticket', 7], ['lease', 7], ['since', 7], ['until', 7]],
  owner: [['pid', 4]],
  hold: [['state', 1], ['deadline', 7], ['event', 6], ['generation', 4], ['linesBytes', 2], ['buyerBytes', 1]],
  units: [['sku', 2], ['first', 4], ['last', 4]],
  sku: [
    ['total', 4], ['next', 4], ['ahead', 4], ['returned', 4], ['held', 4], ['confirmed', 4], ['withdrawn', 4], ['perBuyer', 2],
  ],
} as const

/** Lengths of single fields in packed records, in bytes. */
export const FIELD_BYTES = {
  deadline: 7, keyLength: 1, workerLength: 1, noteLength: 1, percent: 1, pastLength: 2, pastTextLength: 1, errorLength: 2,
  resultLength: 4, runLength: 4, recurrenceLength: 2, workerNameLength: 1, hostLength: 1,
} as const

/** Percentage of a progress that is unknown. */
export const NO_PERCENT = 255

/** Values that are added to the priority in a record, and to the priority of a dead letter. */
export const PRIORITY_FLAGS = { keyed: 16, past: 32, deadline: 64, waits: 128 } as const

/** Bits of the flags of a run. */
export const RUN_FLAGS = { leased: 1, cancelled: 2, failed: 4, replaced: 8, past: 64, progress: 128 } as const

/** First byte of a body whose content type is one of these. Otherwise it is the length of the content type. */
export const SHORT_CONTENT_TYPES = { 0: 'application/octet-stream', 255: 'application/json' } as const

/** Policies for missed occurrences of a schedule. */
export const MISSED: readonly string[] = ['skip', 'once', 'all']

/** What an operator may ask of a worker. The position is the number. */
export const WORKER_MODES = ['work', 'quiet', 'stop'] as const

/** Meaning of the numbers in answers. The position is the number. */
export const OUTCOMES = {
  acquired: [undefined, 'granted', 'waiting', 'busy'],
  released: ['not_held', 'released'],
  enqueued: [undefined, 'added', 'kept', 'replaced', 'full', 'dropped', 'displaced', 'recent', 'refused'],
  unmet: ['unknown', 'not_open', 'taken'],
  completed: ['stale', 'done', 'requeued'],
  retried: ['stale', 'scheduled', 'dead', 'requeued', 'cancelled'],
  taskReleased: ['stale', 'waiting', 'cancelled'],
  extended: ['lost', 'extended', 'cancelled'],
  cancelled: ['not_found', 'removed', 'marked'],
  dequeued: ['stale', 'removed', 'leased'],
  rescheduled: ['not_found', 'rescheduled', 'leased', 'too_late'],
  closed: ['not_found', 'closed', 'not_open'],
  scheduled: [undefined, 'added', 'changed', 'unchanged', 'full', 'stale'],
  created: ['exists', 'created'],
  status: ['created', 'open', 'ended'],
  reserved: [
    undefined, 'reserved', 'replayed', 'key_reused', 'sold_out', 'all_held', 'limit_reached', 'not_open', 'ended', 'no_such_sku',
    'halted',
  ],
  restored: [
    undefined, 'restored', 'known', undefined, 'none_left', 'none_left', 'limit_reached', undefined, undefined, undefined,
    'halted', 'expired',
  ],
  decided: ['unknown', 'done', 'pending', 'refused', 'halted'],
  finish: ['done', 'discarded', 'cancelled', 'dropped'],
  taskEnd: ['done', 'discarded', 'cancelled', 'dropped', 'popped', 'deleted', 'dead'],
  pastEnd: ['failed', 'lost', 'snoozed'],
  ifDead: ['wait', 'fail', 'run'],
  onDuplicate: ['keep', 'replace', 'earliest', 'debounce'],
  overflow: ['refuse', 'drop_new', 'drop_oldest'],
  holdState: ['held', 'confirming', 'cancelling', 'expiring', 'confirmed', 'cancelled', 'expired', 'rejected'],
  haltReason: ['lost_writes', 'operator', 'rebuilding'],
} as const

/** States of a hold that do not change any more. */
export const FINAL_HOLD_STATES = ['confirmed', 'cancelled', 'expired', 'rejected'] as const

/** First byte of a notification, by what it says. */
export const NOTIFICATIONS = { granted: 'A', revoked: 'R', tasks: 'Q', finished: 'T', events: 'E', sale: 'S' } as const

/** Statuses that a function answers instead of a value. */
export const STATUSES = { again: 'AGAIN', missing: 'MISSING' } as const

/** Receipts: prefix of the text, and what precedes the content under the signature. */
export const RECEIPT = { prefix: 'rg1.', domain: 'rushgate receipt 1\0' } as const

/** Limits of arguments. Durations are in µs where the name ends in `Us`; lengths are in bytes where it ends in `Bytes`. */
export const LIMITS = {
  nameBytes: 200,
  labelBytes: 200,
  scheduleIdBytes: 170,
  recurrenceBytes: 4_096,
  kindBytes: 80,
  idempotencyKeyBytes: 128,
  payloadBytes: 1_048_576,
  resultBytes: 65_536,
  errorBytes: 2_000,
  lease: { min: 10_000, max: 86_400_000_000 },
  waitUs: 86_400_000_000,
  delayUs: 34_560_000_000_000,
  windowUs: { min: 1_000, max: 34_560_000_000_000 },
  priority: { min: 0, max: 9 },
  attempts: { min: 1, max: 1_000 },
  percent: { min: 0, max: 100 },
  batch: 1_000,
  after: 1_000,
  waitedPage: 100,
  momentUs: 9_007_199_254_740_991,
  intervalMs: { min: 1_000, max: 34_560_000_000 },
  schedulesPage: 10_000, workersPage: 10_000,
  concurrency: { min: 1, max: 1_000_000 },
  rate: { min: 1, max: 10_000 },
  retained: { min: 1, max: 1_000_000 },
  events: { min: 1, max: 100_000 },
  holdUs: { min: 10_000, max: 2_592_000_000_000 },
  skus: { min: 1, max: 1_000 },
  units: { min: 1, max: 10_000_000 },
  perBuyer: { min: 1, max: 10_000 },
  lines: { min: 1, max: 32 },
  quantity: { min: 1, max: 1_000 },
  expire: 1_000,
  unixTimes: { min: 0, max: 9_007_199_254_740_991 },
} as const

/** First and last of each range of characters that a name may not contain because they are invisible. */
export const INVISIBLE = [
  [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180b, 0x180f], [0x200b, 0x200f],
  [0x202a, 0x202e], [0x2060, 0x206f], [0x3164, 0x3164], [0xfdd0, 0xfdef], [0xfe00, 0xfe0f], [0xfeff, 0xfeff],
  [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0x1bca0, 0x1bca3], [0x1d173, 0x1d17a], [0xe0000, 0xe0fff],
] as const

/** Longest sleeps of a waiter, in ms, in case a notification was lost. `lockPosition` is multiplied by the position. */
export const SLEEPS = { lockPosition: 1_000, lock: 10_000, claim: 5_000, result: 5_000, resultMax: 40_000, sale: 5_000 } as const

/** Default values of settings. Durations are in ms. */
export const DEFAULTS = {
  lease: 30_000,
  priority: 5,
  maxAttempts: 20,
  hold: 300_000,
  perBuyer: 1,
  timeout: 5_000,
  retryFor: 10_000,
  concurrency: 16,
  grace: 10_000,
  backoff: { baseMs: 1_000, factor: 2, maxMs: 3_600_000, jitter: true },
} as const

/** Names and limits of the HTTP API. */
export const HTTP = {
  longestWaitS: 60,
  problemType: 'application/problem+json',
  replayedHeader: 'idempotency-replayed',
} as const

/** How many tasks, leases and scheduled tasks `why` reads. */
export const WHY = { ahead: 1_000, listed: 10_000, running: 10, tries: 5 } as const
