// Reservation attempts by answer, grouped as an operator thinks of them.
import { t } from '/page/common.js';
import { ratesOf } from '/page/state.js';

const SOLID = undefined;
const DASHED = [8, 4];
const DOTTED = [2, 3];

/** One line per group of answers that mean the same to an operator. The last group takes all other refusals. */
const LINES = [
  ['reserved', ['reserved'], 'sold', SOLID],
  ['replayed', ['replayed'], 'sold', DOTTED],
  ['sold_out', ['sold_out'], 'soft', SOLID],
  ['all_held', ['all_held'], 'held', SOLID],
  ['limit_reached', ['limit_reached'], 'held', DOTTED],
  ['no_pass', ['pass_needed', 'pass_expired', 'pass_refused', 'proof_needed', 'proof_refused'], 'accent', DASHED],
  ['too_many', ['too_many'], 'accent', DOTTED],
  ['closed', ['sale_not_open', 'sale_ended'], 'soft', DASHED],
  ['away', ['sale_halted', 'unavailable', 'outcome_unknown', 'check_unavailable', 'closing', 'full', 'request_timeout'], 'bad', SOLID],
  ['refused', [], 'bad', DOTTED],
].map(([id, codes, name, dash]) => ({ id, codes, name, dash }));

const groupOf = (code) => LINES.find(({ codes }) => codes.includes(code)) ?? LINES.at(-1);

/** The groups that have come in this history or since the server started, with rates, and how many in all. */
export function answersOf(history, answers = {}) {
  const groups = new Map();
  for (const code of new Set([...Object.keys(history?.counts ?? {}), ...Object.keys(answers)])) {
    const line = groupOf(code);
    const group = groups.get(line) ?? { codes: [], all: 0 };
    group.codes.push(code);
    group.all += answers[code] ?? 0;
    groups.set(line, group);
  }
  return LINES.filter((line) => groups.has(line)).map((line) => ({
    ...line, label: t(`answer_${line.id}`), all: groups.get(line).all, rates: history ? ratesOf(history, groups.get(line).codes) : [],
  }));
}

/** The style of a line's sample in a legend. */
export const styleOf = ({ dash }) => (dash === DASHED ? 'dashed' : dash === DOTTED ? 'dotted' : 'solid');
