// A JSON value as a tree. Closed branches are not rendered, and long ones are shown in parts.
import { html, useState } from '/page/vendor/preact.js';
import { number, t } from '/page/common.js';
import { Copy } from '/page/parts.js';

/** Branches down to this depth are open at first, if they are small. */
const OPEN_DEPTH = 3;
const OPEN_SIZE = 30;
/** Members that one step shows, and characters of a text. */
const STEP = 100;
const TEXT_MAX = 2000;

export const isTree = (value) => typeof value === 'object' && value !== null;

const sizeOf = (value) => (Array.isArray(value) ? value.length : Object.keys(value).length);

const Key = ({ name }) => (name === undefined ? null : html`<span class="json-key">${typeof name === 'number' ? name : JSON.stringify(name)}</span>: `);

function Leaf({ value }) {
  const text = isTree(value) ? (Array.isArray(value) ? '[]' : '{}') : JSON.stringify(value);
  return html`<span class="json-${typeof value}">${text.slice(0, TEXT_MAX)}</span>${text.length > TEXT_MAX && html` <span class="soft">… ${t('cut', number(text.length))}</span>`}`;
}

function Branch({ name, value, depth }) {
  const size = sizeOf(value);
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && size <= OPEN_SIZE);
  const [shown, show] = useState(STEP);
  const [begin, end] = Array.isArray(value) ? '[]' : '{}';
  const members = Array.isArray(value) ? value.slice(0, shown).map((member, n) => [n, member]) : Object.entries(value).slice(0, shown);
  return html`<details open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
    <summary><${Key} name=${name} />${begin}${!isOpen && ` … ${end}`} <span class="soft">${number(size)}</span></summary>
    ${isOpen && html`<ul>${members.map(([key, member]) => html`<li key=${key}><${Node} name=${key} value=${member} depth=${depth + 1} /></li>`)}</ul>
      ${size > shown && html`<button type="button" class="small" onClick=${() => show(shown + STEP)}>${t('showMore', number(size - shown))}</button>`}<span>${end}</span>`}
  </details>`;
}

const Node = ({ name, value, depth }) => (isTree(value) && sizeOf(value)
  ? html`<${Branch} name=${name} value=${value} depth=${depth} />` : html`<${Key} name=${name} /><${Leaf} value=${value} />`);

export const Json = ({ value, label }) => html`<div class="text">
  <${Copy} text=${() => JSON.stringify(value, null, 2)} />
  <div class="json" role="region" tabindex="0" aria-label=${label}><${Node} value=${value} depth=${0} /></div></div>`;
