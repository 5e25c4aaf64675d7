// The operator's page: sign-in, connection status and tabs. Each screen has a file: sales, queues, locks.
import { Problem, at, bearer, events, pause, recall, say, setBearer, speak, store, t } from '/page/common.js';
import { updateDetail } from '/page/dialogs.js';
import { remakeLocks, showLocks } from '/page/locks.js';
import { remakeQueues, showQueues, updateQueue } from '/page/queues.js';
import { auditAll, lookAtFailedOrders, lookAtRooms, rememberSales, remakeSales, showSales } from '/page/sales.js';
import { latest, take } from '/page/snapshot.js';

function show() {
  if (!latest) return;
  showSales(latest.sales);
  showQueues(latest.queues);
  showLocks(latest.locks, latest.now_us);
}

let refused = null; // why the token was refused, as the name of a text

function lamp(on) {
  at('lamp').classList.toggle('on', on);
  say(at('lamp'), t(on ? 'live' : refused ? 'shut' : 'away'));
  at('door').hidden = !refused;
  say(at('refused'), refused ? t(refused) : '');
}

/** Shows why the token was refused and waits for another one. */
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

/** Rebuilds every screen after a change of language or color scheme. */
function again() {
  remakeSales();
  remakeLocks();
  lamp(at('lamp').classList.contains('on'));
  remakeQueues();
  show();
}

async function watch() {
  for (; ;) {
    try {
      for await (const snapshot of events('/v1/events')) {
        take(snapshot);
        lamp(true);
        rememberSales(snapshot);
        show();
        updateQueue();
        updateDetail();
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
lookAtFailedOrders();
