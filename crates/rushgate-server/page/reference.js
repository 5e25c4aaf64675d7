// API reference, built from the OpenAPI description: a sidebar, a search, and a curl line for each route.
import { html, render, useEffect, useState } from '/page/vendor/preact.js';

const api = await (await fetch('/openapi.json')).json();
const types = api.components.schemas;
const nameOf = (schema) => schema.$ref.split('/').pop();
const resolve = (schema, all = types) => (schema?.$ref ? all[nameOf(schema)] : schema) ?? {};

/** A text, with its `code` spans marked. */
const prose = (text = '') => text.split('`').map((part, n) => (n % 2 ? html`<code>${part}</code>` : part));

/** A path that breaks behind a slash. */
const inParts = (path) => path.split(/(?<=\/)/).map((part) => html`${part}<wbr />`);

const joined = (parts, between) => parts.flatMap((part, n) => (n ? [between, part].flat() : part));

/** A type in words. A named type links to its fields. */
function typeOf(schema) {
  if (schema === true) return ['any'];
  if (schema.$ref) return [html`<a href=${`#type-${nameOf(schema)}`}>${nameOf(schema)}</a>`];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return [schema.enum.join(' | ')];
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return joined(variants.map(typeOf), ' | ');
  if (schema.type === 'array') return ['[', ...typeOf(schema.items ?? true), ']'];
  if (typeof schema.additionalProperties === 'object') return ['{ … : ', ...typeOf(schema.additionalProperties), ' }'];
  return [[schema.type ?? 'any'].flat().join(' | ')];
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A command that sends the request. */
function curlOf(path, method, of) {
  const url = location.origin + path.replace(/\{(\w+)\}/g, (_, name) => ({ reservation: 'RESERVATION', task: 'order-42' }[name] ?? `my-${name}`));
  const body = of.requestBody?.content['application/json'];
  const parts = [`curl${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} ${quoted(url)}`];
  if (of.security?.length) parts.push('-H "Authorization: Bearer $TOKEN"');
  for (const { name, required } of of.parameters.filter((one) => one.in === 'header')) if (required) parts.push(`-H ${quoted(`${name}: attempt-1`)}`);
  if (body) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body.example))}`);
  return parts.join(' \\\n  ');
}

function Curl({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => { await navigator.clipboard.writeText(text); setDone(true); setTimeout(setDone, 2000, false); };
  return html`<div class="curl">${navigator.clipboard && html`<button class="small" onClick=${copy}>${done ? 'Copied' : 'Copy'}</button>`}<pre tabindex="0" aria-label="curl">${text}</pre></div>`;
}

// ── Routes and types ────────────────────────────────────────────────────────────────────────────────────────────────

const Fields = ({ rows }) => (rows.length ? html`<table class="stack"><tbody>${rows.map(({ name, required, type, text }) => html`<tr key=${name}>
  <td class="name"><span><code>${name}</code>${required ? ' *' : ''}</span></td><td class="wide"><code>${type}</code></td><td class="wide"><span>${prose(text)}</span></td></tr>`)}</tbody></table>` : null);

/** Heading of a variant: its constant or its type. */
const variantHead = (variant) => (variant.const !== undefined || variant.$ref ? html`<code>${typeOf(variant)}</code> ` : '');

function Schema({ schema }) {
  const of = resolve(schema);
  const rows = Object.entries(of.properties ?? {}).map(([name, field]) => ({
    name, required: of.required?.includes(name), type: typeOf(field), text: field.description ?? resolve(field).description,
  }));
  return html`<${Fields} rows=${rows} />${(of.oneOf ?? of.anyOf ?? []).map((variant, n) => html`<p key=${n} class="soft">${variantHead(variant)}${prose(variant.description)}</p>${variant.$ref ? null : html`<${Schema} schema=${variant} />`}`)}`;
}

const operations = api.tags.map((tag) => ({
  ...tag,
  routes: Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).filter(([, of]) => of.tags.includes(tag.name))
    .map(([method, of]) => ({ id: of.operationId, path, method, of, words: `${method} ${path} ${of.summary} ${of.operationId}`.toLowerCase() }))),
}));

function Answer({ status, response }) {
  const [media, { schema, example }] = Object.entries(response.content ?? {})[0] ?? ['', {}];
  const isPlain = media && !media.includes('problem');
  return html`<div><h3>${status}</h3><p class="wide">${prose(response.description)}</p>
    ${isPlain && html`<p class="soft">${media}: ${typeOf(schema)}</p><${Schema} schema=${schema} />`}${example && Object.keys(example).length > 0 && html`<pre tabindex="0" aria-label="Example">${JSON.stringify(example, null, 2)}</pre>`}</div>`;
}

function Operation({ route: { id, path, method, of }, isOpen }) {
  const [open, setOpen] = useState(isOpen);
  useEffect(() => { if (isOpen) setOpen(true); }, [isOpen]);
  const rows = of.parameters.map((one) => ({ name: one.name, required: one.required, type: one.in, text: one.description ?? one.schema.description }));
  const body = of.requestBody?.content['application/json'].schema;
  return html`<details class="route" id=${id} open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary><code class="method">${method.toUpperCase()}</code><code>${path}</code> ${of.summary}</summary>
    ${open && html`<p class="soft">${prose(of.description)}</p><${Curl} text=${curlOf(path, method, of)} /><${Fields} rows=${rows} />
      ${body && html`<h3>Body</h3><${Schema} schema=${body} />`}${Object.entries(of.responses).map(([status, response]) => html`<${Answer} key=${status} status=${status} response=${resolve(response, api.components.responses)} />`)}`}
  </details>`;
}

const Type = ({ name, schema, isOpen }) => html`<details class="route" id=${`type-${name}`} open=${isOpen}><summary><code>${name}</code></summary>${(schema.description ?? '').split('\n\n').map((part) => html`<p key=${part} class="soft">${prose(part)}</p>`)}<${Schema} schema=${schema} /></details>`;

const hashNow = () => decodeURIComponent(location.hash.slice(1));

function Reference() {
  const [search, setSearch] = useState('');
  const [named, setNamed] = useState(hashNow());
  useEffect(() => {
    const change = () => setNamed(hashNow());
    const focus = (event) => { if (event.key === '/' && !event.target.matches('input')) { event.preventDefault(); document.getElementById('search').focus(); } };
    addEventListener('hashchange', change);
    addEventListener('keydown', focus);
    return () => { removeEventListener('hashchange', change); removeEventListener('keydown', focus); };
  }, []);
  useEffect(() => { document.getElementById(named)?.scrollIntoView(); }, [named]);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const isFound = (route) => words.every((word) => route.words.includes(word));
  const found = operations.map((tag) => ({ ...tag, routes: tag.routes.filter(isFound) })).filter(({ routes }) => routes.length);
  const shownTypes = Object.entries(types).filter(([name]) => words.every((word) => name.toLowerCase().includes(word)));
  return html`<header><a class="brand" href="/">Rushgate</a><h1>API</h1>
      <input id="search" type="search" placeholder="Search routes and types" aria-label="Search routes and types" value=${search} onInput=${(event) => setSearch(event.target.value)} /><a href="/openapi.json">openapi.json</a></header>
    <div class="frame"><nav class="side" aria-label="Routes">${found.map(({ name, routes }) => html`<details key=${name} open=${words.length > 0 || innerWidth > 960}><summary>${name}</summary>
      <ul>${routes.map(({ id, path, method }) => html`<li key=${id}><a href=${`#${id}`} aria-current=${named === id ? 'location' : undefined}><code class="method">${method.toUpperCase()}</code><span>${inParts(path.replace('/v1', ''))}</span></a></li>`)}</ul></details>`)}</nav>
    <main id="reference"><p>${prose(api.info.description)}</p>
      ${found.map(({ name, description, routes }) => html`<section key=${name} class="card"><h2>${name}</h2><p class="soft">${prose(description)}</p>${routes.map((route) => html`<${Operation} key=${route.id} route=${route} isOpen=${named === route.id} />`)}</section>`)}
      ${shownTypes.length > 0 && html`<section class="card"><h2>types</h2><p class="soft">What bodies and answers are made of.</p>${shownTypes.map(([name, schema]) => html`<${Type} key=${name} name=${name} schema=${schema} isOpen=${named === `type-${name}`} />`)}</section>`}
      ${!found.length && !shownTypes.length && html`<p class="soft">Nothing found.</p>`}
    </main></div>`;
}

render(html`<${Reference} />`, document.getElementById('app'));
