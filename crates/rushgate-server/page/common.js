// Shared by the pages: texts, elements, the API, and times.
import { en, zh } from '/page/words.js';

const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
export const store = (name, value) => {
  try { value === null ? localStorage.removeItem(name) : localStorage.setItem(name, value); } catch { /* private mode */ }
};
export const recall = stored;

let language = stored('language') ?? (navigator.language.startsWith('zh') ? 'zh' : 'en');

/** A text in the reader's language, with its placeholders filled. */
export const t = (word, ...values) =>
  ((language === 'zh' ? zh : en)[word] ?? word).replace(/\{(\d)\}/g, (_, n) => values[n]);

/** Fills in all elements that have a `data-word`. */
export function speak(again) {
  document.documentElement.lang = language;
  for (const place of document.querySelectorAll('[data-word]')) place.textContent = t(place.dataset.word);
  const button = document.getElementById('language');
  button.textContent = language === 'zh' ? 'English' : '中文';
  button.lang = language === 'zh' ? 'en' : 'zh';
  button.onclick = () => {
    language = language === 'zh' ? 'en' : 'zh';
    store('language', language);
    speak(again);
    again();
  };
}

export const at = (id) => document.getElementById(id);

/** An element. What comes from the server is always text. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (typeof value === 'boolean') element.toggleAttribute(key, value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Sets a text only if it differs, so that a selection survives. */
export const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };

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

export const bearer = () => { try { return sessionStorage.getItem('bearer'); } catch { return null; } };
export const setBearer = (token) => sessionStorage.setItem('bearer', token);

/** Headers of every request. */
export function headers(more = {}) {
  const token = bearer();
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

/** Calls the API. */
export async function api(method, path, { body, more, signal, cache = 'no-store' } = {}) {
  const sent = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(path, {
    method, signal, cache, headers: headers({ ...sent, ...more }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  return answer;
}

/** Yields the events of a stream. Uses fetch because EventSource cannot send a token. */
export async function* events(path, signal) {
  const response = await fetch(path, { headers: headers(), cache: 'no-store', signal });
  if (!response.ok) throw new Problem(await response.json());
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
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
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
export const path = (name) => encodeURIComponent(name);
export const number = (n) => n.toLocaleString(language === 'zh' ? 'zh-CN' : 'en');

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

/** A time in microseconds, in the reader's time zone. */
export const moment = (us) => new Date(us / 1000).toLocaleString(document.documentElement.lang, { hour12: false });

/** Time from now until `us`, or since then, as text. */
export const relative = (us, now) => (us > now ? t('in', spoken(us - now)) : t('ago', spoken(now - us)));
