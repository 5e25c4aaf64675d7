import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker as Thread } from 'node:worker_threads'

import { InvalidError, LockBusyError, LockLostError } from 'rushgate'

import { aborted, connect, isHttp, unique, until } from './target.mjs'

const client = await connect()
const other = await connect()

test('a lock is granted with a growing fencing token', async () => {
  const lock = client.lock(unique('lock'), { label: 'test' })
  const first = await lock.acquire()
  assert.equal(first.isHeld, true)
  assert.equal((await lock.state()).holder.label, 'test')
  assert.equal(await first.release(), true)
  assert.equal(await first.release(), true)
  assert.equal(first.isHeld, false)
  const second = await lock.acquire()
  assert.ok(second.fence > first.fence)
  await second.release()
  assert.equal((await lock.state()).holder, undefined)
})

test('a held lock is busy', async () => {
  const name = unique('lock')
  const held = await client.lock(name).acquire()
  assert.equal(await other.lock(name).acquire(), null)
  await assert.rejects(other.lock(name).run(() => assert.fail('it does not run')), LockBusyError)
  await held.release()
  assert.equal(await other.lock(name).run(({ fence }) => fence > held.fence), true)
})

test('the default lease is 30 s', async () => {
  await using_(client.lock(unique('lock')), async (held) => {
    assert.ok(held.leaseLeftMs > 25_000 && held.leaseLeftMs <= 30_000, String(held.leaseLeftMs))
  })
})

async function using_(lock, work) {
  const held = await lock.acquire()
  try {
    await work(held)
  } finally {
    await held[Symbol.asyncDispose]()
  }
  assert.equal((await lock.state()).holder, undefined)
}

test('a wait that is over returns null and leaves the wait queue', async () => {
  const name = unique('lock')
  const held = await client.lock(name).acquire()
  assert.equal(await other.lock(name).acquire({ waitMs: 50 }), null)
  await until(async () => (await other.lock(name).state()).waiters.length === 0)
  await held.release()
})

test('waiters get the lock in the order of their arrival', async () => {
  const name = unique('lock')
  const held = await client.lock(name).acquire()
  const order = []
  const waiters = []
  for (let number = 0; number < 4; number++) {
    const lock = (number % 2 ? client : other).lock(name)
    waiters.push(lock.run(() => { order.push(number) }, { waitMs: 30_000 }))
    await until(async () => (await client.lock(name).state()).waiters.length === number + 1)
  }
  await held.release()
  await Promise.all(waiters)
  assert.deepEqual(order, [0, 1, 2, 3])
})

test('a waiter is woken by a message', async () => {
  const name = unique('lock')
  const times = []
  // A pause of the machine can delay a message, but not that of each turn.
  while (times.length < 5 && !(Math.min(...times) < 900)) {
    const held = await client.lock(name).acquire()
    const waiting = other.lock(name).acquire({ waitMs: 30_000 })
    await until(async () => (await client.lock(name).state()).waiters.length === 1)
    const begun = performance.now()
    await held.release()
    const next = await waiting
    times.push(performance.now() - begun)
    assert.ok(next.leaseLeftMs > 20_000, 'with its full lease')
    await next.release()
  }
  assert.ok(Math.min(...times) < 900, `sooner than the next poll: ${times} ms`)
})

test('an aborted wait leaves the wait queue', async () => {
  const name = unique('lock')
  const held = await client.lock(name).acquire()
  const controller = new AbortController()
  const waiting = other.lock(name).acquire({ waitMs: 30_000, signal: controller.signal })
  await until(async () => (await client.lock(name).state()).waiters.length === 1)
  controller.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  await until(async () => (await client.lock(name).state()).waiters.length === 0)
  await held.release()
  await assert.rejects(other.lock(name).acquire({ signal: AbortSignal.abort(new Error('before')) }), /before/)
})

test('a lock is renewed until it is released', async () => {
  const lock = client.lock(unique('lock'), { leaseMs: 2_000 })
  const held = await lock.acquire()
  const first = (await lock.state()).holder.leaseUntilUs
  await until(async () => (await lock.state()).holder.leaseUntilUs > first)
  assert.equal(held.signal.aborted, false)
  assert.equal(await held.release(), true)
})

test('a lock that is not renewed signals its loss before another client can get it', async () => {
  const name = unique('lock')
  const held = await client.lock(name, { leaseMs: 300, renew: false }).acquire()
  const next = other.lock(name).acquire({ waitMs: 20_000 }).then((grant) => [grant, held.signal.aborted])
  assert.ok(await aborted(held.signal) instanceof LockLostError)
  const [grant, wasLost] = await next
  assert.equal(wasLost, true)
  assert.equal(await held.release(), false)
  await assert.rejects(held.extend(), LockLostError)
  assert.equal(await grant.release(), true)
})

test('a forced release signals the loss', async () => {
  const name = unique('lock')
  const held = await client.lock(name, { leaseMs: isHttp ? 1_200 : 30_000 }).acquire()
  const holder = await other.lock(name).forceRelease()
  assert.equal(holder.fence, held.fence)
  assert.ok(await aborted(held.signal) instanceof LockLostError)
  assert.equal(await held.release(), false)
  assert.equal(await other.lock(name).forceRelease(), undefined)
})

test('run stops with LockLostError if the lock was lost during the work', async () => {
  const lock = client.lock(unique('lock'), { leaseMs: 200, renew: false })
  await assert.rejects(lock.run(({ signal }) => aborted(signal)), LockLostError)
  // The loss is signaled before the lease ends on the server.
  const options = { waitMs: 20_000 }
  await assert.rejects(lock.run(() => { throw new RangeError('own') }, options), RangeError)
  const failLate = async ({ signal }) => {
    await aborted(signal)
    throw new RangeError('own')
  }
  await assert.rejects(lock.run(failLate, options), RangeError)
  await lock.run(() => {}, options)
  assert.equal((await lock.state()).holder, undefined)
})

test('an extension lasts longer than the lease', async () => {
  const held = await client.lock(unique('lock'), { leaseMs: 1_000, renew: false }).acquire()
  await held.extend(60_000)
  assert.ok(held.leaseLeftMs > 50_000)
  await held.release()
})

test('an extension to an earlier end signals the loss at that end', async () => {
  const name = unique('lock')
  const held = await client.lock(name, { renew: false }).acquire()
  await held.extend(300)
  const next = other.lock(name).acquire({ waitMs: 20_000 }).then((grant) => [grant, held.signal.aborted])
  assert.ok(await aborted(held.signal) instanceof LockLostError)
  const [grant, wasLost] = await next
  assert.equal(wasLost, true)
  assert.equal(await grant.release(), true)
})

test('renewals keep the lease of an extension', async () => {
  const lock = client.lock(unique('lock'), { leaseMs: 60_000 })
  const held = await lock.acquire()
  await held.extend(900)
  const endsUs = async () => (await lock.state()).holder.leaseUntilUs
  const extendedUs = await endsUs()
  await until(async () => await endsUs() > extendedUs, 'the renewal')
  assert.ok(await endsUs() < extendedUs + 30_000_000)
  assert.ok(held.leaseLeftMs <= 900)
  await held.release()
})

test('spellings of a name are one lock', async () => {
  const name = unique('porte\u0301e')
  const held = await client.lock(name).acquire()
  assert.equal(await client.lock(name.normalize('NFC')).acquire(), null)
  await held.release()
})

test('bad names and ranges are refused with InvalidError', async () => {
  for (const name of ['', '.', '..', 'two words', 'a{b', 'a\u200bb', 'x'.repeat(201), '\ud800', 7, null]) {
    assert.throws(() => client.lock(name), InvalidError, String(name))
  }
  for (const leaseMs of [9, 86_400_001, NaN, '1']) assert.throws(() => client.lock('l', { leaseMs }), { field: 'leaseMs' })
  assert.throws(() => client.lock('l', { label: 'a\nb' }), { field: 'label' })
  for (const waitMs of [-1, 86_400_001, Infinity]) await assert.rejects(client.lock('l').acquire({ waitMs }), { field: 'waitMs' })
})

const folder = mkdtempSync(path.join(tmpdir(), 'rushgate-'))
const script = fileURLToPath(new URL('counter.mjs', import.meta.url))

test('processes, threads and asynchronous tasks that share a lock lose no increment', async () => {
  const file = path.join(folder, 'counter')
  writeFileSync(file, '0')
  const args = [unique('lock'), file, '5']
  const processes = [1, 2].map(() => fork(script, args))
  const threads = [1, 2].map(() => new Thread(script, { argv: args }))
  const { countTo } = await import('./counter.mjs')
  const tasks = [client, client, other].map((one) => countTo(one, ...args))
  const ends = await Promise.all([...processes, ...threads].map((child) => once(child, 'exit').then(([status]) => status)))
  await Promise.all(tasks)
  assert.deepEqual(ends, [0, 0, 0, 0])
  assert.equal(readFileSync(file, 'utf8'), '35')
})
