/** Clients of the target under test. */

import { randomUUID } from 'node:crypto'
import { after } from 'node:test'

import { Rushgate } from 'rushgate'

import { options, target } from './options.mjs'

export { isHttp, isSingle, target, options } from './options.mjs'
export { until } from './until.mjs'

const clients = []

/** A client, closed after the tests of the file. */
export async function connect(to = target.url, more = {}) {
  const client = await Rushgate.connect(to, { ...options, ...more })
  clients.push(client)
  return client
}

after(() => Promise.all(clients.map((client) => client.close())))

/** A name that no other test uses. */
export function unique(name) {
  return `${name}-${randomUUID()}`
}

/** Resolves with the reason when a signal is aborted. */
export function aborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason)
    else signal.addEventListener('abort', () => resolve(signal.reason))
  })
}

/** A promise and what resolves it. */
export function gate() {
  let open
  const promise = new Promise((resolve) => { open = resolve })
  return { promise, open }
}
