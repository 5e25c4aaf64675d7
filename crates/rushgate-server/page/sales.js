// All sales, small enough that six fit a phone.
import { html } from '/page/vendor/preact.js';
import { clockTime, countdown, number, percent, rate, spoken, t } from '/page/common.js';
import { Nothing, Search, Tag, View, paged, useAll, useTitle } from '/page/parts.js';
import { route, to } from '/page/router.js';
import { audits, isStale, lagOf, latestOf, risesOf, roomOf, sumOf, useHistory, waitingIn } from '/page/state.js';
import { stateOf } from '/page/verbs.js';

export const PLACES = ['confirmed', 'held', 'free', 'withdrawn'];

/** Units by place, as a bar and as its text. */
export function Bar({ of }) {
  const all = Math.max(1, PLACES.reduce((sum, place) => sum + of[place], 0));
  const label = PLACES.map((place) => `${number(of[place])} ${t(place)}`).join(', ');
  return html`<div class="bar" role="img" aria-label=${label}>
    ${PLACES.filter((place) => of[place] > 0).map((place) => html`<div key=${place} class=${place} style=${{ width: `${100 * of[place] / all}%` }}></div>`)}
  </div>`;
}

const Legend = () => html`<p class="legend soft" aria-hidden="true">${PLACES.map((place) => html`<span key=${place}><i class=${place}></i>${t(place)}</span>`)}</p>`;

export const sums = (sale) => Object.fromEntries([...PLACES, 'total'].map((place) => [place, sumOf(sale, place)]));

/** The result of the latest audit. */
export function AuditMark({ sale }) {
  const audit = audits.value.get(sale.id);
  if (!audit) return null;
  const old = isStale(audit, sale);
  const word = old ? 'auditAway' : audit.ok ? 'auditOn' : 'auditOff';
  return html`<span class="check ${old ? '' : audit.ok ? 'on' : 'off'}">${t(word)} ${clockTime(audit.at)}</span>`;
}

/** One line about what matters now. */
export function headline(sale) {
  const room = roomOf(sale.id);
  const lines = [];
  if (sale.opens_at_us > sale.now_us) lines.push(`${t('opensIn')} ${countdown(sale.opens_at_us - sale.now_us)}`);
  if (sale.next_expiry_us > sale.now_us) lines.push(`${t('nextExpiryIn')} ${countdown(sale.next_expiry_us - sale.now_us)}`);
  if (room) lines.push(t('waitingInRoom', number(waitingIn(room))));
  if (lagOf(sale)) lines.push(`${t('ledgerLag')} ${spoken(lagOf(sale))}`);
  if (sale.orders?.failed) lines.push(`${t('failedOrders')}: ${number(sale.orders.failed)}`);
  return lines.join(' · ');
}

/** A sale in a list. */
export function SaleRow({ sale }) {
  const of = sums(sale);
  const history = useHistory('sale', sale.id);
  const speed = history ? latestOf(history, risesOf(history, 'confirmed')) : 0;
  return html`<article class="sale-row">
    <div class="row"><h2><a href=${to('sales', sale.id)}>${sale.id}</a></h2><${Tag} kind=${stateOf(sale)}>${t(stateOf(sale))}<//>
      <a class="soft drop-link" href=${to('sales', sale.id, 'drop')}>${t('dropView')}</a></div>
    <${Bar} of=${of} />
    <p class="figures"><b>${number(of.confirmed)}</b> / ${number(of.total)} ${t('soldUnits')} <span class="soft">(${percent(of.confirmed, of.total)})
      ${speed > 0 ? ` · ${rate(speed)}${t('perS')}` : ''} · ${number(of.held)} ${t('held')} · ${number(of.free)} ${t('free')}</span></p>
    ${headline(sale) && html`<p class="soft line">${headline(sale)}</p>`}
  </article>`;
}

const STATES = ['open', 'onHold', 'sold', 'opensLater', 'created', 'stopped', 'over', 'ended'];

export function Sales() {
  useTitle(t('sales'));
  const { query } = route.value;
  const { all: listed, note } = useAll('sales');
  const all = listed.filter(({ damage }) => damage === undefined);
  const [wanted, prefix] = [query.get('state'), query.get('q') ?? ''];
  const counts = {};
  for (const sale of all) counts[stateOf(sale)] = (counts[stateOf(sale)] ?? 0) + 1;
  const found = all.filter((sale) => (!wanted || stateOf(sale) === wanted) && sale.id.includes(prefix));
  const { shown, pager } = paged(found);
  return html`<div class="row head"><h1>${t('sales')}</h1><${Search} label=${t('nameContains')} /></div>
    <nav class="views row" aria-label=${t('state')}>
      <${View} query=${{ state: null, page: null }} isCurrent=${!wanted}>${t('all')} ${number(all.length)}<//>
      ${STATES.filter((state) => counts[state]).map((state) => html`<${View} key=${state} query=${{ state, page: null }} isCurrent=${wanted === state}>${t(state)} ${number(counts[state])}<//>`)}
    </nav>
    <${Legend} />
    ${found.length ? html`<div class="grid sales-grid">${shown.map((sale) => html`<${SaleRow} key=${sale.id} sale=${sale} />`)}</div>` : html`<${Nothing} word=${all.length ? 'nothing' : 'noSales'} />`}
    ${note}${pager}`;
}
