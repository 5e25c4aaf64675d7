import assert from 'node:assert/strict'
import { after, test } from 'node:test'

import { ClosedError, ForbiddenError, InvalidError, Rushgate, UnavailableError } from 'rushgate'

import { connect, isHttp, isSingle, options, target, unique, until } from './target.mjs'
import { Proxy } from './proxy.mjs'

/** What a request to a verb contains, by the transport. */
const VERBS = isHttp
  ? { acquire: '/acquire', release: '/release', enqueue: '/batch', claim: '/claim', complete: '/complete', retry: '/retry', cancel: '/cancel', reserve: '/reservations', extend: '/extend' }
  : { acquire: 'lock_acquire', release: 'lock_release', enqueue: 'queue_enqueue', claim: 'queue_claim', complete: 'queue_complete', retry: 'queue_retry', reserve: 'reserve_by_key', extend: 'lock_extend' }

const proxies = []
after(() => proxies.forEach((proxy) => proxy.stop()))

async function proxied(more = {}) {
  const proxy = await Proxy.start(target.url)
  proxies.push(proxy)
  return { proxy, client: await connect(proxy.url, { timeoutMs: 1_000, ...more }) }
}

/** Runs a call whose answer is lost, once with the connection and once without. */
async function losing(proxy, verb, call) {
  const lost = proxy.cutAfter(VERBS[verb])
  const result = await call()
  await lost
  return result
}

test('calls of the same turn get their own answers', async () => {
  const client = await connect()
  const names = Array.from({ length: 300 }, () => unique('lock'))
  const all = await Promise.all([...names, names[0]].map((name) => client.lock(name).acquire()))
  const [first, second] = [all[0], all.pop()]
  assert.equal([first, second].filter(Boolean).length, 1)
  assert.ok(all.slice(1).every((held, at) => held.name === names[at + 1] && held.fence > 0))
  const released = await Promise.all([first ?? second, ...all.slice(1)].map((held) => held.release()))
  assert.deepEqual(new Set(released), new Set([true]))
  const queue = client.queue(unique('queue'))
  const tasks = Array.from({ length: 300 }, (_, at) => ({ id: `${at}`, payload: 'x'.repeat(at % 50 ? 1 : 400_000) }))
  const added = await Promise.all([...tasks.map((task) => queue.enqueue(task)), queue.enqueue(tasks[7])])
  assert.equal(added.pop().outcome, 'kept')
  assert.deepEqual(new Set(added.map(({ outcome }) => outcome)), new Set(['added']))
  assert.equal(new Set(added.map(({ revision }) => revision)).size, 300)
  const claimed = await queue.claim({ n: 100 })
  const completed = await Promise.all(claimed.map((task, at) => at % 2 ? task.complete() : task.complete({ at })))
  assert.deepEqual(new Set(completed), new Set(['done']))
  assert.equal((await queue.stats()).ready, 200)
})

test('a call that is refused does not spoil the others of its turn', async () => {
  const queue = (await connect()).queue(unique('queue'))
  const calls = [{ id: 'a' }, { id: 'b', deadlineUs: 1 }, { id: 'c' }].map((task) => queue.enqueue(task))
  const [a, b, c] = await Promise.allSettled(calls)
  assert.deepEqual([a.value?.outcome, c.value?.outcome], ['added', 'added'])
  assert.ok(b.reason instanceof InvalidError, String(b.reason))
  assert.equal((await queue.stats()).ready, 2)
})

if (isSingle) {
  test('a call whose connection ends before the answer is executed once', async () => {
    const { proxy, client } = await proxied()
    const direct = await connect()
    const queue = client.queue(unique('queue'))
    assert.equal((await losing(proxy, 'enqueue', () => queue.enqueue({ id: 'a' }))).outcome, 'added')
    assert.equal((await direct.queue(queue.name).stats()).ready, 1)
    const [task] = await losing(proxy, 'claim', () => queue.claim({ waitMs: 5_000 }))
    assert.equal(task.attempt, 1)
    assert.equal((await losing(proxy, 'retry', () => task.retry('x'))).outcome, 'scheduled')
    const [again] = await queue.claim()
    assert.equal(again.attempt, 2)
    assert.equal(await losing(proxy, 'complete', () => again.complete()), 'done')
    const lock = client.lock(unique('lock'))
    const held = await losing(proxy, 'acquire', () => lock.acquire())
    assert.equal((await direct.lock(lock.name).state()).holder.fence, held.fence)
    await losing(proxy, 'extend', () => held.extend())
    assert.equal(await losing(proxy, 'release', () => held.release()), true)
  })

  test('a reservation whose answer is lost takes its units once', async () => {
    const { proxy, client } = await proxied()
    const id = unique('sale')
    await client.createSale({ id, skus: [{ sku: 'phone', units: 2, perBuyer: 2 }], ledger: false })
    await client.sale(id).open()
    const reserved = await losing(proxy, 'reserve', () => client.sale(id).reserve({ buyer: 'ann', key: 'click', lines: [{ sku: 'phone' }] }))
    assert.ok(['reserved', 'replayed'].includes(reserved.outcome))
    assert.equal((await client.sale(id).state()).skus[0].held, 1)
  })

  test('a connection that stalls is replaced, and the call is executed once', async () => {
    const { proxy, client } = await proxied()
    const queue = client.queue(unique('queue'))
    await queue.pause()
    const lost = proxy.stallAfter(VERBS.enqueue)
    assert.equal((await queue.enqueue({ id: 'a' })).outcome, 'added')
    await lost
    assert.equal((await queue.stats()).ready, 1)
  })

  test('a failed extension is repeated before the old lease ends', async () => {
    const { proxy, client } = await proxied({ retryForMs: 1_000 })
    const direct = await connect()
    const name = unique('lock')
    const held = await client.lock(name, { leaseMs: 30_000 }).acquire()
    const leaseUntil = async () => (await direct.lock(name).state()).holder.leaseUntilUs
    const first = await leaseUntil()
    proxy.pause()
    await assert.rejects(held.extend(600_000), UnavailableError)
    proxy.resume()
    // A third of the new lease would be after the end of the old one.
    await until(async () => await leaseUntil() > first)
    await until(() => held.leaseLeftMs > 500_000)
    await held.release()
  })

  test('a held lock and a waiter survive the end of all connections', async () => {
    const { proxy, client } = await proxied()
    const direct = await connect()
    const name = unique('lock')
    const held = await client.lock(name, { leaseMs: 3_000 }).acquire()
    const waiting = client.lock(name).acquire({ waitMs: 30_000 })
    const busy = () => direct.lock(name).state()
    await until(async () => (await busy()).waiters.length === 1)
    const { holder } = await busy()
    proxy.cut()
    await until(async () => (await busy()).holder.leaseUntilUs > holder.leaseUntilUs)
    await until(async () => (await busy()).waiters.length === 1)
    assert.equal(held.signal.aborted, false)
    await held.release()
    const next = await waiting
    assert.ok(next.fence > held.fence)
    await next.release()
  })

  test('a worker continues after the end of its connections', async () => {
    const { proxy, client } = await proxied()
    const queue = (await connect()).queue(unique('queue'))
    await queue.enqueue({ id: 'a' })
    const worker = client.worker(queue.name, { handlers: { '*': () => {} } })
    const running = worker.run()
    await until(() => worker.report.done === 1)
    proxy.cut()
    await queue.enqueue({ id: 'b' })
    await until(() => worker.report.done === 2)
    worker.stop()
    await running
  })

  test('what is refused was not sent', async () => {
    const { proxy, client } = await proxied()
    const queue = client.queue('q')
    const before = proxy.sent
    await assert.rejects(queue.enqueue({ id: 'a b' }), InvalidError)
    await assert.rejects(queue.enqueue({ id: 'a', payload: Buffer.alloc(1_048_577) }), InvalidError)
    await assert.rejects(queue.claim({ n: 0 }), InvalidError)
    await assert.rejects(client.lock('l').acquire({ waitMs: -1 }), InvalidError)
    assert.throws(() => client.lock('a b'), InvalidError)
    await assert.rejects(client.sale('s').reserve({ buyer: 'a', key: '', lines: [{ sku: 'x' }] }), InvalidError)
    assert.equal(proxy.sent, before)
  })

  test('a server that is gone makes calls fail in time', async () => {
    const { proxy, client } = await proxied({ timeoutMs: 1_000, retryForMs: 1_000 })
    await client.queue('q').stats()
    proxy.stop()
    const begun = performance.now()
    await assert.rejects(client.queue('q').stats(), UnavailableError)
    assert.ok(performance.now() - begun < 5_000)
  })
}

test('a closed client refuses calls', async () => {
  const client = await connect()
  await client.close()
  await assert.rejects(client.queue('q').stats(), ClosedError)
  await client.close()
})

test('a client does not connect to what is not a store', async () => {
  for (const to of ['mysql://127.0.0.1', 'redis://', 'redis+sentinel://127.0.0.1', 'redis://127.0.0.1/x', {}, null, 7]) {
    await assert.rejects(Rushgate.connect(to), InvalidError, String(to))
  }
  await assert.rejects(Rushgate.connect('redis://127.0.0.1', { token: 'x' }), InvalidError)
  await assert.rejects(Rushgate.connect(target.url, { ...options, timeoutMs: 0 }), InvalidError)
  if (!isHttp) await assert.rejects(Rushgate.connect('redis://127.0.0.1:1', { ...options, timeoutMs: 1_000, retryForMs: 1_000 }), UnavailableError)
})

if (isHttp) {
  test('a wrong token is refused with ForbiddenError', async () => {
    const client = await connect(target.url, { token: 'wrong' })
    await assert.rejects(client.queue('q').stats(), ForbiddenError)
  })
}

if (target.kind === 'redis') {
  test('a wrong password is refused with ForbiddenError', async () => {
    await assert.rejects(Rushgate.connect(target.url.replace('//', '//nobody:wrong@'), options), ForbiddenError)
  })

  test('the connections of a passed client stay its own', async () => {
    const module = await import(target.library)
    const passed = target.library === 'ioredis' ? new module.Redis(target.url) : await module.createClient({ url: target.url }).connect()
    const client = await connect(passed, { library: undefined })
    const held = await client.lock(unique('lock')).acquire({ waitMs: 1_000 })
    await held.release()
    await client.close()
    assert.equal(await passed.ping(), 'PONG')
    passed.destroy?.() ?? passed.disconnect()
  })

  test('a waiter is woken after its subscription was killed', async () => {
    const { Redis } = await import('ioredis')
    const admin = new Redis(target.url)
    const client = await connect()
    const name = unique('lock')
    const held = await client.lock(name).acquire()
    const waiting = client.lock(name).acquire({ waitMs: 30_000 })
    await until(async () => (await client.lock(name).state()).waiters.length === 1)
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await until(async () => (await admin.call('PUBSUB', 'CHANNELS', 'rg:in:*')).length > 0)
    await held.release()
    await (await waiting).release()
    admin.disconnect()
  })
}
