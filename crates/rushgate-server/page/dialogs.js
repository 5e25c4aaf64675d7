// Dialogs of the operator's page: confirmations, results and details.
import { Problem, at, h, say, t } from '/page/common.js';

let saying;
export function tell(text) {
  say(at('said'), text);
  clearTimeout(saying);
  saying = setTimeout(() => say(at('said'), ''), 6000);
}

/** Asks the operator. Returns the typed value and the state of the checkbox, or null if refused. */
export function ask(title, { field, danger, text, preview, choice } = {}) {
  const dialog = at('ask');
  const input = field && (text ? h('input', { type: 'text', maxlength: '256', required: true, class: 'wide' })
    : h('input', { type: 'number', min: '1', value: '1', required: true }));
  const box = h('input', { type: 'checkbox' });
  const form = h('form', { method: 'dialog' },
    h('h2', { id: 'ask-title' }, title),
    preview ? h('p', { class: 'preview' }, preview) : null,
    field ? h('label', {}, field, ' ', input) : h('p', {}, t('sure')),
    choice ? h('label', {}, box, ' ', choice) : null,
    h('div', { class: 'row' },
      h('button', { value: 'no', formnovalidate: true }, t('no')),
      h('button', { value: 'yes', class: danger ? 'danger' : '' }, t('yes'))));
  dialog.replaceChildren(form);
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    const value = () => input && (text ? input.value : Number(input.value));
    dialog.onclose = () => resolve(dialog.returnValue === 'yes' ? { value: value(), chosen: box.checked } : null);
  });
}

export function display(title, ...content) {
  const dialog = at('ask');
  dialog.replaceChildren(h('form', { method: 'dialog' }, h('h2', { id: 'ask-title' }, title), ...content,
    h('div', { class: 'row' }, h('button', { autofocus: true }, t('close')))));
  dialog.showModal();
}

/** An error as text. */
export const spell = (error) => (error instanceof Problem ? error.message : t('away'));

export async function carryOut(work) {
  try {
    await work();
    tell(t('carriedOut'));
  } catch (error) {
    tell(spell(error));
  }
}

/** A button that asks first. */
export function verb(word, title, work, options = {}) {
  return h('button', {
    class: options.danger ? 'danger' : '',
    onclick: async () => {
      const answer = await ask(`${t(word)}: ${title}`, options);
      if (answer) await carryOut(() => work(answer.value, answer.chosen));
    },
  }, t(word));
}

let detail = null; // refreshes the open detail dialog

/** Opens a detail dialog and refreshes it until it is closed. */
export function openDetail(title, content, update) {
  const dialog = at('detail');
  let isBusy = false;
  dialog.replaceChildren(h('form', { method: 'dialog' }, h('h2', { id: 'detail-title' }, title), content,
    h('div', { class: 'row' }, h('button', { autofocus: true }, t('close')))));
  const own = async () => {
    if (isBusy) return;
    isBusy = true;
    try { await update(); } catch (error) { if (error instanceof Problem) tell(error.message); }
    isBusy = false;
  };
  dialog.onclose = () => { if (detail === own) detail = null; };
  detail = own;
  dialog.showModal();
  own();
}

/** Refreshes the detail dialog, if one is open. */
export const updateDetail = () => detail?.();
