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

export { claim, ids, nameless, sale, task };
