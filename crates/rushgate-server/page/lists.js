// Lists, facts and tables that update in place.
import { h, moment, relative, say, t } from '/page/common.js';

/** Updates the items of a list. */
export function itemize(list, texts) {
  texts.forEach((text, n) => say(list.children[n] ?? list.appendChild(h('li')), text));
  while (list.children.length > texts.length) list.lastChild.remove();
}

/** Updates a list of named facts. Omits empty ones. */
export function tellFacts(list, facts) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== '');
  known.forEach(([word, value], n) => {
    const { firstChild, lastChild } = list.children[n] ?? list.appendChild(h('div', {}, h('dt'), h('dd')));
    say(firstChild, t(word));
    say(lastChild, String(value));
  });
  while (list.children.length > known.length) list.lastChild.remove();
}

export const timed = (us, now) => us && `${moment(us)} (${relative(us, now)})`;

/** A section of a detail dialog with its heading, hidden while it is empty. */
export const part = (word, element) => h('section', { hidden: true, id: `detail-${word}` }, h('h3', {}, t(word)), element);

/** Names the first five IDs. */
export const someOf = (ids) => `${ids.slice(0, 5).join(', ')}${ids.length > 5 ? ', …' : ''}`;

/** Puts elements in order. Moves only those in the wrong place, so that the focus stays. */
export function arrange(parent, wanted, none) {
  const elements = wanted.length ? wanted : [h('p', { class: 'soft' }, t(none))];
  elements.forEach((element, n) => {
    if (parent.children[n] !== element) parent.insertBefore(element, parent.children[n] ?? null);
  });
  while (parent.children.length > elements.length) parent.lastChild.remove();
}

// ── Tables: a row stays while its key does ───────────────────────────────────────────────────────────────────────────

/** Replaces buttons and keeps the keyboard focus at the same position. */
function exchange(place, buttons) {
  const focused = [...place.children].indexOf(document.activeElement);
  place.replaceChildren(...buttons.filter(Boolean));
  place.children[focused]?.focus();
}

/** The last column holds the buttons. They are rebuilt when the shape of their row changes. */
export function table(heads) {
  const body = h('tbody');
  const rows = new Map();
  const element = h('div', { class: 'card scroll' }, h('table', { class: 'stack' },
    h('thead', {}, h('tr', {}, heads.map(([word, right]) => h('th', { class: right ? 'n' : '', scope: 'col' }, word ? t(word) : '')))), body));
  const makeRow = () => h('tr', {},
    heads.slice(0, -1).map(([word, right]) => h('td', { class: right ? 'n' : '', 'data-label': t(word) })),
    h('td', { class: 'verbs' }, h('div', { class: 'row' })));
  const fill = (items, keyOf, cells, buttons, shapeOf = () => '') => {
    const focused = [...body.children].findIndex((row) => row.contains(document.activeElement));
    const wanted = items.map((item) => {
      const row = rows.get(keyOf(item)) ?? makeRow();
      rows.set(keyOf(item), row);
      cells(item).forEach((text, n) => say(row.children[n], String(text)));
      if (row.shape !== shapeOf(item)) exchange(row.lastChild.firstChild, buttons(item));
      row.shape = shapeOf(item);
      return row;
    });
    const kept = new Set(wanted);
    for (const [key, row] of rows) if (!kept.has(row)) rows.delete(key);
    wanted.forEach((row, n) => { if (body.children[n] !== row) body.insertBefore(row, body.children[n] ?? null); });
    while (body.children.length > wanted.length) body.lastChild.remove();
    // If the focused row is gone, focus the row in its place.
    if (focused >= 0 && !body.contains(document.activeElement)) body.children[Math.min(focused, wanted.length - 1)]?.querySelector('button')?.focus();
  };
  return { element, fill };
}
