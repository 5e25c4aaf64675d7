// The queues screen, and the screen of one queue: its tasks by state, its schedules and its workers.
import { Problem, api, at, h, number, path, relative, say, spoken, t } from '/page/common.js';
import { ask, carryOut, spell, tell, verb } from '/page/dialogs.js';
import { arrange, someOf, table } from '/page/lists.js';
import { latest, serverNow } from '/page/snapshot.js';
import { justBefore, showTask, stateOf } from '/page/tasks.js';

let queueTable = null;

export function showQueues(queues) {
  if (opened) return;
  const section = at('queues');
  if (!queues.length) {
    queueTable = null;
    arrange(section, [], 'noQueues');
    return;
  }
  queueTable ??= table([['name'], ['ready', true], ['scheduled', true], ['leased', true], ['blocked', true], ['dead', true], ['oldest', true], ['state'], ['']]);
  arrange(section, [queueTable.element]);
  const post = (queue, word) => () => api('POST', `/v1/queues/${path(queue.queue)}/${word}`, { body: {} });
  queueTable.fill(queues, (queue) => queue.queue,
    (queue) => [queue.queue, number(queue.ready), number(queue.scheduled), number(queue.leased), number(queue.blocked), number(queue.dead),
      queue.ready ? spoken(1000 * queue.lag_ms) : '–', t(queue.paused ? 'paused' : 'working')],
    (queue) => [
      h('button', { onclick: () => openQueue(queue.queue) }, t('tasks')),
      queue.paused ? verb('resume', queue.queue, post(queue, 'resume')) : verb('pause', queue.queue, post(queue, 'pause')),
    ],
    (queue) => String(queue.paused));
}

// ── One queue: its tasks by state, its schedules and its workers ────────────────────────────────────────────────────

let opened = null; // { name, base, view, search, limit, … } of the open queue
const VIEWS = ['current', 'ready', 'scheduled', 'leased', 'blocked', 'done', 'dead', 'schedules', 'workers'];
const PAGE = 100;
const LIST_MAX = 10000;
const WORKERS_OF = 1000;

function listOf({ base, view, search }, limit) {
  const list = ['dead', 'schedules'].includes(view) ? view : 'tasks';
  const query = new URLSearchParams({ limit, after: justBefore(search) });
  if (list === 'tasks' && view !== 'current') query.set('state', view === 'workers' ? 'leased' : view);
  return `${base}/${list}?${query}`;
}

/** Sends a command to a queue and shows the result at once. */
async function act(of, work) {
  await work();
  if (opened === of) await load(of);
}

const verbOf = (word, of, id, work, options) => verb(word, id, () => act(of, work), options);
const showButton = (of, id) => h('button', { onclick: () => showTask(of, id) }, t('show'));

/** A task that is already gone counts as done. */
const unlessGone = (error) => { if (!(error instanceof Problem && error.code === 'not_found')) throw error; };

const cancelTask = (of, id) => api('DELETE', `${of.base}/tasks/${path(id)}`);
const steerDead = (of, word) => (ids) => inBatches(ids, (some) => api('POST', `${of.base}/dead/${word}`, { body: { ids: some } }));
const steerSchedule = (of, id, word) => () => api('POST', `${of.base}/schedules/${path(id)}/${word}`, { body: {} });

/** How each list is shown, and the actions on its items. */
const LISTS = {
  tasks: {
    heads: [['name'], ['state'], ['tried', true], ['when', true], ['worker'], ['']],
    cells: (task, now) => [task.id, stateOf(task), `${task.attempt}/${task.max_attempts}`,
      relative(task.finished?.at_us ?? task.not_before_us ?? task.due_us, now), task.worker ?? '–'],
    buttons: (of, { id, state: is }) => [showButton(of, id), is !== 'done' && verbOf('cancel', of, id, () => cancelTask(of, id), { danger: true })],
    bulk: (of) => (of.view === 'done' ? []
      : [bulk('cancelFound', of, (ids) => forEach(ids, (id) => cancelTask(of, id).catch(unlessGone)), { danger: true })]),
  },
  dead: {
    heads: [['name'], ['tried', true], ['when', true], ['error'], ['']],
    cells: (letter, now) => [letter.id, `${letter.attempts}/${letter.max_attempts}`, relative(letter.died_us, now), letter.error],
    buttons: (of, { id }) => [showButton(of, id), verbOf('requeue', of, id, () => steerDead(of, 'requeue')([id])),
      verbOf('remove', of, id, () => steerDead(of, 'delete')([id]), { danger: true })],
    bulk: (of) => [bulk('requeueAll', of, steerDead(of, 'requeue')), bulk('deleteAll', of, steerDead(of, 'delete'), { danger: true })],
  },
  schedules: {
    heads: [['name'], ['pattern'], ['next', true], ['previous', true], ['state'], ['']],
    cells: ({ id, when, next_us: next, previous_us: previous, paused }, now) =>
      [id, when, !paused && next ? relative(next, now) : '–', previous ? relative(previous, now) : '–', t(paused ? 'paused' : 'working')],
    buttons: (of, { id, paused }) => [
      verbOf('runNow', of, id, steerSchedule(of, id, 'run')),
      verbOf(paused ? 'resume' : 'pause', of, id, steerSchedule(of, id, paused ? 'resume' : 'pause')),
      verbOf('remove', of, id, () => api('DELETE', `${of.base}/schedules/${path(id)}`), { danger: true }),
    ],
    shape: ({ paused }) => String(paused),
    bulk: () => [],
  },
  workers: {
    heads: [['worker'], ['tasks', true], ['oldestDue', true], ['leaseLeft', true], ['worksOn'], ['']],
    cells: ({ id, tasks }, now) => [id, number(tasks.length), relative(Math.min(...tasks.map((task) => task.due_us)), now),
      spoken(Math.min(...tasks.map((task) => task.lease_until_us)) - now), someOf(tasks.map((task) => task.id))],
    buttons: () => [],
    bulk: () => [],
  },
};

/** Workers, derived from the leased tasks. */
function workersOf(tasks) {
  const workers = new Map();
  for (const task of tasks) {
    if (!workers.has(task.worker)) workers.set(task.worker, []);
    workers.get(task.worker).push(task);
  }
  return [...workers.keys()].sort().map((id) => ({ id, tasks: workers.get(id) }));
}

/** Runs `work` for each ID, a few at a time. */
async function forEach(ids, work) {
  const left = [...ids];
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (left.length) await work(left.shift());
  }));
}

async function inBatches(ids, work) {
  for (let n = 0; n < ids.length; n += 1000) await work(ids.slice(n, n + 1000));
}

async function idsFound(of) {
  try {
    const { items } = await api('GET', listOf(of, LIST_MAX));
    return items.map(({ id }) => id).filter((id) => id.startsWith(of.search));
  } catch (error) {
    tell(spell(error));
    return null;
  }
}

/** An action on all items that the search matches now. The confirmation shows their number; later items are not affected. */
function bulk(word, of, work, { danger } = {}) {
  const onclick = async () => {
    const ids = await idsFound(of);
    const answer = ids && await ask(`${t(word)}: ${of.name}`, { danger, preview: `${number(ids.length)}: ${someOf(ids)}` });
    if (answer) await carryOut(() => act(of, () => work(ids)));
  };
  return h('button', { class: danger ? 'danger' : '', onclick }, t(word));
}

function openQueue(name) {
  opened = { name, base: `/v1/queues/${path(name)}`, view: 'current', search: '', limit: PAGE, turn: 0, underWay: 0, restsUntil: 0 };
  makeQueue(opened);
  at('back').focus();
}

function leaveQueue() {
  opened = null;
  queueTable = null;
  at('queues').replaceChildren();
  if (latest) showQueues(latest.queues);
}

/** Builds the screen of a queue. Its list is loaded later. */
function makeQueue(of) {
  of.views = VIEWS.map((view) => h('button', { onclick: () => chooseView(of, view) }));
  showCounts(of);
  of.field = h('input', { id: 'search', type: 'search', value: of.search, placeholder: t('search'), 'aria-label': t('search') });
  of.field.addEventListener('input', () => { of.search = of.field.value.trim(); of.limit = PAGE; load(of); });
  of.count = h('span', { class: 'soft', role: 'status' });
  of.bulk = h('div', { class: 'row' });
  of.list = h('div');
  of.more = h('button', { id: 'more', hidden: true, onclick: () => { of.limit = Math.min(of.limit + PAGE, LIST_MAX); load(of); } }, t('more'));
  at('queues').replaceChildren(
    h('div', { class: 'row' }, h('button', { id: 'back', onclick: leaveQueue }, t('back')), h('h2', {}, of.name), of.field),
    h('div', { class: 'row views', role: 'group', 'aria-label': t('state') }, of.views),
    h('div', { class: 'row found' }, of.count, of.bulk), of.list, of.more);
  chooseView(of, of.view);
}

function chooseView(of, view) {
  Object.assign(of, { view, limit: PAGE, table: null });
  if (view === 'workers') of.limit = WORKERS_OF;
  VIEWS.forEach((each, n) => of.views[n].setAttribute('aria-pressed', each === view));
  of.field.hidden = view === 'workers';
  if (of.field.hidden) of.search = of.field.value = '';
  of.bulk.replaceChildren();
  of.list.replaceChildren();
  say(of.count, '');
  load(of);
}

/** Loads the current list of a queue. Only the latest request is shown. */
async function load(of) {
  of.turn += 1;
  of.underWay += 1;
  const { turn } = of;
  const began = Date.now();
  try {
    // The browser revalidates its cached answer, so an unchanged list is not sent again.
    const page = await api('GET', listOf(of, of.limit), { cache: 'no-cache' });
    if (opened === of && turn === of.turn) showList(of, page);
  } catch (error) {
    if (error instanceof Problem) tell(error.message);
  }
  of.underWay -= 1;
  of.restsUntil = Date.now() + 10 * (Date.now() - began);
}

function showList(of, { items, next }) {
  const list = LISTS[of.view] ?? LISTS.tasks;
  const found = items.filter(({ id }) => id.startsWith(of.search));
  const isMore = next !== undefined && items.at(-1).id.startsWith(of.search);
  const rows = of.view === 'workers' ? workersOf(found) : found;
  if (!of.table) {
    of.table = table(list.heads);
    of.bulk.replaceChildren(...list.bulk(of));
  }
  arrange(of.list, rows.length ? [of.table.element] : [], 'nothing');
  of.table.fill(rows, ({ id }) => id, (item) => list.cells(item, serverNow()), (item) => list.buttons(of, item), list.shape);
  say(of.count, t('found', `${number(rows.length)}${isMore ? '+' : ''}`));
  of.bulk.hidden = !rows.length;
  of.more.hidden = !isMore || of.limit >= LIST_MAX || of.view === 'workers';
}

/** Rebuilds the screen: the open queue, or all queues. */
export function remakeQueues() {
  if (opened) makeQueue(opened);
  else leaveQueue();
}

/** Shows the number of tasks in each state. */
function showCounts(of) {
  const queue = latest.queues.find(({ queue }) => queue === of.name);
  VIEWS.forEach((view, n) => say(of.views[n], queue?.[view] === undefined ? t(view) : `${t(view)} ${number(queue[view])}`));
}

/** Refreshes the open queue. */
export function updateQueue() {
  const of = opened;
  if (!of) return;
  showCounts(of);
  if (!document.hidden && !at('queues').hidden && !of.underWay && Date.now() >= of.restsUntil) load(of);
}
