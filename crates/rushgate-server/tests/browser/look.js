// Tests the pages in a real Chromium: every screen, every verb with its confirmation, a buyer who clicks twice and
// reloads, two buyers and an operator at once, refused tokens, a lost network and a killed server. axe-core checks each
// screen. Exits with 1 if an assertion fails or the browser logs an error, and then saves a screenshot of every open
// page.
//
//   node look.js RUSHGATE [DIRECTORY-FOR-SCREENSHOTS [console|lists|shop|sales]]
//
// Without a part, all parts run, two at a time.
'use strict';
const { chromium } = require('playwright-core');
const { accessible, assert, desk, elsewhere, end, faults, fits, has, join, mkdtempSync, open, phone, picture, pictures, post, rmSync, rushgate, serve, spawn, state, tmpdir } = require('./stand.js');
const queues = require('./queues.js');
const sales = require('./sales.js');
const screens = require('./screens.js');
const sizes = require('./sizes.js');
const shop = require('./shop.js');

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

/** A server without anything says so. */
async function lookAtNothing(browser) {
  const page = await open(browser, '/', { viewport: desk });
  for (const text of ['Nothing needs attention.', 'No sales yet.', 'No queues yet.', 'No lock is held or waited for.']) await has(page, text);
  await accessible(page, 'an empty server');
  await picture(page, 'empty');
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
  const midnight = () => page.evaluate(async () => (await import('/page/common.js')).clockTime(new Date(2026, 0, 1, 0, 5, 3) / 1000));
  assert.equal(await midnight(), '00:05:03');
  await page.context().close();
}

/** Every screen on a phone, dark and in Chinese, and on a wall. */
async function lookInTheDark(browser) {
  await post('/v1/locks/order:43/acquire', { lease_ms: 600000, label: 'ship order 43' });
  const screens = ['/', '/sales', '/sales/phones', '/sales/phones/room', '/sales/phones/events', '/sales/phones/drop', '/queues', '/queues/desk', '/queues/desk?state=leased', '/queues/desk/workers', '/queues/desk/schedules', '/queues/desk/events', '/queues/desk/tasks/runs', '/locks', '/locks/order%3A43', '/log'];
  for (const [name, options] of [['phone', { viewport: { width: 360, height: 780 }, colorScheme: 'dark', locale: 'zh-CN' }], ['wall', { viewport: { width: 1920, height: 1080 } }]]) {
    const page = await open(browser, '/', options);
    await page.waitForSelector('.lamp.on');
    for (const screen of screens) {
      await page.goto(new URL(screen, state.url).href);
      await page.waitForSelector('.lamp.on');
      await page.waitForSelector('main h1, main h2');
      if (/phones(.drop)?$/.test(screen)) await page.waitForSelector('.u-wrap canvas');
      if (/phones.events/.test(screen)) await page.waitForSelector('main tbody');
      if (/^.queues.desk.*(leased|tasks|schedules$|workers)/.test(screen)) await page.waitForSelector('main dd, main tbody, main .nothing');
      await fits(page, `${name} ${screen}`);
      if (name === 'phone') await accessible(page, `${name} ${screen}`);
      await picture(page, `${name}${screen.replace(/[/?=%]/g, '-')}`);
      if (name !== 'wall') continue;
      await page.setViewportSize({ width: 2560, height: 1440 });
      await fits(page, `2560 pixels, ${screen}`);
      await page.setViewportSize(options.viewport);
    }
    await page.context().close();
  }
}

async function read(browser) {
  const page = await open(browser, '/docs', { viewport: desk });
  const routes = page.locator('.nav-bar-path');
  await routes.first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('claim');
  await page.keyboard.press('Enter');
  await routes.filter({ hasText: '/v1/sales' }).waitFor({ state: 'detached' });
  await routes.filter({ hasText: '/v1/queues/{queue}/claim' }).click();
  await page.locator('pre', { hasText: 'curl -X POST "$RUSHGATE_URL/v1/queues/my-queue/claim"' }).waitFor();
  await accessible(page, 'reference');
  await picture(page, 'docs');
  await page.getByText('SCHEMA', { exact: true }).first().click();
  await page.getByText('Lease duration in milliseconds').first().waitFor();
  await accessible(page, 'fields of a body');
  await page.reload();
  await page.locator('pre', { hasText: 'my-queue/claim' }).waitFor();
  await page.getByText('Components').click();
  await routes.filter({ hasText: /^\s*DeadLetter\s*$/ }).click();
  await page.getByText('died_us').first().waitFor();
  await accessible(page, 'a type of the reference');
  await page.setViewportSize(phone);
  await page.getByText('/v1/queues/{queue}/claim', { exact: true }).click();
  await page.locator('pre', { hasText: 'my-queue/claim' }).waitFor();
  await accessible(page, 'the reference on a phone');
  await fits(page, 'reference');
  await picture(page, 'phone-docs');
  await page.context().close();
}

/** A server with tokens: the page reports a missing, wrong or insufficient token. */
async function knock(page, worker, boss) {
  const enter = async (token) => { await page.fill('#bearer', token); await page.keyboard.press('Enter'); };
  await has(page, 'This server requires an API token.');
  await accessible(page, 'sign-in');
  await enter('rg_wrong');
  await has(page, 'Token refused');
  assert.equal(await page.textContent('#lamp'), 'not authorized');
  await picture(page, 'door');
  await enter(worker);
  await has(page, 'requires a token with the role operator');
  await enter(boss);
  await page.waitForSelector('.lamp.on');
  await has(page, 'guarded');
  assert.ok(!await page.locator('#door').count(), 'who is in is not asked');
  await page.goto(`${new URL(page.url()).origin}/log`);
  await has(page, 'This server keeps no audit log.');
  await page.context().close();
}

/** The screens of an operator. */
async function lookAtConsole(browser) {
  await lookAtNothing(browser);
  await furnish();
  const page = await open(browser, '/', { viewport: desk });
  await sales.lookAtSales(page);
  await queues.lookAtQueues(page);
  await queues.lookAtTasks(page);
  await queues.lookAtLocks(page);
  await page.context().close();
  await sales.follow(browser);
  await queues.limitQueue(browser);
  await queues.sortAndLimit(browser);
  await queues.followEvents(browser);
  await sales.lookAtLog(browser);
  await lookInTheDark(browser);
  await read(browser);
  await changeLanguage(browser);
}

/** Every list and screen with many rows. */
async function lookAtLists(browser) {
  await sizes.lookAtSizes(browser);
  await screens.lookAtScreens(browser);
}

/** What buyers see. */
async function lookAtShop(browser) {
  await furnish();
  await shop.buy(browser);
  await shop.buySeveral(browser);
  await shop.showMetadata(browser);
  await shop.payInEachWay(browser);
  await shop.ignoreOddPrices(browser);
  await shop.embed(browser);
  await shop.embedTwo(browser);
  await shop.payOnce(browser);
  await shop.payLate(browser);
  await shop.shareStorage(browser);
  await shop.showTokens(browser, knock);
  await shop.loseTheSale(browser);
  await shop.countDown(browser);
  await shop.sellTheLastOne(browser);
  await shop.handOver(browser);
  await shop.changeBuyers(browser);
}

/** Sales that are under way: watched, steered, and while a network or a server is down. */
async function lookAtSales(browser, directory) {
  const { shopHas, unitOf } = shop;
  await furnish();
  await sales.beOnAnotherMachine(browser, `http://${elsewhere}:${new URL(state.url).port}`, shopHas);
  await sales.tellHowSalesStand(browser);
  await sales.fitTheScreen(browser);
  await sales.waitInLine(browser, shopHas);
  await sales.drawLots(browser);
  await sales.followEvents(browser);
  await sales.loseTheWay(browser, directory, unitOf);
  await sales.loseTheStore(browser);
  await sales.hide(browser);
  await sales.countAttempts(browser);
  await sales.watchItSellOut(browser);
  await sales.steer(browser);
  await sales.retryOrders(browser, directory);
  await sales.raiseAlarms(browser, directory);
}

const parts = { console: lookAtConsole, sales: lookAtSales, lists: lookAtLists, shop: lookAtShop };

/** Tests a part of the pages, with a server and a browser of its own. */
async function look(part) {
  const start = Date.now();
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  await serve(directory);
  const args = ['--no-sandbox', `--host-resolver-rules=MAP ${elsewhere} 127.0.0.1`];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
  try {
    await parts[part](browser, directory);
    assert.deepEqual(faults, []);
  } catch (error) {
    for (const context of browser.contexts()) {
      for (const [n, page] of context.pages().entries()) await picture(page, `fault-${part}-${browser.contexts().indexOf(context)}-${n}`);
    }
    throw error;
  } finally {
    await browser.close();
    await end(state.server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
  console.log(`${part}: the pages are as they should be, ${Math.round((Date.now() - start) / 1000)} s`);
}

/** Tests a part in a process of its own. True if it passes. */
const passes = (part) => new Promise((resolve) => {
  const looking = spawn(process.execPath, [__filename, rushgate, pictures ?? '', part], { stdio: 'inherit' });
  looking.once('exit', (code) => resolve(code === 0));
});

/** Tests all parts, two at a time. */
async function lookAtAll() {
  const left = Object.keys(parts);
  const all = [];
  const lookAtRest = async () => { while (left.length) all.push(await passes(left.shift())); };
  await Promise.all([lookAtRest(), lookAtRest()]);
  if (!all.every(Boolean)) process.exitCode = 1;
}

const part = process.argv[4];
(part ? look(part) : lookAtAll()).catch((error) => {
  console.error(error, faults);
  process.exitCode = 1;
});
