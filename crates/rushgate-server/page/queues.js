// All queues: backlog, throughput, failures and age, with their recent past.
import { html } from '/page/vendor/preact.js';
import { api, number, path, rate, spoken, t, took } from '/page/common.js';
import { Verb } from '/page/dialogs.js';
import { Nothing, Search, SortBy, Spark, Table, Tag, Trouble, paged, useAll, useOthers, useTitle } from '/page/parts.js';
import { Name, route } from '/page/router.js';
import { flowOf, isFollowed, isTruncated, latestOf, queueOf, ratesOf, useHistory } from '/page/state.js';

export const backlogOf = (queue) => queue.ready + queue.scheduled + queue.blocked;

/** Pauses or resumes a queue. */
export function PauseVerb({ queue, small }) {
  const { queue: name, paused } = queue;
  const word = paused ? 'resume' : 'pause';
  return html`<${Verb} key=${word} word=${word} title=${name} small=${small} work=${() => api('POST', `/v1/queues/${path(name)}/${word}`, { body: {} })}
    says=${() => (paused ? t('resumeSays', number(queue.ready)) : t('pauseSays', number(queue.leased)))} />`;
}

/** A figure of a queue with its recent past. */
export function Recent({ queue, word, counts, children }) {
  const history = useHistory('queue', queue.queue);
  const values = history && (counts ? ratesOf(history, counts) : history.gauges[word]);
  const label = `${t(word)}: ${queue.queue}`;
  const isUnknown = counts && !(queue.limits.events && isFollowed('queue', queue.queue));
  return html`<span class="recent">${!isUnknown && html`<${Spark} at=${history?.at_ms} values=${values ?? []} label=${label} kind=${word} />`}
    <span>${children ?? (counts ? (history && !isUnknown ? `${rate(latestOf(history, values))}${t('perS')}` : '–') : number(queue[word]))}</span></span>`;
}

/** How long the latest tasks waited or ran: median and 99th percentile. */
export function Quantiles({ queue, kind }) {
  const of = flowOf(queue.queue)?.[kind];
  return html`<span class="quantiles">${of ? `${took(of.p50_us)} / ${took(of.p99_us)}` : '–'}</span>`;
}

const age = (queue) => (queue.ready ? spoken(1000 * queue.lag_ms) : '–');

const COLUMNS = [['name', (queue) => queue.queue], ['ready', (queue) => -queue.ready], ['oldest', (queue) => -queue.lag_ms], ['leased', (queue) => -queue.leased], ['dead', (queue) => -queue.dead]];

export function QueueTable({ queues, verbs = true }) {
  const heads = [['name'], ['state'], ['ready', 'n'], ['throughput', 'n'], ['failures', 'n'], ['oldest', 'n'], ['waitTime', 'n'], ['runTime', 'n'], ['scheduled', 'n'], ['leased', 'n'], ['blocked', 'n'], ['dead', 'n'], ...(verbs ? [['verbs', 'verbs']] : [])];
  // The figures of a queue that the snapshot has no room for come later.
  const unknown = (queue) => ({ key: queue.queue, cells: heads.map(([word]) => (word === 'name' ? html`<${Name} to=${['queues', queue.queue]} />` : word === 'verbs' ? '' : '–')) });
  const rows = queues.map((queue) => (queue.limits ? {
    key: queue.queue,
    cells: [
      html`<${Name} to=${['queues', queue.queue]} />`,
      html`<${Tag} kind=${queue.paused ? 'stopped' : 'open'}>${t(queue.paused ? 'paused' : 'working')}<//>`,
      html`<${Recent} queue=${queue} word="ready" />`,
      html`<${Recent} queue=${queue} word="throughput" counts=${['done']} />`,
      html`<${Recent} queue=${queue} word="failures" counts=${['failed', 'dead']} />`,
      html`<${Recent} queue=${queue} word="lag_ms">${age(queue)}<//>`,
      html`<${Quantiles} queue=${queue} kind="wait" />`, html`<${Quantiles} queue=${queue} kind="run" />`,
      number(queue.scheduled), number(queue.leased), number(queue.blocked),
      queue.dead ? html`<a href=${`/queues/${path(queue.queue)}?state=dead`}>${number(queue.dead)}</a>` : '0',
      ...(verbs ? [html`<${PauseVerb} queue=${queue} small />`] : []),
    ],
  } : unknown(queue)));
  return html`<${Table} heads=${heads} rows=${rows} label=${t('queues')} class="wide-only" />`;
}

export function Queues() {
  useTitle(t('queues'));
  const { query } = route.value;
  const isMany = isTruncated('queues');
  const { all: listed, note } = useAll('queues');
  const all = listed.map((of) => queueOf(of.name ?? of.queue) ?? { queue: of.name });
  // If there are many, the figures of most are not known.
  const sort = (!isMany && COLUMNS.find(([word]) => word === query.get('sort'))) || COLUMNS[0];
  const found = all.filter(({ queue }) => queue.includes(query.get('q') ?? ''));
  found.sort((one, two) => (sort[1](one) < sort[1](two) ? -1 : 1));
  const { shown, pager } = paged(found);
  const { error } = useOthers('queues', shown.map(({ queue }) => queue));
  const hidden = shown.some(({ limits }) => limits && !limits.events);
  return html`<div class="row head"><h1>${t('queues')}</h1>
    ${!isMany && html`<${SortBy} words=${COLUMNS.map(([word]) => word)} current=${sort[0]} />`}
    <${Search} label=${t('nameContains')} /></div>
    ${found.length ? html`<div class="card"><${QueueTable} queues=${shown} /></div>` : html`<${Nothing} word=${all.length ? 'nothing' : 'noQueues'} />`}
    ${hidden && found.length > 0 && html`<p class="soft">${t('needsEvents')}</p>`}
    <${Trouble} error=${error} />${note}${pager}`;
}
