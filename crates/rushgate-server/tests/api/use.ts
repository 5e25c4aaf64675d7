// Uses the types that openapi-typescript makes of the description.
import type { components, operations, paths } from './api';

type Schemas = components['schemas'];

const task: Schemas['TaskSpec'] = { id: 'order-42', payload: { to: 'ann@example.com' }, delay_ms: 5000 };

type Claim = paths['/v1/queues/{queue}/claim']['post'];
const claim: NonNullable<Claim['requestBody']>['content']['application/json'] = { n: 10, worker: 'mailer-1' };

/** The IDs of the claimed tasks. */
function ids({ tasks }: Claim['responses'][200]['content']['application/json']): string[] {
  return tasks.map(({ id }) => id);
}

const sale: operations['sale']['parameters']['path'] = { sale: 'phones' };

// @ts-expect-error A task has an ID.
const nameless: Schemas['TaskSpec'] = { payload: null };

const more: Schemas['StockBody'] = { sku: 'phone', add: 5 };

// @ts-expect-error A number of units is a number.
const spelled: Schemas['StockBody'] = { sku: 'phone', add: 'five' };

const missed: Schemas['Missed'] = 'once';

// @ts-expect-error Not a word of the enumeration.
const unknown: Schemas['Missed'] = 'twice';

/** Every refusal is a problem. */
function codeOf(problem: Claim['responses'][401 | 422 | 503]['content']['application/problem+json']): string {
  return problem.code;
}

type Stream = paths['/v1/queues/{queue}/events']['get']['responses'][200]['content']['text/event-stream'];
const stream: Stream = 'event: task\ndata: {}\n\n';

/** The fields that all variants of an event have, and those of one variant. */
function workerOf(event: Schemas['TaskEvent']): [number, string | undefined] {
  return [event.seq, event.event === 'claimed' ? event.worker : undefined];
}

export { claim, codeOf, ids, missed, more, nameless, sale, spelled, stream, task, unknown, workerOf };
