// The screen of one sale: stock by SKU, charts on one time axis, attempts, ledger and incidents; its waiting room; its events.
import { html, useRef, useState } from '/page/vendor/preact.js';
import { api, clockTime, events, exactly, moment, number, path, percent, rate, relative, spoken, t, timed, took } from '/page/common.js';
import { answersOf, styleOf } from '/page/answers.js';
import { Chart } from '/page/chart.js';
import { carryOut } from '/page/dialogs.js';
import { Card, Copy, EVENTS_MAX, Facts, Nothing, Search, Table, Tag, Trouble, View, canAct, hasWords, paged, useOthers, usePolled, useTail, useTitle } from '/page/parts.js';
import { navigate, route, to, withQuery } from '/page/router.js';
import { AuditMark, Bar, PLACES, headline, sums } from '/page/sales.js';
import { LAG_LATE_US, attemptsOf, incidents, isFollowed, lagOf, latestOf, now, risesOf, roomOf, saleOf, useHistory, waitingIn } from '/page/state.js';
import { RoomVerbs, SaleVerbs, StockVerbs, isAdmitting, isOver, save, setRoom, stateOf, waitIn } from '/page/verbs.js';

const WINDOWS = ['300', '900', '3600', '14400'];
const windowOf = () => Number(WINDOWS.find((s) => s === route.value.query.get('window')) ?? 900);
const Windows = () => html`<nav class="views row" aria-label=${t('window')}>
  ${WINDOWS.map((s) => html`<${View} key=${s} query=${{ window: s === '900' ? null : s }} isCurrent=${String(windowOf()) === s}>${t(`window_${s}`)}<//>`)}</nav>`;

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
  const cells = ({ rates, all: count }) => [latestOf(history, rates), Math.max(0, ...rates), count];
  return html`<p class="soft facts-line">${facts.join(' · ')}</p>
    <div class="scroll" role="region" tabindex="0" aria-label=${t('attempts')}><table class="attempts">
      <thead><tr>${['answer', 'perSecondNow', 'perSecondMost', 'inAll'].map((word, n) => html`<th key=${word} scope="col" class=${n ? 'n' : ''}>${t(word)}</th>`)}</tr></thead>
      <tbody>${groups.map((group) => html`<tr key=${group.id} data-answer=${group.id}>
        <th scope="row"><i class="line ${styleOf(group)} of-${group.name}"></i>${group.label}</th>
        ${cells(group).map((value, n) => html`<td key=${n} class="n">${number(Math.round(value))}</td>`)}</tr>`)}</tbody></table></div>
    <p class="soft">${t('attemptsOfThis')}${history ? '' : ` ${t('loading')}`}</p>`;
}

const orderOf = ({ order }) => t(order === 'draw' ? 'orderDraw' : 'orderFirst');

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
    await carryOut(() => setRoom(id, { n: RATES[event.target.value], per_ms: 1000 }, room));
    hold(null);
  };
  return html`<label class="row rate">${t('rate')}
    <input type="range" min="0" max=${RATES.length - 1} step="1" value=${value} aria-label=${`${t('rate')}: ${id}`} aria-valuetext=${text}
      disabled=${!canAct()} onInput=${(event) => hold(Number(event.target.value))} onChange=${send} />
    <output>${text}</output></label>`;
}

/** The waiting room on the screen of its sale, with a link to the room's own. */
function RoomCard({ sale }) {
  const room = roomOf(sale.id);
  if (!room) return null;
  const waiting = waitingIn(room);
  return html`<${Card} title=${html`<a href=${to('sales', sale.id, 'room')}>${t('room')}</a>`}>
    <${Facts} of=${[['waitingNow', number(waiting)], ['waitNow', waiting && isAdmitting(room) ? spoken(waitIn(room)) : null], ['served', number(room.served)], ['orderOfAdmission', orderOf(room)]]} />
    ${!isOver(sale) && html`<${RateSlider} id=${sale.id} room=${room} />`}<//>`;
}

const FAILED_MAX = 20;

/** How far the ledger is behind, and what it could not record. */
function Ledger({ sale }) {
  const { orders, seq } = sale;
  const after = Number(route.value.query.get('failed')) || 0;
  const { said } = usePolled(() => (orders?.failed ? api('GET', `/v1/sales/${path(sale.id)}/orders/failed?${new URLSearchParams({ limit: FAILED_MAX, after })}`) : null), [sale.id, orders?.failed, after], 2000);
  if (!orders) return null;
  const lag = lagOf(sale);
  return html`<${Card} title=${t('ledger')}>
    <p class="lag ${lag > LAG_LATE_US ? 'bad' : 'soft'}">${orders.behind_since_us === undefined ? t('noLag') : `${t('ledgerLag')} ${spoken(lag)}, ${number(seq - orders.through)} ${t('eventsBehind')}`}</p>
    ${orders.failed > 0 && html`<div class="failures"><p class="bad">${t('failedOrders')}: ${number(orders.failed)}</p>
      <ul>${(said?.items ?? []).map((entry) => html`<li key=${entry.seq}>${t('failedOrder', entry.seq, entry.reason, number(entry.attempts), relative(entry.retry_at_us, now.value))}</li>`)}</ul>
      <nav class="pager row" aria-label=${t('failedOrders')}>${after > 0 && html`<a href=${withQuery({ failed: null })} rel="first">${t('firstPage')}</a>`}
        ${said?.next !== undefined && html`<a href=${withQuery({ failed: said.next })} rel="next">${t('nextPage')}</a>`}</nav></div>`}<//>`;
}

function Incidents({ id }) {
  const all = incidents.value.get(id) ?? [];
  if (!all.length) return null;
  return html`<${Card} title=${t('incidents')} class="incidents"><ul>${all.map(({ at, word, more }, n) => html`<li key=${all.length - n}>${clockTime(at)} ${t(word)}${more}</li>`)}</ul><//>`;
}

/** Stock and attempts of the sale, and what concerns them. */
function Overview({ sale, history, window_s }) {
  const groups = answersOf(history, attemptsOf(sale.id)?.answers);
  return html`<${Card}><${Stock} sale=${sale} /><//>
    ${sale.status !== 'created' && html`<div class="row charts-head"><h2>${t('recently')}</h2><${Windows} /></div>
    <div class="grid two">
      <${Card} title=${t('stock')}><${StockChart} id=${sale.id} history=${history} window_s=${window_s} /><//>
      <${Card} title=${t('attemptsPerSecond')}><${AttemptsChart} id=${sale.id} history=${history} groups=${groups} window_s=${window_s} /><${Attempts} sale=${sale} groups=${groups} history=${history} /><//>
    </div>`}
    <div class="grid two"><${RoomCard} sale=${sale} /><${Ledger} sale=${sale} /><${Incidents} id=${sale.id} /></div>`;
}

// ── The waiting room ────────────────────────────────────────────────────────────────────────────────────────────────

/** A text that operators publish. */
const Published = ({ text }) => html`<code>${text}</code> <${Copy} text=${() => text} />`;

/** The draw: what is published at each step, and its record for those who verify it. */
function Draw({ room }) {
  const { sale, entrants, entry_closed_us: closed, commitment, beacon, secret } = room;
  const step = beacon !== undefined ? 'drawn' : closed !== undefined ? 'closed' : 'open';
  return html`<${Card} title=${t('theDraw')} class="room draw" aside=${step === 'drawn' && html`<span class="row ends"><button type="button" onClick=${() => save(`draw-${sale}.json`, room)}>${t('saveRecord')}</button></span>`}>
    <p>${t(`draw_${step}`)}</p>
    ${step === 'drawn' && html`<p><code>rushgate sale draw verify FILE</code></p>`}
    <${Facts} of=${[
    ['entrants', entrants === undefined ? null : number(entrants)], ['entryClosed', closed && timed(closed, now.value)],
    ['commitment', commitment && html`<${Published} text=${commitment} />`], ['drawnBy', beacon && html`<${Published} text=${beacon} />`], ['secret', secret && html`<${Published} text=${secret} />`],
  ]} /><//>`;
}

function Room({ sale, history, window_s }) {
  const room = roomOf(sale.id);
  const verbs = html`<span class="row ends"><${RoomVerbs} sale=${sale} /></span>`;
  if (!room) return html`<${Card} title=${t('room')} aside=${verbs}><${Nothing} word=${isOver(sale) ? 'noRoomOver' : 'noRoom'} /><//>`;
  const waiting = waitingIn(room);
  return html`<${Card} title=${t('room')} class="room" aside=${verbs}>
      <${Facts} of=${[
    ['orderOfAdmission', orderOf(room)], ['waitingNow', number(waiting)], ['waitNow', waiting && isAdmitting(room) ? spoken(waitIn(room)) : null],
    ['joined', number(room.joined)], ['served', number(room.served)], ['admissionTokens', number(room.admitted)], ['tokenLifetime', exactly(room.pass_ms)],
    ['admitsFrom', room.from_us > now.value && timed(room.from_us, now.value)], ['roomOpened', timed(room.opened_us, now.value)],
  ]} />
      ${!isOver(sale) && html`<${RateSlider} id=${sale.id} room=${room} />`}<//>
    ${room.order === 'draw' && html`<${Draw} room=${room} />`}
    <div class="row charts-head"><h2>${t('recently')}</h2><${Windows} /></div>
    <${Card} title=${t('waitingNow')}><${Chart} label=${`${t('waitingNow')}: ${sale.id}`} window_s=${window_s}
      lines=${[{ label: t('waitingNow'), name: 'accent' }]} data=${history && [history.at_ms, history.gauges.waiting]} /><//>`;
}

// ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Events that a filter reads at most, and those in its first and in each later request. */
const SCAN_MAX = 100000;
const [READ_FIRST, READ] = [1000, 10000];
const PROBLEMS = ['rejected', 'quarantined', 'halted'];
/** Ranges of units that a row shows. */
const RANGES_MAX = 10;

const rangesOf = ({ units = [] }) => units.map(({ sku, first, last }) => `${sku} ${first === last ? first : `${first}–${last}`}`);

function unitsOf(event) {
  const ranges = rangesOf(event);
  return `${ranges.slice(0, RANGES_MAX).join('; ') || '–'}${ranges.length > RANGES_MAX ? `; ${t('andMore', number(ranges.length - RANGES_MAX))}` : ''}`;
}

/** Reads the events after the number `after` up to `last`, oldest first. Events are numbered without gaps. */
async function readEvents(url, after, last) {
  const list = [];
  if (last <= after) return list;
  for await (const event of events(`${url}?after=${after}`)) {
    list.push(event);
    if (event.seq >= last) return list;
  }
  throw new Error('the stream has ended early');
}

/**
 * Reads events from the number `last` down, until `EVENTS_MAX` are wanted or `SCAN_MAX` were read. Returns those found, newest
 * first, how many were read, and the number of the next one to read, which is 0 after the first event. `progress` gets what was
 * found so far.
 */
async function findEvents(url, last, isWanted, progress) {
  const found = [];
  for (let [next, size] = [last, isWanted ? READ_FIRST : EVENTS_MAX]; ; size = Math.min(READ, SCAN_MAX - last + next)) {
    const batch = await readEvents(url, Math.max(0, next - size), next);
    for (const event of batch.reverse()) {
      next = event.seq - 1;
      if (!isWanted || isWanted(event)) found.push(event);
      if (found.length === EVENTS_MAX) break;
    }
    const answer = { found: [...found], read: last - next, next };
    if (!batch.length || !next || found.length === EVENTS_MAX || answer.read >= SCAN_MAX) return answer;
    progress({ ...answer, isPartial: true });
  }
}

/** The events up to the number `last`, newest first; with `isLive` also later ones, as they happen. */
function EventList({ sale, last, isLive, filter, seen }) {
  const url = `/v1/sales/${path(sale.id)}/events`;
  const [from] = useState(last);
  const isFiltered = Boolean(filter.trim());
  const matches = hasWords(filter);
  const isWanted = (event) => matches(`${t(`event_${event.kind}`)} ${event.reservation ?? ''} ${rangesOf(event).join(' ')}`);
  // Events do not change: they are read once.
  const kept = useRef();
  const { said, error } = usePolled(async (early) => (kept.current ??= await findEvents(url, from, isFiltered ? isWanted : null, early)), [], 1000);
  const fresh = useTail(url, from, isWanted, isLive);
  const list = [...fresh, ...(said?.found ?? [])].slice(0, EVENTS_MAX);
  // The tail is ahead of the snapshot.
  seen.current = Math.max(seen.current, sale.seq, list[0]?.seq ?? 0);
  const latest = seen.current;
  const older = list.length === EVENTS_MAX ? list.at(-1).seq - 1 : said?.next ?? 0;
  const eventsOf = ({ seq, reservation }) => withQuery({ q: reservation, before: latest - seq < SCAN_MAX / 2 ? null : seq + SCAN_MAX / 2 });
  const rows = list.map((event) => ({
    key: event.seq, class: PROBLEMS.includes(event.kind) ? 'refused' : '',
    cells: [number(event.seq), moment(event.at_us), t(`event_${event.kind}`), unitsOf(event),
      event.reservation ? html`<a class="reservation" href=${eventsOf(event)}><code>${event.reservation}</code></a>` : '–'],
  }));
  const shown = list.length ? t('eventsOf', number(list.at(-1).seq), number(list[0].seq), number(latest)) : '';
  const count = said && (isFiltered ? `${t('found', `${number(list.length)}${older || said.isPartial ? '+' : ''}`)} · ${t('scanned', number(said.read))}` : shown);
  const newer = from + EVENTS_MAX;
  return html`<div class="row found"><span class="soft count" role=${isLive && !isFiltered ? undefined : 'status'}>${count}</span>
      <span class="row ends"><a class="button small" href=${withQuery({ before: isLive ? latest + 1 : null })}>${t(isLive ? 'stopFollowing' : 'follow')}</a></span></div>
    <${Trouble} error=${error} />
    ${rows.length ? html`<div class="card"><${Table} heads=${[['eventNumber', 'n'], ['when'], ['event'], ['unitNumbers', 'wrap'], ['reservation']]} rows=${rows} label=${t('events')} class="events" /></div>`
    : !error && (said && !said.isPartial ? html`<${Nothing} word="nothing" />` : html`<p class="soft">${t('loading')}</p>`)}
    <nav class="pager row" aria-label=${t('pages')}>
      ${!isLive && html`<a href=${withQuery({ before: null })} rel="first">${t('latestEvents')}</a>`}
      ${!isLive && !isFiltered && html`<a href=${withQuery({ before: newer < latest ? newer + 1 : null })} rel="prev">${t('newerEvents')}</a>`}
      ${older > 0 && html`<a href=${withQuery({ before: older + 1 })} rel="next">${t('olderEvents')}</a>`}
      ${older > EVENTS_MAX && !isFiltered && html`<a href=${withQuery({ before: EVENTS_MAX + 1 })} rel="last">${t('firstEvents')}</a>`}</nav>`;
}

/** The event log of the sale: the latest events as they happen, or those before the number in the URL. A rebuild starts another log. */
function Events({ sale }) {
  const { query } = route.value;
  const filter = query.get('q') ?? '';
  const before = Number(query.get('before')) || null;
  /** The number of the latest event that the page knows. */
  const seen = useRef(sale.seq);
  const go = ({ target }) => target.value && navigate(withQuery({ q: null, before: Math.max(1, Number(target.value)) + 1 }));
  return html`<div class="row found"><${Search} label=${t('filterSaleEvents')} />
      <label class="row">${t('goToEvent')} <input type="number" class="number" name="seq" min="1" max=${sale.seq} step="1" onChange=${go} /></label>
    </div>
    <${EventList} key=${`${before} ${filter}`} sale=${sale} last=${before ? Math.min(before - 1, Math.max(sale.seq, seen.current)) : sale.seq} isLive=${!before} filter=${filter} seen=${seen} />`;
}

// ── The screen ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** The views of a sale, and the word of each. */
const VIEWS = { sale: [Overview, 'overview'], room: [Room, 'room'], saleEvents: [Events, 'events'] };

export function Sale({ sale: id }) {
  const { screen } = route.value;
  const [Shown, word] = VIEWS[screen];
  useTitle(...(screen === 'sale' ? [] : [t(word)]), id, t('sales'));
  const { isLoading, error } = useOthers('sales', [id]);
  const sale = saleOf(id);
  const window_s = windowOf();
  const history = useHistory('sale', id, window_s);
  if (!sale) return html`<h1>${id}</h1>${error ? html`<${Trouble} error=${error} />` : html`<${Nothing} word=${isLoading ? 'loading' : 'noSuchSale'} />`}`;
  const of = sums(sale);
  const room = roomOf(id);
  const tab = (view, url, n) => html`<a class="view" href=${url} aria-current=${screen === view ? 'page' : undefined}>${t(VIEWS[view][1])}${n === undefined ? '' : ` ${number(n)}`}</a>`;
  return html`<article class="sale" data-sale=${id}>
    <div class="row head"><h1>${id}</h1><${Tag} kind=${stateOf(sale)}>${t(stateOf(sale))}<//><${AuditMark} sale=${sale} />
      <span class="row ends"><a class="button" href=${to('sales', id, 'drop')}>${t('dropView')}</a><a class="button" href=${`/shop/${path(id)}`}>${t('shop')}</a><${SaleVerbs} sale=${sale} /></span></div>
    <${Trouble} error=${error} />
    <p class="figures big"><b>${number(of.confirmed)}</b> / ${number(of.total)} ${t('soldUnits')} <span class="soft">(${percent(of.confirmed, of.total)})
      ${history && of.confirmed ? ` · ${rate(latestOf(history, risesOf(history, 'confirmed')))}${t('perS')}` : ''}</span></p>
    <p class="soft line">${[headline(sale), sale.generation > 1 && `${t('generation')} ${sale.generation}`].filter(Boolean).join(' · ')}</p>
    <nav class="views row" data-tabs aria-label=${t('views')}>${tab('sale', to('sales', id))}${tab('room', to('sales', id, 'room'), room && waitingIn(room))}${tab('saleEvents', to('sales', id, 'events'), sale.seq)}</nav>
    <${Shown} key=${`${screen} ${sale.generation}`} sale=${sale} history=${history} window_s=${window_s} />
  </article>`;
}
