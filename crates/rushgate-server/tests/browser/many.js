// The console with many tasks: each screen and each interaction shows what it should. Prints how long a reader waits for
// each, and with MILLISECONDS fails if one takes longer, which is meant for a release build.
//
//   node many.js RUSHGATE DIRECTORY-FOR-SCREENSHOTS [TASKS] [MILLISECONDS]
'use strict';
const { chromium } = require('playwright-core');
const { accessible, assert, desk, end, faults, fits, join, mkdtempSync, open, phone, picture, post, put, rmSync, start, state, tmpdir } = require('./stand.js');

const [, , , , tasks = '100000', most = 'Infinity'] = process.argv;
const [TASKS, MOST] = [Number(tasks), Number(most)];
const BATCH = 1000;
const id = (n) => `task-${String(n).padStart(8, '0')}`;

/** Fills a queue: a tenth of its tasks are scheduled, a tenth blocked, a hundredth dead, and 1,000 leased. */
async function fill() {
  await put('/v1/queues/many/limits', { events: 1000 });
  for (let from = 0; from < TASKS; from += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, n) => ({
      id: id(from + n), kind: n % 2 ? 'welcome' : 'news', payload: { to: `buyer-${from + n}@example.com`, n },
      ...(n % 10 === 1 && { delay_ms: 86400000 }), ...(n % 10 === 2 && { key: 'tenant-7' }),
    }));
    await post('/v1/queues/many/batch', { tasks: batch });
  }
  for (let dead = 0; dead < TASKS / 100; dead += BATCH) {
    const claimed = await post('/v1/queues/many/claim', { n: BATCH, lease_ms: 600000, worker: 'mailer-1' });
    const tickets = claimed.tasks.map(({ ticket }) => ticket);
    await post('/v1/queues/many/retry', { tickets, give_up: true, error: `connection refused ${dead % 7}` });
  }
  await post('/v1/queues/many/claim', { n: BATCH, lease_ms: 600000, worker: 'mailer-2' });
}

const figures = [];

/** Milliseconds from an action in the page until the text is there. */
async function measure(page, what, act, text) {
  const took = await page.evaluate(async ([code, wanted]) => {
    // Not `innerText`, which lays out the page at each look.
    const is = () => document.querySelector('main').textContent.includes(wanted);
    if (is()) throw new Error(`the page already has ${wanted}`);
    const began = performance.now();
    if (code.click) [...document.querySelectorAll(code.click)].find((one) => !code.named || one.textContent.trim().startsWith(code.named)).click();
    if (code.type !== undefined) {
      const input = document.querySelector(code.into);
      input.value = code.type;
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
    const until = began + 20000;
    while (!is() && performance.now() < until) await new Promise((resolve) => { requestAnimationFrame(resolve); });
    if (!is()) throw new Error(`the page lacks ${wanted}`);
    // The frame that has the text is painted before the browser delivers this message.
    await new Promise((resolve) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = resolve; port2.postMessage(0); });
    return performance.now() - began;
  }, [act, text]);
  figures.push({ what, ms: Math.round(took) });
}

/** The list looks as it does with few tasks. */
async function lookAtList(browser) {
  for (const [name, viewport] of [['desk', desk], ['phone', { ...phone, width: 360 }]]) {
    const page = await open(browser, '/queues/many', { viewport });
    await page.locator('tbody tr').nth(49).waitFor();
    await picture(page, `list-tasks-${TASKS}-${name}`);
    await fits(page, name);
    await accessible(page, name);
    await page.locator('nav.pager a[rel=next]').click();
    await page.locator('nav.pager a[rel=first]').waitFor();
    await page.context().close();
  }
  assert.deepEqual(faults, []);
}

async function main() {
  const directory = mkdtempSync(join(tmpdir(), 'rushgate-'));
  const { server, address } = await start(directory, '127.0.0.1:0');
  state.url = address;
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    const began = Date.now();
    await fill();
    console.log(`${TASKS} tasks in ${Date.now() - began} ms`);
    const page = await open(browser, '/queues', { viewport: desk });
    await page.locator('tbody tr').first().waitFor();
    await measure(page, 'open the queue', { click: 'a.name', named: 'many' }, id(1));
    await page.locator('tbody tr').nth(49).waitFor();
    const after = (n) => page.locator('tbody .name').nth(n).innerText();
    const last = await after(49);
    await measure(page, 'next page', { click: 'a[rel=next]' }, id(Number(last.slice(5)) + 1));
    await measure(page, 'ID prefix', { into: 'input[name=q]', type: id(TASKS - 8) }, '1 found');
    await measure(page, 'clear the prefix', { into: 'input[name=q]', type: '' }, '50+ found');
    await measure(page, 'dead letters', { click: 'a.view', named: 'dead' }, 'connection refused');
    await measure(page, 'scheduled', { click: 'a.view', named: 'scheduled' }, id(1));
    await measure(page, 'open a task', { click: 'tbody a.name' }, 'Payload');
    await page.goBack();
    await page.locator('tbody tr').nth(49).waitFor();
    await measure(page, 'filter by kind', { into: 'input[name=filter]', type: 'kind:welcome' }, ' read');
    await measure(page, 'filter without a match: progress', { into: 'input[name=filter]', type: 'nowhere-to-be' }, 'Events0+ found · ');
    await page.fill('input[name=filter]', '');
    await page.locator('tbody tr').nth(49).waitFor();
    await measure(page, 'filter without a match: the end', { into: 'input[name=filter]', type: 'nowhere-to-be-found' }, 'Nothing here.');
    await measure(page, 'workers', { click: 'a.view', named: 'Workers' }, 'mailer-2');
    await lookAtList(browser);
  } finally {
    await browser.close();
    await end(server, 'SIGTERM');
    rmSync(directory, { recursive: true });
  }
  console.table(figures);
  // A filter that finds nothing reads 20,000 tasks, and says so.
  const slow = figures.filter(({ what, ms }) => what !== 'filter without a match: the end' && ms > MOST);
  if (slow.length) {
    console.error(`slower than ${MOST} ms:`, slow.map(({ what }) => what).join(', '));
    process.exitCode = 1;
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
