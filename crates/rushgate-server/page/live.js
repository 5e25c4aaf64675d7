// The operator's page: sales, queues and locks as they stand, and what can be done about them.
import {
  Problem, api, bearer, events, h, moment, number, path, pause, recall, relative, say, setBearer, speak, spoken, store, t,
} from '/page/common.js';
import { makeAttempts, rememberAttempts } from '/page/attempts.js';
import { clockTime, draw } from '/page/chart.js';

const at = (id) => document.getElementById(id);
let latest = null;
let cameAt = 0; // when that was
/** The server's clock, as far as it can be known here. */
const serverNow = () => latest.now_us + Math.round((performance.now() - cameAt) * 1000);
const history = new Map(); // sale → [seconds[], confirmed[], held[], free[]]
const HISTORY_MAX = 900;

// ── Asking and telling ──────────────────────────────────────────────────────────────────────────────────────────────

let saying;
function tell(text) {
  say(at('said'), text);
  clearTimeout(saying);
  saying = setTimeout(() => say(at('said'), ''), 6000);
}

/** Asks whoever looks; gives the value that was typed and whether the choice was taken, or nothing. */
function ask(title, { field, danger, text, preview, choice } = {}) {
  const dialog = at('ask');
  const input = field && (text ? h('input', { type: 'text', maxlength: '256', required: true, class: 'wide' })
    : h('input', { type: 'number', min: '1', value: '1', required: true }));
  const box = h('input', { type: 'checkbox' });
  const form = h('form', { method: 'dialog' },
    h('h2', { id: 'ask-title' }, title),
    preview ? h('p', { class: 'preview' }, preview) : null,
    field ? h('label', {}, field, ' ', input) : h('p', {}, t('sure')),
    choice ? h('label', {}, box, ' ', choice) : null,
    h('div', { class: 'row' },
      h('button', { value: 'no', formnovalidate: true }, t('no')),
      h('button', { value: 'yes', class: danger ? 'danger' : '' }, t('yes'))));
  dialog.replaceChildren(form);
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    const value = () => input && (text ? input.value : Number(input.value));
    dialog.onclose = () => resolve(dialog.returnValue === 'yes' ? { value: value(), chosen: box.checked } : null);
  });
}

function display(title, ...content) {
  const dialog = at('ask');
  dialog.replaceChildren(h('form', { method: 'dialog' }, h('h2', { id: 'ask-title' }, title), ...content,
    h('div', { class: 'row' }, h('button', { autofocus: true }, t('close')))));
  dialog.showModal();
}

/** What went amiss, in words. */
const spell = (error) => (error instanceof Problem ? error.message : t('away'));

async function carryOut(work) {
  try {
    await work();
    tell(t('carriedOut'));
  } catch (error) {
    tell(spell(error));
  }
}

/** A button that asks first. */
function verb(word, title, work, options = {}) {
  return h('button', {
    class: options.danger ? 'danger' : '',
    onclick: async () => {
      const answer = await ask(`${t(word)}: ${title}`, options);
      if (answer) await carryOut(() => work(answer.value, answer.chosen));
    },
  }, t(word));
}

let detail = null; // brings what the detail shows along

/** Shows something in full; what it shows is brought along as long as it is open. */
function openDetail(title, content, update) {
  const dialog = at('detail');
  let isBusy = false;
  dialog.replaceChildren(h('form', { method: 'dialog' }, h('h2', { id: 'detail-title' }, title), content,
    h('div', { class: 'row' }, h('button', { autofocus: true }, t('close')))));
  const own = async () => {
    if (isBusy) return;
    isBusy = true;
    try { await update(); } catch (error) { if (error instanceof Problem) tell(error.message); }
    isBusy = false;
  };
  dialog.onclose = () => { if (detail === own) detail = null; };
  detail = own;
  dialog.showModal();
  own();
}

/** Brings the items of a list along. */
function itemize(list, texts) {
  texts.forEach((text, n) => say(list.children[n] ?? list.appendChild(h('li')), text));
  while (list.children.length > texts.length) list.lastChild.remove();
}

/** Brings a list of facts along: those that there are, each with its name. */
function tellFacts(list, facts) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== '');
  known.forEach(([word, value], n) => {
    const { firstChild, lastChild } = list.children[n] ?? list.appendChild(h('div', {}, h('dt'), h('dd')));
    say(firstChild, t(word));
    say(lastChild, String(value));
  });
  while (list.children.length > known.length) list.lastChild.remove();
}

const timed = (us, now) => us && `${moment(us)} (${relative(us, now)})`;

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
  if (sale.status !== 'ended') buttons.push(roomButton(sale.id));
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

/** Opens a waiting room, or lets in so many from now on. Its order is settled when it is opened. */
const roomButton = (id) => verb('doRoom', id, (n, isDrawn) => setRoom(id, n, isDrawn ? { order: 'draw' } : rooms.get(id)),
  { field: t('perSecond'), choice: rooms.get(id) ? null : t('byDraw') });

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
function setRoom(id, n, room) {
  const { order, pass_ms, from_us } = room ?? {};
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
      const room = await setRoom(id, RATES[input.value], rooms.get(id));
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
  itemize(card.incidents.lastChild, texts);
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
    tell(spell(error));
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

/** Puts other buttons in place; whoever was at one is at its successor. */
function exchange(place, buttons) {
  const focused = [...place.children].indexOf(document.activeElement);
  place.replaceChildren(...buttons.filter(Boolean));
  place.children[focused]?.focus();
}

/** The last head is that of the buttons, which are made anew when the shape of a row is another one. */
function table(heads) {
  const body = h('tbody');
  const rows = new Map();
  const element = h('div', { class: 'card scroll' }, h('table', { class: 'stack' },
    h('thead', {}, h('tr', {}, heads.map(([word, right]) => h('th', { class: right ? 'n' : '', scope: 'col' }, word ? t(word) : '')))), body));
  const makeRow = () => h('tr', {},
    heads.slice(0, -1).map(([word, right]) => h('td', { class: right ? 'n' : '', 'data-label': t(word) })),
    h('td', { class: 'verbs' }, h('div', { class: 'row' })));
  const fill = (items, keyOf, cells, buttons, shapeOf = () => '') => {
    const focused = [...body.children].findIndex((row) => row.contains(document.activeElement));
    const wanted = items.map((item) => {
      const row = rows.get(keyOf(item)) ?? makeRow();
      rows.set(keyOf(item), row);
      cells(item).forEach((text, n) => say(row.children[n], String(text)));
      if (row.shape !== shapeOf(item)) exchange(row.lastChild.firstChild, buttons(item));
      row.shape = shapeOf(item);
      return row;
    });
    const kept = new Set(wanted);
    for (const [key, row] of rows) if (!kept.has(row)) rows.delete(key);
    wanted.forEach((row, n) => { if (body.children[n] !== row) body.insertBefore(row, body.children[n] ?? null); });
    while (body.children.length > wanted.length) body.lastChild.remove();
    // Whoever was at a row that is gone is at the one in its place.
    if (focused >= 0 && !body.contains(document.activeElement)) body.children[Math.min(focused, wanted.length - 1)]?.querySelector('button')?.focus();
  };
  return { element, fill };
}

// ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────────────────

let queueTable = null;

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
  const post = (queue, word) => () => api('POST', `/v1/queues/${path(queue.name)}/${word}`, { body: {} });
  queueTable.fill(queues, (queue) => queue.name,
    (queue) => [queue.name, number(queue.ready), number(queue.scheduled), number(queue.leased), number(queue.blocked), number(queue.dead),
      queue.ready ? spoken(queue.oldest_due_us) : '–', t(queue.paused ? 'paused' : 'working')],
    (queue) => [
      h('button', { onclick: () => openQueue(queue.name) }, t('tasks')),
      queue.paused ? verb('resume', queue.name, post(queue, 'resume')) : verb('pause', queue.name, post(queue, 'pause')),
    ],
    (queue) => String(queue.paused));
}

// ── One queue: its tasks by state, its schedules and its workers ────────────────────────────────────────────────────

let opened = null; // { name, base, view, search, limit, … } of the queue that is looked at
const VIEWS = ['current', 'ready', 'scheduled', 'leased', 'blocked', 'done', 'dead', 'schedules', 'workers'];
const PAGE = 100;
const LIST_MAX = 10000;
const WORKERS_OF = 1000;

/** Just before every id that begins so: lists are in the order of the ids. */
function justBefore(prefix) {
  const letters = [...prefix];
  const last = letters.pop()?.codePointAt(0);
  // No text has what is between these two.
  return last ? `${letters.join('')}${String.fromCodePoint(last === 0xe000 ? 0xd7ff : last - 1)}\u{10ffff}` : '';
}

function listOf({ base, view, search }, limit) {
  const list = ['dead', 'schedules'].includes(view) ? view : 'tasks';
  const query = new URLSearchParams({ limit, after: justBefore(search) });
  if (list === 'tasks' && view !== 'current') query.set('state', view === 'workers' ? 'leased' : view);
  return `${base}/${list}?${query}`;
}

/** Does something in a queue, and shows at once what became of it. */
async function act(of, work) {
  await work();
  if (opened === of) await load(of);
}

const verbOf = (word, of, id, work, options) => verb(word, id, () => act(of, work), options);
const showButton = (of, id) => h('button', { onclick: () => showTask(of, id) }, t('show'));

/** What somebody else was faster with is done as well. */
const unlessGone = (error) => { if (!(error instanceof Problem && error.code === 'not_found')) throw error; };

const cancelTask = (of, id) => api('DELETE', `${of.base}/tasks/${path(id)}`);
const steerDead = (of, word) => (ids) => inBatches(ids, (some) => api('POST', `${of.base}/dead/${word}`, { body: { ids: some } }));
const steerSchedule = (of, id, word) => () => api('POST', `${of.base}/schedules/${path(id)}/${word}`, { body: {} });

function stateOf({ state: word, cancelled, progress }) {
  const percent = progress?.percent === undefined ? '' : ` ${progress.percent} %`;
  return `${t(word)}${percent}${cancelled ? `, ${t('toBeCancelled')}` : ''}`;
}

/** How each list is shown, and what can be done about what is in it. */
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
    buttons: (of, { id }) => [showButton(of, id), verbOf('retry', of, id, () => steerDead(of, 'retry')([id])),
      verbOf('remove', of, id, () => steerDead(of, 'delete')([id]), { danger: true })],
    bulk: (of) => [bulk('retryAll', of, steerDead(of, 'retry')), bulk('deleteAll', of, steerDead(of, 'delete'), { danger: true })],
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

/** Names the first of many. */
const someOf = (ids) => `${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`;

/** Who works, by the tasks that are under a lease. */
function workersOf(tasks) {
  const workers = new Map();
  for (const task of tasks) {
    if (!workers.has(task.worker)) workers.set(task.worker, []);
    workers.get(task.worker).push(task);
  }
  return [...workers.keys()].sort().map((id) => ({ id, tasks: workers.get(id) }));
}

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

async function idsFound(of) {
  try {
    const { items } = await api('GET', listOf(of, LIST_MAX));
    return items.map(({ id }) => id).filter((id) => id.startsWith(of.search));
  } catch (error) {
    tell(spell(error));
    return null;
  }
}

/** A verb for all that is found as it stands now: the question says how many those are. What comes later stays as it is. */
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

/** The screen of a queue; what is in the list comes later. */
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

/** Loads what is shown of a queue. The latest to be asked for is shown. */
async function load(of) {
  of.turn += 1;
  of.underWay += 1;
  const { turn } = of;
  const began = Date.now();
  try {
    // What the browser has is sent again only if it has changed.
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

/** How many there are of each state. */
function showCounts(of) {
  const queue = latest.queues.find(({ name }) => name === of.name);
  VIEWS.forEach((view, n) => say(of.views[n], queue?.[view] === undefined ? t(view) : `${t(view)} ${number(queue[view])}`));
}

/** Brings the queue that is looked at along. */
function showQueue(of) {
  showCounts(of);
  if (!document.hidden && !at('queues').hidden && !of.underWay && Date.now() >= of.restsUntil) load(of);
}

// ── One task ────────────────────────────────────────────────────────────────────────────────────────────────────────

const CONTENT_MAX = 20000;

/** A content as text: JSON, other text, or else base64. What is too long is cut. */
function textOf({ payload, payload_base64: base64 }) {
  const text = payload === undefined ? decoded(base64 ?? '') : JSON.stringify(payload, null, 2);
  return text.length <= CONTENT_MAX ? text : `${text.slice(0, CONTENT_MAX)} … ${t('cut', number(text.length))}`;
}

function decoded(base64) {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
  } catch {
    return base64;
  }
}

async function findLive({ base }, id) {
  try {
    return await api('GET', `${base}/tasks/${path(id)}`);
  } catch (error) {
    if (error instanceof Problem && ['not_found', 'dead'].includes(error.code)) return null;
    throw error;
  }
}

async function findDead({ base }, id) {
  const { items: [letter] } = await api('GET', `${base}/dead?${new URLSearchParams({ limit: 1, after: justBefore(id) })}`);
  return letter?.id === id ? { ...letter, state: 'dead', attempt: letter.attempts } : null;
}

const factsOf = (task, now) => [
  ['state', stateOf(task)],
  ['tried', `${task.attempt}/${task.max_attempts}`],
  ['due', timed(task.not_before_us ?? task.due_us, now)],
  ['deadline', timed(task.deadline_us, now)],
  ['worker', task.worker],
  ['leaseLeft', task.lease_until_us && spoken(task.lease_until_us - now)],
  ['progress', task.progress?.note],
  ['replacement', task.replaced ? t('waitsBehind') : null],
  ['error', task.error],
  ['key', task.key],
  ['priority', task.priority],
  ['kind', task.content_type],
  ['revision', task.revision],
];

/** What became of a task, one line for each run, and how it stands now. */
function timelineOf(task, now) {
  const runs = task.past.map(({ attempt, began_us: from, ended_us: to, how, worker, error }) =>
    `${moment(from)} · ${t('attempt', attempt)} · ${worker} · ${t('after', t(`run_${how}`), spoken(to - from))}${error ? `: ${error}` : ''}`);
  if (task.state === 'leased') runs.push(`${t('attempt', task.attempt)} · ${task.worker} · ${t('leased')}`);
  if (task.finished) runs.push(`${timed(task.finished.at_us, now)} · ${[task.worker, t(`end_${task.finished.how}`)].filter(Boolean).join(' · ')}`);
  if (task.state === 'dead') runs.push(`${timed(task.died_us, now)} · ${t('givenUp', task.attempts)}: ${task.error}`);
  return runs;
}

const runsOf = (running) => someOf(running.map(({ id, worker }) => `${id} (${worker})`));

/** Why a task does not run, in words. */
const WHY = {
  paused: () => [t('why_paused')],
  not_due: ({ wait_us: wait }) => [t('why_not_due', spoken(wait))],
  queue_busy: ({ concurrency, running }) => [t('why_queue_busy', number(concurrency), runsOf(running))],
  rate_limited: ({ key, wait_us: wait }) => [key === null ? t('why_rate', spoken(wait)) : t('why_key_rate', key, spoken(wait))],
  key_busy: ({ key, running }) => [t('why_key_busy', key, runsOf(running))],
  in_line: ({ key, first }) => [t('why_in_line', key, first ?? '–')],
  waits_for: ({ left, dead, first, open }) => [
    left && t('why_waits_for', number(left), number(dead), someOf(first.map(({ id }) => id))), open && t('why_open'),
  ],
  waiting: ({ ahead, leased, due_for_us: due, last_claim_us: last }) => [
    t('why_waiting', spoken(due), ahead === null ? `${number(1000)}+` : number(ahead), number(leased)),
    last === null ? t('why_no_claim') : t('why_last_claim', relative(last, serverNow())),
  ],
  deadline: ({ left_us: left }) => [t('why_deadline', spoken(left))],
  unique: ({ left_us: left }) => [t('why_unique', spoken(left))],
};

async function reasonsOf({ base }, { id, state: is }) {
  if (['leased', 'done', 'dead'].includes(is)) return [];
  const { reasons } = await api('GET', `${base}/tasks/${path(id)}/why`);
  return reasons.flatMap((of) => WHY[of.reason]?.(of) ?? []).filter(Boolean);
}

/** A part of a detail under its heading, hidden as long as there is nothing in it. */
const part = (word, element) => h('section', { hidden: true, id: `detail-${word}` }, h('h3', {}, t(word)), element);

function showTask(of, id) {
  const gone = h('p', { class: 'bad', hidden: true }, t('gone'));
  const facts = h('dl');
  const [why, timeline] = [part('why', h('ul')), part('timeline', h('ul'))];
  const [payload, result] = [part('payload', h('pre')), part('result', h('pre'))];
  const ways = of.view === 'dead' ? [findDead, findLive] : [findLive, findDead];
  const put = (element, isThere, work) => { element.hidden = !isThere; if (isThere) work(element.lastChild); };
  openDetail(id, h('div', {}, gone, facts, why, timeline, payload, result), async () => {
    const task = await ways[0](of, id) ?? await ways[1](of, id);
    gone.hidden = Boolean(task);
    if (!task) { why.hidden = true; return; }
    const reasons = await reasonsOf(of, task);
    const now = serverNow();
    const runs = timelineOf(task, now);
    tellFacts(facts, factsOf(task, now));
    put(why, reasons.length, (list) => itemize(list, reasons));
    put(timeline, runs.length, (list) => itemize(list, runs));
    put(payload, textOf(task), (place) => say(place, textOf(task)));
    put(result, task.finished?.result, (place) => say(place, textOf(task.finished.result)));
  });
}

// ── Locks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

let lockTable = null;

const who = ({ label, host, pid }) => label || `${host}:${pid}`;

function showLocks(locks, now) {
  const section = at('locks');
  if (!locks.length) {
    lockTable = null;
    arrange(section, [], 'noLocks');
    return;
  }
  lockTable ??= table([['name'], ['holder'], ['fence', true], ['leaseLeft', true], ['waiting', true], ['']]);
  arrange(section, [lockTable.element]);
  lockTable.fill(locks, (lock) => lock.name,
    (lock) => [lock.name, lock.holder ? who(lock.holder) : '–', lock.holder?.fence ?? '–',
      lock.holder ? spoken(lock.holder.lease_until_us - now) : '–', number(lock.waiters.length)],
    (lock) => [
      h('button', { onclick: () => showLock(lock.name) }, t('show')),
      verb('breakLock', lock.name, () => api('POST', `/v1/locks/${path(lock.name)}/force-release`, { body: {} }), { danger: true }),
    ]);
}

/** Who holds a lock, and the line before it. */
function showLock(name) {
  const facts = h('dl');
  const line = table([['position', true], ['waiter'], ['since', true], ['givesUp', true], ['']]);
  const section = part('line', line.element);
  openDetail(name, h('div', {}, facts, section), () => {
    const { holder, waiters } = latest.locks.find((lock) => lock.name === name) ?? { waiters: [] };
    const now = serverNow();
    tellFacts(facts, [
      ['holder', holder ? who(holder) : t('nobody')],
      ['process', holder && `${holder.host}:${holder.pid}`],
      ['fence', holder?.fence],
      ['since', timed(holder?.since_us, now)],
      ['leaseLeft', holder && spoken(holder.lease_until_us - now)],
      ['waiting', number(waiters.length)],
    ]);
    section.hidden = !waiters.length;
    line.fill(waiters, ({ position, since_us: since }) => `${position} ${since}`,
      (waiter) => [waiter.position, who(waiter), relative(waiter.since_us, now), relative(waiter.wait_until_us, now)], () => []);
  });
}

// ── The whole ───────────────────────────────────────────────────────────────────────────────────────────────────────

function show() {
  if (!latest) return;
  showSales(latest.sales);
  showQueues(latest.queues);
  showLocks(latest.locks, latest.now_us);
}

let refused = null; // the word for why nobody is let in, if that is so

function lamp(on) {
  at('lamp').classList.toggle('on', on);
  say(at('lamp'), t(on ? 'live' : refused ? 'shut' : 'away'));
  at('door').hidden = !refused;
  say(at('refused'), refused ? t(refused) : '');
}

/** Says why nobody is let in, and waits for another token. */
async function standOutside({ code }) {
  refused = code === 'forbidden' ? 'roleTooSmall' : bearer() ? 'badToken' : 'wantsToken';
  lamp(false);
  at('bearer').focus();
  await new Promise((resolve) => { at('door').onsubmit = (event) => { event.preventDefault(); resolve(); }; });
  setBearer(at('bearer').value.trim());
  at('bearer').value = '';
  refused = null;
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

function again() {
  cards.clear();
  at('sales').replaceChildren();
  lockTable = null;
  at('locks').replaceChildren();
  lamp(at('lamp').classList.contains('on'));
  opened ? makeQueue(opened) : leaveQueue();
  show();
}

async function watch() {
  for (; ;) {
    try {
      for await (const snapshot of events('/v1/events')) {
        latest = snapshot;
        cameAt = performance.now();
        lamp(true);
        rememberAttempts(snapshot);
        for (const sale of snapshot.sales) { remember(sale, snapshot.now_us); note(sale); }
        show();
        if (opened) showQueue(opened);
        detail?.();
      }
    } catch (error) {
      if (error instanceof Problem && ['unauthorized', 'forbidden'].includes(error.code)) { await standOutside(error); continue; }
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
