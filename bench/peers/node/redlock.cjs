'use strict';
// node redlock.cjs redlock lock KEY=VALUE…
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');
const { server, settings, now, sleep, add, together, end } = require('./record.cjs');

const LEASE_MS = 10_000;
// The library's own delay between retries, but without its limit of ten, so that a long wait is not an error.
const locks = new Redlock([new Redis.Redis(server)], { retryCount: -1 });
locks.on('error', () => {});

async function caller(n) {
  const until = now() + settings.seconds * 1e9;
  for (let cycle = 0; now() < until; cycle++) {
    const asked = now();
    const lock = await locks.acquire([settings.hot ? 'hot' : `lock:${n}:${cycle}`], LEASE_MS);
    const got = now();
    if (settings.hold_ms) await sleep(settings.hold_ms);
    const leaving = now();
    await lock.release();
    if (settings.hot) add(n, asked, got, leaving);
    else add(n, asked, now(), 0);
    if (settings.think_ms) await sleep(settings.think_ms);
  }
}

end(together(settings.callers, caller));
