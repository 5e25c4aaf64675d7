// Tests the pages in a real Chromium: every screen, every action with its confirmation, a buyer who clicks twice and
// reloads, two buyers and an operator at once, refused tokens, a lost network and a killed server. Exits with 1 if an
// assertion fails or the browser logs an error, and then saves a screenshot of every open page.
//
//   node look.js RUSHGATE [DIRECTORY-FOR-SCREENSHOTS]
'use strict';
const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join, resolve } = require('node:path');
const { chromium } = require('playwright-core');

const [command, pictures] = process.argv.slice(2);
const rushgate = resolve(command);
const phone = { width: 390, height: 780 };
const patience = 60000; // generous, for a busy machine
const faults = [];
// Browsers log an error for each failed request while the network is down.
let away = false;
// A name that resolves to this machine but is not loopback. Over plain HTTP, its pages are not a secure context.
const elsewhere = 'shop.test';
let url;

/** Starts a server in this directory, and returns it with its address. */
async function start(directory, listen, more = []) {
  const args = ['serve', '--quiet', '--listen', listen, '--store', 'sqlite:shop.db', '--orders', 'sqlite:orders.db', ...more];
  const server = spawn(rushgate, args, { cwd: directory, stdio: ['ignore', 'pipe', 'inherit'] });
  const address = await new Promise((resolve, reject) => {
    server.stdout.once('data', (line) => resolve(String(line).trim()));
    server.once('exit', () => reject(new Error('the server has ended')));
  });
  return { server, address };
}

/** Starts the main server, on a free port or on its previous one. */
async function serve(directory) {
  const { server, address } = await start(directory, url ? new URL(url).host : '127.0.0.1:0', ['--host', elsewhere]);
  url = address;
  return server;
}

async function end(server, signal) {
  if (server.exitCode !== null || server.signalCode !== null) return;
  server.kill(signal);
  await new Promise((resolve) => { server.once('exit', resolve); });
}

async function send(method, path, body, headers) {
  const answer = await fetch(new URL(path, url), {
    method, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body),
  });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}

const post = (path, body, headers) => send('POST', path, body, headers);
const put = (path, body) => send('PUT', path, body);

async function furnish() {
  const skus = [{ sku: 'phone', units: 100 }, { sku: 'case', units: 40, per_buyer: 2 }];
  await post('/v1/sales', { id: 'phones', skus });
  await post('/v1/sales/phones/open', {});
  for (let n = 0; n < 20; n += 1) {
    const body = { buyer: `buyer-${n}`, lines: [{ sku: 'phone' }] };
    const { id } = await post('/v1/sales/phones/reservations', body, { 'idempotency-key': 'k' });
    if (n % 2) await post(`/v1/sales/phones/reservations/${id}/confirm`, {}, { prefer: 'wait=10' });
  }
  for (const id of ['<img_src=x_onerror=alert(1)>', 'to:bob']) {
    await post('/v1/queues/mail/tasks', { id, payload: { text: '<b>hi</b>' } });
  }
  const { tasks } = await post('/v1/queues/mail/claim', {});
  await post('/v1/queues/mail/retry', { ticket: tasks[0].ticket, give_up: true, error: 'no luck' });
  await post('/v1/locks/order:42/acquire', { lease_ms: 600000, label: 'ship order 42' });
}

async function open(browser, path, { refusals = [], ...options } = {}) {
  const context = await browser.newContext({ locale: 'en', ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const complains = (line) => ['error', 'warning'].includes(line.type()) && !(away && line.text().includes('ERR_'));
  // Refusals are expected, and browsers log each of them.
  const isRefusal = (line) => [409, ...refusals].some((status) => line.text().includes(`status of ${status}`));
  page.on('console', (line) => complains(line) && !isRefusal(line) && faults.push(`${path}: ${line.text()}`));
  page.on('pageerror', (error) => faults.push(`${path}: ${error.message}`));
  await page.goto(new URL(path, url).href);
  return page;
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) });
}

const has = (page, text) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text);
const answer = async (page, word) => { await page.click(`dialog[open] >> text=${word}`); };

async function lookAtSales(page) {
  await page.waitForSelector('.lamp.on');
  await page.waitForSelector('.u-wrap canvas');
  // The page audits without a request by the operator.
  await page.waitForSelector('.check.on');
  await picture(page, 'sales');
  await page.getByRole('button', { name: 'Audit' }).first().click();
  await has(page, 'Audit passed.');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('dialog >> text=Download')]);
  const saved = JSON.parse(readFileSync(await file.path(), 'utf8'));
  assert.ok(saved.audit.ok && saved.audit.checks.length > 5 && saved.sale.id === 'phones', JSON.stringify(saved));
  await page.keyboard.press('Escape');
  await page.click('article >> text=Add units');
  await page.fill('dialog input', '25');
  await answer(page, 'Yes');
  await has(page, 'of 125');
  await page.click('article >> text=End sale');
  await answer(page, 'No');
  await has(page, 'open');
}

const rowOf = (page, text) => page.locator('tbody tr:visible').filter({ hasText: text });
const view = (page, name) => page.locator('.views').getByRole('button', { name: new RegExp(`^${name}`) }).click();
const press = async (row, name) => { await row.getByRole('button', { name, exact: true }).click(); };
/** Opens the details of a row, then closes them with Escape. */
async function detailOf(page, text) {
  await press(rowOf(page, text), 'Show');
  await page.waitForSelector('#detail[open] dd');
  return page.locator('#detail');
}

async function lookAtQueues(page) {
  await page.focus('#tab-sales');
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('#queues tbody tr');
  await picture(page, 'queues');
  await press(rowOf(page, 'mail'), 'Pause');
  await answer(page, 'Yes');
  await rowOf(page, 'mail').getByRole('button', { name: 'Resume' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Resume', 'who was at one button is at its successor');
  await page.keyboard.press('Enter');
  await answer(page, 'Yes');
  await rowOf(page, 'mail').getByRole('button', { name: 'Pause' }).waitFor();
  await press(rowOf(page, 'mail'), 'Tasks');
  await page.waitForSelector('#back');
  await detailOf(page, 'to:bob');
  await has(page, '<b>hi</b>');
  await page.keyboard.press('Escape');
  await view(page, 'dead');
  await has(page, 'no luck');
  await page.click('text=Requeue all');
  await answer(page, 'Yes');
  await has(page, 'Nothing here.');
  await view(page, 'in the queue');
  await searchAndCancel(page);
  await lookAtMany(page);
  await page.click('#back');
}

/** A search shows only its matches, and a bulk action asks first, with their number. */
async function searchAndCancel(page) {
  const ids = Array.from({ length: 12 }, (_, n) => `bulk-${n}`);
  for (const id of [...ids, 'kept']) await post('/v1/queues/mail/tasks', { id, payload: null });
  await page.fill('#search', 'bulk-');
  await has(page, '12 found');
  assert.ok(!(await page.textContent('#queues')).includes('kept'), 'others are not shown');
  await page.getByRole('button', { name: 'Cancel all matches' }).click();
  await has(page, '12: bulk-0, bulk-1, bulk-10, bulk-11, bulk-2, …');
  await picture(page, 'bulk');
  await answer(page, 'No');
  await page.getByRole('button', { name: 'Cancel all matches' }).click();
  await answer(page, 'Yes');
  await has(page, '0 found');
  await page.fill('#search', '');
  await has(page, 'kept');
  const { items } = await (await fetch(`${url}/v1/queues/mail/tasks`)).json();
  assert.ok(items.length && items.every(({ id }) => !id.startsWith('bulk-')), 'only what was found is cancelled');
}

/** A long list is loaded in pages. Tasks enqueued meanwhile appear without moving the rows in view. */
async function lookAtMany(page) {
  const tasks = Array.from({ length: 250 }, (_, n) => ({ id: `many-${String(n).padStart(3, '0')}` }));
  await post('/v1/queues/mail/batch', { tasks });
  await page.fill('#search', 'many-');
  await has(page, '100+ found');
  await page.click('#more');
  await has(page, '200+ found');
  await page.click('#more');
  await has(page, '250 found');
  assert.ok(!await page.isVisible('#more'), 'there is no more');
  const where = () => page.evaluate(() => [scrollY, document.activeElement.closest('tr')?.firstChild.textContent]);
  await rowOf(page, 'many-249').getByRole('button', { name: 'Show' }).focus();
  const stood = await where();
  assert.ok(stood[0] > 0 && stood[1] === 'many-249', String(stood));
  await post('/v1/queues/mail/tasks', { id: 'many-999' });
  await has(page, '251 found');
  assert.deepEqual(await where(), stood, 'focus and scroll stay');
  await page.getByRole('button', { name: 'Cancel all matches' }).click();
  await has(page, '251: many-000');
  await answer(page, 'Yes');
  await has(page, '0 found');
}

/** Enqueues and claims a task. No other task of its queue is due. */
async function claimed(id, lease_ms) {
  await post('/v1/queues/desk/tasks', { id, payload: { of: id }, ...(id === 'runs' && { key: 'tenant-7' }) });
  const { tasks } = await post('/v1/queues/desk/claim', { lease_ms });
  assert.deepEqual(tasks.map((task) => task.id), [id]);
  return tasks[0].ticket;
}

/** A queue with a task in every state, and with schedules. */
async function furnishWork() {
  const retention = { age_ms: 3600000, count: 100 };
  await put('/v1/queues/desk/limits', { retention, per_key: { concurrency: 1 } });
  const ticket = await claimed('runs', 600000);
  await post('/v1/queues/desk/extend', { ticket, lease_ms: 600000, progress: { percent: 40, note: 'page 2 of 5' } });
  await post('/v1/queues/desk/complete', { ticket: await claimed('is-done'), result: { sent: 'yes' } });
  await post('/v1/queues/desk/retry', { ticket: await claimed('fails'), error: 'try again later', delay_ms: 3600000 });
  for (const n of [1, 2, 3, 4]) {
    await post('/v1/queues/desk/retry', { ticket: await claimed(`dead-${n}`), error: 'no luck', give_up: true });
  }
  await post('/v1/queues/desk/tasks', { id: 'behind', payload: null, key: 'tenant-7' });
  await post('/v1/queues/desk/tasks', { id: 'long', payload: 'x'.repeat(30000), delay_ms: 3600000 });
  await put('/v1/queues/desk/schedules/nightly', { cron: '0 3 * * *', zone: 'Europe/Berlin', payload: { report: 1 } });
  return ticket;
}

/** Tasks in every state, with their details: facts, history, and why they are not running. */
async function lookAtTasks(page) {
  const ticket = await furnishWork();
  await press(rowOf(page, 'desk'), 'Tasks');
  await view(page, 'leased 1');
  let detail = await detailOf(page, 'runs');
  await has(page, 'page 2 of 5');
  const [shown, wanted] = [await detail.innerText(), ['leased 40 %', 'tenant-7', '1/20', 'Lease left', '"of": "runs"', 'attempt 1 · ']];
  for (const text of wanted) assert.ok(shown.includes(text), `${text}: ${shown}`);
  assert.ok(!shown.includes('not running'), 'it runs');
  await post('/v1/queues/desk/extend', { ticket, lease_ms: 600000, progress: { percent: 60, note: 'page 3 of 5' } });
  await has(page, 'page 3 of 5');
  await picture(page, 'task');
  await page.keyboard.press('Escape');
  const looks = [
    ['done 1', 'is-done', ['"sent": "yes"', ' · done']],
    ['scheduled 2', 'fails', ['Due in 59 min', 'failed after', 'try again later']],
    ['scheduled 2', 'long', ['truncated: 30,002 characters']],
    ['blocked 1', 'behind', ['Concurrency limit of key tenant-7 reached. Running: runs']],
    ['dead 4', 'dead-1', ['dead after 1 attempts: no luck', '"of": "dead-1"']],
  ];
  for (const [state, id, texts] of looks) {
    await view(page, state);
    detail = await detailOf(page, id);
    for (const text of texts) await has(page, text);
    assert.equal((await detail.innerText()).includes('not running'), ['fails', 'long', 'behind'].includes(id), id);
    await picture(page, `task-${id}`);
    await page.keyboard.press('Escape');
  }
  await steerTasks(page);
  await lookAtSchedules(page);
  await view(page, 'Workers');
  await has(page, '1 found');
  assert.match(await rowOf(page, 'runs').innerText(), /:\d+\s+1\s/, 'a worker has one task');
  await picture(page, 'workers');
  await page.click('#back');
}

async function steerTasks(page) {
  await view(page, 'dead');
  await press(rowOf(page, 'dead-1'), 'Requeue');
  await answer(page, 'Yes');
  await has(page, '3 found');
  await press(rowOf(page, 'dead-2'), 'Delete');
  await answer(page, 'No');
  await has(page, 'dead-2');
  await press(rowOf(page, 'dead-2'), 'Delete');
  await answer(page, 'Yes');
  await has(page, '2 found');
  await page.click('text=Delete all matches');
  await has(page, '2: dead-3, dead-4');
  await answer(page, 'Yes');
  await has(page, 'Nothing here.');
  await view(page, 'ready 1');
  await has(page, '1 found');
  await press(rowOf(page, 'dead-1'), 'Cancel task');
  await answer(page, 'Yes');
  await has(page, '0 found');
  await view(page, 'leased');
  await press(rowOf(page, 'runs'), 'Cancel task');
  await answer(page, 'Yes');
  await has(page, 'cancel requested');
}

async function lookAtSchedules(page) {
  await view(page, 'Schedules');
  const row = rowOf(page, 'nightly');
  await row.filter({ hasText: 'Europe/Berlin' }).filter({ hasText: 'in ' }).waitFor();
  await picture(page, 'schedules');
  await press(row, 'Pause');
  await answer(page, 'Yes');
  await row.filter({ hasText: 'paused' }).waitFor();
  await press(row, 'Resume');
  await answer(page, 'Yes');
  await row.filter({ hasText: 'running' }).waitFor();
  await press(row, 'Run now');
  await answer(page, 'Yes');
  await view(page, 'ready 1');
  await rowOf(page, 'nightly').waitFor();
  await view(page, 'Schedules');
  await press(row, 'Delete');
  await answer(page, 'Yes');
  await has(page, 'Nothing here.');
}

async function lookAtLocks(page) {
  await page.click('#tab-locks');
  await has(page, 'ship order 42');
  await picture(page, 'locks');
  const acquire = (label) => post('/v1/locks/order:42/acquire', { lease_ms: 600000, label }, { prefer: 'wait=60' });
  const waiters = ['second', 'third'].map(acquire);
  const detail = await detailOf(page, 'order:42');
  for (const text of ['Lease left', 'Wait queue', 'second', 'third']) await has(page, text);
  assert.equal(await detail.locator('tbody tr').count(), 2);
  await picture(page, 'lock');
  await page.keyboard.press('Escape');
  const breakIt = async () => { await press(rowOf(page, 'order:42'), 'Force-release'); await answer(page, 'Yes'); };
  for (const left of [1, 0]) {
    await breakIt();
    await rowOf(page, /second|third/).filter({ hasText: new RegExp(`\\t${left}\\t|${left}Show`) }).waitFor();
  }
  await Promise.all(waiters);
  await breakIt();
  await has(page, 'No lock is held');
}

async function buy(browser) {
  const page = await open(browser, '/shop/phones', { viewport: phone });
  await page.waitForSelector('#buy:not([disabled])');
  await page.dblclick('#buy');
  await page.waitForSelector('#cancel:not([hidden])');
  const number = async () => (await page.textContent('#state')).match(/unit (\d+)/)[1];
  const first = await number();
  await picture(page, 'shop');
  await page.reload();
  await page.waitForSelector('#cancel:not([hidden])');
  assert.equal(await number(), first, 'a reload leads to the same unit');
  await page.goto(`${url}/docs`);
  await page.waitForSelector('#claim');
  await page.goBack();
  await page.waitForSelector('#cancel:not([hidden])');
  assert.equal(await number(), first, 'and so does the back button');
  const { skus } = await (await fetch(`${url}/v1/sales/phones`)).json();
  assert.equal(skus[0].held, 11, 'a double click reserves once');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  await page.click('#buy');
  await page.click('#pay');
  await has(page, 'Payment confirmed. It is yours.');
  await page.reload();
  await has(page, 'Payment confirmed. It is yours.');
  await picture(page, 'shop-paid');
  await page.context().close();
}

/** A sale opens at its opening time, and the page counts down to it. */
async function countDown(browser) {
  await post('/v1/sales', { id: 'soon', skus: [{ sku: 'phone', units: 5 }], opens_at_us: (Date.now() + 4000) * 1000 });
  await post('/v1/sales/soon/open', {});
  const page = await open(browser, '/shop/soon', { viewport: phone });
  await has(page, 'opens in');
  assert.ok(await page.isDisabled('#buy'));
  await page.click('#buy:not([disabled])');
  await has(page, 'unit 1)');
  await page.context().close();
}

/** A page served by another machine over plain HTTP lacks the features of secure contexts. */
async function beOnAnotherMachine(browser) {
  await post('/v1/sales', { id: 'plain', skus: [{ sku: 'phone', units: 5 }] });
  await post('/v1/sales/plain/open', {});
  const origin = `http://${elsewhere}:${new URL(url).port}`;
  const shop = await open(browser, `${origin}/shop/plain`, { viewport: phone });
  assert.deepEqual(await shop.evaluate(() => [isSecureContext, typeof crypto.randomUUID]), [false, 'undefined']);
  await shop.click('#buy:not([disabled])');
  await has(shop, 'unit 1)');
  const operator = await open(browser, `${origin}/`, { viewport: { width: 1200, height: 900 } });
  const card = cardOf(operator, 'plain');
  await card.getByRole('button', { name: 'Add units' }).click();
  await operator.fill('dialog input', '7');
  await answer(operator, 'Yes');
  await card.getByText('of 12').waitFor();
  for (const page of [shop, operator]) await page.context().close();
}

const cardOf = (page, sale) => page.locator('article').filter({ has: page.locator('h2', { hasText: new RegExp(`^${sale}$`) }) });

/** A sale without available units is not shown as open, and has no actions that would be refused. */
async function tellHowSalesStand(browser) {
  const make = async (id, more, body = { skus: [{ sku: 'phone', units: 1 }, { sku: 'case', units: 1 }] }) => {
    await post('/v1/sales', { id, ...body, ...more });
    await post(`/v1/sales/${id}/open`, {});
  };
  await make('gone');
  for (const sku of ['phone', 'case']) {
    const body = { buyer: 'ann', lines: [{ sku }] };
    const { id } = await post('/v1/sales/gone/reservations', body, { 'idempotency-key': sku });
    await post(`/v1/sales/gone/reservations/${id}/confirm`, {}, { prefer: 'wait=10' });
  }
  await make('later', { opens_at_us: (Date.now() + 3600000) * 1000 });
  await make('closed', { closes_at_us: (Date.now() - 1000) * 1000 });
  await make('finished');
  await post('/v1/sales/finished/end', {});
  const operator = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  const verbs = { gone: ['Add units'], later: ['Add units', 'Withdraw units'], closed: [], finished: [] };
  const said = { gone: ['sold out', 'Sold out.'], later: ['scheduled', 'opens in'], closed: ['closed', 'The sale has ended.'], finished: ['ended', 'The sale has ended.'] };
  for (const [id, [tag, state]] of Object.entries(said)) {
    const card = cardOf(operator, id);
    await card.locator('.tag').getByText(tag, { exact: true }).waitFor();
    for (const name of ['Add units', 'Withdraw units']) {
      assert.equal(await card.getByRole('button', { name, exact: true }).count() > 0, verbs[id].includes(name), `${id}: ${name}`);
    }
    const shop = await open(browser, `/shop/${id}`, { viewport: phone });
    await has(shop, state);
    assert.ok(await shop.isDisabled('#buy'), id);
    await picture(shop, `shop-${id}`);
    if (id === 'gone') {
      // Each radio button is beside its label, vertically centered.
      for (const label of await shop.locator('#choice label').all()) {
        const [outer, inner] = [await label.boundingBox(), await label.locator('input').boundingBox()];
        assert.ok(Math.abs(outer.y + outer.height / 2 - inner.y - inner.height / 2) < 3 && inner.height < 24, JSON.stringify([outer, inner]));
      }
      await shop.click('text=中文');
      await has(shop, '已售罄');
      await picture(shop, 'shop-gone-zh');
    }
    await shop.context().close();
  }
  await picture(operator, 'sales-standing');
  await operator.click('text=中文');
  await cardOf(operator, 'gone').getByText('已售罄', { exact: true }).waitFor();
  await picture(operator, 'sales-standing-zh');
  await operator.context().close();
}

/** One unit, two buyers who click at the same moment, and an operator who watches and then adds a unit. */
async function sellTheLastOne(browser) {
  await post('/v1/sales', { id: 'last', skus: [{ sku: 'phone', units: 1 }], hold_ms: 600000 });
  const operator = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  await operator.waitForSelector('.lamp.on');
  const card = operator.locator('article').filter({ has: operator.locator('h2', { hasText: /^last$/ }) });
  const buyers = await Promise.all([1, 2].map(() => open(browser, '/shop/last', { viewport: phone })));
  await has(buyers[0], 'Not open');
  await card.getByRole('button', { name: 'Open' }).click();
  await answer(operator, 'Yes');
  await Promise.all(buyers.map((page) => page.waitForSelector('#buy:not([disabled])')));
  await Promise.all(buyers.map((page) => page.click('#buy')));
  const got = async (page) => Boolean(await page.waitForFunction(() => {
    const shown = document.getElementById('state').textContent;
    return /unit 1\b/.test(shown) ? 'yes' : /on hold/.test(shown) && 'no';
  }).then((answer) => answer.jsonValue().then((word) => word === 'yes')));
  const [first, second] = await Promise.all(buyers.map(got));
  assert.ok(first !== second, 'one buyer has the unit, and the other sees that it is taken');
  await picture(buyers[first ? 1 : 0], 'shop-held');
  await has(buyers[first ? 1 : 0], 'phone: 0 left');
  await card.locator('.figures').filter({ hasText: '1 held' }).waitFor();
  await card.getByRole('button', { name: 'Add units' }).click();
  await answer(operator, 'Yes');
  await has(buyers[first ? 1 : 0], 'unit 2');
  await card.locator('.figures').filter({ hasText: '2 held' }).waitFor();
  for (const page of [operator, ...buyers]) await page.context().close();
}

/** Two buyers in a waiting room that admits one, and an operator who opens it and then admits more. */
async function waitInLine(browser) {
  await post('/v1/sales', { id: 'line', skus: [{ sku: 'phone', units: 5 }], hold_ms: 600000 });
  await post('/v1/sales/line/open', {});
  const rules = { rate: { n: 1, per_ms: 3600000 } };
  await put('/v1/sales/line/room', rules);
  const operator = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  const card = operator.locator('article').filter({ has: operator.locator('h2', { hasText: /^line$/ }) });
  await card.filter({ hasText: '0 joined' }).waitFor();
  const buyers = [];
  for (const n of [0, 1]) {
    buyers.push(await open(browser, '/shop/line', { viewport: phone }));
    await buyers[n].waitForSelector('#buy:not([disabled])');
    await buyers[n].click('#buy');
    await has(buyers[n], n ? 'ahead of you' : 'unit 1');
  }
  await picture(buyers[1], 'shop-line');
  await card.filter({ hasText: '2 joined, 1 admitted' }).waitFor();
  await card.scrollIntoViewIfNeeded();
  await picture(operator, 'room');
  await card.getByRole('button', { name: 'Waiting room', exact: true }).click();
  await answer(operator, 'Yes');
  await has(buyers[1], 'unit 2');
  await card.getByRole('button', { name: 'Close waiting room' }).click();
  await answer(operator, 'Yes');
  await card.filter({ hasNotText: 'joined' }).waitFor();
  for (const page of [operator, ...buyers]) await page.context().close();
}

/** A room with a draw: its entry is closed, the draw is made, and the slider admits everyone. */
async function drawLots(browser) {
  await post('/v1/sales', { id: 'lots', skus: [{ sku: 'phone', units: 5 }], hold_ms: 600000 });
  await post('/v1/sales/lots/open', {});
  const operator = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  const card = operator.locator('article').filter({ has: operator.locator('h2', { hasText: /^lots$/ }) });
  await card.getByRole('button', { name: 'Waiting room', exact: true }).click();
  await operator.check('dialog >> text=Randomized draw');
  await picture(operator, 'open-room');
  await answer(operator, 'Yes');
  await card.filter({ hasText: 'commitment' }).waitFor();
  const buyers = [];
  for (const n of [0, 1, 2]) {
    if (n === 2) {
      await card.filter({ hasText: '2 joined' }).waitFor();
      await card.getByRole('button', { name: 'Close entry' }).click();
      await answer(operator, 'Yes');
      await card.filter({ hasText: '2 take part in the draw' }).waitFor();
    }
    buyers.push(await open(browser, '/shop/lots', { viewport: phone }));
    await buyers[n].waitForSelector('#buy:not([disabled])');
    await buyers[n].click('#buy');
    await has(buyers[n], n === 2 ? '2 take part in the draw ahead of you.' : 'A random draw decides');
  }
  await picture(buyers[2], 'shop-late');
  await card.getByRole('button', { name: 'Draw', exact: true }).click();
  await operator.fill('dialog input', '07 12 19 23 38 41');
  await picture(operator, 'draw');
  await answer(operator, 'Yes');
  await card.filter({ hasText: 'drawn with 07 12 19 23 38 41' }).waitFor();
  const room = async () => (await fetch(`${url}/v1/sales/lots/room`)).json();
  assert.equal((await room()).entrants, 2, 'who came later takes no part');
  // The End key moves the slider from one per second to the highest rate.
  await card.getByRole('slider').press('End');
  for (const page of buyers) await has(page, 'Reserved for you');
  assert.deepEqual((await room()).rate, { n: 10000, per_ms: 1000 });
  await card.scrollIntoViewIfNeeded();
  await picture(operator, 'drawn');
  for (const page of [operator, ...buyers]) await page.context().close();
}

/** A shop's page passes a proof, which goes into the request and not into the visible URL. */
async function handOver(browser) {
  const page = await open(browser, '/shop/phones#proof=0.abc', { viewport: phone });
  await page.waitForSelector('#buy:not([disabled])');
  assert.equal(new URL(page.url()).hash, '');
  const [request] = await Promise.all([
    page.waitForRequest((asked) => asked.method() === 'POST' && asked.url().endsWith('/reservations')), page.click('#buy'),
  ]);
  assert.equal(await request.headerValue('rushgate-proof'), '0.abc');
  await page.waitForSelector('#cancel:not([hidden])');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  // The server's refusal says where to get a proof.
  await page.route('**/reservations', (route) => route.fulfill({
    status: 409, contentType: 'application/problem+json',
    body: JSON.stringify({ code: 'proof_needed', detail: 'x', retryable: false, prove_at: 'https://shop.example/prove' }),
  }));
  const keyOf = async (act) => {
    const asks = (asked) => asked.method() === 'POST' && asked.url().endsWith('/reservations');
    const [asked] = await Promise.all([page.waitForRequest(asks), act()]);
    return { key: await asked.headerValue('idempotency-key'), proof: await asked.headerValue('rushgate-proof') };
  };
  const refused = await keyOf(() => page.click('#buy'));
  await has(page, 'Confirm that you are human first.');
  assert.equal(await page.getAttribute('#prove', 'href'), 'https://shop.example/prove');
  await picture(page, 'shop-prove');
  // Back with a new proof, the page continues the same attempt, because it may have succeeded. The next attempt is a
  // new one.
  await page.unroute('**/reservations');
  await page.goto('about:blank');
  await page.goto(`${url}/shop/phones#proof=1.def`);
  await page.waitForSelector('#buy:not([disabled])');
  assert.deepEqual(await keyOf(() => page.click('#buy')), { key: refused.key, proof: '1.def' });
  await page.waitForSelector('#cancel:not([hidden])');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  assert.notEqual((await keyOf(() => page.click('#buy'))).key, refused.key, 'what has an answer is over');
  await page.waitForSelector('#cancel:not([hidden])');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  await page.context().close();
}

/** A link with another buyer's token asks first. No changes nothing; yes leaves the first buyer's attempt behind. */
async function changeBuyers(browser) {
  const token = (sub) => `x.${Buffer.from(JSON.stringify({ sub })).toString('base64url')}.y`;
  const page = await open(browser, `/shop/phones#token=${token('ann')}`, { viewport: phone });
  const asked = [];
  let answerWith = 'dismiss';
  page.on('dialog', async (dialog) => { asked.push(dialog.message()); await dialog[answerWith](); });
  await page.route('**/reservations', (route) => route.fulfill({
    status: 409, contentType: 'application/problem+json', body: JSON.stringify({ code: 'sold_out', detail: 'x', retryable: false }),
  }));
  await page.waitForSelector('#buy:not([disabled])');
  const buyer = async () => {
    const asks = (request) => request.method() === 'POST' && request.url().endsWith('/reservations');
    const [request] = await Promise.all([page.waitForRequest(asks), page.click('#buy')]);
    await has(page, 'Sold out.');
    await page.waitForSelector('#buy:not([disabled])');
    assert.equal(JSON.parse(request.postData()).buyer, undefined, 'the token says who buys');
    return (await request.headerValue('authorization')).replace('Bearer ', '');
  };
  const follow = async (sub) => {
    await page.evaluate(() => localStorage.setItem('attempt:phones', 'written down'));
    await page.evaluate((hash) => { location.hash = hash; }, `token=${token(sub)}`);
    await page.waitForFunction(() => !location.hash);
    return page.evaluate(() => localStorage.getItem('attempt:phones'));
  };
  assert.equal(await buyer(), token('ann'));
  assert.deepEqual(asked, [], 'nobody was anybody before');
  assert.equal(await follow('ann'), 'written down');
  assert.deepEqual(asked, [], 'the same buyer');
  assert.equal(await follow('bob'), 'written down');
  assert.deepEqual(asked, ['This link signs you in as another buyer. Continue?']);
  assert.equal(await buyer(), token('ann'), 'it was a no');
  answerWith = 'accept';
  assert.equal(await follow('bob'), null);
  assert.equal(asked.length, 2);
  assert.equal(await buyer(), token('bob'));
  await page.context().close();
}

/** A buyer clicks while the network is down, and an operator watches while the server is killed and restarted. */
async function loseTheWay(browser, directory, server) {
  const operator = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  await operator.waitForSelector('.lamp.on');
  const buyer = await open(browser, '/shop/phones', { viewport: phone });
  await buyer.waitForSelector('#buy:not([disabled])');
  away = true;
  await buyer.context().setOffline(true);
  await buyer.click('#buy');
  await has(buyer, 'retrying');
  await picture(buyer, 'shop-away');
  await buyer.context().setOffline(false);
  await buyer.waitForSelector('#cancel:not([hidden])');
  const shown = await buyer.textContent('#state');
  await end(server, 'SIGKILL');
  await operator.waitForSelector('.lamp:not(.on)');
  const next = await serve(directory);
  await operator.waitForSelector('.lamp.on');
  await buyer.reload();
  await buyer.waitForSelector('#cancel:not([hidden])');
  away = false;
  const number = (text) => text.match(/unit (\d+)/)[1];
  assert.equal(number(await buyer.textContent('#state')), number(shown), 'what was promised outlives the server');
  for (const page of [operator, buyer]) await page.context().close();
  return next;
}

/** The README's load simulation, smaller: buyers use the API, and an operator watches the sale sell out. */
async function watchItSellOut(browser) {
  const sale = { id: 'launch', skus: [{ sku: 'phone', units: 300 }], hold_ms: 2000 };
  await post('/v1/sales', sale);
  const page = await open(browser, '/', { viewport: { width: 1200, height: 560 } });
  await page.waitForSelector('.lamp.on');
  const args = ['--quiet', '--json', 'rush', '--url', url, '--join', 'launch', '--buyers', '3000', '--within', '8s'];
  const crowd = spawn(rushgate, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let report = '';
  crowd.stdout.on('data', (part) => { report += part; });
  const over = new Promise((resolve) => { crowd.once('exit', resolve); });
  const card = page.locator('article').filter({ has: page.locator('h2', { hasText: /^launch$/ }) });
  const confirmed = card.locator('.figures b').first();
  const shown = async () => Number(await confirmed.textContent());
  while (await shown() < 150) await page.waitForTimeout(100);
  await card.scrollIntoViewIfNeeded();
  await picture(page, 'rush');
  assert.equal(await over, 0, report);
  assert.ok(JSON.parse(report).audit.ok, report);
  while (await shown() < 300) await page.waitForTimeout(100);
  // The page shows the same counts as the simulation.
  const { answers } = JSON.parse(report);
  const there = { reserved: answers.reserved, replayed: answers.replayed, all_held: answers.all_held, sold_out: answers.sold_out };
  const differs = async () => {
    const counted = await attemptsIn(card);
    return Object.entries(there).filter(([answer, n]) => (counted[answer]?.[2] ?? 0) !== n);
  };
  const until = Date.now() + patience;
  while ((await differs()).length) {
    assert.ok(Date.now() < until, `${JSON.stringify(await differs())} ${report}`);
    await page.waitForTimeout(100);
  }
  await card.locator('.attempts').scrollIntoViewIfNeeded();
  await picture(page, 'rush-attempts');
  await page.context().close();
}

/** Attempts by answer on a card: current rate, peak rate, and total. */
const attemptsIn = (card) => card.locator('.attempts tbody tr').evaluateAll((rows) => Object.fromEntries(rows.map((row) => [
  row.dataset.answer, [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent.replace(/\D/g, ''))),
])));

/** One snapshot from the event stream. */
async function snapshot() {
  const { body } = await fetch(`${url}/v1/events`);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { value, done } = await reader.read();
    assert.ok(!done, text);
    text += value;
    const told = text.match(/^data: (.*)\n\n/m);
    if (told) {
      await reader.cancel();
      return JSON.parse(told[1]);
    }
  }
}

/** The chart shows the same counts as the buyers' answers and the metrics. */
async function countAttempts(browser) {
  await post('/v1/sales', { id: 'count', skus: [{ sku: 'phone', units: 3 }], hold_ms: 600000 });
  const page = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  await page.waitForSelector('.lamp.on');
  const card = page.locator('article').filter({ has: page.locator('h2', { hasText: /^count$/ }) });
  await card.waitFor();
  assert.ok(!await card.locator('.attempts').isVisible(), 'nobody has come');
  const reserve = (buyer, key = 'k') => fetch(`${url}/v1/sales/count/reservations`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ buyer, lines: [{ sku: 'phone' }] }),
  }).then((answer) => answer.status);
  const times = async (n, attempt) => { for (let i = 0; i < n; i += 1) await attempt(i); };
  const began = Date.now();
  await times(4, () => reserve('ann').then((status) => assert.equal(status, 409, 'it is not open')));
  await post('/v1/sales/count/open', {});
  const first = async (buyer) => assert.equal(await reserve(buyer), 202);
  await first('ann');
  await times(5, () => reserve('ann'));
  await times(2, (n) => reserve('ann', `again-${n}`));
  await first('bob');
  await first('cid');
  await times(60, (n) => reserve(`late-${n}`));
  const wanted = { reserved: 3, replayed: 5, all_held: 60, limit_reached: 2, closed: 4 };
  const inAll = async () => Object.fromEntries(Object.entries(await attemptsIn(card)).map(([answer, [, , all]]) => [answer, all]));
  while (JSON.stringify(await inAll()) !== JSON.stringify(wanted)) {
    const text = JSON.stringify(await inAll());
    assert.ok(Date.now() - began < patience, text);
    await page.waitForTimeout(100);
  }
  const seconds = (Date.now() - began) / 1000;
  for (const [answer, [now, most, all]] of Object.entries(await attemptsIn(card))) {
    // Counts are at least one second apart, so no rate exceeds the total, and the peak is at least the average.
    assert.ok(now <= most && most <= all + 1 && most >= Math.floor(all / (seconds + 2)), `${answer}: ${now} ${most} ${all}, ${seconds}`);
  }
  const metrics = await (await fetch(`${url}/metrics`)).text();
  assert.ok(metrics.includes('rushgate_sale_attempts_total{sale="count",answer="all_held"} 60'), metrics);
  const facts = await card.locator('.facts').textContent();
  const { at_store: atStore } = (await snapshot()).attempts.find(({ sale }) => sale === 'count');
  assert.ok(atStore >= 11 && atStore <= 74, String(atStore));
  assert.ok(facts.includes(`answered from the admission cache: ${Math.floor(1000 * (74 - atStore) / 74) / 10} %`), `${facts} ${atStore}`);
  assert.match(facts, /without the ledger: 95\.9 %/);
  assert.match(facts, /p99/);
  assert.match(await card.locator('.lag').textContent(), /ledger is up to date|ledger lag/);
  await card.locator('.attempts .u-wrap canvas').waitFor();
  await card.locator('.attempts').scrollIntoViewIfNeeded();
  await page.waitForTimeout(1500);
  await picture(page, 'attempts');
  for (const colorScheme of ['dark', 'light']) {
    const small = await open(browser, '/', { viewport: phone, colorScheme, locale: 'zh-CN' });
    const there = small.locator('article').filter({ has: small.locator('h2', { hasText: /^count$/ }) });
    await there.locator('.attempts tbody tr').first().waitFor();
    const wider = await small.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.ok(!wider, 'the attempts fit a phone');
    await there.locator('.attempts .u-wrap canvas').waitFor();
    await there.locator('.attempts').scrollIntoViewIfNeeded();
    await picture(small, `attempts-phone-${colorScheme}`);
    await small.context().close();
  }
  await page.context().close();
}

/** The other actions on a sale: stop, rebuild, and end for good. */
async function steer(browser) {
  const page = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  await page.waitForSelector('.lamp.on');
  const card = page.locator('article').filter({ has: page.locator('h2', { hasText: /^phones$/ }) });
  const press = async (name) => {
    await card.getByRole('button', { name }).first().click();
    await answer(page, 'Yes');
  };
  await press('Withdraw');
  await card.locator('.figures').filter({ hasText: '1 withdrawn' }).first().waitFor();
  await press('Halt');
  await card.locator('.tag.stopped').waitFor();
  await picture(page, 'stopped');
  await press('Rebuild');
  await card.locator('.tag.open').waitFor();
  await card.locator('.incidents summary').click();
  for (const word of ['halted by an operator', 'resumed', 'rebuilt: generation']) {
    await card.locator('.incidents li').filter({ hasText: word }).first().waitFor();
  }
  await picture(page, 'incidents');
  await press('End sale');
  await card.locator('.tag.ended').waitFor();
  await page.context().close();
}

/** Changes the ledger's file, as a program beside the server could. */
function inTheLedger(directory, sql) {
  const script = 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=30); c.executescript(sys.argv[2]); c.close()';
  const { status, stderr } = spawnSync('python3', ['-c', script, join(directory, 'orders.db'), sql], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
}

/** An order that the ledger refuses is shown with its reason, and is retried on request. */
async function retryOrders(browser, directory) {
  inTheLedger(directory, `CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.buyer = 'eve'
    BEGIN SELECT RAISE(ABORT, 'out of ink'); END`);
  await post('/v1/sales', { id: 'ink', skus: [{ sku: 'phone', units: 3 }] });
  await post('/v1/sales/ink/open', {});
  const page = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
  await page.waitForSelector('.lamp.on');
  const card = page.locator('article').filter({ has: page.locator('h2', { hasText: /^ink$/ }) });
  await card.locator('.lag', { hasText: 'ledger is up to date' }).waitFor();
  assert.ok(!await card.locator('.failures').isVisible() && !await card.getByRole('button', { name: 'Retry orders' }).count());
  const body = { buyer: 'eve', lines: [{ sku: 'phone' }] };
  const { id } = await post('/v1/sales/ink/reservations', body, { 'idempotency-key': 'k' });
  await post(`/v1/sales/ink/reservations/${id}/confirm`, {});
  await card.locator('.failures summary').click();
  await card.locator('.failures li').filter({ hasText: 'refused a statement of the ledger' }).first().waitFor();
  assert.match(await card.locator('.failures summary').textContent(), /could not record: \d/);
  await picture(page, 'failed-orders');
  inTheLedger(directory, 'DROP TRIGGER refuse');
  await card.getByRole('button', { name: 'Retry orders' }).click();
  await answer(page, 'Yes');
  await card.locator('.figures').filter({ hasText: '1 confirmed' }).waitFor();
  await card.locator('.failures').waitFor({ state: 'hidden' });
  await card.locator('.lag', { hasText: 'ledger is up to date' }).waitFor();
  await page.context().close();
}

/** Switches the language, at once and after a reload. */
async function changeLanguage(browser) {
  const page = await open(browser, '/', { viewport: phone });
  await page.click('text=中文');
  await has(page, '队列');
  await page.reload();
  await page.click('text=English');
  await has(page, 'Queues');
  assert.equal(await page.getAttribute('html', 'lang'), 'en');
  await page.context().close();
}

/** A server with tokens: the operator's page and the shop page report a missing, wrong or insufficient token. */
async function showTokens(browser) {
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  const create = (label, ...args) => {
    const made = spawnSync(rushgate, ['token', 'create', label, '--tokens', 'tokens.json', ...args], { cwd: directory, encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    return made.stdout.trim().split(/\s+/).pop();
  };
  const [boss, worker] = ['operator', 'worker'].map((role) => create(role, '--role', role));
  const [ann, bob] = [['ann', 'sale:guarded'], ['bob', 'sale:others']]
    .map(([buyer, scope]) => create(buyer, '--role', 'buyer', '--buyer', buyer, '--scope', scope));
  const { server, address } = await start(directory, '127.0.0.1:0', ['--tokens', 'tokens.json']);
  try {
    const asBoss = { authorization: `Bearer ${boss}` };
    await post(`${address}/v1/sales`, { id: 'guarded', skus: [{ sku: 'phone', units: 5 }] }, asBoss);
    await post(`${address}/v1/sales/guarded/open`, {}, asBoss);
    await knock(await open(browser, `${address}/`, { viewport: phone, refusals: [401, 403] }), worker, boss);
    await shopWithTokens(browser, address, ann, bob);
  } finally {
    await end(server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
}

async function knock(page, worker, boss) {
  const enter = async (token) => { await page.fill('#bearer', token); await page.keyboard.press('Enter'); };
  await has(page, 'This server requires an API token.');
  await enter('rg_wrong');
  await has(page, 'Token refused');
  assert.equal(await page.textContent('#lamp'), 'not authorized');
  await picture(page, 'door');
  await enter(worker);
  await has(page, 'requires a token with the role operator');
  await enter(boss);
  await page.waitForSelector('.lamp.on');
  await has(page, 'guarded');
  assert.ok(!await page.isVisible('#door'), 'who is in is not asked');
  await page.context().close();
}

async function shopWithTokens(browser, address, ann, bob) {
  const shop = (hash) => open(browser, `${address}/shop/guarded${hash}`, { viewport: phone, refusals: [401, 403] });
  const page = await shop('');
  await has(page, 'You are signed out');
  assert.ok(await page.isDisabled('#buy'));
  await picture(page, 'shop-no-token');
  await page.click('text=中文');
  await has(page, '您尚未登录');
  await page.click('text=English');
  // The shop's own page signs the buyer in, and this page continues.
  await page.evaluate((token) => { location.hash = `token=${token}`; }, ann);
  await page.click('#buy:not([disabled])');
  await has(page, 'Reserved for you');
  await page.click('#pay');
  await has(page, 'Payment cannot be confirmed');
  await picture(page, 'shop-token');
  // Another tab does not have the token, and keeps the attempt.
  const other = await page.context().newPage();
  await other.goto(`${address}/shop/guarded`);
  await has(other, 'You are signed out');
  await other.evaluate((token) => { location.hash = `token=${token}`; }, ann);
  await has(other, 'unit 1)');
  for (const [hash, text] of [['#token=rg_wrong', 'Sign in at the shop'], [`#token=${bob}`, 'does not include this sale']]) {
    const stranger = await shop(hash);
    await has(stranger, text);
    await stranger.context().close();
  }
  await page.context().close();
}

/** Sales that do not exist, and refusals without a text of the page. */
async function loseTheSale(browser) {
  for (const path of ['/shop/none', '/shop/%ff']) {
    const page = await open(browser, path, { viewport: phone, refusals: [404] });
    await has(page, 'Sale not found.');
    await page.click('text=中文');
    await has(page, '找不到该销售。');
    await page.context().close();
  }
  const page = await open(browser, '/shop/phones', { viewport: phone });
  const refuse = (route) => route.fulfill({
    status: 409, contentType: 'application/problem+json', body: JSON.stringify({ code: 'odd', detail: 'for a test', retryable: false }),
  });
  await page.route('**/reservations', refuse);
  await page.click('#buy:not([disabled])');
  await has(page, 'The shop refused the request: for a test');
  await page.unroute('**/reservations');
  await page.click('#buy:not([disabled])');
  await page.waitForSelector('#cancel:not([hidden])');
  await page.route('**/cancel', refuse);
  await page.click('#cancel');
  await has(page, 'The shop refused the request: for a test');
  // The message stays until the next attempt.
  await page.unroute('**/cancel');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  assert.equal(await page.textContent('#note'), '');
  await page.context().close();
}

/** Elements that cannot be reached without horizontal scrolling. */
async function fits(page, what) {
  const out = await page.evaluate(() => {
    const isOut = (element) => {
      const { left, right, width } = element.getBoundingClientRect();
      return width > 0 && (left < 0 || right > innerWidth);
    };
    const reached = [...document.querySelectorAll('button, a, input, summary')].filter((element) => element.checkVisibility());
    return [...(document.documentElement.scrollWidth > innerWidth ? ['the page'] : []), ...reached.filter(isOut).map((element) => element.outerHTML)];
  });
  assert.deepEqual(out, [], what);
}

async function lookInTheDark(browser) {
  const page = await open(browser, '/', { viewport: phone, colorScheme: 'dark', locale: 'zh-CN' });
  await has(page, '已售出');
  await page.waitForSelector('.u-wrap canvas');
  await fits(page, 'sales');
  await picture(page, 'phone');
  await page.click('#tab-queues');
  await page.waitForSelector('#queues tbody tr');
  await fits(page, 'queues');
  await picture(page, 'phone-queues');
  await rowOf(page, 'desk').getByRole('button').first().click();
  for (const n of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
    await page.locator('.views button').nth(n).click();
    await page.waitForSelector('.found span:not(:empty)');
    await fits(page, `view ${n}`);
  }
  await page.locator('.views button').nth(3).click();
  await rowOf(page, 'runs').getByRole('button').first().click();
  await page.waitForSelector('#detail[open] dd');
  await fits(page, 'task');
  await picture(page, 'phone-task');
  await page.keyboard.press('Escape');
  await post('/v1/locks/order:43/acquire', { lease_ms: 600000, label: 'ship order 43' });
  await page.click('#tab-locks');
  await rowOf(page, 'order:43').waitFor();
  await fits(page, 'locks');
  await picture(page, 'phone-locks');
  await page.context().close();
}

async function read(browser) {
  const page = await open(browser, '/docs', { viewport: phone });
  await page.click('#claim summary');
  await has(page, 'lease_ms');
  await fits(page, 'reference');
  assert.ok(!(await page.innerText('main')).includes('`'), 'code is shown as such');
  await page.click('#dead summary');
  await page.click('#dead >> text=DeadLetter');
  await page.waitForSelector('#type-DeadLetter[open] >> text=died_us');
  await picture(page, 'docs');
  await page.context().close();
}

async function main() {
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  let server = await serve(directory);
  const args = ['--no-sandbox', `--host-resolver-rules=MAP ${elsewhere} 127.0.0.1`];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
  try {
    await furnish();
    const page = await open(browser, '/', { viewport: { width: 1200, height: 900 } });
    await lookAtSales(page);
    await lookAtQueues(page);
    await lookAtTasks(page);
    await lookAtLocks(page);
    await page.context().close();
    await buy(browser);
    await lookInTheDark(browser);
    await read(browser);
    await changeLanguage(browser);
    await showTokens(browser);
    await loseTheSale(browser);
    await countDown(browser);
    await beOnAnotherMachine(browser);
    await tellHowSalesStand(browser);
    await sellTheLastOne(browser);
    await waitInLine(browser);
    await drawLots(browser);
    await handOver(browser);
    await changeBuyers(browser);
    server = await loseTheWay(browser, directory, server);
    await countAttempts(browser);
    await watchItSellOut(browser);
    await steer(browser);
    await retryOrders(browser, directory);
    assert.deepEqual(faults, []);
  } catch (error) {
    for (const context of browser.contexts()) {
      for (const [n, page] of context.pages().entries()) await picture(page, `fault-${browser.contexts().indexOf(context)}-${n}`);
    }
    throw error;
  } finally {
    await browser.close();
    await end(server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
  console.log('the pages are as they should be');
}

main().catch((error) => {
  console.error(error, faults);
  process.exitCode = 1;
});
