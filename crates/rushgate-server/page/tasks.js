// The detail of one task: facts, why it is not running, history and payload.
import { Problem, api, h, moment, number, path, relative, say, spoken, t } from '/page/common.js';
import { openDetail } from '/page/dialogs.js';
import { itemize, part, someOf, tellFacts, timed } from '/page/lists.js';
import { serverNow } from '/page/snapshot.js';

/** The greatest ID below all IDs with this prefix, because lists are sorted by ID. */
export function justBefore(prefix) {
  const letters = [...prefix];
  const last = letters.pop()?.codePointAt(0);
  // The prefix with its last character lowered by one, followed by the highest code point.
  return last ? `${letters.join('')}${String.fromCodePoint(last === 0xe000 ? 0xd7ff : last - 1)}\u{10ffff}` : '';
}

export function stateOf({ state: word, cancelled, progress }) {
  const percent = progress?.percent === undefined ? '' : ` ${progress.percent} %`;
  return `${t(word)}${percent}${cancelled ? `, ${t('toBeCancelled')}` : ''}`;
}

const CONTENT_MAX = 20000;

/** A payload as text: JSON, other text, or base64. Long texts are truncated. */
function textOf({ payload, payload_base64: base64, content_type: type }) {
  const isText = type.startsWith('text/') && payload !== undefined;
  const text = isText ? payload : payload === undefined ? decoded(base64 ?? '') : JSON.stringify(payload, null, 2);
  return text.length <= CONTENT_MAX ? text : `${text.slice(0, CONTENT_MAX)} … ${t('cut', number(text.length))}`;
}

function decoded(base64) {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
  } catch {
    return base64;
  }
}

async function findLive({ base }, id) {
  try {
    return await api('GET', `${base}/tasks/${path(id)}`);
  } catch (error) {
    if (error instanceof Problem && ['not_found', 'dead'].includes(error.code)) return null;
    throw error;
  }
}

async function findDead({ base }, id) {
  const { items: [letter] } = await api('GET', `${base}/dead?${new URLSearchParams({ limit: 1, after: justBefore(id) })}`);
  return letter?.id === id ? { ...letter, state: 'dead', attempt: letter.attempts } : null;
}

const factsOf = (task, now) => [
  ['state', stateOf(task)],
  ['tried', `${task.attempt}/${task.max_attempts}`],
  ['due', timed(task.not_before_us ?? task.due_us, now)],
  ['deadline', timed(task.deadline_us, now)],
  ['worker', task.worker],
  ['leaseLeft', task.lease_until_us && spoken(task.lease_until_us - now)],
  ['progress', task.progress?.note],
  ['replacement', task.replaced ? t('waitsBehind') : null],
  ['error', task.error],
  ['key', task.key],
  ['priority', task.priority],
  ['kind', task.kind],
  ['contentType', task.content_type],
  ['revision', task.revision],
];

/** The history of a task: one line per run, then its current state. */
function timelineOf(task, now) {
  const runs = task.past.map(({ attempt, began_us: from, ended_us: to, how, worker, error }) =>
    `${moment(from)} · ${t('attempt', attempt)} · ${worker} · ${t('after', t(`run_${how}`), spoken(to - from))}${error ? `: ${error}` : ''}`);
  if (task.state === 'leased') runs.push(`${t('attempt', task.attempt)} · ${task.worker} · ${t('leased')}`);
  if (task.finished) runs.push(`${timed(task.finished.at_us, now)} · ${[task.worker, t(`end_${task.finished.how}`)].filter(Boolean).join(' · ')}`);
  if (task.state === 'dead') runs.push(`${timed(task.died_us, now)} · ${t('givenUp', task.attempts)}: ${task.error}`);
  return runs;
}

const runsOf = (running) => someOf(running.map(({ id, worker }) => `${id} (${worker})`));

/** Texts for the reasons why a task is not running. */
const WHY = {
  paused: () => [t('why_paused')],
  not_due: ({ wait_ms: wait }) => [t('why_not_due', spoken(1000 * wait))],
  queue_busy: ({ concurrency, running }) => [t('why_queue_busy', number(concurrency), runsOf(running))],
  rate_limited: ({ key, wait_ms: wait }) => [key === null ? t('why_rate', spoken(1000 * wait)) : t('why_key_rate', key, spoken(1000 * wait))],
  key_busy: ({ key, running }) => [t('why_key_busy', key, runsOf(running))],
  in_line: ({ key, first }) => [t('why_in_line', key, first ?? '–')],
  waits_for: ({ left, dead, first, open }) => [
    left && t('why_waits_for', number(left), number(dead), someOf(first.map(({ id }) => id))), open && t('why_open'),
  ],
  waiting: ({ ahead, leased, due_for_ms: due, last_claim_us: last }) => [
    t('why_waiting', spoken(1000 * due), ahead === null ? `${number(1000)}+` : number(ahead), number(leased)),
    last === null ? t('why_no_claim') : t('why_last_claim', relative(last, serverNow())),
  ],
  deadline: ({ left_ms: left }) => [t('why_deadline', spoken(1000 * left))],
  unique: ({ left_ms: left }) => [t('why_unique', spoken(1000 * left))],
};

async function reasonsOf({ base }, { id, state: is }) {
  if (['leased', 'done', 'dead'].includes(is)) return [];
  const { reasons } = await api('GET', `${base}/tasks/${path(id)}/why`);
  return reasons.flatMap((of) => WHY[of.reason]?.(of) ?? []).filter(Boolean);
}

export function showTask(of, id) {
  const gone = h('p', { class: 'bad', hidden: true }, t('gone'));
  const facts = h('dl');
  const [why, timeline] = [part('why', h('ul')), part('timeline', h('ul'))];
  const [payload, result] = [part('payload', h('pre')), part('result', h('pre'))];
  const ways = of.view === 'dead' ? [findDead, findLive] : [findLive, findDead];
  const put = (element, isThere, work) => { element.hidden = !isThere; if (isThere) work(element.lastChild); };
  openDetail(id, h('div', {}, gone, facts, why, timeline, payload, result), async () => {
    const task = await ways[0](of, id) ?? await ways[1](of, id);
    gone.hidden = Boolean(task);
    if (!task) { why.hidden = true; return; }
    const reasons = await reasonsOf(of, task);
    const now = serverNow();
    const runs = timelineOf(task, now);
    tellFacts(facts, factsOf(task, now));
    put(why, reasons.length, (list) => itemize(list, reasons));
    put(timeline, runs.length, (list) => itemize(list, runs));
    put(payload, textOf(task), (place) => say(place, textOf(task)));
    put(result, task.finished?.result, (place) => say(place, textOf(task.finished.result)));
  });
}
