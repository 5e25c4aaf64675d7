// Sales as operators see them: lists, status, verbs, waiting rooms, attempts, the drop view, and what goes wrong.
'use strict';
const {
  accessible, assert, at, confirm, desk, end, fits, has, join, open, patience, phone, picture, post, press, put, readFileSync, refuse, rushgate, serve, spawn, spawnSync, state, titled, mkdtempSync, rmSync, start, tmpdir,
} = require('./stand.js');
const { createServer } = require('node:net');

const openSale = (browser, id, options = { viewport: desk }) => open(browser, `/sales/${id}`, options);
const verb = (page, name) => press(page.locator('.sale > .head'), name);
const roomVerb = (page, name) => press(page.locator('.sale .card').first(), name);
const tab = (page, name) => page.locator('.sale [data-tabs] a').filter({ hasText: name }).click();
const stock = async (page, sku, name) => { await press(page.locator(`[data-sku="${sku}"]`), name); };
const figure = (page, text) => page.locator('.figures.big').filter({ hasText: text }).waitFor();
const cell = (page, sku, word) => page.locator(`[data-sku="${sku}"] td[data-label="${word}"]`);
const hasCell = (page, sku, word, value) => cell(page, sku, word).filter({ hasText: new RegExp(`^${value}$`) }).waitFor();
const rowOf = (page, id) => page.locator('.sale-row').filter({ has: page.locator('h2', { hasText: new RegExp(`^${id}$`) }) });
const tagOf = (page, text) => page.locator('main .tag').getByText(text, { exact: true }).first().waitFor();

async function lookAtSales(page) {
  await page.waitForSelector('.lamp.on');
  await has(page, 'Needs attention');
  await accessible(page, 'overview');
  await picture(page, 'overview');
  await page.click('header nav >> text=Sales');
  await at(page, '/sales');
  await titled(page, 'Sales · Rushgate');
  await accessible(page, 'sales');
  await picture(page, 'sales');
  await page.getByRole('link', { name: 'phones', exact: true }).click();
  await at(page, '/sales/phones');
  await page.waitForSelector('.u-wrap canvas');
  // The page audits without a request by the operator.
  await page.waitForSelector('.check.on');
  await accessible(page, 'sale');
  await picture(page, 'sale');
  await verb(page, 'Audit');
  await has(page, 'Audit passed.');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('dialog >> text=Download')]);
  const saved = JSON.parse(readFileSync(await file.path(), 'utf8'));
  assert.ok(saved.audit.ok && saved.audit.checks.length > 5 && saved.sale.id === 'phones', JSON.stringify(saved));
  await stock(page, 'phone', 'Add units');
  await page.fill('dialog input', '25');
  await confirm(page);
  await hasCell(page, 'phone', 'total', 125);
  await verb(page, 'End sale');
  await has(page, 'stay unsold');
  assert.ok(await page.locator('dialog[open] .ends button').last().isDisabled(), 'the name of the sale is not typed yet');
  await accessible(page, 'a dialog');
  await picture(page, 'danger');
  await refuse(page);
  await tagOf(page, 'open');
}

/** Every screen has a URL: Back, Forward, reload and the middle button lead where a reader expects. */
async function follow(browser) {
  const page = await open(browser, '/', { viewport: desk });
  await page.waitForSelector('.lamp.on');
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await at(page, '/sales');
  await page.getByRole('link', { name: 'phones', exact: true }).click();
  await at(page, '/sales/phones');
  await page.waitForFunction(() => document.title === 'phones · Sales · Rushgate');
  await page.reload();
  await page.waitForSelector('[data-sale=phones]');
  await page.click('text=1 h');
  await at(page, '/sales/phones?window=3600');
  await page.goBack();
  await at(page, '/sales/phones');
  await page.goBack();
  await at(page, '/sales');
  await rowOf(page, 'phones').waitFor();
  await page.goForward();
  await page.waitForSelector('[data-sale=phones]');
  const [tab] = await Promise.all([page.context().waitForEvent('page'), page.click('header nav >> text=Locks', { button: 'middle' })]);
  await tab.waitForSelector('.lamp.on');
  await at(tab, '/locks');
  await at(page, '/sales/phones');
  await tab.close();
  await page.goto(`${state.url}/sales/none/of/this`);
  await has(page, 'Page not found');
  await page.keyboard.press('?');
  await has(page, 'Keyboard shortcuts');
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await at(page, '/queues');
  await page.locator('tbody tr').filter({ hasText: 'mail' }).first().waitFor();
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
  await page.keyboard.type('mai');
  await at(page, '/queues?q=mai');
  await page.reload();
  await page.waitForSelector('.skip');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'screen');
  await page.context().close();
}

/** The audit log shows what operators did, newest first. */
async function lookAtLog(browser) {
  await post('/v1/queues/mail/pause', {});
  await post('/v1/queues/mail/resume', {});
  const page = await open(browser, '/log', { viewport: desk });
  const row = page.locator('tbody tr').first();
  await row.filter({ hasText: '/v1/queues/mail/resume' }).waitFor();
  await accessible(page, 'log');
  await picture(page, 'log');
  await page.context().close();
}

/** Nine SKUs fit one screen, and six sales fit a phone. */
async function fitTheScreen(browser) {
  const skus = Array.from({ length: 9 }, (_, n) => ({ sku: `size-${38 + n}`, units: 100 }));
  await post('/v1/sales', { id: 'nine', skus });
  await post('/v1/sales/nine/open', {});
  const page = await openSale(browser, 'nine');
  await page.locator('[data-sku=size-46]').waitFor();
  const { y, height } = await page.locator('.skus').boundingBox();
  assert.ok(y + height < desk.height, `nine SKUs end at ${y + height}`);
  await picture(page, 'nine');
  await page.context().close();
  const small = await open(browser, '/sales', { viewport: phone });
  await small.locator('.sale-row').nth(5).waitFor();
  const sixth = await small.locator('.sale-row').nth(5).boundingBox();
  assert.ok(sixth.y + sixth.height <= phone.height, `the sixth sale ends at ${sixth.y + sixth.height}`);
  await fits(small, 'sales');
  await picture(small, 'phone-sales');
  await small.context().close();
}

/** A page served by another machine over plain HTTP lacks the features of secure contexts. */
async function beOnAnotherMachine(browser, origin, shopHas) {
  await post('/v1/sales', { id: 'plain', skus: [{ sku: 'phone', units: 5 }] });
  await post('/v1/sales/plain/open', {});
  const shop = await open(browser, `${origin}/shop/plain`, { viewport: phone });
  assert.deepEqual(await shop.evaluate(() => [isSecureContext, typeof crypto.randomUUID]), [false, 'undefined']);
  await shop.click('#buy:not([disabled])');
  await shopHas(shop, 'phone', 1);
  const operator = await open(browser, `${origin}/sales/plain`, { viewport: desk });
  await stock(operator, 'phone', 'Add units');
  await operator.fill('dialog input', '7');
  await confirm(operator);
  await hasCell(operator, 'phone', 'total', 12);
  for (const page of [shop, operator]) await page.context().close();
}

/** A sale without available units is not shown as open, and has no verbs that would be refused. */
async function tellHowSalesStand(browser) {
  const make = async (id, more, body = { skus: [{ sku: 'phone', units: 1 }, { sku: 'case', units: 1 }] }) => {
    await post('/v1/sales', { id, ...body, ...more });
    await post(`/v1/sales/${id}/open`, {});
  };
  await make('gone');
  await make('taken', { hold_ms: 600000 });
  for (const [id, pays] of [['gone', true], ['taken', false]]) {
    for (const sku of ['phone', 'case']) {
      const body = { buyer: 'ann', lines: [{ sku }] };
      const { id: hold } = await post(`/v1/sales/${id}/reservations`, body, { 'idempotency-key': sku });
      if (pays) await post(`/v1/sales/${id}/reservations/${hold}/confirm`, {}, { prefer: 'wait=10' });
    }
  }
  await make('later', { opens_at_us: (Date.now() + 3600000) * 1000 });
  await make('closed', { closes_at_us: (Date.now() - 1000) * 1000 });
  await make('finished');
  await post('/v1/sales/finished/end', {});
  const verbs = { gone: ['Add units'], taken: ['Add units'], later: ['Add units', 'Withdraw units'], closed: [], finished: [] };
  const tags = { gone: 'sold out', taken: 'all on hold', later: 'scheduled', closed: 'closed', finished: 'ended' };
  const shops = { gone: 'Sold out.', taken: '', later: 'opens in', closed: 'The sale has ended.', finished: 'The sale has ended.' };
  for (const [id, tag] of Object.entries(tags)) {
    const page = await openSale(browser, id);
    await tagOf(page, tag);
    for (const name of ['Add units', 'Withdraw units']) {
      assert.equal(await page.locator('[data-sku=phone]').getByRole('button', { name, exact: true, includeHidden: true }).count() > 0, verbs[id].includes(name), `${id}: ${name}`);
    }
    assert.equal(await page.getByRole('button', { name: 'End sale', includeHidden: true }).count() > 0, id !== 'finished', id);
    await picture(page, `sale-${id}`);
    await page.context().close();
    const shop = await open(browser, `/shop/${id}`, { viewport: phone });
    await has(shop, shops[id]);
    if (id !== 'taken') assert.ok(await shop.isDisabled('#buy'), id);
    await accessible(shop, `shop ${id}`);
    await picture(shop, `shop-${id}`);
    if (id === 'gone') {
      assert.ok(await shop.locator('.sku').first().evaluate((label) => label.innerText.includes('sold out') && label.querySelector('input').disabled));
      await shop.click('text=中文');
      await has(shop, '已售罄');
      await picture(shop, 'shop-gone-zh');
    }
    await shop.context().close();
  }
  const list = await open(browser, '/sales', { viewport: desk });
  for (const [id, tag] of Object.entries(tags)) await rowOf(list, id).locator('.tag').getByText(tag, { exact: true }).waitFor();
  await list.click('text=中文');
  await rowOf(list, 'gone').locator('.tag').getByText('已售罄', { exact: true }).waitFor();
  await picture(list, 'sales-zh');
  await list.context().close();
}

/** An operator opens a waiting room, moves buyers through it, and closes it. */
async function waitInLine(browser, shopHas) {
  await post('/v1/sales', { id: 'line', skus: [{ sku: 'phone', units: 5 }], hold_ms: 600000 });
  await post('/v1/sales/line/open', {});
  await put('/v1/sales/line/room', { rate: { n: 1, per_ms: 3600000 } });
  const operator = await openSale(browser, 'line');
  await operator.getByRole('slider').waitFor();
  const buyers = [];
  for (const n of [0, 1]) {
    buyers.push(await open(browser, '/shop/line', { viewport: phone }));
    await buyers[n].click('#buy:not([disabled])');
    if (n) await has(buyers[n], 'ahead of you'); else await shopHas(buyers[n], 'phone', 1);
  }
  await picture(buyers[1], 'shop-line');
  await has(operator, '1 in the waiting room');
  await picture(operator, 'room');
  await operator.locator('.card h2').getByRole('link', { name: 'Waiting room' }).click();
  await at(operator, '/sales/line/room');
  await titled(operator, 'Waiting room · line · Sales · Rushgate');
  await operator.locator('.facts dt', { hasText: 'Estimated wait' }).waitFor();
  await operator.waitForSelector('.u-wrap canvas');
  await picture(operator, 'room-tab');
  await roomVerb(operator, 'Set admission rate');
  assert.equal(await operator.inputValue('dialog input[name=per_ms]'), '3600000', 'the rate as it is');
  await operator.fill('dialog input[name=per_ms]', '1000');
  await confirm(operator);
  await shopHas(buyers[1], 'phone', 2);
  await roomVerb(operator, 'Close waiting room');
  await has(operator, 'lose their positions');
  await confirm(operator, 'line');
  await operator.getByRole('slider').waitFor({ state: 'detached' });
  await has(operator, 'This sale has no waiting room.');
  await accessible(operator, 'no waiting room');
  for (const page of [operator, ...buyers]) await page.context().close();
}

/** A room with a draw: its entry is closed, the draw is made, and the slider admits everyone. */
async function drawLots(browser) {
  const room = async () => (await fetch(`${state.url}/v1/sales/lots/room`)).json();
  await post('/v1/sales', { id: 'lots', skus: [{ sku: 'phone', units: 5 }], hold_ms: 600000 });
  await post('/v1/sales/lots/open', {});
  const operator = await openSale(browser, 'lots/room');
  await has(operator, 'This sale has no waiting room.');
  await roomVerb(operator, 'Open waiting room');
  await operator.check('dialog >> text=Randomized draw');
  await picture(operator, 'open-room');
  await confirm(operator);
  await has(operator, 'Publish the commitment before buyers join.');
  const { commitment } = await room();
  await has(operator, commitment);
  const buyers = [];
  for (const n of [0, 1, 2]) {
    if (n === 2) {
      await has(operator, '2 in the waiting room');
      await roomVerb(operator, 'Close entry');
      await has(operator, '2 buyers have joined so far.');
      await confirm(operator, 'lots');
      await has(operator, 'Publish the number of buyers in the draw');
    }
    buyers.push(await open(browser, '/shop/lots', { viewport: phone }));
    await buyers[n].click('#buy:not([disabled])');
    await has(buyers[n], n === 2 ? '2 take part in the draw ahead of you.' : 'A random draw decides');
  }
  await picture(buyers[2], 'shop-late');
  await roomVerb(operator, 'Draw');
  await operator.getByLabel('Randomness beacon').fill('07 12 19 23 38 41');
  await picture(operator, 'draw');
  await confirm(operator, 'lots');
  await has(operator, '07 12 19 23 38 41');
  assert.equal((await room()).entrants, 2, 'who came later takes no part');
  // The End key moves the slider from one per second to the highest rate.
  const isSent = (answer) => answer.request().method() === 'PUT' && answer.url().endsWith('/room');
  const [sent] = await Promise.all([operator.waitForResponse(isSent), operator.getByRole('slider').press('End')]);
  assert.ok(sent.ok());
  assert.deepEqual((await room()).rate, { n: 10000, per_ms: 1000 });
  for (const page of buyers) await has(page, 'Reserved for you');
  // The record that the page saves is the server's, and the command accepts it.
  const [file] = await Promise.all([operator.waitForEvent('download'), operator.getByRole('button', { name: 'Download record' }).click()]);
  const saved = await file.path();
  const [{ secret, beacon, entrants }, there] = [JSON.parse(readFileSync(saved, 'utf8')), await room()];
  assert.deepEqual({ secret, beacon, entrants }, { secret: there.secret, beacon: there.beacon, entrants: there.entrants });
  const { status, stdout, stderr } = spawnSync(rushgate, ['sale', 'draw', 'verify', saved, '--commitment', commitment, '--entrants', '2', '--beacon', beacon], { encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
  await accessible(operator, 'a draw');
  await operator.waitForFunction(() => !document.getElementById('said').textContent);
  await picture(operator, 'drawn');
  for (const page of [operator, ...buyers]) await page.context().close();
}

/** Every event of a sale can be reached: by page, by number, by a filter, and by its reservation. */
async function followEvents(browser) {
  await post('/v1/sales', { id: 'told', skus: [{ sku: 'phone', units: 200 }, { sku: 'case', units: 50 }], hold_ms: 600000 });
  const page = await openSale(browser, 'told');
  await tab(page, 'Events');
  await at(page, '/sales/told/events');
  await titled(page, 'Events · told · Sales · Rushgate');
  await has(page, 'Nothing here.');
  await accessible(page, 'a sale without events');
  const row = (...texts) => texts.reduce((rows, text) => rows.filter({ hasText: text }), page.locator('tbody tr')).first();
  const numbers = () => page.locator('tbody td:first-child').evaluateAll((cells) => cells.map((one) => Number(one.textContent.replace(/\D/g, ''))));
  const shows = (from, until) => page.waitForFunction(([first, last]) => {
    const all = [...document.querySelectorAll('tbody td:first-child')].map((one) => Number(one.textContent.replace(/\D/g, '')));
    return all.length === first - last + 1 && all.every((n, at_) => n === first - at_);
  }, [from, until]);
  await post('/v1/sales/told/open', {});
  await row('opened').waitFor();
  const reserve = (n) => post('/v1/sales/told/reservations', { buyer: `buyer-${n}`, lines: [{ sku: n % 50 ? 'phone' : 'case' }] }, { 'idempotency-key': 'k' });
  const { id } = await reserve(1);
  await row('reserved', 'phone 1', id).waitFor();
  await post(`/v1/sales/told/reservations/${id}/confirm`, {}, { prefer: 'wait=10' });
  await row('sold', 'phone 1', id).waitFor();
  for (let n = 2; n < 125; n += 1) await reserve(n);
  const { seq } = await (await fetch(`${state.url}/v1/sales/told`)).json();
  await shows(seq, seq - 99);
  await accessible(page, 'events of a sale');
  await picture(page, 'sale-events');
  // A stopped page does not change.
  await page.getByRole('link', { name: 'Stop', exact: true }).click();
  await at(page, `/sales/told/events?before=${seq + 1}`);
  await reserve(125);
  await page.locator('[data-tabs] a', { hasText: `Events ${seq + 1}` }).waitFor();
  await shows(seq, seq - 99);
  await page.getByRole('link', { name: 'Older events' }).click();
  await shows(seq - 100, 1);
  assert.equal(await page.getByRole('link', { name: 'First events' }).count(), 0);
  await page.getByRole('link', { name: 'Newer events' }).click();
  await shows(seq, seq - 99);
  await page.fill('input[name=seq]', '7');
  await page.keyboard.press('Enter');
  await at(page, '/sales/told/events?before=8');
  await shows(7, 1);
  await page.getByRole('link', { name: 'Follow', exact: true }).click();
  await shows(seq + 1, seq - 98);
  // A filter finds events on every page, and holds back later ones.
  await page.fill('input[name=q]', 'CASE reserved');
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 2);
  await has(page, `2 found · ${seq + 1} read`);
  await reserve(126);
  await reserve(150);
  await row('case 3').waitFor();
  assert.equal((await numbers()).length, 3);
  await page.fill('input[name=q]', 'nowhere');
  await has(page, 'Nothing here.');
  await page.fill('input[name=q]', 'sold');
  await row('sold').getByRole('link').click();
  await page.waitForURL((now) => now.searchParams.get('q') === id);
  await row('reserved', id).waitFor();
  assert.ok((await numbers()).length >= 2 && await page.locator('tbody tr').filter({ hasText: id }).count() === (await numbers()).length);
  // The tabs have keys.
  await page.locator('h1').click();
  await page.keyboard.press('t');
  await at(page, '/sales/told');
  await page.keyboard.press('t');
  await at(page, '/sales/told/room');
  await page.keyboard.press('T');
  await at(page, '/sales/told');
  await page.context().close();
}

/** A buyer clicks while the network is down, and operators watch while the server is killed and restarted. */
async function loseTheWay(browser, directory, unitOf) {
  const operator = await openSale(browser, 'phones');
  const wall = await open(browser, '/sales/phones/drop', { viewport: { width: 1920, height: 1080 } });
  for (const page of [operator, wall]) await page.waitForSelector('.lamp.on');
  const buyer = await open(browser, '/shop/phones', { viewport: phone });
  await buyer.waitForSelector('#buy:not([disabled])');
  state.away = true;
  await buyer.context().setOffline(true);
  await buyer.click('#buy');
  await has(buyer, 'retrying');
  await picture(buyer, 'shop-away');
  await buyer.context().setOffline(false);
  await buyer.waitForSelector('#cancel');
  const promised = await unitOf(buyer);
  await end(state.server, 'SIGKILL');
  await operator.waitForSelector('.away');
  await has(operator, 'Disconnected since');
  assert.ok(await operator.getByRole('button', { name: 'Open', exact: true }).count() === 0);
  for (const button of await operator.locator('.sale .menu button').all()) assert.ok(await button.isDisabled(), 'no verb can be sent');
  await wall.locator('.alarm').getByText('Disconnected since').waitFor();
  await picture(operator, 'away');
  await picture(wall, 'drop-away');
  await serve(directory);
  for (const page of [operator, wall]) await page.waitForSelector('.lamp.on');
  await wall.locator('.alarm').waitFor({ state: 'detached' });
  await buyer.reload();
  await buyer.waitForSelector('#cancel');
  state.away = false;
  assert.equal(await unitOf(buyer), promised, 'what was promised outlives the server');
  for (const page of [operator, wall, buyer]) await page.context().close();
}

/** A Redis server on this port, with its data in a directory. */
async function startRedis(port, directory) {
  const args = ['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'yes', '--appendfsync', 'always', '--dir', directory];
  const redis = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => { redis.stdout.on('data', (text) => { if (String(text).includes('Ready to accept')) resolve(); }); });
  return redis;
}

const freePort = () => new Promise((resolve) => {
  const probe = createServer().listen(0, '127.0.0.1', () => { const { port } = probe.address(); probe.close(() => resolve(port)); });
});

/** While the server hangs, or cannot read its store, no page says that it is live. */
async function loseTheStore(browser) {
  const [directory, port, main] = [mkdtempSync(join(tmpdir(), 'rushgate-')), await freePort(), state.url];
  let redis = await startRedis(port, directory);
  const { server, address } = await start(directory, '127.0.0.1:0', [], `redis://127.0.0.1:${port}`);
  state.url = address;
  try {
    await post('/v1/sales', { id: 'gone', skus: [{ sku: 'phone', units: 3 }] });
    const wall = await open(browser, '/sales/gone/drop', { viewport: { width: 1920, height: 1080 } });
    await wall.waitForSelector('.lamp.on');
    state.away = true;
    server.kill('SIGSTOP');
    await wall.locator('.alarm').getByText('Disconnected since').waitFor();
    server.kill('SIGCONT');
    await wall.waitForSelector('.lamp.on');
    await end(redis, 'SIGKILL');
    await wall.locator('.alarm').getByText('Store unavailable since').waitFor();
    await picture(wall, 'drop-store-away');
    const operator = await open(browser, '/', { viewport: desk });
    await operator.locator('.lamp', { hasText: 'store unavailable' }).waitFor();
    redis = await startRedis(port, directory);
    for (const page of [operator, wall]) await page.waitForSelector('.lamp.on');
    state.away = false;
    for (const page of [operator, wall]) await page.context().close();
  } finally {
    server.kill('SIGCONT');
    await end(server, 'SIGTERM');
    await end(redis, 'SIGTERM');
    state.url = main;
    rmSync(directory, { recursive: true });
  }
}

/** A hidden page has no stream, because a browser has six connections to a server, and a page that is shown again has one. */
async function hide(browser) {
  const page = await open(browser, '/', { viewport: desk });
  await page.waitForSelector('.lamp.on');
  const turn = (isHidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);
  const ended = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/v1/events'));
  await turn(true);
  await ended;
  const opened = page.waitForRequest((request) => request.url().endsWith('/v1/events'));
  await turn(false);
  await opened;
  await page.waitForSelector('.lamp.on');
  await page.context().close();
}

/** The README's load simulation, smaller: buyers use the API, and an operator watches the sale sell out on the wall. */
async function watchItSellOut(browser) {
  await post('/v1/sales', { id: 'launch', skus: [{ sku: 'phone', units: 300 }], hold_ms: 2000 });
  const page = await open(browser, '/sales/launch', { viewport: { width: 1200, height: 1000 } });
  const wall = await open(browser, '/sales/launch/drop', { viewport: { width: 1920, height: 1080 } });
  for (const each of [page, wall]) await each.waitForSelector('.lamp.on');
  const args = ['--quiet', '--json', 'rush', '--url', state.url, '--join', 'launch', '--buyers', '3000', '--within', '8s'];
  const crowd = spawn(rushgate, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let report = '';
  crowd.stdout.on('data', (part) => { report += part; });
  const over = new Promise((resolve) => { crowd.once('exit', resolve); });
  const shown = async () => Number((await wall.locator('.sold b').textContent()).replace(/\D/g, ''));
  while (await shown() < 150) await page.waitForTimeout(100);
  await picture(page, 'rush');
  await picture(wall, 'drop');
  assert.equal(await over, 0, report);
  assert.ok(JSON.parse(report).audit.ok, report);
  while (await shown() < 300) await page.waitForTimeout(100);
  // The wall says when the last unit was sold, and that is between the opening and now.
  const soldOut = wall.locator('[data-figure=soldOutAt] b');
  await soldOut.filter({ hasText: /\d\d:\d\d:\d\d/ }).waitFor();
  await tagOf(wall, 'sold out');
  await accessible(wall, 'drop view');
  await picture(wall, 'drop-sold-out');
  // The page shows the same counts as the simulation.
  const { answers } = JSON.parse(report);
  const there = { reserved: answers.reserved, replayed: answers.replayed, all_held: answers.all_held, sold_out: answers.sold_out };
  const differs = async () => {
    const counted = await attemptsIn(page);
    return Object.entries(there).filter(([answer, n]) => (counted[answer]?.[2] ?? 0) !== n);
  };
  const until = Date.now() + patience;
  while ((await differs()).length) {
    assert.ok(Date.now() < until, `${JSON.stringify(await differs())} ${report}`);
    await page.waitForTimeout(100);
  }
  await surviveReload(wall, answers);
  await page.locator('.attempts').scrollIntoViewIfNeeded();
  await picture(page, 'rush-attempts');
  for (const each of [page, wall]) await each.context().close();
}

/** The history of a sale is the server's: a page that is loaded afterwards shows the whole drop. */
async function surviveReload(page, answers) {
  await page.reload();
  await page.waitForSelector('.u-wrap canvas');
  const { at_ms: times, gauges, counts, sold_out_us: soldOut, opened_us: opened } = await (await fetch(`${state.url}/v1/sales/launch/history`)).json();
  assert.ok(gauges.confirmed[0] < 300 && gauges.confirmed.at(-1) === 300, JSON.stringify(gauges.confirmed));
  assert.equal(counts.sold_out.reduce((sum, n) => sum + n, 0), answers.sold_out);
  assert.ok(opened < soldOut && soldOut / 1000 <= times.at(-1) + 1000, `${opened} ${soldOut} ${times.at(-1)}`);
  const title = await page.locator('.drop-charts .u-legend').first().innerText();
  assert.ok(title.includes('confirmed'), title);
  // The pointer reads the values of one moment in both charts.
  const plot = page.locator('.drop-charts .u-over').first();
  const { x, y, width, height } = await plot.boundingBox();
  await page.mouse.move(x + width * 0.95, y + height / 2);
  await page.waitForFunction(() => [...document.querySelectorAll('.drop-charts .u-legend')].every((legend) => /\d\d:\d\d:\d\d/.test(legend.innerText)));
  const moments = await page.locator('.drop-charts .u-legend').evaluateAll((all) => all.map((legend) => legend.innerText.match(/\d\d:\d\d:\d\d/)[0]));
  assert.equal(moments[0], moments[1], 'both charts share one time axis');
  await picture(page, 'drop-reloaded');
}

/** Attempts by answer: current rate, peak rate, and total. */
const attemptsIn = (page) => page.locator('.attempts tbody tr').evaluateAll((rows) => Object.fromEntries(rows.map((row) => [
  row.dataset.answer, [...row.querySelectorAll('td')].map((cell_) => Number(cell_.textContent.replace(/\D/g, ''))),
])));

/** One snapshot from the event stream. */
async function snapshot() {
  const { body } = await fetch(`${state.url}/v1/events`);
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

/** The table shows the same counts as the buyers' answers and the metrics. */
async function countAttempts(browser) {
  await post('/v1/sales', { id: 'count', skus: [{ sku: 'phone', units: 3 }], hold_ms: 600000 });
  const page = await openSale(browser, 'count');
  await page.waitForSelector('.lamp.on');
  assert.ok(!await page.locator('.attempts').count(), 'nobody has come');
  const reserve = (buyer, key = 'k') => fetch(`${state.url}/v1/sales/count/reservations`, {
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
  const inAll = async () => Object.fromEntries(Object.entries(await attemptsIn(page)).map(([answer, [, , all]]) => [answer, all]));
  while (JSON.stringify(await inAll()) !== JSON.stringify(wanted)) {
    const text = JSON.stringify(await inAll());
    assert.ok(Date.now() - began < patience, text);
    await page.waitForTimeout(100);
  }
  const metrics = await (await fetch(`${state.url}/metrics`)).text();
  assert.ok(metrics.includes('rushgate_sale_attempts_total{sale="count",answer="all_held"} 60'), metrics);
  const facts = await page.locator('.facts-line').textContent();
  const { at_store: atStore } = (await snapshot()).attempts.find(({ sale }) => sale === 'count');
  assert.ok(atStore >= 11 && atStore <= 74, String(atStore));
  assert.ok(facts.includes(`answered from the admission cache: ${Math.floor(1000 * (74 - atStore) / 74) / 10} %`), `${facts} ${atStore}`);
  assert.match(facts, /without the ledger: 95\.9 %/);
  assert.match(await page.locator('.lag').textContent(), /ledger is up to date|ledger lag/);
  await page.locator('.attempts').scrollIntoViewIfNeeded();
  await picture(page, 'attempts');
  for (const colorScheme of ['dark', 'light']) {
    const small = await openSale(browser, 'count', { viewport: phone, colorScheme, locale: 'zh-CN' });
    await small.locator('.attempts tbody tr').first().waitFor();
    await fits(small, 'the attempts');
    await accessible(small, `a sale, ${colorScheme}`);
    await small.locator('.attempts').scrollIntoViewIfNeeded();
    await picture(small, `attempts-phone-${colorScheme}`);
    await small.context().close();
  }
  await page.context().close();
}

/** The other verbs on a sale: withdraw, halt, rebuild, and end for good. */
async function steer(browser) {
  const page = await openSale(browser, 'phones');
  await stock(page, 'phone', 'Withdraw units');
  await page.fill('dialog input[type=number]', '2');
  await confirm(page, 'phone');
  await hasCell(page, 'phone', 'withdrawn', 2);
  await verb(page, 'Halt');
  await has(page, 'Buyers are refused until the sale is rebuilt');
  await confirm(page);
  await tagOf(page, 'halted');
  const wall = await open(browser, '/sales/phones/drop', { viewport: desk });
  await wall.locator('.alarm').getByText('halted by an operator').waitFor();
  await picture(wall, 'drop-halted');
  await wall.goto(`${state.url}/`);
  await wall.locator('.attention').getByText('phones: halted by an operator').waitFor();
  await accessible(wall, 'overview with problems');
  await picture(wall, 'overview-problems');
  await wall.context().close();
  // A rebuilt sale has another event log.
  await tab(page, 'Events');
  const row = (text) => page.locator('tbody tr').filter({ hasText: text }).first();
  await row('halted').waitFor();
  await verb(page, 'Rebuild');
  await confirm(page);
  await tagOf(page, 'open');
  await row('rebuilt').waitFor();
  await row('halted').waitFor({ state: 'detached' });
  await tab(page, 'Overview');
  for (const word of ['halted by an operator', 'resumed', 'rebuilt: generation']) {
    await page.locator('.incidents li').filter({ hasText: word }).first().waitFor();
  }
  await picture(page, 'incidents');
  await verb(page, 'End sale');
  await confirm(page, 'phones');
  await tagOf(page, 'ended');
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
  const page = await openSale(browser, 'ink');
  await page.locator('.lag', { hasText: 'ledger is up to date' }).waitFor();
  assert.ok(!await page.locator('.failures').count() && !await page.getByRole('button', { name: 'Retry orders' }).count());
  const body = { buyer: 'eve', lines: [{ sku: 'phone' }] };
  const { id } = await post('/v1/sales/ink/reservations', body, { 'idempotency-key': 'k' });
  await post(`/v1/sales/ink/reservations/${id}/confirm`, {});
  await page.locator('.failures li').filter({ hasText: 'refused a statement of the ledger' }).first().waitFor();
  assert.match(await page.locator('.failures p').textContent(), /could not record: \d/);
  await picture(page, 'failed-orders');
  // 24 orders of another sale. They are not confirmed: one entry may have both events of an order. A page has 20.
  await post('/v1/sales', { id: 'blots', skus: [{ sku: 'phone', units: 24, per_buyer: 24 }] });
  await post('/v1/sales/blots/open', {});
  for (let n = 0; n < 24; n += 1) {
    await post('/v1/sales/blots/reservations', body, { 'idempotency-key': `k${n}` });
  }
  const blots = await openSale(browser, 'blots');
  await blots.locator('.failures p', { hasText: ': 24' }).waitFor();
  const listed = blots.locator('.failures li');
  await blots.locator('.failures a[rel=next]').click();
  await blots.waitForFunction(() => document.querySelectorAll('.failures li').length === 4);
  await blots.locator('.failures a[rel=first]').click();
  await listed.nth(19).waitFor();
  await blots.context().close();
  inTheLedger(directory, 'DROP TRIGGER refuse');
  await verb(page, 'Retry orders');
  await confirm(page);
  await figure(page, '1 / 3');
  await page.locator('.failures').waitFor({ state: 'detached' });
  await page.locator('.lag', { hasText: 'ledger is up to date' }).waitFor();
  await page.context().close();
}

/** The wall raises an alarm if the audit fails, or if the ledger is more than 15 seconds behind. */
async function raiseAlarms(browser, directory) {
  const wall = await open(browser, '/sales/ink/drop', { viewport: desk });
  await wall.locator('.sold').waitFor();
  assert.equal(await wall.locator('.alarm').count(), 0);
  // Another program holds the file of the ledger until it is stopped.
  const script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None); c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()";
  const holder = spawn('python3', ['-c', script, join(directory, 'orders.db')], { stdio: ['pipe', 'pipe', 'inherit'] });
  await new Promise((resolve) => { holder.stdout.once('data', resolve); });
  const body = { buyer: 'dan', lines: [{ sku: 'phone' }] };
  const { id } = await post('/v1/sales/ink/reservations', body, { 'idempotency-key': 'k' });
  await post(`/v1/sales/ink/reservations/${id}/confirm`, {});
  await wall.locator('.alarm').getByText('The ledger is 15').waitFor();
  await picture(wall, 'drop-ledger');
  holder.stdin.end();
  await wall.locator('.alarm').waitFor({ state: 'detached' });
  inTheLedger(directory, "DROP TRIGGER order_moves_once; UPDATE orders SET buyer = 'mallory' WHERE buyer = 'dan'");
  // A page pauses between audits, for 20 times as long as they take: on a busy machine for more than a minute.
  await wall.locator('.alarm').getByText('Audit FAILED at').waitFor({ timeout: 3 * patience });
  await picture(wall, 'drop-audit');
  await wall.context().close();
}

module.exports = {
  beOnAnotherMachine, countAttempts, drawLots, fitTheScreen, follow, followEvents, hasCell, hide, lookAtLog, lookAtSales, loseTheStore, loseTheWay, openSale, raiseAlarms, retryOrders, stock, steer, tellHowSalesStand, verb, waitInLine, watchItSellOut,
};
