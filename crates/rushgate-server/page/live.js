// The operator's page: sales, queues and locks as they stand, and what can be done about them.
import { Problem, api, events, h, number, path, pause, recall, say, setBearer, speak, spoken, store, t } from '/page/common.js';
import { makeAttempts, rememberAttempts } from '/page/attempts.js';
import { clockTime, draw } from '/page/chart.js';

const at = (id) => document.getElementById(id);
let latest = null;
let opened = null; // the queue whose tasks are shown
const history = new Map(); // sale → [seconds[], confirmed[], held[], free[]]
const HISTORY_MAX = 900;

// ── Asking and telling ──────────────────────────────────────────────────────────────────────────────────────────────

let saying;
function tell(text) {
  say(at('said'), text);
  clearTimeout(saying);
  saying = setTimeout(() => say(at('said'), ''), 6000);
}

/** Asks whoever looks; gives what was typed, or nothing. */
function ask(title, { field, danger, text, preview } = {}) {
  const dialog = at('ask');
  const input = field && (text ? h('input', { type: 'text', maxlength: '256', required: true, class: 'wide' })
    : h('input', { type: 'number', min: '1', value: '1', required: true }));
  const form = h('form', { method: 'dialog' },
    h('h2', { id: 'ask-title' }, title),
    preview ? h('p', { class: 'preview' }, preview) : null,
    field ? h('label', {}, field, ' ', input) : h('p', {}, t('sure')),
    h('div', { class: 'row' },
      h('button', { value: 'no', formnovalidate: true }, t('no')),
      h('button', { value: 'yes', class: danger ? 'danger' : '' }, t('yes'))));
  dialog.replaceChildren(form);
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === 'yes' ? (input ? (text ? input.value : Number(input.value)) : true) : null);
  });
}

function display(title, ...content) {
  const dialog = at('ask');
  dialog.replaceChildren(h('form', { method: 'dialog' }, h('h2', { id: 'ask-title' }, title), ...content,
    h('div', { class: 'row' }, h('button', { autofocus: true }, t('close')))));
  dialog.showModal();
}

async function carryOut(work) {
  try {
    await work();
    tell(t('done'));
  } catch (error) {
    tell(error.message);
  }
}

/** A button that asks first. */
function verb(word, title, work, options = {}) {
  return h('button', {
    class: options.danger ? 'danger' : '',
    onclick: async () => {
      const answer = await ask(`${t(word)}: ${title}`, options);
      if (answer !== null) await carryOut(() => work(answer));
    },
  }, t(word));
}

// ── Sales ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const PLACES = ['confirmed', 'held', 'free', 'withdrawn'];
const cards = new Map();

function remember(sale, now) {
  const sum = (place) => sale.skus.reduce((all, sku) => all + sku[place], 0);
  const past = history.get(sale.id) ?? [[], [], [], []];
  [now / 1e6, sum('confirmed'), sum('held'), sum('free')].forEach((value, n) => {
    past[n].push(value);
    if (past[n].length > HISTORY_MAX) past[n].shift();
  });
  history.set(sale.id, past);
}

function stockButtons(sale, sku) {
  const change = (field) => (n) => api('POST', `/v1/sales/${path(sale.id)}/stock`, {
    body: { sku: sku.sku, [field]: n }, more: { 'idempotency-key': crypto.randomUUID() },
  });
  const title = `${sale.id}, ${sku.sku}`;
  return [
    verb('doAdd', title, change('add'), { field: t('units') }),
    verb('doWithdraw', title, change('withdraw'), { field: t('units'), danger: true }),
  ];
}

function saleButtons(sale) {
  const post = (word) => () => api('POST', `/v1/sales/${path(sale.id)}/${word}`, { body: {} });
  const buttons = [h('button', { onclick: () => audit(sale.id) }, t('doAudit'))];
  if (sale.status === 'created') buttons.push(verb('doOpen', sale.id, post('open')));
  if (sale.orders && !sale.paused) buttons.push(verb('doPause', sale.id, post('pause'), { danger: true }));
  if (sale.orders && sale.paused) buttons.push(verb('doRebuild', sale.id, post('rebuild')));
  if (sale.status !== 'ended') buttons.push(verb('doRoom', sale.id, (n) => setRoom(sale.id, n), { field: t('perSecond') }));
  const room = rooms.get(sale.id);
  if (room?.order === 'draw' && room.entry_closed_us === undefined && room.beacon === undefined) {
    buttons.push(verb('doCloseEntry', sale.id, () => steer(sale.id, 'close-entry', {}), { danger: true, preview: t('closeEntrySays') }));
  } else if (room?.order === 'draw' && room.beacon === undefined) {
    const draw = (beacon) => steer(sale.id, 'draw', { beacon });
    buttons.push(verb('doDraw', sale.id, draw, { field: t('beacon'), text: true, preview: `${number(room.entrants)} ${t('takePart')}. ${t('drawSays')}` }));
  }
  if (room) {
    const close = () => api('DELETE', `/v1/sales/${path(sale.id)}/room`);
    buttons.push(verb('doCloseRoom', sale.id, close, { danger: true }));
  }
  if (sale.status !== 'ended') buttons.push(verb('doEnd', sale.id, post('end'), { danger: true }));
  return buttons;
}

/** The waiting rooms; null for a sale that is over and has none. */
const rooms = new Map();

/** Looks at them once a second while somebody looks on. */
async function lookAtRooms() {
  for (; ;) {
    for (const { id, status } of latest?.sales ?? []) {
      // Of a sale that is over only whether there is still a room to be closed, once.
      if (document.hidden || (status === 'ended' && rooms.get(id) === null)) continue;
      const base = `/v1/sales/${path(id)}`;
      try {
        const { waiting_room: hasRoom } = await api('GET', base);
        if (hasRoom) rooms.set(id, await api('GET', `${base}/room`));
        else if (status === 'ended') rooms.set(id, null);
        else rooms.delete(id);
      } catch { /* the lamp says that nobody answers */ }
    }
    show();
    await pause(1000);
  }
}

/** So many let in per second, and else as the room is. */
function setRoom(id, n) {
  const { order, pass_ms, from_us } = rooms.get(id) ?? {};
  const from_ms = from_us && Math.floor(from_us / 1000);
  return api('PUT', `/v1/sales/${path(id)}/room`, { body: { rate: { n, per_ms: 1000 }, order, pass_ms, from_ms } });
}

/** Does something with a room, and shows at once what became of it. */
async function steer(id, what, body) {
  rooms.set(id, await api('POST', `/v1/sales/${path(id)}/room/${what}`, { body }));
  show();
}

/** How a room lets people in, from one in a second to 10,000: each step is the same factor. */
const RATES = [...[1, 10, 100, 1000].flatMap((ten) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((n) => Math.ceil(n * ten))), 10000]
  .filter((n, at, all) => n !== all[at - 1]);

/** A slider for the rate of a room. What it is let go at holds at once. */
function rateSlider(id) {
  const shown = h('output');
  const input = h('input', { type: 'range', min: '0', max: String(RATES.length - 1), step: '1', 'aria-label': `${t('rate')}: ${id}` });
  const say_ = () => {
    say(shown, `${number(RATES[input.value])} ${t('perSecond')}`);
    input.setAttribute('aria-valuetext', shown.textContent);
  };
  input.addEventListener('input', () => { input.dataset.held = 'yes'; say_(); });
  input.addEventListener('change', async () => {
    await carryOut(async () => {
      const room = await setRoom(id, RATES[input.value]);
      if (rooms.get(id)) rooms.set(id, room);
    });
    delete input.dataset.held;
    show();
  });
  const update = ({ rate: { n, per_ms } }) => {
    // Whoever holds it is not to have it moved.
    if (input.dataset.held) return;
    const nearest = RATES.findLastIndex((of) => of <= n * 1000 / per_ms);
    input.value = String(Math.max(nearest, 0));
    say(shown, '');
  };
  return { element: h('label', { class: 'row rate' }, t('rate'), input, shown), update };
}

// ── Incidents: what this page has seen go amiss ──────────────────────────────────────────────────────────────────────

const incidents = new Map(); // sale → [{ at, text }]
const before = new Map(); // sale → { paused, generation, audit }
const INCIDENTS_MAX = 50;

/** Compares a sale with how it stood; the words are chosen when they are shown. */
function note(sale) {
  const now = { paused: sale.paused ?? null, generation: sale.generation, audit: audits.get(sale.id)?.ok ?? null };
  const old = before.get(sale.id) ?? { paused: null, generation: now.generation, audit: null };
  before.set(sale.id, now);
  const add = (word, more = '') => {
    incidents.set(sale.id, [{ at: Date.now() / 1000, word, more }, ...(incidents.get(sale.id) ?? [])].slice(0, INCIDENTS_MAX));
  };
  if (now.paused && now.paused !== old.paused) add(`paused_${now.paused}`);
  if (now.generation !== old.generation) add('generation', ` ${now.generation}`);
  if (!now.paused && old.paused) add('goesOn');
  if (now.audit === false && old.audit !== false) add('auditFails');
}

function showIncidents(card, id) {
  const all = incidents.get(id) ?? [];
  card.incidents.hidden = !all.length;
  say(card.incidents.firstChild, `${t('incidents')}: ${all.length}`);
  const texts = all.map(({ at: when, word, more }) => `${clockTime(when)} ${t(word)}${more}`);
  const list = card.incidents.lastChild;
  if (list.children.length === texts.length && [...list.children].every((item, n) => item.textContent === texts[n])) return;
  list.replaceChildren(...texts.map((text) => h('li', {}, text)));
}

/** What the latest audit of each sale said, and when. */
const audits = new Map();
const AUDIT_PAUSE = 10000;

/** Audits every sale that is not over, again and again while somebody looks. A sale with many orders is audited less often. */
async function auditAll() {
  for (; ;) {
    const began = Date.now();
    for (const { id, status, seq } of latest?.sales ?? []) {
      // Nothing has happened since.
      if (document.hidden || (status !== 'open' && audits.get(id)?.seq === seq)) continue;
      try {
        const { ok } = await api('GET', `/v1/sales/${path(id)}/audit`);
        audits.set(id, { ok, at: Date.now() / 1000, seq });
      } catch { /* the lamp says since when */ }
      show();
    }
    await pause(latest ? Math.max(AUDIT_PAUSE, 20 * (Date.now() - began)) : 200);
  }
}

function showAudit(element, { id, seq }) {
  const said = audits.get(id);
  element.hidden = !said;
  if (!said) return;
  const isOld = said.seq !== seq && Date.now() / 1000 - said.at > 60;
  element.className = `check ${isOld ? '' : said.ok ? 'on' : 'off'}`;
  say(element, `${t(isOld ? 'auditAway' : said.ok ? 'auditOn' : 'auditOff')} ${clockTime(said.at)}`);
}

/** Saves an audit as a file, with the sale as it stood. */
function download(id, audit) {
  const sale = latest?.sales.find((of) => of.id === id);
  const text = JSON.stringify({ sale, audit, at: new Date().toISOString() }, null, 2);
  const link = h('a', { href: URL.createObjectURL(new Blob([text], { type: 'application/json' })), download: `audit-${id}.json` });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function audit(id) {
  try {
    const { ok, checks } = await api('GET', `/v1/sales/${path(id)}/audit`);
    audits.set(id, { ok, at: Date.now() / 1000, seq: latest?.sales.find((of) => of.id === id)?.seq });
    show();
    const row = (check) => h('tr', {}, h('td', { class: check.ok ? '' : 'bad' }, check.ok ? '✓' : '✗'),
      h('td', { class: 'wide' }, check.claim), h('td', { class: 'wide' }, check.figures));
    display(`${t('doAudit')}: ${id}`, h('p', { class: ok ? '' : 'bad' }, t(ok ? 'auditHolds' : 'auditFails')),
      h('div', { class: 'scroll' }, h('table', {}, checks.map(row))),
      h('button', { type: 'button', onclick: () => download(id, { ok, checks }) }, t('download')));
  } catch (error) {
    tell(error.message);
  }
}

/** What a card is made of; if that changes it is made anew, and otherwise only its figures are. */
const shape = (sale) => JSON.stringify([document.documentElement.lang, sale.status, sale.orders, sale.paused,
  [rooms.get(sale.id)].map((room) => room && [room.order, room.entrants, room.beacon]),
  sale.skus.map((sku) => sku.sku)]);

function makeCard(sale) {
  const skus = sale.skus.map((sku) => {
    const bar = h('div', { class: 'bar', role: 'img' }, PLACES.map((place) => h('div', { class: place })));
    const values = PLACES.map(() => h('b'));
    const total = h('span', { class: 'soft' });
    const figures = h('div', { class: 'figures' },
      PLACES.map((place, n) => h('span', {}, h('i', { class: place }), values[n], ' ', t(place))), total);
    return { bar, values, total, element: h('div', {}, h('div', { class: 'row' }, h('h3', {}, sku.sku), stockButtons(sale, sku)), bar, figures) };
  });
  const clock = h('p', { class: 'soft' });
  // Before it opens there is nothing to draw.
  const chart = h('div', { class: 'chart', hidden: sale.status === 'created' });
  const state = sale.paused ? 'stopped' : sale.status;
  const rate = rooms.get(sale.id) && sale.status !== 'ended' ? rateSlider(sale.id) : null;
  const log = h('details', { class: 'incidents', hidden: true }, h('summary'), h('ul'));
  const check = h('span', { class: 'check', role: 'status', hidden: true });
  const attempts = makeAttempts(sale.id);
  const element = h('article', { class: 'card' },
    h('div', { class: 'row' }, h('h2', {}, sale.id), check, h('span', { class: `tag ${state}` }, t(state)),
      h('a', { href: `/shop/${path(sale.id)}` }, t('shop')), saleButtons(sale)),
    skus.map((sku) => sku.element), clock, rate?.element, log, chart, attempts.element);
  return { shape: shape(sale), element, skus, clock, chart, check, rate, attempts, incidents: log, plot: null };
}

function updateCard(card, sale) {
  sale.skus.forEach((sku, n) => {
    const { bar, values, total } = card.skus[n];
    PLACES.forEach((place, m) => {
      bar.children[m].style.width = `${100 * sku[place] / sku.total}%`;
      say(values[m], number(sku[place]));
    });
    bar.setAttribute('aria-label', PLACES.map((place) => `${sku[place]} ${t(place)}`).join(', '));
    say(total, `${t('of')} ${number(sku.total)}`);
  });
  const left = (us) => spoken(us - sale.now_us);
  const lines = [];
  if (sale.opens_at_us > sale.now_us) lines.push(`${t('opensIn')} ${left(sale.opens_at_us)}`);
  if (sale.next_give_back_us > sale.now_us) lines.push(`${t('giveBackIn')} ${left(sale.next_give_back_us)}`);
  const room = rooms.get(sale.id);
  if (room) {
    const rate = `${number(room.rate.n)} / ${spoken(room.rate.per_ms * 1000)}`;
    lines.push(`${number(room.joined)} ${t('joined')}, ${number(room.served)} ${t('served')}, ${rate}`);
    if (room.entrants !== undefined) lines.push(`${number(room.entrants)} ${t('takePart')}`);
    if (room.order === 'draw') lines.push(room.beacon === undefined ? `${t('commitment')} ${room.commitment.slice(0, 16)}…` : `${t('drawnBy')} ${room.beacon}`);
    card.rate?.update(room);
  }
  if (sale.generation > 1) lines.push(`${t('generation')} ${sale.generation}`);
  say(card.clock, lines.join(' · '));
  showAudit(card.check, sale);
  showIncidents(card, sale.id);
  card.plot = draw(card.plot, card.chart, history.get(sale.id), UNITS);
  card.attempts.update(sale, latest.attempts.find((of) => of.sale === sale.id), latest.queues.find((queue) => queue.name === sale.orders));
}

/** Where the units of a sale are, over time. */
const UNITS = ['confirmed', 'held', 'free'].map((place) => ({ word: place, name: place }));

function showSales(sales) {
  const section = at('sales');
  const wanted = sales.map((sale) => {
    let card = cards.get(sale.id);
    if (!card || card.shape !== shape(sale)) {
      const old = card?.element;
      card = makeCard(sale);
      cards.set(sale.id, card);
      old?.replaceWith(card.element);
    }
    return card.element;
  });
  for (const id of [...cards.keys()]) if (!sales.some((sale) => sale.id === id)) cards.delete(id);
  arrange(section, wanted, 'noSales');
  for (const sale of sales) updateCard(cards.get(sale.id), sale);
}

/** Puts elements in order, and moves only those that are elsewhere: focus stays where it is. */
function arrange(parent, wanted, none) {
  const elements = wanted.length ? wanted : [h('p', { class: 'soft' }, t(none))];
  elements.forEach((element, n) => {
    if (parent.children[n] !== element) parent.insertBefore(element, parent.children[n] ?? null);
  });
  while (parent.children.length > elements.length) parent.lastChild.remove();
}

// ── Tables: rows that stay while their key does ─────────────────────────────────────────────────────────────────────

function table(heads) {
  const body = h('tbody');
  const rows = new Map();
  const element = h('div', { class: 'card scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, heads.map(([word, right]) => h('th', { class: right ? 'n' : '' }, word ? t(word) : '')))), body));
  const fill = (items, keyOf, cells, buttons) => {
    const wanted = items.map((item) => {
      const key = keyOf(item);
      let row = rows.get(key);
      if (!row) {
        row = h('tr', {}, cells(item).map((_, n) => h('td', { class: heads[n][1] ? 'n' : '' })), h('td', {}, h('div', { class: 'row' }, buttons(item))));
        rows.set(key, row);
      }
      cells(item).forEach((text, n) => say(row.children[n], String(text)));
      return row;
    });
    for (const [key, row] of rows) if (!wanted.includes(row)) rows.delete(key);
    wanted.forEach((row, n) => { if (body.children[n] !== row) body.insertBefore(row, body.children[n] ?? null); });
    while (body.children.length > wanted.length) body.lastChild.remove();
  };
  return { element, fill };
}

// ── Queues and tasks ────────────────────────────────────────────────────────────────────────────────────────────────

let queueTable = null;
let wanted = ''; // what is searched for in the queue that is shown
const SEARCHED_MAX = 10000;
const SHOWN_MAX = 200;

/** Says how many an action is about, and names the first. */
const previewOf = (ids) => `${number(ids.length)}: ${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`;

/** Does something for each, a few at a time. */
async function forEach(ids, work) {
  const left = [...ids];
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (left.length) await work(left.shift());
  }));
}

async function inBatches(ids, work) {
  for (let n = 0; n < ids.length; n += 1000) await work(ids.slice(n, n + 1000));
}

function showQueues(queues) {
  if (opened) return;
  const section = at('queues');
  if (!queues.length) {
    queueTable = null;
    arrange(section, [], 'noQueues');
    return;
  }
  queueTable ??= table([['name'], ['ready', true], ['scheduled', true], ['leased', true], ['blocked', true], ['dead', true], ['oldest', true], ['state'], ['']]);
  arrange(section, [queueTable.element]);
  queueTable.fill(queues, (queue) => `${queue.name} ${queue.paused}`,
    (queue) => [queue.name, number(queue.ready), number(queue.scheduled), number(queue.leased), number(queue.blocked), number(queue.dead),
      queue.ready ? spoken(queue.oldest_due_us) : '–', queue.paused ? t('paused') : ''],
    (queue) => [
      h('button', { onclick: () => openQueue(queue.name) }, t('tasks')),
      queue.paused
        ? verb('resume', queue.name, () => api('POST', `/v1/queues/${path(queue.name)}/resume`, { body: {} }))
        : verb('pause', queue.name, () => api('POST', `/v1/queues/${path(queue.name)}/pause`, { body: {} })),
    ]);
}

async function openQueue(name) {
  opened = name;
  const base = `/v1/queues/${path(name)}`;
  try {
    const [tasks, dead] = await Promise.all([
      api('GET', `${base}/tasks?limit=${SEARCHED_MAX}`), api('GET', `${base}/dead?limit=${SEARCHED_MAX}`),
    ]);
    if (opened !== name) return;
    const matches = ({ id }) => id.includes(wanted);
    const found = tasks.items.filter(matches);
    const foundDead = dead.items.filter(matches);
    const [ids, deadIds] = [found, foundDead].map((of) => of.map(({ id }) => id));
    const live = table([['name'], ['state'], ['tried', true], ['worker'], ['']]);
    live.fill(found.slice(0, SHOWN_MAX), (task) => task.id,
      (task) => [task.id, t(task.state), `${task.attempt}/${task.max_attempts}`, task.worker ?? '–'],
      (task) => [
        h('button', { onclick: () => showTask(base, task) }, t('show')),
        verb('cancel', task.id, () => act(name, () => api('DELETE', `${base}/tasks/${path(task.id)}`)), { danger: true }),
      ]);
    const letters = table([['name'], ['tried', true], ['error'], ['']]);
    letters.fill(foundDead.slice(0, SHOWN_MAX), (letter) => letter.id,
      (letter) => [letter.id, `${letter.attempts}/${letter.max_attempts}`, letter.error],
      (letter) => [verb('retry', letter.id, () => act(name, () => api('POST', `${base}/dead/retry`, { body: { ids: [letter.id] } })))]);
    // Those that the list shows, which is as old as its loading: what came since stays as it is.
    const letters_ = (word) => () => act(name, () => inBatches(deadIds, (some) => api('POST', `${base}/dead/${word}`, { body: { ids: some } })));
    const gone = (error) => { if (!(error instanceof Problem && error.code === 'not_found')) throw error; };
    const cancel = () => act(name, () => forEach(ids, (id) => api('DELETE', `${base}/tasks/${path(id)}`).catch(gone)));
    const search = h('input', { id: 'search', type: 'search', value: wanted, placeholder: t('search'), 'aria-label': t('search') });
    search.addEventListener('change', async () => { wanted = search.value; await openQueue(name); at('search').focus(); });
    const count = (of, all) => h('span', { class: 'soft' }, `${number(of.length)} ${t('of')} ${number(all.items.length)}${all.next ? '+' : ''}`);
    at('queues').replaceChildren(
      h('div', { class: 'row' }, h('button', { id: 'back', onclick: leaveQueue }, t('back')), h('h2', {}, name), search),
      h('div', { class: 'row' }, h('h3', {}, t('tasks')), count(found, tasks),
        found.length ? verb('cancelFound', name, cancel, { danger: true, preview: previewOf(ids) }) : null),
      live.element,
      h('div', { class: 'row' }, h('h3', {}, t('deadLetters')), count(foundDead, dead),
        foundDead.length ? [verb('retryAll', name, letters_('retry'), { preview: previewOf(deadIds) }),
          verb('deleteAll', name, letters_('delete'), { danger: true, preview: previewOf(deadIds) })] : null),
      letters.element);
    at('back').focus();
  } catch (error) {
    opened = null;
    tell(error.message);
  }
}

async function act(queue, work) {
  await work();
  if (opened === queue) await openQueue(queue);
}

function leaveQueue() {
  opened = null;
  wanted = '';
  queueTable = null;
  at('queues').replaceChildren();
  if (latest) showQueues(latest.queues);
}

async function showTask(base, task) {
  try {
    const { reasons } = await api('GET', `${base}/tasks/${path(task.id)}/why`);
    const content = task.payload === undefined ? task.payload_base64 ?? '' : JSON.stringify(task.payload, null, 2);
    display(task.id, h('p', { class: 'soft' }, task.content_type), h('pre', {}, content),
      task.error ? h('p', { class: 'bad' }, task.error) : null,
      h('h3', {}, t('why')), h('pre', {}, reasons.map((reason) => JSON.stringify(reason, null, 2)).join('\n')));
  } catch (error) {
    tell(error.message);
  }
}

// ── Locks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

let lockTable = null;

function showLocks(locks, now) {
  const section = at('locks');
  if (!locks.length) {
    lockTable = null;
    arrange(section, [], 'noLocks');
    return;
  }
  lockTable ??= table([['name'], ['holder'], ['fence', true], ['leaseLeft', true], ['waiting', true], ['']]);
  arrange(section, [lockTable.element]);
  const who = ({ label, host, pid }) => label || `${host}:${pid}`;
  lockTable.fill(locks, (lock) => lock.name,
    (lock) => [lock.name, lock.holder ? who(lock.holder) : '–', lock.holder?.fence ?? '–',
      lock.holder ? spoken(lock.holder.lease_until_us - now) : '–', number(lock.waiters.length)],
    (lock) => [verb('breakLock', lock.name,
      () => api('POST', `/v1/locks/${path(lock.name)}/force-release`, { body: {} }), { danger: true })]);
}

// ── The whole ───────────────────────────────────────────────────────────────────────────────────────────────────────

function show() {
  if (!latest) return;
  showSales(latest.sales);
  showQueues(latest.queues);
  showLocks(latest.locks, latest.now_us);
}

function lamp(on) {
  at('lamp').classList.toggle('on', on);
  say(at('lamp'), t(on ? 'live' : 'away'));
}

function choose(tab) {
  for (const button of at('tabs').children) {
    const chosen = button.dataset.tab === tab;
    button.setAttribute('aria-selected', chosen);
    button.tabIndex = chosen ? 0 : -1;
    at(button.dataset.tab).hidden = !chosen;
  }
  store('tab', tab);
  show();
}

at('tabs').addEventListener('click', ({ target }) => target.dataset.tab && choose(target.dataset.tab));
at('tabs').addEventListener('keydown', ({ key }) => {
  const tabs = [...at('tabs').children];
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  choose(next.dataset.tab);
  next.focus();
});
at('door').addEventListener('submit', (event) => {
  event.preventDefault();
  setBearer(at('bearer').value.trim());
  at('bearer').value = '';
  at('door').hidden = true;
});

function again() {
  cards.clear();
  at('sales').replaceChildren();
  lockTable = null;
  at('locks').replaceChildren();
  lamp(at('lamp').classList.contains('on'));
  opened ? openQueue(opened) : leaveQueue();
  show();
}

async function watch() {
  for (; ;) {
    try {
      for await (const snapshot of events('/v1/events')) {
        latest = snapshot;
        lamp(true);
        at('door').hidden = true;
        rememberAttempts(snapshot);
        for (const sale of snapshot.sales) { remember(sale, snapshot.now_us); note(sale); }
        show();
      }
    } catch (error) {
      if (error instanceof Problem && ['unauthorized', 'forbidden'].includes(error.code)) {
        if (at('door').hidden) { at('door').hidden = false; at('bearer').focus(); }
      }
    }
    lamp(false);
    await pause(1000);
  }
}

speak(again);
lamp(false);
choose(recall('tab') ?? 'sales');
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
watch();
auditAll();
lookAtRooms();
