// Verbs on sales: only those that apply, with what they will do in figures.
import { html } from '/page/vendor/preact.js';
import { api, number, path, percent, randomId, standing, t } from '/page/common.js';
import { Verb, ask } from '/page/dialogs.js';
import { Menu } from '/page/parts.js';
import { attemptsOf, auditSale, now, roomOf, sumOf, waitingIn } from '/page/state.js';

/** The status of a sale, as a word: `stopped` if it is halted. */
export const stateOf = (sale) => (sale.halted ? 'stopped' : standing(sale, sale.now_us));
export const isOver = (sale) => ['over', 'ended'].includes(standing(sale, sale.now_us));

/** The estimated wait of the last buyer in a waiting room, in microseconds. */
const isDrawn = ({ order, beacon }) => order !== 'draw' || beacon !== undefined;
/** Whether the front of the line moves: not before a draw, nor before the time that was set. */
export const isAdmitting = (room) => isDrawn(room) && !(room.from_us > now.value);
export const waitIn = ({ rate: { n, per_ms: ms }, ...room }) => 1000 * ms * waitingIn(room) / n;

const post = (id, word, body = {}) => api('POST', `/v1/sales/${path(id)}/${word}`, { body });

/** Saves a value as a JSON file. */
export function save(name, value) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: 'application/json' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Audits a sale now, shows every check, and offers the result as a file. */
async function audit(sale) {
  const { ok, checks } = await auditSale(sale.id);
  const rows = checks.map((check) => html`<tr key=${check.claim}><td class=${check.ok ? 'good' : 'bad'}>${check.ok ? '✓' : '✗'}</td>
    <td class="wrap">${check.claim}</td><td class="wrap">${check.figures}</td></tr>`);
  const answer = await ask({
    title: `${t('doAudit')}: ${sale.id}`, verb: t('download'), danger: false,
    says: [html`<b class=${ok ? 'good' : 'bad'}>${t(ok ? 'auditHolds' : 'auditFails')}</b>`, html`<table class="checks"><tbody>${rows}</tbody></table>`],
  });
  if (answer) save(`audit-${sale.id}.json`, { sale, audit: { ok, checks }, at: new Date().toISOString() });
}

const AuditButton = ({ sale }) => html`<button type="button" onClick=${() => audit(sale)}>${t('doAudit')}</button>`;

/** Opens a waiting room, or changes its admission rate. The order is fixed when the room opens. */
function RoomVerb({ sale }) {
  const room = roomOf(sale.id);
  const fields = [
    { name: 'n', label: t('buyersAdmitted'), max: 1000000, value: room?.rate.n ?? 50 },
    { name: 'per_ms', label: t('everyMs'), max: 86400000, value: room?.rate.per_ms ?? 1000 },
    ...(room ? [] : [{ name: 'draw', kind: 'check', label: t('byDraw') }]),
  ];
  const work = ({ n, per_ms: ms, draw }) => setRoom(sale.id, { n, per_ms: ms }, draw ? { order: 'draw' } : room);
  return html`<${Verb} word=${room ? 'doRate' : 'doRoom'} title=${sale.id} fields=${fields} work=${work}
    says=${() => t(room ? 'rateSays' : 'roomSays')} />`;
}

export const setRoom = (id, rate, { order } = {}) =>
  api('PUT', `/v1/sales/${path(id)}/room`, { body: { rate, ...(order && { order }) } });

/** The verbs of a sale's waiting room. Without a room: the one that opens it. */
export function RoomVerbs({ sale }) {
  const room = roomOf(sale.id);
  const { id } = sale;
  const waiting = room && waitingIn(room);
  const isDraw = room?.order === 'draw' && room.beacon === undefined;
  return html`
    ${!isOver(sale) && html`<${RoomVerb} sale=${sale} />`}
    ${isDraw && room.entry_closed_us === undefined && html`<${Verb} key="close-entry" word="doCloseEntry" title=${id} danger typed=${id}
      says=${() => [t('joinedSoFar', number(room.joined)), t('closeEntrySays'), t('final')]} work=${() => post(id, 'room/close-entry')} />`}
    ${isDraw && room.entry_closed_us !== undefined && html`<${Verb} key="draw" word="doDraw" title=${id} danger typed=${id}
      says=${() => [t('takePartInDraw', number(room.entrants)), t('drawSays'), t('final')]}
      fields=${[{ name: 'beacon', kind: 'text', label: t('beacon') }]} work=${({ beacon }) => post(id, 'room/draw', { beacon })} />`}
    ${room && html`<${Verb} key="close" word="doCloseRoom" title=${id} danger typed=${id}
      says=${() => [t('closeRoomSays', number(waiting)), t('final')]} work=${() => api('DELETE', `/v1/sales/${path(id)}/room`)} />`}`;
}

/** What happens to the units of a sale if it ends now. */
const endSays = (sale) => [
  t('endSays'), t('endFree', number(sumOf(sale, 'free')), percent(sumOf(sale, 'free'), sumOf(sale, 'total'))), t('endHeld', number(sumOf(sale, 'held'))), t('final'),
];

/** The verbs of a sale: the usual ones as buttons, the others in a menu. */
export function SaleVerbs({ sale }) {
  const { id } = sale;
  const canHalt = sale.ledger && !sale.halted && sale.status !== 'ended' && sale.status !== 'created';
  const attempts = Object.values(attemptsOf(id)?.answers ?? {}).reduce((sum, n) => sum + n, 0);
  return html`
    ${sale.status === 'created' && html`<${Verb} word="doOpen" title=${id} primary work=${() => post(id, 'open')}
      says=${() => t('openSays', number(sumOf(sale, 'total')), number(sale.skus.length))} />`}
    ${sale.ledger && sale.halted && html`<${Verb} word="doRebuild" title=${id} primary work=${() => post(id, 'rebuild')}
      says=${() => t('rebuildSays', number(sumOf(sale, 'held')))} />`}
    ${sale.orders?.failed > 0 && html`<${Verb} word="doRetry" title=${id} work=${() => post(id, 'orders/retry')}
      says=${() => t('retrySays', number(sale.orders.failed))} />`}
    <${AuditButton} sale=${sale} />
    <${Menu} label=${t('moreVerbs', id)}>
      ${canHalt && html`<${Verb} key="halt" word="doHalt" title=${id} danger work=${() => post(id, 'halt')}
        says=${() => [t('haltSays', number(sumOf(sale, 'held'))), attempts ? t('haltAttempts', number(attempts)) : null]} />`}
      ${sale.status !== 'ended' && html`<${Verb} key="end" word="doEnd" title=${id} danger typed=${id} says=${() => endSays(sale)}
        work=${() => post(id, 'end')} />`}
    <//>`;
}

/** Stock verbs of one SKU. They need a sale that still sells. */
export function StockVerbs({ sale, sku }) {
  if (isOver(sale) || sale.halted) return null;
  const title = `${sale.id}, ${sku.sku}`;
  const change = (word) => ({ n }) => api('POST', `/v1/sales/${path(sale.id)}/stock`, {
    body: { sku: sku.sku, [word]: n }, more: { 'idempotency-key': randomId() },
  });
  return html`<${Menu} label=${t('moreVerbs', title)}>
    <${Verb} word="doAdd" title=${title} fields=${[{ name: 'n', label: t('units'), max: 10000000 }]} work=${change('add')}
      says=${() => t('addSays', number(sku.total), number(sku.free))} />
    ${sku.free > 0 && html`<${Verb} word="doWithdraw" title=${title} danger typed=${sku.sku} work=${change('withdraw')}
      fields=${[{ name: 'n', label: t('units'), max: sku.free }]} says=${() => [t('withdrawSays', number(sku.free)), t('final')]} />`}
  <//>`;
}
