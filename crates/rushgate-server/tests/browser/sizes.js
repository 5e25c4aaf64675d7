// Every list without rows, with one and with 1,000: what it says, whether it fits a phone, its accessibility, and its pages.
'use strict';
const { accessible, assert, desk, end, fits, has, join, mkdtempSync, open, phone, picture, post, put, rmSync, start, state, tmpdir } = require('./stand.js');

const PAGE = 50;
const ROWS = 1000;
const four = (n) => String(n).padStart(4, '0');

/** Runs `work` for each number of a range, some at a time. */
async function each(from, until, work) {
  const left = Array.from({ length: until - from }, (_, n) => from + n);
  await Promise.all(Array.from({ length: 32 }, async () => { while (left.length) await work(left.shift()); }));
}

/** Grows every list from one size to another. The first queue has the tasks, the dead letters and the schedules. */
async function grow(from, until) {
  const ids = (word) => Array.from({ length: until - from }, (_, n) => `${word}-${four(from + n)}`);
  await post('/v1/queues/queue-0000/batch', { tasks: ids('dead').map((id) => ({ id, priority: 0 })) });
  const { tasks } = await post('/v1/queues/queue-0000/claim', { n: until - from, worker: 'mailer' });
  assert.ok(tasks.every(({ id }) => id.startsWith('dead-')));
  await post('/v1/queues/queue-0000/retry', { tickets: tasks.map(({ ticket }) => ticket), give_up: true, error: 'connection refused' });
  await post('/v1/queues/queue-0000/batch', { tasks: ids('task').map((id) => ({ id, payload: { to: 'ann@example.com' }, kind: 'mail' })) });
  await each(Math.max(from, 1), until, (n) => post(`/v1/queues/queue-${four(n)}/tasks`, { id: 'one' }));
  await each(from, until, (n) => put(`/v1/queues/queue-0000/schedules/schedule-${four(n)}`, { cron: '30 3 * * *' }));
  await each(from, until, (n) => post(`/v1/locks/lock-${four(n)}/acquire`, { lease_ms: 600000, label: 'ship an order' }));
  await each(from, until, (n) => post('/v1/sales', { id: `sale-${four(n)}`, skus: [{ sku: 'phone', units: 10 }] }));
}

/** The lists: the path, and what it says without rows. */
const LISTS = {
  queues: ['/queues', 'No queues yet.'],
  tasks: ['/queues/queue-0000', 'Nothing here.'],
  dead: ['/queues/queue-0000?state=dead', 'Nothing here.'],
  schedules: ['/queues/queue-0000/schedules', 'Nothing here.'],
  locks: ['/locks', 'No lock is held or waited for.'],
  sales: ['/sales', 'No sales yet.'],
  log: ['/log', 'Nothing here.'],
};

const rowsOf = (page) => page.locator('main :is(tbody tr, .sale-row)');
/** Waits until the page shows other rows than before, and returns their names. In the audit log they are in the request. */
const othersThan = (page, seen) => page.waitForFunction(([before, rows]) => {
  const names = [...document.querySelectorAll('main :is(tbody tr, .sale-row)')].map((row) => row.querySelector('.name, h2 a, code.clip').textContent);
  return names.length >= rows && !names.some((name) => before.includes(name)) && names;
}, [seen, PAGE]).then((names) => names.jsonValue());

/** Follows the links to the next page. Each page has other rows, and the last page has no link. */
async function walk(page, pages) {
  const seen = [];
  for (let n = 1; ; n += 1) {
    const names = await othersThan(page, seen);
    assert.equal(names.length, PAGE, page.url());
    seen.push(...names);
    const next = page.locator('nav.pager a[rel=next]');
    assert.equal(await next.count(), seen.length < ROWS ? 1 : 0, page.url());
    if (n === pages) return;
    await next.click();
  }
}

async function lookAt(page, name, size, width) {
  const [path, nothing] = LISTS[name];
  const what = `${name} with ${size} rows, ${width}`;
  await page.goto(new URL(path, state.url).href);
  if (size) await rowsOf(page).nth(Math.min(size, PAGE) - 1).waitFor();
  else await has(page, nothing);
  assert.equal(await rowsOf(page).count(), Math.min(size, PAGE), what);
  await fits(page, what);
  if (width === 'desk') assert.ok(await page.evaluate(() => [...document.querySelectorAll('main .scroll')].every((table) => table.scrollWidth <= table.clientWidth)), `${what}: a column is out of sight`);
  await picture(page, `list-${name}-${size}-${width}`);
  await accessible(page, what);
}

/** Rows that a snapshot has no room for have their figures, and screens of their own. */
async function openTheLast(page) {
  await page.goto(new URL('/queues?q=queue-09', state.url).href);
  await rowsOf(page).filter({ hasText: 'queue-0949' }).waitFor();
  await page.goto(new URL('/queues/queue-0999', state.url).href);
  await page.locator('.queue-figures').waitFor();
  await page.goto(new URL('/sales/sale-0999', state.url).href);
  await page.locator('[data-sku=phone]').waitFor();
  await page.goto(new URL('/', state.url).href);
  await has(page, 'This screen covers the first 200 queues, and the first 10,000 sales and locks, by name. There are more.');
  await has(page, 'All 1,000');
  await post('/v1/sales/sale-0999/open', {});
  await post('/v1/sales/sale-0999/halt', {});
  await page.locator('.attention a', { hasText: 'sale-0999' }).waitFor();
  await picture(page, 'overview-1000');
}

/** A figure that can no longer be read stays, and the screen says why it is old. So does a list that is not complete. */
async function failToRead(browser) {
  const page = await open(browser, '/queues/queue-0999', { viewport: desk, refusals: [503] });
  await page.locator('.queue-figures').waitFor();
  const failing = async (url, work) => {
    const body = JSON.stringify({ type: 'about:blank', title: 'Unavailable', status: 503, code: 'unavailable', detail: 'the store did not answer' });
    await page.route(url, (asked) => asked.fulfill({ status: 503, contentType: 'application/problem+json', body }));
    await work();
    await page.unroute(url);
  };
  await failing('**/v1/queues/queue-0999', async () => {
    await has(page, 'the store did not answer');
    assert.ok(await page.locator('.queue-figures').isVisible());
    await page.goto(new URL('/queues?q=queue-0999', state.url).href);
    await has(page, 'the store did not answer');
    await rowsOf(page).filter({ hasText: 'queue-0999' }).waitFor();
  });
  await failing('**/v1/locks?*', async () => {
    await page.goto(new URL('/locks', state.url).href);
    await has(page, 'the store did not answer');
    await rowsOf(page).nth(PAGE - 1).waitFor();
  });
  await failing('**/v1/sales/sale-0999', async () => {
    await page.goto(new URL('/sales/sale-0999', state.url).href);
    await has(page, 'the store did not answer');
    assert.ok(!(await page.innerText('main')).includes('not found'));
  });
  await page.locator('[data-sku=phone]').waitFor();
  await page.context().close();
}

/** A list that does not fit into one answer says so, and a search finds a name that is not in it. */
async function searchBeyond(page) {
  const lock = (name) => ({ name, waiters: [] });
  await page.route('**/v1/locks?*', (asked) => {
    const after = new URL(asked.request().url()).searchParams.get('after');
    return asked.fulfill({ json: after ? { items: [lock('lock-9999'), lock('lock-other')] } : { items: [lock('lock-0000')], next: 'lock-0000' } });
  });
  await page.goto(new URL('/locks', state.url).href);
  await has(page, 'Only the first 10,000 by name are listed.');
  assert.equal(await rowsOf(page).count(), 1);
  await page.fill('input[name=q]', 'lock-99');
  await rowsOf(page).filter({ hasText: 'lock-9999' }).waitFor();
  assert.equal(await rowsOf(page).count(), 1);
  await page.unroute('**/v1/locks?*');
}

async function lookAtSizes(browser) {
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  const { server, address } = await start(directory, '127.0.0.1:0', ['--audit-log', 'audit.log']);
  const main = state.url;
  state.url = address;
  try {
    const pages = { desk: await open(browser, '/', { viewport: desk }), phone: await open(browser, '/', { viewport: { ...phone, width: 360 } }) };
    for (const [from, size] of [[0, 0], [0, 1], [1, ROWS]]) {
      if (size) await grow(from, size);
      await Promise.all(Object.entries(pages).map(async ([width, page]) => {
        for (const name of Object.keys(LISTS)) await lookAt(page, name, size, width);
      }));
    }
    for (const name of Object.keys(LISTS)) {
      await pages.desk.goto(new URL(LISTS[name][0], address).href);
      await walk(pages.desk, ['tasks', 'schedules'].includes(name) ? ROWS / PAGE : 3);
    }
    // A list in memory has a number for each page.
    for (const name of ['queues', 'locks', 'sales']) {
      await pages.desk.goto(new URL(`/${name}?page=${ROWS / PAGE}`, address).href);
      await has(pages.desk, `Page ${ROWS / PAGE} of ${ROWS / PAGE}`);
      await rowsOf(pages.desk).filter({ hasText: `${name.slice(0, -1)}-0999` }).waitFor();
    }
    await openTheLast(pages.desk);
    await searchBeyond(pages.desk);
    await failToRead(browser);
    for (const page of Object.values(pages)) await page.context().close();
  } finally {
    state.url = main;
    await end(server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
}

module.exports = { each, lookAtSizes };
