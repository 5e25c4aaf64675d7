// Small components that the screens share.
import { html, useEffect, useLayoutEffect, useRef, useState } from '/page/vendor/preact.js';
import { Problem, api, events, number, path, pause, t } from '/page/common.js';
import { ahead, navigate, route, withQuery } from '/page/router.js';
import { connection, isFollowed, isTruncated, others, setOthers, snapshot } from '/page/state.js';

/** Sets the title of the tab while the component is shown. */
export function useTitle(...parts) {
  const text = [...parts, 'Rushgate'].join(' · ');
  useEffect(() => { document.title = text; }, [text]);
}

export const Tag = ({ kind = '', children }) => html`<span class="tag ${kind}">${children}</span>`;

export const Card = ({ title, aside, class: more = '', children, ...rest }) => html`
  <section class="card ${more}" ...${rest}>
    ${title && html`<div class="row head"><h2>${title}</h2>${aside}</div>`}
    ${children}
  </section>`;

/** Named facts. Empty ones are left out. */
export const Facts = ({ of }) => html`<dl class="facts">
  ${of.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false)
    .map(([word, value]) => html`<div key=${word}><dt>${t(word)}</dt><dd>${value}</dd></div>`)}
</dl>`;

export const Nothing = ({ word }) => html`<p class="soft nothing">${t(word)}</p>`;

/** Rows of a table that fill a screen. */
const SCREENFUL = 20;

/**
 * A table. `heads` are [word, class]; a row has a key and cells. The class `verbs` marks a column of buttons. On narrow screens
 * each row becomes a card with its headings. Rows out of sight are rendered after the first paint.
 */
export function Table({ heads, rows, label, class: more = '' }) {
  const isLong = rows.length > SCREENFUL;
  const [isPainted, setPainted] = useState(false);
  useEffect(() => { if (isLong) setPainted(true); }, [isLong]);
  return html`
  <div class="scroll" role="region" tabindex="0" aria-label=${label}><table class="stack ${more}">
    <thead><tr>${heads.map(([word, kind = '']) => html`<th key=${word} scope="col" class=${kind}><span class=${kind === 'verbs' ? 'unseen' : ''}>${t(word)}</span></th>`)}</tr></thead>
    <tbody>${(isPainted ? rows : rows.slice(0, SCREENFUL)).map(({ key, cells, class: kind = '' }) => html`<tr key=${key} class=${kind}>
      ${cells.map((cell, n) => html`<td key=${n} class=${heads[n]?.[1] ?? ''} data-label=${heads[n][1] === 'verbs' ? undefined : t(heads[n][0])}>${cell}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

/** A link to the same screen with another query, which is marked while it is current. */
export const View = ({ query, isCurrent, children }) => html`
  <a class="view" href=${withQuery(query)} aria-current=${isCurrent ? 'page' : undefined}>${children}</a>`;

const PAGE = 50;

/** A part of a list that is in memory, by the page in the URL, links to the others, and whether it is the last. */
export function paged(all) {
  const last = Math.max(1, Math.ceil(all.length / PAGE));
  const page = Math.min(last, Math.max(1, Number(route.value.query.get('page') ?? 1) || 1));
  const pager = last > 1 && html`<nav class="pager row" aria-label=${t('pages')}>
    ${page > 1 && html`<a href=${withQuery({ page: page > 2 ? page - 1 : null })} rel="prev">${t('previousPage')}</a>`}
    <span class="soft">${t('pageOf', number(page), number(last))}</span>
    ${page < last && html`<a href=${withQuery({ page: page + 1 })} rel="next">${t('nextPage')}</a>`}
  </nav>`;
  return { shown: all.slice((page - 1) * PAGE, page * PAGE), pager, isLast: page === last };
}

/** A search field whose text is in the URL. */
export function Search({ name = 'q', label, also = {} }) {
  const { query } = route.value;
  const value = query.get(name) ?? '';
  const change = (event) => {
    // A text that is typed right after a click on a link is for the screen that opens.
    const url = withQuery({ ...also, [name]: event.target.value, page: null, after: null }, ahead());
    history.replaceState(null, '', url);
    dispatchEvent(new PopStateEvent('popstate'));
  };
  return html`<input type="search" class="search" name=${name} data-search value=${value} placeholder=${label} aria-label=${label} onInput=${change} />`;
}

/** Chooses the order of a list, by the word of a column. */
export const SortBy = ({ words, current }) => html`<label class="row">${t('sortBy')}
  <select aria-label=${t('sortBy')} onChange=${({ target }) => navigate(withQuery({ sort: target.value, page: null, after: null }))}>
    ${words.map((word) => html`<option key=${word} value=${word} selected=${word === current}>${t(word)}</option>`)}</select></label>`;

/** A menu of less common or destructive verbs. `lazy`: it has them only while it is open, for lists with one per row. */
export function Menu({ label, lazy = false, children }) {
  const place = useRef();
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (!isOpen) return undefined;
    const menu = place.current;
    const close = ({ target }) => {
      if (!menu.contains(target) || target.closest('.items button')) menu.open = false;
    };
    const escape = (event) => {
      if (event.key !== 'Escape') return;
      menu.open = false;
      menu.firstElementChild.focus();
    };
    document.addEventListener('click', close);
    menu.addEventListener('keydown', escape);
    return () => { document.removeEventListener('click', close); menu.removeEventListener('keydown', escape); };
  }, [isOpen]);
  const items = [children].flat().filter(Boolean);
  return html`<details class="menu" ref=${place} hidden=${!items.length} onToggle=${({ target }) => setOpen(target.open)}>
    <summary aria-label=${label}>⋯</summary><div class="items">${(isOpen || !lazy) && items}</div>
  </details>`;
}

/** A small line of the recent past. The newest value is at the right; time runs evenly. */
export function Spark({ at, values, label, kind = '' }) {
  if (!at || at.length < 2) return html`<svg class="spark" aria-hidden="true" viewBox="0 0 100 24"></svg>`;
  const [first, last, most] = [at[0], at.at(-1), Math.max(1, ...values)];
  const points = values.map((value, n) => `${(100 * (at[n] - first) / Math.max(last - first, 1)).toFixed(1)},${(22 - 20 * value / most).toFixed(1)}`);
  return html`<svg class="spark ${kind}" role="img" aria-label=${label} viewBox="0 0 100 24" preserveAspectRatio="none">
    <polyline points=${points.join(' ')} vector-effect="non-scaling-stroke" /></svg>`;
}

/** A button that copies a text. Browsers offer no clipboard on plain HTTP. */
export function Copy({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => { await navigator.clipboard.writeText(text()); setDone(true); setTimeout(setDone, 2000, false); };
  return navigator.clipboard ? html`<button type="button" class="small copy" onClick=${copy}>${t(done ? 'copied' : 'copy')}</button>` : null;
}

const TEXT_MAX = 20000;

/** A payload or another text, truncated if it is long, with a button that copies all of it. */
export const Text = ({ text, label }) => html`<div class="text"><${Copy} text=${() => text} />
  <pre role="region" tabindex="0" aria-label=${label}>${text.slice(0, TEXT_MAX)}${text.length > TEXT_MAX && ` … ${t('cut', number(text.length))}`}</pre></div>`;

/** Whether verbs can be sent: not while the page is disconnected. */
export const canAct = () => connection.value.on;

/**
 * Reads something from the API again after each snapshot while the page is visible. Returns { said, error }. `read` may show a
 * part of a slow answer early, with the function that it gets. The function throws once the answer is no longer wanted.
 */
export function usePolled(read, inputs, every) {
  const [state, setState] = useState({});
  // The first request is sent before the screen is painted.
  useLayoutEffect(() => {
    let [isOver, isFirst, timer] = [false, true, 0];
    const early = (said) => {
      if (isOver) throw new Error('the screen shows something else now');
      if (isFirst) setState({ said });
    };
    const run = async () => {
      const began = Date.now();
      if (!document.hidden) {
        let next;
        try { next = { said: await read(early) }; } catch (error) { next = { error }; }
        if (isOver) return;
        isFirst = false;
        setState((old) => (next.error ? { ...old, error: next.error } : next));
      }
      // A slow answer is asked for less often.
      timer = setTimeout(run, Math.max(every, 10 * (Date.now() - began)));
    };
    setState({});
    run();
    const again = () => { clearTimeout(timer); run(); };
    addEventListener('acted', again);
    return () => { isOver = true; clearTimeout(timer); removeEventListener('acted', again); };
  }, inputs);
  return state;
}

/** A test for texts that have all words of `filter`, in any case. */
export function hasWords(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => words.every((word) => text.toLowerCase().includes(word));
}

/** Events of a list. */
export const EVENTS_MAX = 100;
/** A burst of events is shown in one step. */
const EVENTS_MS = 250;

/**
 * The events of a stream after the number `from`, newest first, as they happen: the latest `EVENTS_MAX` that are wanted. The
 * stream stops while `isOn` is false, and then continues where it stopped.
 */
export function useTail(url, from, isWanted, isOn) {
  const [list, setList] = useState([]);
  const wanted = useRef();
  wanted.current = isWanted;
  const last = useRef(from);
  useEffect(() => {
    if (!isOn) return undefined;
    const stop = new AbortController();
    let [fresh, timer] = [[], 0];
    const show = () => {
      const latest = fresh.reverse();
      [fresh, timer] = [[], 0];
      setList((old) => [...latest, ...old].slice(0, EVENTS_MAX));
    };
    const follow = async () => {
      while (!stop.signal.aborted) {
        try {
          for await (const event of events(`${url}?after=${last.current}`, stop.signal)) {
            if (event.seq === undefined) continue; // some events were missed
            last.current = event.seq;
            if (!wanted.current(event)) continue;
            fresh.push(event);
            if (fresh.length > EVENTS_MAX) fresh.shift();
            timer ||= setTimeout(show, EVENTS_MS);
          }
        } catch { /* it is opened again below */ }
        await pause(1000);
      }
    };
    follow();
    return () => {
      stop.abort();
      clearTimeout(timer);
      if (fresh.length) show();
    };
  }, [url, isOn]);
  return list.filter(isWanted);
}

/** The greatest name below all names with this prefix, because lists are sorted by name. */
export function justBefore(prefix) {
  const letters = [...prefix];
  const last = letters.pop()?.codePointAt(0);
  // The prefix with its last character lowered by one, followed by the highest code point.
  return last ? `${letters.join('')}${String.fromCodePoint(last === 0xe000 ? 0xd7ff : last - 1)}\u{10ffff}` : '';
}

/** Why the screen lacks something or shows old figures; null without an error. */
export const Trouble = ({ error }) => (error ? html`<p class="bad" role="status">${error instanceof Problem ? error.message : t('away')}</p>` : null);

export const LIST_MAX = 10000;
const nameOf = (of) => of.id ?? of.name ?? of.queue;

/**
 * All sales or locks, or the names of all queues: from the snapshot, or from the API if it has not all. Returns them and `note`,
 * which tells the reader what is missing; `isCut` if it is more than `LIST_MAX`. After the first `LIST_MAX`, only names that start with the text in the search field
 * are found.
 */
export function useAll(word) {
  const [isMany, text] = [isTruncated(word), route.value.query.get('q') ?? ''];
  const read = (after) => api('GET', `/v1/${word}?${new URLSearchParams({ limit: LIST_MAX, after })}`, { cache: 'no-cache' });
  const { said, error } = usePolled(() => (isMany ? read('') : null), [word, isMany], 5000);
  const isLonger = Boolean(said?.next && text);
  const later = usePolled(() => (isLonger ? read(justBefore(text)) : null), [word, isLonger, text], 5000);
  let all = said?.items ?? snapshot.value[word];
  if (isLonger && later.said) {
    const known = new Set(all.map(nameOf));
    all = [...all, ...later.said.items.filter((of) => nameOf(of).startsWith(text) && !known.has(nameOf(of)))];
  }
  const note = html`<${Trouble} error=${error ?? later.error} />
    ${isMany && !error && (!said || (isLonger && !later.said && !later.error)) && html`<p class="soft">${t('loading')}</p>`}
    ${said?.next && html`<p class="soft">${t('firstListed', number(LIST_MAX))}</p>`}`;
  return { all, note, isCut: said ? said.next !== undefined : isMany };
}

/**
 * Reads the sales or queues of these names that the snapshot has no room for, for `saleOf` and `queueOf`. What cannot be read
 * keeps its old figures. Returns { isLoading, error }.
 */
export function useOthers(word, names) {
  const kind = word.slice(0, -1);
  const wanted = isTruncated(word) ? names.filter((name) => !isFollowed(kind, name)) : [];
  const { said, error } = usePolled(async () => {
    const found = new Map();
    let failed;
    const read = async (name) => {
      const [key, room, base] = [`${kind}/${name}`, `room/${name}`, `/v1/${word}/${path(name)}`];
      try {
        const one = await api('GET', base);
        if (one.waiting_room) found.set(room, { sale: name, ...await api('GET', `${base}/room`) });
        found.set(key, one);
      } catch (problem) {
        if (problem.code === 'not_found') return;
        failed = problem;
        for (const old of [key, room]) if (others.value.has(old)) found.set(old, others.value.get(old));
      }
    };
    await Promise.all(wanted.map(read));
    return { found, failed };
  }, [word, wanted.join('\n')], 2000);
  useEffect(() => { if (said) setOthers(said.found); }, [said]);
  useEffect(() => () => setOthers(new Map()), [word]);
  return { isLoading: wanted.length > 0 && !said && !error, error: error ?? said?.failed };
}
