/**
 * Plays roles in a scenario with programs in other languages: `peer.mjs URL [ROLE ARGUMENT…]`. Without a role, it
 * reads a role per line, with tabs between the words, and prints an answer to each.
 */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

import { Rushgate, RushgateError } from 'rushgate'

const LANGUAGE = 'node'
const WAIT_MS = 60_000

const [url, ...words] = process.argv.slice(2)
const { RUSHGATE_TEST_TOKEN: token, RUSHGATE_TEST_CA: ca } = process.env
const options = url.startsWith('http') ? { token } : url.startsWith('rediss') ? { tls: { ca: readFileSync(ca) } } : {}
const client = await Rushgate.connect(url, options)
const held = new Map()

function say(answer) {
  console.log('»', JSON.stringify(answer ?? null))
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const roles = {
  /** Appends the fencing token to a file under a lock: reads all, writes all. */
  async count(name, times, file) {
    const append = ({ fence }) => writeFileSync(file, `${readFileSync(file)}${fence} ${LANGUAGE}\n`)
    for (let time = 0; time < Number(times); time++) await client.lock(name).run(append, { waitMs: WAIT_MS })
  },

  /** Acquires a lock, for times in seconds. */
  async hold(name, wait, lease) {
    const got = await client.lock(name, { leaseMs: lease * 1_000 }).acquire({ waitMs: wait * 1_000 })
    if (!got) return null
    held.set(name, got)
    return { fence: got.fence }
  },

  async free(name) {
    assert.ok(await held.get(name).release())
  },

  async enqueue(name, n) {
    for (let number = 1; number <= Number(n); number++) {
      const task = { id: `${LANGUAGE}:${number}`, payload: { from: LANGUAGE, n: number } }
      assert.equal((await client.queue(name).enqueue(task)).outcome, 'added')
    }
  },

  /** Completes tasks until `n` are in the queue `doneName` and none is left. Or stays in a handler after some. */
  async work(name, n, doneName, stuckAfter, lease = 30) {
    const [queue, counted] = [client.queue(name), client.queue(doneName)]
    const done = []
    const handle = async (payload, job) => {
      assert.equal(`${payload.from}:${payload.n}`, job.id)
      if (stuckAfter && done.length === Number(stuckAfter)) {
        // Once the store has all completions, no task of this process runs again but the one that it holds.
        for (const id of done) while (await queue.task(id)) await sleep(10)
        say({ done, stuck: job.id })
        await new Promise(() => {})
      }
      assert.equal((await counted.enqueue({ id: job.id })).outcome, 'added')
      done.push(job.id)
    }
    const settings = { concurrency: stuckAfter ? 1 : 16, leaseMs: lease * 1_000 }
    const worker = client.worker(name, { handlers: { '*': handle }, ...settings })
    const running = worker.run()
    const isOver = async () => {
      const [{ ready, leased, scheduled }, all] = [await queue.stats(), await counted.stats()]
      return ready + leased + scheduled === 0 && all.ready >= Number(n)
    }
    while (!await isOver()) await sleep(20)
    worker.stop()
    await running
    return { done }
  },

  async send(name, id, kind, text) {
    return (await client.queue(name).enqueue({ id, kind, payload: { text } })).outcome
  },

  async receive(name) {
    const [task] = await client.queue(name).claim({ waitMs: WAIT_MS })
    assert.equal(await task.complete(), 'done')
    return { id: task.id, kind: task.kind, text: task.payload.text }
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
    return { sold, refused }
  },

  async reserve(id, sku, buyer, key) {
    try {
      const { outcome, hold } = await client.sale(id).reserve({ buyer, key, lines: [{ sku }] })
      return { outcome, reservation: hold?.id ?? null }
    } catch (error) {
      if (error instanceof RushgateError) return { outcome: error.code, reservation: null }
      throw error
    }
  },

  async decide(id, verb, reservation) {
    return (await client.sale(id)[verb](reservation)).outcome
  },
}

async function play([role, ...args]) {
  say(await roles[role](...args))
}

try {
  if (words.length > 0) await play(words)
  else for await (const line of createInterface({ input: process.stdin })) await play(line.split('\t'))
} finally {
  await client.close()
}
