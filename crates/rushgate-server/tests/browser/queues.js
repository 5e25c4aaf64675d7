// Queues: lists, filters, verbs on one and on many tasks, tasks in every state, schedules, workers and locks.
'use strict';
const { accessible, assert, at, confirm, desk, has, open, picture, post, press, put, refuse, rowOf, state, titled } = require('./stand.js');

const view = (page, name) => page.locator('.views').getByRole('link', { name: new RegExp(`^${name}`) }).click();
/** Waits until the list has this number of rows. */
const found = (page, n) => page.locator('.count').filter({ hasText: new RegExp(`^${n.replace('+', '\\+')} found`) }).waitFor();
const command = (page, name) => press(page.locator('.queue .found'), name);

async function lookAtQueues(page) {
  await page.click('header nav >> text=Queues');
  await at(page, '/queues');
  await rowOf(page, 'mail').waitFor();
  await titled(page, 'Queues · Rushgate');
  await accessible(page, 'queues');
  await picture(page, 'queues');
  await post('/v1/queues/busy/batch', { tasks: Array.from({ length: 9 }, (_, n) => ({ id: `b-${n}` })) });
  await rowOf(page, 'busy').waitFor();
  await page.getByLabel('Sort by').selectOption('name');
  await page.getByLabel('Sort by').selectOption('ready');
  await at(page, '/queues?sort=ready');
  assert.match(await page.locator('tbody tr').first().innerText(), /busy/, 'the longest backlog comes first');
  await press(rowOf(page, 'mail'), 'Pause');
  await has(page, 'Workers get no more tasks from this queue.');
  await confirm(page);
  await rowOf(page, 'mail').getByRole('button', { name: 'Resume' }).click();
  await confirm(page);
  await rowOf(page, 'mail').getByRole('button', { name: 'Pause' }).waitFor();
  await page.click('text=mail');
  await at(page, '/queues/mail');
  await accessible(page, 'queue');
  await showTask(page, 'to:bob', ['<b>hi</b>']);
  await view(page, 'dead');
  await at(page, '/queues/mail?state=dead');
  await titled(page, 'dead · mail · Rushgate');
  await has(page, 'no luck');
  await command(page, 'Requeue all matches');
  await confirm(page);
  await has(page, 'Nothing here.');
  await view(page, 'in the queue');
  await searchAndCancel(page);
  await pageThroughMany(page);
  await filterByField(page);
  await enqueueByHand(page);
}

/** Opens a task by its name, checks its screen, and goes back. */
async function showTask(page, id, texts, name) {
  await page.getByRole('link', { name: id, exact: true }).click();
  await page.waitForSelector(`[data-task="${id}"] dd`);
  for (const text of texts) await has(page, text);
  const shown = await page.innerText('main');
  if (name) await picture(page, name);
  await page.goBack();
  await page.waitForSelector('.views');
  return shown;
}

/** A search shows only its matches, and a verb on all of them asks first, with their number. */
async function searchAndCancel(page) {
  const ids = Array.from({ length: 12 }, (_, n) => `bulk-${n}`);
  for (const id of [...ids, 'kept']) await post('/v1/queues/mail/tasks', { id, payload: null });
  await page.getByLabel('ID prefix').fill('bulk-');
  await found(page, '12');
  await at(page, '/queues/mail?q=bulk-');
  assert.ok(!(await page.textContent('main')).includes('kept'), 'others are not shown');
  await page.getByLabel('Select bulk-3').check();
  await page.getByLabel('Select bulk-7').check();
  await page.getByRole('button', { name: 'Cancel task (2)' }).click();
  await has(page, '2: bulk-3, bulk-7');
  await confirm(page, 'mail');
  await found(page, '10');
  await command(page, 'Cancel all matches');
  await has(page, '10: bulk-0, bulk-1, bulk-10, bulk-11, bulk-2, …');
  assert.ok(await page.locator('dialog[open] .ends button').last().isDisabled(), 'the name is not typed yet');
  await picture(page, 'bulk');
  await refuse(page);
  await command(page, 'Cancel all matches');
  await confirm(page, 'mail');
  await found(page, '0');
  await page.getByLabel('ID prefix').fill('');
  await has(page, 'kept');
  const { items } = await (await fetch(`${state.url}/v1/queues/mail/tasks`)).json();
  assert.ok(items.length && items.every(({ id }) => !id.startsWith('bulk-')), 'only what was found is cancelled');
}

/** A long list is shown in pages, each with a URL. */
async function pageThroughMany(page) {
  const tasks = Array.from({ length: 130 }, (_, n) => ({ id: `many-${String(n).padStart(3, '0')}` }));
  await post('/v1/queues/mail/batch', { tasks });
  await page.getByLabel('ID prefix').fill('many-');
  await found(page, '50+');
  assert.equal(await page.locator('tbody tr').count(), 50);
  await page.click('text=Next page');
  await page.waitForURL(/after=/);
  await has(page, 'many-050');
  await page.click('text=Next page');
  await has(page, 'many-129');
  assert.equal(await page.getByRole('link', { name: 'Next page' }).count(), 0, 'there is no more');
  await page.reload();
  await has(page, 'many-129');
  await page.goBack();
  await has(page, 'many-050');
  await page.click('text=First page');
  await has(page, 'many-000');
  await command(page, 'Cancel all matches');
  await has(page, '130: many-000');
  await confirm(page, 'mail');
  await found(page, '0');
  await page.getByLabel('ID prefix').fill('');
}

/** A filter finds tasks by kind, key, error or text, on every page of the queue. */
async function filterByField(page) {
  const tasks = Array.from({ length: 60 }, (_, n) => ({ id: `kinds-${String(n).padStart(2, '0')}`, kind: n % 20 ? 'news' : 'welcome', payload: { n, city: n === 41 ? 'Reykjavik' : 'Oslo' } }));
  await post('/v1/queues/mail/batch', { tasks });
  const filter = page.getByLabel('Filter:');
  await filter.fill('kind:welcome');
  await found(page, '3');
  for (const id of ['kinds-00', 'kinds-20', 'kinds-40']) await has(page, id);
  await filter.fill('reykjavik');
  await found(page, '1');
  await has(page, 'kinds-41');
  await page.reload();
  await has(page, 'kinds-41');
  await filter.fill('payload.city:REYK payload.n:41');
  await found(page, '1');
  await filter.fill('payload.n:reykjavik');
  await found(page, '0');
  await filter.fill('');
  await page.getByLabel('ID prefix').fill('kinds-');
  await command(page, 'Cancel all matches');
  await confirm(page, 'mail');
  await found(page, '0');
  await page.getByLabel('ID prefix').fill('');
}

async function enqueueByHand(page) {
  await page.getByRole('button', { name: 'Enqueue' }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('ID', { exact: true }).fill('by-hand');
  await dialog.getByLabel('Payload').fill('{"to": ');
  await dialog.locator('.ends button').last().click();
  await has(page, 'This is not JSON');
  await dialog.getByLabel('Payload').fill('{"to": "ann"}');
  await dialog.getByLabel('Kind').fill('welcome');
  await confirm(page);
  await at(page, '/queues/mail/tasks/by-hand');
  await has(page, '"to": "ann"');
  await has(page, 'welcome');
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
  await put('/v1/queues/desk/limits', { retention, per_key: { concurrency: 1 }, events: 1000 });
  const ticket = await claimed('runs', 600000);
  await post('/v1/queues/desk/extend', { ticket, lease_ms: 600000, progress: { percent: 40, note: 'page 2 of 5' } });
  await post('/v1/queues/desk/complete', { ticket: await claimed('is-done'), result: { sent: 'yes' } });
  await post('/v1/queues/desk/retry', { ticket: await claimed('fails'), error: 'try again later', delay_ms: 3600000 });
  for (const n of [1, 2, 3, 4]) {
    await post('/v1/queues/desk/retry', { ticket: await claimed(`dead-${n}`), error: n === 4 ? 'out of ink' : 'no luck', give_up: true });
  }
  await post('/v1/queues/desk/tasks', { id: 'behind', payload: null, key: 'tenant-7' });
  await post('/v1/queues/desk/tasks', { id: 'long', payload: 'x'.repeat(30000), delay_ms: 3600000 });
  await put('/v1/queues/desk/schedules/nightly', { cron: '0 3 * * *', zone: 'Europe/Berlin', payload: { report: 1 } });
  return ticket;
}

/** Tasks in every state, with their screens: facts, history, and why they are not running. */
async function lookAtTasks(page) {
  const ticket = await furnishWork();
  await page.click('header nav >> text=Queues');
  await page.getByRole('link', { name: 'desk', exact: true }).click();
  await view(page, 'leased 1');
  await page.getByRole('link', { name: 'runs', exact: true }).click();
  await has(page, 'page 2 of 5');
  const shown = await page.innerText('main');
  for (const text of ['leased 40 %', 'tenant-7', '1/20', 'Lease left', '"of": "runs"', 'attempt 1 · ']) assert.ok(shown.includes(text), `${text}: ${shown}`);
  assert.ok(!shown.includes('not running'), 'it runs');
  await post('/v1/queues/desk/extend', { ticket, lease_ms: 600000, progress: { percent: 60, note: 'page 3 of 5' } });
  await has(page, 'page 3 of 5');
  await accessible(page, 'task');
  await picture(page, 'task');
  await page.goBack();
  const looks = [
    ['done 1', 'is-done', ['"sent": "yes"', ' · done']],
    ['scheduled 2', 'fails', ['Due in 59 min', 'attempt 1 · failed', 'try again later', 'next attempt']],
    ['scheduled 2', 'long', ['truncated: 30,002 characters']],
    ['blocked 1', 'behind', ['Concurrency limit of key tenant-7 reached. Running: runs']],
    ['dead 4', 'dead-1', ['dead after 1 attempts', 'no luck', '"of": "dead-1"']],
  ];
  for (const [is, id, texts] of looks) {
    await view(page, is);
    const text = await showTask(page, id, texts, `task-${id}`);
    assert.equal(text.includes('not running'), ['fails', 'long', 'behind'].includes(id), id);
  }
  await steerTasks(page);
  await rescheduleTasks(page);
  await followTheGraph(page);
  await openTheTree(page);
  await lookAtSchedules(page);
  await lookAtWorkers(page);
}

/** A worker that announced itself, which an operator quiets, and one that holds a task without having done so. */
async function lookAtWorkers(page) {
  const announce = () => put('/v1/queues/desk/workers/w1', { name: 'printer-2:71', version: 'shop 3.1', concurrency: 8, lease_ms: 600000 });
  await announce();
  await view(page, 'Workers');
  await found(page, '2');
  const row = rowOf(page, 'printer-2:71');
  await row.filter({ hasText: 'working' }).filter({ hasText: '0 / 8' }).filter({ hasText: 'shop 3.1' }).waitFor();
  await page.locator('tbody tr').filter({ hasText: 'not announced' }).waitFor();
  await press(row, 'Quiet');
  await has(page, 'The worker claims no more tasks from this queue.');
  await confirm(page);
  await row.filter({ hasText: /quiet/ }).waitFor(); // case matters: the button is named Quiet
  assert.deepEqual(await announce(), { mode: 'quiet' });
  await accessible(page, 'workers');
  await picture(page, 'workers');
  await press(row, 'Work again');
  await confirm(page);
  await row.filter({ hasText: 'working' }).waitFor();
  await row.getByRole('link').click();
  await page.waitForURL(/\/workers\/printer-2/);
  await has(page, 'This worker holds no task of this queue.');
  await press(page.locator('main'), 'Stop');
  await has(page, 'A supervisor may start a new one.');
  await confirm(page);
  await has(page, 'stopping');
  assert.deepEqual(await announce(), { mode: 'stop' });
  await accessible(page, 'worker');
  await picture(page, 'worker');
  await page.goBack();
  await page.locator('tbody tr').filter({ hasText: 'not announced' }).getByRole('link').click();
  await page.waitForURL(/\/workers\//);
  await has(page, 'runs');
}

async function steerTasks(page) {
  await view(page, 'dead');
  await page.click('text=Group by error');
  await page.getByRole('row', { name: /^3 no luck/ }).waitFor();
  await page.goBack();
  await page.getByRole('link', { name: 'dead-1', exact: true }).click();
  await press(page.locator('.task'), 'Requeue');
  await has(page, 'The task runs again with all its attempts.');
  await confirm(page);
  await has(page, 'Why is it not running?');
  await page.goBack();
  await found(page, '3');
  await press(rowOf(page, 'dead-2'), 'Delete');
  await refuse(page);
  await has(page, 'dead-2');
  await press(rowOf(page, 'dead-2'), 'Delete');
  await confirm(page);
  await found(page, '2');
  await command(page, 'Delete all matches');
  await has(page, '2: dead-3, dead-4');
  await confirm(page, 'desk');
  await has(page, 'Nothing here.');
  await view(page, 'ready 1');
  await found(page, '1');
  await press(rowOf(page, 'dead-1'), 'Cancel task');
  await confirm(page);
  await found(page, '0');
  await view(page, 'leased');
  await press(rowOf(page, 'runs'), 'Cancel task');
  await has(page, 'The worker is asked to stop.');
  await confirm(page);
  await has(page, 'cancel requested');
}

/** A waiting task is made due later, then now; and all tasks that a filter finds are made due at once. */
async function rescheduleTasks(page) {
  await view(page, 'scheduled');
  await page.getByRole('link', { name: 'fails', exact: true }).click();
  await press(page.locator('.task'), 'Reschedule');
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Due in').fill('5');
  await dialog.getByLabel('Unit').selectOption('d');
  await confirm(page);
  await has(page, 'Due in 4 d');
  await press(page.locator('.task'), 'Run now');
  await confirm(page);
  await page.locator('.tag', { hasText: 'ready' }).waitFor();
  await has(page, 'try again later');
  await page.goBack();
  const ids = Array.from({ length: 3 }, (_, n) => ({ id: `later-${n}`, delay_ms: 3600000 }));
  await post('/v1/queues/desk/batch', { tasks: ids });
  await page.getByLabel('ID prefix').fill('later-');
  await found(page, '3');
  await command(page, 'Run all matches now');
  await has(page, '3: later-0, later-1, later-2');
  await confirm(page);
  await found(page, '0');
  // A text that is typed before the screen opens is for that screen.
  await page.evaluate(() => {
    document.querySelector('.views a[href$="state=ready"]').click();
    const search = document.querySelector('input[name=q]');
    search.value = 'later-';
    search.dispatchEvent(new Event('input', { bubbles: true }));
  });
  await at(page, '/queues/desk?state=ready&q=later-');
  await found(page, '3');
  await command(page, 'Cancel all matches');
  await confirm(page, 'desk');
  await found(page, '0');
  await page.getByLabel('ID prefix').fill('');
}

/** A task links to those that it waits for, and to those that wait for it. */
async function followTheGraph(page) {
  for (const [id, more] of [['compile', {}], ['lint', { delay_ms: 3600000 }], ['test', { after: ['compile', 'lint'] }], ['ship', { after: ['test'] }], ['tell', { after: ['test'] }]]) {
    await post('/v1/queues/build/tasks', { id, ...more });
  }
  const { tasks } = await post('/v1/queues/build/claim', { lease_ms: 600000 });
  await page.goto(`${state.url}/queues/build/tasks/test`);
  const node = (name) => page.locator('.node').filter({ hasText: name });
  await node('compile').filter({ hasText: 'leased' }).waitFor();
  await node('lint').filter({ hasText: 'scheduled' }).waitFor();
  for (const name of ['ship', 'tell']) await node(name).filter({ hasText: 'blocked' }).waitFor();
  await accessible(page, 'graph');
  await picture(page, 'graph');
  await post('/v1/queues/build/complete', { ticket: tasks[0].ticket });
  await node('compile').filter({ hasText: 'done' }).waitFor();
  await has(page, 'Finished tasks: 1 of 2.');
  await node('ship').click();
  await at(page, '/queues/build/tasks/ship');
  await node('test').filter({ hasText: 'blocked' }).waitFor();
  await page.goto(`${state.url}/queues/desk`);
}

/** A payload is a tree whose branches open, and which can be copied as a whole. */
async function openTheTree(page) {
  const payload = { to: 'ann@example.com', lines: Array.from({ length: 250 }, (_, n) => ({ sku: `sku-${n}` })), empty: {}, none: null, on: true };
  await post('/v1/queues/desk/tasks', { id: 'tree', payload, delay_ms: 3600000 });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`${state.url}/queues/desk/tasks/tree`);
  const tree = page.locator('.json');
  await tree.getByText('"ann@example.com"').waitFor();
  assert.equal(await tree.getByText('sku-0').count(), 0, 'a long list is closed');
  await tree.locator('summary', { hasText: 'lines' }).click();
  await tree.getByText('"sku-99"').waitFor();
  assert.equal(await tree.getByText('"sku-100"').count(), 0, 'it is shown in parts');
  await page.getByRole('button', { name: 'Show more (150 left)' }).click();
  await tree.getByText('"sku-199"').waitFor();
  await accessible(page, 'tree');
  await tree.evaluate((element) => element.scrollTo(0, 0));
  await picture(page, 'tree');
  await page.getByRole('button', { name: 'Copy' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.deepEqual(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), payload);
  await post('/v1/queues/desk/tasks/tree/reschedule', {});
  await page.goto(`${state.url}/queues/desk`);
}

async function lookAtSchedules(page) {
  await view(page, 'Schedules');
  const row = rowOf(page, 'nightly');
  await row.filter({ hasText: 'Europe/Berlin' }).filter({ hasText: 'in ' }).waitFor();
  await row.locator('.upcoming summary').click();
  assert.equal(await row.locator('.upcoming li').count(), 5);
  await accessible(page, 'schedules');
  await picture(page, 'schedules');
  await press(row, 'Pause');
  await confirm(page);
  await row.filter({ hasText: 'paused' }).waitFor();
  await press(row, 'Resume');
  await confirm(page);
  await row.filter({ hasText: 'running' }).waitFor();
  await press(row, 'Run now');
  await confirm(page);
  await view(page, 'ready');
  await rowOf(page, 'nightly').waitFor();
  await view(page, 'Schedules');
  await page.getByRole('link', { name: 'nightly', exact: true }).click();
  await at(page, '/queues/desk/schedules/nightly');
  await has(page, '"report": 1');
  await has(page, 'Next runs');
  assert.equal(await page.locator('ol.plain li').count(), 5);
  await picture(page, 'schedule');
  await press(page.locator('main'), 'Delete');
  await confirm(page);
  await at(page, '/queues/desk/schedules');
  await has(page, 'Nothing here.');
}

/** Limits are shown and changed, and a queue that keeps events shows its throughput. */
async function limitQueue(browser) {
  await post('/v1/queues/flow/tasks', { id: 'a' });
  const page = await open(browser, '/queues/flow');
  await page.click('.limits summary');
  await press(page.locator('.limits'), 'Keep events');
  await confirm(page);
  await page.locator('.limits').filter({ hasText: 'Events kept 10,000' }).waitFor();
  await press(page.locator('.limits'), 'Change limits');
  await page.locator('dialog[open] textarea').fill('{"events": 10000, "concurrency": 3}');
  await confirm(page);
  await page.locator('.limits').filter({ hasText: 'Concurrency 3' }).waitFor();
  const completed = page.locator('.queue-figures div').filter({ hasText: 'Completed' });
  await completed.waitFor();
  const until = Date.now() + 60000;
  for (let n = 0; !/[1-9]/.test(await completed.innerText()); n += 1) {
    assert.ok(Date.now() < until, await completed.innerText());
    await post('/v1/queues/flow/tasks', { id: `b-${n}` });
    const { tasks } = await post('/v1/queues/flow/claim', { n: 3 });
    if (tasks.length) await post('/v1/queues/flow/complete', { tickets: tasks.map(({ ticket }) => ticket) });
  }
  for (const word of ['Wait p50 / p99', 'Run p50 / p99']) await page.locator('.queue-figures div').filter({ hasText: word }).filter({ hasText: / ms \/ .* (ms|s)$/ }).waitFor();
  await picture(page, 'queue-flow');
  const history = await (await fetch(`${state.url}/v1/queues/flow/history`)).json();
  assert.ok(history.counts.done.reduce((sum, n) => sum + n, 0) > 0, JSON.stringify(history));
  await page.context().close();
}

/** A list in another order than by ID is in pages too. The limits of a queue name the keys that are at them. */
async function sortAndLimit(browser) {
  const tasks = Array.from({ length: 60 }, (_, n) => ({ id: `turn-${String(n).padStart(2, '0')}`, delay_ms: 60000 * (100 - n) }));
  await put('/v1/queues/turns/limits', { concurrency: 5, per_key: { concurrency: 1 } });
  await post('/v1/queues/turns/batch', { tasks });
  await post('/v1/queues/turns/tasks', { id: 'running', key: 'tenant-7' });
  await post('/v1/queues/turns/claim', { lease_ms: 600000 });
  const page = await open(browser, '/queues/turns?state=scheduled', { viewport: desk });
  const names = async (first) => {
    await page.locator('tbody tr').first().filter({ hasText: first }).waitFor();
    return page.locator('tbody .name').allInnerTexts();
  };
  await names('turn-00');
  await page.getByLabel('Sort by').selectOption('When');
  await at(page, '/queues/turns?state=scheduled&sort=when');
  await names('turn-59');
  await page.locator('tbody tr').nth(49).waitFor();
  assert.deepEqual(await names('turn-59'), tasks.map(({ id }) => id).reverse().slice(0, 50));
  await page.click('text=Next page');
  assert.deepEqual(await names('turn-09'), tasks.map(({ id }) => id).reverse().slice(50));
  await page.click('.limits summary');
  for (const text of ['Running now: 1 of at most 5 tasks.', 'Keys at their limit of 1:']) await has(page, text);
  await picture(page, 'queue-limits');
  await page.locator('.limits').getByRole('link', { name: 'tenant-7' }).click();
  await names('running');
  await page.context().close();
}

/** Events of tasks appear as they happen, and a filter or a button holds them back. */
async function followEvents(browser) {
  await post('/v1/queues/told/tasks', { id: 'before' });
  const page = await open(browser, '/queues/told/events', { viewport: desk });
  await has(page, 'This queue keeps no events.');
  await page.getByRole('button', { name: 'Keep events', exact: true }).click();
  await confirm(page);
  await has(page, 'No event yet.');
  const row = (...texts) => texts.reduce((rows, text) => rows.filter({ hasText: text }), page.locator('tbody tr')).first().waitFor();
  await post('/v1/queues/told/tasks', { id: 'first' });
  await row('first', 'enqueued');
  const { tasks: [task] } = await post('/v1/queues/told/claim', { worker: 'printer-2' });
  await row(task.id, 'claimed', 'printer-2');
  await post('/v1/queues/told/retry', { ticket: task.ticket, error: 'out of ink' });
  await row(task.id, 'attempt failed', 'out of ink');
  await accessible(page, 'events');
  await page.waitForFunction(() => !document.getElementById('said').textContent);
  await picture(page, 'queue-events');
  await page.fill('input[name=q]', 'ENQUEUED late');
  await has(page, 'No such event.');
  await post('/v1/queues/told/tasks', { id: 'early' });
  await post('/v1/queues/told/tasks', { id: 'late' });
  await row('late');
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.fill('input[name=q]', '');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await has(page, 'Stopped. Later events are not shown.');
  await post('/v1/queues/told/tasks', { id: 'later' });
  await page.getByRole('button', { name: 'Follow', exact: true }).click();
  await row('later');
  // The kept events are there when the view is opened.
  await page.reload();
  await row(task.id, 'claimed', 'printer-2');
  await page.getByRole('link', { name: 'late', exact: true }).click();
  await at(page, '/queues/told/tasks/late');
  await page.context().close();
}

async function lookAtLocks(page) {
  await page.click('header nav >> text=Locks');
  await has(page, 'ship order 42');
  await accessible(page, 'locks');
  await picture(page, 'locks');
  const acquire = (label) => post('/v1/locks/order:42/acquire', { lease_ms: 600000, label }, { prefer: 'wait=60' });
  const waiters = ['second', 'third'].map(acquire);
  await page.getByRole('link', { name: 'order:42' }).click();
  await at(page, '/locks/order%3A42');
  for (const text of ['Lease left', 'Wait queue (2)', 'second', 'third']) await has(page, text);
  assert.equal(await page.locator('tbody tr').count(), 2);
  await accessible(page, 'lock');
  await picture(page, 'lock');
  await page.goBack();
  for (const left of [1, 0]) {
    await press(rowOf(page, 'order:42'), 'Force-release');
    await has(page, 'loses the lock, although its lease has');
    await confirm(page);
    await rowOf(page, /second|third/).filter({ has: page.locator(`td[data-label=Waiting]`, { hasText: new RegExp(`^${left}$`) }) }).waitFor();
  }
  await Promise.all(waiters);
  await press(rowOf(page, 'order:42'), 'Force-release');
  await confirm(page);
  await has(page, 'No lock is held');
}

module.exports = { followEvents, limitQueue, lookAtLocks, lookAtQueues, lookAtTasks, sortAndLimit };
