// A payment provider for demos. It confirms the reservation, as the payment service of a real shop does after the buyer
// has paid. It can also be slow, fail, and answer twice.
import { signal } from '/page/vendor/preact.js';
import { api, path, pause, recall, store } from '/page/common.js';
import { PaymentRefused } from '/page/shop.js';

export const MODES = ['works', 'slow', 'refuses', 'twice', 'lost'];

/** What the provider does next. */
export const mode = signal(MODES.includes(recall('demo-payment')) ? recall('demo-payment') : 'works');
mode.subscribe((now) => store('demo-payment', now));

const SLOW_MS = 8000;

export async function demoPayment({ sale, reservation }) {
  const confirm = () => api('POST', `/v1/sales/${path(sale)}/reservations/${reservation}/confirm`, { body: {}, more: { prefer: 'wait=10' } });
  const now = mode.value;
  if (now === 'refuses') throw new PaymentRefused('the demo refuses payments');
  if (now === 'slow') await pause(SLOW_MS);
  if (now === 'twice') await Promise.all([confirm(), confirm()]);
  else await confirm();
  if (now === 'lost') throw new TypeError('the answer of the payment provider was lost');
}
