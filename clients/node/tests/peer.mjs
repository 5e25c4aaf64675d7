/** One role in a scenario with programs in other languages: `peer.mjs URL ROLE ARGUMENT…`. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

import { Rushgate } from 'rushgate'

const LANGUAGE = 'node'
const WAIT_MS = 60_000

const [url, role, ...args] = process.argv.slice(2)
const { RUSHGATE_TEST_TOKEN: token, RUSHGATE_TEST_CA: ca } = process.env
const options = url.startsWith('http') ? { token } : url.startsWith('rediss') ? { tls: { ca: readFileSync(ca) } } : {}
const client = await Rushgate.connect(url, options)

function say(words) {
  console.log('»', JSON.stringify(words))
}

const roles = {
  /** Adds one to the key `counter` under a lock. */
  async count(lock, times) {
    const { Redis } = await import('ioredis')
    const redis = new Redis(url)
    for (let time = 0; time < Number(times); time++) {
      await client.lock(lock).run(async () => redis.set('counter', Number(await redis.get('counter')) + 1), { waitMs: WAIT_MS })
    }
    redis.disconnect()
  },

  async enqueue(name, n) {
    for (let number = 1; number <= Number(n); number++) {
      const { outcome } = await client.queue(name).enqueue({ id: `${LANGUAGE}:${number}`, payload: { from: LANGUAGE, n: number } })
      assert.equal(outcome, 'added')
    }
  },

  /** Completes tasks until as many as wanted are counted in the other queue and none is left. */
  async work(name, n, doneName) {
    const [queue, counted] = [client.queue(name), client.queue(doneName)]
    const done = []
    const worker = client.worker(name, {
      handlers: { '*': async (payload, job) => {
        assert.equal(`${payload.from}:${payload.n}`, job.id)
        await counted.enqueue({ id: job.id })
        done.push(job.id)
      } },
    })
    const running = worker.run()
    const isOver = async () => {
      const [{ ready, leased, scheduled }, all] = [await queue.stats(), await counted.stats()]
      return ready + leased + scheduled === 0 && all.ready >= Number(n)
    }
    while (!await isOver()) await new Promise((resolve) => setTimeout(resolve, 20))
    worker.stop()
    await running
    say({ done })
  },

  async buy(id, buyers) {
    const sale = client.sale(id)
    const sold = []
    let refused = 0
    for (let number = 1; number <= Number(buyers); number++) {
      const reserved = await sale.reserve({ buyer: `${LANGUAGE}-${number}`, key: 'click', lines: [{ sku: 'phone' }] })
      if (reserved.outcome !== 'reserved') {
        refused++
        continue
      }
      const { hold } = reserved
      assert.ok(['done', 'pending'].includes((await sale.confirm(hold.id)).outcome))
      sold.push([hold.id, ...hold.units.map(({ unit }) => unit)])
    }
    say({ sold, refused })
  },
}

try {
  await roles[role](...args)
} finally {
  await client.close()
}
