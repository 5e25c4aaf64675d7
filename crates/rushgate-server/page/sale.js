// The screen of one sale: stock by SKU, charts on one time axis, attempts, waiting room, ledger, incidents and events.
import { html, useEffect, useState } from '/page/vendor/preact.js';
import { api, clockTime, events, number, path, percent, rate, relative, spoken, t, took } from '/page/common.js';
import { answersOf, styleOf } from '/page/answers.js';
import { Chart } from '/page/chart.js';
import { carryOut } from '/page/dialogs.js';
import { Card, Facts, Nothing, Search, Tag, Trouble, View, canAct, paged, useOthers, usePolled, useTitle } from '/page/parts.js';
import { route, to } from '/page/router.js';
import { AuditMark, Bar, PLACES, headline, sums } from '/page/sales.js';
import { LAG_LATE_US, attemptsOf, incidents, isFollowed, lagOf, latestOf, now, risesOf, roomOf, saleOf, useHistory, waitingIn } from '/page/state.js';
import { SaleVerbs, StockVerbs, isOver, setRoom, stateOf, waitIn } from '/page/verbs.js';

const WINDOWS = [['300', '5 min'], ['900', '15 min'], ['3600', '1 h'], ['14400', '4 h']];
const windowOf = () => Number(WINDOWS.find(([s]) => s === route.value.query.get('window'))?.[0] ?? 900);
const Windows = () => html`<nav class="views row" aria-label=${t('window')}>
  ${WINDOWS.map(([s, text]) => html`<${View} key=${s} query=${{ window: s === '900' ? null : s }} isCurrent=${String(windowOf()) === s}>${text}<//>`)}</nav>`;

/** The lines of the stock chart. */
const UNITS = [['confirmed', 'sold'], ['held', 'held'], ['free', 'soft', [8, 4]]];

export const StockChart = ({ id, history, window_s, ...rest }) => html`<${Chart} label=${`${t('stock')}: ${id}`} window_s=${window_s}
  lines=${UNITS.map(([place, name, dash]) => ({ label: t(place), name, dash }))}
  data=${history && [history.at_ms, ...UNITS.map(([place]) => history.gauges[place])]} ...${rest} />`;

export const AttemptsChart = ({ id, history, groups, window_s, ...rest }) => (!isFollowed('sale', id) ? html`<p class="soft">${t('notFollowed')}</p>` : groups.length ? html`<${Chart} label=${`${t('attempts')}: ${id}`} window_s=${window_s}
  lines=${groups} data=${history && groups.length ? [history.at_ms, ...groups.map(({ rates }) => rates)] : undefined} ...${rest} />` : html`<p class="soft">${t('noAttempts')}</p>`);

function Stock({ sale }) {
  const { shown, pager } = paged(sale.skus.filter(({ sku }) => sku.includes(route.value.query.get('q') ?? '')));
  const isLong = sale.skus.length > shown.length;
  return html`${isLong && html`<div class="row found"><${Search} label=${t('nameContains')} /></div>`}
    <div class="scroll" role="region" tabindex="0" aria-label=${t('stock')}><table class="skus">
    <thead><tr><th scope="col">SKU</th><th scope="col" class="grow">${t('stock')}</th>
      ${PLACES.map((place) => html`<th key=${place} scope="col" class="n"><i class=${place}></i>${t(place)}</th>`)}<th scope="col" class="n">${t('total')}</th><th scope="col"><span class="unseen">${t('verbs')}</span></th></tr></thead>
    <tbody>${shown.map((sku) => html`<tr key=${sku.sku} data-sku=${sku.sku}>
      <th scope="row">${sku.sku}</th><td class="grow"><${Bar} of=${sku} /></td>
      ${PLACES.map((place) => html`<td key=${place} class="n" data-label=${t(place)}>${number(sku[place])}</td>`)}<td class="n total" data-label=${t('total')}>${number(sku.total)}</td>
      <td class="verbs"><${StockVerbs} sale=${sale} sku=${sku} /></td></tr>`)}</tbody></table></div>${pager}`;
}

function Attempts({ sale, groups, history }) {
  const attempts = attemptsOf(sale.id);
  if (!attempts || !groups.length) return null;
  const all = groups.reduce((sum, group) => sum + group.all, 0);
  const reserved = groups.find(({ id }) => id === 'reserved')?.all ?? 0;
  const facts = [
    `${t('withoutStore')} ${percent(Math.max(all - attempts.at_store, 0), all)}`,
    sale.ledger && `${t('withoutLedger')} ${percent(all - reserved, all)}`,
    attempts.p50_us !== undefined && `${t('answeredIn')} ${took(attempts.p50_us)} (p50), ${took(attempts.p99_us)} (p99)`,
  ].filter(Boolean);
  const cells = ({ rates, all: count }) => [latestOf(rates), Math.max(0, ...rates), count];
  return html`<p class="soft facts-line">${facts.join(' · ')}</p>
    <div class="scroll" role="region" tabindex="0" aria-label=${t('attempts')}><table class="attempts">
      <thead><tr>${['answer', 'perSecondNow', 'perSecondMost', 'inAll'].map((word, n) => html`<th key=${word} scope="col" class=${n ? 'n' : ''}>${t(word)}</th>`)}</tr></thead>
      <tbody>${groups.map((group) => html`<tr key=${group.id} data-answer=${group.id}>
        <th scope="row"><i class="line ${styleOf(group)} of-${group.name}"></i>${group.label}</th>
        ${cells(group).map((value, n) => html`<td key=${n} class="n">${number(Math.round(value))}</td>`)}</tr>`)}</tbody></table></div>
    <p class="soft">${t('attemptsOfThis')}${history ? '' : ` ${t('loading')}`}</p>`;
}

/** Admission rates of the slider, from 1 to 10,000 per second, in even logarithmic steps. */
const RATES = [...[1, 10, 100, 1000].flatMap((ten) => [1, 1.5, 2, 3, 4, 5, 6, 8].map((n) => Math.ceil(n * ten))), 10000]
  .filter((n, at, all) => n !== all[at - 1]);

/** A slider for the admission rate. The rate applies when the slider is released. */
function RateSlider({ id, room }) {
  const [held, hold] = useState(null);
  const [perSecond, at] = [room.rate.n * 1000 / room.rate.per_ms, held];
  const value = at ?? Math.max(0, RATES.findLastIndex((of) => of <= perSecond));
  const shown = at === null ? perSecond : RATES[at];
  const text = shown < 1 ? `${rate(60 * shown)}${t('perMin')}` : `${number(Number(shown.toPrecision(3)))}${t('perS')}`;
  const send = async (event) => {
    await carryOut(() => setRoom(id, RATES[event.target.value], room));
    hold(null);
  };
  return html`<label class="row rate">${t('rate')}
    <input type="range" min="0" max=${RATES.length - 1} step="1" value=${value} aria-label=${`${t('rate')}: ${id}`} aria-valuetext=${text}
      disabled=${!canAct()} onInput=${(event) => hold(Number(event.target.value))} onChange=${send} />
    <output>${text}</output></label>`;
}

function Room({ sale }) {
  const room = roomOf(sale.id);
  if (!room) return null;
  const waiting = waitingIn(room);
  return html`<${Card} title=${t('room')}>
    <${Facts} of=${[
    ['waitingNow', number(waiting)], ['waitNow', waiting ? spoken(waitIn(room)) : null], ['joined', number(room.joined)], ['served', number(room.served)],
    ['admissionTokens', number(room.admitted)], ['orderOfAdmission', t(room.order === 'draw' ? 'orderDraw' : 'orderFirst')],
    ['entrants', room.entrants === undefined ? null : number(room.entrants)],
    ['commitment', room.beacon === undefined && room.commitment ? html`<code>${room.commitment}</code>` : null], ['drawnBy', room.beacon],
  ]} />
    ${!isOver(sale) && html`<${RateSlider} id=${sale.id} room=${room} />`}<//>`;
}

const FAILED_MAX = 20;

/** How far the ledger is behind, and what it could not record. */
function Ledger({ sale }) {
  const { orders, seq } = sale;
  const { said } = usePolled(async () => (orders?.failed ? (await api('GET', `/v1/sales/${path(sale.id)}/orders/failed?limit=${FAILED_MAX}`)).items : []), [sale.id, orders?.failed], 2000);
  if (!orders) return null;
  const lag = lagOf(sale);
  return html`<${Card} title=${t('ledger')}>
    <p class="lag ${lag > LAG_LATE_US ? 'bad' : 'soft'}">${orders.behind_since_us === undefined ? t('noLag') : `${t('ledgerLag')} ${spoken(lag)}, ${number(seq - orders.through)} ${t('eventsBehind')}`}</p>
    ${orders.failed > 0 && html`<div class="failures"><p class="bad">${t('failedOrders')}: ${number(orders.failed)}</p>
      <ul>${(said ?? []).map((entry) => html`<li key=${entry.seq}>${t('failedOrder', entry.seq, entry.reason, number(entry.attempts), relative(entry.retry_at_us, now.value))}</li>`)}</ul></div>`}<//>`;
}

function Incidents({ id }) {
  const all = incidents.value.get(id) ?? [];
  if (!all.length) return null;
  return html`<${Card} title=${t('incidents')} class="incidents"><ul>${all.map(({ at, word, more }, n) => html`<li key=${all.length - n}>${clockTime(at)} ${t(word)}${more}</li>`)}</ul><//>`;
}

const EVENTS_MAX = 30;
const unitsOf = ({ units = [] }) => units.map(({ sku, first, last }) => `${sku} ${first === last ? first : `${first}–${last}`}`).join('; ');

/** The latest events of the sale, as they happen. */
function Tail({ sale }) {
  const [list, setList] = useState([]);
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      let after = Math.max(0, sale.seq - EVENTS_MAX);
      while (!stop.signal.aborted) {
        try {
          for await (const event of events(`/v1/sales/${path(sale.id)}/events?after=${after}`, stop.signal)) {
            after = event.seq;
            setList((old) => [event, ...old].slice(0, EVENTS_MAX));
          }
        } catch { /* it is opened again below */ }
        await new Promise((resolve) => { setTimeout(resolve, 1000); });
      }
    };
    read();
    return () => stop.abort();
  }, [sale.id]);
  return html`<details class="card tail"><summary><h2>${t('latestEvents')}</h2></summary>
    ${list.length ? html`<ol reversed>${list.map((event) => html`<li key=${event.seq}><span class="soft">${number(event.seq)} · ${clockTime(event.at_us / 1e6)}</span> ${t(`event_${event.kind}`)} ${unitsOf(event)}</li>`)}</ol>` : html`<${Nothing} word="nothing" />`}</details>`;
}

export function Sale({ sale: id }) {
  useTitle(id, t('sales'));
  const { isLoading, error } = useOthers('sales', [id]);
  const sale = saleOf(id);
  const window_s = windowOf();
  const history = useHistory('sale', id, window_s);
  if (!sale) return html`<h1>${id}</h1>${error ? html`<${Trouble} error=${error} />` : html`<${Nothing} word=${isLoading ? 'loading' : 'noSuchSale'} />`}`;
  const of = sums(sale);
  const groups = answersOf(history, attemptsOf(id)?.answers);
  const isNew = sale.status === 'created';
  return html`<article class="sale" data-sale=${id}>
    <div class="row head"><h1>${id}</h1><${Tag} kind=${stateOf(sale)}>${t(stateOf(sale))}<//><${AuditMark} sale=${sale} />
      <span class="row ends"><a class="button" href=${to('sales', id, 'drop')}>${t('dropView')}</a><a class="button" href=${`/shop/${path(id)}`}>${t('shop')}</a><${SaleVerbs} sale=${sale} /></span></div>
    <${Trouble} error=${error} />
    <p class="figures big"><b>${number(of.confirmed)}</b> / ${number(of.total)} ${t('soldUnits')} <span class="soft">(${percent(of.confirmed, of.total)})
      ${history && of.confirmed ? ` · ${rate(latestOf(risesOf(history, 'confirmed')))}${t('perS')}` : ''}</span></p>
    <p class="soft line">${[headline(sale), sale.generation > 1 && `${t('generation')} ${sale.generation}`].filter(Boolean).join(' · ')}</p>
    <${Card}><${Stock} sale=${sale} /><//>
    ${!isNew && html`<div class="row charts-head"><h2>${t('recently')}</h2><${Windows} /></div>
    <div class="grid two">
      <${Card} title=${t('stock')}><${StockChart} id=${id} history=${history} window_s=${window_s} /><//>
      <${Card} title=${t('attemptsPerSecond')}><${AttemptsChart} id=${id} history=${history} groups=${groups} window_s=${window_s} /><${Attempts} sale=${sale} groups=${groups} history=${history} /><//>
    </div>`}
    <div class="grid two"><${Room} sale=${sale} /><${Ledger} sale=${sale} /><${Incidents} id=${id} /><${Tail} sale=${sale} /></div>
  </article>`;
}
