import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { InvalidError } from 'rushgate'
import { QUEUE_KEYS, SCHEDULES_KEYS } from 'rushgate/contract'

import { connect, target, unique, until } from './target.mjs'

const client = await connect()
const other = await connect()

// Not exported: as the worker uses it.
const dist = path.dirname(fileURLToPath(import.meta.resolve('rushgate')))
const { dueOf, latestUntil, nextAfter, written } = await import(pathToFileURL(path.join(dist, 'redis/recurrence.js')))

const us = (text) => Date.parse(text) * 1_000
const hour = 3_600_000_000

test('patterns have the same occurrences as in Rust', () => {
  // Clocks in Berlin go forward on 2027-03-28, from 2:00 to 3:00, and back on 2027-10-31, from 3:00 to 2:00.
  for (const [cron, zone, after, ...expected] of [
    ['30 3 * * *', undefined, '2026-11-22T12:00:00Z', '2026-11-23T03:30:00Z', '2026-11-24T03:30:00Z'],
    ['*/10 * * * * *', undefined, '2026-11-22T12:00:00Z', '2026-11-22T12:00:10Z', '2026-11-22T12:00:20Z'],
    ['0 0 L 2 *', undefined, '2026-11-22T12:00:00Z', '2027-02-28T00:00:00Z', '2028-02-29T00:00:00Z'],
    ['24 2 */10 * *', undefined, '2027-02-20T00:00:00Z', '2027-02-21T02:24:00Z', '2027-03-01T02:24:00Z'],
    ['0 0 1 * MON', undefined, '2026-11-22T12:00:00Z', '2026-11-23T00:00:00Z', '2026-11-30T00:00:00Z'],
    ['0 0 * * 5#2', undefined, '2026-11-22T12:00:00Z', '2026-12-11T00:00:00Z', '2027-01-08T00:00:00Z'],
    ['0 0 * * FRIL', undefined, '2026-11-22T12:00:00Z', '2026-11-27T00:00:00Z', '2026-12-25T00:00:00Z'],
    ['30 2 * * *', 'Europe/Berlin', '2027-03-27T12:00:00Z', '2027-03-28T01:00:00Z', '2027-03-29T00:30:00Z'],
    ['30 2 * * *', 'Europe/Berlin', '2027-10-30T12:00:00Z', '2027-10-31T00:30:00Z', '2027-11-01T01:30:00Z'],
    ['*/30 2 * * *', 'Europe/Berlin', '2027-03-27T12:00:00Z', '2027-03-29T00:00:00Z', '2027-03-29T00:30:00Z'],
    ['0 2,4 * * *', 'Europe/Berlin', '2027-10-30T12:00:00Z', '2027-10-31T00:00:00Z', '2027-10-31T01:00:00Z'],
  ]) {
    const recurrence = { cron, zone }
    const first = nextAfter(recurrence, us(after))
    const second = nextAfter(recurrence, first)
    assert.deepEqual([first, second].map(written), expected, cron)
    assert.equal(latestUntil(recurrence, us(after), second + 5), second, cron)
    assert.equal(latestUntil(recurrence, first, second - 1), first, cron)
  }
})

test('a pattern that names no time is refused', () => {
  for (const cron of ['', '* * *', '61 * * * *', '0 0 31 2 *', 'soon', '5/15 * * * *', '0 0 15W * *', '9-5 * * * *', '* * * * MONX',
    '*/0 * * * *', '1-2-3 * * * *', '* * * * * * *', 'constructor']) {
    assert.throws(() => nextAfter({ cron }, 0), InvalidError, cron)
  }
  assert.throws(() => nextAfter({ cron: '@daily', zone: 'Europe/Nowhere' }, 0), { field: 'zone' })
})

test('missed occurrences follow the policy of the schedule', () => {
  const [first, late, after] = ['09:00', '12:30', '13:00'].map((time) => us(`2026-11-22T${time}:00Z`))
  const due = (missed, now = late) => dueOf({ cron: '0 * * * *', missed }, first, now, 1_000)
  assert.deepEqual(due('skip'), { runs: [], next: after })
  assert.deepEqual(due('once'), { runs: [first + 3 * hour], next: after })
  assert.deepEqual(due('all'), { runs: [0, 1, 2, 3].map((hours) => first + hours * hour), next: after })
  for (const missed of ['skip', 'once', 'all']) assert.deepEqual(due(missed, first + 2_000_000).runs, [first], missed)
  assert.deepEqual(dueOf({ everyMs: 1_000, missed: 'all' }, first, late, 3), {
    runs: [first, first + 1_000_000, first + 2_000_000], next: first + 3_000_000,
  })
  assert.equal(written(first + 500_000), '2026-11-22T09:00:00.5Z')
})

/** Runs workers until `done`. */
async function during(workers, done) {
  const running = workers.map((worker) => worker.run())
  try {
    await until(done)
  } finally {
    for (const worker of workers) worker.stop()
    await Promise.all(running)
  }
}

test('workers fire each occurrence of a schedule once', async () => {
  const name = unique('queue')
  const seen = []
  const note = (payload, job) => { seen.push([job.id, payload, job.kind]) }
  await client.queue(name).saveSchedule('beat', { everyMs: 1_000, payload: { n: 1 }, kind: 'pulse' })
  const workers = [client, other].map((one) => one.worker(name, { handlers: { '*': note } }))
  await during(workers, () => seen.length >= 3)
  const moments = seen.map(([id]) => Date.parse(id.split('@')[1])).sort()
  assert.ok(moments.slice(1).every((moment, at) => moment - moments[at] === 1_000), String(moments))
  for (const [id, ...rest] of seen) assert.deepEqual([id.split('@')[0], ...rest], ['beat', { n: 1 }, 'pulse'])
})

if (target.kind === 'redis') {
  test('a schedule that cannot be read stays, causes one warning, and stops no other', async () => {
    const queue = client.queue(unique('queue'))
    await queue.saveSchedule('beat', { everyMs: 1_000 })
    const { Redis } = await import('ioredis')
    const admin = new Redis(target.url)
    const key = (ending) => `rg:{q:${queue.name}}:${ending}`
    // As later versions or other programs might write them, and due.
    const recurrences = ['{"cron":"0 0 X X *"}', '{"cron":"constructor"}', '{"cron":5}', '{"cron":"@daily","zone":5}', '{"every_ms":0}',
      '{"every_ms":"1s"}', '{"every_ms":1e400}', '{"every_ms":1000,"missed":"later"}', '{}', 'null', '']
    for (const [at, recurrence] of recurrences.entries()) {
      const args = [`broken-${at}`, recurrence, Buffer.of(0), 5, 20, 1, '', '']
      const keys = [...QUEUE_KEYS.endings, ...SCHEDULES_KEYS.endings].map(key)
      await admin.fcall('rushgate_1_queue_schedule', keys.length, ...keys, ...args)
    }
    const record = await admin.hgetBuffer(key('schedules'), 'broken-0')
    await admin.hset(key('schedules'), 'cut off', record.subarray(0, 3))
    await admin.zadd(key('schedule_moments'), 1, 'cut off')
    const broken = [...recurrences.keys()].map((at) => `broken-${at}`).concat('cut off')

    const [seen, warnings] = [[], []]
    const warn = ({ name, message }) => { if (name === 'RushgateWarning') warnings.push(message) }
    process.on('warning', warn)
    await during([client.worker(queue.name, { handlers: { '*': (payload, job) => { seen.push(job.id) } } })], () => seen.length >= 3)
    process.off('warning', warn)
    assert.ok(seen.every((id) => id.startsWith('beat@')), String(seen))
    assert.deepEqual(new Set(await admin.zrangebyscore(key('schedule_moments'), 1, 1)), new Set(broken))
    assert.deepEqual(warnings.map((text) => text.split(' of ')[0]).sort(), broken.map((id) => `cannot fire the schedule ${id}`).sort())
    // A server on the same store would keep logging them.
    await admin.del(...SCHEDULES_KEYS.endings.map(key))
    admin.disconnect()
  })
}
