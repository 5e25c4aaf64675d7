// The locks screens: the holder of each lock, its lease, and its wait queue.
import { html } from '/page/vendor/preact.js';
import { Problem, api, number, path, relative, spoken, t, timed } from '/page/common.js';
import { Verb } from '/page/dialogs.js';
import { Card, Facts, Nothing, Search, Table, Tag, paged, useAll, usePolled, useTitle } from '/page/parts.js';
import { Name, route } from '/page/router.js';
import { now } from '/page/state.js';

export const who = ({ label, host, pid }) => label || `${host}:${pid}`;

/** The longest rest of the lease of each grant that this page has seen: locks do not tell the length of their lease. */
const longest = new Map();
const GRANTS_MAX = 10000;

/** The part of the lease that is left. */
export function Lease({ holder }) {
  const [left, grant] = [Math.max(0, holder.lease_until_us - now.value), `${holder.fence} ${holder.since_us}`];
  if (longest.size > GRANTS_MAX) longest.clear();
  const whole = Math.max(1, left, longest.get(grant) ?? 0);
  longest.set(grant, whole);
  const share = 100 * left / whole;
  return html`<span class="lease"><span class="meter" role="img" aria-label=${`${Math.round(share)} %`}><span class=${share < 20 ? 'low' : ''} style=${{ width: `${share}%` }}></span></span> ${spoken(left)}</span>`;
}

function ForceRelease({ lock, small }) {
  const { name, holder, waiters } = lock;
  if (!holder) return null;
  const says = () => [t('breakSays', who(holder), spoken(holder.lease_until_us - now.value)), waiters.length ? t('breakNext', who(waiters[0]), number(waiters.length)) : t('breakFree')];
  return html`<${Verb} word="breakLock" title=${name} small=${small} danger says=${says} work=${() => api('POST', `/v1/locks/${path(name)}/force-release`, { body: {} })} />`;
}

const HEADS = [['name'], ['holder'], ['fence', 'n'], ['since', 'n'], ['leaseLeft', 'n'], ['waiting', 'n'], ['longestWait', 'n'], ['verbs', 'verbs']];

export function LockTable({ locks }) {
  const rows = locks.map((lock) => {
    const { name, holder, waiters } = lock;
    const longest = Math.min(...waiters.map((waiter) => waiter.since_us));
    return {
      key: name,
      cells: [html`<${Name} to=${['locks', name]} />`, holder ? who(holder) : '–', holder?.fence ?? '–', holder ? relative(holder.since_us, now.value) : '–',
        holder ? html`<${Lease} holder=${holder} />` : '–', number(waiters.length), waiters.length ? spoken(now.value - longest) : '–', html`<${ForceRelease} lock=${lock} small />`],
    };
  });
  return html`<${Table} heads=${HEADS} rows=${rows} label=${t('locks')} />`;
}

export function Locks() {
  useTitle(t('locks'));
  const { query } = route.value;
  const { all, note } = useAll('locks');
  const found = all.filter(({ name }) => name.includes(query.get('q') ?? ''));
  const { shown, pager } = paged(found);
  return html`<div class="row head"><h1>${t('locks')}</h1><${Search} label=${t('nameContains')} /></div>
    ${found.length ? html`<div class="card"><${LockTable} locks=${shown} /></div>` : html`<${Nothing} word=${all.length ? 'nothing' : 'noLocks'} />`}${note}${pager}`;
}

/** The holder of a lock and its wait queue. */
export function Lock({ lock: name }) {
  useTitle(name, t('locks'));
  const { said, error } = usePolled(() => api('GET', `/v1/locks/${path(name)}`), [name], 1000);
  const { holder, waiters = [] } = said ?? {};
  const { shown, pager } = paged(waiters);
  const rows = shown.map((waiter) => ({
    key: `${waiter.position} ${waiter.since_us}`,
    cells: [number(waiter.position), who(waiter), `${waiter.host}:${waiter.pid}`, relative(waiter.since_us, now.value), relative(waiter.wait_until_us, now.value)],
  }));
  return html`<article class="lock" data-lock=${name}><p class="crumbs"><${Name} to=${['locks']}>${t('locks')}<//></p>
    <div class="row head"><h1>${name}</h1>${said && html`<${Tag} kind=${holder ? 'open' : ''}>${t(holder ? 'lockHeld' : 'lockIsFree')}<//>`}
      <span class="row ends">${holder && html`<${ForceRelease} lock=${said} />`}</span></div>
    ${error instanceof Problem && html`<p class="bad">${error.message}</p>`}
    ${said && html`<div class="grid two"><${Card} title=${t('holder')}>${holder ? html`<${Facts} of=${[
    ['holder', who(holder)], ['process', `${holder.host}:${holder.pid}`], ['fence', holder.fence], ['since', timed(holder.since_us, now.value)], ['leaseLeft', html`<${Lease} holder=${holder} />`],
  ]} /><p class="soft">${t('processOf')}</p>` : html`<${Nothing} word="lockFree" />`}<//>
      <${Card} title=${`${t('line')} (${number(waiters.length)})`}>${waiters.length ? html`<${Table} heads=${[['position', 'n'], ['waiter'], ['process'], ['since', 'n'], ['givesUp', 'n']]} rows=${rows} label=${t('line')} />${pager}` : html`<${Nothing} word="noWaiters" />`}<//></div>`}
  </article>`;
}
