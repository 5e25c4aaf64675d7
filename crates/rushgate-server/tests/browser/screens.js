// Every screen that is no list, when it has 1,000 of what it shows: dark, in Chinese, on a phone. sizes.js has the lists.
'use strict';
const { accessible, assert, desk, end, fits, join, mkdtempSync, open, phone, picture, post, put, rmSync, start, state, tmpdir } = require('./stand.js');
const { each } = require('./sizes.js');

const ROWS = 1000;
const WORKER = 'mailer@host-17.eu-central.example.com:4711';
const names = (word, n = ROWS) => Array.from({ length: n }, (_, at) => `${word}-${String(at).padStart(4, '0')}`);
const TRACE = `ConnectionError: cannot connect to smtp.example.com:587: connection refused\n${names('    at Mailer.send (mailer.js', 30).join(')\n')})`;

/** A queue whose tasks are all leased by one worker, and tasks with many dependencies, attempts and fields. */
async function furnishTasks() {
  const base = '/v1/queues/orders';
  await put(`${base}/limits`, { events: 1000, concurrency: 1200, rate: { n: 5000, per_ms: 1000 }, per_key: { concurrency: 100 }, retention: { age_ms: 86400000, count: 10000 } });
  await put(`${base}/schedules/nightly-report`, { cron: '30 3 * * *', zone: 'Europe/Berlin', payload: { report: 1 } });
  await put(`${base}/workers/w1`, { name: WORKER, version: 'shop 3.1', concurrency: 1000, lease_ms: 600000 });
  await post(`${base}/tasks`, { id: 'tries', payload: { lines: names('sku').map((sku) => ({ sku })), to: 'ann@example.com' }, kind: 'mail', key: 'tenant-7' });
  for (let n = 0; n < 12; n += 1) {
    const { tasks: [{ ticket }] } = await post(`${base}/claim`, { n: 1, worker: WORKER, lease_ms: 600000 });
    await post(`${base}/retry`, { ticket, error: TRACE, ...(n === 11 && { give_up: true }) });
    await post(`${base}/tasks/tries/reschedule`, {}).catch(() => {});
  }
  await post(`${base}/batch`, { tasks: names('run').map((id, n) => ({ id, payload: { to: 'ann@example.com', n }, key: `tenant-${n % 10}` })) });
  await post(`${base}/claim`, { n: ROWS, worker: WORKER, lease_ms: 600000 });
  await post(`${base}/tasks`, { id: 'gathers-everything-that-ran-before', after: names('run'), payload: { sum: true } });
  await post(`${base}/batch`, { tasks: names('follow').map((id) => ({ id, after: ['run-0000'] })) });
}

/** A sale with 1,000 reservations, one with 1,000 buyers in its waiting room, and one with 1,000 in a draw. */
async function furnishSales() {
  const skus = [{ sku: 'phone-256-forest-green', units: 600 }, { sku: 'case', units: 500 }];
  await post('/v1/sales', { id: 'shelf', skus: names('size').map((sku) => ({ sku, units: 5 })) });
  await post('/v1/sales/shelf/open', {});
  for (const [id, metadata] of [['autumn', { title: 'Autumn drop' }], ['line', {}], ['draw', {}]]) {
    await post('/v1/sales', { id, skus, metadata, hold_ms: 600000 });
    await post(`/v1/sales/${id}/open`, {});
  }
  await each(0, ROWS, async (n) => {
    const { id } = await post('/v1/sales/autumn/reservations', { buyer: `buyer-${n}`, lines: [{ sku: skus[n % 2].sku }] }, { 'idempotency-key': 'k' });
    if (n % 3) await post(`/v1/sales/autumn/reservations/${id}/confirm`, {});
  });
  await put('/v1/sales/line/room', { rate: { n: 1, per_ms: 60000 } });
  await put('/v1/sales/draw/room', { rate: { n: 1, per_ms: 60000 }, order: 'draw' });
  for (const sale of ['line', 'draw']) await each(0, ROWS, (n) => post(`/v1/sales/${sale}/tickets`, { buyer: `buyer-${n}` }));
  await post('/v1/sales/draw/room/close-entry', {});
}

/** A lock with 1,000 waiters. Returns a function that ends their requests. */
async function furnishLock() {
  const acquire = (label, until) => fetch(new URL('/v1/locks/order:42/acquire', state.url), {
    method: 'POST', signal: until, headers: { 'content-type': 'application/json', prefer: 'wait=60' }, body: JSON.stringify({ lease_ms: 600000, label }),
  });
  await acquire('ship order 42 to the customer');
  const stop = new AbortController();
  for (const label of names('shipper', ROWS)) acquire(label, stop.signal).catch(() => {});
  const waiters = async () => (await (await fetch(new URL('/v1/locks/order:42', state.url))).json()).waiters.length;
  while (await waiters() < ROWS) await new Promise((resolve) => { setTimeout(resolve, 100); });
  return () => stop.abort();
}

/** The screens: the path, and what is shown once they are complete. */
const SCREENS = {
  overview: ['/', '.card'],
  task: ['/queues/orders/tasks/tries', '.timeline'],
  graph: ['/queues/orders/tasks/gathers-everything-that-ran-before', '.graph'],
  base: ['/queues/orders/tasks/run-0000', '.graph'],
  worker: [`/queues/orders/workers/${encodeURIComponent(WORKER)}`, 'tbody tr'],
  workers: ['/queues/orders/workers', 'tbody tr'],
  schedule: ['/queues/orders/schedules/nightly-report', '.card ol'],
  lock: ['/locks/order%3A42', 'tbody tr'],
  sale: ['/sales/autumn', '.u-wrap canvas'],
  skus: ['/sales/shelf', '.skus tbody tr'],
  drop: ['/sales/autumn/drop', '.u-wrap canvas'],
  room: ['/sales/line', 'input[type=range]'],
  'room-tab': ['/sales/line/room', '.u-wrap canvas'],
  'draw-tab': ['/sales/draw/room', '.draw'],
  'no-room': ['/sales/autumn/room', '.nothing'],
  events: ['/sales/autumn/events', 'tbody tr'],
  'events-first': ['/sales/autumn/events?before=101', 'tbody tr'],
  'room-drop': ['/sales/line/drop', '.drop-figures'],
  draw: ['/sales/draw', 'input[type=range]'],
  log: ['/log', 'tbody tr'],
  docs: ['/docs', ':text("/v1/locks")'],
  shop: ['/shop/autumn', '#buy'],
  'shop-skus': ['/shop/shelf', '#buy'],
};

const LOOKS = {
  dark: { viewport: desk, colorScheme: 'dark' },
  zh: { viewport: desk, locale: 'zh-CN' },
  phone: { viewport: { ...phone, width: 360 }, colorScheme: 'dark', locale: 'zh-CN', reducedMotion: 'reduce' },
};

/** The SKUs of a sale are in pages, and a search finds one on any of them. */
async function findSku(browser) {
  const page = await open(browser, '/sales/shelf', { viewport: desk });
  const row = (sku) => page.locator(`[data-sku=${sku}]`);
  await row('size-0049').waitFor();
  assert.equal(await page.locator('.skus tbody tr').count(), 50);
  await page.click('text=Next page');
  await row('size-0050').waitFor();
  await page.fill('input[name=q]', '-0999');
  await row('size-0999').waitFor();
  assert.equal(await page.locator('.skus tbody tr').count(), 1);
  await page.context().close();
  await findInShop(browser);
}

/** A shop page shows a part of many SKUs, and always the chosen one. A search finds one of the others. */
async function findInShop(browser) {
  const page = await open(browser, '/shop/shelf', { viewport: phone });
  const shown = page.locator('.sku');
  await page.locator('#more', { hasText: 'Show more (976 left)' }).waitFor();
  assert.equal(await shown.count(), 24);
  await page.click('#more');
  await page.locator('#more', { hasText: 'Show more (952 left)' }).waitFor();
  assert.equal(await shown.count(), 48);
  await page.fill('#find', 'SIZE-0999');
  await page.waitForFunction(() => document.querySelectorAll('.sku').length === 2);
  await page.check('input[value=size-0999]');
  await page.fill('#find', '');
  await page.waitForFunction(() => document.querySelectorAll('.sku').length === 25);
  await page.locator('.sku:has(:checked)', { hasText: 'size-0999' }).waitFor();
  await page.click('#buy');
  await page.locator('#order').waitFor();
  assert.match(await page.textContent('#units'), /size-0999/);
  await page.context().close();
}

async function lookAtScreens(browser) {
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  const { server, address } = await start(directory, '127.0.0.1:0', ['--audit-log', 'audit.log']);
  const main = state.url;
  state.url = address;
  try {
    await furnishTasks();
    await furnishSales();
    const stop = await furnishLock();
    await Promise.all(Object.entries(LOOKS).map(async ([look, options]) => {
      const page = await open(browser, '/', options);
      for (const [name, [path, shown]] of Object.entries(SCREENS)) {
        const what = `${name}, ${look}`;
        await page.goto(new URL(path, address).href);
        await page.locator(`:is(main, #shop, body) ${shown}`).first().waitFor({ state: 'attached' });
        await page.locator('h1').first().waitFor({ state: 'attached' }); // while a page loads, it has none
        await fits(page, what);
        assert.ok(await page.evaluate(() => [...document.querySelectorAll('main .scroll')].every((table) => table.scrollWidth <= table.clientWidth)), `${what}: a column is out of sight`);
        if (options.reducedMotion) assert.equal(await page.evaluate(() => document.getAnimations().length), 0, what);
        await accessible(page, what);
        await picture(page, `screen-${name}-${look}`);
      }
      await page.context().close();
    }));
    stop();
    await findSku(browser);
  } finally {
    state.url = main;
    await end(server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
}

module.exports = { lookAtScreens };
