// Dialogs of the operator console: confirmations that say what will happen, and forms.
import { html, signal, useEffect, useRef, useState } from '/page/vendor/preact.js';
import { Problem, t } from '/page/common.js';
import { canAct } from '/page/parts.js';

const asked = signal(null);
const told = signal('');
let telling;

export function tell(text) {
  told.value = text;
  clearTimeout(telling);
  telling = setTimeout(() => { told.value = ''; }, 6000);
}

/** The last message, for screen readers too. */
export const Told = () => html`<p id="said" role="status" aria-live="polite">${told.value}</p>`;

/** An error as text. */
export const spell = (error) => (error instanceof Problem ? error.message : t('notSentNow'));

/**
 * Asks the operator. `says` are paragraphs about what will happen; `fields` are inputs; `typed` is a name to type.
 * Resolves to the values by field name, or to null if refused.
 */
export const ask = (question) => new Promise((resolve) => { asked.value = { ...question, resolve }; });

/** Runs a command and tells its outcome. Lists are read again. */
export async function carryOut(work) {
  try {
    await work();
    tell(t('carriedOut'));
    return true;
  } catch (error) {
    tell(spell(error));
    return false;
  } finally {
    dispatchEvent(new Event('acted'));
  }
}

/** A button that asks first. */
export function Verb({ word, title, work, danger, small, primary, ...question }) {
  const press = async () => {
    const says = [await question.says?.()].flat();
    const answer = await ask({ ...question, says, title: title ? `${t(word)}: ${title}` : t(word), verb: t(word), danger });
    if (answer) await carryOut(() => work(answer));
  };
  const kind = [danger && 'danger', small && 'small', primary && 'primary'].filter(Boolean).join(' ');
  return html`<button type="button" class=${kind} disabled=${!canAct()} onClick=${press}>${t(word)}</button>`;
}

/** Inputs keep what the operator types: only their first value is set here. */
const FIELDS = {
  number: (field) => html`<input type="number" name=${field.name} min=${field.min ?? 1} max=${field.max} step="1" defaultValue=${field.value ?? 1} required=${!field.optional} />`,
  text: (field) => html`<input type="text" name=${field.name} maxlength=${field.max ?? 256} defaultValue=${field.value ?? ''} required=${!field.optional} class="wide" spellcheck=${false} />`,
  area: (field) => html`<textarea name=${field.name} rows="8" class="wide" spellcheck=${false} required=${!field.optional} defaultValue=${field.value ?? ''}></textarea>`,
  check: (field) => html`<input type="checkbox" name=${field.name} defaultChecked=${field.value} />`,
  choice: (field) => html`<select name=${field.name}>${field.options.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === field.value}>${text}</option>`)}</select>`,
};

const Field = ({ field }) => html`<label class=${field.kind === 'check' ? 'check-field' : ''}>
  ${field.kind === 'check' ? html`${FIELDS.check(field)} ${field.label}` : html`<span>${field.label}</span>${FIELDS[field.kind ?? 'number'](field)}`}
  ${field.hint && html`<small class="soft">${field.hint}</small>`}
</label>`;

function valuesOf(form, fields) {
  const read = (field) => {
    const input = form.elements[field.name];
    if (field.kind === 'check') return input.checked;
    return (field.kind ?? 'number') === 'number' ? (input.value === '' ? null : Number(input.value)) : input.value;
  };
  return Object.fromEntries(fields.map((field) => [field.name, read(field)]));
}

/** The open question. */
export function Dialog() {
  const of = asked.value;
  const dialog = useRef();
  const [typed, setTyped] = useState('');
  useEffect(() => {
    if (!of) return;
    setTyped('');
    dialog.current.showModal();
  }, [of]);
  const close = (answer) => {
    asked.value = null;
    of.resolve(answer);
  };
  const submit = (event) => {
    event.preventDefault();
    // A field may refuse its value, such as text that is no JSON.
    const values = valuesOf(event.target, of.fields ?? []);
    const wrong = of.check?.(values);
    if (wrong) { tell(wrong); return; }
    dialog.current.close('yes');
    close(values);
  };
  if (!of) return null;
  const { title, says = [], fields = [], typed: wanted, danger, verb } = of;
  return html`<dialog ref=${dialog} aria-labelledby="ask-title" onClose=${() => asked.value === of && close(null)}>
    <form method="dialog" onSubmit=${submit}>
      <h2 id="ask-title">${title}</h2>
      ${says.filter(Boolean).map((text, n) => html`<p key=${n} class="preview">${text}</p>`)}
      ${fields.map((field) => html`<${Field} key=${field.name} field=${field} />`)}
      ${wanted && html`<label><span>${t('typeName', wanted)}</span>
        <input type="text" class="wide" autocomplete="off" spellcheck=${false} value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>`}
      <div class="row ends">
        <button type="button" onClick=${() => dialog.current.close('no')}>${t('keep')}</button>
        <button class=${danger ? 'danger filled' : 'primary'} disabled=${Boolean(wanted) && typed.trim() !== wanted}>${verb}</button>
      </div>
    </form>
  </dialog>`;
}
