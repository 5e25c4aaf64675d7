/**
 * Lock cycles, single enqueues and drained tasks per second: `bench.mjs [TASKS]`, by default 5,000. In parentheses is the
 * rate of Rushgate, divided by that of the library.
 */

import { randomUUID } from 'node:crypto'

import { Rushgate } from 'rushgate'

const { RUSHGATE_BENCH_URL, RUSHGATE_TEST_REDIS, RUSHGATE_TEST_TOKEN: token } = process.env
const url = RUSHGATE_BENCH_URL ?? RUSHGATE_TEST_REDIS ?? 'redis://127.0.0.1:6379'
const isHttp = url.startsWith('http')
const TASKS = Number(process.argv[2] ?? 5_000)
const CYCLES = TASKS
const CONCURRENCY = 32
const WARM_UP = 1_000

/**
 * Operations per second of `work`, which is called `times` times, `CONCURRENCY` at a time. The calls before that are not
 * measured: they connect, and the engine compiles the library.
 */
async function rate(times, work) {
  await repeat(times, times + WARM_UP, work)
  const begun = performance.now()
  await repeat(0, times, work)
  return perSecond(times, begun)
}

async function repeat(from, to, work) {
  let next = from
  await Promise.all(Array.from({ length: CONCURRENCY }, async () => {
    for (let at = next++; at < to; at = next++) await work(at)
  }))
}

function perSecond(times, begun) {
  return Math.round(times / ((performance.now() - begun) / 1_000))
}

/** Operations per second of a worker, from its start until `TASKS` handlers have ended. */
async function drain(start) {
  let done = 0
  let ended
  const all = new Promise((resolve) => { ended = resolve })
  const begun = performance.now()
  const stop = await start(() => { if (++done === TASKS) ended() })
  await all
  const result = perSecond(TASKS, begun)
  await stop()
  return result
}

async function rushgate() {
  const client = await Rushgate.connect(url, isHttp ? { token } : { library: 'ioredis' })
  const queue = client.queue(`bench-${randomUUID()}`)
  const locks = await rate(CYCLES, async (at) => (await client.lock(`bench-${at % CONCURRENCY}`).acquire()).release())
  const enqueues = await rate(TASKS, (at) => queue.enqueue({ id: `t${at}`, payload: { at } }))
  const drained = await drain((done) => {
    const worker = client.worker(queue.name, { handlers: { '*': done }, concurrency: CONCURRENCY })
    const running = worker.run()
    return async () => {
      worker.stop()
      await running
    }
  })
  await client.close()
  return { locks, enqueues, drained }
}

async function bullmq() {
  const { Queue, Worker } = await import('bullmq')
  const { hostname: host, port } = new URL(url)
  const connection = { host, port: Number(port), maxRetriesPerRequest: null }
  const queue = new Queue(`bench-${randomUUID()}`, { connection })
  const enqueues = await rate(TASKS, (at) => queue.add('task', { at }, { removeOnComplete: true }))
  const drained = await drain((done) => {
    const worker = new Worker(queue.name, async () => done(), { connection, concurrency: CONCURRENCY })
    return () => worker.close()
  })
  await queue.close()
  return { enqueues, drained }
}

async function redlock() {
  const [{ default: Redlock }, { Redis }] = await Promise.all([import('redlock'), import('ioredis')])
  const redis = new Redis(url)
  const lock = new Redlock([redis], { retryCount: 0 })
  const locks = await rate(CYCLES, async (at) => (await lock.acquire([`bench-${at}`], 30_000)).release())
  redis.disconnect()
  return { locks }
}

async function semaphore() {
  const [{ Mutex }, { Redis }] = await Promise.all([import('redis-semaphore'), import('ioredis')])
  const redis = new Redis(url)
  const locks = await rate(CYCLES, async (at) => {
    const mutex = new Mutex(redis, `bench-${at}`, { lockTimeout: 30_000 })
    await mutex.acquire()
    await mutex.release()
  })
  redis.disconnect()
  return { locks }
}

const candidates = { rushgate, ...(!isHttp && { bullmq, redlock, 'redis-semaphore': semaphore }) }
const table = {}
let ours
for (const [name, measure] of Object.entries(candidates)) {
  const rates = await measure()
  ours ??= rates
  const shown = (what) => rates[what] === undefined ? '' : `${rates[what]} (${(ours[what] / rates[what]).toFixed(2)})`
  table[name] = { 'lock cycles/s': shown('locks'), 'single enqueues/s': shown('enqueues'), 'drained tasks/s': shown('drained') }
}
console.log(`${url.split('@').at(-1)}, ${CONCURRENCY} at a time`)
console.table(table)
process.exit()
