'use strict';
// node bullmq.cjs bullmq put|work KEY=VALUE…
const { Queue, Worker } = require('bullmq');
const { server: connection, settings, now, sleep, add, write, together, end } = require('./record.cjs');

// Remove finished jobs, as our queues do. BullMQ keeps them by default.
const opts = { removeOnComplete: true, removeOnFail: true };
const data = (i) => ({ i, p: '0123456789abcdef' });

async function put() {
  const queue = new Queue('bench', { connection });
  await queue.waitUntilReady();
  const { first = 0, n, bulk = 0, callers = 1, gap_ms = 0, delay_ms = 0 } = settings;
  const last = first + n;
  for (let start = first; bulk && start < last; start += bulk) {
    const count = Math.min(bulk, last - start);
    const asked = now();
    await queue.addBulk(Array.from({ length: count }, (_, k) => ({ name: 'noop', data: data(start + k), opts })));
    add(start, asked, now(), count);
  }
  if (bulk) return;
  const began = now();
  await together(callers, async (caller) => {
    for (let i = first + caller; i < last; i += callers) {
      const early = (began - now()) / 1e6 + (i - first) * gap_ms;
      if (gap_ms && early > 0.5) await sleep(early);
      const asked = now();
      await queue.add('noop', data(i), delay_ms ? { ...opts, delay: delay_ms } : opts);
      add(i, asked + delay_ms * 1e6, now(), 1);
    }
  });
}

// Works until the process is killed.
function work() {
  const started = async (job) => add(job.data.i, now(), 0, 0);
  const worker = new Worker('bench', started, { connection, concurrency: settings.concurrency });
  worker.on('error', (error) => console.error(error));
  setInterval(write, 20);
}

if (process.argv[3] === 'put') end(put());
else work();
