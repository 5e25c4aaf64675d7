// State of the operator console: the latest snapshot, the connection, the history of each sale and queue, and audits.
import { computed, signal, useEffect } from '/page/vendor/preact.js';
import { Problem, api, bearer, events, path, pause, setBearer } from '/page/common.js';

/** The latest snapshot; null before the first. */
export const snapshot = signal(null);
let cameAt = 0;

/**
 * Whether snapshots arrive, since when they do or do not (milliseconds of this machine's clock), and whether they do not because
 * the server cannot read its store.
 */
export const connection = signal({ on: false, since: Date.now(), isStoreDown: false });

/** Why the token was refused, as the name of a text; null if it was not. */
export const refused = signal(null);

/** An estimate of the server's clock, in microseconds. It is updated every second, also while no snapshot arrives. */
export const now = signal(Date.now() * 1000);
const estimate = () => (snapshot.value ? snapshot.value.now_us + Math.round((performance.now() - cameAt) * 1000) : Date.now() * 1000);

/** Whether there are more sales, queues or locks than the snapshot has. */
export const isTruncated = (word) => snapshot.value.truncated.includes(word);

/** Sales, rooms and queues on the screen that the snapshot has no room for, by `kind/name`. */
export const others = signal(new Map());

export function setOthers(all) {
  if (!all.size && !others.value.size) return;
  others.value = all;
  othersOf('sale').forEach(note);
}

const othersOf = (kind) => [...others.value].filter(([key]) => key.startsWith(`${kind}/`)).map(([, one]) => one);

const queuesByName = computed(() => new Map(snapshot.value?.queues.map((queue) => [queue.queue, queue])));
const salesById = computed(() => new Map(snapshot.value?.sales.map((sale) => [sale.id, sale])));

/** Whether the snapshot has it: the server counts attempts, events and the past of these only. */
export const isFollowed = (kind, name) => (kind === 'sale' ? salesById : queuesByName).value.has(name);

export const saleOf = (id) => salesById.value.get(id) ?? others.value.get(`sale/${id}`);
export const roomOf = (id) => snapshot.value?.rooms.find((room) => room.sale === id) ?? others.value.get(`room/${id}`);
export const attemptsOf = (id) => snapshot.value?.attempts.find(({ sale }) => sale === id);
export const queueOf = (name) => queuesByName.value.get(name) ?? others.value.get(`queue/${name}`);
export const flowOf = (name) => snapshot.value?.flows.find(({ queue }) => queue === name);

/** Units of a sale in one place. */
export const sumOf = (sale, place) => sale.skus.reduce((sum, sku) => sum + sku[place], 0);

/** How far the ledger of a sale is behind, in microseconds; 0 if it is not. */
export const lagOf = ({ orders, now_us: at }) => (orders?.behind_since_us ? Math.max(0, at - orders.behind_since_us) : 0);
/** A ledger this far behind needs attention. */
export const LAG_LATE_US = 10e6;

/** Buyers in a waiting room. */
export const waitingIn = (room) => Math.max(0, room.joined - room.served);

// ── History ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const POINTS = 900;
const SAMPLE_MIN_MS = 500;
/** Loaded histories by `kind/name`: their columns, their window and the numbers of readers. */
const histories = new Map();
/** Raised when a history has changed other than by a snapshot. */
const loaded = signal(0);

async function load(kind, name) {
  const history = histories.get(`${kind}/${name}`);
  history.isLoading = true;
  try {
    const said = await api('GET', `/v1/${kind}s/${path(name)}/history?window_s=${history.window_s}&points=${POINTS}`);
    Object.assign(history, said, { isLoaded: true });
    loaded.value += 1;
  } catch { /* the next snapshot tries again */ }
  history.isLoading = false;
}

/** The figures of a snapshot, as the server's history has them. */
function figures(kind, name) {
  if (kind === 'queue') {
    const queue = queueOf(name);
    return queue && { gauges: queue, counts: flowOf(name)?.events ?? {} };
  }
  const sale = saleOf(name);
  if (!sale) return null;
  const room = roomOf(name);
  const gauges = Object.fromEntries(['free', 'held', 'confirmed', 'withdrawn'].map((place) => [place, sumOf(sale, place)]));
  const { through = sale.seq } = sale.orders ?? {};
  Object.assign(gauges, { waiting: room ? waitingIn(room) : 0, behind: sale.seq - through, lag_ms: lagOf(sale) / 1000 });
  return { gauges, counts: {} };
}

/** Attempts since the previous snapshot. A server that was restarted counts from zero. */
function grown(name, before) {
  const answers = attemptsOf(name)?.answers ?? {};
  const old = before?.attempts.find(({ sale }) => sale === name)?.answers ?? {};
  return Object.fromEntries(Object.entries(answers).map(([answer, n]) => [answer, n - (n < old[answer] ? 0 : old[answer] ?? 0)]));
}

function append(history, kind, name, before) {
  const at = Math.round(snapshot.value.counted_us / 1000);
  if (!history.isLoaded || at <= history.at_ms.at(-1)) return;
  const of = figures(kind, name);
  if (!of) return;
  if (kind === 'sale' && before) of.counts = grown(name, before);
  // A snapshot for another watcher may come early. It is merged with the one before, as on the server.
  const isEarly = at - history.at_ms.at(-1) < SAMPLE_MIN_MS;
  const place = history.at_ms.length - (isEarly ? 1 : 0);
  history.at_ms[place] = at;
  for (const word of Object.keys(history.gauges)) history.gauges[word][place] = Math.round(of.gauges[word] ?? 0);
  for (const word of Object.keys(of.counts)) history.counts[word] ??= Array(place).fill(0);
  for (const [word, column] of Object.entries(history.counts)) column[place] = (column[place] ?? 0) + (of.counts[word] ?? 0);
  const oldest = at - history.window_s * 1000;
  while (history.at_ms.length > 2 && history.at_ms[1] < oldest) {
    for (const column of [history.at_ms, ...Object.values(history.gauges), ...Object.values(history.counts)]) column.shift();
  }
}

function remember(before) {
  for (const [key, history] of histories) {
    const [kind, name] = [key.slice(0, key.indexOf('/')), key.slice(key.indexOf('/') + 1)];
    // Without the previous snapshot something may be missing: the server has it.
    if (!history.isLoaded || !before) { if (!history.isLoading) load(kind, name); } else append(history, kind, name, before);
  }
}

/** The recent past of a sale or a queue, kept up to date; undefined until it is loaded. */
export function useHistory(kind, name, window_s = 900) {
  const key = `${kind}/${name}`;
  useEffect(() => {
    const history = histories.get(key) ?? { readers: 0, window_s };
    histories.set(key, history);
    history.readers += 1;
    // Several figures of one screen read the same history: it is loaded once.
    if (history.window_s !== window_s || !(history.isLoaded || history.isLoading)) {
      history.window_s = window_s;
      load(kind, name);
    }
    return () => {
      history.readers -= 1;
      if (!history.readers) histories.delete(key);
    };
  }, [key, window_s]);
  void loaded.value;
  void snapshot.value;
  const history = histories.get(key);
  // A new object, because components skip a render if their properties are the same.
  return history?.isLoaded ? { ...history } : undefined;
}

/** A column of counts as rates per second. */
export function ratesOf(history, words) {
  const { at_ms: at, counts } = history;
  return at.map((ms, n) => {
    const sum = words.reduce((all, word) => all + (counts[word]?.[n] ?? 0), 0);
    return n ? 1000 * sum / Math.max(ms - at[n - 1], 1) : 0;
  });
}

/** The increase of a gauge, as rates per second. */
export const risesOf = ({ at_ms: at, gauges }, word) => at.map((ms, n) =>
  (n ? 1000 * Math.max(0, gauges[word][n] - gauges[word][n - 1]) / Math.max(ms - at[n - 1], 1) : 0));

const NOW_MS = 5000;
/**
 * The average of the latest five seconds: what a reader calls "now"; 0 without a history. A stretch without changes has only two
 * points.
 */
export function latestOf(history, rates) {
  const at = history?.at_ms ?? [];
  const from = at.at(-1) - NOW_MS;
  let [sum, whole] = [0, 0];
  for (let n = at.length - 1; n > 0 && at[n] > from; n -= 1) {
    const ms = at[n] - Math.max(at[n - 1], from);
    [sum, whole] = [sum + rates[n] * ms, whole + ms];
  }
  return whole ? sum / whole : 0;
}

// ── Audits, and incidents that this page has seen ────────────────────────────────────────────────────────────────────

/** The latest audit of each sale: { ok, checks, at, seq }. */
export const audits = signal(new Map());
const AUDIT_PAUSE = 10000;

export async function auditSale(id) {
  const { seq } = saleOf(id) ?? {};
  const { ok, checks } = await api('GET', `/v1/sales/${path(id)}/audit`);
  audits.value = new Map(audits.value).set(id, { ok, checks, at: Date.now() / 1000, seq });
  return audits.value.get(id);
}

/** Audits open sales repeatedly while the page is visible. The pause grows with the duration of the audits. */
export async function auditAll() {
  for (; ;) {
    const began = Date.now();
    for (const { id, status, seq } of [...snapshot.value?.sales ?? [], ...othersOf('sale')]) {
      // The sale has not changed since its last audit.
      if (document.hidden || !connection.value.on || (status !== 'open' && audits.value.get(id)?.seq === seq)) continue;
      try { await auditSale(id); } catch { /* the page shows the time of the last audit */ }
    }
    await pause(snapshot.value ? Math.max(AUDIT_PAUSE, 20 * (Date.now() - began)) : 200);
  }
}

/** Whether the latest audit is too old to rely on. */
export const isStale = (audit, sale) => audit.seq !== sale.seq && Date.now() / 1000 - audit.at > 60;

/** Incidents of each sale, newest first: { at, word, more }. */
export const incidents = signal(new Map());
const INCIDENTS_MAX = 50;
const seen = new Map();

function note(sale) {
  const is = { halted: sale.halted?.reason ?? null, generation: sale.generation, audit: audits.value.get(sale.id)?.ok ?? null };
  const was = seen.get(sale.id) ?? { halted: null, generation: is.generation, audit: null };
  seen.set(sale.id, is);
  const add = (word, more = '') => {
    const all = [{ at: Date.now() / 1000, word, more }, ...(incidents.value.get(sale.id) ?? [])].slice(0, INCIDENTS_MAX);
    incidents.value = new Map(incidents.value).set(sale.id, all);
  };
  if (is.halted && is.halted !== was.halted) add(`halted_${is.halted}`);
  if (is.generation !== was.generation) add('generation', ` ${is.generation}`);
  if (!is.halted && was.halted) add('goesOn');
  if (is.audit === false && was.audit !== false) add('auditFails');
}

// ── The stream ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** The server sends a snapshot every second. Without one for this time, the figures are not current. */
const STALE_MS = 5000;
/** Without one for this time, the stream is opened again. */
const LOST_MS = 20000;
let stream = new AbortController();
let openedAt = 0;

function setOn(on) {
  if (connection.value.on !== on) connection.value = { on, since: Date.now(), isStoreDown: false };
}

setInterval(() => {
  const silent = document.hidden ? 0 : performance.now() - Math.max(cameAt, openedAt);
  if (silent > STALE_MS) setOn(false);
  if (silent > LOST_MS) stream.abort();
  if (!connection.value.on) now.value = estimate();
}, 1000);

/** Finds out whether snapshots do not arrive because of the store. */
async function findWhy() {
  let isStoreDown = false;
  try { await api('GET', '/readyz'); } catch (error) { isStoreDown = error instanceof Problem && error.code === 'unavailable'; }
  if (!connection.value.on) connection.value = { ...connection.value, isStoreDown };
}

async function keepFindingWhy() {
  for (; ;) {
    if (!connection.value.on && !refused.value && !document.hidden) await findWhy();
    await pause(2000);
  }
}

/** Waits for another token. */
let tryAgain = () => {};
export function enter(token) {
  setBearer(token);
  refused.value = null;
  tryAgain();
}

export async function watch() {
  keepFindingWhy();
  for (; ;) {
    let before = null;
    stream = new AbortController();
    openedAt = performance.now();
    try {
      for await (const next of events('/v1/events', stream.signal)) {
        snapshot.value = next;
        cameAt = performance.now();
        now.value = next.now_us;
        setOn(true);
        remember(before);
        next.sales.forEach(note);
        before = next;
      }
    } catch (error) {
      if (error instanceof Problem && ['unauthorized', 'forbidden'].includes(error.code)) {
        setOn(false);
        refused.value = error.code === 'forbidden' ? 'roleTooSmall' : bearer() ? 'badToken' : 'wantsToken';
        await new Promise((resolve) => { tryAgain = resolve; });
        continue;
      }
    }
    if (document.hidden) continue;
    setOn(false);
    await pause(1000);
  }
}

/** State of the store and the ledger, from the readiness check; refreshed every 10 s while shown. */
const readiness = signal(null);
export function useReadiness() {
  useEffect(() => {
    const read = async () => { try { readiness.value = await api('GET', '/readyz'); } catch { readiness.value = null; } };
    read();
    const timer = setInterval(read, 10000);
    return () => clearInterval(timer);
  }, []);
  return readiness.value;
}

/** Whether the screen shows figures that are no longer current. */
export const isAway = computed(() => snapshot.value !== null && !connection.value.on);
