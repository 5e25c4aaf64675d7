// Reservation attempts by answer: rate, total, latency, and how many reached the store and the ledger.
import { h, number, say, spoken, t } from '/page/common.js';
import { draw } from '/page/chart.js';

const HISTORY_MAX = 900;
/** The current rate is the average over this many snapshots. The server sends one per second. */
const NOW = 5;

const SOLID = undefined;
const DASHED = [8, 4];
const DOTTED = [2, 3];

/** One line per group of answers that mean the same to an operator. The last group takes all other refusals. */
const LINES = [
  ['reserved', ['reserved'], 'confirmed', SOLID],
  ['replayed', ['replayed'], 'confirmed', DOTTED],
  ['sold_out', ['sold_out'], 'soft', SOLID],
  ['all_held', ['all_held'], 'held', SOLID],
  ['limit_reached', ['limit_reached'], 'held', DOTTED],
  ['no_pass', ['pass_needed', 'pass_expired', 'pass_refused', 'proof_needed', 'proof_refused'], 'accent', SOLID],
  ['too_many', ['too_many'], 'accent', DOTTED],
  ['closed', ['sale_not_open', 'sale_ended'], 'soft', DASHED],
  ['away', ['sale_halted', 'unavailable', 'outcome_unknown', 'check_unavailable', 'closing', 'full', 'request_timeout'], 'bad', SOLID],
  ['refused', [], 'bad', DOTTED],
].map(([id, codes, name, dash]) => ({ id, word: `answer_${id}`, codes, name, dash }));

/** Counts per line. */
function counted(answers) {
  const counts = LINES.map(() => 0);
  for (const [code, n] of Object.entries(answers)) {
    const line = LINES.findIndex(({ codes }) => codes.includes(code));
    counts[line < 0 ? LINES.length - 1 : line] += n;
  }
  return counts;
}

const past = new Map(); // sale → { us, counts, rates: [seconds[], …] }

/** Records the counts of a snapshot. After a restart a server counts from zero, so lower counts start over. */
export function rememberAttempts({ counted_us: us, attempts, sales }) {
  for (const { id } of sales) {
    const counts = counted(attempts.find(({ sale }) => sale === id)?.answers ?? {});
    const before = past.get(id);
    const rates = before?.rates ?? [[], ...LINES.map(() => [])];
    if (before && us > before.us) {
      const restarted = counts.some((n, line) => n < before.counts[line]);
      const rate = (n, line) => (n - (restarted ? 0 : before.counts[line])) * 1e6 / (us - before.us);
      [us / 1e6, ...counts.map(rate)].forEach((value, n) => {
        rates[n].push(value);
        if (rates[n].length > HISTORY_MAX) rates[n].shift();
      });
    }
    past.set(id, { us, counts, rates });
  }
}

/** Latencies are shown in milliseconds below one second. */
const took = (us) => (us < 1e6 ? `${number(Number((us / 1e3).toPrecision(2)))} ms` : spoken(us));

/** Rounds down, so that only a full share reads 100 %. */
const percent = (part, all) => `${number(Math.floor(1000 * part / all) / 10)} %`;

/** The table and the chart of a sale. */
export function makeAttempts(id) {
  const body = h('tbody');
  const facts = h('p', { class: 'soft facts' });
  const chart = h('div', { class: 'chart', role: 'img', 'aria-label': `${t('attempts')}: ${id}` });
  const heads = [t('answer'), t('perSecondNow'), t('perSecondMost'), t('inAll')];
  const element = h('section', { class: 'attempts', hidden: true },
    h('h3', {}, t('attempts')), facts, chart,
    h('div', { class: 'scroll' }, h('table', {},
      h('thead', {}, h('tr', {}, heads.map((text, n) => h('th', { class: n ? 'n' : '', scope: 'col' }, text)))), body)),
    h('p', { class: 'soft' }, t('attemptsOfThis')));
  const rows = new Map();
  let plot = null;
  let drawn = '';

  const rowOf = ({ id: line, word, name, dash }) => {
    if (!rows.has(line)) {
      const style = dash === DASHED ? 'dashed' : dash === DOTTED ? 'dotted' : 'solid';
      const cells = [1, 2, 3].map(() => h('td', { class: 'n' }));
      const head = h('th', { scope: 'row' }, h('i', { class: `line ${style} of-${name}` }), t(word));
      rows.set(line, { cells, row: h('tr', { 'data-answer': line }, head, cells) });
    }
    return rows.get(line);
  };

  const update = (sale, attempts) => {
    element.hidden = !attempts;
    if (!attempts) return;
    const { counts, rates } = past.get(sale.id);
    const shown = LINES.map((line, n) => ({ line, n })).filter(({ n }) => counts[n] || rates[n + 1].some(Boolean));
    shown.forEach(({ line, n }, place) => {
      const { cells, row } = rowOf(line);
      const latest = rates[n + 1].slice(-NOW);
      const now = latest.reduce((sum, rate) => sum + rate, 0) / Math.max(latest.length, 1);
      const most = rates[n + 1].reduce((top, rate) => Math.max(top, rate), 0);
      [now, most, counts[n]].forEach((value, cell) => say(cells[cell], number(Math.round(value))));
      if (body.children[place] !== row) body.insertBefore(row, body.children[place] ?? null);
    });
    while (body.children.length > shown.length) body.lastChild.remove();

    const all = counts.reduce((sum, n) => sum + n, 0);
    const lines = [`${t('withoutStore')} ${percent(Math.max(all - attempts.at_store, 0), all)}`];
    if (sale.ledger) lines.push(`${t('withoutLedger')} ${percent(all - counts[0], all)}`);
    if (attempts.p50_us !== undefined) lines.push(`${t('answeredIn')} ${took(attempts.p50_us)} (p50), ${took(attempts.p99_us)} (p99)`);
    say(facts, lines.join(' · '));

    const these = shown.map(({ line }) => line.id).join();
    if (these !== drawn) { plot?.destroy(); plot = null; drawn = these; }
    plot = draw(plot, chart, [rates[0], ...shown.map(({ n }) => rates[n + 1])], shown.map(({ line }) => line));
  };
  return { element, update };
}
