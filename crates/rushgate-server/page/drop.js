// The drop view of a sale: full screen, for a wall. Large figures, and an alarm that cannot be missed.
import { html, useEffect, useState } from '/page/vendor/preact.js';
import { api, clockTime, countdown, number, path, percent, rate, spoken, t } from '/page/common.js';
import { answersOf } from '/page/answers.js';
import { Tag, Trouble, useOthers, useTitle } from '/page/parts.js';
import { to } from '/page/router.js';
import { AttemptsChart, StockChart } from '/page/sale.js';
import { Bar, sums } from '/page/sales.js';
import { attemptsOf, audits, connection, isFollowed, isStale, lagOf, latestOf, now, risesOf, roomOf, saleOf, useHistory, waitingIn } from '/page/state.js';
import { isAdmitting, stateOf, waitIn } from '/page/verbs.js';

const WINDOW_S = 600;
/** A ledger this far behind is an alarm, in microseconds. */
const LAG_MAX = 15e6;

/** What is wrong, most urgent first. */
function alarmsOf(sale) {
  const audit = audits.value.get(sale.id);
  const lag = lagOf(sale);
  return [
    !connection.value.on && t(connection.value.isStoreDown ? 'alarmStore' : 'alarmAway', clockTime(connection.value.since / 1000)),
    audit && !audit.ok && t('alarmAudit', clockTime(audit.at)),
    sale.halted && t(`halted_${sale.halted.reason}`),
    lag > LAG_MAX && t('alarmLedger', spoken(lag)),
    sale.orders?.failed > 0 && `${t('failedOrders')}: ${number(sale.orders.failed)}`,
  ].filter(Boolean);
}

/** When the sale opened, and when it was sold out; read again when its state changes, and after a time without connection. */
function useMoments(id, state) {
  const [moments, setMoments] = useState({});
  useEffect(() => {
    let isOver = false;
    api('GET', `/v1/sales/${path(id)}/history?window_s=1&points=2`).then((said) => { if (!isOver) setMoments(said); }, () => {});
    return () => { isOver = true; };
  }, [id, state, connection.value.on]);
  return moments;
}

const Figure = ({ word, value, more, kind = '' }) => html`<div class="figure ${kind}" data-figure=${word}><dt>${t(word)}</dt><dd><b style=${{ '--letters': String(value).length }}>${value}</b>${more && html` <span>${more}</span>`}</dd></div>`;

function auditText(sale) {
  const audit = audits.value.get(sale.id);
  if (!audit) return ['–', ''];
  if (isStale(audit, sale)) return [t('unknown'), `${t('auditAway')} ${clockTime(audit.at)}`];
  return [t(audit.ok ? 'auditPassed' : 'auditFailed'), clockTime(audit.at)];
}

export function Drop({ sale: id }) {
  useTitle(id, t('dropView'));
  const { isLoading, error } = useOthers('sales', [id]);
  const sale = saleOf(id);
  const history = useHistory('sale', id, WINDOW_S);
  const state = sale && stateOf(sale);
  const { opened_us: opened, sold_out_us: soldOut } = useMoments(id, state);
  if (!sale) return html`<h1>${id}</h1>${error ? html`<${Trouble} error=${error} />` : html`<p>${t(isLoading ? 'loading' : 'noSuchSale')}</p>`}`;
  const of = sums(sale);
  const groups = answersOf(history, attemptsOf(id)?.answers);
  const demand = groups.reduce((sum, { rates }) => sum + latestOf(history, rates), 0);
  const room = roomOf(id);
  const waiting = room ? waitingIn(room) : 0;
  const lag = lagOf(sale);
  const alarms = alarmsOf(sale);
  const [audit, auditAt] = auditText(sale);
  const full = () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
  // The charts take what the figures leave of the screen.
  const chart = { height: Math.max(170, Math.round(innerHeight * 0.36) - 30), size: innerHeight > 900 ? 16 : 12, window_s: WINDOW_S };
  const opens = sale.opens_at_us > sale.now_us ? sale.opens_at_us : null;
  return html`<article class="drop ${alarms.length ? 'alarmed' : ''}">
    ${alarms.length > 0 && html`<div class="alarm" role="alert">${alarms.map((text) => html`<p key=${text}>${text}</p>`)}</div>`}
    <div class="row head"><h1>${id}</h1><${Tag} kind=${state}>${t(state)}<//>
      <span class="row ends"><a class="button" href=${to('sales', id)}>${t('leaveDrop')}</a><button type="button" onClick=${full}>${t('fullScreen')}</button></span></div>
    <${Trouble} error=${error} />
    <p class="sold"><b>${number(of.confirmed)}</b><span> / ${number(of.total)} ${t('soldUnits')} · ${percent(of.confirmed, of.total)}</span></p>
    <${Bar} of=${of} />
    <dl class="drop-figures">
      <${Figure} word="held" value=${number(of.held)} more=${sale.next_expiry_us > sale.now_us ? `${t('nextExpiryIn')} ${countdown(sale.next_expiry_us - sale.now_us)}` : ''} />
      <${Figure} word="free" value=${number(of.free)} />
      <${Figure} word="unitsPerSecond" value=${history ? rate(latestOf(history, risesOf(history, 'confirmed'))) : '–'} />
      <${Figure} word="attemptsPerSecondNow" value=${isFollowed('sale', id) ? rate(demand) : '–'} />
      ${opens ? html`<${Figure} word="opensIn" value=${countdown(opens - now.value)} />`
    : html`<${Figure} word="sinceOpening" value=${opened ? countdown((soldOut ?? now.value) - opened) : '–'} more=${opened ? t('openedAt', clockTime(opened / 1e6)) : ''} />`}
      <${Figure} word="soldOutAt" value=${soldOut ? clockTime(soldOut / 1e6) : '–'} />
      ${room && html`<${Figure} word="waitingNow" value=${number(waiting)} more=${waiting && isAdmitting(room) ? `${t('waitNow')}: ${spoken(waitIn(room))}` : ''} />`}
      ${sale.orders && html`<${Figure} word="lagOfLedger" value=${lag ? spoken(lag) : t('none')} kind=${lag > LAG_MAX ? 'bad' : ''} />`}
      <${Figure} word="doAudit" value=${audit} more=${auditAt} kind=${audits.value.get(id)?.ok === false ? 'bad' : ''} />
    </dl>
    <div class="grid two drop-charts">
      <div><h2>${t('stock')}</h2><${StockChart} id=${id} history=${history} ...${chart} /></div>
      <div><h2>${t('attemptsPerSecond')}</h2><${AttemptsChart} id=${id} history=${history} groups=${groups} ...${chart} /></div>
    </div>
  </article>`;
}
