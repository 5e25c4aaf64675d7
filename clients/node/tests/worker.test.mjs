import assert from 'node:assert/strict'
import { test } from 'node:test'

import { CanceledError, ClaimLostError, Discard, GiveUp, InvalidError, RetryAfter, Snooze, TimeoutError, Worker } from 'rushgate'

import { Proxy } from './proxy.mjs'
import { aborted, connect, gate, isSingle, target, unique, until } from './target.mjs'

const client = await connect()

async function fresh(kept = true) {
  const queue = client.queue(unique('queue'))
  if (kept) await queue.limit({ retention: { ageMs: 3_600_000, count: 1_000 } })
  return queue
}

/** Runs a worker until `work` has ended. Returns what `work` returned, and the report. */
async function during(worker, work) {
  const running = worker.run()
  try {
    const result = await work()
    worker.stop()
    return [result, await running]
  } finally {
    worker.stop()
    await running
  }
}

const quick = { baseMs: 0, jitter: false }

test('each kind has its handler, and * gets the others', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'a', kind: 'mail', payload: 1 }, { id: 'b', kind: 'bill', payload: 2 }, { id: 'c', payload: 3 }])
  const seen = []
  const worker = client.worker(queue.name, { handlers: { '*': (payload, job) => { seen.push(['*', payload, job.kind]) } }, concurrency: 1 })
  worker.handle('mail', async (payload, job) => { seen.push(['mail', payload, job.id]) })
  const [, report] = await during(worker, () => queue.waitFor('c', { waitMs: 20_000 }))
  assert.deepEqual(seen, [['mail', 1, 'a'], ['*', 2, 'bill'], ['*', 3, undefined]])
  assert.deepEqual([report.claimed, report.done], [3, 3])
})

test('what a handler returns is the result of its task', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'a', payload: 20 }, { id: 'large' }])
  const worker = client.worker(queue.name, { handlers: { '*': (payload) => payload === 20 ? { double: 40 } : 'x'.repeat(70_000) } })
  const [[a, large]] = await during(worker, () => Promise.all(['a', 'large'].map((id) => queue.waitFor(id, { waitMs: 20_000 }))))
  assert.deepEqual(a.task.finished.result.payload, { double: 40 })
  assert.equal(large.outcome, 'dead')
  assert.match(large.error, /at most 65536/)
})

test('a failed task is retried with its trace, and dies after its last attempt', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', maxAttempts: 3 })
  const attempts = []
  const worker = client.worker(queue.name, {
    handlers: { '*': (_, job) => { attempts.push(job.attempt); throw new RangeError(`try ${job.attempt}`, { cause: 'the weather' }) } },
    backoff: quick,
  })
  const [ended, report] = await during(worker, () => queue.waitFor('a', { waitMs: 20_000 }))
  assert.deepEqual(attempts, [1, 2, 3])
  assert.match(ended.error, /^RangeError: try 3\n {4}at [^]*worker\.test\.mjs[^]*Caused by: the weather$/)
  assert.deepEqual([report.retried, report.dead], [2, 1])
})

test('a retry backs off exponentially up to its limit', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const worker = client.worker(queue.name, { handlers: { '*': () => { throw new Error('x') } }, backoff: { baseMs: 60_000, jitter: false } })
  const [task] = await during(worker, () => until(async () => {
    const task = await queue.task('a')
    return task?.state === 'scheduled' && task
  }))
  const delay = task.dueUs - task.past[0].endedUs
  assert.ok(delay > 59_000_000 && delay < 61_000_000, String(delay))
})

test('a handler can discard, give up, postpone and delay', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'discard' }, { id: 'give-up' }, { id: 'snooze' }, { id: 'delay' }])
  const handler = (_, { id }) => {
    if (id === 'discard') throw new Discard('nothing to do')
    if (id === 'give-up') throw new GiveUp('no such address')
    if (id === 'snooze') throw new Snooze(60_000)
    throw new RetryAfter(120_000, 'busy')
  }
  const worker = client.worker(queue.name, { handlers: { '*': handler } })
  const [, report] = await during(worker, () => until(() => Object.values(worker.report).reduce((sum, n) => sum + n, 0) === 8))
  assert.deepEqual([report.discarded, report.dead, report.released, report.retried], [1, 1, 1, 1])
  assert.equal((await queue.waitFor('discard')).task.finished.how, 'discarded')
  const [snoozed, delayed] = [await queue.task('snooze'), await queue.task('delay')]
  assert.deepEqual([snoozed.attempt, delayed.attempt], [0, 1])
  assert.ok(delayed.dueUs - snoozed.dueUs > 50_000_000)
})

test('a handler that exceeds its timeout is notified, and the attempt has failed', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', maxAttempts: 1 })
  let reason
  const worker = client.worker(queue.name).handle('*', async (_, job) => { reason = await aborted(job.signal) }, { timeoutMs: 50 })
  const [ended] = await during(worker, () => queue.waitFor('a', { waitMs: 20_000 }))
  assert.equal(ended.outcome, 'dead')
  assert.match(ended.error, /TimeoutError: The handler did not end within 50 ms/)
  assert.ok(reason instanceof TimeoutError)
})

test('a handler is stopped at the deadline of its task', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', deadlineAfterMs: 500 })
  const worker = client.worker(queue.name, { handlers: { '*': (_, job) => aborted(job.signal) } })
  const [ended] = await during(worker, () => queue.waitFor('a', { waitMs: 20_000 }))
  assert.equal(ended.outcome, 'dead')
})

test('heartbeats keep the claim of a long task, and carry its progress', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const end = gate()
  const worker = client.worker(queue.name, {
    handlers: { '*': async (_, job) => { job.progress({ percent: 30, note: 'reading' }); await end.promise; return job.attempt } }, leaseMs: 2_000,
  })
  const [ended] = await during(worker, async () => {
    const first = await until(async () => { const task = await queue.task('a'); return task?.state === 'leased' && task })
    await until(async () => (await queue.task('a')).leaseUntilUs > first.leaseUntilUs)
    assert.deepEqual((await queue.task('a')).progress, { percent: 30, note: 'reading' })
    end.open()
    return queue.waitFor('a', { waitMs: 20_000 })
  })
  assert.equal(ended.task.finished.result.payload, 1)
})

test('the handler of a canceled task is notified, and the task is over', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  let reason
  const worker = client.worker(queue.name, { handlers: { '*': async (_, job) => { reason = await aborted(job.signal); throw new Error('stopped') } }, leaseMs: 2_000 })
  const [ended, report] = await during(worker, async () => {
    await until(async () => (await queue.task('a'))?.state === 'leased')
    assert.equal(await queue.cancel('a'), 'marked')
    return queue.waitFor('a', { waitMs: 20_000 })
  })
  assert.ok(reason instanceof CanceledError)
  assert.equal(ended.outcome, 'finished')
  assert.equal(report.cancelled, 1)
})

test('the handler of a lost claim is notified, and its end changes nothing', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const reason = gate()
  const worker = client.worker(queue.name, { handlers: { '*': async (_, job) => { reason.open(await aborted(job.signal)); throw new Error('late') } }, leaseMs: 2_000 })
  const [why, report] = await during(worker, async () => {
    const { ticket } = await until(async () => { const task = await queue.task('a'); return task?.state === 'leased' && task })
    assert.deepEqual(await queue.queues.complete(queue.name, [{ ticket, discarded: false }]), ['done'])
    return reason.promise
  })
  assert.ok(why instanceof ClaimLostError)
  assert.deepEqual([report.lost, report.retried], [1, 0])
})

test('a stop lets running handlers end, and starts no more', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'a' }, { id: 'b' }])
  const [started, end] = [gate(), gate()]
  const worker = client.worker(queue.name, { handlers: { '*': async () => { started.open(); await end.promise } }, concurrency: 1 })
  const running = worker.run()
  await started.promise
  worker.stop()
  end.open()
  const report = await running
  assert.deepEqual([report.claimed, report.done], [1, 1])
  assert.deepEqual([(await queue.task('b')).state, (await queue.task('b')).attempt], ['ready', 0])
})

test('a handler that exceeds the grace is notified, and its task is released', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const started = gate()
  const stop = new AbortController()
  const worker = client.worker(queue.name, { handlers: { '*': async (_, job) => { started.open(); await aborted(job.signal) } }, graceMs: 50 })
  const running = worker.run({ signal: stop.signal })
  await started.promise
  stop.abort()
  assert.equal((await running).released, 1)
  const task = await queue.task('a')
  assert.deepEqual([task.state, task.attempt], ['ready', 0])
})

test('an idle worker stops at once', async () => {
  const queue = await fresh(false)
  const worker = client.worker(queue.name, { handlers: { '*': () => {} } })
  const running = worker.run()
  const begun = performance.now()
  worker.stop()
  assert.equal((await running).claimed, 0)
  assert.ok(performance.now() - begun < 2_000)
})

test('no more handlers run at a time than the concurrency allows', async () => {
  const queue = await fresh()
  await queue.enqueueAll(Array.from({ length: 30 }, (_, n) => ({ id: `t${n}` })))
  let [running, most] = [0, 0]
  const worker = client.worker(queue.name, {
    handlers: { '*': async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
    } },
    concurrency: 4,
  })
  await during(worker, () => until(() => worker.report.done === 30))
  assert.equal(most, 4)
})

test('two workers drain a queue, each task once', async () => {
  const queue = await fresh(false)
  const ids = Array.from({ length: 400 }, (_, n) => `t${n}`)
  await queue.enqueueAll(ids.map((id) => ({ id })))
  const seen = []
  const [one, two] = [client, await connect()].map((each) => each.worker(queue.name, { handlers: { '*': (_, job) => { seen.push(job.id) } } }))
  await during(one, () => during(two, () => until(() => one.report.done + two.report.done === 400)))
  assert.deepEqual(seen.sort(), ids.sort())
})

test('a payload that cannot be decoded is not lost', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', payload: Buffer.from('{'), contentType: 'application/json', maxAttempts: 2 })
  const worker = client.worker(queue.name, { handlers: { '*': () => assert.fail('it does not run') }, backoff: quick })
  const [ended] = await during(worker, () => queue.waitFor('a', { waitMs: 20_000 }))
  assert.match(ended.error, /not valid application\/json/)
  assert.deepEqual((await queue.dead())[0].payload, Buffer.from('{'))
})

test('a task without a handler for its kind is not lost', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', kind: 'new', maxAttempts: 1 })
  const worker = client.worker(queue.name, { handlers: { old: () => {} } })
  const [ended] = await during(worker, () => queue.waitFor('a', { waitMs: 20_000 }))
  assert.match(ended.error, /no handler for the kind new/)
})

test('a handler reads the results of the tasks that its task waited for', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'a', payload: 1 }, { id: 'b', payload: 2 }, { id: 'sum', kind: 'sum', after: ['a', 'b'] }])
  const worker = client.worker(queue.name, { handlers: { '*': (payload) => payload * 10 } })
  worker.handle('sum', async (_, job) => {
    let sum = 0
    for await (const { result } of job.results()) sum += result.payload
    return sum
  })
  const [ended] = await during(worker, () => queue.waitFor('sum', { waitMs: 20_000 }))
  assert.equal(ended.task.finished.result.payload, 30)
})

test('a worker without a handler or with bad settings is refused', async () => {
  await assert.rejects(client.worker('q').run(), InvalidError)
  for (const options of [{ concurrency: 0 }, { concurrency: 10_001 }, { leaseMs: 9 }, { label: 'a\nb' }, { timeoutMs: 0 }, { handlers: { 'two words': () => {} } }]) {
    assert.throws(() => client.worker('q', options), InvalidError, JSON.stringify(options))
  }
  assert.throws(() => client.worker('q').handle('a', () => {}).handle('a', () => {}), InvalidError)
})

test('an operator sees, quiets and stops a worker', async (t) => {
  const announceMs = Worker.announceMs
  t.after(() => { Worker.announceMs = announceMs })
  Worker.announceMs = 50
  const queue = await fresh()
  const worker = client.worker(queue.name, { handlers: { '*': () => 1 }, label: 'shop', concurrency: 3 })
  const running = worker.run()
  const [seen] = await until(async () => { const all = await queue.workers(); return all.length > 0 && all })
  assert.deepEqual([seen.name, seen.concurrency, seen.running, seen.mode], ['shop', 3, 0, 'work'])
  assert.match(`${seen.id} ${seen.version}`, /^[0-9a-f]{16} rushgate-node \d+\.\d+\.\d+$/)
  assert.ok(Math.abs(seen.leaseUntilUs - seen.seenUs - 30_000_000) < 1_000_000)
  assert.equal(await queue.setWorker(seen.id, 'quiet'), true)
  // It has announced itself twice since, so it has got an answer.
  for (let n = 0, { seenUs } = seen; n < 3; n++) {
    const before = seenUs
    seenUs = await until(async () => { const [{ seenUs }] = await queue.workers(); return seenUs > before && seenUs })
  }
  await queue.enqueue({ id: 'a' })
  await new Promise((resolve) => setTimeout(resolve, 200))
  assert.equal((await queue.task('a')).state, 'ready')
  assert.equal((await queue.workers())[0].mode, 'quiet')
  await queue.setWorker(seen.id, 'work')
  assert.equal((await queue.waitFor('a', { waitMs: 20_000 })).task.finished.result.payload, 1)
  await queue.setWorker(seen.id, 'stop')
  assert.equal((await running).done, 1)
  assert.deepEqual(await queue.workers(), [])
  assert.equal(await queue.setWorker(seen.id, 'work'), false)
  await assert.rejects(queue.setWorker(seen.id, 'sleep'), InvalidError)
})

test('a server without announcements stops no worker, and causes one warning', { skip: !isSingle }, async (t) => {
  const { announceMs } = Worker
  const proxy = await Proxy.start(target.url)
  const warnings = []
  const warn = ({ name, message }) => name === 'RushgateWarning' && warnings.push(message)
  process.on('warning', warn)
  t.after(() => {
    Worker.announceMs = announceMs
    proxy.stop()
    process.off('warning', warn)
  })
  Worker.announceMs = 50
  // As an older server answers: it has no such function, and no such route.
  proxy.replace('queue_announce', 'queue_unknownn')
  proxy.replace('/workers/', '/unknown/')
  const queue = await fresh()
  const handler = () => until(() => proxy.replaced >= 3)
  const worker = (await connect(proxy.url)).worker(queue.name, { handlers: { '*': handler } })
  const running = worker.run()
  await queue.enqueue({ id: 'a' })
  await queue.waitFor('a', { waitMs: 20_000 })
  worker.stop()
  assert.equal((await running).done, 1)
  const own = warnings.filter((message) => message.includes(queue.name))
  assert.deepEqual(own.map((message) => message.split(': ')[0]), [`cannot announce the worker to the queue ${queue.name}`])
  assert.ok(target.url.startsWith('http') || own[0].includes('or older than this package'), own[0])
})
