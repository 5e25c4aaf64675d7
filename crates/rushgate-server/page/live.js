// The operator's page: sales, queues and locks as they stand, and what can be done about them.
import { Problem, api, events, h, number, path, pause, recall, say, setBearer, speak, spoken, store, t } from '/page/common.js';

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
function ask(title, { field, danger } = {}) {
  const dialog = at('ask');
  const input = field && h('input', { type: 'number', min: '1', value: '1', required: true });
  const form = h('form', { method: 'dialog' },
    h('h2', { id: 'ask-title' }, title),
    field ? h('label', {}, field, ' ', input) : h('p', {}, t('sure')),
    h('div', { class: 'row' },
      h('button', { value: 'no', formnovalidate: true }, t('no')),
      h('button', { value: 'yes', class: danger ? 'danger' : '' }, t('yes'))));
  dialog.replaceChildren(form);
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === 'yes' ? (input ? Number(input.value) : true) : null);
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
  if (rooms.get(sale.id)) {
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
const shape = (sale) => JSON.stringify([document.documentElement.lang, sale.status, sale.orders, sale.paused, Boolean(rooms.get(sale.id)),
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
  const check = h('span', { class: 'check', role: 'status', hidden: true });
  const element = h('article', { class: 'card' },
    h('div', { class: 'row' }, h('h2', {}, sale.id), check, h('span', { class: `tag ${state}` }, t(state)),
      h('a', { href: `/shop/${path(sale.id)}` }, t('shop')), saleButtons(sale)),
    skus.map((sku) => sku.element), clock, chart);
  return { shape: shape(sale), element, skus, clock, chart, check, plot: null };
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
  }
  if (sale.generation > 1) lines.push(`${t('generation')} ${sale.generation}`);
  say(card.clock, lines.join(' · '));
  showAudit(card.check, sale);
  draw(card, history.get(sale.id));
}

const clockTime = (s) => new Date(s * 1000).toLocaleTimeString(document.documentElement.lang, { hour12: false });

function draw(card, data) {
  const width = card.chart.clientWidth;
  if (!width || !data || data[0].length < 2) return;
  if (card.plot) {
    if (card.plot.width !== width) card.plot.setSize({ width, height: 170 });
    card.plot.setData(data);
    return;
  }
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const axis = { stroke: color('soft'), grid: { stroke: color('line') }, ticks: { stroke: color('line') } };
  const time = { ...axis, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300], values: (_, moments) => moments.map(clockTime) };
  const series = (place) => ({ label: t(place), stroke: color(place), width: 2, points: { show: false } });
  card.plot = new uPlot({
    width, height: 170, axes: [time, axis], series: [{}, series('confirmed'), series('held'), series('free')],
    legend: { show: false }, cursor: { show: false }, scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
  }, data, card.chart);
}

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
      api('GET', `${base}/tasks?limit=200`), api('GET', `${base}/dead?limit=200`),
    ]);
    if (opened !== name) return;
    const live = table([['name'], ['state'], ['tried', true], ['worker'], ['']]);
    live.fill(tasks.items, (task) => task.id,
      (task) => [task.id, t(task.state), `${task.attempt}/${task.max_attempts}`, task.worker ?? '–'],
      (task) => [
        h('button', { onclick: () => showTask(base, task) }, t('show')),
        verb('cancel', task.id, () => act(name, () => api('DELETE', `${base}/tasks/${path(task.id)}`)), { danger: true }),
      ]);
    const letters = table([['name'], ['tried', true], ['error'], ['']]);
    letters.fill(dead.items, (letter) => letter.id,
      (letter) => [letter.id, `${letter.attempts}/${letter.max_attempts}`, letter.error],
      (letter) => [verb('retry', letter.id, () => act(name, () => api('POST', `${base}/dead/retry`, { body: { ids: [letter.id] } })))]);
    const all = (word) => () => act(name, () => api('POST', `${base}/dead/${word}`, { body: { all: true } }));
    at('queues').replaceChildren(
      h('div', { class: 'row' }, h('button', { id: 'back', onclick: leaveQueue }, t('back')), h('h2', {}, name)),
      h('h3', {}, t('tasks')), live.element,
      h('div', { class: 'row' }, h('h3', {}, t('deadLetters')),
        dead.items.length ? [verb('retryAll', name, all('retry')), verb('deleteAll', name, all('delete'), { danger: true })] : null),
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
        for (const sale of snapshot.sales) remember(sale, snapshot.now_us);
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
