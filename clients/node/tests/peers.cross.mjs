import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { Rushgate } from 'rushgate'

import { until } from './until.mjs'

const { RUSHGATE_TEST_REDIS: redisUrl, RUSHGATE_TEST_HTTP_REDIS: httpUrl, RUSHGATE_TEST_TOKEN: token } = process.env
const peer = fileURLToPath(new URL('peer.mjs', import.meta.url))
const name = (text) => `${text}-${process.pid}`

/** What a peer process says. */
async function play(url, ...words) {
  const { stdout } = await promisify(execFile)(process.execPath, [peer, url, ...words.map(String)])
  return stdout === '' ? undefined : JSON.parse(stdout.replace('» ', ''))
}

if (redisUrl && httpUrl) {
  const direct = await Rushgate.connect(redisUrl)
  const server = await Rushgate.connect(httpUrl, { token })
  after(() => Promise.all([direct.close(), server.close()]))

  test('processes over Redis and HTTP share a lock and lose no write to a file', async () => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'rushgate-')), 'fences')
    writeFileSync(file, '')
    await Promise.all([redisUrl, httpUrl, redisUrl].map((url) => play(url, 'count', name('lock'), 20, file)))
    const fences = readFileSync(file, 'utf8').split('\n').slice(0, -1).map(parseFloat)
    rmSync(path.dirname(file), { recursive: true })
    assert.equal(fences.length, 60)
    assert.ok(fences.every((fence, at) => at === 0 || fence > fences[at - 1]))
  })

  test('workers over Redis and HTTP share a queue, and each task is done once', async () => {
    await play(redisUrl, 'enqueue', name('work'), 40)
    const played = await Promise.all([redisUrl, httpUrl].map((url) => play(url, 'work', name('work'), 40, name('done'))))
    const ids = played.flatMap(({ done }) => done)
    assert.deepEqual(ids.sort(), Array.from({ length: 40 }, (_, at) => `node:${at + 1}`).sort())
  })

  test('buyers over Redis and HTTP get each unit once', async () => {
    await direct.createSale({ id: name('sale'), skus: [{ sku: 'phone', units: 5 }], ledger: false })
    await server.sale(name('sale')).open()
    const first = await play(redisUrl, 'buy', name('sale'), 3)
    const second = await play(httpUrl, 'buy', name('sale'), 9)
    const units = [...first.sold, ...second.sold].map(([, unit]) => unit)
    assert.deepEqual(units.sort(), [1, 2, 3, 4, 5])
    assert.deepEqual([first.refused, second.refused], [0, 7])
  })

  test('a lock is one lock over Redis and HTTP', async () => {
    const held = await direct.lock(name('shared')).acquire()
    assert.equal(await server.lock(name('shared')).acquire(), null)
    const waiting = server.lock(name('shared')).acquire({ waitMs: 20_000 })
    await held.release()
    const next = await waiting
    assert.ok(next.fence > held.fence)
    await next.release()
  })

  test('a receipt from either side is honored by the other', async () => {
    const id = name('receipts')
    await direct.createSale({ id, skus: [{ sku: 'phone', units: 5 }], ledger: false })
    await direct.sale(id).open()
    for (const [one, other] of [[direct, server], [server, direct]]) {
      const { hold } = await one.sale(id).reserve({ buyer: one === direct ? 'ann' : 'ben', key: 'click', lines: [{ sku: 'phone' }] })
      assert.equal((await other.sale(id).restore(hold.receipt)).outcome, 'known')
    }
  })

  test('a sale with a ledger is confirmed once the ledger has the order', async () => {
    const id = name('ledger')
    await server.createSale({ id, skus: [{ sku: 'phone', units: 5 }], ledger: true })
    await server.sale(id).open()
    const { hold } = await direct.sale(id).reserve({ buyer: 'ann', key: 'click', lines: [{ sku: 'phone' }] })
    const decision = await direct.sale(id).confirm(hold.id, { waitMs: 20_000 })
    assert.deepEqual([decision.outcome, decision.hold.state], ['done', 'confirmed'])
    // The worker of the ledger reports what it has delivered with its next request.
    await until(async () => (await direct.sale(id).state()).orders.through > 0, 'the report of the delivery')
  })

  test('both sides see the same task, schedule, stats and reasons', async () => {
    const [ours, theirs] = [direct.queue(name('same')), server.queue(name('same'))]
    await ours.limit({ retention: { ageMs: 60_000, count: 10 }, perKey: { fifo: true } })
    await ours.enqueueAll([{ id: 'a', payload: { n: 1 }, kind: 'k', key: 'x', deadlineAfterMs: 60_000 }, { id: 'b', key: 'x' }, { id: 'c', delayMs: 60_000 }, { id: 'd', after: ['a'] }])
    const [a] = await ours.claim()
    await a.extend({ progress: { percent: 1, note: 'n' } })
    await theirs.saveSchedule('s', { cron: '0 3 * * *', payload: 1 })
    const plain = (value) => JSON.parse(JSON.stringify(value, (key, entry) => /LeftMs$|waitMs|lagMs|dueForMs|leftMs/i.test(key) || key === 'when' ? undefined : entry))
    for (const id of ['a', 'b', 'c', 'd']) {
      assert.deepEqual(plain(await ours.task(id)), plain(await theirs.task(id)), id)
      assert.deepEqual(plain(await ours.why(id)), plain(await theirs.why(id)), id)
    }
    assert.deepEqual(plain(await ours.stats()), plain(await theirs.stats()))
    assert.deepEqual(plain(await ours.schedules()), plain(await theirs.schedules()))
    await ours.saveSchedule('s', { cron: '0 3 * * *', payload: 1 })
    assert.equal((await theirs.saveSchedule('s', { cron: '0 3 * * *', payload: 1 })).outcome, 'unchanged')
    await a.complete({ sent: 1 })
    assert.deepEqual(plain(await ours.task('a')), plain(await theirs.task('a')))
  })
}
