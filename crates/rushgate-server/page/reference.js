// API reference, built from the OpenAPI description.
import { h } from '/page/common.js';

const api = await (await fetch('/openapi.json')).json();
const types = api.components.schemas;
const nameOf = (schema) => schema.$ref.split('/').pop();
const resolve = (schema) => (schema?.$ref ? types[nameOf(schema)] : schema) ?? {};

/** A text, with its `code` spans marked. */
const prose = (text = '') => text.split('`').map((part, n) => (n % 2 ? h('code', {}, part) : part));

const joined = (parts, between) => parts.flatMap((part, n) => (n ? [between, part].flat() : part));

/** A type in words. A named type links to its fields. */
function typeOf(schema) {
  if (schema === true) return ['any'];
  if (schema.$ref) return [h('a', { href: `#type-${nameOf(schema)}` }, nameOf(schema))];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return [schema.enum.join(' | ')];
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return joined(variants.map(typeOf), ' | ');
  if (schema.type === 'array') return ['[', ...typeOf(schema.items ?? true), ']'];
  if (typeof schema.additionalProperties === 'object') return ['{ … : ', ...typeOf(schema.additionalProperties), ' }'];
  return [[schema.type ?? 'any'].flat().join(' | ')];
}

const table = (rows) => (rows.length ? h('div', { class: 'scroll' }, h('table', { class: 'stack' }, rows)) : null);

const row = (name, isRequired, type, text) => h('tr', {}, h('td', { class: 'name' }, h('span', {}, h('code', {}, name), isRequired ? ' *' : '')),
  h('td', { class: 'wide' }, h('code', {}, type)), h('td', { class: 'wide' }, h('span', {}, prose(text))));

function fields(schema) {
  const of = resolve(schema);
  const variants = of.oneOf ?? of.anyOf ?? [];
  const own = Object.entries(of.properties ?? {}).map(([name, field]) =>
    row(name, of.required?.includes(name), typeOf(field), field.description ?? resolve(field).description));
  return [table(own), variants.map((variant) => [h('p', { class: 'soft' }, variantHead(variant), prose(variant.description)), fields(variant)])].flat(9);
}

/** Heading of a variant: its constant or its type. */
const variantHead = (variant) => (variant.const !== undefined || variant.$ref ? [h('code', {}, typeOf(variant)), ' '] : []);

function operation(path, method, of) {
  const answer = Object.entries(of.responses).map(([status, response]) => {
    const [media, { schema }] = Object.entries(response.content ?? {})[0] ?? ['', {}];
    const isPlain = media && !media.includes('problem');
    return h('div', {}, h('h3', {}, status), h('p', { class: 'wide' }, prose(response.description)),
      isPlain ? [h('p', { class: 'soft' }, `${media}: `, typeOf(schema)), fields(schema)].flat(9) : null);
  });
  const parameters = of.parameters.map((parameter) =>
    row(parameter.name, parameter.required, parameter.in, parameter.description ?? parameter.schema.description));
  const body = of.requestBody?.content['application/json'].schema;
  return h('details', { class: 'route', id: of.operationId },
    h('summary', {}, h('code', { class: 'method' }, method.toUpperCase()), h('code', {}, path), ' ', of.summary),
    h('p', { class: 'soft' }, prose(of.description)), table(parameters),
    body ? [h('h3', {}, 'Body'), ...fields(body)] : null,
    answer);
}

const typeDetails = ([name, schema]) => h('details', { class: 'route', id: `type-${name}` },
  h('summary', {}, h('code', {}, name)), h('p', { class: 'soft' }, prose(schema.description)), ...fields(schema));

/** Opens the section that the URL names. */
function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  named?.setAttribute('open', '');
  named?.scrollIntoView();
}

const main = document.getElementById('reference');
main.append(h('p', {}, prose(api.info.description)));
for (const tag of api.tags) {
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).filter(([, of]) => of.tags.includes(tag.name)).map(([method, of]) => operation(path, method, of)));
  main.append(h('section', { class: 'card' }, h('h2', {}, tag.name), h('p', { class: 'soft' }, prose(tag.description)), ...operations));
}
main.append(h('section', { class: 'card' }, h('h2', {}, 'types'), h('p', { class: 'soft' }, 'What bodies and answers are made of.'),
  ...Object.entries(types).map(typeDetails)));
addEventListener('hashchange', openNamed);
openNamed();
