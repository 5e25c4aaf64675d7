// The screen of one queue: its tasks by state, its limits, its schedules and its workers.
import { effect, html, useEffect, useState } from '/page/vendor/preact.js';
import { Problem, api, clockTime, exactly, moment, number, path, read as readList, readAhead, relative, someOf, spoken, t, timed } from '/page/common.js';
import { Verb, ask, carryOut, spell, tell } from '/page/dialogs.js';
import { Card, EVENTS_MAX, Facts, Menu, Nothing, Search, SortBy, Table, Tag, Trouble, canAct, hasWords, justBefore, paged, useOthers, usePolled, useTail, useTitle } from '/page/parts.js';
import { PauseVerb, Quantiles, Recent } from '/page/queues.js';
import { Name, navigate, onRead, route, to, withQuery } from '/page/router.js';
import { connection, now, queueOf } from '/page/state.js';
import { Content, TaskVerbs, cancelTask, findIn, reschedule, stateText, steerDead, textOf } from '/page/tasks.js';

const STATES = ['current', 'ready', 'scheduled', 'leased', 'blocked', 'done', 'dead'];
const PAGE = 50;
/** Tasks that a filter or a bulk verb reads at most, and requests that it sends at most, because pages may be empty. */
const SCAN_MAX = 20000;
const REQUESTS_MAX = 40;
/** Tasks in the first request of a scan, whose answer is shown while the others are read, and in each of the others. */
const READ_FIRST = 1000;
const READ = 5000;
/** The same if the server searches them and sends only those with a text. */
const SEARCH = 10000;

// ── Finding tasks ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Dead letters are sorted by ID. Other lists know the prefix. */
const listOf = ({ base, state, prefix }, after, limit, text = '') => {
  const query = new URLSearchParams({ limit, after, ...(text && { contains: text }) });
  if (state === 'dead') query.set('after', after || justBefore(prefix));
  else if (prefix) query.set('prefix', prefix);
  if (!['current', 'dead'].includes(state)) query.set('state', state);
  return `${base}/${state === 'dead' ? 'dead' : 'tasks'}?${query}`;
};

/** Fields that a filter can name, such as `kind:mail`. Other words may be anywhere in the task. */
const FIELDS = { kind: (task) => task.kind, key: (task) => task.key, worker: (task) => task.worker, error: (task) => task.error, id: (task) => task.id };

/** Reads what a field names: one of `FIELDS`, or a part of the payload, such as `payload.lines.0.sku`. */
function readerOf(field) {
  const [first, ...names] = field.split('.');
  if (first.toLowerCase() === 'payload' && names.length) return (task) => names.reduce((value, name) => value?.[name], task.payload);
  return Object.hasOwn(FIELDS, field.toLowerCase()) ? FIELDS[field.toLowerCase()] : null;
}

const asText = (value) => (value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value ?? '')).toLowerCase();

/** Words that are the same in a payload as it is stored, without escapes. */
const isPlain = (word) => /^[\w@.-]+$/.test(word) && /[a-z]/.test(word);

/** A test for the words of a filter, null without one, and the longest plain word, which the server searches for. */
function filterOf(text) {
  const words = text.split(/\s+/).filter(Boolean).map((word) => {
    const colon = word.indexOf(':');
    const read = colon > 0 ? readerOf(word.slice(0, colon)) : null;
    return { read, part: (read ? word.slice(colon + 1) : word).toLowerCase() };
  });
  if (!words.length) return { matches: null, text: '' };
  const everywhere = [...Object.values(FIELDS), textOf];
  const plain = words.map(({ part }) => part).filter(isPlain).sort((one, two) => two.length - one.length);
  return { matches: (task) => words.every(({ read, part }) => (read ? [read] : everywhere).some((of) => asText(of(task)).includes(part))), text: plain[0] };
}

/** When a task ends, ended or is due. */
const timeOf = (task) => task.finished?.at_us ?? task.died_us ?? task.not_before_us ?? task.due_us;

/** Orders of a list other than that of the store, by the word of the column: what ended last, or is due first, comes first. */
const ORDERS = {
  id: (one, two) => (one.id < two.id ? -1 : 1),
  when: (one, two) => (one.finished || one.died_us ? timeOf(two) - timeOf(one) : timeOf(one) - timeOf(two)),
  tried: (one, two) => (two.attempt ?? two.attempts) - (one.attempt ?? one.attempts),
};

const baseOf = (queue) => `/v1/queues/${path(queue)}`;

/** The list that a URL of the queue's screen asks for. */
function listIn(queue, query) {
  const order = Object.hasOwn(ORDERS, query.get('sort')) ? query.get('sort') : null;
  return {
    queue, base: baseOf(queue), state: STATES.includes(query.get('state')) ? query.get('state') : 'current',
    prefix: query.get('q') ?? '', filter: query.get('filter') ?? '', after: order ? '' : query.get('after') ?? '',
    // For another order than that of the store, all tasks are read.
    order, want: order ? SCAN_MAX : PAGE,
  };
}

/** The first request for a list. */
const firstOf = (of, want) => listOf(of, of.after, Math.min(of.filter.trim() ? SCAN_MAX : want, READ_FIRST), filterOf(of.filter).text);

/**
 * Reads pages until `want` tasks match, or `SCAN_MAX` were read. All matches of the pages are returned, and the cursor behind
 * them. `progress` gets what was found so far.
 */
async function find(of, want, progress = () => {}) {
  const { state, prefix, filter } = of;
  const { matches, text } = filterOf(filter);
  const found = [];
  for (let [url, read, requests] = [firstOf(of, want), 0, 1]; ; requests += 1) {
    const { items, next, read: searched = items.length } = await readList(url);
    read += searched;
    for (const task of items) {
      if (task.id.startsWith(prefix) && (!matches || matches(task))) found.push(state === 'dead' ? { ...task, state: 'dead' } : task);
    }
    const isMore = next !== undefined && (state !== 'dead' || next.startsWith(prefix));
    if (!isMore || read >= SCAN_MAX || found.length >= want || requests === REQUESTS_MAX) return { found, next: isMore ? next : undefined, read };
    url = listOf(of, next, Math.min(matches ? SCAN_MAX : want - found.length, text ? SEARCH : READ, SCAN_MAX - read), text);
    progress({ found: [...found], read, isPartial: true });
  }
}

/** Sends the first request of a list, so that the server answers while the browser renders the screen. */
function readFirst({ screen, names, query }) {
  if (screen !== 'queue' || !connection.peek().on) return undefined;
  const of = listIn(names.queue, query);
  return readAhead(firstOf(of, of.want));
}
onRead(readFirst);
effect(() => { readFirst(route.value); });

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

const when = (task, at) => relative(timeOf(task), at);

const errorOrWorker = (task, queue) => (task.state === 'dead' ? html`<span class="clip" title=${task.error}>${task.error}</span>`
  : task.worker ? html`<${Name} to=${['queues', queue, 'workers', task.worker]} />` : '–');

/** Tasks with their verbs. Without `select`, they cannot be selected. `worker`: the worker of all of them, which is not repeated. */
function TaskRows({ of, tasks, selected, select, worker }) {
  const at = now.value;
  const columns = [
    select && [['select', 'pick'], (task) => html`<input type="checkbox" aria-label=${t('selectTask', task.id)} checked=${selected.has(task.id)} onChange=${() => select(task.id)} />`],
    [['id'], (task) => html`<${Name} to=${['queues', of.queue, 'tasks', task.id]} />`],
    [['state'], stateText],
    [['kind'], (task) => task.kind ?? '–'],
    [['tried', 'n'], (task) => `${task.attempt ?? task.attempts}/${task.max_attempts}`],
    [['when', 'n'], (task) => when(task, at)],
    !worker && [of.state === 'dead' ? ['error', 'wrap'] : ['worker'], (task) => errorOrWorker(task, of.queue)],
    [['verbs', 'verbs'], (task) => html`<${Menu} lazy label=${t('moreVerbs', task.id)}><${TaskVerbs} base=${of.base} task=${task} small /><//>`],
  ].filter(Boolean);
  const heads = columns.map(([head]) => head);
  const rows = tasks.map((task) => ({ key: task.id, cells: columns.map(([, cell]) => cell(task)) }));
  return html`<${Table} heads=${heads} rows=${rows} label=${t('tasks')} />`;
}

/** Dead letters by error, most frequent first. */
function Groups({ of }) {
  const { said } = usePolled(() => find({ ...of, filter: '', after: '' }, SCAN_MAX), [of.base], 5000);
  if (!said) return html`<p class="soft">${t('loading')}</p>`;
  const groups = new Map();
  for (const { error, id } of said.found) groups.set(error, [...(groups.get(error) ?? []), id]);
  const { shown, pager } = paged([...groups].sort(([, one], [, two]) => two.length - one.length));
  const rows = shown.map(([error, ids]) => ({
    key: error,
    cells: [number(ids.length), html`<span class="clip">${error}</span>`, someOf(ids.slice(0, 3)),
      html`<a href=${withQuery({ group: null, filter: `error:${error.split(/\s+/)[0]}` })}>${t('show')}</a>`],
  }));
  return html`<div class="card"><${Table} heads=${[['tasks', 'n'], ['error', 'wrap'], ['id'], ['verbs', 'verbs']]} rows=${rows} label=${t('byError')} /></div>${pager}${said.next !== undefined && html`<p class="soft">${t('firstGrouped', number(said.read))}</p>`}`;
}

function TaskList({ queue, base }) {
  const { query } = route.value;
  const of = listIn(queue, query);
  const key = [base, of.state, of.prefix, of.filter, of.after, of.order].join('\n');
  const [marked, setSelected] = useState(new Set());
  useEffect(() => setSelected(new Set()), [key]);
  const ordered = (answer) => (of.order ? { ...answer, found: [...answer.found].sort(ORDERS[of.order]) } : answer);
  const { said, error } = usePolled(async (early) => ordered(await find(of, of.want, (part) => early(ordered(part)))), [key], 1000);
  const select = (id) => setSelected((old) => { const all = new Set(old); if (!all.delete(id)) all.add(id); return all; });
  if (query.get('group') === 'error') return html`<p><a href=${withQuery({ group: null })}>${t('ungroup')}</a></p><${Groups} of=${{ ...of, state: 'dead' }} />`;
  const tasks = said?.found ?? [];
  const { shown, pager, isLast } = paged(tasks);
  // Tasks that are gone are not selected anymore.
  const selected = new Set(tasks.map(({ id }) => id).filter((id) => marked.has(id)));
  const bulk = bulkOf(of.state).map((verb) => html`<${BulkVerb} key=${verb} of=${of} verb=${verb} selected=${selected} />`);
  const count = said && t('found', `${number(tasks.length)}${said.next !== undefined || said.isPartial || of.after ? '+' : ''}`);
  return html`<div class="row found"><${Search} label=${t('search')} /><${Search} name="filter" label=${t('filterTasks')} />
      <span class="soft count" role="status">${count}${(of.filter || of.order) && said ? ` · ${t('scanned', number(said.read))}` : ''}</span>
      <span class="row ends"><${SortBy} words=${['stored', ...Object.keys(ORDERS)]} current=${of.order ?? 'stored'} />
      ${of.state === 'dead' && html`<a href=${withQuery({ group: 'error' })}>${t('byError')}</a>`}
      ${tasks.length > 0 && (selected.size ? bulk : html`<${Menu} label=${t('moreVerbs', queue)}>${bulk}<//>`)}</span></div>
    ${error && html`<p class="bad">${error instanceof Problem ? error.message : t('away')}</p>`}
    ${!error && (!said || (said.isPartial && !tasks.length)) ? html`<p class="soft">${t('loading')}</p>` : tasks.length ? html`<div class="card"><${TaskRows} of=${of} tasks=${shown} selected=${selected} select=${select} /></div>` : html`<${Nothing} word=${said?.next === undefined || of.order ? 'nothing' : 'nothingYet'} />`}
    ${pager}${isLast && !of.order && html`<nav class="pager row" aria-label=${t('pages')}>${of.after && html`<a href=${withQuery({ after: null, page: null })} rel="first">${t('firstPage')}</a>`}
      ${said?.next !== undefined && html`<a href=${withQuery({ after: said.next, page: null })} rel="next">${t('nextPage')}</a>`}</nav>`}`;
}

// ── Limits, and tasks by hand ───────────────────────────────────────────────────────────────────────────────────────

const parsed = (text) => { try { return [JSON.parse(text), null]; } catch (error) { return [null, `${t('notJson')} ${error.message}`]; } };

function EnqueueVerb({ queue, base }) {
  const fields = [
    { name: 'id', kind: 'text', label: t('id'), max: 200, value: `by-hand-${Date.now().toString(36)}` },
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

const limitText = (of) => (of ? `${number(of.n)} / ${exactly(of.per_ms)}` : null);

const setLimits = (base, body) => api('PUT', `${base}/limits`, { body });

const KeepEventsVerb = ({ queue: { queue: name, limits }, base }) => (limits.events ? null
  : html`<${Verb} word="keepEvents" title=${name} says=${() => t('keepEventsSays')} work=${() => setLimits(base, { ...limits, events: 10000 })} />`);

/** Keys that `AtLimits` names. */
const KEYS_MAX = 20;

/** How many tasks run, and the keys that are at their limit. */
function AtLimits({ queue: { queue: name, leased, limits }, base }) {
  const perKey = limits.per_key?.concurrency;
  const { said } = usePolled(() => (perKey ? find({ base, state: 'leased', prefix: '', filter: '', after: '' }, SCAN_MAX) : { found: [] }), [base, perKey], 1000);
  const counts = Map.groupBy(said?.found.filter(({ key }) => key) ?? [], ({ key }) => key);
  const keys = [...counts].filter(([, tasks]) => tasks.length >= perKey).map(([key]) => key).sort();
  return html`${limits.concurrency && html`<p>${t('runningOf', number(leased), number(limits.concurrency))}</p>`}
    ${perKey && said && html`<p>${t(keys.length ? 'keysAtLimit' : 'noKeyAtLimit', number(perKey))} ${keys.slice(0, KEYS_MAX).map((key) => html`<a key=${key} href=${`${to('queues', name)}?${new URLSearchParams({ state: 'leased', filter: `key:${key}` })}`}>${key}</a> `)}
      ${keys.length > KEYS_MAX && t('andMore', number(keys.length - KEYS_MAX))}</p>`}`;
}

function Limits({ queue, base }) {
  const { queue: name, limits } = queue;
  const [isOpen, setOpen] = useState(false);
  const facts = [
    ['concurrency', limits.concurrency && number(limits.concurrency)], ['rateLimit', limitText(limits.rate)],
    ['perKeyConcurrency', limits.per_key?.concurrency && number(limits.per_key.concurrency)], ['perKeyRate', limitText(limits.per_key?.rate)],
    ['capacity', limits.bound && number(limits.bound)], ['overflow', limits.bound && t(`overflow_${limits.overflow}`)],
    ['retention', limits.retention && [limits.retention.age_ms && exactly(limits.retention.age_ms), limits.retention.count && number(limits.retention.count)].filter(Boolean).join(', ')],
    ['eventsKept', limits.events && number(limits.events)],
  ].filter(([, value]) => value);
  return html`<details class="card limits" onToggle=${({ target }) => setOpen(target.open)}><summary><h2>${t('limits')}</h2> <span class="soft">${facts.map(([word, value]) => `${t(word)} ${value}`).join(' · ') || t('noLimits')}</span></summary>
    <${Facts} of=${facts} />
    ${isOpen && html`<${AtLimits} queue=${queue} base=${base} />`}
    <div class="row"><${Verb} word="changeLimits" title=${name} says=${() => t('limitsSay')} check=${({ limits: text }) => parsed(text)[1]}
        fields=${[{ name: 'limits', kind: 'area', label: t('limitsJson'), value: JSON.stringify(limits, null, 2) }]} work=${({ limits: text }) => setLimits(base, JSON.parse(text))} />
      <${KeepEventsVerb} queue=${queue} base=${base} /></div>
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
  const { shown, pager } = paged(said.workers);
  const rows = shown.map((worker) => ({
    key: worker.id,
    cells: [html`<${Name} to=${['queues', queue, 'workers', worker.name]} />`, modeOf(worker), worker.concurrency ? `${number(worker.running)} / ${number(worker.concurrency)}` : number(worker.running),
      longestOf(worker.tasks, at), worker.since_us ? relative(Math.min(worker.since_us, at), at) : '–', worker.version || '–',
      html`<span class="row"><${WorkerVerbs} base=${base} worker=${worker} small /></span>`],
  }));
  return html`<p class="soft count" role="status">${t('found', number(said.workers.length))}</p>
    <div class="card"><${Table} heads=${[['worker'], ['state'], ['leased', 'n'], ['longestRun', 'n'], ['since', 'n'], ['version'], ['verbs', 'verbs']]} rows=${rows} label=${t('workers')} /></div>
    ${pager}<p class="soft">${t('workersOf')}</p>`;
}

/** All workers of one name: programs may share it. */
export function Worker({ queue, worker: name }) {
  useTitle(name, queue);
  const base = baseOf(queue);
  const { said } = usePolled(() => readWorkers(base), [base], 1000);
  const at = now.value;
  const workers = (said?.workers ?? []).filter((worker) => worker.name === name);
  const tasks = workers[0]?.tasks ?? [];
  const of = { queue, base, state: 'leased' };
  const { shown, pager } = paged(tasks);
  const facts = (worker) => [
    ['state', modeOf(worker)], ['leased', worker.concurrency && `${number(worker.running)} / ${number(worker.concurrency)}`],
    ['since', worker.since_us && timed(worker.since_us, at)], ['announced', worker.seen_us && timed(worker.seen_us, at)], ['version', worker.version], ['id', worker.mode && worker.id],
  ];
  return html`<${Crumbs} queue=${queue} /><div class="row head"><h1>${name}</h1><${Tag}>${t('worker')}<//></div>
    ${!said ? html`<p class="soft">${t('loading')}</p>` : !workers.length ? html`<${Nothing} word="goneWorker" />` : html`
      <div class="grid two">${workers.map((worker) => html`<${Card} key=${worker.id} title=${t('facts')} aside=${html`<span class="row ends"><${WorkerVerbs} base=${base} worker=${worker} /></span>`}><${Facts} of=${facts(worker)} /><//>`)}</div>
      ${tasks.length ? html`<p class="soft count">${t('tasks')}: ${number(tasks.length)}${said.isMore ? '+' : ''}</p><div class="card"><${TaskRows} of=${of} tasks=${shown} worker=${name} /></div>${pager}` : html`<${Nothing} word="idleWorker" />`}`}`;
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

/** The browser's time zone. */
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

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
  const base = baseOf(queue);
  const { said } = usePolled(() => findIn(`${base}/schedules`, id), [base, id], 1000);
  const at = now.value;
  const isGone = said === null;
  return html`<${Crumbs} queue=${queue} /><div class="row head"><h1>${id}</h1><${Tag} kind=${said?.paused ? 'stopped' : 'open'}>${t(said?.paused ? 'paused' : 'working')}<//>
      ${said && !isGone && html`<span class="row ends"><${ScheduleVerbs} base=${base} queue=${queue} schedule=${said} /></span>`}</div>
    ${isGone ? html`<${Nothing} word="gone" />` : said === undefined ? html`<p class="soft">${t('loading')}</p>` : html`<div class="grid two">
      <${Card} title=${t('facts')}><${Facts} of=${[['pattern', said.when], ['previous', said.previous_us && timed(said.previous_us, at)], ['kind', said.kind], ['priority', said.priority], ['maxAttempts', said.max_attempts]]} /><//>
      <${Card} title=${t('upcoming')}>${said.upcoming_us.length ? html`<p class="soft">${t('timesIn', ZONE)}</p><ol class="plain">${said.upcoming_us.map((us) => html`<li key=${us}>${timed(us, at)}</li>`)}</ol>` : html`<${Nothing} word=${said.paused ? 'pausedSchedule' : 'neverAgain'} />`}<//>
      <${Card} title=${t('payload')}><${Content} of=${said} label=${t('payload')} /><//></div>`}`;
}

// ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const FAILURES = ['failed', 'lost', 'dead', 'dropped'];

/** The kept events that match `filter`, and later ones as they happen. */
function EventList({ queue: name, base, filter, isOn }) {
  const matches = hasWords(filter);
  const isWanted = ({ event, id, worker = '', error = '' }) => matches(`${t(`change_${event}`)} ${id} ${worker} ${error}`);
  const list = useTail(`${base}/events`, 0, isWanted, isOn);
  const rows = list.map((event) => ({
    key: event.seq, class: FAILURES.includes(event.event) ? 'refused' : '',
    cells: [clockTime(event.at_us / 1e6), t(`change_${event.event}`), html`<${Name} to=${['queues', name, 'tasks', event.id]} />`, event.attempt ?? '–', event.error ?? event.worker ?? '–'],
  }));
  return rows.length ? html`<div class="card"><${Table} heads=${[['when'], ['event'], ['name'], ['attemptNumber', 'n'], ['details', 'wrap']]} rows=${rows} label=${t('events')} /></div>`
    : html`<${Nothing} word=${filter ? 'noSuchEvent' : 'noEventYet'} />`;
}

/** The events of the queue's tasks. */
function Events({ queue: name, base }) {
  const [isOn, setOn] = useState(true);
  const queue = queueOf(name);
  const filter = route.value.query.get('q') ?? '';
  if (!queue?.limits.events) return html`<p class="soft">${t('noEvents')}</p>${queue && html`<${KeepEventsVerb} queue=${queue} base=${base} />`}`;
  // A new filter reads the kept events again.
  return html`<div class="row found"><${Search} label=${t('filterEvents')} />
      <span class="soft count">${t(isOn ? 'eventsFollow' : 'eventsStopped', number(EVENTS_MAX))}</span>
      <span class="row ends"><button type="button" class="small" aria-pressed=${!isOn} onClick=${() => setOn(!isOn)}>${t(isOn ? 'stopFollowing' : 'follow')}</button></span></div>
    <${EventList} key=${filter} queue=${name} base=${base} filter=${filter} isOn=${isOn} />`;
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

const VIEWS = { queue: TaskList, schedules: SchedulesList, workers: WorkersList, events: Events };

export function Queue({ queue: name }) {
  const { screen, query } = route.value;
  useTitle(...(screen === 'queue' ? [query.get('state') && t(query.get('state'))].filter(Boolean) : [t(screen)]), name);
  const base = baseOf(name);
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
    <nav class="views row" data-tabs aria-label=${t('views')}>
      ${STATES.map((state) => tab(state, state === 'current' ? to('queues', name) : `${to('queues', name)}?state=${state}`))}
      ${['schedules', 'workers', 'events'].map((view) => tab(view, to('queues', name, view)))}
    </nav>
    <${List} queue=${name} base=${base} />
  </article>`;
}
