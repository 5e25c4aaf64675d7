// Calls every operation of the description through the types that openapi-typescript makes of it, on a server without data.
// Fails if an answer has a status that its operation does not document, or if an operation was not called. Usage:
// `node every.js URL TOKEN`.
import createClient, { type Middleware } from 'openapi-fetch';
import type { paths } from './api';

declare const process: { argv: string[]; exit(code: number): never };

const [, , url = '', token = ''] = process.argv;
const description: { paths: Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>> } =
  await (await fetch(`${url}/openapi.json`)).json();

const missing = new Set(Object.values(description.paths).flatMap((verbs) => Object.values(verbs)).map((one) => one.operationId));
const faults: string[] = [];
let succeeded = 0;

/** Strikes the operation off the list, and compares the status with those that it documents. */
const check: Middleware = {
  async onResponse({ request, response, schemaPath }) {
    const operation = description.paths[schemaPath]?.[request.method.toLowerCase()];
    if (!operation) faults.push(`${request.method} ${schemaPath} is not described`);
    else if (!(response.status in operation.responses)) faults.push(`${operation.operationId} answers ${response.status}: ${await response.clone().text()}`);
    else if (response.ok) succeeded += missing.has(operation.operationId) ? 1 : 0;
    else console.log(`${operation.operationId}: ${response.status} ${(await response.clone().json()).code}`);
    if (operation) missing.delete(operation.operationId);
  },
};
const api = createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${token}` } });
api.use(check);

/** What an operation answered, which must be a success. */
function had<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(`no answer: ${JSON.stringify(error)}`);
  return data;
}

/** Opens a stream, and closes it: `parseAs` leaves it unread. */
async function closed({ response }: { response: Response }) {
  await response.body?.cancel();
}

const key = (text: string) => ({ 'Idempotency-Key': text });

async function server() {
  await api.GET('/healthz');
  await api.GET('/readyz');
  await api.GET('/metrics', { parseAs: 'text' });
  await api.GET('/openapi.json');
  await api.GET('/v1/audit-log');
  await closed(await api.GET('/v1/events', { parseAs: 'stream' }));
  await api.GET('/v1/store');
  await closed(await api.POST('/v1/store/listen', { body: { Ready: 'mail' }, parseAs: 'stream' }));
  await api.POST('/v1/store/{verb}', { params: { path: { verb: 'stats' } }, body: { queue: 'mail' } });
  await api.GET('/v1/tokens');
  const { id } = had(await api.POST('/v1/tokens', { body: { label: 'a buyer', role: 'buyer', buyer: 'ann' } }));
  await api.DELETE('/v1/tokens/{token}', { params: { path: { token: id } } });
  await api.POST('/v1/tokens/keys', { body: { label: 'a shop' } });
}

async function locks() {
  const path = { lock: 'order:42' };
  const acquire = () => api.POST('/v1/locks/{lock}/acquire', { params: { path }, body: { lease_ms: 60_000 } });
  const { token: held } = had(await acquire());
  await api.POST('/v1/locks/{lock}/extend', { params: { path }, body: { token: held, lease_ms: 60_000 } });
  await api.GET('/v1/locks');
  await api.GET('/v1/locks/{lock}', { params: { path } });
  await api.POST('/v1/locks/{lock}/release', { params: { path }, body: { token: held } });
  const { token: next } = had(await acquire());
  await api.POST('/v1/locks/{lock}/release-with', { params: { path }, body: { token: next, queue: 'mail', task: { id: 'after-the-lock' } } });
  await acquire();
  await api.POST('/v1/locks/{lock}/force-release', { params: { path } });
}

async function queues() {
  const path = { queue: 'mail' };
  const of = (task: string) => ({ params: { path: { ...path, task } } });
  const claim = async () => had(await api.POST('/v1/queues/{queue}/claim', { params: { path }, body: { n: 1 } })).tasks[0]!;
  await api.PUT('/v1/queues/{queue}/limits', { params: { path }, body: { events: 100, retention: { age_ms: 60_000, count: 10 } } });
  await api.POST('/v1/queues/{queue}/pop', { params: { path }, body: { n: 10 } });
  await api.POST('/v1/queues/{queue}/tasks', { params: { path }, body: { id: 'a', payload: { to: 'ann' }, unique_for_ms: 60_000 } });
  await api.POST('/v1/queues/{queue}/batch', { params: { path }, body: { tasks: [{ id: 'b' }, { id: 'c' }, { id: 'after-a', after: ['a'] }, { id: 'whole', held_open: true }] } });
  await api.GET('/v1/queues');
  await api.GET('/v1/queues/{queue}', { params: { path } });
  await api.GET('/v1/queues/{queue}/tasks', { params: { path, query: { state: 'ready', limit: 2 } } });
  await api.GET('/v1/queues/{queue}/top', { params: { path, query: { n: 1 } } });
  await api.GET('/v1/queues/{queue}/tasks/{task}', of('a'));
  await api.GET('/v1/queues/{queue}/tasks/{task}/why', of('after-a'));
  await api.GET('/v1/queues/{queue}/tasks/{task}/waits', of('after-a'));
  await api.GET('/v1/queues/{queue}/tasks/{task}/dependents', of('a'));
  await api.POST('/v1/queues/{queue}/tasks/{task}/close', of('whole'));
  await api.POST('/v1/queues/{queue}/tasks/{task}/reschedule', { ...of('c'), body: { delay_ms: 60_000 } });
  await api.DELETE('/v1/queues/{queue}/tasks/{task}', of('whole'));
  const first = await claim();
  await api.POST('/v1/queues/{queue}/extend', { params: { path }, body: { ticket: first.ticket, progress: { percent: 50, note: 'half' } } });
  await api.POST('/v1/queues/{queue}/complete', { params: { path }, body: { ticket: first.ticket, result: { sent: true } } });
  await api.GET('/v1/queues/{queue}/tasks/{task}/waited', of('after-a'));
  await api.DELETE('/v1/queues/{queue}/tasks/{task}/unique', of('a'));
  await api.POST('/v1/queues/{queue}/release', { params: { path }, body: { ticket: (await claim()).ticket } });
  await api.POST('/v1/queues/{queue}/retry', { params: { path }, body: { ticket: (await claim()).ticket, error: 'no luck', give_up: true } });
  await api.GET('/v1/queues/{queue}/dead', { params: { path } });
  await api.POST('/v1/queues/{queue}/dead/requeue', { params: { path }, body: { all: true } });
  await api.POST('/v1/queues/{queue}/dead/delete', { params: { path }, body: { all: true } });
  const { tasks: [next] } = had(await api.GET('/v1/queues/{queue}/top', { params: { path, query: { n: 1 } } }));
  await api.POST('/v1/queues/{queue}/dequeue', { params: { path }, body: { ticket: next!.ticket } });
  await api.POST('/v1/queues/{queue}/pause', { params: { path } });
  await api.POST('/v1/queues/{queue}/resume', { params: { path } });
  await api.GET('/v1/queues/{queue}/history', { params: { path } });
  await closed(await api.GET('/v1/queues/{queue}/events', { params: { path }, parseAs: 'stream' }));
}

async function workersAndSchedules() {
  const path = { queue: 'mail' };
  const worker = { params: { path: { ...path, worker: 'w1' } } };
  await api.PUT('/v1/queues/{queue}/workers/{worker}', { ...worker, body: { name: 'mailer', version: 'shop 1.2', concurrency: 4 } });
  await api.GET('/v1/queues/{queue}/workers', { params: { path } });
  await api.PUT('/v1/queues/{queue}/workers/{worker}/mode', { ...worker, body: { mode: 'quiet' } });
  await api.DELETE('/v1/queues/{queue}/workers/{worker}', worker);
  const schedule = { params: { path: { ...path, schedule: 'nightly' } } };
  await api.PUT('/v1/queues/{queue}/schedules/{schedule}', { ...schedule, body: { cron: '30 3 * * *', payload: { report: 1 } } });
  await api.GET('/v1/queues/{queue}/schedules', { params: { path } });
  await api.GET('/v1/queues/{queue}/schedules/{schedule}', schedule);
  await api.POST('/v1/queues/{queue}/schedules/{schedule}/run', schedule);
  await api.POST('/v1/queues/{queue}/schedules/{schedule}/pause', schedule);
  await api.POST('/v1/queues/{queue}/schedules/{schedule}/resume', schedule);
  await api.DELETE('/v1/queues/{queue}/schedules/{schedule}', schedule);
}

async function sales() {
  const path = { sale: 'phones' };
  await api.POST('/v1/sales', { body: { id: 'phones', skus: [{ sku: 'phone', units: 10, per_buyer: 5 }], metadata: { title: 'Phones' } } });
  await api.POST('/v1/sales/{sale}/open', { params: { path } });
  await api.GET('/v1/sales');
  await api.GET('/v1/sales/{sale}', { params: { path } });
  await api.GET('/v1/sales/{sale}/metadata', { params: { path } });
  const reserve = async (click: string) => had(await api.POST('/v1/sales/{sale}/reservations', {
    params: { path, header: key(click) }, body: { buyer: 'ann', lines: [{ sku: 'phone', quantity: 1 }] },
  }));
  const [paid, dropped] = [await reserve('click-1'), await reserve('click-2')];
  const of = (reservation: string) => ({ params: { path: { ...path, reservation } } });
  await api.GET('/v1/sales/{sale}/reservations/{reservation}', of(paid.id));
  await api.POST('/v1/sales/{sale}/reservations/{reservation}/confirm', of(paid.id));
  await api.POST('/v1/sales/{sale}/reservations/{reservation}/cancel', of(dropped.id));
  await api.POST('/v1/sales/{sale}/restore', { params: { path }, body: { receipt: paid.receipt ?? '' } });
  await api.POST('/v1/sales/{sale}/stock', { params: { path, header: key('more') }, body: { sku: 'phone', add: 5 } });
  await api.GET('/v1/sales/{sale}/orders/failed', { params: { path } });
  await api.POST('/v1/sales/{sale}/orders/retry', { params: { path } });
  await api.GET('/v1/sales/{sale}/history', { params: { path } });
  await api.GET('/v1/sales/{sale}/audit', { params: { path } });
  await closed(await api.GET('/v1/sales/{sale}/events', { params: { path }, parseAs: 'stream' }));
  await rooms(path);
  await api.POST('/v1/sales/{sale}/halt', { params: { path } });
  await api.POST('/v1/sales/{sale}/rebuild', { params: { path }, body: {} });
  await api.POST('/v1/sales/{sale}/end', { params: { path } });
}

async function rooms(path: { sale: string }) {
  await api.PUT('/v1/sales/{sale}/room', { params: { path }, body: { rate: { n: 10, per_ms: 1_000 }, order: 'draw' } });
  await api.POST('/v1/sales/{sale}/tickets', { params: { path }, body: { buyer: 'ann' } });
  await api.GET('/v1/sales/{sale}/room', { params: { path } });
  await api.POST('/v1/sales/{sale}/room/close-entry', { params: { path } });
  await api.POST('/v1/sales/{sale}/room/draw', { params: { path }, body: { beacon: 'the closing prices of today' } });
  await api.POST('/v1/sales/{sale}/passes', { params: { path }, body: { buyer: 'ann' } });
  await api.DELETE('/v1/sales/{sale}/room', { params: { path } });
}

await server();
await locks();
await queues();
await workersAndSchedules();
await sales();

const all = Object.values(description.paths).flatMap((verbs) => Object.values(verbs)).length;
for (const fault of faults) console.error(fault);
if (missing.size > 0) console.error(`not called: ${[...missing].join(', ')}`);
console.log(`TypeScript: ${all - missing.size} of ${all} operations called, ${succeeded} with success at once`);
process.exit(faults.length + missing.size ? 1 : 0);
