// Shared by all pages: texts, the API, and how figures and times are written.
import { signal } from '/page/vendor/preact.js';
import { en } from '/page/words.js';
import { zh } from '/page/words-zh.js';

/** A key of the browser's storage. An embedded shop shares the storage with the site around it. */
const keyOf = (name) => `rushgate:${name}`;
const readFrom = (storage, name) => { try { return storage().getItem(keyOf(name)); } catch { return null; } };
const writeTo = (storage, name, value) => {
  try { value === null ? storage().removeItem(keyOf(name)) : storage().setItem(keyOf(name), value); } catch { /* private mode */ }
};

export const recall = (name) => readFrom(() => localStorage, name);
export const store = (name, value) => writeTo(() => localStorage, name, value);
export const recallInTab = (name) => readFrom(() => sessionStorage, name);
export const storeInTab = (name, value) => writeTo(() => sessionStorage, name, value);

const LANGUAGES = { en: { words: en, locale: 'en', name: 'English' }, zh: { words: zh, locale: 'zh-CN', name: '中文' } };
export const language = signal(recall('language') ?? (navigator.language.startsWith('zh') ? 'zh' : 'en'));
const spokenNow = () => LANGUAGES[language.value] ?? LANGUAGES.en;
const other = () => (language.value === 'zh' ? 'en' : 'zh');

/** The other language: its code, its name, and a function that switches to it. */
export const otherLanguage = () => ({
  code: other(), name: LANGUAGES[other()].name, choose: () => { language.value = other(); store('language', language.value); },
});

/** A text in the reader's language, with its placeholders filled. */
export const t = (word, ...values) => (spokenNow().words[word] ?? word).replace(/\{(\d)\}/g, (_, n) => values[n]);

/** A problem document from the server. */
export class Problem extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title);
    this.code = problem.code;
    this.problem = problem;
  }
}

/** 128 random bits as text. `crypto.randomUUID` is missing on a page that another machine served over plain HTTP. */
export const randomId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
* State of a sale by the store's clock: `created`, `opensLater`, `open`, `onHold`, `sold`, `over` or `ended`. The sale's
 * `status` only tells what an operator has set.
 */
export function standing({ status, opens_at_us: opens, closes_at_us: closes, skus }, now) {
  if (status !== 'open') return status;
  if (opens > now) return 'opensLater';
  if (closes <= now) return 'over';
  if (skus.some((sku) => sku.free)) return 'open';
  return skus.some((sku) => sku.held) ? 'onHold' : 'sold';
}

/** The server that this module comes from: a page of another origin may embed it. */
const server = new URL(import.meta.url).origin;

// In memory too, for a browser that stores nothing.
let token = recallInTab('bearer');
export const bearer = () => token;
export const setBearer = (given) => { token = given; storeInTab('bearer', given); };

/** Headers of a request with this token. */
function headers(bearer, more = {}) {
  return bearer ? { authorization: `Bearer ${bearer}`, ...more } : more;
}

/** Calls the API, with the page's token unless another one is given. */
export async function api(method, path, { body, more, signal: until, cache = 'no-store', token: own = token } = {}) {
  const sent = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(server + path, {
    method, signal: until, cache, headers: headers(own, { ...sent, ...more }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  return answer;
}

/** A request of the screen that is rendered next: its URL, its answer, and how long the answer can be used. */
let ahead = {};
const AHEAD_MS = 1000;

/** Reads a list. Uses the answer of `readAhead`, once and while it is recent. */
export function read(url) {
  const { url: known, answer, until } = ahead;
  if (url !== known) return api('GET', url, { cache: 'no-cache' });
  ahead = {};
  return performance.now() < until ? answer : read(url);
}

/** Sends the request that a screen will make first, so that the server answers while the browser renders the screen. */
export function readAhead(url) {
  const answer = read(url);
  answer.catch(() => {}); // `read` reports it
  ahead = { url, answer, until: performance.now() + AHEAD_MS };
  return answer;
}

const untilShown = () => (document.hidden ? new Promise((resolve) => { document.addEventListener('visibilitychange', resolve, { once: true }); }) : null);

/**
 * Yields the events of a stream, and closes it when the reader stops. Uses fetch because EventSource cannot send a token.
 *
 * The stream of a hidden page ends, and one that is opened begins when the page is shown: a browser has only six connections
 * to a server, for all pages together.
 */
export async function* events(path, until) {
  await untilShown();
  const hidden = new AbortController();
  const hide = () => { if (document.hidden) hidden.abort(); };
  document.addEventListener('visibilitychange', hide);
  let reader;
  try {
    const response = await fetch(server + path, { headers: headers(token), cache: 'no-store', signal: AbortSignal.any([hidden.signal, until].filter(Boolean)) });
    if (!response.ok) throw new Problem(await response.json());
    reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (text + value).split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const data = block.split('\n').find((line) => line.startsWith('data: '));
        if (data) yield JSON.parse(data.slice(6));
      }
    }
  } catch (error) {
    if (!hidden.signal.aborted) throw error;
  } finally {
    document.removeEventListener('visibilitychange', hide);
    reader?.cancel().catch(() => {}); // it may have failed already
  }
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
export const path = (name) => encodeURIComponent(name);
export const number = (n) => n.toLocaleString(spokenNow().locale);

/** A rate with as many digits as a reader can use. */
export const rate = (n) => number(n < 10 ? Math.round(n * 10) / 10 : Math.round(n));

/** A share, rounded down, so that only a full share reads 100 %. */
export const percent = (part, all) => `${number(all ? Math.floor(1000 * part / all) / 10 : 0)} %`;

/** A price: its amount is in the smallest unit of the currency. */
export function money({ amount, currency }) {
  try {
    const format = new Intl.NumberFormat(spokenNow().locale, { style: 'currency', currency });
    return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
  } catch {
    return `${amount} ${currency}`;
  }
}

/** A duration in microseconds, as text in the reader's language. */
export function spoken(us) {
  const s = Math.max(0, us / 1e6);
  const unit = (n, word) => `${n} ${t(`unit_${word}`)}`;
  if (s < 60) return unit(s < 10 ? s.toFixed(1) : Math.floor(s), 's');
  const m = Math.floor(s / 60);
  if (m < 60) return `${unit(m, 'min')} ${unit(Math.floor(s % 60), 's')}`;
  const hours = Math.floor(m / 60);
  return hours < 48 ? `${unit(hours, 'h')} ${unit(m % 60, 'min')}` : unit(Math.floor(hours / 24), 'd');
}

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

/** A setting in milliseconds, exactly: in the largest unit of which it is a multiple. */
export function exactly(ms) {
  const [s, word] = UNITS.find(([of]) => ms % (1000 * of) === 0) ?? [];
  return s ? `${number(ms / 1000 / s)} ${t(`unit_${word}`)}` : `${number(ms)} ms`;
}

/** A latency in microseconds: in milliseconds below one second. */
export const took = (us) => (us < 1e6 ? `${number(Number((us / 1e3).toPrecision(2)))} ms` : spoken(us));

/**
 * A countdown in microseconds, as hours, minutes and seconds. It begins at the full time, although a page knows the server's
 * clock only to some tenths of a second.
 */
export function countdown(us) {
  const s = Math.max(0, Math.ceil(us / 1e6 - 0.25));
  const two = (n) => String(n).padStart(2, '0');
  const hours = Math.floor(s / 3600);
  return `${hours ? `${hours}:` : ''}${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

const DAY = { year: 'numeric', month: 'numeric', day: 'numeric' };
const TIME = { hourCycle: 'h23', hour: 'numeric', minute: 'numeric', second: 'numeric' };
/** Formats of each language. They are kept, because making one takes 100 times as long as using it. */
const formats = new Map();

function formatOf(locale) {
  if (!formats.has(locale)) formats.set(locale, { moment: new Intl.DateTimeFormat(locale, { ...DAY, ...TIME }), time: new Intl.DateTimeFormat(locale, TIME) });
  return formats.get(locale);
}

/** A time in microseconds, in the reader's time zone. */
export const moment = (us) => formatOf(spokenNow().locale).moment.format(us / 1000);

/** The time of day in seconds since the Unix epoch. */
export const clockTime = (s) => formatOf(spokenNow().locale).time.format(s * 1000);

/** Time from now until `us`, or since then, as text. */
export const relative = (us, now) => (us > now ? t('in', spoken(us - now)) : t('ago', spoken(now - us)));

export const timed = (us, now) => us && `${moment(us)} (${relative(us, now)})`;

/** Names the first five IDs. */
export const someOf = (ids) => `${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`;
