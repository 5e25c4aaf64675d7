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
  await page.waitForSelector('text="/v1/locks"');
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

/** An amount that is no integer is no price: text would be joined, not added. */
async function ignoreOddPrices(browser) {
  const skus = { cup: { title: 'Cup', price: { amount: '49900', currency: 'EUR' } }, plate: { price: { amount: 1.5, currency: 'EUR' } }, bowl: { price: { amount: 700, currency: 'EUR' } } };
  await post('/v1/sales', { id: 'odd', skus: Object.keys(skus).map((sku) => ({ sku, units: 5, per_buyer: 2 })), metadata: { skus } });
  await post('/v1/sales/odd/open', {});
  const page = await open(browser, '/shop/odd', { viewport: phone });
  await page.locator('.sku-name', { hasText: 'Cup' }).waitFor();
  assert.deepEqual(await page.locator('.sku-price').allInnerTexts(), ['€7.00']);
  await page.getByLabel('More').click();
  await page.click('#buy');
  await page.waitForSelector('#pay');
  assert.equal(await page.textContent('#pay'), 'Pay');
  assert.equal(await page.locator('#sum').count(), 0);
  await page.context().close();
}

/** The payment provider for demos works, is slow, refuses, answers twice, and loses its answer. */
async function payInEachWay(browser) {
  const enter = () => open(browser, '/shop/drop', { viewport: phone });
  let page = await enter();
  await page.click('.demo summary');
  const choose = (way) => page.selectOption('#demo', way);
  const paid = () => has(page, 'Payment confirmed. It is yours.');
  const again = async () => {
    // A new browser: this page may store what it has bought after its storage was cleared, when a payment answers twice.
    await page.context().close();
    page = await enter();
    await page.click('#buy:not([disabled])');
    await page.waitForSelector('#pay:not([disabled])');
    await page.click('.demo summary');
  };
  await page.click('#buy:not([disabled])');
  await page.waitForSelector('#pay');
  await choose('refuses');
  await page.click('#pay');
  await has(page, 'The payment was refused. Your units stay reserved: try again.');
  assert.ok(await page.locator('#clock').count(), 'the hold continues');
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

/** Serves a page of another origin that embeds the shop of an open sale. `pageFor` makes its HTML for a server's address. */
async function withHost(pageFor, use) {
  let address;
  const pages = createServer((_, answer) => { answer.setHeader('content-type', 'text/html'); answer.end(pageFor(address)); });
  await new Promise((resolve) => { pages.listen(0, '127.0.0.1', resolve); });
  const origin = `http://127.0.0.1:${pages.address().port}`;
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  const started = await start(directory, '127.0.0.1:0', ['--origin', origin]);
  address = started.address;
  try {
    await post(`${address}/v1/sales`, { id: 'phones', skus: [{ sku: 'phone', units: 5 }, { sku: 'case', units: 9 }], metadata });
    await post(`${address}/v1/sales/phones/open`, {});
    await use(origin, address);
  } finally {
    await end(started.server, 'SIGTERM');
    pages.close();
    rmSync(directory, { recursive: true });
  }
}

const noteHas = (page, text) => page.locator('#note', { hasText: text }).waitFor();
const stateHas = (page, text) => page.locator('#state', { hasText: text }).waitFor();

/** The example page, with the address of the test's server in place of its own. */
function examplePage(address) {
  const parts = readFileSync(join(root, 'examples/shop/index.html'), 'utf8').split("'http://127.0.0.1:7979'");
  assert.equal(parts.length, 2, 'the example names its server once');
  return parts.join(JSON.stringify(address));
}

/** The example page embeds the shop in a page of another origin. No URL of the page names another server. */
const embed = (browser) => withHost(examplePage, async (origin) => {
  const page = await open(browser, `${origin}/?server=http://127.0.0.1:9`, { viewport: { width: 900, height: 900 } });
  const told = page.waitForEvent('console', { predicate: (line) => line.text().endsWith(' confirmed') });
  const answers = ['dismiss', 'accept'];
  page.on('dialog', (dialog) => dialog[answers.shift()]());
  await page.locator('rushgate-shop .sku-name', { hasText: 'Phone, forest green' }).waitFor();
  await accessible(page, 'an embedded shop');
  await picture(page, 'embedded');
  await page.click('#buy:not([disabled])');
  await page.click('#pay');
  await noteHas(page, 'The payment was refused.');
  await page.click('#pay');
  await stateHas(page, 'Payment confirmed. It is yours.');
  await told;
  await picture(page, 'embedded-paid');
  await page.context().close();
});

/** A host page whose provider charges at once, and answers when the test says so. */
const payingPage = (address) => `<!doctype html><html lang="en"><title>Host</title><main><h1>Host</h1><rushgate-shop sale="phones"></rushgate-shop></main>
<script type="module">
await import('${address}/page/embed.js');
window.charges = [];
document.querySelector('rushgate-shop').pay = ({ reservation }) => new Promise((resolve, reject) => { window.charges.push({ reservation, resolve, reject }); });
</script></html>`;

/** Ends a payment, and waits until the page has drawn its outcome. */
const settle = (page, nth, how) => page.evaluate(async ([charge, outcome]) => {
  window.charges[charge][outcome](new Error('lost'));
  await new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(drawn)); });
}, [nth, how]);

const charged = (page, count) => page.waitForFunction((wanted) => window.charges.length === wanted, count);

/** Whether the buyer can press Pay, and Cancel. */
const offers = async (page) => [await page.isEnabled('#pay'), await page.isEnabled('#cancel')];

/** The page asks for one payment at a time, and says what it knows about it. */
const payOnce = (browser) => withHost(payingPage, async (origin, address) => {
  const page = await open(browser, `${origin}/`, { viewport: phone });
  const act = (reservation, verb) => post(`${address}/v1/sales/phones/reservations/${reservation}/${verb}`, {}, { prefer: 'wait=10' });
  const reservation = async () => page.textContent('#order');
  await page.click('#buy:not([disabled])');
  await page.click('#pay');
  await noteHas(page, 'Payment in progress');
  assert.deepEqual(await offers(page), [false, false], 'a payment runs');
  // The provider has charged the buyer, and its answer is lost.
  await settle(page, 0, 'reject');
  assert.match(await page.textContent('#note'), /It is unknown whether the payment was accepted/);
  assert.deepEqual(await offers(page), [true, true], 'the buyer may try again');
  await accessible(page, 'an unknown payment');
  await picture(page, 'shop-unknown');
  await page.click('text=中文');
  await noteHas(page, '无法确定付款是否成功');
  await page.click('text=English');

  await page.click('#pay');
  await charged(page, 2);
  await settle(page, 1, 'resolve');
  assert.match(await page.textContent('#note'), /Payment accepted/);
  assert.deepEqual(await offers(page), [false, false], 'a paid hold waits for its confirmation');
  const first = await reservation();
  await page.reload();
  await noteHas(page, 'Payment accepted');
  assert.deepEqual(await offers(page), [false, false], 'and so it does after a reload');
  await act(first, 'confirm');
  await stateHas(page, 'Payment confirmed. It is yours.');
  assert.equal(await page.textContent('#note'), '');
  await page.context().close();
});

/** The answer to a payment for a hold that has ended says nothing about the buyer's next hold. */
const payLate = (browser) => withHost(payingPage, async (origin, address) => {
  const page = await open(browser, `${origin}/`, { viewport: phone });
  await page.click('#buy:not([disabled])');
  for (const nth of [0, 1]) {
    await page.click('#pay');
    await charged(page, nth + 1);
    await post(`${address}/v1/sales/phones/reservations/${await page.textContent('#order')}/cancel`, {}, { prefer: 'wait=10' });
    await stateHas(page, 'Canceled.');
    await page.click('#buy:not([disabled])');
    await page.waitForSelector('#order');
  }
  await settle(page, 0, 'resolve');
  assert.equal(await page.textContent('#note'), '');
  assert.deepEqual(await offers(page), [true, true], 'the next hold is not paid');
  await page.click('#pay');
  await charged(page, 3);
  await settle(page, 1, 'reject');
  assert.match(await page.textContent('#note'), /Payment in progress/);
  assert.deepEqual(await offers(page), [false, false], 'its payment still runs');
  assert.equal(await page.evaluate(() => new Set(window.charges.map((charge) => charge.reservation)).size), 3);
  await page.context().close();
});

const tokenOf = (sub) => `x.${Buffer.from(JSON.stringify({ sub })).toString('base64url')}.y`;

/** A host page that uses the names of the shop for values of its own, and signs in the buyer of its query. */
const storingPage = (address) => `<!doctype html><html lang="en"><title>Host</title><main><h1>Host</h1><rushgate-shop sale="phones"></rushgate-shop></main>
<script type="module">
for (const storage of [localStorage, sessionStorage]) {
  for (const [key, value] of Object.entries({ bearer: 'site', named: 'yes', buyer: 'site', language: 'zh', 'attempt:phones': '{"key":"site"}' })) storage.setItem(key, value);
}
const token = new URLSearchParams(location.search).get('token');
if (token) document.querySelector('rushgate-shop').setAttribute('token', token);
await import('${address}/page/embed.js');
</script></html>`;

/** An embedded shop keeps its keys apart from those of the site, and sends no token that the site does not set now. */
const shareStorage = (browser) => withHost(storingPage, async (origin) => {
  const page = await open(browser, `${origin}/`, { viewport: phone });
  const request = async (method, path, act) => (await Promise.all([
    page.waitForRequest((asked) => asked.method() === method && asked.url().endsWith(path)), act(),
  ]))[0];
  const reserve = async () => {
    const asked = await request('POST', '/reservations', () => page.click('#buy:not([disabled])'));
    await page.click('#cancel');
    await stateHas(page, 'Canceled.');
    return { token: await asked.headerValue('authorization'), buyer: JSON.parse(asked.postData()).buyer };
  };
  const anonymous = await reserve();
  assert.equal(anonymous.token, null);
  assert.match(anonymous.buyer, /^web-/);
  const signedIn = await request('GET', '/v1/sales/phones', () => page.goto(`${origin}/?token=${tokenOf('ann')}`));
  assert.equal(await signedIn.headerValue('authorization'), `Bearer ${tokenOf('ann')}`);
  await page.goto(`${origin}/`);
  assert.deepEqual(await reserve(), anonymous, 'signed out');
  const kept = await page.evaluate(() => [localStorage, sessionStorage].map((storage) => Object.entries(storage).filter(([key]) => !key.startsWith('rushgate:')).sort()));
  const own = [['attempt:phones', '{"key":"site"}'], ['bearer', 'site'], ['buyer', 'site'], ['language', 'zh'], ['named', 'yes']];
  assert.deepEqual(kept, [own, own], 'the keys of the site are its own');
  await page.context().close();
});

/** A host page with a shop for each of two sales, and a provider for each. The first one has the token in the page's URL. */
const twoPage = (address) => `<!doctype html><html lang="en"><title>Host</title><main><h1>Host</h1>
<rushgate-shop sale="phones"></rushgate-shop><rushgate-shop sale="cases"></rushgate-shop></main>
<script type="module">
const token = new URLSearchParams(location.search).get('token');
if (token) document.querySelector('rushgate-shop').setAttribute('token', token);
await import('${address}/page/embed.js');
for (const shop of document.querySelectorAll('rushgate-shop')) {
  shop.pay = async ({ sale, reservation }) => { console.log('charged ' + sale + ' ' + reservation); };
  shop.addEventListener('reservation', ({ detail }) => console.log('told ' + shop.getAttribute('sale') + ' ' + detail.state));
}
</script></html>`;

/** Two shops on one page: each has its own sale, buyer, reservation, payment and events. */
const embedTwo = (browser) => withHost(twoPage, async (origin, address) => {
  await post(`${address}/v1/sales`, { id: 'cases', skus: [{ sku: 'case', units: 9 }] });
  await post(`${address}/v1/sales/cases/open`, {});
  const page = await open(browser, `${origin}/`, { viewport: { width: 900, height: 1200 } });
  const lines = [];
  page.on('console', (line) => lines.push(line.text()));
  const of = (sale) => page.locator(`rushgate-shop[sale=${sale}]`);
  const says = (sale, text) => of(sale).locator('#state', { hasText: text }).waitFor();
  await of('phones').locator('#buy:not([disabled])').click();
  const phoneOrder = await of('phones').locator('#order').textContent();
  assert.ok(await of('cases').locator('#buy').isEnabled(), 'the other shop is not affected');
  assert.equal(await of('cases').locator('#order').count(), 0);
  await of('cases').locator('#buy:not([disabled])').click();
  const caseOrder = await of('cases').locator('#order').textContent();
  await accessible(page, 'two shops');
  await fits(page, 'two shops');
  await picture(page, 'embedded-two');

  await page.reload();
  assert.deepEqual([await of('phones').locator('#order').textContent(), await of('cases').locator('#order').textContent()], [phoneOrder, caseOrder]);
  await of('cases').locator('#pay').click();
  await of('cases').locator('#note', { hasText: 'Payment accepted' }).waitFor();
  assert.ok(await of('phones').locator('#pay').isEnabled(), 'the other hold is not paid');
  await post(`${address}/v1/sales/cases/reservations/${caseOrder}/confirm`, {}, { prefer: 'wait=10' });
  await says('cases', 'Payment confirmed. It is yours.');
  await of('phones').locator('#cancel').click();
  await says('phones', 'Canceled.');
  await says('cases', 'Payment confirmed. It is yours.');
  assert.deepEqual(lines.filter((line) => line.startsWith('charged ')), [`charged cases ${caseOrder}`]);
  for (const told of ['told phones held', 'told cases held', 'told cases confirmed', 'told phones cancelled']) assert.ok(lines.includes(told), told);

  // The page before may still ask.
  const isNew = (request) => request.frame().url().includes('?token=');
  const tokens = ['phones', 'cases'].map(async (sale) => (await page.waitForRequest((one) => one.url().endsWith(`/v1/sales/${sale}`) && isNew(one))).headerValue('authorization'));
  await page.goto(`${origin}/?token=${tokenOf('ann')}`);
  assert.deepEqual(await Promise.all(tokens), [`Bearer ${tokenOf('ann')}`, null], 'each shop sends its own token');
  await page.context().close();
});

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
  // After the rebuild, an attempt may have to be repeated.
  state.away = true;
  await post('/v1/sales/last/halt', {});
  await has(buyers[0], 'The sale is halted.');
  await buyers[0].waitForSelector('#buy[disabled]');
  await post('/v1/sales/last/rebuild', {});
  await Promise.all(buyers.map((page) => page.waitForSelector('#buy:not([disabled])')));
  await Promise.all(buyers.map((page) => page.click('#buy')));
  const got = async (page) => Boolean(await page.waitForFunction(() => {
    const shown = document.body.innerText;
    return /phone, unit 1\b/.test(shown) ? 'yes' : /All units are on hold/.test(shown) && 'no';
  }).then((answer) => answer.jsonValue().then((word) => word === 'yes')));
  const [first, second] = await Promise.all(buyers.map(got));
  state.away = false;
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
  const page = await open(browser, `/shop/phones#token=${tokenOf('ann')}`, { viewport: phone });
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
    await page.evaluate(() => localStorage.setItem('rushgate:attempt:phones', 'written down'));
    await page.evaluate((hash) => { location.hash = hash; }, `token=${tokenOf(sub)}`);
    await page.waitForFunction(() => !location.hash);
    return page.evaluate(() => localStorage.getItem('rushgate:attempt:phones'));
  };
  assert.equal(await buyer(), tokenOf('ann'));
  assert.deepEqual(asked, [], 'nobody was anybody before');
  assert.equal(await follow('ann'), 'written down');
  assert.deepEqual(asked, [], 'the same buyer');
  assert.equal(await follow('bob'), 'written down');
  assert.deepEqual(asked, ['This link signs you in as another buyer. Continue?']);
  assert.equal(await buyer(), tokenOf('ann'), 'it was a no');
  answerWith = 'accept';
  assert.equal(await follow('bob'), null);
  assert.equal(asked.length, 2);
  assert.equal(await buyer(), tokenOf('bob'));
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

module.exports = {
  buy, buySeveral, changeBuyers, countDown, embed, embedTwo, handOver, ignoreOddPrices, loseTheSale, payInEachWay, payLate, payOnce, sellTheLastOne, shareStorage,
  shopHas, showMetadata, showTokens, unitOf,
};
