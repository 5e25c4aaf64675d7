// Tasks: how they are described, and the commands for them.
import { html } from '/page/vendor/preact.js';
import { Problem, api, path, t } from '/page/common.js';
import { Verb } from '/page/dialogs.js';
import { Json, isTree } from '/page/json.js';
import { Text, justBefore } from '/page/parts.js';

export function stateText({ state: word, cancelled, progress }) {
  const percent = progress?.percent === undefined ? '' : ` ${progress.percent} %`;
  return `${t(word)}${percent}${cancelled ? `, ${t('toBeCancelled')}` : ''}`;
}

/** A payload as text: compact JSON, other text, or base64. */
export function textOf({ payload, payload_base64: base64, content_type: type }) {
  const isText = type.startsWith('text/') && payload !== undefined;
  return isText ? payload : payload === undefined ? decoded(base64 ?? '') : JSON.stringify(payload);
}

function decoded(base64) {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)));
  } catch {
    return base64;
  }
}

/** A payload or a result: a tree if it is a JSON object or array, and a text otherwise. */
export function Content({ of, label }) {
  if (isTree(of.payload)) return html`<${Json} value=${of.payload} label=${label} />`;
  const text = textOf({ content_type: '', ...of });
  return text ? html`<${Text} text=${text} label=${label} />` : html`<p class="soft">${t('none')}</p>`;
}

/** The entry of a list that is sorted by ID. Without one of that ID, the request is not refused. */
export async function findIn(list, id) {
  const { items: [first] } = await api('GET', `${list}?${new URLSearchParams({ limit: 1, after: justBefore(id) })}`);
  return first?.id === id ? first : null;
}

/** A task that is already gone counts as done. */
export const unlessGone = (error) => { if (!(error instanceof Problem && error.code === 'not_found')) throw error; };

export const cancelTask = (base, id) => api('DELETE', `${base}/tasks/${path(id)}`).catch(unlessGone);

async function inBatches(ids, work, progress = () => {}) {
  for (let n = 0; n < ids.length; n += 1000) {
    await work(ids.slice(n, n + 1000));
    progress(Math.min(n + 1000, ids.length));
  }
}

export const steerDead = (base, word, progress) => (ids) => inBatches(ids, (some) => api('POST', `${base}/dead/${word}`, { body: { ids: some } }), progress);

export const reschedule = (base, id, delay_ms = 0) => api('POST', `${base}/tasks/${path(id)}/reschedule`, { body: { delay_ms } });

const UNITS = [['1', 'unit_s'], ['60', 'unit_min'], ['3600', 'unit_h'], ['86400', 'unit_d']];

/** Changes when a waiting task is due. */
function RescheduleVerbs({ base, task: { id, state }, small }) {
  const fields = [
    { name: 'delay', label: t('delayFromNow'), min: 0, max: 34560000, value: 1 },
    { name: 'unit', kind: 'choice', label: t('unitOfTime'), value: '3600', options: UNITS.map(([s, word]) => [s, t(word)]) },
  ];
  return html`${state === 'scheduled' && html`<${Verb} word="runNow" title=${id} small=${small} says=${() => t('dueNowSays')} work=${() => reschedule(base, id)} />`}
    <${Verb} word="reschedule" title=${id} small=${small} fields=${fields} says=${() => t('rescheduleSays')}
      work=${({ delay, unit }) => reschedule(base, id, 1000 * delay * unit)} />`;
}

/** The verbs of one task, by its state. */
export function TaskVerbs({ base, task, small }) {
  const { id, state } = task;
  if (state === 'done') return null;
  if (state === 'dead') {
    return html`<${Verb} word="requeue" title=${id} small=${small} says=${() => t('requeueSays')} work=${() => steerDead(base, 'requeue')([id])} />
      <${Verb} word="remove" title=${id} small=${small} danger says=${() => [t('removeSays'), t('final')]} work=${() => steerDead(base, 'delete')([id])} />`;
  }
  return html`${state !== 'leased' && html`<${RescheduleVerbs} base=${base} task=${task} small=${small} />`}
    <${Verb} word="cancel" title=${id} small=${small} danger says=${() => t(state === 'leased' ? 'cancelRunningSays' : 'cancelSays')} work=${() => cancelTask(base, id)} />`;
}
