// The sales screen: one card per sale with stock, order delivery, waiting room, audits and incidents.
import { api, at, h, number, path, pause, randomId, relative, say, spoken, standing, t } from '/page/common.js';
import { makeAttempts, rememberAttempts } from '/page/attempts.js';
import { clockTime, draw } from '/page/chart.js';
import { carryOut, display, spell, tell, verb } from '/page/dialogs.js';
import { arrange, itemize } from '/page/lists.js';
import { latest } from '/page/snapshot.js';

const history = new Map(); // sale → [seconds[], confirmed[], held[], free[]]
const HISTORY_MAX = 900;

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

/** Records a snapshot for the charts. */
export function rememberSales(snapshot) {
  rememberAttempts(snapshot);
  for (const sale of snapshot.sales) { remember(sale, snapshot.now_us); note(sale); }
}

/** The status of a sale, as a word. */
const state = (sale) => (sale.halted ? 'stopped' : standing(sale, sale.now_us));
const isOver = (sale) => ['over', 'ended'].includes(standing(sale, sale.now_us));

function stockButtons(sale, sku) {
  if (isOver(sale) || sale.halted) return [];
  const change = (field) => (n) => api('POST', `/v1/sales/${path(sale.id)}/stock`, {
    body: { sku: sku.sku, [field]: n }, more: { 'idempotency-key': randomId() },
  });
  const title = `${sale.id}, ${sku.sku}`;
  return [
    verb('doAdd', title, change('add'), { field: t('units') }),
    sku.free > 0 && verb('doWithdraw', title, change('withdraw'), { field: t('units'), danger: true }),
  ];
}

function saleButtons(sale) {
  const post = (word) => () => api('POST', `/v1/sales/${path(sale.id)}/${word}`, { body: {} });
  const buttons = [h('button', { onclick: () => audit(sale.id) }, t('doAudit'))];
  if (sale.status === 'created') buttons.push(verb('doOpen', sale.id, post('open')));
  if (sale.ledger && !sale.halted && sale.status !== 'ended') buttons.push(verb('doHalt', sale.id, post('halt'), { danger: true }));
  if (sale.ledger && sale.halted) buttons.push(verb('doRebuild', sale.id, post('rebuild')));
  if (sale.orders?.failed) buttons.push(verb('doRetry', sale.id, post('orders/retry')));
  if (!isOver(sale)) buttons.push(roomButton(sale.id));
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

// ── Waiting rooms ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Opens a waiting room, or changes its admission rate. The order is fixed when the room opens. */
const roomButton = (id) => verb('doRoom', id, (n, isDrawn) => setRoom(id, n, isDrawn ? { order: 'draw' } : rooms.get(id)),
  { field: t('perSecond'), choice: rooms.get(id) ? null : t('byDraw') });

/** The waiting room of each sale; null for an ended sale without one. */
const rooms = new Map();

/** Refreshes the waiting rooms once a second while the page is visible. */
export async function lookAtRooms() {
  for (; ;) {
    for (const { id, status } of latest?.sales ?? []) {
      // An ended sale is checked once, for a room that is still open.
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

/** Sets the admission rate to `n` per second and keeps the other rules. */
function setRoom(id, n, room) {
  const { order, pass_ms, from_us } = room ?? {};
  return api('PUT', `/v1/sales/${path(id)}/room`, { body: { rate: { n, per_ms: 1000 }, order, pass_ms, from_us } });
}

/** Sends a command to a waiting room and shows its new state at once. */
async function steer(id, what, body) {
  rooms.set(id, await api('POST', `/v1/sales/${path(id)}/room/${what}`, { body }));
  show();
}

/** Admission rates of the slider, from 1 to 10,000 per second, in even logarithmic steps. */
const RATES = [...[1, 10, 100, 1000].flatMap((ten) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((n) => Math.ceil(n * ten))), 10000]
  .filter((n, at, all) => n !== all[at - 1]);

/** A slider for the admission rate. The rate applies when the slider is released. */
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
    // Do not move the slider while the operator drags it.
    if (input.dataset.held) return;
    const nearest = RATES.findLastIndex((of) => of <= n * 1000 / per_ms);
    input.value = String(Math.max(nearest, 0));
    say(shown, '');
  };
  return { element: h('label', { class: 'row rate' }, t('rate'), input, shown), update };
}

// ── Order delivery ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Orders that the ledger could not record, for each sale that has any. */
const failed = new Map();
const FAILED_MAX = 20;

/** Loads the first of them once a second while the page is visible. */
export async function lookAtFailedOrders() {
  for (; ;) {
    for (const { id, orders } of latest?.sales ?? []) {
      if (!orders?.failed) { failed.delete(id); continue; }
      if (document.hidden) continue;
      try {
        const { items } = await api('GET', `/v1/sales/${path(id)}/orders/failed?limit=${FAILED_MAX}`, { cache: 'no-cache' });
        failed.set(id, items);
        show();
      } catch { /* the lamp says that nobody answers */ }
    }
    await pause(1000);
  }
}

/** Shows how far the ledger is behind, and what it could not record. */
function showDelivery({ lag, failures }, { id, orders, seq, now_us: now }) {
  lag.hidden = !orders;
  failures.hidden = !orders?.failed;
  if (!orders) return;
  const { through, behind_since_us: since } = orders;
  say(lag, since === undefined ? t('noLag') : `${t('ledgerLag')} ${spoken(now - since)}, ${number(seq - through)} ${t('eventsBehind')}`);
  say(failures.firstChild, `${t('failedOrders')}: ${number(orders.failed)}`);
  const texts = (failed.get(id) ?? []).map((entry) => t('failedOrder', entry.seq, entry.reason, number(entry.attempts), relative(entry.retry_at_us, now)));
  itemize(failures.lastChild, texts);
}

// ── Incidents that this page has seen ────────────────────────────────────────────────────────────────────────────────

const incidents = new Map(); // sale → [{ at, text }]
const before = new Map(); // sale → { halted, generation, audit }
const INCIDENTS_MAX = 50;

/** Records an incident when the status of a sale changes. Texts are chosen when shown, in the language of that moment. */
function note(sale) {
  const now = { halted: sale.halted?.reason ?? null, generation: sale.generation, audit: audits.get(sale.id)?.ok ?? null };
  const old = before.get(sale.id) ?? { halted: null, generation: now.generation, audit: null };
  before.set(sale.id, now);
  const add = (word, more = '') => {
    incidents.set(sale.id, [{ at: Date.now() / 1000, word, more }, ...(incidents.get(sale.id) ?? [])].slice(0, INCIDENTS_MAX));
  };
  if (now.halted && now.halted !== old.halted) add(`halted_${now.halted}`);
  if (now.generation !== old.generation) add('generation', ` ${now.generation}`);
  if (!now.halted && old.halted) add('goesOn');
  if (now.audit === false && old.audit !== false) add('auditFails');
}

function showIncidents(card, id) {
  const all = incidents.get(id) ?? [];
  card.incidents.hidden = !all.length;
  say(card.incidents.firstChild, `${t('incidents')}: ${all.length}`);
  const texts = all.map(({ at: when, word, more }) => `${clockTime(when)} ${t(word)}${more}`);
  itemize(card.incidents.lastChild, texts);
}

// ── Audits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The latest audit of each sale and its time. */
const audits = new Map();
const AUDIT_PAUSE = 10000;

/** Audits open sales repeatedly while the page is visible. The pause grows with the duration of the audits. */
export async function auditAll() {
  for (; ;) {
    const began = Date.now();
    for (const { id, status, seq } of latest?.sales ?? []) {
      // The sale has not changed since its last audit.
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

/** Saves an audit as a file, with the state of the sale. */
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

// ── Cards ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The structure of a card. When it changes the card is rebuilt; otherwise only its figures are updated. */
const shape = (sale) => JSON.stringify([document.documentElement.lang, state(sale), sale.ledger, !sale.orders?.failed, sale.halted?.reason,
  [rooms.get(sale.id)].map((room) => room && [room.order, room.entrants, room.beacon]),
  sale.skus.map((sku) => [sku.sku, sku.free > 0])]);

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
  // A sale that has not been opened has no history.
  const chart = h('div', { class: 'chart', hidden: sale.status === 'created' });
  const rate = rooms.get(sale.id) && !isOver(sale) ? rateSlider(sale.id) : null;
  const log = h('details', { class: 'incidents', hidden: true }, h('summary'), h('ul'));
  const check = h('span', { class: 'check', role: 'status', hidden: true });
  const delivery = { lag: h('p', { class: 'soft lag' }), failures: h('details', { class: 'failures', hidden: true }, h('summary'), h('ul')) };
  const attempts = makeAttempts(sale.id);
  const element = h('article', { class: 'card' },
    h('div', { class: 'row' }, h('h2', {}, sale.id), check, h('span', { class: `tag ${state(sale)}` }, t(state(sale))),
      h('a', { href: `/shop/${path(sale.id)}` }, t('shop')), saleButtons(sale)),
    skus.map((sku) => sku.element), clock, delivery.lag, delivery.failures, rate?.element, log, chart, attempts.element);
  return { shape: shape(sale), element, skus, clock, delivery, chart, check, rate, attempts, incidents: log, plot: null };
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
  if (sale.next_expiry_us > sale.now_us) lines.push(`${t('nextExpiryIn')} ${left(sale.next_expiry_us)}`);
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
  showDelivery(card.delivery, sale);
  showAudit(card.check, sale);
  showIncidents(card, sale.id);
  card.plot = draw(card.plot, card.chart, history.get(sale.id), UNITS);
  card.attempts.update(sale, latest.attempts.find((of) => of.sale === sale.id));
}

/** The lines of the stock chart. */
const UNITS = ['confirmed', 'held', 'free'].map((place) => ({ word: place, name: place }));

export function showSales(sales) {
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

/** Shows changes that this page has learned of since the snapshot. */
function show() {
  if (latest) showSales(latest.sales);
}

/** Clears the screen; the next snapshot rebuilds it. */
export function remakeSales() {
  cards.clear();
  at('sales').replaceChildren();
}
