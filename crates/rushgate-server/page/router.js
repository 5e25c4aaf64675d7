// URLs of the screens. Each screen has one, so that Back, reload, bookmarks and middle click work.
import { computed, html, signal } from '/page/vendor/preact.js';
import { path, pause } from '/page/common.js';

/** Paths of the screens. A part in braces is a name. */
const ROUTES = {
  '/': 'overview',
  '/sales': 'sales',
  '/sales/{sale}': 'sale',
  '/sales/{sale}/room': 'room',
  '/sales/{sale}/events': 'saleEvents',
  '/sales/{sale}/drop': 'drop',
  '/queues': 'queues',
  '/queues/{queue}': 'queue',
  '/queues/{queue}/tasks/{task}': 'task',
  '/queues/{queue}/schedules': 'schedules',
  '/queues/{queue}/schedules/{schedule}': 'schedule',
  '/queues/{queue}/events': 'events',
  '/queues/{queue}/workers': 'workers',
  '/queues/{queue}/workers/{worker}': 'worker',
  '/locks': 'locks',
  '/locks/{lock}': 'lock',
  '/log': 'log',
};

const where = signal(location.pathname + location.search);
addEventListener('popstate', () => { where.value = location.pathname + location.search; });

function match(pathname) {
  const parts = pathname.split('/');
  for (const [pattern, screen] of Object.entries(ROUTES)) {
    const wanted = pattern.split('/');
    const isName = (part) => part.startsWith('{');
    if (wanted.length !== parts.length || !wanted.every((part, n) => (isName(part) ? parts[n] : part === parts[n]))) continue;
    try {
      const names = wanted.flatMap((part, n) => (isName(part) ? [[part.slice(1, -1), decodeURIComponent(parts[n])]] : []));
      return { screen, names: Object.fromEntries(names) };
    } catch { break; }
  }
  return { screen: 'none', names: {} };
}

function routeOf(url) {
  const { pathname, search } = new URL(url, location.origin);
  return { ...match(pathname), pathname, query: new URLSearchParams(search) };
}

/** The screen of the current URL, the names in its path, and its query. */
export const route = computed(() => routeOf(where.value));

/** The path of a resource: `to('queues', name)`. */
export const to = (...parts) => `/${parts.map(path).join('/')}`;

let readAhead = () => undefined;
/** How long a screen waits for its first answer. If it comes in this time, the browser paints the screen once and not twice. */
const FIRST_ANSWER_MS = 50;

/** Sets the function that sends the first request of a screen, by its route, and returns the answer. */
export const onRead = (read) => { readAhead = read; };

export async function navigate(url, { replace = false } = {}) {
  if (url === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  const answer = readAhead(routeOf(url));
  if (answer) await Promise.race([answer.catch(() => {}), pause(FIRST_ANSWER_MS)]);
  // The reader may have gone elsewhere.
  if (url !== location.pathname + location.search) return;
  where.value = url;
  if (!replace) scrollTo(0, 0);
}

/** The route of the URL. It is ahead of `route` while a screen waits for its first answer. */
export const ahead = () => routeOf(location.pathname + location.search);

/** The URL of a route with some query parameters changed. Empty values are left out. */
export function withQuery(changes, { pathname, query } = route.value) {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === '' || value === null || value === undefined) next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  return text ? `${pathname}?${text}` : pathname;
}

// Follow links to screens without loading the page again. The browser handles all other clicks.
document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (link.target || link.download || url.origin !== location.origin || url.hash || match(url.pathname).screen === 'none') return;
  event.preventDefault();
  navigate(url.pathname + url.search);
});

/** A link to a resource, with its name as text. */
export const Name = ({ to: parts, children }) => html`<a class="name" href=${to(...parts)}>${children ?? parts.at(-1)}</a>`;
