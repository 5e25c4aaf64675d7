// Tasks: how they are described, and the screen of one task.
import { html } from '/page/vendor/preact.js';
import { Problem, api, moment, number, path, relative, someOf, spoken, t, timed } from '/page/common.js';
import { Verb } from '/page/dialogs.js';
import { Card, Facts, Nothing, Tag, Text, usePolled, useTitle } from '/page/parts.js';
import { Name } from '/page/router.js';
import { now } from '/page/state.js';

/** The greatest ID below all IDs with this prefix, because lists are sorted by ID. */
export function justBefore(prefix) {
  const letters = [...prefix];
  const last = letters.pop()?.codePointAt(0);
  // The prefix with its last character lowered by one, followed by the highest code point.
  return last ? `${letters.join('')}${String.fromCodePoint(last === 0xe000 ? 0xd7ff : last - 1)}\u{10ffff}` : '';
}

export function stateText({ state: word, cancelled, progress }) {
  const percent = progress?.percent === undefined ? '' : ` ${progress.percent} %`;
  return `${t(word)}${percent}${cancelled ? `, ${t('toBeCancelled')}` : ''}`;
}

const CONTENT_MAX = 20000;

/** A payload as text: JSON, other text, or base64. Long texts are truncated. */
export function textOf({ payload, payload_base64: base64, content_type: type }) {
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

/** A media type without its parameters: `kind=` is shown on its own. */
const mediaOf = (type) => type?.split(';')[0].trim();

/** The task in a list that begins with it. A list has no task of that ID instead of refusing the request. */
export async function findIn(list, id, query = {}) {
  const { items: [first] } = await api('GET', `${list}?${new URLSearchParams({ limit: 1, after: justBefore(id), ...query })}`);
  return first?.id === id ? first : null;
}

/** A task that is live, dead or retained. */
async function findTask(base, id) {
  const live = await findIn(`${base}/tasks`, id);
  if (live) return live;
  const dead = await findIn(`${base}/dead`, id);
  return dead ? { ...dead, state: 'dead', attempt: dead.attempts, past: [] } : findIn(`${base}/tasks`, id, { state: 'done' });
}

/** Why a task is not running, in words. */
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
    last === null ? t('why_no_claim') : t('why_last_claim', relative(last, now.value)),
  ],
  deadline: ({ left_ms: left }) => [t('why_deadline', spoken(1000 * left))],
  unique: ({ left_ms: left }) => [t('why_unique', spoken(1000 * left))],
};

const runsOf = (running) => someOf(running.map(({ id, worker }) => `${id} (${worker})`));
const wordsOf = (reasons) => reasons.flatMap((of) => WHY[of.reason]?.(of) ?? []).filter(Boolean);

async function readTask(base, id) {
  const task = await findTask(base, id);
  if (!task) return { task: null };
  const isIdle = !['leased', 'done', 'dead'].includes(task.state);
  const [why, waits] = await Promise.all([
    isIdle ? api('GET', `${base}/tasks/${path(id)}/why`) : { reasons: [] },
    task.waits ? api('GET', `${base}/tasks/${path(id)}/waits`).catch(() => null) : null,
  ]);
  return { task, reasons: why.reasons, waits };
}

const factsOf = (task, queue, at) => [
  ['tried', `${task.attempt}/${task.max_attempts}`],
  ['due', timed(task.not_before_us ?? task.due_us, at)],
  ['deadline', timed(task.deadline_us, at)],
  ['worker', task.worker && html`<${Name} to=${['queues', queue, 'workers', task.worker]} />`],
  ['leaseLeft', task.lease_until_us && spoken(task.lease_until_us - at)],
  ['progress', task.progress?.note],
  ['replacement', task.replaced ? t('waitsBehind') : null],
  ['key', task.key],
  ['priority', task.priority],
  ['kind', task.kind],
  ['contentType', mediaOf(task.content_type)],
  ['revision', task.revision],
];

/** The history of a task: one entry per run, then its current state. */
function timelineOf(task, at) {
  const runs = task.past.map(({ attempt, began_us: from, ended_us: to_, how, worker, error }) => ({
    when: moment(from), what: `${t('attempt', attempt)} · ${worker} · ${t('after', t(`run_${how}`), spoken(to_ - from))}`, error,
  }));
  if (task.state === 'leased') runs.push({ when: t('running'), what: `${t('attempt', task.attempt)} · ${task.worker} · ${t('leased')}` });
  if (task.finished) runs.push({ when: timed(task.finished.at_us, at), what: [task.worker, t(`end_${task.finished.how}`)].filter(Boolean).join(' · ') });
  if (task.state === 'dead') runs.push({ when: timed(task.died_us, at), what: t('givenUp', task.attempts), error: task.error });
  return runs;
}

/** A task that is already gone counts as done. */
const unlessGone = (error) => { if (!(error instanceof Problem && error.code === 'not_found')) throw error; };

export const cancelTask = (base, id) => api('DELETE', `${base}/tasks/${path(id)}`).catch(unlessGone);

export async function inBatches(ids, work, progress = () => {}) {
  for (let n = 0; n < ids.length; n += 1000) {
    await work(ids.slice(n, n + 1000));
    progress(Math.min(n + 1000, ids.length));
  }
}

export const steerDead = (base, word, progress) => (ids) => inBatches(ids, (some) => api('POST', `${base}/dead/${word}`, { body: { ids: some } }), progress);

/** The verbs of one task, by its state. */
export function TaskVerbs({ base, task, small }) {
  const { id, state } = task;
  if (state === 'done') return null;
  if (state === 'dead') {
    return html`<${Verb} word="requeue" title=${id} small=${small} says=${() => t('requeueSays')} work=${() => steerDead(base, 'requeue')([id])} />
      <${Verb} word="remove" title=${id} small=${small} danger says=${() => [t('removeSays'), t('final')]} work=${() => steerDead(base, 'delete')([id])} />`;
  }
  return html`<${Verb} word="cancel" title=${id} small=${small} danger says=${() => t(state === 'leased' ? 'cancelRunningSays' : 'cancelSays')} work=${() => cancelTask(base, id)} />`;
}

const Part = ({ word, children }) => html`<${Card} title=${t(word)} data-part=${word}>${children}<//>`;

/** What a task waits for. */
function Dependencies({ queue, waits }) {
  if (!waits || !(waits.left || waits.over)) return null;
  return html`<${Part} word="waitsFor"><p>${t('waitsProgress', number(waits.over), number(waits.left + waits.over))}</p>
    <ul>${waits.first.map(({ id, error }) => html`<li key=${id}><${Name} to=${['queues', queue, 'tasks', id]} />${error && html` <span class="bad">${error}</span>`}</li>`)}</ul><//>`;
}

export function Task({ queue, task: id }) {
  useTitle(id, queue);
  const base = `/v1/queues/${path(queue)}`;
  const { said, error } = usePolled(() => readTask(base, id), [queue, id], 1000);
  const head = (state) => html`<p class="crumbs"><${Name} to=${['queues']}>${t('queues')}<//> / <${Name} to=${['queues', queue]} /></p>
    <div class="row head"><h1>${id}</h1>${state}</div>`;
  if (error && !said) return html`${head()}<p class="bad">${error.message}</p>`;
  if (!said) return html`${head()}<p class="soft">${t('loading')}</p>`;
  const { task, reasons, waits } = said;
  if (!task) return html`${head()}<${Nothing} word="gone" />`;
  const at = now.value;
  const [why, runs, result] = [wordsOf(reasons), timelineOf(task, at), task.finished?.result];
  return html`<article class="task" data-task=${id}>
    ${head(html`<${Tag} kind=${task.state === 'dead' ? 'stopped' : ''}>${stateText(task)}<//><span class="row ends"><${TaskVerbs} base=${base} task=${task} /></span>`)}
    ${why.length > 0 && html`<${Part} word="why"><ul>${why.map((text) => html`<li key=${text}>${text}</li>`)}</ul><//>`}
    ${task.error && html`<${Part} word="error"><${Text} text=${task.error} label=${t('error')} /><//>`}
    <div class="grid two">
      <${Card} title=${t('facts')}><${Facts} of=${factsOf(task, queue, at)} /><//>
      ${runs.length > 0 && html`<${Part} word="timeline"><ol class="timeline">${runs.map(({ when, what, error: why_ }, n) => html`<li key=${n}><span class="soft">${when}</span> ${what}${why_ && html`<pre>${why_}</pre>`}</li>`)}</ol><//>`}
      <${Part} word="payload"><${Text} text=${textOf(task)} label=${t('payload')} /><//>
      ${result && html`<${Part} word="result"><${Text} text=${textOf(result)} label=${t('result')} /><//>`}
      <${Dependencies} queue=${queue} waits=${waits} />
    </div>
  </article>`;
}
