// The overview: what is wrong now comes first.
import { html } from '/page/vendor/preact.js';
import { number, path, spoken, t } from '/page/common.js';
import { LockTable } from '/page/locks.js';
import { Card, Facts, LIST_MAX, Nothing, useAll, useTitle } from '/page/parts.js';
import { QueueTable, backlogOf } from '/page/queues.js';
import { to } from '/page/router.js';
import { SaleRow } from '/page/sales.js';
import { LAG_LATE_US, audits, isTruncated, lagOf, now, snapshot, useReadiness } from '/page/state.js';
import { stateOf } from '/page/verbs.js';

const IDLE_MS = 60e3;
const WAIT_US = 60e6;

const ofSale = (sale) => {
  const link = to('sales', sale.id);
  const lag = lagOf(sale);
  return [
    audits.value.get(sale.id)?.ok === false && { kind: 'bad', link, text: `${sale.id}: ${t('auditFails')}` },
    sale.halted && { kind: 'bad', link, text: `${sale.id}: ${t(`halted_${sale.halted.reason}`)}` },
    sale.orders?.failed > 0 && { kind: 'bad', link, text: `${sale.id}: ${t('failedOrders')}: ${number(sale.orders.failed)}` },
    lag > LAG_LATE_US && { kind: 'bad', link, text: `${sale.id}: ${t('ledgerLag')} ${spoken(lag)}` },
    stateOf(sale) === 'onHold' && { kind: 'warn', link, text: `${sale.id}: ${t('onHold')}` },
  ];
};

const ofQueue = (queue) => {
  const link = to('queues', queue.queue);
  const idle = queue.last_claim_us ? (now.value - queue.last_claim_us) / 1000 : Infinity;
  return [
    queue.paused && backlogOf(queue) > 0 && { kind: 'warn', link, text: `${queue.queue}: ${t('pausedWith', number(backlogOf(queue)))}` },
    !queue.paused && queue.ready > 0 && queue.lag_ms > IDLE_MS && idle > IDLE_MS
      && { kind: 'bad', link, text: `${queue.queue}: ${t('noClaims', number(queue.ready), spoken(1000 * queue.lag_ms))}` },
    !queue.paused && queue.lag_ms > IDLE_MS && idle <= IDLE_MS && { kind: 'warn', link, text: `${queue.queue}: ${t('behindBy', spoken(1000 * queue.lag_ms), number(queue.ready))}` },
    queue.dead > 0 && { kind: 'warn', link: `/queues/${path(queue.queue)}?state=dead`, text: `${queue.queue}: ${t('deadLetters', number(queue.dead))}` },
    queue.limits.bound && queue.ready + queue.scheduled + queue.leased + queue.blocked >= queue.limits.bound && { kind: 'bad', link, text: `${queue.queue}: ${t('atCapacity', number(queue.limits.bound))}` },
  ];
};

const ofLock = ({ name, waiters }) => {
  const since = Math.min(...waiters.map((waiter) => waiter.since_us));
  return [waiters.length > 0 && now.value - since > WAIT_US && { kind: 'warn', link: to('locks', name), text: `${name}: ${t('waitsLong', number(waiters.length), spoken(now.value - since))}` }];
};

const PROBLEMS_MAX = 20;

function Attention({ ready, sales, locks }) {
  const { damaged, queues } = snapshot.value;
  const isDamaged = ({ damage }) => damage !== undefined;
  const lost = [...new Map([...damaged, ...sales.all.filter(isDamaged)].map((sale) => [sale.id, sale])).values()].map(({ id, damage }) => ({ kind: 'bad', link: '/sales', text: `${id}: ${t('damaged', damage)}` }));
  const store = [ready?.ledger === 'down' && { kind: 'bad', link: '/', text: t('ledgerDown') }];
  const all = [...store, ...lost, ...sales.all.filter((sale) => !isDamaged(sale)).flatMap(ofSale), ...queues.flatMap(ofQueue), ...locks.all.flatMap(ofLock)].filter(Boolean);
  all.sort((one, two) => (one.kind === two.kind ? 0 : one.kind === 'bad' ? -1 : 1));
  const isPart = isTruncated('queues') || sales.isCut || locks.isCut;
  return html`<${Card} title=${t('attention')} class="attention ${all.some(({ kind }) => kind === 'bad') ? 'is-bad' : ''}">
    ${all.length ? html`<ul>${all.slice(0, PROBLEMS_MAX).map(({ kind, link, text }) => html`<li key=${text} class=${kind}><a href=${link}>${text}</a></li>`)}</ul>` : html`<p class=${isPart ? '' : 'good'}>${t(isPart ? 'firstWell' : 'allWell')}</p>`}
    ${all.length > PROBLEMS_MAX && html`<p class="soft">${t('andMore', number(all.length - PROBLEMS_MAX))}</p>`}
    ${isPart && html`<p class="soft">${t('firstOnly', number(LIST_MAX))}</p>`}<//>`;
}

/** A sum over sales, queues or locks, of which the page may not have all. */
const atLeast = (n, isCut) => `${number(n)}${isCut ? '+' : ''}`;
/** A link to a whole list. */
const ShowAll = ({ word, n, isCut }) => html`<a href=${`/${word}`}>${t('showAll', atLeast(n, isCut))}</a>`;

const SHOWN = 8;

export function Overview() {
  useTitle(t('overview'));
  const ready = useReadiness();
  const { queues } = snapshot.value;
  const areCut = isTruncated('queues');
  const [sales, locks] = [useAll('sales'), useAll('locks')];
  const sound = sales.all.filter(({ damage }) => damage === undefined);
  const running = sound.filter((sale) => !['ended', 'over', 'created'].includes(stateOf(sale)));
  const busiest = [...queues].sort((one, two) => two.ready + two.leased - one.ready - one.leased || (one.queue < two.queue ? -1 : 1));
  const contended = [...locks.all].sort((one, two) => two.waiters.length - one.waiters.length || (one.name < two.name ? -1 : 1));
  const ledgerText = { none: t('none'), up: t('ledgerUp'), down: t('ledgerIsDown') };
  return html`<h1 class="unseen">${t('overview')}</h1>
    <div class="grid overview-head"><${Attention} ready=${ready} sales=${sales} locks=${locks} />
    <${Card} title=${t('server')}><${Facts} of=${[
    ['store', ready?.server], ['durability', ready && t(`durability_${ready.durability}`)], ['ledger', ready && ledgerText[ready.ledger]],
    ['locksHeld', atLeast(locks.all.filter(({ holder }) => holder).length, locks.isCut)], ['lockWaiters', atLeast(locks.all.reduce((sum, { waiters }) => sum + waiters.length, 0), locks.isCut)],
    ['backlog', atLeast(queues.reduce((sum, queue) => sum + backlogOf(queue), 0), areCut)],
  ]} /><//></div>
    <${Card} title=${t('salesRunning')} aside=${html`<${ShowAll} word="sales" n=${sound.length} isCut=${sales.isCut} />`}>
      ${running.length ? html`<div class="grid sales-grid">${running.slice(0, 6).map((sale) => html`<${SaleRow} key=${sale.id} sale=${sale} />`)}</div>` : html`<${Nothing} word=${sound.length ? 'noneRunning' : 'noSales'} />`}<//>
    <${Card} title=${t('queues')} aside=${html`<${ShowAll} word="queues" n=${queues.length} isCut=${areCut} />`}>
      ${queues.length ? html`<${QueueTable} queues=${busiest.slice(0, SHOWN)} verbs=${false} />` : html`<${Nothing} word="noQueues" />`}${queues.length > SHOWN && html`<p><${ShowAll} word="queues" n=${queues.length} isCut=${areCut} /></p>`}<//>
    <${Card} title=${t('locks')} aside=${html`<${ShowAll} word="locks" n=${locks.all.length} isCut=${locks.isCut} />`}>
      ${locks.all.length ? html`<${LockTable} locks=${contended.slice(0, SHOWN)} />` : html`<${Nothing} word="noLocks" />`}<//>`;
}
