import assert from 'node:assert/strict'
import { test } from 'node:test'

import { InvalidError } from 'rushgate'

import { connect, unique } from './target.mjs'

const client = await connect()
const other = await connect()

/** A queue of its own, with a retention if `kept`. */
async function fresh(kept = false) {
  const queue = client.queue(unique('queue'))
  if (kept) await queue.limit({ retention: { ageMs: 3_600_000, count: 100 } })
  return queue
}

async function claimOne(queue, options = {}) {
  const [task, ...more] = await queue.claim(options)
  assert.deepEqual(more, [])
  assert.ok(task, 'a task is due')
  return task
}

const enqueueAll = (queue, ...ids) => queue.enqueueAll(ids.map((id) => ({ id })))
const outcomes = (answers) => answers.map(({ outcome }) => outcome)

test('a task keeps its content, kind, key, priority and trace', async () => {
  const queue = await fresh()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const added = await queue.enqueue({ id: 'a', payload: { to: 'Zoë', n: [1, null] }, kind: 'mail:welcome', key: 'tenant', priority: 3, traceparent, maxAttempts: 7 })
  assert.equal(added.outcome, 'added')
  const task = await claimOne(queue)
  assert.deepEqual(
    [task.id, task.payload, task.kind, task.key, task.priority, task.traceparent, task.contentType, task.attempt, task.maxAttempts, task.revision],
    ['a', { to: 'Zoë', n: [1, null] }, 'mail:welcome', 'tenant', 3, traceparent, 'application/json', 1, 7, added.revision],
  )
  assert.ok(task.fence > 0 && task.dueUs > 0)
  assert.equal(await task.complete(), 'done')
  assert.equal(await task.complete(), 'stale')
  assert.equal(await queue.task('a'), null)
})

test('bytes, text and empty payloads arrive as they were', async () => {
  const queue = await fresh()
  const payloads = [
    [{ payload: Buffer.of(0, 255) }, Buffer.of(0, 255), 'application/octet-stream'],
    [{ payload: new Uint8Array([1, 2]) , contentType: 'image/png' }, Buffer.of(1, 2), 'image/png'],
    [{ payload: 'für dich', contentType: 'text/plain; charset=utf-8', kind: 'note' }, 'für dich', 'text/plain;charset=utf-8'],
    [{ payload: '{"a":1}', contentType: 'application/ld+json' }, '{"a":1}', 'application/ld+json'],
    [{ payload: null }, null, 'application/json'],
    [{}, Buffer.alloc(0), 'application/octet-stream'],
  ]
  for (const [content, payload, contentType] of payloads) {
    await queue.enqueue({ id: 'a', ...content })
    const task = await claimOne(queue)
    assert.deepEqual([task.payload, task.contentType, task.kind, task.undecodable], [payload, contentType, content.kind, undefined])
    await task.complete()
  }
})

test('content that does not match its type stays as bytes', async () => {
  const queue = await fresh()
  for (const [contentType, payload] of [['application/json', Buffer.from('{')], ['text/plain', Buffer.of(255)]]) {
    await queue.enqueue({ id: 'a', payload, contentType })
    const task = await claimOne(queue)
    assert.deepEqual([task.payload, task.undecodable, task.contentType], [payload, true, contentType])
    await task.complete()
  }
})

test('duplicates are kept, replaced, moved or debounced', async () => {
  const queue = await fresh()
  const enqueue = async (more) => (await queue.enqueue({ id: 'a', ...more })).outcome
  assert.equal(await enqueue({ payload: 1, delayMs: 60_000 }), 'added')
  assert.equal(await enqueue({ payload: 2 }), 'kept')
  assert.equal(await enqueue({ payload: 3, delayMs: 60_000, onDuplicate: 'replace' }), 'replaced')
  assert.equal(await enqueue({ payload: 4, delayMs: 60_000, onDuplicate: 'debounce', maxWaitMs: 3_600_000 }), 'replaced')
  assert.deepEqual(await queue.claim(), [])
  assert.equal(await enqueue({ payload: 5, onDuplicate: 'earliest' }), 'replaced')
  assert.equal((await claimOne(queue)).payload, 4)
  assert.equal(await enqueue({ payload: 6, onDuplicate: 'replace' }), 'replaced')
  assert.equal((await queue.task('a')).replaced, true)
})

test('each task of a call has an outcome', async () => {
  const queue = await fresh()
  await queue.limit({ bound: 2 })
  const answers = await queue.enqueueAll([{ id: 'a' }, { id: 'a' }, { id: 'b', after: ['none'] }, { id: 'c' }, { id: 'd' }])
  assert.deepEqual(outcomes(answers), ['added', 'kept', 'refused', 'added', 'full'])
  assert.deepEqual([answers[2].task, answers[2].why, answers[4].bound], ['none', 'unknown', 2])
  await queue.limit({ bound: 2, overflow: 'drop_oldest' })
  assert.deepEqual(await queue.enqueue({ id: 'e' }).then(({ outcome, dropped }) => [outcome, dropped]), ['displaced', 'a'])
  await queue.limit({ bound: 2, overflow: 'drop_new' })
  assert.equal((await queue.enqueue({ id: 'f' })).outcome, 'dropped')
  assert.deepEqual(outcomes(await enqueueAll(await fresh(), ...Array.from({ length: 1_000 }, (_, n) => `n${n}`))).filter((outcome) => outcome !== 'added'), [])
})

test('an ID stays unique for its window', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', uniqueForMs: 60_000 })
  await (await claimOne(queue)).complete()
  const again = await queue.enqueue({ id: 'a' })
  assert.equal(again.outcome, 'recent')
  assert.ok(again.untilUs > 0)
  assert.equal(await queue.clearUnique('a'), again.untilUs)
  assert.equal(await queue.clearUnique('a'), null)
  assert.equal((await queue.enqueue({ id: 'a' })).outcome, 'added')
  await assert.rejects(queue.clearUnique('a b'), InvalidError)
})

test('tasks are claimed by priority, then by due time, then by arrival', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'c' }, { id: 'd' }, { id: 'b', dueUs: 1 }, { id: 'a', priority: 0 }, { id: 'e', priority: 9 }, { id: 'later', delayMs: 60_000 }])
  const tasks = await queue.claim({ n: 10 })
  assert.deepEqual(tasks.map(({ id }) => id), ['a', 'b', 'c', 'd', 'e'])
})

test('a claim waits for a task, and a message wakes it', async () => {
  const queue = await fresh()
  const waiting = other.queue(queue.name).claim({ waitMs: 30_000, worker: 'waiter' })
  // By then the claim was answered, and the process is registered.
  for (let calls = 0; calls < 10; calls++) await queue.stats()
  const begun = performance.now()
  await queue.enqueue({ id: 'a' })
  const [task] = await waiting
  assert.equal(task.id, 'a')
  assert.ok(performance.now() - begun < 3_000, 'sooner than the next poll')
  assert.equal((await queue.task('a')).worker, 'waiter')
})

test('a claim that waits gets a delayed task when it is due', async () => {
  const queue = await fresh()
  const begun = performance.now()
  await queue.enqueue({ id: 'a', delayMs: 300 })
  assert.equal((await queue.claim({ waitMs: 20_000 })).length, 1)
  const took = performance.now() - begun
  assert.ok(took >= 290 && took < 3_000, String(took))
})

test('a claim is over after its wait', async () => {
  const queue = await fresh()
  assert.deepEqual(await queue.claim({ waitMs: 100 }), [])
})

test('an aborted claim takes no task', async () => {
  const queue = await fresh()
  const controller = new AbortController()
  const waiting = queue.claim({ waitMs: 30_000, signal: controller.signal })
  controller.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  await queue.enqueue({ id: 'a' })
  const [task] = await queue.claim({ waitMs: 10_000 })
  assert.equal(task.attempt, 1)
})

test('a failed task is due again, and is a dead letter after its last attempt', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', payload: 'x', maxAttempts: 2, kind: 'k' })
  const retried = await (await claimOne(queue)).retry(new Error('first'))
  assert.equal(retried.outcome, 'scheduled')
  const second = await claimOne(queue)
  assert.equal(second.attempt, 2)
  assert.equal((await queue.task('a')).past[0].how, 'failed')
  assert.deepEqual(await second.retry(new Error('second', { cause: new Error('deep') })), { outcome: 'dead' })
  assert.deepEqual(await second.retry('late'), { outcome: 'stale' })
  const [letter] = await queue.dead()
  assert.deepEqual([letter.id, letter.payload, letter.attempts, letter.maxAttempts, letter.kind, letter.past.length], ['a', 'x', 2, 2, 'k', 2])
  assert.match(letter.error, /^Error: second\n {4}at [^]*Caused by: Error: deep/)
  assert.ok(Buffer.byteLength(letter.error) <= 2_000)
})

test('a delayed retry and giving up have their outcome', async () => {
  const queue = await fresh()
  await enqueueAll(queue, 'a', 'b')
  const [a, b] = await queue.claim({ n: 2 })
  const scheduled = await a.retry('é'.repeat(2_000), { delayMs: 60_000 })
  assert.ok(scheduled.dueUs > a.dueUs + 50_000_000)
  assert.equal((await queue.task('a')).error.length, 1_000)
  assert.deepEqual(await b.retry('never', { giveUp: true }), { outcome: 'dead' })
})

test('dead letters are paged, requeued and deleted', async () => {
  const queue = await fresh()
  await enqueueAll(queue, 'a', 'b', 'c', 'd')
  for (const task of await queue.claim({ n: 4 })) await task.retry('x', { giveUp: true })
  assert.deepEqual((await queue.dead({ limit: 2 })).map(({ id }) => id), ['a', 'b'])
  assert.deepEqual((await queue.dead({ after: 'b' })).map(({ id }) => id), ['c', 'd'])
  assert.deepEqual(await queue.requeueDead(['b', 'a', 'a', 'none']), { requeued: 2, kept: 0 })
  assert.equal(await queue.deleteDead(['c']), 1)
  assert.equal(await queue.deleteDead('all'), 1)
  assert.deepEqual(await queue.requeueDead('all'), { requeued: 0, kept: 0 })
  assert.equal((await queue.claim({ n: 10 })).length, 2)
})

test('a released task does not count its attempt', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const first = await claimOne(queue)
  assert.equal(await first.release(), 'waiting')
  assert.equal(await first.release(), 'stale')
  const second = await claimOne(queue)
  assert.equal(second.attempt, 1)
  await second.release({ delayMs: 60_000 })
  assert.deepEqual(await queue.claim(), [])
})

test('a lease ends, and the claim is lost', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const first = await claimOne(queue, { leaseMs: 50 })
  const [second] = await queue.claim({ waitMs: 20_000 })
  assert.equal(second.attempt, 2)
  assert.ok(second.fence > first.fence)
  assert.equal(await first.extend(), 'lost')
  assert.equal(await first.complete(), 'stale')
  assert.equal(await second.complete(), 'done')
})

test('an extension keeps the claim and stores progress', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  const task = await claimOne(queue, { leaseMs: 5_000 })
  assert.equal(await task.extend({ leaseMs: 60_000, progress: { percent: 40, note: 'halfway' } }), 'extended')
  assert.equal(await task.extend({ leaseMs: 60_000 }), 'extended')
  const { progress, state, leaseUntilUs } = await queue.task('a')
  assert.deepEqual([state, progress], ['leased', { percent: 40, note: 'halfway' }])
  assert.ok(leaseUntilUs > task.fence + 30_000_000)
})

test('a canceled task is removed, or marked while it runs', async () => {
  const queue = await fresh()
  await enqueueAll(queue, 'a', 'b')
  const task = await claimOne(queue)
  assert.deepEqual([await queue.cancel('b'), await queue.cancel('a'), await queue.cancel('none')], ['removed', 'marked', 'not_found'])
  assert.equal((await queue.task('a')).cancelled, true)
  assert.equal(await task.extend(), 'cancelled')
  assert.deepEqual(await task.retry('x'), { outcome: 'cancelled' })
})

test('a waiting task is rescheduled', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a', delayMs: 600_000, deadlineAfterMs: 3_600_000 })
  const { deadlineUs } = await queue.task('a')
  const moved = await queue.reschedule('a', { delayMs: 60_000 })
  assert.equal(moved.outcome, 'rescheduled')
  assert.equal((await queue.task('a')).dueUs, moved.dueUs)
  assert.ok(Math.abs(deadlineUs - moved.dueUs - 3_540_000_000) < 60_000_000)
  assert.deepEqual(await queue.reschedule('a', { delayMs: 7_200_000 }), { outcome: 'too_late', deadlineUs })
  const dueUs = moved.dueUs + 1_000_001
  assert.deepEqual(await queue.reschedule('a', { dueUs }), { outcome: 'rescheduled', dueUs })
  assert.deepEqual(await queue.claim(), [])
  assert.equal((await queue.reschedule('a')).outcome, 'rescheduled')
  const task = await claimOne(queue)
  assert.equal(task.attempt, 1)
  assert.deepEqual(await queue.reschedule('a'), { outcome: 'leased' })
  await task.complete()
  assert.deepEqual(await queue.reschedule('a'), { outcome: 'not_found' })
  for (const bad of [{ delayMs: -1 }, { delayMs: 34_560_000_001 }, { dueUs: -1 }, { dueUs: 1.5 }, { delayMs: 1, dueUs: 1 }]) {
    await assert.rejects(queue.reschedule('a', bad), InvalidError)
  }
})

test('a task says when it was claimed', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  assert.equal((await queue.task('a')).claimedUs, undefined)
  const { claimedUs, fence } = await claimOne(queue)
  assert.equal(claimedUs, fence)
  assert.equal((await queue.task('a')).claimedUs, claimedUs)
  assert.ok(Math.abs(claimedUs / 1_000 - Date.now()) < 60_000)
})

test('a client waits for a result', async () => {
  const queue = await fresh(true)
  await enqueueAll(queue, 'a', 'b', 'c', 'd')
  assert.equal(await queue.waitFor('a', { waitMs: 50 }), null)
  const waiting = other.queue(queue.name).waitFor('a', { waitMs: 30_000 })
  const [a, b, c] = await queue.claim({ n: 3 })
  assert.equal(await a.complete({ sent: true }), 'done')
  const ended = await waiting
  assert.equal(ended.outcome, 'finished')
  assert.deepEqual([ended.task.finished.how, ended.task.finished.result.payload, ended.task.state], ['done', { sent: true }, 'done'])
  await b.discard()
  assert.equal((await queue.waitFor('b')).task.finished.how, 'discarded')
  await c.retry('no', { giveUp: true })
  const dead = await queue.waitFor('c', { waitMs: 10_000 })
  assert.deepEqual([dead.outcome, dead.error, dead.attempts], ['dead', 'no', 1])
  await queue.cancel('d')
  assert.equal((await queue.waitFor('d')).task.finished.how, 'cancelled')
  assert.deepEqual(await queue.waitFor('none'), { outcome: 'gone' })
})

test('results are bytes too, and have at most 64 KiB', async () => {
  const queue = await fresh(true)
  await queue.enqueue({ id: 'a' })
  const task = await claimOne(queue)
  await assert.rejects(task.complete('x'.repeat(65_536)), { field: 'result' })
  await task.complete(Buffer.of(255))
  assert.deepEqual((await queue.waitFor('a')).task.finished.result.payload, Buffer.of(255))
})

test('waiting needs a retention', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  await assert.rejects(queue.waitFor('a', { waitMs: 1_000 }), (error) => error instanceof InvalidError && error.code === 'nothing_kept')
})

test('an aborted wait for a result ends', async () => {
  const queue = await fresh(true)
  await queue.enqueue({ id: 'a' })
  await assert.rejects(queue.waitFor('a', { waitMs: 30_000, signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
})

test('a task waits for others and sees their results', async () => {
  const queue = await fresh(true)
  await queue.enqueueAll([{ id: 'a' }, { id: 'b' }, { id: 'sum', after: ['a', 'b'], ifDead: 'run' }])
  const [a, b] = await queue.claim({ n: 10 })
  assert.equal((await queue.task('sum')).waits, true)
  await a.complete(1)
  await b.retry('broken', { giveUp: true })
  assert.equal((await claimOne(queue)).id, 'sum')
  const waited = await queue.waited('sum')
  assert.deepEqual(waited.map(({ id, end, result, error }) => [id, end, result?.payload, error]), [['a', 'done', 1, undefined], ['b', 'dead', undefined, 'broken']])
})

test('the tasks that wait for a task are listed', async () => {
  const queue = await fresh()
  assert.deepEqual(await queue.dependents('a'), [])
  await queue.enqueueAll([
    { id: 'a' }, { id: 'z', after: ['a'], ifDead: 'fail' }, { id: 'y', after: ['a'], ifDead: 'fail' }, { id: 'x', after: ['a'] },
  ])
  assert.deepEqual(await queue.dependents('a'), ['x', 'z', 'y'])
  assert.deepEqual(await queue.dependents('a', { n: 2 }), ['x', 'z'])
  for (const n of [0, 1_001, 1.5]) await assert.rejects(queue.dependents('a', { n }), InvalidError)
  await assert.rejects(queue.dependents('a b'), InvalidError)
})

test('the callback of a batch runs after the batch is closed and its members have finished', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'all', heldOpen: true }, { id: 'a', partOf: 'all' }])
  const member = await claimOne(queue, { n: 10 })
  assert.deepEqual(await queue.closeBatch('all'), { outcome: 'closed', left: 1 })
  assert.deepEqual([await queue.closeBatch('all'), await queue.closeBatch('none')], [{ outcome: 'not_open' }, { outcome: 'not_found' }])
  const late = await queue.enqueue({ id: 'late', partOf: 'all' })
  assert.deepEqual([late.outcome, late.why], ['refused', 'not_open'])
  await member.complete()
  assert.equal((await claimOne(queue)).id, 'all')
})

test('schedules are saved, listed and deleted', async () => {
  const queue = await fresh()
  const nightly = { cron: '30 3 * * *', zone: 'Europe/Berlin', payload: { report: 1 }, kind: 'report', maxAttempts: 5 }
  assert.equal((await queue.saveSchedule('nightly', nightly)).outcome, 'added')
  assert.equal((await queue.saveSchedule('nightly', nightly)).outcome, 'unchanged')
  assert.equal((await queue.saveSchedule('nightly', { ...nightly, priority: 1 })).outcome, 'changed')
  assert.equal((await queue.saveSchedule('often', { everyMs: 60_000, missed: 'all', paused: true })).outcome, 'added')
  const [first, second] = await queue.schedules()
  assert.deepEqual(
    [first.id, first.recurrence, first.payload, first.kind, first.priority, first.maxAttempts, first.paused],
    ['nightly', { cron: '30 3 * * *', zone: 'Europe/Berlin', missed: 'once' }, { report: 1 }, 'report', 1, 5, false],
  )
  const next = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Berlin', timeStyle: 'short' }).format(first.nextUs / 1_000)
  assert.equal(next, '03:30')
  assert.deepEqual([second.id, second.recurrence, second.paused], ['often', { everyMs: 60_000, missed: 'all' }, true])
  assert.deepEqual([first.upcomingUs.length, first.upcomingUs[0], second.upcomingUs], [5, first.nextUs, []])
  assert.equal((await queue.saveSchedule('often', { everyMs: 60_000, missed: 'all', paused: false })).outcome, 'changed')
  const [, often] = await queue.schedules()
  assert.deepEqual(often.upcomingUs, [0, 1, 2, 3, 4].map((minutes) => often.nextUs + minutes * 60_000_000))
  assert.deepEqual((await queue.schedules({ after: 'nightly' })).map(({ id }) => id), ['often'])
  assert.deepEqual([await queue.deleteSchedule('often'), await queue.deleteSchedule('often')], [true, false])
  for (const wrong of [{}, { cron: 'soon' }, { cron: '0 0 31 2 *' }, { everyMs: 999 }, { everyMs: 1_000, zone: 'UTC' }, { cron: '* * * * *', everyMs: 1_000 }, { cron: '* * * * *', zone: 'Mars/Base' }]) {
    await assert.rejects(queue.saveSchedule('wrong', wrong), InvalidError, JSON.stringify(wrong))
  }
})

test('a paused queue gives no tasks', async () => {
  const queue = await fresh()
  await queue.enqueue({ id: 'a' })
  await queue.pause()
  assert.deepEqual(await queue.claim(), [])
  assert.equal((await queue.stats()).paused, true)
  await queue.resume()
  assert.equal((await claimOne(queue)).id, 'a')
})

test('stats show the counts and the limits', async () => {
  const queue = await fresh()
  const limits = {
    bound: 100, overflow: 'drop_new', concurrency: 10, rate: { n: 5, perMs: 60_000 }, perKey: { concurrency: 1, rate: { n: 2, perMs: 1_000 }, fifo: false },
    retention: { ageMs: 60_000, count: 10 }, events: 100,
  }
  await queue.limit(limits)
  await queue.enqueueAll([{ id: 'a' }, { id: 'b' }, { id: 'c', delayMs: 60_000 }, { id: 'd', after: ['b'] }])
  await claimOne(queue)
  const stats = await queue.stats()
  assert.deepEqual([stats.ready, stats.scheduled, stats.leased, stats.blocked, stats.dead, stats.done, stats.paused], [1, 1, 1, 1, 0, 0, false])
  assert.deepEqual(JSON.parse(JSON.stringify(stats.limits)), limits)
  assert.ok(stats.lastClaimUs > 0)
  assert.equal(stats.queue, queue.name)
})

/** Reasons of a task, with only these fields. */
async function reasons(queue, id, ...fields) {
  return (await queue.why(id)).map((why) => [why.reason, ...fields.map((field) => why[field])])
}

test('why explains each state of a task', async () => {
  const queue = await fresh(true)
  assert.deepEqual(await reasons(queue, 'none'), [['unknown']])
  await queue.enqueueAll([{ id: 'a' }, { id: 'b', deadlineAfterMs: 60_000 }, { id: 'later', delayMs: 60_000 }, { id: 'sum', after: ['b'] }])
  assert.deepEqual(await reasons(queue, 'b', 'ahead', 'leased'), [['waiting', 1, 0], ['deadline', undefined, undefined]])
  assert.deepEqual(await reasons(queue, 'later', 'attempts', 'maxAttempts'), [['not_due', 0, 20]])
  const [waits] = await queue.why('sum')
  assert.deepEqual([waits.reason, waits.left, waits.first, waits.ifDead, waits.open], ['waits_for', 1, [{ id: 'b' }], 'wait', false])
  const task = await claimOne(queue, { worker: 'w' })
  assert.deepEqual(await reasons(queue, 'a', 'worker', 'attempt', 'fence'), [['running', 'w', 1, task.fence]])
  await queue.pause()
  assert.deepEqual(await reasons(queue, 'b'), [['paused'], ['deadline']])
  await queue.resume()
  await task.complete()
  assert.deepEqual(await reasons(queue, 'a', 'how', 'worker'), [['done', 'done', 'w']])
  await (await claimOne(queue)).retry('no', { giveUp: true })
  assert.deepEqual(await reasons(queue, 'b', 'attempts', 'maxAttempts', 'error'), [['dead', 1, 20, 'no']])
})

test('why explains limits, keys and windows', async () => {
  const queue = await fresh()
  await queue.limit({ concurrency: 1, perKey: { fifo: true } })
  await queue.enqueueAll([{ id: 'a', key: 'k' }, { id: 'b', key: 'k' }, { id: 'c', uniqueForMs: 60_000 }])
  assert.deepEqual(await reasons(queue, 'b', 'key', 'first'), [['in_line', 'k', 'a']])
  const task = await claimOne(queue, { worker: 'w' })
  const [busy] = await queue.why('c')
  assert.deepEqual([busy.reason, busy.concurrency, busy.running[0].id], ['queue_busy', 1, 'a'])
  const [, keyBusy] = await queue.why('b')
  assert.deepEqual([keyBusy.reason, keyBusy.key, keyBusy.running[0].worker], ['key_busy', 'k', 'w'])
  await task.complete()
  await queue.cancel('c')
  assert.deepEqual(await reasons(queue, 'c'), [['unique']])
  await queue.limit({ rate: { n: 1, perMs: 60_000 } })
  await queue.enqueue({ id: 'd' })
  await claimOne(queue)
  assert.deepEqual((await reasons(queue, 'd'))[0], ['rate_limited'])
})

test('bad tasks are refused with InvalidError, and nothing is enqueued', async () => {
  const queue = await fresh()
  const cyclic = {}
  cyclic.self = cyclic
  const wrong = [
    {}, { id: '' }, { id: 'a b' }, { id: 'a', priority: 10 }, { id: 'a', priority: 1.5 }, { id: 'a', maxAttempts: 0 }, { id: 'a', maxAttempts: 1_001 },
    { id: 'a', delayMs: -1 }, { id: 'a', delayMs: 34_560_000_001 }, { id: 'a', delayMs: 1, dueUs: 1 }, { id: 'a', dueUs: 1.5 },
    { id: 'a', deadlineAfterMs: 1, deadlineUs: 1 }, { id: 'a', delayMs: 2_000, deadlineAfterMs: 1_000 }, { id: 'a', onDuplicate: 'drop' },
    { id: 'a', onDuplicate: 'debounce' }, { id: 'a', maxWaitMs: 1 }, { id: 'a', kind: 'two words' }, { id: 'a', kind: 'x'.repeat(81) },
    { id: 'a', payload: 'x'.repeat(1_048_576) }, { id: 'a', payload: cyclic }, { id: 'a', payload: () => {} }, { id: 'a', payload: 1n },
    { id: 'a', payload: {}, contentType: 'text/plain' }, { id: 'a', contentType: 'text' }, { id: 'a', traceparent: '00-0' }, { id: 'a', key: '{' },
    { id: 'a', uniqueForMs: 0 }, { id: 'a', after: ['b'], partOf: 'c' }, { id: 'a', after: Array(1_001).fill('b') }, { id: 'a', ifDead: 'sing' },
  ]
  for (const task of wrong) await assert.rejects(queue.enqueue(task), InvalidError, Object.keys(task).join())
  await assert.rejects(queue.enqueueAll([]), InvalidError)
  await assert.rejects(queue.enqueueAll(Array(1_001).fill({ id: 'a' })), InvalidError)
  for (const options of [{ n: 0 }, { n: 1_001 }, { leaseMs: 1 }, { waitMs: -1 }, { worker: 'a\nb' }]) await assert.rejects(queue.claim(options), InvalidError)
  for (const limits of [{ concurrency: 0 }, { rate: { n: 0, perMs: 1 } }, { retention: { ageMs: 1, count: 0 } }, { overflow: 'x' }, { events: 0 }]) {
    await assert.rejects(queue.limit(limits), InvalidError)
  }
  assert.equal((await queue.stats()).ready, 0)
})

test('due tasks are read, removed and popped', async () => {
  const queue = await fresh()
  await queue.enqueueAll([{ id: 'a', payload: 1 }, { id: 'b', payload: 2 }])
  const [read] = await queue.top()
  assert.deepEqual([read.id, read.payload, read.fence], ['a', 1, undefined])
  await queue.enqueue({ id: 'a', payload: 3, onDuplicate: 'replace' })
  assert.equal(await queue.dequeue(read.ticket), false)
  assert.equal(await queue.dequeue((await queue.task('a')).ticket), true)
  assert.deepEqual((await queue.pop(5)).map(({ id, payload }) => [id, payload]), [['b', 2]])
  assert.equal((await queue.stats()).ready, 0)
  await assert.rejects(queue.top(0), InvalidError)
  await assert.rejects(queue.pop(1_001), InvalidError)
  await assert.rejects(queue.dequeue('a'), InvalidError)
})
