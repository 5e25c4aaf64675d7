// The shop page: a buyer who clicks twice and reloads, two buyers at once, proofs, tokens, and sales that are lost.
'use strict';
const { createServer } = require('node:http');
const {
  accessible, assert, confirm, end, fits, has, join, mkdtempSync, open, phone, picture, post, readFileSync, rmSync, rushgate, spawnSync, start, state, tmpdir,
} = require('./stand.js');
const { hasCell, openSale, stock, verb } = require('./sales.js');

/** Waits until the buyer has this unit. */
const shopHas = (page, sku, unit) => page.locator('#units').filter({ hasText: new RegExp(`${sku}, unit ${unit}\\b`) }).waitFor();

/** Number of the buyer's first unit. */
const unitOf = async (page) => (await page.textContent('#units')).match(/unit (\d+)/)[1];

async function buy(browser) {
  const page = await open(browser, '/shop/phones', { viewport: phone });
  await page.waitForSelector('#buy:not([disabled])');
  await page.dblclick('#buy');
  await page.waitForSelector('#cancel');
  const first = await unitOf(page);
  await picture(page, 'shop');
  await page.reload();
  await page.waitForSelector('#cancel');
  assert.equal(await unitOf(page), first, 'a reload leads to the same unit');
  await page.goto(`${state.url}/docs`);
  await page.waitForSelector('#claim');
  await page.goBack();
  await page.waitForSelector('#cancel');
  assert.equal(await unitOf(page), first, 'and so does the back button');
  const { skus } = await (await fetch(`${state.url}/v1/sales/phones`)).json();
  assert.equal(skus[0].held, 11, 'a double click reserves once');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  await page.click('#buy');
  await page.waitForSelector('#clock');
  await accessible(page, 'a hold');
  await page.click('#pay');
  await has(page, 'Payment confirmed. It is yours.');
  const order = await page.textContent('#order');
  await page.reload();
  await has(page, 'Payment confirmed. It is yours.');
  assert.equal(await page.textContent('#order'), order, 'the order number outlives a reload');
  assert.ok(!await page.locator('#buy').count(), 'who has bought is not asked to buy');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('#receipt')]);
  assert.match(readFileSync(await file.path(), 'utf8'), /^rg1\./);
  await accessible(page, 'an order');
  await picture(page, 'shop-paid');
  await page.context().close();
}

/** A buyer chooses a SKU and a quantity, within the limit per buyer. */
async function buySeveral(browser) {
  await post('/v1/sales', { id: 'several', skus: [{ sku: 'cup', units: 9, per_buyer: 3 }, { sku: 'plate', units: 2, per_buyer: 1 }] });
  await post('/v1/sales/several/open', {});
  const page = await open(browser, '/shop/several', { viewport: phone });
  await has(page, '9 left');
  await has(page, 'at most 3 per buyer');
  for (const n of [2, 3]) {
    await page.getByLabel('More').click();
    assert.equal(await page.textContent('#quantity'), String(n));
  }
  assert.ok(await page.getByLabel('More').isDisabled());
  await page.getByText('plate').click();
  assert.equal(await page.locator('#quantity').count(), 0, 'one per buyer leaves no choice');
  await page.getByText('cup').click();
  await page.getByLabel('More').click();
  await accessible(page, 'a choice');
  await picture(page, 'shop-choice');
  await page.click('#buy');
  await shopHas(page, 'cup', 2);
  assert.equal(await page.textContent('#units'), 'cup, unit 1; cup, unit 2');
  await page.click('#cancel');
  await has(page, '9 left');
  await page.context().close();
}

const root = join(__dirname, '../../../..');
const metadata = JSON.parse(readFileSync(join(root, 'examples/shop/phones.json'), 'utf8'));

/** Titles, prices and pictures come from the metadata of the sale, and the price of an order from its units. */
async function showMetadata(browser) {
  await post('/v1/sales', { id: 'drop', skus: [{ sku: 'phone', units: 50, per_buyer: 3 }, { sku: 'case', units: 9 }, { sku: 'plain', units: 1 }], metadata });
  await post('/v1/sales/drop/open', {});
  for (const [name, options] of [['', {}], ['-dark-zh', { colorScheme: 'dark', locale: 'zh-CN' }]]) {
    const page = await open(browser, '/shop/drop', { viewport: { width: 360, height: 780 }, ...options });
    await page.locator('#name', { hasText: 'Autumn drop' }).waitFor();
    await page.waitForFunction(() => [...document.images].length === 2 && [...document.images].every((image) => image.naturalWidth > 0));
    assert.match(await page.locator('.sku').first().innerText(), /Phone, forest green[\s\S]*256 GB[\s\S]*€\s?499[.,]00/);
    assert.equal(await page.locator('.sku').nth(2).locator('img').count(), 0);
    await accessible(page, `metadata${name}`);
    await fits(page, `metadata${name}`);
    await picture(page, `shop-metadata${name}`);
    await page.context().close();
  }
  const page = await open(browser, '/shop/drop', { viewport: phone });
  await page.getByLabel('More').click();
  await page.click('#buy');
  await page.locator('#sum', { hasText: '€998.00' }).waitFor();
  await page.locator('#pay', { hasText: 'Pay €998.00' }).waitFor();
  await picture(page, 'shop-sum');
  await page.context().close();
}

/** The payment provider for demos works, is slow, refuses, answers twice, and loses its answer. */
async function payInEachWay(browser) {
  const page = await open(browser, '/shop/drop', { viewport: phone });
  await page.click('.demo summary');
  const choose = (way) => page.selectOption('#demo', way);
  const paid = () => has(page, 'Payment confirmed. It is yours.');
  const again = async () => {
    await page.evaluate(() => localStorage.clear());
    await page.reload();
    await page.click('#buy:not([disabled])');
    await page.waitForSelector('#pay:not([disabled])');
    await page.click('.demo summary');
  };
  await page.click('#buy:not([disabled])');
  await page.waitForSelector('#pay');
  await choose('refuses');
  await page.click('#pay');
  await has(page, 'The payment was refused. Your units stay reserved: try again.');
  assert.ok(await page.locator('#clock').count(), 'the hold goes on');
  await accessible(page, 'a refused payment');
  await picture(page, 'shop-refused');
  await choose('slow');
  await page.click('#pay');
  await has(page, 'Payment in progress');
  assert.ok(await page.isDisabled('#pay'), 'a second click pays nothing');
  await picture(page, 'shop-paying');
  await paid();
  for (const way of ['twice', 'lost', 'works']) {
    await again();
    await choose(way);
    await page.click('#pay');
    await paid();
  }
  await page.context().close();
  const { skus: [{ confirmed }] } = await (await fetch(`${state.url}/v1/sales/drop`)).json();
  assert.equal(confirmed, 4, 'each payment sold once');
}

/** The example page embeds the shop in a page of another origin. */
async function embed(browser) {
  const pages = createServer((_, answer) => { answer.setHeader('content-type', 'text/html'); answer.end(readFileSync(join(root, 'examples/shop/index.html'))); });
  await new Promise((resolve) => { pages.listen(0, '127.0.0.1', resolve); });
  const origin = `http://127.0.0.1:${pages.address().port}`;
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  const { server, address } = await start(directory, '127.0.0.1:0', ['--origin', origin]);
  try {
    await post(`${address}/v1/sales`, { id: 'phones', skus: [{ sku: 'phone', units: 5 }, { sku: 'case', units: 9 }], metadata });
    await post(`${address}/v1/sales/phones/open`, {});
    const page = await open(browser, `${origin}/?server=${address}`, { viewport: { width: 900, height: 900 } });
    const told = page.waitForEvent('console', { predicate: (line) => line.text().endsWith(' confirmed') });
    const answers = ['dismiss', 'accept'];
    page.on('dialog', (dialog) => dialog[answers.shift()]());
    await page.locator('rushgate-shop .sku-name', { hasText: 'Phone, forest green' }).waitFor();
    await accessible(page, 'an embedded shop');
    await picture(page, 'embedded');
    await page.click('#buy:not([disabled])');
    await page.click('#pay');
    await page.locator('#note', { hasText: 'The payment was refused.' }).waitFor();
    await page.click('#pay');
    await page.locator('#state', { hasText: 'Payment confirmed. It is yours.' }).waitFor();
    await told;
    await picture(page, 'embedded-paid');
    await page.context().close();
  } finally {
    await end(server, 'SIGTERM');
    pages.close();
    rmSync(directory, { recursive: true });
  }
}

/** A sale opens at its opening time, and the page counts down to it. */
async function countDown(browser) {
  await post('/v1/sales', { id: 'soon', skus: [{ sku: 'phone', units: 5 }], opens_at_us: (Date.now() + 4000) * 1000 });
  await post('/v1/sales/soon/open', {});
  const page = await open(browser, '/shop/soon', { viewport: phone });
  await has(page, 'opens in');
  assert.ok(await page.isDisabled('#buy'));
  await page.click('#buy:not([disabled])');
  await shopHas(page, 'phone', 1);
  await page.context().close();
}

/** One unit, two buyers who click at the same moment, and an operator who watches and then adds a unit. */
async function sellTheLastOne(browser) {
  await post('/v1/sales', { id: 'last', skus: [{ sku: 'phone', units: 1 }], hold_ms: 600000 });
  const operator = await openSale(browser, 'last');
  const buyers = await Promise.all([1, 2].map(() => open(browser, '/shop/last', { viewport: phone })));
  await has(buyers[0], 'Not open');
  await verb(operator, 'Open');
  await has(operator, 'Buyers can reserve from now on');
  await confirm(operator);
  await Promise.all(buyers.map((page) => page.waitForSelector('#buy:not([disabled])')));
  await Promise.all(buyers.map((page) => page.click('#buy')));
  const got = async (page) => Boolean(await page.waitForFunction(() => {
    const shown = document.body.innerText;
    return /phone, unit 1\b/.test(shown) ? 'yes' : /All units are on hold/.test(shown) && 'no';
  }).then((answer) => answer.jsonValue().then((word) => word === 'yes')));
  const [first, second] = await Promise.all(buyers.map(got));
  assert.ok(first !== second, 'one buyer has the unit, and the other sees that it is taken');
  await picture(buyers[first ? 1 : 0], 'shop-held');
  await has(buyers[first ? 1 : 0], 'all on hold');
  await hasCell(operator, 'phone', 'held', 1);
  await stock(operator, 'phone', 'Add units');
  await confirm(operator);
  await shopHas(buyers[first ? 1 : 0], 'phone', 2);
  await hasCell(operator, 'phone', 'held', 2);
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
  await page.waitForSelector('#cancel');
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
  await page.goto(`${state.url}/shop/phones#proof=1.def`);
  await page.waitForSelector('#buy:not([disabled])');
  assert.deepEqual(await keyOf(() => page.click('#buy')), { key: refused.key, proof: '1.def' });
  await page.waitForSelector('#cancel');
  await page.click('#cancel');
  await has(page, 'Canceled.');
  assert.notEqual((await keyOf(() => page.click('#buy'))).key, refused.key, 'what has an answer is over');
  await page.waitForSelector('#cancel');
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

/** A server with tokens: the operator console and the shop page report a missing, wrong or insufficient token. */
async function showTokens(browser, knock) {
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
    await knock(await open(browser, `${address}/`, { viewport: phone, refusals: [401, 403, 404] }), worker, boss);
    await shopWithTokens(browser, address, ann, bob);
  } finally {
    await end(server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
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
  await shopHas(other, 'phone', 1);
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
  await page.waitForSelector('#cancel');
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

module.exports = { buy, buySeveral, changeBuyers, countDown, embed, handOver, loseTheSale, payInEachWay, sellTheLastOne, shopHas, showMetadata, showTokens, unitOf };
