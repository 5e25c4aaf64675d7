// The audit log of admin actions.
import { html } from '/page/vendor/preact.js';
import { Problem, api, moment, t, took } from '/page/common.js';
import { Nothing, Table, usePolled, useTitle } from '/page/parts.js';
import { route, withQuery } from '/page/router.js';

const PAGE = 50;

/** A path that breaks behind a slash. */
const inParts = (path) => path.split(/(?<=\/)/).map((part) => html`${part}<wbr />`);
const outcomeOf = ({ status, code }) => (status === null ? t('clientLeft') : code ? `${status} ${code}` : String(status));

export function Log() {
  useTitle(t('log'));
  const before = route.value.query.get('before');
  const { said, error } = usePolled(() => api('GET', `/v1/audit-log?${new URLSearchParams({ limit: PAGE, ...(before && { before }) })}`, { cache: 'no-cache' }), [before], 2000);
  const rows = (said?.items ?? []).map((entry, n) => ({
    key: `${entry.at_us} ${n}`, class: entry.status >= 400 ? 'refused' : '',
    cells: [moment(entry.at_us), entry.who === 'open' ? t('noTokens') : entry.who, entry.from, entry.verb, html`<code>${inParts(decodeURI(entry.path))}</code>`,
      entry.body === undefined ? `${entry.body_bytes} B` : html`<code class="clip" title=${JSON.stringify(entry.body)}>${JSON.stringify(entry.body)}</code>`, outcomeOf(entry), took(entry.took_us)],
  }));
  const heads = [['when'], ['operator'], ['from'], ['verb'], ['path', 'wrap'], ['request', 'wrap'], ['outcome'], ['latency', 'n']];
  return html`<div class="row head"><h1>${t('log')}</h1></div><p class="soft">${t('logSays')}</p>
    ${error instanceof Problem ? html`<p class="bad">${error.code === 'not_found' ? t('noLog') : error.message}</p>` : !said ? html`<p class="soft">${t('loading')}</p>`
    : rows.length ? html`<div class="card"><${Table} heads=${heads} rows=${rows} label=${t('log')} class="log" /></div>` : html`<${Nothing} word="nothing" />`}
    <nav class="pager row" aria-label=${t('pages')}>${before && html`<a href=${withQuery({ before: null })} rel="first">${t('firstPage')}</a>`}
      ${said?.next !== undefined && html`<a href=${withQuery({ before: said.next })} rel="next">${t('nextPage')}</a>`}</nav>`;
}
