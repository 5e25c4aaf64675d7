// The screen of one queue: its tasks by state, its limits, its schedules and its workers.
import { html, useEffect, useState } from '/page/vendor/preact.js';
import { Problem, api, moment, number, path, relative, someOf, spoken, t, timed } from '/page/common.js';
import { Verb, ask, carryOut, spell, tell } from '/page/dialogs.js';
import { Card, Facts, Menu, Nothing, Search, Table, Tag, Trouble, canAct, justBefore, useOthers, usePolled, useTitle } from '/page/parts.js';
import { PauseVerb, Quantiles, Recent } from '/page/queues.js';
import { Name, navigate, route, to, withQuery } from '/page/router.js';
import { now, queueOf } from '/page/state.js';
import { Content, TaskVerbs, cancelTask, findIn, reschedule, stateText, steerDead, textOf } from '/page/tasks.js';

const STATES = ['current', 'ready', 'scheduled', 'leased', 'blocked', 'done', 'dead'];
const PAGE = 50;
/** Tasks that a filter or a bulk verb reads at most. */
const SCAN_MAX = 20000;
/** Tasks in the first request of a scan, whose answer is shown while the others are read, and in each of the others. */
const READ_FIRST = 1000;
const READ = 5000;

// ── Finding tasks ───────────────────────────────────────────────────────────────────────────────────────────────────

const listOf = (base, state, after, limit) => {
  const query = new URLSearchParams({ limit, after });
  if (!['current', 'dead'].includes(state)) query.set('state', state);
  return `${base}/${state === 'dead' ? 'dead' : 'tasks'}?${query}`;
};

/** Fields that a filter can name, such as `kind:mail`. Other words may be anywhere in the task. */
const FIELDS = { kind: (task) => task.kind, key: (task) => task.key, worker: (task) => task.worker, error: (task) => task.error, id: (task) => task.id };

/** A test for the words of a filter; null without one. */
function filterOf(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return (task) => words.every((word) => {
    const [field, ...rest] = word.split(':');
    if (rest.length && FIELDS[field]) return String(FIELDS[field](task) ?? '').toLowerCase().includes(rest.join(':'));
    return [...Object.values(FIELDS).map((read) => read(task)), textOf(task)].some((part) => String(part ?? '').toLowerCase().includes(word));
  });
}

/** Reads tasks until `want` of them match, or `SCAN_MAX` were read. `progress` gets what was found so far. */
async function find({ base, state, prefix, filter, after }, want, progress = () => {}) {
  const matches = filterOf(filter);
  const found = [];
  let from = after || justBefore(prefix);
  for (let read = 0; ;) {
    // One more than wanted tells whether there is a next page.
    const limit = Math.min(matches ? SCAN_MAX : want + 1, read ? READ : READ_FIRST, SCAN_MAX - read);
    const { items, next } = await api('GET', listOf(base, state, from, limit), { cache: 'no-cache' });
    read += items.length;
    const within = items.filter(({ id }) => id.startsWith(prefix));
    for (const task of within) if (!matches || matches(task)) found.push(state === 'dead' ? { ...task, state: 'dead' } : task);
    const isMore = next !== undefined && within.length === items.length && items.length > 0;
    if (found.length > want) return { found: found.slice(0, want), next: found[want - 1].id, read };
    if (!isMore || read >= SCAN_MAX || found.length === want) return { found, next: isMore ? next : undefined, read };
    from = next;
    progress({ found: [...found], read, isPartial: true });
  }
}

// ── Verbs on many tasks ─────────────────────────────────────────────────────────────────────────────────────────────

/** Runs `work` for each ID, a few at a time. */
async function forEach(ids, work, progress) {
  const left = [...ids];
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (left.length) { await work(left.shift()); progress(ids.length - left.length); }
  }));
}

const BULK = {
  runNow: { label: 'runFound', says: 'dueNowSays', work: (base, progress) => (ids) => forEach(ids, (id) => reschedule(base, id), progress) },
  cancel: { label: 'cancelFound', danger: true, says: 'cancelSays', work: (base, progress) => (ids) => forEach(ids, (id) => cancelTask(base, id), progress) },
  requeue: { label: 'requeueAll', says: 'requeueSays', work: (base, progress) => steerDead(base, 'requeue', progress) },
  remove: { label: 'deleteAll', danger: true, says: 'removeSays', work: (base, progress) => steerDead(base, 'delete', progress) },
};

const bulkOf = (state) => ({ dead: ['requeue', 'remove'], done: [], scheduled: ['runNow', 'cancel'] }[state] ?? ['cancel']);

/** A verb on the selected tasks, or on all that the filter matches now. Later tasks are not affected. */
function BulkVerb({ of, verb, selected }) {
  const { label, danger, says, work } = BULK[verb];
  const press = async () => {
    let ids = [...selected];
    if (!ids.length) {
      try {
        const all = await find({ ...of, after: '' }, SCAN_MAX, ({ read }) => tell(t('scanned', number(read))));
        ids = all.found.map(({ id }) => id);
      } catch (error) { tell(spell(error)); return; }
    }
    const answer = await ask({
      title: `${t(selected.size ? verb : label)}: ${of.queue}`, verb: t(verb), danger, typed: danger && ids.length > 1 ? of.queue : undefined,
      says: [`${number(ids.length)}: ${someOf(ids)}`, t(says), danger && t('final')],
    });
    if (answer) await carryOut(() => work(of.base, (n) => tell(`${number(n)} / ${number(ids.length)}`))(ids));
  };
  return html`<button type="button" class="small ${danger ? 'danger' : ''}" disabled=${!canAct()} onClick=${press}>${selected.size ? `${t(verb)} (${number(selected.size)})` : t(label)}</button>`;
}

// ── Lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const when = (task, at) => relative(task.finished?.at_us ?? task.died_us ?? task.not_before_us ?? task.due_us, at);

function TaskRows({ of, tasks, selected, select }) {
  const at = now.value;
  const dead = of.state === 'dead';
  const heads = [['select', 'pick'], ['name'], ['state'], ['kind'], ['tried', 'n'], ['when', 'n'], dead ? ['error', 'wrap'] : ['worker'], ['verbs', 'verbs']];
  const rows = tasks.map((task) => ({
    key: task.id,
    cells: [
      html`<input type="checkbox" aria-label=${t('selectTask', task.id)} checked=${selected.has(task.id)} onChange=${() => select(task.id)} />`,
      html`<${Name} to=${['queues', of.queue, 'tasks', task.id]} />`, stateText(task), task.kind ?? '–',
      `${task.attempt ?? task.attempts}/${task.max_attempts}`, when(task, at),
      dead ? html`<span class="clip" title=${task.error}>${task.error}</span>` : task.worker ? html`<${Name} to=${['queues', of.queue, 'workers', task.worker]} />` : '–',
      html`<${Menu} lazy label=${t('moreVerbs', task.id)}><${TaskVerbs} base=${of.base} task=${task} small /><//>`,
    ],
  }));
  return html`<${Table} heads=${heads} rows=${rows} label=${t('tasks')} />`;
}

/** Dead letters by error, most frequent first. */
function Groups({ of }) {
  const { said } = usePolled(() => find({ ...of, filter: '', after: '' }, SCAN_MAX), [of.base], 5000);
  if (!said) return html`<p class="soft">${t('loading')}</p>`;
  const groups = new Map();
  for (const { error, id } of said.found) groups.set(error, [...(groups.get(error) ?? []), id]);
  const rows = [...groups].sort(([, one], [, two]) => two.length - one.length).slice(0, PAGE).map(([error, ids]) => ({
    key: error,
    cells: [number(ids.length), html`<span class="clip">${error}</span>`, someOf(ids.slice(0, 3)),
      html`<a href=${withQuery({ group: null, filter: `error:${error.split(/\s+/)[0]}` })}>${t('show')}</a>`],
  }));
  return html`<div class="card"><${Table} heads=${[['tasks', 'n'], ['error', 'wrap'], ['name'], ['verbs', 'verbs']]} rows=${rows} label=${t('byError')} /></div>`;
}

function TaskList({ queue, base }) {
  const { query } = route.value;
  const of = {
    queue, base, state: STATES.includes(query.get('state')) ? query.get('state') : 'current',
    prefix: query.get('q') ?? '', filter: query.get('filter') ?? '', after: query.get('after') ?? '',
  };
  const key = [base, of.state, of.prefix, of.filter, of.after].join('\n');
  const [marked, setSelected] = useState(new Set());
  useEffect(() => setSelected(new Set()), [key]);
  const { said, error } = usePolled((early) => find(of, PAGE, early), [key], 1000);
  const select = (id) => setSelected((old) => { const all = new Set(old); if (!all.delete(id)) all.add(id); return all; });
  if (query.get('group') === 'error') return html`<p><a href=${withQuery({ group: null })}>${t('ungroup')}</a></p><${Groups} of=${{ ...of, state: 'dead' }} />`;
  const tasks = said?.found ?? [];
  // Tasks that are gone are not selected anymore.
  const selected = new Set(tasks.map(({ id }) => id).filter((id) => marked.has(id)));
  const bulk = bulkOf(of.state).map((verb) => html`<${BulkVerb} key=${verb} of=${of} verb=${verb} selected=${selected} />`);
  const count = said && t('found', `${number(tasks.length)}${said.next !== undefined || said.isPartial || of.after ? '+' : ''}`);
  return html`<div class="row found"><${Search} label=${t('search')} /><${Search} name="filter" label=${t('filterTasks')} />
      <span class="soft count" role="status">${count}${of.filter && said ? ` · ${t('scanned', number(said.read))}` : ''}</span>
      <span class="row ends">${of.state === 'dead' && html`<a href=${withQuery({ group: 'error' })}>${t('byError')}</a>`}
      ${tasks.length > 0 && (selected.size ? bulk : html`<${Menu} label=${t('moreVerbs', queue)}>${bulk}<//>`)}</span></div>
    ${error && html`<p class="bad">${error instanceof Problem ? error.message : t('away')}</p>`}
    ${!error && (!said || (said.isPartial && !tasks.length)) ? html`<p class="soft">${t('loading')}</p>` : tasks.length ? html`<div class="card"><${TaskRows} of=${of} tasks=${tasks} selected=${selected} select=${select} /></div>` : html`<${Nothing} word="nothing" />`}
    <nav class="pager row" aria-label=${t('pages')}>${of.after && html`<a href=${withQuery({ after: null })} rel="first">${t('firstPage')}</a>`}
      ${said?.next !== undefined && html`<a href=${withQuery({ after: said.next })} rel="next">${t('nextPage')}</a>`}</nav>`;
}

// ── Limits, and tasks by hand ───────────────────────────────────────────────────────────────────────────────────────

const parsed = (text) => { try { return [JSON.parse(text), null]; } catch (error) { return [null, `${t('notJson')} ${error.message}`]; } };

function EnqueueVerb({ queue, base }) {
  const fields = [
    { name: 'id', kind: 'text', label: t('name'), max: 200, value: `by-hand-${Date.now().toString(36)}` },
    { name: 'payload', kind: 'area', label: t('payloadJson'), value: '{}' },
    { name: 'kind', kind: 'text', label: t('kind'), optional: true }, { name: 'key', kind: 'text', label: t('key'), optional: true },
    { name: 'delay', label: t('delaySeconds'), min: 0, value: 0 },
    { name: 'priority', label: t('priority'), min: 0, max: 9, value: 5 },
  ];
  const work = async ({ id, payload, kind, key, delay, priority }) => {
    const body = { id, payload: JSON.parse(payload), priority, ...(kind && { kind }), ...(key && { key }), ...(delay && { delay_ms: delay * 1000 }) };
    await api('POST', `${base}/tasks`, { body });
    navigate(to('queues', queue, 'tasks', id));
  };
  return html`<${Verb} word="enqueue" title=${queue} primary fields=${fields} check=${({ payload }) => parsed(payload)[1]} work=${work} />`;
}

const limitText = (of) => (of ? `${number(of.n)} / ${spoken(1000 * of.per_ms)}` : null);

function Limits({ queue: { queue: name, limits }, base }) {
  const set = (body) => api('PUT', `${base}/limits`, { body });
  const facts = [
    ['concurrency', limits.concurrency && number(limits.concurrency)], ['rateLimit', limitText(limits.rate)],
    ['perKeyConcurrency', limits.per_key?.concurrency && number(limits.per_key.concurrency)], ['perKeyRate', limitText(limits.per_key?.rate)],
    ['capacity', limits.bound && number(limits.bound)], ['overflow', limits.bound && t(`overflow_${limits.overflow}`)],
    ['retention', limits.retention && [limits.retention.age_ms && spoken(1000 * limits.retention.age_ms), limits.retention.count && number(limits.retention.count)].filter(Boolean).join(', ')],
    ['eventsKept', limits.events && number(limits.events)],
  ].filter(([, value]) => value);
  return html`<details class="card limits"><summary><h2>${t('limits')}</h2> <span class="soft">${facts.map(([word, value]) => `${t(word)} ${value}`).join(' · ') || t('noLimits')}</span></summary>
    <${Facts} of=${facts} />
    <div class="row"><${Verb} word="changeLimits" title=${name} says=${() => t('limitsSay')} check=${({ limits: text }) => parsed(text)[1]}
        fields=${[{ name: 'limits', kind: 'area', label: t('limitsJson'), value: JSON.stringify(limits, null, 2) }]} work=${({ limits: text }) => set(JSON.parse(text))} />
      ${!limits.events && html`<${Verb} word="keepEvents" title=${name} says=${() => t('keepEventsSays')} work=${() => set({ ...limits, events: 10000 })} />`}</div>
  </details>`;
}

// ── Workers and schedules ───────────────────────────────────────────────────────────────────────────────────────────

/** The workers of a queue by name: those that announced themselves, and others that hold tasks. */
async function readWorkers(base) {
  const [{ items }, { found, next }] = await Promise.all([
    api('GET', `${base}/workers?${new URLSearchParams({ limit: READ })}`, { cache: 'no-cache' }),
    find({ base, state: 'leased', prefix: '', filter: '', after: '' }, SCAN_MAX),
  ]);
  const tasks = Map.groupBy(found, (task) => task.worker);
  const workers = items.map((worker) => ({ ...worker, tasks: tasks.get(worker.name) ?? [] }));
  const announced = new Set(items.map((worker) => worker.name));
  for (const [name, held] of tasks) if (!announced.has(name)) workers.push({ id: `?${name}`, name, running: held.length, tasks: held });
  return { workers: workers.sort((one, two) => (one.name < two.name ? -1 : 1)), isMore: next !== undefined };
}

const modeOf = ({ mode }) => html`<${Tag} kind=${{ work: 'open', quiet: 'stopped', stop: 'stopped' }[mode] ?? ''}>${t(`mode_${mode ?? 'unknown'}`)}<//>`;

function WorkerVerbs({ base, worker: { id, name, mode }, small }) {
  if (!mode) return null;
  const set = (next) => () => api('PUT', `${base}/workers/${path(id)}/mode`, { body: { mode: next } });
  return html`${mode === 'work' ? html`<${Verb} key="quiet" word="quietWorker" title=${name} small=${small} says=${() => t('quietWorkerSays')} work=${set('quiet')} />`
    : html`<${Verb} key="work" word="letWork" title=${name} small=${small} says=${() => t('letWorkSays')} work=${set('work')} />`}
    ${mode !== 'stop' && html`<${Verb} word="stopWorker" title=${name} small=${small} danger says=${() => t('stopWorkerSays')} work=${set('stop')} />`}`;
}

const longestOf = (tasks, at) => (tasks.length ? spoken(at - Math.min(...tasks.map((task) => task.claimed_us))) : '–');

function WorkersList({ queue, base }) {
  const { said } = usePolled(() => readWorkers(base), [base], 1000);
  const at = now.value;
  if (!said) return html`<p class="soft">${t('loading')}</p>`;
  if (!said.workers.length) return html`<${Nothing} word="noWorkers" />`;
  const rows = said.workers.slice(0, 200).map((worker) => ({
    key: worker.id,
    cells: [html`<${Name} to=${['queues', queue, 'workers', worker.name]} />`, modeOf(worker), worker.concurrency ? `${number(worker.running)} / ${number(worker.concurrency)}` : number(worker.running),
      longestOf(worker.tasks, at), worker.since_us ? relative(Math.min(worker.since_us, at), at) : '–', worker.version || '–',
      html`<span class="row"><${WorkerVerbs} base=${base} worker=${worker} small /></span>`],
  }));
  return html`<p class="soft count" role="status">${t('found', number(said.workers.length))}</p>
    <div class="card"><${Table} heads=${[['worker'], ['state'], ['leased', 'n'], ['longestRun', 'n'], ['since', 'n'], ['version'], ['verbs', 'verbs']]} rows=${rows} label=${t('workers')} /></div>
    <p class="soft">${t('workersOf')}</p>`;
}

/** All workers of one name: programs may share it. */
export function Worker({ queue, worker: name }) {
  useTitle(name, queue);
  const base = `/v1/queues/${path(queue)}`;
  const { said } = usePolled(() => readWorkers(base), [base], 1000);
  const at = now.value;
  const workers = (said?.workers ?? []).filter((worker) => worker.name === name);
  const tasks = workers[0]?.tasks ?? [];
  const of = { queue, base, state: 'leased' };
  const facts = (worker) => [
    ['state', modeOf(worker)], ['leased', worker.concurrency && `${number(worker.running)} / ${number(worker.concurrency)}`],
    ['since', worker.since_us && timed(worker.since_us, at)], ['announced', worker.seen_us && timed(worker.seen_us, at)], ['version', worker.version], ['id', worker.mode && worker.id],
  ];
  return html`<${Crumbs} queue=${queue} /><div class="row head"><h1>${name}</h1><${Tag}>${t('worker')}<//></div>
    ${!said ? html`<p class="soft">${t('loading')}</p>` : !workers.length ? html`<${Nothing} word="goneWorker" />` : html`
      <div class="grid two">${workers.map((worker) => html`<${Card} key=${worker.id} title=${t('facts')} aside=${html`<span class="row ends"><${WorkerVerbs} base=${base} worker=${worker} /></span>`}><${Facts} of=${facts(worker)} /><//>`)}</div>
      ${tasks.length ? html`<div class="card"><${TaskRows} of=${of} tasks=${tasks.slice(0, 200)} selected=${new Set()} select=${() => {}} /></div>` : html`<${Nothing} word="idleWorker" />`}`}`;
}

const steerSchedule = (base, id, word) => () => api('POST', `${base}/schedules/${path(id)}/${word}`, { body: {} });

function ScheduleVerbs({ base, queue, schedule: { id, paused }, small }) {
  const word = paused ? 'resume' : 'pause';
  return html`<${Verb} word="runNow" title=${id} small=${small} says=${() => t('runNowSays')} work=${steerSchedule(base, id, 'run')} />
    <${Verb} key=${word} word=${word} title=${id} small=${small} says=${() => t(paused ? 'resumeScheduleSays' : 'pauseScheduleSays')} work=${steerSchedule(base, id, word)} />
    <${Verb} word="remove" title=${id} small=${small} danger says=${() => [t('removeScheduleSays'), t('final')]} work=${async () => {
    await api('DELETE', `${base}/schedules/${path(id)}`);
    if (route.value.screen === 'schedule') navigate(to('queues', queue, 'schedules'));
  }} />`;
}

/** The next occurrence of a schedule, and those after it on request. */
const Upcoming = ({ schedule: { upcoming_us: [next, ...more] }, at }) => (next === undefined ? '–' : html`<details class="upcoming"><summary>${relative(next, at)}</summary>
  <ol class="plain">${[next, ...more].map((us) => html`<li key=${us}>${moment(us)}</li>`)}</ol></details>`);

function SchedulesList({ queue, base }) {
  const after = route.value.query.get('after') ?? '';
  const { said } = usePolled(() => api('GET', `${base}/schedules?${new URLSearchParams({ limit: PAGE + 1, after })}`, { cache: 'no-cache' }), [base, after], 1000);
  const at = now.value;
  if (!said) return html`<p class="soft">${t('loading')}</p>`;
  if (!said.items.length) return html`<${Nothing} word="nothing" />`;
  const shown = said.items.slice(0, PAGE);
  const rows = shown.map((schedule) => ({
    key: schedule.id,
    cells: [html`<${Name} to=${['queues', queue, 'schedules', schedule.id]} />`, schedule.when, html`<${Upcoming} schedule=${schedule} at=${at} />`,
      schedule.previous_us ? relative(schedule.previous_us, at) : '–', t(schedule.paused ? 'paused' : 'working'),
      html`<span class="row"><${ScheduleVerbs} base=${base} queue=${queue} schedule=${schedule} small /></span>`],
  }));
  return html`<div class="card"><${Table} heads=${[['name'], ['pattern'], ['next', 'n'], ['previous', 'n'], ['state'], ['verbs', 'verbs']]} rows=${rows} label=${t('schedules')} /></div>
    ${said.items.length > PAGE && html`<nav class="pager row"><a href=${withQuery({ after: shown.at(-1).id })} rel="next">${t('nextPage')}</a></nav>`}`;
}

export function Schedule({ queue, schedule: id }) {
  useTitle(id, queue);
  const base = `/v1/queues/${path(queue)}`;
  const { said } = usePolled(() => findIn(`${base}/schedules`, id), [base, id], 1000);
  const at = now.value;
  const isGone = said === null;
  return html`<${Crumbs} queue=${queue} /><div class="row head"><h1>${id}</h1><${Tag} kind=${said?.paused ? 'stopped' : 'open'}>${t(said?.paused ? 'paused' : 'working')}<//>
      ${said && !isGone && html`<span class="row ends"><${ScheduleVerbs} base=${base} queue=${queue} schedule=${said} /></span>`}</div>
    ${isGone ? html`<${Nothing} word="gone" />` : said === undefined ? html`<p class="soft">${t('loading')}</p>` : html`<div class="grid two">
      <${Card} title=${t('facts')}><${Facts} of=${[['pattern', said.when], ['previous', said.previous_us && timed(said.previous_us, at)], ['kind', said.kind], ['priority', said.priority], ['maxAttempts', said.max_attempts]]} /><//>
      <${Card} title=${t('upcoming')}>${said.upcoming_us.length ? html`<ol class="plain">${said.upcoming_us.map((us) => html`<li key=${us}>${timed(us, at)}</li>`)}</ol>` : html`<${Nothing} word=${said.paused ? 'pausedSchedule' : 'neverAgain'} />`}<//>
      <${Card} title=${t('payload')}><${Content} of=${said} label=${t('payload')} /><//></div>`}`;
}

// ── The screen ──────────────────────────────────────────────────────────────────────────────────────────────────────

const Crumbs = ({ queue }) => html`<p class="crumbs"><${Name} to=${['queues']}>${t('queues')}<//> / <${Name} to=${['queues', queue]} /></p>`;

function Figures({ queue }) {
  const keeps = queue.limits.events;
  return html`<dl class="queue-figures">
    <div><dt>${t('ready')}</dt><dd><${Recent} queue=${queue} word="ready" /></dd></div>
    <div><dt>${t('oldest')}</dt><dd><${Recent} queue=${queue} word="lag_ms">${queue.ready ? spoken(1000 * queue.lag_ms) : '–'}<//></dd></div>
    <div><dt>${t('leased')}</dt><dd><${Recent} queue=${queue} word="leased" /></dd></div>
    <div><dt>${t('dead')}</dt><dd><${Recent} queue=${queue} word="dead" /></dd></div>
    ${keeps && ['added', 'done', 'failed'].map((word) => html`<div key=${word}><dt>${t(`flow_${word}`)}</dt><dd><${Recent} queue=${queue} word=${`flow_${word}`} counts=${[word]} /></dd></div>`)}
    ${keeps && ['wait', 'run'].map((word) => html`<div key=${word}><dt>${t(`${word}Time`)}</dt><dd><${Quantiles} queue=${queue} kind=${word} /></dd></div>`)}
    <div><dt>${t('lastClaim')}</dt><dd>${queue.last_claim_us ? relative(queue.last_claim_us, now.value) : t('never')}</dd></div>
  </dl>`;
}

const VIEWS = { queue: TaskList, schedules: SchedulesList, workers: WorkersList };

export function Queue({ queue: name }) {
  const { screen, query } = route.value;
  useTitle(...(screen === 'queue' ? [query.get('state') && t(query.get('state'))].filter(Boolean) : [t(screen)]), name);
  const base = `/v1/queues/${path(name)}`;
  const { isLoading, error } = useOthers('queues', [name]);
  const queue = queueOf(name);
  const current = screen === 'queue' ? query.get('state') ?? 'current' : screen;
  const List = VIEWS[screen];
  const tab = (view, url) => html`<a key=${view} class="view" href=${url} aria-current=${current === view ? 'page' : undefined}>${t(view)}${queue?.[view] === undefined ? '' : ` ${number(queue[view])}`}</a>`;
  return html`<article class="queue" data-queue=${name}>
    <p class="crumbs"><${Name} to=${['queues']}>${t('queues')}<//></p>
    <div class="row head"><h1>${name}</h1>${queue && html`<${Tag} kind=${queue.paused ? 'stopped' : 'open'}>${t(queue.paused ? 'paused' : 'working')}<//>`}
      <span class="row ends">${queue && html`<${PauseVerb} queue=${queue} />`}<${EnqueueVerb} queue=${name} base=${base} /></span></div>
    ${queue ? html`<${Figures} queue=${queue} /><${Limits} queue=${queue} base=${base} />` : !error && html`<p class="soft">${t(isLoading ? 'loading' : 'emptyQueue')}</p>`}
    <${Trouble} error=${error} />
    <nav class="views row" aria-label=${t('state')}>
      ${STATES.map((state) => tab(state, state === 'current' ? to('queues', name) : `${to('queues', name)}?state=${state}`))}
      ${['schedules', 'workers'].map((view) => tab(view, to('queues', name, view)))}
    </nav>
    <${List} queue=${name} base=${base} />
  </article>`;
}
