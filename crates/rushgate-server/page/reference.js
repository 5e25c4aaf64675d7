// The API, read from its own description.
import { h } from '/page/common.js';

const api = await (await fetch('/openapi.json')).json();
const resolve = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split('/').pop()] : schema) ?? {};
const typeOf = (schema) => {
  if (schema === true) return 'any';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.join(' | ');
  if (schema.anyOf ?? schema.oneOf) return (schema.anyOf ?? schema.oneOf).map(typeOf).join(' | ');
  if (schema.type === 'array') return `[${typeOf(schema.items ?? true)}]`;
  return [schema.type ?? 'any'].flat().join(' | ');
};

function fields(schema) {
  const of = resolve(schema);
  const variants = of.oneOf ?? of.anyOf ?? [];
  const own = Object.entries(of.properties ?? {}).map(([name, field]) =>
    h('tr', {}, h('td', {}, h('code', {}, name), of.required?.includes(name) ? ' *' : ''), h('td', { class: 'wide' }, h('code', {}, typeOf(field))),
      h('td', { class: 'wide' }, field.description ?? resolve(field).description ?? '')));
  return [
    own.length ? h('div', { class: 'scroll' }, h('table', {}, own)) : null,
    variants.map((variant) => [h('p', { class: 'soft' }, variant.description ?? ''), fields(variant)]),
  ].flat(9);
}

function operation(path, method, of) {
  const answer = Object.entries(of.responses).map(([status, response]) => {
    const [media, { schema }] = Object.entries(response.content ?? {})[0] ?? ['', {}];
    const isPlain = media && !media.includes('problem');
    return h('div', {}, h('h3', {}, status), h('p', { class: 'wide' }, response.description.replaceAll('`', '')),
      isPlain ? [h('p', { class: 'soft' }, `${media}: ${typeOf(schema)}`), fields(schema)].flat() : null);
  });
  const parameters = of.parameters.map((parameter) => h('tr', {}, h('td', {}, h('code', {}, parameter.name), parameter.required ? ' *' : ''),
    h('td', {}, parameter.in), h('td', { class: 'wide' }, parameter.description ?? parameter.schema.description ?? '')));
  const body = of.requestBody?.content['application/json'].schema;
  return h('details', { class: 'route', id: of.operationId },
    h('summary', {}, h('code', { class: 'method' }, method.toUpperCase()), h('code', {}, path), ' ', of.summary),
    h('p', { class: 'soft' }, of.description.replaceAll('`', '')),
    parameters.length ? h('div', { class: 'scroll' }, h('table', {}, parameters)) : null,
    body ? [h('h3', {}, 'Body'), ...fields(body)] : null,
    answer);
}

const main = document.getElementById('reference');
main.append(h('p', {}, api.info.description.replaceAll('`', '')));
for (const tag of api.tags) {
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).filter(([, of]) => of.tags.includes(tag.name)).map(([method, of]) => operation(path, method, of)));
  main.append(h('section', { class: 'card' }, h('h2', {}, tag.name), h('p', { class: 'soft' }, tag.description), ...operations));
}
if (location.hash) document.getElementById(location.hash.slice(1))?.setAttribute('open', '');
