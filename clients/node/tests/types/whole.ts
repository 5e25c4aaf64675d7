/** Uses the whole API under `strict`. It is compiled, not run. */

import { Redis } from 'ioredis'
import { createClient } from 'redis'
import {
  ClaimLostError, type DeadLetter, type Enqueued, GiveUp, type HeldLock, type Hold, InvalidError, type Job, LockLostError, Rushgate,
  RushgateError, Snooze, type TaskInfo, type Why, type WorkerReport,
} from 'rushgate'
import { BATCH, LOCK_KEYS, PROTOCOL } from 'rushgate/contract'

export async function connections(): Promise<void> {
  await using one = await Rushgate.connect('redis://127.0.0.1', { timeoutMs: 2_000, retryForMs: 5_000, tls: { ca: '' } })
  await using two = await Rushgate.connect(new Redis())
  await using three = await Rushgate.connect(createClient(), { library: 'redis' })
  await using four = await Rushgate.connect('https://127.0.0.1', { token: 'secret' })
  for (const client of [one, two, three, four]) await locks(client)
}

export async function locks(client: Rushgate): Promise<void> {
  const lock = client.lock('door', { leaseMs: 10_000, renew: true, label: 'sweep', barging: false })
  const held: HeldLock | null = await lock.acquire({ waitMs: 1_000, signal: new AbortController().signal })
  if (held) {
    const { fence, token, signal, isHeld, leaseLeftMs }: { fence: number; token: string; signal: AbortSignal; isHeld: boolean; leaseLeftMs: number } = held
    signal.addEventListener('abort', () => signal.reason instanceof LockLostError)
    await held.extend(5_000)
    const released: boolean = await held.release()
    void [fence, token, isHeld, leaseLeftMs, released]
  }
  const result: string = await lock.run(async (grant) => String(grant.fence), { waitMs: 1_000 })
  const { holder, waiters } = await lock.state()
  void [result, holder?.host, waiters[0]?.position, (await lock.forceRelease())?.fence]
  await using _ = await lock.acquire()
}

export async function queues(client: Rushgate): Promise<void> {
  const queue = client.queue('mail')
  const outcome: Enqueued = await queue.enqueue({
    id: 'a', payload: { to: 'ann' }, kind: 'welcome', contentType: 'application/json', traceparent: '00-0-0-00', delayMs: 1, priority: 1,
    key: 'tenant', maxAttempts: 3, onDuplicate: 'debounce', maxWaitMs: 100, deadlineAfterMs: 1_000, uniqueForMs: 1_000, after: ['b'],
    ifDead: 'run', heldOpen: true,
  })
  if (outcome.outcome === 'refused') void [outcome.task, outcome.why]
  await queue.enqueueAll([{ id: 'b', dueUs: 1, deadlineUs: 2 }, { id: 'c', partOf: 'a' }])
  for (const task of await queue.claim({ n: 2, leaseMs: 1_000, waitMs: 1_000, worker: 'w', signal: AbortSignal.timeout(1) })) {
    const payload: { to: string } = task.payload
    void [payload, task.id, task.fence, task.attempt, task.key, task.kind, task.ticket, task.undecodable]
    if (await task.extend({ leaseMs: 10, progress: { percent: 1, note: 'half' } }) === 'lost') continue
    await task.complete({ sent: true })
    await task.discard()
    await task.release({ delayMs: 1 })
    const retried = await task.retry(new Error('x'), { delayMs: 1, giveUp: false })
    if (retried.outcome === 'scheduled') void retried.dueUs
  }
  const info: TaskInfo | null = await queue.task('a')
  const ended = await queue.waitFor('a', { waitMs: 1 })
  if (ended?.outcome === 'finished') void ended.task.finished?.result?.payload
  const reasons: Why[] = await queue.why('a')
  for (const why of reasons) if (why.reason === 'in_line') void why.first
  const letters: DeadLetter[] = await queue.dead({ after: 'a', limit: 10 })
  await queue.requeueDead(letters.map(({ id }) => id))
  const deleted: number = await queue.deleteDead('all')
  await queue.saveSchedule('nightly', { cron: '0 3 * * *', zone: 'Europe/Berlin', missed: 'skip', payload: 1, kind: 'k', priority: 1, maxAttempts: 1, paused: false })
  await queue.saveSchedule('often', { everyMs: 60_000 })
  const [schedule] = await queue.schedules()
  void [info?.state, deleted, schedule?.recurrence.cron, await queue.deleteSchedule('often'), await queue.cancel('a')]
  const closed = await queue.closeBatch('a')
  if (closed.outcome === 'closed') void closed.left
  await queue.limit({ bound: 1, overflow: 'drop_new', rate: { n: 1, perMs: 1 }, perKey: { fifo: true }, retention: { ageMs: 1, count: 1 }, events: 1 })
  const [first] = await queue.top(1)
  if (first) void (await queue.dequeue(first.ticket) || (await queue.pop(1))[0]?.id)
  const cleared: number | null = await queue.clearUnique('a')
  for (const { id, mode } of await queue.workers()) if (mode === 'work') await queue.setWorker(id, 'quiet')
  void cleared
  await queue.pause()
  await queue.resume()
  void [(await queue.stats()).limits.retention?.count, (await queue.waited('a'))[0]?.end]
}

export async function workers(client: Rushgate): Promise<void> {
  const worker = client.worker('mail', {
    handlers: { '*': () => undefined }, concurrency: 4, leaseMs: 1_000, timeoutMs: 1_000, graceMs: 1_000, label: 'w', backoff: { baseMs: 1, jitter: false },
  })
  worker.handle('welcome', async (payload: { to: string }, job: Job) => {
    job.progress({ percent: 50 })
    for await (const { id, result } of job.results()) void [id, result?.payload]
    if (job.signal.aborted && job.signal.reason instanceof ClaimLostError) return undefined
    if (payload.to === '') throw new GiveUp('no address')
    if (job.attempt === 1) throw new Snooze(1_000)
    return { sent: true }
  }, { timeoutMs: 5_000, backoff: { factor: 3, maxMs: 10 } })
  const report: WorkerReport = await worker.run({ signal: AbortSignal.timeout(1) })
  worker.stop()
  void [report.done, worker.report.claimed]
}

export async function sales(client: Rushgate): Promise<void> {
  const created: 'created' | 'exists' = await client.createSale({ id: 'phones', skus: [{ sku: 'phone', units: 10, perBuyer: 1 }], holdMs: 60_000, ledger: false })
  const sale = client.sale('phones')
  await sale.open()
  const reserved = await sale.reserve({ buyer: 'ann', key: 'click-1', lines: [{ sku: 'phone', quantity: 1 }], sameNumber: true })
  if (reserved.outcome === 'reserved' || reserved.outcome === 'replayed') {
    const hold: Hold = reserved.hold
    const decision = await sale.confirm(hold.id, { waitMs: 1_000 })
    if (decision.outcome === 'refused') void decision.state
    void [hold.units[0]?.unit, (await sale.restore(hold.receipt!)).outcome, await sale.waitFinal(hold.id), await sale.cancel(hold.id)]
  } else if (reserved.outcome === 'all_held') {
    void reserved.nextExpiryUs
  }
  void [created, (await sale.state()).skus[0]?.free, await sale.reservation('0'), await sale.end(), PROTOCOL, BATCH, LOCK_KEYS]
}

export function errors(error: unknown): string | undefined {
  if (error instanceof InvalidError) return error.field
  return error instanceof RushgateError && error.retryable ? error.code : undefined
}
