// The operator console: its frame, sign-in, connection status and the screen of the current URL.
import { html, render, useEffect, useRef } from '/page/vendor/preact.js';
import { clockTime, language, otherLanguage, t } from '/page/common.js';
import { Dialog, Told } from '/page/dialogs.js';
import { Drop } from '/page/drop.js';
import { Keys } from '/page/keys.js';
import { Lock, Locks } from '/page/locks.js';
import { Log } from '/page/log.js';
import { Overview } from '/page/overview.js';
import { Nothing } from '/page/parts.js';
import { Queue, Schedule, Worker } from '/page/queue.js';
import { Queues } from '/page/queues.js';
import { route } from '/page/router.js';
import { Sale } from '/page/sale.js';
import { Sales } from '/page/sales.js';
import { auditAll, connection, enter, isAway, now, refused, snapshot, watch } from '/page/state.js';
import { Task } from '/page/task.js';

const SCREENS = {
  overview: Overview, sales: Sales, sale: Sale, room: Sale, saleEvents: Sale, drop: Drop, queues: Queues, queue: Queue, schedules: Queue, workers: Queue, events: Queue,
  task: Task, schedule: Schedule, worker: Worker, locks: Locks, lock: Lock, log: Log,
  none: () => html`<h1>${t('noScreen')}</h1><p><a href="/">${t('overview')}</a></p>`,
};

const TABS = [['/', 'overview'], ['/sales', 'sales'], ['/queues', 'queues'], ['/locks', 'locks'], ['/log', 'log']];

function Header() {
  const { pathname } = route.value;
  const { code, name, choose } = otherLanguage();
  const { on, isStoreDown } = connection.value;
  const isHere = (url) => (url === '/' ? pathname === '/' : pathname === url || pathname.startsWith(`${url}/`));
  return html`<a class="skip" href="#screen" onClick=${(event) => { event.preventDefault(); document.getElementById('screen').focus(); }}>${t('skip')}</a>
  <header>
    <a class="brand" href="/">Rushgate</a>
    <nav aria-label=${t('screens')}>${TABS.map(([url, word]) => html`<a key=${url} href=${url} aria-current=${isHere(url) ? 'page' : undefined}>${t(word)}</a>`)}
      <a href="/docs">${t('reference')}</a></nav>
    <span id="lamp" class="lamp ${on ? 'on' : ''}" role="status">${t(on ? 'live' : refused.value ? 'shut' : isStoreDown ? 'storeDown' : snapshot.value ? 'away' : 'connecting')}</span>
    <button id="language" class="plain" lang=${code} onClick=${choose}>${name}</button>
  </header>`;
}

/** Says that the figures are not current. */
const Away = () => (isAway.value && !refused.value
  ? html`<p class="away" role="alert">${t(connection.value.isStoreDown ? 'storeDownSince' : 'awaySince', clockTime(connection.value.since / 1000), clockTime(snapshot.value.now_us / 1e6))}</p>` : null);

/** Asks for a token. */
function SignIn() {
  const field = useRef();
  useEffect(() => { field.current.focus(); }, []);
  const submit = (event) => { event.preventDefault(); enter(field.current.value.trim()); };
  return html`<form id="door" class="card" onSubmit=${submit}><h1>${t('signInTitle')}</h1><p id="refused" role="alert">${t(refused.value)}</p>
    <label><span>${t('token')}</span> <input id="bearer" ref=${field} type="password" autocomplete="off" spellcheck=${false} /></label> <button class="primary">${t('enter')}</button></form>`;
}

function Screen() {
  const { screen, names, pathname } = route.value;
  if (refused.value) return html`<${SignIn} key=${refused.value} />`;
  if (!snapshot.value) return html`<${Nothing} word=${connection.value.isStoreDown ? 'storeDownNow' : 'loading'} />`;
  const Shown = SCREENS[screen];
  // The views of a sale or a queue are one screen, so that its frame stays.
  const key = [Sale, Queue].includes(Shown) ? Object.values(names)[0] : pathname;
  return html`<${Shown} key=${key} ...${names} />`;
}

const App = () => html`<${Header} /><${Away} /><main id="screen" tabindex="-1" class=${isAway.value ? 'is-stale' : ''}><${Screen} /></main><${Dialog} /><${Keys} /><${Told} />`;

language.subscribe((code) => { document.documentElement.lang = code; });
render(html`<${App} />`, document.getElementById('app'));
watch();
auditAll();
