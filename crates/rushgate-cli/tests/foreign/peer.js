'use strict'

// One role in a scenario of tests/foreign.rs, in Node: `peer.js PORT ROLE ARGUMENT…`.

const assert = require('node:assert')
const cluster = require('node:cluster')
const { once } = require('node:events')
const { createRequire } = require('node:module')
const path = require('node:path')

const example = path.join(__dirname, '../../../../examples/node/rushgate.js')
const Redis = createRequire(example)('ioredis')
const { Lost, Rushgate } = require(example)

const [port, part, ...args] = process.argv.slice(2)

const parts = {
  async count (gate, redis, name, times) {
    for (let time = 0; time < Number(times); time++) {
      await gate.withLock(name, { wait: 60 }, async (held) => {
        assert(held, 'granted in time')
        await redis.set('counter', Number(await redis.get('counter')) + 1)
        await redis.rpush('fences', held.fence)
      })
    }
  },

  /** The parent has a client id, a subscription, a lock and a queue before it forks. */
  async fork (gate, redis, children, times) {
    const held = await gate.acquire('parent')
    assert.equal(await gate.acquire('parent', { wait: 0.05 }), null)
    cluster.setupPrimary({ exec: __filename, args: [port, 'child', times] })
    const workers = Array.from({ length: Number(children) }, () => cluster.fork())
    const told = workers.map((worker) => once(worker, 'message').then(([client]) => client))
    const ended = workers.map((worker) => once(worker, 'exit').then(([status]) => status))
    await parts.use(gate, redis, 'parent', times)
    const clients = [gate.client.toString('hex'), ...await Promise.all(told)]
    assert.equal(new Set(clients).size, 1 + Number(children), 'each has its own client id')
    assert((await Promise.all(ended)).every((status) => status === 0))
    await held.release()
  },

  async child (gate, redis, times) {
    assert.equal(await gate.acquire('parent'), null, 'the lock belongs to the parent')
    process.send(gate.client.toString('hex'))
    await parts.use(gate, redis, process.pid, times)
    process.disconnect()
  },

  async use (gate, redis, name, times) {
    const queue = await gate.queue('jobs')
    for (let number = 0; number < Number(times); number++) {
      assert(await queue.enqueue(`${name}:${number}`), 'room')
    }
    await parts.count(gate, redis, 'counter', times)
  },

  async debounce (gate, redis, name) {
    const queue = await gate.queue(name)
    assert(await queue.enqueue('page', { payload: 1, delay: 0.2, onDuplicate: 'debounce', maxWait: 60 }))
    const begun = performance.now()
    assert(await queue.enqueue('page', { payload: 2, delay: 0.4, onDuplicate: 'debounce', maxWait: 60 }))
    const [last] = await queue.claim({ wait: 30 })
    assert(performance.now() - begun >= 400, 'not before its delay')
    assert(last.payload === 2 && await last.complete(), 'the last of the burst')
    await queue.enqueue('page', { payload: 3, delay: 60, onDuplicate: 'debounce', maxWait: 0.2 })
    await queue.enqueue('page', { payload: 4, delay: 60, onDuplicate: 'debounce', maxWait: 0.2 })
    const [task] = await queue.claim({ wait: 30 })
    assert(task.payload === 4 && await task.complete(), 'at last after its longest wait')
    for (const wrong of [{ onDuplicate: 'debounce' }, { maxWait: 1 }]) {
      await assert.rejects(queue.enqueue('page', wrong), /maxWait/)
    }
  },

  async kinds (gate, redis, name) {
    assert(await (await gate.queue('in')).enqueue(name, { payload: { from: name }, kind: 'mail:welcome' }), 'room')
    const back = await gate.queue(`back-${name}`)
    for (const told of [['mail:thanks', 'application/json', { to: name }], [null, 'text/plain', 'für dich']]) {
      const [task] = await back.claim({ wait: 60 })
      assert.deepEqual([task.kind, task.contentType, task.payload], told)
      assert(await task.complete(), 'ours until now')
    }
    await back.enqueue('bytes', { payload: Buffer.of(255), kind: 'b/c' })
    const [task] = await back.claim()
    assert.deepEqual([task.kind, task.contentType, task.payload], ['b/c', 'application/octet-stream', Buffer.of(255)])
    await assert.rejects(back.enqueue('wrong', { kind: 'two words' }), /two words/)
  },

  async lose (gate, redis, name) {
    const thief = await Rushgate.connect(redis)
    const steal = async () => (await thief.acquire(name, { wait: 30 })).release()
    const fault = new RangeError('the own one of the work')
    await assert.rejects(gate.withLock(name, { lease: 0.05 }, async () => {
      await steal()
      throw fault
    }), fault)
    assert(fault.cause instanceof Lost)
    await assert.rejects(gate.withLock(name, { lease: 0.05 }, steal), Lost)
    await thief.close()
  },

  async work (gate, redis, name) {
    const queue = await gate.queue(name)
    for (;;) {
      const [task] = await queue.claim({ wait: 60 })
      await redis.hincrby('done', task.id, 1)
      assert(await task.complete(), 'ours until now')
      if (task.id.startsWith('stop:')) return
    }
  },

  async relay (gate, redis, from, to, tasks) {
    const [source, next] = [await gate.queue(from), await gate.queue(to)]
    for (let time = 0; time < Number(tasks); time++) {
      const [task] = await source.claim({ wait: 60 })
      assert(await next.enqueue(task.id, { payload: [...task.payload, 'node'], uniqueFor: 60 }), 'room')
      assert(await task.complete(), 'ours until now')
    }
  },

  async buy (gate, redis, id, name) {
    const sale = await gate.sale(id)
    const told = { confirmed: [], cancelled: [], units: [] }
    for (let buyer = 0; ; buyer++) {
      const hold = await sale.reserve(`${name}-${buyer}`, 'click', { phone: 1 })
      if (hold.outcome === 'sold_out') break
      if (hold.outcome === 'all_held') {
        await new Promise((resolve) => setTimeout(resolve, 2))
        continue
      }
      assert.equal(hold.outcome, 'reserved')
      assert.deepEqual([hold.units.map(([sku]) => sku), hold.state], [['phone'], 'held'])
      const again = await sale.reserve(`${name}-${buyer}`, 'click', { phone: 1 })
      assert.deepEqual([again.outcome, again.reservation], ['replayed', hold.reservation])
      const [verb, end] = buyer % 5 === 4 ? ['cancel', 'cancelled'] : ['confirm', 'confirmed']
      assert.equal(await sale[verb](hold.reservation), 'pending')
      told[end].push(hold.reservation)
      if (end === 'confirmed') told.units.push(hold.units[0][1])
    }
    console.log('»', JSON.stringify(told))
  },

  async meet (gate, redis, id, name, hold) {
    const sale = await gate.sale(id)
    const { outcome, retryAtUs } = await sale.reserve(name, 'click', { phone: 1 })
    const told = { reserve: outcome, retry_at_us: retryAtUs }
    console.log('»', JSON.stringify({ ...told, confirm: await sale.confirm(hold), cancel: await sale.cancel(hold) }))
  },

  /** Every name twice, as decomposed and as composed characters. */
  async spell (gate, redis, name) {
    const sale = await gate.sale('soire\u0301e')
    const first = await sale.reserve(`${name}-Zoe\u0308`, 'cle\u0301', { 'cafe\u0301': 1 })
    assert.equal(first.outcome, 'reserved')
    const again = await sale.reserve(`${name}-Zo\u00eb`, 'cl\u00e9', { 'caf\u00e9': 1 })
    assert.deepEqual([again.outcome, again.reservation], ['replayed', first.reservation])
    const other = await sale.reserve(`${name}-Zo\u00eb`, 'other', { 'caf\u00e9': 1 })
    assert.equal(other.outcome, 'limit_reached')
    assert.equal(await sale.confirm(first.reservation), 'pending')

    assert(await gate.acquire(`${name}-porte\u0301e`, { lease: 600 }), 'free')
    assert.equal(await gate.acquire(`${name}-port\u00e9e`), null, 'one lock')

    assert(await (await gate.queue(`${name}-cafe\u0301`)).enqueue('e\u0301te\u0301', { key: 'cle\u0301' }), 'room')
    const queue = await gate.queue(`${name}-caf\u00e9`)
    assert(await queue.enqueue('\u00e9t\u00e9', { key: 'cl\u00e9' }), 'room')
    const tasks = await queue.claim({ n: 2 })
    assert.deepEqual(tasks.map(({ id, key }) => [id, key]), [['\u00e9t\u00e9', 'cl\u00e9']], 'one task')
    assert(await tasks[0].complete())
  },

  async try (gate, redis, id) {
    const sale = await gate.sale(id)
    const said = await sale.reserve('ann', 'click', { phone: 1 }).then(({ outcome }) => outcome, ({ message }) => message)
    console.log('»', JSON.stringify(said))
  }
}

async function main () {
  const redis = new Redis(Number(port))
  const gate = await Rushgate.connect(redis)
  if (cluster.isPrimary) {
    // All processes start at once.
    await redis.rpush('ready', 'node')
    await redis.blpop('go', 50)
  }
  await parts[part](gate, redis, ...args)
  await gate.close()
  await redis.quit()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
