// The screen of one task: why it is not running, its runs, its payload and result, and the tasks before and after it.
import { html } from '/page/vendor/preact.js';
import { api, moment, number, path, relative, someOf, spoken, t, timed, took } from '/page/common.js';
import { Card, Facts, Nothing, Tag, Text, usePolled, useTitle } from '/page/parts.js';
import { Name, to } from '/page/router.js';
import { now } from '/page/state.js';
import { Content, TaskVerbs, findIn, stateText, unlessGone } from '/page/tasks.js';

/** A media type without its parameters: `kind=` is shown on its own. */
const mediaOf = (type) => type?.split(';')[0].trim();

/** A task that is live, dead or retained, by the reasons why it is not running. */
async function findTask(base, id, reasons) {
  if (reasons.every(({ reason }) => ['unknown', 'unique'].includes(reason))) return null;
  const dead = reasons.some(({ reason }) => reason === 'dead') ? await findIn(`${base}/dead`, id) : null;
  return dead ? { ...dead, state: 'dead', attempt: dead.attempts } : readOne(base, id).catch(unlessGone);
}

const readOne = (base, id) => api('GET', `${base}/tasks/${path(id)}`);

/** Why a task is not running, in words. */
const WHY = {
  paused: () => [t('why_paused')],
  not_due: ({ wait_ms: wait }) => [t('why_not_due', spoken(1000 * wait))],
  queue_busy: ({ concurrency, running }) => [t('why_queue_busy', number(concurrency), runsOf(running))],
  rate_limited: ({ key, wait_ms: wait }) => [key === null ? t('why_rate', spoken(1000 * wait)) : t('why_key_rate', key, spoken(1000 * wait))],
  key_busy: ({ key, running }) => [t('why_key_busy', key, runsOf(running))],
  in_line: ({ key, first }) => [t('why_in_line', key, first ?? '–')],
  waits_for: ({ left, dead, first, open }) => [
    left && t('why_waits_for', number(left), number(dead), `${someOf(first.map(({ id }) => id))}${left > first.length ? ', …' : ''}`), open && t('why_open'),
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

/** Tasks that the graph shows on each side. */
const SHOWN = 6;

/** The tasks that a task waits for or has waited for, and those that wait for it. */
async function readGraph(base, { id, waits: isWaiting }, waited, ids) {
  const waits = isWaiting ? await api('GET', `${base}/tasks/${path(id)}/waits`).catch(() => null) : null;
  const open = await Promise.all((waits?.first ?? []).map(async ({ id: other, error }) => {
    const live = error === undefined ? await readOne(base, other).catch(() => null) : null;
    return { id: other, state: live?.state ?? 'dead', error };
  }));
  const over = waited.map(({ id: other, end, error }) => ({ id: other, state: end === 'dead' ? 'dead' : 'done', end, error }));
  const before = [...open, ...over].slice(0, SHOWN);
  return { before, all: waits ? waits.left + waits.over : before.length, over: waits?.over ?? over.length, after: ids };
}

/** Reads a task and what surrounds it. What is not of its state is left out afterwards. */
async function readTask(base, id) {
  const url = `${base}/tasks/${path(id)}`;
  const [why, waited, dependents] = await Promise.all([
    api('GET', `${url}/why`), api('GET', `${url}/waited?limit=${SHOWN}`), api('GET', `${url}/dependents?n=${SHOWN + 1}`),
  ]);
  const task = await findTask(base, id, why.reasons);
  if (!task) return { task: null };
  const [isOver, isDone] = [['done', 'dead'].includes(task.state), task.state === 'done'];
  const graph = await readGraph(base, task, isOver ? [] : waited.items, isDone ? [] : dependents.ids);
  return { task, reasons: isOver || task.state === 'leased' ? [] : why.reasons, graph };
}

const factsOf = (task, queue, at) => [
  ['tried', `${task.attempt}/${task.max_attempts}`],
  ['due', timed(task.not_before_us ?? task.due_us, at)],
  ['deadline', timed(task.deadline_us, at)],
  ['worker', task.worker && html`<${Name} to=${['queues', queue, 'workers', task.worker]} />`],
  ['claimed', task.state === 'leased' && task.claimed_us && relative(task.claimed_us, at)],
  ['leaseLeft', task.lease_until_us && spoken(task.lease_until_us - at)],
  ['progress', task.progress?.note],
  ['replacement', task.replaced ? t('waitsBehind') : null],
  ['key', task.key],
  ['priority', task.priority],
  ['kind', task.kind],
  ['contentType', mediaOf(task.content_type)],
  ['revision', task.revision],
];

/** The runs of a task, then its state now or its end: { kind, when, what, worker, us, error }. */
function runsOfTask(task, at) {
  const runs = task.past.map(({ attempt, began_us: from, ended_us: until, how, worker, error }) => ({
    kind: how, when: moment(from), what: `${t('attempt', attempt)} · ${t(`run_${how}`)}`, worker, us: until - from, error,
  }));
  const first = task.past[0]?.attempt;
  if (first > 1) runs.unshift({ kind: 'next', what: t('pastFrom', number(first)) });
  if (task.state === 'leased') runs.push({ kind: 'leased', when: moment(task.claimed_us), what: `${t('attempt', task.attempt)} · ${t('leased')}`, worker: task.worker, us: Math.max(0, at - task.claimed_us) });
  if (task.finished) runs.push({ kind: task.finished.how, when: moment(task.finished.at_us), what: [task.claimed_us && t('attempt', task.attempt), t(`end_${task.finished.how}`)].filter(Boolean).join(' · '), worker: task.worker, us: task.claimed_us && task.finished.at_us - task.claimed_us });
  if (task.state === 'dead') runs.push({ kind: 'dead', when: moment(task.died_us), what: t('givenUp', task.attempts), error: runs.length ? undefined : task.error });
  if (task.state === 'scheduled' && runs.length) runs.push({ kind: 'next', when: timed(task.not_before_us, at), what: t('nextAttempt') });
  return runs;
}

/** The runs of a task from top to bottom. A bar compares their durations. */
function Timeline({ runs, queue }) {
  const longest = Math.max(1, ...runs.map(({ us }) => us ?? 0));
  return html`<ol class="timeline">${runs.map(({ kind, when, what, worker, us, error }, n) => html`<li key=${n} class="is-${kind}">
    <div class="row"><b>${what}</b> ${us !== undefined && html`<span class="run-bar" aria-hidden="true"><span style=${{ width: `${Math.max(2, 100 * us / longest)}%` }}></span></span> <span>${took(us)}</span>`}</div>
    <div class="soft">${when}${worker && html` · <${Name} to=${['queues', queue, 'workers', worker]} />`}</div>
    ${error && html`<pre>${error}</pre>`}</li>`)}</ol>`;
}

// ── Dependencies ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Height of a node with its margin, in pixels, as in console.css. */
const ROW = 56;

const Linked = ({ queue, of: { id, state, end, error } }) => html`<a class="node is-${state}" href=${to('queues', queue, 'tasks', id)} title=${error ?? id}>
  <span class="node-name">${id}</span><small>${t(end ? `end_${end}` : state)}</small></a>`;

const More = ({ n }) => (n > 0 ? html`<span class="node more"><small>${t('andMore', number(n))}</small></span>` : null);

/** Lines from a column of nodes to this task, or from it to one. */
function Lines({ n, rows, isAfter }) {
  const [middle, first] = [ROW * rows / 2, ROW * (rows - n + 1) / 2];
  const curves = Array.from({ length: n }, (_, at) => {
    const y = first + ROW * at;
    const [from, until] = isAfter ? [middle, y] : [y, middle];
    return html`<path key=${at} d=${`M0 ${from}C20 ${from} 20 ${until} 40 ${until}`} />`;
  });
  return html`<svg class="lines" aria-hidden="true" width="40" height=${ROW * rows} viewBox=${`0 0 40 ${ROW * rows}`}>${curves}</svg>`;
}

/** A task with those that it waits for and those that wait for it. */
function Graph({ queue, task, graph: { before, after, all, over } }) {
  if (!before.length && !after.length) return null;
  const left = [...before.map((of) => html`<${Linked} key=${of.id} queue=${queue} of=${of} />`), all > before.length && html`<${More} key="more" n=${all - before.length} />`].filter(Boolean);
  const right = after.slice(0, SHOWN).map((id) => html`<${Linked} key=${id} queue=${queue} of=${{ id, state: 'blocked' }} />`);
  if (after.length > SHOWN) right.push(html`<span key="more" class="node more"><small>…</small></span>`);
  const rows = Math.max(left.length, right.length, 1);
  const column = (word, nodes) => nodes.length > 0 && html`<div class="nodes" role="group" aria-label=${t(word)}><h3>${t(word)}</h3>${nodes}</div>`;
  return html`<${Part} word="dependencies">
    ${all > 0 && html`<p class="soft">${t('waitsProgress', number(over), number(all))}</p>`}
    <div class="graph">${column('waitsFor', left)}${left.length > 0 && html`<${Lines} n=${left.length} rows=${rows} />`}
      <div class="nodes"><span class="node self is-${task.state}"><span class="node-name">${task.id}</span><small>${t(task.state)}</small></span></div>
      ${right.length > 0 && html`<${Lines} n=${right.length} rows=${rows} isAfter />`}${column('neededBy', right)}</div><//>`;
}

const Part = ({ word, children }) => html`<${Card} title=${t(word)} data-part=${word}>${children}<//>`;

export function Task({ queue, task: id }) {
  useTitle(id, queue);
  const base = `/v1/queues/${path(queue)}`;
  const { said, error } = usePolled(() => readTask(base, id), [queue, id], 1000);
  const head = (state) => html`<p class="crumbs"><${Name} to=${['queues']}>${t('queues')}<//> / <${Name} to=${['queues', queue]} /></p>
    <div class="row head"><h1>${id}</h1>${state}</div>`;
  if (error && !said) return html`${head()}<p class="bad">${error.message}</p>`;
  if (!said) return html`${head()}<p class="soft">${t('loading')}</p>`;
  const { task, reasons, graph } = said;
  if (!task) return html`${head()}<${Nothing} word="gone" />`;
  const at = now.value;
  const [why, runs, result] = [wordsOf(reasons), runsOfTask(task, at), task.finished?.result];
  return html`<article class="task" data-task=${id}>
    ${head(html`<${Tag} kind=${task.state === 'dead' ? 'stopped' : ''}>${stateText(task)}<//><span class="row ends"><${TaskVerbs} base=${base} task=${task} /></span>`)}
    ${why.length > 0 && html`<${Part} word="why"><ul>${why.map((text) => html`<li key=${text}>${text}</li>`)}</ul><//>`}
    ${task.error && html`<${Part} word="error"><${Text} text=${task.error} label=${t('error')} /><//>`}
    <${Graph} queue=${queue} task=${task} graph=${graph} />
    <div class="grid two">
      <${Card} title=${t('facts')}><${Facts} of=${factsOf(task, queue, at)} /><//>
      ${runs.length > 0 && html`<${Part} word="timeline"><${Timeline} runs=${runs} queue=${queue} /><//>`}
      <${Part} word="payload"><${Content} of=${task} label=${t('payload')} /><//>
      ${result && html`<${Part} word="result"><${Content} of=${result} label=${t('result')} /><//>`}
    </div>
  </article>`;
}
