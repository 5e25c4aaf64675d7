/** The transports under test, by the URLs in the environment. */

const { env } = process

const LIBRARIES = ['ioredis', 'redis']
const STORES = { redis: 'REDIS', cluster: 'CLUSTER', sentinel: 'SENTINEL', tls: 'TLS' }
const SERVERS = { http: 'HTTP', 'http-redis': 'HTTP_REDIS' }

const url = (name) => env[`RUSHGATE_TEST_${name}`]

/** All targets: name, URL, kind of the store, and the client library. */
export function targets() {
  const stores = Object.entries(STORES).filter(([, name]) => url(name))
  const servers = Object.entries(SERVERS).filter(([, name]) => url(name))
  return [
    ...stores.flatMap(([kind, name]) => LIBRARIES.map((library) => ({ name: `${kind}+${library}`, kind, url: url(name), library }))),
    ...servers.map(([kind, name]) => ({ name: kind, kind, url: url(name) })),
  ]
}
