// The locks screen: the holder of each lock and its wait queue.
import { api, at, h, number, path, relative, spoken, t } from '/page/common.js';
import { openDetail, verb } from '/page/dialogs.js';
import { arrange, part, table, tellFacts, timed } from '/page/lists.js';
import { latest, serverNow } from '/page/snapshot.js';

let lockTable = null;

const who = ({ label, host, pid }) => label || `${host}:${pid}`;

export function showLocks(locks, now) {
  const section = at('locks');
  if (!locks.length) {
    lockTable = null;
    arrange(section, [], 'noLocks');
    return;
  }
  lockTable ??= table([['name'], ['holder'], ['fence', true], ['leaseLeft', true], ['waiting', true], ['']]);
  arrange(section, [lockTable.element]);
  lockTable.fill(locks, (lock) => lock.name,
    (lock) => [lock.name, lock.holder ? who(lock.holder) : '–', lock.holder?.fence ?? '–',
      lock.holder ? spoken(lock.holder.lease_until_us - now) : '–', number(lock.waiters.length)],
    (lock) => [
      h('button', { onclick: () => showLock(lock.name) }, t('show')),
      verb('breakLock', lock.name, () => api('POST', `/v1/locks/${path(lock.name)}/force-release`, { body: {} }), { danger: true }),
    ]);
}

/** Clears the screen; the next snapshot rebuilds it. */
export function remakeLocks() {
  lockTable = null;
  at('locks').replaceChildren();
}

/** Shows the holder of a lock and its wait queue. */
function showLock(name) {
  const facts = h('dl');
  const line = table([['position', true], ['waiter'], ['since', true], ['givesUp', true], ['']]);
  const section = part('line', line.element);
  openDetail(name, h('div', {}, facts, section), () => {
    const { holder, waiters } = latest.locks.find((lock) => lock.name === name) ?? { waiters: [] };
    const now = serverNow();
    tellFacts(facts, [
      ['holder', holder ? who(holder) : t('nobody')],
      ['process', holder && `${holder.host}:${holder.pid}`],
      ['fence', holder?.fence],
      ['since', timed(holder?.since_us, now)],
      ['leaseLeft', holder && spoken(holder.lease_until_us - now)],
      ['waiting', number(waiters.length)],
    ]);
    section.hidden = !waiters.length;
    line.fill(waiters, ({ position, since_us: since }) => `${position} ${since}`,
      (waiter) => [waiter.position, who(waiter), relative(waiter.since_us, now), relative(waiter.wait_until_us, now)], () => []);
  });
}
