'use strict'

/**
 * Rushgate's locks, queues and sales for Node, through the function library on the server.
 *
 * Install the library with `rushgate functions install`. docs/protocol.md describes the functions.
 *
 *     const gate = await Rushgate.connect(new Redis(6379))
 *     await gate.withLock('order:42', { wait: 3 }, async (held) => console.log('fenced with', held.fence))
 *
 * A `Redis.Cluster` works too. Its `maxRedirections` limits how long a call waits for a failover.
 */

const { randomBytes } = require('node:crypto')
const { hostname } = require('node:os')

const PROTOCOL = 1
// Polling intervals in seconds, in case a notification was lost. A waiter for a lock polls after as many seconds as its
// position in the wait queue, up to this limit.
const LOCK_SLEEP_MAX = 10
const QUEUE_SLEEP_MAX = 5

const LOCK = ['lock', 'line', 'waiters', 'ends']
const QUEUE = [
  'meta', 'records', 'runs', 'newcomers', 'leases', 'listeners',
  ...Array.from({ length: 10 }, (_, priority) => `waiting${priority}`), 'blocked', 'held', 'groups', 'key_leases', 'starts',
  'starts_until', 'dead', 'dead_ids', 'done', 'done_ids', 'by_age', 'by_deadline', 'dependents', 'dependencies',
  'results', 'result_ids', 'unsettled', 'unsettled_ids', 'events', 'watchers'
]
const SALE = ['row', 'returned', 'withdrawn', 'buyers', 'holds', 'deadlines', 'events', 'failed']

const RECORD = { arrival: 6, turn: 1, revision: 6, first: 7, due: 7, priority: 1, max: 2 }
const RUN = { claim: 7, turn: 1, attempts: 2, flags: 1, until: 7, due: 7 }
const HOLD = { state: 1, deadline: 7, event: 6, generation: 4, lines: 2, buyer: 1 }
const RANGE = { sku: 2, first: 4, last: 4 }

// Content types that are encoded in one byte.
const SHORT_TYPES = { 0: 'application/octet-stream', 255: 'application/json' }
const KIND = /^[A-Za-z0-9._:/-]{1,80}$/
const KIND_PARAMETER = /^kind="?([A-Za-z0-9._:/-]{1,80})"?$/i
const TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const ON_DUPLICATE = { keep: 0, replace: 1, earliest: 2, debounce: 3 }
// Meanings of the numbers that the functions return.
const ACQUIRED = [null, 'granted', 'in_line', 'busy']
const RELEASED = ['lost', 'released']
const ENQUEUED = [null, 'added', 'kept', 'replaced', 'full', 'dropped', 'displaced', 'recent', 'refused']
const COMPLETED = ['stale', 'done', 'requeued']
const RETRIED = ['stale', 'scheduled', 'dead', 'requeued', 'cancelled']
const RESERVED = [null, 'reserved', 'replayed', 'key_reused', 'sold_out', 'all_held', 'limit_reached', 'not_open',
  'ended', 'no_such_sku', 'halted']
const DECIDED = ['unknown', 'done', 'pending', 'refused', 'halted']
const STATES = ['held', 'confirming', 'cancelling', 'expiring', 'confirmed', 'cancelled', 'expired', 'rejected']

/** The lock was lost. Another client may have held it since. */
class Lost extends Error {}

/** A client of one server or Cluster, based on ioredis, which retries a call after a lost connection. */
class Rushgate {
  static async connect (redis) {
    const gate = new Rushgate(redis)
    const [protocol, version] = await gate.call('version', [], [])
    if (protocol !== PROTOCOL) {
      throw new Error(`Rushgate ${version} on the server speaks protocol ${protocol}, this file ${PROTOCOL}`)
    }
    return gate
  }

  constructor (redis) {
    this.redis = redis
    this.client = randomBytes(8)
    this.numbers = 0n
  }

  /** Calls a function of the library. */
  async call (name, keys, args) {
    for (;;) {
      const answer = await this.redis.callBuffer('FCALL', `rushgate_1_${name}`, keys.length, ...keys, ...args)
        .catch((refusal) => {
          if (!refusal.message.includes('Function not found')) throw refusal
          const what = `the server has no function rushgate_1_${name}: run \`rushgate functions install\``
          throw new Error(what, { cause: refusal })
        })
      if (!is(answer, 'AGAIN')) return answer
    }
  }

  /** Eight bytes, unique within this client. */
  number () {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(++this.numbers)
    return bytes
  }

  /** Host, process and label, shown to operators. */
  owner (label = 'node') {
    const host = Buffer.from(hostname()).subarray(0, 60)
    const head = Buffer.alloc(5)
    head.writeUInt32BE(process.pid)
    head[4] = host.length
    return Buffer.concat([head, host, Buffer.from(label)])
  }

  /** Subscription for notifications from the server. */
  inbox () {
    this.opening ??= Inbox.open(this.redis)
    return this.opening
  }

  /**
   * Runs `work` under a lock. `work` receives `null` if the lock was not acquired within the wait. An error of `work` is
   * rethrown; if the release then fails too, that failure becomes its `cause`.
   */
  async withLock (name, options, work) {
    const held = await this.acquire(name, options)
    let result
    try {
      result = await work(held)
    } catch (fault) {
      await held?.release().catch((why) => {
        if (fault instanceof Error) fault.cause ??= why
      })
      throw fault
    }
    await held?.release()
    return result
  }

  /** Acquires a lock; `null` if it is not free within `wait` seconds. Waiters are served in FIFO order. */
  async acquire (name, { lease = 15, wait = 0 } = {}) {
    const keys = under(`rg:{l:${nfc(name)}}:`, LOCK)
    const token = Buffer.concat([this.client, this.number()])
    const inbox = wait > 0 ? await this.inbox() : null
    const until = now() + wait
    for (;;) {
      const left = Math.max(until - now(), 0)
      const heard = inbox?.listen()
      const [[outcome, number, checkAfter]] = await this.call('lock_acquire', keys, [
        token, us(lease), us(left), 0, inbox?.id ?? Buffer.alloc(8), this.owner()
      ])
      const acquired = meaning(ACQUIRED, outcome)
      if (acquired === 'granted') return new Held(this, keys, token, number)
      if (left <= 0) break
      const place = acquired === 'in_line' ? number : 1
      await within(heard, Math.min(left, Math.max(checkAfter / 1e6, 0.001), place, LOCK_SLEEP_MAX))
    }
    if (wait > 0) await this.call('lock_leave', keys, [token])
    return null
  }

  /** A queue by name. */
  async queue (name) {
    const queue = new Queue(this, nfc(name))
    await this.redis.zadd('rg:queues', 0, queue.name)
    return queue
  }

  /** An existing sale. */
  async sale (id) {
    const sale = new Sale(this, nfc(id))
    await sale.read()
    return sale
  }

  /** Closes the connection for notifications. */
  async close () {
    if (this.opening) (await this.opening).close()
  }
}

/** A held lock. The protected resource should reject a lower `fence` than it has seen. */
class Held {
  constructor (gate, keys, token, fence) {
    Object.assign(this, { gate, keys, token, fence })
  }

  /** Extends the lease to `lease` seconds from now. */
  async extend (lease) {
    const grant = await this.gate.call('lock_extend', this.keys, [this.token, us(lease)])
    if (grant.length === 0) throw new Lost()
  }

  /** Releases the lock. */
  async release () {
    const [outcome] = await this.gate.call('lock_release', this.keys, [this.token])
    if (meaning(RELEASED, outcome) === 'lost') throw new Lost()
  }
}

/** A queue with at most one live task per ID. */
class Queue {
  constructor (gate, name) {
    const client = gate.client.toString('hex')
    Object.assign(this, { gate, name })
    this.keys = under(`rg:{q:${name}}:`, QUEUE)
    this.answers = under(`rg:{q:${name}}:`, [`young:${client}`, `old:${client}`])
    this.unique = under(`rg:{q:${name}}:`, ['unique'])
  }

  /**
   * Enqueues tasks. Returns false if the queue is full.
   *
   * - `payload`: a Buffer is stored as is; anything else becomes JSON.
   * - `delay`, `uniqueFor`, `maxWait`: seconds.
   * - `uniqueFor`: uniqueness window. The ID is not enqueued again within it, even once its task is done.
   * - `maxWait`: required by 'debounce'; the longest time that later calls can postpone the run.
   * - `key`: tasks with the same key form a FIFO group, and groups take turns.
   * - `kind`: selects the worker's handler.
   */
  async enqueue (ids, { payload = Buffer.alloc(0), delay = 0, priority = 5, onDuplicate = 'keep', maxWait = null, maxAttempts = 20, uniqueFor = 0, key = null, kind = null } = {}) {
    if ((onDuplicate === 'debounce') !== (maxWait !== null)) {
      throw new Error("'debounce' needs maxWait, and nothing else takes it")
    }
    const body = bodyOf(payload, kind)
    const period = uniqueFor ? `!${us(uniqueFor)}` : ''
    const terms = `+${us(Math.max(delay, 0))} ${priority} ${ON_DUPLICATE[onDuplicate]} ${us(maxWait ?? 0)} ${maxAttempts}${period}${key === null ? '' : ` ${nfc(key)}`}`
    // The first task is preceded by the request's op, the others by an empty string.
    const [, ...tasks] = [ids].flat().flatMap((id) => ['', nfc(id), terms, body])
    const [answers] = await this.once('enqueue', tasks, this.unique)
    // Each answer is an outcome and one value (revision, capacity, time or reason); some have a task ID as well.
    const outcomes = []
    for (let at = 0; at < answers.length; at += ['displaced', 'refused'].includes(outcomes.at(-1)) ? 3 : 2) {
      outcomes.push(meaning(ENQUEUED, answers[at]))
    }
    return !outcomes.includes('full') && !outcomes.includes('refused')
  }

  /** Claims due tasks under a lease. Waits up to `wait` seconds for the first one. */
  async claim ({ n = 1, lease = 30, wait = 0 } = {}) {
    const until = now() + wait
    for (;;) {
      const [[nextDue, wakes, ...rows]] = await this.once('claim', [n, us(lease), `node:${process.pid}`])
      const left = until - now()
      if (rows.length > 0 || left <= 0) return chunks(rows, 3).map((row) => new Task(this, ...row))
      await this.sleep(wakes, Math.min(left, nextDue.length === 0 ? QUEUE_SLEEP_MAX : nextDue / 1e6, QUEUE_SLEEP_MAX))
    }
  }

  /** Sleeps until a task is enqueued, for at most `seconds`. Returns at once if one was enqueued since the claim. */
  async sleep (wakes, seconds) {
    const inbox = await this.gate.inbox()
    const heard = inbox.listen()
    const [missed] = await this.gate.call('queue_listen', this.keys, [inbox.id.toString('hex'), wakes])
    if (missed === 0) await within(heard, Math.max(seconds, 0.001))
  }

  /** An idempotent call: repeating it has no further effect and returns the same answer. */
  once (verb, args, more = []) {
    return this.gate.call(`queue_${verb}`, [...this.keys, ...this.answers, ...more], [this.gate.number(), ...args])
  }
}

/**
 * A claimed task. Complete or retry it before its lease expires; otherwise another worker gets it. `payload` is decoded by
 * `contentType`: JSON is parsed, text is a string, and everything else is a Buffer.
 */
class Task {
  constructor (queue, id, record, run) {
    const { attempts, claim, turn } = unpack(run, RUN)
    Object.assign(this, { queue, id: id.toString(), attempt: attempts, claim: claim + turn })
    const { priority, rest } = unpack(record, RECORD)
    // A deadline is flagged by 64 in the priority and stored before the rest. A key is flagged by 16 and stored before the
    // body.
    const body = priority >= 64 ? rest.subarray(7) : rest
    const key = priority % 64 >= 16 ? body.subarray(1, 1 + body[0]) : null
    this.key = key && key.toString()
    Object.assign(this, contentOf(key === null ? body : body.subarray(1 + key.length)))
  }

  /** Completes the task. False if its lease was lost: another worker has it or has completed it. */
  async complete () {
    const [[outcome]] = await this.queue.once('complete', [this.id, this.claim])
    return meaning(COMPLETED, outcome) !== 'stale'
  }

  /** Fails the attempt: the task is due again after `delay` seconds, or becomes a dead letter. */
  async retry (error, { delay = 0, giveUp = false } = {}) {
    const [outcome] = await this.queue.once('retry', [this.id, this.claim, us(delay), Number(giveUp), error])
    return meaning(RETRIED, outcome) !== 'stale'
  }
}

/** A sale of numbered units. Create it with `rushgate sale create`, and audit it with `rushgate sale audit`. */
class Sale {
  constructor (gate, id) {
    Object.assign(this, { gate, id })
  }

  /**
   * Reserves units, all or nothing. `cart` maps each SKU to a quantity. Repeating the call with the same key returns the same
   * answer. `halted` means that the sale is halted: retry at `retryAtUs`.
   */
  async reserve (buyer, key, cart, { same = false } = {}) {
    const names = this.spec.skus.map(([name]) => name)
    const lines = Object.entries(cart).flatMap(([sku, quantity]) => [names.indexOf(nfc(sku)), quantity])
    const [number, first, second] = await this.call('reserve_by_key', [nfc(key), nfc(buyer), Number(same), ...lines])
    const outcome = meaning(RESERVED, number)
    switch (outcome) {
      case 'reserved':
      case 'replayed':
        return { outcome, reservation: second.toString('hex'), ...this.hold(first) }
      case 'halted':
        return { outcome, retryAtUs: first }
      default:
        return { outcome }
    }
  }

  /** Confirms a hold after payment. `refused`: refund the payment. `halted`: not decided yet, retry. */
  confirm (reservation) {
    return this.decide('confirm', reservation)
  }

  /** Cancels a hold. `halted`: not decided yet, retry. */
  cancel (reservation) {
    return this.decide('cancel_hold', reservation)
  }

  async decide (verb, reservation) {
    const [[outcome]] = await this.call(verb, [Buffer.from(reservation, 'hex')])
    return meaning(DECIDED, outcome)
  }

  async call (verb, args) {
    for (;;) {
      const { secret } = this
      const answer = await this.gate.call(`sale_${verb}`, this.keys, [secret, ...args])
      if (!is(answer, 'MISSING')) return answer
      await this.read()
      if (secret.equals(this.secret)) throw new Error(`the keys of the sale \`${this.id}\` are missing`)
    }
  }

  async read () {
    const home = await this.gate.redis.get(`rg:{s:${this.id}}:home`)
    if (home === null) throw new Error(`there is no sale \`${this.id}\``)
    this.spec = JSON.parse(home)
    this.secret = Buffer.from(this.spec.secret, 'hex')
    this.keys = under(`rg:{s:${this.id}}:`, SALE)
  }

  hold (packed) {
    const { state, deadline, buyer, lines, rest } = unpack(packed, HOLD)
    const ranges = chunks(rest.subarray(buyer + lines), 10).map((range) => unpack(range, RANGE))
    return {
      units: ranges.flatMap(({ sku, first, last }) => {
        return Array.from({ length: last - first + 1 }, (_, at) => [this.spec.skus[sku][0], first + at])
      }),
      state: meaning(STATES, state),
      deadlineUs: deadline
    }
  }
}

/** A subscription. A message is only a hint, so its content is ignored; the state is on the server. */
class Inbox {
  static async open (redis) {
    const inbox = new Inbox(redis.duplicate())
    inbox.subscriber.on('message', () => inbox.tell())
    inbox.subscriber.on('ready', () => inbox.tell())
    await inbox.subscriber.subscribe(`rg:in:${inbox.id.toString('hex')}`)
    return inbox
  }

  constructor (subscriber) {
    this.id = randomBytes(8)
    this.subscriber = subscriber
    this.waiting = []
  }

  /** Resolves at the next message. Call it before the request, so that no notification is missed. */
  listen () {
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  /** Wakes all waiters; each asks the server again. */
  tell () {
    for (const resolve of this.waiting.splice(0)) resolve()
  }

  close () {
    this.subscriber.disconnect()
  }
}

/** Waits for a notification, for at most `seconds`. */
async function within (news, seconds) {
  let timer
  const time = new Promise((resolve) => { timer = setTimeout(resolve, seconds * 1000) })
  await Promise.race([news, time])
  clearTimeout(timer)
}

function is (answer, status) {
  return Buffer.isBuffer(answer) && answer.toString() === status
}

/** Meaning of a number. An unknown number belongs to a later protocol, so it is an error. */
function meaning (names, number) {
  if (!names[number]) throw new Error(`the server answered ${number}, which protocol ${PROTOCOL} does not know`)
  return names[number]
}

/** A name in Normalization Form C. The server compares bytes, and Rust programs normalize names too. */
function nfc (name) {
  return String(name).normalize('NFC')
}

/** Keys with a common prefix. */
function under (beginning, endings) {
  return endings.map((ending) => beginning + ending)
}

/** Seconds as whole microseconds. */
function us (seconds) {
  return Math.round(seconds * 1e6)
}

/** Monotonic time in seconds, to measure waits. */
function now () {
  return performance.now() / 1000
}

/** Splits an array into parts of `size` items. */
function chunks (all, size) {
  return Array.from({ length: all.length / size }, (_, at) => all.slice(at * size, (at + 1) * size))
}

/** Reads big-endian integers of the given sizes in bytes, below 2^53. The remaining bytes are the `rest`. */
function unpack (packed, sizes) {
  const fields = {}
  let at = 0
  for (const [name, size] of Object.entries(sizes)) {
    fields[name] = packed.subarray(at, at + size).reduce((number, byte) => number * 256 + byte, 0)
    at += size
  }
  return { ...fields, rest: packed.subarray(at) }
}

/** Encodes the content type, with the kind as a parameter, followed by the payload. */
function bodyOf (payload, kind) {
  const isBuffer = Buffer.isBuffer(payload)
  const content = isBuffer ? payload : Buffer.from(JSON.stringify(payload))
  if (kind === null) return Buffer.concat([Buffer.of(isBuffer ? 0 : 255), content])
  if (!KIND.test(kind)) throw new Error(`the kind \`${kind}\` is not 1 to 80 of A-Z, a-z, 0-9 and . _ : / -`)
  const type = Buffer.from(`application/${isBuffer ? 'octet-stream' : 'json'};kind="${kind}"`)
  return Buffer.concat([Buffer.of(type.length), type, content])
}

/** Decodes a body into the content type without the kind, the kind, and the payload. */
function contentOf (body) {
  const length = body[0]
  const start = length in SHORT_TYPES ? 1 : 1 + length
  const type = SHORT_TYPES[length] ?? body.subarray(1, start).toString()
  const [essence, ...parameters] = type.match(/(?:[^;"]|"[^"]*")+/g)
  const kindOf = (parameter) => KIND_PARAMETER.exec(parameter)?.[1] ?? null
  return {
    contentType: [essence, ...parameters.filter((parameter) => kindOf(parameter) === null)].join(';'),
    kind: parameters.map(kindOf).find((kind) => kind !== null) ?? null,
    payload: decoded(essence.toLowerCase(), body.subarray(start))
  }
}

/** Decodes a payload by its media type. Invalid content stays a Buffer. */
function decoded (essence, content) {
  try {
    if (essence === 'application/json' || essence.endsWith('+json')) return JSON.parse(TEXT.decode(content))
    return essence.startsWith('text/') ? TEXT.decode(content) : content
  } catch {
    return content
  }
}

module.exports = { Rushgate, Lost }
